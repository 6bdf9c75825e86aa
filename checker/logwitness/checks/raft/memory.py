"""What a leader holds in memory for appends is bounded, whatever their acks level and however slow a follower is.

What it holds is counted here from what it did: an append is held from when it is enqueued until the entries that it
became were handed over. What the leader itself counts (``reserved``) has to be the same. The limits are stated by who
made the run (``memory_bytes``, ``max_in_flight`` in its configuration); without them nothing is judged.

Source: raft.md#bounded-memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from loghistory.schema import Kind

from ..codes import (
    APPEND,
    ENQUEUE,
    HAND_OVER,
    LEADER,
    NULL,
    ROLE,
    ROLE_LEADER,
    lookup,
)
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from .protocol import RAFT

CHECK = Check(
    id="bounded-memory",
    rule="What a leader holds in memory for appends stays within the limit, and so do its requests in flight.",
    source=("raft.md#bounded-memory", "raft.md#in-flight"),
    fact="an append enqueued, or a round handed over, by a leader whose limits are known",
    sentence={
        "memory": "Node {node} holds {held} bytes for appends in term {term}; {limit} are allowed.",
        "account": "Node {node} holds {held} bytes for appends in term {term}, and counts {reserved}.",
        "in flight": "Node {node} has {count} unanswered requests to one follower in term {term}; {limit} are allowed.",
    },
    kinds=(Kind.LEADER, Kind.ENQUEUE),
    columns=("node", "bytes", "reserved"),
)

_OFFICE = frozenset(
    {
        Kind.LEADER,
        Kind.START,
        Kind.TERM,
        Kind.ROLE,
        Kind.CRASH,
        Kind.POWER_LOSS,
        Kind.STOP,
        Kind.STORAGE_ERROR,
    }
)
_MEMORY = frozenset({Kind.ENQUEUE, Kind.HAND_OVER})
_RARE = lookup(_OFFICE | _MEMORY)
_ALL = lookup(_OFFICE | _MEMORY | {Kind.APPEND})


@dataclass(slots=True)
class _Office:
    """What one leader holds, in bytes of which an append counts as the limit at most."""

    term: int
    enqueued: bool = False
    held: int = 0
    written: dict[int, tuple[int, int]] = field(default_factory=dict)  # first offset -> last offset, bytes


class MemoryFold:
    """Judges the leaders of one log; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._limit = setting.memory_bytes
        self._most = setting.max_in_flight
        self._tally = Tally(CHECK, setting.keep)
        self._offices: dict[int, _Office] = {}

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        if self._limit is None:
            return
        # An append counts only for who has enqueued one: a history without memory is passed over quickly.
        some = columns.where(np.flatnonzero(_RARE[columns.kind]))
        if (some.kind == ENQUEUE).any() or any(office.held for office in self._offices.values()):
            some = columns.where(np.flatnonzero(_ALL[columns.kind]))
        rows = some.lists()
        for at, (kind, node) in enumerate(zip(rows.kind, rows.node, strict=True)):
            if kind == LEADER:
                self._offices[node] = _Office(rows.term[at])
            elif kind in (APPEND, ENQUEUE, HAND_OVER):
                office = self._offices.get(node)
                if office is not None:
                    self._count(rows, at, kind, office)
            elif not (kind == ROLE and rows.role[at] == ROLE_LEADER):
                self._offices.pop(node, None)

    def _count(self, rows: Columns, at: int, kind: int, office: _Office) -> None:
        assert self._limit is not None
        first, last = rows.offset[at], rows.last_offset[at]
        if kind == APPEND:
            if rows.value[at] != NULL:
                office.written[first] = last, min(rows.bytes[at], self._limit)
            return
        if kind == HAND_OVER and not office.enqueued:
            return  # what was enqueued is not in the history
        office.enqueued = True
        self._tally.judged += 1
        if kind == ENQUEUE:
            office.held += min(rows.bytes[at], self._limit)
        else:
            while first <= last and first in office.written:
                end, size = office.written.pop(first)
                office.held -= size
                first = end + 1
        self._judge(rows, at, kind, office)

    def _judge(self, rows: Columns, at: int, kind: int, office: _Office) -> None:
        assert self._limit is not None
        seq, reserved, count = rows.seq[at], rows.reserved[at], rows.records[at]
        said = {"node": rows.node[at], "term": office.term}
        if office.held > self._limit:
            self._tally.violation(seq, way="memory", held=office.held, limit=self._limit, **said)
        elif reserved != office.held:
            self._tally.violation(seq, way="account", held=office.held, reserved=reserved, **said)
        elif kind == HAND_OVER and self._most is not None and count > self._most:
            self._tally.violation(seq, way="in flight", count=count, limit=self._most, **said)

    def violated(self) -> frozenset[str]:
        """The check, if it is violated so far (`Watchful`)."""
        return violated((self._tally,))

    def finish(self) -> Verdicts:
        """Answer."""
        return Verdicts((self._tally.outcome(),))


FAMILY = Family(
    "memory",
    (CHECK,),
    _OFFICE | _MEMORY | {Kind.APPEND},
    ("node", "term", "role", "offset", "last_offset", "value", "bytes", "count", "reserved"),
    MemoryFold,
    RAFT,
)
