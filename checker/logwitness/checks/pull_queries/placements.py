"""Who keeps which partition, and what it may do with it: pass offsets in order, and answer.

Assignments follow from one another; a replica passes each offset of its changelog once; a server that is asked answers
what it may, and gives up the rest, for the reason that holds.

Sources: pull-queries.md#assignment, pull-queries.md#materialised-state, pull-queries.md#forward-target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from loghistory.schema import Kind

from ..codes import FAIL, INFO, INVOKE, OK, code, lookup
from ..columns import Columns
from ..contract import Check, Family, Setting
from .plain_queries import READS, QueryFold, state
from .protocol import PULL_QUERIES, Assigned, Positions, Queries, Query, Server, said
from .routing import within

STAYS = Check(
    id="active-stays",
    rule="An assignment adds one member or removes some. Replicas stay while they are members, the active as such; a "
    "lost active is replaced by one of its standbys; what is missing comes from the members with the fewest "
    "partitions.",
    source=("pull-queries.md#active-stays", "pull-queries.md#assignment-epochs"),
    fact="an epoch whose assignment, and the one before it, are known",
    sentence={
        "members": "The assignment of epoch {epoch}, which node {node} folded, neither adds one member to the one "
        "before nor removes any.",
        "active": "By the assignment of epoch {epoch}, which node {node} folded, {host} is the active of partition "
        "{partition}; {right} should be.",
        "replicas": "By the assignment of epoch {epoch}, which node {node} folded, partition {partition} is kept by "
        "{hosts}; it should be by {right}.",
    },
    kinds=(Kind.ASSIGNED, Kind.SERVE),
    columns=("node", "epoch"),
    looks_back=True,
)
ORDER = Check(
    id="folds-in-order",
    rule="A server passes the offsets of a changelog one after the other, from where its tables had been saved, and "
    "none that the changelog has not shown.",
    source=("pull-queries.md#folds-in-order", "pull-queries.md#saved-together"),
    fact="offsets of a changelog that a server passed",
    sentence={
        "next": "Node {node} passed the offsets from {first} on of partition {partition} after those below {passed}.",
        "first": "Node {node} began at offset {first} of partition {partition}, but it had passed at most {passed}.",
        "end": "Node {node} passed offset {last} of partition {partition}, but the changelog has {end:offset|offsets}.",
    },
    kinds=(Kind.FOLD, Kind.SERVE, Kind.CHANGELOG),
    columns=("node", "partition", "offset"),
    looks_back=True,
)
MAY = Check(
    id="targets-may-answer",
    rule="A server answers for a partition if it keeps it and, where standbys are not read, is its active after the "
    "takeover; the public implementation also asks for its own recorded lag. Else it gives up, and says why.",
    source=("pull-queries.md#targets-may-answer", "pull-queries.md#forward-target", "pull-queries.md#saved-together"),
    fact="a partition for which a server answered or that it gave up",
    sentence={
        "answered": "Node {node} answered for partition {partition} of operation {op}, but should have given up "
        "({reason}).",
        "refused": "Node {node} gave up partition {partition} of operation {op}, but should have answered.",
        "reason": "Node {node} gave up partition {partition} of operation {op} for the wrong reason; the right one is: "
        "{reason}.",
    },
    kinds=(Kind.ASSIGNED, Kind.INVOKE, Kind.SERVE),
    columns=("node", "op", "partition"),
    looks_back=True,
)
CHECKS = (STAYS, ORDER, MAY)

_KINDS = frozenset(
    {Kind.SERVE, Kind.CHANGELOG, Kind.FOLD, Kind.ASSIGNED, Kind.REPORT, Kind.REPORT_KEPT, Kind.ANSWER, Kind.GIVE_UP}
)
_SERVE, _CHANGELOG, _FOLD, _ASSIGNED, _REPORT, _REPORT_KEPT, _ANSWER = (
    code(kind)
    for kind in (
        Kind.SERVE,
        Kind.CHANGELOG,
        Kind.FOLD,
        Kind.ASSIGNED,
        Kind.REPORT,
        Kind.REPORT_KEPT,
        Kind.ANSWER,
    )
)
_OF_CLIENTS = frozenset({Kind.INVOKE, Kind.OK, Kind.FAIL, Kind.INFO})
_IS_WANTED = lookup(_KINDS | _OF_CLIENTS)
_NOTHING = Assigned(0, (), ())


def successor(last: Assigned, now: Assigned, partitions: int, standbys: int) -> list[tuple[list[str], list[str]]]:
    """By partition: who may be the active after the assignment ``last``, and all hosts, in this order chosen.

    ``now`` has the members, and tells which standbys became actives, which is for the lags to say.
    """
    members = sorted(set(now.members))
    before = [last.placements[each] if each < len(last.placements) else ("", ()) for each in range(partitions)]
    kept = [[host for host in dict.fromkeys((active, *rest)) if host in members] for active, rest in before]
    load = {host: sum(host in replicas for replicas in kept) for host in members}
    found = []
    for (active, _), replicas in zip(before, kept, strict=True):
        stayed = [active] if active in replicas else list(replicas)
        hosts = list(replicas)
        while len(hosts) < min(standbys + 1, len(members)):
            fewest = min((host for host in members if host not in hosts), key=lambda host: (load[host], host))
            hosts.append(fewest)
            load[fewest] += 1
        found.append((stayed or hosts[:1], hosts))
    return found


@dataclass(slots=True)
class _Life:
    """What a process of a server has: its assignment, how long it is the active, its own lag report, offsets passed."""

    assigned: Assigned | None = None
    assigned_at: int = -1  # the event
    since: dict[int, int] = field(default_factory=dict)  # by partition: the epoch in which it became the active
    made: tuple[int, int, int] = (0, 0, -1)  # its last lag report: stamp, text, event
    kept: int | None = None  # the text of the one that it keeps; 0: unknown
    kept_at: tuple[int, int] = (-1, -1)  # the events: it was made, and kept
    passed: dict[int, tuple[int, int]] = field(default_factory=dict)  # by partition: offsets, and the event


class _Log:
    """How much of a changelog is shown, and from which position on which epoch holds."""

    def __init__(self) -> None:
        self.end, self.whole = 0, True
        self._epochs: list[tuple[int, int]] = []

    def show(self, offset: int, epoch: int) -> None:
        """The next offset; ``epoch``: that of its record, negative for one of Raft's own."""
        self.whole = self.whole and offset == self.end
        if self.whole:
            self.end += 1
            if epoch > (self._epochs[-1][1] if self._epochs else 0):
                self._epochs.append((self.end, epoch))

    def epoch(self, position: int) -> int:
        """The largest epoch among so many offsets."""
        return next((epoch for at, epoch in reversed(self._epochs) if at <= position), 0)


_EMPTY = _Log()


class PlacementFold(QueryFold):
    """Judges who keeps what in one run, and what it does with that; see the module."""

    checks = CHECKS
    reads = (*READS, "last_offset", "epoch")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._logs: dict[int, _Log] = {}
        self._lives: dict[int, _Life] = {}
        self._furthest: dict[tuple[int, int], int] = {}
        self._right_here: list[bool] = []  # which of the events at hand were judged
        self._queries: Queries[int] = Queries()  # the text
        self._assignments: dict[int, tuple[Assigned, int]] = {0: (_NOTHING, -1)}  # by epoch, with the event

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        found = self.plain(columns, {MAY.id: state.MAY})
        plain = None
        if found is not None:
            plain = found.of_placements
            folds = (columns.kind == _FOLD) & found.right
            self._tallies[ORDER.id].judged += int(np.count_nonzero(folds))
        rows = self.rows(columns, _IS_WANTED, plain)
        if found is not None:
            self._right_here = found.right[self.which].tolist()
        for at, kind in enumerate(rows.kind):
            node = rows.node[at]
            if kind == _CHANGELOG:
                log = self._logs.setdefault(rows.partition[at], _Log())
                if self._right_here and self._right_here[at]:
                    log.end = rows.offset[at]
                log.show(rows.offset[at], rows.epoch[at])
            elif kind == INVOKE:
                self._queries[rows.op[at]] = rows.value[at]
            elif kind in (OK, FAIL, INFO):
                self._queries.close(rows.op[at], kind, rows.time[at])
            elif kind == _SERVE:
                self._hosts.serve(node, rows.value[at])
                self._lives[node] = _Life()
            elif node in self._lives:
                self._lived(rows, at, kind, self._lives[node])

    def _lived(self, rows: Columns, at: int, kind: int, life: _Life) -> None:
        if kind == _FOLD:
            self._folded(rows, at, life)
        elif kind == _ASSIGNED:
            self._assigned(rows, at, life)
        elif kind == _REPORT:
            life.made = rows.stamp[at], rows.value[at], rows.seq[at]
        elif kind == _REPORT_KEPT:
            if rows.peer[at] == rows.node[at]:
                stamp, text, made = life.made
                life.kept, life.kept_at = text if stamp == rows.stamp[at] else 0, (made, rows.seq[at])
        else:
            self._answered(rows, at, life)

    # -- assignments ---------------------------------------------------------------------------------------------------

    def _assigned(self, rows: Columns, at: int, life: _Life) -> None:
        node, epoch, seq = rows.node[at], rows.epoch[at], rows.seq[at]
        life.assigned_at, life.assigned = seq, said(self._words, rows.value[at], Assigned)
        now = life.assigned
        server = self._hosts.servers.get(node)
        if now is None or server is None:
            return
        actives = {place for place, (active, _) in enumerate(now.placements) if active == server.host}
        life.since = {place: life.since.get(place, epoch) for place in actives}
        if epoch in self._assignments:
            return
        self._assignments[epoch] = now, seq
        tally = self._tallies[STAYS.id]
        reported = {(each.partitions, each.standbys) for each in self._hosts.servers.values()}
        if epoch - 1 not in self._assignments or len(reported) > 1:
            tally.unjudged += 1
            return
        tally.judged += 1
        self._follows(node, epoch, seq, now, server)

    def _follows(self, node: int, epoch: int, seq: int, now: Assigned, server: Server) -> None:
        """Hold an assignment against the one before it."""
        tally, (last, before) = self._tallies[STAYS.id], self._assignments[epoch - 1]
        joined, left = set(now.members) - set(last.members), set(last.members) - set(now.members)
        if (len(joined), bool(left)) not in ((1, False), (0, True)):
            tally.violation(before, seq, way="members", node=node, epoch=epoch)
            return
        right = successor(last, now, server.partitions, server.standbys)
        for partition, (actives, hosts) in enumerate(right):
            active, rest = now.placements[partition] if partition < len(now.placements) else ("nobody", ())
            place = {"node": node, "epoch": epoch, "partition": partition}
            if actives and active not in actives:
                tally.violation(before, seq, way="active", host=active, right=" or ".join(sorted(actives)), **place)
            elif hosts and sorted((active, *rest)) != sorted(hosts):
                tally.violation(before, seq, way="replicas", hosts=_list((active, *rest)), right=_list(hosts), **place)

    # -- offsets -------------------------------------------------------------------------------------------------------

    def _folded(self, rows: Columns, at: int, life: _Life) -> None:
        node, partition, first, last = rows.node[at], rows.partition[at], rows.offset[at], rows.last_offset[at]
        tally, seq, log = self._tallies[ORDER.id], rows.seq[at], self._logs.get(partition, _EMPTY)
        furthest = self._furthest.get((node, partition), 0)
        place = {"node": node, "partition": partition}
        if self._right_here and self._right_here[at]:
            life.passed[partition] = last + 1, seq
            self._furthest[node, partition] = max(furthest, last + 1)
            return
        tally.judged += 1
        if partition in life.passed:
            passed, before = life.passed[partition]
            if first != passed:
                tally.violation(before, seq, way="next", first=first, passed=passed, **place)
        elif first > furthest:
            tally.violation(seq, way="first", first=first, passed=furthest, **place)
        if last >= log.end and log.whole:
            tally.violation(seq, way="end", rests_on=(Kind.CHANGELOG,), last=last, end=log.end, **place)
        life.passed[partition] = last + 1, seq
        self._furthest[node, partition] = max(furthest, last + 1)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _answered(self, rows: Columns, at: int, life: _Life) -> None:
        node, op, partition, seq = rows.node[at], rows.op[at], rows.partition[at], rows.seq[at]
        tally, server = self._tallies[MAY.id], self._hosts.servers.get(node)
        query, answers = said(self._words, self._queries.get(op, rows.time[at]) or 0, Query), rows.kind[at] == _ANSWER
        position = rows.offset[at] if answers else life.passed.get(partition, (None, -1))[0]
        reason: str | None = _UNKNOWN
        if server is not None and query is not None and life.assigned is not None:
            reason = self._against(server, life, life.assigned, partition, position, query)
        place = {"node": node, "op": op, "partition": partition}
        if reason is _UNKNOWN:
            tally.unjudged += 1
            return
        tally.judged += 1
        by_lag = reason is None or reason.startswith(_OF_LAG)
        shown = life.assigned_at, *(life.kept_at if by_lag else ()), seq
        by = Kind.REPORT_KEPT if by_lag and life.kept is None else Kind.CHANGELOG if reason == _NOT_ACTIVE else None
        rests_on = () if by is None or reason is None else (by,)
        if answers and reason is not None:
            tally.violation(*shown, way="answered", rests_on=rests_on, reason=reason.rstrip("."), **place)
        elif not answers and reason is None:
            tally.violation(*shown, way="refused", **place)
        elif not answers and reason is not None and self._words.text(rows.value[at]) != reason:
            tally.violation(*shown, way="reason", rests_on=rests_on, reason=reason.rstrip("."), **place)

    def _against(
        self, server: Server, life: _Life, assigned: Assigned, partition: int, position: int | None, query: Query
    ) -> str | None:
        """Why a server should give a partition up; None: it should not, `_UNKNOWN`: that cannot be told."""
        placements = assigned.placements
        active, rest = placements[partition] if 0 <= partition < len(placements) else ("", ())
        if server.host not in (active, *rest):
            return "Host does not hold this partition."
        if not server.standby_reads:
            log = self._logs.get(partition, _EMPTY)
            if active != server.host:
                return _NOT_ACTIVE
            if position is None or not log.whole:
                return _UNKNOWN
            if log.epoch(position) != life.since[partition]:
                return _NOT_ACTIVE
        if not server.shipped or not server.lag_reports:
            return None
        record = None if life.kept is None else said(self._words, life.kept, Positions)
        if life.kept is not None and record is None:
            return _UNKNOWN
        if record is None or partition not in record:
            return "Lag information is not present for host."
        current, end = record[partition]
        lag, bound = max(0, end - current), server.bound(query.bound)
        far = f"Host excluded because lag {lag} exceeds maximum allowed lag {bound}."
        return None if within(lag, bound, shipped=True) else far


_UNKNOWN = "unknown"
_NOT_ACTIVE = "Host is not the active host for this partition."
_OF_LAG = ("Lag information", "Host excluded")
"""How reasons begin that a lag report gives."""


def _list(hosts: Sequence[str]) -> str:
    return ", ".join(sorted(hosts)) or "nobody"


FAMILY = Family(
    "pull_queries_placements",
    CHECKS,
    _KINDS | _OF_CLIENTS,
    PlacementFold.reads,
    PlacementFold,
    PULL_QUERIES,
    operations=frozenset({"put", "query"}),
    reads_texts=True,
)
