"""The commands simulate and hunt, as a person uses them: what they print, write and refuse, and how they end."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from loghistory import open_run
from quorumlog.hunting.hunt_command import hunt
from quorumlog.hunting.simulate_command import simulate
from quorumlog.protocol import every, load

LOGWITNESS = Path(sys.executable).with_name("logwitness")
OF_READERS = Path(__file__).parents[2] / "histories" / "runs" / "read_path" / "reference-default" / "manifest.json"


def run_simulate(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, list(arguments))


def test_simulate_says_the_seed_and_what_happened_and_leaves_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run_simulate("--seed", "7", "--duration", "1s")
    assert result.exit_code == 0, result.output
    assert "seed 7\n" in result.output
    for word in ("appends", "elections won", "converged", "out/simulated-7"):
        assert word in result.output
    source = open_run(tmp_path / "out" / "simulated-7")
    assert source.manifest is not None
    assert source.manifest.made_by["seed"] == 7
    assert sum(batch.num_rows for batch in source.batches()) == source.manifest.events > 500


def test_a_run_is_made_again_from_its_manifest(tmp_path: Path) -> None:
    plan = '[{"at": "400ms", "name": "kill", "nodes": ["leader"], "lasting": "200ms"}]'
    first, again = tmp_path / "first", tmp_path / "again"
    assert not run_simulate(
        "--seed", "3", "--duration", "1s", "--nodes", "5", "--faults", plan, "-o", str(first)
    ).exit_code
    made = ["--seed", "3", "--configuration", str(first / "manifest.json"), "-o", str(again)]
    assert run_simulate(*made).exit_code == 0
    assert (first / "events.jsonl").read_bytes() == (again / "events.jsonl").read_bytes()


@pytest.mark.parametrize(("name", "file"), [("zst", "events.jsonl.zst"), ("parquet", "events.parquet")])
def test_other_formats(name: str, file: str, tmp_path: Path) -> None:
    assert (
        run_simulate("--seed", "1", "--duration", "300ms", "--format", name, "-o", str(tmp_path / "run")).exit_code == 0
    )
    assert (tmp_path / "run" / file).is_file()


def test_without_a_seed_one_is_drawn_and_said(tmp_path: Path) -> None:
    result = run_simulate("--duration", "100ms", "-o", str(tmp_path / "run"))
    assert re.search(r"^seed \d+$", result.output, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mutant", "nope"], "mutant 'nope' is unknown"),
        (["--faults", "[{}]"], "fault 0 of the plan"),
        (["--faults", "nowhere.json"], "nowhere.json: cannot read the fault plan"),
        (["--duration", "soon"], "is not a duration"),
        (["--nodes", "0"], "0 is not in the range"),
        (["--seed", "-1"], "-1 is not in the range"),
        (["--configuration", "nowhere.json"], "nowhere.json: cannot read the configuration"),
        (["--configuration", "nowhere.json", "--setting", "default"], "cannot be combined"),
        (["--configuration", "empty.json"], "empty.json: not JSON"),
        (["--configuration", "list.json"], "list.json: holds no configuration"),
        (["--configuration", "bad.json"], "bad.json: the configuration of the run: "),
        (["-o", "taken"], "already exists"),
        (["-o", "taken", "--force"], "holds no run"),
        (["-o", "file"], "already exists"),
        (["-o", "file", "--force"], "holds no run"),
        (["-o", "file/run"], "cannot be written"),
        (["-o", "empty/.."], "its own directory"),
        (["-o", "."], "its own directory"),
        (["-o", "link", "--force"], "holds no run"),
        (["--faults", '[{"at": "1s", "name": "kill", "nodes": [7]}]'], "there is no node 7; known are 0 to 2, leader"),
        (["--faults", '[{"at": "1s", "name": "kill", "nodes": ["lead"]}]'], "there is no node 'lead'"),
        (["--configuration", "/dev/zero"], "/dev/zero: more than"),
        (["--configuration", "still.json"], ">= 1000 - at `$.timing.heartbeat`"),
        (["--configuration", "sure.json"], "<= 1.0 - at `$.link.loss`"),
        (["--configuration", "idle.json"], "all acks levels, have weight 0"),
        (["--configuration", str(OF_READERS), "--protocol", "raft"], f"{OF_READERS}: the configuration of the run"),
        (["--rules", "rules.py", "--setting", "lagging"], "setting 'lagging' is one of pull-queries, not of raft"),
        (["--configuration", "rate.json"], "rate 99.0 of clock is not a number from 0.01 to 10"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "bad.json").write_text('{"made_by": {"configuration": {"nodes": "many"}}}')
    (tmp_path / "still.json").write_text('{"timing": {"heartbeat": 0}}')
    (tmp_path / "sure.json").write_text('{"link": {"loss": 1.5}}')
    (tmp_path / "idle.json").write_text('{"workload": {"acks_all": 0, "acks_leader": 0, "acks_none": 0}}')
    (tmp_path / "rules.py").write_text("def log_ok(last_term, dirty, own_last_term, own_dirty): ...\n")
    (tmp_path / "rate.json").write_text('{"faults": {"arguments": {"clock": {"rate": 99}}}}')
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("")
    before = sorted(path.name for path in tmp_path.iterdir())
    result = run_simulate("--duration", "100ms", *arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "taken" / "letter.txt").read_text() == "dear"


def test_force_replaces_a_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert run_simulate("--seed", "1", "--duration", "100ms", "-o", str(run)).exit_code == 0
    assert run_simulate("--seed", "2", "--duration", "100ms", "-o", str(run)).exit_code == 2
    assert run_simulate("--seed", "2", "--duration", "100ms", "-o", str(run), "--force").exit_code == 0
    assert json.loads((run / "manifest.json").read_text())["made_by"]["seed"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_hunt_lists_the_mutants_one_a_line() -> None:
    result = CliRunner().invoke(hunt, ["--list"])
    known = [mutant for protocol in every() for mutant in protocol.mutants.values()]
    assert result.output.splitlines() == [mutant.id for mutant in known if mutant.checks]
    listed = CliRunner().invoke(hunt, ["--list", "--protocol", "read-path"])
    assert listed.output.splitlines() == [*load("read-path").hunted]


@pytest.mark.slow
def test_hunt_finds_shrinks_and_says_how_to_see_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(hunt, ["--mutant", "ack-without-term", "--processes", "1"])
    assert result.exit_code == 0, result.output
    assert "acked-survives" in result.output
    found = re.search(r"again +(logwitness simulate .*)\n +(logwitness check .*)\n", result.output)
    assert found is not None
    show, check = (shlex.split(found[number]) for number in (1, 2))
    assert subprocess.run([LOGWITNESS, *show[1:]], check=False, capture_output=True, timeout=120).returncode == 0
    judged = subprocess.run([LOGWITNESS, *check[1:]], check=False, capture_output=True, text=True, timeout=120)
    assert judged.returncode == 1
    assert re.search(r"^  acked-survives: ", judged.stdout, re.M)


def test_hunt_says_when_a_mutant_survives() -> None:
    result = CliRunner().invoke(hunt, ["--mutant", "vote-twice", "--seeds", "2", "--processes", "1"])
    assert result.exit_code == 1
    assert "vote-twice survived 2 seeds from 0 on" in result.output


@pytest.mark.parametrize("arguments", [[], ["--list", "--all"], ["--mutant", "nope"], ["--reference", "--seeds", "0"]])
def test_hunt_refuses_bad_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(hunt, arguments).exit_code == 2


def test_hunt_refuses_rules_under_a_setting_of_another_protocol(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("def log_ok(last_term, dirty, own_last_term, own_dirty): ...\n")
    refused = CliRunner().invoke(hunt, ["--rules", str(tmp_path / "rules.py"), "--setting", "lagging", "--seeds", "1"])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "setting 'lagging' is one of pull-queries, not of raft" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_hunt_leaves_nobody_behind(how: signal.Signals) -> None:
    with subprocess.Popen(
        [LOGWITNESS, "hunt", "--reference", "--seeds", "100000"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 60
        while len(_group(process.pid)) < 3:
            assert time.monotonic() < deadline, "no helper was started"
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(1)
        process.send_signal(how)
        try:
            status = process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        assert status == (130 if how is signal.SIGINT else -signal.SIGKILL)
        deadline = time.monotonic() + 30
        while _group(process.pid):
            assert time.monotonic() < deadline, "helpers are still there"
            time.sleep(0.1)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def _group(leader: int) -> list[int]:
    """The live processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            if int(state[2]) == leader and state[0] != "Z":
                found.append(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "status", "said"),
    [
        ("candidate > commit and candidate_term == current_term", 0, "survived 12 seeds from 0 on"),
        ("candidate > commit", 1, "commit-current-term"),
        ("candidate > commit and nobody_knows_this_name", 1, "breakdown"),
    ],
)
def test_hunt_judges_a_developers_rules(condition: str, status: int, said: str, tmp_path: Path) -> None:
    rules = tmp_path / "mine.py"
    rules.write_text(f"def may_commit(candidate, commit, candidate_term, current_term):\n    return {condition}\n")
    result = CliRunner().invoke(hunt, ["--rules", str(rules), "--seeds", "12"])
    assert (result.exit_code, said in result.output) == (status, True), result.output
    if "again" in result.output:
        assert f"--rules {rules}" in result.output


def test_hunt_refuses_a_file_without_rules(tmp_path: Path) -> None:
    empty = tmp_path / "empty.py"
    empty.touch()
    result = CliRunner().invoke(hunt, ["--rules", str(empty), "--seeds", "12"])
    assert result.exit_code == 2
    assert f"{empty}: defines no rule" in result.output


def test_the_command_to_judge_a_run_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run_simulate("--seed", "1", "--duration", "100ms", "-o", "./-my run")
    assert "logwitness check './-my run'" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["hunt", "--list"], ["checks"], ["simulate", "--duration", "0s", "-o", "run"]])
@pytest.mark.parametrize(
    ("output", "status", "said"),
    [
        ("full", 2, "logwitness: standard output: No space left on device: make room, or write somewhere else\n"),
        ("closed", 141, ""),
    ],
)
def test_output_that_cannot_be_written_is_never_status_1(
    arguments: list[str], output: str, status: int, said: str, tmp_path: Path
) -> None:
    if output == "full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, descriptor = os.pipe()
        os.close(reader)
    command = [str(LOGWITNESS), *arguments]
    try:
        done = subprocess.run(
            command, stdout=descriptor, stderr=subprocess.PIPE, text=True, cwd=tmp_path, timeout=60, check=False
        )
    finally:
        os.close(descriptor)
    assert (done.returncode, done.stderr) == (status, said)
