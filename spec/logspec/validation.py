"""What the specification says about a set of rules: the stages ``traces`` and ``proofs`` of ``logwitness validate``.

The runs to follow come from the entry points ``logwitness.runs``, the rules to prove from ``logwitness.rules``, both by
name: nothing of the implementation is imported.
"""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loghistory import open_run
from logspec.errors import SpecError, missing
from logspec.followers import FollowedTrace, Follower, followers
from logspec.recording import Trace, read_traces
from logspec.toolchain import Toolchain, find_toolchain
from logspec.traces import MODULE, follow_traces

Say = Callable[[str], None]
Result = dict[str, Any]
"""stage, item, verdict (holds, violated, undecided), sentence, again (commands), shows (text; may be empty)."""

RUNS_PER_TRACE = 5
"""One of this many simulated runs is followed in the specification, because that takes much longer."""
LEAST_TRACES = 7
MOST_EVENTS = 100_000
"""With more than that, no further run is followed: minutes of TLC. Runs of some protocols have many."""
SECONDS = 600.0
"""Limit of one run of TLC."""
SHOWN = 3
"""Rejected traces that are shown with their event."""


def traces(rules: Path | None, seeds: int, say: Say, protocol: str) -> Iterator[Result]:
    """Simulate a few runs and follow them in the specification; yield one result per rejected run, or one if all hold.

    A run that the rules break off has no trace; the simulation says so. A protocol has a specification if one of
    `followers` is its, or if its runs are those of replicated logs that `logspec.traces` follows.
    """
    folder = protocol.replace("-", "_")
    used = [each for each in followers() if each.protocol == folder]
    if not used and MODULE.partition("/")[0] != folder:
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
    made: dict[str, list[str]] = {}
    read: dict[Follower[Any] | None, list[Any]] = {each: [] for each in used or (None,)}
    with tempfile.TemporaryDirectory(prefix="logwitness-") as directory:
        for seed in range(number):
            if seed >= LEAST_TRACES and _events(read) > MOST_EVENTS:
                break
            say(f"{seed} of {number} runs recorded")
            run = Path(directory) / f"seed-{seed}"
            try:
                made[run.name] = list(record(rules, seed, run, protocol))
            except RuntimeError as problem:
                yield _result("traces", run.name, "undecided", str(problem))
                continue
            for follower, found in read.items():
                found += follower.read(open_run(run), run.name) if follower else _logs(run)
    events = _events(read)
    say(f"following {events} events of {len(made)} runs")
    try:
        rejected = _rejected(read, tools)
    except SpecError as problem:
        yield _result("traces", "stage", "undecided", str(problem))
        return
    first, more = list(rejected)[:SHOWN], list(rejected)[SHOWN:]
    for name in first:
        again = [made[name][0], f"logwitness spec trace {made[name][0].rpartition(' ')[2]}"]
        yield _result("traces", name, "violated", rejected[name], again)
    if more:
        yield _result("traces", f"{len(more)} more runs", "violated", f"rejected as well: {', '.join(more)}")
    if made and not rejected:
        sentence = f"{len(made)} runs, {events} events: the specification allows each"
        yield _result("traces", "runs", "holds" if events else "undecided", sentence)


def _events(read: Mapping[Follower[Any] | None, Sequence[Any]]) -> int:
    return sum(len(trace.events) for found in read.values() for trace in found)


def _logs(run: Path) -> list[Trace]:
    """The replicated logs of a run, under its name."""
    found = list(read_traces(open_run(run)))
    for trace in found:
        trace.name = run.name
    return found


def _rejected(read: Mapping[Follower[Any] | None, Sequence[Any]], tools: Toolchain) -> dict[str, str]:
    """By the name of each run that the specification does not allow, in order, the first event that it refuses."""
    stuck: dict[str, str] = {}
    for follower, found in read.items():
        if follower is not None:
            follower.follow(found, tools, SECONDS)
            refused: Sequence[FollowedTrace] = [each for each in found if each.stuck is not None]
            for trace in refused:
                stuck.setdefault(trace.name, f"not allowed: {trace.stuck}")
        elif found:
            for followed in follow_traces(found, tools, coverage=False, seconds=SECONDS).followed:
                if (at := followed.stuck) is not None:
                    stuck[followed.trace.name] = f"event {at.place.seq} is not allowed: {at.sentence}"
    return dict(sorted(stuck.items(), key=lambda item: int(item[0].rpartition("-")[2])))


def proofs(rules: Path | None, seeds: int, say: Say, protocol: str) -> Iterator[Result]:
    """Prove the claims about the rules; yield one result per claim. ``seeds`` is not used: a proof covers all runs."""
    try:
        from logspec.proofs import PROOFS, ProofResult, prove
        from logspec.proofs.rules import RulesError, installed_rules, load_rules
    except ModuleNotFoundError as problem:
        yield _result("proofs", "stage", "undecided", missing(problem))
        return
    if all(proof.protocol != protocol for proof in PROOFS.values()):
        yield _result("proofs", "stage", "undecided", f"there are no proofs about {protocol}")
        return
    try:
        chosen = installed_rules(protocol) if rules is None else load_rules(rules, protocol)
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
