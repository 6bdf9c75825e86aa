"""Who is alive follows from the heartbeats that arrived, and from nothing else.

The statuses are decided here once more, at each check, from the recorded receipts. A receipt changes no status, and
what a query is routed by is what the last check decided.

Sources: pull-queries.md#status-decision, pull-queries.md#membership-and-heartbeats.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from loghistory.schema import Kind

from ..codes import code, codes, lookup
from ..columns import Columns
from ..contract import Check, Family, Setting
from .protocol import PULL_QUERIES, Server, ServerFold, Status, View, said

REPLAYS = Check(
    id="status-replays",
    rule="A status changes at a check alone, to what the check decides from the heartbeats received.",
    source=("pull-queries.md#status-replays", "pull-queries.md#tail-decides", "pull-queries.md#slots"),
    fact="a decision of a check, or a query routed, or a status shown, by what checks decided",
    sentence={
        "decided": "Node {node} decided at {stamp} that node {peer} is {said}; the heartbeats that it had received say "
        "the opposite.",
        "unlisted": "Node {node} decided at {stamp} about node {peer}, which it had not listed.",
        "shown": "Node {node} showed another status of {host} than its last check gave it.",
        "view": "Node {node} routed operation {op} by a status of {host} that its last check did not give it.",
    },
    kinds=(Kind.SERVE, Kind.LISTED),
    columns=("node", "peer", "stamp"),
)
NO_FALSE_DOWN = Check(
    id="no-false-down",
    rule="A host that was heard in time is up; the tail decides in one mode, empty and filled slots in a row in the "
    "other.",
    source=("pull-queries.md#no-false-down",),
    fact="a decision about a host that was heard in time",
    sentence="Node {node} decided at {stamp} that node {peer} is down, which it had heard in time.",
    kinds=(Kind.SERVE, Kind.HEARD),
    columns=("node", "peer", "stamp"),
)
SILENCE = Check(
    id="silence-is-down",
    rule="A host of which no stamp lies in the last M send intervals is down.",
    source=("pull-queries.md#silence-is-down", "pull-queries.md#thresholds"),
    fact="a decision about a host that was silent for so long",
    sentence="Node {node} decided at {stamp} that node {peer} is up, of which no stamp lies in the {silence} ms "
    "before.",
    kinds=(Kind.SERVE,),
    columns=("node", "peer", "stamp"),
)
TO_ALL = Check(
    id="heartbeats-to-all",
    rule="Heartbeats go to every other listed host, also to one that is taken for dead.",
    source=("pull-queries.md#heartbeats-to-all",),
    fact="heartbeats of one stamp, by a server that went on after them",
    sentence="Node {node} sent heartbeats with stamp {stamp}, but none to node {peer}, which it had listed.",
    kinds=(Kind.LISTED, Kind.HEARTBEAT),
    columns=("node", "peer", "stamp"),
)
REPORTS_TO_ALL = Check(
    id="reports-to-all",
    rule="A lag report goes to every other listed host; in the public implementation to those that the last check took "
    "for alive.",
    source=("pull-queries.md#lag-report-targets", "pull-queries.md#reports-to-all"),
    fact="a lag report of a server in a run that tells where reports go",
    sentence={
        "lacking": "Node {node} made a lag report at {stamp} and sent it to others, but not to node {peer}.",
        "beside": "Node {node} sent the lag report of {stamp} to node {peer}, to which none goes.",
    },
    kinds=(Kind.SERVE, Kind.LISTED, Kind.REPORT, Kind.REPORT_SENT),
    columns=("node", "peer", "stamp"),
)
GO_ON = Check(
    id="reports-go-on",
    rule="A server that sends heartbeats goes on reporting its lag, and checking who is alive.",
    source=("pull-queries.md#reports-go-on", "pull-queries.md#lag-formula"),
    fact="a lag report of a server that reports, or a decision of a check",
    sentence={
        "reports": "Node {node} sent {rounds:heartbeat|heartbeats} to each listed host, one every {send} ms, and made "
        "no lag report since.",
        "checks": "Node {node} sent {rounds:heartbeat|heartbeats} to each listed host, one every {send} ms, and "
        "checked nobody since.",
    },
    kinds=(Kind.SERVE,),
    columns=("node", "stamp"),
)
CHECKS = (REPLAYS, NO_FALSE_DOWN, SILENCE, TO_ALL, REPORTS_TO_ALL, GO_ON)

_KINDS = frozenset(
    {Kind.SERVE, Kind.LISTED, Kind.HEARTBEAT, Kind.HEARD, Kind.UP, Kind.DOWN, Kind.ROUTE, Kind.SHOWN}
    | {Kind.REPORT, Kind.REPORT_SENT}
)
_REPORT, _REPORT_SENT, _SHOWN = code(Kind.REPORT), code(Kind.REPORT_SENT), code(Kind.SHOWN)
_FIRST = 1000
"""Milliseconds after which a server has reported and checked for the first time, at the latest."""
_MOST = 10
"""So many intervals without a report or a check are too many, though a clock may be set to another rate in between."""
_SERVE, _LISTED, _HEARTBEAT, _HEARD, _UP, _DOWN, _ROUTE = (
    code(kind) for kind in (Kind.SERVE, Kind.LISTED, Kind.HEARTBEAT, Kind.HEARD, Kind.UP, Kind.DOWN, Kind.ROUTE)
)
_ENDS = frozenset({Kind.STOP, Kind.CRASH, Kind.POWER_LOSS, Kind.STORAGE_ERROR})
_IS_END = codes(_ENDS)
_IS_WANTED = lookup(_KINDS | _ENDS)


def by_tail(server: Server, start: int, end: int, stamps: list[int]) -> bool:
    """What a check of the public implementation decides from the stamps in the window, ascending."""
    send, previous, missed = server.heartbeat_send, start, 0
    before = stamps[-3:] if len(stamps) > 3 else stamps  # the last two before the end; one may lie at it
    if len(stamps) > len(before):
        previous = before[0]
    for stamp in before:
        if stamp >= end:
            break
        missed = (stamp - previous - 1) // send if stamp - previous > send else 0
        previous = stamp
    if end - previous > 1:
        missed = (end - previous - 1) // send
    return bool(stamps) and missed < server.missed_threshold


_EMPTY, _FILLED = b"\0", b"\1"


def slots_of(server: Server, start: int, end: int, stamps: list[int]) -> bytes:
    """Of each slot of the window whether a stamp lies in it; one at the very end is beyond the last slot."""
    send = server.heartbeat_send
    row = bytearray((end - start) // send + 1)
    for stamp in stamps:
        row[(stamp - start) // send] = 1
    return bytes(row[:-1])


def by_slots(server: Server, slots: bytes, up: bool) -> tuple[bool, bool]:
    """What a check of the proposal decides; ``up``: the status that is stored. And whether it was heard in time.

    The last row of so many filled or empty slots decides. Source: pull-queries.md#slots, pull-queries.md#no-false-down.
    """
    enough, too_many = _FILLED * server.received_threshold, _EMPTY * (server.missed_threshold + 1)
    came, went = slots.rfind(enough), slots.rfind(too_many)
    heard = (up and went < 0) or slots.endswith(enough)
    if came < 0 and went < 0:
        return up, heard
    turned_up = came >= 0 and came + len(enough) > went + len(too_many)
    return turned_up or (came >= 0 and went < 0), heard


@dataclass(slots=True)
class _Life:
    """What a process of a server knows: the statuses with the time of the last decision, and the stamps it received."""

    statuses: dict[int, tuple[bool, int]] = field(default_factory=dict)
    stamps: dict[int, dict[int, int]] = field(default_factory=dict)  # by peer: stamp -> the event
    listed: dict[int, int] = field(default_factory=dict)  # by peer: the event
    round: dict[int, int] = field(default_factory=dict)  # heartbeats of one stamp: peer -> the event
    sent: int = 0  # their stamp
    alive: set[int] = field(default_factory=set)  # whom the last check took for that
    told: dict[int, dict[int, int]] = field(default_factory=dict)  # by stamp of a report: to whom it went
    rounds: dict[str, int] = field(default_factory=lambda: {"reports": 0, "checks": 0})  # since the last one
    last: dict[str, int] = field(default_factory=dict)  # which is this event

    def went_on(self, way: str, seq: int) -> None:
        """A lag report, or a check."""
        self.rounds[way], self.last[way] = 0, seq


class StatusFold(ServerFold):
    """Judges the statuses of one run; see the module."""

    checks = CHECKS
    reads = ("node", "peer", "op", "stamp", "value")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._lives: dict[int, _Life] = {}
        self._tells = False  # somebody has told where a report goes

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        rows = self.rows(columns, _IS_WANTED)
        told = zip(rows.seq, rows.kind, rows.node, rows.peer, rows.stamp, strict=True)
        for at, (seq, kind, node, peer, stamp) in enumerate(told):
            life = self._lives.get(node)
            if kind == _SERVE:
                self._hosts.serve(node, rows.value[at])
                self._lives[node] = _Life()
            elif life is None:
                continue
            elif kind == _HEARTBEAT:
                if life.round and stamp != life.sent:
                    self._round(node, life)
                life.sent = stamp
                life.round[peer] = seq
            elif kind in _IS_END:
                del self._lives[node]  # it may have ended in the middle of a round
            else:
                if life.round:
                    self._round(node, life)
                if kind == _HEARD:
                    life.stamps.setdefault(peer, {})[stamp] = seq
                else:
                    self._happened(rows, at, life)

    def _happened(self, rows: Columns, at: int, life: _Life) -> None:
        kind, peer, stamp, seq = rows.kind[at], rows.peer[at], rows.stamp[at], rows.seq[at]
        if kind == _LISTED:
            life.statuses[peer] = True, stamp
            life.listed[peer] = seq
        elif kind in (_ROUTE, _SHOWN):
            self._told(rows, at, life)
        elif kind == _REPORT_SENT:
            self._tells = True
            life.told = {stamp: life.told.get(stamp, {}) | {peer: seq}}
        elif kind == _REPORT:
            server = self._hosts.servers.get(rows.node[at])
            self._reported(rows.node[at], stamp, seq, life)
            self._tallies[GO_ON.id].judged += server is not None and server.lag_reports
            life.went_on("reports", seq)
        else:
            self._decided(rows, at, life)

    def _reported(self, node: int, stamp: int, seq: int, life: _Life) -> None:
        """A report is made, after it was sent."""
        server, tally, told = self._hosts.servers.get(node), self._tallies[REPORTS_TO_ALL.id], life.told.get(stamp, {})
        life.told = {}
        if server is None or not self._tells:
            return
        tally.judged += 1
        targets = (life.alive if server.shipped else life.listed.keys()) - {node}
        for peer in sorted(targets - told.keys()):
            tally.violation(
                life.listed.get(peer, -1), *told.values(), seq, way="lacking", node=node, stamp=stamp, peer=peer
            )
        for peer in sorted(told.keys() - targets):
            tally.violation(told[peer], seq, way="beside", node=node, stamp=stamp, peer=peer)

    def _round(self, node: int, life: _Life) -> None:
        """Heartbeats of one stamp are over: each listed host has one."""
        tally = self._tallies[TO_ALL.id]
        tally.judged += bool(life.listed)
        for peer in sorted(life.listed.keys() - life.round.keys()):
            tally.violation(life.listed[peer], *life.round.values(), node=node, stamp=life.sent, peer=peer)
        self._goes_on(node, life)
        life.round = {}

    def _goes_on(self, node: int, life: _Life) -> None:
        """Heartbeats are counted, for they go by the clock that reports and checks go by."""
        server = self._hosts.servers.get(node)
        if server is None:
            return
        send = server.heartbeat_send
        intervals = {"reports": server.lag_report} if server.lag_reports else {}
        for way, interval in (intervals | {"checks": server.heartbeat_check}).items():
            life.rounds[way] += 1
            if life.rounds[way] * send > _FIRST + _MOST * interval:
                shown = life.last.get(way, -1), *life.round.values()
                self._tallies[GO_ON.id].violation(*shown, way=way, node=node, rounds=life.rounds[way], send=send)
                life.rounds[way] = 0

    def _decided(self, rows: Columns, at: int, life: _Life) -> None:
        node, peer, end, seq = rows.node[at], rows.peer[at], rows.stamp[at], rows.seq[at]
        replays, server = self._tallies[REPLAYS.id], self._hosts.servers.get(node)
        if server is None:
            replays.unjudged += 1
            return
        replays.judged += 1
        self._tallies[GO_ON.id].judged += 1
        life.went_on("checks", seq)
        if peer not in life.statuses:
            replays.violation(seq, way="unlisted", node=node, stamp=end, peer=peer)
        before, updated = life.statuses.get(peer, (True, end))
        stamps, start, up = life.stamps.get(peer, {}), end - server.heartbeat_window, rows.kind[at] == _UP
        life.statuses[peer] = up, end if stamps else updated
        (life.alive.add if up else life.alive.discard)(peer)
        counted = sorted(stamps)
        first = bisect_left(counted, start)
        for stamp in counted[:first]:
            del stamps[stamp]
        counted = counted[first : bisect_right(counted, end)]
        last = bisect_left(counted, end)
        silent = not last or counted[last - 1] < end - server.silence
        if server.shipped:
            decided = by_tail(server, start, end, counted)
            heard = bisect_left(counted, max(start, end - server.silence)) < bisect_right(counted, end - 2)
        else:
            decided, heard = by_slots(server, slots_of(server, start, end, counted), before)
            decided = decided and bool(counted)
        # What holds of every decision, whichever way it is made, is judged beside it.
        self._tallies[NO_FALSE_DOWN.id].judged += heard
        self._tallies[SILENCE.id].judged += silent
        if up == decided and not (heard and not up) and not (silent and up):
            return
        place, shown = {"node": node, "stamp": end, "peer": peer}, (*(stamps[stamp] for stamp in counted), seq)
        if up != decided:
            replays.violation(*shown, way="decided", said="alive" if up else "down", **place)
        if heard and not up:
            self._tallies[NO_FALSE_DOWN.id].violation(*shown, **place)
        if silent and up:
            self._tallies[SILENCE.id].violation(*shown, silence=server.silence, **place)

    def _told(self, rows: Columns, at: int, life: _Life) -> None:
        """What a query is routed by, or somebody is shown: the statuses that the last check gave; without heartbeats
        none (pull-queries.md#switches)."""
        node, seq = rows.node[at], rows.seq[at]
        tally, server = self._tallies[REPLAYS.id], self._hosts.servers.get(node)
        statuses = self._statuses_of(rows, at)
        if server is None or statuses is None:
            tally.unjudged += 1
            return
        tally.judged += 1
        own, numbers, known = server.host, self._hosts.nodes, life.statuses if server.heartbeats else {}
        told = [host for host, status in statuses.items() if known.get(numbers.get(host, -1)) != status and host != own]
        untold = [host for host, peer in numbers.items() if peer in known and host not in (own, *statuses)]
        place = {"node": node} if rows.kind[at] == _SHOWN else {"node": node, "op": rows.op[at]}
        for host in (*told, *sorted(untold)):
            tally.violation(seq, way="shown" if rows.kind[at] == _SHOWN else "view", host=host, **place)

    def _statuses_of(self, rows: Columns, at: int) -> Mapping[str, tuple[bool, int]] | None:
        if rows.kind[at] == _ROUTE:
            view = said(self._words, rows.value[at], View)
            return None if view is None else view.statuses
        told = said(self._words, rows.value[at], Status)
        return None if told is None else {host: (alive, updated) for host, (alive, updated, _) in told.items()}


FAMILY = Family(
    "pull_queries_statuses",
    CHECKS,
    _KINDS | _ENDS,
    StatusFold.reads,
    StatusFold,
    PULL_QUERIES,
    reads_texts=True,
)
