"""The simulated cluster of the read path: shards, sequencers and readers under the same virtual time.

Nodes are numbered shards first, then sequencers, then readers (`nodes`). What they share is in `coordination`.
"""

from __future__ import annotations

from typing import ClassVar

from loghistory import Recorder
from quorumlog.durations import MILLISECOND
from quorumlog.events import CoreFactory
from quorumlog.read_path import rules as r
from quorumlog.read_path.client import AppendClient
from quorumlog.read_path.coordination import Coordination
from quorumlog.read_path.core import Role, make_core
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.faults import ReadPathFaults
from quorumlog.read_path.nodes import CHANGES, ReaderNode, ReadPathNode, SequencerNode, ShardNode
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.settings import ReadPathConfiguration
from quorumlog.simulation.cluster import Cluster
from quorumlog.simulation.host_faults import HostFaults

_SUPERVISION = 20 * MILLISECOND


class ReadPathCluster(Cluster[ReadPathConfiguration, ReadPathNode]):
    """Shards, sequencers and readers, and what they share."""

    faults_type: ClassVar[type[HostFaults]] = ReadPathFaults
    node_types: ClassVar[dict[Role, type[ReadPathNode]]] = {
        Role.SHARD: ShardNode,
        Role.SEQUENCER: SequencerNode,
        Role.READER: ReaderNode,
    }

    def __init__(
        self, seed: int, configuration: ReadPathConfiguration, recorder: Recorder, make_core: CoreFactory = make_core
    ) -> None:
        self.locations = configuration.locations()
        super().__init__(seed, configuration, recorder, make_core)
        self._connections = 0
        self._draw = self.simulation.random("nodesets")
        self._down_since: dict[int, int] = {}
        self._coming_back: set[int] = set()
        self.coordination = Coordination(
            self.simulation,
            self.record,
            lambda: self.nodes,
            tuple(range(configuration.shards)),
            self._nodeset,
            configuration.event_log_lag,
            configuration.first_event_log_lag,
        )

    # -- what it is made of --------------------------------------------------------------------------------------------

    def role(self, number: int) -> Role:
        """The role of a node, by its number: shards, then sequencers, then readers."""
        shards, sequencers = self.configuration.shards, self.configuration.sequencers
        return Role.SHARD if number < shards else Role.SEQUENCER if number < shards + sequencers else Role.READER

    def new_node(self, number: int) -> ReadPathNode:
        """A node that has not been started."""
        return self.node_types[self.role(number)](self, number, self._make_core)

    def new_client(self) -> AppendClient:
        """A client that has not begun to work."""
        return AppendClient(self, self.configuration.workload, self.configuration)

    def new_connection(self) -> int:
        """A number for a connection, unique in the run."""
        self._connections += 1
        return self._connections

    def region_of_reader(self, number: int) -> str:
        """The region of the reader with this number; readers are spread over those of shards."""
        regions = sorted({location[0] for location in self.locations.values()})
        return regions[number % len(regions)]

    def _nodeset(self, epoch: int, before: Nodeset | None) -> Nodeset:
        """The nodeset of a new epoch: that before it, or others of the shards."""
        configuration = self.configuration
        if before is not None and self._draw.random() >= configuration.nodeset_changes:
            return before
        shards = [*range(configuration.shards)]
        left_out = self._draw.randint(0, configuration.spare) if epoch > 1 or configuration.spare else 0
        for shard in self._draw.sample(shards, left_out):
            shards.remove(shard)
        return Nodeset(configuration.replication, {shard: self.locations[shard] for shard in shards})

    # -- faults of shards ----------------------------------------------------------------------------------------------

    def may_lose(self, number: int) -> bool:
        """Whether a shard may be wiped: enough stay for new copies; unless records are to be lost, fewer than R go."""
        configuration = self.configuration
        if number >= configuration.shards:
            return False
        factor = max(configuration.replication.values())
        most = configuration.shards - configuration.spare - factor
        if not configuration.loses:
            most = min(most, factor - 1)
        gone = {n for n in range(configuration.shards) if n in self.coordination.event_log.leaving or self._is_lost(n)}
        return len(gone | {number}) <= most

    def _is_lost(self, number: int) -> bool:
        node = self.nodes[number]
        return not node.disk.exists(CHANGES) or (node.host.running and node.core.lost)  # type: ignore[attr-defined]

    def rot(self, number: int) -> None:
        """A copy on a shard goes bad."""
        node = self.nodes[number]
        if isinstance(node, ShardNode) and node.host.running:
            node.rot(self.simulation.random("rot").choice)

    def power_is_lost(self, number: int) -> None:
        """A node is about to lose power."""
        node = self.nodes[number]
        if isinstance(node, ShardNode):
            node.lose_power()

    def come_back(self, number: int) -> None:
        """A drained shard may have copies again: at once, or when it is empty."""
        self._coming_back.add(number)

    def press(self, number: int, short: bool) -> None:
        """Memory is short at a reader, or no longer."""
        node = self.nodes[number]
        if isinstance(node, ReaderNode):
            node.press(short)

    def _supervise(self) -> None:
        """Have shards rebuilt that have been down for long, end drains that are over, and see where readers wait."""
        now = self.simulation.now
        for number in range(self.configuration.shards):
            if self.nodes[number].host.running:
                self._down_since.pop(number, None)
            elif now - self._down_since.setdefault(number, now) >= self.configuration.rebuild_after:
                self._down_since[number] = now + self.configuration.rebuild_after
                self.coordination.append(LogRecord(Word.REBUILD, number))
        log = self.coordination.event_log
        self._coming_back &= log.drained  # of one that is lost meanwhile it says so itself
        for number in sorted(self._coming_back):
            word = Word.ABORT if number in log.rebuilt else Word.ACKNOWLEDGE
            self.coordination.append(LogRecord(word, number))
        for reader in self._readers:
            reader.watch(self.released)
        self.simulation.after(_SUPERVISION, self._supervise)

    # -- the run -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start every node that is down."""
        super().start()
        self._supervise()

    @property
    def _sequencers(self) -> list[SequencerNode]:
        return [node for node in self.nodes if isinstance(node, SequencerNode) and node.host.running]

    @property
    def _readers(self) -> list[ReaderNode]:
        return [node for node in self.nodes if isinstance(node, ReaderNode)]

    def leader(self) -> ReadPathNode | None:
        """The sequencer of the newest epoch, or one that could become active."""
        return max(self._sequencers, key=lambda node: (node.core.epoch, -node.number), default=None)

    @property
    def released(self) -> int:
        """Up to where the newest sequencer lets readers have records."""
        return max((node.core.released for node in self._sequencers), default=0)

    def agreed(self) -> bool:
        """Whether all run, no shard is lost, all epochs are clean, and every reader is at the end."""
        leader = self.leader()
        if not self.all_running() or not isinstance(leader, SequencerNode) or not leader.core.epoch:
            return False
        core, log = leader.core, self.coordination.event_log
        if core.released < core.lng or log.leaving:
            return False
        return all(reader.core.position > core.released for reader in self._readers)

    def converge(self, limit: int) -> bool:
        """Have a sequencer active, which takes an append, and wait; see `Cluster.converge`."""
        writer, deadline = self.new_client(), self.simulation.now + limit
        while writer.last_outcome != "ok" and self.simulation.now < deadline:
            leader = self.leader()
            if leader is not None and writer.idle:
                writer.last_write(leader.number)
            self.advance(10 * MILLISECOND)
        return super().converge(limit)

    def final_read(self) -> None:
        """Read everything once more with every reader, one after the other, and say where one stalls."""
        self.record("phase", {"f": "final_read"})
        for reader in self._readers:
            reader.note_stall(self.released)
            reader.read_from(r.lsn_of(1, 1), max(self.released, r.lsn_of(1, 1)))
            deadline = self.simulation.now + self.configuration.final_read
            while not reader.ended and self.simulation.now < deadline:
                self.advance(10 * MILLISECOND)
            self.advance(20 * self.configuration.application)
            reader.note_stall(self.released)
