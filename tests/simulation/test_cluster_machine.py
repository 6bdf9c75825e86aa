"""A cluster under whatever Hypothesis thinks of: no check is violated, and it converges once left alone."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from loghistory import MemorySink, Recorder
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.faults import Fault
from quorumlog.hunting.judge import judge_table
from quorumlog.raft.settings import RaftConfiguration
from quorumlog.raft.simulated import RaftCluster
from quorumlog.simulation.configuration import DiskTiming, LogWorkload
from quorumlog.simulation.log_client import LogClient

pytestmark = pytest.mark.slow

nodes = st.sampled_from([0, 1, 2])
then = st.sampled_from([0, 2, 20, 100, 400])
"""Milliseconds that pass after a step."""


class ClusterMachine(RuleBasedStateMachine):
    """Clients, kills, power losses, partitions and time, in any order."""

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.configuration = RaftConfiguration(
            disk=DiskTiming(least=MILLISECOND, most=40 * MILLISECOND),
            workload=LogWorkload(timeout=SECOND),
        )
        self.sink = MemorySink()
        self.recorder = Recorder(self.sink)
        self.cluster = RaftCluster(seed, self.configuration, self.recorder)
        self.clients: list[LogClient] = []
        self.faults: dict[int, tuple[Fault, tuple[int, ...]]] = {}
        self.tokens = 0
        self.cluster.start()
        self.cluster.advance(300 * MILLISECOND)

    def client(self) -> LogClient:
        """One that has nothing open; a client has one operation at a time."""
        for client in self.clients:
            if client.idle:
                return client
        self.clients.append(self.cluster.new_client())
        return self.clients[-1]

    def fault(self, name: str, numbers: tuple[int, ...], **args: float) -> None:
        self.tokens += 1
        fault = Fault(self.cluster.simulation.now, name, numbers, 0, args)
        self.faults[self.tokens] = (fault, numbers)
        self.cluster.faults.begin(fault, numbers, self.tokens)

    @rule(
        node=nodes, acks=st.sampled_from([-1, -1, 1, 0]), count=st.integers(1, 4), records=st.integers(1, 3), then=then
    )
    def append(self, node: int, acks: int, count: int, records: int, then: int) -> None:
        for _ in range(count):
            self.client().append(node, acks=acks, records=records)
        self.cluster.advance(then * MILLISECOND)

    @rule(acks=st.sampled_from([-1, 1]), count=st.integers(1, 4), then=then)
    def append_to_the_leader(self, acks: int, count: int, then: int) -> None:
        leader = self.cluster.leader()
        if leader is not None:
            for _ in range(count):
                self.client().append(leader.number, acks=acks)
        self.cluster.advance(then * MILLISECOND)

    @rule(node=nodes, f=st.sampled_from(["read", "read_committed"]), then=then)
    def read(self, node: int, f: str, then: int) -> None:
        self.client().read(node, f, 0)
        self.cluster.advance(then * MILLISECOND)

    @rule(node=nodes, then=then)
    def tail(self, node: int, then: int) -> None:
        self.client().tail(node)
        self.cluster.advance(then * MILLISECOND)

    @rule(
        name=st.sampled_from(["kill", "pause", "partition", "mute", "deafen", "fsync_error", "slow_disk"]), node=nodes
    )
    def strike(self, name: str, node: int) -> None:
        self.fault(name, (node,))

    @rule(name=st.sampled_from(["kill", "partition", "pause"]), then=then)
    def strike_the_leader(self, name: str, then: int) -> None:
        leader = self.cluster.leader()
        if leader is not None:
            self.fault(name, (leader.number,))
        self.cluster.advance(then * MILLISECOND)

    @rule(numbers=st.sets(nodes, min_size=1), then=then)
    def lose_power(self, numbers: set[int], then: int) -> None:
        self.fault("power_loss", tuple(sorted(numbers)))
        self.cluster.advance(then * MILLISECOND)

    @rule(name=st.sampled_from(["duplicate", "reorder", "loss"]), then=then)
    def disturb(self, name: str, then: int) -> None:
        self.fault(name, (0, 1, 2), probability=0.3)
        self.cluster.advance(then * MILLISECOND)

    @precondition(lambda self: self.faults)
    @rule(data=st.data(), then=then)
    def end_a_fault(self, data: st.DataObject, then: int) -> None:
        token = data.draw(st.sampled_from(sorted(self.faults)))
        self.cluster.faults.end(*self.faults.pop(token), token)
        self.cluster.advance(then * MILLISECOND)

    @precondition(lambda self: self.faults)
    @rule(then=then)
    def heal(self, then: int) -> None:
        for token in sorted(self.faults):
            self.cluster.faults.end(*self.faults.pop(token), token)
        self.cluster.advance(then * MILLISECOND)

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        for token in sorted(self.faults):
            self.cluster.faults.end(*self.faults.pop(token), token)
        self.cluster.start()
        assert self.cluster.converge(20 * SECOND), "the cluster does not converge"
        while not all(client.idle for client in self.clients):
            self.cluster.advance(10 * MILLISECOND)
        self.cluster.final_read()
        self.recorder.close()
        answer = judge_table("raft", self.sink.table, self.configuration)
        assert not [check for check in answer["checks"] if check["verdict"] == "violated"]


ClusterMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestCluster = ClusterMachine.TestCase
