"""What readers deliver: every LSN once and in order, as it was appended, and no further than they may.

Sources: read-path.md#invariants, read-path.md#loop-until-stuck.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from loghistory.schema import Kind, Operation
from loghistory.vocabularies.read_path import GapWord

from ..codes import INVOKE, NULL, OK, code, lookup
from ..columns import Columns
from ..contract import Check, Family, Setting
from .protocol import BRIDGE, F_APPEND, F_READ, GAP, READ_PATH, StreamFold, epoch_of, shown

TILING = Check(
    id="tiling",
    rule="What a reader delivers tiles the log from its start on: every LSN once, in order, in a record or a gap.",
    source=("read-path.md#tiling",),
    fact="a record or a gap delivered by a stream of which it is known where it began",
    sentence={
        "skipped": "Stream {op} went on with {lsn} where {next} was next.",
        "again": "Stream {op} delivered {lsn} after it had delivered all before {next}.",
    },
    kinds=(Kind.INVOKE, Kind.STREAM_RECORD),
    columns=("op", "offset"),
)
AS_APPENDED = Check(
    id="record-as-appended",
    rule="A record equals what was appended: a client asked for it, and at its LSN nobody was told of another one.",
    source=("read-path.md#record-as-appended",),
    fact="a record delivered",
    sentence={
        "unwritten": "Stream {op} delivered {value} at {lsn}, which no client had appended.",
        "other": "Stream {op} delivered {value} at {lsn}, where {known} is.",
    },
    kinds=(Kind.INVOKE, Kind.STREAM_RECORD),
    columns=("op", "offset", "value"),
    looks_back=True,
)
RELEASED = Check(
    id="released-only",
    rule="Records, holes and data losses are delivered up to what a sequencer released, and no further.",
    source=("read-path.md#released-only",),
    fact="a record, a hole or a data loss delivered",
    sentence="Stream {op} delivered {lsn}, and no more than {bound} was released.",
    kinds=(Kind.RELEASE,),
    columns=("op", "offset"),
    looks_back=True,
)
TRIMMED = Check(
    id="trim-within-trim-point",
    rule="A reader passes over as trimmed what some shard has given up, and no more.",
    source=("read-path.md#trim-within-trim-point",),
    fact="a trim gap delivered",
    sentence="Stream {op} passed over all up to {lsn} as trimmed, and shards gave up no more than {bound}.",
    kinds=(Kind.TRIM_POINT, Kind.STREAM_GAP),
    columns=("op", "offset"),
    looks_back=True,
)
HOLES = Check(
    id="holes-are-for-all",
    rule="What one reader got as a hole, or at or above a bridge record in its epoch, is a record to none.",
    source=("read-path.md#holes-are-for-all",),
    fact="a hole or a bridge record delivered, or a record where one was",
    sentence={
        "hole": "One stream got a hole at {lsn}, and another one a record.",
        "bridge": "One stream got a bridge record at {bridge}, and another one a record at {lsn}.",
    },
    kinds=(Kind.STREAM_GAP,),
    columns=("op", "offset"),
)
END = Check(
    id="nothing-after-end",
    rule="No gap reaches beyond the end of its stream, and nothing comes after it, nor after a refusal of the log.",
    source=("read-path.md#nothing-after-end",),
    fact="a record or a gap delivered by a stream of which it is known where it began",
    sentence={
        "beyond": "Stream {op} delivered {lsn}, and was to read to {until}.",
        "after": "Stream {op} delivered {lsn} after it had been refused the log.",
    },
    kinds=(Kind.INVOKE,),
    columns=("op", "offset"),
)
REJECTED = Check(
    id="rejected-comes-next",
    rule="A record that the application did not take comes next, unless a rewind intervened or the log was refused.",
    source=("read-path.md#rejected-comes-next", "read-path.md#deliver-trim"),
    fact="a record that was not taken, and what the stream delivered next",
    sentence="Stream {op} delivered {lsn} next, where the application had not taken {value} at {rejected}.",
    kinds=(Kind.STREAM_REJECT,),
    columns=("op", "offset", "value"),
)
CHECKS = (TILING, AS_APPENDED, RELEASED, TRIMMED, HOLES, END, REJECTED)

_OF_STREAMS = (Kind.STREAM_RECORD, Kind.STREAM_GAP, Kind.STREAM_REJECT, Kind.STREAM_REWIND, Kind.STREAM_HEARD)
_KINDS = frozenset({Kind.INVOKE, Kind.OK, Kind.ACKNOWLEDGE, Kind.RELEASE, Kind.TRIM_POINT, *_OF_STREAMS})
_RECORD, _GAP, _REJECT, _REWIND, _HEARD = map(code, _OF_STREAMS)
_ACKNOWLEDGE, _RELEASE, _TRIM_POINT = map(code, (Kind.ACKNOWLEDGE, Kind.RELEASE, Kind.TRIM_POINT))
_IS_WANTED = lookup(_KINDS)
_REFUSALS = (GAP[GapWord.ACCESS], GAP[GapWord.NOT_IN_CONFIG])
_HOLE, _LOSS, _TRIM, _BRIDGE = (GAP[each] for each in (GapWord.HOLE, GapWord.DATALOSS, GapWord.TRIM, GapWord.BRIDGE))


@dataclass(slots=True)
class _Stream:
    """One read stream: the next LSN to deliver, and the event that came before."""

    next: int | None = None  # None: it is not known where it began
    until: int | None = None
    before: int = -1
    refused: int | None = None  # the event of a refusal
    rejected: tuple[int, int, int] | None = None  # LSN, value, event
    bridges: set[int] = field(default_factory=set)  # LSNs of the bridge records that it heard


@dataclass(slots=True)
class _Highest:
    """The highest LSN of several, and its event."""

    lsn: int = 0
    seq: int = -1

    def raised(self, lsn: int, seq: int) -> None:
        """Take another one."""
        if self.seq < 0 or lsn > self.lsn:
            self.lsn, self.seq = lsn, seq


class DeliveryFold(StreamFold):
    """Judges what the readers of one run deliver; see the module."""

    checks = CHECKS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._streams: dict[int, _Stream] = {}
        self._asked: dict[int, int] = {}  # by operation: the value to append
        self._written: set[int] = set()
        self._known: dict[int, tuple[int, int]] = {}  # by LSN: the value there, and who said so first
        self._released, self._trimmed = _Highest(), _Highest()
        self._records: dict[int, int] = {}  # by LSN: the event of the first delivery
        self._holes: dict[int, int] = {}
        self._last: dict[int, _Highest] = {}  # by epoch: the last record delivered
        self._bridges: dict[int, tuple[int, int]] = {}  # by epoch: the first bridge record, and its event

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        rows = columns.where(_IS_WANTED[columns.kind]).lists()
        for at, kind in enumerate(rows.kind):
            if kind in (_RECORD, _GAP):
                self._delivered(rows, at)
            elif kind == _HEARD:
                if rows.record[at] == BRIDGE:
                    self._stream(rows.op[at]).bridges.add(rows.offset[at])
            elif kind == INVOKE:
                self._asks(rows, at)
            elif kind == OK:
                if rows.f[at] == F_APPEND and rows.op[at] in self._asked:
                    self._known.setdefault(rows.offset[at], (self._asked.pop(rows.op[at]), rows.seq[at]))
            elif kind == _ACKNOWLEDGE:
                self._known.setdefault(rows.offset[at], (rows.value[at], rows.seq[at]))
            elif kind == _RELEASE:
                self._released.raised(rows.offset[at], rows.seq[at])
            elif kind == _TRIM_POINT:
                self._trimmed.raised(rows.offset[at], rows.seq[at])
            elif kind == _REWIND:
                self._stream(rows.op[at]).rejected = None
            elif rows.value[at] != NULL:
                self._stream(rows.op[at]).rejected = rows.offset[at], rows.value[at], rows.seq[at]

    def _stream(self, op: int) -> _Stream:
        return self._streams.setdefault(op, _Stream())

    def _asks(self, rows: Columns, at: int) -> None:
        op, offset, last = rows.op[at], rows.offset[at], rows.last_offset[at]
        if rows.f[at] == F_READ:
            until = last if last != offset else None  # a stream of one LSN looks like one without an end
            self._streams[op] = _Stream(offset, until, rows.seq[at])
        elif rows.f[at] == F_APPEND:
            self._asked[op] = rows.value[at]
            self._written.add(rows.value[at])

    def _delivered(self, rows: Columns, at: int) -> None:
        op, lsn, last, seq = rows.op[at], rows.offset[at], rows.last_offset[at], rows.seq[at]
        stream, is_record = self._stream(op), rows.kind[at] == _RECORD
        gap = None if is_record else rows.f[at]
        self._in_order(stream, op, lsn, last, seq)
        self._comes_next(stream, rows, at)
        if gap in _REFUSALS:
            stream.refused = seq
        if is_record:
            self._as_appended(rows, at)
        if is_record or gap in (_HOLE, _LOSS):
            self._within(RELEASED, self._released, op, last, seq)
        elif gap == _TRIM:
            self._within(TRIMMED, self._trimmed, op, last, seq)
        if is_record:
            self._holes_or_record(lsn, seq)
        elif gap == _HOLE or (gap == _BRIDGE and lsn in stream.bridges):
            self._nothing_there(lsn, seq, hole=gap == _HOLE)

    def _within(self, check: Check, bound: _Highest, op: int, last: int, seq: int) -> None:
        """What is delivered goes no further than the highest LSN that somebody told of, if anybody did."""
        tally = self._tallies[check.id]
        if bound.seq < 0:
            tally.unjudged += 1
            return
        tally.judged += 1
        if last > bound.lsn:
            tally.violation(bound.seq, seq, op=op, lsn=shown(last), bound=shown(bound.lsn))

    def _in_order(self, stream: _Stream, op: int, lsn: int, last: int, seq: int) -> None:
        tiling, end = self._tallies[TILING.id], self._tallies[END.id]
        if stream.next is None:
            tiling.unjudged += 1
            end.unjudged += 1
            return
        tiling.judged += 1
        end.judged += 1
        if lsn != stream.next:
            way = "skipped" if lsn > stream.next else "again"
            tiling.violation(stream.before, seq, way=way, op=op, lsn=shown(lsn), next=shown(stream.next))
        if stream.until is not None and last > stream.until:
            end.violation(seq, way="beyond", op=op, lsn=shown(last), until=shown(stream.until))
        elif stream.refused is not None:
            end.violation(stream.refused, seq, way="after", op=op, lsn=shown(lsn))
        stream.next, stream.before = last + 1, seq

    def _comes_next(self, stream: _Stream, rows: Columns, at: int) -> None:
        if stream.rejected is None:
            return
        (lsn, value, rejected), stream.rejected = stream.rejected, None
        is_record = rows.kind[at] == _RECORD
        tally = self._tallies[REJECTED.id]
        tally.judged += 1
        same = is_record and rows.offset[at] == lsn and rows.value[at] == value
        if not same and (is_record or rows.f[at] not in _REFUSALS):
            found = {"op": rows.op[at], "lsn": shown(rows.offset[at])}
            tally.violation(rejected, rows.seq[at], value=value, rejected=shown(lsn), **found)

    def _as_appended(self, rows: Columns, at: int) -> None:
        op, lsn, value, seq = rows.op[at], rows.offset[at], rows.value[at], rows.seq[at]
        tally = self._tallies[AS_APPENDED.id]
        if not self._written:
            tally.unjudged += 1
            return
        tally.judged += 1
        known, said = self._known.setdefault(lsn, (value, seq))
        if value not in self._written:
            tally.violation(seq, way="unwritten", op=op, lsn=shown(lsn), value=value)
        elif known != value:
            tally.violation(said, seq, way="other", op=op, lsn=shown(lsn), value=value, known=known)

    def _holes_or_record(self, lsn: int, seq: int) -> None:
        tally = self._tallies[HOLES.id]
        self._records.setdefault(lsn, seq)
        self._last.setdefault(epoch_of(lsn), _Highest()).raised(lsn, seq)
        bridge = self._bridges.get(epoch_of(lsn))
        if lsn in self._holes:
            tally.violation(self._holes[lsn], seq, way="hole", lsn=shown(lsn))
        elif bridge is not None and lsn >= bridge[0]:
            tally.violation(bridge[1], seq, way="bridge", lsn=shown(lsn), bridge=shown(bridge[0]))
        else:
            return
        tally.judged += 1

    def _nothing_there(self, lsn: int, seq: int, *, hole: bool) -> None:
        tally, epoch = self._tallies[HOLES.id], epoch_of(lsn)
        tally.judged += 1
        if hole:
            self._holes.setdefault(lsn, seq)
            if lsn in self._records:
                tally.violation(self._records[lsn], seq, way="hole", lsn=shown(lsn))
            return
        if epoch not in self._bridges or lsn < self._bridges[epoch][0]:
            self._bridges[epoch] = lsn, seq
        last = self._last.get(epoch)
        if last is not None and last.lsn >= lsn:
            tally.violation(last.seq, seq, way="bridge", lsn=shown(last.lsn), bridge=shown(lsn))


FAMILY = Family(
    "read_path_deliveries",
    CHECKS,
    _KINDS,
    ("op", "f", "offset", "last_offset", "value", "record"),
    DeliveryFold,
    READ_PATH,
    operations=frozenset({Operation.APPEND_RECORD, Operation.READ_STREAM, Operation.TRIM_LOG}),
)
