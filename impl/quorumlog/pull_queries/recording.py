"""What a server of pull queries records of itself, in a simulated run and in a real process.

The events are those of `loghistory.vocabularies.pull_queries`. Whoever drives a core asks `Witness` before and after it
gives the core an event, and for what it carries out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from quorumlog.events import Event, TimerFired
from quorumlog.pull_queries import events as e
from quorumlog.pull_queries.assignment import Assignment
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.lag import LagReport


def json_text(value: object) -> str:
    """Compact JSON, as the history has it."""
    return msgspec.json.encode(value).decode()


def serving(host: str, configuration: Configuration, wall: int, with_bound: int | None = None) -> dict[str, Any]:
    """The columns that say as what a server begins: its wall clock, and what it was told; ``with_bound``: the
    acceptable lag of the table's WITH clause."""
    bound = {} if with_bound is None else {"with_bound": with_bound}
    return {"stamp": wall, "text": json_text({"host": host, **msgspec.to_builtins(configuration), **bound})}


def rows_columns(answer: e.Answer, peer: int) -> dict[str, Any]:
    """The columns of what a client got of a partition; ``peer``: the number of the host that answered."""
    place = {"partition": answer.partition, "peer": peer, "offset": answer.position}
    return {**place, "text": json_text(answer.rows)}


class Before(NamedTuple):
    """What a core knew before an event."""

    listed: frozenset[str]
    reports: Mapping[str, LagReport]
    assignment: Assignment


class Witness:
    """Records what one core learns, decides and says: ``note(kind, **columns)`` takes it.

    ``number_of`` is the number of a host in the history; -1 for one that it does not know: nothing is recorded of it.
    """

    def __init__(self, core: ServerCore, note: Callable[..., None], number_of: Callable[[str], int]) -> None:
        self._core, self._note, self._number_of = core, note, number_of

    def _about(self, host: str, kind: str, **columns: Any) -> None:  # noqa: ANN401
        number = self._number_of(host)
        if number >= 0:
            self._note(kind, peer=number, **columns)

    # -- around each event ---------------------------------------------------------------------------------------------

    def before(self, event: Event) -> Before:
        """Record what the core is about to learn; what it knows so far is for `after`."""
        match event:
            case e.HeartbeatReceived(host, stamp):
                self._about(host, "heard", stamp=stamp)
            case e.ReportReceived(report):
                text = json_text(_plain_positions(report))
                self._about(report.host, "report_heard", stamp=report.time, text=text)
        core = self._core
        return Before(frozenset(core.membership.statuses), dict(core.records.reports), core.assignment)

    def after(self, event: Event, before: Before) -> None:
        """Record what the core has decided and keeps, once its effects are carried out."""
        core = self._core
        timer = event.name if isinstance(event, TimerFired) else ""
        statuses = core.membership.statuses
        others = {host: status for host, status in statuses.items() if host != core.host}
        if timer == "check":
            for host, status in others.items():
                self._about(host, "up" if status.alive else "down", stamp=core.clocks.wall)
        for host, status in others.items():
            if host not in before.listed:
                self._about(host, "listed", stamp=status.updated)
        if timer == "report" and core.membership.report_targets:
            positions = {partition: [*table.position] for partition, table in core.tables.items()}
            self._note("report", stamp=core.clocks.wall, text=json_text(positions))
        for host, report in core.records.reports.items():
            if before.reports.get(host) is not report:
                self._about(host, "report_kept", stamp=report.time)
        if core.assignment is not before.assignment:
            self._note("assigned", epoch=core.assignment.epoch, text=json_text(_plain_assignment(core.assignment)))

    def folded(self, partition: int, first: int) -> None:
        """Record which offsets of a changelog the core has passed, from ``first`` on, if any."""
        table = self._core.tables.get(partition)
        if table is not None and table.current > first:
            self._note("fold", partition=partition, offset=first, last_offset=table.current - 1)

    def shows(self) -> None:
        """The status of the cluster is told to somebody who asks (pull-queries.md#shown-is-kept)."""
        statuses = self._core.membership.statuses
        lags = self._core.records.shown(statuses)
        shown = {
            host: [status.alive, status.updated, lags[host].time if host in lags else None]
            for host, status in statuses.items()
        }
        self._note("shown", text=json_text(shown))

    # -- other servers -------------------------------------------------------------------------------------------------

    def heartbeat(self, effect: e.SendHeartbeat) -> None:
        """A heartbeat goes to another server."""
        self._about(effect.to, "heartbeat", stamp=effect.stamp)

    def report(self, effect: e.SendReport) -> None:
        """A lag report goes to another server."""
        self._about(effect.to, "report_sent", stamp=effect.report.time)

    def forward(self, op: int, effect: e.Forward) -> None:
        """This server asks another one for partitions, in operation ``op``."""
        self._about(effect.host, "forward", op=op, text=_asked(effect.query, effect.partitions))

    def forwarded(self, op: int, peer: int, query: e.Query, partitions: tuple[int, ...]) -> None:
        """The server with the number ``peer`` asks this one."""
        self._note("forwarded", peer=peer, op=op, text=_asked(query, partitions))

    def replies(self, op: int, effect: e.Reply) -> None:
        """The server that asked is answered, or refused, partition by partition."""
        for answer in effect.answers:
            self.answers(op, answer)
        for partition, reason in effect.refused.items():
            self._note("give_up", op=op, partition=partition, text=reason)

    def answers(self, op: int, answer: e.Answer) -> None:
        """This server answers for a partition."""
        self._note("answer", op=op, partition=answer.partition, offset=answer.position, text=json_text(answer.rows))

    # -- clients -------------------------------------------------------------------------------------------------------

    def routes(self, op: int) -> None:
        """A query of a client is about to be routed by what the core knows."""
        core = self._core
        view = {
            "assignment": _plain_assignment(core.assignment),
            "statuses": {host: [each.alive, each.updated] for host, each in core.membership.statuses.items()},
            "records": {host: [each.time, _plain_positions(each)] for host, each in core.records.reports.items()},
        }
        self._note("route", op=op, text=json_text(view))

    def emits(self, op: int, answer: e.Answer) -> None:
        """The client gets a partition, which may be this server's own answer."""
        if answer.host == self._core.host:
            self.answers(op, answer)

    def finishes(self, op: int, effect: e.Finish) -> None:
        """The query of a client is over, with its error message (None: complete) and all attempts."""
        attempts = [[each.partition, each.host, each.failure and each.failure.value] for each in effect.attempts]
        self._note("finish", op=op, text=json_text({"message": effect.message, "attempts": attempts}))


def _asked(query: e.Query, partitions: tuple[int, ...]) -> str:
    return json_text({"partitions": partitions, "bound": query.bound})


def _plain_assignment(assignment: Assignment) -> dict[str, Any]:
    placements = [[each.active, each.standbys] for each in assignment.placements]
    return {"epoch": assignment.epoch, "members": assignment.members, "placements": placements}


def _plain_positions(report: LagReport) -> dict[int, list[int]]:
    return {partition: [*position] for (_, partition), position in report.positions.items()}
