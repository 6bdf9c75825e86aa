"""Copies on shards: nothing that has enough of them is passed over, and recovery leaves equal ones.

An acknowledged record is *owed* as long as no disk that was lost, emptied or rotten took so many of its copies that the
others do not satisfy the property of its epoch. What the system itself deletes or overwrites is no excuse; what shards
have that were rebuilt elsewhere, and have not said since that they are back, does not count.

Sources: read-path.md#acknowledged-not-lost, read-path.md#bridge-hides-nothing, read-path.md#recovered-copies-agree.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from loghistory.schema import Kind
from loghistory.vocabularies.read_path import GapWord, HeardWord, RecordWord, RewindWord, ShardWord

from ..codes import FAULT_WIPE, INVOKE, REASONS, RECORDS, code, lookup, word_code
from ..columns import Columns
from ..contract import Check, Family, Setting
from .nodesets import AUTHORITATIVE_EMPTY, Nodesets, lsns_said, mask_of, members, statuses_said
from .protocol import BRIDGE, F_READ, GAP, READ_PATH, StreamFold, epoch_of, esn_of, shown
from .streams import settings_said

NOT_LOST = Check(
    id="acknowledged-not-lost",
    rule="No loss and no hole is reported of an acknowledged record that has had enough copies on disks since the "
    "reader asked all shards.",
    source=("read-path.md#acknowledged-not-lost",),
    fact="an acknowledged record delivered, or a loss or a hole over such records",
    sentence="Stream {op} has a {gap} over {lsn}, where {value} was acknowledged and has copies on shards {shards}.",
    kinds=(Kind.NODESET, Kind.COPY, Kind.ACKNOWLEDGE),
    columns=("op", "offset", "value"),
)
NOT_HIDDEN = Check(
    id="bridge-hides-nothing",
    rule="No bridge covers an acknowledged record that has enough copies; one that has not is reported as loss, except "
    "at the edge of an epoch of which no bridge record is left.",
    source=("read-path.md#bridge-hides-nothing", "read-path.md#gap-data-loss"),
    fact="a bridge delivered, once there is an acknowledged record",
    sentence={
        "there": "Stream {op} has a bridge over {lsn}, where {value} was acknowledged and is on shards {shards}.",
        "loss": "Stream {op} has a bridge over {lsn}, where {value} was acknowledged, which is a loss.",
    },
    kinds=(Kind.NODESET, Kind.COPY, Kind.ACKNOWLEDGE, Kind.STREAM_GAP),
    columns=("op", "offset", "value"),
)
AGREE = Check(
    id="recovered-copies-agree",
    rule="When an epoch is recovered, the copies above its last known good LSN agree on the mutation set; no shard "
    "ships other ones, and nothing is released in later epochs before.",
    source=("read-path.md#recovered-copies-agree", "read-path.md#release-needs-recovery", "read-path.md#activation"),
    fact="an LSN that a recovery settled, of which its mutation set has copies; a copy of one shipped; a release in an "
    "epoch behind others",
    sentence={
        "differ": "Epoch {epoch} is recovered, and shards {shards} do not have the same at {lsn}.",
        "shipped": "Shard {node} shipped what it has at {lsn}, where the recovery of the epoch left something else.",
        "released": "Node {node} released {lsn}, and epoch {epoch} was not recovered.",
    },
    kinds=(Kind.COPY, Kind.RECOVER),
    columns=("node", "offset", "record"),
)
CHECKS = (NOT_LOST, NOT_HIDDEN, AGREE)

_OWN = (
    *(Kind.NODESET, Kind.EVENT_LOG, Kind.FAULT, Kind.TAKES_PART, Kind.COPY, Kind.PURGE, Kind.TRIM_POINT, Kind.RECOVER),
    *(Kind.ACKNOWLEDGE, Kind.STREAM_SETTINGS, Kind.STREAM_HEARD, Kind.STREAM_REWIND, Kind.STREAM_RECORD),
    *(Kind.STREAM_GAP, Kind.SHIP, Kind.RELEASE),
)
_NODESET, _EVENT_LOG, _FAULT, _TAKES_PART, _COPY, _PURGE, _TRIM_POINT, _RECOVER = map(code, _OWN[:8])
_ACKNOWLEDGE, _SETTINGS, _HEARD, _REWIND, _RECORD, _GAP, _SHIP, _RELEASE = map(code, _OWN[8:])
_IS_WANTED = lookup({*_OWN, Kind.INVOKE})
_LOST, _DATA = REASONS[ShardWord.LOST], RECORDS[RecordWord.DATA]
_DONE, _DAMAGED = word_code(RewindWord.DONE), word_code(HeardWord.DAMAGED)
_HOLE, _LOSS, _BRIDGE = (GAP[each] for each in (GapWord.HOLE, GapWord.DATALOSS, GapWord.BRIDGE))
_MOST_EPOCHS = 1 << 16
"""The releases of later epochs are not judged."""
_ROT = "rot"
"""The fault that spoils copies where they lie; of which ones nobody knows until they are read."""


@dataclass(slots=True)
class _Record:
    """An acknowledged record: the event that acknowledged it, and since when it is owed; -1: it is not."""

    value: int
    seq: int
    since: int
    ever: bool = False  # it was


@dataclass(slots=True)
class _Reader:
    """One read stream: where it began, when it asked all shards, the bridge records it heard."""

    first: int = -1
    until: int | None = None
    asked: int = -1
    in_flight: int | None = None
    bridges: set[int] = field(default_factory=set)


class CopyFold(StreamFold):
    """Follows the copies of every shard; see the module."""

    checks = CHECKS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._words = setting.words
        self._rot = setting.words.code(_ROT)
        self._rotten = False
        self._nodesets = Nodesets(setting.words)
        self._held: dict[int, dict[int, tuple[int, int]]] = {}  # by LSN and shard: what it is, and its value
        self._index: list[int] = []  # the LSNs of it in order
        self._acknowledged: dict[int, _Record] = {}
        self._order: list[int] = []  # the LSNs of it in order
        self._recovered_from: dict[int, tuple[int, int]] = {}  # by epoch: the last known good LSN, the event
        self._settled: dict[int, tuple[int, int]] = {}  # by LSN: what recovery left there
        self._trimmed = -1
        self._empty = 0
        self._any = False  # some record has been owed
        self._loss = -1  # the first event that took copies
        self._readers: dict[int, _Reader] = {}

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        rows = columns.where(_IS_WANTED[columns.kind]).lists()
        for at, kind in enumerate(rows.kind):
            if kind == _RECORD:
                record = self._acknowledged.get(rows.offset[at])
                self._tallies[NOT_LOST.id].judged += record is not None and record.ever
            elif kind in (_HEARD, _REWIND, _SETTINGS, INVOKE):
                self._hears(rows, at)
            elif kind == _COPY:
                self._copy(rows, at)
            elif kind == _GAP:
                self._gap(rows, at)
            elif kind == _ACKNOWLEDGE:
                self._acknowledges(rows, at)
            elif kind == _NODESET:
                self._nodesets.told(rows.epoch[at], rows.value[at])
            elif kind == _RECOVER:
                self._recovered(rows, at)
            elif kind == _SHIP:
                self._ships(rows, at)
            elif kind == _RELEASE:
                self._releases(rows, at)
            else:
                self._goes(rows, at)

    # -- copies come and go --------------------------------------------------------------------------------------------

    def _copy(self, rows: Columns, at: int) -> None:
        lsn, node = rows.offset[at], rows.node[at]
        held = self._held.get(lsn)
        if held is None:
            held = self._held[lsn] = {}
            insort(self._index, lsn)
        held[node] = rows.record[at], rows.value[at]
        record = self._acknowledged.get(lsn)
        if record is not None and record.since < 0 and self._enough(lsn, record):
            record.since, record.ever, self._any = rows.seq[at], True, True

    def _goes(self, rows: Columns, at: int) -> None:
        """Copies go: given up, deleted, or lost with a disk."""
        kind, node, seq = rows.kind[at], rows.node[at], rows.seq[at]
        if kind == _TRIM_POINT:
            self._trimmed = max(self._trimmed, rows.offset[at])
            self._drop(self._between(self._index, 0, rows.offset[at]), node)
        elif kind == _PURGE:
            self._drop(self._between(self._index, rows.offset[at], rows.last_offset[at]), node)
        elif kind == _EVENT_LOG:
            statuses = statuses_said(self._words.text(rows.value[at]))
            empty = mask_of(shard for shard, status in statuses.items() if status == AUTHORITATIVE_EMPTY)
            before, self._empty = self._empty, empty
            if empty & ~before:
                self._not_owed(list(self._order), seq)
        elif kind == _FAULT and rows.f[at] == self._rot:
            self._rotten = True
        elif (kind == _FAULT and rows.f[at] == FAULT_WIPE) or (kind == _TAKES_PART and rows.reason[at] == _LOST):
            gone = [lsn for lsn, held in self._held.items() if node in held]
            self._drop(gone, node)
            self._not_owed(gone, seq)

    def _drop(self, lsns: Iterable[int], node: int) -> None:
        for lsn in [*lsns]:
            self._held[lsn].pop(node, None)
            if not self._held[lsn]:
                del self._held[lsn], self._index[bisect_left(self._index, lsn)]

    @staticmethod
    def _between(order: list[int], first: int, last: int) -> list[int]:
        return order[bisect_left(order, first) : bisect_right(order, last)]

    def _holders(self, lsn: int, record: _Record) -> int:
        """The shards whose copies of a record count."""
        held = self._held.get(lsn, {})
        return mask_of(node for node, copy in held.items() if copy == (_DATA, record.value)) & ~self._empty

    def _enough(self, lsn: int, record: _Record) -> bool:
        nodeset = self._nodesets.of(epoch_of(lsn))
        return nodeset is not None and nodeset.satisfied(self._holders(lsn, record))

    def _not_owed(self, lsns: Iterable[int], seq: int) -> None:
        """Copies of these went with a disk: what has not enough others is not owed any more."""
        for lsn in lsns:
            record = self._acknowledged.get(lsn)
            if record is not None and record.since >= 0 and not self._enough(lsn, record):
                record.since = -1
                self._loss = seq if self._loss < 0 else self._loss

    # -- records and recoveries ----------------------------------------------------------------------------------------

    def _acknowledges(self, rows: Columns, at: int) -> None:
        lsn, seq = rows.offset[at], rows.seq[at]
        if lsn in self._acknowledged:
            return
        record = self._acknowledged[lsn] = _Record(rows.value[at], seq, -1)
        insort(self._order, lsn)
        if self._enough(lsn, record):
            record.since, record.ever, self._any = seq, True, True

    def _recovered(self, rows: Columns, at: int) -> None:
        tally, epoch, shards = self._tallies[AGREE.id], rows.epoch[at], max(rows.shards[at], 0)
        first = max(rows.offset[at], epoch << 32) + 1
        for lsn in self._between(self._index, first, min(rows.last_offset[at], (epoch + 1 << 32) - 1)):
            found = {node: copy for node, copy in self._held[lsn].items() if node >= 0 and shards >> node & 1}
            tally.judged += bool(found)
            if len({*found.values()}) > 1:
                tally.violation(rows.seq[at], way="differ", epoch=epoch, lsn=shown(lsn), shards=sorted(found))
            if found:
                self._settled[lsn] = next(iter(found.values()))
        if rows.last_offset[at] > epoch << 32:
            self._recovered_from.setdefault(epoch, (first - 1, rows.seq[at]))
        else:
            self._recovered_from.setdefault(epoch, ((epoch + 1 << 32) - 1, rows.seq[at]))

    def _ships(self, rows: Columns, at: int) -> None:
        """What a shard ships of a recovered epoch is what recovery left there (read-path.md#release-needs-recovery)."""
        tally, node = self._tallies[AGREE.id], rows.node[at]
        for lsn in lsns_said(self._words.text(rows.value[at])):
            good, seq = self._recovered_from.get(epoch_of(lsn), (lsn, -1))
            copy = self._held.get(lsn, {}).get(node)
            if lsn > good and copy is not None:
                tally.judged += 1
                if copy != self._settled.get(lsn):
                    tally.violation(seq, rows.seq[at], way="shipped", node=node, lsn=shown(lsn))

    def _releases(self, rows: Columns, at: int) -> None:
        """All epochs before it are recovered (read-path.md#activation)."""
        tally, epoch = self._tallies[AGREE.id], rows.epoch[at]
        if epoch < 2 or epoch > _MOST_EPOCHS or not self._recovered_from:
            return
        open_ = [each for each in range(1, epoch) if each not in self._recovered_from]
        tally.judged += bool(open_ or self._index)  # where no copies are recorded, a release shows little
        if open_:
            found = {"node": rows.node[at], "epoch": open_[0], "lsn": shown(rows.offset[at])}
            tally.violation(rows.seq[at], way="released", **found)

    # -- readers -------------------------------------------------------------------------------------------------------

    def _reader(self, op: int) -> _Reader:
        return self._readers.setdefault(op, _Reader())

    def _hears(self, rows: Columns, at: int) -> None:
        kind, op, lsn = rows.kind[at], rows.op[at], rows.offset[at]
        if kind == INVOKE:
            if rows.f[at] == F_READ:
                until = rows.last_offset[at] if rows.last_offset[at] != lsn else None
                self._readers[op] = _Reader(lsn, until, rows.seq[at])
        elif kind == _SETTINGS:
            settings = settings_said(self._words.text(rows.value[at]))
            self._reader(op).in_flight = None if settings is None else settings.in_flight
        elif kind == _REWIND:
            if rows.f[at] == _DONE:
                self._reader(op).asked = rows.seq[at]
        elif rows.f[at] == _DAMAGED:
            if rows.peer[at] in self._held.get(lsn, {}):
                self._drop([lsn], rows.peer[at])
                self._not_owed([lsn], rows.seq[at])
        elif rows.record[at] == BRIDGE:
            self._reader(op).bridges.add(lsn)

    def _covered(self, rows: Columns, at: int) -> Iterator[tuple[int, _Record]]:
        """The acknowledged records that a gap covers and that are not trimmed."""
        for lsn in self._between(self._order, max(rows.offset[at], self._trimmed + 1), rows.last_offset[at]):
            yield lsn, self._acknowledged[lsn]

    def _gap(self, rows: Columns, at: int) -> None:
        f, reader = rows.f[at], self._reader(rows.op[at])
        if f not in (_HOLE, _LOSS, _BRIDGE):
            return
        by_record = f == _HOLE or rows.offset[at] in reader.bridges
        tally = self._tallies[NOT_HIDDEN.id if f == _BRIDGE else NOT_LOST.id]
        covered = [*self._covered(rows, at)]
        unknown = not any(record.ever for _, record in covered) if covered else not self._any
        if unknown or (covered and self._rotten and by_record):
            tally.unjudged += 1  # or recovery may have found nothing but rotten copies
            return
        tally.judged += bool(covered) or f == _BRIDGE
        owed = [each for each in covered if self._is_owed(each[1], reader)]
        if not covered:
            return
        lsn, record = (owed or covered)[0]
        found = {"op": rows.op[at], "lsn": shown(lsn), "value": record.value}
        shards = [*members(self._holders(lsn, record))]
        if f != _BRIDGE and owed:
            tally.violation(record.seq, rows.seq[at], gap=_WORDS[f], shards=shards, **found)
        elif owed:
            tally.violation(record.seq, rows.seq[at], way="there", shards=shards, **found)
        elif f == _BRIDGE and not self._at_edge(reader, rows, at):
            tally.violation(record.seq, rows.seq[at], way="loss", **found)
        else:
            tally.excuse("wipe", first=self._loss)

    @staticmethod
    def _is_owed(record: _Record, reader: _Reader) -> bool:
        """Whether a record has had enough copies since the reader asked all shards, or since it was acknowledged."""
        return record.since >= 0 and (record.since == record.seq or record.since < reader.asked)

    @staticmethod
    def _at_edge(reader: _Reader, rows: Columns, at: int) -> bool:
        """Whether a bridge may cover a loss: no bridge record tells where the epoch ended (read-path.md#gap-bridge)."""
        lsn, last = rows.offset[at], rows.last_offset[at]
        if reader.in_flight is None or last == reader.until:
            return True
        begins = lsn == reader.first or epoch_of(lsn - 1) < epoch_of(last + 1)
        between = epoch_of(lsn) != epoch_of(last + 1) or (begins and esn_of(last + 1) <= reader.in_flight)
        return between and lsn not in reader.bridges


_WORDS = {_HOLE: "hole", _LOSS: "loss"}

FAMILY = Family(
    "read_path_copies",
    CHECKS,
    frozenset({*_OWN, Kind.INVOKE}),
    (
        *("node", "op", "peer", "f", "offset", "last_offset", "value", "record", "epoch", "shards"),
        "reason",
    ),
    CopyFold,
    READ_PATH,
    reads_texts=True,
)
