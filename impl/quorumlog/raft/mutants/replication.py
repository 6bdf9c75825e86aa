"""Mutants of replication: what replies say and count for, truncation, recovery, restart."""

from __future__ import annotations

from bisect import bisect
from dataclasses import replace

from msgspec import structs

from quorumlog.protocol import Mutant
from quorumlog.quorum import NOTHING, Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.messages import AnyMessage, AppendEntries, AppendReply, Heartbeat, HeartbeatReply, Reply
from quorumlog.raft.mutants.parts import with_rules
from quorumlog.raft.progress import Progress
from quorumlog.raft.rules import REFERENCE, Rules
from quorumlog.raft.state import Configuration, Restored
from quorumlog.storage.batch import RecordBatch


def _half_commits(voters: Voters, durable: dict[int, int], own_flushed: int) -> int:
    nodes = voters.current
    return min(sorted(durable.get(node, -1) for node in nodes)[len(nodes) // 2], own_flushed)


class CommitCountedFirst(RaftCore):
    """A leader counts for MRI what it has heard after it has counted that for its commit index."""

    def _replicated(self) -> None:
        heard, self.replicated_on = self.replicated_on, dict.fromkeys(self.replicated_on, NOTHING)
        super()._replicated()
        self.replicated_on = heard
        super()._replicated()


class HeartbeatAcksDirty(RaftCore):
    """The reply to a heartbeat reports what is dirty as flushed."""

    def _send(self, to: int, message: AnyMessage) -> None:
        if isinstance(message, HeartbeatReply):
            message = structs.replace(message, flushed=message.dirty)
        super()._send(to, message)


class ReplyAcksDirty(RaftCore):
    """The reply to append_entries reports what is dirty as flushed."""

    def _send(self, to: int, message: AnyMessage) -> None:
        if isinstance(message, AppendReply):
            message = structs.replace(message, flushed=message.dirty)
        super()._send(to, message)


class FailedCheckMatches(RaftCore):
    """A reply that refuses a request names the follower's end as its match."""

    def _send(self, to: int, message: AnyMessage) -> None:
        if isinstance(message, AppendReply) and not message.success:
            message = structs.replace(message, match=message.dirty)
        super()._send(to, message)


class MatchFromHeartbeat(RaftCore):
    """A heartbeat that succeeded proves the follower's log up to its end; every other one names what is committed."""

    def _send_heartbeat(self, peer: int, follower: Progress) -> None:
        super()._send_heartbeat(peer, follower)
        end, sequence = self.commit, follower.next_sequence()
        self._send(peer, Heartbeat(self.term, sequence, end, self.index.term(end), end, self.visible))

    def _heartbeat_replied(self, sender: int, reply: HeartbeatReply) -> None:
        super()._heartbeat_replied(sender, structs.replace(reply, match=reply.dirty) if reply.success else reply)


class LateRepliesCount(RaftCore):
    """A reply of an earlier term counts."""

    def _current(self, sender: int, reply: Reply) -> Progress | None:
        return super()._current(sender, structs.replace(reply, term=max(reply.term, self.term)))


class RepliesCombined(RaftCore):
    """Flushed is the largest of any reply in this term, match the largest of any reply."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules = REFERENCE) -> None:
        super().__init__(configuration, restored, rules)
        self._largest: dict[tuple[int, int], tuple[int, int]] = {}

    def _current(self, sender: int, reply: Reply) -> Progress | None:
        flushed, match = self._largest.get((reply.term, sender), (-1, -1))
        flushed, match = max(flushed, reply.flushed), max(match, reply.match)
        self._largest[reply.term, sender] = flushed, match
        return super()._current(sender, structs.replace(reply, flushed=flushed, match=match))


class ReplicatedNeverFalls(RaftCore):
    """A follower that lost what was not flushed still counts with it."""

    def _current(self, sender: int, reply: Reply) -> Progress | None:
        before = self.replicated_on.get(sender, -1)
        term = self.term
        follower = super()._current(sender, reply)
        if self.term == term and sender in self.replicated_on:
            self.replicated_on[sender] = max(before, self.replicated_on[sender])
        return follower


class DurableSurvivesElection(RaftCore):
    """What was durable on followers when a node led before counts when it leads again."""

    def _become_leader(self) -> None:
        known = self.durable_on
        super()._become_leader()
        self.durable_on |= {peer: durable for peer, durable in known.items() if peer in self.progress}


class HoldsByOffset(RaftCore):
    """A follower whose log reaches the previous offset takes its entry there for the leader's."""

    def _holds(self, offset: int, term: int) -> bool:
        return offset <= self.index.dirty


class HeartbeatTruncates(RaftCore):
    """A follower removes what lies behind the leader's end when a heartbeat names it."""

    def _heartbeat(self, sender: int, request: Heartbeat) -> None:
        current = request.term >= self.term and self.role != "leader"
        if current and self._holds(request.previous, request.previous_term) and request.previous < self.index.dirty:
            self._truncate(max(request.previous + 1, self.index.start))
        super()._heartbeat(sender, request)


class CatchUpLivelock(RaftCore):
    """Recovery never begins before the end of the follower's log."""

    def _recover(self, peer: int, follower: Progress, resume: int, reason: str = "answer") -> None:
        super()._recover(peer, follower, max(resume, self.index.batch_end_at_most(follower.dirty)), reason)


class CutBelowCommitFails(RaftCore):
    """A follower refuses what would cut at or below what it has committed."""

    def _take(self, request: AppendEntries) -> int | None:
        known = self._known_committed()
        missing = request.batches[self._skipped(request.batches, known) :]
        return None if missing and missing[0].base_offset <= known else super()._take(request)


class OffsetsAfterTruncation(RaftCore):
    """What a log knows of the terms of its offsets is not cut with it: it comes up again where it is written anew."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules = REFERENCE) -> None:
        super().__init__(configuration, restored, rules)
        self._cut: dict[int, int] = {}

    def _truncate(self, offset: int) -> None:
        known = dict(zip(self.index._run_starts, self.index._run_terms, strict=True))
        super()._truncate(offset)
        self._cut |= {start: term for start, term in known.items() if start > self.index.dirty}

    def _append(self, batches: tuple[RecordBatch, ...]) -> None:
        super()._append(batches)
        starts, terms = self.index._run_starts, self.index._run_terms
        for start in sorted(offset for offset in self._cut if offset <= self.index.dirty):
            term, at = self._cut.pop(start), bisect(starts, start)
            if start not in starts and term < self.index.term(start):
                starts.insert(at, start)
                terms.insert(at, term)


class SlotKept(RaftCore):
    """A follower that had a slot for its recovery never gives it back."""

    def _heartbeat(self, sender: int, request: Heartbeat) -> None:
        taken = {*self.slots._taken}
        super()._heartbeat(sender, request)
        self.slots._taken |= taken

    def _know_leader(self, leader: int) -> None:
        self.leader = leader


class StartsWithoutSlot(RaftCore):
    """A leader recovers a follower that has no slot."""

    def _continue_recovery(self, peer: int, follower: Progress) -> None:
        follower.may_recover = True
        super()._continue_recovery(peer, follower)


class RefusesToTruncateVisible(RaftCore):
    """A follower refuses what would remove entries that it has shown to readers."""

    def _append_entries(self, sender: int, request: AppendEntries) -> None:
        shown = [batch for batch in request.batches if batch.base_offset <= min(self.visible, self.index.dirty)]
        differs = any(self.index.term(batch.last_offset) != batch.term for batch in shown)
        if differs and self._accept_leader(sender, request.term):
            self._reply_append(sender, request, None)
        else:
            super()._append_entries(sender, request)


class TruncationKeepsVisible(RaftCore):
    """Truncation does not lower the bounds of what is visible."""

    def _truncate(self, offset: int) -> None:
        shown = self.majority_replicated, self.visibility_upper_bound, self.visible
        super()._truncate(offset)
        self.majority_replicated, self.visibility_upper_bound, self.visible = shown


class BoundSurvivesTruncation(RaftCore):
    """Truncation does not lower the visibility upper bound."""

    def _truncate(self, offset: int) -> None:
        bound = self.visibility_upper_bound
        super()._truncate(offset)
        self.visibility_upper_bound = bound


class MajoritySurvivesTruncation(RaftCore):
    """Truncation does not lower the MRI."""

    def _truncate(self, offset: int) -> None:
        majority = self.majority_replicated
        super()._truncate(offset)
        self.majority_replicated = majority


class TruncationShowsOneMore(RaftCore):
    """After a truncation one more is visible than is left."""

    def _truncate(self, offset: int) -> None:
        shown = self.visible
        super()._truncate(offset)
        self.visible = min(shown, self.visible + 1)


class TruncationKeepsFlushed(RaftCore):
    """Truncation does not lower the flushed offset."""

    def _truncate(self, offset: int) -> None:
        flushed = self.flushed
        super()._truncate(offset)
        self.flushed = flushed


class RestartCommitsLog(RaftCore):
    """A node that starts takes its whole log for committed."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules = REFERENCE) -> None:
        super().__init__(configuration, restored, rules)
        self.commit = self.majority_replicated = self.visibility_upper_bound = self.visible = self.index.dirty


class RestartShowsLog(RaftCore):
    """A node that starts shows its whole log to readers."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules = REFERENCE) -> None:
        super().__init__(configuration, restored, rules)
        self.majority_replicated = self.visibility_upper_bound = self.visible = self.index.dirty


class FlushCoversLater(RaftCore):
    """A finished flush counts for all that is dirty by then."""

    def _flush_done(self, ticket: int) -> None:
        flush = self._flushes.get(ticket)
        if flush is not None:
            self._flushes[ticket] = replace(flush, dirty=self.index.dirty)
        super()._flush_done(ticket)


class AnyFlushIsTheNewest(RaftCore):
    """Of several flushes in flight, the first to finish counts for what the last one to begin covers."""

    def _flush_done(self, ticket: int) -> None:
        if ticket in self._flushes:
            self._flushes[ticket] = list(self._flushes.values())[-1]
        super()._flush_done(ticket)


class AnswersForAnEarlierTerm(RaftCore):
    """A request that waited for its flush is answered in the present term, whatever term it was sent in."""

    def _flushed_as_follower(self) -> None:
        self._waiting = [replace(each, request=structs.replace(each.request, term=self.term)) for each in self._waiting]
        super()._flushed_as_follower()


class FlushTimerForgotten(RaftCore):
    """What is appended while a flush runs waits for the next append to be flushed."""

    def _debounce_flush(self) -> None:
        if not self._flushing:
            super()._debounce_flush()

    def _flush_done(self, ticket: int) -> None:
        self._flushing = True
        super()._flush_done(ticket)
        self._flushing = bool(self._flushes)

    def _start_flush(self, *, required: bool) -> None:
        super()._start_flush(required=required)
        self._flushing = True

    _flushing = False


MUTANTS = (
    Mutant(
        "commit-counted-first",
        "the commit index is counted before the majority replicated index, and the visibility bound stays behind",
        ("nothing-left-behind", "replicas-catch-up"),
        CommitCountedFirst,
    ),
    Mutant(
        "light-after-any-answer",
        "heartbeats are light once any request was answered, full heartbeat or not",
        ("converges", "nothing-left-behind", "replicas-catch-up"),
        with_rules(full_was_answered=lambda request, full, reply: request == reply),
        setting="light-heartbeats",
        seeds=100,
    ),
    Mutant(
        "light-ignores-flushed",
        "heartbeats are light though the follower has not flushed what its leader has",
        ("converges", "nothing-left-behind", "replicas-catch-up"),
        with_rules(light_suffices=lambda answered, unchanged, flushed, own_flushed: answered and unchanged),
        setting="light-heartbeats",
        seeds=100,
    ),
    Mutant(
        "quorum-one-off",
        "half of an even number of voters commits",
        ("committed-flushed-on-majority",),
        with_rules(commit_candidate=_half_commits),
    ),
    Mutant(
        "replicated-old-term",
        "MRI counts entries of older terms",
        ("inconsistent-offset", "acked-survives", "lost-write"),
        with_rules(may_count_replicated=lambda candidate_term, current_term: True),
        test="tests/raft/test_mutants.py",
        setting="old-terms",
        seeds=400,
    ),
    Mutant(
        "follower-commit-unverified",
        "a follower commits a flushed tail that its leader does not have",
        (),
        with_rules(
            follower_commit=lambda commit, leader_commit, flushed, verified: max(commit, min(leader_commit, flushed))
        ),
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "follower-visible-unverified",
        "a follower shows a tail that its leader does not have",
        (),
        with_rules(follower_visible=lambda leader_visible, dirty, verified: min(leader_visible, dirty)),
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "follower-visible-unbounded",
        "a follower shows what its leader shows, though its own log is shorter",
        ("visible-within-dirty",),
        with_rules(follower_visible=lambda leader_visible, dirty, verified: leader_visible),
    ),
    Mutant(
        "visible-ignores-last-quorum",
        "a commit shows all that a majority holds, though an acks=all entry behind it waits",
        ("pending-not-visible",),
        with_rules(visibility_on_commit=lambda bound, majority, commit, last_quorum: max(bound, majority)),
    ),
    Mutant(
        "heartbeat-acks-dirty",
        "the reply to a heartbeat reports what is dirty as flushed",
        ("committed-flushed-on-majority",),
        HeartbeatAcksDirty,
        thread="https://github.com/yugabyte/yugabyte-db/issues/32875",
    ),
    Mutant(
        "reply-acks-dirty",
        "the reply to append_entries reports what is dirty as flushed",
        ("committed-flushed-on-majority",),
        ReplyAcksDirty,
        thread="https://github.com/cloud-software-foundation/c5/issues/263",
    ),
    Mutant(
        "failed-check-matches",
        "a reply that refuses a request names the follower's end as its match",
        ("committed-flushed-on-majority",),
        FailedCheckMatches,
        seeds=32,
    ),
    Mutant(
        "match-from-heartbeat",
        "a heartbeat that succeeded proves the follower's log up to its end; every other one names what is committed",
        ("committed-flushed-on-majority",),
        MatchFromHeartbeat,
        thread="https://github.com/apache/ratis/pull/1519",
        seeds=32,
    ),
    Mutant(
        "late-replies-count",
        "a reply of an earlier term counts",
        ("committed-flushed-on-majority",),
        LateRepliesCount,
        setting="late-replies",
    ),
    Mutant(
        "replies-combined",
        "flushed is taken from one reply and match from another",
        ("committed-flushed-on-majority",),
        RepliesCombined,
        seeds=400,
    ),
    Mutant(
        "replicated-never-falls",
        "a follower still counts with what it lost because it was not flushed",
        (),
        ReplicatedNeverFalls,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "durable-survives-election",
        "what was durable on followers when a node led before counts when it leads again",
        (),
        DurableSurvivesElection,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "holds-by-offset",
        "a follower takes its entry at the previous offset for the leader's, whatever its term",
        ("log-matching",),
        HoldsByOffset,
    ),
    Mutant(
        "heartbeat-truncates",
        "a follower removes what lies behind the end of its leader's log that a heartbeat names",
        ("truncation-needs-divergence", "committed-never-truncated"),
        HeartbeatTruncates,
        thread="https://github.com/willemt/raft/issues/37",
    ),
    Mutant(
        "catch-up-livelock",
        "recovery never begins before the end of the follower's log",
        ("converges", "replicas-catch-up"),
        CatchUpLivelock,
        thread="https://github.com/yugabyte/yugabyte-db/issues/32876",
    ),
    Mutant(
        "cut-below-commit-fails",
        "a follower refuses what would cut at or below what it has committed",
        ("converges", "replicas-catch-up"),
        CutBelowCommitFails,
        test="tests/raft/test_mutants.py",
        setting="compacted",
    ),
    Mutant(
        "offsets-after-truncation",
        "what a log knows of the terms of its offsets is not cut with it",
        ("converges", "replicas-catch-up"),
        OffsetsAfterTruncation,
        thread="https://github.com/redpanda-data/redpanda/issues/29849",
        setting="old-terms",
    ),
    Mutant(
        "slot-kept",
        "a follower that had a slot for its recovery never gives it back",
        ("replicas-catch-up", "converges"),
        SlotKept,
        setting="groups",
    ),
    Mutant(
        "starts-without-slot",
        "a leader recovers a follower that has no slot",
        (),
        StartsWithoutSlot,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "refuses-to-truncate-visible",
        "a follower refuses what would remove entries that it has shown to readers",
        ("converges", "replicas-catch-up"),
        RefusesToTruncateVisible,
        thread="https://github.com/redpanda-data/redpanda/issues/16475",
        test="tests/raft/test_mutants.py",
        setting="lost-majorities",
        seeds=100,
    ),
    Mutant(
        "truncation-keeps-visible",
        "truncation does not lower the bounds of what is visible",
        ("visible-within-dirty",),
        TruncationKeepsVisible,
        setting="lost-power",
        seeds=100,
    ),
    Mutant(
        "bound-survives-truncation",
        "a truncation does not lower the visibility bound; a later leadership shows what waits below it",
        ("pending-not-visible",),
        BoundSurvivesTruncation,
        setting="long-tails",
        seeds=400,
    ),
    Mutant(
        "majority-survives-truncation",
        "a truncation does not lower the MRI",
        ("visible-within-dirty", "pending-not-visible", "visible-on-majority"),
        MajoritySurvivesTruncation,
        setting="lost-majorities",
        seeds=400,
    ),
    Mutant(
        "truncation-shows-one-more",
        "after a truncation one more is visible than is left",
        ("visible-monotonic", "visible-within-dirty"),
        TruncationShowsOneMore,
        setting="lost-majorities",
        seeds=100,
    ),
    Mutant(
        "truncation-keeps-flushed",
        "truncation does not lower the flushed offset",
        ("flushed-within-dirty",),
        TruncationKeepsFlushed,
    ),
    Mutant(
        "restart-commits-log",
        "a node that starts takes its whole log for committed",
        ("pending-not-visible", "follower-commit-within-leader", "committed-agree"),
        RestartCommitsLog,
        seeds=2000,
    ),
    Mutant(
        "restart-shows-log",
        "a node that starts shows its whole log to readers",
        ("visible-on-majority", "pending-not-visible"),
        RestartShowsLog,
    ),
    Mutant(
        "flush-covers-later",
        "a finished flush counts for all that is dirty by then",
        ("flushed-durable",),
        FlushCoversLater,
    ),
    Mutant(
        "any-flush-is-the-newest",
        "the first of several flushes to finish counts for all that the last one to begin covers",
        ("flushed-durable",),
        AnyFlushIsTheNewest,
        setting="lost-power",
        seeds=2000,
    ),
    Mutant(
        "answers-for-an-earlier-term",
        "a request that waited for its flush is answered in the present term, whatever term it was sent in",
        (),
        AnswersForAnEarlierTerm,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "flush-timer-forgotten",
        "what is appended while a flush runs is not flushed before the next append",
        ("converges", "nothing-left-behind"),
        FlushTimerForgotten,
        seeds=100,
    ),
)
