"""Server cores in virtual time: a network that delays and loses, logs that are lists, processes that crash.

The logs stand for Raft groups of which everything is visible at once; one in ten records is Raft's own.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any

from quorumlog.durations import MILLISECOND
from quorumlog.events import Effect, Event, SetTimer, Started, TimerFired
from quorumlog.pull_queries import events as e
from quorumlog.pull_queries.assignment import Assignment
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.rules import Failure
from quorumlog.pull_queries.table import Record, SavedTable


class Server:
    """A process or its remains: what it saved stays."""

    def __init__(self, host: str) -> None:
        self.host, self.life = host, 0
        self.saved: dict[int, SavedTable] = {}
        self.read: dict[Any, int] = {}
        self.core: ServerCore | None = None


class Network:
    """``loss``: how many of a hundred messages and appends go astray; ``stuck`` hosts fold nothing, from and to
    ``unreachable`` ones no message comes."""

    def __init__(self, seed: int, configuration: Configuration, hosts: int = 3, loss: int = 0) -> None:
        self.random, self.configuration, self.loss = random.Random(seed), configuration, loss
        self.now, self._order = 0, count()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self.servers = {f"h{number}:1": Server(f"h{number}:1") for number in range(hosts)}
        self.assignments: list[Assignment] = []
        self.changelogs: dict[int, list[Record | None]] = {p: [] for p in range(configuration.partitions)}
        self.sources: dict[int, list[tuple[str, Any] | None]] = {p: [] for p in range(configuration.partitions)}
        self.stuck: set[str] = set()
        self.unreachable: set[str] = set()
        self.answers: dict[int, list[e.Answer]] = {}
        self.finished: dict[int, tuple[int, e.Finish]] = {}
        self._appending: dict[tuple[str, int], int] = {}
        self._asked: dict[tuple[str, int], tuple[str, int]] = {}
        self._requests = count(1)

    # -- what a test does ----------------------------------------------------------------------------------------------

    def start(self, host: str) -> None:
        """A new process on what the last one saved."""
        server = self.servers[host]
        server.life += 1
        server.read = {partition: table.current for partition, table in server.saved.items()}
        server.core = ServerCore(host, self.configuration, self._clocks(), server.saved)
        self._handle(server, Started())
        self._poll(server, server.life)

    def crash(self, host: str) -> None:
        """The process is gone; it had saved its tables some time before."""
        server = self.servers[host]
        server.life += 1
        server.core = None

    def put(self, partition: int, key: str, value: Any) -> None:  # noqa: ANN401
        """A client writes to a source log."""
        self.sources[partition].append((key, value) if self.random.random() > 0.1 else None)

    def ask(self, host: str, query: e.Query) -> int:
        """A client asks a server; the number by which ``answers`` and ``finished`` tell of it."""
        request = next(self._requests)
        self.answers[request] = []
        server = self.servers[host]
        assert server.core is not None
        self._handle(server, e.QueryAsked(request, query))
        return request

    def tell(self, host: str, event: Event) -> None:
        """Give a server's core an event."""
        self._handle(self.servers[host], event)

    def run(self, milliseconds: int) -> None:
        """Let time pass."""
        until = self.now + milliseconds
        while self._due and self._due[0][0] <= until:
            self.now, _, action = heapq.heappop(self._due)
            action()
        self.now = until

    # -- how it is carried out -----------------------------------------------------------------------------------------

    def _clocks(self) -> e.Clocks:
        return e.Clocks(self.now, 1_000_000 + self.now)

    def _after(self, delay: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + delay, next(self._order), action))

    def _handle(self, server: Server, event: Event) -> None:
        assert server.core is not None
        for effect in server.core.handle(self._clocks(), event):
            self._carry_out(server, effect)

    def _later(self, server: Server, delay: int, event: Event) -> None:
        life = server.life

        def happen() -> None:
            if server.life == life and server.core is not None:
                self._handle(server, event)

        self._after(delay, happen)

    def _send(self, sender: str, to: str, event: Event) -> None:
        if not {sender, to} & self.unreachable and self.random.randrange(100) >= self.loss:
            self._later(self.servers[to], self.random.randrange(1, 5), event)

    def _carry_out(self, server: Server, effect: Effect) -> None:
        match effect:
            case SetTimer(name, delay):
                self._later(server, delay // MILLISECOND, TimerFired(name))
            case e.SendHeartbeat(to, stamp):
                self._send(server.host, to, e.HeartbeatReceived(server.host, stamp))
            case e.SendReport(to, report):
                self._send(server.host, to, e.ReportReceived(report))
            case e.Propose(assignment):
                self._after(self.random.randrange(1, 5), lambda: self.assignments.append(assignment))
            case e.ReadSource(partition, first, end):
                entries = tuple(self.sources[partition][first:end])
                self._later(server, 1, e.SourceRead(partition, first, entries))
            case e.AppendRecords(partition, records):
                self._append(server, partition, records)
            case e.Forward(request, host, query, partitions):
                self._forward(server, request, host, query, partitions)
            case e.Reply(request, answers, refused):
                asker, theirs = self._asked.pop((server.host, request))
                failure = Failure.GAVE_UP if refused else None
                self._send(server.host, asker, e.ForwardEnded(theirs, server.host, answers, failure))
            case e.Emit(request, answer):
                self.answers[request].append(answer)
            case e.Finish(request):
                self.finished[request] = self.now, effect

    def _append(self, server: Server, partition: int, records: tuple[Record, ...]) -> None:
        """Appended, appended and said to have failed, or lost; it may come late, after its server has died."""
        fate = self.random.randrange(100)
        if fate >= self.loss or fate % 2:
            log = self.changelogs[partition]
            own = [None] if self.random.random() < 0.1 else []
            at = max(self.now + self.random.randrange(1, 20), self._appending.get((server.host, partition), 0))
            self._appending[server.host, partition] = at  # in the order of the effects
            self._after(at - self.now, lambda: log.extend([*own, *records]))
        if fate < self.loss:
            self._later(server, 25, e.AppendFailed(partition))

    def _forward(self, server: Server, request: int, host: str, query: e.Query, partitions: tuple[int, ...]) -> None:
        target = self.servers[host]
        if target.core is None:
            self._later(server, 1, e.ForwardEnded(request, host, (), Failure.NO_CONNECTION))
            return
        theirs = next(self._requests)
        self._asked[host, theirs] = server.host, request
        self._send(server.host, host, e.QueryForwarded(theirs, query, partitions))
        timeout = self.configuration.forward_timeout or 0
        self._later(server, timeout, e.ForwardEnded(request, host, (), Failure.TIME_OUT))

    def _poll(self, server: Server, life: int) -> None:
        """A process reads its logs every few milliseconds, and saves its tables now and then."""
        core = server.core
        if server.life != life or core is None:
            return
        for record in self.assignments[server.read.get("assignments", 0) :]:
            self._handle(server, e.AssignmentRead(record))
        server.read["assignments"] = len(self.assignments)
        for partition, log in self.changelogs.items():
            self._handle(server, e.ChangelogVisible(partition, len(log) - 1))
            self._handle(server, e.SourceVisible(partition, len(self.sources[partition]) - 1))
            if partition in core.tables and server.host not in self.stuck:
                for offset in range(core.tables[partition].current, len(log)):
                    self._handle(server, e.ChangelogRead(partition, offset, log[offset]))
        if self.random.random() < 0.02:
            server.saved = {partition: table.saved() for partition, table in core.tables.items()}
        self._after(10, lambda: self._poll(server, life))
