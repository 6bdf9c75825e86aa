"""A query is answered while a replica that may answer it runs undisturbed, and ends as soon as its time-outs allow.

What disturbs a host is known from the events of faults and of processes, and from heartbeats: those that were sent and
did not arrive, that came late, or by a clock that is too far behind. A host whose checks come late gets no time to run.
None of this is asked but where a query fails, so heartbeats are kept as they come, for as long as they may be asked.

Sources: pull-queries.md#bad-time-bounded, pull-queries.md#settled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind

from ..codes import FAIL, FAULT, HEAL, INFO, INVOKE, NO_NODE, OK, PHASE, code, lookup
from ..columns import Array, Columns
from ..contract import Check, Family, Setting, Verdicts
from .plain_queries import READS, QueryFold
from .protocol import EARLIEST, PULL_QUERIES, Finished, Queries, Query, Server, View, rising, said
from .routing import EXHAUSTED, NO_VALID_HOST, NOT_READY, partitions_asked, scan

CHECK = Check(
    id="bad-time-bounded",
    rule="A query at an undisturbed router does not fail while a replica within its bound is up, connected and "
    "undisturbed, and no server is waited for after the time-out; a server is ready when it knows the lag of every "
    "live replica, or after two lag intervals.",
    source=("pull-queries.md#bad-time-bounded", "pull-queries.md#settled", "pull-queries.md#first-intervals"),
    fact="a query that a ready router routed to its end, undisturbed",
    sentence={
        "unseen": "Operation {op} failed at node {node}, which considered {host} dead although it was up and "
        "connected, and nothing had disturbed either for {settling} ms.",
        "unready": "Node {node} refused operation {op} as not ready, {served} ms after it began to serve; lag reports "
        "come every {interval} ms.",
        "hasty": "Node {node} routed operation {op} {served} ms after it began to serve, without a lag report of "
        "{host}, a live replica of partition {partition}; they come every {interval} ms.",
        "late": "Operation {op} waited for {passed} ms at node {node}, which ran all the while; a forwarded query is "
        "given up after {time_out} ms.",
    },
    kinds=(Kind.SERVE, Kind.ROUTE, Kind.FINISH),
    columns=("time", "node", "op"),
    looks_back=True,
)

_OF_LINKS = ("partition", "mute", "deafen", "one_way", "loss", "duplicate", "reorder", "delay")
"""Faults that let the process of a node run."""
_SLACK = 1000
"""Milliseconds that a round of attempts may take besides the time-out."""
_MS = 1_000_000

_BEATS = frozenset({Kind.HEARTBEAT, Kind.HEARD, Kind.UP, Kind.DOWN})
_SURROUNDINGS = END_KINDS | {Kind.FAULT, Kind.HEAL, Kind.PHASE}
_OF_CLIENTS = frozenset({Kind.INVOKE, Kind.OK, Kind.FAIL, Kind.INFO})
_FEW = _SURROUNDINGS | _OF_CLIENTS | {Kind.SERVE, Kind.LISTED, Kind.ROUTE, Kind.FORWARD, Kind.FINISH}
_HEARTBEAT, _HEARD, _UP, _DOWN, _SERVE, _LISTED, _ROUTE, _FORWARD, _FINISH = map(
    code,
    (
        Kind.HEARTBEAT,
        Kind.HEARD,
        Kind.UP,
        Kind.DOWN,
        Kind.SERVE,
        Kind.LISTED,
        Kind.ROUTE,
        Kind.FORWARD,
        Kind.FINISH,
    ),
)
_IS_BEAT, _IS_FEW = lookup(_BEATS), lookup(_FEW)


class _Beats(NamedTuple):
    """Columns of events, among them all heartbeats, receipts and decisions."""

    seq: Array
    time: Array
    kind: Array
    node: Array
    peer: Array
    stamp: Array

    def within(self, start: int, end: int) -> _Beats:
        """Heartbeats, receipts and decisions from one time to another."""
        some = slice(np.searchsorted(self.time, start), np.searchsorted(self.time, end, side="right"))
        which = _IS_BEAT[self.kind[some]]
        return _Beats(*(column[some][which] for column in self))


_NO_BEATS = _Beats(*(np.zeros(0, dtype=np.int64) for _ in _Beats._fields))


@dataclass(slots=True)
class _Host:
    """What disturbs a node, and since when nothing does, or nothing but its links; whom it has listed, and when."""

    faults: Counter[int] = field(default_factory=Counter)
    since: int = EARLIEST
    ran: int = EARLIEST
    served: int = EARLIEST
    running: bool = False
    listed: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Open:
    """A query on its way: its router, the texts of the view and of the query, when it was routed."""

    node: int
    view: int
    query: int
    time: int
    seq: int
    asked: int  # when a host was asked last


class AvailabilityFold(QueryFold):
    """Judges how queries of one run end; see the module."""

    checks = (CHECK,)
    reads = READS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._tally = self._tallies[CHECK.id]
        self._nodes: dict[int, _Host] = {}
        self._everywhere = _Host(running=True)
        self._queries: Queries[int] = Queries()  # the text
        self._open: dict[int, _Open] = {}
        self._beats: list[_Beats] = []
        self._now, self._last = EARLIEST, 0
        self._of_links = frozenset(map(setting.words.code, _OF_LINKS))

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        if not len(columns.seq):
            return
        found = self.plain(columns, {})
        columns = columns._replace(time=rising(columns.time, self._now) if found is None else found.time)
        self._beats.append(_Beats(*(getattr(columns, name) for name in _Beats._fields)))
        some: Array = _IS_FEW.take(columns.kind)
        ended: Iterator[tuple[int, Array]] = iter(())
        if found is not None:
            some, ended = some & ~found.events, iter(found.ended)
        which, of_ended = np.flatnonzero(some), next(ended, None)
        names = ("seq", "time", "kind", "node", "peer", "op", "f", "value")
        for place, event in zip(which.tolist(), columns.rows(which, *names), strict=True):
            seq, time, kind, node, peer, op, f, value = event
            while of_ended is not None and of_ended[0] <= place:
                self._plainly(of_ended[1], time)
                of_ended = next(ended, None)
            if kind == INVOKE:
                self._queries[op] = value
            elif kind in (OK, FAIL, INFO):
                self._queries.close(op, kind, time)
            elif kind == _ROUTE:
                self._open.setdefault(op, _Open(node, value, self._queries.get(op, time) or 0, time, seq, time))
            elif kind == _FORWARD:
                self._asked(op, node, time, seq)
            elif kind == _LISTED:
                self._host(node).listed[peer] = time
            elif kind == _FINISH:
                self._finished(op, node, time, seq, value)
            else:
                self._overdue(node if kind != PHASE else NO_NODE, time, seq)
                self._disturbed(kind, node, f, time)
                if kind == _SERVE:
                    self._hosts.serve(node, value)
        while of_ended is not None:
            self._plainly(of_ended[1], int(columns.time[-1]))
            of_ended = next(ended, None)
        self._now, self._last = int(columns.time[-1]), int(columns.seq[-1])
        self._forget()

    def _plainly(self, routed: Array, time: int) -> None:
        """So many queries of each node were routed to their ends since something had disturbed it last."""
        for node in np.flatnonzero(routed).tolist():
            self._tally.judged += int(routed[node]) * self._undisturbed(node, time)

    def _forget(self) -> None:
        """Let go of heartbeats that nobody asks for any more."""
        settling = max((server.settling for server in self._hosts.servers.values()), default=0)
        while self._beats and int(self._beats[0].time[-1]) < self._now - 2 * settling * _MS:
            del self._beats[0]

    # -- what disturbs ---------------------------------------------------------------------------------------------

    def _host(self, node: int) -> _Host:
        return self._nodes.setdefault(node, _Host())

    def _disturbed(self, kind: int, node: int, f: int, time: int) -> None:
        if kind == PHASE:
            self._everywhere.since = time
        elif kind in (FAULT, HEAL):
            self._fault(node, f, time, begins=kind == FAULT)
        else:
            self._lived(node, time, running=kind == _SERVE)

    def _lived(self, node: int, time: int, *, running: bool) -> None:
        host = self._host(node)
        host.running, host.since, host.ran, host.served, host.listed = running, time, time, time, {}
        for op in [op for op, each in self._open.items() if each.node == node]:
            del self._open[op]

    def _fault(self, node: int, f: int, time: int, *, begins: bool) -> None:
        hosts = [self._everywhere] if node == NO_NODE else [self._host(node)]
        if node == NO_NODE and not begins and not self._everywhere.faults[f]:  # it ends everywhere
            hosts = [*self._nodes.values()]
        for host in hosts:
            host.faults[f] = max(host.faults[f] + (1 if begins else -1), 0)
            host.since = time
            host.ran = host.ran if f in self._of_links else time

    def _undisturbed(self, node: int, since: int) -> bool:
        """Whether a node has been up since then, and nothing has disturbed it up to now."""
        known = (self._host(node), self._everywhere)
        return all(each.running and not any(each.faults.values()) and each.since <= since for each in known)

    def _ran(self, node: int, since: int) -> bool:
        """The same, whatever happened to its links."""
        known = (self._host(node), self._everywhere)
        halted = (each.faults[f] for each in known for f in each.faults.keys() - self._of_links)
        return all(each.running and each.ran <= since for each in known) and not any(halted)

    # -- how queries end -------------------------------------------------------------------------------------------

    def _asked(self, op: int, node: int, time: int, seq: int) -> None:
        """The next round begins, if it is not the first."""
        query = self._open.get(op)
        if query is not None and query.node == node:
            self._is_late(op, query, time, seq)
            query.asked = time

    def _is_late(self, op: int, query: _Open, time: int, seq: int) -> bool:
        """Whether a query has waited for somebody longer than it should, though the router had time to run."""
        server, passed = self._hosts.servers.get(query.node), (time - query.asked) // _MS
        if server is None or passed <= server.time_out + _SLACK or not self._ran(query.node, query.asked):
            return False
        if not self._checks(query.node, max(query.asked, time - server.settling * _MS), time, server):
            return False
        place = {"op": op, "node": query.node, "passed": passed, "time_out": server.time_out}
        self._tally.violation(query.seq, seq, way="late", rests_on=(Kind.FINISH,), **place)
        return True

    def _overdue(self, node: int, time: int, seq: int) -> None:
        """Queries of a node, or of all, that have not ended when something disturbs it, or the run ends."""
        for op in [op for op, each in self._open.items() if node in (each.node, NO_NODE)]:
            if self._is_late(op, self._open[op], time, seq):
                self._tally.judged += 1
                del self._open[op]

    def _finished(self, op: int, node: int, time: int, seq: int, text: int) -> None:
        query, server = self._open.get(op), self._hosts.servers.get(node)
        if query is None or query.node != node:
            return
        self._is_late(op, query, time, seq)
        del self._open[op]
        finished = said(self._words, text, Finished)
        if server is None or finished is None:
            self._tally.unjudged += 1
            return
        unready = finished.message == NOT_READY and not finished.attempts
        self._ready(op, query, server, seq, unready=unready)
        if unready or not self._undisturbed(node, query.time):
            return
        self._tally.judged += 1
        message = finished.message or ""
        soon = time - query.time <= server.settling * _MS
        if soon and (message == EXHAUSTED or message.startswith(NO_VALID_HOST)):
            answered = {partition for partition, _, failure in finished.attempts if failure is None}
            self._failed(op, query, server, answered, seq)

    def _ready(self, op: int, query: _Open, server: Server, seq: int, *, unready: bool) -> None:
        """Whether a server took itself for ready when it was, as far as its clock was left alone."""
        began = self._host(query.node).served
        served = (query.time - began) // _MS
        place = {"op": op, "node": query.node, "served": served, "interval": server.lag_report}
        if unready and self._ran(query.node, query.time - (2 * server.lag_report + _SLACK) * _MS):
            self._tally.judged += 1
            self._tally.violation(query.seq, seq, way="unready", **place)
        if unready or not server.lag_reports or served >= server.lag_report or not self._ran(query.node, began):
            return
        view = said(self._words, query.view, View)
        if view is None:
            return
        for partition, (active, standbys) in enumerate(view.assignment.placements):
            for host in (active, *standbys):
                alive, _ = view.statuses.get(host, (False, -1))
                if alive and partition not in view.records.get(host, (0, {}))[1]:
                    self._tally.violation(query.seq, seq, way="hasty", host=host, partition=partition, **place)

    def _failed(self, op: int, query: _Open, server: Server, answered: set[int], seq: int) -> None:
        """No host was left to ask: one that is there must not have been taken for dead."""
        for host in self._taken_for_dead(query, server, answered):
            node = self._hosts.nodes.get(host, NO_NODE)
            known = self._hosts.servers.get(node)
            settling = server.settling if known is None else max(server.settling, known.settling)
            if known is not None and self._connected(node, query, settling, known, server):
                place = {"op": op, "node": query.node, "settling": settling}
                self._tally.violation(query.seq, seq, way="unseen", host=host, **place)

    def finish(self) -> Verdicts:
        """Judge the queries that are still on their way, and answer."""
        self._overdue(NO_NODE, self._now, self._last)
        return super().finish()

    def _taken_for_dead(self, query: _Open, server: Server, answered: set[int]) -> list[str]:
        """The hosts of the partitions that failed against which nothing is said but that they are dead."""
        asked, view = said(self._words, query.query, Query), said(self._words, query.view, View)
        if asked is None or view is None:
            return []
        bound = server.bound(asked.bound)
        failed = [scan(server, view, bound, p) for p in partitions_asked(server, asked) if p not in answered]
        empty = [each for each in failed if not each.candidates]
        dead = {
            h: f"Host is not alive as of time {updated}" for h, (alive, updated) in view.statuses.items() if not alive
        }
        found = [each.host for hosts, _ in empty or failed for each in hosts if each.reasons == (dead.get(each.host),)]
        return [*dict.fromkeys(found)]

    # -- what heartbeats tell --------------------------------------------------------------------------------------

    def _beats_of(self, start: int, end: int) -> _Beats:
        """The heartbeats and decisions from one time to another."""
        found = [each.within(start, end) for each in self._beats if each.time[-1] >= start and each.time[0] <= end]
        return _Beats(*map(np.concatenate, zip(*found, strict=True))) if found else _NO_BEATS

    def _checks(self, node: int, start: int, end: int, server: Server) -> bool:
        """Whether the checks of a node came about when they were due, so that it had time to run."""
        beats = self._beats_of(start, end)
        of_checks = (beats.node == node) & ((beats.kind == _UP) | (beats.kind == _DOWN))
        times = np.concatenate(([start], beats.time[of_checks], [end]))
        return bool(np.diff(times).max() <= 2 * server.heartbeat_check * _MS)

    def _connected(self, node: int, query: _Open, settling: int, known: Server, server: Server) -> bool:
        """Whether a host has been undisturbed for so long, and all its heartbeats came to the router in time."""
        start, router = query.time - settling * _MS, query.node
        listed = self._host(node).listed.get(router, query.time), self._host(router).listed.get(node, query.time)
        undisturbed = max(listed) <= start and self._undisturbed(node, start) and self._undisturbed(router, start)
        checks = self._checks(node, start, query.time, known) and self._checks(router, start, query.time, server)
        if not (undisturbed and checks):
            return False
        beats = self._beats_of(start, query.time)
        beats = _Beats(*(column[beats.seq < query.seq] for column in beats))
        sent = (beats.kind == _HEARTBEAT) & (beats.node == node) & (beats.peer == router)
        heard = (beats.kind == _HEARD) & (beats.node == router) & (beats.peer == node)
        due = beats.stamp[sent & (beats.time <= query.time - server.heartbeat_send * _MS)]
        own = (beats.node == router) & ((beats.kind == _HEARTBEAT) | (beats.kind == _UP) | (beats.kind == _DOWN))
        lead = _lead(beats.stamp[heard], beats.seq[heard], beats.stamp[own], beats.seq[own])
        behind = 2 * server.heartbeat_send - server.silence - 1
        return bool(np.isin(due, beats.stamp[heard]).all() and (lead >= behind).all() and (lead <= 1000).all())


def _lead(stamps: Array, seqs: Array, own: Array, own_seqs: Array) -> Array:
    """By how much each stamp is ahead of the last one that the receiver had made itself."""
    before = np.searchsorted(own_seqs, seqs) - 1
    found: Array = stamps[before >= 0] - own[before[before >= 0]]
    return found


FAMILY = Family(
    "pull_queries_availability",
    (CHECK,),
    _FEW | _BEATS,
    AvailabilityFold.reads,
    AvailabilityFold,
    PULL_QUERIES,
    operations=frozenset({"put", "query"}),
    reads_texts=True,
)
