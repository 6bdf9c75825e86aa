"""What the simulator says about a set of rules: the stage ``simulation`` of ``logwitness validate``.

Runs are played under every setting in turn and judged by the installed checker. Of each check that is violated the
first seed is kept and its faults are shrunk, so that the row in the table comes with a run that shows it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import TimeoutError as TooLateError
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from quorumlog.hunt import NoJudgeError, Rejection, judge_table, load_judge
from quorumlog.raft.core import RaftCore
from quorumlog.rules_file import core_of
from quorumlog.simulation.configuration import ClusterConfiguration
from quorumlog.simulation.faults import Plan, plan_to_json, shrink
from quorumlog.simulation.raft_node import CoreFactory
from quorumlog.simulation.runs import save_run
from quorumlog.simulation.runs import simulate as play
from quorumlog.simulation.settings import SETTINGS

Say = Callable[[str], None]
Result = dict[str, Any]
"""stage, item, verdict (holds, violated, undecided), sentence, again (commands), shows (text; may be empty)."""

STAGE = "simulation"
PROCESSES = 2
RUN_SECONDS = 120.0
"""A run takes a fraction of a second; one that takes this long does not end."""

_SHRINK_ATTEMPTS = 40


@dataclass(frozen=True, slots=True)
class _Judged:
    """One run: its rejections, at most one a check, and how many facts each check judged."""

    rejections: tuple[Rejection, ...]
    judged: dict[str, int]


def simulation(rules: Path | None, seeds: int, say: Say) -> Iterator[Result]:
    """Play and judge ``seeds`` runs, from seed 0 on; yield one result a violated check, or one that all hold."""
    try:
        load_judge()
    except NoJudgeError as error:
        yield _result("runs", "undecided", str(error))
        return
    counts: dict[str, int] = {}
    first: dict[str, Rejection] = {}
    facts: dict[str, int] = {}
    context = get_context("spawn")
    with context.Pool(PROCESSES, _begin_helper, (os.getpid(), None if rules is None else str(rules))) as pool:
        for seed, judged in enumerate(_results(pool, seeds)):
            if judged is None:
                sentence = f"the run with seed {seed} did not end within {RUN_SECONDS:g} s"
                yield _result("breakdown", "violated", sentence, _again(rules, seed, _setting(seed), None))
                return
            for rejection in judged.rejections:
                counts[rejection.check] = counts.get(rejection.check, 0) + 1
                first.setdefault(rejection.check, rejection)
            for check, number in judged.judged.items():
                facts[check] = facts.get(check, 0) + number
            say(f"{seed + 1} of {seeds} runs, {len(first)} checks violated")
    make_core = RaftCore if rules is None else core_of(rules)
    for check, found in sorted(first.items(), key=lambda item: -counts[item[0]]):
        say(f"shrinking the faults of seed {found.seed} for {check}")
        small = _shrunk(found, make_core)
        sentence = f"{counts[check]} of {seeds} runs, first seed {small.seed} ({small.setting}): {small.sentence}"
        faults = f"{len(small.plan)} of {len(found.plan)} faults are enough"
        yield _result(check, "violated", sentence, _again(rules, small.seed, small.setting, small.plan), shows=faults)
    if not first:
        idle = sorted(check for check, number in facts.items() if not number)
        sentence = f"{seeds} runs under {min(seeds, len(SETTINGS))} settings, {len(facts) - len(idle)} checks, "
        sentence += f"{sum(facts.values())} facts"
        shows = f"nothing to judge for: {', '.join(idle)}" if idle else ""
        yield _result("runs", "holds" if sum(facts.values()) else "undecided", sentence, shows=shows)


def record(rules: Path | None, seed: int, directory: Path) -> tuple[str, ...]:
    """Write the run of one seed into ``directory``, for other judges; return the commands that make it.

    Raises RuntimeError, in one sentence, if the rules broke the run off.
    """
    setting = _setting(seed)
    configuration = SETTINGS[setting]
    try:
        table, _ = play(seed, configuration, RaftCore if rules is None else core_of(rules))
    except Exception as error:
        raise RuntimeError(f"the run with seed {seed} broke off: {type(error).__name__}: {error}") from error
    save_run(directory, table, seed=seed, configuration=configuration, rules=rules)
    return _again(rules, seed, setting, None)


def _setting(seed: int) -> str:
    return list(SETTINGS)[seed % len(SETTINGS)]


def _results(pool: Pool, seeds: int) -> Iterator[_Judged | None]:
    """The runs in the order of their seeds; None instead of one that does not end."""
    runs = pool.imap(_try, range(seeds))
    for _ in range(seeds):
        try:
            yield runs.next(RUN_SECONDS)
        except TooLateError:
            yield None
            return


_parent = 0
_rules: str | None = None
_make_core: CoreFactory | None = None


def _begin_helper(parent: int, rules: str | None) -> None:
    global _parent, _rules
    _parent, _rules = parent, rules
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends its helpers


def _try(seed: int) -> _Judged:
    if os.getppid() != _parent:
        os._exit(1)  # the parent was killed
    global _make_core
    if _make_core is None:  # here, so that what goes wrong is an answer
        _make_core = RaftCore if _rules is None else core_of(_rules)
    setting = _setting(seed)
    return _judge(seed, setting, SETTINGS[setting], _make_core)


def _judge(seed: int, setting: str, configuration: ClusterConfiguration, make_core: CoreFactory) -> _Judged:
    try:
        table, outcome = play(seed, configuration, make_core)
    except Exception as error:  # a rule of a developer's may raise anything
        sentence = f"the run breaks off: {type(error).__name__}: {' '.join(str(error).split())}"
        return _Judged((Rejection(seed, setting, "breakdown", sentence, (), configuration.plan or ()),), {})
    rejections = []
    judged = {}
    for check in judge_table(table, configuration)["checks"]:
        judged[check["id"]] = check["judged"]
        if check["verdict"] == "violated":
            shown: dict[str, Any] = next(iter(check["violations"]), {"sentence": "", "events": []})
            rejections.append(
                Rejection(seed, setting, check["id"], shown["sentence"], tuple(shown["events"]), outcome.plan)
            )
    if not outcome.converged:
        sentence = f"no convergence within {configuration.settle / 1e9:g} s after all faults were healed"
        rejections.append(Rejection(seed, setting, "convergence", sentence, (), outcome.plan))
    return _Judged(tuple(rejections), judged)


def _shrunk(found: Rejection, make_core: CoreFactory) -> Rejection:
    """The same seed with as few faults as still violate the same check."""
    best = found

    def fails(plan: Plan) -> bool:
        nonlocal best
        judged = _judge(found.seed, found.setting, replace(SETTINGS[found.setting], plan=plan), make_core)
        for rejection in judged.rejections:
            if rejection.check == found.check:
                best = rejection
                return True
        return False

    if found.plan:
        shrink(found.plan, fails, _SHRINK_ATTEMPTS)
    return best


def _again(rules: Path | None, seed: int, setting: str, plan: Plan | None) -> tuple[str, ...]:
    directory = f"out/validated-{seed}"
    command = ["logwitness", "simulate", "--seed", str(seed), "--setting", setting]
    if rules is not None:
        command += ["--rules", str(rules)]
    if plan:
        command += ["--faults", json.dumps(plan_to_json(plan))]
    return (shlex.join([*command, "--force", "-o", directory]), f"logwitness check {directory}")


def _result(item: str, verdict: str, sentence: str, again: tuple[str, ...] = (), *, shows: str = "") -> Result:
    return {
        "stage": STAGE,
        "item": item,
        "verdict": verdict,
        "sentence": sentence,
        "again": list(again),
        "shows": shows,
    }
