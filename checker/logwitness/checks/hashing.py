"""A hash table from 64-bit keys to small row numbers, in arrays, so that compiled loops can use it.

Sparse 64-bit offsets, values and client ids all go through here: memory is proportional to the keys that occur.
The table never fills: its owner calls `roomy` before a batch with the number of keys that the batch can add at most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .columns import Array, Ints
from .kernel import Kernel, kernel, part

_FIRST_SIZE = 64
_FIRST_ROWS = 16
"""What is added to one by one has room for some at first."""

R = TypeVar("R", bound=tuple[Any, ...])


class Table(NamedTuple):
    """Open addressing with linear probing; ``rows`` is -1 where a place is free. The size is a power of two."""

    keys: Ints
    rows: Array


def empty_table(size: int = _FIRST_SIZE) -> Table:
    """A table without keys; ``size`` is a power of two."""
    return Table(np.zeros(size, dtype=np.int64), np.full(size, -1, dtype=np.int32))


@part
def home_of(key: int) -> int:
    """Where the search for ``key`` begins, before the size of a table cuts it down."""
    # Neighbours stay neighbours by eights, a cache line: offsets and values mostly come in order.
    # Two halves of at most 31 bits, multiplied apart: no product leaves 62 bits, in numpy or in Python.
    block = key >> 3
    low = block & 0x7FFFFFFF
    high = (block >> 31) & 0x7FFFFFFF
    mixed = (low * 0x2C1B3C6D) ^ (high * 0x297A2D39)
    return ((mixed ^ (mixed >> 29)) << 3) | (key & 7)


@part
def place_of(table: Table, key: int) -> int:
    """Where ``key`` is, or where it would go."""
    mask = len(table.keys) - 1
    place = home_of(key) & mask
    while table.rows[place] >= 0 and table.keys[place] != key:
        place = (place + 1) & mask
    return place


@part
def row_of(table: Table, used: Ints, key: int) -> int:
    """The row of ``key``; if it has none, the next one, of which ``used`` keeps count."""
    place = place_of(table, key)
    row: int = table.rows[place]
    if row < 0:
        row = used[0]
        used[0] += 1
        table.keys[place] = key
        table.rows[place] = row
    return row


@part
def named_row(table: Table, used: Ints, names: Ints, key: int) -> int:
    """The same; ``names`` tells the key of each row."""
    free = used[0]
    row: int = row_of(table, used, key)
    if row == free:
        names[row] = key
    return row


@part
def remove(table: Table, place: int) -> None:
    """Free a place that is taken; keys behind it that would be there by rights move up."""
    mask = len(table.keys) - 1
    free = place
    place = (place + 1) & mask
    while table.rows[place] >= 0:
        if (place - home_of(table.keys[place])) & mask >= (place - free) & mask:
            table.keys[free] = table.keys[place]
            table.rows[free] = table.rows[place]
            free = place
        place = (place + 1) & mask
    table.rows[free] = -1


@kernel
def _move(old: Table, new: Table) -> None:
    for i in range(len(old.keys)):
        if old.rows[i] >= 0:
            place = place_of(new, old.keys[i])
            new.keys[place] = old.keys[i]
            new.rows[place] = old.rows[i]


def at_most(keys: Ints) -> int:
    """How many different keys there are at most, of offsets that mostly lie close together."""
    offsets = keys.take(np.flatnonzero(keys >= 0))
    span = int(offsets.max()) - int(offsets.min()) + 1 if len(offsets) else 0
    return len(keys) - len(offsets) + min(len(offsets), span)


def roomy(table: Table, used: int, more: int, compiled: bool) -> Table:
    """The table, or a larger copy, with room for ``more`` keys beside the ``used`` ones at two thirds full at most."""
    size = len(table.keys)
    if 3 * (used + more) <= 2 * size:
        return table
    while 2 * size < 3 * (used + more):
        size *= 2
    new = empty_table(size)
    mover: Kernel[[Table, Table], None] = _move
    mover.form(compiled)(table, new)
    return new


def all_grown(columns: R, used: int, more: int, fill: Callable[[str], int]) -> R:
    """Columns of one length, with room for ``more`` rows; ``fill`` says by name what is in a new row."""
    if used + more <= len(columns[0]):
        return columns
    names: tuple[str, ...] = columns._fields  # type: ignore[attr-defined]
    return type(columns)(*(grown(each, used, more, fill(name)) for name, each in zip(names, columns, strict=True)))


def grown(array: Array, used: int, more: int, fill: int) -> Array:
    """The array with room for ``more`` values behind the ``used`` ones; if it has none, at least a quarter longer.

    It must own its memory and have no views: it is enlarged in place, so that no column is ever in memory twice.
    """
    if used + more > len(array):
        before = len(array)
        array.resize(max(5 * before // 4, used + more, _FIRST_ROWS), refcheck=False)
        if fill:  # the new places hold 0
            array[before:] = fill
    return array
