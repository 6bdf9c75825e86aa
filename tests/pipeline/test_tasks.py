"""Which tasks histories are shared out to, and how many cores each may use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from audit_tables import Auditor
from test_audit import RUNS

from logwitness.pipeline.audit import Audit
from logwitness.pipeline.ingest import Task, ingest
from logwitness.pipeline.sources import File, Pending, Source, bins, shares

MB = 1_000_000


def _pending(*megabytes: int) -> list[Pending]:
    return [Pending(Source(f"/run-{n}", (File("", size * MB, 0),))) for n, size in enumerate(megabytes)]


@pytest.mark.parametrize(
    ("megabytes", "cores", "tasks", "expected"),
    [
        ([900], 2, [[900]], [2]),
        ([30, 900, 30], 2, [[900], [30, 30]], [2, 1]),
        ([500, 500], 2, [[500], [500]], [1, 1]),
        ([600, 400], 4, [[600], [400]], [2, 2]),
        ([66, 66, 66, 66, 1, 1], 2, [[66], [66], [66], [66], [1, 1]], [1] * 5),
    ],
)
def test_who_has_more_than_its_share_has_more_cores(
    megabytes: list[int], cores: int, tasks: list[list[int]], expected: list[int]
) -> None:
    found = bins(_pending(*megabytes), 1)
    assert [[each.source.size // MB for each in one] for one in found] == tasks
    assert shares(found, cores) == expected


@pytest.mark.parametrize(
    ("megabytes", "at_least", "tasks"),
    [
        ([4] * 100, 8, [[4] * 13] * 4 + [[4] * 12] * 4),
        ([9, 5, 5, 4, 3, 1], 3, [[5, 3, 1], [5, 4], [9]]),
        ([1, 1], 8, [[1], [1]]),
        ([], 8, []),
        ([40, 40, 40, 20], 2, [[40, 20], [40], [40]]),
    ],
)
def test_tasks_have_about_the_same_work(megabytes: list[int], at_least: int, tasks: list[list[int]]) -> None:
    found = bins(_pending(*megabytes), at_least)
    assert [[each.source.size // MB for each in one] for one in found] == tasks


def test_the_only_history_of_an_audit_has_all_cores(
    tmp_path: Path, audited: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[Task] = []
    spread = Audit._spread

    def noted(audit: Audit, some: Sequence[Any], work: Callable[[Iterable[Any]], Iterable[Any]]) -> list[Any]:
        tasks.extend(some)
        return spread(audit, some, work)

    monkeypatch.setattr(Audit, "_spread", noted)
    audited(RUNS / "reference-parquet", tmp_path / "out")
    (task,) = tasks
    assert task.cores == 2
    before = pa.cpu_count()
    (tmp_path / "here").mkdir()
    try:
        for cores in (1, 2):
            ingest(Task(task.pending, str(tmp_path / "here"), None, task.limits, "", cores=cores))
            assert pa.cpu_count() == min(cores, os.cpu_count() or 1)
    finally:
        pa.set_cpu_count(before)
