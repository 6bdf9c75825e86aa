"""One segment file of a log: batches of one term, end to end, and the index of them in memory.

The file name carries the base offset and the term, so the order of the segments and the term of every
offset are known from a directory listing. The index holds four machine numbers per batch (25 bytes) and no objects.

Offsets that compaction took out belong to the batch behind them, as its gap: it is found at each of them, and goes with
them (ghost-batches.md#fill-gaps).
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import chain, islice

from quorumlog.storage.batch import (
    HEADER_BYTES,
    MAX_BATCH_BYTES,
    NO_KEY,
    BatchDamaged,
    BatchHeader,
    BatchKind,
    RecordBatch,
    checksum_holds,
    decode_header,
    decode_whole,
    key_of,
)
from quorumlog.storage.disk import Disk

_NAME = re.compile(r"(\d{20})-(\d{1,19})\.log")
_WINDOW_BYTES = 1 << 20
_MOST_CANDIDATES = 4096


def segment_name(base_offset: int, term: int) -> str:
    """File name of the segment that begins at `base_offset` in `term`."""
    return f"{base_offset:020d}-{term}.log"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """Base offset and term, or None if it is not the name of a segment."""
    match = _NAME.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


class Segment:
    """A segment and its index. Offsets are those of the log, positions are bytes in the file.

    `next_offset` is the offset behind the last batch, `size` the length in bytes, `durable_size` how much
    of it a finished flush covers, `name_durable` whether the file's name has been synced too.
    """

    __slots__ = (
        "_bases",
        "_behind_gap",
        "_keys",
        "_kinds",
        "_positions",
        "base_offset",
        "durable_size",
        "name_durable",
        "next_offset",
        "path",
        "size",
        "term",
    )

    def __init__(self, path: str, base_offset: int, term: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.term = term
        self.next_offset = base_offset
        self.size = 0
        self.durable_size = 0
        self.name_durable = False
        self._bases = array("q")  # of batches with their gaps
        self._behind_gap: dict[int, int] = {}  # where such a batch itself begins
        self._positions = array("q")
        self._kinds = array("b")
        self._keys = array("q")

    def add(self, base_offset: int, record_count: int, kind: int, size: int, key: int = NO_KEY) -> None:
        """Index a batch at the end of the file. The caller has checked that it continues the segment.

        What lies between `next_offset` and `base_offset` is its gap.
        """
        if base_offset != self.next_offset:
            self._behind_gap[self.next_offset] = base_offset
        self._bases.append(self.next_offset)
        self._positions.append(self.size)
        self._kinds.append(kind)
        self._keys.append(key)
        self.next_offset = base_offset + record_count
        self.size += size

    def begin_at(self, base_offset: int) -> None:
        """Let the first batch's gap begin at `base_offset`: what lay there is gone from the segment before."""
        first = self._bases[0]
        self._behind_gap[base_offset] = self._behind_gap.pop(first, first)
        self._bases[0] = self.base_offset = base_offset

    def __len__(self) -> int:
        """How many batches there are."""
        return len(self._bases)

    def batch_base(self, offset: int) -> int:
        """Base offset, with its gap, of the batch that fills `offset`, which must lie in the segment."""
        return self._bases[bisect_right(self._bases, offset) - 1]

    def position_behind(self, offset: int) -> int:
        """Where in the file the batches behind the one that fills `offset` begin; 0 if all are behind it."""
        return self._position(bisect_right(self._bases, offset))

    def cut(self, base_offset: int) -> None:
        """Forget the batch that begins, with its gap, at `base_offset`, and everything behind it."""
        index = bisect_left(self._bases, base_offset)
        self.size = self._positions[index]
        self.next_offset = base_offset
        self.durable_size = min(self.durable_size, self.size)
        for gone in self._bases[index:] if self._behind_gap else ():
            self._behind_gap.pop(gone, None)
        del self._bases[index:], self._positions[index:], self._kinds[index:], self._keys[index:]

    def headers(self) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Base offset, last offset, term, kind, size in bytes and key of every batch.

        May go on in another thread while the segment grows or is cut: what that leaves alone is told as it is.
        """
        ends = chain(islice(self._bases, 1, None), (self.next_offset,))
        stops = chain(islice(self._positions, 1, None), (self.size,))
        places = zip(self._bases, ends, self._kinds, self._positions, stops, self._keys, strict=False)
        for base, end, kind, start, stop, key in places:
            yield self._behind_gap.get(base, base), end - 1, self.term, kind, stop - start, key

    def read(self, disk: Disk, start: int, end: int, max_bytes: int, *, at_least_one: bool) -> list[RecordBatch]:
        """The batches from the one that fills `start` to the one that fills `end`, at most `max_bytes` together.

        With `at_least_one` the first is read however large it is. Raises `BatchDamaged` if the bytes are
        not, or no longer, what was written.
        """
        first = bisect_right(self._bases, start) - 1
        begin = self._positions[first]
        behind = bisect_right(self._bases, end)
        if self._position(behind) - begin > max_bytes:
            # As many as end at or before the limit: the last position that is not above it ends the one before.
            behind = bisect_right(self._positions, begin + max_bytes, first, behind) - 1
            if behind <= first:
                behind = first + 1 if at_least_one else first
        count = self._position(behind) - begin
        data = disk.read(self.path, begin, count) if count else b""
        batches = []
        behind_gap = self._behind_gap
        at = 0
        for base, end in zip(self._bases[first:behind], self._ends(first, behind), strict=True):
            batch = decode_whole(data[at : (at := end - begin)])
            if behind_gap:
                base = behind_gap.get(base, base)
            if batch.base_offset != base or batch.term != self.term:
                raise BatchDamaged(f"offset {batch.base_offset} where {base} was written")
            batches.append(batch)
        return batches

    def _ends(self, first: int, behind: int) -> array[int]:
        """Where in the file these batches end."""
        ends = self._positions[first + 1 : behind + 1]
        if behind == len(self._positions):
            ends.append(self.size)
        return ends

    def _position(self, index: int) -> int:
        return self._positions[index] if index < len(self._positions) else self.size


Scan = Callable[[Disk, str, int, int], tuple[Segment, str | None]]
"""How a segment file is read when its log is opened: `scan`."""


def scan(disk: Disk, path: str, base_offset: int, term: int) -> tuple[Segment, str | None]:
    """Read a segment file from its beginning as far as it holds whole, undamaged batches that continue each other.

    Returns the segment with these batches indexed (its `size` is where they end) and, if the file goes on,
    what is wrong there. Memory: one window of a megabyte or one batch, whichever is larger, whatever the
    file claims.
    """
    segment = Segment(path, base_offset, term)
    length = disk.size(path)
    window = b""
    window_start = 0
    while segment.size < length:
        at = segment.size - window_start
        try:
            if len(window) - at < HEADER_BYTES:
                window, window_start, at = disk.read(path, segment.size, _WINDOW_BYTES), segment.size, 0
            header = decode_header(window, at, length - window_start)
            _continues(segment, header)
            if len(window) - at < header.size:
                count = max(_WINDOW_BYTES, header.size)
                window, window_start, at = disk.read(path, segment.size, count), segment.size, 0
            if len(window) - at < header.size or not checksum_holds(window, at, header.size):
                raise BatchDamaged("checksum does not match")
            key = key_of(window, at)
        except BatchDamaged as problem:
            return segment, str(problem)
        segment.add(header.base_offset, header.record_count, header.kind, header.size, key)
    return segment, None


def _continues(segment: Segment, header: BatchHeader) -> None:
    if header.term != segment.term:
        raise BatchDamaged(f"term {header.term} in a segment of term {segment.term}")
    if header.kind == BatchKind.GHOST:
        raise BatchDamaged("a ghost, which no disk holds")
    if header.base_offset < segment.next_offset:
        raise BatchDamaged(f"offset {header.base_offset} where {segment.next_offset} or a later one should follow")


def whole_batch_behind(disk: Disk, segment: Segment) -> bool:
    """Whether an undamaged batch of this segment lies behind the place where its batches end.

    If so, the damage in between is not a simple torn tail: pages were written out of order before a power
    loss, or bits rotted. Looks for the bytes of the term, which every header holds, in at most
    `MAX_BATCH_BYTES` of the file and at a limited number of places; so True is certain and False is not.
    """
    rest = disk.read(segment.path, segment.size, MAX_BATCH_BYTES)
    needle = segment.term.to_bytes(8, "big")
    found = rest.find(needle, 16)
    for _ in range(_MOST_CANDIDATES):
        if found < 0:
            return False
        try:
            header = decode_header(rest, found - 16)
            if header.base_offset > segment.next_offset and checksum_holds(rest, found - 16, header.size):
                return True
        except BatchDamaged:
            pass
        found = rest.find(needle, found + 1)
    return False
