"""A query on its way: rounds over the candidates of each partition, and what falls through to the next.

Round n sends every partition that is not answered yet to its nth candidate, one request a host; the next round begins
when all of these are over. Nothing but requests and outcomes: the caller sends, waits and enforces time-outs.
Source: pull-queries.md#rounds, documents.md#pull-queries-lag-aware-routing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from quorumlog.pull_queries.rules import Failure, Rules

EXHAUSTED = "Unable to execute pull query: Exhausted standby hosts to try."


class Phase(Enum):
    """How far a query is.

    EXHAUSTED: a partition has no further candidate. FAILED: a failure does not fall through, so that no other candidate
    is tried. Source: pull-queries.md#falls-through.
    """

    RUNNING = "running"
    COMPLETE = "complete"
    EXHAUSTED = "exhausted"
    FAILED = "failed"


class Attempt(NamedTuple):
    """That a host was asked for a partition, and how it went; None: it was answered."""

    partition: int
    host: str
    failure: Failure | None


class Execution:
    """One query at the server that the client asked; ``phase`` says how it stands, ``attempts`` what was tried.

    ``candidates``: the selected hosts of each asked partition, at least one, in order. A host is asked for a partition
    once, never more (pull-queries.md#rounds).
    """

    def __init__(self, rules: Rules, shipped: bool, candidates: Mapping[int, Sequence[str]]) -> None:
        self.rules, self.shipped, self.candidates = rules, shipped, candidates
        self.phase = Phase.RUNNING
        self.attempts: list[Attempt] = []
        self.round = -1
        self.open: dict[str, tuple[int, ...]] = {}  # host -> the partitions that it was asked for
        self._remaining = set(candidates)

    def next_round(self) -> Mapping[str, tuple[int, ...]]:
        """The requests of the next round, by host; none if the query is over, which ``phase`` tells then.

        Raises ValueError while requests of the last round are open.
        """
        if self.open:
            raise ValueError(f"round {self.round} still waits for {', '.join(self.open)}")
        if self.phase is not Phase.RUNNING:
            return {}
        self.round += 1
        if not self._remaining:
            self.phase = Phase.COMPLETE
        elif any(len(self.candidates[partition]) <= self.round for partition in self._remaining):
            self.phase = Phase.EXHAUSTED
        else:
            for partition in sorted(self._remaining):
                host = self.candidates[partition][self.round]
                self.open[host] = (*self.open.get(host, ()), partition)
        return dict(self.open)

    def answered(self, host: str, complete: Collection[int], failure: Failure | None = None) -> tuple[int, ...]:
        """A request is over: which partitions came completely, and what failed for the others of them.

        Return the partitions whose rows go to the client now, each once and whole (pull-queries.md#emitted-once,
        pull-queries.md#partitions-once).

        Raises ValueError if the host has no open request, or a partition is lacking without a failure.
        """
        if host not in self.open:
            raise ValueError(f"{host} has no open request")
        asked = self.open.pop(host)
        emitted = tuple(partition for partition in asked if partition in complete)
        lacking = [partition for partition in asked if partition not in complete]
        if lacking and failure is None:
            raise ValueError(f"{host} gave neither an answer nor a reason for partition {lacking[0]}")
        self.attempts += [Attempt(partition, host, None) for partition in emitted]
        self.attempts += [Attempt(partition, host, failure) for partition in lacking]
        self._remaining.difference_update(emitted)
        if lacking and failure is not None and not self.rules.falls_through(failure, self.shipped):
            self.phase = Phase.FAILED
        return emitted
