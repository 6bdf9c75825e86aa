"""Strings with a number each, as bytes in arrays, so that compiled loops read and compare them."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .kernel import kernel, part

Array: TypeAlias = npt.NDArray[Any]
Ints: TypeAlias = npt.NDArray[np.int64]
NOWHERE = -1
"""No string."""
_STEP = 4
"""Bytes that are hashed at once."""
_BITS = 32
_NUMBER = (1 << _BITS) - 1
ROOM = 64
"""Zeros behind the last string at least, so that who reads it finds an end there."""


class Strings(NamedTuple):
    """Strings one behind the other, in the order of their numbers; ``used``: how many, and how many bytes they take.

    ``table`` has a string's number at a place where the search for it comes by, and above its 32 bits where it began.
    """

    pool: Array
    starts: Ints
    table: Ints
    used: Ints


def no_strings() -> Strings:
    """A table that has no string yet, with room for a few."""
    starts, table, used = np.zeros(1 << 8, np.int64), np.full(1 << 9, NOWHERE, np.int64), np.zeros(2, np.int64)
    return Strings(np.zeros(1 << 12, np.uint8), starts, table, used)


@part
def _home_of(text: Array, start: int, end: int) -> int:
    """Where the search for a string begins, before the size of a table cuts it down: 31 bits."""
    # As in `hashing`, no product leaves 62 bits.
    code, at = end - start, start
    while at + _STEP <= end:
        word = int(text[at]) | int(text[at + 1]) << 8 | int(text[at + 2]) << 16 | int(text[at + 3]) << 24
        code = ((code ^ word) & 0x7FFFFFFF) * 0x2C1B3C6D
        code ^= code >> 29
        at += _STEP
    while at < end:
        code = ((code ^ int(text[at])) & 0x7FFFFFFF) * 0x297A2D39
        code ^= code >> 29
        at += 1
    return (code ^ (code >> 15)) & 0x7FFFFFFF


@part
def _place_of(strings: Strings, text: Array, start: int, size: int, home: int) -> int:
    """Where a string is in the table, or where it would go."""
    mask = len(strings.table) - 1
    place = home & mask
    while strings.table[place] >= 0:
        if strings.table[place] >> _BITS == home:
            known = strings.table[place] & _NUMBER
            first = strings.starts[known]
            same = strings.starts[known + 1] - first == size
            for i in range(size if same else 0):
                if strings.pool[first + i] != text[start + i]:
                    same = False
                    break
            if same:
                return int(place)
        place = (place + 1) & mask
    return int(place)


@part
def _enter(strings: Strings, place: int, home: int, size: int) -> None:
    """A new string has a number now; its bytes are behind the others."""
    known = strings.used[0]
    strings.table[place] = home << _BITS | known
    strings.used[0] += 1
    strings.used[1] += size
    strings.starts[known + 1] = strings.used[1]


@part
def number_of(strings: Strings, text: Array, start: int, end: int, new: bool) -> int:
    """The number of a string; if it has none a new one, or `NOWHERE`."""
    home = _home_of(text, start, end)
    place = _place_of(strings, text, start, end - start, home)
    if strings.table[place] < 0:
        if not new:
            return NOWHERE
        first = strings.used[1]
        for i in range(end - start):
            strings.pool[first + i] = text[start + i]
        _enter(strings, place, home, end - start)
    return int(strings.table[place] & _NUMBER)


@kernel
def _put_again(table: Ints, wider: Ints) -> None:
    """Find places for what is in a table in one that is empty."""
    mask = len(wider) - 1
    for i in range(len(table)):
        if table[i] >= 0:
            place = (table[i] >> _BITS) & mask
            while wider[place] >= 0:
                place = (place + 1) & mask
            wider[place] = table[i]


@kernel
def _number_there(strings: Strings, starts: Array, shift: int, found: Ints) -> None:
    """The numbers of strings that lie behind those that are known already; ``shift``: how far from where they begin."""
    pool = strings.pool
    for i in range(len(found)):
        start, size = int(starts[i]) + shift, int(starts[i + 1]) - int(starts[i])
        home = _home_of(pool, start, start + size)
        place = _place_of(strings, pool, start, size, home)
        if strings.table[place] < 0:
            first = strings.used[1]
            if first < start:
                for at in range(size):
                    pool[first + at] = pool[start + at]
            _enter(strings, place, home, size)
        found[i] = strings.table[place] & _NUMBER
    for at in range(strings.used[1], int(starts[len(found)]) + shift):
        pool[at] = 0


def number_all(strings: Strings, text: Array, starts: Array, found: Ints) -> None:
    """The numbers of strings that lie one behind the other; `with_room` has made room for them.

    Mostly they are new: all are put behind the others at once, and moved together where some are not.
    """
    first, end, taken = int(starts[0]), int(starts[-1]), int(strings.used[1])
    strings.pool[taken : taken + end - first] = text[first:end]
    _number_there.compiled(strings, starts, taken - first, found)


def _copied(array: Array, used: int, size: int) -> Array:
    """A longer array with what is used of this one. The zeros behind it take no memory until they are written to."""
    longer = np.zeros(size, array.dtype)
    longer[:used] = array[:used]
    return longer


def with_room(strings: Strings, more: int, size: int) -> Strings:
    """The same with room for so many strings more, of so many bytes. What reads the former may go on doing so."""
    pool, starts, table, used = strings
    count, taken = map(int, used)
    if taken + size + ROOM > len(pool):
        pool = _copied(pool, taken, taken + 2 * size + 2 * len(pool) + ROOM)
    if count + more + 1 >= len(starts):
        starts = _copied(starts, count + 1, len(starts) + max(more + 1, len(starts)))
    if 2 * (count + more) <= len(table):
        return Strings(pool, starts, table, used)
    wider = np.full(4 << (count + more - 1).bit_length(), NOWHERE, np.int64)
    _put_again.compiled(table, wider)
    return Strings(pool, starts, wider, used)
