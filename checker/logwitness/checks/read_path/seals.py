"""Seals of shards: whoever was overtaken writes no more, and a recovery leaves nobody unsealed whom it settles with.

A copy that a donor makes anew is of the write that it was copied from, and no seal refuses it; its copyset is another
one. So a write is told by its first copy, and by further ones as long as all of them name the same copyset. All who had
a copy of it may have lost the end of their records: then the first one that is seen may be of a donor.

Sources: read-path.md#shard-refuses, read-path.md#recovery-seal, read-path.md#donor-unseen.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind
from loghistory.vocabularies.read_path import NodeWord, ShardWord

from ..codes import FAULT_WIPE, MAX_OFFSET, REASONS, code, lookup, word_code
from ..columns import Ints
from ..contract import Check, Family, Setting, Verdicts
from ..ends import NOBODY, All, Ends, awaited_at
from ..hashing import Table, all_grown, at_most, empty_table, roomy, row_of
from ..kernel import kernel, part
from .nodesets import MOST_SHARDS, Nodesets, Places, mask_of, members, satisfied
from .protocol import NOWHERE, READ_PATH, TURNS, Cells, StreamFold, epoch_of, no_rows, shown

KEPT = Check(
    id="seal-is-kept",
    rule="A sealed shard stores nothing from a sequencer of an epoch up to its seal, nor from a recovery run before "
    "the one that sealed it; and a run settles an epoch with shards that are sealed.",
    source=("read-path.md#shard-refuses", "read-path.md#recovery-seal", "read-path.md#donor-unseen"),
    fact="a copy that is written to a sealed shard, or a shard of a mutation set",
    sentence={
        "sequencer": "Shard {node} stored what a sequencer wrote at {lsn}, although it was sealed up to epoch "
        "{sealed}.",
        "recovery": "Shard {node} stored what run {run} of a recovery wrote at {lsn}, although run {sealed} had sealed "
        "it.",
        "unsealed": "Run {run} recovered epoch {epoch} with shards {shards}, which had not been sealed that far.",
    },
    kinds=(Kind.SEAL,),
    columns=("node", "epoch"),
    looks_back=True,
)
CHECKS = (KEPT,)

_OWN = (Kind.COPY, Kind.SEAL, Kind.RECOVER, Kind.FAULT, Kind.TAKES_PART, Kind.RELEASE, Kind.NODESET, Kind.EVENT_LOG)
_SIGNS = (Kind.COPY, Kind.SEAL, Kind.RELEASE)
_COPY, _SEAL, _RECOVER, _FAULT, _TAKES_PART, _RELEASE, _NODESET, _EVENT_LOG = map(code, _OWN)
_LOST, _SEQUENCER = REASONS[ShardWord.LOST], word_code(NodeWord.SEQUENCER)
_LEAVE = ("rebuild", "drain", "unrecoverable")
"""Words of the event log by which donors begin."""
_SEVERAL = -1
"""In place of a copyset: the copies of a write name more than one."""
_IS_WANTED, _IS_SIGN, _IS_TURN = lookup({*_OWN, *END_KINDS}), lookup(_SIGNS), lookup({*END_KINDS, Kind.TAKES_PART})


class _Rows(NamedTuple):
    """The columns that are read."""

    seq: Cells
    kind: Cells
    node: Cells
    f: Cells
    offset: Cells
    epoch: Cells
    wave: Cells
    recovery: Cells
    shards: Cells
    reason: Cells
    value: Cells


class _Writes(NamedTuple):
    """By row of an LSN: the newest write there, and the copyset that all its copies name (else `_SEVERAL`)."""

    run: Ints  # -1: none yet
    wave: Ints
    copyset: Ints


class _Seals(NamedTuple):
    """By shard: up to where it is sealed, by which event, up to where it ever was, and whether it ever took part.

    Behind all shards: whether any was, and did.
    """

    upto: Ints
    seq: Ints
    ever: Ints
    begun: Ints


class _State(NamedTuple):
    """What the loop knows."""

    lsns: Table
    used: Ints
    writes: _Writes
    seals: _Seals
    run: Ints
    awaited: Ints  # `Ends`


_TOP, _RELEASED, _RELEASER = range(3)
"""The highest LSN released, the event (-1: none), and who did."""


@part
def _is_written(rows: _Rows, i: int, state: _State) -> bool:
    """Whether a copy comes of whoever wrote the record, not of a donor."""
    writes, row = state.writes, row_of(state.lsns, state.used, rows.offset[i])
    run, wave, copyset = rows.recovery[i], rows.wave[i], max(rows.shards[i], 0)
    if run > writes.run[row] or (run == writes.run[row] and wave > writes.wave[row]):
        writes.run[row], writes.wave[row], writes.copyset[row] = run, wave, copyset
    elif run != writes.run[row] or wave != writes.wave[row]:
        return False
    elif copyset != writes.copyset[row]:
        writes.copyset[row] = _SEVERAL
        return False
    return True


@part
def _is_late(run: int, lsn: int, sealed: int) -> bool:
    """Whether a shard that is sealed so far refuses a write."""
    return run < sealed if run > 0 else lsn >> 32 <= sealed


@part
def _is_shown(shard: int, seals: _Seals) -> bool:
    """Whether anything is recorded of a shard, in a record that shows who takes part."""
    return bool(seals.begun[shard] or seals.ever[shard] or not seals.begun[MOST_SHARDS])


@part
def _unsealed(shards: int, run: int, seals: _Seals) -> int:
    """Those of a set of shards that were never sealed up to the epoch that names a run."""
    found, shard = 0, 0
    while shards >> shard:
        if shards >> shard & 1 and (shard >= MOST_SHARDS or (seals.ever[shard] < run and _is_shown(shard, seals))):
            found |= 1 << shard
        shard += 1
    return found


@part
def _known(shards: int, seals: _Seals) -> int:
    """How many of a set of shards are judged: all that are shown, once any shard is known to be sealed."""
    count = shard = 0
    if seals.ever[MOST_SHARDS]:
        while shards >> shard:
            count += shards >> shard & 1 and (shard >= MOST_SHARDS or _is_shown(shard, seals))
            shard += 1
    return count


@kernel
def _skim(rows: _Rows, at: int, state: _State, judged: Ints) -> int:
    seals = state.seals
    for i in range(at, len(rows.kind)):
        kind, node = rows.kind[i], rows.node[i]
        if not _IS_WANTED[kind]:
            continue
        if _IS_TURN[kind] or (_IS_SIGN[kind] and state.awaited[awaited_at(node)]):
            return i
        if kind == _COPY:
            written = _is_written(rows, i, state)
            if written and 0 <= node < MOST_SHARDS and seals.upto[node]:
                if _is_late(rows.recovery[i], rows.offset[i], seals.upto[node]):
                    return i
                judged[0] += 1
        elif kind == _SEAL:
            if 0 <= node < MOST_SHARDS and rows.epoch[i] > 0:
                seals.ever[node] = max(seals.ever[node], rows.epoch[i])
                seals.ever[MOST_SHARDS] = 1
                if rows.epoch[i] > seals.upto[node]:
                    seals.upto[node], seals.seq[node] = rows.epoch[i], rows.seq[i]
        elif kind == _RECOVER:
            shards = max(rows.shards[i], 0)
            if _known(shards, seals):
                if _unsealed(shards, rows.recovery[i], seals):
                    return i
                judged[0] += _known(shards, seals)
        elif kind == _RELEASE:
            if rows.offset[i] > state.run[_TOP]:
                state.run[_TOP], state.run[_RELEASED], state.run[_RELEASER] = rows.offset[i], rows.seq[i], node
        elif kind in (_NODESET, _EVENT_LOG):
            return i
        elif 0 <= node < MOST_SHARDS and rows.f[i] == FAULT_WIPE:
            seals.upto[node] = 0  # it was on the disk
    return len(rows.kind)


@dataclass(frozen=True, slots=True)
class _Unseen:
    """Whether all who had a copy may have lost the end of their records, and who released it, if that is not seen."""

    places: Places = field(compare=False)
    lsn: int
    recovered: bool
    releasers: frozenset[int]  # none: it is seen

    def __call__(self, cut: frozenset[int]) -> bool:
        """See `Ends.wait`; a recovery may find too few shards for the property."""
        holders = {shard for shard in cut if 0 <= shard < MOST_SHARDS}
        had = bool(holders) if self.recovered else satisfied(self.places, self.lsn, mask_of(holders))
        return had and (not self.releasers or bool(cut & self.releasers))


class SealFold(StreamFold[_Rows]):
    """Judges what sealed shards store; see the module."""

    checks = CHECKS
    wanted = _IS_WANTED
    left = TURNS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, _Rows)
        self._skim = _skim.often(setting.compiled)
        seals = _Seals(*(np.zeros(MOST_SHARDS + 1, dtype=np.int64) for _ in _Seals._fields))
        self._ends = Ends()
        run, used = np.array([0, NOWHERE, NOWHERE], dtype=np.int64), np.zeros(1, dtype=np.int64)
        self._state = _State(empty_table(), used, no_rows(_Writes), seals, run, self._ends.awaited)
        self._nodesets = Nodesets(setting.words)
        self._leave = {setting.words.code(word) for word in _LEAVE}
        self._donors = False  # whether there may be any by now
        self._sequencers: set[int] = set()
        self._cuts: defaultdict[int, set[int]] = defaultdict(set)  # by shard: how far it was sealed when it was cut off

    def make_room(self, rows: _Rows) -> None:
        """See `StreamFold`."""
        state, used = self._state, int(self._state.used[0])
        more = at_most(rows.offset[rows.kind == _COPY])
        lsns = roomy(state.lsns, used, more, self.compiled)
        self._state = state._replace(lsns=lsns, writes=all_grown(state.writes, used, more, lambda _: -1))

    def skim(self, rows: _Rows, at: int) -> int:
        """See `StreamFold`."""
        return self._skim(rows, at, self._state, self.judged)

    def take(self, e: _Rows) -> None:
        """See `StreamFold`."""
        tally, seals = self.tallies[KEPT.id], self._state.seals
        if _IS_TURN[e.kind]:
            self._turns(e)
            return
        if e.kind == _NODESET:
            self._nodesets.learn(e.epoch, e.value)
            return
        if e.kind == _EVENT_LOG:
            self._donors = self._donors or e.f in self._leave
            return
        if _IS_SIGN[e.kind] and self._ends.awaited[awaited_at(e.node)]:
            self._ends.sign(e.node, e.seq)
            state = self._state._replace(awaited=NOBODY)
            if _skim.plain(_Rows(*([cell] for cell in e)), 0, state, self.judged):
                return
        if e.kind == _RECOVER:
            shards = max(e.shards, 0)
            tally.judged += _known(shards, seals)
            unsealed = frozenset(members(_unsealed(shards, e.recovery, seals)))
            said: dict[str, object] = {"run": e.recovery, "epoch": e.epoch, "shards": sorted(unsealed)}
            # A run is named by its epoch, and seals once that was given to it.
            since, enough = self._ends.began(e.node, e.seq), All(unsealed)
            self._ends.wait(tally, unsealed, e.seq, since=since, enough=enough, way="unsealed", counted=True, said=said)
            return
        self._late(e)

    def _late(self, e: _Rows) -> None:
        """A copy of a write that its shard had to refuse, unless it is of a donor."""
        tally, seals = self.tallies[KEPT.id], self._state.seals
        seal, way = int(seals.seq[e.node]), "recovery" if e.recovery > 0 else "sequencer"
        found: dict[str, object] = {"node": e.node, "lsn": shown(e.offset), "sealed": int(seals.upto[e.node])}
        found |= {"run": e.recovery} if e.recovery > 0 else {}
        nodeset = self._nodesets.of(epoch_of(e.offset)) if self._donors else None
        if nodeset is None:
            tally.judged += 1
            tally.violation(seal, e.seq, way=way, **found)
            return
        # Of each that may have had a copy: whether it may have lost that, with the end of an earlier life or of this.
        since: dict[int, int] = {}
        for shard in members(nodeset.shards):
            if any(not _is_late(e.recovery, e.offset, sealed) for sealed in self._cuts[shard]):
                since[shard] = NOWHERE
            elif shard != e.node and not _is_late(e.recovery, e.offset, int(seals.upto[shard])):
                since[shard] = MAX_OFFSET
        top, released, releaser = self._state.run.tolist()
        releasers = frozenset({*self._sequencers, releaser} - {NOWHERE} if e.offset > top else ())
        since |= dict.fromkeys(releasers, self._ends.began(releaser, released))
        enough = _Unseen(self._nodesets.places, e.offset, e.recovery > 0, releasers)
        self._ends.wait(tally, since, seal, e.seq, since=since, by=e.node, enough=enough, way=way, said=found)

    def _turns(self, e: _Rows) -> None:
        """A life begins or ends; with it the disk may be lost."""
        seals = self._state.seals
        cut = self._ends.turn(e.kind, e.node, e.seq)
        if cut and 0 <= e.node < MOST_SHARDS:
            self._cuts[e.node].add(int(seals.upto[e.node]))
        if e.kind == _TAKES_PART and e.f == _SEQUENCER:
            self._sequencers.add(e.node)
        if e.kind == _TAKES_PART and 0 <= e.node < MOST_SHARDS:
            seals.begun[e.node] = seals.begun[MOST_SHARDS] = 1
            if e.reason == _LOST:
                seals.upto[e.node] = 0

    def finish(self) -> Verdicts:
        """See `StreamFold`."""
        self._ends.over()
        return super().finish()


FAMILY = Family(
    "read_path_seals",
    CHECKS,
    frozenset({*_OWN, *END_KINDS}),
    ("node", "f", "offset", "epoch", "wave", "recovery", "shards", "reason", "value"),
    SealFold,
    READ_PATH,
    reads_texts=True,
)
