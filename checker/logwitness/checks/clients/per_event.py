"""Each thing a client asks or is told, judged as it comes; what needs the end of the history is in `at_end`."""

from __future__ import annotations

from ..codes import (
    ACKS_ALL,
    ACKS_NONE,
    F_APPEND,
    F_FINAL_READ,
    F_READ_COMMITTED,
    F_READ_LINEARIZABLE,
    F_TAIL,
    NO_ACKS,
    NULL,
    READS,
)
from ..columns import Columns
from ..faults import ACKS, AGAIN, Faults
from ..findings import Findings, excuse, report
from ..hashing import named_row, row_of
from ..kernel import part, step
from .linearizable_reads import read_asked
from .losses import excuse_by, lost_by
from .rules import (
    DUPLICATE,
    INCONSISTENT_OFFSET,
    NON_MONOTONIC_APPEND,
    NON_MONOTONIC_READ,
    PHANTOM,
    REAL_TIME_INVERSION,
    SKIP,
    VALUES_ARE_NEW,
    AppendedAgain,
    Inverted,
    OutOfOrder,
    Placed,
    TwoOffsets,
    TwoValues,
    WentBack,
)
from .state import KNOWN_GAPS, NONE, Bound, Clients, Gaps, Known, Tables, Values


@part
def is_weak(values: Values, known: Known, row: int) -> bool:
    """Whether a power loss may take a value: nobody promised that it is flushed, or showed that it is committed."""
    return bool((values.acks[row] != ACKS_ALL or known.write_caching[0] != 0) and values.shown[row] < 0)


@part
def gone_by(values: Values, known: Known, faults: Faults, row: int, since: int, there: int, offset: int) -> int:
    """The place of the fault by which a value that was asked for at event ``since``, and was there by event ``there``,
    may be lost by now without breaking a promise; -1."""
    return lost_by(known, faults, since, there, is_weak(values, known, row), offset)


@part
def two_values(
    values: Values,
    known: Known,
    faults: Faults,
    found: Findings,
    other: int,
    row: int,
    offset: int,
    since: int,
    seq: int,
) -> None:
    """By event ``since`` a client was told of ``other`` at this offset, now one is told of ``row``.

    Either may be a copy that outlived a loss and could be read for a while, so the loss may have come before that.
    """
    before, asked = min(since, values.invoke_seq[other]), values.invoke_seq[row]
    place = gone_by(values, known, faults, other, before, since, offset)
    if place < 0:
        place = gone_by(values, known, faults, row, asked, seq, offset)
    if place >= 0:
        excuse_by(faults, found, INCONSISTENT_OFFSET, place)
    else:
        two = TwoValues(offset, first=values.value[other], second=values.value[row])
        report(found, INCONSISTENT_OFFSET, two, since, seq)


@part
def two_offsets(values: Values, known: Known, found: Findings, row: int, e0: int, seq: int, a: int, b: int) -> None:
    """A value is at offsets ``a`` and ``b``."""
    if values.invokes[row] > 1 or known.idempotent[0] == 0:
        excuse(found, DUPLICATE, AGAIN, -1, -1, 1)
    else:
        report(found, DUPLICATE, TwoOffsets(values.value[row], first=a, second=b), e0, values.invoke_seq[row], seq)


@part
def not_behind(values: Values, first: int, row: int, offset: int) -> bool:
    """Whether ``row``, at this offset, is not behind ``first`` in the log.

    At the same offset it is not either; with acks=all that is an inconsistent offset, which says more.
    """
    both_all = values.acks[first] == ACKS_ALL and values.acks[row] == ACKS_ALL
    reached: bool = offset < values.offset[first] or (offset == values.offset[first] and not both_all)
    return reached


@part
def inversion(
    values: Values, known: Known, faults: Faults, found: Findings, first: int, row: int, offset: int, seq: int
) -> None:
    """``first`` was acknowledged before ``row`` was invoked: is it before it in the log?"""
    found.judged[REAL_TIME_INVERSION] += 1
    if not_behind(values, first, row, offset):
        asked = values.invoke_seq[first]
        # A term has two leaders if a disk was emptied, whatever was on it.
        place = lost_by(known, faults, asked, seq, False, -1)
        if place < 0 and values.acks[first] == ACKS_ALL:
            place = gone_by(values, known, faults, first, asked, values.ok_seq[first], values.offset[first])
        if place >= 0:
            excuse_by(faults, found, REAL_TIME_INVERSION, place)
            return
        a, b = values.value[first], values.value[row]
        inverted = Inverted(first=a, first_offset=values.offset[first], second=b, second_offset=offset)
        report(found, REAL_TIME_INVERSION, inverted, values.ok_seq[first], values.invoke_seq[row], seq)


@step
def invoke(
    tables: Tables,
    values: Values,
    clients: Clients,
    known: Known,
    found: Findings,
    columns: Columns,
    client: int,
    i: int,
) -> None:
    """A client begins an operation, by event ``i``."""
    f, value, offset, seq = columns.f[i], columns.value[i], columns.offset[i], columns.seq[i]
    clients.f[client] = f
    clients.seq[client] = seq
    if f == F_APPEND:
        known.appends[0] += 1
        clients.row[client] = NONE
        clients.term[client] = known.term[0]
        clients.term_row[client] = known.term_row[0]
        if value != NULL:
            row = named_row(tables.values, known.values, values.value, value)
            if values.invokes[row] == 0:
                values.invoke_seq[row] = seq
                values.acks[row] = ACKS_ALL if columns.acks[i] == NO_ACKS else columns.acks[i]
                values.width[row] = columns.records[i]
                values.size[row] = columns.bytes[i]
                values.after[row] = known.far_row[0]
            elif not known.foreign[0]:
                failed = values.fails[row] == values.invokes[row] and values.client[row] != client
                if failed or values.ok_seq[row] >= 0:
                    again = AppendedAgain(columns.process[i], value=value)
                    report(found, VALUES_ARE_NEW, again, values.invoke_seq[row], seq)
            found.judged[VALUES_ARE_NEW] += 1 - known.foreign[0]
            values.client[row] = client
            values.invokes[row] += 1
            clients.row[client] = row
    elif f in (F_TAIL, F_READ_LINEARIZABLE):
        clients.tail[client] = known.tail[0]
        clients.tail_seq[client] = known.tail_seq[0]
        clients.tail_since[client] = known.tail_since[0]
        if known.far_row[0] != NONE and known.far[0] + 1 > known.tail[0]:
            clients.tail[client] = known.far[0] + 1
            clients.tail_seq[client] = values.ok_seq[known.far_row[0]]
            clients.tail_since[client] = values.invoke_seq[known.far_row[0]]
        read_asked(clients, known, client)
    if f in READS:
        clients.begun[client] = offset
        clients.position[client] = offset if offset != NULL else clients.following[client]
        clients.position_seq[client] = seq


@part
def observe(
    tables: Tables,
    values: Values,
    clients: Clients,
    bound: Bound,
    known: Known,
    gaps: Gaps,
    faults: Faults,
    found: Findings,
    client: int,
    offset: int,
    last: int,
    value: int,
    seq: int,
) -> None:
    """A read gave a client ``value`` at ``offset``."""
    row = NONE
    if value != NULL:
        row = named_row(tables.values, known.values, values.value, value)
    position = clients.position[client]
    before = clients.position_seq[client]
    if position != NULL:
        found.judged[NON_MONOTONIC_READ] += 1
        found.judged[SKIP] += 1
        if last < position:
            report(found, NON_MONOTONIC_READ, WentBack(position=position, offset=offset), before, seq)
        elif offset > position:
            gap(known, gaps, position, offset - 1, seq, before, row, clients.seq[client])
    # Where a reader stands that went back by itself is not clear until it was given something more.
    clients.position[client] = last + 1 if position == NULL or last >= position else NULL
    clients.position_seq[client] = seq
    if row == NONE:
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
                report(found, PHANTOM, Placed(value=value, offset=offset), seq)
        if values.ok_seq[row] >= 0 and values.offset[row] != offset:
            two_offsets(values, known, found, row, values.ok_seq[row], seq, values.offset[row], offset)
        # acks 0 and 1 may be acknowledged by a leader that is one no more; that the entry is read shows where it is.
        if values.after[row] != NONE and (values.ok_seq[row] < 0 or values.acks[row] != ACKS_ALL):
            inversion(values, known, faults, found, values.after[row], row, offset, seq)
    elif values.read_offset[row] != offset:
        two_offsets(values, known, found, row, values.read_seq[row], seq, values.read_offset[row], offset)
    elif values.read_last[row] != last and values.invokes[row] <= 1 and not known.compacted[0]:
        farther = max(last, values.read_last[row])
        report(found, INCONSISTENT_OFFSET, TwoValues(farther, first=value, second=value), values.read_seq[row], seq)
    if last > offset:
        known.read_lasts[0] = 1
    if clients.f[client] == F_FINAL_READ:
        values.final[row] = 1
    elif clients.f[client] in (F_READ_COMMITTED, F_READ_LINEARIZABLE) and values.shown[row] < 0:
        values.shown[row] = seq
        values.shown_asked[row] = clients.seq[client]

    found.judged[INCONSISTENT_OFFSET] += 1
    there = row_of(tables.offsets, known.offsets, offset)
    other = bound.read_row[there]
    if other != NONE and other != row:
        two_values(values, known, faults, found, other, row, offset, bound.read_seq[there], seq)
    if other != row:
        bound.read_row[there] = row
        bound.read_seq[there] = seq
        promised = bound.ack_row[there]
        if promised != NONE and promised != row and promised != other:
            two_values(values, known, faults, found, promised, row, offset, values.ok_seq[promised], seq)


@part
def gap(known: Known, gaps: Gaps, low: int, high: int, seq: int, before: int, row: int, invoked: int) -> None:
    """A reader passed over the offsets ``low..high``."""
    if row != NONE:
        place = (low ^ (high >> 3)) & (KNOWN_GAPS - 1)
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


@step
def acknowledge(
    tables: Tables,
    values: Values,
    clients: Clients,
    bound: Bound,
    known: Known,
    faults: Faults,
    found: Findings,
    columns: Columns,
    client: int,
    i: int,
) -> None:
    """The client's append was acknowledged, by event ``i``."""
    offset, term, seq = columns.offset[i], columns.term[i], columns.seq[i]
    row = clients.row[client]
    if row == NONE or offset < 0:
        return  # it was not told where
    acks = values.acks[row]
    if columns.last_offset[i] > offset:
        known.ok_lasts[0] = 1
    if values.ok_seq[row] < 0:
        values.ok_seq[row] = seq
        values.ok_time[row] = columns.time[i]
        values.ok_term[row] = term
        values.offset[row] = offset
        values.last[row] = max(columns.last_offset[i], offset + values.width[row] - 1)
        if values.read_seq[row] >= 0 and values.read_offset[row] != offset:
            two_offsets(values, known, found, row, values.read_seq[row], seq, values.read_offset[row], offset)
    if values.after[row] != NONE and acks == ACKS_ALL:
        inversion(values, known, faults, found, values.after[row], row, offset, seq)
    elif acks != ACKS_NONE and term != NULL and clients.term[client] == term and clients.term_row[client] != NONE:
        inversion(values, known, faults, found, clients.term_row[client], row, offset, seq)

    former = clients.last_row[client]
    if former != NONE:
        same_term = term != NULL and clients.last_term[client] == term
        both_all = acks == ACKS_ALL and values.acks[former] == ACKS_ALL
        if both_all or same_term:
            found.judged[NON_MONOTONIC_APPEND] += 1
            if not_behind(values, former, row, offset):
                asked = values.invoke_seq[former]
                place = lost_by(known, faults, asked, seq, False, -1)
                if place < 0 and not same_term:
                    place = gone_by(values, known, faults, former, asked, values.ok_seq[former], values.offset[former])
                if place >= 0:
                    excuse_by(faults, found, NON_MONOTONIC_APPEND, place)
                elif acks == ACKS_NONE or values.acks[former] == ACKS_NONE:
                    excuse(found, NON_MONOTONIC_APPEND, ACKS, -1, -1, 1)
                else:
                    a, b, at = values.value[former], values.value[row], values.offset[former]
                    two = OutOfOrder(columns.process[i], first=a, first_offset=at, second=b, second_offset=offset)
                    report(found, NON_MONOTONIC_APPEND, two, values.ok_seq[former], seq)
    clients.last_row[client] = row
    clients.last_term[client] = term

    if acks == ACKS_ALL:
        found.judged[INCONSISTENT_OFFSET] += 1
        there = row_of(tables.offsets, known.offsets, offset)
        promised = bound.ack_row[there]
        shown = bound.read_row[there]
        if promised != NONE and promised != row:
            two_values(values, known, faults, found, promised, row, offset, values.ok_seq[promised], seq)
        elif shown != NONE and shown != row:
            two_values(values, known, faults, found, shown, row, offset, bound.read_seq[there], seq)
        bound.ack_row[there] = row
        if shown != row:
            # That is settled; what is read there from now on is held against this promise.
            bound.read_row[there] = NONE
        if known.far_row[0] == NONE or values.last[row] > known.far[0]:
            known.far_row[0] = row
            known.far[0] = values.last[row]
    if acks != ACKS_NONE and term != NULL:
        if known.term[0] == NULL or term > known.term[0]:
            known.term[0] = term
            known.term_row[0] = row
        elif term == known.term[0] and offset > values.offset[known.term_row[0]]:
            known.term_row[0] = row
