"""Who is removed from the assignment had been down for as long as that takes.

Who proposed an assignment is not recorded, but what every server could have proposed is: whom its checks took for down,
since when, and which assignment it had folded. Decisions are many and removals few, so of decisions only this is kept:
for each pair, when the first of those was made that said down one after the other, and the last.

Sources: pull-queries.md#removed-when-gone, pull-queries.md#assignment-epochs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind

from ..codes import FAULT, HEAL, NO_NODE, code, lookup
from ..columns import Array, Columns
from ..contract import Check, Family, Setting
from .protocol import EARLIEST, PULL_QUERIES, Assigned, ServerFold, rising, said
from .skimming import Cells, Nodes, no_rows, with_rows

CHECK = Check(
    id="removed-when-gone",
    rule="A host that an assignment removes had been considered down, for 10 s on end and since it became a member, by "
    "a server that had folded the assignment before.",
    source=("pull-queries.md#removed-when-gone", "pull-queries.md#assignment-epochs"),
    fact="an assignment that removes members",
    sentence="The assignment of epoch {epoch}, which node {node} folded, removes {hosts}; no server that had folded "
    "the one before had considered what it removes down for 10 s on end.",
    kinds=(Kind.ASSIGNED, Kind.SERVE),
    columns=("time", "node", "epoch"),
    looks_back=True,
)

_DECISIONS = frozenset({Kind.UP, Kind.DOWN})
_FEW = frozenset({Kind.SERVE, Kind.ASSIGNED, Kind.FAULT, Kind.HEAL}) | END_KINDS
_IS_DECISION, _IS_FEW, _IS_END = lookup(_DECISIONS), lookup(_FEW), lookup(END_KINDS)
_SERVE, _ASSIGNED, _DOWN = code(Kind.SERVE), code(Kind.ASSIGNED), code(Kind.DOWN)

_GONE = 9_000_000_000
"""Nanoseconds of being down from which on a removal is not objected to. The rule has 10 s; the last second may lack: a
process that is killed takes with it what it has not written yet."""
_FASTEST = 10
"""So many times faster than others a clock runs at most that a fault has set."""


class _Pairs(NamedTuple):
    """By row of a pair: whether the first node takes the second for down, since when, and when it decided last."""

    down: Cells
    since: Cells
    last: Cells


class _Decisions(NamedTuple):
    """Decisions; the columns of them that are read."""

    seq: Array
    time: Array
    node: Array
    peer: Array
    pair: Array
    down: Array


class _Stretch(NamedTuple):
    """From when on a host had been down for long enough, if it ever was, and when it was seen down last."""

    due: int
    last: int


_Stretches = dict[int, list[_Stretch]]
"""By node."""


@dataclass(slots=True)
class _Tenure:
    """A process under one assignment: its members, since when it goes by it, and who was up again meanwhile."""

    epoch: int = 0
    members: frozenset[str] = frozenset()
    folded: int = 0
    over: _Stretches = field(default_factory=lambda: defaultdict(list))


class _Seen(NamedTuple):
    """What a process saw under one assignment, and since when it went by it."""

    folded: int
    stretches: _Stretches

    def all_gone(self, nodes: list[int]) -> bool:
        """Whether a check saw all of these down, each for long enough."""
        of_each = [self.stretches.get(node, []) for node in nodes]
        return any(
            last >= self.folded and all(any(due <= last <= end for due, end in each) for each in of_each)
            for stretches in of_each
            for _, last in stretches
        )


class DepartureFold(ServerFold):
    """Judges removals in one run; see the module."""

    checks = (CHECK,)
    reads = ("time", "node", "peer", "f", "epoch", "value")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._tally = self._tallies[CHECK.id]
        self._clock = setting.words.code("clock")
        self._now = EARLIEST
        self._decided = False
        self._nodes = Nodes(compiled=setting.compiled)
        self._pairs = no_rows(_Pairs, compiled=True)
        self._tenures: dict[int, _Tenure] = defaultdict(_Tenure)
        self._past: dict[int, list[_Seen]] = defaultdict(list)  # of tenures that are over, by epoch
        self._assignments: dict[int, tuple[frozenset[str], int]] = {0: (frozenset(), -1)}  # by epoch, with the event
        self._set: Counter[int] = Counter()  # by node: faults that set its clock
        self._touched: dict[int, int] = {}  # and when it was set last

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        if not len(columns.seq):
            return
        columns = columns._replace(time=rising(columns.time, self._now))
        decisions = self._decisions(columns)
        names = ("seq", "time", "kind", "node", "f", "epoch", "value")
        done = 0
        for seq, time, kind, node, f, epoch, value in columns.rows(np.flatnonzero(_IS_FEW.take(columns.kind)), *names):
            if kind in (FAULT, HEAL) and f != self._clock:
                continue
            end = int(np.searchsorted(decisions.seq, seq))
            self._decide(_Decisions(*(column[done:end] for column in decisions)))
            done = end
            if kind in (FAULT, HEAL):
                self._set[node] = max(self._set[node] + (1 if kind == FAULT else -1), 0)
                self._touched[node] = time
            elif kind == _ASSIGNED:
                self._assigned(seq, time, node, epoch, said(self._words, value, Assigned))
            else:
                self._begins(node, _Tenure(), self._nodes.who.names)
                if kind == _SERVE:
                    self._hosts.serve(node, value)
        self._decide(_Decisions(*(column[done:] for column in decisions)))
        self._now = int(columns.time[-1])

    def _decisions(self, columns: Columns) -> _Decisions:
        which = np.flatnonzero(_IS_DECISION.take(columns.kind))
        seq, time, node, peer, kind = (
            getattr(columns, name)[which] for name in ("seq", "time", "node", "peer", "kind")
        )
        _, _, pair = self._nodes.of(node, peer)
        self._pairs = with_rows(self._pairs, self._nodes.sizes[1], {"down": 0})
        return _Decisions(seq, time, node, peer, pair, kind == _DOWN)

    def _decide(self, rows: _Decisions) -> None:
        """Take decisions that nothing else comes between."""
        if not len(rows.seq):
            return
        self._decided = True
        order = np.argsort(rows.pair, kind="stable")
        _, time, node, peer, pair, down = (column[order] for column in rows)
        firsts = np.flatnonzero(np.diff(pair, prepend=-1))
        was_down, last = np.roll(down, 1), np.roll(time, 1)
        was_down[firsts], last[firsts] = self._pairs.down[pair[firsts]], self._pairs.last[pair[firsts]]
        for at in np.flatnonzero(down != was_down).tolist():
            row = int(pair[at])
            if down[at]:
                self._pairs.since[row] = time[at]
            else:
                stretch = self._stretch(int(node[at]), int(self._pairs.since[row]), int(last[at]))
                self._tenures[int(node[at])].over[int(peer[at])].append(stretch)
        lasts = np.append(firsts[1:], len(pair)) - 1
        self._pairs.down[pair[lasts]], self._pairs.last[pair[lasts]] = down[lasts], time[lasts]

    def _stretch(self, node: int, since: int, last: int) -> _Stretch:
        fast = any(self._set[each] or self._touched.get(each, -1) >= since for each in (node, NO_NODE))
        return _Stretch(since + (_GONE // _FASTEST if fast else _GONE), last)

    def _seen(self, node: int) -> _Seen:
        """What a process has seen so far of those that it took for down and, it may be, takes for down still."""
        tenure = self._tenures[node]
        found = {peer: list(stretches) for peer, stretches in tenure.over.items()}
        for peer, row in self._nodes.pairs_of(node):
            if self._pairs.down[row]:
                stretch = self._stretch(node, int(self._pairs.since[row]), int(self._pairs.last[row]))
                found.setdefault(peer, []).append(stretch)
        return _Seen(tenure.folded, found)

    def _begins(self, node: int, tenure: _Tenure, anew: Collection[int | None]) -> None:
        """A process goes by another assignment, or by none yet; with the nodes ``anew`` it begins anew."""
        before = self._tenures[node].epoch
        if before and before + 1 not in self._assignments:
            self._past[before].append(self._seen(node))
        for peer, row in self._nodes.pairs_of(node):
            if peer in anew:
                self._pairs.down[row] = 0
        self._tenures[node] = tenure

    def _assigned(self, seq: int, time: int, node: int, epoch: int, assigned: Assigned | None) -> None:
        if assigned is None:
            return
        members = frozenset(assigned.members)
        if epoch not in self._assignments:
            self._assignments[epoch] = members, seq
            self._judge(seq, node, epoch)
        joined = {self._hosts.nodes.get(host) for host in members - self._tenures[node].members}
        self._begins(node, _Tenure(epoch, members, time), joined)

    def _judge(self, seq: int, node: int, epoch: int) -> None:
        members, before = self._assignments.get(epoch - 1, (None, -1))
        if members is None:
            self._tally.unjudged += 1
            return
        hosts = sorted(members - self._assignments[epoch][0])
        gone = [self._hosts.nodes.get(host, NO_NODE) for host in hosts]
        if NO_NODE in gone or not self._decided:
            self._tally.unjudged += bool(hosts)
        elif hosts:
            self._tally.judged += 1
            by_others = [self._seen(each) for each, tenure in self._tenures.items() if tenure.epoch == epoch - 1]
            if not any(seen.all_gone(gone) for seen in (*self._past.pop(epoch - 1, ()), *by_others)):
                place: dict[str, Any] = {"node": node, "epoch": epoch, "hosts": ", ".join(hosts)}
                self._tally.violation(before, seq, rests_on=(Kind.DOWN,), **place)


FAMILY = Family(
    "pull_queries_departures",
    (CHECK,),
    _DECISIONS | _FEW,
    DepartureFold.reads,
    DepartureFold,
    PULL_QUERIES,
    reads_texts=True,
)
