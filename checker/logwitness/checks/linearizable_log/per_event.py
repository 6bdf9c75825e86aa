"""The loop: what clients asked and were told, one event after the other, bound to values and lengths of the log."""

from __future__ import annotations

from ..codes import (
    ACKS_ALL,
    CARRIES_STATE,
    ENDS,
    F_APPEND,
    F_READ_LINEARIZABLE,
    F_TAIL,
    FAIL,
    FAULT,
    HEAL,
    INVOKE,
    IS_OF_CLIENT,
    LEADER,
    MADE_BY_NODES,
    MAX_OFFSET,
    NO_ACKS,
    NO_NODE,
    NULL,
    OBSERVE,
    OK,
    READS,
    STOP,
)
from ..columns import Columns
from ..faults import (
    NODES,
    WIPE,
    Faults,
    Held,
    cause_of,
    fault_code,
    lasts,
    may_take,
    note_end,
    note_fault,
    note_heal,
    note_leader,
    note_state,
)
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
    Losses,
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
    held: Held,
    faults: Faults,
    losses: Losses,
    known: Known,
) -> None:
    """Take the events of one log."""
    for i in range(len(columns.seq)):
        kind = columns.kind[i]
        if not IS_OF_CLIENT[kind]:
            node = columns.node[i] if columns.node[i] < NODES else NO_NODE
            if kind in MADE_BY_NODES:
                known.sparse[0] = 1
            if CARRIES_STATE[kind]:
                note_state(held, faults, node, columns.dirty[i], columns.flushed[i], columns.seq[i])
                if kind == LEADER and columns.term[i] != NULL:
                    note_leader(faults, node, columns.term[i])
            elif kind == HEAL:
                heals(faults, losses, known, node, columns.f[i], columns.seq[i])
            elif kind == FAULT or kind in ENDS:
                befalls(held, faults, losses, known, columns, i, node)
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
                completed(
                    tables, open_, given, named, lengths, empty, more, losses, known, row, f, offset, last, now, seq
                )
            elif kind == FAIL and open_.row[row] != NONE:
                named.failed[open_.row[row]] += 1
            close_row(tables, open_, given, known, op, row)


@part
def befalls(held: Held, faults: Faults, losses: Losses, known: Known, columns: Columns, i: int, node: int) -> None:
    """A fault happens, or the process of a node ends, by event ``i``: may it have taken what was promised?"""
    kind, seq, place = columns.kind[i], columns.seq[i], faults.used[0]
    code = columns.f[i] if kind == FAULT else fault_code(kind, columns.reason[i])
    if kind != STOP:
        note_fault(faults, held, seq, code, node, kind == FAULT)
    if kind != FAULT:
        note_end(held, node, kind, seq)
    if faults.used[0] == place or not takes(faults, known, place, columns.node[i]):
        return
    if known.failing[0] == 0:
        row = known.losses[0]
        known.losses[0] += 1
        losses.seq[row] = seq
        losses.node[row] = columns.node[i]
        losses.cause[row] = cause_of(code)
        losses.end[row] = seq
        known.lost[0] = seq
    if kind == FAULT and lasts(code):
        known.failing[0] += 1
        losses.end[known.losses[0] - 1] = MAX_OFFSET
        known.lost[0] = MAX_OFFSET


@part
def heals(faults: Faults, losses: Losses, known: Known, node: int, code: int, seq: int) -> None:
    """A fault is healed: what failed meanwhile is lost by now."""
    if note_heal(faults, seq, code, node) and known.failing[0] > 0:
        known.failing[0] -= 1
        if known.failing[0] == 0:
            losses.end[known.losses[0] - 1] = seq
            known.lost[0] = seq


@part
def takes(faults: Faults, known: Known, place: int, node: int) -> bool:
    """Whether a fault may take what was promised to last: an emptied disk, if it may be a voter's and may hold any of
    the log; under write caching any other that may find something unflushed."""
    cause = cause_of(faults.code[place])
    if cause != WIPE:
        return bool(cause >= 0 and known.write_caching[0] != 0 and faults.low[place] < MAX_OFFSET)
    if not may_take(faults, place, -1, MAX_OFFSET, False, 0):
        return False
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
    losses: Losses,
    known: Known,
    row: int,
    f: int,
    offset: int,
    last: int,
    now: int,
    seq: int,
) -> None:
    """An operation was answered, at time ``now``: bind values and lengths of the log to what it was told."""
    value, lost = open_.row[row], open_.seq[row] < known.lost[0]
    if value != NONE:
        if offset != NULL and offset >= 0:
            named.placed[value] += 1
            place_said(named, more, known, value, offset, last, now, seq, ACKED)
    elif open_.f[row] == F_TAIL and offset >= 0:
        if lost:
            losses.ends[known.losses[0] - 1] += 1
        else:
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
            if lost:
                losses.nothings[known.losses[0] - 1] += 1
            else:
                nothing_said(tables, empty, known, offset, open_.time[row], open_.seq[row], now, seq)
    place = open_.head[row]
    while place != NONE:
        seen = named_row(tables.named, known.named, named.value, given.value[place])
        if not named.marks[seen] & LOOSE:
            place_said(named, more, known, seen, given.offset[place], given.last[place], now, seq, 0)
        place = given.next[place]
