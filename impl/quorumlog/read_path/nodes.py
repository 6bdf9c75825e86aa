"""Shards, sequencers and readers as simulated nodes: each a core on a host of its own.

What a shard stores, what readers hear and deliver, and what sequencers acknowledge is recorded
(`loghistory.vocabularies.read_path`); what readers hear is recorded where it arrives, whether the core takes it or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from quorumlog.durations import MILLISECOND
from quorumlog.events import CoreFactory, Event, Note, Send
from quorumlog.read_path import events as e
from quorumlog.read_path import messages as m
from quorumlog.read_path import rules as r
from quorumlog.read_path.connections import Connections, Opening, Reset, Segment
from quorumlog.read_path.coordination import Coordination
from quorumlog.read_path.core import Role
from quorumlog.read_path.nodeset import Location
from quorumlog.read_path.reader import ReaderCore
from quorumlog.read_path.recording import Noted, heard, shipped, stalled
from quorumlog.read_path.sequencer import SequencerCore
from quorumlog.read_path.settings import ReadPathConfiguration
from quorumlog.read_path.shard import ShardCore
from quorumlog.read_path.stream import LAST_LSN, with_payload
from quorumlog.read_path.wire import framed, unframed
from quorumlog.simulation.node import Node, Surroundings

CHANGES = "changes"
"""The file in which a shard has its changes."""
_A_WHILE = 200 * MILLISECOND
_ON_STREAMS = (m.Start, m.Window, m.Stop, m.FromShard)


class Shared(Surroundings, Protocol):
    """What a node needs of the cluster that it is part of."""

    configuration: ReadPathConfiguration
    coordination: Coordination
    locations: dict[int, Location]

    def new_process(self) -> int:
        """A number for a client's process, unique in the run."""

    def new_operation(self) -> int:
        """A number for an operation, unique in the run."""

    def new_connection(self) -> int:
        """A number for a connection, unique in the run."""

    def region_of_reader(self, number: int) -> str:
        """The region of the reader with this number."""


class ReadPathNode(Node):
    """What shards, sequencers and readers have in common."""

    role: ClassVar[Role]
    learns_late = False
    _cluster: Shared

    def __init__(self, cluster: Shared, number: int, make_core: CoreFactory) -> None:
        self.configuration = cluster.configuration
        self._make_core = make_core
        super().__init__(cluster, number, cluster.configuration.disk)

    def state(self) -> dict[str, Any]:
        """The columns of the history that say how the process starts."""
        return {"f": self.role.value}

    def begun(self) -> Note:
        """A process runs; it reads the logs that all share."""
        self._cluster.coordination.greet(self)
        return Note("takes_part", self.state())

    def inform(self, delay: int, event: Event) -> None:
        """An event of the logs that all share comes after a delay, unless the process ends before."""
        if self.host.running:
            self.host.after(delay, self.handle, event)

    def note(self, kind: str, **columns: Any) -> None:  # noqa: ANN401
        """Record an event of this node, with these columns."""
        self._cluster.record(kind, {"node": self.number, **columns})

    def noted(self, noted: Noted) -> None:
        """Record an event of this node, made by `quorumlog.read_path.recording`."""
        self.note(noted[0], **noted[1])


class StreamNode(ReadPathNode):
    """A node at one end of connections: a shard or a reader."""

    connections: Connections

    def open_connections(self) -> None:
        """Begin a new process without any connection."""
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
    """A shard, with its changes in a file of a disk that outlives the process."""

    role = Role.SHARD
    core: ShardCore

    def __init__(self, cluster: Shared, number: int, make_core: CoreFactory) -> None:
        super().__init__(cluster, number, make_core)
        self._provisioned = False
        self._written: list[tuple[int, int]] = []  # when, and which LSN
        self._unsure: tuple[int, int] | None = None
        self._writes: deque[tuple[Callable[[], None], Event]] = deque()
        self._perform |= {
            e.Persist: self._persist,
            e.ReadBatch: self._read_batch,
            e.TellEventLog: lambda effect: cluster.coordination.append(effect.record),
        }

    def recover(self) -> ShardCore:
        """A core with what is on the disk; a new shard has nothing, and knows that this is all it ever had."""
        if not self.disk.exists(CHANGES):
            self.disk.create(CHANGES)
            if not self._provisioned:
                self.disk.append(CHANGES, framed(e.Change(intact=True)))
            self.disk.sync(CHANGES)
            self.disk.sync("")
        self._provisioned = True
        changes, size = unframed(self.disk.read(CHANGES, 0, self.disk.size(CHANGES)))
        if size < self.disk.size(CHANGES):
            self.disk.truncate(CHANGES, size)
        self.open_connections()
        self._writes.clear()
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
            self.disk.append(CHANGES, data)
            self.disk.sync(CHANGES)
            if effect.change.copy is not None:
                self._written.append((self._simulation.now, effect.change.copy.lsn))
                del self._written[:-200]

        self.write_in_order(write, e.Persisted(effect.ticket))

    def write_in_order(self, write: Callable[[], None], event: Event) -> None:
        """See `Node.write_in_order`; how long a write takes is decided when it begins, for it may wait for long."""
        self._writes.append((write, event))
        if len(self._writes) == 1:
            self._write_next(self.host.generation)

    def _write_next(self, generation: int) -> None:
        if generation == self.host.generation and self._writes:
            self._simulation.after(self.disk_time(), self._written_next, generation)

    def _written_next(self, generation: int) -> None:
        if generation == self.host.generation:
            done = self._writes.popleft()
            self._write_next(generation)
            self._write(generation, *done)

    def _read_batch(self, effect: e.ReadBatch) -> None:
        time = int((self.configuration.read_time + effect.bytes * 10) * self.slowness)
        self.host.after(time, self.handle, e.BatchRead(effect.reader, effect.stream, effect.ticket))

    def _send(self, effect: Send) -> None:
        message = effect.message
        if isinstance(message, m.Records):
            stream = self.core.streams[effect.to, message.stream]
            self.noted(shipped(message, effect.to, stream.start.filter_version))
        super()._send(effect)

    def rot(self, draw: Callable[[Sequence[int]], int]) -> None:
        """One copy does not read back as it was written, for good: its payload, or what else there is of a hole."""
        copies = self.core.contents.copies
        copy = copies[draw(sorted(copies))] if copies else None
        if copy is not None and copy.intact:
            spoilt = copy.payload[:1] + bytes([copy.payload[1] ^ 0xFF]) + copy.payload[2:] if copy.payload else b"?"
            copies[copy.lsn] = with_payload(copy, spoilt)


class SequencerNode(ReadPathNode):
    """A sequencer; nothing of it outlives its process."""

    role = Role.SEQUENCER
    core: SequencerCore

    def __init__(self, cluster: Shared, number: int, make_core: CoreFactory) -> None:
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

    def __init__(self, cluster: Shared, number: int, make_core: CoreFactory) -> None:
        super().__init__(cluster, number, make_core)
        self._next = r.lsn_of(1, 1)
        self._until = LAST_LSN
        self._op: int | None = None
        self._waits: tuple[tuple[int | None, int], int] = (None, 0), 0  # where, and since when
        self._process = cluster.new_process()
        self._short_of_memory = False
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

    def press(self, short: bool) -> None:
        """Memory is short, or no longer, whatever becomes of the process."""
        self._short_of_memory = short
        self.inform(0, e.MemoryPressed(short))

    @property
    def ended(self) -> bool:
        """Whether the stream has delivered its last."""
        return self.host.running and self.core.ended

    def note_stall(self, released: int, after: int = 0) -> None:
        """Record that the stream waits, though there is more up to ``released``, if it has done so for ``after`` ns."""
        if not self.host.running:
            return
        where, now = (self._op, self.core.position), self._simulation.now
        if where != self._waits[0]:
            self._waits = where, now
        noted = stalled(self.core, released)
        if noted is not None and now - self._waits[1] >= after:
            self._waits = where, now
            self.noted(noted)

    def watch(self, released: int) -> None:
        """Record it again and again while the stream waits for long."""
        self.note_stall(released, _A_WHILE)

    def kill(self) -> None:
        """End the process; the outcome of the open stream is unknown. See `Node.kill`."""
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
        if self._short_of_memory:
            self.host.after(0, self.handle, e.MemoryPressed(short=True))
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
        for noted in heard(message, peer, self.connections.filter_version(peer)):
            self.noted(noted)
