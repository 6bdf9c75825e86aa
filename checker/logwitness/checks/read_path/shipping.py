"""Single-copy delivery: of the shards with a copy, one ships it.

Sources: read-path.md#one-shipper, read-path.md#scd-filter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field

from loghistory.schema import Kind
from loghistory.vocabularies.read_path import RecordWord, RewindWord

from ..codes import FAULT_WIPE, RECORDS, Words, code, lookup, word_code
from ..columns import Columns
from ..contract import Check, Family, Setting
from .nodesets import Nodesets, lsns_said, mask_of, members
from .protocol import READ_PATH, StreamFold, epoch_of, shown

SHIPPER = Check(
    id="one-shipper",
    rule="In single-copy delivery one of the shards with a copy ships it if none of them is listed as down, and at "
    "least one if some are.",
    source=("read-path.md#one-shipper", "read-path.md#scd-filter"),
    fact="a copy shipped whose copyset nobody has listed, or passed over by all who are not listed",
    sentence={
        "both": "Shards {first} and {second} shipped stream {op} the record at {lsn}.",
        "nobody": "Shards {shards} have copies at {lsn}, and passed it over without shipping stream {op} one.",
    },
    kinds=(Kind.NODESET, Kind.COPY, Kind.STREAM_START, Kind.SHIP),
    columns=("node", "op", "offset", "shards"),
)
CHECKS = (SHIPPER,)

_OWN = (
    *(Kind.NODESET, Kind.FAULT, Kind.COPY, Kind.PURGE, Kind.TRIM_POINT),
    *(Kind.STREAM_START, Kind.STREAM_HEARD, Kind.STREAM_REWIND, Kind.SHIP),
)
_NODESET, _FAULT, _COPY, _PURGE, _TRIM_POINT, _START, _HEARD, _REWIND, _SHIP = map(code, _OWN)
_IS_WANTED = lookup(_OWN)
_DATA, _DONE = RECORDS[RecordWord.DATA], word_code(RewindWord.DONE)


@dataclass(slots=True)
class _Copies:
    """The copies of an LSN: the copyset by shard; 0: it has no data. And the last event that changed any of them."""

    copysets: dict[int, int] = field(default_factory=dict)
    changed: int = -1


@dataclass(slots=True)
class _Start:
    """How a shard was asked: event, filter version, list (-1: all send all), first LSN; and up to where it has sent."""

    seq: int
    filter: int
    listed: int
    first: int
    next: int


@dataclass(slots=True)
class _Stream:
    """One stream: its STARTs by shard, and who shipped what since the last rewind, by which copyset."""

    starts: dict[int, _Start] = field(default_factory=dict)
    shipped: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # by LSN: shard, copyset if judged, event


class ShippingFold(StreamFold):
    """Judges who ships; see the module."""

    checks = CHECKS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._words: Words = setting.words
        self._tally = self._tallies[SHIPPER.id]
        self._nodesets = Nodesets(setting.words)
        self._copies: dict[int, _Copies] = {}
        self._index: list[int] = []
        self._trimmed = -1
        self._recorded = False  # some shard said what it ships
        self._streams: dict[int, _Stream] = {}

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        rows = columns.where(_IS_WANTED[columns.kind]).lists()
        for at, kind in enumerate(rows.kind):
            if kind == _HEARD:
                self._heard(rows, at)
            elif kind == _COPY:
                self._copy(rows, at)
            elif kind == _SHIP:
                self._ships(rows, at)
            elif kind == _START:
                start = _Start(rows.seq[at], rows.filter[at], rows.shards[at], rows.offset[at], rows.offset[at])
                self._stream(rows.op[at]).starts[rows.peer[at]] = start
            elif kind == _REWIND:
                if rows.f[at] == _DONE:
                    self._streams[rows.op[at]] = _Stream()
            elif kind == _NODESET:
                self._nodesets.told(rows.epoch[at], rows.value[at])
            else:
                self._goes(rows, at)

    def _stream(self, op: int) -> _Stream:
        return self._streams.setdefault(op, _Stream())

    def _between(self, first: int, last: int) -> list[int]:
        return self._index[bisect_left(self._index, first) : bisect_right(self._index, last)]

    # -- copies --------------------------------------------------------------------------------------------------------

    def _copy(self, rows: Columns, at: int) -> None:
        lsn = rows.offset[at]
        if lsn not in self._copies:
            self._copies[lsn] = _Copies()
            insort(self._index, lsn)
        copies = self._copies[lsn]
        copies.copysets[rows.node[at]] = max(rows.shards[at], 0) if rows.record[at] == _DATA else 0
        copies.changed = rows.seq[at]

    def _goes(self, rows: Columns, at: int) -> None:
        kind, node = rows.kind[at], rows.node[at]
        if kind == _TRIM_POINT:
            self._trimmed = max(self._trimmed, rows.offset[at])
            for lsn in self._between(0, rows.offset[at]):
                del self._copies[lsn]
            del self._index[: bisect_right(self._index, rows.offset[at])]
            return
        wiped = kind == _FAULT and rows.f[at] == FAULT_WIPE
        for lsn in self._index if wiped else self._between(rows.offset[at], rows.last_offset[at]):
            if (wiped or kind == _PURGE) and node in self._copies[lsn].copysets:
                del self._copies[lsn].copysets[node]
                self._copies[lsn].changed = rows.seq[at]

    # -- who ships -----------------------------------------------------------------------------------------------------

    def _factor(self, lsn: int) -> int:
        nodeset = self._nodesets.of(epoch_of(lsn))
        return 0 if nodeset is None else nodeset.factor

    def _ships(self, rows: Columns, at: int) -> None:
        """Nobody else has shipped what was for one of the copyset alone."""
        self._recorded = True
        node, op, seq = rows.node[at], rows.op[at], rows.seq[at]
        stream = self._stream(op)
        start = stream.starts.get(node)
        if start is None or start.filter != rows.filter[at] or start.listed < 0:
            return
        for lsn in lsns_said(self._words.text(rows.value[at])):
            held = self._copies.get(lsn)
            copyset = 0 if held is None else held.copysets.get(node, 0)
            judged = copyset.bit_count() == self._factor(lsn) > 0 and not copyset & start.listed
            first, among, shipped = stream.shipped.setdefault(lsn, (node, copyset if judged else 0, seq))
            if judged:
                self._tally.judged += 1
                if first != node and among == copyset:
                    self._tally.violation(shipped, seq, way="both", op=op, lsn=shown(lsn), first=first, second=node)

    def _heard(self, rows: Columns, at: int) -> None:
        """What a shard has passed over somebody of its copyset has shipped, once all who are not listed passed it."""
        op, stream = rows.op[at], self._stream(rows.op[at])
        start = stream.starts.get(rows.peer[at])
        if start is None or start.filter != rows.filter[at] or rows.last_offset[at] < start.next:
            return
        before, start.next = start.next, rows.last_offset[at] + 1
        if start.listed < 0:
            return
        if rows.record[at] >= 0:
            stream.shipped.setdefault(rows.offset[at], (rows.peer[at], 0, rows.seq[at]))
        for lsn in self._between(max(before, self._trimmed + 1), rows.last_offset[at]):
            copyset = self._settled(stream, lsn, start.listed)
            if copyset and self._recorded:
                self._tally.judged += 1
                if lsn not in stream.shipped:
                    shards = [*members(copyset)]
                    self._tally.violation(
                        self._copies[lsn].changed, rows.seq[at], way="nobody", op=op, lsn=shown(lsn), shards=shards
                    )

    def _settled(self, stream: _Stream, lsn: int, listed: int) -> int:
        """The copyset of an LSN if all of it have equal copies, and all who are not listed were asked and passed it."""
        held = self._copies[lsn]
        copyset = next(iter(held.copysets.values()), 0)
        equal = {*held.copysets.values()} == {copyset} and mask_of(held.copysets) == copyset
        asked = [stream.starts.get(shard) for shard in members(copyset & ~listed)]
        if not equal or not asked or copyset.bit_count() != self._factor(lsn):
            return 0
        passed = all(
            each is not None and each.listed == listed and held.changed < each.seq and each.first <= lsn < each.next
            for each in asked
        )
        return copyset if passed else 0


FAMILY = Family(
    "read_path_shipping",
    CHECKS,
    frozenset(_OWN),
    ("node", "op", "peer", "f", "offset", "last_offset", "value", "record", "epoch", "filter", "shards"),
    ShippingFold,
    READ_PATH,
    reads_texts=True,
)
