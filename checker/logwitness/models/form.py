"""Whether operations on registers, stores, queues, lists and the like are well formed, in histories of our own format.

The rules are those of operations on logs (`checks/well_formed/operations`), over the whole history: a client has one
open operation and a number is used once, whatever key an operation is about. Other than on logs, a client may go on
under its name after an operation whose end is unknown: so do histories of other tools, from which ours may have been
made. A history of another tool itself has been asked for all this by its importer.
Source: history-checks.md#well-formed-histories.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ..checks.codes import FAIL, INFO
from ..checks.columns import Reader
from ..checks.contract import Outcome, Setting, Verdict
from ..checks.well_formed.operations import FAMILY as FORM
from ..engine.run import groundless

__all__ = ["FORM", "Form"]


class Form:
    """Judges the operations of one history, of all its keys together."""

    def __init__(self, name: str) -> None:
        setting = Setting(voters=())
        self._reader = Reader(name, FORM.columns, setting.words)
        self._fold = FORM.start(setting)

    @property
    def reads(self) -> frozenset[str]:
        """The columns of the schema that a batch must have."""
        return self._reader.reads

    def feed(self, batch: pa.RecordBatch) -> None:
        """Take the next events. Raises `HistoryError` for numbers that nobody can reckon with."""
        columns = self._reader.columns(batch)
        over = np.where(columns.kind == INFO, FAIL, columns.kind).astype(columns.kind.dtype)
        self._fold.feed(columns._replace(kind=over))

    def weigh(self, outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
        """The breaches, then the outcomes: what holds by events that are not well formed is undecided."""
        found = self._fold.finish().outcomes
        broken = tuple(each for each in found if each.verdict in (Verdict.VIOLATED, Verdict.UNDECIDED))
        if not broken:
            return tuple(outcomes)
        ids = [each.id for each in broken]
        rest = (groundless(each, ids) if each.verdict is Verdict.HOLDS else each for each in outcomes)
        return (*broken, *rest)
