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

from collections.abc import Callable
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
    ("op", "f", "offset", "value"),
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
    """What `judge` found."""

    judged: int
    """Entries and ends."""
    violations: tuple[tuple[str, tuple[int, ...]], ...]
    """The first ones, as sentence and events."""
    violated: int
    excused: int
    """Gaps that were left alone because the log is not dense."""


class Bounds(NamedTuple):
    """Times that bound when the entries at some offsets came, and the events that say so."""

    offset: Ints
    time: Ints
    seq: Ints

    def and_also(self, more: Bounds) -> Bounds:
        """Both together."""
        return Bounds(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))


class _Entries(NamedTuple):
    """Every entry that was named, ascending by offset, and the earliest time at which it was known to be there."""

    offset: Ints
    last: Ints
    value: Ints
    latest: Ints
    latest_seq: Ints

    def told(self, sentence: str, i: int, seq: int) -> tuple[str, list[int]]:
        """A sentence about the value and offset of entry ``i``, with its event and one more."""
        return "Value " + sentence.format(self.value[i], self.offset[i]), [int(seq), int(self.latest_seq[i])]


class _Values(NamedTuple):
    """The distinct values that were appended, ascending; several appends of one value count as one."""

    value: Ints
    invoked: Ints
    invoked_seq: Ints
    failed: Array
    unknown: Array


def judge(
    appends: Appends, reads: Reads, ends: Ends, *, dense: bool = True, once: bool = True, keep: int = 10
) -> Judgement:
    """Judge one log.

    ``dense`` says that every offset holds an entry of one of the appends. Otherwise a hole may be filled with anything
    (control records, what was compacted, entries of other writers) and is left out. ``once`` says that a value is at
    one offset at most. ``keep`` violations are told, all are counted. Cost: a few sorts.
    """
    found = _Violations(keep)
    values = _values(appends)
    entries = _entries(appends, reads, once, found)
    places, known = _find(values.value, entries.value)
    found.each(~known, lambda i: entries.told("{} was read at offset {} but never appended", i, -1))
    failed = _taken(values.failed, places, known, False)
    invoked_seq = _taken(values.invoked_seq, places, known, -1)
    found.each(failed, lambda i: entries.told("{} was read at offset {} although its append failed", i, invoked_seq[i]))

    earliest = Bounds(entries.offset, _taken(values.invoked, places, known, ALWAYS), invoked_seq)
    counted = ends.offset[ends.reaches]
    top = max(int(entries.last.max(initial=-1)) + 1, int(counted.max(initial=0)))
    starts, lengths = _gaps(entries.offset, entries.last, top)
    if dense and len(starts):
        free = values.unknown.copy()
        free[places[known]] = False
        pool = np.flatnonzero(free)
        pool = pool[np.argsort(values.invoked[pool], kind="stable")]
        holes, total = _holes(starts, lengths, len(pool))
        if total > len(pool):
            found.add(
                f"Below offset {top} {total} offsets hold nothing that is known, and only {len(pool)} appends of "
                "unknown outcome could be there: entries are lost",
                [*entries.latest_seq[-1:].tolist(), *ends.completed_seq[-1:].tolist()],
            )
        filled = pool[: len(holes)]
        earliest = earliest.and_also(Bounds(holes, values.invoked[filled], values.invoked_seq[filled]))
    _compare(earliest, Bounds(entries.offset, entries.latest, entries.latest_seq), ends, found)
    excused = 0 if dense else len(starts)
    return Judgement(len(entries.offset) + len(ends.offset), tuple(found.told), found.count, excused)


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

    def each(self, mask: Array, word: Callable[[int], tuple[str, list[int]]]) -> None:
        """One for every true place of ``mask``, worded by a function of the place."""
        places = np.flatnonzero(mask)
        self.count += max(0, len(places) - self.keep)
        for place in places[: self.keep].tolist():
            self.add(*word(place))


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


def _entries(appends: Appends, reads: Reads, once: bool, found: _Violations) -> _Entries:
    """What acknowledgements and reads say is where, each entry once; conflicts among them are found here."""
    told = (appends.outcome == Outcome.OK) & (appends.offset >= 0)
    named = _Entries(
        np.concatenate([appends.offset[told], reads.offset]),
        np.concatenate([appends.last[told], reads.last]),
        np.concatenate([appends.value[told], reads.value]),
        np.concatenate([appends.completed[told], reads.completed]),
        np.concatenate([appends.completed_seq[told], reads.completed_seq]),
    )
    order = np.lexsort((named.latest, named.value, named.last, named.offset))
    named = _Entries(*(column[order] for column in named))
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.any([np.diff(column) != 0 for column in named[:3]], axis=0)
    named = _Entries(*(column[first] for column in named))

    overlap = np.zeros(len(named.offset), dtype=bool)
    overlap[1:] = named.offset[1:] <= np.maximum.accumulate(named.last)[:-1]
    found.each(
        overlap,
        lambda i: named.told(
            f"{named.value[i - 1]} and value {{}} are both at offset {{}}", i, named.latest_seq[i - 1]
        ),
    )

    if once:
        order = np.lexsort((named.offset, named.value))
        again = np.flatnonzero((np.diff(named.value[order]) == 0) & (np.diff(named.offset[order]) != 0))
        before, after = order[again], order[again + 1]
        found.each(
            np.ones(len(again), dtype=bool),
            lambda k: named.told(
                f"{{}} is at offset {named.offset[before[k]]} and at offset {{}}", after[k], named.latest_seq[before[k]]
            ),
        )
    return named


def _find(ascending: Ints, wanted: Ints) -> tuple[Ints, Array]:
    """Where the wanted values are among ascending ones, and whether they are there at all."""
    if not len(ascending):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return places, ascending[places] == wanted


def _taken(column: Array, places: Ints, known: Array, otherwise: int | np.int64) -> Array:
    """A column at some places, and something else where they are not known."""
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


def _compare(earliest: Bounds, latest: Bounds, ends: Ends, found: _Violations) -> None:
    """Compare the prefix maximum of e with the suffix minimum of l, everywhere.

    An end at n sits between the entries n - 1 and n. Its completion bounds what is before it and its invocation what
    is behind it, so in one row of places these three follow each other: completion at n, invocation at n, entry n.
    """
    reached = Bounds(ends.offset, ends.completed, ends.completed_seq)
    reached = Bounds(*(column[ends.reaches] for column in reached))
    e_place = np.concatenate([3 * earliest.offset + 2, 3 * ends.offset + 1])
    l_place = np.concatenate([3 * latest.offset + 2, 3 * reached.offset])
    e = earliest.and_also(Bounds(ends.offset, ends.invoked, ends.invoked_seq))
    l_ = latest.and_also(reached)
    e_order = np.argsort(e_place, kind="stable")
    l_order = np.argsort(l_place, kind="stable")
    e_place, l_place = e_place[e_order], l_place[l_order]
    high = np.maximum.accumulate(e.time[e_order])
    low = np.minimum.accumulate(l_.time[l_order][::-1])[::-1]
    # Every e is compared with the l of its own place and all behind it.
    facing = np.searchsorted(l_place, e_place, side="left")
    there = facing < len(low)
    bad = np.flatnonzero(there)[high[there] > low[facing[there]]]
    if not len(bad):
        return
    # Many places tell of one pair: the first that reaches the maximum and the last that reaches the minimum.
    late = np.searchsorted(high, high[bad], side="left")
    soon = np.searchsorted(low, low[facing[bad]], side="right") - 1
    pairs = np.unique(np.stack([late, soon], axis=1), axis=0)

    def word(i: int) -> tuple[str, list[int]]:
        a, b = int(e_order[pairs[i, 0]]), int(l_order[pairs[i, 1]])
        filled = (
            f"offset {l_.offset[b]} was filled" if b < len(latest.offset) else f"the log had {l_.offset[b]} entries"
        )
        later = (
            f"the append began whose entry is before it, at offset {e.offset[a]}"
            if a < len(earliest.offset)
            else f"a tail or read was asked for that found an end at {e.offset[a]}"
        )
        return f"It was known that {filled}, and only then {later}", [int(e.seq[a]), int(l_.seq[b])]

    found.each(np.ones(len(pairs), dtype=bool), word)


_READS = (F_READ, F_READ_COMMITTED, F_FINAL_READ)


class _Rows(NamedTuple):
    """What is kept of the events of clients."""

    seq: Ints
    time: Ints
    kind: Array
    op: Ints
    f: Array
    acks: Array
    offset: Ints
    last_offset: Ints
    value: Ints

    def where(self, mask: Array) -> _Rows:
        """The rows that ``mask`` selects, by truth or by position."""
        return _Rows(*(column[mask] for column in self))


class LinearizableLogFold:
    """Gathers what clients asked and were told about one log, and judges it at the end.

    Kept: about 60 bytes for each event of a client. Offsets are not dense if the history shows anything that is in the
    log and was not appended by a client it shows: internal appends, compaction, values of other acks levels, or a
    reader that was led over an offset.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._rows: list[_Rows] = []
        self._dense = True

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        if np.isin(columns.kind, (APPEND, COMPACT, TRIM)).any():
            self._dense = False
        clients = np.isin(columns.kind, (INVOKE, OBSERVE, OK, FAIL, INFO)) & (columns.op != NULL)
        if clients.any():
            rows = _Rows(*(np.asarray(getattr(columns, name)) for name in _Rows._fields))
            self._rows.append(rows.where(clients))

    def finish(self) -> Verdicts:
        """Judge."""
        if not self._rows:
            return Verdicts((outcome(CHECK, 0),))
        rows = _Rows(*(np.concatenate(columns) for columns in zip(*self._rows, strict=True)))
        self._rows.clear()
        # A clock may be set back; what the history has in order stays in order.
        time = np.maximum.accumulate(rows.time)
        rows = rows._replace(time=rows.seq if time[0] == time[-1] else time)
        asked = rows.where(rows.kind == INVOKE)
        asked = asked.where(np.unique(asked.op, return_index=True)[1])
        closed = rows.where(np.isin(rows.kind, (OK, FAIL, INFO)))
        closed = closed.where(np.unique(closed.op, return_index=True)[1])
        appends, loose = self._appends(asked, closed)
        reads, jumped = self._reads(rows.where(rows.kind == OBSERVE), asked, closed, loose)
        dense = self._dense and not len(loose) and not jumped
        found = judge(
            appends,
            reads,
            _tails(asked, closed, reaches=not len(loose)),
            dense=dense,
            once=self._setting.idempotent,
            keep=self._setting.keep,
        )
        violations = tuple(Violation(sentence, events) for sentence, events in found.violations)
        return Verdicts(
            (outcome(CHECK, found.judged, found.violated, violations, excused=found.excused, unjudged=len(loose)),)
        )

    def _appends(self, asked: _Rows, closed: _Rows) -> tuple[Appends, Ints]:
        """The appends that were promised to last, and the values of the others."""
        asked = asked.where((asked.f == F_APPEND) & (asked.value != NULL))
        lasting = np.isin(asked.acks, (ACKS_ALL, NO_ACKS)) & (not self._setting.write_caching)
        loose = np.unique(asked.value[~lasting])
        asked = asked.where(lasting)
        places, ended = _find(closed.op, asked.op)
        kind = _taken(closed.kind, places, ended, INFO)
        done = kind == OK
        offset = np.where(done, _taken(closed.offset, places, ended, NULL), NULL)
        return (
            Appends(
                asked.value,
                asked.time,
                np.where(done, _taken(closed.time, places, ended, NEVER), NEVER),
                np.select([done, kind == FAIL], [Outcome.OK, Outcome.FAILED], Outcome.UNKNOWN),
                np.where(offset == NULL, -1, offset),
                np.where(offset == NULL, -1, _taken(closed.last_offset, places, ended, -1)),
                asked.seq,
                _taken(closed.seq, places, ended, -1),
            ),
            loose,
        )

    def _reads(self, seen: _Rows, asked: _Rows, closed: _Rows, loose: Ints) -> tuple[Reads, bool]:
        """The batches that reads returned, and whether a reader was led over an offset or given a nameless value."""
        places, ended = _find(closed.op, seen.op)
        ended &= _taken(closed.kind, places, ended, INFO) == OK
        seen, places = seen.where(ended), places[ended]
        order = np.argsort(seen.op, kind="stable")
        one, next_ = order[:-1], order[1:]
        jumped = bool(
            ((seen.op[one] == seen.op[next_]) & (seen.offset[next_] > seen.last_offset[one] + 1)).any()
            or (seen.value == NULL).any()
        )
        jumped = jumped or _led_over_the_edge(seen, asked, closed)
        usual = (seen.value != NULL) & ~_find(loose, seen.value)[1]
        return (
            Reads(
                seen.value[usual],
                seen.offset[usual],
                seen.last_offset[usual],
                closed.time[places][usual],
                closed.seq[places][usual],
            ),
            jumped,
        )


def _led_over_the_edge(seen: _Rows, asked: _Rows, closed: _Rows) -> bool:
    """Whether a read began or went on somewhere else than its batches say."""
    asked = asked.where(np.isin(asked.f, _READS) & (asked.offset != NULL))
    firsts, lasts = _outermost(seen)
    found, known = _find(firsts.op, asked.op)
    if (_taken(firsts.offset, found, known, -1) > asked.offset)[known].any():
        return True
    closed = closed.where((closed.kind == OK) & np.isin(closed.f, _READS) & (closed.offset != NULL))
    found, known = _find(lasts.op, closed.op)
    begun, begins = _find(asked.op, closed.op)
    reached = np.where(known, _taken(lasts.last_offset, found, known, -1) + 1, _taken(asked.offset, begun, begins, -1))
    return bool((closed.offset > reached)[known | begins].any())


def _outermost(seen: _Rows) -> tuple[_Rows, _Rows]:
    """The first and the last batch of every read, ascending by operation."""
    order = np.argsort(seen.op, kind="stable")
    ops = seen.op[order]
    first = np.ones(len(ops), dtype=bool)
    first[1:] = ops[1:] != ops[:-1]
    last = np.ones(len(ops), dtype=bool)
    last[:-1] = first[1:]
    return seen.where(order[first]), seen.where(order[last])


def _tails(asked: _Rows, closed: _Rows, reaches: bool) -> Ends:
    asked = asked.where(asked.f == F_TAIL)
    places, ended = _find(closed.op, asked.op)
    ended &= (_taken(closed.kind, places, ended, INFO) == OK) & (_taken(closed.offset, places, ended, NULL) >= 0)
    asked, closed = asked.where(ended), closed.where(places[ended])
    return Ends(closed.offset, asked.time, closed.time, np.full(len(asked.op), reaches), asked.seq, closed.seq)


FAMILY = Family(
    "linearizable_log",
    (CHECK,),
    frozenset({Kind.INVOKE, Kind.OBSERVE, Kind.OK, Kind.FAIL, Kind.INFO, Kind.APPEND, Kind.COMPACT, Kind.TRIM}),
    ("time", "op", "f", "acks", "offset", "last_offset", "value"),
    LinearizableLogFold,
)
