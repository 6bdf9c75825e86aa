"""Mutants of what counts: the commit index, flushes, visibility, and what is answered because of them."""

from __future__ import annotations

from dataclasses import replace

from quorumlog.events import Outcome
from quorumlog.protocol import Mutant
from quorumlog.quorum import quorum_match
from quorumlog.raft.core import RaftCore
from quorumlog.raft.mutants.parts import with_rules
from quorumlog.raft.rules import ACKS_ALL, NOBODY, PENDING, REFERENCE, SUCCESS, TRUNCATED, Rules
from quorumlog.raft.state import Configuration, Restored


class AckOnTermChange(RaftCore):
    """Once the term changed, success if the entry is still there (documents.md#raft-recovery-quorum-ack)."""

    def _resolve(self) -> None:
        super()._resolve()
        still = []
        for wait in self._pending:
            if wait.term == self.term:
                still.append(wait)
                continue
            there = self.index.term(wait.last_offset) == wait.term
            outcome = Outcome.SUCCESS if there else Outcome.TRUNCATED
            self._answer(wait.request, outcome, wait.offset, wait.last_offset, wait.term, ACKS_ALL)
        self._pending = still


class ElectionNeverWaits(RaftCore):
    """An election time-out that fires while the vote is being saved ends the candidacy; votes that come late count no
    more."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules = REFERENCE) -> None:
        super().__init__(configuration, restored, replace(rules, election_waits=lambda saving: False))

    def _ask_for_votes(self, *, pre_vote: bool) -> None:
        if pre_vote and self.role == "candidate":
            self._set_role("follower")
        super()._ask_for_votes(pre_vote=pre_vote)


class VisibleUsesDirty(RaftCore):
    """A leader whose commit index moves uses its own dirty offset as the majority replicated index."""

    def _set_commit(self, commit: int) -> bool:
        moved = super()._set_commit(commit)
        if moved and self.role == "leader":
            self.majority_replicated = max(self.majority_replicated, self.index.dirty)
        return moved


def _ack_without_term(offset: int, term: int, term_at_offset: int, commit: int, term_at_commit: int) -> int:
    return SUCCESS if commit >= offset else PENDING


def _truncated_at_once(offset: int, term: int, term_at_offset: int, commit: int, term_at_commit: int) -> int:
    if term_at_offset != term:
        return TRUNCATED
    return SUCCESS if commit >= offset else PENDING


MUTANTS = (
    Mutant(
        "commit-counts-dirty",
        "the commit index counts the followers' dirty offsets instead of their flushed ones",
        ("committed-flushed-on-majority",),
        with_rules(replicated_flushed=lambda dirty, flushed, match: min(dirty, match)),
    ),
    Mutant(
        "commit-ignores-match",
        "the commit index counts a follower's flushed offset without min(match index)",
        ("committed-flushed-on-majority",),
        with_rules(replicated_flushed=lambda dirty, flushed, match: flushed),
        seeds=32,
    ),
    Mutant(
        "commit-old-term",
        "a leader commits by an entry of an older term",
        ("commit-current-term",),
        with_rules(may_commit=lambda candidate, commit, candidate_term, current_term: candidate > commit),
    ),
    Mutant(
        "commit-before-own-flush",
        "the leader's own flushed offset does not bound the commit index",
        ("commit-within-flushed",),
        with_rules(commit_candidate=lambda voters, durable, own_flushed: quorum_match(voters, durable)),
        thread="https://github.com/deventlab/d-engine/issues/329",
    ),
    Mutant(
        "follower-commit-unclamped",
        "a follower takes over the leader's commit index as it is",
        ("commit-within-flushed",),
        with_rules(follower_commit=lambda commit, leader_commit, flushed, verified: max(commit, leader_commit)),
    ),
    Mutant(
        "ack-on-term-change",
        "when the term changes, an acks=all append that is still in the log is a success",
        ("acked-survives",),
        AckOnTermChange,
    ),
    Mutant(
        "ack-without-term",
        "an acks=all append is a success once its offset is committed, whatever is there",
        ("acked-survives",),
        with_rules(resolve_quorum_ack=_ack_without_term),
        seeds=100,
    ),
    Mutant(
        "truncated-ignores-committed-term",
        "a truncated append is reported as failed before the new term has committed",
        ("truncated-rule",),
        with_rules(resolve_quorum_ack=_truncated_at_once),
        seeds=100,
    ),
    Mutant(
        "visible-unclamped",
        "the majority replicated index counts a follower's dirty offset without min(match index)",
        ("visible-on-majority",),
        with_rules(replicated_dirty=lambda dirty, flushed, match: dirty),
        setting="long-tails",
    ),
    Mutant(
        "visible-jumps-pending",
        "every append of the leader raises the visibility upper bound",
        ("pending-not-visible",),
        with_rules(visibility_on_append=lambda bound, commit, last_quorum, appended: max(bound, appended)),
    ),
    Mutant(
        "visible-uses-dirty",
        "when the commit index moves, the leader's dirty offset is taken for the majority replicated index",
        ("visible-on-majority",),
        VisibleUsesDirty,
    ),
    Mutant(
        "flush-ignores-truncation",
        "a flush that raced a truncation counts",
        ("flushed-within-dirty",),
        with_rules(accept_flush=lambda at_start, now: True),
        setting="leaders-fall",
        seeds=2000,
    ),
    Mutant(
        "flush-assigns",
        "the flushed offset is set to what a flush captured instead of raised to it",
        ("flushed-monotonic",),
        with_rules(flushed_after=lambda flushed, captured: captured),
        seeds=100,
    ),
    Mutant(
        "duplicate-truncates",
        "a follower does not skip batches that it already holds",
        ("acked-survives", "truncation-needs-divergence"),
        with_rules(batch_matches=lambda here, there: False),
        thread="https://github.com/redpanda-data/redpanda/issues/17731",
        setting="duplicates",
    ),
    Mutant(
        "vote-twice",
        "a node forgets whom it voted for when it steps down",
        ("one-vote-per-term",),
        with_rules(vote_after_step_down=lambda voted_for, old_term, new_term: NOBODY),
        thread="https://github.com/etcd-io/etcd/pull/2461",
        setting="stale-votes",
        seeds=400,
    ),
    Mutant(
        "vote-not-durable",
        "a vote leaves before it is on disk",
        ("one-vote-per-term", "term-monotonic"),
        with_rules(vote_is_durable_first=lambda: False),
        thread="https://github.com/robustmq/robustmq/issues/2039",
        setting="stale-votes",
    ),
    Mutant(
        "prevote-bumps-term",
        "a node that asks for pre-votes raises its term",
        ("term-needs-candidate",),
        with_rules(pre_vote_term=lambda term: term + 1),
    ),
    Mutant(
        "vote-ignores-log",
        "a vote is given to a candidate whose log is behind",
        ("leader-completeness",),
        with_rules(log_ok=lambda last_term, dirty, own_last_term, own_dirty: True),
    ),
    Mutant(
        "read-unconfirmed",
        "a leader answers barriers and read indexes without asking a majority whether it still leads",
        ("stale-read",),
        with_rules(leadership_confirmed=lambda voters, confirmed: True),
        thread="https://github.com/deventlab/d-engine/issues/381",
        setting="clocks-drift",
        seeds=2000,
    ),
    Mutant(
        "read-before-own-term",
        "a leader serves clients before an entry of its own term is committed",
        ("stale-read",),
        with_rules(may_serve=lambda term_at_commit, current_term: True),
        thread="https://github.com/etcd-io/etcd/issues/7331",
    ),
    Mutant(
        "read-index-ignores-caching",
        "under write caching a read index is the commit index, although acks=all does not wait for it",
        ("stale-read",),
        with_rules(read_index=lambda commit, majority, write_caching: commit),
        setting="write-caching",
        seeds=2000,
    ),
    Mutant(
        "election-never-waits",
        "a candidate's election time-out runs while its vote is being saved, and what it asked for is forgotten",
        ("converges",),
        ElectionNeverWaits,
        setting="slow-disks",
        seeds=2000,
    ),
)
