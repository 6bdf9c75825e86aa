"""Sends every event to the folds of its log, in order; what concerns the whole surroundings goes to every log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..checks.codes import CRASH, FAULT, HEAL, KINDS, PHASE, POWER_LOSS, STOP, STORAGE_ERROR
from ..checks.columns import Array, Columns
from ..checks.contract import Fold, Verdicts, Watchful

_SHARED = (STOP, CRASH, POWER_LOSS, STORAGE_ERROR, FAULT, HEAL, PHASE)
"""Kinds that without a log concern all logs of a run."""

SHARED_KINDS = tuple(str(KINDS[code]) for code in _SHARED)
"""The same, as words."""

_IS_SHARED = np.isin(np.arange(len(KINDS)), _SHARED)


class Logs:
    """The folds of every log of a run. A run without named logs has one, called None."""

    def __init__(self, start: Callable[[], Sequence[Fold]]) -> None:
        self._start = start
        self._folds: dict[str | None, Sequence[Fold]] = {}
        self._shared: list[Columns] = []
        self._own_events = False

    def feed(self, columns: Columns, log: pa.DictionaryArray) -> None:
        """Take the next events; ``log`` is their column of that name."""
        if log.null_count == len(log):
            self._unnamed(columns)
            return
        names: list[str] = log.dictionary.to_pylist()
        indices: Array = pc.fill_null(log.indices, pa.scalar(-1, log.indices.type)).to_numpy(zero_copy_only=False)
        if not log.null_count and (indices == indices[0]).all():
            self._give(names[indices[0]], columns)
            return
        order = np.argsort(indices, kind="stable")
        starts = np.flatnonzero(np.diff(indices[order], prepend=-2))
        groups = dict(zip(indices[order][starts].tolist(), np.split(order, starts[1:]), strict=True))
        nameless = groups.pop(-1, np.zeros(0, dtype=np.int64))
        shared = nameless[_IS_SHARED[columns.kind[nameless]]]
        present = {names[code]: rows for code, rows in groups.items()}
        for name, rows in present.items():
            self._give(name, columns.where(np.sort(np.concatenate([rows, shared]))))
        if len(nameless):
            self._unnamed(columns.where(nameless), besides=present)

    def _unnamed(self, columns: Columns, besides: Sequence[str] | dict[str, Array] = ()) -> None:
        shared = columns.where(np.flatnonzero(_IS_SHARED[columns.kind]))
        if len(shared.seq):
            for name in self._folds:
                if name is not None and name not in besides:
                    self._feed(name, shared)
        self._own_events |= len(shared.seq) < len(columns.seq)
        self._give(None, columns)
        if len(shared.seq):
            self._shared.append(shared)

    def _give(self, name: str | None, columns: Columns) -> None:
        if name not in self._folds:
            self._folds[name] = self._start()
            if name is not None:
                for earlier in self._shared:
                    self._feed(name, earlier)
        self._feed(name, columns)

    def _feed(self, name: str | None, columns: Columns) -> None:
        for fold in self._folds[name]:
            fold.feed(columns)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated already, as far as the folds can tell before the end."""
        watchful = (fold for folds in self._folds.values() for fold in folds if isinstance(fold, Watchful))
        return frozenset[str]().union(*(fold.violated() for fold in watchful))

    def finish(self) -> list[tuple[str | None, Verdicts]]:
        """What the folds of each log answer; logs that only saw what concerns all logs are left out."""
        if len(self._folds) > 1:
            kept = {name: folds for name, folds in self._folds.items() if name is not None or self._own_events}
            self._folds = kept
        result = []
        while self._folds:
            name = next(iter(self._folds))
            folds = list(reversed(self._folds.pop(name)))
            # One after the other is let go, so that what the next one needs at its end finds room.
            answers = []
            while folds:
                answers.append(folds.pop().finish())
            outcomes = tuple(each for answer in answers for each in answer.outcomes)
            # What clients were told comes first, as far as the history shows it (families are in that order).
            losses = next((answer.losses for answer in reversed(answers) if answer.losses is not None), None)
            result.append((name, Verdicts(outcomes, losses)))
        return result
