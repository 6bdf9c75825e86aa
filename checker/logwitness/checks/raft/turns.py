"""Whose turn it is: of appends that wait for memory, of followers without a free slot, of the parts of a snapshot.

All of it is rare: where nothing waits and nothing is sent in parts, nothing is looked at. What a node had waiting is
forgotten when its office ends, what it had of a snapshot when it starts.

Sources: raft.md#memory-units, raft.md#in-flight, raft.md#snapshot-transfer.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind
from loghistory.vocabularies.memory import ReadBack

from ..codes import (
    ENDS,
    ENQUEUE,
    LEADER,
    NULL,
    PART,
    READ_BACK,
    REASONS,
    ROLE,
    ROLE_LEADER,
    START,
    TERM,
    WAIT,
    WITHDRAW,
    among,
)
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from .protocol import RAFT

WAITS = Check(
    id="waits-in-turn",
    rule="Appends that wait for the memory of a leader get it in the order in which they came, and before all that "
    "came later.",
    source=("raft.md#memory-units",),
    fact="an append that a leader enqueues while appends are recorded to wait",
    sentence="Node {node} enqueued value {value} in term {term} while value {other} waited for memory before it.",
    kinds=(Kind.WAIT, Kind.ENQUEUE),
    columns=("node", "value"),
)
SLOTS = Check(
    id="slots-are-waited-for",
    rule="What a follower without a free slot is to be sent waits in memory; it is not read back from the log.",
    source=("raft.md#in-flight",),
    fact="a follower that a leader with a known number of slots begins to read back for",
    sentence="Node {node} began to read from its log what node {peer} lacks behind offset {offset}, because it had "
    "{number} unanswered requests; with {limit} it has to wait.",
    kinds=(Kind.READ_BACK,),
    columns=("node", "peer", "count", "reason"),
)
PARTS = Check(
    id="parts-in-order",
    rule="A node takes the parts of a snapshot one behind the other; a part at the beginning starts over.",
    source=("raft.md#snapshot-transfer",),
    fact="a part of a snapshot that a node takes",
    sentence="Node {node} took a part of the snapshot of all up to offset {offset} that goes behind {count} bytes; "
    "it had {held} of it.",
    kinds=(Kind.PART,),
    columns=("node", "offset", "count", "bytes"),
)

_RARE = (WAIT, WITHDRAW, READ_BACK, PART)
_WITH_WAITERS = (ENQUEUE, LEADER, TERM, ROLE)
_ROUND = REASONS[ReadBack.ROUND]


class _Event(NamedTuple):
    seq: int
    kind: int
    node: int
    term: int
    role: int
    value: int
    peer: int
    offset: int
    records: int
    bytes: int
    reason: int


class _Passed(NamedTuple):
    """An append that was enqueued while another one waited: since which event, by which, in which term, its value."""

    since: int
    seq: int
    term: int
    value: int


class TurnsFold:
    """Judges whose turn it was in one log; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._slots = setting.max_in_flight
        self._tallies = {check.id: Tally(check, setting.keep, setting.seen) for check in (WAITS, SLOTS, PARTS)}
        self._waiting: dict[int, list[tuple[int, int]]] = {}  # by node: who waits, and by which event
        self._passed: dict[tuple[int, int], list[_Passed]] = {}  # by node and value: who came first meanwhile
        self._more: Counter[tuple[int, int]] = Counter()  # and how many more
        self._keep = max(setting.keep, 1)
        self._held: dict[int, tuple[int, int, int]] = {}  # by node: of the snapshot up to there so many bytes, by which

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        telling = among(columns.kind, (START, *_RARE))
        if self._waiting or (columns.kind == WAIT).any():
            telling |= among(columns.kind, (*_WITH_WAITERS, *ENDS))
        for row in columns.rows(np.flatnonzero(telling & (columns.node >= 0)), *_Event._fields):
            self._event(_Event(*row))

    def _event(self, e: _Event) -> None:
        if e.kind in (WAIT, WITHDRAW):
            self._decide(e.node, e.value)
        if e.kind == WAIT:
            self._waiting.setdefault(e.node, []).append((e.value, e.seq))
        elif e.kind == WITHDRAW:
            self._no_more(e)
        elif e.kind == ENQUEUE:
            self._enqueued(e)
        elif e.kind == READ_BACK:
            self._read_back(e)
        elif e.kind == PART:
            self._part(e)
        elif e.kind != ROLE or e.role != ROLE_LEADER:
            self._waiting.pop(e.node, None)
            for node, value in [each for each in self._passed if each[0] == e.node]:
                self._decide(node, value)
        if e.kind == START:
            self._held[e.node] = NULL, 0, e.seq

    def _no_more(self, e: _Event) -> None:
        """An append does not wait any more: the first of that value."""
        waiting = self._waiting.get(e.node, [])
        found = next((each for each in waiting if each[0] == e.value), None)
        if found is not None:
            waiting.remove(found)
        if not waiting:
            self._waiting.pop(e.node, None)

    def _enqueued(self, e: _Event) -> None:
        if e.node not in self._waiting or e.value == NULL:
            return
        self._decide(e.node, e.value, waited=True)
        self._tallies[WAITS.id].judged += 1
        first, since = self._waiting[e.node][0]
        if first != e.value:
            passed = self._passed.setdefault((e.node, first), [])
            if len(passed) < self._keep:
                passed.append(_Passed(since, e.seq, e.term, e.value))
            else:
                self._more[e.node, first] += 1
        self._no_more(e)

    def _decide(self, node: int, value: int, *, waited: bool = False) -> None:
        """Who came before a value that waited came too early, if that waited on and is enqueued now; else it may have
        been withdrawn before, where that is never recorded."""
        rests_on, tally = () if waited else (Kind.WITHDRAW,), self._tallies[WAITS.id]
        for since, seq, term, other in self._passed.pop((node, value), ()):
            tally.violation(since, seq, rests_on=rests_on, node=node, term=term, value=other, other=value)
        if more := self._more.pop((node, value), 0):
            tally.more(more, rests_on)

    def _read_back(self, e: _Event) -> None:
        if self._slots is None:
            return
        tally = self._tallies[SLOTS.id]
        tally.judged += 1
        if e.reason == _ROUND and e.records >= self._slots:
            number, limit = e.records, self._slots
            tally.violation(e.seq, node=e.node, peer=e.peer, offset=e.offset, number=number, limit=limit)

    def _part(self, e: _Event) -> None:
        tally = self._tallies[PARTS.id]
        known = self._held.get(e.node)
        self._held[e.node] = e.offset, e.records + e.bytes, e.seq
        if known is None and e.records:
            tally.unjudged += 1
            return
        tally.judged += 1
        last, size, shown = known or (NULL, 0, e.seq)
        held = size if last == e.offset else 0
        if e.records not in (0, held):
            tally.violation(shown, e.seq, node=e.node, offset=e.offset, count=e.records, held=held)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated(self._tallies.values())

    def finish(self) -> Verdicts:
        """One outcome for each check, once all events were taken."""
        for node, value in [*self._passed]:
            self._decide(node, value)
        return Verdicts(tuple(tally.outcome() for tally in self._tallies.values()))


HISTORIES = """
== waits-in-turn holds
# Two wait; one is given up, and the other one is next. A third one need not wait.
config voters=1,2,3
n1 start
n1 wait value=10
n1 wait value=11
n1 withdraw value=10
n1 enqueue v11 all bytes=60 reserved=60
n1 enqueue v12 all bytes=60 reserved=60

== waits-in-turn violated
config voters=1,2,3
n1 start
* n1 wait value=10 term=1
n1 wait value=11 term=1
* n1 enqueue v11 all bytes=20 reserved=20 term=1
n1 enqueue v10 all bytes=60 reserved=80 term=1

== waits-in-turn violated
# The one that waited may have been given up, but not before, for that is recorded where it happens.
config voters=1,2,3
n1 start
* n1 wait value=10 term=1
n1 wait value=11 term=1
* n1 enqueue v11 all bytes=20 reserved=20 term=1
n1 withdraw value=10

== waits-in-turn undecided
# Here nothing of the kind is recorded.
config voters=1,2,3
n1 start
n1 wait value=10 term=1
n1 wait value=11 term=1
n1 enqueue v11 all bytes=20 reserved=20 term=1

== waits-in-turn holds
# Who leads again has nobody waiting.
config voters=1,2,3
n1 start
n1 wait value=9
n1 enqueue v9 all bytes=60 reserved=60
n1 wait value=10
n1 term 2
n1 enqueue v11 all bytes=20 reserved=20

== slots-are-waited-for holds
config voters=1,2,3 max_in_flight=2
n1 start
n1 read_back peer=2 offset=3 count=2 reason=silent
n1 read_back peer=2 offset=3 count=2 reason=answer
n1 read_back peer=3 offset=3 count=1 reason=round

== slots-are-waited-for violated
config voters=1,2,3 max_in_flight=2
n1 start
* n1 read_back peer=2 offset=3 count=2 reason=round

== parts-in-order holds
# The second part comes twice, since the node started again; a later snapshot starts over.
config voters=1,2,3
n1 start
n1 part offset=7 count=0 bytes=16
n1 part offset=7 count=16 bytes=16
n1 crash
n1 start
n1 part offset=7 count=0 bytes=16
n1 part offset=7 count=16 bytes=16
n1 part offset=9 count=0 bytes=16

== parts-in-order violated
config voters=1,2,3
n1 start
* n1 part offset=7 count=0 bytes=16
* n1 part offset=7 count=32 bytes=16

== parts-in-order violated
# What it had of another snapshot, or before it started, is not what this part follows.
config voters=1,2,3
* n1 start
* n1 part offset=7 count=16 bytes=16
"""

FAMILY = Family(
    "turns",
    (WAITS, SLOTS, PARTS),
    frozenset(
        {
            *(Kind.WAIT, Kind.WITHDRAW, Kind.ENQUEUE, Kind.READ_BACK, Kind.PART, Kind.LEADER, Kind.TERM, Kind.ROLE),
            *(Kind.START, *END_KINDS),
        }
    ),
    ("node", "term", "role", "value", "peer", "offset", "count", "bytes", "reason"),
    TurnsFold,
    RAFT,
    histories=HISTORIES,
)
