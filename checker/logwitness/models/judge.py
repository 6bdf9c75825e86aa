"""Judging a history by its model: the same verdict, whatever comes to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from loghistory import RunSource

from ..checks.contract import Outcome, Verdict, outcome, worst
from ..engine.local import Progress, check
from ..engine.run import RunVerdict, exit_status
from .choice import Model
from .kafka import KafkaHistory
from .linearizable import LINEARIZABLE, Limits, LinearizableHistory, Partial

_COLUMNS = ("seq", "kind", "log", "process", "op", "txn", "f", "offset", "value", "text")


class ModelVerdict(RunVerdict, frozen=True, omit_defaults=True):
    """The verdict on a history of a model that is no log of ours."""

    partial: tuple[Partial, ...] = ()
    """How far a search came with what it found no order for."""

    def document(self) -> dict[str, Any]:
        """As that of a run, and the partial linearizations."""
        return super().document() | {"partial_linearizations": msgspec.to_builtins(list(self.partial))}


def check_model(
    source: RunSource,
    model: Model,
    only: Sequence[str] | None = None,
    *,
    required: Sequence[str] = (),
    limits: Limits | None = None,
    pages: Path | None = None,
    progress: Progress | None = None,
) -> RunVerdict:
    """Judge one history by a model.

    ``only`` and ``required`` are ids of checks, ``limits`` those of a search; ``pages`` is a directory that gets
    Porcupine's page (HTML) of every search. Raises `HistoryError` for bad input.
    """
    if model is Model.LOG:
        return check(source, only, required=required, progress=progress)
    name = str(source.path)
    if model is Model.KAFKA:
        judged: KafkaHistory | LinearizableHistory = KafkaHistory(name)
    else:
        judged = LinearizableHistory(name, model, limits or Limits(), pages)
    events = 0
    for batch in source.batches(_COLUMNS):
        judged.feed(batch)
        events += batch.num_rows
        if progress is not None:
            progress(events)
    outcomes = judged.finish()
    notes = (*source.notes, *judged.notes)
    if only is not None:
        known = {each.id: each for each in outcomes}
        outcomes = tuple(known.get(id_) or _idle(id_) for id_ in only)
    status = exit_status(outcomes, required)
    missing = set(required) - {each.id for each in outcomes}
    verdict = worst([each.verdict for each in outcomes])
    if verdict is Verdict.HOLDS and (status or missing):
        verdict, status = Verdict.UNEXERCISED, 3
    partial = tuple(judged.partial) if isinstance(judged, LinearizableHistory) else ()
    return ModelVerdict(name, verdict, status, events, judged.logs, outcomes, notes=notes, partial=partial)


def _idle(id_: str) -> Outcome:
    blank = outcome(LINEARIZABLE, 0)
    return msgspec.structs.replace(blank, id=id_, reason="the history is of a model that has no such check")
