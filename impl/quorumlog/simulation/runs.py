"""Simulated runs as histories: in memory for a judge, or as a run directory that says how to reproduce it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from loghistory import Format, Manifest, MemorySink, Recorder, write_run
from loghistory.columns import Row
from quorumlog.events import CoreFactory
from quorumlog.simulation.cluster import Cluster, Outcome
from quorumlog.simulation.configuration import ClusterConfiguration, configuration_to_json


def simulate(
    stage: Callable[[int, Any, Recorder, CoreFactory], Cluster[Any, Any]],
    seed: int,
    configuration: ClusterConfiguration,
    make_core: CoreFactory,
) -> tuple[pa.Table, Outcome]:
    """Play one run; the same arguments give the same events. Returns its history and its outcome."""
    sink = MemorySink()
    recorder = Recorder(sink)
    with _collected_seldom():
        outcome = stage(seed, configuration, recorder, make_core).play()
    recorder.close()
    return sink.table, outcome


GARBAGE = 100_000
"""So many objects more than at the last time, and the collector of garbage looks again: a run makes few cycles."""


@contextmanager
def _collected_seldom() -> Iterator[None]:
    """Let the collector look seldom, which saves a twentieth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(max(GARBAGE, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def watched(
    stage: Callable[[int, Any, Recorder, CoreFactory], Cluster[Any, Any]],
    seed: int,
    configuration: ClusterConfiguration,
    make_core: CoreFactory,
    watch: Callable[[pa.RecordBatch], bool],
    *,
    seldom: bool = False,
) -> Outcome:
    """Play one run and show it to ``watch`` piece by piece; it ends early once ``watch`` says that it has seen enough.

    What is shown is how the run begins that `simulate` plays; an early end changes nothing before it. ``seldom``: in
    pieces as large as a recorder makes them, which is less work in all if the run is not expected to end early.
    """
    sink = _Watched(watch)
    recorder = Recorder(sink)

    def enough() -> bool:
        if not seldom:
            recorder.flush()
        return sink.enough

    outcome = stage(seed, configuration, recorder, make_core).play(enough)
    recorder.close()
    return outcome


class _Watched:
    """Shows events to somebody, until they have seen enough, and keeps none."""

    name = "memory"

    def __init__(self, watch: Callable[[pa.RecordBatch], bool]) -> None:
        self.enough = False
        self._watch = watch

    def write(self, rows: Callable[[], Sequence[Row]], batch: pa.RecordBatch) -> None:
        self.enough = self.enough or self._watch(batch)

    def flush(self) -> None:
        """Do nothing, for nothing is held back."""

    def close(self) -> None:
        """Do nothing, for nothing is held back."""


def made_by(
    protocol: str,
    seed: int,
    configuration: ClusterConfiguration,
    mutant: str | None = None,
    rules: Path | None = None,
) -> dict[str, Any]:
    """What a manifest says about how a run was simulated; ``rules`` is the file of a developer's rules."""
    made = {"protocol": protocol, "seed": seed, "configuration": configuration_to_json(configuration)}
    if mutant is not None:
        made["mutant"] = mutant
    if rules is not None:
        made["rules"] = {"file": str(rules), "sha256": sha256(rules.read_bytes()).hexdigest()}
    return made


def save_run(
    directory: Path,
    table: pa.Table,
    made: dict[str, Any],
    format: Format = Format.JSON_LINES,  # noqa: A002
    name: str | None = None,
) -> Manifest:
    """Write a run directory, whole or not at all; ``made`` is what `made_by` returned.

    Raises `loghistory.HistoryError` if it exists and is not empty.
    """
    return write_run(directory, table, Manifest(name=name or directory.name, made_by=made), format)
