"""Sends every event to the folds of its log, in order; what concerns the whole surroundings goes to every log.

Folds take tens of kilobytes before they see anything. So the events of a log wait, with those of all others, until
there are enough of them; a log that never has enough is judged at the end, with all that are alike (`alike`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..checks.codes import CRASH, FAULT, HEAL, KINDS, PHASE, POWER_LOSS, STOP, STORAGE_ERROR, among
from ..checks.columns import Columns, Ints, held_for, joined
from ..checks.contract import Family, Fold, Recorded, Setting, Verdicts, Watchful, quiet_first
from ..checks.kernel import all_made
from .alike import judge_alike
from .unrecorded import unrecorded
from .waiting import Waiting

_SHARED = (STOP, CRASH, POWER_LOSS, STORAGE_ERROR, FAULT, HEAL, PHASE)
"""Kinds that without a log concern all logs of a run."""

SHARED_KINDS = tuple(str(KINDS[code]) for code in _SHARED)
"""The same, as words."""

FEW = 128
"""Events from which on a log has folds of its own: they take no less memory than that many events."""
_ROOM = 1 << 18
"""Events that wait, at least, before they are sorted by log."""
_PAYS = 32
"""Events of a log from which on compiled loops are faster than plain ones."""


class Logs:
    """The folds of every log of a run. A run without named logs has one, called None."""

    def __init__(self, families: Sequence[Family], setting: Setting) -> None:
        self._families = families
        self._setting = setting
        self._numbers: dict[str | None, int] = {}
        """Of the logs by name, in order of appearance."""
        self._folds: dict[int, Sequence[Fold]] = {}
        self._settings: dict[int, Setting] = {}
        """Of each log that has folds: what is recorded of it is its own."""
        self._watchful: dict[int, list[Watchful]] = {}
        """Those of them that can be asked before the end."""
        self._waiting = Waiting(held_for({column for family in families for column in family.columns}))
        """Events that no fold has seen."""
        self._room = _ROOM
        self._shared: list[Columns] = []
        self._fed_until: dict[int, int] = {}
        """How many of the shared events the folds of a log have seen."""
        self._own_events = False

    def feed(self, columns: Columns, log: pa.DictionaryArray) -> None:
        """Take the next events; ``log`` is their column of that name."""
        if log.null_count == len(log):
            self._unnamed(columns)
            return
        names: list[str] = log.dictionary.to_pylist()
        codes: Ints = pc.fill_null(log.indices, pa.scalar(-1, log.indices.type)).to_numpy(zero_copy_only=False)
        table = np.full(len(names) + 1, -1, dtype=np.int64)
        for code in np.unique(codes[codes >= 0]).tolist():
            table[code] = self._numbers.setdefault(names[code], len(self._numbers))
        numbers = table[codes]
        if log.null_count:
            named = numbers >= 0
            self._unnamed(columns.where(~named))
            columns, numbers = columns.where(named), numbers[named]
        if (
            not len(self._waiting)
            and (numbers == numbers[0]).all()
            and (numbers[0] in self._folds or len(numbers) >= FEW)
        ):
            self._give(int(numbers[0]), columns)
            return
        self._waiting.add(columns, numbers)
        if len(self._waiting) >= self._room:
            self._sort_out()

    def _unnamed(self, columns: Columns) -> None:
        shared = np.flatnonzero(among(columns.kind, _SHARED))
        self._own_events |= len(shared) < len(columns.seq)
        number = self._numbers.setdefault(None, len(self._numbers))
        folds = self._folds_of(number)
        self._settings[number].seen.see(columns)
        for fold in folds:
            fold.feed(columns)
        if len(shared):
            self._shared.append(columns.where(shared))

    def _sort_out(self) -> None:
        """Give what waits to its logs, but for those that have few events."""
        if not len(self._waiting):
            return
        self._waiting.keep(np.argsort(self._waiting.numbers(), kind="stable"))
        numbers = self._waiting.numbers()
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        ends = np.append(starts[1:], len(numbers))
        few = np.zeros(len(numbers), dtype=bool)
        for number, start, end in zip(numbers[starts].tolist(), starts.tolist(), ends.tolist(), strict=True):
            if number in self._folds or end - start >= FEW:
                self._give(number, self._waiting.between(start, end))
            else:
                few[start:end] = True
        if not few.all():
            self._waiting.keep(few)
        self._room = max(_ROOM, 2 * len(self._waiting))

    def _folds_of(self, number: int) -> Sequence[Fold]:
        if number not in self._folds:
            setting = self._settings[number] = replace(self._setting, seen=Recorded())
            folds = self._folds[number] = [family.start(setting) for family in self._families]
            self._watchful[number] = [fold for fold in folds if isinstance(fold, Watchful)]
            self._fed_until[number] = 0
        return self._folds[number]

    def _give(self, number: int, columns: Columns) -> None:
        """Feed events of a named log, and the shared ones before the last of them that it has not seen."""
        folds = self._folds_of(number)
        if self._shared:
            shared = self._all_shared()
            until = int(np.searchsorted(shared.seq, columns.seq[-1]))
            columns = columns.merged(shared.between(self._fed_until[number], until))
            self._fed_until[number] = until
        self._settings[number].seen.see(columns)
        for fold in folds:
            fold.feed(columns)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated already, as far as the folds can tell before the end."""
        return frozenset[str]().union(*(fold.violated() for folds in self._watchful.values() for fold in folds))

    def _all_shared(self) -> Columns:
        if len(self._shared) > 1:
            self._shared = [joined(self._shared)]
        return self._shared[0]

    def finish(self) -> list[tuple[str | None, Verdicts]]:
        """What the folds of each log answer; logs that only saw what concerns all logs are left out."""
        found = self._finish()
        if self._setting.compiled:
            all_made()
        return found

    def _finish(self) -> list[tuple[str | None, Verdicts]]:
        self._sort_out()
        self._watchful.clear()
        found: dict[int, Verdicts] = {}
        for name, number in self._numbers.items():
            if number in self._folds:
                folds = self._folds.pop(number)
                if name is None and not self._own_events and len(self._numbers) > 1:
                    continue
                if name is not None and self._shared:
                    rest = self._all_shared()
                    rest = rest.between(self._fed_until[number], len(rest.seq))
                    self._settings[number].seen.see(rest)
                    for fold in folds:
                        fold.feed(rest)
                found[number] = unrecorded(_answer(folds), self._settings.pop(number))
                del folds
        if len(self._waiting):
            shared = self._all_shared() if self._shared else None
            timed = self._setting.progress_bound is not None
            answers = judge_alike(self._waiting, shared, self._families, self._judge, timed=timed)
            found.update(zip(*answers, strict=True))
        return [(name, found[number]) for name, number in self._numbers.items() if number in found]

    def _judge(self, columns: Columns) -> Verdicts:
        """What the families say of a log with these events."""
        compiled = self._setting.compiled and len(columns.seq) >= _PAYS
        setting = replace(self._setting, compiled=compiled, seen=Recorded())
        setting.seen.see(columns)
        folds = [family.start(setting) for family in self._families]
        for fold in folds:
            fold.feed(columns)
        return unrecorded(_answer(folds), setting)


def _answer(folds: Sequence[Fold]) -> Verdicts:
    """What the folds of a log say together."""
    # One after the other is let go, so that what the next one needs at its end finds room.
    left = list(reversed(folds))
    answers = []
    while left:
        answers.append(left.pop().finish())
    outcomes = tuple(each for answer in answers for each in answer.outcomes)
    # What clients were told comes first, as far as the history shows it (families are in that order).
    losses = next((answer.losses for answer in reversed(answers) if answer.losses is not None), None)
    return Verdicts(outcomes, losses, quiet_first(answers))
