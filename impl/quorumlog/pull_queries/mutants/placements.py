"""Mutants of who keeps what and may answer for it: assignments, tables that come back, targets, who is told of lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from quorumlog.protocol import Mutant
from quorumlog.pull_queries.assignment import Departures, Placement
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.events import Answer, AssignmentRead, Propose, Query
from quorumlog.pull_queries.status import Membership
from quorumlog.pull_queries.table import Feeder, Table, Takeover


class NoReportsToDead(Membership):
    """Whoever is taken for dead is told of no lag."""

    @property
    def report_targets(self) -> tuple[str, ...]:
        """The targets of the reference, without hosts taken for dead."""
        return tuple(host for host in super().report_targets if self._statuses[host].alive)


class NoReportsToDeadCore(ServerCore):
    """A server that sends no reports to hosts it takes for dead."""

    membership_type = NoReportsToDead


class LastMemberActive(ServerCore):
    """Of the replicas of a partition the last by name is the active."""

    def _propose(self, members: set[str]) -> None:
        super()._propose(members)
        effect = self._effects.pop()
        assert isinstance(effect, Propose)
        made = effect.assignment
        placements = tuple(Placement(*_last_and_rest(each.hosts)) for each in made.placements)
        self._effects.append(Propose(structs.replace(made, placements=placements)))


def _last_and_rest(hosts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    *rest, last = sorted(hosts)
    return last, tuple(rest)


class RemovedEarly(Departures):
    """Whoever was down for five seconds is sent away."""

    gone_after = 5_000


class RemovedEarlyCore(ServerCore):
    """A server that sends away whom it has seen down for 5 s."""

    departures_type = RemovedEarly


class RemovedAgain(Departures):
    """Who comes back is down since long ago."""

    def joined(self, hosts: Iterable[str]) -> None:
        """Let who joins again keep the time since when it was down."""


class RemovedAgainCore(ServerCore):
    """A server that gives nobody who joins the time anew."""

    departures_type = RemovedAgain


class NoTakeover(Feeder):
    """An active goes on with the source log at once."""

    def due(self, table: Table, end: int, most: int = 100) -> Takeover | range | None:
        """What the reference appends, but for the takeover."""
        due = super().due(table, end, most)
        if not isinstance(due, Takeover):
            return due
        self.appended = table.source + len(range(table.source, end)[:most])
        self._announced = self.appended > table.source
        return range(table.source, self.appended) or None


class NoTakeoverCore(ServerCore):
    """A server that becomes the active without a word."""

    feeder_type = NoTakeover


class TableGivenAway(ServerCore):
    """What was saved of a partition is gone with it."""

    def _assignment_read(self, event: AssignmentRead) -> None:
        before = set(self.tables)
        super()._assignment_read(event)
        for partition in before - set(self.tables):
            self._saved.pop(partition, None)


class TargetWithoutFilter(ServerCore):
    """A server answers whoever asks it, however far it is behind."""

    def _answer(self, query: Query, partitions: tuple[int, ...]) -> tuple[tuple[Answer, ...], Mapping[int, str]]:
        return super()._answer(structs.replace(query, bound=1 << 40), partitions)


class AnswersBeforeTakeover(ServerCore):
    """Whoever is the active by its assignment answers as such."""

    def fenced(self, partition: int) -> bool:
        """Whether this server is the active."""
        return self.assignment.of(partition).active == self.host


MUTANTS = (
    Mutant(
        "no-reports-to-dead",
        "lag reports are not sent to hosts that are considered dead",
        ("reports-to-all",),
        NoReportsToDeadCore,
        "default",
    ),
    Mutant(
        "last-member-active",
        "of the replicas of a partition the last by name is the active",
        ("active-stays",),
        LastMemberActive,
        "default",
    ),
    Mutant(
        "removed-early",
        "a host is to be removed after 5 s of being down",
        ("removed-when-gone",),
        RemovedEarlyCore,
        "departures",
    ),
    Mutant(
        "removed-again",
        "a host that joins again is not given the full time after which a host that is down is removed",
        ("removed-when-gone",),
        RemovedAgainCore,
        "departures",
    ),
    Mutant(
        "no-takeover",
        "a new active appends changes without a takeover before them",
        ("takeover-comes-first",),
        NoTakeoverCore,
        "default",
    ),
    Mutant(
        "table-given-away",
        "the table of a partition that is taken away and comes back begins at 0",
        (),
        TableGivenAway,
        test="tests/pull_queries/test_mutants.py",
    ),
    Mutant(
        "assignments-skipped",
        "of several assignments that are read at once the last one alone is folded",
        (),
        test="tests/pull_queries/test_driver.py",
    ),
    Mutant(
        "target-without-filter",
        "the target of a forwarded query answers whatever lag it has recorded of itself",
        ("targets-may-answer",),
        TargetWithoutFilter,
        "actives-alone",
    ),
    Mutant(
        "answers-before-takeover",
        "an active answers before it has passed its takeover, though standbys are not read",
        ("targets-may-answer",),
        AnswersBeforeTakeover,
        "actives-alone",
    ),
)
