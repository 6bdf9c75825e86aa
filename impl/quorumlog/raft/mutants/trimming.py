"""Mutants of the start of a log: trimming, and followers that begin anew where the leader's log begins."""

from __future__ import annotations

from dataclasses import replace

from quorumlog.events import Trim
from quorumlog.protocol import Mutant
from quorumlog.raft.core import RaftCore
from quorumlog.raft.index import NO_TERM
from quorumlog.raft.members import Members
from quorumlog.raft.messages import InstallSnapshot
from quorumlog.raft.mutants.parts import on_nodes
from quorumlog.raft.progress import Progress
from quorumlog.raft.snapshot import Snapshot
from quorumlog.storage.log import Log
from quorumlog.storage.state import LogState


class TrimsUncommitted(RaftCore):
    """A node trims all but its last batch, committed or not."""

    def _trim(self, offset: int) -> None:
        start = self.index.start
        self.index.trim(self.index.dirty)
        if self.index.start != start:
            self._effects.append(Trim(self.index.start))
            self.note("trim", offset=self.index.start)


class NeverStartsAnew(RaftCore):
    """A leader never tells a follower that its log begins later than what the follower lacks."""

    def _continue_recovery(self, peer: int, follower: Progress) -> None:
        follower.last_sent = max(follower.last_sent, self.index.start - 1)
        super()._continue_recovery(peer, follower)


class StartAtKeepsLog(RaftCore):
    """A follower that is to begin anew keeps its log and says that it did."""

    def _install(self, snapshot: Snapshot) -> None:
        pass


class StartAtAlwaysResets(RaftCore):
    """A follower begins anew although it holds the entry before the leader's beginning."""

    def _snapshot_sent(self, sender: int, request: InstallSnapshot) -> None:
        self.commit = min(self.commit, request.last - 1)
        super()._snapshot_sent(sender, request)

    def _begin_behind(self, snapshot: Snapshot, members: Members) -> None:
        self._reset(snapshot.last + 1, snapshot.term, members)


class StartAtFromAnyTerm(RaftCore):
    """A follower begins anew at the word of a leader of an earlier term."""

    def _snapshot_sent(self, sender: int, request: InstallSnapshot) -> None:
        if request.term < self.term and request.last > self.commit:
            self._take_part(request)
        super()._snapshot_sent(sender, request)


class ResetWithoutTerm(RaftCore):
    """A log that begins anew does not know the term of the entry before it."""

    def _reset(self, start: int, start_term: int, members: Members) -> None:
        super()._reset(start, NO_TERM, members)


class ResetKeepsVisible(RaftCore):
    """A log that begins anew shows as much as before."""

    def _reset(self, start: int, start_term: int, members: Members) -> None:
        shown = max(self.visible, start)
        super()._reset(start, start_term, members)
        self.majority_replicated = self.visibility_upper_bound = self.visible = shown


class ResetOneTooEarly(RaftCore):
    """A log begins anew one offset before the leader's."""

    def _reset(self, start: int, start_term: int, members: Members) -> None:
        super()._reset(max(start - 1, 0), start_term, members)


class ResetForgetsFlushes(RaftCore):
    """A flush that runs while a log begins anew counts."""

    def _reset(self, start: int, start_term: int, members: Members) -> None:
        truncations = self.truncations
        super()._reset(start, start_term, members)
        self.truncations = truncations


class StartAtInOwnTerm(RaftCore):
    """The term of a snapshot is that of its node, not that of its last entry."""

    def _take_snapshot(self, last: int, term: int) -> None:
        super()._take_snapshot(last, self.term)


class TrimmedIsNotHeld(RaftCore):
    """A follower that has trimmed further than its leader refuses what continues an entry that it trimmed."""

    def _holds(self, offset: int, term: int) -> bool:
        return offset >= self.index.start - 1 and super()._holds(offset, term)


class BeginningOverlooked(RaftCore):
    """A leader takes a follower that ends before the leader's log begins for one that has the entry before it."""

    def _common_end(self, dirty: int) -> int:
        return max(super()._common_end(dirty), self.index.start - 1)


class TrimTakesNextTerm(RaftCore):
    """A node that trims takes the term of the first entry that it keeps for that of the entry before it."""

    def _trim(self, offset: int) -> None:
        start = self.index.start
        super()._trim(offset)
        if self.index.start != start:
            self.index.start_term = self.index.term(self.index.start)


class TrimPromisesTooMuch(Log):
    """What a log writes down at a trim calls three entries more durable than it knows of."""

    def _save_state(self, state: LogState) -> None:
        if state.start_offset > self._state.start_offset:
            state = replace(state, known_flushed=max(state.known_flushed, state.start_offset + 2))
        super()._save_state(state)


class TrimForgetsTerm(Log):
    """What a log writes down at a trim lacks the term of the entry before its start."""

    def _save_state(self, state: LogState) -> None:
        super()._save_state(replace(state, term_before=NO_TERM))


class ResetUnmarked(Log):
    """That a log is being emptied, to begin anew, is not written down before its segments go."""

    def _save_state(self, state: LogState) -> None:
        super()._save_state(replace(state, cut_behind=False))


class TrimNotWrittenDown(Log):
    """A trim removes segments and does not write down where the log starts."""

    def trim(self, offset: int) -> int:
        """See `Log.trim`."""
        before = self._state
        start = super().trim(offset)
        LogState(before.start_offset, before.term_before, self._state.known_flushed).save(
            self._disk, f"{self._directory}/state"
        )
        return start


MUTANTS = (
    Mutant(
        "trims-uncommitted",
        "a node trims all but its last batch, committed or not",
        ("trim-within-commit",),
        TrimsUncommitted,
        seeds=100,
    ),
    Mutant(
        "never-starts-anew",
        "a leader never tells a follower that the leader's log begins behind what the follower lacks",
        ("converges", "replicas-catch-up"),
        NeverStartsAnew,
        thread="https://github.com/camunda/camunda/pull/4451",
        setting="trimmed",
    ),
    Mutant(
        "start-at-keeps-log",
        "a follower that is to begin anew keeps its log and says that it began anew",
        ("converges", "replicas-catch-up", "committed-flushed-on-majority"),
        StartAtKeepsLog,
        thread="https://github.com/lerna-stack/akka-entity-replication/issues/105",
        setting="trimmed",
    ),
    Mutant(
        "start-at-always-resets",
        "a follower begins anew although it holds the entry before the leader's beginning",
        ("committed-never-truncated", "truncation-needs-divergence"),
        StartAtAlwaysResets,
        setting="trimmed",
    ),
    Mutant(
        "start-at-from-any-term",
        "a follower begins anew at the word of a leader of an earlier term",
        (),
        StartAtFromAnyTerm,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "reset-without-term",
        "a log that begins anew does not know the term of the entry before it",
        (),
        ResetWithoutTerm,
        thread="https://github.com/goraft/raft/pull/99",
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "reset-keeps-visible",
        "a log that begins anew shows as much as before",
        ("visible-within-dirty", "follower-visible-within-leader"),
        ResetKeepsVisible,
        setting="trimmed",
    ),
    Mutant(
        "reset-one-too-early",
        "a log begins anew one offset before the leader's",
        ("converges", "replicas-catch-up", "log-matching"),
        ResetOneTooEarly,
        thread="https://github.com/nats-io/nats-server/pull/8321",
        setting="trimmed",
        seeds=400,
    ),
    Mutant(
        "reset-forgets-flushes",
        "a flush that runs while a log begins anew counts",
        ("flushed-within-dirty",),
        ResetForgetsFlushes,
        test="tests/raft/test_mutants.py",
        setting="long-flushes",
        seeds=100,
    ),
    Mutant(
        "start-at-in-own-term",
        "the term of a snapshot is that of its node, not that of its last entry",
        ("committed-never-truncated", "leader-completeness", "converges", "replicas-catch-up", "snapshots-agree"),
        StartAtInOwnTerm,
        setting="trimmed",
        seeds=100,
    ),
    Mutant(
        "trimmed-is-not-held",
        "a follower that has trimmed further than its leader refuses what continues a trimmed entry",
        ("converges", "replicas-catch-up"),
        TrimmedIsNotHeld,
        test="tests/raft/test_mutants.py",
        setting="unheard-trims",
        seeds=100,
    ),
    Mutant(
        "trim-promises-too-much",
        "at a trim, a log writes down more as durable than it knows to be",
        ("voters-return",),
        stage=on_nodes(log=TrimPromisesTooMuch),
        setting="trimmed",
        seeds=40,
    ),
    Mutant(
        "trim-forgets-term",
        "what a log writes down at a trim lacks the term of the entry before its start",
        ("committed-never-truncated", "truncation-needs-divergence"),
        stage=on_nodes(log=TrimForgetsTerm),
        thread="https://github.com/formancehq/ledger/pull/1852",
        test="tests/storage/test_storage_mutants.py",
        setting="trimmed",
        seeds=400,
    ),
    Mutant(
        "reset-unmarked",
        "a log that is emptied to start over loses its segments before anything is written down",
        (),
        stage=on_nodes(log=ResetUnmarked),
        test="tests/storage/test_storage_mutants.py",
    ),
    Mutant(
        "trim-not-written-down",
        "a trim removes segments and does not write down where the log starts",
        ("voters-return",),
        stage=on_nodes(log=TrimNotWrittenDown),
        setting="trimmed",
    ),
    Mutant(
        "beginning-overlooked",
        "a leader takes a follower that ends before the leader's log begins for one that has the entry before it",
        ("converges", "replicas-catch-up"),
        BeginningOverlooked,
        setting="trimmed",
    ),
    Mutant(
        "trim-takes-next-term",
        "a node that trims takes the term of the first entry that it keeps for that of the entry before it",
        (),
        TrimTakesNextTerm,
        test="tests/raft/test_mutants.py",
    ),
)
