"""A partition of a table: the fold of its changelog, and what the active appends to it.

The fold is the same on every replica, the active too, so a table is a function of a position: the number of offsets
passed (pull-queries.md#table-at-position). Offsets are those of the Raft group that holds the changelog; the caller
reads them in order, also those of Raft's own records.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from reprlib import repr as short

import msgspec

from quorumlog.pull_queries.lag import Position
from quorumlog.pull_queries.rules import Rules

Value = int | float | str
"""What a row holds beside its key."""


class Change(msgspec.Struct, frozen=True, tag="change"):
    """What the active of an epoch made of one offset of the source log (pull-queries.md#changelog).

    ``value`` None is a tombstone; ``key`` None: the offset is one of Raft's own, and only the source offset moves.
    """

    epoch: int
    source: int
    key: str | None = None
    value: Value | None = None


class Takeover(msgspec.Struct, frozen=True, tag="takeover"):
    """The first record of a new active: what its predecessors append behind it is passed over."""

    epoch: int


Record = Change | Takeover


class SavedTable(msgspec.Struct, frozen=True):
    """A table and its position, which are saved together (pull-queries.md#saved-together)."""

    current: int = 0
    epoch: int = 0
    source: int = 0
    rows: Mapping[str, Value] = {}


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key (pull-queries.md#partitions)."""
    return zlib.crc32(key.encode("utf-8")) % partitions


class Table:
    """The rows of one partition after ``current`` offsets of its changelog (pull-queries.md#current-and-end).

    ``epoch``: the largest seen; ``source``: the offset of the source log that counts next; ``end``: where the changelog
    ended as last told.
    """

    def __init__(self, rules: Rules, saved: SavedTable | None = None) -> None:
        saved = saved or SavedTable()
        self.rules = rules
        self.current = self.end = saved.current
        self.epoch, self.source = saved.epoch, saved.source
        self.rows = dict(saved.rows)

    @property
    def position(self) -> Position:
        """What a lag report says of it."""
        return Position(self.current, self.end)

    def note_visible(self, visible: int) -> None:
        """Take the group's visible offset, -1 for none (pull-queries.md#current-and-end)."""
        self.end = self.rules.end_after(self.end, visible)

    def fold(self, offset: int, record: Record | None) -> bool:
        """Pass the next offset; None: a record of Raft's own. Return whether it counted.

        Raises ValueError if the offset is not the next. Source: pull-queries.md#changelog.
        """
        if offset != self.current:
            raise ValueError(f"offset {offset} is not the next of the changelog, which is {self.current}")
        self.current += 1
        match record:
            case Takeover(epoch):
                counted = epoch >= self.epoch
            case Change(epoch, source):
                counted = self.rules.counts(epoch, self.epoch, source, self.source)
            case None:
                return False
        if counted:
            self.epoch = record.epoch
            if isinstance(record, Change):
                self._apply(record)
        return counted

    def _apply(self, change: Change) -> None:
        self.source += 1
        if change.key is None:
            return
        if change.value is None:
            self.rows.pop(change.key, None)
        else:
            self.rows[change.key] = change.value

    def saved(self) -> SavedTable:
        """A copy to save, and to answer a query from while the fold goes on (pull-queries.md#rows-are-the-table)."""
        return SavedTable(self.current, self.epoch, self.source, dict(self.rows))


@dataclass(slots=True)
class Feeder:
    """What the active of ``epoch`` appends to a changelog (pull-queries.md#takeover).

    First its takeover, and once that is passed, a change for each offset of the source log from the one that counts
    next. ``appended``: the source offset up to which changes have been appended. After a failure, what the changelog
    shows is passed first, so that only what lacks is appended again; a change counts once.
    """

    epoch: int
    appended: int = field(default=0, init=False)
    _announced: bool = field(default=False, init=False)
    _passes: int = field(default=0, init=False)  # the end that was known at the last failure

    def due(self, table: Table, end: int, most: int = 100) -> Takeover | range | None:
        """What to append next: the takeover, or the source offsets below ``end`` of which to make changes, ``most`` at
        once; None: nothing now, or never again because a later active took over."""
        if table.epoch > self.epoch or table.current < self._passes:
            return None
        if table.epoch < self.epoch:
            if self._announced:
                return None
            self._announced = True
            return Takeover(self.epoch)
        first = max(self.appended, table.source)
        self.appended = first + len(range(first, end)[:most])
        return range(first, self.appended) or None

    def failed(self, table: Table) -> None:
        """An append failed, or nobody knows whether it did: begin again with what the changelog turns out to lack."""
        self._announced, self.appended, self._passes = False, table.source, table.end


# -- look-ups ------------------------------------------------------------------------------------------------------

_COMPARE = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Filter(msgspec.Struct, frozen=True):
    """A comparison of a row's key (``k``) or value (``v``) with a value; words and numbers never compare.

    Raises ValueError for another column or operator.
    """

    column: str
    op: str
    value: Value

    def __post_init__(self) -> None:
        if self.column not in ("k", "v"):
            raise ValueError(f"column is {short(self.column)}; the columns are k and v")
        if self.op not in _COMPARE:
            raise ValueError(f"op is {short(self.op)}; write one of {' '.join(_COMPARE)}")

    def admits(self, key: str, value: Value) -> bool:
        """Whether the comparison holds for a row; between a word and a number only ``!=`` does."""
        found = key if self.column == "k" else value
        comparable = isinstance(found, str) == isinstance(self.value, str)
        return bool(_COMPARE[self.op](found, self.value)) if comparable else self.op == "!="


def scan(table: SavedTable, wanted: Filter | None = None, most: int | None = None) -> list[tuple[str, Value]]:
    """The rows of one position that a filter admits, by key; ``most``: at most so many.

    Source: pull-queries.md#table-at-position.
    """
    rows = (row for row in sorted(table.rows.items()) if wanted is None or wanted.admits(*row))
    return list(islice(rows, most))


def look_up(table: SavedTable, keys: tuple[str, ...]) -> list[tuple[str, Value]]:
    """The rows of these keys at one position, by key; a key without a row is left out."""
    return [(key, table.rows[key]) for key in sorted(set(keys)) if key in table.rows]
