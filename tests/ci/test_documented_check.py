"""The documentation does what it says: the check that is added in docs/adding-a-check.md, and the workflow file."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner

import logwitness.checks
from loghistory import MemorySink, Recorder, open_run
from logwitness import check
from logwitness.cli import main
from logwitness.commands import check_command

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RUNS = ROOT / "histories" / "runs" / "raft"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The documented check, added to the families."""
    spec = importlib.util.spec_from_file_location("one_open_operation", DOCS / "examples" / "one_open_operation.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(logwitness.checks, "FAMILIES", (*logwitness.checks.FAMILIES, module.FAMILY))
    return module


def _history(*events: tuple[str, int, int]) -> pa.Table:
    sink = MemorySink()
    with Recorder(sink) as record:
        for kind, process, op in events:
            record.event(kind, time=0, process=process, op=op, f="tail", offset=0 if kind == "ok" else None)
    return sink.table


def test_the_page_quotes_the_example() -> None:
    page, code = (DOCS / "adding-a-check.md").read_text(), (DOCS / "examples" / "one_open_operation.py").read_text()
    quoted = [block.rstrip() for block in re.findall(r"(?:^(?: {4}.*)?\n)+", page, re.M) if block.strip()]
    assert len(quoted) == 3
    for block in quoted:
        lines = [line.removeprefix("    ") for line in block.strip("\n").splitlines()]
        # A block from inside a loop is quoted as deep as it stands there.
        assert "\n".join(lines) in code or block.strip("\n") in code


@pytest.mark.parametrize(
    ("events", "verdict", "shown"),
    [
        ([("invoke", 0, 0), ("ok", 0, 0), ("invoke", 0, 1)], "holds", []),
        ([("invoke", 0, 0), ("invoke", 1, 1), ("info", 0, 0), ("invoke", 0, 2)], "holds", []),
        ([("invoke", 0, 0), ("invoke", 1, 1), ("invoke", 0, 2)], "violated", [0, 2]),
    ],
)
def test_the_documented_check(
    example: ModuleType, events: list[tuple[str, int, int]], verdict: str, shown: list[int]
) -> None:
    (outcome,) = check(_history(*events), ["one-open-operation"]).checks
    assert outcome.verdict == verdict
    assert outcome.judged == sum(kind == "invoke" for kind, _, _ in events)
    assert [seq for each in outcome.violations for seq in each.events] == shown


def test_the_documented_check_is_known_everywhere(example: ModuleType) -> None:
    listed = json.loads(CliRunner().invoke(main, ["checks", "--json"]).stdout)
    assert "one-open-operation" in {each["id"] for each in listed}
    done = CliRunner().invoke(
        main, ["check", str(RUNS / "reference-jsonl"), "--require", "one-open-operation", "--json"]
    )
    assert json.loads(done.stdout)["verdict"] == "holds"


def test_recorded_runs_keep_the_documented_rule(example: ModuleType) -> None:
    for name in ("reference-default", "cluster-kill-leader", "clients-only"):
        (outcome,) = check(open_run(RUNS / name), ["one-open-operation"]).checks
        assert (outcome.verdict, outcome.judged > 50) == ("holds", True)


def _steps() -> list[dict[str, Any]]:
    workflow = yaml.safe_load((DOCS / "examples" / "history-gate.yml").read_text())
    return list(workflow["jobs"]["judge"]["steps"])


def _workflow() -> list[str]:
    return [step["run"] for step in _steps() if step.get("run", "").startswith("logwitness")]


def test_the_histories_of_failed_tests_are_uploaded() -> None:
    """Their directory is hidden, which the action leaves out unless it is told not to."""
    (upload,) = (step["with"] for step in _steps() if "upload-artifact" in step.get("uses", ""))
    assert ".logwitness/" in upload["path"].split()
    assert upload["include-hidden-files"] is True


def test_the_readme_shows_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = re.search(r"^ {4}\$ logwitness (.*)\n((?: {4}.*\n|\n)+)", (ROOT / "README.md").read_text(), re.M)
    assert shown is not None
    done = CliRunner().invoke(main, shlex.split(shown[1]))
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [line.removeprefix("    ") for line in shown[2].strip("\n").splitlines()]


def test_documented_commands_are_understood() -> None:
    commands = re.findall(r"^ {4}(logwitness [^#\n]*)", (DOCS / "ci.md").read_text(), re.M)
    assert len(commands) == 4
    for text in commands:
        name, *words = shlex.split(text)[1:]
        assert name == "check"
        check_command.make_context(name, words)


def test_the_workflow_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record, judge = (shlex.split(text)[1:] for text in _workflow())
    assert CliRunner().invoke(main, record).exit_code == 0
    assert CliRunner().invoke(main, ["check", "runs/", "--write-baseline", "known-violations.json"]).exit_code == 0
    done = CliRunner().invoke(main, judge)
    assert done.exit_code == 0, done.output
    assert {"junit.xml", "history.sarif"} <= {each.name for each in tmp_path.iterdir()}
