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
from quorumlog.hunting.judge import Candidate, known_to_the_judge
from quorumlog.pull_queries.protocol import PROTOCOL as PULL_QUERIES
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import SETTINGS
from quorumlog.read_path.protocol import PROTOCOL as READ_PATH

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
    stated = {name: value for name, value in made_by.get("configuration", {}).items() if value is not None}
    configuration = {"voters": source.manifest.nodes} | stated.get("limits", {}) | stated
    return Source(run.name, source.table(), configuration | {"protocol": made_by.get("protocol", "raft")})


@functools.lru_cache(maxsize=16)
def simulated(seed: int) -> Source | None:
    """A short simulated run: of the reference under each setting in turn, then of each mutant; None if it broke off."""
    candidates = [
        *(Candidate("raft", under=setting) for setting in SETTINGS),
        *(Candidate("raft", mutant) for mutant in PROTOCOL.hunted),
    ]
    source = played(candidates[seed % len(candidates)], seed, 400 * MILLISECOND)
    bound = {"progress_bound": BOUNDS[seed % len(BOUNDS)]}
    return None if source is None else source._replace(configuration={**source.configuration, **bound})


@functools.lru_cache(maxsize=16)
def simulated_servers(seed: int) -> Source | None:
    """The same of servers of pull queries; a server decides who is alive after a second, so the runs are longer."""
    candidates = [
        *(Candidate("pull-queries", under=setting) for setting in PULL_QUERIES.settings),
        *(Candidate("pull-queries", mutant) for mutant in PULL_QUERIES.hunted),
    ]
    return played(candidates[seed % len(candidates)], seed, 2000 * MILLISECOND)


@functools.lru_cache(maxsize=16)
def simulated_streams(seed: int) -> Source | None:
    """The same of a log on many shards, and its readers."""
    candidates = [
        *(Candidate("read-path", under=setting) for setting in READ_PATH.settings),
        *(Candidate("read-path", mutant) for mutant in READ_PATH.hunted),
    ]
    return played(candidates[seed % len(candidates)], seed, 500 * MILLISECOND)


def played(candidate: Candidate, seed: int, duration: int) -> Source | None:
    """A run with so much load; None if it broke off."""
    configuration = replace(candidate.configuration(seed), duration=duration)
    try:
        table, _ = candidate.played.simulate(seed, configuration)
    except (LookupError, ValueError):  # a mutant's core may contradict its own log
        return None
    name = f"{candidate.mutant or 'reference'}, {candidate.setting(seed)}, seed {seed}"
    return Source(name, table, known_to_the_judge(candidate.protocol, configuration))
