"""The port of a node: it accepts nodes and clients, and refuses everybody else with one line in the log.

Everything is bounded: the number of connections, the time without a hello, the size of a frame and the time for one,
what one client may have open, and the bytes of frames that have begun to arrive. When there are too many connections,
those that have not said hello are closed first, then clients', never nodes'.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from quorumlog.node.connection import Connection
from quorumlog.node.driver import Driver
from quorumlog.node.framing import FrameError, Hello, Role
from quorumlog.node.sessions import Session
from quorumlog.node.wire import CALLS, Channel

MAX_CONNECTIONS = 400
MAX_HELD_BYTES = 64 << 20
"""Frames of all clients that have begun to arrive, together."""


class Incoming(Connection):
    """A connection that this node accepted."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.hello)
        self._server = server
        self._session: Session | None = None
        self.known = False
        self.node = -1
        self.group = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, if there is room."""
        super().connection_made(transport)
        self._server.admit(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes, and keep account of those that are kept."""
        super().data_received(data)
        self._server.holds(self, self.held)

    def hello_received(self, hello: Hello) -> None:
        """Admit the other side as a node, or open a session for a client. Raises `FrameError` for another cluster."""
        if hello.cluster != self._server.hello.cluster:
            raise FrameError("it belongs to another cluster")
        self.known = True
        if hello.role is Role.NODE:
            self.node = hello.node
            self._server.admit_node(self)
        else:
            self.group = hello.group
            self._session = self._server.open_session(self)

    def frames_received(self, payloads: list[bytes]) -> None:
        """Pass the payloads on, to the driver or to the client's session."""
        for payload in payloads:
            if self._session is None:
                self._server.messages(self.node, payload)
            else:
                self._server.calls(self._session, payload)

    def closed(self) -> None:
        """Tell the server that the connection is gone."""
        self._server.forget(self)


class Server:
    """Listens on the node's port and passes on what nodes and clients send; ``channel`` decodes what nodes send.

    With several ``drivers``, those of the groups, that are pairs of a group's number and a message.
    """

    def __init__(
        self,
        drivers: Sequence[Driver],
        hello: Hello,
        channel: Channel[Any],
        peers: frozenset[int],
        incarnation: int,
        warn: Callable[[str], None],
    ) -> None:
        self.hello = hello
        self.stopping = False
        self._drivers = drivers
        self._channel = channel
        self._peers = peers
        self._incarnation = incarnation
        self._warn = warn
        self._server: asyncio.Server | None = None
        self._connections: dict[Incoming, None] = {}
        self._nodes: dict[int, Incoming] = {}
        self._held: dict[Incoming, int] = {}
        self._held_bytes = 0

    async def listen(self, address: tuple[str, int], *, shared: bool) -> None:
        """Take the port; nobody is accepted before `serve`. ``shared``: the supervisor holds it for us.

        Raises OSError if the port is taken.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Incoming(self),
            *address,
            family=socket.AF_INET,
            backlog=128,
            reuse_port=shared or None,
            start_serving=False,
        )

    async def serve(self) -> None:
        """Begin to accept connections on the port that `listen` took."""
        if self._server is not None:
            await self._server.start_serving()

    async def close(self) -> None:
        """Accept nothing more and close all connections; what is queued on them is still sent."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.finish()
        await asyncio.sleep(0)

    # -- called by the connections -----------------------------------------------------------------------------------

    def admit(self, connection: Incoming) -> None:
        """Count a new connection; make room for it by closing one without a hello, or else the oldest client's."""
        if len(self._connections) >= MAX_CONNECTIONS:
            strangers = (other for other in self._connections if not other.known)
            clients = (other for other in self._connections if other.node < 0)
            victim = next(strangers, None) or next(clients, connection)
            self._connections.pop(victim, None)
            victim.refuse(f"there are more than {MAX_CONNECTIONS} connections")
        self._connections[connection] = None

    def holds(self, connection: Incoming, count: int) -> None:
        """Note how many bytes a client's connection holds now; if all together hold too many, close a large one.

        That is this one if it keeps more than most; a connection with a few bytes does not pay for the others.
        """
        if connection.node >= 0 or connection.reason is not None:
            return
        self._held_bytes += count - self._held.get(connection, 0)
        self._held[connection] = count
        while self._held_bytes > MAX_HELD_BYTES:
            greedy = count * len(self._held) > self._held_bytes and connection in self._held
            victim = connection if greedy else max(self._held, key=lambda other: self._held[other])
            self._held_bytes -= self._held.pop(victim)
            victim.refuse(f"the frames that are arriving have more than {MAX_HELD_BYTES} bytes together")

    def admit_node(self, connection: Incoming) -> None:
        """A peer: its new connection replaces the one before. Raises `FrameError` for a stranger."""
        if connection.node not in self._peers:
            raise FrameError(f"node {connection.node} is not one of the peers {sorted(self._peers)}")
        before = self._nodes.get(connection.node)
        self._nodes[connection.node] = connection
        if before is not None:
            before.finish()

    def open_session(self, connection: Incoming) -> Session:
        """The session of a client that has just said hello on ``connection``. Raises `FrameError` for a group that is
        not here."""
        return Session(self._driver(connection.group), connection, self._incarnation, lambda: self.stopping)

    def messages(self, node: int, payload: bytes) -> None:
        """Merge the clock in a frame of node ``node`` and hand its messages to the driver. Raises `FrameError`."""
        stamp, messages = self._channel.decode(payload)
        self._merge(stamp)
        if len(self._drivers) == 1:
            self._drivers[0].received(node, messages)
            return
        for group, of_group in groupby(messages, itemgetter(0)):
            self._driver(group).received(node, [message for _, message in of_group])

    def calls(self, session: Session, payload: bytes) -> None:
        """Merge the clock in a frame of a client and hand its calls to its session. Raises `FrameError`."""
        stamp, calls = CALLS.decode(payload)
        self._merge(stamp)
        session.calls(calls)

    def forget(self, connection: Incoming) -> None:
        """Drop a closed connection from all accounts; warn if this node refused it."""
        self._connections.pop(connection, None)
        self._held_bytes -= self._held.pop(connection, 0)
        if self._nodes.get(connection.node) is connection:
            del self._nodes[connection.node]
        if connection.reason is not None:
            self._warn(f"refused {connection.peer_name}: {connection.reason}")

    def _merge(self, stamp: tuple[int, int]) -> None:
        try:
            self._drivers[0].history.clock.merge(stamp)
        except ValueError as error:
            raise FrameError(str(error)) from None

    def _driver(self, group: int) -> Driver:
        if not 0 <= group < len(self._drivers):
            raise FrameError(f"there is no group {group} here")
        return self._drivers[group]
