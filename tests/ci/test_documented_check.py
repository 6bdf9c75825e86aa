"""The documentation does what it says: the check that is added in docs/adding-a-check.md, and the workflow file."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from logspec.catalogue import Known, problems, read_catalogue
from logwitness.checks import all_checks
from logwitness.cli import main
from logwitness.commands import check_command
from quorumlog.protocol import every

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RUNS = ROOT / "histories" / "runs" / "raft"
EXAMPLE = DOCS / "examples" / "one_open_operation.py"
TWIN = DOCS / "examples" / "plain_operations.py"
COMMAND = [sys.executable, "-c", "from logwitness.cli import main; main()"]


def _blocks() -> list[str]:
    """The quoted blocks of the page about a new check."""
    page = (DOCS / "adding-a-check.md").read_text()
    return [block.strip("\n") for block in re.findall(r"(?:^(?: {4}.*)?\n)+", page, re.M) if block.strip()]


def _plain(block: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in block.splitlines()) + "\n"


RECORD, LOOP, FAMILY, HISTORIES, PLAIN, ENTRY_POINT = _blocks()


def _run(words: list[str], *paths: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    return subprocess.run(words, env=environment, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def test_the_page_quotes_the_example() -> None:
    code = EXAMPLE.read_text()
    assert _plain(RECORD) in code
    assert _plain(FAMILY) in code
    assert _plain(HISTORIES) in code
    assert LOOP in code, "a block from inside a loop is quoted as deep as it stands there"
    assert _plain(PLAIN) in TWIN.read_text()


@pytest.mark.slow
def test_in_the_house_the_page_is_enough(tmp_path: Path) -> None:
    """The check, its histories, its twin: the tests that every check has find all three and pass."""
    for name in ("checker", "tests/checker", "tests/second_judge", "docs/rules"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    module = tmp_path / "checker" / "logwitness" / "checks" / "clients" / EXAMPLE.name
    code, histories = EXAMPLE.read_text(), _plain(HISTORIES)
    module.write_text(code.replace(histories, histories.replace("* ", "")))
    pytest_ = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--import-mode=importlib", "-q"]
    tests = ["tests/checker/test_checks.py", "tests/checker/test_records.py", "tests/second_judge/test_second_judge.py"]
    tests += ["-k", "(one-open-operation or unique or twin) and not compiled"]
    unfinished = _run([*pytest_, "-rf", *tests], tmp_path / "checker", cwd=tmp_path).stdout
    assert "FAILED tests/second_judge" in unfinished, "there is no twin yet"
    assert "FAILED tests/checker/test_checks.py" in unfinished, "a history does not say what shows its violation"
    module.write_text(code)
    shutil.copy(TWIN, tmp_path / "tests" / "second_judge")
    done = _run([*pytest_, *tests], tmp_path / "checker", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 6, done.stdout


@pytest.mark.slow
def test_the_catalogue_asks_for_the_check(tmp_path: Path) -> None:
    ids = [*(check.id for check in all_checks()), "one-open-operation"]
    mutants = [mutant for protocol in every() for mutant in protocol.mutants.values()]
    known = Known(ids, {mutant.id: mutant.checks for mutant in mutants})
    assert set(problems(read_catalogue(), known)) == {
        "no row has the name of one-open-operation, and it is not among the anomalies",
        "no row names one-open-operation in its column checks",
    }
    shutil.copytree(
        ROOT / "spec",
        tmp_path,
        ignore=lambda _, names: {n for n in names if "." in n and n != "catalogue.yaml"},
        dirs_exist_ok=True,
    )
    file = tmp_path / "raft" / "catalogue.yaml"
    rows = file.read_text()
    for place in ("checks: [skip,", "readers-move-forward: [skip,"):
        assert place in rows
        rows = rows.replace(place, place.replace("skip", "one-open-operation, skip"))
    file.write_text(rows)
    assert not list(problems(read_catalogue(tmp_path), known))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with the module of a package and what its installation leaves, as the page has it."""
    place = tmp_path_factory.mktemp("packages")
    shutil.copy(EXAMPLE, place)
    info = place / "one_open_operation-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: one-open-operation\nVersion: 1.0\n")
    declared = tomllib.loads(_plain(ENTRY_POINT))["project"]["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in found.items()) for group, found in declared.items()]
    (info / "entry_points.txt").write_text("".join(lines))
    return place


@pytest.mark.slow
def test_installed_it_is_known_everywhere(installed: Path) -> None:
    listed = json.loads(_run([*COMMAND, "checks", "--json"], installed).stdout)
    assert "one-open-operation" in {each["id"] for each in listed}
    assert "one-open-operation" not in {check.id for check in all_checks()}


@pytest.mark.slow
def test_installed_it_is_explained(installed: Path, tmp_path: Path) -> None:
    explained = _run([*COMMAND, "explain", "one-open-operation"], installed)
    assert "Client 1 began operation 2 while its operation 0 was open." in explained.stdout
    shutil.copytree(installed, tmp_path, dirs_exist_ok=True)
    (tmp_path / EXAMPLE.name).write_text(EXAMPLE.read_text().replace("c2 tail", "c2 nonsense"))
    other = _run([*COMMAND, "explain", "lost-write"], tmp_path)
    assert other.returncode == 0, other.stderr
    assert "histories of the family operations: " in other.stdout + other.stderr


@pytest.mark.slow
def test_installed_it_judges_every_run(installed: Path) -> None:
    runs = [str(RUNS / name) for name in ("reference-default", "cluster-kill-leader", "clients-only")]
    done = _run([*COMMAND, "check", "--json", "--require", "one-open-operation", *runs], installed)
    for line in done.stdout.splitlines():
        verdict = json.loads(line)
        (outcome,) = (each for each in verdict["checks"] if each["id"] == "one-open-operation")
        assert (verdict["exit_status"], outcome["verdict"], outcome["judged"] > 50) == (0, "holds", True)


@pytest.mark.slow
def test_installed_it_finds_a_violation(installed: Path, tmp_path: Path) -> None:
    events = [("invoke", 0, 0), ("invoke", 1, 1), ("info", 1, 1), ("invoke", 0, 2)]
    lines = [{"kind": "history", "version": 1}]
    lines += [
        {"seq": seq, "time": seq, "kind": kind, "process": client, "op": op, "f": "tail"}
        for seq, (kind, client, op) in enumerate(events)
    ]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = [*COMMAND, "check", "--json", "--only", "one-open-operation", str(tmp_path / "events.jsonl")]
    (outcome,) = json.loads(_run(words, installed).stdout)["checks"]
    assert (outcome["verdict"], outcome["judged"], outcome["violated"]) == ("violated", 3, 1)
    sentence = "Client 0 began operation 2 while its operation 0 was open."
    assert outcome["violations"] == [{"sentence": sentence, "events": [0, 3], "log": None}]


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
