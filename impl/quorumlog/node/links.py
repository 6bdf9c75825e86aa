"""The connections that a node makes to its peers: one each, made again with a bounded back-off when it is lost.

A node sends on the connections it made and receives on those it accepted. Messages that cannot go out now (no
connection, too much waiting, link cut) are dropped: Raft sends what matters again.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from typing import Any, cast

from quorumlog.node.connection import Connection
from quorumlog.node.framing import FrameError, Hello, Role
from quorumlog.node.wire import Channel, Stamp

CONNECT_SECONDS = 2.0
SHORTEST_BACKOFF = 0.02
LONGEST_BACKOFF = 1.0
_FRAME_TARGET = 1 << 20
_UNACKNOWLEDGED_MS = 15_000


class Outgoing(Connection):
    """The connection to one peer; usable once that peer has identified itself."""

    def __init__(self, hello: Hello, node: int) -> None:
        super().__init__(hello)
        self.node = node
        self.ready = False
        self.gone = asyncio.Event()
        self._taken: list[Callable[[], None]] = []

    def when_taken(self, done: Callable[[], None]) -> None:
        """Call ``done`` once the socket has everything that was sent so far, or the connection is gone."""
        if self.waiting:
            self._taken.append(done)
        else:
            done()

    def resume_writing(self) -> None:
        """The socket has taken everything: call what `when_taken` was given."""
        taken, self._taken = self._taken, []
        for done in taken:
            done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello; and ask to be told whenever the socket has taken everything."""
        super().connection_made(transport)
        cast(asyncio.WriteTransport, transport).set_write_buffer_limits(high=0)

    def hello_received(self, hello: Hello) -> None:
        """Refuse any other process that now listens there."""
        if hello.role is not Role.NODE or hello.node != self.node or hello.cluster != self._mine.cluster:
            raise FrameError(f"node {hello.node} answers there; it is of another cluster or is not node {self.node}")
        self.ready = True

    def frames_received(self, payloads: list[bytes]) -> None:
        """Refuse every frame: a called node never sends on this connection."""
        raise FrameError("a node that was called must not send")

    def closed(self) -> None:
        """Mark the connection as gone, so that its `Link` connects again."""
        self.ready = False
        self.gone.set()
        self.resume_writing()


class Link:
    """Keeps a connection to one peer and sends messages to it, as ``channel`` encodes them."""

    def __init__(
        self, hello: Hello, node: int, address: tuple[str, int], channel: Channel[Any], backoff: random.Random
    ) -> None:
        self._hello = hello
        self._channel = channel
        self._node = node
        self._address = address
        self._random = backoff
        self._connection: Outgoing | None = None

    async def run(self, warn: Callable[[str], None]) -> None:
        """Connect, and connect again, until cancelled."""
        wait = SHORTEST_BACKOFF
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    outgoing = await self._connect()
            except (OSError, TimeoutError):
                pass
            else:
                self._connection = outgoing
                try:
                    await outgoing.gone.wait()
                finally:
                    self._connection = None
                    outgoing.finish()
                if outgoing.reason is None:
                    wait = SHORTEST_BACKOFF
                else:
                    warn(f"closed the connection to {outgoing.peer_name}: {outgoing.reason}")
            await asyncio.sleep(wait * (0.5 + self._random.random() / 2))
            wait = min(wait * 2, LONGEST_BACKOFF)

    async def _connect(self) -> Outgoing:
        outgoing = Outgoing(self._hello, self._node)
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: outgoing, *self._address)
        _give_up_on_the_silent(transport.get_extra_info("socket"))
        return outgoing

    def send(self, stamp: Callable[[], Stamp], messages: list[Any], taken: Callable[[], None]) -> int:
        """Send what can be sent now; returns how many messages were dropped.

        ``taken`` is called once the socket has the others, or will never have them.
        """
        connection = self._connection
        if connection is None or not connection.ready:
            taken()
            return len(messages)
        dropped = 0
        for group in self._channel.groups(messages, _FRAME_TARGET):
            if not connection.send(self._channel.encode(stamp(), group)):
                dropped += len(group)
        connection.when_taken(taken)
        return dropped

    def disconnect(self) -> None:
        """Drop what the socket has not taken, and the connection with it; another one is made."""
        if self._connection is not None and self._connection.waiting:
            self._connection.refuse("the other side takes nothing and answers nothing")


def _give_up_on_the_silent(connected: socket.socket) -> None:
    """Let the operating system close a connection whose other end has vanished."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
