"""``logwitness spec prove`` as a stranger uses it: what it prints, and with which status it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from logspec.proofs import PROOFS
from logspec.proofs.claims import ProofResult
from logspec.proofs.cli import exit_status, prove


def run(*arguments: str) -> Result:
    return CliRunner().invoke(prove, arguments)


def test_list_names_every_proof_and_runs_none() -> None:
    result = run("--list")
    assert result.exit_code == 0
    assert all(f"{name}: " in result.output for name in PROOFS)
    listed = json.loads(run("--list", "--json").output)
    assert [entry["name"] for entry in listed] == list(PROOFS)
    assert all(entry["source"] and entry["statement"] and entry["twins"] for entry in listed)


def test_a_proof_by_name() -> None:
    result = run("commit-rule")
    assert result.exit_code == 0
    assert result.stdout.startswith("proved  commit-rule")


def test_the_same_command_shows_the_same_counterexample() -> None:
    program = "from logspec.proofs.cli import prove; prove()"
    command = [sys.executable, "-c", program, "acks/twin/ack-on-term-change", "--json"]
    said = [subprocess.run(command, capture_output=True, check=True, timeout=300).stdout for _ in range(2)]
    first, second = (json.loads(text)[0]["counterexample"] for text in said)
    assert first.startswith("breaks ack-rule")
    assert first == second


def test_json_has_a_result_for_each_claim() -> None:
    result = run("commit-rule", "--json")
    rows = json.loads(result.stdout)
    assert all(row["ok"] for row in rows)
    assert {"name", "expected", "answer", "seconds", "source", "counterexample", "assumes", "ok"} == set(rows[0])


def test_a_broken_rule_is_shown_with_its_counterexample(tmp_path: Path) -> None:
    rules = tmp_path / "my_rules.py"
    rules.write_text("def replicated_flushed(dirty, flushed, match):\n    return flushed\n", encoding="utf-8")
    result = run("commit-rule", "--rules", str(rules))
    assert result.exit_code == 1
    assert "commit-rule/reply: sat, expected unsat" in result.stdout
    assert "match-is-real" in result.stdout
    assert "(leader)" in result.stdout


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (None, 2, "no such file"),
        ("def replicated_flushed(dirty, flushed match): pass\n", 2, "not Python"),
        ("x = 1\n", 2, "defines no rule"),
        ("def replicated_flushed(dirty, flushed, match):\n    return hash(flushed)\n", 3, "replicated_flushed"),
    ],
)
def test_files_that_give_no_provable_rules(tmp_path: Path, text: str | None, status: int, said: str) -> None:
    rules = tmp_path / "my_rules.py"
    if text is not None:
        rules.write_text(text, encoding="utf-8")
    result = run("commit-rule", "--rules", str(rules))
    assert result.exit_code == status
    assert said in result.output
    assert "Traceback" not in result.output


def test_an_unknown_name_is_bad_usage() -> None:
    result = run("commit-rule", "no-such-proof")
    assert result.exit_code == 2
    assert "no-such-proof" in result.output


def made(expected: str, answer: str) -> ProofResult:
    return ProofResult("made-up", expected, answer, 0.0, "none")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([("unsat", "unsat"), ("sat", "sat")], 0),
        ([("unsat", "sat")], 1),
        ([("sat", "unsat")], 1),
        ([("unsat", "unknown")], 3),
        ([("unsat", "unsupported")], 3),
        ([("unsat", "unknown"), ("unsat", "sat")], 1),
    ],
)
def test_exit_status(answers: list[tuple[str, str]], status: int) -> None:
    assert exit_status([made(*answer) for answer in answers]) == status
