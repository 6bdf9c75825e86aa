"""The algorithm over arrays: who appended what, what is known to be where, and whether the bounds agree.

`judge` takes operations one by one; `judge_log` takes them put together by value and by offset, as the fold keeps them.
Sources: history-checks.md#bind-offsets, history-checks.md#lower-bounds, history-checks.md#upper-bounds,
history-checks.md#fill-holes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from ..columns import Array, Ints
from ..contract import Violation
from .bounds import ALWAYS, Bounds, Ends, Violations, ascending, compare
from .rules import CHECK


class Outcome(IntEnum):
    """How an append ended, as its client was told."""

    OK = 0
    UNKNOWN = 1
    FAILED = 2


class Appends(NamedTuple):
    """One row per append: value, times, how it ended; ``offset`` and ``last`` are -1 where the answer named none."""

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


class Values(NamedTuple):
    """The distinct values that were appended; several appends of one value count as one."""

    value: Ints
    invoked: Ints  # the first time
    invoked_seq: Ints
    failed: Array  # every time
    unknown: Array  # it may be somewhere, nobody knows where


class Entries(NamedTuple):
    """Every entry that was named, and the earliest time at which it was known to be there. Each is one row."""

    offset: Ints
    last: Ints
    value: Ints
    latest: Ints
    latest_seq: Ints
    row: Ints  # of its value in `Values`; -1: never appended

    def where(self, mask: Array) -> Entries:
        """Those that ``mask`` selects, by truth or by position."""
        return Entries(*(column[mask] for column in self))

    def violation(self, way: str, i: int, seq: int, **fields: object) -> Violation:
        """What entry ``i`` shows, with its event and one more; ``fields`` beside its value and offset."""
        named = {"value": self.value[i], "offset": self.offset[i]} | fields
        return CHECK.violation((int(seq), int(self.latest_seq[i])), way, **named)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What `judge` found out about one log."""

    judged: int
    """Entries and ends."""
    violations: tuple[Violation, ...]
    """The first ones."""
    violated: int
    excused: int
    """Gaps that were left alone because the log is not dense."""


def judge(
    appends: Appends, reads: Reads, ends: Ends, *, dense: bool = True, once: bool = True, keep: int = 10
) -> Judgement:
    """Judge one log.

    ``dense`` says that every offset holds an entry of one of the appends. Otherwise a hole may be filled with anything
    (control records, what was compacted, entries of other writers) and is left out. ``once`` says that a value is at
    one offset at most. ``keep`` violations are described, all are counted. Cost: a few sorts.
    """
    values = _values(appends)
    entries = _entries(appends, reads, values)
    return judge_log(values, entries, ends, len(ends.offset), dense=dense, once=once, keep=keep)


def judge_log(
    values: Values, entries: Entries, ends: Ends, judged_ends: int, *, dense: bool, once: bool, keep: int
) -> Judgement:
    """Judge one log, put together by value and by offset; ``judged_ends`` is how many ends there were in all."""
    found = Violations(keep)
    entries = in_order(entries)
    _conflicts(entries, once, found)
    known = entries.row >= 0
    found.each(~known, lambda i: entries.violation("never appended", i, -1))
    failed = _taken(values.failed, entries.row, known, False)
    invoked_seq = _taken(values.invoked_seq, entries.row, known, -1)
    found.each(failed, lambda i: entries.violation("failed", i, invoked_seq[i]))

    earliest = Bounds(entries.offset, _taken(values.invoked, entries.row, known, ALWAYS), invoked_seq)
    counted = ends.offset[ends.reaches]
    top = max(int(entries.last.max(initial=-1)) + 1, int(counted.max(initial=0)))
    starts, lengths = _gaps(entries.offset, entries.last, top)
    if dense and len(starts):
        free = values.unknown.copy()
        free[entries.row[known]] = False
        pool = np.flatnonzero(free)
        pool = pool[np.lexsort((values.value[pool], values.invoked[pool]))]
        holes, total = _holes(starts, lengths, len(pool))
        if total > len(pool):
            events = [*entries.latest_seq[-1:].tolist(), *ends.completed_seq[-1:].tolist()]
            found.add(CHECK.violation(events, "holes", end=top, holes=total, appends=len(pool)))
        filled = pool[: len(holes)]
        earliest = earliest.and_also(Bounds(holes, values.invoked[filled], values.invoked_seq[filled]))
    compare(earliest, Bounds(entries.offset, entries.latest, entries.latest_seq), ends, found)
    _parts(entries, ends, found)
    excused = 0 if dense else len(starts)
    return Judgement(len(entries.offset) + judged_ends, tuple(found.kept), found.count, excused)


def _parts(entries: Entries, ends: Ends, found: Violations) -> None:
    """Tails that count a part of a batch, which is appended at once."""
    before = np.searchsorted(entries.offset, ends.offset, side="left") - 1
    inside = ends.reaches & (before >= 0)
    inside[inside] = entries.last[before[inside]] >= ends.offset[inside]

    def word(i: int) -> Violation:
        at = int(before[i])
        return entries.violation("part", at, ends.completed_seq[i], tail=ends.offset[i], last=entries.last[at])

    found.each(inside, word)


def _values(appends: Appends) -> Values:
    """By value, ascending."""
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
    return Values(value[starts], appends.invoked[first], appends.invoked_seq[first], failed, unknown)


def _entries(appends: Appends, reads: Reads, values: Values) -> Entries:
    """What acknowledgements and reads say is where, each entry once."""
    placed = (appends.outcome == Outcome.OK) & (appends.offset >= 0)
    value = np.concatenate([appends.value[placed], reads.value])
    places, known = found_in(values.value, value)
    return distinct(
        Entries(
            np.concatenate([appends.offset[placed], reads.offset]),
            np.concatenate([appends.last[placed], reads.last]),
            value,
            np.concatenate([appends.completed[placed], reads.completed]),
            np.concatenate([appends.completed_seq[placed], reads.completed_seq]),
            np.where(known, places, -1),
        )
    )


def distinct(entries: Entries) -> Entries:
    """Each entry once, with the earliest of its times; in order of offset, last offset and value."""
    entries = entries.where(np.lexsort((entries.latest, entries.value, entries.last, entries.offset)))
    first = np.ones(len(entries.offset), dtype=bool)
    first[1:] = np.any([np.diff(column) != 0 for column in entries[:3]], axis=0)
    return entries if first.all() else entries.where(first)


def in_order(entries: Entries) -> Entries:
    """In order of offset, last offset and value."""
    order = ascending(entries.offset)
    if order is not None:
        entries = entries.where(order)
    if bool((entries.offset[1:] == entries.offset[:-1]).any()):
        entries = entries.where(np.lexsort((entries.value, entries.last, entries.offset)))
    return entries


def _conflicts(entries: Entries, once: bool, found: Violations) -> None:
    """Two entries at one offset, and (``once``) one value at two offsets."""
    overlap = np.zeros(len(entries.offset), dtype=bool)
    overlap[1:] = entries.offset[1:] <= np.maximum.accumulate(entries.last)[:-1]
    found.each(
        overlap,
        lambda i: entries.violation(
            "two values", i, entries.latest_seq[i - 1], first=entries.value[i - 1], second=entries.value[i]
        ),
    )
    if not once or len(entries.offset) < 2:
        return
    order = ascending(entries.value)
    value = entries.value if order is None else entries.value[order]
    again = np.flatnonzero(value[1:] == value[:-1])
    if not len(again):
        return
    order = np.lexsort((entries.offset, entries.value))
    again = np.flatnonzero((np.diff(entries.value[order]) == 0) & (np.diff(entries.offset[order]) != 0))
    before, after = order[again], order[again + 1]
    found.each(
        np.ones(len(again), dtype=bool),
        lambda k: entries.violation(
            "two offsets",
            after[k],
            entries.latest_seq[before[k]],
            first=entries.offset[before[k]],
            second=entries.offset[after[k]],
        ),
    )


def found_in(ascending_keys: Ints, wanted: Ints) -> tuple[Ints, Array]:
    """Where the wanted keys are among ascending ones, and whether they are there at all."""
    if not len(ascending_keys):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    places = np.minimum(np.searchsorted(ascending_keys, wanted), len(ascending_keys) - 1)
    return places, ascending_keys[places] == wanted


def _taken(column: Array, places: Ints, known: Array, otherwise: int | np.int64) -> Array:
    """A column at some places, and something else where they are not known."""
    if known.all():
        result: Array = column[places]
        return result
    result = np.full(len(places), otherwise, dtype=column.dtype)
    result[known] = column[places[known]]
    return result


def _gaps(offset: Ints, last: Ints, top: int) -> tuple[Ints, Ints]:
    """First offset and length of every run of offsets below ``top`` that no entry covers."""
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.maximum.accumulate(last) + 1])
    length = np.concatenate([offset, [top]]) - ends
    return ends[length > 0], length[length > 0]


def _holes(starts: Ints, lengths: Ints, most: int) -> tuple[Ints, int]:
    """The first ``most`` offsets in the gaps, and how many there are in all. A gap of billions costs nothing."""
    taken = np.minimum(np.cumsum(np.minimum(lengths, most)), most)
    counts = np.diff(taken, prepend=0)
    holes = np.repeat(starts - (taken - counts), counts) + np.arange(int(counts.sum()))
    return holes, sum(lengths.tolist())
