"""Who keeps which partition: the folded assignment, what is proposed next, and who has been silent for too long.

An assignment is a record of a log that every server folds (pull-queries.md#partitions). Anyone may propose; the first
valid one of an epoch counts, so that what servers have folded are prefixes of one another
(pull-queries.md#assignments-are-prefixes). A server routes by what it has folded (pull-queries.md#routes-by-fold).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from quorumlog.pull_queries.rules import Rules
from quorumlog.pull_queries.status import Status

GONE_AFTER = 10_000
"""Milliseconds of being down on end after which a host is to be removed (pull-queries.md#assignment-epochs)."""

UNAVAILABLE = "unavailable:-1"
"""The host that stands for an active that is not known (pull-queries.md#read-once)."""


class Placement(msgspec.Struct, frozen=True):
    """The hosts of a partition, each ``host:port``."""

    active: str = UNAVAILABLE
    standbys: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """All of them, the active first."""
        return (self.active, *self.standbys)


class Assignment(msgspec.Struct, frozen=True):
    """The members of an epoch and the placement of each partition, by its number; epoch 0 is that before the first."""

    epoch: int = 0
    members: tuple[str, ...] = ()
    placements: tuple[Placement, ...] = ()

    def of(self, partition: int) -> Placement:
        """The placement of a partition; before the first epoch nobody knows its active."""
        return self.placements[partition] if partition < len(self.placements) else Placement()


def folded(rules: Rules, last: Assignment, record: Assignment) -> Assignment:
    """The assignment after one more record of the log: the record if it is valid, else the last one.

    Source: pull-queries.md#assignment-epochs.
    """
    return record if rules.assignment_valid(record.epoch, last.epoch) else last


def proposed(
    last: Assignment,
    members: Iterable[str],
    partitions: int,
    standbys: int,
    lags: Mapping[tuple[str, int], int],
) -> Assignment:
    """The next assignment for these members; ``lags``: of the replicas whose lag is known, by host and partition.

    An active stays, and so do standbys, while they are members. A lost active is replaced by its standby of smallest
    known lag, one of unknown lag only if there is no other; where no replica is left, and for standbys that lack, the
    members with the fewest partitions are taken. Ties go to the first by ``host:port``.

    Source: pull-queries.md#active-stays.
    """
    here = sorted(set(members))
    kept = [_kept(last.of(partition), here, partition, lags) for partition in range(partitions)]
    load = {host: sum(host in replicas for replicas in kept) for host in here}
    placements = []
    for replicas in kept:
        while len(replicas) < min(standbys + 1, len(here)):
            host = min((host for host in here if host not in replicas), key=lambda host: (load[host], host))
            replicas.append(host)
            load[host] += 1
        placements.append(Placement(replicas[0], tuple(replicas[1:])) if replicas else Placement())
    return Assignment(last.epoch + 1, tuple(here), tuple(placements))


def _kept(before: Placement, here: list[str], partition: int, lags: Mapping[tuple[str, int], int]) -> list[str]:
    """The replicas of a partition that are members still, the next active first."""

    def behind(host: str) -> tuple[bool, int, str]:
        known = (host, partition) in lags
        return not known, lags.get((host, partition), 0), host

    standbys = [host for host in before.standbys if host in here]
    if before.active in here:
        return [before.active, *standbys]
    closest = min(standbys, key=behind, default=None)
    return sorted(standbys, key=lambda host: host != closest)


@dataclass(slots=True)
class Departures:
    """Since when a server has seen each host down on end; times are monotonic milliseconds (pull-queries.md#clocks)."""

    gone_after: ClassVar[int] = GONE_AFTER

    _since: dict[str, int] = field(default_factory=dict)

    def joined(self, hosts: Iterable[str]) -> None:
        """Begin anew with hosts that have become members: who comes back is not sent away for having been down."""
        for host in hosts:
            self._since.pop(host, None)

    def observe(self, now: int, statuses: Mapping[str, Status]) -> list[str]:
        """Take the statuses after a check; return the hosts whose removal is to be proposed."""
        down = [host for host, status in statuses.items() if not status.alive]
        self._since = {host: self._since.get(host, now) for host in down}
        return [host for host, since in self._since.items() if now - since >= self.gone_after]
