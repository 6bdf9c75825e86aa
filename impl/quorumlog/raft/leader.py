"""The leader: one replication path for acks -1, 1 and 0, commit index, visibility, acknowledgements, recovery.

A round drains what was enqueued, writes the log once, builds the append_entries requests from the same batches and
flushes in parallel with them (raft.md#rounds, raft.md#enqueue-order, documents.md#raft-simplification-approach). A
follower that is behind is sent chunks, one at a time, without a flush on each (raft.md#recovery-chunks,
documents.md#raft-recovery-flushing). What a request resolves to is decided by ``resolve_quorum_ack`` from the log and
the commit index, also after this node has stepped down (raft.md#acks). Memory units and more groups a node will join at
``_drain``; membership at ``Progress``.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorumlog.quorum import NOTHING
from quorumlog.raft.events import (
    Accepted,
    AppendRequested,
    BarrierRequested,
    CancelTimer,
    LogRead,
    Outcome,
    ReadIndexRequested,
    ReadLog,
    Resolved,
    SetTimer,
    Timer,
)
from quorumlog.raft.follower import Follower
from quorumlog.raft.messages import AppendEntries, AppendReply, Heartbeat, HeartbeatReply, StartAt
from quorumlog.raft.progress import Progress
from quorumlog.raft.rules import ACKS_ALL, PENDING, Rules
from quorumlog.raft.rules import SUCCESS as RULE_SUCCESS
from quorumlog.raft.state import Configuration, Restored
from quorumlog.storage.batch import BatchKind, RecordBatch


@dataclass(frozen=True, slots=True)
class _Pending:
    """An acks=all append that waits: its offsets and the term it was written in."""

    request: int
    offset: int
    last_offset: int
    term: int
    cached: bool


@dataclass(slots=True)
class _Barrier:
    """Waits for ``target`` to commit and for a quorum to confirm the leader, as a linearizable read has to.

    Sources: raft.md#barrier, raft.md#read-index, raft.md#no-leases.
    """

    request: int
    target: int
    asked: dict[int, int]  # peer -> its sequence when the barrier came


class Leader(Follower):
    """The sending side of replication.

    ``durable_on``, ``replicated_on``: up to where each node holds this log as far as the leader knows, on disk or at
    all; its own offsets are among them. For another node a single reply showed it; ``replicated_on`` falls again when a
    later reply shows that the node lost what was not on disk.
    """

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules) -> None:
        super().__init__(configuration, restored, rules)
        self.progress: dict[int, Progress] = {}
        self.durable_on: dict[int, int] = {}
        self.replicated_on: dict[int, int] = {}
        self.last_quorum_write = NOTHING  # LQ: raft.md#last-quorum
        self._last_required = False
        self._queue: list[AppendRequested] = []
        self._draining = False
        self._pending: list[_Pending] = []
        self._barriers: list[_Barrier] = []

    # -- taking office and leaving it ------------------------------------------------------------------------------

    def _become_leader(self) -> None:
        """Begin the term with a configuration batch; nothing is served before an entry of this term is committed.

        Source: raft.md#first-entry-of-term.
        """
        self.progress = {
            peer: Progress(self.index.dirty, self.now) for peer in self.voters.members if peer != self.node
        }
        self.durable_on = dict.fromkeys(self.progress, NOTHING)
        self.replicated_on = dict.fromkeys(self.progress, NOTHING)
        self.last_quorum_write = self.flushed
        self._effects.append(CancelTimer(Timer.ELECTION))
        configuration = RecordBatch(
            base_offset=self.index.dirty + 1,
            term=self.term,
            kind=BatchKind.CONFIGURATION,
            record_count=1,
            acks=ACKS_ALL,
            payload=str(self.voters).encode(),
        )
        self._round((configuration,), required=True)
        self._heartbeat_timer_fired()

    def _stop_leading(self) -> None:
        self._effects.append(CancelTimer(Timer.HEARTBEAT))
        self.progress = {}
        for item in self._queue:
            self._effects.append(Resolved(item.request, Outcome.NOT_LEADER, -1, -1, -1))
        for barrier in self._barriers:
            self._effects.append(Resolved(barrier.request, Outcome.NOT_LEADER, -1, -1, -1))
        self._queue.clear()
        self._barriers.clear()

    @property
    def serving(self) -> bool:
        """Whether this node leads and an entry of its own term is committed."""
        return self.role == "leader" and self.rules.may_serve(self.index.term(self.commit), self.term)

    # -- rounds ----------------------------------------------------------------------------------------------------

    def _append_requested(self, event: AppendRequested) -> None:
        if not self.serving:
            self._effects.append(Resolved(event.request, Outcome.NOT_LEADER, -1, -1, -1))
            return
        if event.expected_term not in (-1, self.term):
            self._effects.append(Resolved(event.request, Outcome.TERM_MISMATCH, -1, -1, -1))
            return
        self._queue.append(event)
        if not self._draining:
            self._draining = True
            self._effects.append(SetTimer(Timer.DRAIN, 0))

    def _drain(self) -> None:
        """Make a round of what is enqueued, up to ``round_bytes``; order of enqueueing is order in the log."""
        self._draining = False
        if not self._queue:
            return
        items, size = 0, 0
        for item in self._queue:
            if items and size + item.batch.size_bytes > self.configuration.round_bytes:
                break
            items, size = items + 1, size + item.batch.size_bytes
        taken, self._queue = self._queue[:items], self._queue[items:]
        caching = self.configuration.write_caching
        required = False
        batches, at_once = [], []
        offset = self.index.dirty + 1
        for item in taken:
            batch = item.batch.with_position(offset, self.term)
            offset = batch.last_offset + 1
            batches.append(batch)
            required = required or self.rules.flush_required(batch.acks, caching, item.force_flush)
            self._effects.append(Accepted(item.request))
            if batch.acks == ACKS_ALL:
                self._pending.append(
                    _Pending(
                        item.request,
                        batch.base_offset,
                        batch.last_offset,
                        self.term,
                        caching and not item.force_flush,
                    )
                )
            else:
                at_once.append((item.request, batch))
        self._round(tuple(batches), required=required)
        for request, batch in at_once:
            self._answer(request, Outcome.SUCCESS, batch.base_offset, batch.last_offset, batch.term, batch.acks)
        if self._queue:
            self._draining = True
            self._effects.append(SetTimer(Timer.DRAIN, 0))

    def _round(self, batches: tuple[RecordBatch, ...], *, required: bool) -> None:
        """Write the leader's log once, hand the same batches to the followers, flush in parallel if it is required.

        Appends with acks 0 or 1 are answered by the caller right after (raft.md#relaxed-acks).
        """
        previous = self.index.dirty
        previous_term = self.index.term(previous)
        self._append(batches)
        if required:
            self.last_quorum_write = self.index.dirty
        self._last_required = required
        self.visibility_upper_bound = self.rules.visibility_on_append(
            self.visibility_upper_bound, self.commit, self.last_quorum_write, self.index.dirty
        )
        for peer, follower in self.progress.items():
            if (
                follower.last_sent == previous
                and follower.in_flight < self.configuration.max_in_flight
                and self.rules.may_dispatch(follower.recovering, follower.last_sent, previous)
            ):
                self._send_append(peer, follower, previous, previous_term, batches, self.commit, flush=required)
            elif not follower.recovering:
                self._recover(peer, follower, follower.last_sent)
        if required:
            self._require_flush(self.index.dirty)
        else:
            self._debounce_flush()
        self._replicated()

    def _send_append(
        self,
        peer: int,
        follower: Progress,
        previous: int,
        previous_term: int,
        batches: tuple[RecordBatch, ...],
        commit: int,
        *,
        flush: bool,
    ) -> None:
        follower.previous = previous
        follower.last_append = follower.next_sequence()
        follower.last_sent = batches[-1].last_offset if batches else previous
        follower.in_flight += 1
        request = AppendEntries(
            self.term, follower.last_append, previous, previous_term, commit, self.visible, flush, batches
        )
        self._send(peer, request)

    # -- what is replicated ----------------------------------------------------------------------------------------

    def _replicated(self) -> None:
        """Recompute MRI, commit index and what is visible; then answer the requests and barriers that this decides."""
        rules = self.rules
        self.durable_on[self.node] = self.flushed
        self.replicated_on[self.node] = self.index.dirty
        majority = rules.majority_replicated(self.voters, self.replicated_on, self.majority_replicated)
        if majority != self.majority_replicated and rules.may_count_replicated(self.index.term(majority), self.term):
            self.majority_replicated = majority
        candidate = rules.commit_candidate(self.voters, self.durable_on, self.flushed)
        if rules.may_commit(candidate, self.commit, self.index.term(candidate), self.term):
            self._set_commit(candidate)
            self.visibility_upper_bound = rules.visibility_on_commit(
                self.visibility_upper_bound, self.majority_replicated, self.commit, self.last_quorum_write
            )
            self.majority_replicated = max(self.majority_replicated, self.commit)
        self._show_visible()
        self._resolve()
        self._check_barriers()

    def _resolve(self) -> None:
        """Answer the acks=all requests whose fate is known, as leader or after it."""
        if not self._pending:
            return
        term_at_commit = self.index.term(self.commit)
        still = []
        for at, wait in enumerate(self._pending):
            if wait.last_offset < self.index.start - 1:
                # This log was restarted behind it: whether the entry was committed is no longer known here.
                self._effects.append(Resolved(wait.request, Outcome.UNKNOWN, -1, -1, -1))
                continue
            here = self.index.term(wait.last_offset)
            if wait.cached:
                outcome = self.rules.resolve_write_cached(
                    wait.last_offset, wait.term, here, self.majority_replicated, self.commit, term_at_commit
                )
            else:
                outcome = self.rules.resolve_quorum_ack(wait.last_offset, wait.term, here, self.commit, term_at_commit)
            if outcome == PENDING:
                still.append(wait)
                if wait.term == self.term and self.role == "leader":
                    still.extend(self._pending[at + 1 :])  # later offsets of the same leader wait too
                    break
            else:
                result = Outcome.SUCCESS if outcome == RULE_SUCCESS else Outcome.TRUNCATED
                self._answer(wait.request, result, wait.offset, wait.last_offset, wait.term, ACKS_ALL)
        self._pending = still

    def _answer(self, request: int, outcome: Outcome, offset: int, last: int, term: int, acks: int) -> None:
        self.note("acked", offset=offset, last_offset=last, entry_term=term, acks=acks, reason=outcome.value)
        self._effects.append(Resolved(request, outcome, offset, last, term))

    # -- replies ---------------------------------------------------------------------------------------------------

    def _current(self, sender: int, reply: AppendReply | HeartbeatReply) -> Progress | None:
        """Take the offsets out of a reply of this term that was not overtaken; None for all others."""
        if reply.term > self.term:
            self._follow(reply.term)
            return None
        follower = self.progress.get(sender)
        if follower is None or reply.term != self.term or self.role != "leader":
            return None
        follower.heard = self.now
        if isinstance(reply, AppendReply):
            follower.in_flight = max(0, follower.in_flight - 1)
        # All from one reply: the offsets of one and the match of another may belong to two different logs.
        # What is durable and equal stays so for the whole term, so an overtaken reply counts for that as well.
        durable = max(self.durable_on[sender], self.rules.replicated_flushed(reply.dirty, reply.flushed, reply.match))
        known = max(self.replicated_on[sender], durable)
        self.durable_on[sender] = durable
        self.replicated_on[sender] = known
        if not self.rules.reply_is_current(reply.sequence, follower.last_reply):
            self._replicated()
            return None
        replicated = self.rules.replicated_dirty(reply.dirty, reply.flushed, reply.match)
        # A follower that lost power may have less than it reported before; only what is durable stays.
        self.replicated_on[sender] = max(durable, min(max(known, replicated), reply.dirty))
        follower.last_reply = reply.sequence
        follower.dirty = reply.dirty
        follower.flushed = reply.flushed
        if reply.success:
            follower.match = max(follower.match, reply.match)
        follower.match = min(follower.match, reply.dirty)
        return follower

    def _append_replied(self, sender: int, reply: AppendReply) -> None:
        follower = self._current(sender, reply)
        if follower is None:
            return
        if reply.sequence >= follower.last_append:
            follower.requested = False
            follower.in_flight = 0
            if not reply.success:
                self._step_back(sender, follower)
            elif reply.match < follower.last_sent:  # it keeps what it has committed (raft.md#cut-below-commit)
                self._recover(sender, follower, reply.match)
        elif follower.recovering and reply.success:
            follower.requested = False
        if follower.recovering:
            self._continue_recovery(sender, follower)
        self._replicated()

    def _heartbeat_replied(self, sender: int, reply: HeartbeatReply) -> None:
        follower = self._current(sender, reply)
        if follower is None:
            return
        # A heartbeat sent after the last append has been answered, so that append has arrived or is lost.
        lost = reply.sequence > follower.last_append and reply.dirty < follower.last_sent
        differs = not reply.success and reply.sequence > follower.last_append
        if (lost or differs) and not follower.reading:
            resume = self._common_end(min(reply.dirty, follower.last_sent))
            if follower.recovering:
                # Ask again where the last request asked; offsets already found to differ need not be tried twice.
                resume = min(resume, max(follower.previous, follower.match))
            if resume == self.index.dirty >= self.index.start:
                # The logs end at one offset in different terms: there would be nothing behind it to send.
                resume = self.index.batch_base(resume) - 1
            self._recover(sender, follower, resume)
        elif follower.recovering:
            self._continue_recovery(sender, follower)
        self._replicated()

    # -- recovery --------------------------------------------------------------------------------------------------

    def _common_end(self, dirty: int) -> int:
        """Where the logs may agree at most, given where the follower's log ends; below ``start - 1`` if it ends before
        this log begins."""
        return self.index.batch_end_at_most(dirty) if dirty >= self.index.start - 1 else self.index.start - 2

    def _step_back(self, peer: int, follower: Progress) -> None:
        """A consistency check failed: try one batch earlier, or where the follower's log ends if that is earlier.

        Source: raft.md#step-back.
        """
        if follower.dirty < follower.previous:
            resume = self._common_end(follower.dirty)
        elif follower.previous >= self.index.start:
            resume = self.index.batch_base(follower.previous) - 1
        else:
            resume = self.index.start - 2  # nothing in common: the follower has to begin where this log begins
        self._recover(peer, follower, max(resume, follower.match))

    def _recover(self, peer: int, follower: Progress, resume: int) -> None:
        """Start, or restart, sending what lies behind ``resume``."""
        follower.recovering = True
        follower.requested = False
        follower.in_flight = 0
        follower.last_sent = resume
        self._continue_recovery(peer, follower)

    def _continue_recovery(self, peer: int, follower: Progress) -> None:
        """Do the next step of a recovery; only one read or request is under way at a time."""
        if follower.reading or follower.requested:
            return
        if follower.match == self.index.dirty and follower.dirty >= self.index.dirty:
            follower.recovering = False
            follower.last_sent = self.index.dirty
            return
        if self.rules.recovery_waits(follower.last_sent, self.index.dirty):
            return
        if follower.last_sent < self.index.start - 1:
            self._send_start(peer, follower)
            return
        follower.commit_sample = self.commit
        follower.reading = self._next_ticket()
        self._effects.append(ReadLog(follower.reading, follower.last_sent + 1, self.configuration.recovery_chunk_bytes))

    def _send_start(self, peer: int, follower: Progress) -> None:
        """What the follower needs next was trimmed: send it where this log begins (raft.md#log-begun-anew)."""
        follower.requested = True
        follower.last_append = follower.next_sequence()
        follower.previous = follower.last_sent = self.index.start - 1
        start = StartAt(self.term, follower.last_append, self.index.start, self.index.start_term)
        self._send(peer, start)

    def _log_read(self, event: LogRead) -> None:
        found = next((item for item in self.progress.items() if item[1].reading == event.ticket), None)
        if found is None or self.role != "leader":
            return
        peer, follower = found
        follower.reading = 0
        if not event.batches or event.batches[0].base_offset != follower.last_sent + 1:
            self._continue_recovery(peer, follower)
            return
        end = event.batches[-1].last_offset
        size = sum(batch.size_bytes for batch in event.batches)
        follower.unflushed_bytes += size
        flush = self.rules.recovery_flush(
            end >= self.index.dirty,
            self._last_required,
            follower.unflushed_bytes,
            self.configuration.recovery_flush_bytes,
        )
        if flush:
            follower.unflushed_bytes = 0
        commit = self.rules.recovery_commit(end, follower.commit_sample, self.commit)
        previous = follower.last_sent
        follower.requested = True
        self._send_append(peer, follower, previous, self.index.term(previous), event.batches, commit, flush=flush)

    # -- heartbeats ------------------------------------------------------------------------------------------------

    def _heartbeat_timer_fired(self) -> None:
        if self.role != "leader":
            return
        silence = {peer: self.now - follower.heard for peer, follower in self.progress.items()}
        if not self.rules.keeps_office(self.voters, {self.node: 0} | silence, self.configuration.election_timeout):
            self._follow(self.term)
            return
        self._effects.append(SetTimer(Timer.HEARTBEAT, self.configuration.heartbeat_interval))
        self._send_heartbeats()

    def _send_heartbeats(self) -> None:
        dirty = self.index.dirty
        for peer, follower in self.progress.items():
            sequence = follower.next_sequence()
            self._send(
                peer,
                Heartbeat(self.term, sequence, dirty, self.index.term(dirty), self.commit, self.visible),
            )

    # -- linearizable barrier and read index -------------------------------------------------------------------------

    def _barrier_requested(self, event: BarrierRequested) -> None:
        if not self.serving:
            self._effects.append(Resolved(event.request, Outcome.NOT_LEADER, -1, -1, -1))
            return
        dirty = self.index.dirty
        self._last_required = True
        self._barriers.append(self._barrier(event.request, dirty))
        for peer, follower in self.progress.items():
            if not follower.recovering and follower.last_sent == dirty:
                self._send_append(peer, follower, dirty, self.index.term(dirty), (), self.commit, flush=True)
        self._require_flush(dirty)
        self._check_barriers()

    def _read_index_requested(self, event: ReadIndexRequested) -> None:
        if not self.serving:
            self._effects.append(Resolved(event.request, Outcome.NOT_LEADER, -1, -1, -1))
            return
        target = self.rules.read_index(self.commit, self.majority_replicated, self.configuration.write_caching)
        self._barriers.append(self._barrier(event.request, target))
        self._require_flush(target)
        self._send_heartbeats()
        self._check_barriers()

    def _barrier(self, request: int, target: int) -> _Barrier:
        return _Barrier(request, target, {peer: follower.sequence for peer, follower in self.progress.items()})

    def _check_barriers(self) -> None:
        if not self._barriers or self.role != "leader":
            return
        still = []
        for barrier in self._barriers:
            confirmed = [peer for peer, asked in barrier.asked.items() if self.progress[peer].last_reply > asked]
            if self.commit >= barrier.target and self.rules.leadership_confirmed(self.voters, (self.node, *confirmed)):
                self._effects.append(
                    Resolved(barrier.request, Outcome.SUCCESS, barrier.target, barrier.target, self.term)
                )
            else:
                still.append(barrier)
        self._barriers = still
