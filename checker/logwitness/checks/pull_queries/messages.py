"""What arrives was sent: by whom it is said to come from, before, and as it was.

The folds about statuses, tables and routes take what a server hears for what was said; here the two are compared. A
server that was cut off may have lost the end of its record: what is missing there is held against it only once it
records something more in the same life. A heartbeat or a report says when it was sent, by the sender's clock: it is of
that end only if its stamp is between the last one that is recorded of that life and the first one of the next.

Sources: pull-queries.md#heard-was-said, counting.md#may-lack.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind

from ..codes import FAIL, FAULT, HEAL, INFO, INVOKE, MAX_OFFSET, NO_NODE, NULL, OK, code, lookup
from ..columns import Array, Columns, Ints, read_only
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..ends import MOST_NODES, Ends
from ..kernel import kernel
from .plain_queries import READS, QueryFold, state
from .protocol import LATE, PULL_QUERIES, Asked, Finished, Positions, Queries, Rows, said
from .skimming import (
    Cells,
    Heard,
    Nodes,
    OneColumn,
    forget_before,
    hear,
    nothing_heard,
    numbers,
    place_of_stamp,
    with_room,
    with_rows,
)

CHECK = Check(
    id="heard-was-said",
    rule="Whatever arrives was sent: heartbeats and lag reports by their senders, forwarded queries by the router, "
    "answers by the server that was asked, and the end of a query by its router.",
    source=("pull-queries.md#heard-was-said", "pull-queries.md#stamps", "pull-queries.md#emitted-once"),
    fact="something that arrived from a server that records what it does",
    sentence={
        "heartbeat": "Node {node} received a heartbeat of node {peer} with stamp {stamp} that node {peer} had not sent "
        "to it.",
        "report": "Node {node} received a lag report that node {peer} is said to have made at {stamp}; that node made "
        "none then, or a different one.",
        "forwarded": "Node {node} was asked for operation {op} by node {peer}, which had not sent that request.",
        "answer": "Node {node} answered for partition {partition} of operation {op}, or gave it up, although no node "
        "had asked it to.",
        "rows": "Operation {op} got partition {partition} at position {position} from node {peer}, which had not given "
        "that answer.",
        "attempt": "Operation {op} counted partition {partition} as answered by {host}, which had not answered.",
        "reported": "The client of operation {op} was told that it {reported}; node {node}, which routed it, had not "
        "reported that.",
    },
    kinds=(Kind.SERVE,),
    columns=("node",),
    looks_back=True,
)

_OF_SERVERS = (Kind.SERVE, Kind.HEARTBEAT, Kind.HEARD, Kind.REPORT, Kind.REPORT_HEARD)
_OF_QUERIES = (Kind.ROUTE, Kind.FORWARD, Kind.FORWARDED, Kind.ANSWER, Kind.GIVE_UP, Kind.FINISH, Kind.ROWS)
_KINDS = (*_OF_SERVERS, *_OF_QUERIES)
_SERVE, _HEARTBEAT, _HEARD, _REPORT, _REPORT_HEARD = map(code, _OF_SERVERS)
_ROUTE, _FORWARD, _FORWARDED, _ANSWER, _GIVE_UP, _FINISH, _ROWS = map(code, _OF_QUERIES)
_OF_CLIENTS = frozenset({Kind.INVOKE, Kind.OK, Kind.FAIL, Kind.INFO})
_IS_WANTED = lookup(_OF_CLIENTS | {*_KINDS} - {Kind.HEARTBEAT, Kind.HEARD})
_IS_TURN, _IS_SIGN = lookup(END_KINDS | {Kind.SERVE}), lookup(END_KINDS | {*_KINDS} - {Kind.ROWS})
_IS_BEAT = lookup({Kind.HEARTBEAT, Kind.HEARD})
_IS_STATED = lookup({Kind.SERVE, Kind.HEARTBEAT, Kind.REPORT})
_IS_OF_CLOCK = lookup({Kind.FAULT, Kind.HEAL})

_MANY = 4096
_SAID_BY = {
    "report": Kind.REPORT,
    "forwarded": Kind.FORWARD,
    "answer": Kind.FORWARDED,
    "rows": Kind.ANSWER,
    "attempt": Kind.ANSWER,
    "reported": Kind.FINISH,
}
"""By what should have been said, by way."""


class _Sent:
    """What one server said at which stamps, as codes of texts if it has some, and the newest stamp."""

    __slots__ = ("newest", "said")

    def __init__(self) -> None:
        self.newest = -(2**63)
        self.said: dict[int, tuple[int, ...]] = {}

    def at(self, stamp: int, *what: int) -> None:
        """Note what it says at this time."""
        said = self.said
        said[stamp] = (*said[stamp], *what) if stamp in said else what
        if stamp > self.newest:
            self.newest = stamp
        if len(said) > _MANY and len(said) % _MANY == 0:
            self.said = {at: reported for at, reported in said.items() if at >= self.newest - LATE}

    def remembered(self, stamp: int) -> bool:
        """Whether all that was said with a stamp is known still."""
        return stamp >= self.newest - LATE


@dataclass(slots=True)
class _Query:
    """What was said about a query: the node that routed it first, who asked whom, who answered, how it ended."""

    since: int  # the event by which it began
    router: int | None = None
    routed: int = -1  # the event
    forwards: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)  # from and to: texts
    asked: set[tuple[int, int]] = field(default_factory=set)  # node, partition
    answers: dict[tuple[int, int], tuple[tuple[int, int], ...]] = field(default_factory=dict)  # positions and texts
    ended: set[bool] = field(default_factory=set)  # complete or not, as its router said


class _Unsaid(NamedTuple):
    """What arrived by the last of some events and was not said by a node."""

    node: int
    events: tuple[int, ...]
    since: int  # before this event it cannot have been said
    way: str
    rests_on: Kind
    said: dict[str, Any]
    stamp: int  # with which it was said; NULL: it bears none


@dataclass(slots=True)
class _Gap:
    """The end of a life that a record may lack: between which stamps of the server it lies; NULL: that is not known."""

    first: int
    last: int = NULL


class _Stated(NamedTuple):
    """Events of servers that bear a stamp of their own."""

    seq: Ints
    node: Array
    stamp: Ints


class _Beats(NamedTuple):
    """Heartbeats and receipts: the pairs of nodes that one was sent by and to, or heard by and from."""

    seq: Cells
    kind: Cells
    stamp: Cells
    sent: Cells
    heard: Cells
    served: Cells  # since which event the peer records what it does


@kernel
def _heard(rows: _Beats, at: int, sent: Heard, newest: Cells, counts: Cells) -> int:
    """Hold receipts against what was sent; the first one that was not. ``counts`` those judged, and not judged."""
    for i in range(at, len(rows.seq)):
        stamp = rows.stamp[i]
        if rows.kind[i] == _HEARTBEAT:
            pair = rows.sent[i]
            hear(sent, pair, stamp, 0)
            if stamp > newest[pair]:
                newest[pair] = stamp
                forget_before(sent, pair, stamp - LATE)
        elif rows.served[i] < rows.seq[i]:
            pair = rows.heard[i]
            if stamp < newest[pair] - LATE:
                counts[1] += 1
            else:
                counts[0] += 1
                if place_of_stamp(sent, pair, stamp) < 0:
                    return i
    return len(rows.seq)


def _places(nodes: Ints) -> Ints:
    """The place of each node among those whose last stamp is kept: all that are not share one."""
    return np.where((nodes >= 0) & (nodes < MOST_NODES), nodes, MOST_NODES)


class MessageFold(QueryFold):
    """Compares what servers and clients of one run heard with what was said; see the module."""

    checks = (CHECK,)
    reads = READS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._tally = self._tallies[CHECK.id]
        self._of_beats = Tally(CHECK, setting.keep, setting.seen)
        self._ends = Ends()
        self._found: list[_Unsaid] = []  # among the last events
        self._served: dict[int, int] = {}  # by node: the event of the first time
        # By node: its last stamp before these events.
        self._stated: Ints = np.full(MOST_NODES + 1, NULL, dtype=np.int64)
        self._gaps: dict[int, list[_Gap]] = defaultdict(list)
        self._clock = setting.words.code("clock")
        self._set: set[int] = set()  # the nodes whose clocks a fault has set
        self._nodes = Nodes(compiled=setting.compiled)
        self._sent = nothing_heard(self._compiled)  # by pair: the stamps of heartbeats
        self._newest = numbers((), compiled=self._compiled)
        self._counts = numbers((0, 0), compiled=self._compiled)
        self._reports: dict[int, _Sent] = defaultdict(_Sent)
        self._queries: Queries[_Query] = Queries()

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        found = self.plain(columns, {CHECK.id: state.MESSAGES})
        plain = None
        if found is not None:
            heard = (columns.kind == _REPORT_HEARD) & found.right
            self._tally.judged += int(np.count_nonzero(heard))
            plain = found.events | heard
        rows = self.rows(columns, _IS_WANTED, plain)
        for at, kind in enumerate(rows.kind):
            if kind in _OF_QUERY:
                self._of_query(rows, at, kind, rows.op[at])
            else:
                _TAKES[kind](self, rows, at)
        self._beats(columns)
        self._settle(columns)

    def _unsaid(self, node: int, since: int, /, *events: int, way: str, rests_on: Kind, **said: Any) -> None:  # noqa: ANN401
        """A node did not say something by the last of these events, unless it lost the end of its record."""
        stamp = said["stamp"] if rests_on in (Kind.HEARTBEAT, Kind.REPORT) else NULL
        self._found.append(_Unsaid(node, events, since, way, rests_on, said, stamp))

    def _settle(self, columns: Columns) -> None:
        """Lives begin and end, and what waits for nodes is settled by what they record next."""
        found, self._found = sorted(self._found, key=lambda each: each.events[-1], reverse=True), []
        nodes = [*{each.node for each in found} | self._ends.waited_for()]
        kinds = columns.kind
        clocks = _IS_OF_CLOCK.take(kinds) & (columns.f == self._clock)
        some = _IS_TURN.take(kinds) | clocks
        if nodes:
            some |= _IS_SIGN.take(kinds) & np.isin(columns.node, nodes)
        which = np.flatnonzero(some)
        states = np.flatnonzero(_IS_STATED.take(kinds))
        stated = _Stated(*(getattr(columns, name)[states] for name in _Stated._fields))
        for seq, kind, node, stamp in columns.rows(which, "seq", "kind", "node", "stamp"):
            while found and found[-1].events[-1] < seq:
                self._wait(found.pop(), stated)
            if kind in (FAULT, HEAL):
                self._set.add(node)
            elif _IS_TURN[kind]:
                if self._ends.turn(kind, node, seq):
                    self._gaps[node].append(_Gap(self._last_stated(stated, node, seq)))
                if kind == _SERVE and self._gaps[node] and self._gaps[node][-1].last == NULL:
                    self._gaps[node][-1].last = stamp
            else:
                self._ends.sign(node, seq)
        while found:
            self._wait(found.pop(), stated)
        # Of a node that is there twice the last is kept.
        self._stated[_places(stated.node)] = stated.stamp

    def _last_stated(self, stated: _Stated, node: int, seq: int) -> int:
        """The last stamp that a node stated before an event; NULL if it is not known."""
        before = np.flatnonzero((stated.node == node) & (stated.seq < seq))
        if not 0 <= node < MOST_NODES:
            return NULL
        return int(stated.stamp[before[-1]] if len(before) else self._stated[node])

    def _wait(self, each: _Unsaid, stated: _Stated) -> None:
        nodes, since = [each.node], each.since
        if each.stamp != NULL and not {each.node, NO_NODE} & self._set:
            lost = any(
                gap.first <= each.stamp and (gap.last == NULL or each.stamp <= gap.last)
                for gap in self._gaps[each.node]
            )
            since = NULL if lost else MAX_OFFSET
            if not lost and each.stamp < self._last_stated(stated, each.node, each.events[-1]):
                nodes = []
        self._ends.wait(
            self._of_beats, nodes, *each.events, said=each.said, since=since, way=each.way, rests_on=(each.rests_on,)
        )

    def _beats(self, columns: Columns) -> None:
        """Heartbeats, and who heard them; they have nothing to do with what else is said."""
        which = np.flatnonzero(_IS_BEAT.take(columns.kind))
        names = ("seq", "kind", "node", "peer", "stamp")
        seq, kind, node, peer, stamp = (getattr(columns, name)[which] for name in names)
        _, other, sent = self._nodes.of(node, peer)
        _, _, heard = self._nodes.of(peer, node)
        since = {self._nodes.who.row(number): event for number, event in self._served.items()}
        nodes, pairs = self._nodes.sizes
        self._sent = with_room(self._sent, pairs, int(np.count_nonzero(kind == _HEARTBEAT)))
        (newest,) = with_rows(OneColumn(self._newest), pairs, {"column": NULL})
        served = np.full(nodes, MAX_OFFSET, dtype=np.int64)
        for row, event in since.items():
            served[row] = event
        served = served[other]
        rows = _Beats(*(read_only(each) for each in (seq, kind, stamp, sent, heard, served)))
        if not self._compiled:
            rows = _Beats(*(column.tolist() for column in rows))
        at, self._newest = 0, newest
        while (at := _heard.form(self._compiled)(rows, at, self._sent, newest, self._counts)) < len(seq):
            place = {"node": int(node[at]), "peer": int(peer[at]), "stamp": int(stamp[at])}
            self._counts[0] -= 1
            event = int(seq[at])
            self._unsaid(place["peer"], -1, event, way="heartbeat", rests_on=Kind.HEARTBEAT, **place)
            at += 1

    def _serves(self, rows: Columns, at: int) -> None:
        self._hosts.serve(rows.node[at], rows.value[at])
        self._served.setdefault(rows.node[at], rows.seq[at])

    def _compare(self, same: bool, way: str, by: int, since: int, *events: int, **fields: Any) -> None:  # noqa: ANN401
        """Whether a node said what was heard by the last of these events."""
        if same:
            self._tally.judged += 1
        else:
            self._unsaid(by, since, *events, way=way, rests_on=_SAID_BY[way], **fields)

    def _among(self, made: tuple[int, ...], text: int, form: Any) -> bool:  # noqa: ANN401
        """Whether one of some texts says the same as this one, however both are written."""
        if text in made:
            return True
        reported = said(self._words, text, form) if made else None
        return reported is not None and any(reported == said(self._words, each, form) for each in made)

    # -- between servers -----------------------------------------------------------------------------------------------

    def _reported(self, rows: Columns, at: int) -> None:
        self._reports[rows.node[at]].at(rows.stamp[at], rows.value[at])

    def _report_heard(self, rows: Columns, at: int) -> None:
        node, peer, stamp, text = rows.node[at], rows.peer[at], rows.stamp[at], rows.value[at]
        if peer not in self._served:
            return
        sent = self._reports[peer]
        if not sent.remembered(stamp):
            self._tally.unjudged += 1
            return
        same = self._among(sent.said.get(stamp, ()), text, Positions)
        self._compare(same, "report", peer, -1, rows.seq[at], node=node, peer=peer, stamp=stamp)

    def _of_query(self, rows: Columns, at: int, kind: int, op: int) -> None:
        """Something is said about a query, which somebody began, and which is not over."""
        query = self._queries.get(op, rows.time[at])
        if query is None and kind in _BEGINS:
            query = self._queries[op] = _Query(rows.seq[at])
        if query is not None:
            _OF_QUERY[kind](self, rows, at, query)
        elif kind in (_FORWARDED, _ROWS):
            self._tally.unjudged += 1

    def _routed(self, rows: Columns, at: int, query: _Query) -> None:
        if query.router is None:
            query.router, query.routed = rows.node[at], rows.seq[at]

    def _forwards_it(self, rows: Columns, at: int, query: _Query) -> None:
        place = rows.node[at], rows.peer[at]
        query.forwards[place] = (*query.forwards.get(place, ()), rows.value[at])

    def _is_asked(self, rows: Columns, at: int, query: _Query) -> None:
        op, node, peer, text = rows.op[at], rows.node[at], rows.peer[at], rows.value[at]
        asked = said(self._words, text, Asked)
        for partition in () if asked is None else asked.partitions:
            query.asked.add((node, partition))
        if peer in self._served:
            same = self._among(query.forwards.get((peer, node), ()), text, Asked)
            self._compare(same, "forwarded", peer, query.since, rows.seq[at], node=node, peer=peer, op=op)

    def _answered(self, rows: Columns, at: int, query: _Query) -> None:
        op, node, partition = rows.op[at], rows.node[at], rows.partition[at]
        place = node, partition
        if rows.kind[at] == _ANSWER:
            query.answers[place] = (*query.answers.get(place, ()), (rows.offset[at], rows.value[at]))
        if node in self._served and query.router not in (None, node):
            self._tally.judged += 1
            if place not in query.asked:  # what it heard itself is not lost alone
                rests_on, about = (_SAID_BY["answer"],), {"node": node, "op": op, "partition": partition}
                self._tally.violation(query.routed, rows.seq[at], way="answer", rests_on=rests_on, **about)

    # -- to routers and clients ----------------------------------------------------------------------------------------

    def _finished(self, rows: Columns, at: int, query: _Query) -> None:
        op, node = rows.op[at], rows.node[at]
        finished = said(self._words, rows.value[at], Finished)
        if finished is None or query.router != node:
            return
        query.ended.add(finished.message is None)
        for partition, host, failure in finished.attempts:
            answerer = self._hosts.nodes.get(host, -1)
            if failure is None and answerer in self._served:
                same = (answerer, partition) in query.answers
                self._compare(
                    same,
                    "attempt",
                    answerer,
                    query.since,
                    query.routed,
                    rows.seq[at],
                    op=op,
                    partition=partition,
                    host=host,
                )

    def _got(self, rows: Columns, at: int, query: _Query) -> None:
        op, peer, partition, position = rows.op[at], rows.peer[at], rows.partition[at], rows.offset[at]
        if peer in self._served:
            made = query.answers.get((peer, partition), ())
            same = self._among(tuple([text for place, text in made if place == position]), rows.value[at], Rows)
            self._compare(
                same, "rows", peer, query.since, rows.seq[at], op=op, partition=partition, position=position, peer=peer
            )

    def _closed(self, rows: Columns, at: int, query: _Query) -> None:
        op, kind = rows.op[at], rows.kind[at]
        if kind != INFO and query.router in self._served:
            reported = "is complete" if kind == OK else "failed"
            same = (kind == OK) in query.ended
            about = {"op": op, "reported": reported, "node": query.router}
            self._compare(same, "reported", query.router, query.since, query.routed, rows.seq[at], **about)
        self._queries.close(op, kind, rows.time[at])

    def _asks(self, rows: Columns, at: int, query: _Query) -> None:
        """A client asks, or puts something."""

    def violated(self) -> frozenset[str]:
        """See `ServerFold`."""
        return violated((self._tally, self._of_beats))

    def finish(self) -> Verdicts:
        """Add what was counted to the tallies, and answer."""
        self._ends.over()
        self._tally.join(self._of_beats)
        judged, unjudged = map(int, self._counts)
        self._tally.judged += judged
        self._tally.unjudged += unjudged
        return super().finish()


_TAKES = {
    _SERVE: MessageFold._serves,
    _REPORT: MessageFold._reported,
    _REPORT_HEARD: MessageFold._report_heard,
}
_OF_QUERY = {
    INVOKE: MessageFold._asks,
    _ROUTE: MessageFold._routed,
    _FORWARD: MessageFold._forwards_it,
    _FORWARDED: MessageFold._is_asked,
    _ANSWER: MessageFold._answered,
    _GIVE_UP: MessageFold._answered,
    _FINISH: MessageFold._finished,
    _ROWS: MessageFold._got,
    OK: MessageFold._closed,
    FAIL: MessageFold._closed,
    INFO: MessageFold._closed,
}
"""What is done with an event, by its kind."""
_BEGINS = frozenset({INVOKE, _ROUTE, _FORWARD})

FAMILY = Family(
    "pull_queries_messages",
    (CHECK,),
    _OF_CLIENTS | {*_KINDS, Kind.FAULT, Kind.HEAL} | END_KINDS,
    MessageFold.reads,
    MessageFold,
    PULL_QUERIES,
    operations=frozenset({"put", "query"}),
    reads_texts=True,
)
