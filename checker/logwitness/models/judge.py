"""Judging a history by its model: the same verdict, whatever comes to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from loghistory import RunSource
from loghistory.importers import ForeignFormat

from ..checks import all_checks, families
from ..checks.contract import Check, Outcome, Verdict, outcome, worst
from ..engine.doubt import Doubt
from ..engine.local import Progress, check
from ..engine.run import RunVerdict, exit_status
from .choice import LIST_VOCABULARY, VOCABULARIES, Model, are_lists
from .form import FORM, Form
from .kafka import CHECKS as KAFKA
from .kafka import KafkaHistory
from .linearizable import LINEARIZABLE, Limits, LinearizableHistory, Partial
from .lists import STALE_TAIL, ListHistory
from .transactions import CHECKS as TRANSACTIONS
from .transactions import TransactionHistory

_SEARCHED = (Model.REGISTER, Model.CAS_REGISTER, Model.KEY_VALUE, Model.SET, Model.QUEUE)
_COLUMNS = ("seq", "time", "kind", "log", "process", "op", "txn", "f", "acks", "offset", "value", "text")


class ModelVerdict(RunVerdict, frozen=True, omit_defaults=True):
    """The verdict on a history of a model that is no log of ours."""

    partial: tuple[Partial, ...] = ()
    """How far a search came with what it found no order for."""

    def document(self) -> dict[str, Any]:
        """As that of a run, and the partial linearizations."""
        return super().document() | {"partial_linearizations": msgspec.to_builtins(list(self.partial))}


def every_check() -> tuple[Check, ...]:
    """Every check that a report can name: those of logs, and the one of the other models."""
    return (*all_checks(), LINEARIZABLE)


def judged_by() -> list[tuple[str, Check, tuple[Model, ...]]]:
    """Every check with its family and the models that histories are judged by it in."""
    ids = {
        Model.KAFKA: {each.id for each in KAFKA},
        Model.LIST_APPEND: {each.id for each in (*KAFKA, STALE_TAIL, *TRANSACTIONS)},
    }
    formed = tuple(model for model in Model if model not in (Model.LOG, Model.UNKNOWN))
    listed = [
        (
            family.name,
            each,
            (Model.LOG, *(model for model in formed if family is FORM or each.id in ids.get(model, ()))),
        )
        for family in families()
        for each in family.checks
    ]
    return [*listed, ("models", LINEARIZABLE, (*_SEARCHED, Model.LIST_APPEND))]


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

    ``only`` and ``required`` are ids of `every_check`, ``limits`` those of a search; ``pages`` is a directory that gets
    Porcupine's page (HTML) of every search. Raises `HistoryError` for bad input.
    """
    lists = model in (Model.LOG, Model.LIST_APPEND) and are_lists(source)
    if model is Model.LOG and not lists:
        return _of_log(source, only, required, progress)
    name = str(source.path)
    judged: KafkaHistory | LinearizableHistory | TransactionHistory
    foreign = isinstance(source.format, ForeignFormat)
    doubt = Doubt(LIST_VOCABULARY if lists else VOCABULARIES.get(model), timed=foreign)
    form = None if foreign else Form(name)
    if lists:
        judged = ListHistory(name)
    elif model is Model.LIST_APPEND:
        judged = TransactionHistory(name)
    elif model is Model.KAFKA:
        judged = KafkaHistory(name)
    else:
        judged = LinearizableHistory(name, model, limits or Limits(), pages)
    events = 0
    for batch in source.batches(_COLUMNS if form is None else {*_COLUMNS, *form.reads}):
        doubt.see(batch)
        if form is not None:
            form.feed(batch)
        judged.feed(batch)
        events += batch.num_rows
        if progress is not None:
            progress(events)
    doubt.read(source)
    found = judged.finish()
    outcomes = doubt.weigh(found if form is None else form.weigh(found), judged.conclusive)
    notes = (*source.notes, *judged.notes, *doubt.notes)
    if only is not None:
        known = {each.id: each for each in outcomes}
        outcomes = tuple(known.get(id_) or _idle(id_) for id_ in only)
    status = exit_status(outcomes, required)
    missing = set(required) - {each.id for each in outcomes}
    verdict = worst([each.verdict for each in outcomes])
    if verdict is Verdict.HOLDS and (status or missing):
        verdict, status = Verdict.UNEXERCISED, 3
    partial = tuple(judged.partial) if isinstance(judged, LinearizableHistory) else ()
    losses = tuple(judged.losses) if isinstance(judged, KafkaHistory) else ()
    aside, unknown = dict(doubt.set_aside), dict(doubt.unknown)
    return ModelVerdict(
        name, verdict, status, events, judged.logs, outcomes, losses, notes, aside, unknown, partial=partial
    )


def _of_log(
    source: RunSource, only: Sequence[str] | None, required: Sequence[str], progress: Progress | None
) -> RunVerdict:
    """The verdict of the checks, with what is asked for beside them."""
    if only is None or LINEARIZABLE.id not in only:
        return check(source, only, required=required, progress=progress)
    verdict = check(source, [id_ for id_ in only if id_ != LINEARIZABLE.id], required=required, progress=progress)
    known = {each.id: each for each in verdict.checks}
    return msgspec.structs.replace(verdict, checks=tuple(known.get(id_) or _idle(id_) for id_ in only))


def _idle(id_: str) -> Outcome:
    blank = outcome(LINEARIZABLE, 0)
    return msgspec.structs.replace(blank, id=id_, reason="the history is of a model that has no such check")
