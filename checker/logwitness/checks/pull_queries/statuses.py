"""Who is alive follows from the heartbeats that arrived, and from nothing else.

The statuses are decided here once more, at each check, from the recorded receipts. A receipt changes no status, and
what a query is routed by is what the last check decided.

Sources: pull-queries.md#status-decision, pull-queries.md#membership-and-heartbeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind

from ..codes import MAX_OFFSET, NULL, code, how_many, lookup
from ..columns import Array, Columns, Ints, read_only
from ..contract import Check, Family, Setting
from ..kernel import kernel, part
from .plain_queries import READS, Plain, PlainQueries, plain_queries
from .protocol import PULL_QUERIES, Status, View, overdue, said
from .skimming import (
    FEW,
    NOWHERE,
    Cells,
    Heard,
    OneColumn,
    SkimmingFold,
    forget_before,
    hear,
    no_rows,
    nothing_heard,
    numbers,
    stamps_of,
    with_room,
    with_rows,
)

REPLAYS = Check(
    id="status-replays",
    rule="A status changes only at a check, to what the check decides from the heartbeats received; a host that is "
    "listed stays so.",
    source=("pull-queries.md#status-replays", "pull-queries.md#tail-decides", "pull-queries.md#slots"),
    fact="a decision of a check, a query routed or a status shown by what checks decided, or a host listed again",
    sentence={
        "decided": "Node {node} decided at {stamp} that node {peer} is {said}, but the heartbeats that it had received "
        "say the opposite.",
        "unlisted": "Node {node} decided at {stamp} about node {peer}, which it had not listed.",
        "again": "Node {node} listed node {peer} at {stamp}, which it had listed before.",
        "shown": "Node {node} showed a status of {host} that differs from the result of its last check.",
        "view": "Node {node} routed operation {op} by a status of {host} that differs from the result of its last "
        "check.",
        "own": "Node {node} has itself as {said} among its statuses, where it should be {right}.",
    },
    kinds=(Kind.SERVE, Kind.LISTED),
    columns=("node", "peer", "stamp"),
    looks_back=True,
)
NO_FALSE_DOWN = Check(
    id="no-false-down",
    rule="A host that was heard from in time is up; the tail decides in one mode, empty and filled slots in a row in "
    "the other.",
    source=("pull-queries.md#no-false-down",),
    fact="a decision about a host that was heard from in time",
    sentence="Node {node} decided at {stamp} that node {peer} is down, although it had heard from it in time.",
    kinds=(Kind.SERVE, Kind.HEARD),
    columns=("node", "peer", "stamp"),
    looks_back=True,
)
SILENCE = Check(
    id="silence-is-down",
    rule="A host of which no stamp lies in the last M send intervals is down.",
    source=("pull-queries.md#silence-is-down", "pull-queries.md#thresholds"),
    fact="a decision about a host that was silent for so long",
    sentence="Node {node} decided at {stamp} that node {peer} is up, although no stamp of it lies in the {silence} ms "
    "before.",
    kinds=(Kind.SERVE,),
    columns=("node", "peer", "stamp"),
    looks_back=True,
)
TO_ALL = Check(
    id="heartbeats-to-all",
    rule="Heartbeats go to every other listed host, even to one that is considered dead.",
    source=("pull-queries.md#heartbeats-to-all",),
    fact="heartbeats of one stamp, by a server that went on after them",
    sentence="Node {node} sent heartbeats with stamp {stamp}, but none to node {peer}, which it had listed.",
    kinds=(Kind.LISTED, Kind.HEARTBEAT),
    columns=("node", "peer", "stamp"),
    looks_back=True,
)
REPORTS_TO_ALL = Check(
    id="reports-to-all",
    rule="A lag report goes to every other listed host; in the public implementation only to those that the last check "
    "considered alive.",
    source=("pull-queries.md#lag-report-targets", "pull-queries.md#reports-to-all"),
    fact="a lag report of a server in a run that records where reports go",
    sentence={
        "lacking": "Node {node} made a lag report at {stamp} and sent it to others, but not to node {peer}.",
        "beside": "Node {node} sent the lag report of {stamp} to node {peer}, to which none should go.",
    },
    kinds=(Kind.SERVE, Kind.LISTED, Kind.REPORT, Kind.REPORT_SENT),
    columns=("node", "peer", "stamp"),
    looks_back=True,
)
GO_ON = Check(
    id="reports-go-on",
    rule="A server that sends heartbeats goes on reporting its lag and checking who is alive; one that checks goes on "
    "sending heartbeats.",
    source=("pull-queries.md#reports-go-on", "pull-queries.md#lag-formula"),
    fact="a lag report of a server that reports, or a decision of a check",
    sentence={
        "heartbeats": "Node {node} checked who is alive {rounds:time|times}, once every {check} ms, but has sent no "
        "heartbeat since.",
        "reports": "Node {node} sent {rounds:heartbeat|heartbeats} to each listed host, one every {send} ms, but has "
        "made no lag report since.",
        "checks": "Node {node} sent {rounds:heartbeat|heartbeats} to each listed host, one every {send} ms, but has "
        "checked no host since.",
    },
    kinds=(Kind.SERVE,),
    columns=("node", "stamp"),
)
DECIDES_ALL = Check(
    id="checks-decide-all",
    rule="A check decides about every other listed host, with one stamp.",
    source=("pull-queries.md#checks-decide-all",),
    fact="a check of a server that made another one after it",
    sentence="Node {node} decided at {stamp} who is alive, but said nothing of node {peer}.",
    kinds=(Kind.LISTED,),
    columns=("node", "peer", "stamp"),
    looks_back=True,
)
CHECKS = (REPLAYS, NO_FALSE_DOWN, SILENCE, TO_ALL, REPORTS_TO_ALL, GO_ON, DECIDES_ALL)

_KINDS = frozenset(
    {Kind.SERVE, Kind.LISTED, Kind.HEARTBEAT, Kind.HEARD, Kind.UP, Kind.DOWN, Kind.ROUTE, Kind.SHOWN}
    | {Kind.REPORT, Kind.REPORT_SENT}
)
_REPORT, _REPORT_SENT, _SHOWN = code(Kind.REPORT), code(Kind.REPORT_SENT), code(Kind.SHOWN)
_SERVE, _LISTED, _HEARTBEAT, _HEARD, _UP, _DOWN, _ROUTE = (
    code(kind) for kind in (Kind.SERVE, Kind.LISTED, Kind.HEARTBEAT, Kind.HEARD, Kind.UP, Kind.DOWN, Kind.ROUTE)
)
_IS_END = lookup(END_KINDS)
_IS_WANTED = lookup(_KINDS | END_KINDS)
_REPLAYS, _HEARD_IN_TIME, _SILENT, _TO_ALL, _REPORTS_TO_ALL, _GO_ON, _DECIDES_ALL = range(len(CHECKS))
_DIFFERS, _FALSE_DOWN, _FALSE_UP, _UNLISTED, _LACKS, _OVERDUE, _PARTIAL, _STILL = (1 << bit for bit in range(8))
"""What a decision, a round of heartbeats or a check breaks."""
_BROKEN, _FEWER, _TELLS = range(3)
"""What was broken last; how many nodes there are, if each host is a node of its own and there are no more than `FEW`,
else 0; whether somebody has told where a report goes."""


class _Rows(NamedTuple):
    """The columns that are read."""

    seq: Cells
    kind: Cells
    node: Cells
    peer: Cells
    op: Cells
    stamp: Cells
    value: Cells
    who: Cells
    other: Cells
    pair: Cells
    viewed: Cells


class _Servers(NamedTuple):
    """By row of a node: whether it runs, what it was told (`Server`), and what its process has done."""

    runs: Cells
    known: Cells  # 1: its configuration can be reckoned with; else nothing of that is told
    shipped: Cells
    beats: Cells  # whether heartbeats are on
    send: Cells
    window: Cells
    missed: Cells
    received: Cells
    silence: Cells
    reports: Cells  # heartbeats that may be sent without a lag report; -1: none is made
    checks: Cells
    beatless: Cells  # checks that may be made without a heartbeat; -1: none is sent
    host: Cells  # the number of its host
    round: Cells  # the number of the heartbeats of one stamp
    opened: Cells  # whether they are not over
    sent: Cells  # their stamp
    to_listed: Cells  # to how many that are listed they went
    listed: Cells  # how many are
    statuses: Cells  # how many other hosts have a status
    unreported: Cells  # rounds since the last report
    unchecked: Cells
    unsent: Cells  # checks since the last heartbeat
    report: Cells  # the event of that
    check: Cells
    beat: Cells
    telling: Cells  # the number of the report that is told of
    announced: Cells  # its stamp
    turn: Cells  # the number of the last check
    now: Cells  # its stamp
    turned: Cells  # its first decision
    due: Cells  # how many other hosts were listed before it
    decided: Cells  # about how many of these it has decided
    others: Cells  # how many other hosts are listed


class _Pairs(NamedTuple):
    """By row of a pair: what the process of the first node knows of the second, and told it."""

    status: Cells
    updated: Cells
    alive: Cells  # 1: the last check took it for that
    since: Cells  # the event that listed it
    listed: Cells  # the last one
    round: Cells  # the last heartbeats that it was sent one of
    beat: Cells  # and the event of that
    telling: Cells  # the last report that it was told to be sent
    tell: Cells
    turn: Cells  # the last check that decided about it
    decision: Cells  # and the event of that


class _State(NamedTuple):
    """What the loop knows."""

    servers: _Servers
    pairs: _Pairs
    heard: Heard
    numbers: Ints  # what views say (`plain_queries`)
    hosts: Cells  # by number of the name of a host: the row of its node
    of_few: Ints  # the rows of pairs of the first nodes (`FEW`)
    run: Cells  # whose numbers are named above


@part
def _ends_round(state: _State, node: int, judged: Cells) -> int:
    """Heartbeats of one stamp are over: each listed host has one, and they are not too many; what of that is broken.

    They are counted, for they go by the clock that reports and checks go by.
    """
    servers, broken = state.servers, 0
    judged[_TO_ALL] += servers.listed[node] > 0
    if servers.to_listed[node] < servers.listed[node]:
        broken |= _LACKS
    servers.opened[node] = 0
    servers.to_listed[node] = 0
    servers.round[node] += 1
    if servers.known[node]:
        servers.unchecked[node] += 1
        servers.unreported[node] += servers.reports[node] >= 0
        late = servers.reports[node] >= 0 and servers.unreported[node] > servers.reports[node]
        if late or servers.unchecked[node] > servers.checks[node]:
            broken |= _OVERDUE
    return broken


@part
def _sends(state: _State, node: int, pair: int, stamp: int, seq: int) -> None:
    """A heartbeat."""
    servers, pairs = state.servers, state.pairs
    servers.opened[node] = 1
    servers.sent[node] = stamp
    servers.unsent[node], servers.beat[node] = 0, seq
    if pairs.round[pair] != servers.round[node]:
        pairs.round[pair] = servers.round[node]
        servers.to_listed[node] += pairs.listed[pair] >= 0
    pairs.beat[pair] = seq


@part
def _by_tail(state: _State, node: int, place: int, end: int) -> int:
    """Whether a host is up by the rule of the public implementation, 1, and 2 more if it was heard in time.

    ``place`` is its first stamp in the window. Source: pull-queries.md#tail-decides, pull-queries.md#no-false-down.
    """
    servers, stamps = state.servers, state.heard.stamps
    send, previous, missed, heard = servers.send[node], end - servers.window[node], 0, 0
    if place < 0 or stamps.stamp[place] > end:
        return 0
    while place >= 0 and stamps.stamp[place] <= end:
        stamp = stamps.stamp[place]
        if end - servers.silence[node] <= stamp <= end - 2:
            heard = 2
        if stamp < end:
            missed = (stamp - previous - 1) // send if stamp - previous > send else 0
            previous = stamp
        place = stamps.after[place]
    if end - previous > 1:
        missed = (end - previous - 1) // send
    return heard | (1 if missed < servers.missed[node] else 0)


@part
def _by_slots(state: _State, node: int, place: int, end: int, up: int) -> int:
    """The same by the rule of the proposal; ``up``: the status that is stored.

    Source: pull-queries.md#slots, pull-queries.md#no-false-down.
    """
    servers, stamps = state.servers, state.heard.stamps
    send, start = servers.send[node], end - servers.window[node]
    last, filled, gap, before, some = -1, 0, 0, up, 0
    slots = servers.window[node] // send
    while place >= 0 and stamps.stamp[place] <= end:
        some = 1
        slot = (stamps.stamp[place] - start) // send
        if last < slot < slots:
            if slot > last + 1:
                filled = 0
            if slot - last - 1 > servers.missed[node]:
                up, gap = 0, 1
            filled += 1
            if filled >= servers.received[node]:
                up = 1
            last = slot
        place = stamps.after[place]
    if last + 1 < slots:
        filled = 0
    if slots - last - 1 > servers.missed[node]:
        up, gap = 0, 1
    heard = 2 if (before and not gap) or filled >= servers.received[node] else 0
    return heard | (up if some else 0)


@part
def _begins_check(state: _State, node: int, stamp: int, seq: int, judged: Cells) -> int:
    """A decision of another stamp: the check before is over; what that breaks."""
    servers, due = state.servers, state.servers.due[node]
    judged[_DECIDES_ALL] += due > 0
    if servers.decided[node] < due:
        servers.due[node] = 0
        return _PARTIAL
    servers.turn[node] += 1
    servers.now[node], servers.turned[node] = stamp, seq
    servers.due[node], servers.decided[node] = servers.others[node], 0
    servers.unsent[node] += servers.beatless[node] >= 0
    return _STILL if 0 <= servers.beatless[node] < servers.unsent[node] else 0


@part
def _notes(state: _State, node: int, other: int, pair: int, seq: int) -> None:
    """A check has decided about a host."""
    servers, pairs = state.servers, state.pairs
    due = other != node and 0 <= pairs.since[pair] < servers.turned[node]
    servers.decided[node] += due and pairs.turn[pair] != servers.turn[node]
    pairs.turn[pair], pairs.decision[pair] = servers.turn[node], seq


@part
def _decides(state: _State, rows: _Rows, i: int, judged: Cells) -> int:
    """A check decides about a host, of a server with a known configuration; what it breaks."""
    servers, pairs, node, pair, end = state.servers, state.pairs, rows.who[i], rows.pair[i], rows.stamp[i]
    up, seq, broken = 1 if rows.kind[i] == _UP else 0, rows.seq[i], 0
    judged[_REPLAYS] += 1
    judged[_GO_ON] += 1
    servers.unchecked[node] = 0
    servers.check[node] = seq
    before = pairs.status[pair]
    if before < 0:
        broken, before = _UNLISTED, 1
        pairs.updated[pair] = end
        servers.statuses[node] += rows.other[i] != node
    if state.heard.ends.first[pair] >= 0:
        pairs.updated[pair] = end
    pairs.status[pair] = up
    pairs.alive[pair] = up
    forget_before(state.heard, pair, end - servers.window[node])
    place = state.heard.ends.first[pair]
    found = _by_tail(state, node, place, end) if servers.shipped[node] else _by_slots(state, node, place, end, before)
    silent, stamps = 1, state.heard.stamps
    last = state.heard.ends.last[pair]
    while last >= 0 and stamps.stamp[last] >= end:
        last = stamps.before[last]
    if last >= 0 and stamps.stamp[last] >= end - servers.silence[node]:
        silent = 0
    judged[_HEARD_IN_TIME] += found >> 1
    judged[_SILENT] += silent
    if up != found & 1:
        broken |= _DIFFERS
    if found & 2 and not up:
        broken |= _FALSE_DOWN
    if silent and up:
        broken |= _FALSE_UP
    return broken


@part
def _shows_statuses(state: _State, node: int, view: int) -> bool:
    """Whether a view has the statuses that the last check gave, as far as that can be told here."""
    servers, pairs, numbers = state.servers, state.pairs, state.numbers
    if view < 0 or not servers.known[node] or not servers.beats[node] or not state.run[_FEWER]:
        return False
    if servers.host[node] < 0 or state.hosts[servers.host[node]] != node:
        return False
    announced = own = 0
    begin = numbers[view] + 1
    for at in range(begin, begin + 3 * numbers[begin - 1], 3):
        host = numbers[at]
        if host != servers.host[node]:
            other = state.hosts[host]
            pair = state.of_few[node * FEW + other + 1] if other >= 0 else NOWHERE
            if pair < 0 or pairs.status[pair] != numbers[at + 1]:
                return False
            if pairs.updated[pair] != numbers[at + 2]:
                return False
            announced += 1
        elif numbers[at + 1] != 1:
            return False
        else:
            own = 1
    return bool(own and announced == servers.statuses[node])


@part
def _tells(state: _State, node: int, pair: int, stamp: int, seq: int) -> None:
    """It is told to whom a report goes."""
    servers, pairs = state.servers, state.pairs
    if servers.announced[node] != stamp:
        servers.telling[node] += 1
        servers.announced[node] = stamp
    pairs.telling[pair] = servers.telling[node]
    pairs.tell[pair] = seq
    state.run[_TELLS] = 1


@part
def _reports_to_all(state: _State, node: int, stamp: int) -> bool:
    """Whether a report went to its targets and to nobody else, as far as that can be told here."""
    servers, pairs = state.servers, state.pairs
    if not state.run[_FEWER] or servers.announced[node] != stamp:
        return False
    for other in range(state.run[_FEWER]):
        pair = state.of_few[node * FEW + other + 1]
        if pair >= 0 and other != node:
            target = pairs.alive[pair] if servers.shipped[node] else pairs.listed[pair] >= 0
            if (pairs.telling[pair] == servers.telling[node]) != (target > 0):
                return False
    return True


@part
def _lists(state: _State, rows: _Rows, i: int) -> None:
    """A server lists a host for the first time."""
    servers, pairs, node, pair = state.servers, state.pairs, rows.who[i], rows.pair[i]
    other = rows.other[i] != node
    servers.statuses[node] += other and pairs.status[pair] < 0
    servers.listed[node] += 1
    servers.others[node] += other
    pairs.since[pair] = pairs.listed[pair] = rows.seq[i]
    pairs.status[pair], pairs.updated[pair] = 1, rows.stamp[i]


@kernel
def _skim(rows: _Rows, at: int, state: _State, judged: Cells) -> int:
    servers, run = state.servers, state.run
    for i in range(at, len(rows.kind)):
        kind, node, stamp = rows.kind[i], rows.who[i], rows.stamp[i]
        if not _IS_WANTED[kind]:
            continue
        run[_BROKEN] = 0
        if kind == _SERVE:
            return i
        if not servers.runs[node]:
            continue
        if _IS_END[kind]:
            servers.runs[node] = 0  # it may have ended in the middle of a round
            continue
        if servers.opened[node] and (kind != _HEARTBEAT or stamp != servers.sent[node]):
            run[_BROKEN] = _ends_round(state, node, judged)
            if run[_BROKEN]:
                return i
        if kind == _HEARTBEAT:
            _sends(state, node, rows.pair[i], stamp, rows.seq[i])
        elif kind == _LISTED and state.pairs.listed[rows.pair[i]] < 0:
            _lists(state, rows, i)
        elif kind == _HEARD:
            hear(state.heard, rows.pair[i], stamp, rows.seq[i])
        elif kind in (_UP, _DOWN):
            if stamp != servers.now[node]:
                run[_BROKEN] = _begins_check(state, node, stamp, rows.seq[i], judged)
                if run[_BROKEN]:
                    return i
            _notes(state, node, rows.other[i], rows.pair[i], rows.seq[i])
            if not servers.known[node]:
                return i
            run[_BROKEN] = _decides(state, rows, i, judged)
            if run[_BROKEN]:
                return i
        elif kind == _ROUTE and _shows_statuses(state, node, rows.viewed[i]):
            judged[_REPLAYS] += 1
        elif kind == _REPORT_SENT:
            _tells(state, node, rows.pair[i], stamp, rows.seq[i])
        elif kind == _REPORT and servers.known[node] and _reports_to_all(state, node, stamp):
            judged[_REPORTS_TO_ALL] += 1
            judged[_GO_ON] += servers.reports[node] >= 0
            servers.unreported[node] = 0
            servers.report[node] = rows.seq[i]
            servers.telling[node] += 1
            servers.announced[node] = NULL
        else:
            return i
    return len(rows.kind)


_OF_PROCESS = (
    *("telling", "listed", "statuses", "unreported", "unchecked", "unsent", "to_listed", "opened", "round"),
    *("turn", "due", "decided", "others"),
)
_BLANK = {"runs": 0, "known": 0, "announced": NULL, "now": NULL, **dict.fromkeys(_OF_PROCESS, 0)}
_UNKNOWN = {"alive": 0}


class StatusFold(SkimmingFold[_Rows]):
    """Judges the statuses of one run; see the module."""

    checks = CHECKS
    reads = READS
    wanted = _IS_WANTED

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, _Rows)
        self._finder: PlainQueries | None = None
        self._plain: Plain | None = None
        of_nodes = no_rows(_Servers, compiled=self.compiled), no_rows(_Pairs, compiled=self.compiled)
        run = numbers((0, 0, 0), compiled=self.compiled)
        heard, hosts = nothing_heard(self.compiled), numbers((), compiled=self.compiled)
        self._state = _State(*of_nodes, heard, np.zeros(0, np.int64), hosts, self.nodes.few, run)

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        if self.compiled:
            self._finder = self._finder or plain_queries(self._words, columns)
            self._plain = self._finder.of(columns)
        super().feed(columns)

    def more(self, held: Mapping[str, Array]) -> dict[str, Array]:
        """See `SkimmingFold`."""
        return {"viewed": np.full(len(held["kind"]), NOWHERE) if self._plain is None else self._plain.said}

    def make_room(self, rows: _Rows) -> None:
        """See `SkimmingFold`."""
        nodes, pairs = self.nodes.sizes
        state = self._state
        self._state = state._replace(
            servers=with_rows(state.servers, nodes, _BLANK),
            pairs=with_rows(state.pairs, pairs, _UNKNOWN),
            heard=with_room(state.heard, pairs, how_many(rows.kind, _HEARD)),
            numbers=state.numbers if self._plain is None else read_only(self._plain.numbers),
        )
        self._know_hosts()

    def skim(self, rows: _Rows, at: int) -> int:
        """See `SkimmingFold`."""
        return _skim.form(self.compiled)(rows, at, self._state, self.judged)

    def _know_hosts(self) -> None:
        """Which node each host is."""
        state = self._state
        names = {} if self._plain is None else self._plain.names
        (hosts,) = with_rows(OneColumn(state.hosts), max(names.values(), default=NOWHERE) + 1, {})
        for host, number in names.items():
            node = self._hosts.nodes.get(host)
            hosts[number] = NOWHERE if node is None else self.nodes.who.row(node)
        known = self._hosts.nodes.values()
        plain, nodes = len(set(known)) == len(known), self.nodes.sizes[0]
        state.run[_FEWER] = nodes if plain and nodes <= FEW else 0
        self._state = state._replace(hosts=hosts)

    def take(self, e: _Rows) -> bool:
        """See `SkimmingFold`."""
        broken = int(self._state.run[_BROKEN])
        if broken & (_LACKS | _OVERDUE):
            self._round(e.node, e.who, broken)
            return False
        if broken & _PARTIAL:
            self._passes_over(e)
            return False
        if broken & _STILL:
            self._sends_nothing(e)
            return False
        if e.kind == _SERVE:
            self._serves(e)
        elif e.kind == _LISTED:
            pairs, again = self._state.pairs, {"node": e.node, "peer": e.peer, "stamp": e.stamp}
            self._tallies[REPLAYS.id].judged += 1
            self._tallies[REPLAYS.id].violation(int(pairs.listed[e.pair]), e.seq, way="again", **again)
            pairs.status[e.pair], pairs.updated[e.pair], pairs.listed[e.pair] = 1, e.stamp, e.seq
        elif e.kind in (_ROUTE, _SHOWN):
            self._shows(e)
        elif e.kind == _REPORT:
            self._reports(e)
        elif broken:
            self._decided(e, broken)
        else:
            self._tallies[REPLAYS.id].unjudged += 1
        return True

    def _serves(self, e: _Rows) -> None:
        self._hosts.serve(e.node, e.value)
        servers, pairs, heard = self._state.servers, self._state.pairs, self._state.heard
        for name, column in zip(servers._fields, servers, strict=True):
            column[e.who] = _BLANK.get(name, NOWHERE)
        for _, pair in self.nodes.pairs_of(e.node):
            for name, column in zip(pairs._fields, pairs, strict=True):
                column[pair] = _UNKNOWN.get(name, NOWHERE)
            forget_before(heard, pair, (1 << 63) - 1)
        servers.runs[e.who] = 1
        server = self._hosts.servers.get(e.node)
        if server is not None:
            send = server.heartbeat_send
            announced = {
                "known": 1,
                "shipped": server.shipped,
                "beats": server.heartbeats,
                "send": send,
                "window": server.heartbeat_window,
                "missed": server.missed_threshold,
                "received": server.received_threshold,
                "silence": server.silence,
                "reports": overdue(server.lag_report) // send if server.lag_reports else NOWHERE,
                "checks": overdue(server.heartbeat_check) // send,
                "beatless": 1 + overdue(send) // server.heartbeat_check if server.heartbeats else NOWHERE,
                "host": NOWHERE if self._plain is None else self._plain.names.get(server.host, NOWHERE),
            }
            for name, number in announced.items():
                getattr(servers, name)[e.who] = min(int(number), MAX_OFFSET)
        self._know_hosts()

    def _reports(self, e: _Rows) -> None:
        """A report is made, after it was sent."""
        server, tally = self._hosts.servers.get(e.node), self._tallies[REPORTS_TO_ALL.id]
        servers, pairs = self._state.servers, self._state.pairs
        known, telling = self.nodes.pairs_of(e.node), int(servers.telling[e.who])
        announced = {peer: int(pairs.tell[pair]) for peer, pair in known if pairs.telling[pair] == telling}
        announced = announced if servers.announced[e.who] == e.stamp else {}
        servers.telling[e.who], servers.announced[e.who] = telling + 1, NULL
        self.judged[_GO_ON] += server is not None and server.lag_reports
        servers.unreported[e.who], servers.report[e.who] = 0, e.seq
        if server is None or not self._state.run[_TELLS]:
            return
        tally.judged += 1
        others = [(peer, pair) for peer, pair in known if peer != e.node]
        listed = {peer: int(pairs.listed[pair]) for peer, pair in others if pairs.listed[pair] >= 0}
        targets = {peer for peer, pair in others if pairs.alive[pair]} if server.shipped else listed.keys()
        for peer in sorted(targets - announced.keys()):
            shown = listed.get(peer, -1), *announced.values(), e.seq
            rests_on = (Kind.DOWN,) if server.shipped else ()
            tally.violation(*shown, way="lacking", rests_on=rests_on, node=e.node, stamp=e.stamp, peer=peer)
        for peer in sorted(announced.keys() - targets):
            rests_on, place = (Kind.UP if server.shipped else Kind.LISTED,), {"node": e.node, "stamp": e.stamp}
            tally.violation(announced[peer], e.seq, way="beside", rests_on=rests_on, peer=peer, **place)

    def _round(self, node: int, who: int, broken: int) -> None:
        """Heartbeats of one stamp that are over, and were too few or too many."""
        servers, pairs = self._state.servers, self._state.pairs
        of_round, known = int(servers.round[who]) - 1, self.nodes.pairs_of(node)
        shown = [int(pairs.beat[pair]) for _, pair in known if pairs.round[pair] == of_round]
        if broken & _LACKS:
            lacking = [each for each in known if pairs.listed[each[1]] >= 0 and pairs.round[each[1]] != of_round]
            for peer, pair in sorted(lacking):
                place: dict[str, Any] = {"node": node, "stamp": int(servers.sent[who]), "peer": peer}
                self._tallies[TO_ALL.id].violation(int(pairs.listed[pair]), *shown, **place)
        if not broken & _OVERDUE:
            return
        send = int(servers.send[who])
        of_ways = {
            "reports": (servers.unreported, servers.reports, servers.report),
            "checks": (servers.unchecked, servers.checks, servers.check),
        }
        for way, (rounds, most, last) in of_ways.items():
            if 0 <= most[who] < rounds[who]:
                announced: dict[str, Any] = {"way": way, "node": node, "rounds": int(rounds[who]), "send": send}
                rests_on = (Kind.REPORT,) if way == "reports" else ()
                self._tallies[GO_ON.id].violation(int(last[who]), *shown, rests_on=rests_on, **announced)
                rounds[who] = 0

    def _sends_nothing(self, e: _Rows) -> None:
        """A check begins, and there were too many since the last heartbeat."""
        servers, check = self._state.servers, self._hosts.servers[e.node].heartbeat_check
        announced: dict[str, Any] = {"node": e.node, "rounds": int(servers.unsent[e.who]), "check": check}
        evidence = int(servers.beat[e.who]), e.seq
        self._tallies[GO_ON.id].violation(*evidence, way="heartbeats", rests_on=(Kind.HEARTBEAT,), **announced)
        servers.unsent[e.who] = 0

    def _passes_over(self, e: _Rows) -> None:
        """A check that is over, since ``e`` is of the next one, and did not decide about all hosts."""
        servers, pairs = self._state.servers, self._state.pairs
        turn, first, known = servers.turn[e.who], int(servers.turned[e.who]), sorted(self.nodes.pairs_of(e.node))
        shown = [int(pairs.decision[pair]) for _, pair in known if pairs.turn[pair] == turn]
        for peer, pair in known:
            listed = int(pairs.since[pair])
            if peer != e.node and 0 <= listed < first and pairs.turn[pair] != turn:
                place: dict[str, Any] = {"node": e.node, "stamp": int(servers.now[e.who]), "peer": peer}
                evidence = *sorted((listed, *shown)), e.seq
                self._tallies[DECIDES_ALL.id].violation(*evidence, rests_on=(Kind.UP, Kind.DOWN), **place)

    def _decided(self, e: _Rows, broken: int) -> None:
        """A decision that breaks a rule."""
        server, place = self._hosts.servers[e.node], {"node": e.node, "stamp": e.stamp, "peer": e.peer}
        replays = self._tallies[REPLAYS.id]
        if broken & _UNLISTED:
            replays.violation(e.seq, way="unlisted", rests_on=(Kind.LISTED,), **place)
        counted = [seq for stamp, seq in stamps_of(self._state.heard, e.pair) if stamp <= e.stamp]
        if broken & _DIFFERS:
            reported, rests_on = ("alive", (Kind.HEARD,)) if e.kind == _UP else ("down", ())
            replays.violation(*counted, e.seq, way="decided", rests_on=rests_on, said=reported, **place)
        if broken & _FALSE_DOWN:
            self._tallies[NO_FALSE_DOWN.id].violation(*counted, e.seq, **place)
        if broken & _FALSE_UP:
            silence = {"silence": server.silence, **place}
            self._tallies[SILENCE.id].violation(*counted, e.seq, rests_on=(Kind.HEARD,), **silence)

    def _shows(self, e: _Rows) -> None:
        """What a query is routed by, or somebody is shown: the statuses that the last check gave; without heartbeats
        none (pull-queries.md#switches)."""
        tally, server = self._tallies[REPLAYS.id], self._hosts.servers.get(e.node)
        statuses = self._statuses_of(e)
        if server is None or statuses is None:
            tally.unjudged += 1
            return
        tally.judged += 1
        own, numbers = server.host, self._hosts.nodes
        known = self._known(e.node) if server.heartbeats else {}
        announced = [
            host
            for host, status in statuses.items()
            if host in numbers and host != own and known.get(numbers[host]) != status
        ]
        untold = [host for host, peer in numbers.items() if peer in known and host not in (own, *statuses)]
        place = {"node": e.node} if e.kind == _SHOWN else {"node": e.node, "op": e.op}
        itself, right = _in_words(statuses.get(own)), "alive" if server.heartbeats else "absent"
        if itself != right:
            tally.violation(e.seq, way="own", said=itself, right=right, node=e.node)
        for host in (*announced, *sorted(untold)):
            way, rests_on = (
                "shown" if e.kind == _SHOWN else "view",
                _told_by(statuses.get(host)),
            )
            tally.violation(e.seq, way=way, rests_on=rests_on, host=host, **place)

    def _known(self, node: int) -> dict[int, tuple[bool, int]]:
        """The statuses that a server has given, by node."""
        pairs = self._state.pairs
        known = [(peer, int(pairs.status[row]), int(pairs.updated[row])) for peer, row in self.nodes.pairs_of(node)]
        return {peer: (bool(status), updated) for peer, status, updated in known if status >= 0}

    def _statuses_of(self, e: _Rows) -> Mapping[str, tuple[bool, int]] | None:
        if e.kind == _ROUTE:
            view = said(self._words, e.value, View)
            return None if view is None else view.statuses
        announced = said(self._words, e.value, Status)
        return (
            None if announced is None else {host: (alive, updated) for host, (alive, updated, _) in announced.items()}
        )


def _in_words(status: tuple[bool, int] | None) -> str:
    return "absent" if status is None else "alive" if status[0] else "down"


def _told_by(shown: tuple[bool, int] | None) -> tuple[Kind, ...]:
    """The kinds of events by which a server knows what it shows of a host, and since when."""
    return () if shown is None else (Kind.LISTED, Kind.HEARD, Kind.UP if shown[0] else Kind.DOWN)


FAMILY = Family(
    "pull_queries_statuses",
    CHECKS,
    _KINDS | END_KINDS,
    StatusFold.reads,
    StatusFold,
    PULL_QUERIES,
    reads_texts=True,
)
