"""One simulated run and what the checker says about it while it runs.

The judges are the entry points of the group ``logwitness.judges``: ``watch`` for a run that is being played, which ends
at the first violation, ``history`` for a whole one; nothing of the checker is imported. A run is rejected when a check
is violated, when the cluster does not converge after all faults were healed, when it does not get on (virtual time
stands still, or the processor time that a run may take is spent), or when a core or a disk breaks down.
"""

from __future__ import annotations

import gc
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from quorumlog import protocol
from quorumlog.durations import format_duration
from quorumlog.events import CoreFactory
from quorumlog.faults import Plan, plan_to_json
from quorumlog.hunting.parallel import within
from quorumlog.protocol import SWARM, Protocol
from quorumlog.rules_file import read_rules
from quorumlog.simulation.configuration import ClusterConfiguration
from quorumlog.simulation.runs import GARBAGE

Judge = Callable[..., dict[str, Any]]
"""``judge(table, only, configuration=...)``, the entry point ``history`` of the group ``logwitness.judges``."""

Watch = Callable[..., Any]
"""``watch(only, configuration=...)``, the entry point ``watch`` of that group: it has `feed` and `document`."""

BREAKDOWN, CONVERGENCE, LIVELOCK = "breakdown", "convergence", "livelock"
"""What replaces a check's id when a run breaks off, does not converge or does not get on."""


RUN_SECONDS = 120.0
"""A run takes a fraction of a second; one that takes this much processor time is given up: it gets nowhere."""


class NoJudgeError(RuntimeError):
    """No judge of histories is installed: ``str()`` says in one line what to install."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Whose runs are judged: a protocol's reference, its mutant with an id, or the rules in a developer's file.

    ``under`` is the setting of all runs; None: the one that the mutant names, and otherwise the swarm, but for every
    third seed, which takes the protocol's settings in turn.
    """

    protocol: str
    mutant: str | None = None
    rules: str | None = None
    under: str | None = None

    @property
    def of(self) -> Protocol:
        """The record of its protocol. Raises `ProtocolError` if none of that name is installed."""
        return protocol.load(self.protocol)

    @property
    def played(self) -> Protocol:
        """The protocol as it is run: with what a mutant changes of its core and its nodes."""
        return self.of.mutated(self.mutant)

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
        return self.played.core

    def setting(self, seed: int) -> str:
        """The name of the setting of the run with this seed."""
        if self.under is not None:
            return self.under
        if self.mutant is not None:
            return self.of.mutants[self.mutant].setting
        turn, settings = seed // 3, list(self.of.settings)
        return SWARM if seed % 3 else settings[turn % len(settings)]

    def configuration(self, seed: int) -> ClusterConfiguration:
        """The configuration of the run with this seed."""
        return self.of.configured(self.setting(seed), seed)


@cache
def _core_of(name: str, rules: str) -> CoreFactory:
    of, bundle = read_rules(rules, name)
    return of.core_of(bundle)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a run was rejected: by which check (or BREAKDOWN, CONVERGENCE, LIVELOCK), in a sentence.

    ``configuration`` has the plan that was carried out; ``time`` is the virtual time at which the run was stopped.
    """

    seed: int
    setting: str
    check: str
    sentence: str
    events: tuple[int, ...]
    configuration: ClusterConfiguration
    time: int = 0

    @property
    def plan(self) -> Plan:
        """The faults that were carried out; empty if there were none."""
        return self.configuration.plan or ()


@dataclass(frozen=True, slots=True)
class Judged:
    """One run: its rejections, at most one per check, and how many facts each check judged."""

    rejections: tuple[Rejection, ...]
    facts: dict[str, int]


@cache
def _judge_named(name: str) -> Callable[..., Any]:
    for entry in entry_points(group="logwitness.judges", name=name):
        judge: Callable[..., Any] = entry.load()
        return judge
    raise NoJudgeError("no judge of histories is installed; install the distribution logwitness with its entry points")


def load_judge() -> Judge:
    """The installed judge of histories. Raises `NoJudgeError`."""
    return _judge_named("history")


def load_watch() -> Watch:
    """The installed judge of runs that are being played. Raises `NoJudgeError`."""
    return _judge_named("watch")


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


def no_end_sentence() -> str:
    """The sentence about a run that was given up."""
    return f"the run does not get on: it did not end within {RUN_SECONDS:g} s of processor time"


def simulate_command(
    candidate: Candidate, seed: int, setting: str, configuration: ClusterConfiguration | None = None
) -> list[str]:
    """The words of a command that reproduces a run; ``configuration`` None: the one of the setting and the seed.

    Of a configuration, what `quorumlog.hunting.shrinking` changes is given in words.
    """
    arguments = ["logwitness", "simulate", "--seed", str(seed)]
    if not candidate.of.by_default:
        arguments += ["--protocol", candidate.protocol]
    if candidate.mutant is not None:
        arguments += ["--mutant", candidate.mutant]
    if candidate.mutant is None or setting != candidate.of.mutants[candidate.mutant].setting:
        arguments += ["--setting", setting]
    if candidate.rules is not None:
        arguments += ["--rules", candidate.rules]
    if configuration is not None:
        drawn = candidate.of.configured(setting, seed)
        if configuration.schedule != drawn.schedule:
            arguments += ["--schedule", str(configuration.schedule)]
        if configuration.duration != drawn.duration:
            arguments += ["--duration", format_duration(configuration.duration)]
        if configuration.workload.clients != drawn.workload.clients:
            arguments += ["--clients", str(configuration.workload.clients)]
        if configuration.plan is not None:
            arguments += ["--faults", json.dumps(plan_to_json(configuration.plan))]
    return arguments


def show_again(
    candidate: Candidate, seed: int, setting: str, configuration: ClusterConfiguration | None, directory: str
) -> tuple[str, str]:
    """The two commands that reproduce a run in ``directory`` and judge it."""
    make = simulate_command(candidate, seed, setting, configuration)
    return shlex.join([*make, "--force", "-o", directory]), f"logwitness check {directory}"


@cache
def _leave_modules_alone() -> None:
    """What is imported stays: the collector of garbage need not look at it again in every run, which takes a fifth.

    Nor need it look often at the rest: a run makes few cycles, and asking seldom saves another tenth.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE)


def judge_seed(candidate: Candidate, seed: int) -> Judged:
    """Play and judge one run under the configuration that goes with the seed."""
    return judge_run(candidate, seed, candidate.setting(seed), candidate.configuration(seed))


def judge_run(candidate: Candidate, seed: int, setting: str, configuration: ClusterConfiguration) -> Judged:
    """Play one run under a given configuration, which may hold its plan, and judge it until the first violation.

    A run of the reference, of which nobody expects one, is looked at seldom; if something is wrong with it, it is
    played again and looked at often. Raises `RulesFileError`.
    """
    if candidate.is_reference:
        with suppress(Exception):  # it may have been wrong before that
            judged = _played_once(candidate, seed, setting, configuration, seldom=True)
            if not judged.rejections:
                return judged
    return _played_once(candidate, seed, setting, configuration)


def _played_once(
    candidate: Candidate, seed: int, setting: str, configuration: ClusterConfiguration, *, seldom: bool = False
) -> Judged:
    make_core = candidate.make_core
    _leave_modules_alone()
    watch = load_watch()(candidate.checks, configuration=known_to_the_judge(candidate.protocol, configuration))

    def rejection(check: str, sentence: str, events: Sequence[int] = ()) -> Rejection:
        return Rejection(seed, setting, check, sentence, tuple(events), played, time)

    played, time = configuration, 0
    rejections = []
    try:
        with within(RUN_SECONDS):
            outcome = candidate.played.watch(seed, configuration, make_core, watch.feed, seldom=seldom)
    except TimeoutError:
        return Judged((rejection(LIVELOCK, no_end_sentence()),), {})
    except Exception as error:  # a developer's rule may raise anything, and a core may contradict its own log
        if candidate.is_reference and not isinstance(error, (LookupError, ValueError)):
            raise
        if candidate.mutant is None:
            return Judged((rejection(BREAKDOWN, breakdown_sentence(error)),), {})
        if not isinstance(error, (LookupError, ValueError)):
            raise
        return Judged((), {})  # a mutant is to be caught by its check
    played, time = replace(configuration, plan=outcome.plan), outcome.time
    answer: Mapping[str, Any] = watch.document()
    for check in answer["checks"]:
        if check["verdict"] == "violated":
            shown: dict[str, Any] = next(iter(check["violations"]), {"sentence": "", "events": []})
            rejections.append(rejection(check["id"], shown["sentence"], shown["events"]))
    if outcome.livelock:
        rejections.append(rejection(LIVELOCK, outcome.livelock))
    elif candidate.mutant is None and not outcome.converged and not outcome.stopped:
        rejections.append(rejection(CONVERGENCE, no_convergence_sentence(configuration)))
    return Judged(tuple(rejections), {check["id"]: check["judged"] for check in answer["checks"]})


__all__ = [
    "BREAKDOWN",
    "CONVERGENCE",
    "LIVELOCK",
    "RUN_SECONDS",
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
    "load_watch",
    "no_convergence_sentence",
    "no_end_sentence",
    "show_again",
    "simulate_command",
]
