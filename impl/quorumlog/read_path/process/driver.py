"""One core in an asyncio process: its timers, its messages, the log that all follow, and what it records.

What happened is recorded and written before anything that follows from it leaves the process, so that the file of a
killed process has all that others can know.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from quorumlog.durations import SECOND
from quorumlog.events import CancelTimer, Event, Note, Received, Send, SetTimer, Started, TimerFired
from quorumlog.node.connection import Connection
from quorumlog.node.links import Link
from quorumlog.node.recording import History
from quorumlog.node.supervised import Supervised
from quorumlog.read_path.internal_log import AnyInternal
from quorumlog.read_path.process.calls import AnyAnswer, AnyCall, State
from quorumlog.read_path.process.configuration import ProcessConfiguration
from quorumlog.read_path.process.internal import Internal
from quorumlog.read_path.process.lines import PING_SECONDS, Line
from quorumlog.read_path.process.port import Session
from quorumlog.read_path.recording import Noted


class Outlet(Protocol):
    """Something that can be sent to."""

    def hand_over(self, items: Sequence[Any], /) -> None:
        """Send these in order; what led to them is written already."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A process that is sent what need not arrive; nothing while the link to it is cut."""

    number: int
    link: Link
    history: History
    surroundings: Supervised

    def hand_over(self, messages: Sequence[Any]) -> None:
        """Send these, if that can be."""
        if self.number not in self.surroundings.muted:
            self.link.send(self.history.clock.tick, [*messages], lambda: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a process gives its driver; ``make_core`` makes its core by role, ``failed`` is told why it cannot go on."""

    configuration: ProcessConfiguration
    incarnation: int
    cluster_key: bytes
    history: History
    make_core: Callable[..., Any]
    peers: Mapping[int, Outlet]
    process: Supervised
    failed: Callable[[str], None]


class PathDriver:
    """What shards, sequencers and readers have in common; see the module."""

    def __init__(self, place: Place) -> None:
        self.place, self.history, self.configuration = place, place.history, place.configuration
        self.number = place.configuration.node
        self.readers: frozenset[int] = frozenset()
        self.internal: Internal
        self.core: Any = None
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[Event] = deque()
        self._busy = self._dead = self._begun = False
        self._moment = 0
        self._version = -1  # of the event log, as the core was told
        self._timers: dict[str, asyncio.Handle] = {}
        self._outgoing: dict[Outlet, list[Any]] = {}
        self._due = False
        self._perform: dict[type, Callable[[Any], None]] = {
            Send: lambda effect: self.send(effect.to, effect.message),
            SetTimer: self._set_timer,
            CancelTimer: lambda effect: self._cancel(effect.name),
            Note: self._note,
        }

    # -- what a role adds ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin: what the log that all follow holds is known."""
        self._begun = True
        self.handle(self.internal.held.nodesets_learned())
        self.handle(self.internal.held.statuses())
        self.handle(Started())

    def state(self) -> dict[str, Any]:
        """The columns of the history that say how the process starts."""
        return {"f": self.configuration.role.value}

    def asked(self, call: AnyCall, session: Session) -> None:
        """A client asks how far this process is, or what its role knows."""
        self.answer(session, self.answer_of(call.id))

    def answer_of(self, call: int) -> State:
        """How far this process is; ``call`` is the id of the client's call."""
        return State(call, leaving=tuple(sorted(self.internal.held.event_log.leaving)))

    def opened(self, reader: int, connection: Connection) -> None:
        """A reader has a connection, in place of any before it."""

    def gone(self, reader: int) -> None:
        """A reader has none any more."""

    def doings(self) -> list[Coroutine[Any, Any, None]]:
        """What goes on as long as the process runs."""
        return [self.internal.follow(), self.internal.write()]

    async def close(self) -> None:
        """Handle nothing more: stop all timers and close the connection to the log."""
        self._dead = True
        for timer in self._timers.values():
            timer.cancel()
        self.internal.close()

    # -- the core ------------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Give the core an event and carry out its effects in order; what they cause at once comes behind them."""
        self._inbox.append(event)
        if self._busy or self._dead or self.core is None:
            return
        self._busy = True
        try:
            while self._inbox and not self._dead:
                self._moment = self.history.clock.wall()
                for effect in self.core.handle(time.monotonic_ns(), self._inbox.popleft()):
                    self._perform[type(effect)](effect)
        finally:
            self._busy = False
        self._hand_out_soon()

    def received(self, sender: int, messages: list[Any]) -> None:
        """Give the core the messages of another process, in order."""
        for message in messages:
            self.handle(Received(sender, message))

    def noted(self, noted: Noted) -> None:
        """Record an event made by `quorumlog.read_path.recording`."""
        self.history.event(*noted)

    def _note(self, effect: Note) -> None:
        # A step of the core is one moment, whatever the machine does in the middle of it.
        self.history.event(effect.kind, effect.columns, self._moment)

    # -- what leaves ---------------------------------------------------------------------------------------------------

    def send(self, to: int, message: Any) -> None:  # noqa: ANN401
        """Send a message to a process, if there is a link to it."""
        peer = self.place.peers.get(to)
        if peer is not None:
            self.hand(peer, message)

    def answer(self, session: Session, answer: AnyAnswer) -> None:
        """Answer a client once what led to the answer is written."""
        self.hand(session, answer)

    def hand(self, outlet: Outlet, item: Any) -> None:  # noqa: ANN401
        """Send an item once what led to it is written."""
        self._outgoing.setdefault(outlet, []).append(item)
        self._hand_out_soon()

    def _hand_out_soon(self) -> None:
        # One turn of the loop later: what else is ready now goes out with it.
        if not self._due:
            self._due = True
            self._loop.call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._due = False
        if self._dead:
            return
        try:
            self.history.flush()
        except OSError as error:
            self.place.failed(f"the history cannot be written: {error.strerror or error}")
            return
        outgoing, self._outgoing = self._outgoing, {}
        for outlet, items in outgoing.items():
            outlet.hand_over(items)

    # -- timers --------------------------------------------------------------------------------------------------------

    def _set_timer(self, effect: SetTimer) -> None:
        self._cancel(effect.name)
        self._timers[effect.name] = self._loop.call_later(effect.delay / SECOND, self._fire, effect.name)

    def _cancel(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _fire(self, name: str) -> None:
        self._timers.pop(name, None)
        self.handle(TimerFired(name))

    # -- the log that all follow ---------------------------------------------------------------------------------------

    def followed(self, record: AnyInternal, counted: bool) -> None:
        """The next record of the log was folded; see `internal.Follower`."""

    def caught_up(self) -> None:
        """Tell the core what is new."""
        if not self._begun:
            return
        held = self.internal.held
        self.handle(held.nodesets_learned())
        if self.core is not None and held.event_log.version != self._version:
            self._version = held.event_log.version
            self.handle(held.statuses())


class StreamDriver(PathDriver):
    """A driver of one end of readers' connections."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.lines: dict[int, Line] = {}

    def new_line(self, peer: int, connection: Connection) -> Line:
        """The connection to a peer, in place of any."""
        line = self.lines[peer] = Line(connection, peer, self.history.clock, lambda: self.place.process.muted)
        return line

    def doings(self) -> list[Coroutine[Any, Any, None]]:
        """Those of any driver, and a look at the connections."""
        return [*super().doings(), self._watch()]

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            for line in list(self.lines.values()):
                line.watch()
