"""Replication of what clients append: one path for acks -1, 1 and 0, in two stages.

For the first stage an append waits until the leader has memory for it (`budget`); then its place in the order is
certain. A round drains what was enqueued, writes the log once, builds the append_entries requests from the same
batches and flushes in parallel with them (raft.md#rounds, raft.md#enqueue-order,
documents.md#raft-simplification-approach). The second stage is the answer: after the write for acks 0 and 1, else as
``leader`` resolves it (raft.md#acks).

A follower without a free slot is sent its request once it has one; meanwhile the round keeps its memory, which is the
back-pressure that reaches the callers at all acks levels (raft.md#in-flight,
documents.md#raft-simplification-backpressure).
The memory of a round returns when each of its requests was handed over (raft.md#units-returned).
"""

from __future__ import annotations

from dataclasses import dataclass

from quorumlog.events import Accepted, AppendRequested, CancelTimer, Note, Outcome, Resolved, SetTimer
from quorumlog.quorum import NOTHING
from quorumlog.raft.budget import Budget
from quorumlog.raft.events import Disconnect, HandedOver, Timer
from quorumlog.raft.follower import Follower
from quorumlog.raft.messages import AppendEntries
from quorumlog.raft.progress import Progress, Round
from quorumlog.raft.rules import ACKS_ALL, Rules
from quorumlog.raft.state import Configuration, Restored
from quorumlog.storage.batch import RecordBatch


@dataclass(frozen=True, slots=True)
class _Pending:
    """An acks=all append that waits: its offsets and the term it was written in."""

    request: int
    offset: int
    last_offset: int
    term: int
    cached: bool


class Rounds(Follower):
    """From an append that is asked for to the requests that carry it."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules) -> None:
        super().__init__(configuration, restored, rules)
        self.progress: dict[int, Progress] = {}
        self.last_quorum_write = NOTHING  # LQ: raft.md#last-quorum
        self._last_required = False
        self._budget = Budget(configuration.memory_bytes)
        self._queue: list[AppendRequested] = []
        self._draining = False
        self._pending: list[_Pending] = []
        self._handing: dict[tuple[int, int], Round] = {}  # (peer, sequence): what the network has not taken yet

    @property
    def serving(self) -> bool:
        """Whether this node leads and an entry of its own term is committed."""
        return self.role == "leader" and self.rules.may_serve(self.index.term(self.commit), self.term)

    @property
    def reserved(self) -> int:
        """How many bytes this node holds for appends (raft.md#bounded-memory)."""
        return self._budget.reserved

    def _recover(self, peer: int, follower: Progress, resume: int, reason: str = "answer") -> None:
        raise NotImplementedError

    def _replicated(self) -> None:
        raise NotImplementedError

    def _refuse(self, request: int, outcome: Outcome = Outcome.NOT_LEADER) -> None:
        self._effects.append(Resolved(request, outcome, -1, -1, -1))

    def _answer(self, request: int, outcome: Outcome, offset: int, last: int, term: int, acks: int) -> None:
        if self.noting:
            self.note("acked", offset=offset, last_offset=last, entry_term=term, acks=acks, reason=str(outcome))
        self._effects.append(Resolved(request, outcome, offset, last, term))

    # -- stage one -------------------------------------------------------------------------------------------------

    def _append_requested(self, event: AppendRequested) -> None:
        if not self.serving:
            self._refuse(event.request)
        elif event.expected_term not in (-1, self.term):
            self._refuse(event.request, Outcome.TERM_MISMATCH)
        else:
            self._budget.wait(event, self.now + self.configuration.enqueue_timeout)
            self._enqueue()
            if self._budget.waits(event):
                self._note_append("wait", event)

    def _enqueue(self) -> None:
        """Enqueue those for whom there is memory; the others wait, and not for ever."""
        for item in self._budget.admitted():
            self._queue.append(item)
            self._effects.append(Accepted(item.request))
            self._note_append("enqueue", item)
        if self._queue and not self._draining:
            self._draining = True
            self._effects.append(SetTimer(Timer.DRAIN, 0))
        if self._budget.deadline is not None:
            self._effects.append(SetTimer(Timer.ENQUEUE, max(0, self._budget.deadline - self.now)))

    def _enqueue_timer_fired(self) -> None:
        for item in self._budget.expired(self.now):
            self._give_up(item, Outcome.TIMED_OUT)
        self._enqueue()

    def _give_up(self, item: AppendRequested, outcome: Outcome = Outcome.NOT_LEADER) -> None:
        """Refuse an append that waits for memory."""
        self._note_append("withdraw", item)
        self._refuse(item.request, outcome)

    def _note_append(self, kind: str, item: AppendRequested) -> None:
        if self.noting:
            batch, memory = item.batch, {"term": self.term, "reserved": self._budget.reserved}
            memory |= {"bytes": batch.size_bytes, "acks": batch.acks, "value": batch.value}
            self._effects.append(Note(kind, memory))

    def _forget_appends(self) -> None:
        """Refuse what is not written, and take all memory back; what was written stays pending."""
        for item in (*self._queue, *self._budget.clear()):
            self._refuse(item.request)
        self._queue.clear()
        self._handing.clear()
        self._effects.append(CancelTimer(Timer.ENQUEUE))

    # -- rounds ----------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Make a round of what is enqueued, up to ``round_bytes``; order of enqueueing is order in the log."""
        self._draining = False
        if not self._queue:
            return
        items, size = 0, 0
        for item in self._queue:
            size += item.batch.size_bytes
            if items and size > self.configuration.round_bytes:
                break
            items += 1
        taken, self._queue = self._queue[:items], self._queue[items:]
        caching = self.configuration.write_caching
        required = False
        batches, at_once = [], []
        offset = self.index.dirty + 1
        for item in taken:
            batch = item.batch.with_position(offset, self.term)
            last = batch.last_offset
            batches.append(batch)
            required = required or self.rules.flush_required(batch.acks, caching, item.force_flush)
            if batch.acks == ACKS_ALL:
                cached = caching and not item.force_flush
                self._pending.append(_Pending(item.request, offset, last, self.term, cached))
            else:
                at_once.append((item.request, batch))
            offset = last + 1
        self._round(tuple(batches), required=required, requests=tuple(item.request for item in taken))
        for request, batch in at_once:
            self._answer(request, Outcome.SUCCESS, batch.base_offset, batch.last_offset, batch.term, batch.acks)
        if self._queue:
            self._draining = True
            self._effects.append(SetTimer(Timer.DRAIN, 0))

    def _round(self, batches: tuple[RecordBatch, ...], *, required: bool, requests: tuple[int, ...] = ()) -> None:
        """Write the leader's log once, hand the same batches to the followers, flush in parallel if it is required.

        ``requests``: the appends whose memory the round holds. Those with acks 0 or 1 are answered by the caller right
        after (raft.md#relaxed-acks).
        """
        previous = self.index.dirty
        current = Round(previous, self.index.term(previous), batches, required, requests)
        current.holders = 1  # the leader itself, until the requests are made
        self._append(batches)
        if required:
            self.last_quorum_write = self.index.dirty
        self._last_required = required
        self.visibility_upper_bound = self.rules.visibility_on_append(
            self.visibility_upper_bound, self.commit, self.last_quorum_write, self.index.dirty
        )
        for peer, follower in self.progress.items():
            if self._expects(follower, previous):
                self._dispatch(peer, follower, current)
            elif not follower.recovering:
                self._recover(peer, follower, follower.last_sent, "silent" if self._silent(follower) else "round")
        self._let_go(current)
        if required:
            self._require_flush(self.index.dirty)
        else:
            self._debounce_flush()
        self._replicated()

    # -- dispatch --------------------------------------------------------------------------------------------------

    def _expects(self, follower: Progress, previous: int) -> bool:
        """Tell whether a follower is sent what follows ``previous``, now or when it has a free slot.

        Source: raft.md#may-dispatch.
        """
        return (
            follower.end == previous
            and not self._silent(follower)
            and self.rules.may_dispatch(follower.recovering, follower.last_sent, previous)
            and (not follower.recovering or self._has_slot(follower))
        )

    def _silent(self, follower: Progress) -> bool:
        return self.now - follower.heard >= 2 * self.configuration.election_timeout

    def _has_slot(self, follower: Progress) -> bool:
        return len(follower.unanswered) < self.configuration.max_in_flight

    def _dispatch(self, peer: int, follower: Progress, current: Round) -> None:
        """Send a round to a follower in its turn: at once, or when there is a free slot (raft.md#in-flight)."""
        current.holders += 1
        follower.waiting.append(current)
        self._send_waiting(peer, follower)

    def _send_waiting(self, peer: int, follower: Progress) -> None:
        while follower.waiting and self._has_slot(follower):
            current = follower.waiting.popleft()
            self._send_append(
                peer, follower, current.previous, current.previous_term, current.batches, current.flush, self.commit
            )
            if current.batches:
                self._handing[peer, follower.last_append] = current

    def _send_append(
        self,
        peer: int,
        follower: Progress,
        previous: int,
        previous_term: int,
        batches: tuple[RecordBatch, ...],
        flush: bool,
        commit: int,
        *,
        recovery: bool = False,
    ) -> None:
        follower.previous = previous
        follower.last_append = follower.next_sequence()
        follower.last_sent = batches[-1].last_offset if batches else previous
        follower.unanswered.add(follower.last_append)
        request = AppendEntries(
            self.term, follower.last_append, previous, previous_term, commit, self.visible, flush, batches, recovery
        )
        self._send(peer, request)

    def _forget_waiting(self, follower: Progress) -> None:
        """Do not send what waits for a slot: recovery will read it."""
        while follower.waiting:
            self._let_go(follower.waiting.popleft())

    def _skip_silent(self) -> None:
        """Take back the memory that followers hold who answer nothing, so that they do not hold up the group.

        Source: raft.md#may-dispatch.
        """
        for peer, follower in self.progress.items():
            if self._silent(follower):
                if follower.waiting:
                    self._recover(peer, follower, follower.last_sent, "silent")
                if any(to == peer for to, _ in self._handing):
                    self._effects.append(Disconnect(peer))

    # -- memory ----------------------------------------------------------------------------------------------------

    def _handed_over(self, event: HandedOver) -> None:
        key = event.to, event.message.sequence
        if event.message.term == self.term and key in self._handing:
            self._let_go(self._handing.pop(key))

    def _let_go(self, current: Round) -> None:
        """Count one less who needs the batches of a round; with the last one its memory returns.

        Source: raft.md#units-returned.
        """
        current.holders -= 1
        if current.holders or not current.requests:
            return
        self._release(current)
        busiest = max((len(follower.unanswered) for follower in self.progress.values()), default=0)
        if self.noting:
            memory = {"term": self.term, "reserved": self._budget.reserved}
            place = {"offset": current.batches[0].base_offset, "last_offset": current.end}
            self._effects.append(Note("hand_over", {**memory, **place, "count": busiest}))
        self._enqueue()

    def _release(self, current: Round) -> None:
        self._budget.release(current.requests)
