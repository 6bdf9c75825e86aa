"""Connections between readers and shards: nothing is lost, doubled or overtaken while one lasts.

Either side sends a sign of life every ``PING_SECONDS`` and gives a connection up on which it has heard nothing for
``SILENCE_SECONDS``. What cannot be sent because the link is cut waits, as in a socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

from loghistory import HybridClock
from quorumlog.node.connection import QUEUE_BYTES, Connection
from quorumlog.node.framing import FrameError, Hello, Role
from quorumlog.read_path.process.calls import MESSAGES

PING_SECONDS = 0.2
SILENCE_SECONDS = 1.2
_FRAME_BYTES = 1 << 20
_MOST_WAITING = 4096


class Line:
    """One end of such a connection; ``muted`` says to whom nothing is sent now."""

    def __init__(
        self, connection: Connection, peer: int, clock: HybridClock, muted: Callable[[], Collection[int]]
    ) -> None:
        self.peer, self.filter_version = peer, 0
        self._connection, self._clock, self._muted = connection, clock, muted
        self._waiting: list[Any] = []
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()

    def heard(self) -> None:
        """Something came from the other side."""
        self._heard = self._loop.time()

    def hand_over(self, messages: Sequence[Any]) -> None:
        """Send these behind what waits, or let them wait while the link is cut.

        Closes the connection if too much waits.
        """
        self._waiting += messages
        if self.peer in self._muted():
            if len(self._waiting) > _MOST_WAITING:
                self._connection.refuse(f"more than {_MOST_WAITING} messages wait")
            return
        groups = list(MESSAGES.groups(self._waiting, _FRAME_BYTES)) or [[]]
        self._waiting.clear()
        for group in groups:
            if self._connection.open and not self._connection.send(MESSAGES.encode(self._clock.tick(), group)):
                self._connection.refuse(f"more than {QUEUE_BYTES} bytes wait")

    def watch(self) -> None:
        """Give a sign of life; close the connection if the other side gives none."""
        if self._loop.time() - self._heard > SILENCE_SECONDS:
            self.close(f"nothing was heard for {SILENCE_SECONDS:g} s")
        else:
            self.hand_over(())

    def close(self, reason: str) -> None:
        """Close the connection at once; what waits is lost."""
        self._connection.refuse(reason)


class Calling(Connection):
    """A reader's connection to a shard. ``took`` is called with what comes, ``changed`` when it opens or is gone."""

    def __init__(
        self,
        hello: Hello,
        shard: int,
        took: Callable[[Calling, bytes], None],
        changed: Callable[[Calling, bool], None],
    ) -> None:
        super().__init__(hello)
        self.shard, self._took, self._changed = shard, took, changed

    def hello_received(self, hello: Hello) -> None:
        """Refuse any other process that listens there now. Raises `FrameError`."""
        if hello.role is not Role.NODE or hello.node != self.shard or hello.cluster != self._mine.cluster:
            raise FrameError(
                f"process {hello.node} answers there; it is of another cluster or is not shard {self.shard}"
            )
        self._changed(self, True)

    def frames_received(self, payloads: list[bytes]) -> None:
        """Pass them on. Raises `FrameError` for what is no message."""
        for payload in payloads:
            self._took(self, payload)

    def closed(self) -> None:
        """The connection is gone: call ``changed``."""
        self._changed(self, False)
