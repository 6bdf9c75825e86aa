"""The rules of the specification are those that the implementation runs: same names, same arguments, same answers.

TLC evaluates each operator of ``Rules.tla`` and ``Quorum.tla`` on every combination of small arguments and compares it
with the function of the same name.
"""

from __future__ import annotations

import inspect
import itertools
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from logspec.places import spec_directory
from logspec.tlc import run_tlc
from logspec.toolchain import Toolchain
from quorumlog.quorum import EVERYTHING, VOTE_LOST, VOTE_PENDING, VOTE_WON, Voters, is_quorum, quorum_match
from quorumlog.raft.rules import LARGEST_PRIORITY, NOBODY, PENDING, REFERENCE, SUCCESS, TRUNCATED, Rules

RULES = {
    **{field.name: getattr(REFERENCE, field.name) for field in fields(Rules)},
    "quorum_match": quorum_match,
    "is_quorum": is_quorum,
}

PACE = {
    "recovery_flush": "when a flush is asked for does not matter to the specification: it may happen at any time",
    "recovery_waits": "what is sent again does not matter: anything may arrive any number of times",
    "may_dispatch": "the same",
    "reply_is_current": "replies may arrive in any order; what one of them proves stays true for the term",
    "election_waits": "an election may begin at any time, and what a node says is heard at any time",
    "keeps_office": "there is no time; a leader may leave its office at any moment",
    "flush_required": "has no forced flush; compared below without it",
}
"""Rules that the specification leaves open, and why."""

OUTCOMES = {
    "resolve_quorum_ack": {PENDING: "Pending", SUCCESS: "Success", TRUNCATED: "Truncated"},
    "resolve_write_cached": {PENDING: "Pending", SUCCESS: "Success", TRUNCATED: "Truncated"},
    "vote_result": {VOTE_PENDING: "VotePending", VOTE_WON: "VoteWon", VOTE_LOST: "VoteLost"},
    "quorum_match": {EVERYTHING: "Everything"},
    "priority": {LARGEST_PRIORITY: "LargestPriority"},
}
"""The names that the specification has for answers."""

GROUPS = (
    Voters((0,)),
    Voters((0, 1)),
    Voters((0, 1, 2), learners=(3,)),
    Voters((0, 1, 2, 3)),
    Voters((0, 1), old=(1, 2, 3)),
    Voters((0, 1, 2), old=(3,), learners=(3,)),
    Voters((), old=(0, 1, 2)),
)
NODES = range(4)
SMALL = range(-1, 4)


def operator(rule: str) -> str:
    return "".join(word.capitalize() for word in rule.split("_"))


def arity(name: str) -> int:
    files = [spec_directory() / "raft" / f"{module}.tla" for module in ("Rules", "Quorum")]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    head = re.search(rf"^{name}(\(([^)]*)\))? ==", text, re.MULTILINE)
    assert head is not None, f"neither Rules.tla nor Quorum.tla has {name}"
    return len(head[2].split(",")) if head[1] else 0


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in PACE])
def test_every_rule_is_an_operator_with_the_same_arguments(rule: str) -> None:
    assert arity(operator(rule)) == len(inspect.signature(RULES[rule]).parameters)


def literal(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, Voters):
        halves = {"current": value.current, "old": value.old, "learners": value.learners}
        return f"[{', '.join(f'{name} |-> {literal(set(nodes))}' for name, nodes in halves.items())}]"
    if isinstance(value, set):
        return "{" + ", ".join(map(literal, sorted(value))) + "}"
    if isinstance(value, dict):
        return "(" + (" @@ ".join(f"{node} :> {literal(said)}" for node, said in value.items()) or "<<>>") + ")"
    return str(value)


def domain(rule: str, parameter: inspect.Parameter) -> Sequence[Any]:
    if parameter.annotation == "bool":
        return (False, True)
    if parameter.annotation == "Voters":
        return (*GROUPS, Voters(())) if rule == "quorum_match" else GROUPS
    if parameter.annotation == "Mapping[int, int]":
        return [dict(enumerate(offsets)) for offsets in itertools.product((0, 1, 3), repeat=len(NODES))]
    if parameter.annotation == "Mapping[int, bool]":
        answers = [dict(enumerate(said)) for said in itertools.product((True, False, None), repeat=len(NODES))]
        return [{node: vote for node, vote in votes.items() if vote is not None} for votes in answers]
    if parameter.annotation == "Collection[int]":
        return [set(nodes) for size in range(len(NODES) + 1) for nodes in itertools.combinations(NODES, size)]
    if rule in ("commit_candidate", "majority_replicated"):
        return (0, 1, 3)
    if parameter.name in ("chunk_end", "commit_now", "truncations_at_start", "truncations_now"):
        return range(3)
    return SMALL if len(inspect.signature(RULES[rule]).parameters) < 5 else range(-1, 3)


def table(rule: str, answer: Callable[..., Any]) -> str:
    """``ASSUME`` for one rule: on every row of arguments the operator gives what the function gives."""
    parameters = inspect.signature(answer).parameters.values()
    count = len(parameters)
    rows = []
    for arguments in itertools.product(*(domain(rule, parameter) for parameter in parameters)):
        result = answer(*arguments)
        reported = OUTCOMES.get(rule, {}).get(result) or literal(result)
        rows.append(f"<<{', '.join([*map(literal, arguments), reported])}>>")
    call = operator(rule) + (f"({', '.join(f'row[{n}]' for n in range(1, count + 1))})" if count else "")
    return f"ASSUME \\A row \\in {{{', '.join(rows)}}} : {call} = row[{count + 1}]\n"


def test_every_operator_gives_what_the_function_gives(tools: Toolchain, tmp_path: Path) -> None:
    for file in (spec_directory() / "raft").glob("*.tla"):
        shutil.copy(file, tmp_path)
    lines = ["---- MODULE RuleTable ----", "EXTENDS Rules, TLC", "VARIABLE x", "Init == x = 0", "Next == UNCHANGED x"]
    lines += [table(rule, function) for rule, function in RULES.items() if rule not in PACE]
    module = tmp_path / "RuleTable.tla"
    configuration = f"INIT Init\nNEXT Next\nCONSTANT Nobody = {NOBODY}\n".replace(f"= {NOBODY}", "<- NoNode")
    lines += [f"NoNode == {NOBODY}"]
    module.write_text("\n".join([*lines, "===="]), encoding="utf-8")
    outcome = run_tlc(tools, module, configuration, workers=1, coverage=False, brief=True, seconds=200)
    assert outcome.errors == []
    assert outcome.status == 0
    assert outcome.distinct == 1

    wrong = table("may_commit", lambda candidate, commit, candidate_term, current_term: candidate > commit)
    module.write_text("\n".join([*lines, wrong, "===="]), encoding="utf-8")
    outcome = run_tlc(tools, module, configuration, workers=1, coverage=False, brief=True, seconds=200)
    assert "is false" in outcome.errors[0]
