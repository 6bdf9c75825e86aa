"""The judge ``history`` of the entry point group ``logwitness.judges``: how others ask for a verdict, by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from loghistory import Format, RunSource
from loghistory.columns import columns_in_order
from loghistory.schema import version_in
from loghistory.source import checked

from ..models import Model, check_model, every_check, model_of
from .local import check


def judge(
    source: RunSource | pa.Table,
    only: Sequence[str] | None = None,
    *,
    configuration: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Judge one run by the model that its operations ask for; the answer is what ``logwitness check --json`` prints.

    ``configuration`` is what a log was made with, for a table, which has no manifest; who gives it has recorded a log
    and found its events valid. Raises `HistoryError` for bad input and KeyError for an unknown check id.
    """
    known = {each.id for each in every_check()}
    for id_ in only or ():
        if id_ not in known:
            raise KeyError(id_)
    if configuration is not None:
        return check(source, only, configuration=configuration).document()
    history = source if isinstance(source, RunSource) else _Memory(source)
    model = model_of(history)
    if model is Model.LOG and not isinstance(source, RunSource):
        return check(source, only).document()
    return check_model(history, model, only).document()


class _Memory(RunSource):
    """A table as what is read from a file; raises `HistoryError` if its events are not what the schema promises."""

    def __init__(self, table: pa.Table) -> None:
        here = Path("memory")
        super().__init__(here, here, None, killed=False, quarantine=None, lenient=False, format_=Format.PARQUET)
        self.version = version_in(table)
        self._batches = list(checked(table, str(here)))

    def batches(
        self, columns: Iterable[str] | None = None, kinds: Collection[str] | None = None, batch_rows: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """The events in order; all kinds, in the batches that the table has."""
        wanted = columns_in_order(columns)
        return (batch.select(wanted) for batch in self._batches)
