"""Simulated servers of pull queries: each a core on a host, its logs are Raft groups in the same virtual time.

A server reads its logs every so often from a node of the group, folds what is new, and saves its tables to its disk;
both get slower with the disk. Messages between servers are lost and delayed; a host without a process refuses a
connection at once. What a server learns, decides and says is recorded (`loghistory.vocabularies.pull_queries`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from quorumlog.durations import MILLISECOND
from quorumlog.events import CoreFactory, Event, Note, Outcome, Resolved
from quorumlog.pull_queries import events as e
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.groups import Group
from quorumlog.pull_queries.recording import Witness, serving
from quorumlog.pull_queries.records import ASSIGNMENTS, changelog_of, source_of
from quorumlog.pull_queries.rules import Failure
from quorumlog.pull_queries.settings import PullConfiguration
from quorumlog.pull_queries.table import SavedTable, Value
from quorumlog.raft.nodes import RaftNode
from quorumlog.simulation.node import Node, Surroundings

WALL = 1_000_000
"""What wall clocks show when a run begins, in milliseconds."""
_APPEND_TIMEOUT = 400 * MILLISECOND
_SAVED = "tables"

QueryReply = Callable[[list[e.Answer], str | None], None]
"""How a client's query ends: what was emitted, and the message if it failed."""


class Asked(NamedTuple):
    """To another server: a forwarded query, ``request`` of the sender, for operation ``op`` of a client."""

    request: int
    op: int
    query: e.Query
    partitions: tuple[int, ...]


class Replied(NamedTuple):
    """Back: what was answered, and what failed for the rest."""

    request: int
    answers: tuple[e.Answer, ...]
    failure: Failure | None


class Servers(Surroundings, Protocol):
    """What a server needs of the cluster that it is part of."""

    configuration: PullConfiguration
    groups: dict[str, Group]

    @property
    def nodes(self) -> Sequence[ServerNode]:
        """The servers, each at the index that is its number."""

    def number_of(self, host: str) -> int:
        """The number of a server by its name; -1 if there is none."""


class ServerNode(Node):
    """One server, its disk, and its requests that are under way."""

    core: ServerCore
    _cluster: Servers
    _witness: Witness

    def __init__(self, cluster: Servers, number: int, make_core: CoreFactory) -> None:
        configuration = cluster.configuration
        super().__init__(cluster, number, configuration.disk)
        self.name = f"h{number}:8088"
        self._make_core, self._configuration = make_core, configuration
        skew = cluster.simulation.random("skew").random() * configuration.skew
        self._wall_offset = WALL + int(skew) // MILLISECOND
        self._read: dict[Any, int] = {}
        self._learns = 0  # when the log of assignments is read next
        self._reading: dict[int, list[e.ReadSource]] = {}  # by partition, in the order in which they are answered
        self._requests = 0
        self._clients: dict[int, tuple[int, QueryReply, list[e.Answer]]] = {}
        self._asked: dict[int, tuple[int, Asked]] = {}
        self._heard: set[tuple[int, int]] = set()  # forwarded queries, by sender and its request
        self._perform |= {
            e.SendHeartbeat: self._send_heartbeat,
            e.SendReport: self._send_report,
            e.Propose: lambda effect: cluster.groups[ASSIGNMENTS].append([effect.assignment], lambda _: None),
            e.AppendRecords: self._append,
            e.ReadSource: self._read_source,
            e.Forward: self._forward,
            e.Emit: self._emit,
            e.Finish: self._finish,
            e.Reply: self._reply,
        }

    # -- life ----------------------------------------------------------------------------------------------------------

    def clock(self) -> e.Clocks:
        """Monotonic, and by the wall clock, which is set on without timers running out (pull-queries.md#clocks)."""
        monotonic = self.host.clock() // MILLISECOND
        return e.Clocks(monotonic, monotonic + self._wall_offset)

    def jump(self, nanoseconds: int) -> None:
        """Let the wall clock jump ahead."""
        self._wall_offset += nanoseconds // MILLISECOND

    def set_clock(self, wall: int) -> None:
        """Let the wall clock show this time."""
        self._wall_offset += wall - self.clock().wall

    def state(self) -> dict[str, Any]:
        """The wall clock, and what the server was told."""
        configuration = self._configuration
        return serving(self.name, configuration.server, self.clock().wall, configuration.with_bound)

    def begun(self) -> Note:
        """The event with which a server begins to serve."""
        return Note("serve", self.state())

    def recover(self) -> ServerCore:
        """A core that begins with the tables on the disk (pull-queries.md#saved-together)."""
        saved: Mapping[int, SavedTable] = {}
        if self.disk.exists(_SAVED):
            content = self.disk.read(_SAVED, 0, self.disk.size(_SAVED))
            saved = msgspec.json.decode(content, type=dict[int, SavedTable])
        self._read.clear()
        self._reading.clear()
        generation = self.host.generation
        self.host.after(0, self._poll, generation)
        self.host.after(self._configuration.save, self._save, generation)
        configuration = self._configuration
        core: ServerCore = self._make_core(
            self.name, configuration.server, self.clock(), saved, with_bound=configuration.with_bound
        )
        self._witness = Witness(core, self.note, self._cluster.number_of)
        return core

    def kill(self) -> None:
        """End the process; queries of clients that are open here end without an answer. See `Node.kill`."""
        super().kill()
        clients, self._clients = self._clients, {}
        self._asked.clear()
        for _, reply, _ in clients.values():
            reply([], None)

    def _save(self, generation: int) -> None:
        tables = {partition: table.saved() for partition, table in self.core.tables.items()}
        content = msgspec.json.encode(tables)
        self.write_in_order(lambda: self.disk.replace(_SAVED, content), Saved())
        self.host.after(int(self._configuration.save * self.slowness), self._save, generation)

    # -- what it learns ------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Give the core an event, and record what it learned and decided by it."""
        if isinstance(event, Saved):
            return
        before, generation = self._witness.before(event), self.host.generation
        super().handle(event)
        if generation == self.host.generation:
            self._witness.after(event, before)

    def show(self) -> None:
        """Tell somebody who asks the status of the cluster."""
        self._witness.shows()

    def note(self, kind: str, **columns: Any) -> None:  # noqa: ANN401
        """Record an event of this server, with these columns."""
        self._cluster.record(kind, {"node": self.number, **columns})

    # -- its logs ------------------------------------------------------------------------------------------------------

    def _poll(self, generation: int) -> None:
        """Ask a node of each group for what is new; the answers come after a while."""
        for name, group in self._cluster.groups.items():
            if name == ASSIGNMENTS and not self._due():
                continue
            node = group.reader(self._random.random())
            start = self._next_of(name)
            if node is not None and start is not None:
                found = group.read(node, start)[: self._most(name)]
                self.host.after(2 * self._configuration.client_delay, self._have_read, name, self.shown_by(node), found)
        self.host.after(int(self._configuration.poll * self.slowness), self._poll, generation)

    def _due(self) -> bool:
        """Whether the log of assignments is to be read again."""
        most, now = self._configuration.learn, self._simulation.now
        due = now >= self._learns
        if due and most:
            self._learns = now + self._random.randint(most // 2, most)
        return due

    def shown_by(self, node: RaftNode) -> int:
        """Up to where a node of a group shows its log."""
        return node.core.visible

    def _next_of(self, name: str) -> int | None:
        """From which offset on a log is to be read; None: it is not."""
        if name == ASSIGNMENTS:
            return self._read.get(name, 0)
        what, partition = name[0], int(name[1:])
        if what == "s":
            return 1 << 40  # how far it is, and nothing of it
        table = self.core.tables.get(partition)
        return None if table is None else table.current

    def _most(self, name: str) -> int | None:
        """How many offsets of a log are taken at once."""
        return (self._configuration.take or None) if name[0] == "c" else None

    def _have_read(self, name: str, visible: int, found: list[tuple[int, Any]]) -> None:
        generation = self.host.generation
        if name == ASSIGNMENTS:
            for offset, record in found:
                if offset >= self._read.get(name, 0) and generation == self.host.generation:
                    self._read[name] = offset + 1
                    if record is not None:
                        self.handle(e.AssignmentRead(record))
            return
        partition = int(name[1:])
        if name[0] == "s":
            self.handle(e.SourceVisible(partition, visible))
            return
        self.handle(e.ChangelogVisible(partition, visible))
        table = self.core.tables.get(partition)
        first = None if table is None else table.current
        for offset, record in found:
            if generation == self.host.generation:
                self.handle(e.ChangelogRead(partition, offset, record))
        if first is not None and generation == self.host.generation:
            self._witness.folded(partition, first)

    def _append(self, effect: e.AppendRecords) -> None:
        group = self._cluster.groups[changelog_of(effect.partition)]
        failed = self.host.after(_APPEND_TIMEOUT, self.handle, e.AppendFailed(effect.partition))

        def reply(resolved: Resolved | None) -> None:
            if resolved is not None and resolved.outcome is Outcome.SUCCESS:
                self._simulation.cancel(failed)

        self.host.after(self._configuration.client_delay, group.append, effect.records, reply)

    def _read_source(self, effect: e.ReadSource) -> None:
        waiting = self._reading.setdefault(effect.partition, [])
        waiting.append(effect)
        if len(waiting) == 1:
            self.host.after(2 * self._configuration.client_delay, self._have_source, effect)

    def _have_source(self, effect: e.ReadSource) -> None:
        """Read again until a node shows all that is asked for; a shorter answer would leave offsets out."""
        group = self._cluster.groups[source_of(effect.partition)]
        node = group.reader(self._random.random())
        found = [] if node is None else [each for each in group.read(node, effect.first) if each[0] < effect.end]
        if len(found) < effect.end - effect.first:
            self.host.after(self._configuration.poll, self._have_source, effect)
            return
        waiting = self._reading[effect.partition]
        waiting.remove(effect)
        if waiting:
            self.host.after(2 * self._configuration.client_delay, self._have_source, waiting[0])
        self.handle(e.SourceRead(effect.partition, effect.first, tuple(record for _, record in found)))

    def put(self, partition: int, key: str, value: Value | None, reply: Callable[[Resolved | None], None]) -> None:
        """Append a client's change to a source log."""
        self._cluster.groups[source_of(partition)].append([(key, value)], reply)

    # -- other servers -------------------------------------------------------------------------------------------------

    def _send_heartbeat(self, effect: e.SendHeartbeat) -> None:
        self._witness.heartbeat(effect)
        self._tell(effect.to, e.HeartbeatReceived(self.name, effect.stamp))

    def _send_report(self, effect: e.SendReport) -> None:
        self._witness.report(effect)
        self._tell(effect.to, e.ReportReceived(effect.report))

    def _tell(self, host: str, message: Any) -> None:  # noqa: ANN401
        self._cluster.transmit(self.number, self._cluster.number_of(host), message)

    def receive(self, source: int, message: Any) -> None:  # noqa: ANN401
        """A message has arrived and the process runs."""
        match message:
            case Asked():
                self._have_asked(source, message)
            case Replied(request, answers, failure):
                self.handle(e.ForwardEnded(request, self._cluster.nodes[source].name, answers, failure))
            case _:
                self.handle(message)

    def _forward(self, effect: e.Forward) -> None:
        op, target = self._clients[effect.request][0], self._cluster.number_of(effect.host)
        self._witness.forward(op, effect)
        ended = e.ForwardEnded(effect.request, effect.host, ())
        if target < 0 or not self._cluster.nodes[target].host.running:
            refused = msgspec.structs.replace(ended, failure=Failure.NO_CONNECTION)
            self.host.after(self._configuration.client_delay, self.handle, refused)
            return
        limit = (self._configuration.server.forward_timeout or 0) * MILLISECOND
        self.host.after(limit, self.handle, msgspec.structs.replace(ended, failure=Failure.TIME_OUT))
        self._tell(effect.host, Asked(effect.request, op, effect.query, effect.partitions))

    def _have_asked(self, source: int, asked: Asked) -> None:
        """A forwarded query, once: no connection hands one over twice. One too many is refused at once.

        Source: pull-queries.md#falls-through.
        """
        if (source, asked.request) in self._heard:
            return
        self._heard.add((source, asked.request))
        self._witness.forwarded(asked.op, source, asked.query, asked.partitions)
        if self._random.random() < self._configuration.workload.busy:
            self._cluster.transmit(self.number, source, Replied(asked.request, (), Failure.CLIENT_ERROR))
            return
        self._requests += 1
        self._asked[self._requests] = source, asked
        self.handle(e.QueryForwarded(self._requests, asked.query, asked.partitions))

    def _reply(self, effect: e.Reply) -> None:
        source, asked = self._asked.pop(effect.request)
        self._witness.replies(asked.op, effect)
        failure = Failure.GAVE_UP if effect.refused else None
        self._cluster.transmit(self.number, source, Replied(asked.request, effect.answers, failure))

    # -- clients -------------------------------------------------------------------------------------------------------

    def query(self, op: int, query: e.Query, reply: QueryReply) -> None:
        """A client's query; ``reply`` is called when it is over."""
        self._witness.routes(op)
        self._requests += 1
        self._clients[self._requests] = op, reply, []
        self.handle(e.QueryAsked(self._requests, query))

    def _emit(self, effect: e.Emit) -> None:
        op, _, emitted = self._clients[effect.request]
        self._witness.emits(op, effect.answer)
        emitted.append(effect.answer)

    def _finish(self, effect: e.Finish) -> None:
        op, reply, emitted = self._clients.pop(effect.request)
        self._witness.finishes(op, effect)
        reply(emitted, effect.message or "")


class Saved(Event, frozen=True):
    """The tables are on the disk; no core needs to know."""
