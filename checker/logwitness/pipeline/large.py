"""The second stage: histories that are too much for one task, each judged by several.

A history of many events is read by one task for each group of families; families keep no state in common. Of a
history with many logs the large ones are judged like that, each for itself; `many_logs` judges the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from loghistory import HistoryError, RunSource, open_run

from ..checks import families
from ..checks.kernel import compiled_pays
from ..engine.local import BATCH_ROWS, judge_logs
from ..engine.logs import SHARED_KINDS
from .ingest import Large
from .partial import ByLog


@dataclass(frozen=True, slots=True)
class Part:
    """Some families of one large history."""

    place: int
    """Of the history, among the large ones."""
    number: int
    """Its own; later families have higher ones."""
    large: Large
    families: tuple[str, ...]
    log: str | None = None
    """The only log of interest; None: all of them."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts of one part, by log; ``place`` and ``number`` are those of the `Part`."""

    place: int
    number: int
    by_log: ByLog
    first: int = 0
    """``seq`` of the first event of the only log of interest."""
    error: HistoryError | None = None


def judge_part(part: Part) -> Judged:
    """Judge some families of a large history."""
    pa.set_cpu_count(1)
    setting = part.large.setting(compiled=compiled_pays(part.large.row["events"]))
    chosen = tuple(family for family in families() if family.name in part.families)
    try:
        with part.large.events() as file:
            events = _Events(open_run(file), part.log)
            _, by_log = judge_logs(part.large.row["run"], events.batches, chosen, setting)
    except HistoryError as problem:
        return Judged(part.place, part.number, (), error=problem)
    return Judged(part.place, part.number, by_log, events.first)


class _Events:
    """The events of a history; with a ``log`` its own and those that concern all logs."""

    def __init__(self, source: RunSource, log: str | None) -> None:
        self._source = source
        self._log = log
        self.first = 0

    def batches(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """The events in order, as record batches with these columns. Notes the first event of the log."""
        none_yet = True
        for batch in self._source.batches(columns, batch_rows=BATCH_ROWS):
            if self._log is None:
                yield batch
                continue
            logs = batch.column("log")
            own = pc.fill_null(pc.equal(logs.cast("string"), self._log), False)
            if none_yet and pc.any(own).as_py():
                none_yet = False
                self.first = batch.column("seq")[pc.index(own, True).as_py()].as_py()
            some = batch.filter(pc.or_(own, _concerns_all(batch)) if logs.null_count else own)
            if some.num_rows:
                yield some


def _concerns_all(batch: pa.RecordBatch) -> pa.Array:
    """Which events have no log and concern every one."""
    kinds = batch.column("kind")
    shared = pc.is_in(kinds.dictionary, value_set=pa.array(SHARED_KINDS)).take(kinds.indices)
    return pc.and_(batch.column("log").is_null(), shared)


def judged_parts(parts: Iterable[Part]) -> Iterable[Judged]:
    """`judge_part` for the parts of a partition."""
    return map(judge_part, parts)
