"""What the specification says about a set of rules: the stages ``traces`` and ``proofs`` of ``logwitness validate``.

The runs to follow come from the entry points ``logwitness.runs``, the rules to prove from ``logwitness.rules``, both by
name: nothing of the implementation is imported.
"""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from loghistory import open_run
from logspec.errors import SpecError, missing
from logspec.recording import Trace, read_traces
from logspec.toolchain import find_toolchain
from logspec.traces import Followed, follow_traces

Say = Callable[[str], None]
Result = dict[str, Any]
"""stage, item, verdict (holds, violated, undecided), sentence, again (commands), shows (text; may be empty)."""

PROTOCOL = "raft"
"""The protocol that is specified."""
RUNS_PER_TRACE = 5
"""One of this many simulated runs is followed in the specification, because that takes much longer."""
LEAST_TRACES = 7
SECONDS = 600.0
"""Limit of one run of TLC."""
SHOWN = 3
"""Rejected traces that are shown with their event."""


def traces(rules: Path | None, seeds: int, say: Say, protocol: str = PROTOCOL) -> Iterator[Result]:
    """Simulate a few runs and follow them in the specification; yield one result per rejected run, or one if all hold.

    A run that the rules break off has no trace; the simulation says so.
    """
    if protocol != PROTOCOL:
        yield _result("traces", "stage", "undecided", f"there is no specification of {protocol} to follow")
        return
    record = _installed("logwitness.runs", "simulate")
    if record is None:
        yield _result("traces", "stage", "undecided", "nothing is installed that makes runs (logwitness.runs)")
        return
    try:
        tools = find_toolchain()
    except SpecError as problem:
        yield _result("traces", "stage", "undecided", str(problem))
        return
    number = max(LEAST_TRACES, seeds // RUNS_PER_TRACE)
    read: list[Trace] = []
    made: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="logwitness-") as directory:
        for seed in range(number):
            say(f"{seed} of {number} runs recorded")
            run = Path(directory) / f"seed-{seed}"
            try:
                made[run.name] = list(record(rules, seed, run, protocol))
            except RuntimeError as problem:
                yield _result("traces", run.name, "undecided", str(problem))
                continue
            for trace in read_traces(open_run(run)):
                trace.name = run.name
                read.append(trace)
    say(f"following {sum(len(trace.events) for trace in read)} events of {len(read)} runs")
    try:
        campaign = follow_traces(read, tools, coverage=False, seconds=SECONDS) if read else None
    except SpecError as problem:
        yield _result("traces", "stage", "undecided", str(problem))
        return
    rejected = [followed for followed in campaign.followed if not followed.accepted] if campaign else []
    rejected.sort(key=lambda followed: int(followed.trace.name.rpartition("-")[2]))
    for followed in rejected[:SHOWN]:
        yield _rejected(followed, made[followed.trace.name])
    if len(rejected) > SHOWN:
        names = ", ".join(followed.trace.name for followed in rejected[SHOWN:])
        yield _result("traces", f"{len(rejected) - SHOWN} more runs", "violated", f"rejected as well: {names}")
    if campaign and not rejected:
        sentence = f"{len(read)} runs, {campaign.events} events: the specification allows each"
        yield _result("traces", "runs", "holds", sentence)


def _rejected(followed: Followed, made: list[str]) -> Result:
    stuck = followed.stuck
    assert stuck is not None
    sentence = f"event {stuck.place.seq} is not allowed: {stuck.sentence}"
    simulate = made[0]
    directory = simulate.rpartition(" ")[2]
    again = [simulate, f"logwitness spec trace {directory}"]
    return _result("traces", followed.trace.name, "violated", sentence, again)


def proofs(rules: Path | None, seeds: int, say: Say, protocol: str = PROTOCOL) -> Iterator[Result]:
    """Prove the claims about the rules; yield one result per claim. ``seeds`` is not used: a proof covers all runs."""
    if protocol != PROTOCOL:
        yield _result("proofs", "stage", "undecided", f"there are no proofs about {protocol}")
        return
    try:
        from logspec.proofs import ProofResult, prove
        from logspec.proofs.rules import RulesError, installed_rules, load_rules
    except ModuleNotFoundError as problem:
        yield _result("proofs", "stage", "undecided", missing(problem))
        return
    try:
        chosen = installed_rules() if rules is None else load_rules(rules)
    except RulesError as problem:
        yield _result("proofs", "stage", "undecided", str(problem))
        return

    def report(result: ProofResult) -> None:
        say(f"{result.name} {result.seconds:.1f} s")

    for answer in prove(None, chosen, progress=report):
        if answer.ok:
            verdict, sentence = "holds", f"as expected, {answer.seconds:.1f} s"
        elif answer.answer in ("sat", "unsat"):
            verdict = "violated"
            sentence = (
                "there is a counterexample" if answer.answer == "sat" else "its assumptions contradict each other"
            )
            if "/twin/" in answer.name:
                sentence = "this twin must fail and does not"
        elif answer.answer == "unsupported":
            verdict, sentence = "undecided", "a rule uses Python that cannot be proved; see below"
        else:
            verdict, sentence = "undecided", f"the solver says {answer.answer}"
        name = answer.name if answer.answer != "unsupported" else answer.name.partition("/")[0]
        command = f"logwitness spec prove {name}" + ("" if rules is None else f" --rules {rules}")
        yield _result("proofs", answer.name, verdict, sentence, [command], answer.counterexample)


def _installed(group: str, name: str) -> Callable[..., Any] | None:
    for entry in importlib.metadata.entry_points(group=group, name=name):
        found: Callable[..., Any] = entry.load()
        return found
    return None


def _result(
    stage: str, item: str, verdict: str, sentence: str, again: list[str] | None = None, shows: str = ""
) -> Result:
    return {
        "stage": stage,
        "item": item,
        "verdict": verdict,
        "sentence": sentence,
        "again": again or [],
        "shows": shows,
    }
