"""Mutants of the storage: flushes and what they cover, recovery's promises, the vote file, directories, disk errors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from quorumlog.protocol import Mutant
from quorumlog.raft.mutants.parts import on_nodes
from quorumlog.storage.batch import HEADER_BYTES, BatchDamaged, RecordBatch, decode_header
from quorumlog.storage.disk import Disk, DiskFull, FlushFailed, StorageError
from quorumlog.storage.log import REMEMBER_BYTES, SEGMENT_BYTES, FlushTicket, Log
from quorumlog.storage.sealed import FileDamaged
from quorumlog.storage.segment import Segment
from quorumlog.storage.simulated import SimulatedDisk
from quorumlog.storage.state import LogState, load_state
from quorumlog.storage.vote import VoteStore

# -- flush ---------------------------------------------------------------------------------------------------------


class FlushWithoutDirectory(Log):
    """A flush of a new segment does not sync the directory that names it."""

    def flush_begin(self) -> FlushTicket:
        """See `Log.flush_begin`."""
        ticket = super().flush_begin()
        return replace(ticket, _points=ticket._points[: len(ticket._segments)])


class FlushLastSegment(Log):
    """A flush syncs the last segment alone."""

    def flush_begin(self) -> FlushTicket:
        """See `Log.flush_begin`."""
        ticket = super().flush_begin()
        return replace(ticket, _points=ticket._points[:1] + ticket._points[len(ticket._segments) :])


class FlushErrorIgnored(Log):
    """A flush that failed counts as done."""

    def flush_run(self, ticket: FlushTicket) -> None:
        """See `Log.flush_run`."""
        with suppress(FlushFailed):
            super().flush_run(ticket)
        self._failure = None


class FlushErrorRetried(Log):
    """A flush that failed is tried again, and counts if it succeeds then."""

    def flush_run(self, ticket: FlushTicket) -> None:
        """See `Log.flush_run`."""
        try:
            super().flush_run(ticket)
        except FlushFailed:
            self._failure = None
            super().flush_run(ticket)


class DiskFullIndexed(Log):
    """A batch for which the disk had no room counts as appended."""

    def _append_run(self, batches: Sequence[RecordBatch], begin: int) -> int:
        try:
            return super()._append_run(batches, begin)
        except DiskFull:
            batch, segment = batches[begin], self._segments[-1]
            segment.add(batch.base_offset, batch.record_count, batch.kind, batch.size_bytes, batch.key)
            self._dirty = batch.last_offset
            return 1


# -- recovery's promises -------------------------------------------------------------------------------------------


class _WithoutSync:
    """A disk whose segments are not synced."""

    def __init__(self, disk: Disk, suffix: str) -> None:
        self._disk, self._suffix = disk, suffix

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._disk, name)

    def sync(self, path: str) -> None:
        """See `Disk.sync`."""
        if not path.endswith(self._suffix):
            self._disk.sync(path)


class OpenDoesNotSync(Log):
    """What is found when a log is opened counts as flushed, and is not."""

    @classmethod
    def open(
        cls, disk: Disk, directory: str, segment_bytes: int = SEGMENT_BYTES, remember_bytes: int = REMEMBER_BYTES
    ) -> Log:
        """See `Log.open`."""
        log = super().open(cast(Disk, _WithoutSync(disk, ".log")), directory, segment_bytes, remember_bytes)
        log._disk = disk
        return log


class OpenDoesNotRewrite(SimulatedDisk):
    """What an opening syncs was not written once more; a sync that had failed before may have made it clean."""

    def rewrite(self, path: str, position: int) -> None:
        """See `Disk.rewrite`."""


class TruncateDoesNotSync(Log):
    """A truncation is not made durable."""

    def truncate(self, offset: int) -> int:
        """See `Log.truncate`."""
        disk = self._disk
        self._disk = cast(Disk, _WithoutSync(disk, ""))
        try:
            return super().truncate(offset)
        finally:
            self._disk = disk


class TruncateKeepsPromise(Log):
    """A truncation does not take back what was written down about how far the log is durable."""

    def _save_state(self, state: LogState) -> None:
        if state.known_flushed >= self._state.known_flushed:
            super()._save_state(state)


class TruncatePromisesOneMore(Log):
    """What a truncation writes down calls one entry more durable than it leaves."""

    def _save_state(self, state: LogState) -> None:
        if state.known_flushed < self._state.known_flushed and not state.cut_behind:
            state = replace(state, known_flushed=state.known_flushed + 1)
        super()._save_state(state)


class TruncateKeepsFlushed(Log):
    """A truncation leaves what the log takes for durable as it was; a graceful stop writes that down."""

    def truncate(self, offset: int) -> int:
        """See `Log.truncate`."""
        flushed = self._flushed
        first = super().truncate(offset)
        self._flushed = flushed
        return first


class PromisesTooEarly(Log):
    """That the log is durable is written down when a flush begins."""

    def flush_begin(self) -> FlushTicket:
        """See `Log.flush_begin`."""
        self._remember(self._dirty)
        return super().flush_begin()


class _BelievesAnotherState(Log):
    """An opening reads another state than the one that was written down."""

    @staticmethod
    def believed(state: LogState) -> LogState:
        """Believe the state as it was read. See `Log`."""
        raise NotImplementedError

    @classmethod
    def open(
        cls, disk: Disk, directory: str, segment_bytes: int = SEGMENT_BYTES, remember_bytes: int = REMEMBER_BYTES
    ) -> Log:
        """See `Log.open`."""
        path = f"{directory}/state"
        if disk.exists(path):
            cls.believed(load_state(disk, path)).save(disk, path)
        return super().open(disk, directory, segment_bytes, remember_bytes)


class PromiseIgnored(_BelievesAnotherState):
    """Recovery cuts a log at the first damaged byte, also in front of what is known to be durable."""

    @staticmethod
    def believed(state: LogState) -> LogState:
        """See the base class."""
        return replace(state, known_flushed=state.start_offset - 1)


class RestartCutsUnflushed(_BelievesAnotherState):
    """Recovery cuts what is not known to be durable."""

    @staticmethod
    def believed(state: LogState) -> LogState:
        """See the base class."""
        return replace(state, cut_behind=True)


class ChecksumIgnored(Log):
    """Recovery believes the headers of batches and does not look at their checksums."""

    @staticmethod
    def scan(disk: Disk, path: str, base_offset: int, term: int) -> tuple[Segment, str | None]:
        """See `Log.scan`."""
        segment, length = Segment(path, base_offset, term), disk.size(path)
        while segment.size < length:
            try:
                header = decode_header(disk.read(path, segment.size, HEADER_BYTES), 0, length - segment.size)
            except BatchDamaged as problem:
                return segment, str(problem)
            if header.term != term or header.base_offset != segment.next_offset:
                return segment, "another batch should follow"
            segment.add(header.base_offset, header.record_count, header.kind, header.size)
        return segment, None


# -- the vote file and other small files ---------------------------------------------------------------------------


class VoteWithoutCandidate(VoteStore):
    """The vote file holds the term and nobody."""

    def save(self, term: int, voted_for: int | None) -> None:
        """See `VoteStore.save`."""
        super().save(term, None)


class VoteErrorSwallowed(VoteStore):
    """An error while the vote is being saved is not told."""

    def save(self, term: int, voted_for: int | None) -> None:
        """See `VoteStore.save`."""
        with suppress(StorageError):
            super().save(term, voted_for)


class DamagedVoteForgotten(VoteStore):
    """A node whose vote file is damaged starts as if it had never voted."""

    def load(self) -> tuple[int, int | None]:
        """See `VoteStore.load`."""
        try:
            return super().load()
        except FileDamaged:
            return 0, None


class MissingVoteForgotten(VoteStore):
    """A node whose vote file is missing starts as if it had never voted."""

    def begin(self, log: str = "log") -> None:
        """See `VoteStore.begin`."""
        with suppress(FileDamaged):
            super().begin(log)


class RenameNotSynced(SimulatedDisk):
    """A small file is renamed into place without a sync of its directory."""

    def replace(self, path: str, data: bytes) -> None:
        """See `Disk.replace`."""
        before = self._durable_names.get(path)
        super().replace(path, data)
        if before is not None:
            self._durable_names[path] = before


class OverwrittenInPlace(SimulatedDisk):
    """A small file is overwritten in place, not written beside the old one and renamed."""

    def replace(self, path: str, data: bytes) -> None:
        """See `Disk.replace`."""
        if self.exists(path):
            self.truncate(path, 0)
        else:
            self.create(path)
        self.append(path, data)
        self.sync(path)
        self.sync(path.rpartition("/")[0])


MUTANTS = (
    Mutant(
        "flush-without-directory",
        "a flush of a new segment does not sync the directory that names it",
        ("flushed-durable",),
        stage=on_nodes(log=FlushWithoutDirectory),
        thread="https://github.com/etcd-io/etcd/issues/22340",
    ),
    Mutant(
        "flush-last-segment",
        "a flush syncs the last segment alone",
        ("flushed-durable",),
        stage=on_nodes(log=FlushLastSegment),
        thread="https://github.com/yugabyte/yugabyte-db/issues/3490",
        seeds=100,
    ),
    Mutant(
        "flush-error-ignored",
        "a flush that failed counts as done",
        ("flushed-durable",),
        stage=on_nodes(log=FlushErrorIgnored),
        thread="https://github.com/cockroachdb/cockroach/pull/37102",
        seeds=100,
    ),
    Mutant(
        "flush-error-retried",
        "a flush that failed is tried again, and counts if it succeeds then",
        ("flushed-durable", "voters-return"),
        stage=on_nodes(log=FlushErrorRetried),
        thread="https://github.com/rostamlabs/rostam/issues/94",
        setting="bad-disks",
    ),
    Mutant(
        "disk-full-indexed",
        "a batch for which the disk had no room counts as appended",
        ("flushed-durable",),
        stage=on_nodes(log=DiskFullIndexed),
        thread="https://github.com/hashicorp/raft-wal/pull/32",
    ),
    Mutant(
        "open-does-not-sync",
        "what is found when a log is opened counts as flushed, though it is not",
        ("flushed-durable",),
        stage=on_nodes(log=OpenDoesNotSync),
        setting="lost-power",
        seeds=100,
    ),
    Mutant(
        "open-does-not-rewrite",
        "an opening syncs what a failed sync left behind without writing it once more",
        ("flushed-durable", "voters-return"),
        stage=on_nodes(disk=OpenDoesNotRewrite),
        thread="https://github.com/rostamlabs/rostam/issues/94",
        setting="bad-disks",
    ),
    Mutant(
        "truncate-does-not-sync",
        "a truncation is not made durable",
        ("flushed-durable", "voters-return"),
        stage=on_nodes(log=TruncateDoesNotSync),
        setting="lost-power",
        seeds=400,
    ),
    Mutant(
        "truncate-keeps-promise",
        "a truncation does not take back what was written down about how far the log is durable",
        ("voters-return",),
        stage=on_nodes(log=TruncateKeepsPromise),
        test="tests/storage/test_storage_mutants.py",
        seeds=2000,
    ),
    Mutant(
        "truncate-promises-one-more",
        "what a truncation writes down calls one entry more durable than it leaves",
        ("voters-return",),
        stage=on_nodes(log=TruncatePromisesOneMore),
        setting="bad-disks",
        seeds=100,
    ),
    Mutant(
        "truncate-keeps-flushed",
        "after a truncation, a graceful stop writes down as durable what was cut",
        ("voters-return",),
        stage=on_nodes(log=TruncateKeepsFlushed),
        test="tests/storage/test_storage_mutants.py",
        setting="stops",
    ),
    Mutant(
        "promises-too-early",
        "that the log is durable is written down when a flush begins",
        ("voters-return",),
        stage=on_nodes(log=PromisesTooEarly),
        seeds=100,
    ),
    Mutant(
        "promise-ignored",
        "recovery cuts a log at the first damaged byte, even in front of what is known to be durable",
        ("flushed-durable",),
        stage=on_nodes(log=PromiseIgnored),
        seeds=100,
    ),
    Mutant(
        "restart-cuts-unflushed",
        "recovery cuts what is not known to be durable",
        ("dirty-survives-crash", "flushed-durable"),
        stage=on_nodes(log=RestartCutsUnflushed),
    ),
    Mutant(
        "checksum-ignored",
        "recovery believes the headers of batches and does not look at their checksums",
        ("voters-return", "converges"),
        stage=on_nodes(log=ChecksumIgnored),
        setting="lost-power",
        test="tests/storage/test_storage_mutants.py",
    ),
    Mutant(
        "vote-without-candidate",
        "the vote file holds the term but no candidate",
        ("one-vote-per-term",),
        stage=on_nodes(votes=VoteWithoutCandidate),
        setting="stale-votes",
        seeds=100,
    ),
    Mutant(
        "vote-error-swallowed",
        "an error while the vote is being saved is not reported",
        ("one-vote-per-term", "term-monotonic"),
        stage=on_nodes(votes=VoteErrorSwallowed),
        thread="https://github.com/lni/dragonboat/pull/409",
        setting="bad-disks",
        seeds=400,
    ),
    Mutant(
        "damaged-vote-forgotten",
        "a node whose vote file is damaged starts as if it had never voted",
        ("term-monotonic", "one-vote-per-term"),
        stage=on_nodes(votes=DamagedVoteForgotten),
        setting="bad-disks",
        seeds=400,
    ),
    Mutant(
        "missing-vote-forgotten",
        "a node whose vote file is missing starts as if it had never voted",
        ("term-monotonic", "one-vote-per-term"),
        stage=on_nodes(votes=MissingVoteForgotten),
        setting="lost-votes",
    ),
    Mutant(
        "rename-not-synced",
        "the vote and the state of the log are renamed into place without a sync of their directory",
        ("one-vote-per-term", "term-monotonic", "voters-return"),
        stage=on_nodes(disk=RenameNotSynced),
        thread="https://github.com/baidu/braft/issues/254",
    ),
    Mutant(
        "overwritten-in-place",
        "the vote and the state of the log are overwritten in place",
        ("voters-return",),
        stage=on_nodes(disk=OverwrittenInPlace),
        setting="bad-disks",
        seeds=400,
    ),
)
