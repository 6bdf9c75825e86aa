"""Whether the operations of clients on one log are linearizable, in the time of a sort.

A general search is exponential here; offsets make it polynomial (history-checks.md, "Linearizable log"). For every
offset o let e[o] be the earliest and l[o] the latest time at which its entry can have come into the log:

- e[o] is the invocation of its append; a read that found nothing at o, or a tail of o entries, raises it to its own
  invocation: the entry came later than that.
- l[o] is the completion of its append, for ever if its outcome is unknown; a read of o, or a tail of o + 1 entries,
  lowers it to its own completion: the entry was there by then.

Entries come in the order of their offsets. So the log is linearizable iff everywhere the prefix maximum of e is at most
the suffix minimum of l. Offsets below the end that nobody named are holes; appends of unknown outcome fill them, in
the order of their invocation: they have no deadline and l does not decrease, so no other order does better. Prefix
maximum and suffix minimum are associative, which lets one log be split by ranges of offsets.

Two parts: `judge` over arrays, the algorithm; `LinearizableLogFold`, which finds those arrays in a history. Only what
acks=all (or no acks level at all) promises is judged. Times are closed intervals: what happens at equal time stamps is
concurrent. A history whose clock stands still is ordered by ``seq``.

What is left to `clients`: anomalies by their names, and everything about the other acks levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from loghistory.schema import Kind

from .codes import (
    ACKS_ALL,
    APPEND,
    COMPACT,
    F_APPEND,
    F_FINAL_READ,
    F_READ,
    F_READ_COMMITTED,
    F_TAIL,
    FAIL,
    INFO,
    INVOKE,
    NO_ACKS,
    NULL,
    OBSERVE,
    OK,
    TRIM,
)
from .columns import Array, Columns, Ints
from .contract import Check, Family, Setting, Verdicts, Violation, outcome

CHECK = Check(
    "linearizable-log",
    "Appends, reads and tails take effect one after the other, each between its invocation and its completion.",
    "history-checks.md, Linearizable log, near linear time",
    "an offset whose entry is known, or a tail",
    (Kind.INVOKE, Kind.OK),
    ("process", "op", "f", "offset", "value"),
)

NEVER = np.int64((1 << 63) - 1)
"""The completion of an operation whose outcome is unknown."""
ALWAYS = np.int64(-(1 << 63))


class Outcome(IntEnum):
    """How an append ended."""

    OK = 0
    UNKNOWN = 1
    FAILED = 2


class Appends(NamedTuple):
    """One row an append: its value, times and how it ended; ``offset`` and ``last`` are -1 where it was not told."""

    value: Ints
    invoked: Ints
    completed: Ints  # NEVER if its outcome is unknown
    outcome: Array
    offset: Ints
    last: Ints  # of the batch: the same as offset for one entry
    invoked_seq: Ints
    completed_seq: Ints


class Reads(NamedTuple):
    """One row a batch that a read returned."""

    value: Ints
    offset: Ints
    last: Ints
    completed: Ints
    completed_seq: Ints


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


@dataclass(frozen=True, slots=True)
class Judgement:
    """What `judge` found: offsets and tails judged, holes and values left alone, and violations as sentence and events."""

    judged: int
    violations: tuple[tuple[str, tuple[int, ...]], ...]
    violated: int
    excused: int = 0


class _Values(NamedTuple):
    """The distinct values that were appended, ascending; several appends of one value count as one."""

    value: Ints
    invoked: Ints
    invoked_seq: Ints
    failed: Array
    unknown: Array


def judge(appends: Appends, reads: Reads, ends: Ends, *, dense: bool = True, keep: int = 10) -> Judgement:
    """Judge one log.

    ``dense`` says that every offset holds an entry of one of the appends. Otherwise a hole may be filled with anything
    (control records, what was compacted, entries of other writers) and is left out. ``keep`` violations are told, all
    are counted. Cost: a few sorts.
    """
    found = _Violations(keep)
    values = _values(appends)
    offset, last, value, latest, latest_seq = _bindings(appends, reads, found)
    places, known = _find(values.value, value)
    found.each(~known, lambda i: (f"Value {value[i]} was read at offset {offset[i]} but never appended", [latest_seq[i]]))
    aborted = known & values.failed[places]
    found.each(
        aborted,
        lambda i: (
            f"Value {value[i]} was read at offset {offset[i]} although its append failed",
            [values.invoked_seq[places[i]], latest_seq[i]],
        ),
    )
    earliest = np.where(known, values.invoked[places] if len(values.value) else ALWAYS, ALWAYS)
    earliest_seq = np.where(known, values.invoked_seq[places] if len(values.value) else -1, -1)

    counted = ends.offset[ends.reaches]
    top = max(int(last.max()) + 1 if len(last) else 0, int(counted.max()) if len(counted) else 0)
    excused = 0
    if dense:
        free = values.unknown.copy()
        free[places[known]] = False
        order = np.flatnonzero(free)
        order = order[np.argsort(values.invoked[order], kind="stable")]
        holes, missing = _holes(offset, last, top, len(order))
        if missing:
            found.add(
                f"{missing + len(holes)} offsets below {top} hold none of the known entries, but only {len(order)} appends "
                "of unknown outcome could fill them: entries are lost",
                [int(s) for s in (latest_seq[-1:] if len(latest_seq) else ends.completed_seq[-1:])],
            )
        fill = order[: len(holes)]
        offset = np.concatenate([offset, holes])
        earliest = np.concatenate([earliest, values.invoked[fill]])
        earliest_seq = np.concatenate([earliest_seq, values.invoked_seq[fill]])
        latest = np.concatenate([latest, np.full(len(holes), NEVER)])
        latest_seq = np.concatenate([latest_seq, np.full(len(holes), -1)])
    else:
        excused = _hole_runs(offset, last, top)

    _bounds(offset, (earliest, earliest_seq), (latest, latest_seq), ends, found)
    return Judgement(len(value) + len(ends.offset), tuple(found.told), found.count, excused)


class _Violations:
    """Counts violations and words the first few."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.count = 0
        self.told: list[tuple[str, tuple[int, ...]]] = []

    def add(self, sentence: str, events: list[int]) -> None:
        """One more."""
        self.count += 1
        if len(self.told) < self.keep:
            self.told.append((sentence + ".", tuple(sorted({int(seq) for seq in events if seq >= 0}))))

    def each(self, mask: Array, word: object) -> None:
        """One for every true place of ``mask``, worded by a function of the place."""
        places = np.flatnonzero(mask)
        self.count += max(0, len(places) - self.keep)
        for place in places[: self.keep].tolist():
            self.add(*word(place))  # type: ignore[operator]


def _values(appends: Appends) -> _Values:
    order = np.lexsort((appends.invoked, appends.value))
    value = appends.value[order]
    starts = np.flatnonzero(np.diff(value, prepend=value[:1] - 1)) if len(value) else np.zeros(0, dtype=np.int64)
    failed = appends.outcome[order] == Outcome.FAILED
    unknown = appends.outcome[order] == Outcome.UNKNOWN
    if len(value):
        failed = np.logical_and.reduceat(failed, starts)
        # Acknowledged without an offset and never read: it is somewhere, nobody knows where.
        unplaced = (appends.outcome[order] == Outcome.OK) & (appends.offset[order] < 0)
        unknown = np.logical_or.reduceat(unknown | unplaced, starts)
    first = order[starts]
    return _Values(value[starts], appends.invoked[first], appends.invoked_seq[first], failed, unknown)


def _bindings(appends: Appends, reads: Reads, found: _Violations) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Offset, last offset, value, latest time and its event of every entry that was named, ascending by offset."""
    told = (appends.outcome == Outcome.OK) & (appends.offset >= 0)
    offset = np.concatenate([appends.offset[told], reads.offset])
    last = np.concatenate([appends.last[told], reads.last])
    value = np.concatenate([appends.value[told], reads.value])
    latest = np.concatenate([appends.completed[told], reads.completed])
    seq = np.concatenate([appends.completed_seq[told], reads.completed_seq])
    order = np.lexsort((latest, value, offset))
    offset, last, value, latest, seq = offset[order], last[order], value[order], latest[order], seq[order]
    if len(offset):
        first = np.ones(len(offset), dtype=bool)
        first[1:] = (offset[1:] != offset[:-1]) | (value[1:] != value[:-1]) | (last[1:] != last[:-1])
        offset, last, value, latest, seq = offset[first], last[first], value[first], latest[first], seq[first]
    furthest = np.maximum.accumulate(last) if len(last) else last
    overlap = np.zeros(len(offset), dtype=bool)
    overlap[1:] = offset[1:] <= furthest[:-1]
    found.each(
        overlap,
        lambda i: (
            f"Offset {offset[i]} holds value {value[i]}, but also value {value[i - 1]} of the entry at {offset[i - 1]}",
            [seq[i - 1], seq[i]],
        ),
    )
    by_value = np.lexsort((offset, value))
    twice = np.zeros(len(offset), dtype=bool)
    same = (value[by_value][1:] == value[by_value][:-1]) & (offset[by_value][1:] != offset[by_value][:-1])
    before = np.zeros(len(offset), dtype=np.int64)
    twice[by_value[1:][same]] = True
    before[by_value[1:][same]] = by_value[:-1][same]
    found.each(
        twice,
        lambda i: (f"Value {value[i]} is at offset {offset[before[i]]} and at offset {offset[i]}", [seq[before[i]], seq[i]]),
    )
    return offset, last, value, latest, seq


def _find(ascending: Ints, wanted: Ints) -> tuple[Ints, Array]:
    """Where the wanted values are among ascending ones, and whether they are there at all."""
    if not len(ascending):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return places, ascending[places] == wanted


def _gaps(offset: Ints, last: Ints, top: int) -> tuple[Ints, Ints]:
    """First offset and length of every run of offsets below ``top`` that no entry covers."""
    ends = np.concatenate([[0], np.maximum.accumulate(last) + 1]) if len(last) else np.zeros(1, dtype=np.int64)
    starts = np.concatenate([offset, [max(top, int(ends[-1]))]])
    length = np.maximum(starts - ends, 0)
    return ends[length > 0], length[length > 0]


def _holes(offset: Ints, last: Ints, top: int, most: int) -> tuple[Ints, int]:
    """The first ``most`` holes, and how many more there are. Costs nothing for a gap of billions."""
    starts, lengths = _gaps(offset, last, top)
    total = sum(lengths.tolist())  # Python's integers: 64 bits may not do
    taken = np.minimum(np.cumsum(np.minimum(lengths, most)), most) if len(lengths) else lengths
    counts = np.diff(taken, prepend=0)
    firsts = np.repeat(starts - (taken - counts), counts)
    holes = firsts + np.arange(len(firsts))
    return holes, total - len(holes)


def _hole_runs(offset: Ints, last: Ints, top: int) -> int:
    return len(_gaps(offset, last, top)[0])


def _bounds(
    offset: Ints, earliest: tuple[Ints, Ints], latest: tuple[Ints, Ints], ends: Ends, found: _Violations
) -> None:
    """Compare the prefix maximum of e with the suffix minimum of l over entries and ends together.

    An end at n sits between the entries n - 1 and n: its invocation counts for what is behind it, its completion, if it
    reaches, for what is before it.
    """
    count, more = len(offset), len(ends.offset)
    # At an equal offset: lower bounds of ends come before the entry, so that the prefix at the entry has them; deadlines of
    # ends belong to the entry before, so a suffix from there has them.
    place = np.concatenate([2 * np.minimum(offset, 1 << 61) + 1, 2 * np.minimum(ends.offset, 1 << 61)])
    order = np.argsort(place, kind="stable")
    e = np.concatenate([earliest[0], ends.invoked])[order]
    e_seq = np.concatenate([earliest[1], ends.invoked_seq])[order]
    l_ = np.concatenate([latest[0], np.where(ends.reaches, ends.completed, NEVER)])[order]
    l_seq = np.concatenate([latest[1], ends.completed_seq])[order]
    is_end = np.concatenate([np.zeros(count, dtype=bool), np.ones(more, dtype=bool)])[order]
    if not len(e):
        return
    high = np.maximum.accumulate(e)
    low = np.minimum.accumulate(l_[::-1])[::-1]
    # Only an entry's own offset compares the two: an end is no entry.
    bad = np.flatnonzero((high > low) & ~is_end)
    if not len(bad):
        return
    # For each: the first place that reaches the maximum, and the last that reaches the minimum.
    late = np.searchsorted(high, high[bad], side="left")
    soon = len(low) - 1 - np.searchsorted(-low[::-1], -low[bad], side="left")
    pairs = np.unique(np.stack([late, soon], axis=1), axis=0)
    where = place[order] // 2

    def word(i: int) -> tuple[str, list[int]]:
        a, b = pairs[i].tolist()
        behind = f"the log was stated to end at {where[a]}" if is_end[a] else f"the entry at offset {where[a]} was invoked"
        before = f"a tail of {where[b]} entries was given" if is_end[b] else f"offset {where[b]} was known to be filled"
        return f"Before {behind}, {before}", [int(e_seq[a]), int(l_seq[b])]

    found.each(np.ones(len(pairs), dtype=bool), word)
