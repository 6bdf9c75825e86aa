"""The second stage: histories that are too much for one task, each judged by several.

Each is read by one task for each group of families, which keep no state in common.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from loghistory import HistoryError, open_run

from ..checks import families
from ..checks.kernel import compiled_pays
from ..engine.local import BATCH_ROWS, judge_logs
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


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts of one part, by log; ``place`` and ``number`` are those of the `Part`."""

    place: int
    number: int
    by_log: ByLog
    error: HistoryError | None = None


def judge_part(part: Part) -> Judged:
    """Judge some families of a large history."""
    pa.set_cpu_count(1)
    setting = part.large.setting(compiled=compiled_pays(part.large.row["events"]))
    chosen = tuple(family for family in families() if family.name in part.families)
    try:
        with part.large.events() as file:
            source = open_run(file)
            batches = partial(source.batches, batch_rows=BATCH_ROWS)
            _, by_log = judge_logs(part.large.row["run"], batches, chosen, setting)
    except HistoryError as problem:
        return Judged(part.place, part.number, (), error=problem)
    return Judged(part.place, part.number, by_log)


def judged_parts(parts: Iterable[Part]) -> Iterable[Judged]:
    """`judge_part` for the parts of a partition."""
    return map(judge_part, parts)
