"""How far every host's partitions are, by the lag reports that a server accepted, and which lag follows.

Offsets are those of a partition's changelog (pull-queries.md#current-and-end). Records are kept by host, query, store
and partition and never expire. Source: documents.md#pull-queries-lag-reporting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.rules import Rules
from quorumlog.pull_queries.status import Status


class Store(NamedTuple):
    """A state store of a query; ``str`` is its name in a report."""

    query: str
    name: str

    def __str__(self) -> str:
        return f"{self.query}#{self.name}"


class Position(NamedTuple):
    """How many offsets of a changelog a replica has passed, and where the log ended as last told."""

    current: int
    end: int


class LagReport(NamedTuple):
    """What a host says of all its partitions, and when, by its clock."""

    host: str
    time: int
    positions: Mapping[tuple[Store, int], Position]


class LagRecords:
    """The newest report of each host; `accept` alone changes it."""

    def __init__(self, rules: Rules, reports: Iterable[LagReport] = ()) -> None:
        self.rules = rules
        self._reports = {report.host: report for report in reports}

    def accept(self, report: LagReport) -> bool:
        """Put a report in the place of the host's whole last one, unless that is newer; tell whether it was put there.

        Source: pull-queries.md#report-replaces, pull-queries.md#report-times-rise.
        """
        stored = self._reports.get(report.host)
        if stored is not None and not self.rules.report_replaces(stored.time, report.time):
            return False
        self._reports[report.host] = report
        return True

    @property
    def reports(self) -> Mapping[str, LagReport]:
        """The newest report of each host, as of now."""
        return self._reports

    def snapshot(self) -> LagRecords:
        """The records as they are now (pull-queries.md#read-once)."""
        return type(self)(self.rules, self._reports.values())

    def of(self, host: str, store: Store, partition: int) -> Position | None:
        """What a host last reported of a partition; None if it did not report it."""
        report = self._reports.get(host)
        return None if report is None else report.positions.get((store, partition))

    def max_end(self, store: Store, partition: int, hosts: Iterable[str] | None = None) -> int:
        """The largest end offset of a partition that any host reported, or any of ``hosts``; 0 if none did.

        Source: pull-queries.md#max-end-offset.
        """
        found = [self.of(host, store, partition) for host in (self._reports if hosts is None else hosts)]
        return max((position.end for position in found if position is not None), default=0)

    def shown(self, statuses: Mapping[str, Status]) -> dict[str, LagReport]:
        """What /clusterStatus shows of each host: nothing of one that is dead (pull-queries.md#report-replaces)."""
        return {host: report for host, report in self._reports.items() if host in statuses and statuses[host].alive}


def ready(
    configuration: Configuration,
    started: int,
    now: int,
    records: LagRecords,
    statuses: Mapping[str, Status],
    replicas: Iterable[tuple[str, Store, int]],
) -> bool:
    """Tell whether a server that began at ``started`` can route the queries of clients; times are monotonic.

    ``replicas``: every host of every partition; one that is not listed yet, or not known, may live.

    Source: pull-queries.md#first-intervals.
    """
    if not configuration.lag_reports or now - started >= 2 * configuration.lag_report:
        return True
    dead = {host for host, status in statuses.items() if not status.alive}
    return all(host in dead or records.of(host, store, partition) is not None for host, store, partition in replicas)
