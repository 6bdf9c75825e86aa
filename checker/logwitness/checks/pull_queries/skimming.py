"""What the loops of this protocol share: columns that grow, rows for nodes and for pairs of them, stamps in order.

Most events of a run are heartbeats, receipts and decisions. A loop (`skim`) passes over those that break no rule, as
machine code if it pays; what is rare, or breaks a rule, is left to Python (`take`). What is known is held in arrays; a
loop that is not compiled has lists, which Python reads faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ..columns import Array, Columns, Ints, read_only
from ..contract import Setting, Verdicts
from ..hashing import grown
from ..kernel import kernel, part
from .protocol import ServerFold

Cells: TypeAlias = Any
"""A column of some events, or of what is known, as an array or a list; of a single event what it has there, a number.
"""
R = TypeVar("R", bound=tuple[Any, ...])
NOWHERE = -1
"""No row."""
_DIRECT = 4096
FEW = 64
"""Nodes whose pairs are found without a search."""


def no_rows(columns: type[R], *, compiled: bool) -> R:
    """Columns of numbers that have no row yet."""
    names: tuple[str, ...] = columns._fields  # type: ignore[attr-defined]
    return columns(*(numbers((), compiled=compiled) for _ in names))


def numbers(given: tuple[int, ...], *, compiled: bool) -> Cells:
    """A column of these numbers: an array if it is for a compiled loop, else a list."""
    return np.array(given, dtype=np.int64) if compiled else list(given)


def with_rows(columns: R, rows: int, fill: Mapping[str, int]) -> R:
    """Columns with so many rows at least; ``fill`` says by name what is in a new one, else `NOWHERE`."""
    if rows <= len(columns[0]):
        return columns
    names: tuple[str, ...] = columns._fields  # type: ignore[attr-defined]
    return type(columns)(*(_grown(c, rows, fill.get(n, NOWHERE)) for n, c in zip(names, columns, strict=True)))


def _grown(column: Cells, rows: int, fill: int) -> Cells:
    if isinstance(column, list):
        column.extend([fill] * (rows - len(column)))
        return column
    return grown(column, len(column), max(rows - len(column), 0), fill)


class OneColumn(NamedTuple):
    """A table of a single column, for what grows with its rows."""

    column: Cells


class Rows:
    """Rows for numbers, in order of appearance; those of small numbers are found without a search."""

    def __init__(self) -> None:
        self.names: list[int] = []
        self._rows: dict[int, int] = {}
        self.direct: Ints = np.full(_DIRECT + 1, NOWHERE, dtype=np.int64)
        """The row of a small number, at the place one behind it."""

    def of(self, values: Array) -> Ints:
        """The row of each of some numbers from -1 on; new ones get the next rows."""
        if not len(values):
            return np.zeros(0, dtype=np.int64)
        if int(values.min()) >= -1 and int(values.max()) < _DIRECT:
            found: Ints = self.direct[values + 1]
            if int(found.min()) < 0:
                for value in np.unique(values[found < 0]).tolist():
                    self.row(value)
                found = self.direct[values + 1]
            return found
        unique, places = np.unique(values, return_inverse=True)
        return np.array([self.row(value) for value in unique.tolist()], dtype=np.int64)[places]

    def row(self, value: int) -> int:
        """The row of one number; a new one if it appears for the first time."""
        row = self._rows.setdefault(value, len(self.names))
        if row == len(self.names):
            self.names.append(value)
            if -1 <= value < _DIRECT:
                self.direct[value + 1] = row
        return row


@kernel
def _few_rows(at: int, node: Array, peer: Array, direct: Ints, of_pairs: Ints, found: Array) -> int:
    """Find the rows of nodes, peers and pairs from an event on; the first event of which one has none, or not here."""
    for i in range(at, len(node)):
        one, two = node[i], peer[i]
        if not (NOWHERE <= one < _DIRECT and NOWHERE <= two < _DIRECT):
            return i
        who, other = direct[one + 1], direct[two + 1]
        if not (0 <= who < FEW and 0 <= other < FEW):
            return i
        pair = of_pairs[who * FEW + other + 1]
        if pair < 0:
            return i
        found[0, i], found[1, i], found[2, i] = who, other, pair
    return len(node)


class Nodes:
    """Rows for nodes, and for pairs of them; ``compiled``: a loop finds those of a few nodes."""

    def __init__(self, *, compiled: bool = False) -> None:
        self.who = Rows()
        self.pairs = Rows()
        self._compiled = compiled

    def of(self, node: Array, peer: Array) -> tuple[Ints, Ints, Ints]:
        """The rows of the nodes, the peers and the pairs of some events."""
        if self._compiled:
            found = np.empty((3, len(node)), np.int64)
            given, at = (read_only(node), read_only(peer), self.who.direct, self.pairs.direct), 0
            while (at := _few_rows.compiled(at, *given, found)) < len(node):
                if max(self.who.row(int(node[at])), self.who.row(int(peer[at]))) >= FEW:
                    break
                if max(node[at], peer[at]) >= _DIRECT or min(node[at], peer[at]) < -1:
                    break
                self.pair(int(node[at]), int(peer[at]))
            else:
                return found[0], found[1], found[2]
        who, other = self.who.of(node), self.who.of(peer)
        return who, other, self.pairs.of(self._keys(who, other))

    def pair(self, node: int, peer: int) -> int:
        """The row of one pair of nodes."""
        return self.pairs.row(_key(self.who.row(node), self.who.row(peer)))

    @property
    def few(self) -> Ints:
        """The row of a pair of the first `FEW` nodes, at the place that is one behind their rows put together."""
        return self.pairs.direct

    @property
    def sizes(self) -> tuple[int, int]:
        """How many nodes and pairs have rows."""
        return len(self.who.names), len(self.pairs.names)

    def pairs_of(self, node: int) -> list[tuple[int, int]]:
        """The peers of a node in pairs that have rows, with these."""
        who, names = self.who.row(node), self.who.names
        keys = enumerate(map(_unlocked, self.pairs.names))
        return [(names[other], row) for row, (each, other) in keys if each == who]

    def _keys(self, who: Ints, other: Ints) -> Ints:
        if len(self.who.names) <= FEW:
            return who * FEW + other
        few = (who < FEW) & (other < FEW)
        return np.where(few, who * FEW + other, _DIRECT + (who << 32 | other))


def _key(who: int, other: int) -> int:
    return who * FEW + other if max(who, other) < FEW else _DIRECT + (who << 32 | other)


def _unlocked(key: int) -> tuple[int, int]:
    return divmod(key, FEW) if key < _DIRECT else divmod(key - _DIRECT, 1 << 32)


# -- stamps ------------------------------------------------------------------------------------------------------------


class Ends(NamedTuple):
    """By row: the first and the last place of its stamps in `Stamps`."""

    first: Cells
    last: Cells


class Stamps(NamedTuple):
    """Stamps in ascending order, by who has them: each with an event, and its neighbours."""

    stamp: Cells
    seq: Cells
    before: Cells
    after: Cells


class Heard(NamedTuple):
    """Sets of stamps, by row; ``free``: how many places there are, and the first of those that are free again."""

    ends: Ends
    stamps: Stamps
    free: Cells


def nothing_heard(compiled: bool) -> Heard:
    """What is known before the first stamp was heard."""
    free = numbers((0, NOWHERE), compiled=compiled)
    return Heard(no_rows(Ends, compiled=compiled), no_rows(Stamps, compiled=compiled), free)


def with_room(heard: Heard, rows: int, more: int) -> Heard:
    """The same with so many rows at least, and room for so many stamps more."""
    stamps = with_rows(heard.stamps, int(heard.free[0]) + more, {})
    return heard._replace(ends=with_rows(heard.ends, rows, {}), stamps=stamps)


@part
def place_of_stamp(heard: Heard, row: int, stamp: int) -> int:
    """Where a stamp is among those of a row; `NOWHERE` if it is none of them."""
    place = heard.ends.last[row]
    while place >= 0 and heard.stamps.stamp[place] > stamp:
        place = heard.stamps.before[place]
    return int(place) if place >= 0 and heard.stamps.stamp[place] == stamp else NOWHERE


@part
def hear(heard: Heard, row: int, stamp: int, seq: int) -> None:
    """A stamp more; of an equal one the event is replaced."""
    ends, stamps = heard.ends, heard.stamps
    before, after = ends.last[row], NOWHERE
    if before >= 0 and stamp < stamps.stamp[ends.first[row]]:
        before, after = NOWHERE, ends.first[row]
    while before >= 0 and stamps.stamp[before] > stamp:
        before, after = stamps.before[before], before
    if before >= 0 and stamps.stamp[before] == stamp:
        stamps.seq[before] = seq
        return
    place = heard.free[1]
    if place >= 0:
        heard.free[1] = stamps.after[place]
    else:
        place = heard.free[0]
        heard.free[0] += 1
    stamps.stamp[place] = stamp
    stamps.seq[place] = seq
    stamps.before[place] = before
    stamps.after[place] = after
    if before >= 0:
        stamps.after[before] = place
    else:
        ends.first[row] = place
    if after >= 0:
        stamps.before[after] = place
    else:
        ends.last[row] = place


@part
def forget_before(heard: Heard, row: int, stamp: int) -> None:
    """Stamps below this one are none any more."""
    ends, stamps = heard.ends, heard.stamps
    place = ends.first[row]
    while place >= 0 and stamps.stamp[place] < stamp:
        after = stamps.after[place]
        stamps.after[place] = heard.free[1]
        heard.free[1] = place
        place = after
    ends.first[row] = place
    if place >= 0:
        stamps.before[place] = NOWHERE
    else:
        ends.last[row] = NOWHERE


def stamps_of(heard: Heard, row: int) -> list[tuple[int, int]]:
    """The stamps of a row, ascending, each with its event."""
    found, place = [], heard.ends.first[row]
    while place >= 0:
        found.append((int(heard.stamps.stamp[place]), int(heard.stamps.seq[place])))
        place = heard.stamps.after[place]
    return found


# -- folds -------------------------------------------------------------------------------------------------------------


class SkimmingFold(ServerFold, Generic[R]):
    """A fold whose events go through a loop (`skim`), which leaves some to Python (`take`)."""

    wanted: ClassVar[Array]
    """Whether it takes the events of a kind, by code (`lookup`); the loop passes over others."""

    def __init__(self, setting: Setting, rows: type[R]) -> None:
        """``rows`` are the columns that it reads: of events, what `more` adds, and ``who``, ``other``, ``pair``.

        The last three are the rows of the node, of the peer, and of both together."""
        super().__init__(setting)
        self._rows = rows
        self.compiled = setting.compiled
        self.nodes = Nodes(compiled=setting.compiled)
        self.judged = numbers((0,) * len(self.checks), compiled=self.compiled)
        """Facts that `skim` judged and that break no rule, by place of the check."""

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        if not self.compiled:
            which = np.flatnonzero(self.wanted[columns.kind])
        names: tuple[str, ...] = self._rows._fields  # type: ignore[attr-defined]
        held = {
            name: getattr(columns, name) if self.compiled else getattr(columns, name)[which]
            for name in {*names, "node", "peer"} & {*Columns._fields}
        }
        held |= zip(("who", "other", "pair"), self.nodes.of(held["node"], held["peer"]), strict=True)
        held |= self.more(held)
        rows = self._rows(*(read_only(held[name]) for name in names))
        self.make_room(rows)
        if not self.compiled:
            rows = self._rows(*(column.tolist() for column in rows))
        at, end = self.skim(rows, 0), len(rows[0])
        while at < end:
            event: list[Any] = [int(column[at]) for column in rows]
            at = self.skim(rows, at + self.take(self._rows(*event)))

    def more(self, held: Mapping[str, Array]) -> dict[str, Array]:
        """Further columns that a fold makes from those that it is given; none unless it says so."""
        del held
        return {}

    def make_room(self, rows: R) -> None:
        """Make room for what these events may add."""

    def skim(self, rows: R, at: int) -> int:
        """Take the events from a place on; the place of the first one that is left to `take`."""
        raise NotImplementedError

    def take(self, e: R) -> bool:
        """Take one event; whether it is done with, or comes once more."""
        raise NotImplementedError

    def finish(self) -> Verdicts:
        """Add what was counted to each tally, and answer."""
        for tally, judged in zip(self._tallies.values(), self.judged, strict=True):
            tally.judged += int(judged)
        return super().finish()
