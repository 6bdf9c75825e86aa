"""Runs one Raft core in an asyncio process: carries out its effects on a real disk, a real clock and the network.

Everything happens on the event loop except waiting for the disk: flushes and saved votes each have a thread. A flush
that is asked for while another runs waits for it, and all that wait by then become one (group commit).

Nothing leaves the process, neither to nodes nor to clients, before the history of what led to it is written
(`hand_out`): what anybody can know of is in the file even after a SIGKILL. Any error of the disk, the history's
included, is fail-stop (rules page: "Any storage error"): the driver handles no further event and tells the process.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from quorumlog.node.recording import History
from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import (
    Accepted,
    Append,
    AppendRequested,
    BarrierRequested,
    CancelTimer,
    Effect,
    Event,
    Flushed,
    LogRead,
    Note,
    ReadLog,
    Received,
    Reset,
    Resolved,
    SaveVote,
    Send,
    SetTimer,
    StartFlush,
    TimerFired,
    Trim,
    Truncate,
    VoteSaved,
)
from quorumlog.raft.messages import AnyMessage
from quorumlog.storage.batch import RecordBatch
from quorumlog.storage.disk import StorageError
from quorumlog.storage.log import FlushTicket, Log
from quorumlog.storage.vote import VoteStore

MAX_OPEN_REQUESTS = 16384
MAX_QUEUED_BYTES = 64 << 20


class Outbox(Protocol):
    """Something that waits for `hand_out` to send what it has."""

    def hand_out(self) -> None:
        """Send now."""


class Driver:
    """One running core with its log, vote and history.

    ``send(node, messages)`` hands messages to the network; ``failed(reason)`` is called once when the disk fails.
    """

    def __init__(
        self,
        core: RaftCore,
        log: Log,
        votes: VoteStore,
        history: History,
        jitter: random.Random,
        send: Callable[[int, list[AnyMessage]], None],
        failed: Callable[[str], None],
    ) -> None:
        self.core = core
        self.log = log
        self.history = history
        self.flushes = 0
        self._votes = votes
        self._jitter = jitter
        self._send = send
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[Event] = deque()
        self._busy = False
        self._dead = False
        self._timers: dict[str, asyncio.Handle] = {}
        self._outgoing: dict[int, list[AnyMessage]] = {}
        self._outboxes: dict[Outbox, None] = {}
        self._hand_out_due = False
        self._next_request = 0
        self._requests: dict[int, Callable[[Resolved], None]] = {}
        self._queued: dict[int, int] = {}  # bytes of appends that have no place in the log yet
        self._queued_bytes = 0
        self._moment = 0
        self._flush_thread = ThreadPoolExecutor(1, "flush")
        self._vote_thread = ThreadPoolExecutor(1, "vote")
        self._flushes_due: list[tuple[int, FlushTicket]] = []
        self._flushing = False
        self._vote_due: SaveVote | None = None
        self._saving = False
        self._carry_out: dict[type[Effect], Callable[..., None]] = {
            Append: self._append,
            Truncate: self._truncate,
            Trim: self._trim,
            Reset: self._reset,
            StartFlush: self._start_flush,
            SaveVote: self._save_vote,
            ReadLog: self._read_log,
            Send: self._queue_message,
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Accepted: self._accepted,
            Resolved: self._resolved,
            Note: self._note,
        }

    # -- events in -----------------------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Let the core handle an event, and all that follows from it at once."""
        self._inbox.append(event)
        if self._busy or self._dead:
            return
        self._busy = True
        try:
            while self._inbox:
                self._moment = self.history.clock.wall()
                for effect in self.core.handle(time.monotonic_ns(), self._inbox.popleft()):
                    self._carry_out[type(effect)](effect)
        except (StorageError, OSError) as error:
            self._fail(error)
        finally:
            self._busy = False
        self._hand_out_soon()

    def received(self, sender: int, messages: list[AnyMessage]) -> None:
        """Messages of another node arrived; its clock has been merged."""
        for message in messages:
            self.post(Received(sender, message))

    def append(
        self, batch: RecordBatch, expected_term: int, force_flush: bool, done: Callable[[Resolved], None]
    ) -> bool:
        """Hand an append to the core; ``done`` is called when it has ended. False if too much is open already."""
        if len(self._requests) >= MAX_OPEN_REQUESTS or self._queued_bytes > MAX_QUEUED_BYTES:
            return False
        request = self._open(done)
        self._queued[request] = batch.size_bytes
        self._queued_bytes += batch.size_bytes
        self.post(AppendRequested(request, batch, expected_term, force_flush))
        return True

    def barrier(self, done: Callable[[Resolved], None]) -> bool:
        """Ask for the linearizable end of the log. False if too much is open already."""
        if len(self._requests) >= MAX_OPEN_REQUESTS:
            return False
        self.post(BarrierRequested(self._open(done)))
        return True

    def read(self, start: int, max_bytes: int, *, committed: bool) -> tuple[list[RecordBatch], int]:
        """Whole batches from ``start`` on up to what is committed, or visible, here and now; and the end of that.

        ``start`` must not be before the log's start.
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

    def _open(self, done: Callable[[Resolved], None]) -> int:
        self._next_request += 1
        self._requests[self._next_request] = done
        return self._next_request

    # -- what leaves the process -----------------------------------------------------------------------------------

    def deliver(self, outbox: Outbox) -> None:
        """Let ``outbox`` send once everything noted so far is written."""
        self._outboxes[outbox] = None
        self._hand_out_soon()

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
            self._send(node, messages)
        outboxes, self._outboxes = self._outboxes, {}
        for outbox in outboxes:
            outbox.hand_out()

    # -- the end -----------------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether no request is open and nothing waits to be sent."""
        return not self._requests and not self._hand_out_due

    async def stop(self) -> None:
        """Handle nothing more; make everything durable and say so in the history. Raises `StorageError` or OSError."""
        self._halt()
        await asyncio.to_thread(self._flush_thread.shutdown)
        await asyncio.to_thread(self._vote_thread.shutdown)
        await asyncio.to_thread(self.log.close)
        self.history.event("stop", {})
        self.history.close()

    def _halt(self) -> None:
        self._dead = True
        self._inbox.clear()
        for timer in self._timers.values():
            timer.cancel()

    def _fail(self, error: Exception) -> None:
        if self._dead:
            return
        self._halt()
        reason = str(error) or type(error).__name__
        self._flush_thread.shutdown(wait=False)
        self._vote_thread.shutdown(wait=False)
        self.history.storage_error(reason)
        self._failed(reason)

    # -- effects -----------------------------------------------------------------------------------------------------

    def _append(self, effect: Append) -> None:
        self.log.append(effect.batches)

    def _truncate(self, effect: Truncate) -> None:
        self.log.truncate(effect.offset)

    def _trim(self, effect: Trim) -> None:
        self.log.trim(effect.offset)

    def _reset(self, effect: Reset) -> None:
        self.log.reset(effect.start, effect.start_term)

    def _start_flush(self, effect: StartFlush) -> None:
        self._flushes_due.append((effect.ticket, self.log.flush_begin()))
        self._next_flush()

    def _next_flush(self) -> None:
        if self._flushing or not self._flushes_due or self._dead:
            return
        self._flushing = True
        due, self._flushes_due = self._flushes_due, []
        # The newest ticket covers what the older ones were for.
        running = self._loop.run_in_executor(self._flush_thread, self.log.flush_run, due[-1][1])
        running.add_done_callback(lambda done: self._flush_ended(done, due))

    def _flush_ended(self, done: asyncio.Future[None], due: list[tuple[int, FlushTicket]]) -> None:
        self._flushing = False
        if done.cancelled() or self._dead:
            return
        error = done.exception()
        if isinstance(error, Exception):
            self._fail(error)
            return
        self.flushes += 1
        for _, ticket in due:
            self.log.flush_finish(ticket)
        for number, _ in due:
            self.post(Flushed(number))
        self._next_flush()

    def _save_vote(self, effect: SaveVote) -> None:
        self._vote_due = effect  # an older one that still waits is of no interest any more
        self._next_vote()

    def _next_vote(self) -> None:
        if self._saving or self._vote_due is None or self._dead:
            return
        self._saving = True
        due, self._vote_due = self._vote_due, None
        voted_for = None if due.voted_for < 0 else due.voted_for
        running = self._loop.run_in_executor(self._vote_thread, self._votes.save, due.term, voted_for)
        running.add_done_callback(lambda done: self._vote_ended(done, due.ticket))

    def _vote_ended(self, done: asyncio.Future[None], ticket: int) -> None:
        self._saving = False
        if done.cancelled() or self._dead:
            return
        error = done.exception()
        if isinstance(error, Exception):
            self._fail(error)
            return
        self.post(VoteSaved(ticket))
        self._next_vote()

    def _read_log(self, effect: ReadLog) -> None:
        batches: tuple[RecordBatch, ...] = ()
        if self.log.start_offset <= effect.start <= self.log.dirty:
            batches = tuple(self.log.read(effect.start, effect.max_bytes))
        self._inbox.append(LogRead(effect.ticket, batches))

    def _queue_message(self, effect: Send) -> None:
        self._outgoing.setdefault(effect.to, []).append(effect.message)

    def _set_timer(self, effect: SetTimer) -> None:
        self._cancel_timer(effect)
        delay = effect.delay + (self._jitter.randrange(effect.jitter) if effect.jitter else 0)
        if delay <= 0:
            self._timers[effect.name] = self._loop.call_soon(self._timer_fired, effect.name)
        else:
            self._timers[effect.name] = self._loop.call_later(delay / 1e9, self._timer_fired, effect.name)

    def _cancel_timer(self, effect: SetTimer | CancelTimer) -> None:
        timer = self._timers.pop(effect.name, None)
        if timer is not None:
            timer.cancel()

    def _timer_fired(self, name: str) -> None:
        self._timers.pop(name, None)
        self.post(TimerFired(name))

    def _accepted(self, effect: Accepted) -> None:
        self._queued_bytes -= self._queued.pop(effect.request, 0)

    def _resolved(self, effect: Resolved) -> None:
        self._queued_bytes -= self._queued.pop(effect.request, 0)
        done = self._requests.pop(effect.request, None)
        if done is not None:
            done(effect)

    def _note(self, effect: Note) -> None:
        # A step of the core is one moment: a process that the machine holds up in the middle of it must not leave a
        # history in which others act between the halves.
        self.history.event(effect.kind, effect.columns, self._moment)
