"""The judges of the entry point group ``logwitness.judges``: how others ask for a verdict, by name.

``history`` (`judge`) judges a whole run, ``watch`` (`Watch`) one that is still being recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from loghistory import Format, RunSource
from loghistory.columns import columns_in_order
from loghistory.schema import SCHEMA, version_in
from loghistory.source import checked

from .checks.columns import Reader
from .checks.kernel import compiled_pays
from .engine.doubt import Doubt
from .engine.local import check, checks_for, concluded, families_for, setting_of
from .engine.logs import Logs
from .models import Model, check_model, every_check, model_of

_NOTHING = SCHEMA.empty_table()


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


class Watch:
    """A log that is judged while it is recorded: the judge ``watch`` of the entry point group.

    What is recorded is fed piece by piece, valid and in order; the answer does not depend on how it was cut.
    """

    def __init__(self, only: Sequence[str] | None, *, configuration: Mapping[str, Any]) -> None:
        """Arguments as for `judge`; ``configuration`` has the voters and the protocol. KeyError: an unknown check."""
        self._setting = setting_of(_NOTHING, configuration, compiled_pays(0))
        self._wanted = checks_for(only, self._setting)
        self._ids = {check.id for check in self._wanted}
        # Who asks for some checks alone waits for a violation of theirs, and that does not depend on the ground.
        families = [
            each
            for each in families_for(only, self._setting)
            if not each.is_ground or any(check.id in self._ids for check in each.checks)
        ]
        columns = {column for family in families for column in family.columns}
        self._reader = Reader("memory", columns, self._setting.words, compiled=self._setting.compiled)
        self._logs = Logs(families, self._setting)
        self._events = 0

    def feed(self, batch: pa.RecordBatch) -> bool:
        """Take the next events; whether a rule is broken by now, as far as that can be told before the end."""
        self._events += batch.num_rows
        self._logs.feed(self._reader.columns(batch), batch.column("log"))
        return not self._logs.violated().isdisjoint(self._ids)

    def document(self) -> dict[str, Any]:
        """The verdict on all that was fed, as `judge` gives it. Called once."""
        compiled_pays(self._events)
        # Whoever records a run has no lines to set aside, no operations without a rule, and no node that is not
        # recorded any more: one that is quiet when the run is stopped may be cut off.
        found = [
            (log, each if each.quiet_since is None else replace(each, quiet_since=None))
            for log, each in self._logs.finish()
        ]
        verdict = concluded(*("memory", self._events, found, self._wanted), keep=self._setting.keep, doubt=Doubt(None))
        return verdict.document()


class _Memory(RunSource):
    """A table as what is read from a file; raises `HistoryError` if its events are not what the schema promises."""

    def __init__(self, table: pa.Table) -> None:
        here = Path("memory")
        super().__init__(here, here, None, killed=False, quarantine=None, lenient=False, format_=Format.PARQUET)
        self.version = version_in(table)
        self._batches = list(checked(table, str(here)))

    def batches(
        self,
        columns: Iterable[str] | None = None,
        kinds: Collection[str] | None = None,
        batch_rows: int = 0,
        *,
        coded_texts: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The events in order; all kinds, in the batches that the table has."""
        del coded_texts
        wanted = columns_in_order(columns)
        return (batch.select(wanted) for batch in self._batches)
