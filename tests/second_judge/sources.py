"""The histories that both judges look at: recorded runs, simulated ones of the reference and of mutants."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from loghistory import open_run
from quorumlog.durations import MILLISECOND
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import SETTINGS
from quorumlog.trials.judge import Candidate, known_to_the_judge

RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs"
RECORDED = sorted(manifest.parent for manifest in RUNS.glob("*/*/manifest.json"))

BOUNDS = (10 * MILLISECOND, 40 * MILLISECOND, 150 * MILLISECOND)
"""Within which simulated runs are asked to get on: some are too short, so that there is something to say."""


class Source(NamedTuple):
    """A history and what it was made with."""

    name: str
    table: pa.Table
    configuration: Mapping[str, Any]


@functools.cache
def recorded(run: Path) -> Source:
    """A recorded run."""
    source = open_run(run)
    assert source.manifest
    made_by = source.manifest.made_by
    configuration = {"voters": source.manifest.nodes} | made_by.get("configuration", {})
    return Source(run.name, source.table(), configuration | {"protocol": made_by.get("protocol", "raft")})


@functools.lru_cache(maxsize=16)
def simulated(seed: int) -> Source | None:
    """A short simulated run: of the reference under each setting in turn, then of each mutant; None if it broke off."""
    candidates = [
        *(Candidate("raft", under=setting) for setting in SETTINGS),
        *(Candidate("raft", mutant) for mutant in PROTOCOL.hunted),
    ]
    candidate = candidates[seed % len(candidates)]
    configuration = replace(candidate.configuration(seed), duration=400 * MILLISECOND)
    try:
        table, _ = candidate.played.simulate(seed, configuration)
    except (LookupError, ValueError):  # a mutant's core may contradict its own log
        return None
    name = f"{candidate.mutant or 'reference'}, {candidate.setting(seed)}, seed {seed}"
    known = dict(known_to_the_judge("raft", configuration))
    return Source(name, table, known | {"progress_bound": BOUNDS[seed % len(BOUNDS)]})
