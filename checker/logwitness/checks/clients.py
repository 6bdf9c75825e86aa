"""What clients were told: one value an offset, nothing lost, nothing invented, nothing out of order.

Needs client operations alone, so black-box histories are judged in full. Anomalies and what each acks level
forbids are those of history-checks.md ("Anomalies, by name"); losses that an acks level permits go to the loss
account.

One pass binds offsets and values from acknowledgements and reads (step 1 of "Linearizable log") in hash tables;
what needs the end of the history, such as losses, is judged there over whole columns. Memory: the values that
were named, and the gaps that readers passed over, each once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import Kind

from .client_checks import (
    CHECKS,
    DUPLICATE,
    INCONSISTENT_OFFSET,
    NON_MONOTONIC_APPEND,
    NON_MONOTONIC_READ,
    PHANTOM,
    REAL_TIME_INVERSION,
    SENTENCES,
    SKIP,
    STALE_TAIL,
)
from .client_ending import Ending
from .codes import (
    ACKS_ALL,
    ACKS_NONE,
    COMPACT,
    CRASH,
    F_APPEND,
    F_FINAL_READ,
    F_READ,
    F_READ_COMMITTED,
    F_TAIL,
    FAIL,
    FAULT,
    FAULT_POWER,
    FAULT_WIPE,
    INVOKE,
    NO_ACKS,
    NULL,
    OBSERVE,
    OK,
    POWER_LOSS,
    STORAGE_ERROR,
    TRIM,
)
from .columns import Array, Columns, Ints
from .contract import Family, Loss, Setting, Verdicts
from .faults import Faults, empty_faults, fault_code, note_fault, with_fault_room
from .findings import Findings, KernelFold, report
from .hashing import Table, empty_table, grown, place_of, roomy
from .kernel import kernel, part

_NONE = -1
_KNOWN_GAPS = 256


class Values(NamedTuple):
    """Every value that was named, by row."""

    value: Ints
    acks: Array
    invokes: Array
    fails: Array
    invoke_seq: Ints
    fail_seq: Ints
    ok_seq: Ints
    ok_time: Ints
    offset: Ints  # where its acknowledgement said it is
    last: Ints
    read_offset: Ints  # where it was first read
    read_last: Ints
    read_seq: Ints
    final: Array  # 1: a final read returned it
    width: Ints  # offsets that it fills, as far as its invocation says
    size: Ints
    after: Array  # when it was invoked: the row of the farthest acks=all append acknowledged


class Clients(NamedTuple):
    """By client: its open operation, and where it stands."""

    f: Ints
    seq: Ints  # of the invocation
    row: Array  # the value it appends
    position: Ints  # the next offset it must be given; NULL if unknown
    position_seq: Ints
    following: Ints  # where its last read ended
    tail: Ints  # entries known when it asked for the tail
    tail_seq: Ints
    term_row: Array  # the farthest append acknowledged in `_Known.term` when it invoked
    term: Ints
    last_row: Array  # its last acknowledged append
    last_term: Ints


class Bound(NamedTuple):
    """By offset: the value that a read last returned there, and the acks=all append acknowledged there."""

    read_row: Array
    read_seq: Ints
    ack_row: Array


class Known(NamedTuple):
    """What concerns all clients, each an array of one number so that kernels can change it."""

    values: Ints
    clients: Ints
    offsets: Ints
    appends: Ints
    observed: Ints
    far_row: Ints  # the farthest acks=all append acknowledged
    far: Ints
    term: Ints  # the latest term acknowledged in, and the farthest append acknowledged in it with acks all or 1
    term_row: Ints
    tail: Ints  # the largest tail given
    tail_seq: Ints
    final_reads: Ints
    final_high: Ints
    power_seq: Ints
    wipe_seq: Ints
    write_caching: Ints
    idempotent: Ints
    trimmed: Ints
    gaps: Ints
    compacted: Ints


class Gaps(NamedTuple):
    """Offsets that readers passed over, in this batch of events: from, to, and between which events."""

    low: Ints
    high: Ints
    seq: Ints
    before_seq: Ints
    row: Ints  # the value that ended the gap; _NONE: the end of the read
    invoke_seq: Ints
    seen_low: Ints  # a small cache, so that readers who pass the same gap again cost nothing
    seen_high: Ints


class Tables(NamedTuple):
    """Where rows are found."""

    values: Table
    clients: Table
    offsets: Table


@part
def _value_row(tables: Tables, values: Values, known: Known, value: int) -> int:
    place = place_of(tables.values, value)
    row: int = tables.values.rows[place]
    if row == _NONE:
        row = known.values[0]
        known.values[0] += 1
        tables.values.keys[place] = value
        tables.values.rows[place] = row
        values.value[row] = value
    return row


@part
def _offset_row(tables: Tables, known: Known, offset: int) -> int:
    place = place_of(tables.offsets, offset)
    row: int = tables.offsets.rows[place]
    if row == _NONE:
        row = known.offsets[0]
        known.offsets[0] += 1
        tables.offsets.keys[place] = offset
        tables.offsets.rows[place] = row
    return row


@part
def _client_row(tables: Tables, known: Known, process: int) -> int:
    place = place_of(tables.clients, process)
    row: int = tables.clients.rows[place]
    if row == _NONE:
        row = known.clients[0]
        known.clients[0] += 1
        tables.clients.keys[place] = process
        tables.clients.rows[place] = row
    return row


@part
def _may_be_gone(values: Values, known: Known, row: int, since: int) -> bool:
    """Whether what was there at event ``since`` may be lost by now without breaking a promise."""
    if known.wipe_seq[0] > since:
        return True
    weak: bool = values.acks[row] != ACKS_ALL or known.write_caching[0] != 0
    late: bool = known.power_seq[0] > since
    return weak and late


@part
def _two_offsets(values: Values, known: Known, found: Findings, row: int, e0: int, seq: int, a: int, b: int) -> None:
    """A value is at offsets ``a`` and ``b``."""
    if values.invokes[row] > 1 or known.idempotent[0] == 0:
        found.excused[DUPLICATE] += 1
    else:
        report(found, DUPLICATE, e0, values.invoke_seq[row], seq, -1, values.value[row], a, b, -1, -1)


@part
def _inversion(values: Values, known: Known, found: Findings, first: int, row: int, offset: int, seq: int) -> None:
    """``first`` was acknowledged before ``row`` was invoked: is it before it in the log?"""
    found.judged[REAL_TIME_INVERSION] += 1
    if offset <= values.offset[first]:
        if values.acks[first] == ACKS_ALL and _may_be_gone(values, known, first, values.invoke_seq[first]):
            found.excused[REAL_TIME_INVERSION] += 1
            return
        e0, e1 = values.ok_seq[first], values.invoke_seq[row]
        n0, n1, n2 = values.value[first], values.offset[first], values.value[row]
        report(found, REAL_TIME_INVERSION, e0, e1, seq, -1, n0, n1, n2, offset, -1)


@part
def _observe(
    tables: Tables,
    values: Values,
    clients: Clients,
    bound: Bound,
    known: Known,
    gaps: Gaps,
    found: Findings,
    client: int,
    offset: int,
    last: int,
    value: int,
    seq: int,
) -> None:
    """A read gave a client ``value`` at ``offset``."""
    row = _NONE
    if value != NULL:
        row = _value_row(tables, values, known, value)
    position = clients.position[client]
    before = clients.position_seq[client]
    if position != NULL:
        found.judged[NON_MONOTONIC_READ] += 1
        found.judged[SKIP] += 1
        if last < position:
            report(found, NON_MONOTONIC_READ, before, seq, -1, -1, position, offset, -1, -1, -1)
        elif offset > position:
            _gap(known, gaps, position, offset - 1, seq, before, row, clients.seq[client])
    # Where a reader stands that went back by itself is not clear until it was given something more.
    clients.position[client] = last + 1 if position == NULL or last >= position else NULL
    clients.position_seq[client] = seq
    if row == _NONE:
        return

    known.observed[0] += 1
    first_time = values.read_seq[row] < 0
    if first_time:
        values.read_seq[row] = seq
        values.read_offset[row] = offset
        values.read_last[row] = last
        found.judged[DUPLICATE] += 1
        if known.appends[0]:
            found.judged[PHANTOM] += 1
            if values.invokes[row] == 0:
                report(found, PHANTOM, seq, -1, -1, -1, value, offset, -1, -1, -1)
        if values.ok_seq[row] >= 0 and values.offset[row] != offset:
            _two_offsets(values, known, found, row, values.ok_seq[row], seq, values.offset[row], offset)
        # acks 0 and 1 may be acknowledged by a leader that is one no more; that the entry is read shows where it is.
        if values.after[row] != _NONE and (values.ok_seq[row] < 0 or values.acks[row] != ACKS_ALL):
            _inversion(values, known, found, values.after[row], row, offset, seq)
    elif values.read_offset[row] != offset:
        _two_offsets(values, known, found, row, values.read_seq[row], seq, values.read_offset[row], offset)
    if clients.f[client] == F_FINAL_READ:
        values.final[row] = 1

    found.judged[INCONSISTENT_OFFSET] += 1
    there = _offset_row(tables, known, offset)
    other = bound.read_row[there]
    if other != _NONE and other != row:
        since = bound.read_seq[there]
        if _may_be_gone(values, known, other, since):
            found.excused[INCONSISTENT_OFFSET] += 1
        else:
            n1 = values.value[other]
            report(found, INCONSISTENT_OFFSET, since, seq, -1, -1, offset, n1, value, -1, -1)
    if other != row:
        bound.read_row[there] = row
        bound.read_seq[there] = seq
        promised = bound.ack_row[there]
        if promised != _NONE and promised != row and promised != other:
            since = values.ok_seq[promised]
            if _may_be_gone(values, known, promised, since):
                found.excused[INCONSISTENT_OFFSET] += 1
            else:
                n1 = values.value[promised]
                report(found, INCONSISTENT_OFFSET, since, seq, -1, -1, offset, n1, value, -1, -1)


@part
def _gap(known: Known, gaps: Gaps, low: int, high: int, seq: int, before: int, row: int, invoked: int) -> None:
    """A reader passed over the offsets ``low..high``."""
    if row != _NONE:
        place = (low ^ (high >> 3)) & (_KNOWN_GAPS - 1)
        if gaps.seen_low[place] == low and gaps.seen_high[place] == high:
            return
        gaps.seen_low[place] = low
        gaps.seen_high[place] = high
    place = known.gaps[0]
    known.gaps[0] += 1
    gaps.low[place] = low
    gaps.high[place] = high
    gaps.seq[place] = seq
    gaps.before_seq[place] = before
    gaps.row[place] = row
    gaps.invoke_seq[place] = invoked


@part
def _acknowledged(
    tables: Tables,
    values: Values,
    clients: Clients,
    bound: Bound,
    known: Known,
    found: Findings,
    client: int,
    process: int,
    offset: int,
    last: int,
    term: int,
    seq: int,
    time: int,
) -> None:
    """The client's append was acknowledged at ``offset``."""
    row = clients.row[client]
    if row == _NONE or offset == NULL:
        return
    acks = values.acks[row]
    if values.ok_seq[row] < 0:
        values.ok_seq[row] = seq
        values.ok_time[row] = time
        values.offset[row] = offset
        values.last[row] = max(last, offset + values.width[row] - 1)
        if values.read_seq[row] >= 0 and values.read_offset[row] != offset:
            _two_offsets(values, known, found, row, values.read_seq[row], seq, values.read_offset[row], offset)
    if values.after[row] != _NONE and acks == ACKS_ALL:
        _inversion(values, known, found, values.after[row], row, offset, seq)
    elif acks != ACKS_NONE and term != NULL and clients.term[client] == term and clients.term_row[client] != _NONE:
        _inversion(values, known, found, clients.term_row[client], row, offset, seq)

    former = clients.last_row[client]
    if former != _NONE:
        same_term = term != NULL and clients.last_term[client] == term
        both_all = acks == ACKS_ALL and values.acks[former] == ACKS_ALL
        if both_all or same_term:
            found.judged[NON_MONOTONIC_APPEND] += 1
            if offset <= values.offset[former]:
                gone = not same_term and _may_be_gone(values, known, former, values.invoke_seq[former])
                if gone or acks == ACKS_NONE or values.acks[former] == ACKS_NONE:
                    found.excused[NON_MONOTONIC_APPEND] += 1
                else:
                    n1, n2, n3 = values.value[former], values.offset[former], values.value[row]
                    e0 = values.ok_seq[former]
                    report(found, NON_MONOTONIC_APPEND, e0, seq, -1, -1, process, n1, n2, n3, offset)
    clients.last_row[client] = row
    clients.last_term[client] = term

    if acks == ACKS_ALL:
        found.judged[INCONSISTENT_OFFSET] += 1
        there = _offset_row(tables, known, offset)
        promised = bound.ack_row[there]
        shown = bound.read_row[there]
        if promised != _NONE and promised != row:
            since = values.ok_seq[promised]
            if _may_be_gone(values, known, promised, since):
                found.excused[INCONSISTENT_OFFSET] += 1
            else:
                n1, n2 = values.value[promised], values.value[row]
                report(found, INCONSISTENT_OFFSET, since, seq, -1, -1, offset, n1, n2, -1, -1)
        elif shown != _NONE and shown != row:
            since = bound.read_seq[there]
            if _may_be_gone(values, known, shown, since):
                found.excused[INCONSISTENT_OFFSET] += 1
            else:
                n1, n2 = values.value[shown], values.value[row]
                report(found, INCONSISTENT_OFFSET, since, seq, -1, -1, offset, n1, n2, -1, -1)
        bound.ack_row[there] = row
        if known.far_row[0] == _NONE or values.last[row] > known.far[0]:
            known.far_row[0] = row
            known.far[0] = values.last[row]
    if acks != ACKS_NONE and term != NULL:
        if known.term[0] == NULL or term > known.term[0]:
            known.term[0] = term
            known.term_row[0] = row
        elif term == known.term[0] and offset > values.offset[known.term_row[0]]:
            known.term_row[0] = row


@part
def _invoke(
    tables: Tables,
    values: Values,
    clients: Clients,
    known: Known,
    client: int,
    f: int,
    value: int,
    acks: int,
    offset: int,
    count: int,
    size: int,
    seq: int,
) -> None:
    """A client begins an operation."""
    clients.f[client] = f
    clients.seq[client] = seq
    if f == F_APPEND:
        known.appends[0] += 1
        clients.row[client] = _NONE
        clients.term[client] = known.term[0]
        clients.term_row[client] = known.term_row[0]
        if value != NULL:
            row = _value_row(tables, values, known, value)
            if values.invokes[row] == 0:
                values.invoke_seq[row] = seq
                values.acks[row] = ACKS_ALL if acks == NO_ACKS else acks
                values.width[row] = count
                values.size[row] = size
                values.after[row] = known.far_row[0]
            values.invokes[row] += 1
            clients.row[client] = row
    elif f == F_TAIL:
        clients.tail[client] = known.tail[0]
        clients.tail_seq[client] = known.tail_seq[0]
        if known.far_row[0] != _NONE and known.far[0] + 1 > known.tail[0]:
            clients.tail[client] = known.far[0] + 1
            clients.tail_seq[client] = values.ok_seq[known.far_row[0]]
    elif f in (F_READ, F_READ_COMMITTED, F_FINAL_READ):
        clients.position[client] = offset if offset != NULL else clients.following[client]
        clients.position_seq[client] = seq


@kernel
def _scan(
    columns: Columns,
    tables: Tables,
    values: Values,
    clients: Clients,
    bound: Bound,
    known: Known,
    gaps: Gaps,
    faults: Faults,
    found: Findings,
) -> None:
    for i in range(len(columns.seq)):
        kind = columns.kind[i]
        seq = columns.seq[i]
        if kind == FAULT:
            f = columns.f[i]
            note_fault(faults, seq, f)
            if f == FAULT_WIPE:
                known.wipe_seq[0] = seq
            elif f == FAULT_POWER:
                known.power_seq[0] = seq
        elif kind in (CRASH, POWER_LOSS, STORAGE_ERROR):
            note_fault(faults, seq, fault_code(kind))
            if kind != CRASH:
                known.power_seq[0] = seq
        elif kind == TRIM:
            known.trimmed[0] = max(known.trimmed[0], columns.offset[i])
        elif kind == COMPACT:
            known.compacted[0] += 1
        if kind > FAIL or columns.process[i] == NULL:
            continue

        process = columns.process[i]
        client = _client_row(tables, known, process)
        offset = columns.offset[i]
        if kind == INVOKE:
            _invoke(
                tables,
                values,
                clients,
                known,
                client,
                columns.f[i],
                columns.value[i],
                columns.acks[i],
                offset,
                columns.records[i],
                columns.bytes[i],
                seq,
            )
            continue
        f = clients.f[client]
        reading = f in (F_READ, F_READ_COMMITTED, F_FINAL_READ)
        if kind == OBSERVE:
            if reading:
                last, value = columns.last_offset[i], columns.value[i]
                _observe(tables, values, clients, bound, known, gaps, found, client, offset, last, value, seq)
        elif kind == OK:
            if f == F_APPEND:
                last, term, time = columns.last_offset[i], columns.term[i], columns.time[i]
                _acknowledged(
                    tables, values, clients, bound, known, found, client, process, offset, last, term, seq, time
                )
            elif f == F_TAIL and offset != NULL:
                found.judged[STALE_TAIL] += 1
                # Under write caching a power loss takes acknowledged entries, and with them the end of the log.
                lost = known.write_caching[0] != 0 and known.power_seq[0] != _NONE
                if offset < clients.tail[client] and (lost or known.wipe_seq[0] > clients.tail_seq[client]):
                    found.excused[STALE_TAIL] += 1
                elif offset < clients.tail[client]:
                    e0, e1 = clients.tail_seq[client], clients.seq[client]
                    report(found, STALE_TAIL, e0, e1, seq, -1, offset, clients.tail[client], -1, -1, -1)
                if offset > known.tail[0]:
                    known.tail[0] = offset
                    known.tail_seq[0] = seq
            elif reading:
                position = clients.position[client]
                if position != NULL and offset != NULL and offset > position:
                    before, invoked = clients.position_seq[client], clients.seq[client]
                    _gap(known, gaps, position, offset - 1, seq, before, _NONE, invoked)
                    position = offset
                clients.following[client] = position
                if f == F_FINAL_READ:
                    known.final_reads[0] += 1
                    if position != NULL:
                        known.final_high[0] = max(known.final_high[0], position - 1)
            clients.f[client] = _NONE
        elif kind == FAIL:
            if f == F_APPEND and clients.row[client] != _NONE:
                row = clients.row[client]
                values.fails[row] += 1
                values.fail_seq[row] = seq
            clients.f[client] = _NONE


_ZEROS = ("invokes", "fails", "final", "width", "size")
_NARROW = ("acks", "invokes", "fails", "final", "after", "row", "read_row", "ack_row", "last_row", "term_row")
_NULLS = ("value", "offset", "last", "read_offset", "read_last", "position", "following", "term", "last_term")


def _fill(name: str) -> int:
    return 0 if name in _ZEROS else NULL if name in _NULLS else _NONE


def _blank(names: tuple[str, ...]) -> dict[str, Array]:
    return {name: np.full(16, _fill(name), dtype=np.int32 if name in _NARROW else np.int64) for name in names}


def _gap_room(rows: int, seen_low: Ints, seen_high: Ints) -> Gaps:
    room = {name: np.zeros(rows, dtype=np.int64) for name in Gaps._fields if not name.startswith("seen")}
    return Gaps(**room, seen_low=seen_low, seen_high=seen_high)


class ClientsFold(KernelFold):
    """Judges what the clients of one log were told."""

    checks = CHECKS
    sentences = SENTENCES

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._values = Values(**_blank(Values._fields))
        self._clients = Clients(**_blank(Clients._fields))
        self._bound = Bound(**_blank(Bound._fields))
        self._tables = Tables(empty_table(), empty_table(), empty_table())
        self._faults = empty_faults()
        start = dict.fromkeys(Known._fields, 0)
        start |= dict.fromkeys(("far_row", "term_row", "tail_seq", "final_high", "power_seq", "wipe_seq"), _NONE)
        start |= {"term": NULL, "far": _NONE}
        start |= {"write_caching": int(setting.write_caching), "idempotent": int(setting.idempotent)}
        self._known = Known(**{name: np.array([number], dtype=np.int64) for name, number in start.items()})
        seen = [np.full(_KNOWN_GAPS, NULL, dtype=np.int64) for _ in range(2)]
        self._gaps = _gap_room(0, *seen)
        self._ending = Ending()

    def run(self, columns: Columns) -> None:
        """Judge the events."""
        compiled = self.setting.compiled
        kinds = columns.kind if compiled else np.array(columns.kind)
        rows = int(np.count_nonzero(kinds <= FAIL))
        self._make_room(rows, len(kinds) - rows, compiled)
        if int(np.count_nonzero(kinds == COMPACT)):
            self._ending.compacted(columns, kinds == COMPACT)
        _scan.form(compiled)(
            columns,
            self._tables,
            self._values,
            self._clients,
            self._bound,
            self._known,
            self._gaps,
            self._faults,
            self.found,
        )
        self._ending.take_gaps(self._gaps, int(self._known.gaps[0]))
        self._known.gaps[0] = 0

    def _make_room(self, rows: int, others: int, compiled: bool) -> None:
        values, clients, offsets = (int(getattr(self._known, name)[0]) for name in ("values", "clients", "offsets"))
        self._tables = Tables(
            roomy(self._tables.values, values, rows, compiled),
            roomy(self._tables.clients, clients, rows, compiled),
            roomy(self._tables.offsets, offsets, rows, compiled),
        )
        self._values = Values(*(grown(a, values, rows, _fill(n)) for n, a in self._values._asdict().items()))
        self._clients = Clients(*(grown(a, clients, rows, _fill(n)) for n, a in self._clients._asdict().items()))
        self._bound = Bound(*(grown(a, offsets, rows, _fill(n)) for n, a in self._bound._asdict().items()))
        self._faults = with_fault_room(self._faults, others)
        if len(self._gaps.low) < rows:
            self._gaps = _gap_room(rows, self._gaps.seen_low, self._gaps.seen_high)

    def finish(self) -> Verdicts:
        """What the whole history shows: losses, gaps, failed appends that were read; then the outcomes."""
        self._ending.judge(self._values, self._known, self._faults, self.found, self.setting.compiled)
        return super().finish()

    def losses(self) -> tuple[Loss, ...] | None:
        """Acknowledged appends that the final read did not return; None without one."""
        return self._ending.losses(self.setting.words)


_KINDS = frozenset(
    {
        Kind.INVOKE,
        Kind.OBSERVE,
        Kind.OK,
        Kind.FAIL,
        Kind.INFO,
        Kind.CRASH,
        Kind.POWER_LOSS,
        Kind.STORAGE_ERROR,
        Kind.FAULT,
        Kind.COMPACT,
        Kind.TRIM,
    }
)

FAMILY = Family(
    "clients",
    CHECKS,
    _KINDS,
    ("time", "process", "f", "acks", "term", "offset", "last_offset", "value", "text", "count", "bytes"),
    ClientsFold,
)
