"""`logwitness audit` and `campaign` as commands: what they refuse, and campaigns that are the same every time."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from loghistory import HistoryError, open_run
from logwitness.engine.local import check
from logwitness.pipeline.campaign import NothingToRun, run_campaign
from logwitness.pipeline.commands import audit, campaign
from logwitness.pipeline.progress import Progress
from logwitness.pipeline.session import OLDEST_JAVA


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(audit, [str(each) for each in arguments])


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], Path]:
    """Puts a Java that says this into JAVA_HOME; None: there is none."""

    def put(said: str | None) -> Path:
        program = tmp_path / "java" / "bin" / "java"
        program.parent.mkdir(parents=True)
        if said is not None:
            program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
            program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
        return program

    return put


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        (None, "there is none"),
        ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
        ('java version "1.8.0_292"', "is Java 8"),
        ("no idea", "does not report its version"),
    ],
)
def test_a_java_that_cannot_run_spark(
    tmp_path: Path, java: Callable[[str | None], Path], said: str | None, reported: str
) -> None:
    java(said)
    for result in (
        _run(tmp_path, tmp_path / "out"),
        CliRunner().invoke(campaign, ["--seeds", "1", str(tmp_path / "out")]),
    ):
        assert result.exit_code != 0
        assert reported in result.output
        assert f"Java {OLDEST_JAVA} or later" in result.output
        assert len(result.output.strip().splitlines()) == 1
        assert not (tmp_path / "out").exists()


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else found(name))
    result = _run(tmp_path, tmp_path / "out")
    assert "pip install 'logwitness[spark]'" in result.output
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize("option", ["--idle=1", "--stop-after=1"])
def test_options_of_follow_alone(tmp_path: Path, option: str) -> None:
    result = _run(tmp_path, tmp_path / "out", option)
    assert result.exit_code == 2
    assert "--follow" in result.output


def test_a_campaign_finds_mutants_out_and_is_the_same_every_time(tmp_path: Path, spark: SparkSession) -> None:
    chosen = ["commit-old-term", "visible-uses-dirty"]
    results = [
        run_campaign(nullcontext(spark), tmp_path / name, range(20, 26), chosen, Progress(quiet=True))
        for name in ("one", "two")
    ]
    assert results[0] == results[1]
    assert results[0].exit_status == 0
    tables = [pq.read_table(tmp_path / name / "kills") for name in ("one", "two")]
    assert tables[0].equals(tables[1])
    rows = [row for row in tables[0].to_pylist() if row["stated"]]
    assert {row["mutant"] for row in rows} == set(chosen)
    for row in (rows[0], rows[-1]):
        run = open_run(tmp_path / "one" / "runs" / row["mutant"] / str(row["seed"]))
        (found,) = check(run, [row["check"]]).checks
        assert (found.violations[0].sentence, found.violated) == (row["sentence"], row["violated"])
        assert list(found.violations[0].events) == row["events"]
    summary = json.loads((tmp_path / "one" / "summary.json").read_bytes())
    assert [each["mutant"] for each in summary["mutants"]] == chosen
    assert not list((tmp_path / "one").glob("_*"))
    with pytest.raises(HistoryError, match="is not empty"):
        run_campaign(nullcontext(spark), tmp_path / "one", range(1), chosen, Progress(quiet=True))


def test_the_reference_survives_a_campaign(tmp_path: Path, spark: SparkSession) -> None:
    result = run_campaign(nullcontext(spark), tmp_path / "out", range(7), [None], Progress(quiet=True))
    (tally,) = result.mutants
    assert (tally.runs, tally.killed, result.exit_status) == (7, 0, 0)


def test_a_mutant_that_is_unknown(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(NothingToRun, match="mutant 'unheard-of' is unknown"):
        run_campaign(nullcontext(spark), tmp_path / "out", range(1), ["unheard-of"], Progress(quiet=True))
