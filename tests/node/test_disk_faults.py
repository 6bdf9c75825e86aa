"""What failing disks do to real nodes, and nodes that stop or end under load: it happens, and is judged rightly."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import quorumlog.cluster.log_stage
from loghistory import open_run
from quorumlog.cluster.run import Result, play
from quorumlog.cluster.stage import Setting
from quorumlog.cluster.supervisor import Cluster

NODE = (
    "import quorumlog.node.process as process; from quorumlog.node.__main__ import main;"
    "from quorumlog.raft.mutants.storage import {log}; process.Log = {log}; main()"
)
"""A node whose log is a mutant's."""


def played(directory: Path, **setting: Any) -> tuple[Result, dict[str, Any], list[dict[str, Any]]]:  # noqa: ANN401
    """How a run ended, what the checker says of it, and its events."""
    (judge,) = entry_points(group="logwitness.judges", name="history")
    (directory / "work").mkdir()
    made = play(
        Setting(protocol="raft", clients=3, **setting),
        directory / "work",
        directory / "run",
        "run",
        [],
        lambda _: None,
    )
    result = asyncio.run(made)
    run = open_run(directory / "run")
    return result, judge.load()(run), [row for batch in run.batches() for row in batch.to_pylist()]


def during(events: list[dict[str, Any]], f: str, kind: str) -> list[list[dict[str, Any]]]:
    """For each fault of this name, the events of this kind of its node while it lasts."""
    found = []
    for fault in (event for event in events if (event["kind"], event["f"]) == ("fault", f)):
        end = next(e["seq"] for e in events if (e["kind"], e["text"]) == ("heal", fault["text"]))
        found.append(
            [e for e in events if e["node"] == fault["node"] and e["kind"] == kind and fault["seq"] < e["seq"] < end]
        )
    return found


def test_disks_that_are_full_or_cannot_sync_stop_their_node_and_lose_nothing(tmp_path: Path) -> None:
    result, verdict, events = played(tmp_path, seed=5, duration=11.0, faults=("disk",))
    for f, reason in (("fsync_error", "sync failed"), ("open_error", "sync failed"), ("disk_full", "no room")):
        ended = during(events, f, "storage_error")
        assert ended, f"no {f}"
        assert all(errors and reason in errors[0]["reason"] for errors in ended), f
    assert result.agreed
    assert result.problems == []
    assert verdict["verdict"] == "holds", verdict


def test_a_node_refuses_what_was_damaged_and_returns_when_its_disk_is_restored(tmp_path: Path) -> None:
    result, verdict, events = played(tmp_path, seed=1, duration=7.0, faults=("damage",))
    for f in ("flipped_bit", "lost_name"):
        refused = during(events, f, "storage_error")
        assert refused, f"no {f}"
        assert all(refused), f"a node starts in spite of {f}"
    assert result.agreed
    assert verdict["verdict"] == "holds", verdict


def test_who_ends_in_the_middle_of_a_step_loses_nothing_and_records_it_in_time(tmp_path: Path) -> None:
    """What it could not record is older than its end, and not older than what a client asked for meanwhile."""
    result, verdict, events = played(tmp_path, seed=3, duration=7.0, faults=("midway",))
    for f, end in (("kill_midway", "crash"), ("power_loss_midway", "power_loss")):
        ended = during(events, f, end)
        assert ended, f"no {f}"
        assert all(ended), f"a node outlives {f}"
    assert result.agreed
    assert verdict["verdict"] == "holds", verdict


def test_nodes_that_stop_under_load_have_flushed_all_they_had(tmp_path: Path) -> None:
    result, verdict, events = played(tmp_path, seed=1, duration=6.0, faults=("terminate",))
    stops = [stop for stops in during(events, "stop", "stop") for stop in stops]
    assert stops
    for stop in stops:
        before = next(
            e for e in reversed(events[: stop["seq"]]) if e["node"] == stop["node"] and e["dirty"] is not None
        )
        after = next(e for e in events[stop["seq"] :] if e["node"] == stop["node"] and e["kind"] == "start")
        assert after["dirty"] >= before["dirty"]
    assert result.agreed
    assert verdict["verdict"] == "holds", verdict


def test_a_node_that_gives_up_what_was_damaged_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = partial(Cluster, command=(sys.executable, "-c", NODE.format(log="PromiseIgnored")))
    monkeypatch.setattr(quorumlog.cluster.log_stage, "Cluster", mutant)
    _, verdict, events = played(tmp_path, seed=1, duration=7.0, faults=("damage",))
    assert [] in during(events, "flipped_bit", "storage_error"), "it starts nevertheless"
    assert verdict["verdict"] == "violated"
