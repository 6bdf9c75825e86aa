"""Runs recorded by every version so far stay readable, and mean the same.

The files in ``recorded/`` are never written again. A new schema version adds its own.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from loghistory import COLUMNS, SCHEMA, VERSION, Format, HistoryError, Kind, merge_runs, open_run, write_run
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
    assert source.version == int(run.parent.name.removeprefix("version-"))
    assert source.notes == [f"Kept to show that version {source.version} stays readable."]
    assert source.manifest is not None
    assert source.manifest.expected == {"commit-index": "holds"}
    assert source.manifest.events == sum(source.manifest.counts.values()) == len(lines)


def test_every_kind_of_a_version_is_known_today() -> None:
    """None may be renamed or removed."""
    for version in range(1, VERSION + 1):
        lines = (RECORDED / f"version-{version}" / "jsonl" / "events.jsonl").read_text(encoding="utf-8").split("\n")
        assert {json.loads(line)["kind"] for line in lines[1:-1]} <= set(Kind)


def test_a_column_keeps_its_number() -> None:
    """Files do not hold the numbers, but bytes follow from the order that they give."""
    first = "seq time logical kind log node incarnation process op txn f acks term role offset last_offset entry_term"
    more = "value text dirty flushed commit visible peer message count bytes reason"
    known = f"{first} {more}".split()
    assert [column.name for column in COLUMNS][: len(known)] == known
    assert [column.number for column in COLUMNS] == list(range(1, len(COLUMNS) + 1))


STATELESS = RECORDED / "version-1" / "jsonl"


def test_version_1_did_not_ask_for_the_state_of_a_trim(tmp_path: Path) -> None:
    """The same lines are refused in a file of version 2, and taken without a word in one of version 1."""
    old = open_run(STATELESS / "events.jsonl")
    assert old.version == 1
    trims = [row for row in old.table().to_pylist() if row["kind"] in {"trim", "compact"}]
    assert [row["commit"] for row in trims] == [None, None]
    lines = (STATELESS / "events.jsonl").read_bytes().split(b"\n", 1)[1]
    (tmp_path / "new.jsonl").write_bytes(b'{"kind":"history","version":2}\n' + lines)
    with pytest.raises(HistoryError, match="line 22, field term: a compact event must carry it"):
        open_run(tmp_path / "new.jsonl").table()


def test_a_parquet_file_that_states_no_version_is_one_of_the_first(tmp_path: Path) -> None:
    table = open_run(STATELESS).table()
    pq.write_table(table.replace_schema_metadata(None), tmp_path / "events.parquet")
    run = open_run(tmp_path / "events.parquet")
    assert run.version == 1
    assert run.table().to_pylist() == table.to_pylist()


@pytest.mark.parametrize("form", list(Format))
def test_a_run_keeps_its_version_when_it_is_written_anew(tmp_path: Path, form: Format) -> None:
    old = open_run(STATELESS)
    write_run(tmp_path / "table", old.table(), {}, form)
    write_run(tmp_path / "batches", old.batches(), {}, form, version=old.version)
    merge_runs([STATELESS / "events.jsonl"], tmp_path / "merged", format=form)
    for name in ("table", "batches", "merged"):
        run = open_run(tmp_path / name)
        assert (run.version, open_run(run.events).version) == (1, 1)
        assert run.table().to_pylist() == old.table().to_pylist()
    with pytest.raises(HistoryError, match="a compact event must carry it"):
        write_run(tmp_path / "today", old.batches(), {}, form)


def test_todays_writer_gives_the_same_lines(tmp_path: Path) -> None:
    old = RECORDED / f"version-{VERSION}" / "jsonl"
    source = open_run(old)
    assert source.manifest is not None
    write_run(tmp_path / "run", source.batches(), source.manifest)
    for name in ("events.jsonl", "manifest.json"):
        assert (tmp_path / "run" / name).read_bytes() == (old / name).read_bytes()


def test_a_merge_of_several_versions_promises_what_the_earliest_does(tmp_path: Path) -> None:
    """It may hold events that lack what the later one asks for."""
    files = [
        shutil.copy(RECORDED / f"version-{each}" / "jsonl" / "events.jsonl", tmp_path / f"{each}.jsonl")
        for each in (1, 2)
    ]
    merge_runs(files, tmp_path / "run")
    source = open_run(tmp_path / "run")
    assert source.version == 1
    assert source.table().num_rows == sum(open_run(file).table().num_rows for file in files)
