"""What TLC finds becomes a table for people and a history that the checker and the trace module judge too."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner

from loghistory import open_run
from logspec.cli import spec


def test_a_table_for_people_and_a_run_for_the_checker(tmp_path: Path) -> None:
    """One model through the command; what the checker finds of every mutant is in test_models.py."""
    run = tmp_path / "run"
    arguments = ["check", "visible-unclamped", "--history", str(run)]
    result = CliRunner().invoke(spec, arguments, standalone_mode=False, env={"COLUMNS": "140"})
    assert result.return_value == 0, result.output
    assert "LearnReplicated" in result.output
    assert "majorityReplicated[n2]: 2 -> 3" in result.output
    (judge,) = entry_points(group="logwitness.judges", name="history")
    verdict = judge.load()(open_run(run), None)
    assert [one["id"] for one in verdict["checks"] if one["verdict"] == "violated"] == ["visible-on-majority"]
    assert verdict["exit_status"] == 1


def test_the_trace_module_rejects_it_at_its_last_step(tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = CliRunner().invoke(spec, ["check", "visible-jumps-pending", "--history", str(run)], standalone_mode=False)
    assert result.return_value == 0, result.output
    traced = CliRunner().invoke(spec, ["trace", "--json", str(run)], standalone_mode=False)
    assert traced.return_value == 1
    verdict = json.loads(traced.output.splitlines()[0])
    seqs, kinds = (open_run(run).table(["seq", "kind"])[name].to_pylist() for name in ("seq", "kind"))
    last = max(seq for seq, kind in zip(seqs, kinds, strict=True) if kind == "visible")  # reads follow it
    assert verdict["verdict"] == "rejected"
    assert verdict["seq"] == last


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["check", "drops-last-of-key", "--history", "x"], "only behaviours of FlushedRaft and AsyncFlush"),
        (["check", "no-such-model"], "there is no model no-such-model; `logwitness spec check --list` shows them"),
        (["check", "--history", "x"], "--history writes a single run: name one model"),
        (["check", "async-flush", "--jar", "/no/such.jar"], "/no/such.jar: no such file"),
        (["trace", "/no/such/run"], "no such file"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(spec, arguments)
    assert result.exit_code != 0
    assert problem in " ".join(result.output.split())
    assert "Traceback" not in result.output
