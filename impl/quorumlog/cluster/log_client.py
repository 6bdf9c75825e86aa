"""A log of records that a Raft group keeps, as other processes use it: what it shows is read, records are appended.

It is asked at the node that is believed to lead; what a node shows is committed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from loghistory import HybridClock
from quorumlog.cluster.client import NodeClient
from quorumlog.node.framing import FrameError
from quorumlog.node.wire import SUCCESS, AppendResult, ReadResult, Refusal, StatusResult, TailResult, unpack_batches
from quorumlog.storage.records import payload_of, records_of

_Result = TypeVar("_Result", bound=AppendResult | ReadResult | StatusResult | TailResult)
_SECONDS = 0.5
"""How long a node may take for an answer; then another one is asked."""


Address = Annotated[str, msgspec.Meta(pattern=r"^[^\s:,]{1,255}:[1-9]\d{0,4}$")]


def address(text: str) -> tuple[str, int]:
    """Host and port of an `Address`. Raises ValueError if the port is no number."""
    host, _, port = text.rpartition(":")
    return host, int(port)


class LogPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Raft group: its name, which its nodes insist on, and their addresses by number."""

    cluster: str
    nodes: dict[int, Address]


class UnreachableError(Exception):
    """No answer, or a refusal: whether an append was done is unknown."""


class Log:
    """One log; the records of a batch have the ``form``, a list as `msgspec` reads it.

    ``number`` tells the batches that one process appends from those of others.
    """

    def __init__(
        self,
        name: str,
        form: Any,  # noqa: ANN401
        place: LogPlace,
        clock: HybridClock,
        number: int = 0,
    ) -> None:
        self.name = name
        self._form, self._place, self._clock = form, place, clock
        self._nodes = sorted(place.nodes)
        self._node = self._nodes[0]
        self._connection: NodeClient | None = None
        self._connected = self._node  # whose connection it is
        self._connecting = asyncio.Lock()
        self._names = itertools.count(number << 32)

    async def read(self, start: int, most: int) -> tuple[int, list[tuple[int, Any]]]:
        """Up to where the log is shown, and the next offsets from ``start`` on with their records: ``most`` bytes, or
        one batch that is larger. Raises `UnreachableError`, and `quorumlog.storage.records.UnreadableError`."""
        answer = await self._ask(lambda node: node.read(start, max_bytes=most))
        try:
            batches = unpack_batches(answer.batches)
        except FrameError as error:
            self._look_elsewhere(-1)
            raise UnreachableError(str(error)) from None
        return answer.end, records_of(batches, self._form, start)

    async def visible(self) -> int:
        """Up to where the log is shown. Raises `UnreachableError`."""
        return (await self._ask(NodeClient.status)).visible

    async def read_index(self) -> int:
        """Up to where a read must reach to have all that was appended before this call. Raises `UnreachableError`."""
        answer = await self._ask(NodeClient.read_index)
        if answer.outcome != SUCCESS:
            raise UnreachableError(answer.outcome)
        return answer.offset

    async def append(self, records: Sequence[Any]) -> int:
        """Append records as one batch with acks=all; the first offset. Raises `UnreachableError`."""
        payload = payload_of(records, next(self._names))
        answer = await self._ask(lambda node: node.append(payload, records=len(records)))
        if answer.outcome != SUCCESS:
            raise UnreachableError(answer.outcome)
        return answer.offset

    def close(self) -> None:
        """Close the connection, if there is one; the next call makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _ask(self, call: Callable[[NodeClient], asyncio.Future[_Result | Refusal]]) -> _Result:
        connection, asked = None, self._node
        try:
            async with asyncio.timeout(_SECONDS):
                connection, asked = await self._connect()
                answer = await call(connection)
        except (OSError, TimeoutError) as error:
            if connection is self._connection:  # else another call has looked elsewhere meanwhile
                self._look_elsewhere(-1)
            raise UnreachableError(str(error)) from None
        if answer.leader != asked and connection is self._connection:
            self._look_elsewhere(answer.leader)
        if isinstance(answer, Refusal):
            raise UnreachableError(answer.reason)
        return answer

    async def _connect(self) -> tuple[NodeClient, int]:
        """The connection, and to whom; calls at the same time share one."""
        async with self._connecting:
            if self._connection is None or not self._connection.open:
                self._connection, self._connected = None, self._node
                place = address(self._place.nodes[self._connected])
                self._connection = await NodeClient.connect(place, self._place.cluster, self._clock)
            return self._connection, self._connected

    def _look_elsewhere(self, leader: int) -> None:
        """Ask another node from now on: the one that leads, if that is known, or the next one."""
        self.close()
        behind = (self._nodes.index(self._node) + 1) % len(self._nodes)
        self._node = leader if leader in self._place.nodes else self._nodes[behind]
