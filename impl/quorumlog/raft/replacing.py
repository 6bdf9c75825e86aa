"""What faults do to members of a Raft group, besides those of any host: a disk is lost with all that it held.

The node comes back on an empty disk under its old name. Whoever runs the group gives it the least session that it may
take, and has the leader replace it by itself: it is removed, and added again. Source: raft.md#wiped-disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorumlog.durations import MILLISECOND
from quorumlog.faults import Fault
from quorumlog.raft.nodes import RaftNode
from quorumlog.raft.settings import RaftConfiguration
from quorumlog.simulation.host_faults import HostFaults
from quorumlog.simulation.log_cluster import LogCluster

_LOOKS_AGAIN = 20 * MILLISECOND


class RaftFaults(HostFaults):
    """The faults of hosts, and disks that are lost. ``replaced`` counts the nodes that came back as members."""

    _stage: LogCluster[RaftConfiguration, RaftNode]

    def __init__(self, cluster: LogCluster[RaftConfiguration, RaftNode]) -> None:
        super().__init__(cluster)
        self._lost: int | None = None
        self.replaced = 0

    def begin(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        """Make a fault happen; see `HostFaults.begin`."""
        if fault.name != "wipe":
            super().begin(fault, nodes, token)
            return
        number = next((number for number in nodes if self._may_lose(number)), None)
        if number is not None:
            self._lost = number
            self._down[number].add(token)
            self._crash(number)
            self._record("fault", fault, [number])
            largest = max(node.core.members.revision for node in self._stage.nodes)
            self._stage.nodes[number].lose_disk(largest + 1)
            self._stage.simulation.after(_LOOKS_AGAIN, self._replace)

    def end(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        """End a fault: the node starts on its empty disk; see `HostFaults.end`."""
        if fault.name != "wipe":
            super().end(fault, nodes, token)
            return
        wiped = [number for number in nodes if token in self._down[number]]
        for number in wiped:
            self._down[number].discard(token)
            self._revive(number)
        self._record("heal", fault, wiped)

    def _may_lose(self, number: int) -> bool:
        """Whether a node can be replaced if it loses its disk now: nothing is promised to a group that cannot go on."""
        leader = self._stage.leader()
        if self._lost is not None or leader is None or not leader.core.serving:
            return False
        members = leader.core.members
        return members.simple and number in members.voters.current and len(members.voters.current) > 2

    def _replace(self) -> None:
        """Ask whoever leads to remove the node, then to add it, until its session is a new one, and settled."""
        leader, number = self._stage.leader(), self._lost
        assert number is not None
        if leader is not None and leader.core.members.simple:
            members = leader.core.members
            if members.session(number) < self._stage.nodes[number].least_session:
                leave = number in members.voters.members
                leader.host.deliver(leader.change, "leave" if leave else "join", (number,))
            elif leader.core.commit >= leader.core.dirty:
                self.replaced += 1
                self._lost = None
                return
        self._stage.simulation.after(_LOOKS_AGAIN, self._replace)
