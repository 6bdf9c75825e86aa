"""What a proof is made of: claims for the solver, the answer expected of each, and twins that must fail.

A *claim* is a set of assumptions and of goals; it holds if no model satisfies the assumptions and breaks a goal. A
claim without goals is a vacuity check: its assumptions must have a model, or everything would follow from them. A
*twin* is the proof with one rule changed or one premise dropped; the claims that it names must then fail, which shows
that the proof notices. Anything but the expected answer fails, ``unknown`` included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import z3

from logspec.proofs.vocabulary import scope, scope_axioms
from logspec.symbolic import UnsupportedRuleError

_SOON = 6.0
"""Seconds after which an unproved goal is first assumed to be wrong, because a small counterexample is quicker."""

Rules = Any
"""An object whose attributes are the decision rules, such as ``quorumlog.raft.rules.REFERENCE``."""

Expected = Literal["unsat", "sat"]

SEED = 7
"""The solver's random seed: same formulas, same answers, same counterexamples."""


@dataclass(frozen=True)
class Claim:
    """``assume`` implies every goal; without goals: ``assume`` has a model. ``show`` prints a model for a person.

    ``tidy`` narrows the search for a counterexample that a person reads: a proof never assumes it. ``exact``: a model
    that breaks a goal is a counterexample; else it may be none, and the answer is unknown. ``given`` says
    in words what is assumed beside what the proof says.
    """

    assume: Sequence[z3.BoolRef]
    goals: Mapping[str, z3.BoolRef] = field(default_factory=dict)
    show: Callable[[z3.ModelRef], str] | None = None
    tidy: Sequence[z3.BoolRef] = ()
    exact: bool = True
    given: str = ""

    @property
    def expected(self) -> Expected:
        """``unsat`` for a claim that must hold, ``sat`` for a vacuity check."""
        return "unsat" if self.goals else "sat"


@dataclass(frozen=True)
class Twin:
    """A proof that must fail: ``change`` replaces rules, ``without`` drops premises, ``breaks`` and ``goal`` name the
    claim and the goal in it that must fail.

    ``name`` is the mutant's id in the catalogue where there is one. That goal must have a counterexample.
    """

    name: str
    why: str
    breaks: str
    goal: str
    change: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    without: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Proof:
    """A statement with its sources (citations of rules), its claims for given rules, and its twins.

    ``claims`` takes the rules and the names of dropped premises and says how each claim is made, by name, in order.
    ``sizes``: the number of elements of each sort that a counterexample has if possible; empty where there are no such
    sorts. ``covers`` says in a few words how far the statement goes; ``assumes`` what is taken for granted.
    ``protocol``: whose rules it is about (`logspec.proofs.rules.installed_rules`).
    """

    name: str
    source: tuple[str, ...]
    statement: str
    claims: Callable[[Rules, frozenset[str]], Mapping[str, Callable[[], Claim]]]
    twins: tuple[Twin, ...] = ()
    sizes: Mapping[z3.SortRef, int] = field(default_factory=dict)
    covers: str = ""
    assumes: tuple[str, ...] = ()
    protocol: str = field(kw_only=True)


@dataclass(frozen=True)
class ProofResult:
    """One answer. ``counterexample`` is text for a person, empty if there is none or none was asked for.

    ``assumes``: what the answer takes for granted, a sentence each.
    """

    name: str
    expected: Expected
    answer: str
    seconds: float
    source: tuple[str, ...]
    counterexample: str = ""
    assumes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the solver answered what was expected."""
        return self.answer == self.expected


class ChangedRules:
    """The given rules with some of them replaced."""

    def __init__(self, rules: Rules, change: Mapping[str, Callable[..., Any]]) -> None:
        self._rules = rules
        self._change = change

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name in self._change:
            return self._change[name]
        return getattr(self._rules, name)


def check(claim: Claim, timeout: float) -> tuple[str, str, str]:
    """Ask the solver about one claim; return its answer, the goal that is not proved, and the counterexample to it.

    Goals are asked one by one, so that a failure names the goal. ``timeout`` is in seconds for each of them.
    """
    solver = _solver(timeout, claim.assume)
    if not claim.goals:
        return str(solver.check()), "", ""
    for name, goal in claim.goals.items():
        solver.push()
        solver.add(z3.Not(goal))
        answer = solver.check()
        if answer == z3.sat and not claim.exact:
            return "unknown", name, f"{name}: neither proved nor refuted; the rule counts anew for each node"
        if answer == z3.sat:
            return "sat", name, _picture(claim, name, _tidied(solver, claim.tidy))
        if answer != z3.unsat:
            return "unknown", name, f"{name}: {solver.reason_unknown()}"
        solver.pop()
    return "unsat", "", ""


def _tidied(solver: z3.Solver, tidy: Sequence[z3.BoolRef]) -> z3.ModelRef:
    """The model that the solver has found, or a tidy one if there is one."""
    found = solver.model()
    solver.push()
    solver.add(*tidy)
    tidied = solver.model() if tidy and solver.check() == z3.sat else found
    solver.pop()
    return tidied


def refute(proof: Proof, wanted: str, goal: str, rules: Rules, without: frozenset[str], timeout: float) -> str | None:
    """Look for a small, tidy counterexample to one goal of one claim; None if there is none of that size."""
    if not proof.sizes:
        return None
    with scope(proof.sizes, goal):
        claim = proof.claims(rules, without)[wanted]()
        formulas = [*claim.assume, *claim.tidy, z3.Not(claim.goals[goal])]
        axioms = scope_axioms(formulas)
        if not axioms:
            return None
        solver = _solver(timeout, [*formulas, *axioms], apart=True)
        if solver.check() != z3.sat:
            return None
        return _picture(claim, goal, solver.model().translate(z3.main_ctx()))


def _solver(timeout: float, assume: Sequence[z3.BoolRef], *, apart: bool = False) -> z3.Solver:
    """A solver with these assumptions; ``apart``: it does not see what was asked before.

    The plain solver: the one that z3 chooses by itself tries other methods first, each for a limited time, so that
    answers would differ on a busy machine.
    """
    solver = z3.SimpleSolver()
    solver.add(*assume)
    if apart:
        solver = solver.translate(z3.Context())
    solver.set("random_seed", SEED)
    solver.set("timeout", max(1, int(timeout * 1000)))
    return solver


def _picture(claim: Claim, goal: str, model: z3.ModelRef) -> str:
    head = f"breaks {goal}"
    return head if claim.show is None else f"{head}\n{claim.show(model)}"


def run(proof: Proof, rules: Rules, *, timeout: float, only: str = "", twins: bool = True) -> Iterator[ProofResult]:
    """Yield the result of each claim of a proof, then of each twin; ``only``: those whose name begins so."""
    try:
        for wanted, make in proof.claims(rules, frozenset()).items():
            name = f"{proof.name}/{wanted}"
            if not name.startswith(only):
                continue
            start = time.perf_counter()
            claim = make()
            answer, goal, counterexample = check(claim, min(timeout, _SOON))
            if goal:
                smaller = refute(proof, wanted, goal, rules, frozenset(), timeout)
                if smaller is not None:
                    answer, counterexample = "sat", smaller
                elif answer == "unknown" and timeout > _SOON:
                    answer, goal, counterexample = check(claim, timeout)
            seconds = time.perf_counter() - start
            assumes = (*proof.assumes, *filter(None, [claim.given if claim.goals else ""]))
            yield ProofResult(name, claim.expected, answer, seconds, proof.source, counterexample, assumes)
    except UnsupportedRuleError as error:
        yield ProofResult(f"{proof.name}/rules", "unsat", "unsupported", 0.0, proof.source, str(error))
    for twin in proof.twins if twins else ():
        if f"{proof.name}/twin/{twin.name}".startswith(only):
            yield _run_twin(proof, twin, rules, timeout)


def _run_twin(proof: Proof, twin: Twin, rules: Rules, timeout: float) -> ProofResult:
    """Look for a counterexample to the goal that the twin breaks: first a small one, then any."""
    start = time.perf_counter()
    changed = ChangedRules(rules, twin.change)
    counterexample = refute(proof, twin.breaks, twin.goal, changed, twin.without, timeout)
    answer = "sat"
    if counterexample is None:
        claim = proof.claims(changed, twin.without)[twin.breaks]()
        answer, _, counterexample = check(replace(claim, goals={twin.goal: claim.goals[twin.goal]}), timeout)
    name = f"{proof.name}/twin/{twin.name}"
    return ProofResult(name, "sat", answer, time.perf_counter() - start, proof.source, counterexample, proof.assumes)
