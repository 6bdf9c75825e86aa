"""Canonical events keep the version in which they were recorded, so that what version 1 left out is still allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from loghistory import open_run
from logwitness.pipeline import canonical
from logwitness.pipeline.canonical import Canonical

RECORDED = Path(__file__).resolve().parents[1] / "histories" / "recorded"


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("version", [1, 2])
def test_the_file_of_a_history_states_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, form: str
) -> None:
    monkeypatch.setattr(canonical, "SMALL", 8)
    source = open_run(RECORDED / f"version-{version}" / form)
    history = Canonical(source, tmp_path / "events.parquet", lambda _: None)
    history.sweep()
    assert history.small is None
    assert open_run(history.file).version == version
    assert open_run(history.file).table().to_pylist() == source.table().to_pylist()
    assert sum(batch.num_rows for batch in history.batches()) == history.events_read
