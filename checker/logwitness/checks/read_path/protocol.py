"""What a run of the read path is told by, and how LSNs are written."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from loghistory.schema import END_KINDS, Kind, Operation
from loghistory.vocabularies.read_path import VOCABULARY, GapWord, RecordWord

from ..codes import RECORDS, code, word_code
from ..columns import Array, Columns
from ..contract import Check, Protocol, Setting, Tally, Verdicts, violated
from ..kernel import part
from ..words import Words

_WITH_RECORDS = frozenset(
    {
        *(Kind.NODESET, Kind.TAKES_PART, Kind.COPY, Kind.ACKNOWLEDGE, Kind.RELEASE, Kind.SHIP),
        *(Kind.STREAM_SETTINGS, Kind.STREAM_METADATA, Kind.STREAM_START, Kind.STREAM_STARTED, Kind.STREAM_HEARD),
    }
)
READ_PATH = Protocol(
    "read-path",
    frozenset(Kind(kind.word) for kind in VOCABULARY.kinds),
    {Kind.STREAM_RECORD: _WITH_RECORDS, Kind.RECOVER: frozenset({Kind.SEAL})},
    {Kind.TRIM_POINT: (Operation.TRIM_LOG,)},
)

GAP = {word: word_code(word) for word in GapWord}
"""The codes of column ``f`` of a gap."""
BRIDGE = RECORDS[RecordWord.BRIDGE]
F_READ, F_APPEND = word_code(Operation.READ_STREAM), word_code(Operation.APPEND_RECORD)


@part
def epoch_of(lsn: int) -> int:
    """The epoch of an LSN, its upper 32 bits."""
    return lsn >> 32


def esn_of(lsn: int) -> int:
    """The place of an LSN in its epoch."""
    return lsn & 0xFFFFFFFF


def shown(lsn: int) -> str:
    """An LSN as it is written."""
    return f"e{lsn >> 32}n{lsn & 0xFFFFFFFF}"


Cells: TypeAlias = Any
"""A column of some events, as an array or a list; of a single event what it has there, a number."""

NOWHERE = -1
"""No place."""
_CLOSE = 64
"""Events between which a compiled loop is not called: it takes longer to hand it all of its arrays."""
TURNS = frozenset(map(code, {Kind.TAKES_PART, *END_KINDS}))
"""Kinds by which the life of a node begins or ends."""

R = TypeVar("R", bound=tuple[Any, ...])


def no_rows(columns: type[R]) -> R:
    """Columns of numbers that have no row yet."""
    names: tuple[str, ...] = columns._fields  # type: ignore[attr-defined]
    return columns(*(np.zeros(0, dtype=np.int64) for _ in names))


class StreamFold(Generic[R]):
    """What the folds of this protocol share: a tally for each check of the family, and the way through the events.

    A loop that is compiled (`skim`) goes through them, and leaves those to `take` that are rare or break a rule.
    """

    checks: ClassVar[tuple[Check, ...]]
    wanted: ClassVar[Array]
    """Whether it takes the events of a kind, by code (`lookup`); the loop passes over others."""
    left: ClassVar[frozenset[int]] = frozenset()
    """Kinds of which the loop leaves all events to `take`: it is not called between two that are close."""

    def __init__(self, setting: Setting, rows: type[R]) -> None:
        """``rows`` are the columns that it reads."""
        self._rows = rows
        self.compiled = setting.compiled
        ways = [wanted + (wanted and kind in self.left) for kind, wanted in enumerate(self.wanted[:-1].tolist())]
        self._ways = bytes(ways).ljust(256, b"\0")
        """By code of a kind: 2 if the loop leaves all of its events, 1 if it takes any, 0 if it passes over them."""
        self.words: Words = setting.words
        self.tallies = {check.id: Tally(check, setting.keep, setting.seen) for check in self.checks}
        self.judged = np.zeros(len(self.checks), dtype=np.int64)
        """Facts that `skim` judged and that break no rule, by place of the check."""

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        names: tuple[str, ...] = self._rows._fields  # type: ignore[attr-defined]
        if not self.compiled:
            columns = columns.where(self.wanted[columns.kind])
        rows = self._rows(*(getattr(columns, name) for name in names))
        self.make_room(rows)
        if not self.compiled:
            rows = self._rows(*(column.tolist() for column in rows))
        at, ways = self.skim(rows, 0), b""
        while at < len(columns.kind):
            event: list[Any] = [column.item(at) if self.compiled else column[at] for column in rows]
            self.take(self._rows(*event))
            ways = ways or (columns.kind.tobytes().translate(self._ways) if self.compiled else b"")
            # What the loop leaves in any case, it is not asked for.
            close = ways[at + 1 : at + 1 + _CLOSE]
            wanted = close.lstrip(b"\0")
            at += 1 + len(close) - len(wanted)
            at = at if wanted.startswith(b"\2") else self.skim(rows, at)

    def make_room(self, rows: R) -> None:
        """Make room for what these events may add."""

    def skim(self, rows: R, at: int) -> int:
        """Take the events from a place on; the place of the first one that is left to `take`."""
        raise NotImplementedError

    def take(self, e: R) -> None:
        """Judge one event that `skim` left, each column a number; note what later ones are judged by."""
        raise NotImplementedError

    def violated(self) -> frozenset[str]:
        """The checks that are violated so far (`Watchful`)."""
        return violated(self.tallies.values())

    def finish(self) -> Verdicts:
        """The outcome of each check of the family, once all events were taken."""
        for tally, judged in zip(self.tallies.values(), self.judged.tolist(), strict=True):
            tally.judged += judged
        return Verdicts(tuple(tally.outcome() for tally in self.tallies.values()))
