"""One core in an asyncio process: its timers, its logs, its requests to others, and what it records.

What happens is recorded and written before anything that follows from it leaves the process, so that the file of a
killed server has all that others can know. Times are those of pull-queries.md#clocks.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from quorumlog.cluster.log_client import Log, UnreachableError
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.events import Event, SetTimer, Started, TimerFired
from quorumlog.node.recording import History
from quorumlog.pull_queries import events as e
from quorumlog.pull_queries.assignment import UNAVAILABLE
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.recording import Witness, serving
from quorumlog.pull_queries.records import ASSIGNMENTS, changelog_of, source_of
from quorumlog.pull_queries.rules import Failure
from quorumlog.pull_queries.server.peers import Peers
from quorumlog.storage.records import UnreadableError


class Asked(NamedTuple):
    """A client's query that is under way: its operation, what was emitted, and its end."""

    op: int | None
    emitted: list[e.Answer]
    ended: asyncio.Future[e.Finish]


def clocks() -> e.Clocks:
    """The monotonic and the wall clock, both in milliseconds (pull-queries.md#clocks)."""
    return e.Clocks(time.monotonic_ns() // MILLISECOND, time.time_ns() // MILLISECOND)


class ServerDriver:
    """See the module. ``numbers`` are those of the servers in the history; ``poll`` in milliseconds; ``failed`` is
    called when the history cannot be written or a log cannot be read, ``fault`` for an error that nobody expected.
    The parameters are many because a driver meets all that a server has; `quorumlog.pull_queries.server` alone calls
    it."""

    def __init__(
        self,
        core: ServerCore,
        history: History,
        numbers: Mapping[str, int],
        peers: Peers,
        logs: Mapping[str, Log],
        poll: int,
        read_bytes: int,
        failed: Callable[[str], None],
        fault: Callable[[BaseException], None],
    ) -> None:
        self.core, self.history = core, history
        self._numbers, self._peers, self._logs = numbers, peers, logs
        self._poll, self._read_bytes = poll / 1000, read_bytes
        self._failed, self._fault = failed, fault
        self._witness = Witness(core, history_note(history), lambda host: numbers.get(host, -1))
        self._requests = itertools.count(1)
        self._clients: dict[int, Asked] = {}
        self._replies: dict[int, e.Reply] = {}
        self._asking: dict[int, list[asyncio.Task[None]]] = {}  # by the query of a client
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._fired: tuple[str, float] = "", 0.0
        partitions = range(core.configuration.partitions)
        self._appends: list[asyncio.Queue[e.AppendRecords]] = [asyncio.Queue() for _ in partitions]
        self._reads: list[asyncio.Queue[e.ReadSource]] = [asyncio.Queue() for _ in partitions]
        self._perform: dict[type, Callable[[Any], object]] = {
            SetTimer: self._set_timer,
            e.SendHeartbeat: self._send_heartbeat,
            e.SendReport: self._send_report,
            e.Propose: lambda effect: self._begin(self._propose(effect)),
            e.AppendRecords: lambda effect: self._appends[effect.partition].put_nowait(effect),
            e.ReadSource: lambda effect: self._reads[effect.partition].put_nowait(effect),
            e.Forward: self._forward,
            e.Emit: self._emit,
            e.Finish: self._finish,
            e.Reply: lambda effect: self._replies.__setitem__(effect.request, effect),
        }

    # -- the core ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Record that the server serves, and start its core."""
        core = self.core
        self.history.event("serve", serving(core.host, core.configuration, clocks().wall, core.with_bound))
        self.handle(Started())

    def handle(self, event: Event) -> None:
        """Give the core an event, carry out its effects and record both."""
        try:
            before = self._witness.before(event)
            for effect in self.core.handle(clocks(), event):
                self._perform[type(effect)](effect)
            self._witness.after(event, before)
        except Exception as error:
            self._fault(error)
            raise
        self._flush()

    def doings(self) -> list[Coroutine[Any, Any, None]]:
        """What goes on as long as the server runs: each follows or feeds one log."""
        partitions = range(self.core.configuration.partitions)
        of_each = (self._follow_changelog, self._follow_source, self._append, self._read_source)
        return [self._follow_assignments(), *(doing(partition) for partition in partitions for doing in of_each)]

    @property
    def idle(self) -> bool:
        """Whether no client waits for an answer."""
        return not self._clients

    def close(self) -> None:
        """Stop timers and requests, and close the connections to the logs."""
        for handle in self._timers.values():
            handle.cancel()
        for task in self._tasks:
            task.cancel()
        for log in self._logs.values():
            log.close()

    def _flush(self) -> None:
        try:
            self.history.flush()
        except OSError as error:
            self._failed(f"the history cannot be written: {error.strerror or error}")

    def _begin(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            asyncio.get_running_loop().call_exception_handler({"exception": task.exception(), "message": "a request"})

    def _set_timer(self, effect: SetTimer) -> None:
        """At a fixed rate: one that is set as it fires runs from when it was due (pull-queries.md#first-intervals)."""
        loop = asyncio.get_running_loop()
        name, due = self._fired
        begun = due if name == effect.name else loop.time()
        due = max(loop.time(), begun + effect.delay / SECOND)
        if effect.name in self._timers:
            self._timers[effect.name].cancel()
        self._timers[effect.name] = loop.call_at(due, self._fire, effect.name, due)

    def _fire(self, name: str, due: float) -> None:
        self._fired = name, due
        self.handle(TimerFired(name))
        self._fired = "", 0.0

    # -- logs ----------------------------------------------------------------------------------------------------------

    async def _follow_assignments(self) -> None:
        log, position = self._logs[ASSIGNMENTS], 0
        while True:
            for offset, record in (await self._look(log, position))[1]:
                position = offset + 1
                if record is not None:
                    self.handle(e.AssignmentRead(record))
            await asyncio.sleep(self._poll)

    async def _follow_changelog(self, partition: int) -> None:
        log = self._logs[changelog_of(partition)]
        while True:
            table = self.core.tables.get(partition)
            if table is not None:
                visible, found = await self._look(log, table.current)
                self.handle(e.ChangelogVisible(partition, visible))
                first = table.current
                for offset, record in found:
                    self.handle(e.ChangelogRead(partition, offset, record))
                if self.core.tables.get(partition) is table:
                    self._witness.folded(partition, first)
                    self._flush()
            await asyncio.sleep(self._poll)

    async def _follow_source(self, partition: int) -> None:
        """Only the active needs to know how far a source log is (pull-queries.md#takeover)."""
        log = self._logs[source_of(partition)]
        while True:
            if self.core.assignment.of(partition).active == self.core.host:
                try:
                    visible = await log.visible()
                except UnreachableError:
                    pass
                else:
                    self.handle(e.SourceVisible(partition, visible))
            await asyncio.sleep(self._poll)

    async def _look(self, log: Log, start: int) -> tuple[int, list[tuple[int, Any]]]:
        """What a log shows from an offset on; nothing while no node of its group answers."""
        try:
            return await log.read(start, self._read_bytes)
        except UnreachableError:
            return -1, []
        except UnreadableError as error:
            self._failed(f"{log.name}: {error}")
            return -1, []

    async def _append(self, partition: int) -> None:
        """Append in order; what waits behind a failure is dropped, for the core begins again there."""
        waiting, log = self._appends[partition], self._logs[changelog_of(partition)]
        while True:
            effect = await waiting.get()
            try:
                await log.append(effect.records)
            except UnreachableError:
                while not waiting.empty():
                    waiting.get_nowait()
                self.handle(e.AppendFailed(partition))

    async def _read_source(self, partition: int) -> None:
        """Read until all is there that is asked for; a shorter answer would leave offsets out."""
        log = self._logs[source_of(partition)]
        while True:
            effect = await self._reads[partition].get()
            found: list[tuple[int, Any]] = []
            while len(found) < effect.end - effect.first:
                more = (await self._look(log, effect.first + len(found)))[1]
                found += [each for each in more if each[0] < effect.end]
                if not more:
                    await asyncio.sleep(self._poll)
            self.handle(e.SourceRead(partition, effect.first, tuple(record for _, record in found)))

    async def _propose(self, effect: e.Propose) -> None:
        try:
            await self._logs[ASSIGNMENTS].append([effect.assignment])
        except UnreachableError:
            return  # it is proposed again as long as that is due

    # -- other servers -------------------------------------------------------------------------------------------------

    def _send_heartbeat(self, effect: e.SendHeartbeat) -> None:
        self._witness.heartbeat(effect)
        self._peers.heartbeat(effect)

    def _send_report(self, effect: e.SendReport) -> None:
        self._witness.report(effect)
        self._peers.report(effect)

    def _forward(self, effect: e.Forward) -> None:
        op = self._clients[effect.request].op
        if op is not None:
            self._witness.forward(op, effect)
        self._asking.setdefault(effect.request, []).append(self._begin(self._forwarded(effect, op)))

    async def _forwarded(self, effect: e.Forward, op: int | None) -> None:
        ended = e.ForwardEnded(effect.request, effect.host, (), Failure.NO_CONNECTION)
        self.handle(ended if effect.host == UNAVAILABLE else await self._peers.forward(effect, op))

    def forwarded(self, op: int | None, host: str, query: e.Query, partitions: tuple[int, ...]) -> e.Reply:
        """Answer the server ``host``, or refuse."""
        known = op is not None and host in self._numbers
        if op is not None and known:
            self._witness.forwarded(op, self._numbers[host], query, partitions)
        request = next(self._requests)
        self.handle(e.QueryForwarded(request, query, partitions))
        reply = self._replies.pop(request)
        if op is not None and known:
            self._witness.replies(op, reply)
            self._flush()
        return reply

    def shows(self) -> None:
        """Record what is told of the cluster, now."""
        self._witness.shows()
        self._flush()

    # -- clients -------------------------------------------------------------------------------------------------------

    def query(self, op: int | None, query: e.Query) -> tuple[int, Asked]:
        """Begin a client's query; `drop` it when nobody waits for it any more."""
        if op is not None:
            self._witness.routes(op)
        request = next(self._requests)
        asked = self._clients[request] = Asked(op, [], asyncio.get_running_loop().create_future())
        self.handle(e.QueryAsked(request, query))
        return request, asked

    def drop(self, request: int) -> None:
        """A query is over, or its client is gone: nobody is asked any more (pull-queries.md#no-second-hop)."""
        for task in self._asking.pop(request, ()):
            task.cancel()
        asked = self._clients.pop(request, None)
        if asked is not None and not asked.ended.done():
            self.handle(e.ClientGone(request))

    def _emit(self, effect: e.Emit) -> None:
        asked = self._clients[effect.request]
        if asked.op is not None:
            self._witness.emits(asked.op, effect.answer)
        asked.emitted.append(effect.answer)

    def _finish(self, effect: e.Finish) -> None:
        asked = self._clients[effect.request]
        if asked.op is not None:
            self._witness.finishes(asked.op, effect)
        asked.ended.set_result(effect)


def history_note(history: History) -> Callable[..., None]:
    """How a `Witness` records into a history."""
    return lambda kind, **columns: history.event(kind, columns)
