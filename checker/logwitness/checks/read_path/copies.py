"""Copies on shards: nothing that has enough of them is passed over, and recovery leaves equal ones.

An acknowledged record is *owed* as long as no disk that was lost, emptied or rotten took so many of its copies that the
others do not satisfy the property of its epoch. What the system itself deletes or overwrites is no excuse; what shards
have that were rebuilt elsewhere, and have not said since that they are back, does not count.

Sources: read-path.md#acknowledged-not-lost, read-path.md#bridge-hides-nothing, read-path.md#recovered-copies-agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind
from loghistory.vocabularies.read_path import GapWord, HeardWord, NodeWord, RecordWord, RewindWord, ShardWord

from ..codes import FAULT_WIPE, INVOKE, MAX_OFFSET, NO_NODE, NULL, REASONS, RECORDS, code, lookup, word_code
from ..columns import Ints
from ..contract import Check, Family, Setting, Tally, Verdicts
from ..ends import NOBODY, Ends, awaited_at
from ..hashing import all_grown
from ..kernel import kernel, part
from .held import NOWHERE, Held, copied, copy_at, drop, lsn_row, nothing_held, place_in_order, put, with_copies
from .nodesets import (
    AUTHORITATIVE_EMPTY,
    FULLY_AUTHORITATIVE,
    MOST_SHARDS,
    UNAVAILABLE,
    UNDERREPLICATION,
    Enough,
    KnownPlaces,
    Nodesets,
    Places,
    lsns_said,
    mask_of,
    members,
    satisfied,
    statuses_said,
)
from .protocol import BRIDGE, F_READ, GAP, READ_PATH, Cells, StreamFold, epoch_of, esn_of, no_rows, shown
from .streams import settings_said

NOT_LOST = Check(
    id="acknowledged-not-lost",
    rule="No loss and no hole is reported of an acknowledged record that has had enough copies on disks since the "
    "reader asked all shards; of one that is lost, no hole.",
    source=("read-path.md#acknowledged-not-lost", "read-path.md#loss-is-remembered"),
    fact="an acknowledged record delivered, or a loss or a hole over such records",
    sentence={
        "there": "Stream {op} has a {gap} over {lsn}, where {value} was acknowledged and has copies on shards "
        "{shards}.",
        "loss": "Stream {op} has a hole over {lsn}, where {value} was acknowledged, which is a loss.",
    },
    kinds=(Kind.NODESET, Kind.COPY, Kind.ACKNOWLEDGE),
    explained_by=frozenset({Kind.TRIM_POINT}),
    columns=("op", "offset", "value"),
)
NOT_HIDDEN = Check(
    id="bridge-hides-nothing",
    rule="No bridge covers an acknowledged record that has enough copies; one that does not is reported as lost, "
    "except at the edge of an epoch of which no bridge record is left.",
    source=("read-path.md#bridge-hides-nothing", "read-path.md#gap-data-loss"),
    fact="a bridge delivered, once there is an acknowledged record",
    sentence={
        "there": "Stream {op} has a bridge over {lsn}, where {value} was acknowledged and is on shards {shards}.",
        "loss": "Stream {op} has a bridge over {lsn}, where {value} was acknowledged, which is a loss.",
    },
    kinds=(Kind.NODESET, Kind.COPY, Kind.ACKNOWLEDGE, Kind.STREAM_GAP),
    explained_by=frozenset({Kind.INVOKE, Kind.TRIM_POINT}),
    columns=("op", "offset", "value"),
)
AGREE = Check(
    id="recovered-copies-agree",
    rule="When an epoch is recovered, the copies above its last known good LSN agree on the mutation set, those that "
    "its recovery wrote satisfy the property, and what a recovery left as nothing stays so; no shard ships other "
    "copies, a purge leaves enough of what was acknowledged, and nothing is released in later epochs before that.",
    source=(
        "read-path.md#recovered-copies-agree",
        "read-path.md#recovery-precedence",
        "read-path.md#recovery-bridge",
        "read-path.md#release-needs-recovery",
        "read-path.md#activation",
    ),
    fact="an LSN that a recovery settled, of which its mutation set has copies; a copy of one shipped; a copy of an "
    "acknowledged record purged; a release in an epoch after others",
    sentence={
        "differ": "Epoch {epoch} is recovered, but shards {shards} do not have the same at {lsn}.",
        "few": "Epoch {epoch} is recovered, but run {run} wrote what is at {lsn} only to shards {shards}.",
        "beaten": "Run {run} of a recovery stored {value} on shard {node} at {lsn}, where run {before} left nothing.",
        "shipped": "Shard {node} shipped what it has at {lsn}, where the recovery of the epoch left something else.",
        "purged": "Shard {node} purged {value} at {lsn}, which was acknowledged, and only shards {shards} have it now.",
        "released": "Node {node} released {lsn} although epoch {epoch} was not recovered.",
    },
    kinds=(Kind.RECOVER,),
    explained_by=frozenset({Kind.TRIM_POINT}),
    columns=("node", "offset", "record"),
)
REBUILT = Check(
    id="rebuilt-is-replicated",
    rule="When a shard counts as empty, what others still have of what it had is replicated without it, unless a disk "
    "was lost meanwhile, and nothing is acknowledged by what it had together with copies that are stored later; while "
    "its data may come back, no record can have had all its copies on shards that are not donors.",
    source=("read-path.md#rebuilding-donors", "read-path.md#append-waves", "read-path.md#status-of-events"),
    fact="an acknowledged record that a shard which acknowledged it still has, when another one becomes empty; one "
    "that a shard acknowledged and lost with its disk; a shard whose data might have come back, when it becomes empty "
    "because all donors are done",
    sentence={
        "few": "Shards {empty} count as empty, but {value} at {lsn} was not copied again: only shards {shards} have "
        "it.",
        "late": "Node {node} acknowledged {value} at {lsn} by the copy of shard {shard}, which was lost with its disk "
        "and made anew by nobody: shards {shards} stored theirs only after shard {shard} counted as empty.",
        "all": "Shards {empty} count as empty although their data might have come back, and shards {shards} may have "
        "had all copies of a record of epoch {epoch}.",
    },
    kinds=(Kind.NODESET, Kind.COPY, Kind.ACKNOWLEDGE, Kind.EVENT_LOG),
    explained_by=frozenset({Kind.TRIM_POINT}),
    columns=("node", "offset", "value"),
)
CHECKS = (NOT_LOST, NOT_HIDDEN, AGREE, REBUILT)

_OWN = (
    *(Kind.NODESET, Kind.EVENT_LOG, Kind.FAULT, Kind.TAKES_PART, Kind.COPY, Kind.PURGE, Kind.TRIM_POINT, Kind.RECOVER),
    *(Kind.ACKNOWLEDGE, Kind.STREAM_SETTINGS, Kind.STREAM_HEARD, Kind.STREAM_REWIND, Kind.STREAM_RECORD),
    *(Kind.STREAM_GAP, Kind.SHIP, Kind.RELEASE),
)
_SIGNS = lookup({Kind.COPY, Kind.PURGE, Kind.TRIM_POINT, Kind.SHIP, Kind.ACKNOWLEDGE, Kind.RELEASE, Kind.RECOVER})
_NODESET, _EVENT_LOG, _FAULT, _TAKES_PART, _COPY, _PURGE, _TRIM_POINT, _RECOVER = map(code, _OWN[:8])
_ACKNOWLEDGE, _SETTINGS, _HEARD, _REWIND, _RECORD, _GAP, _SHIP, _RELEASE = map(code, _OWN[8:])
_LOST, _DATA = REASONS[ShardWord.LOST], RECORDS[RecordWord.DATA]
_DONE, _DAMAGED = word_code(RewindWord.DONE), word_code(HeardWord.DAMAGED)
_HOLE, _LOSS, _BRIDGE = (GAP[each] for each in (GapWord.HOLE, GapWord.DATALOSS, GapWord.BRIDGE))
_MOST_EPOCHS = 1 << 16
"""The releases of later epochs are not judged."""
_DRAIN, _ABORT = "drain", "abort"
"""Records of the event log that begin a plan though no status changes: a shard that is up is drained, or is not."""
_ROT = "rot"
"""The fault that spoils copies where they lie; of which ones nobody knows until they are read."""
_AGREE = CHECKS.index(AGREE)
_IS_WANTED, _IS_END = lookup({*_OWN, *END_KINDS, Kind.INVOKE}), lookup(END_KINDS)
_SEQUENCER = word_code(NodeWord.SEQUENCER)
_LEFT = frozenset({_NODESET, _EVENT_LOG, _FAULT, _TAKES_PART, _PURGE, _RECOVER, _SETTINGS, _REWIND, _GAP})


class _Rows(NamedTuple):
    """The columns that are read."""

    seq: Cells
    kind: Cells
    node: Cells
    op: Cells
    peer: Cells
    f: Cells
    offset: Cells
    last_offset: Cells
    value: Cells
    record: Cells
    epoch: Cells
    recovery: Cells
    shards: Cells
    reason: Cells


class _Records(NamedTuple):
    """By row of an LSN: the acknowledged record there, and what recovery left there."""

    value: Ints
    seq: Ints  # of the event that acknowledged it; -1: none
    since: Ints  # since when it is owed; -1: it is not
    ever: Ints  # whether it was
    settled: Ints  # the event that settled it; -1: none
    record: Ints
    left: Ints  # the value that was left
    named: Ints  # the shards that it was acknowledged by
    gone: Ints  # the last event that took a copy with a disk of a shard that was to have it; -1: none
    lost: Ints  # the last event since which it is not owed, and the shard whose copy was missed then; -1: none
    loser: Ints


class _State(NamedTuple):
    """What the loop knows; the numbers of ``run`` are named below."""

    held: Held  # in place of a copyset: which run of a recovery wrote it
    records: _Records
    recovered: Ints  # epochs that are recovered, in order
    good: Ints  # the last known good LSN of each
    lowest: Ints  # by shard: where copies that it may give up begin
    run: Ints
    awaited: Ints  # `Ends`


_EMPTY, _ANY, _UPTO, _TRIMMED, _COPIED, _WIPED = range(6)
"""The shards that are empty, as a set; whether some record has been owed; up to which epoch all are recovered; the
highest trim point; whether any copy is recorded; the shards whose disks were lost, as a set."""
_REBUILT = CHECKS.index(REBUILT)


@part
def _having(held: Held, row: int, value: int) -> int:
    """The shards that have a record with a value."""
    found, place = 0, held.first[row]
    while place >= 0:
        node = held.copies.node[place]
        same = held.copies.record[place] == _DATA and held.copies.value[place] == value
        if same and 0 <= node < MOST_SHARDS:
            found |= 1 << node
        place = held.copies.next[place]
    return int(found)


@part
def _holders(state: _State, row: int) -> int:
    """The shards whose copies of a record count."""
    return int(_having(state.held, row, state.records.value[row]) & ~state.run[_EMPTY])


@part
def _owes(state: _State, places: Places, row: int, lsn: int, seq: int) -> None:
    """Whether an acknowledged record has enough copies now: then it is owed."""
    records = state.records
    if records.seq[row] >= 0 and records.since[row] < 0 and satisfied(places, lsn, _holders(state, row)):
        records.since[row] = seq
        records.ever[row] = state.run[_ANY] = 1


@part
def _stores(state: _State, places: Places, rows: _Rows, i: int) -> None:
    """A shard has a copy."""
    lsn, node = rows.offset[i], rows.node[i]
    row = lsn_row(state.held.lsns, lsn)
    put(state.held, row, node, rows.record[i], rows.value[i], rows.recovery[i], rows.seq[i])
    state.run[_COPIED] = 1
    if 0 <= node < MOST_SHARDS:
        state.lowest[node] = min(state.lowest[node], lsn)
    _owes(state, places, row, lsn, rows.seq[i])


@part
def _acknowledges(state: _State, places: Places, rows: _Rows, i: int, row: int) -> None:
    """A record is acknowledged for the first time."""
    records = state.records
    records.value[row], records.seq[row] = rows.value[i], rows.seq[i]
    records.named[row] = max(rows.shards[i], 0)
    _owes(state, places, row, rows.offset[i], rows.seq[i])


@part
def _owes_no_more(state: _State, places: Places, row: int, lsn: int, node: int, seq: int) -> None:
    """Copies went with a disk: a record that has not enough others is not owed any more."""
    if state.records.since[row] >= 0 and not satisfied(places, lsn, _holders(state, row)):
        state.records.since[row] = -1
        state.records.lost[row] = seq
        state.records.loser[row] = node


@part
def _gives_up(state: _State, node: int, last: int) -> None:
    """A shard gives up what it has up to an LSN."""
    lsns, slot = state.held.lsns, node if 0 <= node < MOST_SHARDS else MOST_SHARDS
    for place in range(place_in_order(lsns, state.lowest[slot]), place_in_order(lsns, last + 1)):
        drop(state.held, lsns.rows[place], node)
    if slot < MOST_SHARDS:
        state.lowest[slot] = max(state.lowest[slot], last + 1)
    state.run[_TRIMMED] = max(state.run[_TRIMMED], last)


@part
def _is_settled(state: _State, first: int, last: int) -> bool:
    """Whether recovery has settled any LSN from one to another."""
    for place in range(len(state.recovered)):
        if first >> 32 <= state.recovered[place] <= last >> 32 and last > state.good[place]:
            return True
    return False


@kernel
def _lose(state: _State, places: Places, node: int, first: int, last: int, seq: int, full: bool) -> None:
    """A shard loses its copies from one LSN to another; ``seq``: with a disk, -1: because the system deletes them;
    ``full``: though the event log says that it has them."""
    lsns = state.held.lsns
    for place in range(place_in_order(lsns, first), place_in_order(lsns, last + 1)):
        row = lsns.rows[place]
        if drop(state.held, row, node) and seq >= 0:
            if full:
                state.records.gone[row] = seq
            _owes_no_more(state, places, row, lsns.order[place], node, seq)


@kernel
def _become_empty(state: _State, places: Places, seq: int) -> None:
    """Copies of shards that are empty now do not count any more."""
    for place in range(state.held.lsns.used[0]):
        _owes_no_more(state, places, state.held.lsns.rows[place], state.held.lsns.order[place], NO_NODE, seq)


@kernel
def _not_copied(state: _State, places: Places, at: int, full: int, plan: int, judged: Ints) -> int:
    """The next place of a record that a shard of these has kept and that has too few copies; ``plan``: the event since
    which no other disk was lost. A copy of a wave that was given up is nobody's to copy."""
    lsns, records = state.held.lsns, state.records
    for place in range(at, lsns.used[0]):
        lsn, row = lsns.order[place], lsns.rows[place]
        if lsn <= state.run[_TRIMMED] or not records.ever[row] or records.gone[row] > plan:
            continue
        holders = _holders(state, row)
        if holders & full & records.named[row]:
            judged[_REBUILT] += 1
            if not satisfied(places, lsn, holders):
                return int(place)
    return NOWHERE


@kernel
def _skim(rows: _Rows, at: int, places: Places, state: _State, judged: Ints) -> int:
    held, records = state.held, state.records
    for i in range(at, len(rows.kind)):
        kind, lsn = rows.kind[i], rows.offset[i]
        if not _IS_WANTED[kind]:
            continue
        if _SIGNS[kind] and state.awaited[awaited_at(rows.node[i])]:
            return i
        if kind == _RECORD:
            row = lsn_row(held.lsns, lsn)
            judged[0] += row >= 0 and records.ever[row] != 0
        elif kind == _HEARD:
            if rows.f[i] == _DAMAGED or rows.record[i] == BRIDGE:
                return i
        elif kind == _COPY:
            if rows.recovery[i] > 0:
                return i
            _stores(state, places, rows, i)
        elif kind == _ACKNOWLEDGE:
            row = lsn_row(held.lsns, lsn)
            if records.seq[row] < 0:
                named = max(rows.shards[i], 0) & state.run[_WIPED]
                if named and named & ~_having(held, row, rows.value[i]):
                    return i
                _acknowledges(state, places, rows, i, row)
        elif kind == _SHIP:
            if _is_settled(state, lsn, rows.last_offset[i]):
                return i
        elif kind == _RELEASE:
            epoch = rows.epoch[i]
            if 2 <= epoch <= _MOST_EPOCHS and len(state.recovered):
                if state.run[_UPTO] < epoch - 1:
                    return i
                judged[_AGREE] += state.run[_COPIED]  # where no copies are recorded, a release shows little
        elif kind == _TRIM_POINT:
            _gives_up(state, rows.node[i], lsn)
        elif kind != INVOKE or rows.f[i] == F_READ:
            return i
    return len(rows.kind)


@dataclass(slots=True)
class _Reader:
    """One read stream: where it began, when it asked all shards, the bridge records it heard."""

    first: int = -1
    until: int | None = None
    asked: int = -1
    in_flight: int | None = None
    bridges: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Agree:
    """Whether shards have the same at an LSN, but for those that may have stored something else last."""

    copies: frozenset[tuple[int, tuple[int, int]]]

    def __call__(self, cut: frozenset[int]) -> bool:
        """See `Ends.wait`; these shards were cut off."""
        return len({copy for node, copy in self.copies if node not in cut}) < 2


class CopyFold(StreamFold[_Rows]):
    """Follows the copies of every shard; see the module."""

    checks = CHECKS
    wanted = _IS_WANTED
    left = _LEFT

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, _Rows)
        self._skim = _skim.often(setting.compiled)
        self._rot, self._drain, self._abort = map(setting.words.code, (_ROT, _DRAIN, _ABORT))
        self._rotten = False
        self._begun = 0  # the shards that took part
        self._nodesets = Nodesets(setting.words)
        none = np.zeros(0, dtype=np.int64)
        run, lowest = np.array([0, 0, 0, -1, 0, 0], dtype=np.int64), np.zeros(MOST_SHARDS + 1, dtype=np.int64)
        self._ends = Ends()
        self._sequencers: set[int] = set()
        self._known_places = KnownPlaces(self._nodesets.places)
        self._state = _State(nothing_held(), no_rows(_Records), none, none, lowest, run, self._ends.awaited)
        self._declared: dict[int, int] = {}  # by epoch from which on a nodeset goes: the event that told it first
        self._recovered_by: dict[int, tuple[int, int]] = {}  # by epoch: the last known good LSN, the event
        self._written: dict[int, set[int]] = {}  # by LSN: the runs of recoveries that stored data there
        self._stored: dict[tuple[int, int], int] = {}  # by LSN and run: the shards that ever had what it wrote there
        self._nothing: dict[tuple[int, int], int] = {}  # by LSN and shard: the last event by which one left nothing
        self._recoverers: dict[int, int] = {}  # by epoch: since when the node lived that recovered it first
        self._unsure: set[int] = set()  # LSNs that a recovery settled, as shards say that may have had other copies
        self._readers: dict[int, _Reader] = {}
        self._statuses: Mapping[int, int] = {}
        self._plan = -1  # the event since which donors do what they do
        self._plans: list[int] = []  # and all those
        self._emptied: dict[int, int] = {}  # by shard: the last event by which its disk was lost
        self._counts_empty: dict[int, int] = {}  # and by which it counts as empty since
        self._purged: dict[int, int] = {}  # by shard: its last purge
        self._drained = 0  # the shards that are drained while they are up, as a set

    def make_room(self, rows: _Rows) -> None:
        """See `StreamFold`."""
        copies = rows.kind == _COPY
        lsns = rows.offset[copies | (rows.kind == _ACKNOWLEDGE)]
        before, state = int(self._state.held.lsns.used[0]), self._state
        held = with_copies(state.held, lsns, int(np.count_nonzero(copies)), self.compiled)
        records = all_grown(state.records, before, int(held.lsns.used[0]) - before, _blank)
        self._state = state._replace(held=held, records=records)

    def skim(self, rows: _Rows, at: int) -> int:
        """See `StreamFold`."""
        return self._skim(rows, at, self._nodesets.places, self._state, self.judged)

    def take(self, e: _Rows) -> None:
        """See `StreamFold`."""
        if _SIGNS[e.kind] and self._ends.awaited[awaited_at(e.node)]:
            self._ends.sign(e.node, e.seq)
            state = self._state._replace(awaited=NOBODY)
            if _skim.plain(_Rows(*([cell] for cell in e)), 0, self._nodesets.places, state, self.judged):
                return
        if e.kind == _TAKES_PART or _IS_END[e.kind]:
            self._turns(e)
        if e.kind in (_HEARD, _REWIND, _SETTINGS, INVOKE):
            self._hears(e)
        elif e.kind == _COPY:
            self._recovers(e)
        elif e.kind == _GAP:
            self._gap(e)
        elif e.kind == _NODESET:
            self._nodesets.learn(e.epoch, e.value)
            if e.epoch in self._nodesets.places.since:
                self._declared.setdefault(e.epoch, e.seq)
            self._known_places = KnownPlaces(self._nodesets.places)
        elif e.kind == _RECOVER:
            self._recovered(e)
        elif e.kind == _SHIP:
            self._ships(e)
        elif e.kind == _RELEASE:
            self._releases(e)
        elif e.kind == _ACKNOWLEDGE:
            self._acknowledges(e)
        else:
            self._goes(e)

    def _turns(self, e: _Rows) -> None:
        """The life of a node begins or ends."""
        self._ends.turn(e.kind, e.node, e.seq)
        if e.kind == _TAKES_PART:
            self._begun |= mask_of((e.node,))
            if e.f == _SEQUENCER:
                self._sequencers.add(e.node)

    def _others(self, epoch: int, having: int) -> list[int]:
        """The other shards on which what is in an epoch may lie."""
        nodeset = self._nodesets.of(epoch)
        return [*members(nodeset.shards & ~having)] if nodeset is not None else []

    # -- copies go -----------------------------------------------------------------------------------------------------

    def _goes(self, e: _Rows) -> None:
        """Copies go: deleted, or lost with a disk."""
        if e.kind == _PURGE:
            self._purges(e)
        elif e.kind == _EVENT_LOG:
            self._event_log(e)
        elif e.kind == _FAULT and e.f == self._rot:
            self._rotten = True
        elif (e.kind == _FAULT and e.f == FAULT_WIPE) or (e.kind == _TAKES_PART and e.reason == _LOST):
            self._lose(e.node, NULL, MAX_OFFSET, e.seq)
            self._empties(e)

    def _empties(self, e: _Rows) -> None:
        """A disk is lost; whether its shard counts as empty already, or is to be seen."""
        self._emptied[e.node] = e.seq
        self._state.run[_WIPED] |= mask_of((e.node,))
        self._counts_empty.pop(e.node, None)
        if self._status(e.node) == AUTHORITATIVE_EMPTY:
            self._counts_empty[e.node] = e.seq

    def _acknowledges(self, e: _Rows) -> None:
        """A record is acknowledged by a shard that has lost its copy with its disk. Whoever had another one made a copy
        anew, or waits for the release, before that shard counts as empty; nobody stores one later with its copyset
        (read-path.md#append-waves, read-path.md#rebuilding-donors)."""
        held, tally, row = self._state.held, self.tallies[REBUILT.id], lsn_row(self._state.held.lsns, e.offset)
        named, having = max(e.shards, 0), _having(held, row, e.value)
        placed = {shard: copy_at(held, row, shard) for shard in members(named & having)}
        written = {s: int(held.copies.seq[at]) for s, at in placed.items() if held.copies.copyset[at] <= 0}
        for shard in members(named & ~having):
            lost, empty = self._emptied.get(shard, -1), self._counts_empty.get(shard, -1)
            later = {other: seq for other, seq in written.items() if 0 <= empty < seq}
            if lost < 0 or not later or self._purged.get(shard, -1) > lost:
                continue
            if self._rotten:
                tally.unjudged += 1
                continue
            tally.judged += 1
            said = {"node": e.node, "value": e.value, "lsn": shown(e.offset), "shard": shard, "shards": [*later]}
            events = (lost, empty, *later.values(), e.seq)
            self._ends.wait(tally, (shard,), *events, since=lost, way="late", counted=True, said=said)
        _acknowledges(self._state, self._nodesets.places, _Rows(*([cell] for cell in e)), 0, row)

    def _purges(self, e: _Rows) -> None:
        """A shard deletes what a recovery has settled without it: that leaves enough copies of what was acknowledged
        (read-path.md#release-needs-recovery)."""
        self._purged[e.node] = e.seq
        state, tally = self._state, self.tallies[AGREE.id]
        first, node = max(e.offset, int(state.run[_TRIMMED]) + 1), mask_of((e.node,))
        owed = [(lsn, row) for lsn, row in self._between(first, e.last_offset) if state.records.since[row] >= 0]
        before = [(lsn, row) for lsn, row in owed if _holders(state, row) & node and self._is_enough(lsn, row)]
        self._lose(e.node, e.offset, e.last_offset, -1)
        for lsn, row in before:
            tally.judged += 1
            if not self._is_enough(lsn, row):
                self._has_few(tally, e.seq, lsn, row, way="purged", said={"node": e.node})

    def _is_enough(self, lsn: int, row: int) -> bool:
        return satisfied(self._nodesets.places, lsn, _holders(self._state, row))

    def _has_few(self, tally: Tally, seq: int, lsn: int, row: int, *, way: str, said: dict[str, object]) -> None:
        """What was acknowledged has too few copies now, unless others have one and lost the end of their records."""
        state, shards = self._state, _holders(self._state, row)
        acknowledged, epoch, having = int(state.records.seq[row]), epoch_of(lsn), [*members(shards)]
        said |= {"value": int(state.records.value[row]), "lsn": shown(lsn), "shards": having}
        others, enough = self._others(epoch, shards | int(state.run[_EMPTY])), Enough(self._known_places, epoch, shards)
        events = (acknowledged, *copied(state.held, row, having), seq)
        # Only donors and recoveries have stored it since; and what was on a disk that was lost is gone.
        began = next((plan for plan in self._plans if plan > acknowledged), seq) if way == "few" else acknowledged
        since = {shard: max(began, self._emptied.get(shard, -1)) for shard in others}
        self._ends.wait(tally, others, *events, since=since, enough=enough, way=way, counted=True, said=said)

    def _lose(self, node: int, first: int, last: int, seq: int) -> None:
        full = self._status(node) == FULLY_AUTHORITATIVE
        _lose.form(self.compiled)(self._state, self._nodesets.places, node, first, last, seq, full)

    def _event_log(self, e: _Rows) -> None:
        """Shards become empty, whose copies do not count any more: what others have was made anew elsewhere."""
        places, run = self._nodesets.places, self._state.run
        before, self._statuses = self._statuses, statuses_said(self.words.text(e.value))
        empty = mask_of(shard for shard, status in self._statuses.items() if status == AUTHORITATIVE_EMPTY)
        new, run[_EMPTY] = empty & ~int(run[_EMPTY]), empty
        for shard in members(empty & int(run[_WIPED])):
            self._counts_empty.setdefault(shard, e.seq)
        if new:
            if e.f == _DONE:
                self._all_away(e, before, new)
            self._not_copied(e, [*members(new)])
            _become_empty.form(self.compiled)(self._state, places, e.seq)
        elif _away(before) != _away(self._statuses) or self._drains(e, before):
            self._plan = e.seq
            self._plans.append(e.seq)
        self._drained &= mask_of(s for s in members(self._drained) if self._status(s) == FULLY_AUTHORITATIVE)

    def _status(self, shard: int) -> int:
        return self._statuses.get(shard, FULLY_AUTHORITATIVE)

    def _drains(self, e: _Rows, before: Mapping[int, int]) -> bool:
        """Whether a shard is drained from now on, or no longer."""
        full, drained, peer = before.get(e.peer, 0) == FULLY_AUTHORITATIVE, self._drained, mask_of((e.peer,))
        if e.f == self._drain and full:
            self._drained |= peer
        elif e.f == self._abort:
            self._drained &= ~peer
        return drained != self._drained

    def _all_away(self, e: _Rows, before: Mapping[int, int], new: int) -> None:
        """Donors that are all done have made copies of every record, unless its copies may all have been on shards
        that are away (read-path.md#status-of-events). In an epoch that began later there are none on these."""
        back = new & mask_of(shard for shard, status in before.items() if status == UNAVAILABLE)
        away = _away(before)
        if not back or not self._nodesets:
            return
        tally, places = self.tallies[REBUILT.id], self._nodesets.places
        tally.judged += 1
        for epoch in places.since.tolist():
            later = 0 <= self._plan < self._declared[epoch]
            if not later and satisfied(places, epoch << 32, away):
                found = {"empty": [*members(back)], "shards": [*members(away)]}
                tally.violation(e.seq, way="all", epoch=epoch, **found)
                return

    def _not_copied(self, e: _Rows, new: list[int]) -> None:
        """Donors have left records with too few copies (read-path.md#rebuilding-donors)."""
        state, places, tally = self._state, self._nodesets.places, self.tallies[REBUILT.id]
        full = mask_of(shard for shard, status in self._statuses.items() if status == FULLY_AUTHORITATIVE)
        unseen = full & ~self._begun if self._begun else 0  # copies of shards of which nothing is recorded
        if self._rotten or unseen:
            tally.unjudged += 1  # rotten copies are not copied, and which ones they are nobody knows
            return
        next_of, place = _not_copied.form(self.compiled), NOWHERE
        while (place := next_of(state, places, place + 1, full, self._plan, self.judged)) != NOWHERE:
            lsn, row = int(state.held.lsns.order[place]), int(state.held.lsns.rows[place])
            self._has_few(tally, e.seq, lsn, row, way="few", said={"empty": new})

    def _copies(self, lsn: int) -> dict[int, tuple[int, int]]:
        """What lies at an LSN, by shard: what it is, and its value."""
        held, found = self._state.held, dict[int, tuple[int, int]]()
        row = lsn_row(held.lsns, lsn)
        place = int(held.first[row]) if row >= 0 else NOWHERE
        while place >= 0:
            found[int(held.copies.node[place])] = int(held.copies.record[place]), int(held.copies.value[place])
            place = int(held.copies.next[place])
        return found

    def _unsure_of(self, row: int, node: int, began: int) -> bool:
        """Whether a shard may have stored another copy since a recovery began, and lost that with its record's end."""
        return self._ends.cut_since(node, max(began, *copied(self._state.held, row, (node,))))

    def _between(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The LSNs from one to another, each with its row."""
        lsns = self._state.held.lsns
        low, high = np.searchsorted(lsns.order, [first, last + 1]).tolist()
        return zip(lsns.order[low:high].tolist(), lsns.rows[low:high].tolist(), strict=True)

    # -- recoveries ----------------------------------------------------------------------------------------------------

    def _recovers(self, e: _Rows) -> None:
        """A recovery stores a copy, in place of what an earlier run left only if that is beaten by a run between them
        (read-path.md#recovery-precedence)."""
        held, written = self._state.held, self._written.setdefault(e.offset, set())
        place = copy_at(held, lsn_row(held.lsns, e.offset), e.node)
        before = int(held.copies.copyset[place]) if place >= 0 and held.copies.record[place] != _DATA else 0
        if 0 < before < e.recovery:
            tally = self.tallies[AGREE.id]
            tally.judged += 1
            if e.record == _DATA and not any(before < run < e.recovery for run in written):
                said: dict[str, object] = {"run": e.recovery, "node": e.node, "lsn": shown(e.offset), "before": before}
                said["value"], since = e.value, self._nothing[e.offset, e.node]
                others = self._others(epoch_of(e.offset), 0)
                self._ends.wait(
                    tally, others, since, e.seq, since=since, by=e.node, way="beaten", counted=True, said=said
                )
        self._stored[e.offset, e.recovery] = self._stored.get((e.offset, e.recovery), 0) | mask_of((e.node,))
        if e.record == _DATA:
            written.add(e.recovery)
        else:
            self._nothing[e.offset, e.node] = e.seq
        _stores(self._state, self._nodesets.places, _Rows(*([each] for each in e)), 0)

    def _recovered(self, e: _Rows) -> None:
        tally, epoch, shards, records = self.tallies[AGREE.id], e.epoch, max(e.shards, 0), self._state.records
        first, began = max(e.offset, epoch << 32) + 1, self._ends.began(e.node, e.seq)
        self._recoverers.setdefault(epoch, began)
        for lsn, row in self._between(first, min(e.last_offset, (epoch + 1 << 32) - 1)):
            copies = self._copies(lsn).items()
            found = {node: copy for node, copy in copies if 0 <= node < MOST_SHARDS and shards >> node & 1}
            tally.judged += bool(found)
            sure = {node: copy for node, copy in found.items() if not self._unsure_of(row, node, began)}
            if len({*found.values()}) > 1:
                events = *copied(self._state.held, row, found), e.seq
                said: dict[str, object] = {"epoch": epoch, "lsn": shown(lsn), "shards": sorted(found)}
                same = _Agree(frozenset(sure.items()))
                self._ends.wait(tally, sure, *events, enough=same, way="differ", counted=True, said=said)
            self._replicates(e, lsn)
            if found:
                records.settled[row] = e.seq
                records.record[row], records.left[row] = next(iter((sure or found).values()))
                (self._unsure.discard if sure else self._unsure.add)(lsn)
        good = first - 1 if e.last_offset > epoch << 32 else (epoch + 1 << 32) - 1
        if epoch in self._recovered_by:
            return
        self._recovered_by[epoch] = good, e.seq
        epochs = sorted(self._recovered_by)
        self._state = self._state._replace(
            recovered=np.array(epochs, dtype=np.int64),
            good=np.array([self._recovered_by[each][0] for each in epochs], dtype=np.int64),
        )
        while self._state.run[_UPTO] + 1 in self._recovered_by:
            self._state.run[_UPTO] += 1

    def _replicates(self, e: _Rows, lsn: int) -> None:
        """What a recovery wrote at an LSN is on a copyset of the epoch (read-path.md#recovery-bridge)."""
        stored = self._stored.get((lsn, e.recovery), 0)
        if not stored or self._nodesets.of(e.epoch) is None:
            return
        tally, unseen = self.tallies[AGREE.id], max(e.shards, 0) & ~self._begun if self._begun else 0
        enough = satisfied(self._nodesets.places, lsn, stored)
        if unseen and not enough and satisfied(self._nodesets.places, lsn, stored | unseen):
            tally.unjudged += 1  # a shard of which nothing is recorded may have stored it
            return
        if enough:
            tally.judged += 1
            return
        others, since = [*members(max(e.shards, 0) & ~stored & ~unseen)], self._ends.began(e.node, e.seq)
        said: dict[str, object] = {"epoch": e.epoch, "run": e.recovery, "lsn": shown(lsn)}
        said["shards"], by = [*members(stored)], Enough(self._known_places, e.epoch, stored | unseen)
        self._ends.wait(tally, others, e.seq, since=since, enough=by, way="few", said=said)

    def _ships(self, e: _Rows) -> None:
        """What a shard ships of a recovered epoch is what recovery left there (read-path.md#release-needs-recovery)."""
        tally, records = self.tallies[AGREE.id], self._state.records
        for lsn in lsns_said(self.words.text(e.value), e.offset, e.last_offset):
            good, seq = self._recovered_by.get(epoch_of(lsn), (lsn, -1))
            copy = self._copies(lsn).get(e.node) if lsn > good else None
            if copy is not None:
                row = lsn_row(self._state.held.lsns, lsn)
                other = records.settled[row] < 0 or copy != (records.record[row], records.left[row])
                unsure = lsn in self._unsure or self._unsure_of(row, e.node, self._recoverers[epoch_of(lsn)])
                if other and unsure:
                    tally.unjudged += 1  # one of them may have had another copy at the end of its record
                    continue
                tally.judged += 1
                if other:
                    tally.violation(seq, e.seq, way="shipped", node=e.node, lsn=shown(lsn))

    def _releases(self, e: _Rows) -> None:
        """Not all epochs before it are recovered (read-path.md#activation)."""
        tally, upto = self.tallies[AGREE.id], int(self._state.run[_UPTO])
        found: dict[str, object] = {"node": e.node, "epoch": upto + 1, "lsn": shown(e.offset)}
        # Whoever recovered that epoch may have been cut off before its record said so; it did so after the one before.
        nodes, since = self._sequencers, self._recovered_by.get(upto, (0, -1))[1]
        self._ends.wait(tally, nodes, e.seq, since=since, by=e.node, way="released", said=found)

    # -- readers -------------------------------------------------------------------------------------------------------

    def _reader(self, op: int) -> _Reader:
        return self._readers.setdefault(op, _Reader())

    def _hears(self, e: _Rows) -> None:
        lsn = e.offset
        if e.kind == INVOKE:
            if e.f == F_READ:
                until = e.last_offset if e.last_offset != lsn else None
                self._readers[e.op] = _Reader(lsn, until, e.seq)
        elif e.kind == _SETTINGS:
            settings = settings_said(self.words.text(e.value))
            self._reader(e.op).in_flight = None if settings is None else settings.in_flight
        elif e.kind == _REWIND:
            if e.f == _DONE:
                self._reader(e.op).asked = e.seq
        elif e.f == _DAMAGED:
            self._lose(e.peer, lsn, lsn, e.seq)
        else:
            self._reader(e.op).bridges.add(lsn)

    def _gap(self, e: _Rows) -> None:
        f, reader, state = e.f, self._reader(e.op), self._state
        if f not in (_HOLE, _LOSS, _BRIDGE):
            return
        by_record = f == _HOLE or e.offset in reader.bridges
        tally, records = self.tallies[NOT_HIDDEN.id if f == _BRIDGE else NOT_LOST.id], state.records
        trimmed = int(state.run[_TRIMMED])
        covered = [
            each for each in self._between(max(e.offset, trimmed + 1), e.last_offset) if records.seq[each[1]] >= 0
        ]
        unknown = not any(records.ever[row] for _, row in covered) if covered else not state.run[_ANY]
        if unknown or (covered and self._rotten and by_record):
            tally.unjudged += 1  # or recovery may have found nothing but rotten copies
            return
        tally.judged += bool(covered) or f == _BRIDGE
        owed = [each for each in covered if self._is_owed(each[1], reader)]
        if not covered:
            return
        lsn, row = (owed or covered)[0]
        found = {"op": e.op, "lsn": shown(lsn), "value": int(records.value[row])}
        shards, seq = [*members(_holders(state, row))], int(records.seq[row])
        if owed:
            said = found if f == _BRIDGE else {**found, "gap": _WORDS[f]}
            tally.violation(seq, *copied(state.held, row, shards), e.seq, way="there", shards=shards, **said)
        elif f == _HOLE or (f == _BRIDGE and not self._at_edge(reader, e)):
            tally.violation(seq, e.seq, way="loss", **found)
        else:
            tally.excuse("wipe", [node for node in (int(records.loser[row]),) if node >= 0], int(records.lost[row]))

    def _is_owed(self, row: int, reader: _Reader) -> bool:
        """Whether a record has had enough copies since the reader asked all shards, or since it was acknowledged."""
        since, seq = self._state.records.since[row], self._state.records.seq[row]
        return bool(since >= 0 and (since == seq or since < reader.asked))

    @staticmethod
    def _at_edge(reader: _Reader, e: _Rows) -> bool:
        """Whether a bridge may cover a loss: no bridge record tells where the epoch ended (read-path.md#gap-bridge)."""
        lsn, last = e.offset, e.last_offset
        if reader.in_flight is None or last == reader.until:
            return True
        begins = lsn == reader.first or epoch_of(lsn - 1) < epoch_of(last + 1)
        between = epoch_of(lsn) != epoch_of(last + 1) or (begins and esn_of(last + 1) <= reader.in_flight)
        return between and lsn not in reader.bridges

    def finish(self) -> Verdicts:
        """See `StreamFold`."""
        self._ends.over()
        return super().finish()


def _away(statuses: Mapping[int, int]) -> int:
    """The shards that are being rebuilt: when they change, donors begin anew (read-path.md#rebuilding-donors)."""
    return mask_of(shard for shard, status in statuses.items() if status in (UNAVAILABLE, UNDERREPLICATION))


def _blank(name: str) -> int:
    """What is known of an LSN before anything is."""
    return -1 if name in ("seq", "since", "settled", "gone", "lost", "loser") else 0


_WORDS = {_HOLE: "hole", _LOSS: "loss"}

FAMILY = Family(
    "read_path_copies",
    CHECKS,
    frozenset({*_OWN, *END_KINDS, Kind.INVOKE}),
    (
        *("node", "op", "peer", "f", "offset", "last_offset", "value", "record", "epoch", "recovery"),
        *("shards", "reason"),
    ),
    CopyFold,
    READ_PATH,
    reads_texts=True,
)
