"""Runs recorded by every version so far stay readable, and mean the same.

The files in ``recorded/`` are never written again. A new schema version adds its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loghistory import SCHEMA, VERSION, Format, Kind, open_run, write_run
from loghistory.versions import UPGRADES

RECORDED = Path(__file__).parent / "recorded"
RUNS = sorted(path.parent for path in RECORDED.glob("version-*/*/manifest.json"))


def test_every_version_has_its_runs_and_its_reader() -> None:
    for version in range(1, VERSION + 1):
        assert version in UPGRADES
        assert {run.name for run in RUNS if run.parent.name == f"version-{version}"} == set(Format)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.parent.name}-{run.name}")
def test_a_recorded_run_means_the_same(run: Path) -> None:
    """The plain JSON of the run is what every format gives; columns that came later are null."""
    source = open_run(run)
    header, *lines = (run.parent / "jsonl" / "events.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    assert json.loads(header) == {"kind": "history", "version": int(run.parent.name.removeprefix("version-"))}
    nothing = dict.fromkeys(SCHEMA.names)
    assert source.table().to_pylist() == [nothing | json.loads(line) for line in lines]
    assert source.notes == ["Kept to show that version 1 stays readable."]
    assert source.manifest is not None
    assert source.manifest.expected == {"commit-index": "holds"}
    assert source.manifest.events == sum(source.manifest.counts.values()) == len(lines)


def test_the_first_version_knew_these_kinds_and_columns() -> None:
    """Neither may be renamed or removed while version 1 is written."""
    lines = (RECORDED / "version-1" / "jsonl" / "events.jsonl").read_text(encoding="utf-8").split("\n")[1:-1]
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds == list(Kind)[: len(kinds)]


def test_todays_writer_gives_the_same_lines(tmp_path: Path) -> None:
    old = RECORDED / f"version-{VERSION}" / "jsonl"
    source = open_run(old)
    assert source.manifest is not None
    write_run(tmp_path / "run", source.batches(), source.manifest)
    for name in ("events.jsonl", "manifest.json"):
        assert (tmp_path / "run" / name).read_bytes() == (old / name).read_bytes()
