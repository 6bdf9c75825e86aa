"""Times that bound when entries came, compared along the log: at once, or range by range of offsets.

A bound is e or l of some offset (see the package). The log is linearizable iff no e is greater than an l of its own
place or of one behind it; a violation is a pair of such bounds. `range_of` gives what the comparison of one range of
offsets says and leaves to others, `merge` puts two neighbours together. Merging is associative, so any tree
of ranges gives the verdict of the whole log. Sources: history-checks.md#pairwise-bounds,
history-checks.md#splits-by-range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np

from ..columns import Array, Ints
from ..contract import Violation
from ..sentences import worded
from .rules import CHECK

NEVER = np.int64((1 << 63) - 1)
"""The completion of an operation whose outcome is unknown."""
ALWAYS = np.int64(-(1 << 63))


class Bounds(NamedTuple):
    """Times that bound when the entries at some offsets came, and the events that say so."""

    offset: Ints
    time: Ints
    seq: Ints

    def and_also(self, more: Bounds) -> Bounds:
        """These bounds and more, in no particular order."""
        return Bounds(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))

    def where(self, mask: Array) -> Bounds:
        """Those that ``mask`` selects, by truth or by position."""
        return Bounds(*(column[mask] for column in self))


class Ends(NamedTuple):
    """One row a statement that the log was not longer than ``offset`` when ``invoked``.

    A tail of n entries says it about n, and if it ``reaches`` also that entry n - 1 was there when it completed. A
    read that found nothing at n only says the first.
    """

    offset: Ints
    invoked: Ints
    completed: Ints
    reaches: Array
    invoked_seq: Ints
    completed_seq: Ints


class Violations:
    """Counts violations and words the first few."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.count = 0
        self.kept: list[Violation] = []

    def add(self, violation: Violation) -> None:
        """Count one more, and keep it if it is among the first."""
        self.count += 1
        if len(self.kept) < self.keep:
            self.kept.append(violation)

    def each(self, mask: Array, word: Callable[[int], Violation]) -> None:
        """One for every true place of ``mask``, worded by a function of the place."""
        places = np.flatnonzero(mask)
        self.count += max(0, len(places) - self.keep)
        for place in places[: self.keep].tolist():
            self.add(word(place))


class _Line(NamedTuple):
    """Times in the order of their places along the log, and the bounds of entries and of ends that they belong to."""

    place: Ints
    time: Ints
    order: Ints | None  # which of the bounds, entries first, is at each place; None: they are in order
    entries: Bounds
    ends: Bounds


class Extreme(msgspec.Struct, frozen=True):
    """One bound that faces the neighbours of a range: the greatest e, or the smallest l."""

    time: int
    seq: int
    offset: int
    entry: bool
    """Whether it is about an entry, not about the end of the log."""


class Range(msgspec.Struct, frozen=True):
    """What the bounds of one range of offsets say; see `range_of`."""

    violated: int
    """Pairs of bounds found wrong so far; a pair across ranges counts once a merge."""
    violations: tuple[Violation, ...]
    high: Extreme | None
    """Its greatest e; None: it has none."""
    low: Extreme | None
    """Its smallest l."""


def ascending(keys: Ints) -> Ints | None:
    """The order that sorts ``keys``, equal ones as they are; None if they are sorted already."""
    if len(keys) < 2 or bool((keys[1:] >= keys[:-1]).all()):
        return None
    return np.argsort(keys, kind="stable")


def _line(entries: Bounds, ends: Bounds, place_of_end: int) -> _Line:
    """Bounds of entries and of ends, in order. A place is three times an offset and what part of it is meant.

    An end at n sits between the entries n - 1 and n. Its completion bounds what is before it and its invocation what
    is behind it, so in one row of places these three follow each other: completion at n, invocation at n, entry n.
    """
    place = np.concatenate([3 * entries.offset + 2, 3 * ends.offset + place_of_end])
    time = np.concatenate([entries.time, ends.time])
    order = ascending(place)
    if order is not None:
        place, time = place[order], time[order]
    return _Line(place, time, order, entries, ends)


def _lines(earliest: Bounds, latest: Bounds, ends: Ends) -> tuple[_Line, _Line]:
    reached = Bounds(ends.offset, ends.completed, ends.completed_seq).where(ends.reaches)
    return (
        _line(earliest, Bounds(ends.offset, ends.invoked, ends.invoked_seq), 1),
        _line(latest, reached, 0),
    )


def compare(earliest: Bounds, latest: Bounds, ends: Ends, found: Violations) -> None:
    """Compare the prefix maximum of e with the suffix minimum of l, everywhere."""
    _compare(*_lines(earliest, latest, ends), found)


def _compare(e: _Line, l_: _Line, found: Violations) -> None:
    high = np.maximum.accumulate(e.time)
    low = np.minimum.accumulate(np.append(l_.time, NEVER)[::-1])[::-1]
    # Every e is compared with the l of its own place and all behind it.
    facing = np.searchsorted(l_.place, e.place, side="left")
    bad = np.flatnonzero(high > low[facing])
    if not len(bad):
        return
    # Many places tell of one pair: the first that reaches the maximum and the last that reaches the minimum.
    late = np.searchsorted(high, high[bad], side="left")
    soon = np.searchsorted(low[:-1], low[facing[bad]], side="right") - 1
    pairs = np.unique(np.stack([late, soon], axis=1), axis=0)
    found.each(np.ones(len(pairs), dtype=bool), lambda i: _worded(_extreme(e, pairs[i, 0]), _extreme(l_, pairs[i, 1])))


def _extreme(line: _Line, place: int | np.intp) -> Extreme:
    row = int(place if line.order is None else line.order[place])
    is_entry = row < len(line.entries.offset)
    bounds, row = (line.entries, row) if is_entry else (line.ends, row - len(line.entries.offset))
    return Extreme(int(bounds.time[row]), int(bounds.seq[row]), int(bounds.offset[row]), is_entry)


def _worded(late: Extreme, soon: Extreme) -> Violation:
    entries = worded("{entries:entry|entries}", {"entries": soon.offset})
    known = f"offset {soon.offset} was filled" if soon.entry else f"the log had {entries}"
    later = (
        f"did the append begin whose entry comes before it, at offset {late.offset}"
        if late.entry
        else f"was a tail or read asked for that found the end of the log at {late.offset}"
    )
    return CHECK.violation((late.seq, soon.seq), "too late", known=known, later=later)


def range_of(earliest: Bounds, latest: Bounds, ends: Ends, *, keep: int = 10) -> Range:
    """What one range of offsets says: ``earliest`` and ``latest`` of its entries, and the ends at its offsets.

    Rows may come in any order. ``keep`` violations are described, all are counted.
    """
    found = Violations(keep)
    e, l_ = _lines(earliest, latest, ends)
    _compare(e, l_, found)
    high = _extreme(e, np.argmax(e.time)) if len(e.time) else None
    low = _extreme(l_, len(l_.time) - 1 - np.argmin(l_.time[::-1])) if len(l_.time) else None
    return Range(found.count, tuple(found.kept), high, low)


def merge(left: Range, right: Range, *, keep: int = 10) -> Range:
    """Two neighbouring ranges as one; all offsets of ``left`` are below those of ``right``."""
    found = Violations(keep)
    if left.high is not None and right.low is not None and left.high.time > right.low.time:
        found.add(_worded(left.high, right.low))
    high, low = left.high, right.low
    if high is None or (right.high is not None and right.high.time > high.time):
        high = right.high
    if low is None or (left.low is not None and left.low.time < low.time):
        low = left.low
    kept = (*left.violations, *found.kept, *right.violations)
    return Range(left.violated + found.count + right.violated, kept[:keep], high, low)
