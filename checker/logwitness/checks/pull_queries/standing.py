"""Where a server stands: at which position it answers, of which partitions it reports, and in which of its lives.

Sources: pull-queries.md#answers-where-it-is, pull-queries.md#reports-what-it-keeps, pull-queries.md#serves-count-up.
"""

from __future__ import annotations

import numpy as np

from loghistory.schema import Kind

from ..codes import FAULT, FAULT_WIPE, code, lookup
from ..columns import Columns
from ..contract import Check, Family, Setting
from .plain_queries import READS, QueryFold, state
from .protocol import PULL_QUERIES, Assigned, Positions, Server, said

ANSWERS = Check(
    id="answers-where-it-is",
    rule="The position of an answer is what its server has passed of the changelog.",
    source=("pull-queries.md#answers-where-it-is", "pull-queries.md#table-at-position"),
    fact="an answer for a partition of which its server has passed offsets since it began to serve",
    sentence="Node {node} answered for partition {partition} at position {position}, but it had passed {passed} "
    "offsets of its changelog.",
    kinds=(Kind.SERVE, Kind.FOLD, Kind.ANSWER),
    columns=("node", "partition", "offset"),
)
REPORTS = Check(
    id="reports-what-it-keeps",
    rule="A lag report is of the partitions that its server keeps, by the assignment that it folded last.",
    source=("pull-queries.md#reports-what-it-keeps", "pull-queries.md#report-replaces"),
    fact="a report of a server that has folded an assignment since it began to serve",
    sentence="Node {node} reported at {stamp} on partitions {said}, but it keeps partitions {kept}.",
    kinds=(Kind.SERVE, Kind.ASSIGNED, Kind.REPORT),
    columns=("node", "stamp", "epoch"),
)
COUNTS = Check(
    id="serves-count-up",
    rule="Each life of a server has a higher number than the one before.",
    source=("pull-queries.md#serves-count-up", "history-checks.md#incarnations-count-up"),
    fact="a life of a server after another",
    sentence="Node {node} serves as life {to}, after life {before}.",
    kinds=(Kind.SERVE,),
    columns=("node", "incarnation"),
)
CHECKS = (ANSWERS, REPORTS, COUNTS)

_SERVE, _ASSIGNED, _REPORT, _FOLD, _ANSWER = map(code, (Kind.SERVE, Kind.ASSIGNED, Kind.REPORT, Kind.FOLD, Kind.ANSWER))
_KINDS = frozenset({Kind.SERVE, Kind.ASSIGNED, Kind.REPORT, Kind.FAULT, Kind.FOLD, Kind.ANSWER})
_IS_WANTED = lookup(_KINDS)


class StandingFold(QueryFold):
    """Judges where the servers of one run stand; see the module."""

    checks = CHECKS
    reads = (*READS, "incarnation")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._answers, self._reports, self._counts = self._tallies.values()
        self._serves: dict[int, tuple[int, int]] = {}  # by node: the number of its life, and the event
        self._names: dict[int, str | None] = {}
        self._began: dict[int, int] = {}
        self._assigned: dict[int, tuple[Assigned | None, int]] = {}
        self._passed: dict[int, dict[int, tuple[int, int]]] = {}  # by node and partition: offsets, and the event

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        found, plain = self.plain(columns, {ANSWERS.id: state.STANDS}), None
        if found is not None:
            reports = found.right & (columns.kind == _REPORT)
            self._reports.judged += int(np.count_nonzero(reports))
            plain = reports | found.events | (found.of_placements & (columns.kind == _FOLD))
        rows = self.rows(columns, _IS_WANTED, plain)
        for at, (seq, kind, node) in enumerate(zip(rows.seq, rows.kind, rows.node, strict=True)):
            if kind == _SERVE:
                self._served(seq, node, rows.value[at], rows.incarnation[at])
            elif kind == FAULT:
                if rows.f[at] == FAULT_WIPE:
                    self._serves.pop(node, None)
            elif node in self._passed:
                if kind == _FOLD:
                    self._passed[node][rows.partition[at]] = rows.last_offset[at] + 1, seq
                elif kind == _ANSWER:
                    self._answered(seq, node, rows.partition[at], rows.offset[at])
                elif kind == _ASSIGNED:
                    self._assigned[node] = said(self._words, rows.value[at], Assigned), seq
                else:
                    self._reported(seq, node, rows.stamp[at], said(self._words, rows.value[at], Positions))

    def _served(self, seq: int, node: int, text: int, incarnation: int) -> None:
        before, since = self._serves.get(node, (incarnation - 1, -1))
        self._counts.judged += since >= 0
        if incarnation <= before:
            self._counts.violation(since, seq, node=node, to=incarnation, before=before)
        self._serves[node], self._passed[node], self._began[node] = (incarnation, seq), {}, seq
        server = said(self._words, text, Server)
        self._names[node] = None if server is None else server.host
        self._assigned.pop(node, None)

    def _answered(self, seq: int, node: int, partition: int, position: int) -> None:
        passed, folded = self._passed[node].get(partition, (position, -1))
        self._answers.judged += folded >= 0
        if position != passed:
            self._answers.violation(folded, seq, node=node, partition=partition, position=position, passed=passed)

    def _reported(self, seq: int, node: int, stamp: int, positions: Positions | None) -> None:
        host, (assigned, folded) = self._names[node], self._assigned.get(node, (None, -1))
        if assigned is None or host is None or positions is None:
            return
        self._reports.judged += 1
        kept = {at for at, (active, rest) in enumerate(assigned.placements) if host in (active, *rest)}
        if kept != {*positions}:
            self._reports.violation(
                self._began[node], folded, seq, node=node, stamp=stamp, said=sorted(positions), kept=sorted(kept)
            )


FAMILY = Family(
    "pull_queries_standing",
    CHECKS,
    _KINDS,
    StandingFold.reads,
    StandingFold,
    PULL_QUERIES,
    reads_texts=True,
)
