"""``logwitness validate`` as a developer uses it: the examples of docs/changing-a-rule.md, bad files, no extras."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from logspec.proofs import PROOFS, Proof, ProofResult, prove
from logspec.validation import proofs, traces
from quorumlog.hunting.campaign import protocol as meant
from quorumlog.hunting.validation import simulation
from quorumlog.raft.rules import REFERENCE
from quorumlog.rules_file import RulesFileError, load_rules

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
RIGHT = EXAMPLES / "commit_by_counting.py"
WRONG = EXAMPLES / "unclamped_visibility.py"
MAIN = "from logwitness.cli import main; main()"


def logwitness(*arguments: str, cwd: Path, program: str = MAIN, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def validated(*arguments: str, cwd: Path, status: int, **more: str) -> list[dict[str, Any]]:
    done = logwitness("validate", "--json", *arguments, cwd=cwd, **more)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    assert document["exit_status"] == status
    results: list[dict[str, Any]] = document["results"]
    return results


def test_the_right_change_holds_in_runs_and_traces(tmp_path: Path) -> None:
    results = validated(
        "--rules", str(RIGHT), "--seeds", "4", "--only", "simulation", "--only", "traces", cwd=tmp_path, status=0
    )
    assert [(result["stage"], result["verdict"]) for result in results] == [
        ("simulation", "holds"),
        ("traces", "holds"),
    ]


def test_the_right_change_is_proved() -> None:
    results = prove(["rules/commit-candidate"], load_rules(RIGHT))
    assert {result.name for result in results} == {"rules/commit-candidate", "rules/commit-candidate/possible"}
    assert all(result.ok for result in results)


@pytest.fixture
def coarse(tmp_path: Path) -> Path:
    """A wrong rule that every judge notices in a few runs."""
    rules = tmp_path / "mine.py"
    rules.write_text(
        "def may_commit(candidate, commit, candidate_term, current_term):\n    return candidate > commit\n"
    )
    return rules


def comes_with_a_run_that_shows_it(rules: Path, seeds: int, item: str, tmp_path: Path) -> None:
    results = validated("--rules", str(rules), "--only", "simulation", "--seeds", str(seeds), cwd=tmp_path, status=1)
    found = next(result for result in results if result["item"] == item)
    simulate, check = (shlex.split(command) for command in found["again"])
    assert simulate[0] == check[0] == "logwitness"
    again = logwitness(*simulate[1:], cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    judged = logwitness(*check[1:], "--json", cwd=tmp_path)
    assert judged.returncode == 1
    broken = {check["id"] for check in json.loads(judged.stdout)["checks"] if check["verdict"] == "violated"}
    assert item in broken
    assert "rules" in json.loads((tmp_path / check[-1] / "manifest.json").read_text())["made_by"]


def test_a_wrong_change_comes_with_a_run_that_shows_it(coarse: Path, tmp_path: Path) -> None:
    comes_with_a_run_that_shows_it(coarse, 12, "commit-current-term", tmp_path)


@pytest.mark.long
def test_the_wrong_change_of_the_page_comes_with_a_run_that_shows_it(tmp_path: Path) -> None:
    comes_with_a_run_that_shows_it(WRONG, 180, "visible-on-majority", tmp_path)


def test_the_wrong_change_is_not_proved() -> None:
    (result,) = prove(["visibility/majority/reply"], load_rules(WRONG))
    assert result.answer == "sat"
    assert "replicated-is-held" in result.counterexample


@pytest.mark.parametrize("protocol", sorted({proof.protocol for proof in PROOFS.values()}))
def test_every_protocol_that_is_specified_is_followed_and_proved(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stages know a protocol by its name, and its rules by what a file of them defines."""
    rules = tmp_path / "mine.py"
    rules.write_text(f"from quorumlog.protocol import load\n\nRULES = load({protocol!r}).rules\n")
    monkeypatch.setattr("logspec.validation.LEAST_TRACES", 1)
    (followed,) = traces(rules, 1, lambda said: None, protocol)
    assert (followed["verdict"], followed["item"]) == ("holds", "runs"), followed
    about = {name for name, proof in PROOFS.items() if proof.protocol == protocol}
    # Whether it is proved takes long, and has tests of its own.
    monkeypatch.setattr("logspec.proofs.catalogue.run", lambda proof, *_, **__: [answer_about(proof)])
    assert {each["item"] for each in proofs(rules, 1, lambda said: None, protocol)} == about


def test_rules_are_those_of_the_protocol_that_is_named(coarse: Path) -> None:
    """What names a protocol and gives rules of another one is refused; what names none says it by its rules."""
    assert meant(None, rules=coarse) == meant("raft", rules=coarse) == "raft"
    with pytest.raises(RulesFileError, match="may_commit is not a rule"):
        meant("pull-queries", rules=coarse)


def answer_about(proof: Proof) -> ProofResult:
    return ProofResult(proof.name, "unsat", "unsat", 0.0, proof.source)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("rules", "status"), [((), 0), (("--rules", str(RIGHT)), 0), (("--rules", str(WRONG)), 1)])
def test_whole_validations(rules: tuple[str, ...], status: int, tmp_path: Path) -> None:
    results = validated(*rules, cwd=tmp_path, status=status)
    assert {result["stage"] for result in results} == {"simulation", "traces", "proofs"}
    if status == 1:  # stages by themselves say what is wrong, and how to see it again; few runs that are traced show it
        assert shown_by(results) >= {"simulation", "proofs"}


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_every_stage_says_what_is_wrong(coarse: Path, tmp_path: Path) -> None:
    assert shown_by(validated("--rules", str(coarse), "--seeds", "35", cwd=tmp_path, status=1)) == {
        "simulation",
        "traces",
        "proofs",
    }


def shown_by(results: list[dict[str, Any]]) -> set[str]:
    """The stages that say what is wrong, and how to see it again."""
    return {result["stage"] for result in results if result["verdict"] == "violated" and result["again"]}


BAD = {
    "no-rule": ("x = 1\n", "defines no rule"),
    "syntax": ("def may_commit(:\n", ":1: not Python"),
    "raises": ("\n1 / 0\n", ":2: running the file fails: ZeroDivisionError"),
    "exits": ("import sys\nsys.exit(5)\n", ":2: running the file fails: SystemExit"),
    "unknown": ("def may_comit(a, b, c, d):\n    return True\n", "may_comit is not a rule; is may_commit meant?"),
    "too-few": (
        "def may_commit(a, b):\n    return True\n",
        "may_commit is called with (candidate, commit, candidate_term",
    ),
    "bundle": ("RULES = 5\n", "RULES is of type int"),
    "bundle-field": (
        "from dataclasses import replace\nfrom quorumlog.raft.rules import REFERENCE\n"
        "RULES = replace(REFERENCE, may_commit=3)\n",
        "may_commit is of type int",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    text, expected = BAD[name]
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(RulesFileError) as refused:
        load_rules(path)
    message = str(refused.value)
    assert message.startswith(str(path))
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize("command", [("validate",), ("simulate", "--seed", "1")])
def test_commands_end_with_status_2_on_a_bad_file(command: tuple[str, ...], tmp_path: Path) -> None:
    done = logwitness(*command, "--rules", str(tmp_path / "absent.py"), cwd=tmp_path)
    assert done.returncode == 2
    assert "no such file" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_file_changes_only_what_it_defines(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from quorumlog.quorum import quorum_match\n"
        "def _half(x):\n    return x // 2\n"
        "def may_commit(candidate, commit, candidate_term, current_term, extra=0):\n    return False\n"
        "log_ok = lambda last_term, dirty, own_last_term, own_dirty: True\n"
    )
    assert load_rules(path).changed() == ("may_commit", "log_ok")
    assert REFERENCE.changed() == ()


def test_a_rule_that_raises_is_a_verdict(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def may_commit(candidate, commit, candidate_term, current_term):\n    raise RuntimeError('no')\n")
    (result,) = validated("--rules", str(path), "--only", "simulation", "--seeds", "2", cwd=tmp_path, status=1)
    assert result["item"] == "breakdown"
    assert "RuntimeError: no" in result["sentence"]


def test_a_run_that_does_not_end_in_time_is_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "def may_commit(candidate, commit, candidate_term, current_term):\n"
        "    while candidate > commit:\n        pass\n"
    )
    monkeypatch.setattr("quorumlog.hunting.validation.RUN_SECONDS", 2.0)
    (result,) = simulation(path, 2, lambda said: None)
    assert result["verdict"] == "undecided"
    assert "seed 0 did not end within 2 s of processor time" in result["sentence"]


def test_traces_that_are_not_followed_in_time_are_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logspec.validation.SECONDS", 0.1)
    (result,) = traces(None, 1, lambda said: None, "raft")
    assert result["verdict"] == "undecided"
    assert "within 0.1 s" in result["sentence"]


def test_a_claim_that_is_not_proved_in_time_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    hurried = lambda names, rules, progress: prove(["raft-safety/grant-vote/logs"], rules, timeout=0.001)  # noqa: E731
    monkeypatch.setattr("logspec.proofs.prove", hurried)
    (result,) = proofs(None, 1, lambda said: None, "raft")
    assert result["verdict"] == "undecided"
    assert "the solver says" in result["sentence"]


def test_a_file_that_helper_processes_cannot_load_is_an_answer_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import multiprocessing\n"
        "if multiprocessing.parent_process() is not None:\n    raise ImportError('not in a helper')\n"
        "def may_commit(candidate, commit, candidate_term, current_term):\n    return False\n"
    )
    began = time.monotonic()
    (result,) = validated("--rules", str(path), "--only", "simulation", "--seeds", "2", cwd=tmp_path, status=3)
    assert time.monotonic() - began < 60
    assert result["verdict"] == "undecided"
    assert "mine.py:3" in result["sentence"]
    assert "ImportError: not in a helper" in result["sentence"]


def test_without_java_the_traces_are_undecided(tmp_path: Path) -> None:
    (result,) = validated("--only", "traces", cwd=tmp_path, status=3, PATH="/nowhere", JAVA_HOME="")
    assert result["verdict"] == "undecided"
    assert "Java" in result["sentence"]


def test_without_z3_the_proofs_are_undecided(tmp_path: Path) -> None:
    program = f"import sys; sys.modules['z3'] = None; {MAIN}"
    (result,) = validated("--only", "proofs", cwd=tmp_path, status=3, program=program)
    assert "z3" in result["sentence"]
    assert "proofs" in result["sentence"]


def test_an_unknown_stage_is_refused(tmp_path: Path) -> None:
    done = logwitness("validate", "--only", "dreams", cwd=tmp_path)
    assert done.returncode == 2
    assert "simulation, traces, proofs" in done.stderr
