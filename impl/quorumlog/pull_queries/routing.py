"""Where a query goes: the candidates of each partition, in order, with every reason against those that are excluded.

What a server knows is read once, on arrival (pull-queries.md#read-once), and makes a `View`; the candidates are a
function of it (pull-queries.md#candidates-follow-view). `execution` sends the query to them.
Source: documents.md#pull-queries-lag-aware-routing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quorumlog.pull_queries.assignment import Assignment, Placement
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.lag import LagRecords, Store
from quorumlog.pull_queries.rules import Known, Rules, Terms
from quorumlog.pull_queries.status import Status
from quorumlog.pull_queries.table import partition_of

NEVER = -1
"""The time of a host whose status was never decided."""


@dataclass(frozen=True, slots=True)
class View:
    """What a router decides from: the folded assignment, the statuses and the lag records as of one moment."""

    assignment: Assignment
    statuses: Mapping[str, Status]
    records: LagRecords


@dataclass(frozen=True, slots=True)
class Candidate:
    """A host that was scanned for a partition; it is selected if there is no reason against it."""

    host: str
    reasons: tuple[str, ...] = ()

    @property
    def selected(self) -> bool:
        """Whether the query may be sent to it."""
        return not self.reasons


def terms_of(configuration: Configuration, query: int | None = None, table: int | None = None) -> Terms:
    """On what terms a query is routed; ``query`` and ``table``: the bounds that it and its table's WITH clause give.

    Raises ValueError for a negative bound. Source: pull-queries.md#bound-from.
    """
    given = [query, None if configuration.shipped else table, configuration.maximum_lag]
    bound = next(bound for bound in given if bound is not None)
    if bound < 0:
        raise ValueError(f"acceptable.offset.lag is {bound}; it must be 0 or more")
    switches = bool(configuration.standby_reads), bool(configuration.lag_reports)
    return Terms(bound, configuration.shipped, *switches)


def partitions_asked(configuration: Configuration, keys: Iterable[str] | None) -> tuple[int, ...]:
    """The partitions that a look-up of keys must ask; None: a scan.

    Source: pull-queries.md#partitions-asked.
    """
    every = tuple(range(configuration.partitions))
    if keys is None:
        return every
    keys = tuple(keys)
    if configuration.shipped and len(keys) > 1:
        return every
    return tuple(sorted({partition_of(key, configuration.partitions) for key in keys}))


def candidates(rules: Rules, view: View, terms: Terms, store: Store, partition: int) -> tuple[Candidate, ...]:
    """Every host of a partition in the order in which they are tried, those excluded with all their reasons.

    Source: pull-queries.md#candidate-order, pull-queries.md#filters.
    """
    placement = view.assignment.of(partition)
    max_end = view.records.max_end(store, partition, placement.hosts if terms.shipped else None)

    def known(host: str) -> Known:
        status, position = view.statuses.get(host), view.records.of(host, store, partition)
        alive = status is not None and status.alive
        lag = 0 if position is None else rules.lag(max_end, position.current)
        return Known(host == placement.active, status is not None, alive, position is not None, lag)

    facts = {host: known(host) for host in placement.hosts}
    return tuple(
        Candidate(host, reasons(rules, facts[host], terms, view.statuses.get(host)))
        for host in _ordered(placement, facts, terms)
    )


def _ordered(placement: Placement, facts: Mapping[str, Known], terms: Terms) -> list[str]:
    """The active, then the standbys: by host in the mode shipped, in the proposal first by lag, unknown ones last."""
    if terms.shipped:
        return [placement.active, *sorted(placement.standbys)]
    by_lag = sorted(placement.standbys, key=lambda host: (not facts[host].has_record, facts[host].lag, host))
    return [placement.active, *by_lag]


def reasons(rules: Rules, known: Known, terms: Terms, status: Status | None) -> tuple[str, ...]:
    """Every reason against a host, in the order of the filters (pull-queries.md#reasons)."""
    not_active, not_alive, unknown, too_far = rules.obstacles(known, terms)
    updated = NEVER if status is None else status.updated
    found = [
        (not_active, "Host is not the active host for this partition."),
        (not_alive, f"Host is not alive as of time {updated}"),
        (unknown, "Lag information is not present for host."),
        (too_far, f"Host excluded because lag {known.lag} exceeds maximum allowed lag {terms.bound}."),
    ]
    return tuple(reason for applies, reason in found if applies)


def no_valid_host(scanned: Mapping[int, Iterable[Candidate]]) -> str | None:
    """The message that fails a query before any contact, if a partition has no selected candidate; else None.

    Source: pull-queries.md#rounds, pull-queries.md#no-valid-host-says-why.
    """
    failed = []
    for partition, hosts in scanned.items():
        hosts = tuple(hosts)
        if not any(candidate.selected for candidate in hosts):
            said = ", ".join(f"{each.host} was not selected because {','.join(each.reasons)}" for each in hosts)
            failed.append(f"Partition {partition} failed to find valid host. Hosts scanned: [{said}]")
    return f"Unable to execute pull query. [{', '.join(failed)}]" if failed else None


def target_gives_up(
    rules: Rules, view: View, terms: Terms, store: Store, partition: int, host: str, *, fenced: bool
) -> str | None:
    """Why a host does not answer a forwarded query, or its own, for a partition; None: it does.

    ``fenced``: its takeover is passed, so that it answers as the active with standby reads off. In the mode shipped the
    lag filter is asked again, of this host's own record alone; the proposal's target answers. It never forwards it
    (pull-queries.md#no-second-hop).

    Source: pull-queries.md#forward-target, pull-queries.md#routes-by-fold, pull-queries.md#saved-together.
    """
    placement = view.assignment.of(partition)
    if host not in placement.hosts:
        return "Host does not hold this partition."
    if not terms.standby_reads and not (host == placement.active and fenced):
        return "Host is not the active host for this partition."
    if not terms.shipped:
        return None
    position = view.records.of(host, store, partition)
    lag = 0 if position is None else rules.lag(position.end, position.current)
    own = Known(host == placement.active, False, False, position is not None, lag)
    lag_alone = Terms(terms.bound, True, True, terms.lag_reports)  # without a status: alive
    said = reasons(rules, own, lag_alone, None)
    return ",".join(said) or None
