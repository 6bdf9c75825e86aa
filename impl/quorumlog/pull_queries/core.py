"""The core of a server of pull queries: one event in, effects out. No clock, no socket, no disk, no randomness.

    core = ServerCore("h:8088", Configuration(), Clocks(0, wall))
    for effect in core.handle(Clocks(now, wall), Started()):
        ...  # the driver carries it out

It puts the parts together: ``replicas`` (what this server folds and appends), ``status`` (who is alive), ``lag`` (who
is how far), ``routing`` and ``execution`` (where a query goes). The decisions are in ``rules``. One table, one store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from quorumlog.durations import MILLISECOND
from quorumlog.events import Effect, Event, SetTimer, Started, TimerFired
from quorumlog.pull_queries.assignment import Departures, proposed
from quorumlog.pull_queries.configuration import FIRST_CHECK, FIRST_DISCOVERY, FIRST_SEND, Configuration
from quorumlog.pull_queries.events import (
    Answer,
    AppendFailed,
    AssignmentRead,
    ChangelogRead,
    ChangelogVisible,
    ClientGone,
    Clocks,
    Emit,
    Finish,
    Forward,
    ForwardEnded,
    HeartbeatReceived,
    Propose,
    Query,
    QueryAsked,
    QueryForwarded,
    Reply,
    ReportReceived,
    SendHeartbeat,
    SendReport,
    SourceRead,
    SourceVisible,
)
from quorumlog.pull_queries.execution import EXHAUSTED, Execution, Phase
from quorumlog.pull_queries.lag import LagRecords, LagReport, Store, ready
from quorumlog.pull_queries.replicas import Replicas
from quorumlog.pull_queries.routing import (
    View,
    candidates,
    no_valid_host,
    partitions_asked,
    target_gives_up,
    terms_of,
)
from quorumlog.pull_queries.rules import REFERENCE, Failure, Rules
from quorumlog.pull_queries.status import Membership
from quorumlog.pull_queries.table import SavedTable, look_up, scan

STORE = Store("T", "store")
"""The store of the one table."""

NOT_READY = "Unable to execute pull query. The server is not ready."
FINAL = "Unable to execute pull query: a host refused it."


class ServerCore(Replicas):
    """One server, named ``host:port``; ``saved``: what it had saved of each partition; ``with_bound``: the acceptable
    lag of the table's WITH clause, if it has one. Readable at any time: assignment, tables, membership, records.

    Requests of clients and of other servers have names of the driver's, each used once.
    """

    membership_type: ClassVar[type[Membership]] = Membership
    records_type: ClassVar[type[LagRecords]] = LagRecords
    departures_type: ClassVar[type[Departures]] = Departures

    def __init__(
        self,
        host: str,
        configuration: Configuration,
        started: Clocks,
        saved: Mapping[int, SavedTable] | None = None,
        rules: Rules = REFERENCE,
        with_bound: int | None = None,
    ) -> None:
        super().__init__(host, configuration, saved or {}, rules)
        self.started, self.clocks, self.with_bound = started, started, with_bound
        self.membership = self.membership_type(host, started.wall, configuration, rules)
        self.records = self.records_type(rules)
        self._departures = self.departures_type()
        self._queries: dict[int, tuple[Query, Execution]] = {}

    def handle(self, clocks: Clocks, event: Event) -> list[Effect]:
        """Take one event; return the effects, to be carried out in order."""
        self.clocks, self._effects = clocks, []
        match event:
            case Started():
                self._start()
            case TimerFired(name):
                self._timer_fired(name)
            case HeartbeatReceived(host, stamp):
                self.membership.heartbeat(host, stamp)
            case ReportReceived(report):
                self.records.accept(report)
            case AssignmentRead():
                before = self.assignment.members
                self._assignment_read(event)
                self._departures.joined(set(self.assignment.members).difference(before))
            case ChangelogRead():
                self._changelog_read(event)
            case ChangelogVisible(partition, visible) if partition in self.tables:
                self.tables[partition].note_visible(visible)
            case SourceVisible():
                self._source_visible(event)
            case SourceRead():
                self._source_read(event)
            case AppendFailed():
                self._append_failed(event)
            case QueryAsked():
                self._query_asked(event)
            case ClientGone(request):
                self._queries.pop(request, None)
            case QueryForwarded():
                self._query_forwarded(event)
            case ForwardEnded():
                self._forward_ended(event)
        return self._effects

    # -- time ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Source: pull-queries.md#first-intervals."""
        self._timer("discover", FIRST_DISCOVERY)
        if self.configuration.heartbeats:
            self._timer("heartbeat", FIRST_SEND)
            self._timer("check", FIRST_CHECK)
        if self.configuration.lag_reports:
            self._timer("report", FIRST_SEND)

    def _timer(self, name: str, delay: int) -> None:
        self._effects.append(SetTimer(name, delay * MILLISECOND))

    def _timer_fired(self, name: str) -> None:
        match name:
            case "discover":
                self._timer(name, self.configuration.discover)
                self._discover()
            case "heartbeat":
                self._timer(name, self.configuration.heartbeat_send)
                targets = self.membership.heartbeat_targets
                self._effects += [SendHeartbeat(host, self.clocks.wall) for host in targets]
            case "check":
                self._timer(name, self.configuration.heartbeat_check)
                self._check()
            case "report":
                self._timer(name, self.configuration.lag_report)
                self._report()
            case "feed":
                self._feed_all()

    def _discover(self) -> None:
        """List the members, and propose itself if it is none (pull-queries.md#assignment-epochs)."""
        members = self.assignment.members
        self.membership.discover(self.clocks.wall, members)
        if self.host not in members:
            self._propose({*members, self.host})

    def _check(self) -> None:
        """Decide who is alive, and propose the removal of members that are gone (pull-queries.md#assignment-epochs)."""
        self.membership.check(self.clocks.wall)
        gone = self._departures.observe(self.clocks.monotonic, self.membership.statuses)
        if set(gone) & set(self.assignment.members):
            self._propose(set(self.assignment.members) - set(gone))

    def _propose(self, members: set[str]) -> None:
        lags = {}
        for host in members:
            for partition in range(self.configuration.partitions):
                position = self.records.of(host, STORE, partition)
                if position is not None:
                    max_end = self.records.max_end(STORE, partition)
                    lags[host, partition] = self.rules.lag(max_end, position.current)
        sizes = self.configuration.partitions, self.configuration.standbys
        self._effects.append(Propose(proposed(self.assignment, members, *sizes, lags)))

    def _report(self) -> None:
        """Tell how far the replicas are (pull-queries.md#lag-report-targets)."""
        positions = {(STORE, partition): table.position for partition, table in self.tables.items()}
        report = LagReport(self.host, self.clocks.wall, positions)
        for host in self.membership.report_targets:
            if host == self.host:
                self.records.accept(report)
            else:
                self._effects.append(SendReport(host, report))

    # -- queries ---------------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether this server routes the queries of clients already (pull-queries.md#first-intervals)."""
        replicas = [
            (host, STORE, partition)
            for partition in range(self.configuration.partitions)
            for host in self.assignment.of(partition).hosts
        ]
        since, now = self.started.monotonic, self.clocks.monotonic
        return ready(self.configuration, since, now, self.records, self.membership.statuses, replicas)

    def _view(self) -> View:
        return View(self.assignment, self.membership.statuses, self.records.snapshot())

    def _query_asked(self, event: QueryAsked) -> None:
        """Route a query of a client by what is known now (pull-queries.md#read-once)."""
        if not self.ready():
            self._effects.append(Finish(event.request, NOT_READY))
            return
        view = self._view()
        terms = terms_of(self.configuration, event.query.bound, self.with_bound)
        scanned = {
            partition: candidates(self.rules, view, terms, STORE, partition)
            for partition in partitions_asked(self.configuration, event.query.keys)
        }
        message = no_valid_host(scanned)
        if message is not None:
            self._effects.append(Finish(event.request, message))
            return
        selected = {partition: [each.host for each in hosts if each.selected] for partition, hosts in scanned.items()}
        execution = Execution(self.rules, self.configuration.shipped, selected)
        self._queries[event.request] = event.query, execution
        self._go_on(event.request)

    def _go_on(self, request: int) -> None:
        """Begin the rounds that are due: one that only this server has to answer is over at once."""
        query, execution = self._queries[request]
        while not execution.open:
            requests = dict(execution.next_round())
            if not requests:
                self._finish(request)
                return
            own = requests.pop(self.host, ())
            self._effects += [Forward(request, host, query, partitions) for host, partitions in requests.items()]
            if own:
                answers, refused = self._answer(query, own)
                self._ended(request, self.host, answers, Failure.GAVE_UP if refused else None)

    def _ended(self, request: int, host: str, answers: tuple[Answer, ...], failure: Failure | None) -> None:
        _, execution = self._queries[request]
        by_partition = {answer.partition: answer for answer in answers}
        emitted = execution.answered(host, by_partition.keys(), failure)
        self._effects += [Emit(request, by_partition[partition]) for partition in emitted]

    def _finish(self, request: int) -> None:
        _, execution = self._queries.pop(request)
        message = {Phase.EXHAUSTED: EXHAUSTED, Phase.FAILED: FINAL}.get(execution.phase)
        self._effects.append(Finish(request, message, tuple(execution.attempts)))

    def _forward_ended(self, event: ForwardEnded) -> None:
        """A host answered, or did not; one that nobody waits for any more is passed over."""
        _, execution = self._queries.get(event.request, (None, None))
        if execution is None or event.host not in execution.open:
            return
        lacking = set(execution.open[event.host]) - {each.partition for each in event.answers}
        failure = event.failure or (Failure.BROKEN_STREAM if lacking else None)
        self._ended(event.request, event.host, event.answers, failure)
        self._go_on(event.request)

    def _query_forwarded(self, event: QueryForwarded) -> None:
        """Answer for another server, or refuse; never forward (pull-queries.md#no-second-hop)."""
        self._effects.append(Reply(event.request, *self._answer(event.query, event.partitions)))

    def _answer(self, query: Query, partitions: tuple[int, ...]) -> tuple[tuple[Answer, ...], Mapping[int, str]]:
        """What this server answers of these partitions, and why it gives up the others."""
        view, terms = self._view(), terms_of(self.configuration, query.bound, self.with_bound)
        answers: list[Answer] = []
        refused: dict[int, str] = {}
        for partition in partitions:
            fenced = self.fenced(partition)
            reason = target_gives_up(self.rules, view, terms, STORE, partition, self.host, fenced=fenced)
            if reason is None:
                answers.append(self._rows(query, partition))
            else:
                refused[partition] = reason
        return tuple(answers), refused

    def _rows(self, query: Query, partition: int) -> Answer:
        table = self.tables[partition].saved()
        rows = scan(table, query.filter) if query.keys is None else look_up(table, query.keys)
        return Answer(partition, self.host, table.current, tuple(rows))
