"""What keeps a cluster from getting on, and what a leader that is cut off tells its clients."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from loghistory import MemorySink, Recorder
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.events import CoreFactory, Outcome
from quorumlog.faults import Fault
from quorumlog.hunting.judge import judge_table
from quorumlog.raft.mutants import MUTANTS
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import RaftConfiguration
from quorumlog.raft.simulated import RaftCluster
from quorumlog.simulation.configuration import DiskTiming, LogWorkload
from quorumlog.simulation.network import Link

DEAF = RaftConfiguration(plan=(Fault(300 * MILLISECOND, "deafen", ("leader",), 2500 * MILLISECOND),))
ELECTION = DEAF.timing.election
assert isinstance(ELECTION, int)


def longest_pause(events: list[dict[str, Any]], since: int, until: int) -> int:
    """The longest time without a commit of a leader, in nanoseconds."""
    moves = [event["time"] for event in events if event["kind"] == "commit" and event["role"] == "leader"]
    times = [since, *(time for time in moves if since < time < until), until]
    return max(after - before for before, after in pairwise(times))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_a_leader_that_hears_nobody_steps_down_and_another_one_commits(seed: int) -> None:
    table, outcome = PROTOCOL.simulate(seed, DEAF)
    events = table.to_pylist()
    fault = next(event for event in events if event["kind"] == "fault")
    deaf, begun, healed = fault["node"], fault["time"], fault["time"] + DEAF.plan[0].lasting  # type: ignore[index]
    left = next(e for e in events if e["seq"] > fault["seq"] and e["kind"] == "role" and e["node"] == deaf)
    assert left["role"] == "follower"
    assert left["time"] - begun < 2 * ELECTION
    # It is heard until it steps down; then come an election time-out with its jitter, and a second try at most.
    assert longest_pause(events, begun, healed) < 6 * ELECTION
    assert outcome.converged
    assert judge_table("raft", table, DEAF)["verdict"] == "holds"

    reported = [e["time"] for e in events if (e["kind"], e["f"], e["node"]) == ("ok", "append", deaf)]
    on_their_way = left["time"] + MILLISECOND
    assert not [time for time in reported if on_their_way < time < healed]


def test_without_check_quorum_nobody_commits_for_as_long_as_it_is_deaf() -> None:
    for seed in range(3):
        events = PROTOCOL.simulate(seed, DEAF, MUTANTS["no-check-quorum"].make_core)[0].to_pylist()
        assert longest_pause(events, 310 * MILLISECOND, 2800 * MILLISECOND) > 2400 * MILLISECOND


SLOW = RaftConfiguration(
    disk=DiskTiming(least=300 * MILLISECOND, most=600 * MILLISECOND),
    link=Link(loss=0.1),
    workload=LogWorkload(clients=2, timeout=3 * SECOND),
    duration=SECOND,
    settle=10 * SECOND,
    plan=(),
)
"""A write takes longer than the longest election time-out."""


def test_slow_disks_elect_a_leader() -> None:
    def converged(make_core: CoreFactory) -> int:
        return sum(PROTOCOL.simulate(seed, SLOW, make_core)[1].converged for seed in range(10))

    assert converged(PROTOCOL.core) == 10
    assert converged(MUTANTS["election-never-waits"].make_core) == 0


def cluster(**changes: Any) -> RaftCluster:  # noqa: ANN401
    made = RaftCluster(3, replace(RaftConfiguration(plan=()), **changes), Recorder(MemorySink()))
    made.start()
    assert made.converge(5 * SECOND)
    return made


def test_a_deposed_leader_serves_stale_and_committed_reads_and_no_linearizable_one() -> None:
    made = cluster()
    old = made.leader()
    assert old is not None
    cut = Fault(0, "partition")
    made.faults.begin(cut, [old.number], 1)
    answers: list[Any] = []
    old.read_linearizable(0, lambda resolved, batches: answers.append((resolved, batches)))
    made.advance(60 * MILLISECOND)
    assert (answers, old.core.role) == ([], "leader"), "nobody confirms that it still leads"
    made.advance(2 * SECOND)
    assert [(resolved.outcome, batches) for resolved, batches in answers] == [(Outcome.NOT_LEADER, [])]
    new = made.leader()
    assert new is not None
    assert new is not old
    writer = made.new_client()
    writer.last_write(new.number)
    made.advance(SECOND)
    assert writer.last_outcome == "ok"
    known = [batch.base_offset for batch in old.read(0, committed=True)]
    assert known == [batch.base_offset for batch in old.read(0, committed=False)]
    new.read_linearizable(0, lambda resolved, batches: answers.append((resolved, batches)))
    made.advance(100 * MILLISECOND)
    resolved, batches = answers[-1]
    assert resolved.outcome is Outcome.SUCCESS
    assert batches[-1].last_offset == new.core.commit >= writer.last_offset > known[-1]
    made.faults.end(cut, [old.number], 1)
    assert made.converge(5 * SECOND)


def test_a_linearizable_read_dies_with_its_leader() -> None:
    made = cluster()
    leader = made.leader()
    assert leader is not None
    made.faults.begin(Fault(0, "partition"), [leader.number], 1)
    answers: list[Any] = []
    leader.read_linearizable(0, lambda resolved, batches: answers.append((resolved, batches)))
    leader.kill()
    assert answers == [(None, [])]


def test_a_call_at_a_paused_node_ends_with_its_process() -> None:
    made = cluster()
    leader = made.leader()
    assert leader is not None
    leader.host.pause()
    writer = made.new_client()
    writer.last_write(leader.number)
    made.advance(100 * MILLISECOND)
    assert not writer.idle
    leader.kill()
    made.advance(MILLISECOND)
    assert (writer.last_outcome, writer.last_reason) == ("info", "connection lost")
