"""Connections between simulated readers and shards: nothing is lost, doubled or overtaken while one lasts.

Segments are numbered, put in order and sent again; what does not come in time breaks the connection, on both sides. A
real driver has TCP for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from quorumlog.durations import MILLISECOND
from quorumlog.read_path.messages import Message
from quorumlog.simulation.host import Host

_PING = 100 * MILLISECOND
_SILENCE = 450 * MILLISECOND


class Segment(NamedTuple):
    """A message, numbered; without one it says how many there were so far, and how many came from the other side."""

    connection: int
    number: int
    message: Message | None
    received: int


class Opening(NamedTuple):
    """Asks for a connection, or grants it."""

    connection: int
    granted: bool


class Reset(NamedTuple):
    """There is no such connection any more."""

    connection: int


class _Connection:
    def __init__(self, number: int, now: int) -> None:
        self.number, self.heard, self.filter_version = number, now, 0
        self.open = False
        self.sent = self.received = 0
        self.early: dict[int, Message] = {}
        self.unacknowledged: dict[int, Message] = {}
        self.behind_since: int | None = None


class Connections:
    """All connections of one process: ``deliver`` is called with what comes, ``changed`` when one opens or ends."""

    def __init__(
        self,
        host: Host,
        transmit: Callable[[int, Any], None],
        deliver: Callable[[int, Message], None],
        changed: Callable[[int, bool], None],
    ) -> None:
        self._host, self._transmit, self._deliver, self._changed = host, transmit, deliver, changed
        self._by_peer: dict[int, _Connection] = {}
        host.after(_PING, self._watch)

    def filter_version(self, peer: int) -> int:
        """What `set_filter_version` said last of this connection; 0 if nothing."""
        held = self._by_peer.get(peer)
        return 0 if held is None else held.filter_version

    def set_filter_version(self, peer: int, version: int) -> None:
        """What comes from now on belongs to the START of this filter version."""
        self._by_peer[peer].filter_version = version

    def connect(self, peer: int, number: int) -> None:
        """Open a connection with a number that is larger than those of all before it."""
        self._by_peer[peer] = _Connection(number, self._host.simulation.now)
        self._transmit(peer, Opening(number, granted=False))

    def send(self, peer: int, message: Message) -> None:
        """Send over the open connection; without one it is lost."""
        held = self._by_peer.get(peer)
        if held is not None and held.open:
            self._transmit(peer, Segment(held.number, held.sent, message, held.received))
            held.unacknowledged[held.sent] = message
            held.sent += 1

    def receive(self, peer: int, item: Segment | Opening | Reset) -> None:
        """Take what ``peer`` sent: open, reset or end a connection, or deliver messages in their order."""
        held = self._by_peer.get(peer)
        if isinstance(item, Opening) and not item.granted:
            if held is None or item.connection > held.number:
                self._end(peer)
                held = self._by_peer[peer] = _Connection(item.connection, self._host.simulation.now)
                held.open = True
                self._transmit(peer, Opening(item.connection, granted=True))
                self._changed(peer, True)
        elif held is None or held.number != item.connection:
            if isinstance(item, Segment):
                self._transmit(peer, Reset(item.connection))
        elif isinstance(item, Opening):
            if not held.open:
                held.open, held.heard = True, self._host.simulation.now
                self._changed(peer, True)
        elif isinstance(item, Reset):
            self._end(peer)
        elif held.open:
            self._take(peer, held, item)

    def _take(self, peer: int, held: _Connection, segment: Segment) -> None:
        held.heard = self._host.simulation.now
        for number in [number for number in held.unacknowledged if number < segment.received]:
            del held.unacknowledged[number]
        if segment.message is None and held.unacknowledged:
            for number, message in held.unacknowledged.items():
                self._transmit(peer, Segment(held.number, number, message, held.received))
        if segment.message is not None and segment.number >= held.received:
            held.early[segment.number] = segment.message
        while held.received in held.early and self._by_peer.get(peer) is held:
            message = held.early.pop(held.received)
            held.received += 1
            self._deliver(peer, message)
        missing = bool(held.early) or (segment.message is None and segment.number > held.received)
        if not missing:
            held.behind_since = None
        elif held.behind_since is None:
            held.behind_since = held.heard
            self._transmit(peer, self._count(held))

    @staticmethod
    def _count(held: _Connection) -> Segment:
        return Segment(held.number, held.sent, None, held.received)

    def _watch(self) -> None:
        now = self._host.simulation.now
        for peer, held in list(self._by_peer.items()):
            if not held.open:
                continue
            late = held.behind_since is not None and now - held.behind_since > _SILENCE
            if late or now - held.heard > _SILENCE:
                self._transmit(peer, Reset(held.number))
                self._end(peer)
            else:
                self._transmit(peer, self._count(held))
        self._host.after(_PING, self._watch)

    def _end(self, peer: int) -> None:
        held = self._by_peer.pop(peer, None)
        if held is not None and held.open:
            self._changed(peer, False)
