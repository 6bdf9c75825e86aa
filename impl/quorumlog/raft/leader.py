"""The leader: commit index, visibility, acknowledgements, recovery, barriers; what clients append is in ``rounds``.

A follower that is behind is sent chunks, one at a time, without a flush on each (raft.md#recovery-chunks,
documents.md#raft-recovery-flushing). What a request resolves to is decided by ``resolve_quorum_ack`` from the log and
the commit index, also after this node has stepped down (raft.md#acks).
"""

from __future__ import annotations

from dataclasses import dataclass

from quorumlog.events import (
    BarrierRequested,
    CancelTimer,
    LogRead,
    Note,
    Outcome,
    ReadIndexRequested,
    ReadLog,
    Resolved,
    SetTimer,
)
from quorumlog.quorum import NOTHING
from quorumlog.raft.events import Disconnect, ReadSnapshot, SnapshotRead, Timer
from quorumlog.raft.ghosts import fill_gaps
from quorumlog.raft.members import Members
from quorumlog.raft.messages import AppendReply, Heartbeat, HeartbeatReply, InstallSnapshot, Reply, SnapshotReply
from quorumlog.raft.progress import Progress, Round
from quorumlog.raft.rounds import Rounds
from quorumlog.raft.rules import ACKS_ALL, PENDING, Rules
from quorumlog.raft.rules import SUCCESS as RULE_SUCCESS
from quorumlog.raft.state import Configuration, Restored
from quorumlog.storage.batch import BatchKind, RecordBatch


@dataclass(slots=True)
class _Barrier:
    """Waits for ``target`` to commit and for a quorum to confirm the leader, as a linearizable read has to.

    Sources: raft.md#barrier, raft.md#read-index, raft.md#no-leases.
    """

    request: int
    target: int
    asked: dict[int, int]  # peer -> its sequence when the barrier came


class Leader(Rounds):
    """The sending side of replication.

    ``durable_on``, ``replicated_on``: up to where each node holds this log as far as the leader knows, on disk or at
    all; its own offsets are among them. For another node a single reply showed it; ``replicated_on`` falls again when a
    later reply shows that the node lost what was not on disk.
    """

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules) -> None:
        super().__init__(configuration, restored, rules)
        self.durable_on: dict[int, int] = {}
        self.replicated_on: dict[int, int] = {}
        self._barriers: list[_Barrier] = []
        self._left_at: dict[int, int] = {}  # the last sequences of followers that were removed in this term

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
        self._propose(self.members)
        self._heartbeat_timer_fired()

    def _propose(self, members: Members) -> None:
        """Append a configuration, which is in force from then on."""
        entry = RecordBatch(
            base_offset=self.index.dirty + 1,
            term=self.term,
            kind=BatchKind.CONFIGURATION,
            record_count=1,
            acks=ACKS_ALL,
            payload=members.encode(),
        )
        self._round((entry,), required=True)

    def _members_changed(self) -> None:
        """Begin to send to new members, and send nothing more to those that left.

        Sources: raft.md#joint, raft.md#removed-node.
        """
        if self.role != "leader":
            return
        before = self._configurations[-1][0] - 1
        members = [peer for peer in self.voters.members if peer != self.node]
        for peer in self.progress.keys() - members:
            self._dismiss(peer)
        for peer in members:
            if peer not in self.progress:
                self.progress[peer] = Progress(before, self.now, self._left_at.get(peer, 0))
                self.durable_on[peer] = self.replicated_on[peer] = NOTHING

    def _dismiss(self, peer: int) -> None:
        """Forget a follower; what it was sent and the network has not taken needs no memory any more."""
        follower = self.progress.pop(peer)
        self._left_at[peer] = follower.sequence
        self._forget_waiting(follower)
        del self.durable_on[peer], self.replicated_on[peer]
        left = [key for key in self._handing if key[0] == peer]
        for key in left:
            self._let_go(self._handing.pop(key))
        if left:
            self._effects.append(Disconnect(peer))

    def _stop_leading(self) -> None:
        self._effects.append(CancelTimer(Timer.HEARTBEAT))
        self.progress = {}
        self._left_at = {}
        self._forget_appends()
        for barrier in self._barriers:
            self._refuse(barrier.request)
        self._barriers.clear()

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
            if wait.last_offset < self.index.start - 1 or self.index.outside_gaps(wait.last_offset) < wait.last_offset:
                # This log was restarted behind it, or has a gap there: whether the entry was committed is not known.
                self._refuse(wait.request, Outcome.UNKNOWN)
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

    # -- replies ---------------------------------------------------------------------------------------------------

    def _current(self, sender: int, reply: Reply) -> Progress | None:
        """Take the offsets out of a reply of this term that was not overtaken; None for all others."""
        follower = self.progress.get(sender)
        if reply.term > self.term:
            if sender in self.voters.members:
                self._follow(reply.term)
            return None
        if follower is None or reply.term != self.term or self.role != "leader":
            return None
        self._note_session(sender, reply, follower)
        follower.heard = self.now
        if not isinstance(reply, HeartbeatReply):
            follower.unanswered.discard(reply.sequence)
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
        follower.may_recover = reply.may_recover
        if reply.success:
            follower.match = max(follower.match, reply.match)
        follower.match = min(follower.match, reply.dirty)
        return follower

    def _note_session(self, sender: int, reply: Reply, follower: Progress) -> None:
        """Note as which member a follower answers, where members have sessions (raft.md#replies-of-members)."""
        if self.members.sessions and reply.session != follower.session:
            follower.session = reply.session
            self._effects.append(Note("counted", {"term": self.term, "peer": sender, "session": reply.session}))

    def _append_replied(self, sender: int, reply: AppendReply) -> None:
        follower = self._current(sender, reply)
        if follower is None:
            return
        if reply.sequence >= follower.last_append:
            follower.requested = False
            follower.unanswered.clear()
            if not reply.success:
                self._step_back(sender, follower)
            elif reply.match < follower.last_sent:  # it keeps what it has committed (raft.md#cut-below-commit)
                self._recover(sender, follower, reply.match)
        elif follower.recovering and reply.success:
            follower.requested = False
        if follower.recovering:
            self._continue_recovery(sender, follower)
        self._send_waiting(sender, follower)
        self._replicated()

    def _heartbeat_replied(self, sender: int, reply: HeartbeatReply) -> None:
        follower = self._current(sender, reply)
        if follower is None:
            return
        # A heartbeat sent after the last append has been answered, so that append has arrived or is lost.
        newest = reply.sequence > follower.last_append
        if newest and (reply.dirty < follower.last_sent or not reply.success) and not follower.reading:
            resume = self._common_end(min(reply.dirty, follower.last_sent))
            if follower.recovering:
                # Ask again where the last request asked; offsets already found to differ need not be tried twice.
                resume = min(resume, max(follower.previous, follower.match))
            if resume == self.index.dirty >= self.index.start:
                # The logs end at one offset in different terms: there would be nothing behind it to send.
                resume = self.index.batch_base(resume) - 1
            self._recover(sender, follower, resume)
        else:
            if newest and reply.flushed >= follower.last_sent:
                follower.unanswered.clear()  # it has nothing left to wait for: its answers are lost
            if follower.recovering:
                self._continue_recovery(sender, follower)
            self._send_waiting(sender, follower)
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

    def _recover(self, peer: int, follower: Progress, resume: int, reason: str = "answer") -> None:
        """Start, or restart, sending what lies behind ``resume``, for a reason that the history tells."""
        if not follower.recovering:
            said = {"peer": peer, "offset": resume, "count": len(follower.unanswered), "reason": reason}
            self._effects.append(Note("read_back", {"term": self.term, **said}))
        follower.recovering = True
        follower.requested = False
        follower.unanswered.clear()
        self._forget_waiting(follower)
        follower.last_sent = resume
        self._continue_recovery(peer, follower)

    def _continue_recovery(self, peer: int, follower: Progress) -> None:
        """Do the next step of a recovery; only one read or request is under way at a time."""
        if follower.reading or follower.requested or not self._has_slot(follower) or not follower.may_recover:
            return
        if follower.match == self.index.dirty and follower.dirty >= self.index.dirty:
            follower.recovering = False
            follower.last_sent = self.index.dirty
            return
        if self.rules.recovery_waits(follower.last_sent, self.index.dirty):
            return
        if follower.last_sent < self.index.start - 1:
            self._read_snapshot(follower)
            return
        follower.last_sent = self.index.outside_gaps(follower.last_sent)
        follower.commit_sample = self.commit
        follower.reading = self._next_ticket()
        self._effects.append(ReadLog(follower.reading, follower.last_sent + 1, self.configuration.recovery_chunk_bytes))

    def _log_read(self, event: LogRead) -> None:
        found = self._reading(event.ticket)
        if found is None:
            return
        peer, follower = found
        previous = follower.last_sent
        if not self._follow_on(previous, event.batches) or self.index.outside_gaps(previous) < previous:
            self._continue_recovery(peer, follower)
            return
        batches = self._filled(previous + 1, event.batches)
        end = batches[-1].last_offset
        size = sum(batch.size_bytes for batch in batches)
        follower.unflushed_bytes += size
        flush = self.rules.recovery_flush(
            end >= self.index.dirty,
            self._last_required or self.durable_on[peer] < self.last_quorum_write,
            follower.unflushed_bytes,
            self.configuration.recovery_flush_bytes,
        )
        if flush:
            follower.unflushed_bytes = 0
        commit = self.rules.recovery_commit(end, follower.commit_sample, self.commit)
        follower.requested = True
        self._send_append(peer, follower, previous, self.index.term(previous), batches, flush, commit, recovery=True)

    def _follow_on(self, previous: int, batches: tuple[RecordBatch, ...]) -> bool:
        """Tell whether what was read begins where what is to be sent now begins, or behind a gap of this log there.

        It begins further on if the follower has fallen back meanwhile (ghost-batches.md#fill-gaps).
        """
        return bool(batches) and batches[0].base_offset == self.index.behind_gap(previous + 1)

    def _filled(self, expected: int, batches: tuple[RecordBatch, ...]) -> tuple[RecordBatch, ...]:
        """A chunk that begins at ``expected``, with ghosts in its gaps (ghost-batches.md#fill-gaps)."""
        return fill_gaps(expected, batches, self.configuration.ghost_offsets)

    def _reading(self, ticket: int) -> tuple[int, Progress] | None:
        """The follower for which the read with this ticket was; it may be sent what was read, or read for again."""
        found = next((item for item in self.progress.items() if item[1].reading == ticket), None)
        if found is not None:
            found[1].reading = 0
        return found

    # -- snapshots -------------------------------------------------------------------------------------------------

    def _read_snapshot(self, follower: Progress) -> None:
        """What the follower needs next was given up: it is sent this log's snapshot (raft.md#snapshot-transfer)."""
        follower.reading = self._next_ticket()
        most = self.configuration.snapshot_chunk_bytes
        self._effects.append(ReadSnapshot(follower.reading, self.index.start - 1, follower.position, most))

    def _snapshot_read(self, event: SnapshotRead) -> None:
        found = self._reading(event.ticket)
        if found is None:
            return
        peer, follower = found
        if event.last != self.index.start - 1 or follower.last_sent >= event.last:
            follower.position = 0
            return  # it is gone: the next heartbeat shows what the follower needs now
        follower.requested = True
        follower.last_append = follower.next_sequence()
        part = event.position, event.data, event.done
        self._send(peer, InstallSnapshot(self.term, follower.last_append, event.last, *part))

    def _snapshot_replied(self, sender: int, reply: SnapshotReply) -> None:
        follower = self._current(sender, reply)
        if follower is None:
            return
        if reply.sequence >= follower.last_append:
            follower.position = reply.position if reply.last == self.index.start - 1 else 0
            self._recover(sender, follower, reply.match if reply.success else follower.last_sent)
        self._replicated()

    # -- heartbeats ------------------------------------------------------------------------------------------------

    def _heartbeat_timer_fired(self) -> None:
        if self.role != "leader":
            return
        silence = {peer: self.now - follower.heard for peer, follower in self.progress.items()}
        if not self.rules.keeps_office(self.voters, {self.node: 0} | silence, self.configuration.election_timeout):
            self._follow(self.term)
            return
        self._effects.append(SetTimer(Timer.HEARTBEAT, self.configuration.heartbeat_interval))
        self._skip_silent()
        self._send_heartbeats()

    def _send_heartbeats(self) -> None:
        for peer, follower in self.progress.items():
            self._send_heartbeat(peer, follower)

    def _send_heartbeat(self, peer: int, follower: Progress) -> None:
        """Send a full one; what waits for a slot it cannot have: it is asked for what it was sent.

        Sources: raft.md#full-heartbeat, ghost-batches.md#prev-outside-gaps.
        """
        end = self.index.outside_gaps(follower.last_sent) if follower.waiting else self.index.dirty
        sequence = follower.next_sequence()
        self._send(peer, Heartbeat(self.term, sequence, end, self.index.term(end), self.commit, self.visible))

    # -- linearizable barrier and read index -------------------------------------------------------------------------

    def _barrier_requested(self, event: BarrierRequested) -> None:
        if not self.serving:
            self._refuse(event.request)
            return
        dirty = self.index.dirty
        self._last_required = True
        self._barriers.append(self._barrier(event.request, dirty))
        for peer, follower in self.progress.items():
            if not follower.recovering and follower.end == dirty:
                self._dispatch(peer, follower, Round(dirty, self.index.term(dirty), (), flush=True))
        self._require_flush(dirty)
        self._check_barriers()

    def _read_index_requested(self, event: ReadIndexRequested) -> None:
        if not self.serving:
            self._refuse(event.request)
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
            # Who became a member after the barrier came, or once more, has been asked after it.
            confirmed = [peer for peer, each in self.progress.items() if each.last_reply > barrier.asked.get(peer, 0)]
            if self.commit >= barrier.target and self.rules.leadership_confirmed(self.voters, (self.node, *confirmed)):
                self._effects.append(
                    Resolved(barrier.request, Outcome.SUCCESS, barrier.target, barrier.target, self.term)
                )
            else:
                still.append(barrier)
        self._barriers = still
