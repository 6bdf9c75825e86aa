"""Simulated runs as histories: in memory for a judge, or as a run directory that says how to make it again."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from loghistory import Format, Manifest, MemorySink, Recorder, write_run
from quorumlog.raft.core import RaftCore
from quorumlog.simulation.cluster import Outcome, RaftCluster
from quorumlog.simulation.configuration import ClusterConfiguration, configuration_to_json
from quorumlog.simulation.logs import CoreFactory


def simulate(
    seed: int, configuration: ClusterConfiguration, make_core: CoreFactory = RaftCore
) -> tuple[pa.Table, Outcome]:
    """Play one run; the same arguments give the same events. Returns its history and what it came to."""
    sink = MemorySink()
    recorder = Recorder(sink)
    outcome = RaftCluster(seed, configuration, recorder, make_core).play()
    recorder.close()
    return sink.table, outcome


def made_by(
    seed: int, configuration: ClusterConfiguration, mutant: str | None, rules: Path | None = None
) -> dict[str, Any]:
    """What a manifest says about the making of a simulated run; ``rules`` is the file of a developer's own."""
    made: dict[str, Any] = {"seed": seed, "configuration": configuration_to_json(configuration)}
    if mutant is not None:
        made["mutant"] = mutant
    if rules is not None:
        made["rules"] = {"file": str(rules), "sha256": sha256(rules.read_bytes()).hexdigest()}
    return made


def save_run(
    directory: Path,
    table: pa.Table,
    *,
    seed: int,
    configuration: ClusterConfiguration,
    mutant: str | None = None,
    rules: Path | None = None,
    format: Format = Format.JSON_LINES,  # noqa: A002
    name: str | None = None,
) -> Manifest:
    """Write a run directory, whole or not at all. Raises `loghistory.HistoryError` if it exists and is not empty."""
    manifest = Manifest(name=name or directory.name, made_by=made_by(seed, configuration, mutant, rules))
    return write_run(directory, table, manifest, format)
