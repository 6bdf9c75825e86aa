"""Enough copies: of what is acknowledged and released, and where readers pass over slow shards.

Texts are not trusted: a nodeset of another form is none, and what would need it is not judged.

Sources: read-path.md#replication-property, read-path.md#append-waves, read-path.md#slow-shards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind
from loghistory.vocabularies.read_path import RecordWord

from ..codes import NULL, RECORDS, among, code, how_many, lookup
from ..columns import Ints
from ..contract import Check, Family, Setting, Verdicts
from ..ends import NOBODY, Ends, awaited_at
from ..hashing import Table, all_grown, at_most, empty_table, grown, place_of, roomy, row_of
from ..kernel import kernel, part
from .nodesets import MOST_SHARDS, Enough, KnownPlaces, Nodesets, Places, mask_of, members, satisfied
from .protocol import READ_PATH, TURNS, Cells, StreamFold, epoch_of, no_rows, shown

HOLDS = Check(
    id="replication-property-holds",
    rule="A record has copies of one wave that satisfy the property of its epoch when it is acknowledged, every shard "
    "that is named has one, and no copyset names a shard that is not in the nodeset; copies of one wave name the same "
    "shards, until one is to be rebuilt or drained; nothing is released that is not acknowledged, nor anything but in "
    "its own epoch, and recovery takes nothing else for known good.",
    source=("read-path.md#replication-property-holds", "read-path.md#append-waves"),
    fact="a record acknowledged, or released; an epoch recovered; a copy that names strangers, or other shards than "
    "the first copy of its wave",
    sentence={
        "copies": "Node {node} acknowledged {value} at {lsn}, but only shards {shards} had stored that wave.",
        "named": "Node {node} acknowledged {value} at {lsn} by copies on shards {shards}, which had not stored that "
        "wave.",
        "copyset": "The copy at {lsn} on shard {node} names shards {others}, which are not in the nodeset.",
        "unlike": "The copy at {lsn} on shard {node} names shards {shards}, that of the same wave on shard {other} "
        "names {others}, and no shard was to be rebuilt or drained.",
        "epoch": "Node {node} released {lsn} in epoch {epoch}.",
        "nodeset": "The nodeset of epoch {epoch} is shards {shards}, but it says where shards {others} are.",
        "released": "Node {node} released {lsn}, which was not acknowledged.",
        "good": "Run {run} of a recovery left all up to {good} as it was, but {lsn} was not acknowledged.",
    },
    kinds=(Kind.NODESET, Kind.ACKNOWLEDGE),
    columns=("node", "offset", "shards"),
    looks_back=True,
)
SLOW = Check(
    id="slow-is-bounded",
    rule="A shard turns slow only if fewer shards are slow or down than a record has copies.",
    source=("read-path.md#slow-is-bounded",),
    fact="a shard that turned slow for a stream, or several at once",
    sentence="Stream {op} passes over {slow:shard|shards} as slow while {down} are down, with {factor} copies of a "
    "record.",
    kinds=(Kind.NODESET, Kind.STREAM_SLOW),
    columns=("op", "shards"),
)
CHECKS = (HOLDS, SLOW)

_OWN = (
    *(Kind.NODESET, Kind.COPY, Kind.ACKNOWLEDGE, Kind.RELEASE, Kind.STREAM_SLOW, Kind.RECOVER, Kind.TAKES_PART),
    Kind.EVENT_LOG,
)
_NODESET, _COPY, _ACKNOWLEDGE, _RELEASE, _SLOW, _RECOVER, _TAKES_PART, _EVENT_LOG = map(code, _OWN)
_SIGNS = (_COPY, _ACKNOWLEDGE, _RELEASE)
_DATA = RECORDS[RecordWord.DATA]
_MOST = 1 << 16
"""A release of more LSNs at once is not judged."""
_IS_WANTED, _IS_END = lookup({*_OWN, *END_KINDS}), lookup(END_KINDS)


class _Rows(NamedTuple):
    """The columns that are read."""

    seq: Cells
    kind: Cells
    node: Cells
    op: Cells
    offset: Cells
    shards: Cells
    epoch: Cells
    value: Cells
    record: Cells
    wave: Cells
    recovery: Cells
    records: Cells


_SAYS = tuple(map(_Rows._fields.index, ("seq", "offset", "node")))


class _Known(NamedTuple):
    """By row of an LSN: the first write stored there, the shards that ever had it, whether it was acknowledged."""

    value: Ints  # NULL: none yet
    wave: Ints
    stored: Ints
    copyset: Ints  # of its first copy, that one, and its shard
    first: Ints
    holder: Ints
    acknowledged: Ints
    by: Ints  # who acknowledged it last
    when: Ints  # and the event


class _State(NamedTuple):
    """What the loop knows."""

    lsns: Table
    known: _Known
    epochs: Table
    released: Ints  # by row of an epoch
    used: Ints  # rows of LSNs, and of epochs; whether copysets may be amended
    awaited: Ints  # `Ends`


@part
def _acknowledged(state: _State, first: int, last: int) -> int:
    """The first LSN from one to another that was not acknowledged; beyond, if all were."""
    lsn = first
    while lsn <= last:
        row = state.lsns.rows[place_of(state.lsns, lsn)]
        if row < 0 or not state.known.acknowledged[row]:
            break
        lsn += 1
    return lsn


@kernel
def _unacknowledged(state: _State, first: int, last: int) -> int:
    """The same, for who is no loop."""
    return _acknowledged(state, first, last)


@kernel
def _skim(rows: _Rows, at: int, places: Places, state: _State, judged: Ints) -> int:
    for i in range(at, len(rows.kind)):
        kind, lsn = rows.kind[i], rows.offset[i]
        if not _IS_WANTED[kind]:
            continue
        if kind in _SIGNS and state.awaited[awaited_at(rows.node[i])]:
            return i
        if kind == _COPY:
            if rows.record[i] == _DATA and rows.recovery[i] <= 0 and 0 <= rows.node[i] < MOST_SHARDS:
                row, value, wave = row_of(state.lsns, state.used, lsn), rows.value[i], rows.wave[i]
                first = state.known.value[row] == NULL
                if value == NULL or not (first or (state.known.value[row] == value and state.known.wave[row] == wave)):
                    return i
                if first:
                    state.known.copyset[row], state.known.first[row] = rows.shards[i], rows.seq[i]
                    state.known.holder[row] = rows.node[i]
                elif state.known.copyset[row] != rows.shards[i] and not state.used[2]:
                    return i
                state.known.value[row], state.known.wave[row] = value, wave
                state.known.stored[row] |= 1 << rows.node[i]
        elif kind == _ACKNOWLEDGE:
            row = row_of(state.lsns, state.used, lsn)
            state.known.acknowledged[row] = 1
            state.known.by[row], state.known.when[row] = rows.node[i], rows.seq[i]
            named, same = max(rows.shards[i], 0), state.known.value[row] == rows.value[i]
            same = same and state.known.wave[row] == rows.wave[i]
            having = state.known.stored[row]
            if not same or named & ~having or not satisfied(places, lsn, named & having):
                return i
            judged[0] += 1
        elif kind == _RELEASE:
            epoch = rows.epoch[i]
            if lsn >> 32 != epoch:
                return i
            row = row_of(state.epochs, state.used[1:], epoch)
            first = max(state.released[row], epoch << 32) + 1
            if lsn - first >= _MOST or not len(places.since) or _acknowledged(state, first, lsn) <= lsn:
                return i
            judged[0] += max(lsn - first + 1, 0)
            state.released[row] = max(lsn, first - 1)
        else:
            return i
    return len(rows.kind)


class PlacementFold(StreamFold[_Rows]):
    """Judges how many copies there are; see the module."""

    checks = CHECKS
    wanted = _IS_WANTED
    left = TURNS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, _Rows)
        self._skim = _skim.often(setting.compiled)
        self._nodesets = Nodesets(setting.words)
        self._known_places = KnownPlaces(self._nodesets.places)
        released, used = np.zeros(0, dtype=np.int64), np.zeros(3, dtype=np.int64)
        self._ends = Ends()
        tables = empty_table(), no_rows(_Known), empty_table()
        self._state = _State(*tables, released, used, self._ends.awaited)
        # By LSN, value and wave that are not the first: who has it; and the first copy, its copyset, event and shard.
        self._others: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._slow: dict[int, int] = {}  # by stream
        self._begun = 0  # the nodes that took part
        self._copied = False
        # By epoch and copyset: how many copies there are, and of the first the event, LSN and shard.
        self._copysets: dict[tuple[int, int], tuple[int, int, int, int]] = {}

    def make_room(self, rows: _Rows) -> None:
        """See `StreamFold`."""
        state, (lsns, epochs, _) = self._state, self._state.used.tolist()
        releases = how_many(rows.kind, _RELEASE)
        copies = at_most(rows.offset[np.flatnonzero(among(rows.kind, (_COPY, _ACKNOWLEDGE)))])
        data = np.flatnonzero((rows.kind == _COPY) & (rows.record == _DATA))
        self._copied = self._copied or how_many(rows.kind, _COPY) > 0
        self._name(rows.offset[data] >> 32, rows.shards[data], *(rows[at][data] for at in _SAYS))
        self._state = _State(
            roomy(state.lsns, lsns, copies, self.compiled),
            all_grown(state.known, lsns, copies, lambda name: NULL if name == "value" else 0),
            roomy(state.epochs, epochs, releases, self.compiled),
            grown(state.released, epochs, releases, 0),
            state.used,
            state.awaited,
        )

    def _name(self, epochs: Ints, copysets: Ints, seqs: Ints, lsns: Ints, nodes: Ints) -> None:
        """Note which copysets there are in each epoch; its nodeset may be told later."""
        order = np.lexsort((copysets, epochs))
        epochs, copysets = epochs[order], copysets[order]
        begins = np.flatnonzero(np.append(True, (np.diff(epochs) != 0) | (np.diff(copysets) != 0))[: len(order)])
        counts = np.diff(np.append(begins, len(order)))
        for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
            at, key = int(order[begin]), (int(epochs[begin]), int(copysets[begin]))
            first = self._copysets.get(key, (0, int(seqs[at]), int(lsns[at]), int(nodes[at])))
            if first[0] or len(self._copysets) < _MOST:
                self._copysets[key] = (first[0] + count, *first[1:])

    def _strangers(self) -> None:
        """Copysets that name shards which are not in the nodeset of their epoch."""
        tally, found = self.tallies[HOLDS.id], list[tuple[int, int, dict[str, object]]]()
        for (epoch, copyset), (count, seq, lsn, node) in self._copysets.items():
            nodeset = self._nodesets.of(epoch)
            others = max(copyset, 0) & ~nodeset.shards if nodeset is not None else 0
            if others:
                found.append((seq, count, {"lsn": shown(lsn), "node": node, "others": [*members(others)]}))
        for seq, count, said in sorted(found, key=lambda each: each[0]):
            tally.judged += count
            tally.violation(seq, way="copyset", **said)
            tally.more(count - 1)

    def skim(self, rows: _Rows, at: int) -> int:
        """See `StreamFold`."""
        return self._skim(rows, at, self._nodesets.places, self._state, self.judged)

    def take(self, e: _Rows) -> None:
        """See `StreamFold`."""
        if e.kind in _SIGNS and self._ends.awaited[awaited_at(e.node)]:
            self._ends.sign(e.node, e.seq)
            state = self._state._replace(awaited=NOBODY)
            if _skim.plain(_Rows(*([cell] for cell in e)), 0, self._nodesets.places, state, self.judged):
                return
        if e.kind == _ACKNOWLEDGE:
            self._acknowledges(e)
        elif e.kind == _COPY:
            self._stores(e)
        elif e.kind == _EVENT_LOG:
            self._state.used[2] = 1
        elif e.kind == _RELEASE:
            self._releases(e)
        elif e.kind == _SLOW:
            self._passes_over(e)
        elif e.kind == _RECOVER:
            self._recovers(e)
        elif e.kind == _TAKES_PART or _IS_END[e.kind]:
            self._turns(e)
        else:
            self._learns(e)

    def _stores(self, e: _Rows) -> None:
        """A copy that is not of the first write at its LSN, or not like the first copy of that."""
        known, row = self._state.known, int(self._state.lsns.rows[place_of(self._state.lsns, e.offset)])
        if row >= 0 and (known.value[row], known.wave[row]) == (e.value, e.wave):
            first = [int(known.copyset[row]), int(known.first[row]), int(known.holder[row])]
            known.stored[row] |= 1 << e.node
        else:
            write = e.offset, e.value, e.wave
            having, *first = self._others.get(write, (0, e.shards, e.seq, e.node))
            self._others[write] = having | 1 << e.node, *first
        copyset, seq, holder = first
        if copyset != e.shards and not self._state.used[2]:
            tally, names = self.tallies[HOLDS.id], {"shards": [*members(max(e.shards, 0))], "node": e.node}
            names |= {"others": [*members(max(copyset, 0))], "other": holder}
            tally.judged += 1
            tally.violation(seq, e.seq, way="unlike", rests_on=(Kind.EVENT_LOG,), lsn=shown(e.offset), **names)

    def _learns(self, e: _Rows) -> None:
        """A nodeset, which names its shards twice."""
        self._nodesets.learn(e.epoch, e.value)
        self._known_places = KnownPlaces(self._nodesets.places)
        nodeset, named = self._nodesets.of(e.epoch), max(e.shards, 0)
        if nodeset is not None and nodeset.shards != named:
            tally, found = self.tallies[HOLDS.id], {"shards": [*members(named)], "others": [*members(nodeset.shards)]}
            tally.judged += 1
            tally.violation(e.seq, way="nodeset", epoch=e.epoch, **found)

    def _turns(self, e: _Rows) -> None:
        """The life of a node begins or ends."""
        self._ends.turn(e.kind, e.node, e.seq)
        if e.kind == _TAKES_PART:
            self._begun |= mask_of((e.node,))

    def _acknowledges(self, e: _Rows) -> None:
        """Too few copies may be known of what is acknowledged."""
        tally = self.tallies[HOLDS.id]
        if self._nodesets.of(epoch_of(e.offset)) is None:
            tally.unjudged += 1
            return
        row, known = self._state.lsns.rows[place_of(self._state.lsns, e.offset)], self._state.known
        having = 0
        for value in (e.value, NULL):
            having |= self._others.get((e.offset, value, e.wave), (0,))[0]
        if known.value[row] == e.value and known.wave[row] == e.wave:
            having |= int(known.stored[row])
        named = max(e.shards, 0)
        having &= named
        # In a record that shows who takes part, a shard of which it shows nothing may have stored what it does not say,
        # and so may one that was cut off since the sequencer began.
        missing, began = [*members(named & ~having & self._begun)], self._ends.began(e.node, e.seq)
        found: dict[str, object] = {"node": e.node, "lsn": shown(e.offset), "value": e.value}
        if satisfied(self._nodesets.places, e.offset, having):
            tally.judged += 1
            for shard in missing:
                said = found | {"shards": [shard]}
                self._ends.wait(tally, (shard,), e.seq, since=began, way="named", counted=True, said=said)
            return
        unseen = named & ~having & ~self._begun if self._begun else 0
        enough = Enough(self._known_places, epoch_of(e.offset), having | unseen)
        found |= {"shards": [*members(having)]}
        self._ends.wait(tally, missing, e.seq, since=began, way="copies", enough=enough, said=found)

    def _releases(self, e: _Rows) -> None:
        """Not all of what is released was acknowledged, or it cannot be told; or it is of another epoch."""
        row, tally = self._state.epochs.rows[place_of(self._state.epochs, e.epoch)], self.tallies[HOLDS.id]
        if epoch_of(e.offset) != e.epoch:
            tally.judged += 1
            tally.violation(e.seq, way="epoch", node=e.node, lsn=shown(e.offset), epoch=e.epoch)
            return
        first = max(int(self._state.released[row]), e.epoch << 32) + 1
        self._state.released[row] = max(e.offset, first - 1)
        if e.offset - first >= _MOST or not self._nodesets:
            tally.unjudged += 1
            return
        tally.judged += max(e.offset - first + 1, 0)
        lsn = self._unacknowledged(first, e.offset)
        while lsn <= e.offset:
            tally.violation(e.seq, way="released", node=e.node, lsn=shown(lsn))
            lsn = self._unacknowledged(lsn + 1, e.offset)

    def _unacknowledged(self, first: int, last: int) -> int:
        """See `_acknowledged`."""
        return _unacknowledged.form(self.compiled)(self._state, first, last)

    def _recovers(self, e: _Rows) -> None:
        """What a recovery does not read is known to be good: it was acknowledged (read-path.md#append-waves).

        What comes before the first acknowledgement of the epoch may have been acknowledged before the record began.
        """
        tally, first = self.tallies[HOLDS.id], (e.epoch << 32) + 1
        if e.offset < first:
            return
        good = range(first, e.offset + 1) if e.offset - first < _MOST and self._nodesets else ()
        begins = next((lsn for lsn in good if self._unacknowledged(lsn, lsn) > lsn), None)
        if begins is None:
            tally.unjudged += 1
            return
        lsn = self._unacknowledged(begins, e.offset)
        if lsn > e.offset:
            tally.judged += 1
            return
        known, row = self._state.known, self._state.lsns.rows[place_of(self._state.lsns, begins)]
        node, found = int(known.by[row]), {"run": e.recovery, "good": shown(e.offset), "lsn": shown(lsn)}
        # Who acknowledged the first may have acknowledged the others last, and lost that with the end of its record.
        ended = self._ends.ended_since(node, int(known.when[row]))
        if ended:
            tally.unjudged += 1
            return
        nodes = (node,) if ended is None else ()
        self._ends.wait(tally, nodes, e.seq, by=e.node, way="good", said=found)

    def _passes_over(self, e: _Rows) -> None:
        slow = max(e.shards, 0)
        before, self._slow[e.op] = self._slow.get(e.op, 0), slow
        if not slow & ~before:
            return
        tally = self.tallies[SLOW.id]
        if not self._nodesets:
            tally.unjudged += 1
            return
        tally.judged += 1
        factor = self._nodesets.factor
        if slow.bit_count() + e.records >= factor:
            tally.violation(e.seq, op=e.op, slow=slow.bit_count(), down=e.records, factor=factor)

    def finish(self) -> Verdicts:
        """See `StreamFold`; where no copy or no acknowledgement is recorded, that may explain what was found."""
        self._ends.over()
        self._strangers()
        found, (holds, slow) = super().finish(), self.tallies.values()
        lacks = "no acknowledgement" if not self._state.known.acknowledged.any() else "" if self._copied else "no copy"
        if not holds.violated or not lacks:
            return found
        return Verdicts((holds.outcome(f"{lacks} is recorded", void=True), slow.outcome()))


FAMILY = Family(
    "read_path_placement",
    CHECKS,
    frozenset({*_OWN, *END_KINDS}),
    ("node", "op", "offset", "shards", "epoch", "value", "record", "wave", "recovery", "count"),
    PlacementFold,
    READ_PATH,
    reads_texts=True,
)
