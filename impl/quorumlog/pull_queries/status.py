"""Who is alive: the heartbeats that a server received, and what it decides from them at each check.

The statuses of the others change at a check and at no other time (pull-queries.md#status-replays); a receipt only adds
a stamp (pull-queries.md#receipt-or-check). The caller says what time it is and carries heartbeats to and fro; times are
milliseconds of the wall clock (pull-queries.md#clocks).
Source: documents.md#pull-queries-failure-detection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.rules import Rules


class Status(NamedTuple):
    """Whether a host is alive, and when that was last decided."""

    alive: bool
    updated: int


def alive_by_tail(rules: Rules, start: int, end: int, stamps: Sequence[int], send: int, threshold: int) -> bool:
    """Decide as the public implementation does; ``stamps`` ascend within [``start``, ``end``].

    Source: pull-queries.md#tail-decides.
    """
    if not stamps:
        return False
    previous, missed = start, 0
    for stamp in stamps:
        if stamp >= end:
            break
        previous, missed = stamp, rules.missed_between(previous, stamp, send)
    return rules.tolerated(rules.missed_at_end(previous, missed, end, send), threshold)


def alive_by_slots(
    rules: Rules, start: int, end: int, stamps: Sequence[int], send: int, up: bool, most: int, least: int
) -> bool:
    """Decide as the proposal does, from the stored status ``up``; ``stamps`` lie within [``start``, ``end``].

    Source: pull-queries.md#slots.
    """
    filled = {(stamp - start) // send for stamp in stamps}
    missed = received = 0
    for slot in range((end - start) // send):
        up, missed, received = rules.after_slot(slot in filled, up, missed, received, most, least)
    return up


def decide(configuration: Configuration, rules: Rules, start: int, end: int, stamps: Iterable[int], up: bool) -> bool:
    """Tell whether a host is alive by its stamps, of which those in [``start``, ``end``] count; ``up``: was it so far.

    Source: pull-queries.md#window.
    """
    counted = sorted({stamp for stamp in stamps if start <= stamp <= end})
    send, threshold = configuration.heartbeat_send, configuration.missed_threshold
    if configuration.shipped:
        return alive_by_tail(rules, start, end, counted, send, threshold)
    return alive_by_slots(rules, start, end, counted, send, up, threshold, configuration.received_threshold)


class Membership:
    """The hosts that a server has seen in the assignment, with their heartbeats and statuses.

    ``local`` is listed and alive and never judged (pull-queries.md#discovery); hosts are ``host:port``. All this is
    lost with the process (pull-queries.md#saved-together).
    """

    def __init__(self, local: str, now: int, configuration: Configuration, rules: Rules) -> None:
        self.local, self.configuration, self.rules = local, configuration, rules
        self._statuses: dict[str, Status] = {local: Status(True, now)}
        self._stamps: dict[str, set[int]] = {}
        self._alive_at_check: tuple[str, ...] = ()

    @property
    def statuses(self) -> Mapping[str, Status]:
        """The status of each listed host as it is now: a copy. Empty without heartbeats (pull-queries.md#switches)."""
        return dict(self._statuses) if self.configuration.heartbeats else {}

    def discover(self, now: int, members: Iterable[str]) -> list[str]:
        """List the members of the folded assignment that are not listed yet, as alive, and return them.

        None is ever taken off the list. Source: pull-queries.md#discovery.
        """
        fresh = [host for host in dict.fromkeys(members) if host not in self._statuses]
        self._statuses |= {host: Status(True, now) for host in fresh}
        return fresh

    def heartbeat(self, sender: str, stamp: int) -> None:
        """Take a heartbeat with its sender's stamp; a sender that is not listed does not become so.

        Source: pull-queries.md#stamps.
        """
        self._stamps.setdefault(sender, set()).add(stamp)

    def stamps_of(self, sender: str) -> int:
        """How many stamps of a sender are kept: those since the last check's window if it is listed, else all."""
        return len(self._stamps.get(sender, ()))

    def check(self, now: int) -> dict[str, Status]:
        """Decide the status of every other listed host, and return those decided.

        Source: pull-queries.md#window.
        """
        start = now - self.configuration.heartbeat_window
        decided: dict[str, Status] = {}
        for host, before in self._statuses.items():
            if host == self.local:
                continue
            stamps = self._stamps.get(host)
            if not stamps:
                decided[host] = Status(False, before.updated)
                continue
            stamps.difference_update([stamp for stamp in stamps if stamp < start])
            decided[host] = Status(decide(self.configuration, self.rules, start, now, stamps, before.alive), now)
        self._statuses |= decided
        self._alive_at_check = tuple(host for host, status in self._statuses.items() if status.alive)
        return decided

    @property
    def heartbeat_targets(self) -> tuple[str, ...]:
        """Whom to send heartbeats: all others, dead ones too (pull-queries.md#heartbeats-to-all)."""
        return tuple(host for host in self._statuses if host != self.local)

    @property
    def report_targets(self) -> tuple[str, ...]:
        """Whom to send lag reports (pull-queries.md#lag-report-targets); in both modes this host too."""
        return self._alive_at_check if self.configuration.shipped else tuple(self._statuses)
