"""The replicated log of one node on one disk: append, flush, truncate, read, term lookup.

`dirty` is the last appended offset, `flushed` the last one known durable; both are inclusive and -1 (or, on
a log trimmed at its front, ``start_offset - 1``) when there is nothing. An append goes to the page cache
and moves `dirty`. A flush has three steps, so that a simulator can let time pass between them and a process
can wait for the disk in a thread::

    ticket = log.flush_begin()
    log.flush_run(ticket)            # the waiting; may run in a thread
    fresh = log.flush_finish(ticket) # False: a truncation came between, the result is discarded

What a flush means for the protocol (whether its result counts, what the flushed offset becomes) is decided
by the rules of the core from the ticket's ``dirty`` and ``truncations``. `Log.flushed` is what the disk
really holds; the rules do not move it.

Every error of the disk is fatal for this object: it refuses further changes, the node stops itself, and the next
`Log.open` finds out what is on the disk. After a failed sync what had not been durable may read well and still not be
on the disk, and nothing that was written down afterwards could be relied on to say so: the same disk would have to keep
it. So every opening writes what lies behind the last offset known to be durable once more before it syncs.

A log may have gaps: compaction takes batches out of closed segments, and what is appended may come behind a ghost,
which is not written. A gap belongs to the batch behind it: the offsets in it have that batch's term, and are cut and
trimmed with it.

Sources: documents.md#raft-recovery-committed-and-dirty, raft.md#flush, raft.md#truncation, raft.md#failed-fsync,
raft.md#trim, ghost-batches.md#compaction-is-durable, ghost-batches.md#ghost-moves-offset.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from quorumlog.storage.batch import GHOST, BatchDamaged, RecordBatch
from quorumlog.storage.compaction import Borders, Gap, Keyed, borders_path, superseded
from quorumlog.storage.disk import Disk, DiskFull, StorageError, SyncPoint
from quorumlog.storage.recovery import LogDamaged, RecoveryReport, recover
from quorumlog.storage.sealed import settle
from quorumlog.storage.segment import Segment, parse_segment_name, segment_name
from quorumlog.storage.segment import scan as scan_segment
from quorumlog.storage.state import LogState, is_begun, load_state

SEGMENT_BYTES = 64 << 20
"""A segment that has reached this size is followed by a new one."""
REMEMBER_BYTES = 16 << 20
"""After so many flushed bytes the log writes down how far it is durable."""


class OffsetOutOfRange(LookupError):  # noqa: N818 - named for what happened
    """The caller asked for an offset, or appended a batch, that does not fit the log."""


class LogFailed(StorageError):  # noqa: N818 - named for what happened
    """The log has seen an error of its disk; it must be opened again."""


class BatchPlace(NamedTuple):
    """Where a batch lies in the log. Offsets are inclusive, `kind` is a `BatchKind` number, `size` is in bytes.

    A gap before it is not counted.
    """

    base_offset: int
    last_offset: int
    term: int
    kind: int
    size: int
    key: int


@dataclass(frozen=True, slots=True)
class FlushTicket:
    """What a flush that began makes durable: everything up to `dirty`, unless `truncations` moves on meanwhile.

    `bytes` is how much it has to write, at most.
    """

    dirty: int
    truncations: int
    bytes: int
    _points: tuple[SyncPoint, ...]
    _segments: tuple[tuple[Segment, int], ...]


@dataclass(frozen=True, slots=True)
class ClosedBatches:
    """What compaction may look at, as often as it likes: the batches from `start` on that end up to `bound`."""

    segments: Sequence[Segment]
    start: int
    bound: int

    def __iter__(self) -> Iterator[Keyed]:
        for segment in self.segments:
            for first, last, _, kind, _, key in segment.headers():
                if self.start <= last <= self.bound:
                    yield Keyed(first, last, kind, key)


class Log:
    """See the module. Made by `Log.open`; used from one thread, `flush_run` excepted."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        limits: tuple[int, int],
        state: LogState,
        segments: list[Segment],
        recovery: RecoveryReport,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._segment_bytes, self._remember_bytes = limits
        self._state = state
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._dirty = self._flushed = recovery.dirty
        self._truncations = 0
        self._recovery = recovery
        self._borders = Borders(disk, directory)
        self._failure: str | None = None
        self._unremembered_bytes = 0
        # The state file is written by whoever flushes and by whoever truncates.
        self._state_lock = threading.RLock()

    @classmethod
    def open(
        cls, disk: Disk, directory: str, segment_bytes: int = SEGMENT_BYTES, remember_bytes: int = REMEMBER_BYTES
    ) -> Log:
        """Recover the log in `directory`, or begin one; on return everything in it is durable.

        A segment that has reached `segment_bytes` is followed by a new one, and after `remember_bytes` that were
        flushed the log writes down how far it is durable.
        Raises `LogDamaged` if flushed data is missing or damaged, `FileDamaged` if the state file is, and
        what the disk raises. `recovery` says what was found and what was cut.
        """
        disk.make_directory(directory)
        state_path = f"{directory}/state"
        if not is_begun(disk, directory):
            if any(parse_segment_name(name) is not None for name in disk.list(directory)):
                raise LogDamaged(
                    f"{state_path}: missing, but there are segments beside it; restore the disk, or replace the "
                    "node by an empty one under a new id"
                )
            LogState().save(disk, state_path)
        state = load_state(disk, state_path)
        settle(disk, state_path)
        if disk.exists(borders_path(directory)):
            settle(disk, borders_path(directory))
        segments, recovery = recover(disk, directory, state, cls.scan)
        # A trim counts what it removes as flushed, which it need not be; its bytes may lie in a segment that is kept.
        known = state.known_flushed if state.known_flushed >= state.start_offset else -1
        for segment in segments:
            if segment.next_offset - 1 > known:
                disk.rewrite(segment.path, segment.position_behind(known))
                disk.sync(segment.path)
            elif segment is segments[-1]:
                disk.sync(segment.path)  # a truncation whose sync failed or never came could still be undone
            segment.durable_size, segment.name_durable = segment.size, True
        disk.sync(directory)
        log = cls(disk, directory, (segment_bytes, remember_bytes), state, segments, recovery)
        log._forget_gaps()
        if state.cut_behind:
            log._save_state(replace(state, known_flushed=recovery.dirty, cut_behind=False))
        else:
            log._remember(recovery.dirty)
        return log

    @staticmethod
    def scan(disk: Disk, path: str, base_offset: int, term: int) -> tuple[Segment, str | None]:
        """Read a segment file when the log is opened; see `quorumlog.storage.segment.scan`."""
        return scan_segment(disk, path, base_offset, term)

    # -- where the log stands ----------------------------------------------------------------------

    @property
    def dirty(self) -> int:
        """The last appended offset, flushed or not (raft.md#dirty); ``start_offset - 1`` in an empty log."""
        return self._dirty

    @property
    def flushed(self) -> int:
        """Last offset that is durable for certain; never above `dirty`."""
        return self._flushed

    @property
    def truncations(self) -> int:
        """How often something was truncated since the log was opened."""
        return self._truncations

    @property
    def start_offset(self) -> int:
        """The first offset that the log keeps; what lay before it was trimmed (raft.md#trim)."""
        return self._state.start_offset

    @property
    def last_term(self) -> int:
        """Term of the last offset; -1 in a log that never had one."""
        return self._segments[-1].term if self._segments else self._state.term_before

    @property
    def recovery(self) -> RecoveryReport:
        """What recovery found and cut when the log was opened."""
        return self._recovery

    def term(self, offset: int) -> int:
        """Term of the entry at `offset`; of the one before `start_offset` too, which is -1 at the beginning of time.

        Raises `OffsetOutOfRange` outside ``start_offset - 1 .. dirty``.
        """
        if offset == self._state.start_offset - 1:
            return self._state.term_before
        return self._segment_of(offset).term

    def batch_base(self, offset: int) -> int:
        """Base offset, with its gap, of the batch that fills `offset`. Raises `OffsetOutOfRange` outside the log."""
        return self._segment_of(offset).batch_base(offset)

    def segment_around(self, offset: int) -> tuple[int, int]:
        """First and last offset of the segment that `offset` lies in. Raises `OffsetOutOfRange` outside the log."""
        segment = self._segment_of(offset)
        return max(segment.base_offset, self._state.start_offset), segment.next_offset - 1

    def headers(self) -> Iterator[BatchPlace]:
        """Every batch of the log, in order, from memory."""
        for segment in self._segments:
            for place in map(BatchPlace._make, segment.headers()):
                if place.last_offset >= self._state.start_offset:
                    yield place

    def read(self, start: int, max_bytes: int, end: int | None = None) -> list[RecordBatch]:
        """Batches from the one that fills `start` to the one that fills `end` (default: `dirty`), inclusive.

        At most `max_bytes` together, but at least one batch; none if `start` is ``dirty + 1`` or above
        `end`. Raises `OffsetOutOfRange`, or `LogDamaged` if a batch fails its checksum.
        """
        if not self._state.start_offset <= start <= self._dirty + 1:
            raise self._outside(start)
        last = self._dirty if end is None else min(end, self._dirty)
        batches: list[RecordBatch] = []
        room = max_bytes
        while start <= last:
            segment = self._segment_of(start)
            try:
                more = segment.read(self._disk, start, last, room, at_least_one=not batches)
            except BatchDamaged as problem:
                raise LogDamaged(
                    f"{segment.path}: batch near offset {start} cannot be read back: {problem}; restore the disk, or "
                    "replace the node by an empty one under a new id"
                ) from problem
            if not more:
                break
            batches += more
            start = more[-1].last_offset + 1
            if start != segment.next_offset or start > last:
                break
            room -= sum(batch.size_bytes for batch in more)
        return batches

    def start_to_keep(self, size: int, committed: int) -> int:
        """Where the log may start and still keep `size` bytes and everything behind the offset `committed`.

        That is `start_offset` or the base of a later segment: only removing a whole segment frees space.
        """
        start = self._state.start_offset
        kept = sum(segment.size for segment in self._segments)
        for segment, following in pairwise(self._segments):
            kept -= segment.size
            if kept < size or following.base_offset > committed + 1:
                break
            start = max(start, following.base_offset)
        return start

    # -- changes -----------------------------------------------------------------------------------

    def append(self, batches: Sequence[RecordBatch]) -> None:
        """Write batches, each of which continues the log in offset and does not go back in term, to the page cache.

        A ghost is not written: it moves the offset at which the batch behind it begins, so it may not be the last.

        Raises `OffsetOutOfRange`, with nothing written, if one does not fit, and `DiskFull` or another
        `StorageError`, after which the log must be opened again.
        """
        self._check_usable()
        expected, term = self._dirty + 1, self.last_term
        for batch in batches:
            if batch.base_offset != expected or batch.term < term:
                raise OffsetOutOfRange(
                    f"{self._directory}: batch at offset {batch.base_offset} in term {batch.term} where offset "
                    f"{expected} in term {term} or later should follow"
                )
            expected, term = batch.last_offset + 1, batch.term
            batch.encode()  # a batch out of its limits is refused before anything is written
        batches = self.written(batches)
        if expected != (batches[-1].last_offset if batches else self._dirty) + 1:
            raise OffsetOutOfRange(f"{self._directory}: a ghost up to offset {expected - 1} with nothing behind it")
        begin = 0
        try:
            while begin < len(batches):
                begin += self._append_run(batches, begin)
        except StorageError as error:
            self._fail(error)
            raise

    @staticmethod
    def written(batches: Sequence[RecordBatch]) -> Sequence[RecordBatch]:
        """Those that go to the disk: all but ghosts (ghost-batches.md#no-ghost-on-disk)."""
        ghosts = any(batch.kind is GHOST for batch in batches)
        return [batch for batch in batches if batch.kind is not GHOST] if ghosts else batches

    def truncate(self, offset: int) -> int:
        """Remove the batch that fills `offset` and everything behind it, durably. Returns the first offset removed.

        A batch is whole, with its gap: an offset in the middle removes all of it. ``dirty + 1`` removes nothing.
        Raises `OffsetOutOfRange` below `start_offset` or above ``dirty + 1``.
        """
        self._check_usable()
        if offset == self._dirty + 1:
            return offset
        first = self.batch_base(offset)
        with self._state_lock, self._fatal():
            self._truncations += 1
            if first <= self._state.known_flushed:
                self._save_state(replace(self._state, known_flushed=first - 1))
            self._flushed = min(self._flushed, first - 1)
            self._dirty = first - 1
            while self._segments and self._segments[-1].base_offset >= first:
                self._disk.remove(self._segments.pop().path)
                self._bases.pop()
            self._disk.sync(self._directory)
            if self._segments and self._segments[-1].next_offset > first:
                last = self._segments[-1]
                last.cut(first)
                self._disk.truncate(last.path, last.size)
                self._disk.sync(last.path)
            self._forget_gaps()
        return first

    def trim(self, offset: int) -> int:
        """Remove everything before the batch that fills `offset`, durably. Returns the new `start_offset`.

        A start offset never moves back; ``dirty + 1`` empties the log. Raises `OffsetOutOfRange` above that.
        """
        self._check_usable()
        if offset <= self._state.start_offset:
            return self._state.start_offset
        start = offset if offset == self._dirty + 1 else self.batch_base(offset)
        term = self.term(start - 1)
        with self._state_lock, self._fatal():
            known = max(self._state.known_flushed, start - 1)
            self._save_state(LogState(start, term, known))
            self._flushed = max(self._flushed, start - 1)
            kept = 0
            while kept < len(self._segments) and self._segments[kept].next_offset <= start:
                self._disk.remove(self._segments[kept].path)
                kept += 1
            del self._segments[:kept], self._bases[:kept]
            self._disk.sync(self._directory)
        return start

    def reset(self, start: int, term_before: int) -> None:
        """Discard the whole log, durably, and continue at `start`.

        `term_before` is the term of the entry before `start`, -1 if there is none. For a follower whose
        leader no longer has what comes next. If interrupted, it is finished when the log is next opened. Raises
        OffsetOutOfRange.
        """
        self._check_usable()
        if start < 0 or term_before < -1:
            raise OffsetOutOfRange(f"{self._directory}: a log cannot begin at offset {start} behind term {term_before}")
        with self._state_lock, self._fatal():
            self._truncations += 1
            emptied = LogState(start, term_before, start - 1)
            # The removal below may happen by halves; an opening then finishes it.
            self._save_state(replace(emptied, cut_behind=True))
            self._dirty = self._flushed = start - 1
            while self._segments:
                self._disk.remove(self._segments.pop().path)
                self._bases.pop()
            self._disk.sync(self._directory)
            self._save_state(emptied)
            self._forget_gaps()

    # -- compaction --------------------------------------------------------------------------------

    def superseded(self, bound: int, which: Callable[[Iterable[Keyed], int], list[Gap]] = superseded) -> list[Gap]:
        """What compaction would remove if all up to `bound` is known to be committed: batches of closed segments.

        `which` decides (`quorumlog.storage.compaction.superseded`). From memory: nothing is read.
        """
        batches = self.closed(bound)
        return which(batches, batches.bound)

    def closed(self, bound: int) -> ClosedBatches:
        """The batches of closed segments up to `bound`, to be looked at in any thread: all of them are committed."""
        bound = min(bound, self._segments[-1].base_offset - 1) if self._segments else bound
        return ClosedBatches(tuple(self._segments[:-1]), self._state.start_offset, bound)

    def compact(self, gaps: Sequence[Gap]) -> None:
        """Remove these batches, which lie in closed segments, durably; no offset moves.

        After a power loss in the middle some of the segments are compacted and others are not.
        Source: ghost-batches.md#compaction-is-durable.
        """
        self._check_usable()
        gone = {first for first, _ in gaps}
        changed = {bisect_right(self._bases, first) - 1 for first in gone}
        layout = [
            (segment, [place for place in segment.headers() if place[0] not in gone] if at in changed else None)
            for at, segment in enumerate(self._segments)
        ]
        with self._state_lock, self._fatal():
            self._borders.write(_borders(layout, self._state.start_offset))
            for segment, places in layout:
                if places:
                    self._disk.replace(segment.path, self._without(segment, gone))
                elif places is not None:
                    self._disk.remove(segment.path)
            self._disk.sync(self._directory)
            self._segments = [_with_only(segment, places) for segment, places in layout if places != []]
            begins = self._state.start_offset
            for segment in self._segments:
                if segment.base_offset > begins:
                    segment.begin_at(begins)
                begins = segment.next_offset
            self._bases = [segment.base_offset for segment in self._segments]

    def _forget_gaps(self) -> None:
        """Strike out the gaps whose batch was cut: a file that is missing there later is lost. If interrupted, it is
        finished when the log is next opened.
        """
        self._borders.write([gap for gap in self._borders.gaps if gap[1] < self._dirty])

    def _without(self, segment: Segment, gone: Set[int]) -> bytes:
        """The file of a segment without the batches that begin at these offsets."""
        content = self._disk.read(segment.path, 0, segment.size)
        kept, at = [], 0
        for first, _, _, _, size, _ in segment.headers():
            if first not in gone:
                kept.append(content[at : at + size])
            at += size
        return b"".join(kept)

    # -- flush -------------------------------------------------------------------------------------

    def flush_begin(self) -> FlushTicket:
        """Take a flush of everything appended so far."""
        self._check_usable()
        segments: list[tuple[Segment, int]] = []
        points: list[SyncPoint] = []
        size = 0
        new_names = False
        for segment in reversed(self._segments):
            if segment.name_durable and segment.durable_size == segment.size:
                break
            segments.append((segment, segment.size))
            points.append(self._disk.sync_point(segment.path))
            size += segment.size - segment.durable_size
            new_names = new_names or not segment.name_durable
        if new_names:
            points.append(self._disk.sync_point(self._directory))
        return FlushTicket(self._dirty, self._truncations, size, tuple(points), tuple(segments))

    def flush_run(self, ticket: FlushTicket) -> None:
        """Wait for the disk; may run in a thread while the log is used.

        Raises `FlushFailed`; the log is unusable then.
        """
        self._check_usable()
        with self._fatal():
            for point in ticket._points:
                point.run()
        self._unremembered_bytes += ticket.bytes
        if self._unremembered_bytes >= self._remember_bytes:
            self._unremembered_bytes = 0
            with self._state_lock, self._fatal():
                if ticket.truncations == self._truncations:
                    self._remember(ticket.dirty)

    def flush_finish(self, ticket: FlushTicket) -> bool:
        """Count a flush that ran. False, and nothing changes, if the log was truncated since it began."""
        if ticket.truncations != self._truncations:
            return False
        self._flushed = max(self._flushed, ticket.dirty)
        for segment, size in ticket._segments:
            segment.durable_size = max(segment.durable_size, size)
            segment.name_durable = True
        return True

    def flush(self) -> None:
        """Flush in the calling thread: `flush_begin`, `flush_run` and `flush_finish` in turn. Raises `StorageError`."""
        ticket = self.flush_begin()
        self.flush_run(ticket)
        self.flush_finish(ticket)

    def close(self) -> None:
        """Flush and write down how far, for a graceful stop. A log that failed is left as it is."""
        if self._failure is not None:
            return
        self.flush()
        with self._state_lock, self._fatal():
            self._remember(self._flushed)
        self._failure = "closed"

    # -- inside ------------------------------------------------------------------------------------

    def _segment_of(self, offset: int) -> Segment:
        if not self._state.start_offset <= offset <= self._dirty:
            raise self._outside(offset)
        last = self._segments[-1]
        if offset >= last.base_offset:
            return last
        return self._segments[bisect_right(self._bases, offset) - 1]

    def _outside(self, offset: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            f"{self._directory}: offset {offset} is outside the log, {self._state.start_offset}..{self._dirty}"
        )

    def _append_run(self, batches: Sequence[RecordBatch], begin: int) -> int:
        """Write the batches from `begin` on that go into one segment, in one write. Returns how many."""
        segment = self._segment_for(batches[begin])
        size = segment.size
        run: list[bytes] = []
        for batch in batches[begin:]:
            if batch.term != segment.term or (run and size >= self._segment_bytes):
                break
            run.append(batch.encode())
            size += len(run[-1])
        self._disk.append(segment.path, run[0] if len(run) == 1 else b"".join(run))
        for batch, encoded in zip(batches[begin:], run, strict=False):
            segment.add(batch.base_offset, batch.record_count, batch.kind, len(encoded), batch.key)
        self._dirty = segment.next_offset - 1
        return len(run)

    def _segment_for(self, batch: RecordBatch) -> Segment:
        """The segment that the next batch goes into; a new one on a change of term or when the last one is full."""
        if self._segments:
            last = self._segments[-1]
            if last.term == batch.term and last.size < self._segment_bytes:
                return last
        base = self._dirty + 1  # a gap before the batch is in the name: segments continue each other
        segment = Segment(f"{self._directory}/{segment_name(base, batch.term)}", base, batch.term)
        self._disk.create(segment.path)
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        return segment

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise LogFailed(f"{self._directory}: no longer usable ({self._failure}); open the log again")

    @contextmanager
    def _fatal(self) -> Iterator[None]:
        """After a storage error inside this context the log refuses further changes."""
        try:
            yield
        except StorageError as error:
            self._fail(error)
            raise

    def _fail(self, error: StorageError) -> None:
        self._failure = str(error)

    def _remember(self, flushed: int) -> None:
        """Write down how far the log is durable. On a full disk the older, weaker statement stays in place."""
        with suppress(DiskFull):
            self._save_state(replace(self._state, known_flushed=max(flushed, self._state.known_flushed)))

    def _save_state(self, state: LogState) -> None:
        if state != self._state:
            state.save(self._disk, f"{self._directory}/state")
            self._state = state


_Layout = Sequence[tuple[Segment, Sequence[tuple[int, int, int, int, int, int]] | None]]
"""The segments of a log, each with the batches that are left of it; None for all."""


def _borders(layout: _Layout, start: int) -> list[Gap]:
    """The gaps between segments of which these batches are left: where a file is named after a later offset."""
    gaps = []
    for segment, places in layout:
        if places != []:
            named = parse_segment_name(segment.path.rpartition("/")[2])
            if named is not None and named[0] > start:
                gaps.append((start, named[0] - 1))
            start = places[-1][1] + 1 if places else segment.next_offset
    return gaps


def _with_only(segment: Segment, places: Sequence[tuple[int, int, int, int, int, int]] | None) -> Segment:
    """A segment of which these batches are left, which are durable."""
    if places is None:
        return segment
    left = Segment(segment.path, segment.base_offset, segment.term)
    for first, last, _, kind, size, key in places:
        left.add(first, last - first + 1, kind, size, key)
    left.durable_size, left.name_durable = left.size, True
    return left
