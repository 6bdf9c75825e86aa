"""What the simulator says about a set of rules: the stage ``simulation`` of ``logwitness validate``.

Every seed draws a run of its own, which is judged by the installed checker. Of each check that is violated the
first seed is kept and its faults are shrunk, so that each row in the table comes with a run that shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from quorumlog.faults import CHANGES
from quorumlog.hunting.judge import (
    RUN_SECONDS,
    Candidate,
    NoJudgeError,
    Rejection,
    judge_seed,
    load_judge,
    show_again,
)
from quorumlog.hunting.parallel import HelperError, in_order
from quorumlog.hunting.shrinking import shrunk
from quorumlog.protocol import ProtocolError, find
from quorumlog.rules_file import RulesFileError, read_rules
from quorumlog.simulation.configuration import ClusterConfiguration
from quorumlog.simulation.runs import made_by, save_run

Say = Callable[[str], None]
Result = dict[str, Any]
"""stage, item, verdict (holds, violated, undecided), sentence, again (commands), shows (text; may be empty)."""

STAGE = "simulation"
PROCESSES = 2


def simulation(rules: Path | None, seeds: int, say: Say, protocol: str | None = None) -> Iterator[Result]:
    """Play and judge ``seeds`` runs, from seed 0 on; yield one result per violated check, or one if all hold."""
    try:
        load_judge()
        candidate = _candidate(rules, protocol)
    except (NoJudgeError, ProtocolError, RulesFileError) as error:
        yield _result("runs", "undecided", str(error))
        return
    counts: dict[str, int] = {}
    first: dict[str, Rejection] = {}
    facts: dict[str, int] = {}
    runs = in_order(partial(judge_seed, candidate), range(seeds), PROCESSES, seconds=RUN_SECONDS)
    for seed in range(seeds):
        try:
            judged = next(runs)
        except TimeoutError:
            sentence = f"the run with seed {seed} did not end within {RUN_SECONDS:g} s of processor time"
            yield _result("runs", "undecided", sentence, _again(candidate, seed))
            seeds = seed
            break
        except (HelperError, RulesFileError) as error:
            yield _result("runs", "undecided", str(error))
            return
        for rejection in judged.rejections:
            counts[rejection.check] = counts.get(rejection.check, 0) + 1
            first.setdefault(rejection.check, rejection)
        for check, number in judged.facts.items():
            facts[check] = facts.get(check, 0) + number
        say(f"{seed + 1} of {seeds} runs, {len(first)} checks violated")
    for check, found in sorted(first.items(), key=lambda item: -counts[item[0]]):
        say(f"shrinking the faults of seed {found.seed} for {check}")
        small = shrunk(candidate, found)
        sentence = f"{counts[check]} of {seeds} runs, first seed {small.seed}: {small.sentence}"
        faults = f"{len(small.plan)} of {len(found.plan)} faults are enough"
        yield _result(check, "violated", sentence, _again(candidate, small.seed, small.configuration), shows=faults)
    if not first and seeds:
        idle = sorted(check for check, number in facts.items() if not number)
        checks = len(facts) - len(idle)
        sentence = f"{seeds} runs, {checks} checks, {sum(facts.values())} facts"
        shows = f"nothing to judge for: {', '.join(idle)}" if idle else ""
        yield _result("runs", "holds" if sum(facts.values()) else "undecided", sentence, shows=shows)


def record(rules: Path | None, seed: int, directory: Path, protocol: str | None = None) -> tuple[str, ...]:
    """Write the run of one seed into ``directory``, for other judges; return the commands that make it.

    Raises RuntimeError, in one sentence, if the rules made the run fail.
    """
    of = _candidate(rules, protocol)
    # A specification cannot follow all that a swarm draws, such as trimmed logs, members that change, or lost disks.
    unknown = {"trim", "wipe", *CHANGES}
    settings = [name for name, setting in of.of.settings.items() if unknown.isdisjoint(setting.faults.weights)]
    candidate = replace(of, under=settings[seed % len(settings)])
    configuration = candidate.configuration(seed)
    try:
        table, _ = candidate.of.simulate(seed, configuration, candidate.make_core)
    except Exception as error:
        raise RuntimeError(f"the run with seed {seed} failed: {type(error).__name__}: {error}") from error
    save_run(directory, table, made_by(candidate.protocol, seed, configuration, rules=rules))
    return _again(candidate, seed)


def _candidate(rules: Path | None, protocol: str | None) -> Candidate:
    of = find(protocol) if rules is None else read_rules(rules, protocol)[0]
    return Candidate(of.name, rules=None if rules is None else str(rules))


def _again(candidate: Candidate, seed: int, configuration: ClusterConfiguration | None = None) -> tuple[str, ...]:
    return show_again(candidate, seed, candidate.setting(seed), configuration, f"out/validated-{seed}")


def _result(item: str, verdict: str, sentence: str, again: tuple[str, ...] = (), *, shows: str = "") -> Result:
    return {
        "stage": STAGE,
        "item": item,
        "verdict": verdict,
        "sentence": sentence,
        "again": list(again),
        "shows": shows,
    }
