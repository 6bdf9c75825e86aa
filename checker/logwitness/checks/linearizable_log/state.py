"""What the fold keeps: the operations that are open, and by value and by end of the log what became of the others.

An operation is forgotten when it is over. What stays is one row a value, and one a length that a tail gave or a place
that a read found empty, so memory grows with the log and with what is open, not with the number of events.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from ..codes import NULL
from ..columns import Array, Ints
from ..hashing import Table, place_of, remove
from ..kernel import part

NONE = -1


class Open(NamedTuple):
    """Operations that are not over. Rows are used again; free ones are linked by ``head``."""

    f: Array
    time: Ints
    seq: Ints
    row: Array  # the value it appends
    offset: Ints  # where a read was asked to begin
    reach: Ints  # behind the last batch that it was given
    head: Array  # what it was given so far, linked in `Given`
    tail: Array
    jumped: Array  # 1: it was led over an offset, or given a value without a name
    lags: Array  # 1: a node was asked that may not have everything yet


class Given(NamedTuple):
    """Batches given by reads that are not over. Rows are used again; free ones are linked by ``next``."""

    value: Ints
    offset: Ints
    last: Ints
    next: Array  # of the same operation


class Named(NamedTuple):
    """Every value that was named, by row."""

    value: Ints
    invoked: Ints  # the first time
    invoked_seq: Ints
    offset: Ints  # what was first said about where it is; NULL: nothing yet
    last: Ints
    latest: Ints  # when that was known
    latest_seq: Ints
    asked: Array  # appends of it that were promised to last, and of those: failed, placed
    failed: Array
    placed: Array
    marks: Array


ACKED = 1
"""Its place was said by an acknowledgement, not by reads alone."""
LOOSE = 2
"""Appended with an acks level that does not promise to last."""


class Lengths(NamedTuple):
    """Every length of the log that a tail gave: the tail asked for last and the one answered first, by row."""

    offset: Ints
    late_invoked: Ints
    late_seq: Ints
    late_completed: Ints
    late_completed_seq: Ints
    soon_invoked: Ints
    soon_seq: Ints
    soon_completed: Ints
    soon_completed_seq: Ints


class Empty(NamedTuple):
    """Every place at which a read found nothing, and of these reads the one asked for last."""

    offset: Ints
    invoked: Ints
    invoked_seq: Ints
    completed: Ints
    completed_seq: Ints


class More(NamedTuple):
    """Places said of values that have one already: conflicts, unless a value may be appended twice."""

    row: Array
    offset: Ints
    last: Ints
    latest: Ints
    latest_seq: Ints
    acked: Array


class Losses(NamedTuple):
    """When faults may have taken what was promised, in order: from which event to which, the node and the cause of the
    first of them, and the answers of tails, and of reads that found nothing, to what was asked for before."""

    seq: Ints
    end: Ints  # MAX_OFFSET: not yet
    node: Ints
    cause: Ints
    ends: Ints
    nothings: Ints


class Tables(NamedTuple):
    """Where rows are found: open operations by id, values, lengths, places that were empty."""

    open: Table
    named: Table
    lengths: Table
    empty: Table


class Known(NamedTuple):
    """What concerns the whole log, each but the last an array of one number so that kernels can change it."""

    now: Ints
    begun: Ints
    moved: Ints  # the clock does not stand still
    open: Ints  # operations
    open_rows: Ints
    open_free: Ints
    given: Ints  # batches
    given_rows: Ints
    given_free: Ints
    named: Ints
    lengths: Ints
    more: Ints
    empty: Ints
    ends: Ints  # tails answered with no such fault in between
    nothings: Ints  # reads that found nothing, likewise
    loose: Ints  # values
    losses: Ints
    lost: Ints  # until when the last of them may have taken something; -1
    failing: Ints  # faults that may do so until they end, and have not ended
    sparse: Ints  # the log holds what no client is seen to append
    write_caching: Ints
    voters: Ints  # all of them; none: they are not known


_NARROW = ("f", "row", "head", "tail", "jumped", "lags", "next", "asked", "failed", "placed", "marks", "acked")
_FILL = {"row": NONE, "head": NONE, "tail": NONE, "next": NONE, "f": NONE, "offset": NULL, "reach": NULL}
_FIRST_ROWS = 16


def fill(name: str) -> int:
    """What a place of this column holds before anything is known."""
    return _FILL.get(name, 0)


def blank(names: tuple[str, ...]) -> dict[str, Array]:
    """Columns with room for a few rows."""
    return {name: column.copy() for name, column in _blank(names).items()}


@functools.cache
def _blank(names: tuple[str, ...]) -> dict[str, Array]:
    return {n: np.full(_FIRST_ROWS, fill(n), dtype=np.int32 if n in _NARROW else np.int64) for n in names}


@part
def open_row(tables: Tables, open_: Open, known: Known, op: int) -> int:
    """The row of an open operation, new if it has none."""
    place = place_of(tables.open, op)
    row: int = tables.open.rows[place]
    if row != NONE:
        return row
    row = known.open_free[0]
    if row != NONE:
        known.open_free[0] = open_.head[row]
    else:
        row = known.open_rows[0]
        known.open_rows[0] += 1
    known.open[0] += 1
    tables.open.keys[place] = op
    tables.open.rows[place] = row
    open_.f[row] = NONE
    open_.row[row] = NONE
    open_.offset[row] = NULL
    open_.reach[row] = NULL
    open_.head[row] = NONE
    open_.tail[row] = NONE
    open_.jumped[row] = 0
    open_.lags[row] = 0
    return row


@part
def close_row(tables: Tables, open_: Open, given: Given, known: Known, op: int, row: int) -> None:
    """Forget an operation that is over, and what it was given."""
    if open_.head[row] != NONE:
        given.next[open_.tail[row]] = known.given_free[0]
        known.given_free[0] = open_.head[row]
    open_.head[row] = known.open_free[0]
    known.open_free[0] = row
    known.open[0] -= 1
    remove(tables.open, place_of(tables.open, op))


@part
def give(open_: Open, given: Given, known: Known, row: int, value: int, offset: int, last: int) -> None:
    """A read was given a batch; it counts when the read completes."""
    place = known.given_free[0]
    if place != NONE:
        known.given_free[0] = given.next[place]
    else:
        place = known.given_rows[0]
        known.given_rows[0] += 1
    given.value[place] = value
    given.offset[place] = offset
    given.last[place] = last
    given.next[place] = NONE
    if open_.head[row] == NONE:
        open_.head[row] = place
    else:
        given.next[open_.tail[row]] = place
    open_.tail[row] = place


@part
def place_said(
    named: Named, more: More, known: Known, row: int, offset: int, last: int, now: int, seq: int, mark: int
) -> None:
    """An acknowledgement (``mark`` `ACKED`) or a read says where a value is; the first to say so counts."""
    if named.offset[row] == NULL:
        named.offset[row] = offset
        named.last[row] = last
        named.latest[row] = now
        named.latest_seq[row] = seq
        named.marks[row] |= mark
    elif named.offset[row] == offset and named.last[row] == last:
        named.marks[row] |= mark
    else:
        place = known.more[0]
        known.more[0] += 1
        more.row[place] = row
        more.offset[place] = offset
        more.last[place] = last
        more.latest[place] = now
        more.latest_seq[place] = seq
        more.acked[place] = mark


@part
def length_said(
    tables: Tables, lengths: Lengths, known: Known, offset: int, invoked: int, invoked_seq: int, now: int, seq: int
) -> None:
    """A tail says that the log has so many entries; the one asked for last and the one answered first count.

    What was said before a loss stays as it is, in a row of its own.
    """
    place = place_of(tables.lengths, offset)
    row = tables.lengths.rows[place]
    if row == NONE or lengths.late_seq[row] < known.lost[0]:
        row = known.lengths[0]
        known.lengths[0] += 1
        tables.lengths.keys[place] = offset
        tables.lengths.rows[place] = row
        lengths.offset[row] = offset
        lengths.soon_invoked[row] = invoked
        lengths.soon_seq[row] = invoked_seq
        lengths.soon_completed[row] = now
        lengths.soon_completed_seq[row] = seq
    elif (invoked, invoked_seq) <= (lengths.late_invoked[row], lengths.late_seq[row]):
        return
    lengths.late_invoked[row] = invoked
    lengths.late_seq[row] = invoked_seq
    lengths.late_completed[row] = now
    lengths.late_completed_seq[row] = seq


@part
def nothing_said(
    tables: Tables, empty: Empty, known: Known, offset: int, invoked: int, invoked_seq: int, now: int, seq: int
) -> None:
    """A read found nothing at this offset; the one asked for last counts, and the last before each loss."""
    known.nothings[0] += 1
    place = place_of(tables.empty, offset)
    row = tables.empty.rows[place]
    if row == NONE or empty.invoked_seq[row] < known.lost[0]:
        row = known.empty[0]
        known.empty[0] += 1
        tables.empty.keys[place] = offset
        tables.empty.rows[place] = row
        empty.offset[row] = offset
    elif (invoked, invoked_seq) <= (empty.invoked[row], empty.invoked_seq[row]):
        return
    empty.invoked[row] = invoked
    empty.invoked_seq[row] = invoked_seq
    empty.completed[row] = now
    empty.completed_seq[row] = seq
