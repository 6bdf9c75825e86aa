"""The port of a process of the read path: other processes' messages, readers' connections, clients' calls.

The limits are those of any node's port (`quorumlog.node.server`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from loghistory import HybridClock
from quorumlog.node.connection import Connection
from quorumlog.node.driver import Driver
from quorumlog.node.framing import Hello
from quorumlog.node.recording import History
from quorumlog.node.server import Incoming, Server
from quorumlog.read_path.process.calls import ANSWERS, CALLS, MESSAGES, AnyAnswer, AnyCall

MAX_OPEN_CALLS = 4096
"""Of all clients together; more are not read."""
_FRAME_BYTES = 1 << 20


class Session:
    """One client: its calls go to the driver, and their answers wait until what led to them is recorded."""

    def __init__(self, connection: Connection, clock: HybridClock) -> None:
        self._connection, self._clock = connection, clock

    def hand_over(self, answers: Sequence[AnyAnswer]) -> None:
        """Send these; a client that does not read them is cut off."""
        for group in ANSWERS.groups(answers, _FRAME_BYTES):
            if self._connection.open and not self._connection.send(ANSWERS.encode(self._clock.tick(), group)):
                self._connection.refuse("the client does not read its answers")


class Served(Protocol):
    """Who is behind the port; ``readers`` are those whose connections carry streams."""

    history: History
    readers: frozenset[int]

    def received(self, sender: int, messages: list[Any]) -> None:
        """Messages of another process; its clock has been merged."""

    def opened(self, reader: int, connection: Connection) -> None:
        """A reader has a connection, in place of any before it."""

    def gone(self, reader: int) -> None:
        """A reader has no connection any more."""

    def asked(self, call: AnyCall, session: Session) -> None:
        """A client asks; the answer goes to ``session``."""


class Port(Server):
    """The server of one process's port; see the module."""

    def __init__(self, served: Served, hello: Hello, peers: frozenset[int], warn: Callable[[str], None]) -> None:
        super().__init__((cast(Driver, served),), hello, MESSAGES, peers, 0, warn)
        self._served = served

    def admit_node(self, connection: Incoming) -> None:
        """A process; that of a reader carries messages both ways. Raises `FrameError` for a stranger."""
        super().admit_node(connection)
        if connection.node in self._served.readers:
            self._served.opened(connection.node, connection)

    def forget(self, connection: Incoming) -> None:
        """Drop a closed connection from all accounts."""
        lasted = self._nodes.get(connection.node) is connection
        super().forget(connection)
        if lasted and connection.node in self._served.readers:
            self._served.gone(connection.node)

    def open_session(self, connection: Incoming) -> Any:  # noqa: ANN401 - another protocol's sessions
        """The session over which a new client is answered."""
        return Session(connection, self._served.history.clock)

    def calls(self, session: Any, payload: bytes) -> None:  # noqa: ANN401
        """Merge the clock of a client's frame and hand its calls on. Raises `FrameError`."""
        stamp, calls = CALLS.decode(payload)
        self._merge(stamp)
        for call in calls:
            self._served.asked(call, session)
