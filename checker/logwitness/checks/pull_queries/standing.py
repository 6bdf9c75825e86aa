"""Where a server stands: at which position it answers, of which partitions it reports, and in which of its lives.

Sources: pull-queries.md#answers-where-it-is, pull-queries.md#reports-what-it-keeps, pull-queries.md#serves-count-up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loghistory.schema import Kind

from ..codes import FAULT, FAULT_WIPE, code, lookup
from ..columns import Columns, Ints, groups
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..words import Words
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
_RARE = (Kind.SERVE, Kind.ASSIGNED, Kind.REPORT, Kind.FAULT)
_IS_RARE, _IS_PLACED = lookup(_RARE), lookup((Kind.FOLD, Kind.ANSWER))
_PARTITIONS = 32
"""Bits of a partition in a number for it and its node."""


class StandingFold:
    """Judges where the servers of one run stand; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tallies = {check.id: Tally(check, setting.keep, setting.seen) for check in CHECKS}
        self._answers, self._reports, self._counts = self._tallies.values()
        self._words: Words = setting.words
        self._serves: dict[int, tuple[int, int]] = {}  # by node: the number of its life, and the event
        self._hosts: dict[int, str | None] = {}
        self._began: dict[int, int] = {}
        self._assigned: dict[int, tuple[Assigned | None, int]] = {}
        self._passed: dict[int, dict[int, tuple[int, int]]] = {}  # by node and partition: offsets, and the event

    def feed(self, columns: Columns) -> None:
        """Take the next events: what happens between two lives of servers at once."""
        rare = np.flatnonzero(_IS_RARE[columns.kind])
        placed = np.flatnonzero(_IS_PLACED[columns.kind])
        begun = rare[columns.kind[rare] == _SERVE].tolist()
        for begin, end in zip([0, *begun], [*begun, len(columns.kind)], strict=True):
            low, high = np.searchsorted(rare, (begin, end))
            for event in columns.rows(rare[low:high], "seq", "kind", "node", "f", "stamp", "value", "incarnation"):
                self._rare(*event)
            low, high = np.searchsorted(placed, (begin, end))
            self._place(columns, placed[low:high])

    def _rare(self, seq: int, kind: int, node: int, f: int, stamp: int, value: int, incarnation: int) -> None:
        if kind == _SERVE:
            before, since = self._serves.get(node, (incarnation - 1, -1))
            self._counts.judged += since >= 0
            if incarnation <= before:
                self._counts.violation(since, seq, node=node, to=incarnation, before=before)
            self._serves[node], self._passed[node], self._began[node] = (incarnation, seq), {}, seq
            server = said(self._words, value, Server)
            self._hosts[node] = None if server is None else server.host
            self._assigned.pop(node, None)
        elif kind == FAULT:
            if f == FAULT_WIPE:
                self._serves.pop(node, None)
        elif node in self._hosts:
            if kind == _ASSIGNED:
                self._assigned[node] = said(self._words, value, Assigned), seq
            else:
                self._reported(seq, node, stamp, said(self._words, value, Positions))

    def _reported(self, seq: int, node: int, stamp: int, positions: Positions | None) -> None:
        host, (assigned, folded) = self._hosts[node], self._assigned.get(node, (None, -1))
        if assigned is None or host is None or positions is None:
            return
        self._reports.judged += 1
        kept = {at for at, (active, rest) in enumerate(assigned.placements) if host in (active, *rest)}
        if kept != {*positions}:
            self._reports.violation(
                self._began[node], folded, seq, node=node, stamp=stamp, said=sorted(positions), kept=sorted(kept)
            )

    def _place(self, columns: Columns, which: Ints) -> None:
        """Hold answers against the folds before them; no server begins to serve between these events."""
        numbers = columns.node[which].astype(np.int64) << _PARTITIONS | columns.partition[which]
        wrong: list[tuple[int, int, dict[str, Any]]] = []  # by answer: the fold before it
        for number, own in groups(numbers, which):
            node, partition = number >> _PARTITIONS, number & ((1 << _PARTITIONS) - 1)
            passed = self._passed.get(node)
            if passed is None:
                continue
            folds = columns.kind[own] == _FOLD
            last = np.maximum.accumulate(np.where(folds, np.arange(len(own)), -1))
            before = passed.get(partition)
            answers = np.flatnonzero(~folds & ((last >= 0) | (before is not None)))
            self._answers.judged += len(answers)
            ends, positions = columns.last_offset[own] + 1, columns.offset[own]
            due = np.where(last >= 0, ends[np.maximum(last, 0)], -1 if before is None else before[0])
            for at in answers[positions[answers] != due[answers]].tolist():
                fold = int(columns.seq[own[last[at]]]) if last[at] >= 0 else before[1] if before else -1
                place: dict[str, Any] = {"node": node, "partition": partition, "position": int(positions[at])}
                place["passed"] = int(due[at])
                wrong.append((int(columns.seq[own[at]]), fold, place))
            if last[-1] >= 0:
                passed[partition] = int(ends[last[-1]]), int(columns.seq[own[last[-1]]])
        for seq, fold, place in sorted(wrong, key=lambda each: each[0]):
            self._answers.violation(fold, seq, **place)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated(self._tallies.values())

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken."""
        return Verdicts(tuple(tally.outcome() for tally in self._tallies.values()))


FAMILY = Family(
    "pull_queries_standing",
    CHECKS,
    frozenset({*_RARE, Kind.FOLD, Kind.ANSWER}),
    ("node", "partition", "offset", "last_offset", "stamp", "value", "f", "incarnation"),
    StandingFold,
    PULL_QUERIES,
    reads_texts=True,
)
