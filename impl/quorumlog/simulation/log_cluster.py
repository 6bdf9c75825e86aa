"""A simulated cluster whose nodes replicate one log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from quorumlog.simulation.cluster import Cluster
from quorumlog.simulation.configuration import LogConfiguration
from quorumlog.simulation.log_client import LogClient
from quorumlog.simulation.log_node import LogNode

Configuration = TypeVar("Configuration", bound=LogConfiguration)
NodeOf = TypeVar("NodeOf", bound=LogNode)


class LogCluster(Cluster[Configuration, NodeOf]):
    """A stage for protocols whose core is a `LogCore`; such a protocol says how its nodes are made (`new_node`)."""

    def new_client(self) -> LogClient:
        """A client that has not begun to work."""
        return LogClient(self, self.configuration.workload, self.configuration.client_delay)

    def leader(self) -> NodeOf | None:
        """The running leader of the highest term, if any."""
        found: NodeOf | None = None
        for node in self.nodes:
            if node.host.running and node.core.role == "leader" and (found is None or node.core.term > found.core.term):
                found = node
        return found

    def members(self, leader: NodeOf) -> Sequence[NodeOf]:
        """The nodes that must come to agree with the leader: all, unless the protocol says otherwise."""
        del leader
        return self.nodes

    def agreed(self) -> bool:
        """Whether all members hold the same offsets in the leader's term, all durable, committed and visible."""
        leader = self.leader()
        if leader is None or not self.all_running():
            return False
        term, dirty = leader.core.term, leader.core.dirty
        return all(
            term == core.term and dirty == core.dirty == core.flushed == core.commit == core.visible
            for core in (node.core for node in self.members(leader))
        )
