"""What lies at LSNs and on shards, for loops that are compiled: rows for LSNs, in order, and the copies of each.

A row stays for good; copies come and go, and their places are used again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ..columns import Ints
from ..hashing import Table, all_grown, at_most, empty_table, grown, place_of, roomy, row_of
from ..kernel import kernel, part
from .protocol import no_rows

NOWHERE = -1
"""No row, and no copy."""
_NEAR = 8
"""So many LSNs away is worth a look before a search among all."""


class Lsns(NamedTuple):
    """LSNs: the row of each, and all of them in order with their rows."""

    table: Table
    used: Ints  # how many there are
    order: Ints
    rows: Ints


@part
def lsn_row(lsns: Lsns, lsn: int) -> int:
    """The row of an LSN; `NOWHERE` if it has none."""
    return int(lsns.table.rows[place_of(lsns.table, lsn)])


@part
def place_in_order(lsns: Lsns, lsn: int) -> int:
    """How many LSNs are lower than this one."""
    low, high = 0, lsns.used[0]
    while low < high:
        middle = (low + high) >> 1
        if lsns.order[middle] < lsn:
            low = middle + 1
        else:
            high = middle
    return int(low)


@part
def place_near(lsns: Lsns, lsn: int, guess: int) -> int:
    """The same; it is looked for from ``guess`` on first."""
    used = lsns.used[0]
    if guess == 0 or (guess <= used and lsns.order[guess - 1] < lsn):
        for place in range(guess, min(guess + _NEAR, used)):
            if lsns.order[place] >= lsn:
                return int(place)
    return place_in_order(lsns, lsn)


@kernel
def _look_up(table: Table, lsns: Ints, rows: Ints) -> None:
    for i in range(len(lsns)):
        rows[i] = table.rows[place_of(table, lsns[i])]


def rows_of(lsns: Lsns, some: Ints, compiled: bool) -> Ints:
    """The rows of some LSNs, in their order; -1 for one that is not in the table."""
    rows = np.zeros(len(some), dtype=np.int64)
    _look_up.form(compiled)(lsns.table, some, rows)
    return rows


def no_lsns() -> Lsns:
    """A table of LSNs that has none yet."""
    return Lsns(empty_table(), np.zeros(1, dtype=np.int64), *(np.zeros(0, dtype=np.int64) for _ in range(2)))


@kernel
def _enter(table: Table, used: Ints, lsns: Ints, new: Ints) -> int:
    """Give these LSNs rows; those that had none, as far as they go, are ``new``."""
    before = used[0]
    for i in range(len(lsns)):
        free = used[0]
        if row_of(table, used, lsns[i]) == free:
            new[free - before] = lsns[i]
    return int(used[0] - before)


def with_lsns(lsns: Lsns, more: Ints, compiled: bool) -> Lsns:
    """The same with rows for these LSNs too."""
    used, most = int(lsns.used[0]), at_most(more)
    table, new = roomy(lsns.table, used, most, compiled), np.zeros(most, dtype=np.int64)
    new = new[: _enter.form(compiled)(table, lsns.used, more, new)]
    kept = int(np.searchsorted(lsns.order, new.min())) if len(new) else len(lsns.order)
    order = np.concatenate((lsns.order[kept:], new))
    rows = np.concatenate((lsns.rows[kept:], np.arange(used, used + len(new))))
    by = np.argsort(order, kind="stable")  # it is in order but for a few
    order, rows = np.concatenate((lsns.order[:kept], order[by])), np.concatenate((lsns.rows[:kept], rows[by]))
    return Lsns(table, lsns.used, order, rows)


class Copies(NamedTuple):
    """Copies, each of a shard, and the next one at the same LSN."""

    node: Ints
    record: Ints
    value: Ints
    copyset: Ints
    seq: Ints  # of the event by which the shard got it
    next: Ints


class Held(NamedTuple):
    """The copies at each LSN, in the order in which shards got them."""

    lsns: Lsns
    first: Ints  # by row
    copies: Copies
    used: Ints  # places of copies, and the first of those that are free again


@part
def copy_at(held: Held, row: int, node: int) -> int:
    """The place of a shard's copy; `NOWHERE`."""
    place = held.first[row] if row >= 0 else NOWHERE
    while place >= 0 and held.copies.node[place] != node:
        place = held.copies.next[place]
    return int(place)


def copied(held: Held, row: int, shards: Collection[int]) -> list[int]:
    """The events by which these shards got what they have at an LSN."""
    places = (copy_at(held, row, shard) for shard in shards)
    return [int(held.copies.seq[place]) for place in places if place >= 0]


@part
def put(held: Held, row: int, node: int, record: int, value: int, copyset: int, seq: int) -> None:
    """A shard has a copy, in place of the one that it had."""
    before, place = NOWHERE, int(held.first[row])
    while place >= 0 and held.copies.node[place] != node:
        before, place = place, int(held.copies.next[place])
    if place < 0:
        place = int(held.used[1])
        if place >= 0:
            held.used[1] = held.copies.next[place]
        else:
            place = int(held.used[0])
            held.used[0] += 1
        held.copies.node[place] = node
        held.copies.next[place] = NOWHERE
        if before >= 0:
            held.copies.next[before] = place
        else:
            held.first[row] = place
    held.copies.record[place] = record
    held.copies.value[place] = value
    held.copies.copyset[place] = copyset
    held.copies.seq[place] = seq


@part
def drop(held: Held, row: int, node: int) -> bool:
    """A shard has no copy any more; whether it had one."""
    before, place = NOWHERE, int(held.first[row])
    while place >= 0 and held.copies.node[place] != node:
        before, place = place, int(held.copies.next[place])
    if place < 0:
        return False
    if before >= 0:
        held.copies.next[before] = held.copies.next[place]
    else:
        held.first[row] = held.copies.next[place]
    held.copies.next[place] = held.used[1]
    held.used[1] = place
    return True


def nothing_held() -> Held:
    """What shards hold before the first event: no copy of any record."""
    first, used = np.zeros(0, dtype=np.int64), np.array([0, NOWHERE], dtype=np.int64)
    return Held(no_lsns(), first, no_rows(Copies), used)


def with_copies(held: Held, lsns: Ints, copies: int, compiled: bool) -> Held:
    """The same with rows for these LSNs too, and room for so many copies more."""
    before = int(held.lsns.used[0])
    with_rows = with_lsns(held.lsns, lsns, compiled)
    return Held(
        with_rows,
        grown(held.first, before, int(with_rows.used[0]) - before, NOWHERE),
        all_grown(held.copies, int(held.used[0]), copies, lambda _: 0),
        held.used,
    )
