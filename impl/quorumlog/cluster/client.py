"""A client of one node: calls go out in order; results come back in any order, each as a future.

    client = await NodeClient.connect(("127.0.0.1", 7001), "quorumlog", HybridClock())
    result = await client.append(payload, acks=-1)

Calls made in one turn of the event loop share a frame. When the connection is lost, every open future ends with
`ConnectionError`, as does a call on one that is lost already: whether those calls were carried out is unknown.
Time-outs are the caller's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from loghistory import HybridClock
from quorumlog.node.configuration import cluster_key
from quorumlog.node.connection import Connection
from quorumlog.node.framing import FrameError, Hello, Role
from quorumlog.node.wire import (
    CALLS,
    RESULTS,
    AppendCall,
    AppendResult,
    ChangeCall,
    Channel,
    CompactCall,
    DoneResult,
    MembersCall,
    MembersResult,
    ReadCall,
    ReadIndexCall,
    ReadResult,
    Refusal,
    StatusCall,
    StatusResult,
    TailCall,
    TailResult,
    TransferCall,
)
from quorumlog.storage.batch import NO_KEY

_GROUP_BYTES = 1 << 20


class NodeClient(Connection):
    """A connection to a node; made by `connect`. ``asked`` and ``answered``: what is sent, and what comes back."""

    asked: ClassVar[Channel[Any]] = CALLS
    answered: ClassVar[Channel[Any]] = RESULTS

    def __init__(self, hello: Hello, clock: HybridClock) -> None:
        super().__init__(hello)
        self._clock = clock
        self._ready: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._next = 0
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._outgoing: list[Any] = []
        self._outgoing_bytes = 0

    @classmethod
    async def connect(cls, address: tuple[str, int], cluster: str, clock: HybridClock, group: int = 0) -> Self:
        """Connect and say hello, to ask one of the groups. Raises OSError, or `ConnectionError` if no node of the
        cluster answers there."""
        hello = Hello(Role.CLIENT, -1 - group, cluster_key(cluster))
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(lambda: cls(hello, clock), *address)
        try:
            await client._ready
        except BaseException:
            client.close()
            raise
        return client

    def append(
        self,
        payload: bytes,
        *,
        records: int = 1,
        acks: int = -1,
        expected_term: int = -1,
        force_flush: bool = False,
        key: int = NO_KEY,
    ) -> asyncio.Future[AppendResult | Refusal]:
        """Append a batch of ``records`` offsets. The payload begins with its value, 8 bytes big-endian."""
        number, future = self._begin()
        self._send_soon(AppendCall(number, payload, records, acks, expected_term, force_flush, key), len(payload))
        return future

    def read(
        self, offset: int, *, committed: bool = False, max_bytes: int = 1 << 20
    ) -> asyncio.Future[ReadResult | Refusal]:
        """Read from ``offset`` on what this node has as visible, or as committed; see `wire.unpack_batches`."""
        number, future = self._begin()
        self._send_soon(ReadCall(number, offset, max_bytes, committed), 0)
        return future

    def tail(self) -> asyncio.Future[TailResult | Refusal]:
        """Ask for the linearizable end of the log."""
        number, future = self._begin()
        self._send_soon(TailCall(number), 0)
        return future

    def read_index(self) -> asyncio.Future[TailResult | Refusal]:
        """Ask up to where a read must reach to be linearizable.

        On success a read of what is committed, at this node and over this connection, reaches so far or is linearizable
        as far as it reaches.
        """
        number, future = self._begin()
        self._send_soon(ReadIndexCall(number), 0)
        return future

    def status(self) -> asyncio.Future[StatusResult | Refusal]:
        """Ask for the node's state: its role, its term and its offsets (`wire.StatusResult`)."""
        number, future = self._begin()
        self._send_soon(StatusCall(number), 0)
        return future

    def transfer(self, target: int) -> asyncio.Future[DoneResult | Refusal]:
        """Ask the node, which leads, to hand its leadership on to another."""
        number, future = self._begin()
        self._send_soon(TransferCall(number, target), 0)
        return future

    def change(
        self,
        revision: int,
        *,
        add: Sequence[int] = (),
        remove: Sequence[int] = (),
        demote: Sequence[int] = (),
        cancel: bool = False,
    ) -> asyncio.Future[DoneResult | Refusal]:
        """Ask the node, which leads, for a change of the members (`wire.ChangeCall`); answered when it is done."""
        number, future = self._begin()
        self._send_soon(ChangeCall(number, revision, tuple(add), tuple(remove), tuple(demote), cancel), 0)
        return future

    def compact(self) -> asyncio.Future[DoneResult | Refusal]:
        """Ask the node to compact its log; answered when that is done (`wire.CompactCall`)."""
        number, future = self._begin()
        self._send_soon(CompactCall(number), 0)
        return future

    def members(self) -> asyncio.Future[MembersResult | Refusal]:
        """Ask for the configuration in force on this node."""
        number, future = self._begin()
        self._send_soon(MembersCall(number), 0)
        return future

    def close(self) -> None:
        """Close the connection; what is open ends with `ConnectionError`."""
        self.finish()

    def _begin(self) -> tuple[int, asyncio.Future[Any]]:
        self._next += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.open:
            self._open[self._next] = future
        else:
            _fail(future, self._lost())
        return self._next, future

    def _lost(self) -> ConnectionError:
        return ConnectionError(f"connection to {self.peer_name} lost: {self.reason or 'closed by the node'}")

    def _send_soon(self, call: object, size: int) -> None:
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._send_calls)
        elif self._outgoing_bytes + size > _GROUP_BYTES:
            self._send_calls()
            asyncio.get_running_loop().call_soon(self._send_calls)
        self._outgoing.append(call)
        self._outgoing_bytes += size

    def _send_calls(self) -> None:
        calls, self._outgoing = self._outgoing, []
        self._outgoing_bytes = 0
        if calls and self.open and not self.send(self.asked.encode(self._clock.tick(), calls)):
            self.refuse("too much is waiting to be sent")

    # -- Connection --------------------------------------------------------------------------------------------------

    def hello_received(self, hello: Hello) -> None:
        """Accept the node's hello. Raises `FrameError` if a client answers, or a node of another cluster."""
        if hello.role is not Role.NODE or hello.cluster != self._mine.cluster:
            raise FrameError("the process at this address is not a node of this cluster")
        if not self._ready.done():
            self._ready.set_result(hello)

    def frames_received(self, payloads: list[bytes]) -> None:
        """Resolve the future of each result in the frames, after merging the node's clock. Raises `FrameError`."""
        for payload in payloads:
            stamp, results = self.answered.decode(payload)
            try:
                self._clock.merge(stamp)
            except ValueError as error:
                raise FrameError(str(error)) from None
            for result in results:
                future = self._open.pop(result.id, None)
                if future is not None and not future.done():
                    future.set_result(result)

    def closed(self) -> None:
        """End every open future, and a pending `connect`, with `ConnectionError`."""
        error = self._lost()
        _fail(self._ready, error)
        waiting, self._open = self._open, {}
        for future in waiting.values():
            _fail(future, error)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # nobody need look at it
