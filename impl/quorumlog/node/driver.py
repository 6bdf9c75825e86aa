"""Runs one protocol core in an asyncio process: carries out its effects on a real disk, a real clock and the network.

Everything happens on the event loop except waiting for the disk, which threads do. A flush that is asked for while
another runs waits for it, and all that wait by then become one (group commit).

Nothing leaves the process, neither to nodes nor to clients, before the history of what led to it is written
(`hand_out`): whatever anybody else can know is in the file even after a SIGKILL. What removes entries for good (`trim`,
`reset`, `compact`) waits for that as well, since afterwards the log no longer shows what was there before; so does an
append, for the log does not show who had asked for it. Any error of the disk, the history's included, is fail-stop
(raft.md#failed-fsync): the driver handles no further events and notifies the process.

Which effects there are and what they mean is the protocol's: a subclass maps each to the methods here, and makes the
events that answer them.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec

from quorumlog.events import Note
from quorumlog.node.recording import History
from quorumlog.node.wire import Administration, MembersResult
from quorumlog.storage.batch import RecordBatch
from quorumlog.storage.compaction import Gap
from quorumlog.storage.disk import Disk, StorageError
from quorumlog.storage.log import FlushTicket, Log

MAX_OPEN_REQUESTS = 16384
MAX_QUEUED_BYTES = 64 << 20


class Outbox(Protocol):
    """Something that waits for `hand_out` to send what it has."""

    def hand_out(self) -> None:
        """Send everything that has been held back; the history that led to it is written."""


class Core(Protocol):
    """What this package needs of a protocol core: events in, effects out, and a state that anybody may read.

    Offsets are inclusive; ``leader`` is the node it believes to be the leader, or -1.
    """

    node: int
    term: int
    role: str
    leader: int
    flushed: int
    commit: int
    visible: int

    @property
    def dirty(self) -> int:
        """The last appended offset, flushed or not (raft.md#dirty)."""

    def handle(self, now: int, event: Any) -> Sequence[Any]:  # noqa: ANN401
        """Take one event at the monotonic time ``now`` (ns); return the effects, to be carried out in order."""


class Ended(Protocol):
    """How a client's request ended (`wire.AppendResult`); offsets and term are -1 where nothing was written."""

    @property
    def outcome(self) -> str:
        """How it ended, as a word of `quorumlog.events.Outcome`."""

    @property
    def offset(self) -> int:
        """First offset; for a barrier the last offset of the log, for a read index the one that a read must reach."""

    @property
    def last_offset(self) -> int:
        """Last offset of the batch, inclusive; -1 where nothing was written."""

    @property
    def term(self) -> int:
        """Term in which it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a process gives the driver of one incarnation.

    ``nodes`` are all nodes, ``voters`` those that the group begins with, None for all; ``least_session`` is the
    smallest session in which this one can be a member. ``timing`` holds the times of the configuration
    (`RealProtocol.timing`). On ``disk`` the log is open already; ``jitter`` is for timers.
    ``send(node, messages, taken)`` hands messages to the network and calls ``taken`` once that needs their memory no
    more, since the socket has the bytes or nobody will; ``disconnect(node)`` drops what the socket has not taken.
    ``failed(reason)`` is called once when the disk fails. ``group`` is the number of the group in the process; of
    several, ``threads`` wait for the disk that they share.
    """

    node: int
    nodes: tuple[int, ...]
    timing: msgspec.Struct
    write_caching: bool
    disk: Disk
    log: Log
    history: History
    jitter: random.Random
    send: Callable[[int, list[Any], Callable[[], None]], None]
    disconnect: Callable[[int], None]
    failed: Callable[[str], None]
    group: int = 0
    threads: ThreadPoolExecutor | None = None
    voters: tuple[int, ...] | None = None
    least_session: int = 0


class Driver(ABC):
    """One running core with its log and history. See the module."""

    def __init__(self, core: Core, place: Place) -> None:
        self.core = core
        self.log = place.log
        self.history = place.history
        self.flushes = 0
        self._place = place
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[Any] = deque()
        self._busy = False
        self._dead = False
        self._timers: dict[str, asyncio.Handle] = {}
        self._outgoing: dict[int, list[Any]] = {}
        self._outboxes: dict[Outbox, None] = {}
        self._hand_out_due = False
        self._next_request = 0
        self._requests: dict[int, Callable[[Any], None]] = {}
        self._queued: dict[int, tuple[int, Callable[[], None]]] = {}  # appends before the end of stage one, with bytes
        self._queued_bytes = 0
        self._moment = 0
        self._jumped = 0
        self._most_effects: int | None = None
        self._threads: list[ThreadPoolExecutor] = []
        self._flush_thread = self._thread("flush")
        self._flushes_due: list[tuple[int, FlushTicket]] = []
        self._flushing = False
        self._carry_out = self._effects()

    # -- what the protocol adds ------------------------------------------------------------------------------------

    @abstractmethod
    def _effects(self) -> Mapping[type, Callable[[Any], object]]:
        """How to carry out each kind of effect."""

    @abstractmethod
    def start(self) -> None:
        """Post the first event of the incarnation."""

    @abstractmethod
    def received(self, sender: int, messages: list[Any]) -> None:
        """Messages of another node arrived; its clock has been merged."""

    @abstractmethod
    def append(
        self,
        batch: RecordBatch,
        expected_term: int,
        force_flush: bool,
        enqueued: Callable[[], None],
        done: Callable[[Ended], None],
    ) -> bool:
        """Hand an append to the core: ``enqueued`` is called when it has its place in the order, ``done`` at its end.

        An append that is refused ends without the first. False if too much is open already.
        """

    @abstractmethod
    def barrier(self, done: Callable[[Ended], None]) -> bool:
        """Ask for the linearizable end of the log. False if too much is open already."""

    @abstractmethod
    def read_index(self, done: Callable[[Ended], None]) -> bool:
        """Ask up to where a read must reach to be linearizable; when ``done`` is called, what is committed here does.

        False if too much is open already.
        """

    def administer(self, call: Administration, done: Callable[[Ended], None]) -> str:
        """Hand what whoever runs the group asks to the core; else why that cannot be done."""
        return "not of this protocol"

    def members(self, number: int) -> MembersResult:
        """The configuration in force here, as the answer to call ``number``; all nodes, where it never changes."""
        return MembersResult(number, self.core.leader, self._place.nodes, (), (), 0, settled=True)

    @abstractmethod
    def give_up(self, offset: int) -> None:
        """Let the core remove what lies before ``offset``, as far as its rules allow."""

    @abstractmethod
    def _flushed(self, ticket: int) -> None:
        """Post that the flush with this ticket is on disk."""

    def _taken(self, node: int, messages: list[Any]) -> None:  # noqa: B027 - not every protocol counts its memory
        """Post that the network has taken these messages, or refused them."""

    @abstractmethod
    def _fired(self, timer: str) -> None:
        """Post that a timer has run out."""

    # -- events in -------------------------------------------------------------------------------------------------

    def post(self, event: Any) -> None:  # noqa: ANN401
        """Let the core handle an event, and all that follows from it at once."""
        self._inbox.append(event)
        if self._busy or self._dead:
            return
        self._busy, anything = True, False
        carry_out = self._carry_out
        try:
            while self._inbox:
                self._moment = self.history.clock.wall()
                effects = self.core.handle(time.monotonic_ns() + self._jumped, self._inbox.popleft())
                anything = anything or bool(effects)
                for effect in effects[: self._most_effects]:
                    carry_out[type(effect)](effect)
                if self._most_effects is not None and len(effects) > self._most_effects:
                    os.kill(os.getpid(), signal.SIGKILL)
        except (StorageError, OSError) as error:
            self._fail(error)
        finally:
            self._busy = False
        if anything:
            self._hand_out_soon()

    def read(self, start: int, max_bytes: int, *, committed: bool) -> tuple[list[RecordBatch], int]:
        """Whole batches from ``start`` on up to what is committed, or visible, here and now; and the end of that.

        ``start`` must not be before the log's start. At most ``max_bytes``, but at least one batch.
        """
        end = self.core.commit if committed else self.core.visible
        if start > end or self._dead:
            return [], end
        try:
            batches = self.log.read(start, max_bytes, end)
        except StorageError as error:
            self._fail(error)
            return [], end
        return [batch for batch in batches if batch.last_offset <= end], end

    def retain(self, size: int) -> None:
        """Remove whole segments, oldest first, that are committed and not needed to keep ``size`` bytes of log."""
        start = self.log.start_to_keep(size, self.core.commit)
        if start > self.log.start_offset and not self._dead:
            self.give_up(start)

    # -- requests of clients ---------------------------------------------------------------------------------------

    def _open(self, done: Callable[[Any], None], size: int = 0, enqueued: Callable[[], None] = lambda: None) -> int:
        """Number a request of ``size`` bytes that calls ``done`` when it ends; 0 if too much is open already."""
        if len(self._requests) >= MAX_OPEN_REQUESTS or (size and self._queued_bytes > MAX_QUEUED_BYTES):
            return 0
        self._next_request += 1
        self._requests[self._next_request] = done
        if size:
            self._queued[self._next_request] = size, enqueued
            self._queued_bytes += size
        return self._next_request

    def _has_its_place(self, request: int) -> None:
        """The append has passed stage one: its bytes are counted by the core now."""
        size, enqueued = self._queued.pop(request, (0, None))
        self._queued_bytes -= size
        if enqueued is not None:
            enqueued()

    def _end(self, request: int, ended: Ended) -> None:
        """Answer a request, if it is this incarnation's."""
        self._queued_bytes -= self._queued.pop(request, (0, None))[0]
        done = self._requests.pop(request, None)
        if done is not None:
            done(ended)

    # -- what leaves the process -----------------------------------------------------------------------------------

    def deliver(self, outbox: Outbox) -> None:
        """Let ``outbox`` send once everything noted so far is written."""
        self._outboxes[outbox] = None
        self._hand_out_soon()

    def _queue_message(self, to: int, message: Any) -> None:  # noqa: ANN401
        self._outgoing.setdefault(to, []).append(message)

    def _hand_out_soon(self) -> None:
        # One turn of the loop later: what else is ready now goes out with it.
        if not self._hand_out_due and not self._dead:
            self._hand_out_due = True
            self._loop.call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._hand_out_due = False
        if self._dead:
            return
        try:
            self.history.flush()
        except OSError as error:
            self._fail(error)
            return
        outgoing, self._outgoing = self._outgoing, {}
        for node, messages in outgoing.items():
            self._place.send(node, messages, partial(self._taken, node, messages))
        outboxes, self._outboxes = self._outboxes, {}
        for outbox in outboxes:
            outbox.hand_out()

    def _note(self, note: Note) -> None:
        """Record an event in the history."""
        # A step of the core is one moment: if the machine holds up a process in the middle of it, the history must not
        # show others acting between the halves.
        self.history.event(note.kind, note.columns, self._moment)

    # -- the end ---------------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether no request is open and nothing waits to be sent."""
        return not self._requests and not self._hand_out_due

    async def stop(self) -> None:
        """Handle nothing more; make everything durable and record that. Raises `StorageError` or OSError."""
        self.halt()
        for thread in self._threads:
            await asyncio.to_thread(thread.shutdown)
        await asyncio.to_thread(self.log.close)
        self.history.event("stop", {})
        self.history.close()

    def halt(self) -> None:
        """Handle nothing more: drop the events that wait and stop all timers. Nothing is made durable."""
        self._dead = True
        self._inbox.clear()
        for timer in self._timers.values():
            timer.cancel()

    def _fail(self, error: Exception) -> None:
        if self._dead:
            return
        self.halt()
        reason = str(error) or type(error).__name__
        for thread in self._threads:
            thread.shutdown(wait=False)
        self.history.storage_error(reason)
        self._place.failed(reason)

    # -- the log ---------------------------------------------------------------------------------------------------

    def _append(self, batches: Sequence[RecordBatch]) -> None:
        # The log shows after a SIGKILL that they were appended; that a client's had been enqueued, only the history.
        self.history.flush()
        self.log.append(batches)

    def _trim(self, offset: int) -> None:
        self.history.flush()
        self.log.trim(offset)

    def _reset(self, start: int, term_before: int) -> None:
        self.history.flush()
        self.log.reset(start, term_before)

    def _compact(self, gaps: Sequence[Gap]) -> None:
        self.history.flush()
        self.log.compact(gaps)

    def _read_log(self, start: int, max_bytes: int) -> tuple[RecordBatch, ...]:
        """Batches for a peer; none if the log does not hold ``start`` any more."""
        if self.log.start_offset <= start <= self.log.dirty:
            return tuple(self.log.read(start, max_bytes))
        return ()

    # -- the disk's threads ----------------------------------------------------------------------------------------

    def _thread(self, name: str) -> ThreadPoolExecutor:
        """A thread that waits for the disk, ended with the driver; or some of the process's own."""
        if self._place.threads is not None:
            return self._place.threads
        thread = ThreadPoolExecutor(1, name)
        self._threads.append(thread)
        return thread

    def _in_thread(
        self,
        thread: ThreadPoolExecutor,
        done: Callable[[], None],
        work: Callable[..., None],
        *arguments: Any,  # noqa: ANN401
    ) -> None:
        """Call ``work`` in a thread and ``done`` behind it on the loop; an error of the disk ends the node."""

        def ended(running: asyncio.Future[None]) -> None:
            if running.cancelled() or self._dead:
                return
            error = running.exception()
            if isinstance(error, Exception):
                self._fail(error)
            else:
                done()

        self._loop.run_in_executor(thread, work, *arguments).add_done_callback(ended)

    def _start_flush(self, ticket: int) -> None:
        self._flushes_due.append((ticket, self.log.flush_begin()))
        self._next_flush()

    def _next_flush(self) -> None:
        if self._flushing or not self._flushes_due or self._dead:
            return
        self._flushing = True
        due, self._flushes_due = self._flushes_due, []
        # The newest ticket covers what the older ones were for.
        self._in_thread(self._flush_thread, lambda: self._flush_ended(due), self.log.flush_run, due[-1][1])

    def _flush_ended(self, due: list[tuple[int, FlushTicket]]) -> None:
        self._flushing = False
        self.flushes += 1
        for _, ticket in due:
            self.log.flush_finish(ticket)
        for number, _ in due:
            self._flushed(number)
        self._next_flush()

    # -- timers ----------------------------------------------------------------------------------------------------

    def _set_timer(self, name: str, delay: int, jitter: int) -> None:
        """Fire after ``delay`` plus a random part below ``jitter``, both in nanoseconds; it replaces the one before."""
        self._cancel_timer(name)
        if jitter:
            delay += self._place.jitter.randrange(jitter)
        if delay <= 0:
            self._timers[name] = self._loop.call_soon(self._timer_ended, name)
        else:
            self._timers[name] = self._loop.call_later(delay / 1e9, self._timer_ended, name)

    def _cancel_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def jump(self, by: int) -> None:
        """Let the clock of the core and of its timers jump ahead by so many nanoseconds."""
        self._jumped += by
        for name, timer in [*self._timers.items()]:
            if by and isinstance(timer, asyncio.TimerHandle):
                timer.cancel()
                self._timers[name] = self._loop.call_at(timer.when() - by / 1e9, self._timer_ended, name)

    def end_midway(self, effects: int) -> None:
        """Let the process end by SIGKILL after so many effects of the next step of the core that has more."""
        self._most_effects = effects

    def _timer_ended(self, name: str) -> None:
        self._timers.pop(name, None)
        self._fired(name)
