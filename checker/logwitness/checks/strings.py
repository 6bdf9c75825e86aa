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
ROOM = 64
"""Zeros behind the last string at least, so that who reads it finds an end there."""


class Strings(NamedTuple):
    """Strings one behind the other, in the order of their numbers; ``used``: how many, and how many bytes they take."""

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
    """Where the search for a string begins, before the size of a table cuts it down."""
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
    return code ^ (code >> 15)


@part
def number_of(strings: Strings, text: Array, start: int, end: int, new: bool) -> int:
    """The number of a string; if it has none a new one, or `NOWHERE`."""
    mask = len(strings.table) - 1
    place = _home_of(text, start, end) & mask
    size = end - start
    while strings.table[place] >= 0:
        known = strings.table[place]
        first = strings.starts[known]
        if strings.starts[known + 1] - first == size:
            same = True
            for i in range(size):
                if strings.pool[first + i] != text[start + i]:
                    same = False
                    break
            if same:
                return int(known)
        place = (place + 1) & mask
    if not new:
        return NOWHERE
    known, first = strings.used[0], strings.used[1]
    for i in range(size):
        strings.pool[first + i] = text[start + i]
    strings.starts[known + 1] = first + size
    strings.table[place] = known
    strings.used[0] += 1
    strings.used[1] += size
    return int(known)


@kernel
def _number_again(strings: Strings) -> None:
    """Find places for all strings in a table that is empty."""
    mask = len(strings.table) - 1
    for known in range(strings.used[0]):
        place = _home_of(strings.pool, strings.starts[known], strings.starts[known + 1]) & mask
        while strings.table[place] >= 0:
            place = (place + 1) & mask
        strings.table[place] = known


@kernel
def number_all(strings: Strings, text: Array, starts: Array, found: Ints) -> None:
    """The numbers of strings that lie one behind the other; `with_room` has made room for them."""
    for i in range(len(found)):
        found[i] = number_of(strings, text, int(starts[i]), int(starts[i + 1]), True)


def with_room(strings: Strings, more: int, size: int) -> Strings:
    """The same with room for so many strings more, of so many bytes. What reads the former may go on doing so."""
    pool, starts, table, used = strings
    count, taken = map(int, used)
    if taken + size + ROOM > len(pool):
        pool = np.concatenate((pool[:taken], np.zeros(2 * size + 2 * len(pool) + ROOM, np.uint8)))
    if count + more + 1 >= len(starts):
        starts = np.concatenate((starts, np.zeros(max(more + 1, len(starts)), np.int64)))
    if 2 * (count + more) <= len(table):
        return Strings(pool, starts, table, used)
    wider = Strings(pool, starts, np.full(4 << (count + more).bit_length(), NOWHERE, np.int64), used)
    _number_again.compiled(wider)
    return wider
