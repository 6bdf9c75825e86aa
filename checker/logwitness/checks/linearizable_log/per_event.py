"""The loop: what clients asked and were told, one event after the other, bound to values and lengths of the log."""

from __future__ import annotations

from ..codes import (
    ACKS_ALL,
    F_APPEND,
    F_READ_LINEARIZABLE,
    F_TAIL,
    FAIL,
    FAULT,
    HEAL,
    INVOKE,
    IS_OF_CLIENT,
    MADE_BY_NODES,
    NO_ACKS,
    NO_NODE,
    NULL,
    OBSERVE,
    OK,
    POWER_LOSS,
    READS,
    STORAGE_ERROR,
)
from ..columns import Columns
from ..faults import WIPE, cause_of, fault_code, lasts
from ..hashing import named_row, place_of
from ..kernel import kernel, part
from .state import (
    ACKED,
    LOOSE,
    NONE,
    Empty,
    Given,
    Known,
    Lengths,
    More,
    Named,
    Open,
    Tables,
    close_row,
    give,
    length_said,
    nothing_said,
    open_row,
    place_said,
)


@kernel
def listen(
    columns: Columns,
    tables: Tables,
    open_: Open,
    given: Given,
    named: Named,
    lengths: Lengths,
    empty: Empty,
    more: More,
    known: Known,
) -> None:
    """Take the events of one log."""
    for i in range(len(columns.seq)):
        kind = columns.kind[i]
        if not IS_OF_CLIENT[kind]:
            if kind in MADE_BY_NODES:
                known.sparse[0] = 1
            elif kind == HEAL:
                if lasts(columns.f[i]) and known.failing[0] > 0:
                    known.failing[0] -= 1
                    known.lost[0] = columns.seq[i]
            elif kind in (FAULT, POWER_LOSS, STORAGE_ERROR):
                cause = cause_of(columns.f[i] if kind == FAULT else fault_code(kind))
                if takes(known, cause, columns.node[i]):
                    known.lost[0] = columns.seq[i]
                    known.lost_node[0] = columns.node[i]
                    known.lost_cause[0] = cause
                    known.failing[0] += kind == FAULT and lasts(columns.f[i])
            continue
        op = columns.op[i]
        if op == NULL:
            continue
        seq = columns.seq[i]
        # A clock may be set back; what the history has in order stays in order.
        if known.begun[0] == 0:
            known.begun[0] = 1
            known.now[0] = columns.time[i]
        elif columns.time[i] > known.now[0]:
            known.now[0] = columns.time[i]
            known.moved[0] = 1
        now = known.now[0]
        f, offset = columns.f[i], columns.offset[i]
        if kind == INVOKE:
            row = open_row(tables, open_, known, op)
            if open_.f[row] == NONE:
                open_.f[row] = f
                open_.time[row] = now
                open_.seq[row] = seq
                if f == F_APPEND:
                    open_.row[row] = asked(tables, named, known, columns.value[i], columns.acks[i], now, seq)
                elif f in READS:
                    open_.offset[row] = offset
                    open_.lags[row] = f != F_READ_LINEARIZABLE and columns.node[i] != NO_NODE
        elif kind == OBSERVE:
            observed(tables, open_, given, known, op, columns.value[i], offset, columns.last_offset[i])
        else:
            row = tables.open.rows[place_of(tables.open, op)]
            if row == NONE:
                continue
            if kind == OK:
                last = columns.last_offset[i]
                completed(tables, open_, given, named, lengths, empty, more, known, row, f, offset, last, now, seq)
            elif kind == FAIL and open_.row[row] != NONE:
                named.failed[open_.row[row]] += 1
            close_row(tables, open_, given, known, op, row)


@part
def takes(known: Known, cause: int, node: int) -> bool:
    """Whether a fault may take what was promised to last: an emptied disk, if it may be a voter's; under write caching
    any."""
    if cause != WIPE:
        return bool(cause >= 0 and known.write_caching[0] != 0)
    for voter in known.voters:
        if voter == node:
            return True
    return node == NO_NODE or not len(known.voters)


@part
def asked(tables: Tables, named: Named, known: Known, value: int, acks: int, now: int, seq: int) -> int:
    """An append begins: the row of its value, if it is promised to last."""
    if value == NULL:
        return NONE
    row = named_row(tables.named, known.named, named.value, value)
    if known.write_caching[0] != 0 or (acks != ACKS_ALL and acks != NO_ACKS):
        if not named.marks[row] & LOOSE:
            named.marks[row] |= LOOSE
            known.loose[0] += 1
        return NONE
    if named.asked[row] == 0:
        named.invoked[row] = now
        named.invoked_seq[row] = seq
    named.asked[row] += 1
    return row


@part
def observed(
    tables: Tables, open_: Open, given: Given, known: Known, op: int, value: int, offset: int, last: int
) -> None:
    """A read was given a batch."""
    row = open_row(tables, open_, known, op)
    if open_.reach[row] != NULL:
        if offset > open_.reach[row]:
            open_.jumped[row] = 1
    elif open_.offset[row] != NULL and offset > open_.offset[row]:
        open_.jumped[row] = 1
    open_.reach[row] = last + 1
    if value == NULL:
        open_.jumped[row] = 1
    else:
        give(open_, given, known, row, value, offset, last)


@part
def completed(
    tables: Tables,
    open_: Open,
    given: Given,
    named: Named,
    lengths: Lengths,
    empty: Empty,
    more: More,
    known: Known,
    row: int,
    f: int,
    offset: int,
    last: int,
    now: int,
    seq: int,
) -> None:
    """An operation was answered, at time ``now``: bind values and lengths of the log to what it was told."""
    value = open_.row[row]
    if value != NONE:
        if offset != NULL and offset >= 0:
            named.placed[value] += 1
            place_said(named, more, known, value, offset, last, now, seq, ACKED)
    elif open_.f[row] == F_TAIL and offset >= 0:
        known.ends[0] += 1
        length_said(tables, lengths, known, offset, open_.time[row], open_.seq[row], now, seq)
    # A read may go on behind what it was given.
    if open_.jumped[row]:
        known.sparse[0] = 1
    if f in READS and offset != NULL:
        reached = open_.reach[row] if open_.reach[row] != NULL else open_.offset[row]
        if reached != NULL and offset > reached:
            known.sparse[0] = 1
        elif reached == offset and open_.reach[row] == NULL and offset >= 0 and not open_.lags[row]:
            nothing_said(tables, empty, known, offset, open_.time[row], open_.seq[row], now, seq)
    place = open_.head[row]
    while place != NONE:
        seen = named_row(tables.named, known.named, named.value, given.value[place])
        if not named.marks[seen] & LOOSE:
            place_said(named, more, known, seen, given.offset[place], given.last[place], now, seq, 0)
        place = given.next[place]
