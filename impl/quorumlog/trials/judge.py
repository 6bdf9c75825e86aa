"""One simulated run and what the checker says about it.

The judge is the entry point of the group ``logwitness.judges`` named ``history``; nothing of the checker is imported. A
run is rejected when a check is violated, when the cluster does not converge after all faults were healed, or when a
core or a disk breaks down.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from quorumlog import protocol
from quorumlog.events import CoreFactory
from quorumlog.faults import Plan, plan_to_json, shrink
from quorumlog.protocol import Protocol
from quorumlog.rules_file import read_rules
from quorumlog.simulation.configuration import ClusterConfiguration

Judge = Callable[..., dict[str, Any]]
"""``judge(table, only, configuration=...)``, the entry point ``history`` of the group ``logwitness.judges``."""

BREAKDOWN, CONVERGENCE = "breakdown", "convergence"
"""What replaces a check's id when a run breaks off or does not converge."""


class NoJudgeError(RuntimeError):
    """No judge of histories is installed: ``str()`` says in one line what to install."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Whose runs are judged: a protocol's reference, its mutant with an id, or the rules in a developer's file."""

    protocol: str
    mutant: str | None = None
    rules: str | None = None

    @property
    def of(self) -> Protocol:
        """The record of its protocol. Raises `ProtocolError` if none of that name is installed."""
        return protocol.load(self.protocol)

    @property
    def is_reference(self) -> bool:
        """Whether it is the reference: neither a mutant nor a developer's rules."""
        return self.mutant is None and self.rules is None

    @property
    def checks(self) -> tuple[str, ...] | None:
        """The ids of the checks to run: those of which one must notice the mutant; None means all."""
        return None if self.mutant is None else self.of.mutants[self.mutant].checks

    @property
    def make_core(self) -> CoreFactory:
        """The factory of the cores to run. Raises `RulesFileError` if the file gives no rules."""
        if self.rules is not None:
            return _core_of(self.protocol, self.rules)
        return self.of.core if self.mutant is None else self.of.mutants[self.mutant].make_core

    def setting(self, seed: int) -> str:
        """The setting of the run with this seed: the mutant's, or else each in turn."""
        if self.mutant is not None:
            return self.of.mutants[self.mutant].setting
        settings = list(self.of.settings)
        return settings[seed % len(settings)]


@cache
def _core_of(name: str, rules: str) -> CoreFactory:
    of, bundle = read_rules(rules, name)
    return of.core_of(bundle)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a run was rejected: by which check (or BREAKDOWN, CONVERGENCE), in a sentence, and under which faults."""

    seed: int
    setting: str
    check: str
    sentence: str
    events: tuple[int, ...]
    plan: Plan


@dataclass(frozen=True, slots=True)
class Judged:
    """One run: its rejections, at most one per check, and how many facts each check judged."""

    rejections: tuple[Rejection, ...]
    facts: dict[str, int]


def load_judge() -> Judge:
    """The installed judge of histories. Raises `NoJudgeError`."""
    for entry in entry_points(group="logwitness.judges", name="history"):
        judge: Judge = entry.load()
        return judge
    raise NoJudgeError("no judge of histories is installed; install the distribution logwitness with its entry points")


def judge_table(
    protocol: str, table: pa.Table, configuration: ClusterConfiguration, only: Sequence[str] | None = None
) -> dict[str, Any]:
    """Judge a simulated run that is not in files; ``only``: the ids of the checks wanted."""
    return load_judge()(table, only, configuration=known_to_the_judge(protocol, configuration))


def known_to_the_judge(protocol: str, configuration: ClusterConfiguration) -> dict[str, Any]:
    """What a judge must know of how a run was made."""
    return {"protocol": protocol, **configuration.known_to_the_judge()}


def breakdown_sentence(error: Exception) -> str:
    """The sentence about a run that broke off."""
    return f"the run breaks off: {type(error).__name__}: {' '.join(str(error).split())}"


def no_convergence_sentence(configuration: ClusterConfiguration) -> str:
    """The sentence about a run whose nodes did not come to agree."""
    return f"the cluster did not converge within {configuration.settle / 1e9:g} s after all faults were healed"


def simulate_command(candidate: Candidate, seed: int, setting: str, plan: Plan | None = None) -> list[str]:
    """The words of a command that reproduces a run; ``plan`` None: the plan that the seed draws."""
    arguments = ["logwitness", "simulate", "--seed", str(seed)]
    if len(protocol.names()) > 1:
        arguments += ["--protocol", candidate.protocol]
    if candidate.mutant is not None:
        arguments += ["--mutant", candidate.mutant]
    else:
        arguments += ["--setting", setting]
    if candidate.rules is not None:
        arguments += ["--rules", candidate.rules]
    if plan is not None:
        arguments += ["--faults", json.dumps(plan_to_json(plan))]
    return arguments


def show_again(candidate: Candidate, seed: int, setting: str, plan: Plan | None, directory: str) -> tuple[str, str]:
    """The two commands that reproduce a run in ``directory`` and judge it."""
    make = simulate_command(candidate, seed, setting, plan)
    return shlex.join([*make, "--force", "-o", directory]), f"logwitness check {directory}"


def judge_seed(candidate: Candidate, seed: int) -> Judged:
    """Play and judge one run under the setting that goes with the seed."""
    setting = candidate.setting(seed)
    return judge_run(candidate, seed, setting, candidate.of.settings[setting])


def judge_run(candidate: Candidate, seed: int, setting: str, configuration: ClusterConfiguration) -> Judged:
    """Play and judge one run under a given configuration, which may hold its plan. Raises `RulesFileError`."""
    make_core = candidate.make_core
    try:
        table, outcome = candidate.of.simulate(seed, configuration, make_core)
    except Exception as error:  # a developer's rule may raise anything, and a core may contradict its own log
        if candidate.mutant is not None and isinstance(error, (LookupError, ValueError)):
            return Judged((), {})  # a mutant is to be caught by its check
        if candidate.is_reference and not isinstance(error, (LookupError, ValueError)):
            raise
        rejection = Rejection(seed, setting, BREAKDOWN, breakdown_sentence(error), (), configuration.plan or ())
        return Judged((rejection,), {})
    rejections = []
    facts = {}
    for check in judge_table(candidate.protocol, table, configuration, candidate.checks)["checks"]:
        facts[check["id"]] = check["judged"]
        if check["verdict"] == "violated":
            shown: dict[str, Any] = next(iter(check["violations"]), {"sentence": "", "events": []})
            events = tuple(shown["events"])
            rejections.append(Rejection(seed, setting, check["id"], shown["sentence"], events, outcome.plan))
    if candidate.mutant is None and not outcome.converged:
        sentence = no_convergence_sentence(configuration)
        rejections.append(Rejection(seed, setting, CONVERGENCE, sentence, (), outcome.plan))
    return Judged(tuple(rejections), facts)


def shrunk(candidate: Candidate, found: Rejection, attempts: int = 100) -> Rejection:
    """The same seed with as few faults as still cause a rejection: by the same check, or by any of a mutant's."""
    best = found
    setting = candidate.of.settings[found.setting]

    def fails(plan: Plan) -> bool:
        nonlocal best
        judged = judge_run(candidate, found.seed, found.setting, replace(setting, plan=plan))
        for rejection in judged.rejections:
            if candidate.mutant is not None or rejection.check == found.check:
                best = rejection
                return True
        return False

    if found.plan:
        shrink(found.plan, fails, attempts)
    return best


__all__ = [
    "BREAKDOWN",
    "CONVERGENCE",
    "Candidate",
    "Judged",
    "NoJudgeError",
    "Rejection",
    "breakdown_sentence",
    "judge_run",
    "judge_seed",
    "judge_table",
    "known_to_the_judge",
    "load_judge",
    "no_convergence_sentence",
    "show_again",
    "shrunk",
    "simulate_command",
]
