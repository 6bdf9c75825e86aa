"""Mutants of what hosts have and how far they are: tables, assignments, reports, and what follows for who is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from quorumlog.events import CancelTimer
from quorumlog.protocol import Mutant
from quorumlog.pull_queries.core import STORE, ServerCore
from quorumlog.pull_queries.events import SendReport
from quorumlog.pull_queries.lag import LagRecords, LagReport, Position, Store
from quorumlog.pull_queries.mutants.parts import with_rules
from quorumlog.pull_queries.nodes import ServerNode
from quorumlog.pull_queries.routing import View
from quorumlog.pull_queries.rules import Known, Terms, lag_counts, not_alive, not_the_active, obstacles, too_far
from quorumlog.pull_queries.simulated import PullCluster
from quorumlog.pull_queries.status import Status
from quorumlog.pull_queries.table import Change, Record, Table
from quorumlog.raft.nodes import RaftNode


def _dead_standbys_too(known: Known, terms: Terms) -> tuple[bool, bool, bool, bool]:
    inactive, dead, unknown, far = obstacles(known, terms)
    return inactive, dead and known.active, unknown, far


def _unknown_lag_too(known: Known, terms: Terms) -> tuple[bool, bool, bool, bool]:
    inactive, dead, _, far = obstacles(known, terms)
    return inactive, dead, False, far


def _active_alone_filtered(known: Known, terms: Terms) -> tuple[bool, bool, bool, bool]:
    inactive, dead, unknown, _ = obstacles(known, terms)
    return inactive, dead, unknown, known.active and lag_counts(known, terms) and too_far(known, terms)


def _first_alone(known: Known, terms: Terms) -> tuple[bool, bool, bool, bool]:
    inactive, dead, unknown, far = obstacles(known, terms)
    said = not_the_active(known, terms) or not_alive(known, terms)
    return inactive, dead and not inactive, unknown and not said, far and not said


class DeadHostLagShown(LagRecords):
    """The lag of every host is shown that has reported one."""

    def shown(self, statuses: Mapping[str, Status]) -> dict[str, LagReport]:
        """What every listed host reported, alive or not."""
        return {host: report for host, report in self.reports.items() if host in statuses}


class DeadHostLagShownCore(ServerCore):
    """A server that shows the lag of every host that has reported one."""

    records_type = DeadHostLagShown


class LagWithoutStore(LagRecords):
    """A report is kept by host and partition alone: of several stores the last one counts."""

    def of(self, host: str, store: Store, partition: int) -> Position | None:
        """What a host last said of a partition, of whatever store."""
        report = self.reports.get(host)
        found = {} if report is None else {each: position for (_, each), position in report.positions.items()}
        return found.get(partition)


class LagWithoutStoreCore(ServerCore):
    """A server that keeps one lag of a partition, of whatever store."""

    records_type = LagWithoutStore


class ReadyAtOnce(ServerCore):
    """A server is ready when it has started."""

    def ready(self) -> bool:
        """Always, also before any lag is known."""
        return True


class NeverReadyByTime(ServerCore):
    """A server is ready when it knows the lag of every replica, and not before."""

    def ready(self) -> bool:
        """Whether every replica has reported, however long that takes."""
        placed = [(host, p) for p, each in enumerate(self.assignment.placements) for host in each.hosts]
        return all(self.records.of(host, STORE, p) is not None for host, p in placed)


class OwnReportAsEnd(LagRecords):
    """What one host reported is taken for the largest end."""

    own = ""

    def max_end(self, store: Store, partition: int, hosts: Iterable[str] | None = None) -> int:
        """The end that the host itself reported, if it did."""
        position = self.of(self.own, store, partition)
        return super().max_end(store, partition, hosts) if position is None else position.end


class OwnReportAsEndCore(ServerCore):
    """A router takes the end that it reported itself for the largest one."""

    records_type = OwnReportAsEnd

    def _view(self) -> View:
        view = super()._view()
        assert isinstance(view.records, OwnReportAsEnd)
        view.records.own = self.host
        return view


class OwnRecordsNotPassed(Table):
    """Records of Raft's own are folded, and not counted as passed in reports."""

    _own = 0

    def fold(self, offset: int, record: Record | None) -> bool:
        """As the reference, and count Raft's own."""
        self._own += record is None
        return super().fold(offset, record)

    @property
    def position(self) -> Position:
        """How many offsets were passed, without Raft's own records, and the end."""
        return Position(self.current - self._own, self.end)


class OwnRecordsNotPassedCore(ServerCore):
    """A server whose reports leave out records of Raft's own."""

    table_type = OwnRecordsNotPassed


class TombstonesKept(Table):
    """A tombstone is passed, and its row stays."""

    def _apply(self, change: Change) -> None:
        super()._apply(change if change.value is not None else structs.replace(change, key=None))


class TombstonesKeptCore(ServerCore):
    """A server whose rows outlive their tombstones."""

    table_type = TombstonesKept


class StoppingReporter(ServerNode):
    """A report that does not reach its host stops the timer of reports."""

    def _send_report(self, effect: SendReport) -> None:
        number = self._cluster.number_of(effect.to)
        if self._cluster.nodes[number].host.running:
            super()._send_report(effect)
        else:
            self._cancel_timer(CancelTimer("report"))


class StoppingReporters(PullCluster):
    """A cluster whose servers stop reporting after one report that is lost."""

    node_type = StoppingReporter


class DirtyEndNode(ServerNode):
    """A server takes the dirty tail of the node that it reads from for what that shows."""

    def shown_by(self, node: RaftNode) -> int:
        """Where the node's log ends, flushed or not."""
        return node.core.dirty


class DirtyEndCluster(PullCluster):
    """A cluster whose servers take dirty ends for visible ones."""

    node_type = DirtyEndNode


MUTANTS = (
    Mutant(
        "older-report-wins",
        "an older lag report replaces a newer one",
        ("report-times-rise",),
        with_rules(report_replaces=lambda stored, received: True),
        "overtaken",
    ),
    Mutant(
        "unknown-lag-admitted",
        "a host of unknown lag is asked",
        ("no-record-not-selected",),
        with_rules(obstacles=_unknown_lag_too),
        "lagging",
    ),
    Mutant(
        "dead-standby-admitted",
        "standbys are asked whether they are alive or not",
        ("candidates-follow-view",),
        with_rules(obstacles=_dead_standbys_too),
        "default",
    ),
    Mutant(
        "lag-beyond-bound",
        "the bound applies to the active alone",
        ("selected-within-bound",),
        with_rules(obstacles=_active_alone_filtered),
        "lagging",
    ),
    Mutant(
        "first-reason-only",
        "only the first of several reasons against a host is given",
        ("no-valid-host-says-why",),
        with_rules(obstacles=_first_alone),
        "lagging",
    ),
    Mutant(
        "own-report-as-end",
        "a router takes the end that it reported itself for the largest one",
        ("selected-within-bound", "no-valid-host-says-why", "candidates-follow-view"),
        OwnReportAsEndCore,
        "lagging",
    ),
    Mutant(
        "dirty-end",
        "a server reports the dirty end of a changelog",
        ("reports-are-true",),
        None,
        "lagging",
        stage=DirtyEndCluster,
    ),
    Mutant(
        "send-failure-stops-reporter",
        "a lag report that cannot be sent is the last one",
        ("reports-go-on",),
        None,
        "overtaken",
        stage=StoppingReporters,
    ),
    Mutant(
        "raft-records-not-passed",
        "records of Raft's own do not count as passed",
        ("reports-are-true",),
        OwnRecordsNotPassedCore,
        "default",
    ),
    Mutant(
        "tombstones-kept",
        "a tombstone removes no row",
        ("rows-are-the-table",),
        TombstonesKeptCore,
        "default",
    ),
    Mutant(
        "later-proposal-wins",
        "of several assignments for one epoch the last one counts",
        ("assignments-are-prefixes",),
        with_rules(assignment_valid=lambda epoch, last: epoch in (last, last + 1)),
        "default",
    ),
    Mutant(
        "end-falls",
        "the end of a changelog is what a node showed last, which may be behind another one",
        ("reports-are-true",),
        with_rules(end_after=lambda end, visible: visible + 1),
        "lagging",
    ),
    Mutant(
        "ready-at-once",
        "a server routes queries before it knows the lag of the live replicas",
        ("bad-time-bounded",),
        ReadyAtOnce,
        "default",
    ),
    Mutant(
        "never-ready-by-time",
        "a server that lacks the lag of a live replica is not ready, however long it has served",
        ("bad-time-bounded",),
        NeverReadyByTime,
        "default",
    ),
    Mutant(
        "old-epoch-folded",
        "a record of an older epoch counts if its source offset is the next",
        ("rows-are-the-table",),
        with_rules(counts=lambda epoch, seen, source, expected: source == expected),
        "handed-over",
    ),
    Mutant(
        "dead-host-lag-shown",
        "the status of the cluster shows the lag of dead hosts too",
        ("shown-is-kept",),
        DeadHostLagShownCore,
        "watched",
    ),
    Mutant(
        "lag-without-store",
        "lag reports are kept by host and partition, whatever the store",
        (),
        LagWithoutStoreCore,
        test="tests/pull_queries/test_mutants.py",
    ),
    Mutant(
        "lag-abs",
        "a lag is the distance from the end, on either side",
        (),
        with_rules(lag=lambda max_end, current: abs(max_end - current)),
        test="tests/pull_queries/test_mutants.py",
    ),
)
