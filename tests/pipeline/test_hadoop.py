"""Histories and results on a file system that only Hadoop's client reaches; here viewfs, which needs no server."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from audit_tables import Auditor, rows, tables
from test_audit import FOREIGN, RUNS

from loghistory import HistoryError
from logwitness.pipeline.hadoop import is_remote, local_path


def without_places(found: dict[str, list[dict[str, Any]]], place: str) -> dict[str, list[dict[str, Any]]]:
    """The tables without what depends on where the histories are."""
    ids = {row["run_id"]: row["run"].removeprefix(place) for row in found["runs"]}
    result = defaultdict(list)
    for table, all_rows in found.items():
        for row in all_rows:
            left = {name: value for name, value in row.items() if name not in ("run_id", "run", "stamp", "events_in")}
            left = {n: v.replace(place, "") if isinstance(v, str) else v for n, v in left.items()}
            result[table].append((ids[row["run_id"]], str(left)))
    return {table: sorted(pairs) for table, pairs in result.items()}


def test_both_are_behind_hadoop(behind_hadoop: tuple[str, Path], tmp_path: Path, audited: Auditor) -> None:
    uri, place = behind_hadoop
    for name in ("reference-default", "mutant-vote-twice", "cluster-all-faults"):
        shutil.copytree(RUNS / name, place / "in" / "ours [1]" / name)
    shutil.copytree(FOREIGN / "jepsen-kafka", place / "in" / "kafka")
    (place / "in" / "README.txt").write_text("not a history\n")
    (place / "in" / "bad.jsonl").write_bytes((RUNS / "reference-jsonl" / "events.jsonl").read_bytes()[:-20])
    shutil.copytree(place / "in", tmp_path / "in")
    (place / "out").mkdir()
    summary = audited(f"{uri}/in", f"{uri}/out", large=12_000)
    assert summary.exit_status == 1
    assert summary.verdicts["no history"] == 1
    here = audited(tmp_path / "in", tmp_path / "out", large=12_000)
    assert here.skipped == 1
    found = tables(place / "out")
    readme = [row for row in found["runs"] if row["verdict"] == "no history"]
    assert [row["run"] for row in readme] == [f"{uri}/in/README.txt"]
    found["runs"] = [row for row in found["runs"] if row["verdict"] != "no history"]
    assert without_places(found, f"{uri}/in") == without_places(tables(tmp_path / "out"), str(tmp_path / "in"))
    again = audited(f"{uri}/in", f"{uri}/out", large=12_000)
    assert (again.judged, again.unchanged) == (0, again.seen)
    # One changes: its old rows go, the new ones come.
    (place / "in" / "bad.jsonl").write_bytes((RUNS / "reference-jsonl" / "events.jsonl").read_bytes())
    changed = audited(f"{uri}/in", f"{uri}/out", large=12_000)
    assert changed.judged == 1
    assert not rows(place / "out", "quarantine")


def test_a_place_that_hadoop_cannot_reach_is_one_sentence(tmp_path: Path, audited: Auditor) -> None:
    with pytest.raises(HistoryError, match="cannot be listed"):
        audited("viewfs://nowhere/data", tmp_path / "out")


@pytest.mark.parametrize(
    ("place", "remote", "local"),
    [
        ("runs", False, "runs"),
        ("/a:b/c", False, "/a:b/c"),
        ("file:/a/b", False, "/a/b"),
        ("file:///a/b", False, "/a/b"),
        ("hdfs://name/a", True, None),
        ("s3a://bucket/a", True, None),
    ],
)
def test_what_is_remote(place: str, remote: bool, local: str | None) -> None:
    assert is_remote(place) is remote
    if local is not None:
        assert local_path(place) == local
