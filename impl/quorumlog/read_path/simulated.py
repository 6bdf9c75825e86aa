"""Shards, sequencers and readers in the simulator: each a core on a host of its own, under the same virtual time.

Nodes are numbered shards first, then sequencers, then readers. What a shard stores, what readers hear and deliver, and
what sequencers acknowledge is recorded (`loghistory.vocabularies.read_path`); what readers hear is recorded where it
arrives, whether the core takes it or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from loghistory import Recorder
from quorumlog.durations import MILLISECOND
from quorumlog.events import CoreFactory, Event, Note, Send
from quorumlog.faults import Fault, Target
from quorumlog.read_path import events as e
from quorumlog.read_path import messages as m
from quorumlog.read_path import rules as r
from quorumlog.read_path.client import AppendClient
from quorumlog.read_path.connections import Connections, Opening, Reset, Segment
from quorumlog.read_path.coordination import Coordination
from quorumlog.read_path.core import Role, make_core
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.reader import ReaderCore, value_of
from quorumlog.read_path.records import DamagedError, decompressed
from quorumlog.read_path.sequencer import SequencerCore
from quorumlog.read_path.settings import ReadPathConfiguration
from quorumlog.read_path.shard import ShardCore
from quorumlog.read_path.stream import LAST_LSN, with_payload
from quorumlog.read_path.wire import framed, json_text, unframed
from quorumlog.simulation.cluster import Cluster
from quorumlog.simulation.host_faults import HostFaults
from quorumlog.simulation.node import Node

_CHANGES = "changes"
_SUPERVISION = 20 * MILLISECOND
_ON_STREAMS = (m.Start, m.Window, m.Stop, m.FromShard)


class ReadPathNode(Node):
    """What shards, sequencers and readers have in common."""

    role: ClassVar[Role]
    learns_late = False
    _cluster: ReadPathCluster

    def __init__(self, cluster: ReadPathCluster, number: int, make_core: CoreFactory) -> None:
        self.configuration = cluster.configuration
        self._make_core = make_core
        super().__init__(cluster, number, cluster.configuration.disk)

    def state(self) -> dict[str, Any]:
        """Which role it has."""
        return {"f": self.role.value}

    def begun(self) -> Note:
        """A process runs; it reads the logs that all share."""
        self._cluster.coordination.greet(self)
        return Note("takes_part", self.state())

    def told(self, delay: int, event: Event) -> None:
        """An event of the logs that all share comes after a delay, unless the process ends before."""
        if self.host.running:
            self.host.after(delay, self.handle, event)

    def note(self, kind: str, **columns: Any) -> None:  # noqa: ANN401
        """Record what happened here."""
        self._cluster.record(kind, {"node": self.number, **columns})


class StreamNode(ReadPathNode):
    """A node with connections."""

    connections: Connections

    def open_connections(self) -> None:
        """Those of a new process."""
        self.connections = Connections(self.host, self._transmit, self._deliver, self._changed)

    def _transmit(self, peer: int, item: Any) -> None:  # noqa: ANN401
        self._cluster.transmit(self.number, peer, item)

    def _deliver(self, peer: int, message: m.Message) -> None:
        super().receive(peer, message)

    def _changed(self, peer: int, connected: bool) -> None:
        self.handle(e.Connected(peer) if connected else e.Disconnected(peer))

    def receive(self, source: int, message: Any) -> None:  # noqa: ANN401
        """A message has arrived and the process runs."""
        if isinstance(message, Segment | Opening | Reset):
            self.connections.receive(source, message)
        else:
            super().receive(source, message)

    def _send(self, effect: Send) -> None:
        if isinstance(effect.message, _ON_STREAMS):
            self.connections.send(effect.to, effect.message)
        else:
            super()._send(effect)


class ShardNode(StreamNode):
    """A shard and its disk."""

    role = Role.SHARD
    core: ShardCore

    def __init__(self, cluster: ReadPathCluster, number: int, make_core: CoreFactory) -> None:
        super().__init__(cluster, number, make_core)
        self._provisioned = False
        self._written: list[tuple[int, int]] = []  # when, and which LSN
        self._unsure: tuple[int, int] | None = None
        self._perform |= {
            e.Persist: self._persist,
            e.ReadBatch: self._read_batch,
            e.TellEventLog: lambda effect: cluster.coordination.append(effect.record),
        }

    def recover(self) -> ShardCore:
        """A core with what is on the disk; a new shard has nothing, and knows that this is all it ever had."""
        if not self.disk.exists(_CHANGES):
            self.disk.create(_CHANGES)
            if not self._provisioned:
                self.disk.append(_CHANGES, framed(e.Change(intact=True)))
            self.disk.sync(_CHANGES)
            self.disk.sync("")
        self._provisioned = True
        changes, size = unframed(self.disk.read(_CHANGES, 0, self.disk.size(_CHANGES)))
        if size < self.disk.size(_CHANGES):
            self.disk.truncate(_CHANGES, size)
        self.open_connections()
        locations = self._cluster.locations
        core: ShardCore = self._make_core(Role.SHARD, self.number, locations, changes, self.configuration.shard)
        if self._unsure is not None:
            core.dirty.append(self._unsure)
            self.host.after(self.configuration.dirty, core.dirty.clear)
            self._unsure = None
        return core

    def state(self) -> dict[str, Any]:
        """The role, and whether the shard has all that was ever stored on it."""
        return {**super().state(), "reason": "intact" if self.core.contents.intact else "lost"}

    def lose_power(self) -> None:
        """What was written last is checked after a power loss; until then the shard may lack it."""
        since = self._simulation.now - self.configuration.dirty
        last = [lsn for time, lsn in self._written if time >= since]
        if last and self.host.running:
            self._unsure = min(last), max(last)

    def _persist(self, effect: e.Persist) -> None:
        data = framed(effect.change)

        def write() -> None:
            self.disk.append(_CHANGES, data)
            self.disk.sync(_CHANGES)
            if effect.change.copy is not None:
                self._written.append((self._simulation.now, effect.change.copy.lsn))
                del self._written[:-200]

        self.write_in_order(write, e.Persisted(effect.ticket))

    def _read_batch(self, effect: e.ReadBatch) -> None:
        time = int((self.configuration.read_time + effect.bytes * 10) * self.slowness)
        self.host.after(time, self.handle, e.BatchRead(effect.reader, effect.stream, effect.ticket))

    def _send(self, effect: Send) -> None:
        message = effect.message
        if isinstance(message, m.Records):
            stream = self.core.streams[effect.to, message.stream]
            lsns = [copy.lsn for copy in message.copies]
            columns = {"op": message.stream, "peer": effect.to, "filter": stream.start.filter_version}
            self.note("ship", offset=lsns[0], last_offset=lsns[-1], text=json_text(lsns), **columns)
        super()._send(effect)

    def rot(self, draw: Callable[[Sequence[int]], int]) -> None:
        """The payload of one copy does not read back as it was written."""
        copies = self.core.contents.copies
        data = sorted(lsn for lsn, copy in copies.items() if copy.payload)
        if data:
            copy = copies[draw(data)]
            spoilt = bytes([copy.payload[0] ^ 0xFF]) + copy.payload[1:]
            copies[copy.lsn] = with_payload(copy, spoilt)


class SequencerNode(ReadPathNode):
    """A sequencer; nothing of it outlives its process."""

    role = Role.SEQUENCER
    core: SequencerCore

    def __init__(self, cluster: ReadPathCluster, number: int, make_core: CoreFactory) -> None:
        super().__init__(cluster, number, make_core)
        self._perform |= {
            e.Activate: lambda _: cluster.coordination.activate(self),
            e.SetClean: lambda effect: cluster.coordination.set_clean(self, effect.epoch),
            e.AppendEnded: self._ended,
            e.TrimEnded: self._ended,
        }

    def recover(self) -> SequencerCore:
        """A core that is not active."""
        core: SequencerCore = self._make_core(Role.SEQUENCER, self.configuration.sequencer)
        return core

    def _ended(self, effect: Any) -> None:  # noqa: ANN401 - AppendEnded or TrimEnded
        reply = self._replies.pop(effect.request, None)
        if reply is not None:
            reply(effect)


class ReaderNode(StreamNode):
    """A reader with its application, which remembers how far it is and reads on from there when it is restarted."""

    role = Role.READER
    learns_late = True
    core: ReaderCore

    def __init__(self, cluster: ReadPathCluster, number: int, make_core: CoreFactory) -> None:
        super().__init__(cluster, number, make_core)
        self._next = r.lsn_of(1, 1)
        self._until = LAST_LSN
        self._op: int | None = None
        self._process = cluster.new_process()
        self._perform |= {
            e.Connect: lambda effect: self.connections.connect(effect.peer, cluster.new_connection()),
            e.AskMetadata: lambda effect: cluster.coordination.read_metadata(self, effect.epoch),
            e.AskStatuses: lambda _: cluster.coordination.ask_statuses(self),
        }

    def read_from(self, first: int, until: int) -> None:
        """Read this range with a new process; the stream that was open is given up."""
        self.kill()
        self._next, self._until = first, until
        self.start()

    @property
    def ended(self) -> bool:
        """Whether the stream has delivered its last."""
        return self.host.running and self.core.ended

    def kill(self) -> None:
        """End the process; see `Node.kill`."""
        if self._op is not None:
            self._close("info", {"reason": "killed"})
        super().kill()

    def recover(self) -> ReaderCore:
        """A new stream from where the application is."""
        self._op = op = self._cluster.new_operation()
        until = {} if self._until == LAST_LSN else {"last_offset": self._until}
        asked = {"process": self._process, "op": op, "f": "read_stream", "node": self.number, "offset": self._next}
        self._cluster.record("invoke", asked | until)
        self.open_connections()
        region = self._cluster.region_of_reader(self.number)
        self.host.after(self.configuration.application, self._take)
        core: ReaderCore = self._make_core(
            Role.READER, op, self._next, self._until, self.configuration.reader, seed=self.number, region=region
        )
        return core

    def _close(self, kind: str, columns: dict[str, Any]) -> None:
        known = {"process": self._process, "op": self._op, "f": "read_stream", "node": self.number}
        self._cluster.record(kind, {**known, **columns})
        self._op = None
        if kind == "info":
            self._process = self._cluster.new_process()

    def _take(self) -> None:
        """The application takes what is ready, some at a time, and is busy now and then."""
        records, gap = self.core.read(self.configuration.application_batch)
        if gap is not None:
            self._next = gap.last + 1
        elif records:
            self._next = records[-1].lsn + 1
        if self._next > self._until and self._op is not None:
            self._close("ok", {"offset": self._next - 1})
            return
        busy = 10 if self._random.random() < self.configuration.application_busy else 1
        self.host.after(busy * self.configuration.application, self._take)

    def _note(self, effect: Note) -> None:
        effect.columns.setdefault("op", self._op)
        super()._note(effect)

    def _deliver(self, peer: int, message: m.Message) -> None:
        self._record_heard(peer, message)
        super()._deliver(peer, message)

    def _record_heard(self, peer: int, message: m.Message) -> None:
        if not isinstance(message, m.FromShard) or message.stream != self._op:
            return
        if isinstance(message, m.Started):
            self.connections.set_filter_version(peer, message.filter_version)
        columns = {"op": self._op, "peer": peer, "filter": self.connections.filter_version(peer)}
        columns["version"] = message.version
        match message:
            case m.Started():
                self.note("stream_started", reason=message.answer.value, **columns)
            case m.ShardGap():
                self.note(
                    "stream_heard", f=message.kind.value, offset=message.first, last_offset=message.last, **columns
                )
            case m.Records():
                self._record_records(message, columns)

    def _record_records(self, message: m.Records, columns: dict[str, Any]) -> None:
        try:
            payloads = decompressed(message.block, len(message.copies))
        except DamagedError:
            payloads = [b""] * len(message.copies)
        for copy, payload in zip(message.copies, payloads, strict=True):
            whole = with_payload(copy, payload)
            what = {"f": "record" if whole.intact else "damaged", "offset": copy.lsn, "bytes": len(payload)}
            what["record"] = copy.word
            if copy.word == "data" and whole.intact:
                what["value"] = value_of(payload)
            what["count"] = int(self._is_unsure(copy.flags))
            self.note("stream_heard", **what, **columns)

    @staticmethod
    def _is_unsure(flags: int) -> bool:
        return bool(flags & 16)


class ReadPathFaults(HostFaults):
    """The faults of hosts, and those of shards: wiped, drained, rotten."""

    _cluster: ReadPathCluster

    def __init__(self, cluster: ReadPathCluster) -> None:
        super().__init__(cluster)
        self._cluster = cluster

    def resolve(self, target: Target) -> Sequence[int]:
        """The nodes that a word means now: followers are shards, minority as many as may be lost."""
        cluster = self._cluster
        shards = cluster.configuration.shards
        turn = self._stage.simulation.random("shards").randrange(shards)
        ring = [(turn + step) % shards for step in range(shards)]
        factor = max(cluster.configuration.replication.values())
        return {
            "follower": ring[:1],
            "followers": ring,
            "minority": ring[: max(1, factor - 1)],
            "majority": ring[: shards // 2 + 1],
        }.get(str(target)) or super().resolve(target)

    def begin(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        """Make a fault happen; see `HostFaults.begin`."""
        match fault.name:
            case "wipe":
                for number in [number for number in nodes if self._cluster.may_lose(number)]:
                    self._record("fault", fault, [number])
                    self._down[number].add(token)
                    self._crash(number)
                    self._nodes[number].new_disk()
            case "drain":
                for number in [number for number in nodes if number < self._cluster.configuration.shards]:
                    self._record("fault", fault, [number])
                    self._cluster.coordination.append(LogRecord(Word.DRAIN, number))
            case "rot":
                for number in [number for number in nodes if number < self._cluster.configuration.shards]:
                    self._record("fault", fault, [number])
                    self._cluster.rot(number)
            case _:
                if fault.name.startswith("power_loss"):
                    for number in nodes:
                        self._cluster.power_is_lost(number)
                super().begin(fault, nodes, token)

    def end(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        """End it; see `HostFaults.end`."""
        match fault.name:
            case "wipe":
                for number in nodes:
                    self._down[number].discard(token)
                    self._revive(number)
                self._record("heal", fault, nodes)
            case "drain":
                for number in nodes:
                    self._cluster.come_back(number)
                self._record("heal", fault, nodes)
            case "rot":
                self._record("heal", fault, nodes)
            case _:
                super().end(fault, nodes, token)


class ReadPathCluster(Cluster[ReadPathConfiguration, ReadPathNode]):
    """Shards, sequencers and readers, and what they share."""

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
        self.faults = ReadPathFaults(self)
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
        )

    # -- what it is made of --------------------------------------------------------------------------------------------

    def role(self, number: int) -> Role:
        """Which role a node has."""
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
        """Where a reader is."""
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
        """Whether a shard may be wiped: fewer than R are gone then; in a run that is to lose records, enough stay."""
        configuration = self.configuration
        if number >= configuration.shards:
            return False
        factor = max(configuration.replication.values())
        most = configuration.shards - configuration.spare - factor if configuration.loses else min(factor - 1, 1)
        gone = {n for n in range(configuration.shards) if n in self.coordination.event_log.leaving or self._is_lost(n)}
        return len(gone | {number}) <= most

    def _is_lost(self, number: int) -> bool:
        node = self.nodes[number]
        return not node.disk.exists(_CHANGES) or (node.host.running and node.core.lost)  # type: ignore[attr-defined]

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

    def _supervise(self) -> None:
        """Have shards rebuilt that have been down for long, and end drains that are over."""
        now = self.simulation.now
        for number in range(self.configuration.shards):
            if self.nodes[number].host.running:
                self._down_since.pop(number, None)
            elif now - self._down_since.setdefault(number, now) >= self.configuration.rebuild_after:
                self._down_since[number] = now + self.configuration.rebuild_after
                self.coordination.append(LogRecord(Word.REBUILD, number))
        log = self.coordination.event_log
        self._coming_back &= log.leaving
        for number in sorted(self._coming_back):
            word = Word.ABORT if number in log.rebuilt else Word.ACKNOWLEDGE
            self.coordination.append(LogRecord(word, number))
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
            self._stall(reader)
            reader.read_from(r.lsn_of(1, 1), max(self.released, r.lsn_of(1, 1)))
            deadline = self.simulation.now + self.configuration.final_read
            while not reader.ended and self.simulation.now < deadline:
                self.advance(10 * MILLISECOND)
            self.advance(20 * self.configuration.application)
            self._stall(reader)

    def _stall(self, reader: ReaderNode) -> None:
        if reader.host.running and not reader.core.ended and reader.core.position <= self.released:
            shards = sum(1 << shard for shard in reader.core.waits_for)
            reader.note("stream_stall", op=reader.core.stream, offset=reader.core.position, shards=shards)
