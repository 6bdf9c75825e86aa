"""Runs of mutants followed in the specification: which does it reject, and at an event of which kind?"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from loghistory import open_run
from logspec.recording import Trace, read_traces
from logspec.toolchain import find_toolchain
from logspec.traces import Followed, follow_traces
from quorumlog.hunting.judge import Candidate
from quorumlog.hunting.survey import Hunted
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.simulation.runs import made_by, save_run

FOLLOWED = PROTOCOL.name
"""The protocol whose specification follows runs."""

OWN_RUNS = 4
"""Runs that are followed of a mutant that was not caught."""

SECONDS = 1800.0


def follow(found: Sequence[Hunted], say: Callable[[str], None]) -> dict[str, str]:
    """By mutant, what the specification says: the kind of the event that it rejects, with the seed if it is not the one
    that the hunt found; or that it allows what was followed; nothing, if there was nothing to follow."""
    hunts = {each.candidate.mutant: each for each in found if each.check}
    traces: list[Trace] = []
    for mutant in PROTOCOL.mutants.values():
        if mutant.driver is not None:
            continue  # no simulated run has it
        hunt = hunts.get(mutant.id)
        for seed in range(OWN_RUNS) if hunt is None else (hunt.seed,):
            traces += _traces(Candidate("raft", mutant.id), seed, None if hunt is None else hunt.time)
    say(f"following {sum(len(trace.events) for trace in traces)} events of {len(traces)} runs in the specification")
    campaign = follow_traces(
        traces,
        find_toolchain(),
        coverage=False,
        seconds=SECONDS,
        on_batch=lambda done, of: say(f"{done} of {of} runs followed"),
    )
    said: dict[str, str] = {}
    for followed in sorted(campaign.followed, key=lambda each: each.trace.name):
        mutant_id, seed = followed.trace.name.rsplit(" ", 1)
        if said.get(mutant_id, "allows") == "allows":
            said[mutant_id] = _said(followed, "" if mutant_id in hunts else f", seed {seed}")
    return said


def _said(followed: Followed, seed: str) -> str:
    stuck = followed.stuck
    return "allows" if stuck is None else f"{stuck.place.event['kind']}{seed}"


def _traces(candidate: Candidate, seed: int, until: int | None) -> list[Trace]:
    """The traces of a run up to a virtual time; none of a run that breaks off."""
    configuration = candidate.configuration(seed)
    try:
        table, _ = candidate.played.simulate(seed, configuration)
    except (LookupError, ValueError):
        return []
    ends = (at for at, time in enumerate(table["time"].to_pylist()) if until is not None and time > until)
    with tempfile.TemporaryDirectory(prefix="logwitness-") as directory:
        run = Path(directory) / "run"
        save_run(run, table.slice(0, next(ends, None)), made_by("raft", seed, configuration))
        traces = [trace for trace in read_traces(open_run(run)) if trace.events]
    for trace in traces:
        trace.name = f"{candidate.mutant} {seed}"
    return traces
