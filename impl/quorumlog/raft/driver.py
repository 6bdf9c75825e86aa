"""The Raft core in a real process: its effects mapped to what `quorumlog.node.driver` can do, its vote on the disk.

Votes are saved in a separate thread. A save that is asked for while another is being written waits for it, and the
newest replaces those that wait.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from quorumlog.events import (
    Accepted,
    Append,
    AppendRequested,
    BarrierRequested,
    CancelTimer,
    Flushed,
    LogRead,
    Note,
    Outcome,
    ReadIndexRequested,
    ReadLog,
    Received,
    Reset,
    Resolved,
    Send,
    SetTimer,
    Started,
    StartFlush,
    TimerFired,
    Trim,
    TrimRequested,
    Truncate,
)
from quorumlog.node.driver import Driver, Ended, Place
from quorumlog.node.wire import Administration, ChangeCall, CompactCall, MembersResult, TransferCall
from quorumlog.quorum import NOTHING
from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import (
    Apply,
    ChangeRequested,
    Compact,
    CompactRequested,
    Disconnect,
    HandedOver,
    KeepSnapshot,
    ReadSnapshot,
    SaveVote,
    TakeSnapshot,
    Timer,
    TransferRequested,
    VoteSaved,
)
from quorumlog.raft.members import Change
from quorumlog.raft.messages import AnyMessage, AppendEntries
from quorumlog.raft.restored import StateMachine
from quorumlog.raft.rules import NOBODY
from quorumlog.storage.batch import RecordBatch
from quorumlog.storage.compaction import Gap, superseded
from quorumlog.storage.vote import VoteStore

_LOOKS_AGAIN = 0.001
"""Seconds until a compaction that waits for a vote to be saved looks again."""


class RaftDriver(Driver):
    """One Raft core with its log, state machine, vote and history."""

    core: RaftCore
    superseded = staticmethod(superseded)

    def __init__(self, core: RaftCore, votes: VoteStore, machine: StateMachine, place: Place) -> None:
        self._machine = machine
        super().__init__(core, place)
        core.noting = place.history.records
        self._votes = votes
        self._vote_thread = self._thread("vote")
        self._compaction_thread = self._thread("compact")
        self._vote_due: SaveVote | None = None
        self._saving = False
        self._compacting = False

    def _effects(self) -> Mapping[type, Callable[[Any], object]]:
        machine = self._machine
        return {
            Append: lambda effect: self._append(effect.batches),
            Truncate: lambda effect: self._truncate(effect.offset),
            Trim: lambda effect: self._trim(effect.offset),
            Reset: lambda effect: self._reset(effect.start, effect.start_term),
            Compact: lambda effect: self._compact(effect.gaps),
            StartFlush: lambda effect: self._start_flush(effect.ticket),
            SaveVote: self._save_vote,
            Apply: lambda effect: machine.apply(effect.offset, effect.last_offset),
            TakeSnapshot: machine.take,
            KeepSnapshot: lambda effect: machine.install(effect.snapshot),
            ReadSnapshot: lambda effect: self._inbox.append(machine.read(effect)),
            ReadLog: self._read_for_peer,
            Send: lambda effect: self._queue_message(effect.to, effect.message),
            Disconnect: lambda effect: self._place.disconnect(effect.to),
            SetTimer: lambda effect: self._set_timer(effect.name, _aligned(effect), effect.jitter),
            CancelTimer: lambda effect: self._cancel_timer(effect.name),
            Accepted: lambda effect: self._has_its_place(effect.request),
            Resolved: lambda effect: self._end(effect.request, effect),
            Note: self._note,
        }

    def _append(self, batches: Sequence[RecordBatch]) -> None:
        super()._append(batches)
        self._machine.appended(batches)

    def _truncate(self, offset: int) -> None:
        self.log.truncate(offset)
        self._machine.truncated()

    def _reset(self, start: int, term_before: int) -> None:
        super()._reset(start, term_before)
        self._machine.truncated()

    # -- events in -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Post the first event of the incarnation."""
        self.post(Started())

    def received(self, sender: int, messages: list[AnyMessage]) -> None:
        """Messages of another node arrived; its clock has been merged."""
        for message in messages:
            self.post(Received(sender, message))

    def append(
        self,
        batch: RecordBatch,
        expected_term: int,
        force_flush: bool,
        enqueued: Callable[[], None],
        done: Callable[[Ended], None],
    ) -> bool:
        """Hand an append to the core; see `Driver.append`."""
        request = self._open(done, batch.size_bytes, enqueued)
        if request:
            self.post(AppendRequested(request, batch, expected_term, force_flush))
        return bool(request)

    def barrier(self, done: Callable[[Ended], None]) -> bool:
        """Ask for the linearizable end of the log. False if too much is open already."""
        request = self._open(done)
        if request:
            self.post(BarrierRequested(request))
        return bool(request)

    def read_index(self, done: Callable[[Ended], None]) -> bool:
        """Ask up to where a read must reach to be linearizable. False if too much is open already."""
        request = self._open(done)
        if request:
            self.post(ReadIndexRequested(request))
        return bool(request)

    def administer(self, call: Administration, done: Callable[[Ended], None]) -> str:
        """Hand a transfer of leadership, or a change of the members, to the core, or compact; else why not."""
        named: tuple[int, ...] = ()
        if isinstance(call, ChangeCall):
            named = (*call.add, *call.remove, *call.demote)
        elif isinstance(call, TransferCall):
            named = (call.target,)
        strangers = sorted({*named} - {*self._place.nodes})
        if isinstance(call, CompactCall) and self._compacting:
            return "a compaction is under way"
        if strangers:
            return f"no address is known of node {strangers[0]}"
        request = self._open(done)
        if not request:
            return "busy"
        if isinstance(call, ChangeCall):
            change = Change(call.revision, call.add, call.remove, call.demote, call.cancel)
            self.post(ChangeRequested(request, change))
        elif isinstance(call, CompactCall):
            self._compacting = True
            self._choose_gaps(request)
        else:
            self.post(TransferRequested(request, call.target))
        return ""

    def _choose_gaps(self, request: int) -> None:
        """Let a thread choose what goes, which takes a while in a long log; then remove it."""
        batches, gaps = self.log.closed(self.core.compaction_bound), deque[Gap]()

        def choose() -> None:
            gaps.extend(self.superseded(batches, batches.bound))

        self._in_thread(self._compaction_thread, lambda: self._compact_on(request, gaps), choose)

    def _compact_on(self, request: int, gaps: deque[Gap]) -> None:
        """Remove these batches, a segment at each turn of the loop, so that nothing else waits for more than one."""
        if self._dead:
            return
        if self._saving or self._vote_due:  # the core would refuse it (raft.md#summed-in-saved-term)
            self._loop.call_later(_LOOKS_AGAIN, self._compact_on, request, gaps)
            return
        step: list[Gap] = []
        while gaps and (not step or gaps[0][0] <= self.log.segment_around(step[0][0])[1]):
            gap = gaps.popleft()
            if gap[0] >= self.log.start_offset:  # else it was trimmed meanwhile
                step.append(gap)
        if step:
            self.post(CompactRequested(tuple(step)))
        if gaps:
            self._loop.call_soon(self._compact_on, request, gaps)
        else:
            self._compacting = False
            self._end(request, Resolved(request, Outcome.SUCCESS, NOTHING, NOTHING, NOTHING))

    def members(self, number: int) -> MembersResult:
        """The configuration in force here, as the answer to the call ``number``."""
        members, leader = self.core.members, self.core.leader
        voters = members.voters
        named = voters.current, voters.old, voters.learners
        return MembersResult(number, leader, *named, members.revision, settled=members.simple)

    def give_up(self, offset: int) -> None:
        """Let the core trim: whole batches before ``offset``, committed ones only."""
        self.post(TrimRequested(offset))

    def _flushed(self, ticket: int) -> None:
        self.post(Flushed(ticket))

    def _taken(self, node: int, messages: list[AnyMessage]) -> None:
        for message in messages:
            if isinstance(message, AppendEntries) and message.batches:
                self.post(HandedOver(node, message))

    def _fired(self, timer: str) -> None:
        self.post(TimerFired(Timer(timer)))

    # -- effects ---------------------------------------------------------------------------------------------------

    def _read_for_peer(self, effect: ReadLog) -> None:
        self._inbox.append(LogRead(effect.ticket, self._read_log(effect.start, effect.max_bytes)))

    def _save_vote(self, effect: SaveVote) -> None:
        self._vote_due = effect  # an older one that still waits is no longer needed
        self._next_vote()

    def _next_vote(self) -> None:
        if self._saving or self._vote_due is None or self._dead:
            return
        self._saving = True
        due, self._vote_due = self._vote_due, None
        voted_for = None if due.voted_for == NOBODY else due.voted_for
        self._in_thread(self._vote_thread, lambda: self._vote_ended(due.ticket), self._votes.save, due.term, voted_for)

    def _vote_ended(self, ticket: int) -> None:
        self._saving = False
        self.post(VoteSaved(ticket))
        self._next_vote()


def _aligned(effect: SetTimer) -> int:
    """The delay of a timer; heartbeats of all groups of a process fall due together, so that they share frames."""
    delay = effect.delay
    if effect.name is not Timer.HEARTBEAT:
        return delay
    left = delay - time.monotonic_ns() % delay
    return left if left > delay // 2 else left + delay
