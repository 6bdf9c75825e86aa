"""Raft in the simulator: a cluster of its nodes, whose disks can be lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from loghistory import Recorder
from quorumlog.events import CoreFactory
from quorumlog.raft.core import RaftCore
from quorumlog.raft.nodes import RaftNode
from quorumlog.raft.replacing import RaftFaults
from quorumlog.raft.settings import RaftConfiguration
from quorumlog.simulation.host_faults import HostFaults
from quorumlog.simulation.log_cluster import LogCluster


class RaftCluster(LogCluster[RaftConfiguration, RaftNode]):
    """A simulated Raft cluster; see `quorumlog.simulation.cluster`."""

    node_type: ClassVar[type[RaftNode]] = RaftNode
    faults_type: ClassVar[type[HostFaults]] = RaftFaults
    faults: RaftFaults

    def __init__(
        self, seed: int, configuration: RaftConfiguration, recorder: Recorder, make_core: CoreFactory = RaftCore
    ) -> None:
        super().__init__(seed, configuration, recorder, make_core)

    def members(self, leader: RaftNode) -> Sequence[RaftNode]:
        """The voters and learners of the leader's configuration."""
        return [self.nodes[number] for number in leader.core.voters.members]

    def agreed(self) -> bool:
        """The same, and no change of the members is under way any more: a leader that never ends one takes no other."""
        leader = self.leader()
        return leader is not None and leader.core.members.simple and super().agreed()

    def new_node(self, number: int) -> RaftNode:
        """A node that has not been started."""
        return self.node_type(self, number, self.configuration, self._make_core)
