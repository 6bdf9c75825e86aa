"""Logs that are compacted by key: what a node removed, what it was told of gaps, and what is left at the end.

Of each log that the history shows it is known which batch of which key every node holds. Where nothing has a key and
nothing is compacted, nothing is done. Sources: ghost-batches.md#compaction, ghost-batches.md#invariants.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind

from ..codes import (
    APPEND,
    COMMIT,
    COMPACT,
    ENDS,
    FAULT,
    FAULT_WIPE,
    GAP,
    NO_NODE,
    NULL,
    START,
    STOP,
    TRIM,
    TRUNCATE,
    among,
)
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from .protocol import RAFT

TERM = Check(
    id="ghost-term",
    rule="A gap that a node is told of reaches from the end of its log to the batch behind it, and has the term of "
    "that batch.",
    source=("ghost-batches.md#ghost-term", "ghost-batches.md#fill-gaps"),
    fact="a gap with the batch that its node appends behind it",
    sentence={
        "term": "Node {node} was told of a gap up to offset {last} in term {term}; the batch that it appended behind "
        "it is of term {behind}.",
        "before": "Node {node} was told of a gap from offset {offset} on, when its log ended at offset {end}.",
        "behind": "Node {node} was told of a gap up to offset {last}, and the next batch that it appended lies at "
        "offset {offset}.",
    },
    kinds=(Kind.GAP, Kind.APPEND),
    columns=("node", "offset", "last_offset", "entry_term"),
)
EXPLAINED = Check(
    id="gaps-are-explained",
    rule="A node compacts only whole batches with a key, of which it holds a later one that is committed as far as it "
    "knows; and it is told of a gap only where somebody compacted.",
    source=("ghost-batches.md#gaps-are-explained", "ghost-batches.md#superseded", "ghost-batches.md#never-removed"),
    fact="a batch that a node compacts away, or a gap that it is told of",
    sentence={
        "part": "Node {node} compacted away a part of the batch at offsets {offset} to {last}.",
        "unkeyed": "Node {node} compacted away the batch at offset {offset}, which has no key.",
        "newest": "Node {node} compacted away the batch of key {key} at offset {offset} without holding a later one.",
        "early": "Node {node} compacted away the batch of key {key} at offset {offset}; the next one, at offset "
        "{later}, is above its commit index {commit}.",
        "untold": "Node {node} was told of a gap from offset {offset} to {last}, but no node had compacted away all of "
        "that.",
    },
    kinds=(Kind.COMPACT,),
    columns=("node", "offset", "last_offset"),
    from_start=True,
)
NEWEST = Check(
    id="newest-values-agree",
    rule="At the end all nodes that run, or stopped gracefully, and have all that is committed hold the same newest "
    "batch of each key.",
    source=("ghost-batches.md#newest-values-agree",),
    fact="a key on a node that has all that is committed",
    sentence="Node {node} has all up to offset {commit} but lacks the newest batch of key {key}, which node {other} "
    "holds at offset {offset}.",
    kinds=(Kind.APPEND,),
    columns=("node", "offset", "key", "dirty", "commit"),
)

_TELLING = (APPEND, COMMIT, COMPACT, GAP, TRUNCATE, TRIM, START, FAULT, *ENDS)


class _Event(NamedTuple):
    seq: int
    kind: int
    node: int
    f: int
    offset: int
    last_offset: int
    entry_term: int
    key: int
    dirty: int
    commit: int


@dataclass(slots=True)
class _Node:
    """The log of a node: its batches by base offset, all that it holds from ``known`` on."""

    known: int
    batches: dict[int, _Event] = field(default_factory=dict)
    bases: list[int] = field(default_factory=list)  # in order; and by key
    of_key: dict[int, list[int]] = field(default_factory=dict)
    gaps: list[_Event] = field(default_factory=list)  # the gaps behind which it has not appended yet
    last: _Event | None = None  # that stated its offsets
    runs: bool = True  # or has stopped gracefully

    def append(self, e: _Event) -> None:
        """Hold a batch, in place of what reaches its offset or further."""
        self.cut(e.offset)
        self.batches[e.offset] = e
        self.bases.append(e.offset)
        self.of_key.setdefault(e.key, []).append(e.offset)

    def cut(self, offset: int) -> None:
        """Forget what reaches ``offset`` or further."""
        while self.bases and self.batches[self.bases[-1]].last_offset >= offset:
            self.of_key[self.batches.pop(self.bases.pop()).key].pop()

    def remove(self, first: int, last: int) -> list[_Event]:
        """Forget the batches that begin from ``first`` to ``last``; return them."""
        begin, end = bisect_left(self.bases, first), bisect_right(self.bases, last)
        gone = [self.batches.pop(base) for base in self.bases[begin:end]]
        del self.bases[begin:end]
        for batch in gone:
            self.of_key[batch.key].remove(batch.offset)
        return gone

    def covering(self, offset: int) -> _Event | None:
        """The batch that begins last of those that begin at ``offset`` or before."""
        at = bisect_right(self.bases, offset)
        return self.batches[self.bases[at - 1]] if at else None

    def following(self, batch: _Event) -> _Event | None:
        """The next batch of its key."""
        offsets = self.of_key.get(batch.key, [])
        at = bisect_right(offsets, batch.offset)
        return self.batches[offsets[at]] if at < len(offsets) else None


class CompactionFold:
    """Judges the compaction of one log; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._term = Tally(TERM, setting.keep)
        self._explained = Tally(EXPLAINED, setting.keep)
        self._newest = Tally(NEWEST, setting.keep)
        self._nodes: dict[int, _Node] = {}
        self._begun = False
        self._gone: list[tuple[int, int]] = []  # what was compacted, by anybody: ranges that do not touch, in order

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log; before the first key or compaction there is nothing to remember."""
        mask = among(columns.kind, _TELLING)
        if not self._begun:
            first = np.flatnonzero((columns.key != NULL) | among(columns.kind, (COMPACT, GAP)))
            if not len(first):
                return
            self._begun = True
            mask[: first[0]] = False
        for row in columns.rows(mask, *_Event._fields):
            self._see(_Event(*row))

    def _see(self, e: _Event) -> None:
        if e.kind == FAULT:
            if e.f == FAULT_WIPE:
                for number, emptied in self._nodes.items():
                    if e.node in (number, NO_NODE):
                        emptied.cut(0)
                        emptied.known = 0
            return
        if e.node == NO_NODE:
            return
        if e.kind in ENDS:
            if e.node in self._nodes:
                self._nodes[e.node].runs = e.kind == STOP  # what it has stopped with is there
                self._nodes[e.node].gaps.clear()
            return
        if e.dirty == NULL:
            return
        node = self._nodes.get(e.node)
        if node is None:
            node = self._nodes[e.node] = _Node(e.offset if e.kind == APPEND else e.dirty + 1)
        if e.kind == START:
            if node.last is not None and e.dirty > node.last.dirty:
                node.known = max(node.known, e.dirty + 1)  # the end of its last record may be lost
            node.cut(e.dirty + 1)
            node.gaps.clear()
        elif e.kind == APPEND:
            self._appends(node, e)
        elif e.kind == COMPACT:
            self._compacts(node, e)
        elif e.kind == GAP:
            node.gaps.append(e)
            self._gap_reported(e)
        elif e.kind == TRUNCATE:
            node.cut(e.offset)
        elif e.kind == TRIM:
            if e.dirty < e.offset:
                node.cut(0)
            node.remove(0, e.offset - 1)
            node.known = max(node.known, e.offset)
        node.last, node.runs = e, True

    def _appends(self, node: _Node, e: _Event) -> None:
        passed = [gap for gap in node.gaps if gap.offset <= e.last_offset]
        for gap in passed:
            self._term.judged += 1
            self._gap_passed(node, gap, passed, e)
        node.gaps = [gap for gap in node.gaps if gap.offset > e.last_offset]
        node.append(e)

    def _gap_passed(self, node: _Node, gap: _Event, passed: list[_Event], e: _Event) -> None:
        """Judge a gap by the batch that its node appends behind it; several, one behind the other, may be one."""
        if gap.entry_term != e.entry_term:
            terms = {"term": gap.entry_term, "behind": e.entry_term}
            self._term.violation(gap.seq, e.seq, way="term", node=e.node, last=gap.last_offset, **terms)
        elif e.offset != gap.last_offset + 1 and all(each.offset != gap.last_offset + 1 for each in passed):
            place = {"last": gap.last_offset, "offset": e.offset}
            self._term.violation(gap.seq, e.seq, way="behind", node=e.node, **place)
        elif node.last is not None and gap.offset - 1 not in (node.last.dirty, *(each.last_offset for each in passed)):
            events = sorted({node.last.seq, gap.seq, e.seq})
            self._term.violation(*events, way="before", node=e.node, offset=gap.offset, end=node.last.dirty)

    def _compacts(self, node: _Node, e: _Event) -> None:
        """Judge each batch that goes by what the node holds of its key behind it."""
        begun = node.covering(e.offset - 1)
        gone = node.remove(e.offset, e.last_offset)
        if begun is not None and begun.last_offset >= e.offset:
            self._in_part(begun, e)
        elif not gone:
            self._explained.unjudged += 1
        for batch in reversed(gone):
            if batch.last_offset > e.last_offset:
                self._in_part(batch, e)
                continue
            later = node.following(batch)
            if batch.key != NULL and batch.offset < node.known and (later is None or later.last_offset > e.commit):
                self._explained.unjudged += 1  # the later one may be among what is not known
                continue
            self._explained.judged += 1
            said: dict[str, Any] = {"node": e.node, "offset": batch.offset}
            if batch.key == NULL:
                self._explained.violation(batch.seq, e.seq, way="unkeyed", **said)
            elif later is None:
                self._explained.violation(batch.seq, e.seq, way="newest", key=batch.key, **said)
            elif later.last_offset > e.commit:
                said |= {"key": batch.key, "later": later.offset, "commit": e.commit}
                self._explained.violation(*sorted((batch.seq, later.seq, e.seq)), way="early", **said)
        self._note_gone(e.offset, e.last_offset)

    def _in_part(self, batch: _Event, e: _Event) -> None:
        self._explained.judged += 1
        self._explained.violation(
            batch.seq, e.seq, way="part", node=e.node, offset=batch.offset, last=batch.last_offset
        )

    def _note_gone(self, first: int, last: int) -> None:
        at = bisect_right(self._gone, (first - 1, -1))
        if at and self._gone[at - 1][1] >= first - 1:
            at -= 1
        end = at
        while end < len(self._gone) and self._gone[end][0] <= last + 1:
            first, last = min(first, self._gone[end][0]), max(last, self._gone[end][1])
            end += 1
        self._gone[at:end] = [(first, last)]

    def _gap_reported(self, e: _Event) -> None:
        """Judge a gap by what anybody has compacted so far; nobody is accused where no compaction is recorded."""
        if not self._gone:
            self._explained.unjudged += 1
            return
        self._explained.judged += 1
        at = bisect_right(self._gone, (e.offset, np.inf)) - 1
        if at < 0 or self._gone[at][1] < e.last_offset:
            self._explained.violation(e.seq, way="untold", node=e.node, offset=e.offset, last=e.last_offset)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._term, self._explained))

    def finish(self) -> Verdicts:
        """The outcomes; whether the newest values agree is judged here."""
        self._judge_newest()
        return Verdicts(tuple(each.outcome() for each in (self._term, self._explained, self._newest)))

    def _judge_newest(self) -> None:
        running = {n: each for n, each in self._nodes.items() if each.runs and each.last is not None}
        top = max((each.last.commit for each in running.values() if each.last), default=NULL)
        whole = {n: each for n, each in running.items() if each.last and each.last.commit == each.last.dirty == top}
        newest: dict[int, tuple[_Event, int]] = {}
        for number in sorted(whole):
            for batch in whole[number].batches.values():
                if batch.key != NULL and (batch.key not in newest or newest[batch.key][0].offset < batch.offset):
                    newest[batch.key] = batch, number
        for number in sorted(whole):
            for key in sorted(newest):
                batch, other = newest[key]
                if number == other or batch.offset < whole[number].known:
                    continue
                self._newest.judged += 1
                held = whole[number].batches.get(batch.offset)
                if held is None or held.key != key:
                    last = whole[number].last
                    assert last is not None
                    said: dict[str, Any] = {
                        "node": number,
                        "commit": top,
                        "key": key,
                        "other": other,
                        "offset": batch.offset,
                    }
                    self._newest.violation(*sorted((batch.seq, last.seq)), **said)


FAMILY = Family(
    "compaction",
    (TERM, EXPLAINED, NEWEST),
    END_KINDS | {Kind.APPEND, Kind.COMMIT, Kind.COMPACT, Kind.GAP, Kind.TRUNCATE, Kind.TRIM, Kind.START, Kind.FAULT},
    ("node", "f", "offset", "last_offset", "entry_term", "key", "dirty", "commit"),
    CompactionFold,
    RAFT,
)
