"""Mutants of compaction and ghost batches (ghost-batches.md#mutants)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from quorumlog.protocol import Mutant
from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import CompactRequested
from quorumlog.raft.ghosts import fill_gaps
from quorumlog.raft.mutants.parts import on_nodes
from quorumlog.raft.nodes import RaftNode
from quorumlog.raft.simulated import RaftCluster
from quorumlog.storage.batch import BatchKind, RecordBatch, ghost
from quorumlog.storage.compaction import Gap, Keyed, superseded
from quorumlog.storage.log import Log


class GhostPreviousTerm(RaftCore):
    """A ghost has the term of the batch before the gap."""

    def _filled(self, expected: int, batches: tuple[RecordBatch, ...]) -> tuple[RecordBatch, ...]:
        filled, term = [], self.index.term(expected - 1)
        for batch in super()._filled(expected, batches):
            is_ghost = batch.kind is BatchKind.GHOST
            filled.append(ghost(batch.base_offset, batch.last_offset, max(term, 0)) if is_ghost else batch)
            term = term if is_ghost else batch.term
        return tuple(filled)


def _numbered(expected: int, batches: Iterable[RecordBatch]) -> tuple[RecordBatch, ...]:
    """Batches as a follower numbers them that is told of no gap."""
    numbered: list[RecordBatch] = []
    for batch in batches:
        numbered.append(batch.with_position(expected, batch.term))
        expected = numbered[-1].last_offset + 1
    return tuple(numbered)


class LeadingGapMissed(RaftCore):
    """A gap at the start of a chunk is not filled: what lies behind it is numbered as if there were none."""

    def _filled(self, expected: int, batches: tuple[RecordBatch, ...]) -> tuple[RecordBatch, ...]:
        if batches and batches[0].base_offset > expected:
            return _numbered(expected, batches[:1])
        return super()._filled(expected, batches)


class LastGapMissed(RaftCore):
    """The last gap of a chunk is not filled: what lies behind it is numbered as if there were none."""

    def _filled(self, expected: int, batches: tuple[RecordBatch, ...]) -> tuple[RecordBatch, ...]:
        for at in reversed(range(1, len(batches))):
            if batches[at].base_offset > batches[at - 1].last_offset + 1:
                before = super()._filled(expected, batches[:at])
                return before + _numbered(before[-1].last_offset + 1, batches[at:])
        return super()._filled(expected, batches)


class LateReadFilled(RaftCore):
    """What a late read leaves out, for a follower that has fallen back meanwhile, is filled like a gap."""

    def _follow_on(self, previous: int, batches: tuple[RecordBatch, ...]) -> bool:
        return bool(batches) and batches[0].base_offset > previous


class GhostPersisted(Log):
    """Ghosts are written to disk like batches, against ghost-batches.md#ghost-moves-offset."""

    @staticmethod
    def written(batches: Iterable[RecordBatch]) -> list[RecordBatch]:
        """See `Log.written`."""
        return list(batches)


class GapNotSplit(RaftCore):
    """A gap is one ghost, however wide it is."""

    def _filled(self, expected: int, batches: tuple[RecordBatch, ...]) -> tuple[RecordBatch, ...]:
        return fill_gaps(expected, batches, widest=1 << 62)


class GapBreaksDirty(Log):
    """A truncation that cuts the batch behind a gap leaves the gap: the log ends in it."""

    def truncate(self, offset: int) -> int:
        """See the base class."""
        bases = [place.base_offset for place in self.headers() if place.last_offset >= offset]
        first = super().truncate(offset)
        if bases:
            self._dirty = bases[0] - 1
        return first


class CompactionAboveCommit(RaftCore):
    """Compaction goes as far as the log, committed or not."""

    @property
    def compaction_bound(self) -> int:
        """See the base class."""
        return self.dirty


class _SupersederAboveCommit(RaftNode):
    def compact(self) -> None:
        """See the base class."""
        bound = self.core.compaction_bound
        gaps = tuple(gap for gap in self.log.superseded(self.log.dirty) if gap[1] <= bound)
        if gaps:
            self.handle(CompactRequested(gaps))


class SupersederAboveCommit(RaftCluster):
    """The batch that replaces another one may be above the commit index."""

    node_type = _SupersederAboveCommit


class _DropsLastOfKey(RaftNode):
    @staticmethod
    def superseded(batches: Iterable[Keyed], bound: int) -> list[Gap]:
        """See `quorumlog.storage.compaction.superseded`."""
        return [(each.base_offset, each.last_offset) for each in batches if each.key and each.last_offset <= bound]


class DropsLastOfKey(RaftCluster):
    """The newest batch of a key is removed as well."""

    node_type = _DropsLastOfKey


class _ConfigurationCompacted(RaftNode):
    @staticmethod
    def superseded(batches: Iterable[Keyed], bound: int) -> list[Gap]:
        """See `quorumlog.storage.compaction.superseded`."""
        held = [each for each in batches if each.last_offset <= bound]
        members = [each for each in held if each.kind == BatchKind.CONFIGURATION]
        return sorted([*superseded(held, bound), *((each.base_offset, each.last_offset) for each in members[:-1])])


class ConfigurationCompacted(RaftCluster):
    """Configuration batches are removed once there is a later one."""

    node_type = _ConfigurationCompacted


class FirstMismatchTruncates(RaftCore):
    """A follower cuts at the first batch that it does not hold, though it holds one behind it."""

    def _skipped(self, batches: tuple[RecordBatch, ...], known: int) -> int:
        for at in range(len(batches)):
            if super()._skipped(batches[at : at + 1], known) == 0:
                return at
        return len(batches)


class GapForgotten(RaftCore):
    """Of what is known to be committed the commit index alone counts, which a restart forgets."""

    def _known_committed(self) -> int:
        return self.commit

    def _append(self, batches: tuple[RecordBatch, ...]) -> None:
        super()._append(fill_gaps(self.dirty + 1, batches))  # a gap that was cut may reach further back


_mutant = partial(Mutant, page="ghost-batches", setting="compacted")

MUTANTS = (
    _mutant(
        "ghost-previous-term",
        "a ghost has the term of the batch before the gap",
        ("ghost-term",),
        GhostPreviousTerm,
        test="tests/raft/test_ghosts.py",
        seeds=400,
    ),
    _mutant(
        "ghost-persisted",
        "ghosts are written to disk",
        ("voters-return", "flushed-durable"),
        stage=on_nodes(log=GhostPersisted),
        seeds=100,
    ),
    _mutant(
        "last-gap-missed",
        "the last gap of a chunk is not filled",
        ("log-matching", "converges"),
        LastGapMissed,
        seeds=100,
    ),
    _mutant(
        "leading-gap-missed",
        "a gap at the start of a chunk is not filled",
        ("log-matching", "converges", "replicas-catch-up"),
        LeadingGapMissed,
        seeds=100,
    ),
    _mutant(
        "late-read-filled",
        "what a late read leaves out, for a follower that has fallen back meanwhile, is filled like a gap",
        ("no-hole",),
        LateReadFilled,
        setting="late-reads",
    ),
    _mutant(
        "gap-not-split",
        "a gap is one ghost, however wide it is",
        ("converges", "replicas-catch-up"),
        GapNotSplit,
        test="tests/raft/test_ghosts.py",
        setting="narrow-ghosts",
    ),
    _mutant(
        "gap-breaks-dirty",
        "a truncation that cuts the batch behind a gap leaves the gap, in which the log then ends",
        (),
        stage=on_nodes(log=GapBreaksDirty),
        test="tests/storage/test_storage_mutants.py",
    ),
    _mutant(
        "compaction-above-commit",
        "compaction goes as far as the log, committed or not",
        ("gaps-are-explained", "trim-within-commit"),
        CompactionAboveCommit,
        seeds=100,
    ),
    _mutant(
        "superseder-above-commit",
        "the batch that replaces another one may be above the commit index",
        ("gaps-are-explained",),
        stage=SupersederAboveCommit,
        seeds=100,
    ),
    _mutant(
        "drops-last-of-key",
        "the newest batch of a key is removed",
        ("gaps-are-explained", "newest-values-agree"),
        stage=DropsLastOfKey,
        seeds=100,
    ),
    _mutant(
        "configuration-compacted",
        "configuration batches are removed",
        ("gaps-are-explained",),
        stage=ConfigurationCompacted,
        seeds=100,
    ),
    _mutant(
        "first-mismatch-truncates",
        "a follower cuts at the first batch that it does not hold, though it holds one behind it",
        ("truncation-needs-divergence", "committed-never-truncated"),
        FirstMismatchTruncates,
        test="tests/raft/test_ghosts.py",
        seeds=400,
    ),
    _mutant(
        "gap-forgotten",
        "what lies before a gap is known to be committed only as far as the commit index",
        ("committed-never-truncated", "truncation-needs-divergence"),
        GapForgotten,
        test="tests/raft/test_ghosts.py",
        seeds=400,
    ),
)
