"""Clients against sequencers, shards and readers: what they asked for, what was stored of it, what they were answered.

A node that was cut off may have lost the end of its record. So what is missing there is held against it only once it
records something more in the same life.

Sources: read-path.md#clients, read-path.md#record-as-appended, read-path.md#append-waves, read-path.md#shard-refuses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind, Operation
from loghistory.vocabularies.read_path import RecordWord

from ..codes import FAIL, INVOKE, NO_NODE, NULL, OK, RECORDS, code, how_many, lookup, word_code
from ..columns import Ints
from ..contract import Check, Family, Setting, Verdicts
from ..ends import Ends, awaited_at
from ..hashing import Table, all_grown, empty_table, place_of, roomy, row_of
from ..kernel import kernel, part
from .protocol import F_APPEND, F_READ, READ_PATH, TURNS, Cells, StreamFold, no_rows, shown

ANSWERED = Check(
    id="answered-as-acknowledged",
    rule="A client that is told that its record was appended is told where: at the LSN at which the sequencer that it "
    "asked has acknowledged that record before.",
    source=("read-path.md#answered-as-acknowledged", "read-path.md#append-waves"),
    fact="an append of a record that was answered with ok",
    sentence={
        "nowhere": "The client of operation {op} was told that {value} was appended, but not where.",
        "never": "The client of operation {op} was told that {value} is at {lsn}, which node {node} had not "
        "acknowledged.",
        "elsewhere": "The client of operation {op} was told that {value} is at {lsn}, but it was acknowledged at "
        "{known}.",
        "other": "The client of operation {op} was answered by node {node}, but node {other} acknowledged its record.",
    },
    kinds=(Kind.INVOKE, Kind.OK, Kind.ACKNOWLEDGE),
    columns=("node", "op", "offset", "value"),
    looks_back=True,
)
STORED = Check(
    id="stored-as-asked",
    rule="Shards store, and sequencers acknowledge, only records that a client has asked to append; one that was "
    "refused is stored nowhere, and none is acknowledged twice.",
    source=("read-path.md#stored-as-asked", "read-path.md#record-as-appended"),
    fact="a record stored on a shard, or acknowledged, or refused",
    sentence={
        "unasked": "Node {node} stored or acknowledged {value} at {lsn}, which no client had asked to append.",
        "refused": "The append of {value} was refused, but node {node} stored or acknowledged it.",
        "again": "Node {node} acknowledged {value} at {lsn}, which had been acknowledged before.",
    },
    kinds=(Kind.INVOKE,),
    columns=("node", "offset", "value"),
    looks_back=True,
)
TRIMMED = Check(
    id="trim-is-answered",
    rule="A client that asked to trim is told how far that was done: no further than it had asked for, and no further "
    "than a sequencer had released.",
    source=("read-path.md#trim-is-answered", "read-path.md#shard-refuses"),
    fact="a trim that was answered with ok",
    sentence={
        "nowhere": "The client of operation {op} was told that the log is trimmed, but not up to where.",
        "unasked": "The client of operation {op} was told that the log is trimmed up to {lsn}, but had asked for "
        "no more than {bound}.",
        "unreleased": "The client of operation {op} was told that the log is trimmed up to {lsn}, but no more than "
        "{bound} was released.",
    },
    kinds=(Kind.INVOKE, Kind.OK, Kind.RELEASE),
    columns=("op", "offset"),
    looks_back=True,
)
READ = Check(
    id="read-ends-as-delivered",
    rule="A read that ends is answered with the last LSN that it delivered, which is the last one that it was to read.",
    source=("read-path.md#read-ends-as-delivered",),
    fact="a read stream that was answered with ok",
    sentence={
        "nowhere": "The client of stream {op} was told that it has read all, but not up to where.",
        "short": "The client of stream {op} was told that it has read all up to {lsn}, but was to read up to {bound}.",
        "other": "The client of stream {op} was told that it has read all up to {lsn}, but {bound} was delivered last.",
    },
    kinds=(Kind.INVOKE, Kind.OK),
    columns=("op", "offset"),
)
ASKED = Check(
    id="asked-node-answers",
    rule="The node that a client asks is the one that answers, and that reads for it.",
    source=("read-path.md#asked-node-answers",),
    fact="an answer to an operation, or a reader that takes part for one, which name the node",
    sentence="Operation {op} was asked of node {asked}, but node {node} answered it or reads for it.",
    kinds=(Kind.INVOKE,),
    columns=("node", "op"),
)
SEQUENCER = Check(
    id="one-sequencer-per-epoch",
    rule="One node, in one life, does all the acknowledging and releasing of an epoch.",
    source=("read-path.md#one-sequencer-per-epoch", "read-path.md#activation"),
    fact="a record acknowledged, or a release",
    sentence="Node {node} acknowledged or released {lsn} in its life {life}, and node {other}, in its life {before}, "
    "something else of epoch {epoch}.",
    columns=("node", "offset", "incarnation"),
)
CHECKS = (ANSWERED, STORED, TRIMMED, READ, ASKED, SEQUENCER)

_OWN = (Kind.TAKES_PART, Kind.COPY, Kind.ACKNOWLEDGE, Kind.RELEASE, Kind.STREAM_RECORD, Kind.STREAM_GAP)
_CLIENTS = (Kind.INVOKE, Kind.OK, Kind.FAIL, Kind.INFO)
_TAKES_PART, _COPY, _ACKNOWLEDGE, _RELEASE, _RECORD, _GAP = map(code, _OWN)
_F_TRIM, _DATA = word_code(Operation.TRIM_LOG), RECORDS[RecordWord.DATA]
_SIGNS = (Kind.COPY, Kind.ACKNOWLEDGE, Kind.RELEASE, Kind.STREAM_RECORD, Kind.STREAM_GAP)
_IS_WANTED, _IS_OF_CLIENT, _IS_TURN = (
    lookup({*_OWN, *_CLIENTS, *END_KINDS}),
    lookup(_CLIENTS),
    lookup({Kind.TAKES_PART, *END_KINDS}),
)
_IS_SIGN = lookup(_SIGNS)
_ANSWERED, _STORED, _TRIMMED, _READ, _NODES, _SEQUENCER = range(len(CHECKS))
_UNKNOWN = -2
"""Of a read stream of which nothing was delivered, and of releases if there is none."""


class _Rows(NamedTuple):
    """The columns that are read."""

    seq: Cells
    kind: Cells
    node: Cells
    op: Cells
    f: Cells
    offset: Cells
    last_offset: Cells
    value: Cells
    record: Cells
    epoch: Cells
    incarnation: Cells


class _Ops(NamedTuple):
    """By row of an operation that is open: what was asked of whom, and what was delivered last."""

    f: Ints  # -1: nothing is open
    node: Ints
    value: Ints  # to append; else the LSN to trim up to or to read from
    until: Ints  # where a read is to end
    last: Ints
    last_seq: Ints


class _Values(NamedTuple):
    """By row of a value: who asked for it, and the first event that stored it, refused it, and acknowledged it last."""

    asked: Ints  # how often
    stored: Ints  # -1: no event
    holder: Ints  # the node of it
    refused: Ints
    lsn: Ints
    node: Ints
    acknowledged: Ints


class _State(NamedTuple):
    """What the loop knows; the numbers of ``run`` are named below."""

    of_ops: Table
    ops: _Ops
    of_values: Table
    values: _Values
    run: Ints
    awaited: Ints  # `Ends`


_USED_OPS, _USED_VALUES, _TOP, _TOP_SEQ, _APPENDS, _EPOCH, _SEQUENCES, _LIFE = range(8)
"""How many rows there are; the highest LSN released, with its event; appends that were asked for; the last
epoch in which something was acknowledged or released, by which node in which life.
"""


@part
def _stores(state: _State, rows: _Rows, i: int, judged: Ints) -> bool:
    """A record is stored or acknowledged; whether it was to be."""
    value = rows.value[i]
    row = state.of_values.rows[place_of(state.of_values, value)]
    if row < 0:
        return False
    values, seq = state.values, rows.seq[i]
    if values.stored[row] < 0:
        if values.refused[row] >= 0 and values.asked[row] == 1:
            return False
        values.stored[row], values.holder[row] = seq, rows.node[i]
    if rows.kind[i] == _ACKNOWLEDGE:
        if values.acknowledged[row] >= 0 and values.asked[row] == 1:
            return False
        values.lsn[row], values.node[row], values.acknowledged[row] = rows.offset[i], rows.node[i], seq
    judged[_STORED] += 1
    return True


@part
def _is_asked(state: _State, rows: _Rows, i: int) -> None:
    """An operation begins."""
    row, ops, f = row_of(state.of_ops, state.run[_USED_OPS:], rows.op[i]), state.ops, rows.f[i]
    ops.f[row], ops.node[row], ops.last[row], ops.last_seq[row] = f, rows.node[i], _UNKNOWN, -1
    ops.value[row] = rows.value[i] if f == F_APPEND else rows.offset[i]
    # A stream of one LSN looks like one without an end.
    ops.until[row] = rows.last_offset[i] if rows.last_offset[i] != rows.offset[i] else NULL
    if f == F_APPEND and rows.value[i] != NULL:
        value = row_of(state.of_values, state.run[_USED_VALUES:], rows.value[i])
        state.values.asked[value] += 1
        state.run[_APPENDS] += 1


@part
def _is_right(state: _State, rows: _Rows, i: int, judged: Ints) -> bool:
    """An operation ends; whether it is plain that it ends as it should."""
    row = state.of_ops.rows[place_of(state.of_ops, rows.op[i])]
    if row < 0 or state.ops.f[row] != rows.f[i]:
        return True
    ops, values, kind, lsn = state.ops, state.values, rows.kind[i], rows.offset[i]
    f, node, named = ops.f[row], ops.node[row], ops.node[row] != NO_NODE and rows.node[i] != NO_NODE
    if kind != OK and (kind != FAIL or f != F_APPEND):
        right = not named or node == rows.node[i]
        if right:
            ops.f[row] = -1
            judged[_NODES] += named
        return bool(right)
    value = state.of_values.rows[place_of(state.of_values, ops.value[row])] if f == F_APPEND else -1
    right = named and node == rows.node[i] and (value >= 0 or f != F_APPEND)
    if kind == FAIL:
        if not right or (values.asked[value] == 1 and values.stored[value] >= 0):
            return False
        values.refused[value] = rows.seq[i]
        judged[_STORED] += 1
    elif f == F_APPEND:
        if not right or values.acknowledged[value] < 0 or values.lsn[value] != lsn or values.node[value] != node:
            return False
        judged[_ANSWERED] += 1
    elif f == F_READ:
        right = right and lsn == ops.last[row] and (ops.until[row] == NULL or lsn >= ops.until[row])
        judged[_READ] += right
    else:
        right = right and lsn != NULL and lsn <= ops.value[row] and lsn <= state.run[_TOP] and ops.value[row] != NULL
        judged[_TRIMMED] += right
    if right:
        ops.f[row] = -1
        judged[_NODES] += 1
    return bool(right)


@part
def _epoch_of(rows: _Rows, i: int) -> int:
    """The epoch in which something is acknowledged or released."""
    return int(rows.offset[i] >> 32 if rows.kind[i] == _ACKNOWLEDGE else rows.epoch[i])


@part
def _goes_on(state: _State, rows: _Rows, i: int) -> bool:
    """Whether who acknowledges or releases something did so last, in the same epoch and life."""
    run = state.run
    same = run[_EPOCH] == _epoch_of(rows, i) and run[_SEQUENCES] == rows.node[i]
    return bool(same and run[_LIFE] == rows.incarnation[i])


@part
def _takes(state: _State, rows: _Rows, i: int, judged: Ints) -> bool:
    """Take one event; whether it breaks no rule."""
    kind = rows.kind[i]
    if kind in (_RECORD, _GAP):
        row = state.of_ops.rows[place_of(state.of_ops, rows.op[i])]
        if row >= 0:
            state.ops.last[row], state.ops.last_seq[row] = rows.last_offset[i], rows.seq[i]
    elif kind in (_COPY, _ACKNOWLEDGE):
        if (kind == _ACKNOWLEDGE or rows.record[i] == _DATA) and rows.value[i] != NULL:
            return bool(_stores(state, rows, i, judged))
    elif kind == _RELEASE:
        if state.run[_TOP_SEQ] < 0 or rows.offset[i] > state.run[_TOP]:
            state.run[_TOP], state.run[_TOP_SEQ] = rows.offset[i], rows.seq[i]
    elif kind == INVOKE:
        if rows.f[i] in (F_APPEND, F_READ, _F_TRIM):
            _is_asked(state, rows, i)
    elif _IS_OF_CLIENT[kind]:
        return _is_right(state, rows, i, judged)
    return True


@kernel
def _skim(rows: _Rows, at: int, state: _State, judged: Ints) -> int:
    for i in range(at, len(rows.kind)):
        kind = rows.kind[i]
        if not _IS_WANTED[kind]:
            continue
        if _IS_TURN[kind] or (_IS_SIGN[kind] and state.awaited[awaited_at(rows.node[i])]):
            return i
        sequences = kind in (_ACKNOWLEDGE, _RELEASE)
        if sequences and not _goes_on(state, rows, i):
            return i
        if not _takes(state, rows, i, judged):
            return i
        judged[_SEQUENCER] += sequences
    return len(rows.kind)


class AnswerFold(StreamFold[_Rows]):
    """Judges what clients are answered; see the module."""

    checks = CHECKS
    wanted = _IS_WANTED
    left = TURNS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, _Rows)
        self._skim = _skim.often(setting.compiled)
        run = np.array([0, 0, _UNKNOWN, -1, 0, _UNKNOWN, _UNKNOWN, _UNKNOWN], dtype=np.int64)
        self._ends = Ends()
        self._state = _State(empty_table(), no_rows(_Ops), empty_table(), no_rows(_Values), run, self._ends.awaited)
        self._sequencers: dict[int, tuple[int, int, int]] = {}  # by epoch: who it is, in which life, the first event

    def make_room(self, rows: _Rows) -> None:
        """See `StreamFold`."""
        state, used = self._state, self._state.run.tolist()
        begun = how_many(rows.kind, INVOKE)
        self._state = state._replace(
            of_ops=roomy(state.of_ops, used[_USED_OPS], begun, self.compiled),
            ops=all_grown(state.ops, used[_USED_OPS], begun, _blank),
            of_values=roomy(state.of_values, used[_USED_VALUES], begun, self.compiled),
            values=all_grown(state.values, used[_USED_VALUES], begun, _blank),
        )

    def skim(self, rows: _Rows, at: int) -> int:
        """See `StreamFold`."""
        return self._skim(rows, at, self._state, self.judged)

    def take(self, e: _Rows) -> None:
        """See `StreamFold`."""
        if _IS_TURN[e.kind]:
            self._ends.turn(e.kind, e.node, e.seq)
            if e.kind != _TAKES_PART or e.op == NULL:
                return
        elif _IS_SIGN[e.kind]:
            self._ends.sign(e.node, e.seq)
        one = _Rows(*([cell] for cell in e))
        if e.kind in (_ACKNOWLEDGE, _RELEASE):
            self._sequences(e, _epoch_of(one, 0))
        if e.kind != _TAKES_PART and _takes(self._state, one, 0, self.judged):
            return
        if e.kind in (_COPY, _ACKNOWLEDGE):
            self._stored(e)
            return
        row = int(self._state.of_ops.rows[place_of(self._state.of_ops, e.op)])
        ops = self._state.ops
        if row < 0 or ops.f[row] < 0:
            return
        self._answered_by(e, row)
        if e.kind == _TAKES_PART:
            return
        f, ops.f[row] = int(ops.f[row]), -1
        if e.kind == FAIL and f == F_APPEND:
            self._refused(e, row)
        elif e.kind == OK and f == F_APPEND:
            self._appended(e, row)
        elif e.kind == OK and f == F_READ:
            self._has_read(e, row)
        elif e.kind == OK:
            self._trims(e, row)

    def _sequences(self, e: _Rows, epoch: int) -> None:
        """Something is acknowledged or released in an epoch, perhaps of another one."""
        tally, run = self.tallies[SEQUENCER.id], self._state.run
        tally.judged += 1
        node, life, first = self._sequencers.setdefault(epoch, (e.node, e.incarnation, e.seq))
        if (node, life) != (e.node, e.incarnation):
            found = {"node": e.node, "life": e.incarnation, "other": node, "before": life}
            tally.violation(first, e.seq, lsn=shown(e.offset), epoch=epoch, **found)
        else:
            run[_EPOCH], run[_SEQUENCES], run[_LIFE] = epoch, node, life

    def _answered_by(self, e: _Rows, row: int) -> None:
        """Whoever answers, or takes part for a read, is who was asked."""
        tally, asked = self.tallies[ASKED.id], int(self._state.ops.node[row])
        if NO_NODE not in (asked, e.node):
            tally.judged += 1
            if asked != e.node:
                tally.violation(e.seq, op=e.op, asked=asked, node=e.node)

    def _stored(self, e: _Rows) -> None:
        """What is stored was never asked for, or refused."""
        tally, values = self.tallies[STORED.id], self._state.values
        row = int(self._state.of_values.rows[place_of(self._state.of_values, e.value)])
        tally.judged += 1
        if row < 0:
            tally.violation(e.seq, way="unasked", node=e.node, value=e.value, lsn=shown(e.offset))
            return
        before = int(values.acknowledged[row])
        if e.kind == _ACKNOWLEDGE:
            values.lsn[row], values.node[row], values.acknowledged[row] = e.offset, e.node, e.seq
        if values.stored[row] >= 0:
            tally.violation(before, e.seq, way="again", node=e.node, value=e.value, lsn=shown(e.offset))
            return
        values.stored[row], values.holder[row] = e.seq, e.node
        tally.violation(int(values.refused[row]), e.seq, way="refused", node=e.node, value=e.value)

    def _of_value(self, row: int) -> int:
        """The row of the value of an append; -1."""
        table = self._state.of_values
        return int(table.rows[place_of(table, int(self._state.ops.value[row]))])

    def _refused(self, e: _Rows, row: int) -> None:
        value, values, tally = self._of_value(row), self._state.values, self.tallies[STORED.id]
        if value < 0:
            return
        values.refused[value] = e.seq
        tally.judged += 1
        if values.asked[value] == 1 and values.stored[value] >= 0:
            found = {"node": int(values.holder[value]), "value": int(self._state.ops.value[row])}
            tally.violation(int(values.stored[value]), e.seq, way="refused", **found)

    def _appended(self, e: _Rows, row: int) -> None:
        """What a client was told that its record was appended is not just what was acknowledged."""
        tally, state, row_of_value = self.tallies[ANSWERED.id], self._state, self._of_value(row)
        found: dict[str, object] = {"op": e.op, "value": int(state.ops.value[row])}
        if row_of_value < 0:
            tally.unjudged += 1
            return
        _, _, _, _, lsn, node, seq = (int(column[row_of_value]) for column in state.values)
        if e.offset == NULL:
            tally.judged += 1
            tally.violation(e.seq, way="nowhere", **found)
        elif seq < 0:
            found |= {"lsn": shown(e.offset), "node": e.node}
            self._waits(ANSWERED, e.node, e.seq, way="never", said=found)
        else:
            tally.judged += 1
            if lsn != e.offset:
                tally.violation(seq, e.seq, way="elsewhere", **found, lsn=shown(e.offset), known=shown(lsn))
            elif NO_NODE not in (e.node, node) and node != e.node:
                tally.violation(seq, e.seq, way="other", op=e.op, node=e.node, other=node)

    def _has_read(self, e: _Rows, row: int) -> None:
        """What a reader was answered at its end is not just what it delivered last."""
        tally, (_, node, _, until, last, seq) = self.tallies[READ.id], (int(c[row]) for c in self._state.ops)
        found: dict[str, object] = {"op": e.op, "lsn": shown(e.offset)}
        if e.offset == NULL:
            tally.violation(e.seq, way="nowhere", op=e.op)
        elif until != NULL and e.offset < until:
            tally.violation(e.seq, way="short", bound=shown(until), **found)
        elif e.offset > last and (until == NULL or last < until):
            found["bound"] = shown(last) if seq >= 0 else "nothing"
            self._waits(READ, node, seq, e.seq, way="other", said=found)
            return
        elif e.offset != last:
            tally.violation(seq, e.seq, way="other", bound=shown(last), **found)
        tally.judged += 1

    def _trims(self, e: _Rows, row: int) -> None:
        tally, asked = self.tallies[TRIMMED.id], int(self._state.ops.value[row])
        top, seq = self._state.run[_TOP : _TOP_SEQ + 1].tolist()
        found: dict[str, object] = {"op": e.op, "lsn": shown(e.offset)}
        if e.offset == NULL:
            tally.violation(e.seq, way="nowhere", op=e.op)
        elif asked != NULL and e.offset > asked:
            tally.violation(e.seq, way="unasked", bound=shown(asked), **found)
        elif e.offset > top:
            found["bound"] = shown(top) if seq >= 0 else "nothing"
            self._waits(TRIMMED, e.node, seq, e.seq, way="unreleased", said=found)
            return
        tally.judged += 1

    def _waits(self, check: Check, node: int, *events: int, way: str, said: dict[str, object]) -> None:
        """An answer is wrong if its node goes on: else it may have lost the end of its record."""
        kind = {ANSWERED.id: Kind.ACKNOWLEDGE, TRIMMED.id: Kind.RELEASE, READ.id: Kind.STREAM_RECORD}[check.id]
        self._ends.wait(self.tallies[check.id], (node,), *events, said=said, way=way, rests_on=(kind,), sign=True)

    def finish(self) -> Verdicts:
        """See `StreamFold`; where no client asks to append, others may have."""
        self._ends.over()
        stored = self.tallies[STORED.id]
        nobody = not self._state.run[_APPENDS] and stored.violated > 0
        if nobody:
            stored.unjudged, stored.judged = stored.judged, 0
        found = super().finish()
        if not nobody:
            return found
        unknown = stored.outcome("no client is recorded that asked to append a record", void=True)
        return Verdicts(tuple(unknown if each.id == STORED.id else each for each in found.outcomes))


def _blank(name: str) -> int:
    """What is known of an operation or a value before anything is."""
    return 0 if name == "asked" else -1


FAMILY = Family(
    "read_path_answers",
    CHECKS,
    frozenset({*_OWN, *_CLIENTS, *END_KINDS}),
    ("node", "op", "f", "offset", "last_offset", "value", "record", "epoch", "incarnation"),
    AnswerFold,
    READ_PATH,
    operations=frozenset({Operation.APPEND_RECORD, Operation.READ_STREAM, Operation.TRIM_LOG}),
)
