"""``logwitness check`` and ``logwitness checks`` as people and CI use them; as processes where that matters."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from loghistory import write_run
from logwitness.checks import all_checks, families
from logwitness.checks.raft.protocol import RAFT
from logwitness.cli import main
from logwitness.explain.transcripts import HISTORIES, Case, cases

COMMAND = [sys.executable, "-c", "from logwitness.cli import main; main()"]
(HEALTHY,) = cases(HISTORIES / "healthy.txt")
BROKEN = next(case for case in cases(HISTORIES / "replicas.txt") if case.check == "committed-never-truncated")


def _process(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    words = [*COMMAND, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, **options)  # type: ignore[call-overload,no-any-return]


def _run(*arguments: str | Path) -> Result:
    """The command within this process: to load it anew takes longer than most of what it does."""
    return CliRunner().invoke(main, [*map(str, arguments)], prog_name="logwitness")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name, case in (("good", HEALTHY), ("bad", BROKEN)):
        write_run(tmp_path / name, case.table, {"name": name, "made_by": {"configuration": case.configuration}})
    idle = Case("", "", "", rows=[{"seq": 0, "time": 0, "kind": "phase", "f": "load"}])
    write_run(tmp_path / "idle", idle.table, {"name": "idle"})
    (tmp_path / "broken.jsonl").write_text('{"kind":"history","version":2}\n{"seq":0,"time":0,"kind":"nonsense"}\n')
    return tmp_path


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (["good"], 0),
        (["bad"], 1),
        (["idle"], 3),
        (["broken.jsonl"], 2),
        (["missing"], 2),
        (["good", "idle"], 3),
        (["good", "broken.jsonl", "bad"], 1),
        (["idle", "broken.jsonl"], 2),
    ],
)
def test_exit_status(runs: Path, names: list[str], status: int) -> None:
    assert _run("check", *(runs / name for name in names)).exit_code == status


@pytest.mark.slow
def test_exit_status_of_a_process(runs: Path) -> None:
    for name, status in (("good", 0), ("bad", 1), ("broken.jsonl", 2), ("idle", 3)):
        assert _process("check", runs / name).returncode == status


def test_the_report_explains_a_violation(runs: Path) -> None:
    text = _run("check", runs / "bad").stdout
    assert (
        "committed-never-truncated: Node 2 truncated its log from offset 0 and so removed the committed entry" in text
    )
    assert "rule: No node truncates an entry that is committed, whether by itself or by another node; an entry" in text
    for event in ("append    offset=0 entry_term=1", "commit    term=1 dirty=0", "truncate  offset=0"):
        assert event in text


def test_json_is_one_object_a_run(runs: Path) -> None:
    done = _run("check", "--json", runs / "good", runs / "bad")
    good, bad = map(json.loads, done.stdout.splitlines())
    assert (good["verdict"], good["exit_status"], bad["verdict"], bad["exit_status"]) == ("holds", 0, "violated", 1)
    of_raft = [family for family in families() if family.protocol in (RAFT, None)]
    assert {each["id"] for each in good["checks"]} == {check.id for family in of_raft for check in family.checks}
    (broken,) = (each for each in bad["checks"] if each["verdict"] == "violated")
    assert broken["violations"][0]["events"] == BROKEN.shown


def test_only_and_require(runs: Path) -> None:
    done = _run("check", "--json", "--only", "phantom", "--only", "skip", runs / "bad")
    assert [each["id"] for each in json.loads(done.stdout)["checks"]] == ["phantom", "skip"]
    assert done.exit_code == 3
    assert _run("check", "--require", "phantom", runs / "good").exit_code == 0
    unknown = _run("check", "--only", "phantoms", runs / "good")
    assert unknown.exit_code == 2
    assert "no check is called 'phantoms'" in unknown.stderr


def test_what_judges_other_models_finds_nothing_in_a_log(runs: Path) -> None:
    done = _run("check", "--json", "--only", "linearizable", "--only", "phantom", runs / "good")
    verdicts = {each["id"]: each["verdict"] for each in json.loads(done.stdout)["checks"]}
    assert verdicts == {"linearizable": "unexercised", "phantom": "holds"}
    assert _run("check", "--only", "linearizable", runs / "good").exit_code == 3
    assert _run("check", "--require", "linearizable", runs / "good").exit_code == 3


def test_bad_input_is_one_line_that_names_file_and_line(runs: Path) -> None:
    done = _run("check", runs / "broken.jsonl")
    assert re.fullmatch(rf"logwitness: {runs}/broken\.jsonl, line 2, .*nonsense.*\n", done.stderr), done.stderr


def test_an_empty_name_is_not_the_working_directory(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs / "good")
    done = _run("check", "")
    assert done.exit_code == 2
    assert "the name is empty" in done.stderr


def test_lenient_judges_the_rest_and_says_so(runs: Path) -> None:
    path = runs / "torn.jsonl"
    good = (runs / "good" / "events.jsonl").read_text().splitlines()
    path.write_text("\n".join([*good[:20], "not json", *good[20:]]) + "\n")
    assert _run("check", path).exit_code == 2
    done = _run("check", "--lenient", path)
    assert done.exit_code == 3
    assert "note: 1 line or event was set aside (1 no valid JSON or EDN)." in done.stdout
    assert re.search(r"and \d+ other checks: undecided: 1 line or event was set aside", done.stdout)
    assert [each.name for each in runs.iterdir() if "quarantine" in each.name] == []


def test_checks_lists_every_check_with_its_source() -> None:
    listed = json.loads(_run("checks", "--json").stdout)
    assert [each["id"] for each in listed] == [each.id for each in all_checks()] + ["linearizable"]
    judged_by = {each["id"]: each["models"] for each in listed}
    assert judged_by["acked-survives"] == ["log"]
    assert judged_by["phantom"] == ["log", "list-append", "kafka"]
    assert set(judged_by["operations-are-new"]) > {"log", "kafka", "kv", "cas-register"}
    assert "cas-register" in judged_by["linearizable"]
    assert all(each["rule"] and each["source"] and each["fact"] for each in listed)
    text = _run("checks").stdout
    assert all(each.id in text for each in all_checks())


def test_help_and_version() -> None:
    assert "logwitness check runs/demo" in _run("--help").stdout
    assert "Exit with 3 if this check had nothing to judge" in " ".join(_run("check", "--help").stdout.split())
    assert re.fullmatch(r"logwitness, version \d+\.\d+\.\d+\n", _run("--version").stdout)


def _groups(group: click.Group, *names: str) -> Iterator[tuple[str, click.Group]]:
    yield " ".join(names), group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _groups(command, *names, name)


def test_the_help_of_every_group_fits_80_columns() -> None:
    groups = dict(_groups(main, "logwitness"))
    assert {"logwitness", "logwitness spec", "logwitness history"} <= groups.keys()
    for name, group in groups.items():
        lines = group.get_help(click.Context(group, info_name=name, max_content_width=80)).splitlines()
        assert max(map(len, lines)) <= 80, name


def _leaves(group: click.Group, *names: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _leaves(command, *names, name)
        else:
            yield " ".join(["logwitness", *names, name]), command


def test_every_help_fits_80_columns_and_has_an_example() -> None:
    leaves = dict(_leaves(main))
    assert {"logwitness check", "logwitness audit", "logwitness spec trace", "logwitness cluster"} <= leaves.keys()
    for name, command in leaves.items():
        lines = command.get_help(click.Context(command, info_name=name, max_content_width=80)).splitlines()
        assert max(map(len, lines)) <= 80, name
        examples = [line.strip() for line in lines if line.strip().startswith(name)]
        assert examples, name
        for example in examples:  # is understood as it stands, without what is said of it
            command.make_context(name, shlex.split(example.partition("   ")[0])[len(name.split()) :])


def test_a_part_that_is_missing_is_one_sentence(tmp_path: Path) -> None:
    """An extra that is not installed, or a broken plug-in, shows in the list and fails by name."""
    info = tmp_path / "broken_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[logwitness.commands]\nfly = no_such_wings:fly\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    assert "not available" in _process("--help", env=environment).stdout
    done = _process("fly", "--high", env=environment)
    assert done.returncode == 2
    assert "`logwitness fly` is not available: the module no_such_wings is not installed\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_traceback(runs: Path) -> None:
    words = " ".join([f"'{word}'" for word in [*COMMAND, "checks"]])
    done = subprocess.run(["bash", "-c", f"{words} | head -1"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""


def test_control_c_is_no_verdict(runs: Path) -> None:
    """Interrupted is 130, not 1, which would say that something is violated."""
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "import time, logwitness.engine.local as e\n"
    code += "def slow(*a, **k): print('judging', flush=True); time.sleep(60)\n"
    code += "e.check = slow\nfrom logwitness.cli import main; main()"
    words = [sys.executable, "-c", code, "check", str(runs / "good")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "judging\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.strip() == "logwitness: interrupted"


@pytest.mark.parametrize(
    ("problem", "said"),
    [("MemoryError", "good: there is not enough memory to judge it"), ("RuntimeError('x')", "Traceback")],
)
def test_what_breaks_is_no_verdict(runs: Path, problem: str, said: str) -> None:
    """1 would say that something is violated."""
    code = f"import logwitness.models as m\ndef broken(*a, **k): raise {problem}\nm.check_model = broken\n"
    code += "from logwitness.cli import main; main()"
    words = [sys.executable, "-c", code, "check", str(runs / "good"), str(runs / "missing")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert ("missing: no such file" in done.stderr) == (problem == "MemoryError"), "the others are judged all the same"


@pytest.mark.slow
def test_colours_only_on_a_terminal(runs: Path) -> None:
    assert "\x1b[" not in _process("check", runs / "bad").stdout
    master, slave = pty.openpty()
    process = subprocess.Popen([*COMMAND, "check", str(runs / "bad")], stdout=slave, env=os.environ | {"TERM": "xterm"})
    os.close(slave)
    shown = b""
    while True:
        try:
            chunk = os.read(master, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    assert process.wait(timeout=60) == 1
    assert b"\x1b[" in shown
