"""Several Raft groups in each simulated process: logs of their own, one fate, frames that they share."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from loghistory import MemorySink, Recorder
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.hunting.judge import Candidate, judge_run, judge_table
from quorumlog.raft.mutants import MUTANTS
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import SETTINGS, NodeTiming, RaftConfiguration
from quorumlog.raft.simulated_groups import Processes
from quorumlog.simulation.configuration import LogWorkload

SETTING = replace(SETTINGS["groups"], duration=SECOND)
QUIET = RaftConfiguration(
    plan=(), light_heartbeats=True, priorities=True, timing=NodeTiming(heartbeat=30 * MILLISECOND)
)


def rows(table: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    found: list[dict[str, Any]] = table.to_pylist()
    return found


@pytest.mark.parametrize("seed", [3, 8])
def test_each_group_is_a_log_of_its_own_and_all_hold(seed: int) -> None:
    table, outcome = PROTOCOL.simulate(seed, SETTING)
    assert outcome.converged
    answer = judge_table("raft", table, SETTING)
    assert answer["verdict"] == "holds", [c for c in answer["checks"] if c["verdict"] == "violated"]
    events = rows(table)
    assert {e["log"] for e in events if e["kind"] in ("append", "ok", "leader", "vote", "start")} == set("0123")
    shared = [e for e in events if e["kind"] in ("crash", "power_loss", "fault", "heal", "stop", "phase")]
    assert shared
    assert all(e["log"] is None for e in shared)


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = (PROTOCOL.simulate(5, SETTING)[0] for _ in range(2))
    assert one.equals(other)


def test_a_process_starts_and_ends_with_all_its_groups() -> None:
    table, _ = PROTOCOL.simulate(3, SETTING)
    starts: dict[tuple[int, int], list[str]] = {}
    for event in rows(table):
        if event["kind"] == "start":
            starts.setdefault((event["node"], event["incarnation"]), []).append(event["log"])
    assert len(starts) > 3
    whole = [logs for logs in starts.values() if logs == ["0", "1", "2", "3"]]
    assert len(whole) >= len(starts) - 2  # a disk may fail while the groups before it have started


def quiet(groups: int) -> Processes:
    cluster = Processes(2, replace(QUIET, groups=groups, workload=LogWorkload(clients=0)), Recorder(MemorySink()))
    cluster.start()
    cluster.advance(3 * SECOND)
    assert all(group.agreed() for group in cluster.groups)
    return cluster


def test_heartbeats_of_all_groups_share_frames() -> None:
    sent = {}
    for groups in (3, 30):
        cluster = quiet(groups)
        before = cluster.network.sent
        cluster.advance(SECOND)
        sent[groups] = cluster.network.sent - before
    # Three leaders, two peers each, 33 intervals; each heartbeat has an answer.
    assert sent[3] == pytest.approx(2 * 2 * 3 * 33, rel=0.1)
    assert sent[30] == pytest.approx(sent[3], rel=0.1)


def test_priorities_spread_the_leaders_over_the_processes() -> None:
    leaders = [group.leader() for group in quiet(6).groups]
    assert [leader.number for leader in leaders if leader is not None] == [0, 1, 2, 0, 1, 2]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mutant", ["commit-counts-dirty", "acks-all-at-own-flush"])
def test_what_breaks_a_group_is_found(mutant: str) -> None:
    assert mutant in MUTANTS
    assert judge_run(Candidate("raft", mutant), 0, "groups", SETTINGS["groups"]).rejections
