"""Runs of real nodes that a test drives itself, judged by the checker."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from loghistory import Format, HybridClock, Manifest, RunSource, merge_runs, open_run
from quorumlog.node.recording import HistoryFile


def supervised(directory: Path) -> HistoryFile:
    """Where the cluster records how its processes end."""
    return HistoryFile(directory / "cluster.jsonl", HybridClock(), {})


def judged(directory: Path, node_files: list[Path], ends: HistoryFile, voters: list[int]) -> dict[str, Any]:
    """The verdict on what nodes have recorded, and how their processes ended."""
    ends.close()
    files = sorted([*node_files, directory / "cluster.jsonl"])
    manifest = Manifest(name="run", made_by={"configuration": {"voters": voters}})
    merge_runs(files, directory / "run", manifest, Format.JSON_LINES)
    (found,) = entry_points(group="logwitness.judges", name="history")
    judge: Callable[[RunSource], dict[str, Any]] = found.load()
    return judge(open_run(directory / "run"))
