"""Hunting: run after run until the judge rejects one; then the fewest faults that still show it.

The judge is whoever is installed under the entry point group ``logwitness.judges`` with the name ``history``;
nothing of the checker is imported. A mutant is caught when a check stated with it is violated. The reference
is caught when any check is, when a run does not converge, or when a core or a disk breaks down.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import islice
from multiprocessing import active_children, get_context
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from quorumlog.lifetime import die_with
from quorumlog.mutants import MUTANTS, Mutant
from quorumlog.raft.core import RaftCore
from quorumlog.simulation.configuration import ClusterConfiguration
from quorumlog.simulation.faults import Plan, shrink
from quorumlog.simulation.runs import simulate
from quorumlog.simulation.settings import SETTINGS

Judge = Callable[..., dict[str, Any]]
"""``judge(table, only, configuration=...)``, the entry point ``history`` of the group ``logwitness.judges``."""

_AHEAD = 8
"""So many seeds for each helper are handed out before the first one is answered."""

_IN_PROCESS = 8
"""So many seeds are tried before helpers are started: most hunts end sooner than a process begins."""


class NoJudgeError(RuntimeError):
    """No history judge is installed."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a run was rejected: by which check (or "convergence", "breakdown"), in a sentence, and under which faults."""

    seed: int
    setting: str
    check: str
    sentence: str
    events: tuple[int, ...]
    plan: Plan


def load_judge() -> Judge:
    """The installed judge of histories. Raises `NoJudgeError`."""
    for entry in entry_points(group="logwitness.judges", name="history"):
        judge: Judge = entry.load()
        return judge
    raise NoJudgeError("no judge of histories is installed; install the distribution logwitness with its entry points")


def setting_of(mutant: Mutant | None, seed: int) -> str:
    """The setting of a run: the mutant's, or for the reference each in turn."""
    return mutant.setting if mutant is not None else list(SETTINGS)[seed % len(SETTINGS)]


def try_seed(mutant: Mutant | None, seed: int) -> Rejection | None:
    """Play and judge one run of a mutant, or of the reference."""
    setting = setting_of(mutant, seed)
    return try_run(mutant, seed, setting, SETTINGS[setting])


def try_run(mutant: Mutant | None, seed: int, setting: str, configuration: ClusterConfiguration) -> Rejection | None:
    """The same with a configuration of its own, which may carry its plan."""
    make_core = RaftCore if mutant is None else mutant.make_core
    try:
        table, outcome = simulate(seed, configuration, make_core)
    except (LookupError, ValueError) as error:
        # The core contradicts its own log. That is a verdict on the reference; a mutant is to be caught by its check.
        if mutant is not None:
            return None
        return Rejection(seed, setting, "breakdown", f"{type(error).__name__}: {error}", (), configuration.plan or ())
    found = first_violation(table, configuration, None if mutant is None else mutant.checks)
    if found is not None:
        return Rejection(seed, setting, *found, outcome.plan)
    if mutant is None and not outcome.converged:
        sentence = f"the cluster did not converge within {configuration.settle / 1e9:g} s after all faults were healed"
        return Rejection(seed, setting, "convergence", sentence, (), outcome.plan)
    return None


def first_violation(
    table: pa.Table, configuration: ClusterConfiguration, only: Sequence[str] | None = None
) -> tuple[str, str, tuple[int, ...]] | None:
    """The first violated check of a history, one of its sentences and the events that show it; None if all hold."""
    answer = judge_table(table, configuration, only)
    for check in answer["checks"]:
        if check["verdict"] == "violated":
            shown: dict[str, Any] = next(iter(check["violations"]), {"sentence": "", "events": []})
            return check["id"], shown["sentence"], tuple(shown["events"])
    return None


def judge_table(
    table: pa.Table, configuration: ClusterConfiguration, only: Sequence[str] | None = None
) -> dict[str, Any]:
    """What the judge says about a simulated run that is not in files; ``only``: the ids of the checks wanted."""
    made_with = {"voters": list(range(configuration.nodes)), "write_caching": configuration.write_caching}
    return load_judge()(table, only, configuration=made_with)


def hunt(
    mutant: Mutant | None,
    seeds: Sequence[int],
    *,
    processes: int = 2,
    progress: Callable[[int], None] = lambda tried: None,
) -> Rejection | None:
    """Return the rejection of the first seed that is rejected, in the order of ``seeds``; None if none is.

    ``progress`` is told how many seeds have been tried.
    """
    for tried, rejection in enumerate(_tries(mutant, seeds, processes), start=1):
        progress(tried)
        if rejection is not None:
            return rejection
    return None


def _tries(mutant: Mutant | None, seeds: Sequence[int], processes: int) -> Iterator[Rejection | None]:
    first, rest = (seeds, ()) if processes <= 1 else (seeds[:_IN_PROCESS], seeds[_IN_PROCESS:])
    for seed in first:
        yield try_seed(mutant, seed)
    if not rest:
        return
    name = None if mutant is None else mutant.id
    tasks = ((name, seed) for seed in rest)
    others = set(active_children())
    executor = ProcessPoolExecutor(processes, get_context("spawn"), _begin_helper, (os.getpid(),))
    try:
        ahead = deque(executor.submit(_try, task) for task in islice(tasks, _AHEAD * processes))
        while ahead:
            rejection = ahead.popleft().result()
            ahead.extend(executor.submit(_try, task) for task in islice(tasks, 1))
            yield rejection
    finally:
        # Helpers are killed, not asked: an interrupted hunt ends at once, and nothing of theirs is worth waiting for.
        for helper in set(active_children()) - others:
            helper.kill()
        executor.shutdown(cancel_futures=True)


_hunter = 0


def _begin_helper(hunter: int) -> None:
    global _hunter
    _hunter = hunter
    if not die_with(hunter):
        os._exit(1)  # the hunter was killed already
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the hunter is interrupted, and ends its helpers


def _try(task: tuple[str | None, int]) -> Rejection | None:
    if os.getppid() != _hunter:
        os._exit(1)  # the hunter was killed
    name, seed = task
    return try_seed(None if name is None else MUTANTS[name], seed)


def shrunk(mutant: Mutant | None, found: Rejection, attempts: int = 100) -> Rejection:
    """The same seed with as few faults as still get it rejected for the same reason."""
    best = found

    def fails(plan: Plan) -> bool:
        nonlocal best
        configuration = replace(SETTINGS[found.setting], plan=plan)
        rejection = try_run(mutant, found.seed, found.setting, configuration)
        if rejection is None or (mutant is None and rejection.check != found.check):
            return False
        best = rejection
        return True

    shrink(found.plan, fails, attempts)
    return best


__all__ = [
    "NoJudgeError",
    "Rejection",
    "first_violation",
    "hunt",
    "judge_table",
    "load_judge",
    "setting_of",
    "shrunk",
    "try_run",
    "try_seed",
]
