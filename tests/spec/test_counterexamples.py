"""What TLC finds becomes a table for people and a history that the checker and the trace module judge too."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner

from loghistory import open_run
from logspec.cli import spec

CASES = [
    ("visible-unclamped", "visible-on-majority"),
    ("commit-counts-dirty", "committed-flushed-on-majority"),
    ("ack-without-term", "ack-rule"),
    ("vote-not-durable", "one-leader-per-term"),
    ("flush-ignores-truncation", "flushed-within-dirty"),
]


@pytest.mark.parametrize(("model", "check"), CASES)
def test_the_checker_judges_it_too(model: str, check: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = CliRunner().invoke(spec, ["check", model, "--history", str(run)], standalone_mode=False)
    assert result.return_value == 0, result.output
    (judge,) = entry_points(group="logwitness.judges", name="history")
    verdict = judge.load()(open_run(run), None)
    violated = [one["id"] for one in verdict["checks"] if one["verdict"] == "violated"]
    assert check in violated
    assert verdict["exit_status"] == 1


def test_the_trace_module_rejects_it_at_its_last_step(tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = CliRunner().invoke(spec, ["check", "visible-jumps-pending", "--history", str(run)], standalone_mode=False)
    assert result.return_value == 0, result.output
    traced = CliRunner().invoke(spec, ["trace", "--json", str(run)], standalone_mode=False)
    assert traced.return_value == 1
    verdict = json.loads(traced.output.splitlines()[0])
    last = open_run(run).table(["seq"])["seq"][-1].as_py()
    assert verdict["verdict"] == "rejected"
    assert last - verdict["seq"] <= 1


def test_the_table_of_steps(tmp_path: Path) -> None:
    result = CliRunner().invoke(spec, ["check", "visible-unclamped"], standalone_mode=False, env={"COLUMNS": "140"})
    assert "LearnReplicated" in result.output
    assert "mri[n2]: 2 -> 3" in result.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["check", "no-such-model"], "there is no model no-such-model; `logwitness spec check --list` shows them"),
        (["check", "--history", "x"], "--history writes one run; name one model"),
        (["check", "async-flush", "--jar", "/no/such.jar"], "/no/such.jar: no such file"),
        (["trace", "/no/such/run"], "no such file"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(spec, arguments)
    assert result.exit_code != 0
    assert problem in " ".join(result.output.split())
    assert "Traceback" not in result.output
