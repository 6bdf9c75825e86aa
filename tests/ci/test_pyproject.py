"""Defaults of `logwitness check` from [tool.logwitness] in pyproject.toml."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from logwitness.cli import main
from logwitness.commands import CONFIGURABLE, check_command

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "histories" / "runs" / "raft" / "reference-jsonl"
BAD = RUN.with_name("mutant-vote-twice")


def _check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project directory; the working directory is two levels below it."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    return tmp_path


def _say(project: Path, text: str) -> Path:
    file = project / "pyproject.toml"
    file.write_text(text)
    return file


def test_the_nearest_file_that_has_the_table_counts(project: Path) -> None:
    file = _say(project, '[tool.logwitness]\nrequire = ["linearizable"]\n')
    (project / "a" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    done = _check(RUN)
    assert (done.exit_code, done.stderr) == (3, "")
    assert f"logwitness: defaults from {file}\n" in _check("-v", RUN).stderr
    (project / "a" / "b" / "pyproject.toml").write_text("[tool.logwitness]\n")
    assert _check(RUN).exit_code == 0


def test_the_command_line_wins(project: Path) -> None:
    _say(project, '[tool.logwitness]\nrequire = ["linearizable"]\nonly = ["skip"]\nlenient = true\n')
    assert _check(RUN).exit_code == 3
    assert _check(RUN, "--require", "skip").exit_code == 0
    assert _check(RUN, "--isolated").exit_code == 0
    torn = project / "torn.jsonl"
    torn.write_text("\n".join([*(RUN / "events.jsonl").read_text().splitlines(), "not json"]) + "\n")
    assert _check(torn, "--require", "skip").exit_code == 3
    assert _check(torn, "--require", "skip", "--no-lenient").exit_code == 2
    (judged,) = map(json.loads, _check("--json", RUN, "--only", "phantom").stdout.splitlines())
    assert [each["id"] for each in judged["checks"]] == ["phantom"]


def test_another_file_is_named(project: Path) -> None:
    other = project / "ci.toml"
    other.write_text('[tool.logwitness]\nrequire = ["linearizable"]\n')
    _say(project, "[tool.logwitness]\n")
    assert _check(RUN).exit_code == 0
    assert _check(RUN, "--config", other).exit_code == 3
    for words in (["--isolated", "--config", other], ["--config", other, "--isolated"]):
        done = _check(RUN, *words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "--config and --isolated cannot be combined" in done.stderr


def test_every_option_can_be_set(project: Path) -> None:
    (project / "runs").mkdir()
    for run in (RUN, BAD):
        (project / "runs" / run.name).symlink_to(run)
    assert _check(BAD, "--write-baseline", project / "known.json").exit_code == 1
    said = {
        "require": ["skip"],
        "only": ["skip", "one-vote-per-term"],
        "exclude": ["nothing-like-it"],
        "baseline": "known.json",
        "junit": "out.xml",
        "sarif": "out.sarif",
        "visualise": "pages",
        "lenient": True,
        "quarantine": "aside",
        "model": "log",
        "initial": "0",
        "timeout": 3,
        "memory-limit": 100,
        "format": "zst",
    }
    assert said.keys() == set(CONFIGURABLE)
    _say(project, "[tool.logwitness]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in said.items()))
    done = _check(BAD)
    assert done.exit_code == 0, done.output
    assert "violated (known)" in done.stdout
    # Paths are relative to the file, not to the working directory.
    assert {"out.xml", "out.sarif"} <= {each.name for each in project.iterdir()}
    context = check_command.make_context("check", [str(BAD)])
    assert context.params["timeout"] == 3.0
    assert context.params["memory_limit"] == 100
    assert context.params["pages"] == project / "pages"
    assert context.params["exclude"] == ("nothing-like-it",)
    assert (context.params["model"], context.params["initial"], context.params["format_"]) == ("log", "0", "zst")


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        ('required = ["skip"]', "required", "no such key; the keys are baseline, exclude, format, "),
        ("json = true", "json", "no such key"),
        ('require = "skip"', "require", '"skip" is not a list of strings'),
        ("require = [1]", "require", "[1] is not a list of strings"),
        ('require = ["skipp"]', "require", "no check is called 'skipp'"),
        ('exclude = [""]', "exclude", "is not a pattern"),
        ("timeout = true", "timeout", "true is not a number"),
        ('timeout = "60"', "timeout", '"60" is not a number'),
        ("timeout = 0", "timeout", "0.0 is not in the range"),
        ("timeout = nan", "timeout", "not in the range"),
        ("memory-limit = 2.5", "memory-limit", "2.5 is not an integer"),
        ("memory_limit = 100", "memory_limit", "no such key"),
        ("memory-limit = 1", "memory-limit", "1 is not in the range"),
        ("initial = 0", "initial", "0 is not a string"),
        ('model = "logs"', "model", "'logs' is not one of 'log', "),
        ("lenient = 1", "lenient", "1 is not true or false"),
        ("baseline = []", "baseline", "[] is not a string"),
        ("check = {}", "check", "no such key"),
    ],
)
def test_what_is_wrong_is_one_line_with_file_and_key(project: Path, text: str, key: str, problem: str) -> None:
    file = _say(project, f"[tool.logwitness]\n{text}\n")
    done = _check(RUN)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"logwitness: {file}, tool.logwitness.{key}: ")
    assert problem in line
    assert _check(RUN, "--isolated").exit_code == 0


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[tool.logwitness\n", "not TOML"),
        (b"[tool.logwitness]\nx = '\xff'\n", "not TOML"),
        (b"x = " + b"[" * 100_000, "not TOML"),
        (b"[tool]\nlogwitness = 3\n", "tool.logwitness: 3 is not a table"),
        (b"tool = 3\n", "there is no table [tool.logwitness]"),
        (b"", "there is no table [tool.logwitness]"),
        (None, "cannot be read (No such file or directory)"),
    ],
)
def test_what_is_no_such_file_is_one_line(project: Path, content: bytes | None, problem: str) -> None:
    file = project / "ci.toml"
    if content is not None:
        file.write_bytes(content)
    done = _check(RUN, "--config", file)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"logwitness: {file}")
    assert problem in line


def test_a_broken_file_does_not_keep_the_help_away(project: Path) -> None:
    _say(project, "[tool.logwitness")
    assert _check("--help").exit_code == 0
    assert _check(RUN).exit_code == 2


def test_the_documented_table_is_understood(project: Path) -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    (block,) = re.findall(r"(?:^ {4}.*\n)*^ {4}\[tool\.logwitness\]\n(?:^ {4}.*\n)+", page, re.M)
    text = "".join(line.removeprefix("    ") for line in block.splitlines(keepends=True))
    said = tomllib.loads(text)["tool"]["logwitness"]
    _say(project, text)
    context: click.Context = check_command.make_context("check", [str(RUN)])
    assert context.params["require"] == tuple(said["require"])
    assert context.params["exclude"] == tuple(said["exclude"])
    for key in CONFIGURABLE:
        assert f"`{key}`" in page
