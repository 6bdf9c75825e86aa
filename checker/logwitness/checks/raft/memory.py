"""What a leader holds in memory for appends: it is bounded, whatever their acks level and however slow a follower is,
and is written in the order in which it was enqueued.

What it holds is counted here from what it did: an append is held from when it is enqueued until the entries that it
became were handed over. What the leader itself counts (``reserved``) has to be the same, and is what is counted on
from: so one event before, and what is handed over, show a breach. The limits are stated by who made the run
(``memory_bytes``, ``max_in_flight`` in its configuration); without them only the order is judged.

Sources: raft.md#bounded-memory, raft.md#enqueue-order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind

from ..codes import APPEND, ENQUEUE, HAND_OVER, LEADER, NO_ACKS, NULL, ROLE, ROLE_LEADER, among, how_many, lookup
from ..columns import Columns, Ints
from ..contract import Check, Family, Setting
from ..findings import MAX_NODES, Findings, KernelFold, Node, number, report, show
from ..kernel import kernel, part, step
from .protocol import RAFT

CHECKS: list[Check] = []


class _Holds(NamedTuple):
    """What a leader of a term holds, and what of it is wrong; ``held`` is NULL where its requests are, and
    ``limit`` as well where it hands over what it had handed over."""

    node: Node
    term: int
    held: int
    limit: int
    reserved: int
    number: int  # of requests in flight, or the offset handed over twice


BOUNDED = number(
    CHECKS,
    Check(
        id="bounded-memory",
        rule="What a leader holds in memory for appends stays within the limit, and so do its requests in flight; it "
        "is handed over once.",
        source=("raft.md#bounded-memory", "raft.md#in-flight"),
        fact="an append enqueued, or a round handed over, by a leader whose limits are known",
        sentence={
            "memory": "Node {node} holds {held} bytes for appends in term {term}; {limit} are allowed.",
            "account": "Node {node} holds {held} bytes for appends in term {term} but counts {reserved}.",
            "in flight": "Node {node} has {number} unanswered requests to one follower in term {term}; {limit} are "
            "allowed.",
            "again": "Node {node} handed over offset {number} twice in term {term}.",
        },
        fields=_Holds,
        kinds=(Kind.LEADER, Kind.ENQUEUE),
        columns=("node", "bytes", "reserved"),
    ),
)


class _Writes(NamedTuple):
    """A leader of a term wrote a value after another one that it had enqueued later; NULL: it had written this one; the
    same value: with another acks level."""

    node: Node
    term: int
    value: int
    other: int


ORDER = number(
    CHECKS,
    Check(
        id="written-as-enqueued",
        rule="A leader writes what clients append as it enqueued it, in that order, and only then.",
        source=("raft.md#enqueue-order",),
        fact="a value that a leader wrote, in a history that shows what leaders enqueue",
        sentence={
            "overtaken": "Node {node} enqueued value {value} in term {term} before value {other} but wrote it after "
            "that one.",
            "late": "Node {node} enqueued value {value} in term {term} after it had written it.",
            "changed": "Node {node} enqueued value {value} in term {term} with another acks level than it was written "
            "with.",
        },
        fields=_Writes,
        kinds=(Kind.LEADER, Kind.ENQUEUE, Kind.APPEND),
        columns=("node", "value"),
    ),
)

_OFFICE = END_KINDS | {Kind.LEADER, Kind.START, Kind.TERM, Kind.ROLE}
_MEMORY = frozenset({Kind.ENQUEUE, Kind.HAND_OVER})
_OF_OFFICE = lookup(_OFFICE)
_NONE = -1
_HEAD, _END, _OFFICES = range(3)
_FREE, _FRESH, _LIVE = range(3)
_UNSEEN = 64
"""Values that a leader wrote and had not enqueued, so many of which are remembered."""
_REFUSED = 1000
"""Values that a leader enqueued before what it wrote since, so many of which are remembered: the last ones."""
_HANDED = 64
"""What a leader handed over last, so much of which is remembered."""


class _Offices(NamedTuple):
    """By node: the term that it leads, and what it holds."""

    term: Ints  # NULL: it does not lead
    elected: Ints  # by which event
    number: Ints  # of its office, which its batches have; -1: none
    enqueued: Ints  # 1: it has enqueued something
    held: Ints  # bytes, as it counted last; of an append the limit at most
    counted: Ints  # by which event; -1: none, or it counted none
    highest: Ints  # the largest first offset of its batches
    end: Ints  # the last offset that it is recorded to have appended
    first: Ints  # rows of `_Queue`: the first value that it enqueued and has not written; -1: none
    back: Ints  # and the last one
    refused: Ints  # how many come before the last one that it wrote, and may have been refused


class _Batches(NamedTuple):
    """What leaders wrote and have not handed over, in order; dead ones are dropped from time to time."""

    office: Ints  # -1: handed over
    first: Ints
    last: Ints
    size: Ints
    seq: Ints
    used: Ints  # the first that may be live, where the next one goes, and the number of the next office


class _Queue(NamedTuple):
    """What leaders enqueued and have not written: for each a chain in that order, of rows that are used again."""

    following: Ints  # the row of the next value of this leader, or the next free row; -1: none
    value: Ints
    acks: Ints
    seq: Ints
    passed: Ints  # the first event by which a value behind it was written; -1
    other: Ints  # that value
    other_seq: Ints  # and when it was enqueued
    used: Ints  # the first free row of those used before, the first that never was, and how many are taken


class _Unseen(NamedTuple):
    """By node: the last values that it wrote in its term without having enqueued them; NULL: it has by now."""

    value: Ints
    seq: Ints
    used: Ints


class _Handed(NamedTuple):
    """By node: what it last handed over in its term."""

    first: Ints
    last: Ints
    seq: Ints
    used: Ints


@part
def _drops(offices: _Offices, queue: _Queue, node: int, before: int, at: int) -> None:
    """Take a row, which follows ``before`` (-1: none), out of what a node enqueued."""
    following = queue.following[at]
    if before == _NONE:
        offices.first[node] = following
    else:
        queue.following[before] = following
    if offices.back[node] == at:
        offices.back[node] = before
    offices.refused[node] -= queue.passed[at] >= 0
    queue.following[at] = queue.used[_FREE]
    queue.used[_FREE] = at
    queue.used[_LIVE] -= 1


@part
def _leaves(offices: _Offices, batches: _Batches, queue: _Queue, unseen: _Unseen, handed: _Handed, node: int) -> None:
    """A node leads no more, and holds nothing."""
    unseen.used[node] = 0
    handed.used[node] = 0
    while offices.first[node] != _NONE:
        _drops(offices, queue, node, _NONE, offices.first[node])
    if offices.number[node] >= 0:
        for at in range(batches.used[_HEAD], batches.used[_END]):
            if batches.office[at] == offices.number[node]:
                batches.office[at] = _NONE
    offices.number[node] = _NONE
    offices.held[node] = 0
    offices.counted[node] = -1
    offices.enqueued[node] = 0
    offices.highest[node] = -1
    offices.end[node] = -1


@part
def _place_of(batches: _Batches, office: int, first: int) -> int:
    """The batch of an office that begins at an offset."""
    for at in range(batches.used[_HEAD], batches.used[_END]):
        if batches.office[at] == office and batches.first[at] == first:
            return at
    return _NONE


@part
def _handed_over(offices: _Offices, batches: _Batches, node: int, first: int, last: int) -> int:
    """The bytes that a node holds for what it wrote from one offset to another, one whole batch behind the other."""
    size = 0
    while first <= last:
        at = _place_of(batches, offices.number[node], first)
        if at == _NONE or batches.last[at] > last:
            break
        size += batches.size[at]
        first = batches.last[at] + 1
    return size


@part
def _hands_over(
    offices: _Offices, batches: _Batches, node: int, first: int, last: int, shown: bool, found: Findings
) -> None:
    """A node holds these batches no more; ``shown``: they show the violation reported last."""
    while first <= last:
        at = _place_of(batches, offices.number[node], first)
        if at == _NONE or batches.last[at] > last:
            return
        batches.office[at] = _NONE
        if shown and batches.size[at]:
            show(found, batches.seq[at])
        first = batches.last[at] + 1
        while batches.used[_HEAD] < batches.used[_END] and batches.office[batches.used[_HEAD]] == _NONE:
            batches.used[_HEAD] += 1


@part
def _believes(offices: _Offices, node: int, reserved: int, seq: int) -> None:
    """What a node holds is counted on from what it says."""
    offices.held[node] = reserved
    offices.counted[node] = seq if reserved else -1


@step
def _counts(
    offices: _Offices,
    batches: _Batches,
    handed: _Handed,
    limits: Ints,
    columns: Columns,
    node: int,
    i: int,
    found: Findings,
) -> None:
    """A leader says what it holds for appends, and it is known what it held before."""
    limit, most = limits
    kind, first, last = columns.kind[i], columns.offset[i], columns.last_offset[i]
    held, reserved, count = offices.held[node], columns.reserved[i], columns.records[i]
    again = _NONE
    if kind == ENQUEUE:
        held += min(columns.bytes[i], limit)
    else:
        held -= _handed_over(offices, batches, node, first, last)
        for at in range(min(handed.used[node], _HANDED)):
            if handed.first[node, at] <= last and first <= handed.last[node, at]:
                again = at
    elected, term = offices.elected[node], offices.term[node]
    right = reserved == held
    if held > limit or not right:
        state = _Holds(node, term=term, held=held, limit=limit, reserved=reserved, number=count)
        # Where its own count is right, that alone shows how much it is.
        report(found, BOUNDED, state, elected, -1 if right else offices.counted[node], columns.seq[i])
    elif kind == HAND_OVER and 0 <= most < count:
        state = _Holds(node, term=term, held=NULL, limit=most, reserved=reserved, number=count)
        report(found, BOUNDED, state, elected, columns.seq[i])
    elif again != _NONE:
        twice = max(first, handed.first[node, again])
        state = _Holds(node, term=term, held=NULL, limit=NULL, reserved=reserved, number=twice)
        report(found, BOUNDED, state, elected, handed.seq[node, again], columns.seq[i])
    if kind == HAND_OVER:
        _hands_over(offices, batches, node, first, last, not right, found)
        at = handed.used[node] % _HANDED
        handed.used[node] += 1
        handed.first[node, at] = first
        handed.last[node, at] = last
        handed.seq[node, at] = columns.seq[i]
    _believes(offices, node, reserved, columns.seq[i])


@step
def _enqueues(
    offices: _Offices, queue: _Queue, unseen: _Unseen, columns: Columns, node: int, i: int, found: Findings
) -> None:
    """A leader enqueues a value: it has not written it before."""
    value, seq = columns.value[i], columns.seq[i]
    for at in range(min(unseen.used[node], _UNSEEN)):
        if unseen.value[node, at] == value:
            unseen.value[node, at] = NULL
            found.unjudged[ORDER] -= 1
            found.judged[ORDER] += 1
            late = _Writes(node, term=offices.term[node], value=value, other=NULL)
            report(found, ORDER, late, offices.elected[node], unseen.seq[node, at], seq)
            return
    row = queue.used[_FREE]
    if row == _NONE:
        row = queue.used[_FRESH]
        queue.used[_FRESH] += 1
    else:
        queue.used[_FREE] = queue.following[row]
    queue.used[_LIVE] += 1
    queue.following[row] = _NONE
    queue.value[row] = value
    queue.acks[row] = columns.acks[i]
    queue.seq[row] = seq
    queue.passed[row] = -1
    if offices.first[node] == _NONE:
        offices.first[node] = row
    else:
        queue.following[offices.back[node]] = row
    offices.back[node] = row


@part
def _alike(acks: int, other: int) -> bool:
    """Whether two acks levels may be that of one append: they are the same, or one is not recorded."""
    return acks in (other, NO_ACKS) or other == NO_ACKS


@step
def _writes(
    offices: _Offices, queue: _Queue, unseen: _Unseen, columns: Columns, node: int, i: int, found: Findings
) -> None:
    """A leader writes a value: it is the next one that it enqueued, with the acks level that was asked for.

    A value that was refused may be enqueued again: of several the first is meant that fits (raft.md#enqueue-order).
    """
    value, acks, seq = columns.value[i], columns.acks[i], columns.seq[i]
    place = behind = before = _NONE
    at = offices.first[node]
    while at != _NONE:
        if queue.value[at] == value:
            if place != _NONE:
                _drops(offices, queue, node, behind, place)  # it was refused, and asked for again
                before = behind if before == place else before
            place, behind = at, before
            if queue.passed[at] < 0 and _alike(acks, queue.acks[at]):
                break
        before = at
        at = queue.following[at]
    if place == _NONE:
        found.unjudged[ORDER] += 1
        at = unseen.used[node] % _UNSEEN
        unseen.used[node] += 1
        unseen.value[node, at] = value
        unseen.seq[node, at] = seq
        return
    found.judged[ORDER] += 1
    if queue.passed[place] >= 0:
        overtaken = _Writes(node, term=offices.term[node], value=value, other=queue.other[place])
        enqueued, passed = queue.seq[place], queue.passed[place]
        report(found, ORDER, overtaken, offices.elected[node], enqueued, queue.other_seq[place], passed, seq)
    elif not _alike(acks, queue.acks[place]):
        changed = _Writes(node, term=offices.term[node], value=value, other=value)
        report(found, ORDER, changed, offices.elected[node], queue.seq[place], seq)
    at = offices.first[node]
    while at != place:
        if queue.passed[at] < 0:
            queue.passed[at] = seq
            queue.other[at] = value
            queue.other_seq[at] = queue.seq[place]
            offices.refused[node] += 1
        at = queue.following[at]
    _drops(offices, queue, node, behind, place)
    while offices.refused[node] > _REFUSED:
        _drops(offices, queue, node, _NONE, offices.first[node])


@kernel
def _scan(
    columns: Columns,
    offices: _Offices,
    batches: _Batches,
    queue: _Queue,
    unseen: _Unseen,
    handed: _Handed,
    limits: Ints,
    found: Findings,
) -> None:
    limit = limits[0]
    for i in range(len(columns.seq)):
        kind = columns.kind[i]
        node = columns.node[i]
        if node < 0:
            continue
        if kind == LEADER:
            _leaves(offices, batches, queue, unseen, handed, node)
            offices.term[node] = columns.term[i]
            offices.elected[node] = columns.seq[i]
            offices.number[node] = batches.used[_OFFICES]
            batches.used[_OFFICES] += 1
        elif _OF_OFFICE[kind]:
            if kind != ROLE or columns.role[i] != ROLE_LEADER:
                _leaves(offices, batches, queue, unseen, handed, node)
        elif offices.number[node] < 0:
            continue
        elif kind == APPEND:
            first = columns.offset[i]
            offices.end[node] = max(columns.last_offset[i], offices.end[node])
            if columns.value[i] == NULL:
                continue
            _writes(offices, queue, unseen, columns, node, i, found)
            if limit < 0:
                continue
            place = _NONE
            if first <= offices.highest[node]:
                place = _place_of(batches, offices.number[node], first)  # it is written once more
            if place == _NONE:
                place = batches.used[_END]
                batches.used[_END] += 1
            offices.highest[node] = max(first, offices.highest[node])
            batches.office[place] = offices.number[node]
            batches.first[place] = first
            batches.last[place] = columns.last_offset[i]
            batches.size[place] = min(columns.bytes[i], limit)
            batches.seq[place] = columns.seq[i]
        elif kind == ENQUEUE and columns.value[i] != NULL:
            _enqueues(offices, queue, unseen, columns, node, i, found)
        if kind not in (ENQUEUE, HAND_OVER) or offices.number[node] < 0 or limit < 0:
            continue
        if kind == HAND_OVER and not offices.enqueued[node]:
            # What clients append and is handed over was enqueued, but that is not in the history.
            first, last = columns.offset[i], columns.last_offset[i]
            found.unjudged[BOUNDED] += _handed_over(offices, batches, node, first, last) > 0
            _hands_over(offices, batches, node, first, last, False, found)
        elif kind == HAND_OVER and columns.last_offset[i] > offices.end[node]:
            # Part of it was appended where the record is silent.
            found.unjudged[BOUNDED] += 1
            _hands_over(offices, batches, node, columns.offset[i], columns.last_offset[i], False, found)
            _believes(offices, node, columns.reserved[i], columns.seq[i])
        else:
            offices.enqueued[node] = 1
            found.judged[BOUNDED] += 1
            _counts(offices, batches, handed, limits, columns, node, i, found)


class MemoryFold(KernelFold):
    """Judges the leaders of one log; see the module."""

    checks = CHECKS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        offices = {name: np.full(MAX_NODES, _NONE, dtype=np.int64) for name in _Offices._fields}
        zeros = {name: np.zeros(MAX_NODES, dtype=np.int64) for name in ("held", "refused")}
        self._offices = _Offices(**offices | zeros)
        batches = {name: np.full(64, _NONE, dtype=np.int64) for name in _Batches._fields}
        self._batches = _Batches(**batches | {"used": np.zeros(3, dtype=np.int64)})
        queue = {name: np.full(64, _NONE, dtype=np.int64) for name in _Queue._fields}
        self._queue = _Queue(**queue | {"used": np.array([_NONE, 0, 0], dtype=np.int64)})
        values, seqs = (np.full((MAX_NODES, _UNSEEN), NULL, dtype=np.int64) for _ in range(2))
        self._unseen = _Unseen(values, seqs, used=np.zeros(MAX_NODES, dtype=np.int64))
        firsts, lasts, events = (np.full((MAX_NODES, _HANDED), _NONE, dtype=np.int64) for _ in range(3))
        self._handed = _Handed(firsts, lasts, events, used=np.zeros(MAX_NODES, dtype=np.int64))
        self._enqueued = self._nameless = self._handed_over = False
        limits = (_NONE if limit is None else limit for limit in (setting.memory_bytes, setting.max_in_flight))
        self._limits = np.array([*limits], dtype=np.int64)

    def run(self, columns: Columns) -> None:
        """Judge the events, in order; nodes are indices."""
        kinds = np.asarray(columns.kind, dtype=np.int8)
        enqueued = np.flatnonzero(among(kinds, (ENQUEUE,)))
        self._batches = _with_room(self._batches, how_many(kinds, APPEND))
        self._queue = _with_rows(self._queue, len(enqueued))
        self._enqueued = self._enqueued or len(enqueued) > 0
        self._handed_over = self._handed_over or how_many(kinds, HAND_OVER) > 0
        self._nameless = self._nameless or bool((np.asarray(columns.value)[enqueued] == NULL).any())
        known = self._offices, self._batches, self._queue, self._unseen, self._handed
        _scan.form(self.setting.compiled)(columns, *known, self._limits, self.found)

    def void(self) -> dict[int, str]:
        """Where nobody says what is handed over, memory may have been."""
        silent = self.found.violated[BOUNDED] and not self._handed_over
        return {BOUNDED: "leaders hold memory for appends, but no hand-over is recorded"} if silent else {}

    def end(self) -> None:
        """Where nobody says what is enqueued, its order is no fact."""
        if not self._enqueued:
            self.found.unjudged[ORDER] = 0

    def lacking(self) -> dict[int, str]:
        """What was handed over or written, and is not recorded to have been enqueued or appended."""
        handed_over = "leaders hand over what clients appended, but do not record that they enqueued and appended it"
        written = "leaders write what clients append, but do not record that they enqueued it"
        found = {BOUNDED: handed_over} if self.found.unjudged[BOUNDED] else {}
        return found | ({ORDER: written} if self.found.unjudged[ORDER] and not self._nameless else {})

    def way(self, check: int, fields: list[int]) -> str:
        """What of the memory, or of the order, is wrong."""
        if check == ORDER:
            writes = _Writes(*fields[:4])
            if writes.other == NULL:
                return "late"
            return "changed" if writes.other == writes.value else "overtaken"
        holds = _Holds(*fields)
        if holds.held == NULL:
            return "again" if holds.limit == NULL else "in flight"
        return "memory" if holds.held > holds.limit else "account"


def _with_rows(queue: _Queue, more: int) -> _Queue:
    """The queue with room for more rows."""
    short = int(queue.used[_LIVE]) + more - len(queue.value)
    if short <= 0:
        return queue
    rows = queue._asdict()
    used = rows.pop("used")
    rest = np.full(short + len(queue.value), _NONE, dtype=np.int64)
    return _Queue(**{name: np.concatenate([column, rest]) for name, column in rows.items()}, used=used)


def _with_room(columns: _Batches, more: int) -> _Batches:
    """Such a tuple with room for more rows behind those that are held; what is over before them is dropped."""
    rows = columns._asdict()
    used = rows.pop("used")
    head, end = used[:_OFFICES].tolist()
    if end + more <= len(next(iter(rows.values()))):
        return columns
    rest = np.full(max(end - head, 0) + 2 * more, _NONE, dtype=np.int64)
    used[:_OFFICES] = 0, end - head
    kept = {name: np.concatenate([column[head:end], rest]) for name, column in rows.items()}
    return columns._replace(**kept)


FAMILY = Family(
    "memory",
    tuple(CHECKS),
    _OFFICE | _MEMORY | {Kind.APPEND},
    ("node", "acks", "term", "role", "offset", "last_offset", "value", "bytes", "count", "reserved"),
    MemoryFold,
    RAFT,
)
