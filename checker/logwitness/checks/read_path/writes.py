"""What is written: recoveries settle all that they say they settled, the best write stays, empty shards get nothing.

The writes of an LSN are told apart by who made them: those of a recovery beat those of a sequencer, later runs beat
earlier ones, and higher waves lower ones.

Sources: read-path.md#recovery-precedence, read-path.md#recovery-bridge, read-path.md#append-waves,
read-path.md#rebuilding-donors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import Kind
from loghistory.vocabularies.read_path import RecordWord, ShardWord

from ..codes import FAULT_WIPE, MAX_OFFSET, REASONS, RECORDS, code, lookup
from ..columns import Ints
from ..contract import Check, Family, Setting
from ..hashing import Table, all_grown, at_most, empty_table, place_of, roomy, row_of
from ..kernel import kernel
from .nodesets import (
    AUTHORITATIVE_EMPTY,
    MOST_SHARDS,
    UNDERREPLICATION,
    Nodesets,
    mask_of,
    members,
    satisfied,
    statuses_said,
)
from .protocol import BRIDGE, READ_PATH, TURNS, Cells, StreamFold, no_rows, shown

SETTLES = Check(
    id="recovery-settles-all",
    rule="When an epoch is recovered, its recovery has stored a record, a hole or a bridge at every LSN from its last "
    "known good one to the last, and the bridge right behind the last record; it writes no bridge only if the epoch is "
    "empty, or the shards that were read, and have not lost their data, are no f-majority.",
    source=("read-path.md#recovery-bridge", "read-path.md#recovery-digest", "read-path.md#loss-is-remembered"),
    fact="an epoch recovered, the seals of whose mutation set are recorded",
    sentence={
        "missing": "Run {run} recovered epoch {epoch}, but stored nothing at {lsn}.",
        "bridge": "Run {run} recovered epoch {epoch}, and there is no bridge right behind its last record, at {lsn}.",
        "open": "Run {run} recovered epoch {epoch} up to {lsn} without a bridge, although it had read an f-majority.",
    },
    kinds=(Kind.COPY, Kind.SEAL, Kind.RECOVER),
    explained_by=frozenset({Kind.TRIM_POINT}),
    columns=("node", "offset", "last_offset", "record", "recovery", "shards"),
    looks_back=True,
)
STAYS = Check(
    id="best-write-stays",
    rule="A shard that has the write which so far beats all others of its LSN takes none of these in its place.",
    source=("read-path.md#append-waves", "read-path.md#recovery-precedence"),
    fact="a copy stored where its shard had the best write so far",
    sentence="Shard {node} replaced wave {best} of run {best_run} at {lsn} by wave {wave} of run {run}.",
    kinds=(Kind.COPY,),
    columns=("node", "offset", "wave", "recovery"),
)
EMPTY = Check(
    id="empty-takes-nothing",
    rule="No record is acknowledged by a shard that counts as empty: its copies do not count.",
    source=("read-path.md#shard-refuses", "read-path.md#rebuilding-donors"),
    fact="a record acknowledged, once the event log is known",
    sentence="Node {node} acknowledged what is at {lsn} by copies on shards {shards}, which counted as empty.",
    kinds=(Kind.ACKNOWLEDGE, Kind.EVENT_LOG),
    columns=("node", "offset", "shards"),
)
CHECKS = (SETTLES, STAYS, EMPTY)

_OWN = (
    *(Kind.NODESET, Kind.EVENT_LOG, Kind.FAULT, Kind.TAKES_PART, Kind.PURGE, Kind.COPY, Kind.SEAL, Kind.TRIM_POINT),
    *(Kind.ACKNOWLEDGE, Kind.RECOVER),
)
_NODESET, _EVENT_LOG, _FAULT, _TAKES_PART, _PURGE, _COPY, _SEAL, _TRIM_POINT, _ACKNOWLEDGE, _RECOVER = map(code, _OWN)
_IS_WANTED = lookup(_OWN)
_LOST, _DATA = REASONS[ShardWord.LOST], RECORDS[RecordWord.DATA]
_MOST = 1 << 16
"""A recovery of more LSNs is not judged."""
_WRITTEN = (Kind.COPY,)
_STAYS, _EMPTY = CHECKS.index(STAYS), CHECKS.index(EMPTY)


class _Rows(NamedTuple):
    """The columns that are read."""

    seq: Cells
    kind: Cells
    node: Cells
    f: Cells
    offset: Cells
    last_offset: Cells
    value: Cells
    record: Cells
    epoch: Cells
    wave: Cells
    recovery: Cells
    shards: Cells
    reason: Cells


class _Writes(NamedTuple):
    """By row of an LSN: the best write so far, which event it came with first, what it was, and who has it."""

    lsn: Ints
    run: Ints  # -1: none yet
    wave: Ints
    seq: Ints
    data: Ints  # whether a copy of it was data
    bridge: Ints
    having: Ints


class _State(NamedTuple):
    """What the loop knows; the numbers of ``run`` are named below."""

    lsns: Table
    used: Ints
    writes: _Writes
    sealed: Ints  # by shard: up to where it ever was
    run: Ints


_GONE, _KNOWN, _TRIMMED, _WITHOUT = range(4)
"""The shards that count as empty; whether statuses are known; the highest trim point; the shards that lost data."""


@kernel
def _skim(rows: _Rows, at: int, state: _State, judged: Ints) -> int:
    writes = state.writes
    for i in range(at, len(rows.kind)):
        kind, node = rows.kind[i], rows.node[i]
        if not _IS_WANTED[kind]:
            continue
        if kind == _COPY:
            row, run, wave = row_of(state.lsns, state.used, rows.offset[i]), max(rows.recovery[i], 0), rows.wave[i]
            bit = 1 << node if 0 <= node < MOST_SHARDS else 0
            had = writes.having[row] & bit
            if run > writes.run[row] or (run == writes.run[row] and wave > writes.wave[row]):
                writes.lsn[row], writes.run[row], writes.wave[row] = rows.offset[i], run, wave
                writes.seq[row], writes.having[row] = rows.seq[i], bit
                writes.data[row] = writes.bridge[row] = 0
            elif run == writes.run[row] and wave == writes.wave[row]:
                writes.having[row] |= bit
            elif had:
                return i
            else:
                continue
            judged[_STAYS] += had != 0
            writes.data[row] |= rows.record[i] == _DATA
            writes.bridge[row] |= rows.record[i] == BRIDGE
        elif kind == _ACKNOWLEDGE:
            if max(rows.shards[i], 0) & state.run[_GONE]:
                return i
            judged[_EMPTY] += state.run[_KNOWN]
        elif kind == _SEAL:
            if 0 <= node < MOST_SHARDS:
                state.sealed[node] = max(state.sealed[node], rows.epoch[i])
        elif kind == _TRIM_POINT:
            state.run[_TRIMMED] = max(state.run[_TRIMMED], rows.offset[i])
        else:
            return i
    return len(rows.kind)


class WriteFold(StreamFold[_Rows]):
    """Judges what is written; see the module."""

    checks = CHECKS
    wanted = _IS_WANTED
    left = TURNS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, _Rows)
        self._skim = _skim.often(setting.compiled)
        self._nodesets = Nodesets(setting.words)
        used, sealed, run = (np.zeros(size, dtype=np.int64) for size in (1, MOST_SHARDS, 4))
        self._state = _State(empty_table(), used, no_rows(_Writes), sealed, run)

    def make_room(self, rows: _Rows) -> None:
        """See `StreamFold`."""
        state, used = self._state, int(self._state.used[0])
        more = at_most(rows.offset[rows.kind == _COPY])
        writes = all_grown(state.writes, used, more, lambda name: -1 if name == "run" else 0)
        self._state = state._replace(lsns=roomy(state.lsns, used, more, self.compiled), writes=writes)

    def skim(self, rows: _Rows, at: int) -> int:
        """See `StreamFold`."""
        return self._skim(rows, at, self._state, self.judged)

    def take(self, e: _Rows) -> None:
        """See `StreamFold`."""
        if e.kind == _NODESET:
            self._nodesets.learn(e.epoch, e.value)
        elif e.kind == _EVENT_LOG:
            statuses = statuses_said(self.words.text(e.value))
            empty = mask_of(shard for shard, status in statuses.items() if status == AUTHORITATIVE_EMPTY)
            self._state.run[_GONE] = empty
            lost = mask_of(shard for shard, status in statuses.items() if status == UNDERREPLICATION)
            self._state.run[_WITHOUT] |= lost
            self._state.run[_KNOWN] |= bool(statuses)
        elif e.kind == _RECOVER:
            self._recovers(e)
        elif e.kind == _ACKNOWLEDGE:
            tally, gone = self.tallies[EMPTY.id], int(self._state.run[_GONE])
            tally.judged += 1
            tally.violation(e.seq, node=e.node, lsn=shown(e.offset), shards=[*members(max(e.shards, 0) & gone)])
        elif e.kind == _COPY:
            self._replaces(e)
        elif e.kind == _PURGE:
            self._loses(e.node, e.offset, max(e.offset, e.last_offset))
        elif (e.kind == _FAULT and e.f == FAULT_WIPE) or (e.kind == _TAKES_PART and e.reason == _LOST):
            self._loses(e.node, -MAX_OFFSET, MAX_OFFSET)
            self._state.run[_WITHOUT] |= mask_of((e.node,))

    def _loses(self, node: int, first: int, last: int) -> None:
        """A shard has no copy any more from one LSN to another."""
        writes, used = self._state.writes, int(self._state.used[0])
        if 0 <= node < MOST_SHARDS:
            lsns = writes.lsn[:used]
            writes.having[:used][(first <= lsns) & (lsns <= last)] &= ~(1 << node)

    def _replaces(self, e: _Rows) -> None:
        """A shard takes what is beaten by what it has."""
        writes, tally = self._state.writes, self.tallies[STAYS.id]
        row = self._row(e.offset)
        writes.having[row] &= ~(1 << e.node)
        tally.judged += 1
        lsn, run, best = shown(e.offset), max(e.recovery, 0), (int(writes.wave[row]), int(writes.run[row]))
        tally.violation(
            int(writes.seq[row]), e.seq, node=e.node, lsn=lsn, wave=e.wave, run=run, best=best[0], best_run=best[1]
        )

    def _row(self, lsn: int) -> int:
        return int(self._state.lsns.rows[place_of(self._state.lsns, lsn)])

    def _recovers(self, e: _Rows) -> None:
        """Judge a recovery whose beginning is recorded: all that it settled with were sealed since."""
        tally, shards = self.tallies[SETTLES.id], max(e.shards, 0)
        first, last = max(e.offset, e.epoch << 32) + 1, e.last_offset
        seen = shards and all(self._state.sealed[shard] >= e.recovery for shard in members(shards))
        if not seen or last - first >= _MOST:
            tally.unjudged += 1
            return
        tally.judged += 1
        found = {"run": e.recovery, "epoch": e.epoch}
        if e.record == BRIDGE:
            self._bridges(e, range(first, last + 1), found)
        elif last >= first and not self._has(last, e.recovery):
            tally.violation(e.seq, way="missing", rests_on=_WRITTEN, lsn=shown(last), **found)
        elif last > e.epoch << 32 and self._is_majority(e.epoch, shards):
            tally.violation(e.seq, way="open", lsn=shown(last), **found)

    def _has(self, lsn: int, run: int) -> bool:
        """Whether a run, or a later one, wrote an LSN; what is trimmed may have come to no shard any more."""
        row = self._row(lsn)
        return lsn <= self._state.run[_TRIMMED] or (row >= 0 and self._state.writes.run[row] >= run)

    def _is_majority(self, epoch: int, read: int) -> bool:
        """Whether those that were read with their data are an f-majority, whatever the others may have lost."""
        nodeset, read = self._nodesets.of(epoch), read & ~int(self._state.run[_WITHOUT])
        return nodeset is not None and not satisfied(self._nodesets.places, epoch << 32, nodeset.shards & ~read)

    def _bridges(self, e: _Rows, lsns: range, found: dict[str, int]) -> None:
        """Judge what a recovery wrote that wrote a bridge."""
        tally, writes = self.tallies[SETTLES.id], self._state.writes
        missing = next((lsn for lsn in lsns if not self._has(lsn, e.recovery)), None)
        if missing is not None:
            tally.violation(e.seq, way="missing", rests_on=_WRITTEN, lsn=shown(missing), **found)
            return
        rows = [self._row(lsn) for lsn in lsns]
        if any(row < 0 or writes.run[row] > e.recovery for row in rows):
            return  # trimmed, or settled once more
        data = [0, *(place for place, row in enumerate(rows, 1) if writes.data[row] and not writes.bridge[row])][-1]
        behind = rows[data] if data < len(rows) else -1
        if behind < 0 or not writes.bridge[behind]:
            tally.violation(e.seq, way="bridge", rests_on=_WRITTEN, lsn=shown(lsns.start + data), **found)


FAMILY = Family(
    "read_path_writes",
    CHECKS,
    frozenset(_OWN),
    ("node", "f", "offset", "last_offset", "value", "record", "epoch", "wave", "recovery", "shards", "reason"),
    WriteFold,
    READ_PATH,
    reads_texts=True,
)
