"""Every proof gives the expected answers, every twin is refuted, no assumption is one that cannot hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import z3

from logspec.proofs import PROOFS, members_invariants, members_state, pending, prove, raft_invariants
from logspec.proofs.claims import Claim, Proof, Twin, check, run
from logspec.proofs.raft_invariants import commit_invariants, gaplessness
from logspec.proofs.raft_safety import RUNS
from logspec.proofs.raft_state import STEPS
from logspec.proofs.rules import load_rules
from logspec.proofs.vocabulary import scope, scope_axioms
from quorumlog.protocol import Mutant
from quorumlog.pull_queries.rules import REFERENCE as PULL_QUERIES
from quorumlog.quorum import Voters, majority_vote
from quorumlog.raft.mutants import MUTANTS
from quorumlog.raft.rules import REFERENCE, Rules
from quorumlog.raft.state import Configuration, Restored

BY_COUNTING = Path(__file__).parents[2] / "docs" / "examples" / "commit_by_counting.py"

MUTANTS_BY_PROOF = {
    "commit-counts-dirty",
    "commit-ignores-match",
    "commit-old-term",
    "follower-commit-unclamped",
    "ack-on-term-change",
    "ack-without-term",
    "truncated-ignores-committed-term",
    "visible-unclamped",
    "visible-jumps-pending",
    "visible-uses-dirty",
    "flush-ignores-truncation",
    "flush-assigns",
    "duplicate-truncates",
    "stale-reply-accepted",
    "vote-twice",
    "vote-not-durable",
    "recovery-late-commit-sample",
    "read-unconfirmed",
    "read-before-own-term",
    "read-index-ignores-caching",
}


FEW_TWINS = 2
LARGE = ("membership-safety", "visible-membership", "visible-safety")
"""Of their twins the first are refuted here, the others by `make test-long`."""
ALWAYS = {"rules/twin/vote-not-durable", "rules/twin/prevote-bumps-term"}
"""What these break they break whatever the values are."""


@pytest.mark.parametrize("name", [name for name in PROOFS if name not in (*LARGE, "raft-safety")])
def test_every_claim_and_every_twin_gets_the_expected_answer(name: str) -> None:
    results = prove([name])
    assert [(result.name, result.answer, result.counterexample) for result in results if not result.ok] == []
    shown = {result.name: result.counterexample.split(maxsplit=2)[2:] for result in results if "/twin/" in result.name}
    assert {twin for twin, values in shown.items() if not values} <= ALWAYS, "the values of variables are shown"


@pytest.mark.parametrize("step", ["quorums", "start", "a-run", *(step.__name__.replace("_", "-") for step in STEPS)])
def test_raft_safety(step: str) -> None:
    results = prove([f"raft-safety/{step}"])
    assert [(result.name, result.answer, result.counterexample) for result in results if not result.ok] == []


@pytest.mark.parametrize("name", [LARGE[0], *(pytest.param(name, marks=pytest.mark.long) for name in LARGE[1:])])
def test_the_claims_of_a_large_proof(name: str) -> None:
    results = prove([name], REFERENCE)
    assert not any("/twin/" in result.name for result in results)
    assert [(result.name, result.answer, result.counterexample) for result in results if not result.ok] == []


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        pytest.param(name, twin.name, marks=[] if number < FEW_TWINS else pytest.mark.long)
        for name in LARGE
        for number, twin in enumerate(PROOFS[name].twins)
    ],
)
def test_twins_of_large_proofs(name: str, twin: str) -> None:
    (result,) = prove([f"{name}/twin/{twin}"])
    assert (result.answer, result.expected) == ("sat", "sat")
    assert result.counterexample


def commit_otherwise_from_eight_on(voters: Voters, durable: Mapping[int, int], own_flushed: int) -> int:
    return own_flushed if len(voters.current) > 7 else REFERENCE.commit_candidate(voters, durable, own_flushed)


def elect_otherwise_from_eight_on(voters: Voters, votes: Mapping[int, bool]) -> int:
    if len(voters.old) > 7:
        return majority_vote(voters.current, votes)
    return REFERENCE.vote_result(voters, votes)


@pytest.mark.parametrize("proof", ["rules", "raft-safety/quorums"])
@pytest.mark.parametrize("rule", [commit_otherwise_from_eight_on, elect_otherwise_from_eight_on])
def test_a_rule_that_does_something_else_in_large_groups_is_refuted(proof: str, rule: Callable[..., Any]) -> None:
    name = "commit_candidate" if rule is commit_otherwise_from_eight_on else "vote_result"
    wrong = [result for result in prove([proof], replace(REFERENCE, **{name: rule})) if not result.ok]
    assert wrong
    assert all(result.answer == "sat" and "nodes" in result.counterexample for result in wrong)


def test_counting_voters_is_proved_too_and_half_of_them_is_refuted(tmp_path: Path) -> None:
    """A rule that counts anew for each node, as that of docs/changing-a-rule.md does."""
    assert all(result.ok for result in prove(["rules/commit-candidate"], load_rules(BY_COUNTING)))
    half = tmp_path / "half.py"
    half.write_text(BY_COUNTING.read_text(encoding="utf-8").replace("> len(nodes)", ">= len(nodes)"), encoding="utf-8")
    wrong = [result for result in prove(["rules/commit-candidate"], load_rules(half)) if not result.ok]
    assert [result.answer for result in wrong] == ["sat"]
    assert "breaks a-majority-has-reached-it" in wrong[0].counterexample


def test_what_a_claim_assumes_is_told_with_it() -> None:
    results = {result.name: result for result in prove(["rules/may-commit", "rules/vote-result"])}
    assert "no entry is of a later term than the leader's" in results["rules/may-commit"].assumes
    assert any("has a voter" in assumed for assumed in results["rules/vote-result"].assumes)
    assert all(proof.covers and proof.assumes for proof in PROOFS.values())


def test_a_counterexample_names_the_arguments() -> None:
    (result,) = prove(
        ["rules/replicated-dirty"], replace(REFERENCE, replicated_dirty=lambda dirty, flushed, match: dirty)
    )
    assert result.counterexample.splitlines() == ["breaks at-most-match", "dirty=1, match=0"]


def test_every_step_happens_in_a_run_from_the_empty_state() -> None:
    taken = {make for run_of_steps in RUNS.values() for make, _ in run_of_steps}
    assert taken == set(STEPS)


@pytest.mark.parametrize("name", ["raft-safety", "membership-safety", "pending"])
def test_no_invariant_holds_in_every_state(name: str) -> None:
    """One that does would be kept by whatever step, and promise nothing."""
    with scope(PROOFS[name].sizes, ""):
        s = members_state.BEFORE
        invariants = {
            "raft-safety": lambda: {**raft_invariants.invariants(s), **gaplessness(s), **commit_invariants(s)},
            "membership-safety": lambda: members_invariants.invariants(s) | members_invariants.firsts(s),
            "pending": lambda: pending.invariants(pending._LOG, leads=True),
        }[name]()
        for statement, formula in invariants.items():
            solver = z3.SimpleSolver()
            solver.add(z3.Not(formula), *scope_axioms([z3.Not(formula)]))
            assert (statement, solver.check()) == (statement, z3.sat)


def test_every_mutant_that_a_proof_can_notice_has_a_twin() -> None:
    twins = {twin.name for proof in PROOFS.values() for twin in proof.twins}
    assert twins >= MUTANTS_BY_PROOF


def _rules_of(mutant: Mutant) -> Rules:
    return mutant.make_core(Configuration(0, Voters((0, 1, 2))), Restored()).rules


RULE_MUTANTS = [mutant for mutant in MUTANTS.values() if mutant.id in MUTANTS_BY_PROOF and _rules_of(mutant).changed()]


def _twin_of(mutant: Mutant) -> tuple[Proof, Twin]:
    """The twin of this name that changes the same rules."""
    for proof in PROOFS.values():
        for twin in proof.twins:
            if twin.name == mutant.id and set(twin.change) == set(_rules_of(mutant).changed()):
                return proof, twin
    raise LookupError(mutant)


@pytest.mark.parametrize(
    "twin",
    [
        pytest.param(twin.name, marks=pytest.mark.long if twin.name in {each.id for each in RULE_MUTANTS} else [])
        for twin in PROOFS["raft-safety"].twins
    ],
)
def test_twins_of_raft_safety(twin: str) -> None:
    """Those that change a rule as a mutant does are refuted by the next test too."""
    (result,) = prove([f"raft-safety/twin/{twin}"])
    assert (result.answer, result.expected) == ("sat", "sat")
    assert ("nodes  in" if twin == "half-elects" else "before:") in result.counterexample


@pytest.mark.parametrize("mutant", RULE_MUTANTS, ids=lambda mutant: mutant.id)
def test_the_mutants_of_the_implementation_are_refuted_too(mutant: Mutant) -> None:
    """The very rule objects that the mutant cores run, not the twins' copies of them."""
    proof, twin = _twin_of(mutant)
    claim = replace(twin, change={name: getattr(_rules_of(mutant), name) for name in twin.change})
    (result,) = run(replace(proof, twins=(claim,)), REFERENCE, timeout=60, only=f"{proof.name}/twin/{twin.name}")
    assert (result.answer, result.expected) == ("sat", "sat")


def test_other_rules_are_refuted_with_a_small_table() -> None:
    changed = replace(REFERENCE, replicated_flushed=lambda dirty, flushed, match: min(dirty, match))
    (result,) = prove(["commit-rule/reply"], changed)
    assert result.answer == "sat"
    assert "match-is-durable" in result.counterexample
    assert "(leader)" in result.counterexample


def test_right_rules_that_are_written_differently_are_proved() -> None:
    def follower_commit(commit: int, leader_commit: int, flushed: int, verified: int) -> int:
        known = sorted([leader_commit, flushed, verified])[0]
        if known <= commit:
            return commit
        return known

    def may_commit(candidate: int, commit: int, candidate_term: int, current_term: int) -> bool:
        return not (candidate <= commit or candidate_term < current_term)

    changed = replace(REFERENCE, follower_commit=follower_commit, may_commit=may_commit)
    claims = ["raft-safety/follow-commit", "raft-safety/leader-commit", "rules/follower-commit", "rules/may-commit"]
    results = prove(claims, changed)
    assert len(results) >= 8
    assert all(result.ok for result in results)


def test_a_rule_that_cannot_be_read_is_not_proved() -> None:
    def may_commit(candidate: int, commit: int, candidate_term: int, current_term: int) -> bool:
        while candidate <= commit:
            candidate += 1
        return True

    results = prove(["rules"], replace(REFERENCE, may_commit=may_commit))
    refused = [result for result in results if result.answer == "unsupported"]
    assert refused
    assert not any(result.ok for result in refused)
    assert "may_commit" in refused[0].counterexample
    assert ":" in refused[0].counterexample


def _proof_of(claim: Claim) -> Proof:
    return Proof("made-up", "none", "for a test", lambda rules, without: {"claim": lambda: claim}, protocol="raft")


def test_unknown_is_a_failure() -> None:
    """A statement that no solver decides in a millisecond (three cubes that sum to 114)."""
    x, y, z = z3.Ints("x y z")
    claim = Claim([], {"no-such-cubes": x * x * x + y * y * y + z * z * z != 114})
    (result,) = run(_proof_of(claim), REFERENCE, timeout=0.05)
    assert (result.answer, result.ok) == ("unknown", False)


def test_assumptions_that_cannot_hold_are_a_failure() -> None:
    x = z3.Int("x")
    (result,) = run(_proof_of(Claim([x > 1, x < 1])), REFERENCE, timeout=5)
    assert (result.expected, result.answer, result.ok) == ("sat", "unsat", False)


def test_the_first_broken_goal_is_named() -> None:
    x = z3.Int("x")
    answer, goal, _ = check(Claim([x > 1], {"right": x > 0, "wrong": x > 2}), 5)
    assert (answer, goal) == ("sat", "wrong")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(KeyError):
        prove(["no-such-proof"])


def test_the_rules_of_the_reference_are_what_is_proved() -> None:
    """Every rule of the bundle is run by some claim, or the list says why not."""
    seen: set[str] = set()

    class Watched:
        def __getattr__(self, name: str) -> object:
            seen.add(name)
            return getattr(REFERENCE, name)

    for proof in PROOFS.values():
        if proof.protocol == "raft":
            for make in proof.claims(Watched(), frozenset()).values():
                if set(Rules.__dataclass_fields__) - seen:
                    make()
    assert set(Rules.__dataclass_fields__) - seen == set()


def test_other_rules_of_pull_queries_are_refuted() -> None:
    sloppy = replace(PULL_QUERIES, missed_at_end=lambda previous, missed, end, send: missed)
    results = prove(None, sloppy)
    assert {result.name.partition("/")[0] for result in results} == {"status-decision", "routing-filter"}
    wrong = {result.name: result for result in results if not result.ok}
    assert "status-decision/shipped-ends" in wrong
    assert "breaks silence-is-down" in wrong["status-decision/shipped-ends"].counterexample
    with pytest.raises(KeyError):
        prove(["status-decision"], REFERENCE)
