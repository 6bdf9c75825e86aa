"""The logs of servers of pull queries, as simulated Raft groups: assignments, source logs and changelogs.

What a group shows is its truth: an offset that a node of it made visible is committed (pull-queries.md#partitions).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loghistory import MemorySink, Recorder
from quorumlog.events import Outcome, Resolved
from quorumlog.faults import FaultMix, generate
from quorumlog.raft.core import RaftCore
from quorumlog.raft.nodes import RaftNode
from quorumlog.raft.settings import RaftConfiguration
from quorumlog.raft.simulated import RaftCluster
from quorumlog.simulation.injector import Injector
from quorumlog.simulation.log_node import EVERYTHING
from quorumlog.simulation.loop import Simulation
from quorumlog.simulation.node import Reply
from quorumlog.storage.batch import BatchKind, RecordBatch
from quorumlog.storage.records import payload_of, records_of

Shown = Callable[[int, Any], None]
"""Called with each offset, in order, and what it holds; None: a record of Raft's own."""


class Group(RaftCluster):
    """One log, of records that are read back as ``form``; it lives in the virtual time of the servers."""

    def __init__(self, simulation: Simulation, configuration: RaftConfiguration, form: Any, shown: Shown) -> None:  # noqa: ANN401
        self._shared, self._form, self._tell = simulation, form, shown
        self.end = 0
        """The first offset that nobody has seen yet."""
        super().__init__(simulation.seed, configuration, Recorder(MemorySink()), RaftCore)

    def new_simulation(self, seed: int) -> Simulation:
        """The virtual time of the servers."""
        return self._shared

    def endanger(self, stream: str, mix: FaultMix, start: int, end: int) -> None:
        """Let faults happen to the group's nodes between these times; each ends by itself."""
        numbers = range(len(self.nodes))
        plan = generate(self.simulation.random(stream), mix, numbers, start, end)
        Injector(self.simulation, self.faults, plan, numbers)

    def record(self, kind: str, columns: dict[str, Any]) -> None:
        """Nothing of the inside of a group is recorded; but what it shows is told."""
        if columns.get("visible", -1) >= self.end:
            for offset, record in self.read(self.nodes[columns["node"]], self.end):
                self.end = offset + 1
                self._tell(offset, record)

    # -- for servers ---------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Any], reply: Reply) -> None:
        """Ask the node that leads for these records, acks=all. ``reply`` is called at once, later or never."""
        leader = self.leader()
        if leader is None:
            reply(Resolved(0, Outcome.NOT_LEADER, -1, -1, -1))
            return
        batch = RecordBatch(0, 0, BatchKind.DATA, len(records), -1, payload_of(records))
        leader.host.deliver(leader.append, batch, -1, reply)

    def reader(self, choice: float) -> RaftNode | None:
        """A node that runs, by a number from 0 to below 1; mostly the one that leads."""
        running = [node for node in self.nodes if node.host.running and not node.host.paused]
        leader = self.leader()
        if leader is not None and leader in running and choice < 0.7:
            return leader
        return running[int(choice * len(running))] if running else None

    def read(self, node: RaftNode, start: int) -> list[tuple[int, Any]]:
        """What a node shows from an offset on: offsets with their records, None for Raft's own."""
        return records_of(node.read(start, committed=False, max_bytes=EVERYTHING), self._form, start)
