"""Operations of clients: each begun once, ended once, one at a time, and answers that add up; and time goes forward.

Histories of other tools are held to this by their importers. Parts of an operation (``txn``) come and go with it and
are left to the models that know them. Memory: one row a client, and one bit for each number of an operation.
Source: history-checks.md#well-formed-histories.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import CLIENT_KINDS, Kind
from loghistory.vocabularies.clients import Refusal

from ..codes import (
    F_APPEND,
    F_TAIL,
    FAIL,
    INFO,
    INVOKE,
    IS_OF_CLIENT,
    NULL,
    OBSERVE,
    OF_CLIENTS,
    OK,
    OTHER,
    READS,
    REASONS,
    code,
    how_many,
)
from ..columns import Columns, Ints
from ..contract import Check, Family, Setting
from ..findings import Findings, KernelFold, number, report, show
from ..hashing import Table, all_grown, empty_table, roomy, row_of
from ..kernel import kernel, part, step
from ..sentences import NOTHING_OBSERVED

CHECKS: list[Check] = []
BEGINS_LATE = "the record begins late: what clients asked for before that is missing"
_NO_OPERATION = -1
_OPEN, _UNKNOWN = 0, 1
_EARLIEST, _LATEST = -(1 << 63), (1 << 63) - 1
_ROWS = code(Kind.ROWS)
_TERM_MISMATCH = REASONS[Refusal.TERM_MISMATCH]
_PLACED, _UNPLACED, _IN_TERM, _IN_NONE, _EXPECTED, _UNEXPECTED = range(6)
"""Answers ok to appends with an offset, without one, with a term, without one; appends that ended and state the term
that they expect, and refusals for the term of those that do not."""
_PAGE = 5  # bits of a number of an operation that say its place in a page


class _Strange(NamedTuple):
    process: int
    op: int


class _Overlap(NamedTuple):
    process: int
    first: int
    second: int


class _Given(NamedTuple):
    process: int
    offset: int


class _Sum(NamedTuple):
    process: int
    stated: int
    batches: int
    following: int
    last: int


class _Back(NamedTuple):
    before: int
    after: int


COMPLETES = number(
    CHECKS,
    Check(
        id="completes-what-is-open",
        rule="What a client is told belongs to its open operation: one completion for each invocation, after it, by "
        "the same process and under the same name.",
        source=("history-checks.md#completes-what-is-open",),
        fact="an observation, rows of a query, or a completion",
        sentence="Client {process} was told something of operation {op}, which is not open under that name.",
        fields=_Strange,
        kinds=(Kind.INVOKE,),
        explained_by=frozenset({Kind.INVOKE}),
        columns=("process", "op", "f"),
        unsettles=CLIENT_KINDS,
        begins_late=True,
    ),
)
NEW = number(
    CHECKS,
    Check(
        id="operations-are-new",
        rule="The number of an operation is used once.",
        source=("history-checks.md#operations-are-new",),
        fact="an invocation",
        sentence="Client {process} began operation {op}, which had been begun before.",
        fields=_Strange,
        kinds=(Kind.INVOKE,),
        columns=("process", "op"),
        unsettles=CLIENT_KINDS,
    ),
)
ONE_AT_A_TIME = number(
    CHECKS,
    Check(
        id="one-operation-at-a-time",
        rule="A client has at most one open operation; one whose outcome it never learns stays open, and the client "
        "goes on as another process.",
        source=("history-checks.md#one-open-operation",),
        fact="an invocation",
        sentence="Client {process} began operation {second} while its operation {first} was open.",
        fields=_Overlap,
        kinds=(Kind.INVOKE,),
        columns=("process", "op"),
        unsettles=CLIENT_KINDS,
    ),
)
GIVEN = number(
    CHECKS,
    Check(
        id="reads-are-given",
        rule="Only a read is given entries.",
        source=("history-checks.md#reads-are-given",),
        fact="an observation of an open operation",
        sentence="Client {process} was given what is at offset {offset} while it was not reading.",
        fields=_Given,
        kinds=(Kind.INVOKE, Kind.OBSERVE),
        columns=("process", "op", "f"),
        unsettles=CLIENT_KINDS,
    ),
)
ADDS_UP = number(
    CHECKS,
    Check(
        id="reads-add-up",
        rule="The count of a read's answer is the number of batches (or of their offsets) that it was given, and it "
        "ends behind the last of them.",
        source=("history-checks.md#reads-add-up",),
        fact="a read that ended with ok",
        sentence="Client {process} was given {batches:batch|batches} up to offset {last}, but its read says count "
        "{stated} and goes on at {following}.",
        fields=_Sum,
        kinds=(Kind.INVOKE, Kind.OK),
        columns=("process", "op", "f", "offset"),
        unsettles=CLIENT_KINDS,
    ),
)
ASKED = number(
    CHECKS,
    Check(
        id="appends-as-asked",
        rule="An append is answered with as many offsets as it asked for, in the term that it expected; it is refused "
        "for its term only if it expected one.",
        source=("history-checks.md#appends-as-asked",),
        fact="an append that states its count or the term that it expects, or whose answer has a count, and ended with "
        "ok",
        sentence="Operation {op} of client {process} was answered with more or fewer offsets than it asked for or than "
        "the answer counts, or in another term than it expected.",
        fields=_Strange,
        kinds=(Kind.INVOKE, Kind.OK),
        columns=("process", "op", "f"),
        unsettles=CLIENT_KINDS,
    ),
)
TIME = number(
    CHECKS,
    Check(
        id="time-goes-forward",
        rule="No event is stamped earlier than one before it.",
        source=("history-checks.md#time-goes-forward",),
        fact="an event behind another one",
        sentence="Time went back from {before} to {after} ns.",
        fields=_Back,
        columns=("time",),
        unsettles=frozenset(Kind),
        doubtful=True,
    ),
)


class _Clients(NamedTuple):
    """By client: its open operation, and what that was given."""

    op: Ints
    f: Ints
    status: Ints  # `_NO_OPERATION`, `_OPEN`, or `_UNKNOWN`: it ended as info
    seq: Ints  # of its last invocation
    end_seq: Ints  # of its last completion; -1: the operation is open
    asked: Ints  # of an append: the offsets that it asks for; NULL: not said
    term: Ints  # the term that it expects; NULL: any
    batches: Ints
    entries: Ints
    last: Ints  # the highest offset given; NULL: none
    last_seq: Ints


class _Pages(NamedTuple):
    """The numbers of operations used, 32 a page."""

    used: Ints


class _Counts(NamedTuple):
    """Numbers that the kernel keeps, each an array of one, but for `answers`."""

    clients: Ints
    pages: Ints
    says_last: Ints  # the first answer to an append that states a last offset; -1
    time: Ints
    time_seq: Ints
    first: Ints  # the lowest number of an operation begun
    answers: Ints  # ok to appends: `_PLACED`, `_UNPLACED`, `_IN_TERM`, `_IN_NONE`; `_UNEXPECTED` refusals


@part
def _show_operation(clients: _Clients, counts: _Counts, op: int, check: int, found: Findings) -> None:
    """More events that show the violation reported last: who had the operation, and how that ended."""
    if found.violated[check] > found.keep[0]:
        return
    for client in range(counts.clients[0]):
        if clients.op[client] == op:
            show(found, clients.seq[client])
            show(found, clients.end_seq[client])


@step
def _begin(
    clients: _Clients, pages: _Pages, counts: _Counts, page: int, client: int, columns: Columns, i: int, found: Findings
) -> None:
    """A client begins an operation."""
    op, seq, process = columns.op[i], columns.seq[i], columns.process[i]
    bit = 1 << (op & ((1 << _PAGE) - 1))
    found.judged[NEW] += 1
    if pages.used[page] & bit:
        report(found, NEW, _Strange(process, op=op), seq)
        _show_operation(clients, counts, op, NEW, found)
    pages.used[page] |= bit
    found.judged[ONE_AT_A_TIME] += 1
    if clients.status[client] != _NO_OPERATION:
        both = _Overlap(process, first=clients.op[client], second=op)
        report(found, ONE_AT_A_TIME, both, clients.seq[client], seq)
    counts.first[0] = min(op, counts.first[0])
    clients.op[client] = op
    clients.f[client] = columns.f[i]
    clients.status[client] = _OPEN
    clients.seq[client] = seq
    clients.end_seq[client] = -1
    clients.asked[client] = columns.nullable_count[i]
    clients.term[client] = columns.term[i]
    clients.batches[client] = 0
    clients.entries[client] = 0
    clients.last[client] = NULL
    clients.last_seq[client] = -1


@part
def _is_cut_off(clients: _Clients, counts: _Counts, client: int, op: int) -> bool:
    """Whether an operation that is not seen to begin, the client's first, is older than all that are."""
    unseen = clients.seq[client] < 0 and clients.end_seq[client] < 0 and clients.op[client] in (NULL, op)
    older: bool = unseen and op < counts.first[0]
    return older


@part
def _adds_up(clients: _Clients, client: int, columns: Columns, i: int, found: Findings) -> None:
    """A read ended with ok."""
    stated, following = columns.nullable_count[i], columns.offset[i]
    batches, last = clients.batches[client], clients.last[client]
    found.judged[ADDS_UP] += 1
    counted = stated in (NULL, batches) or stated == clients.entries[client]
    ends = following == NULL or last == NULL or following > last
    if not (counted and ends):
        process = columns.process[i]
        two = _Sum(process, stated=stated, batches=batches, following=following, last=last)
        report(found, ADDS_UP, two, clients.seq[client], clients.last_seq[client], columns.seq[i])


@part
def _as_asked(clients: _Clients, counts: _Counts, client: int, columns: Columns, i: int, found: Findings) -> None:
    """An append ended with ok. Before any was told its last offset, it may have been left out."""
    count, expected, term = clients.asked[client], clients.term[client], columns.term[i]
    counts.answers[_UNPLACED if columns.offset[i] == NULL else _PLACED] += 1
    counts.answers[_IN_NONE if term == NULL else _IN_TERM] += 1
    stated = columns.last_offset[i] - columns.offset[i] + 1 if columns.offset[i] >= 0 else NULL
    if stated > 1 and counts.says_last[0] < 0:
        counts.says_last[0] = columns.seq[i]
    size, says = (stated if counts.says_last[0] >= 0 else NULL), columns.nullable_count[i]
    sized = count != NULL and size != NULL
    counted = says not in (NULL, 1) and (size != NULL or count != NULL)  # it may be one batch
    termed = expected != NULL and term != NULL
    if not (sized or counted or termed):
        return
    found.judged[ASKED] += 1
    wrong = (sized and size != count) or (counted and says != (size if size != NULL else count))
    if wrong or (termed and term != expected):
        asked = _Strange(columns.process[i], op=columns.op[i])
        says_last = counts.says_last[0] if size == 1 and wrong else -1
        report(found, ASKED, asked, clients.seq[client], columns.seq[i], says_last)


@kernel
def _scan(
    columns: Columns,
    table: Table,
    numbers: Table,
    clients: _Clients,
    pages: _Pages,
    counts: _Counts,
    found: Findings,
) -> None:
    before, before_seq = counts.time[0], counts.time_seq[0]
    if len(columns.seq):
        found.judged[TIME] += len(columns.seq) - (before_seq < 0)
    for i in range(len(columns.seq)):
        time = columns.time[i]
        if time < before:
            report(found, TIME, _Back(before, after=time), before_seq, columns.seq[i])
        before, before_seq = time, columns.seq[i]
        kind = columns.kind[i]
        if not (IS_OF_CLIENT[kind] or kind == _ROWS) or columns.txn[i] != NULL:
            continue
        op = columns.op[i]
        process = columns.process[i]
        if op == NULL or process == NULL:
            continue
        client = row_of(table, counts.clients, process)
        if kind == INVOKE:
            _begin(clients, pages, counts, row_of(numbers, counts.pages, op >> _PAGE), client, columns, i, found)
            continue
        if _is_cut_off(clients, counts, client, op):
            found.unjudged[COMPLETES] += 1
            clients.op[client] = op
            if kind not in (OBSERVE, _ROWS):
                clients.end_seq[client] = columns.seq[i]
            continue
        found.judged[COMPLETES] += 1
        mine = clients.status[client] == _OPEN and clients.op[client] == op
        f = columns.f[i]
        named = f == clients.f[client] or (kind in (OBSERVE, _ROWS) and f == OTHER)
        if not (mine and named):
            report(found, COMPLETES, _Strange(process, op=op), columns.seq[i])
            _show_operation(clients, counts, op, COMPLETES, found)
            if not mine:
                continue
        if kind == _ROWS:
            continue
        if kind == OBSERVE:
            last = columns.last_offset[i]
            found.judged[GIVEN] += 1
            if clients.f[client] in (F_APPEND, F_TAIL):
                given = _Given(process, offset=columns.offset[i])
                report(found, GIVEN, given, clients.seq[client], columns.seq[i])
            clients.batches[client] += 1
            clients.entries[client] += last - columns.offset[i] + 1
            if clients.last[client] == NULL or last > clients.last[client]:
                clients.last[client] = last
                clients.last_seq[client] = columns.seq[i]
            continue
        if kind == OK and clients.f[client] in READS:
            _adds_up(clients, client, columns, i, found)
        elif kind == OK and clients.f[client] == F_APPEND:
            _as_asked(clients, counts, client, columns, i, found)
        if clients.f[client] == F_APPEND:
            if clients.term[client] != NULL:
                counts.answers[_EXPECTED] += 1
            elif kind == FAIL and columns.reason[i] == _TERM_MISMATCH:
                counts.answers[_UNEXPECTED] += 1
        clients.status[client] = _UNKNOWN if kind == INFO else _NO_OPERATION
        clients.end_seq[client] = columns.seq[i]
    counts.time[0], counts.time_seq[0] = before, before_seq


class OperationsFold(KernelFold):
    """Judges how the operations of one log begin and end."""

    checks = CHECKS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._table = empty_table()
        self._numbers = empty_table()
        self._clients = _Clients(*(np.full(8, _blank(name), dtype=np.int64) for name in _Clients._fields))
        self._pages_used = _Pages(np.zeros(8, dtype=np.int64))
        starts = [0], [0], [-1], [_EARLIEST], [-1], [_LATEST], [0] * 6
        self._counts = _Counts(*(np.array(start, dtype=np.int64) for start in starts))

    def run(self, columns: Columns) -> None:
        """Judge the next events, in order, once there is room for their clients and numbers of operations."""
        compiled = self.setting.compiled
        kinds = columns.kind if compiled else np.array(columns.kind, dtype=np.int8)
        more = how_many(kinds, *OF_CLIENTS, _ROWS)
        clients, pages = int(self._counts.clients[0]), int(self._counts.pages[0])
        self._table = roomy(self._table, clients, more, compiled)
        self._numbers = roomy(self._numbers, pages, more, compiled)
        self._clients = all_grown(self._clients, clients, more, _blank)
        self._pages_used = all_grown(self._pages_used, pages, more, _blank)
        state = self._table, self._numbers, self._clients, self._pages_used, self._counts
        _scan.form(compiled)(columns, *state, self.found)

    def end(self) -> None:
        """Count what answers to appends leave out, and what appends did not say that they expect."""
        self.found.unjudged[ASKED] += sum(self._left_out())

    def _left_out(self) -> tuple[int, int, int]:
        """How many answers ok to appends lack the offset, and the term, and how many appends that were refused for
        their term lack it, where others state them."""
        placed, unplaced, in_term, in_none, expected, unexpected = self._counts.answers.tolist()
        return unplaced if placed else 0, in_none if in_term else 0, unexpected if expected else 0

    def void(self) -> dict[int, str]:
        """A history without any observation does not tell what reads were given."""
        unseen = self.found.violated[ADDS_UP] and not self.found.judged[GIVEN]
        return {ADDS_UP: NOTHING_OBSERVED} if unseen else {}

    def lacking(self) -> dict[int, str]:
        """What began before the record did; what answers to appends leave out, and what appends expected."""
        lacking = {COMPLETES: BEGINS_LATE} if self.found.unjudged[COMPLETES] else {}
        *answers, unexpected = self._left_out()
        missing = [name for name, left_out in zip(("offset", "term"), answers, strict=True) if left_out]
        if missing:
            lacking[ASKED] = f"some answers to appends state no {' and no '.join(missing)}, as others do"
        elif unexpected:
            lacking[ASKED] = "an append was refused as term_mismatch, but no term that it expected is recorded"
        return lacking


def _blank(name: str) -> int:
    """What a place of this column holds before anything is known."""
    return {"status": _NO_OPERATION, "op": NULL, "last": NULL, "seq": -1, "end_seq": -1, "last_seq": -1}.get(name, 0)


FAMILY = Family(
    "well_formed_operations",
    tuple(CHECKS),
    CLIENT_KINDS | {Kind.ROWS},
    ("time", "process", "op", "txn", "f", "term", "offset", "last_offset", "count", "reason"),
    OperationsFold,
)
