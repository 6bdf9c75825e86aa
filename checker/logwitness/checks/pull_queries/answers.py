"""What clients say of their queries: given as much as they count, by the server that was asked, failed as it says.

Sources: pull-queries.md#query-ends-as-answered, pull-queries.md#asked-server-answers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loghistory.schema import Kind
from loghistory.vocabularies.read_path import AnswerWord

from ..codes import FAIL, INVOKE, NO_NODE, NULL, OK, REASONS, code, how_many, lookup
from ..columns import Array, Columns, Ints
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..hashing import Table, all_grown, empty_table, place_of, roomy, row_of
from ..kernel import kernel
from .protocol import PULL_QUERIES

ENDS = Check(
    id="query-ends-as-answered",
    rule="The count of a query's answer is the number of partitions that its client was given; one that fails after "
    "its server was done with it says so.",
    source=("pull-queries.md#query-ends-as-answered",),
    fact="a query that was answered with a count, or that failed after its server was done with it",
    sentence={
        "count": "Operation {op} was answered with {stated:partition|partitions}, says its client, which was given "
        "{given}.",
        "reason": "Operation {op} failed for its client for another reason than that its server said so, which it did.",
    },
    kinds=(Kind.INVOKE, Kind.ROWS),
    columns=("process", "op"),
)
ASKED = Check(
    id="asked-server-answers",
    rule="A query is routed, and answered, by the server that its client asked, and so is a put.",
    source=("pull-queries.md#asked-server-answers",),
    fact="the route, the end, the rows or the answer of an operation, where both name the server",
    sentence="Operation {op} was asked of node {asked}, but node {node} dealt with it.",
    kinds=(Kind.INVOKE,),
    columns=("node", "op"),
)
CHECKS = (ENDS, ASKED)

_OWN = (Kind.ROUTE, Kind.FINISH, Kind.ROWS, Kind.INVOKE, Kind.OK, Kind.FAIL, Kind.INFO)
_ROUTE, _FINISH, _ROWS = map(code, _OWN[:3])
_IS_WANTED = lookup(_OWN)
_FAILED = REASONS[AnswerWord.FAILED]
_ENDS, _ASKED = range(2)


class _Read(NamedTuple):
    """The columns that are read."""

    seq: Array
    kind: Array
    node: Array
    op: Array
    f: Array
    nullable_count: Array
    reason: Array


class _Ops(NamedTuple):
    """By row of an operation: of whom it was asked, what its client was given, and the event by which it was over."""

    node: Ints
    query: Ints  # whether it is one that is open
    given: Ints
    finished: Ints  # at its server; -1: not yet


class _State(NamedTuple):
    """What the loop knows; ``used``: how many rows there are."""

    of_ops: Table
    ops: _Ops
    used: Ints


@kernel
def _skim(rows: _Read, at: int, query: int, put: int, state: _State, judged: Ints) -> int:
    ops = state.ops
    for i in range(at, len(rows.kind)):
        kind = rows.kind[i]
        if not _IS_WANTED[kind]:
            continue
        if kind == INVOKE:
            if rows.f[i] in (query, put):
                row = row_of(state.of_ops, state.used, rows.op[i])
                ops.node[row], ops.query[row], ops.given[row] = rows.node[i], rows.f[i] == query, 0
                ops.finished[row] = -1
            continue
        row = state.of_ops.rows[place_of(state.of_ops, rows.op[i])]
        if row < 0:
            continue
        right = True
        if kind == _ROWS:
            ops.given[row] += 1
        elif kind == _FINISH:
            ops.finished[row] = rows.seq[i]
        elif kind == OK and ops.query[row] and rows.nullable_count[i] != NULL:
            right = rows.nullable_count[i] == ops.given[row]
            judged[_ENDS] += right
        elif kind == FAIL and ops.query[row] and ops.finished[row] >= 0:
            right = rows.reason[i] == _FAILED
            judged[_ENDS] += right
        named = ops.node[row] != NO_NODE and rows.node[i] != NO_NODE
        if not right or (named and ops.node[row] != rows.node[i]):
            return i
        judged[_ASKED] += named
        if kind not in (_ROUTE, _FINISH, _ROWS):
            ops.query[row] = 0
    return len(rows.kind)


class AnswerFold:
    """Judges what clients of pull queries say; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._compiled = setting.compiled
        self._query, self._put = setting.words.code("query"), setting.words.code("put")
        self._tallies = {check.id: Tally(check, setting.keep, setting.seen) for check in CHECKS}
        none = (np.zeros(0, dtype=np.int64) for _ in _Ops._fields)
        self._state = _State(empty_table(), _Ops(*none), np.zeros(1, dtype=np.int64))
        self._judged = np.zeros(len(CHECKS), dtype=np.int64)

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        if not self._compiled:
            columns = columns.where(_IS_WANTED[columns.kind])
        rows = _Read(*(getattr(columns, name) for name in _Read._fields))
        state, used, begun = self._state, int(self._state.used[0]), how_many(rows.kind, INVOKE)
        self._state = state._replace(
            of_ops=roomy(state.of_ops, used, begun, self._compiled), ops=all_grown(state.ops, used, begun, lambda _: 0)
        )
        at = self._skim(rows, 0)
        while at < len(columns.kind):
            event: list[Any] = [int(column[at]) for column in rows]
            self._take(_Read(*event))
            at = self._skim(rows, at + 1)

    def _skim(self, rows: _Read, at: int) -> int:
        return _skim.form(self._compiled)(rows, at, self._query, self._put, self._state, self._judged)

    def _take(self, e: Any) -> None:  # noqa: ANN401 - columns of one event
        """Judge an event that breaks a rule."""
        row, ops = int(self._state.of_ops.rows[place_of(self._state.of_ops, e.op)]), self._state.ops
        asked, query, given, finished = (int(column[row]) for column in ops)
        ends, by = self._tallies[ENDS.id], self._tallies[ASKED.id]
        if NO_NODE not in (asked, e.node):
            by.judged += 1
            if asked != e.node:
                by.violation(e.seq, op=e.op, asked=asked, node=e.node)
        if e.kind in (_ROUTE, _FINISH, _ROWS):
            return
        ops.query[row] = 0
        if e.kind == OK and query and e.nullable_count not in (NULL, given):
            ends.judged += 1
            rests_on = (Kind.ROWS,)
            ends.violation(e.seq, way="count", rests_on=rests_on, op=e.op, stated=e.nullable_count, given=given)
        elif e.kind == FAIL and finished >= 0 and query and e.reason != _FAILED:
            ends.judged += 1
            ends.violation(finished, e.seq, way="reason", op=e.op)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated(self._tallies.values())

    def finish(self) -> Verdicts:
        """The outcomes, once all events were taken."""
        for tally, judged in zip(self._tallies.values(), self._judged.tolist(), strict=True):
            tally.judged += judged
        return Verdicts(tuple(tally.outcome() for tally in self._tallies.values()))


FAMILY = Family(
    "pull_queries_answers",
    CHECKS,
    frozenset(_OWN),
    ("node", "op", "f", "count", "reason"),
    AnswerFold,
    PULL_QUERIES,
    operations=frozenset({"put", "query"}),
)
