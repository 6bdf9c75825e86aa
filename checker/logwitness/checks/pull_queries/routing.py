"""Where a query goes follows from the view that it was routed by, and from how the attempts before went.

The candidates of each partition are computed here once more from the recorded view; the attempts are held against the
rounds. The view itself is held against what the server had learned by `statuses` and `tables`.

Sources: pull-queries.md#two-modes, pull-queries.md#routing, pull-queries.md#lag.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple

from loghistory.schema import Kind

from ..codes import FAIL, INFO, INVOKE, OK, code, lookup
from ..columns import Columns
from ..contract import Check, Family, Setting
from ..words import Words
from .plain_queries import READS, QueryFold, state
from .protocol import PULL_QUERIES, UNAVAILABLE, Asked, Assigned, Finished, Queries, Query, Server, View, said

WITHIN = Check(
    id="selected-within-bound",
    rule="Where the lag filter applies, the recorded lag of a host that is asked is within the bound.",
    source=("pull-queries.md#selected-within-bound", "pull-queries.md#lag-bound", "pull-queries.md#max-end-offset"),
    fact="a host that is asked for a partition, with a record, where the lag filter applies",
    sentence="Operation {op} asked {host} for partition {partition}, whose lag there is {lag} in the view of node "
    "{node}; the bound is {bound}.",
    kinds=(Kind.ROUTE,),
    columns=("node", "op"),
)
NO_RECORD = Check(
    id="no-record-not-selected",
    rule="Where the lag filter applies, a host without a lag record is not asked.",
    source=("pull-queries.md#no-record-not-selected", "pull-queries.md#unknown-lag"),
    fact="a host that is asked for a partition where the lag filter applies",
    sentence="Operation {op} asked {host} for partition {partition}, for whose lag there node {node} had no record.",
    kinds=(Kind.ROUTE,),
    columns=("node", "op"),
)
STALENESS = Check(
    id="staleness-bounded",
    rule="An answer is no staler than the bound, what the router had not heard of, and what its replica lost.",
    source=("pull-queries.md#staleness-bounded",),
    fact="a partition that a client gets from a host with a record, where the lag filter applied",
    sentence="Operation {op} got partition {partition} from {host} at position {position}: {behind} behind the largest "
    "end that node {node} knew, of which its store had lost {lost}; the bound is {bound}.",
    kinds=(Kind.ROUTE, Kind.ROWS),
    columns=("op", "partition", "offset"),
)
FOLLOW = Check(
    id="candidates-follow-view",
    rule="Who is asked follows from the view and the rounds: the candidates in order, each once, and no other host; a "
    "forwarded query carries its own bound and goes no further. A query is routed before it is forwarded or ends; it "
    "is routed, ends, and is answered by a host for a partition once.",
    source=(
        "pull-queries.md#candidates-follow-view",
        "pull-queries.md#candidate-order",
        "pull-queries.md#filters",
        "pull-queries.md#rounds",
        "pull-queries.md#falls-through",
        "pull-queries.md#no-second-hop",
    ),
    fact="a query that a server routed to its end, a server that is asked, or what is done once more",
    sentence={
        "excluded": "Operation {op} asked {host} for partition {partition}, but {host} is not a candidate in the view "
        "of node {node}.",
        "hop": "Node {node} routed or forwarded operation {op}, which no client had sent to it.",
        "unrouted": "Node {node} {did} operation {op}, which nobody had routed.",
        "bound": "Operation {op} was forwarded to node {peer} with the bound {said}; its own bound is {bound}.",
        "attempts": "Operation {op} attempted {attempts:host|hosts} in another order than the rounds prescribe in the "
        "view of node {node}.",
        "asked": "Operation {op} attempted other hosts than those that node {node} asked.",
        "early": "Operation {op} asked another host before {host} had answered for partition {partition} in an earlier "
        "round.",
        "again": "Node {node} {did} operation {op} once more.",
        "answered": "Node {node} answered operation {op} once more for partition {partition}.",
        "repeated": "Operation {op} asked {host} once more for partition {partition}.",
        "ended": 'Operation {op} did not end as its attempts say, but with the message "{message}".',
        "refused": "Operation {op} counted {host} as failed for partition {partition} ({failure}), although it had "
        "answered.",
    },
    kinds=(Kind.ROUTE, Kind.INVOKE),
    columns=("node", "op"),
    looks_back=True,
)
ONCE = Check(
    id="partitions-once",
    rule="A query gets each partition that it asks for once, or it fails; and no other.",
    source=("pull-queries.md#partitions-once", "pull-queries.md#emitted-once", "pull-queries.md#partitions-asked"),
    fact="a query that ended",
    sentence={
        "twice": "Operation {op} got partition {partition} {times:time|times}.",
        "other": "Operation {op} got partition {partition}, for which it had not asked.",
        "lacking": "Operation {op} is complete without partition {partition}.",
    },
    kinds=(Kind.ROUTE, Kind.INVOKE),
    columns=("op", "process"),
)
SAYS_WHY = Check(
    id="no-valid-host-says-why",
    rule="A query without a valid host says, for each partition that lacks one, which hosts were scanned, in order, "
    "with every reason against each.",
    source=("pull-queries.md#no-valid-host-says-why", "pull-queries.md#reasons", "pull-queries.md#http"),
    fact="a query that failed for want of a valid host, or should have",
    sentence="The message of operation {op} about which hosts were scanned, and why none was selected, differs from "
    "the view of node {node}.",
    kinds=(Kind.ROUTE, Kind.FINISH),
    columns=("node", "op"),
)
CHECKS = (WITHIN, NO_RECORD, STALENESS, FOLLOW, ONCE, SAYS_WHY)

NOT_READY = "Unable to execute pull query. The server is not ready."
NO_VALID_HOST = "Unable to execute pull query. ["
EXHAUSTED = "Unable to execute pull query: Exhausted standby hosts to try."

_OF_SERVERS = frozenset({Kind.SERVE, Kind.ROUTE, Kind.FORWARD, Kind.FORWARDED, Kind.ANSWER, Kind.FINISH, Kind.ROWS})
_OF_CLIENTS = frozenset({Kind.INVOKE, Kind.OK, Kind.FAIL, Kind.INFO})
_SERVE, _ROUTE, _FORWARD, _FORWARDED, _ANSWER, _FINISH, _ROWS = map(
    code, (Kind.SERVE, Kind.ROUTE, Kind.FORWARD, Kind.FORWARDED, Kind.ANSWER, Kind.FINISH, Kind.ROWS)
)
_IS_WANTED = lookup(_OF_SERVERS | _OF_CLIENTS)
_ON_ITS_WAY = frozenset({_FORWARD, _FORWARDED, _FINISH, _ROWS})
_OF_ROUTERS = frozenset({_FORWARD, _FINISH})
_FACTS = {
    WITHIN.id: state.WITHIN,
    NO_RECORD.id: state.NO_RECORD,
    STALENESS.id: state.STALENESS,
    FOLLOW.id: state.FOLLOW,
    ONCE.id: state.VIEWS,
}
_FINAL = ("client error", "no header")
"""Failures after which the public implementation tries nobody else."""
_SAID_SO = ("gave up", "client error", "no header")
"""Failures that the host itself told, so that it did not answer."""


class Scanned(NamedTuple):
    """A host as a router sees it for a partition; ``reasons`` against it, none if it is a candidate."""

    host: str
    reasons: tuple[str, ...]
    filtered: bool
    """Whether the lag filter applies."""
    current: int | None
    max_end: int

    @property
    def lag(self) -> int:
        """By how many offsets it is behind, as far as that is known."""
        return max(0, self.max_end - (self.current or 0))


def within(lag: int, bound: int, shipped: bool) -> bool:
    """Whether a lag is acceptable (pull-queries.md#lag-bound)."""
    return lag <= bound if shipped else lag < bound


class Scan(NamedTuple):
    """The hosts of a partition in the order in which they are tried, and those of them that are candidates."""

    hosts: tuple[Scanned, ...]
    candidates: tuple[str, ...]

    def seen(self, host: str) -> Scanned | None:
        """What the router saw of a host; None: it did not scan it."""
        for each in self.hosts:
            if each.host == host:
                return each
        return None


class _Placed(NamedTuple):
    """A host that keeps a partition, whatever its status and the bound; ``lag``: None where no filter asks for it."""

    host: Scanned
    active: bool
    unknown: bool
    lag: int | None


def scan(server: Server, view: View, bound: int, partition: int) -> Scan:
    """How a router scans the hosts of a partition (pull-queries.md#two-modes)."""
    statuses, shipped, reads = view.statuses, server.shipped, server.standby_reads
    hosts, candidates = [], []
    for each, active, unknown, lag in _placed(server, view, partition):
        alive, updated = statuses.get(each.host, (shipped, -1))
        far = lag is not None and not within(lag, bound, shipped)
        if alive and not unknown and not far and (active or reads):
            candidates.append(each.host)
        else:
            found = []
            if not active and not reads:
                found.append("Host is not the active host for this partition.")
            if not alive:
                found.append(f"Host is not alive as of time {updated}")
            if unknown:
                found.append("Lag information is not present for host.")
            if far:
                found.append(f"Host excluded because lag {lag} exceeds maximum allowed lag {bound}.")
            each = each._replace(reasons=tuple(found))
        hosts.append(each)
    return Scan(tuple(hosts), tuple(candidates))


_places: dict[tuple[int, int, int, Server], tuple[Assigned, object, tuple[_Placed, ...]]] = {}
"""By the identity of an assignment and of lag reports, which many views share, partition and server; with both."""


def _placed(server: Server, view: View, partition: int) -> tuple[_Placed, ...]:
    """The hosts of a partition in the order in which they are tried (pull-queries.md#candidate-order)."""
    place = id(view.assignment), id(view.records), partition, server
    known = _places.get(place)
    if known is None:
        if len(_places) >= _KEPT:
            _places.clear()
        known = _places[place] = view.assignment, view.records, _in_order(server, view, partition)
    return known[2]


def _in_order(server: Server, view: View, partition: int) -> tuple[_Placed, ...]:
    placements = view.assignment.placements
    active, standbys = placements[partition] if partition < len(placements) else (UNAVAILABLE, ())
    known = {host: positions[partition] for host, (_, positions) in view.records.items() if partition in positions}
    of_max = (active, *standbys) if server.shipped else known
    max_end = max([known[host][1] for host in of_max if host in known], default=0)
    found = []
    for host in (active, *standbys):
        current = known[host][0] if host in known else None
        filtered = server.lag_reports and (server.shipped or host != active)
        lag = None if current is None or not filtered else max(0, max_end - current)
        seen = Scanned(host, (), filtered, current, max_end)
        found.append(_Placed(seen, host == active, filtered and lag is None, lag))
    first, *rest = found
    rest.sort(key=lambda each: each.host.host)
    if not server.shipped:
        rest.sort(key=lambda each: (each.host.current is None, each.host.current is not None and each.host.lag))
    return (first, *rest)


def _scan_again(words: Words, server: Server, view: int, bound: int, partition: int) -> Scan:
    """As `scan`, with the code of a view's text."""
    reported = said(words, view, View)
    assert reported is not None, "the text was read before"
    return scan(server, reported, bound, partition)


_KEPT = 4096
"""Scans that are kept for a while: many queries are routed by the same view, or by the same reports."""


def partitions_asked(server: Server, query: Query) -> list[int]:
    """Which partitions a query asks for (pull-queries.md#partitions-asked)."""
    every = list(range(server.partitions))
    if query.keys is None or (server.shipped and len(query.keys) > 1):
        return every
    return sorted({zlib.crc32(key.encode("utf-8", "surrogatepass")) % server.partitions for key in query.keys})


def no_valid_host(scanned: Mapping[int, Scan]) -> str | None:
    """What a query is told that has a partition without a candidate (pull-queries.md#no-valid-host-says-why)."""
    reported = []
    for partition, (hosts, candidates) in scanned.items():
        if not candidates:
            why = ", ".join(f"{each.host} was not selected because {','.join(each.reasons)}" for each in hosts)
            reported.append(f"Partition {partition} failed to find valid host. Hosts scanned: [{why}]")
    return f"Unable to execute pull query. [{', '.join(reported)}]" if reported else None


@dataclass(slots=True)
class _Route:
    """A query on its way: its router, what it asks, by which view (the code of its text), and whom it was sent to."""

    node: int
    server: Server
    bound: int
    own_bound: int | None
    partitions: tuple[int, ...]
    view: int
    event: int
    asked: tuple[tuple[str, int, int], ...] = ()  # host, partition, event
    over: int = -1  # the event by which it ended


@dataclass(slots=True)
class _Known:
    """A query: its text and its event, how it was routed, who answered and what its client got."""

    text: int
    event: int
    routed: bool = False
    route: _Route | None = None  # None: what the first view says cannot be told
    answered: dict[tuple[int, int], int] = field(default_factory=dict)  # by node and partition: the event
    got: dict[int, list[int]] = field(default_factory=dict)  # by partition: the events


class RoutingFold(QueryFold):
    """Judges the queries of one run; see the module."""

    checks = CHECKS
    reads = (*READS, "process")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._queries: Queries[_Known] = Queries()
        self._scan = lru_cache(maxsize=_KEPT)(partial(_scan_again, setting.words))

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        found = self.plain(columns, _FACTS)
        rows = self.rows(columns, _IS_WANTED, found and found.events)
        for at, kind in enumerate(rows.kind):
            op = rows.op[at]
            if kind == INVOKE:
                self._asks(op, rows.value[at], rows.seq[at], rows.time[at])
                continue
            if kind == _SERVE:
                self._hosts.serve(rows.node[at], rows.value[at])
                continue
            query = self._queries.get(op, rows.time[at])
            if query is not None and not query.routed and kind in _OF_ROUTERS:
                self._unrouted(rows, at, kind, query)
            elif query is None or (query.route is None and kind in _ON_ITS_WAY):
                if kind in _ON_ITS_WAY:
                    self._tallies[(STALENESS if kind == _ROWS else FOLLOW).id].unjudged += 1
            elif kind == _ANSWER:
                self._answered(rows, at, query)
            elif kind == _ROUTE:
                self._routed(rows, at, query)
            elif kind == _ROWS:
                query.got.setdefault(rows.partition[at], []).append(rows.seq[at])
                self._stale(rows, at, query)
            elif kind in (OK, FAIL, INFO):
                self._closed(rows, at, query)
                self._queries.close(op, kind, rows.time[at])
            else:
                self._on_its_way(rows, at, kind, query)

    def _asks(self, op: int, text: int, seq: int, time: int) -> None:
        """A client asks."""
        known = self._queries.get(op, time)
        if known is None:
            self._queries[op] = _Known(text, seq)
        else:
            known.text, known.event = text, seq

    def _answered(self, rows: Columns, at: int, query: _Known) -> None:
        """A server answers for a partition, once."""
        node, partition, seq = rows.node[at], rows.partition[at], rows.seq[at]
        before = query.answered.setdefault((node, partition), seq)
        if before != seq:
            place = {"op": rows.op[at], "node": node, "partition": partition}
            self._tallies[FOLLOW.id].judged += 1
            self._tallies[FOLLOW.id].violation(query.event, before, seq, way="answered", **place)

    def _routed(self, rows: Columns, at: int, known: _Known) -> None:
        op, node = rows.op[at], rows.node[at]
        if known.routed:
            self._routed_again(op, node, rows.seq[at], known.route)
            return
        query, server = said(self._words, known.text, Query), self._hosts.servers.get(node)
        view = said(self._words, rows.value[at], View)
        known.routed = True
        if query is None or server is None or view is None:
            return
        partitions = tuple(partitions_asked(server, query))
        place = rows.value[at], rows.seq[at]
        known.route = _Route(node, server, server.bound(query.bound), query.bound, partitions, *place)

    def _unrouted(self, rows: Columns, at: int, kind: int, query: _Known) -> None:
        """A server forwards or ends a query that none has routed."""
        tally, did = self._tallies[FOLLOW.id], "forwarded" if kind == _FORWARD else "ended"
        tally.judged += 1
        said = {"node": rows.node[at], "op": rows.op[at], "did": did}
        tally.violation(query.event, rows.seq[at], way="unrouted", rests_on=(Kind.ROUTE,), **said)

    def _seen(self, route: _Route, partition: int, host: str) -> Scanned | None:
        """What the router saw of a host; None: it did not scan it."""
        if partition not in route.partitions:
            return None
        return self._scan(route.server, route.view, route.bound, partition).seen(host)

    def _routed_again(self, op: int, node: int, seq: int, route: _Route | None) -> None:
        """A query is routed once, by the server that the client asked (pull-queries.md#no-second-hop)."""
        if route is not None:
            way: dict[str, Any] = {"way": "again", "did": "routed"} if route.node == node else {"way": "hop"}
            self._tallies[FOLLOW.id].judged += 1
            self._tallies[FOLLOW.id].violation(route.event, seq, node=node, op=op, **way)

    def _on_its_way(self, rows: Columns, at: int, kind: int, query: _Known) -> None:
        assert query.route is not None
        if kind == _FINISH:
            self._finished(rows, at, rows.op[at], query, query.route)
        else:
            self._asked(rows, at, kind, query.route)

    def _asked(self, rows: Columns, at: int, kind: int, route: _Route) -> None:
        """A server asks another one, or is asked: with the query's own bound, by the server that the client asked."""
        op, node, peer, seq = rows.op[at], rows.node[at], rows.peer[at], rows.seq[at]
        tally, asked = self._tallies[FOLLOW.id], said(self._words, rows.value[at], Asked)
        if asked is None:
            tally.unjudged += 1
            return
        tally.judged += 1
        if asked.bound != route.own_bound:
            target = peer if kind == _FORWARD else node
            reported = ["none" if bound is None else bound for bound in (asked.bound, route.own_bound)]
            tally.violation(route.event, seq, way="bound", op=op, peer=target, said=reported[0], bound=reported[1])
        if kind == _FORWARDED:
            return
        if node != route.node:
            tally.violation(route.event, seq, way="hop", node=node, op=op)
            return
        host = self._hosts.name(peer)
        asked_before = {(each, partition): event for each, partition, event in reversed(route.asked)}
        for partition in [each for each in asked.partitions if (host, each) in asked_before]:
            before = asked_before[host, partition]
            tally.violation(route.event, before, seq, way="repeated", op=op, host=host, partition=partition)
        route.asked += tuple([(host, partition, seq) for partition in asked.partitions])
        for partition in asked.partitions:
            self._contact(route, op, partition, host, seq)

    def _contact(self, route: _Route, op: int, partition: int, host: str, seq: int) -> None:
        """A host is asked for a partition: it must be a candidate, and within the bound."""
        seen = self._seen(route, partition, host)
        if seen is None or seen.reasons:
            self._tallies[FOLLOW.id].violation(
                route.event, seq, way="excluded", op=op, host=host, partition=partition, node=route.node
            )
        if seen is None or not seen.filtered:
            return
        self._tallies[NO_RECORD.id].judged += 1
        place: dict[str, Any] = {"op": op, "host": host, "partition": partition, "node": route.node}
        if seen.current is None:
            self._tallies[NO_RECORD.id].violation(route.event, seq, **place)
            return
        self._tallies[WITHIN.id].judged += 1
        if not within(seen.lag, route.bound, route.server.shipped):
            self._tallies[WITHIN.id].violation(route.event, seq, lag=seen.lag, bound=route.bound, **place)

    def _finished(self, rows: Columns, at: int, op: int, query: _Known, route: _Route) -> None:
        follow, seq = self._tallies[FOLLOW.id], rows.seq[at]
        finished = said(self._words, rows.value[at], Finished)
        if finished is None or rows.node[at] != route.node:
            follow.unjudged += 1
            return
        if route.over >= 0:
            follow.judged += 1
            follow.violation(route.event, route.over, seq, way="again", node=route.node, did="ended", op=op)
            return
        route.over = seq
        if finished.message == NOT_READY and not finished.attempts:
            return
        scanned = {each: self._scan(route.server, route.view, route.bound, each) for each in route.partitions}
        expected = no_valid_host(scanned)
        follow.judged += 1
        if expected is not None or (finished.message or "").startswith(NO_VALID_HOST):
            self._tallies[SAYS_WHY.id].judged += 1
            if finished.message != expected:
                self._tallies[SAYS_WHY.id].violation(route.event, seq, op=op, node=route.node)
            if not finished.attempts:
                return
        for partition, host, _ in finished.attempts:
            if host == route.server.host:
                self._contact(route, op, partition, host, seq)
        nobody = (route.server.host, UNAVAILABLE)
        asked = {(host, partition) for partition, host, _ in finished.attempts if host not in nobody}
        sent = {(host, partition): event for host, partition, event in route.asked}
        if asked != sent.keys():
            rests_on = (Kind.FORWARD,) if asked - sent.keys() else ()
            shown = route.event, *sent.values(), seq
            follow.violation(*shown, way="asked", rests_on=rests_on, op=op, node=route.node)
        self._attempted(query, route, scanned, finished, op, seq)

    def _attempted(
        self, query: _Known, route: _Route, scanned: Mapping[int, Scan], finished: Finished, op: int, seq: int
    ) -> None:
        """Hold the attempts against the rounds, and the end against the attempts."""
        follow = self._tallies[FOLLOW.id]
        asked_first = {(each, found.candidates[0], None) for each, found in scanned.items() if found.candidates}
        at_once = len(finished.attempts) == len(scanned) == len(asked_first) and finished.message is None
        if at_once and asked_first == set(finished.attempts):
            return
        for partition, host, failure in finished.attempts:
            answered = query.answered.get((self._hosts.nodes.get(host, -1), partition), -1)
            if failure in _SAID_SO and answered >= 0 and host != route.server.host:
                place = {"op": op, "host": host, "partition": partition, "failure": failure}
                follow.violation(route.event, answered, seq, way="refused", **place)
        left, remaining, round_, final = list(finished.attempts), set(scanned), 0, False
        hosts = {p: found.candidates for p, found in scanned.items()}
        rounds = []
        while remaining and not final and all(len(hosts[p]) > round_ for p in remaining):
            due = {(p, hosts[p][round_]) for p in remaining}
            made, left = left[: len(due)], left[len(due) :]
            if {(p, host) for p, host, _ in made} != due:
                attempts = len(finished.attempts)
                follow.violation(route.event, seq, way="attempts", op=op, attempts=attempts, node=route.node)
                return
            rounds.append(made)
            remaining = {p for p, _, failure in made if failure is not None}
            final = route.server.shipped and any(failure in _FINAL for _, _, failure in made)
            round_ += 1
        if left:
            attempts = len(finished.attempts)
            follow.violation(route.event, seq, way="attempts", op=op, attempts=attempts, node=route.node)
        self._waited(query, route, rounds, op, seq)
        complete = finished.message is None
        if complete == bool(remaining) or (remaining and not final and finished.message != EXHAUSTED):
            follow.violation(route.event, seq, way="ended", op=op, message=finished.message or "complete")

    def _waited(
        self, query: _Known, route: _Route, rounds: list[list[tuple[int, str, str | None]]], op: int, seq: int
    ) -> None:
        """A round begins when all of the one before are over: who answered in that had done so."""
        began = 2**63 - 1  # the rounds behind this one
        for made in reversed(rounds):
            for partition, host, failure in made:
                answered = query.answered.get((self._hosts.nodes.get(host, -1), partition), -1)
                if failure is None and answered > began:
                    place = {"op": op, "host": host, "partition": partition}
                    self._tallies[FOLLOW.id].violation(route.event, began, answered, seq, way="early", **place)
            asked = {(host, partition) for partition, host, _ in made}
            began = min([began, *(event for host, partition, event in route.asked if (host, partition) in asked)])

    def _stale(self, rows: Columns, at: int, query: _Known) -> None:
        """The true end takes no part: it is on both sides of the inequality (pull-queries.md#staleness-bounded)."""
        op, partition, position, seq = rows.op[at], rows.partition[at], rows.offset[at], rows.seq[at]
        tally, route = self._tallies[STALENESS.id], query.route
        assert route is not None
        host = self._hosts.name(rows.peer[at])
        seen = self._seen(route, partition, host)
        if seen is None or not seen.filtered or seen.current is None:
            return
        tally.judged += 1
        behind, lost = seen.max_end - position, max(0, seen.current - position)
        if not within(max(0, behind - lost), route.bound, route.server.shipped):
            place: dict[str, Any] = {"op": op, "partition": partition, "host": host, "node": route.node}
            tally.violation(route.event, seq, position=position, behind=behind, lost=lost, bound=route.bound, **place)

    def _closed(self, rows: Columns, at: int, query: _Known) -> None:
        """A query is over for its client."""
        op, kind, seq = rows.op[at], rows.kind[at], rows.seq[at]
        route, got = query.route, query.got
        query.got = {}
        if route is None:
            return
        tally = self._tallies[ONCE.id]
        tally.judged += 1
        for partition, events in sorted(got.items()):
            if len(events) > 1:
                tally.violation(route.event, *events, seq, way="twice", op=op, partition=partition, times=len(events))
            if partition not in route.partitions:
                tally.violation(route.event, *events, seq, way="other", op=op, partition=partition)
        for partition in [each for each in route.partitions if kind == OK and each not in got]:
            tally.violation(route.event, seq, way="lacking", rests_on=(Kind.ROWS,), op=op, partition=partition)


FAMILY = Family(
    "pull_queries_routing",
    CHECKS,
    _OF_SERVERS | _OF_CLIENTS,
    RoutingFold.reads,
    RoutingFold,
    PULL_QUERIES,
    operations=frozenset({"put", "query"}),
    reads_texts=True,
)
