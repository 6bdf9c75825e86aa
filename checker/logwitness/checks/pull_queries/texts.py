"""What the texts of a run say, in columns that loops read: each text is read once, for all folds.

Of a text of another form, or with numbers that no column holds, there is no row: Python judges what needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..codes import MAX_OFFSET, Words
from ..columns import Array
from .protocol import Assigned, Positions, View, said
from .skimming import NOWHERE, Cells, no_rows, with_rows


class Views(NamedTuple):
    """By row of a view: its assignment, and where its statuses and its lag reports begin and end."""

    assigned: Cells
    statuses: Cells
    statuses_end: Cells
    records: Cells
    records_end: Cells


class Statuses(NamedTuple):
    """The statuses of views, one behind the other: of which host, whether it is alive, the time of that."""

    host: Cells
    alive: Cells
    updated: Cells


class Records(NamedTuple):
    """The lag reports of views: of which host, when it was made, and what it says."""

    host: Cells
    stamp: Cells
    positions: Cells


class InColumns(NamedTuple):
    """What views say, in columns: a row for each view, for each status in one, for each lag record in one."""

    views: Views
    statuses: Statuses
    records: Records


class Texts:
    """What the texts of one run say; hosts, assignments and what reports say have a number each."""

    def __init__(self, words: Words, *, compiled: bool) -> None:
        self._words = words
        self.hosts: dict[str, int] = {}
        self.assigned: dict[Assigned, int] = {}
        self.positions: dict[tuple[tuple[int, tuple[int, int]], ...], int] = {}
        self._views: dict[int, int] = {}
        self._parts: dict[int, tuple[dict[str, tuple[int, Positions]], int, int]] = {}  # where reports are, by identity
        self._same: dict[int, tuple[Assigned, int]] = {}  # assignments, by identity
        self._rows = 0
        tables = (no_rows(each, compiled=compiled) for each in (Views, Statuses, Records))
        self.columns = InColumns(*tables)  # type: ignore[arg-type]
        self._ends = [0, 0]

    def views(self, values: Array, which: Array) -> Array:
        """The row of the view that each event of a column ``value`` has, of those that ``which`` selects."""
        return _rows_of(values, which, self._views, self._view)

    def host(self, name: str) -> int:
        """The number that stands for a host in columns, from 0; a new name gets the next one."""
        return self.hosts.setdefault(name, len(self.hosts))

    def said_of(self, positions: Positions) -> int:
        """The number of what a lag report says."""
        return self.positions.setdefault(tuple(sorted(positions.items())), len(self.positions))

    def _assigned(self, assigned: Assigned) -> int:
        """The number of an assignment."""
        if id(assigned) not in self._same:
            self._same[id(assigned)] = assigned, self.assigned.setdefault(assigned, len(self.assigned))
        return self._same[id(assigned)][1]

    def _view(self, code: int) -> int:
        view = said(self._words, code, View)
        if view is None or not _fits(view):
            return NOWHERE
        row, self._rows = self._rows, self._rows + 1
        statuses, records = self._ends
        again = self._parts.get(id(view.records))
        ends = [statuses + len(view.statuses), records + (0 if again else len(view.records))]
        views, of_statuses, of_records = self.columns
        views = with_rows(views, row + 1, {})
        of_statuses, of_records = with_rows(of_statuses, ends[0], {}), with_rows(of_records, ends[1], {})
        if again is None:
            again = self._parts[id(view.records)] = view.records, records, ends[1]
            for at, (host, (stamp, positions)) in enumerate(view.records.items(), records):
                of_records.host[at], of_records.stamp[at] = self.host(host), stamp
                of_records.positions[at] = self.said_of(positions)
        views.assigned[row] = self._assigned(view.assignment)
        views.statuses[row], views.statuses_end[row], self._ends = statuses, ends[0], ends
        _, views.records[row], views.records_end[row] = again
        for at, (host, (alive, updated)) in enumerate(view.statuses.items(), statuses):
            of_statuses.host[at], of_statuses.alive[at] = self.host(host), alive
            of_statuses.updated[at] = updated
        self.columns = InColumns(views, of_statuses, of_records)
        return row


def _fits(view: View) -> bool:
    """Whether columns hold the times of a view."""
    times = [updated for _, updated in view.statuses.values()] + [stamp for stamp, _ in view.records.values()]
    return all(-MAX_OFFSET < time < MAX_OFFSET for time in times)


def _rows_of(values: Array, which: Array, known: dict[int, int], read: Callable[[int], int]) -> Array:
    """The rows of texts by their codes; those that are not known yet are read."""
    found = np.full(len(values), NOWHERE, dtype=np.int64)
    places = np.flatnonzero(which)
    if len(places):
        unique, back = np.unique(values[places], return_inverse=True)
        rows = [_row(code, known, read) for code in unique.tolist()]
        found[places] = np.array(rows, dtype=np.int64)[back]
    return found


def _row(code: int, known: dict[int, int], read: Callable[[int], int]) -> int:
    row = known.get(code)
    if row is None:
        row = known[code] = read(code)
    return row


_texts: WeakKeyDictionary[Words, dict[bool, Texts]] = WeakKeyDictionary()


def texts_of(words: Words, *, compiled: bool) -> Texts:
    """What the texts of a run say, for all who ask; ``words`` has its texts."""
    by_form = _texts.setdefault(words, {})
    if compiled not in by_form:
        by_form[compiled] = Texts(words, compiled=compiled)
    return by_form[compiled]
