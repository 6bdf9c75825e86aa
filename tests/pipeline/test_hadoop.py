"""Histories and results on a file system that only Hadoop's client reaches; here viewfs, which needs no server."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from audit_tables import Auditor, rows, tables
from test_audit import FOREIGN, RUNS

from loghistory import HistoryError
from logwitness.pipeline.hadoop import Shell, is_remote, local_path


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


@pytest.mark.long
def test_both_are_behind_hadoop(behind_hadoop: tuple[str, Path], tmp_path: Path, audited: Auditor) -> None:
    uri, place = behind_hadoop
    for name in ("reference-default", "mutant-vote-twice"):
        shutil.copytree(RUNS / name, place / "in" / "ours [1]" / name)
    shutil.copytree(FOREIGN / "jepsen-kafka", place / "in" / "kafka")
    (place / "in" / "README.txt").write_text("not a history\n")
    (place / "in" / "bad.jsonl").write_bytes((RUNS / "reference-jsonl" / "events.jsonl").read_bytes()[:-20])
    shutil.copytree(place / "in", tmp_path / "in")
    (place / "out").mkdir()
    summary = audited(f"{uri}/in", f"{uri}/out", large=1_000)
    assert summary.exit_status == 1
    assert summary.verdicts["no history"] == 1
    here = audited(tmp_path / "in", tmp_path / "out", large=1_000)
    assert here.skipped == 1
    found = tables(place / "out")
    readme = [row for row in found["runs"] if row["verdict"] == "no history"]
    assert [row["run"] for row in readme] == [f"{uri}/in/README.txt"]
    found["runs"] = [row for row in found["runs"] if row["verdict"] != "no history"]
    assert without_places(found, f"{uri}/in") == without_places(tables(tmp_path / "out"), str(tmp_path / "in"))
    again = audited(f"{uri}/in", f"{uri}/out", large=1_000)
    assert (again.judged, again.unchanged) == (0, again.seen)
    # One changes: its old rows go, the new ones come.
    (place / "in" / "bad.jsonl").write_bytes((RUNS / "reference-jsonl" / "events.jsonl").read_bytes())
    changed = audited(f"{uri}/in", f"{uri}/out", large=1_000)
    assert changed.judged == 1
    assert not rows(place / "out", "quarantine")


@pytest.mark.long
def test_patterns_leave_out_the_same_behind_hadoop(
    behind_hadoop: tuple[str, Path], tmp_path: Path, audited: Auditor
) -> None:
    uri, place = behind_hadoop
    for name in ("old/reference-jsonl", "new/reference-jsonl", "new/reference-parquet"):
        for directory in (place / "in", tmp_path / "in"):
            shutil.copytree(RUNS / name.rpartition("/")[2], directory / name)
    for number, (patterns, left) in enumerate(
        (
            (["old"], ["new/reference-jsonl", "new/reference-parquet"]),
            (["new/*-jsonl", "nothing"], ["new/reference-parquet", "old/reference-jsonl"]),
        )
    ):
        for source in (f"{uri}/in", str(tmp_path / "in")):
            out = tmp_path / f"out-{number}-{source.partition(':')[0] == 'viewfs'}"
            assert audited(source, out, exclude=patterns).histories == len(left)
            assert sorted(row["run"].partition("/in/")[2] for row in rows(out, "runs")) == left
    for source in (f"{uri}/in", str(tmp_path / "in")):
        with pytest.raises(HistoryError, match="that is not excluded"):
            audited(source, tmp_path / "none", exclude=["in/*"])
    # The place itself is named, so no pattern leaves it out.
    assert audited(f"{uri}/in", tmp_path / "all", exclude=["in"]).histories == 3


def test_a_place_that_hadoop_cannot_reach_is_one_sentence(tmp_path: Path, audited: Auditor) -> None:
    with pytest.raises(HistoryError, match="cannot be listed"):
        audited("viewfs://nowhere/data", tmp_path / "out")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Hadoop's shell where files of the host `here` are at hand, and all others are lost."""
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        """#!/bin/sh
        until [ "$1" = -cat ]; do shift; done; shift
        for each; do case $each in
            file://*) cat "${each#file://}";;
            hdfs://here/*) cat "/${each#hdfs://here/}";;
            *) echo "cat: $each is lost" >&2;;
        esac; done"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return Shell(())


def test_what_is_lost_costs_nothing_but_itself(tmp_path: Path, shell: Shell) -> None:
    sizes = [0, 1, 31, 32, 33]
    sizes += [
        (1 << 20) - 5 - sum(sizes) - 32 * 2 * len(sizes),
        1 << 20,
        3 << 20,
    ]  # one ends across pieces of the stream
    files = []
    for number, size in enumerate(sizes):
        (tmp_path / f"{number}").write_bytes(os.urandom(size))
        files += [(f"hdfs://here{tmp_path}/{number}", size, tmp_path / "got" / f"{number}")]
        files += [(f"hdfs://lost/{number}", 10, tmp_path / "got" / f"lost-{number}")]
    files.append((f"hdfs://here{tmp_path}/3", 31, tmp_path / "got" / "grown"))
    problems = shell.fetch(files, tmp_path)
    assert problems.pop(files[-1][0]) == "has changed since it was listed"
    assert problems == {f"hdfs://lost/{n}": f"cannot be read (hdfs://lost/{n} is lost)" for n in range(len(sizes))}
    for number in range(len(sizes)):
        assert (tmp_path / "got" / f"{number}").read_bytes() == (tmp_path / f"{number}").read_bytes()


def test_where_everything_is_lost_it_is_given_up(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [(f"hdfs://lost/{number}", 10, tmp_path / "got" / f"{number}") for number in range(20)]
    assert len(shell.fetch(files, tmp_path)) == 20
    monkeypatch.setattr("logwitness.pipeline.hadoop._PATIENCE", -1.0)
    with pytest.raises(HistoryError, match="is lost"):
        shell.fetch(files, tmp_path)


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
