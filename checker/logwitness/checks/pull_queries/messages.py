"""What arrives was sent: by whom it is said to come from, before, and as it was.

The folds about statuses, tables and routes take what a server hears for what was said; here the two are compared.

Sources: pull-queries.md#heard-was-said.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from loghistory.schema import Kind

from ..codes import FAIL, OK, code, lookup
from ..columns import Columns
from ..contract import Check, Family, Setting
from .protocol import PULL_QUERIES, Asked, Finished, Positions, Rows, ServerFold, said

CHECK = Check(
    id="heard-was-said",
    rule="Whatever arrives was sent: heartbeats and lag reports by their senders, forwarded queries by the router, "
    "answers by who was asked, and the end of a query by its router.",
    source=("pull-queries.md#heard-was-said", "pull-queries.md#stamps", "pull-queries.md#emitted-once"),
    fact="something that arrived from a server which records what it does",
    sentence={
        "heartbeat": "Node {node} heard a heartbeat of node {peer} with the stamp {stamp}, which that had not sent it.",
        "report": "Node {node} heard a lag report that node {peer} is said to have made at {stamp}; that made none "
        "then, or another one.",
        "forwarded": "Node {node} was asked for operation {op} by node {peer}, which had not asked it so.",
        "answer": "Node {node} answered for partition {partition} of operation {op}, or gave it up, and nobody had "
        "asked it for that.",
        "rows": "Operation {op} got partition {partition} at position {position} from node {peer}, which had not "
        "answered so.",
        "attempt": "Operation {op} took partition {partition} for answered by {host}, which had not answered.",
        "told": "The client of operation {op} was told that it {told}; node {node}, which routed it, had not said so.",
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
_IS_WANTED = lookup({*_KINDS, Kind.OK, Kind.FAIL})

_LATE = 60_000
"""Milliseconds before the newest stamp of a sender for which what it sent is remembered; what is older is unjudged."""
_MANY = 4096


class _Sent:
    """What one server said at which stamps, the newest of them, and when it said so."""

    __slots__ = ("newest", "said")

    def __init__(self) -> None:
        self.newest = -(2**63)
        self.said: dict[int, list[int]] = {}

    def at(self, stamp: int, what: int) -> None:
        """It says something."""
        self.said.setdefault(stamp, []).append(what)
        self.newest = max(self.newest, stamp)
        if len(self.said) > _MANY and len(self.said) % _MANY == 0:
            self.said = {at: told for at, told in self.said.items() if at >= self.newest - _LATE}

    def remembered(self, stamp: int) -> bool:
        """Whether all that was said with a stamp is known still."""
        return stamp >= self.newest - _LATE


class MessageFold(ServerFold):
    """Compares what servers and clients of one run heard with what was said; see the module."""

    checks = (CHECK,)
    reads = ("node", "peer", "op", "offset", "partition", "stamp", "value")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._tally = self._tallies[CHECK.id]
        self._served: set[int] = set()
        self._beats: dict[tuple[int, int], _Sent] = defaultdict(_Sent)  # from one node to another
        self._reports: dict[int, _Sent] = defaultdict(_Sent)
        self._routers: dict[int, int] = {}  # by operation: the node that routed it first
        self._forwards: dict[int, list[tuple[int, int, int]]] = defaultdict(list)  # by operation: from, to, text
        self._asked: set[tuple[int, int, int]] = set()  # operation, node, partition
        self._answers: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)  # the same: position, text
        self._ended: dict[int, set[bool]] = defaultdict(set)  # by operation: complete, as its router said

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        rows = self.rows(columns, _IS_WANTED)
        told = zip(rows.seq, rows.kind, rows.node, rows.peer, rows.stamp, strict=True)
        for at, (seq, kind, node, peer, stamp) in enumerate(told):
            if kind == _HEARTBEAT:
                self._beats[node, peer].at(stamp, seq)
            elif kind == _HEARD:
                if peer in self._served:
                    self._heard(self._beats[peer, node], node, peer, stamp, seq)
            else:
                _TAKES[kind](self, rows, at)

    def _heard(self, sent: _Sent, node: int, peer: int, stamp: int, seq: int) -> None:
        if not sent.remembered(stamp):
            self._tally.unjudged += 1
        else:
            self._compare(stamp in sent.said, seq, way="heartbeat", node=node, peer=peer, stamp=stamp)

    def _serves(self, rows: Columns, at: int) -> None:
        self._hosts.serve(rows.node[at], rows.value[at])
        self._served.add(rows.node[at])

    def _compare(self, same: bool, *events: int, way: str, **fields: Any) -> None:  # noqa: ANN401
        self._tally.judged += 1
        if not same:
            self._tally.violation(*events, way=way, **fields)

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
        same = any(self._same(made, text, Positions) for made in sent.said.get(stamp, ()))
        self._compare(same, rows.seq[at], way="report", node=node, peer=peer, stamp=stamp)

    def _routed(self, rows: Columns, at: int) -> None:
        self._routers.setdefault(rows.op[at], rows.node[at])

    def _forwards_it(self, rows: Columns, at: int) -> None:
        self._forwards[rows.op[at]].append((rows.node[at], rows.peer[at], rows.value[at]))

    def _is_asked(self, rows: Columns, at: int) -> None:
        op, node, peer, text = rows.op[at], rows.node[at], rows.peer[at], rows.value[at]
        asked = said(self._words, text, Asked)
        self._asked |= {(op, node, partition) for partition in (() if asked is None else asked.partitions)}
        if peer in self._served:
            told = [said_so for one, other, said_so in self._forwards[op] if (one, other) == (peer, node)]
            same = any(self._same(made, text, Asked) for made in told)
            self._compare(same, rows.seq[at], way="forwarded", node=node, peer=peer, op=op)

    def _answered(self, rows: Columns, at: int) -> None:
        place = rows.op[at], rows.node[at], rows.partition[at]
        op, node, partition = place
        if rows.kind[at] == _ANSWER:
            self._answers[place].append((rows.offset[at], rows.value[at]))
        if node in self._served and self._routers.get(op, node) != node:
            self._compare(place in self._asked, rows.seq[at], way="answer", node=node, op=op, partition=partition)

    # -- to routers and clients ----------------------------------------------------------------------------------------

    def _finished(self, rows: Columns, at: int) -> None:
        op, node = rows.op[at], rows.node[at]
        finished = said(self._words, rows.value[at], Finished)
        if finished is None or self._routers.get(op) != node:
            return
        self._ended[op].add(finished.message is None)
        for partition, host, failure in finished.attempts:
            answerer = self._hosts.nodes.get(host, -1)
            if failure is None and answerer in self._served:
                same = (op, answerer, partition) in self._answers
                self._compare(same, rows.seq[at], way="attempt", op=op, partition=partition, host=host)

    def _got(self, rows: Columns, at: int) -> None:
        op, peer, partition, position = rows.op[at], rows.peer[at], rows.partition[at], rows.offset[at]
        if peer in self._served:
            made = [text for place, text in self._answers.get((op, peer, partition), ()) if place == position]
            same = any(self._same(text, rows.value[at], Rows) for text in made)
            self._compare(same, rows.seq[at], way="rows", op=op, partition=partition, position=position, peer=peer)

    def _closed(self, rows: Columns, at: int) -> None:
        op, complete = rows.op[at], rows.kind[at] == OK
        if self._routers.get(op) in self._served:
            told = "is complete" if complete else "failed"
            same = complete in self._ended.get(op, ())
            self._compare(same, rows.seq[at], way="told", op=op, told=told, node=self._routers[op])

    def _same(self, one: int, other: int, form: Any) -> bool:  # noqa: ANN401
        """Whether two texts say the same, however they are written."""
        if one == other:
            return True
        told = said(self._words, one, form)
        return told is not None and told == said(self._words, other, form)


_TAKES = {
    _SERVE: MessageFold._serves,
    _REPORT: MessageFold._reported,
    _REPORT_HEARD: MessageFold._report_heard,
    _ROUTE: MessageFold._routed,
    _FORWARD: MessageFold._forwards_it,
    _FORWARDED: MessageFold._is_asked,
    _ANSWER: MessageFold._answered,
    _GIVE_UP: MessageFold._answered,
    _FINISH: MessageFold._finished,
    _ROWS: MessageFold._got,
    OK: MessageFold._closed,
    FAIL: MessageFold._closed,
}
"""What is done with an event, by its kind."""

FAMILY = Family(
    "pull_queries_messages",
    (CHECK,),
    frozenset({*_KINDS, Kind.OK, Kind.FAIL}),
    MessageFold.reads,
    MessageFold,
    PULL_QUERIES,
    operations=frozenset({"put", "query"}),
    reads_texts=True,
)
