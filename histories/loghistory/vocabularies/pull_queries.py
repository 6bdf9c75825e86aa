"""Servers of highly available pull queries: who they think is alive, how far they are, where queries go.

Hosts are named ``host:port`` inside ``text``, which is compact JSON, and by the number of their node in ``node`` and
``peer``; a ``serve`` event says which is which. ``stamp`` is a time of a server's wall clock in milliseconds; ``time``
is that of the run. ``op`` is the operation of the client whose query it is. Sources: pull-queries.md#stamps,
pull-queries.md#current-and-end, pull-queries.md#read-once, pull-queries.md#rounds.
"""

from __future__ import annotations

import pyarrow as pa

from ..vocabulary import Column, EventKind, Vocabulary, Words
from .clients import Operation

_HEARTBEAT = ("node", "peer", "stamp")
_QUERY = ("node", "op")
_PART = ("node", "op", "partition")

VOCABULARY = Vocabulary(
    "pull_queries",
    "servers of pull queries",
    kinds=(
        EventKind(
            "serve",
            "A server runs, as `host` in `text`, with the configuration there; `stamp` is its wall clock.",
            ("node", "incarnation", "stamp", "text"),
        ),
        EventKind("listed", "The server listed `peer`, as alive at `stamp`.", _HEARTBEAT),
        EventKind("heartbeat", "The server sent `peer` a heartbeat with its `stamp`.", _HEARTBEAT),
        EventKind("heard", "A heartbeat of `peer` with its `stamp` arrived.", _HEARTBEAT),
        EventKind("up", "The check at `stamp` decided that `peer` is alive.", _HEARTBEAT),
        EventKind("down", "The check at `stamp` decided that `peer` is down.", _HEARTBEAT),
        EventKind(
            "report",
            "The server made a lag report at `stamp`: by partition `[current, end]`.",
            ("node", "stamp", "text"),
        ),
        EventKind("report_sent", "The server sends `peer` the lag report that it makes at `stamp`.", _HEARTBEAT),
        EventKind("report_heard", "A lag report that `peer` made at `stamp` arrived.", (*_HEARTBEAT, "text")),
        EventKind("report_kept", "It is what the server knows of the lag of `peer` from now on.", _HEARTBEAT),
        EventKind(
            "changelog",
            "The group of a changelog showed `offset` for the first time. `text`: what is there; null: Raft's own.",
            ("partition", "offset"),
            may_carry=("epoch", "text"),
        ),
        EventKind(
            "fold",
            "The server passed these offsets of a changelog.",
            ("node", "partition", "offset"),
            may_carry=("last_offset",),
        ),
        EventKind(
            "assigned",
            "The server folded the assignment of `epoch`: members, and by partition the active and the standbys.",
            ("node", "epoch", "text"),
        ),
        EventKind(
            "route",
            "The server routes a query by this view: assignment, statuses with their times, lag reports with theirs.",
            (*_QUERY, "text"),
        ),
        EventKind(
            "forward", "The server asks `peer` for partitions, with the query's own bound.", (*_QUERY, "peer", "text")
        ),
        EventKind("forwarded", "`peer` asks the server for partitions, with that bound.", (*_QUERY, "peer", "text")),
        EventKind(
            "answer",
            "The server answers for a partition with the rows at position `offset`.",
            (*_PART, "offset", "text"),
        ),
        EventKind("give_up", "The server gives a partition up; `text` says why.", (*_PART, "text")),
        EventKind(
            "finish",
            "The query is over: every attempt with its failure or null, in order, and a message if it failed.",
            (*_QUERY, "text"),
        ),
        EventKind(
            "shown",
            "The server shows the status of the cluster: by host `[alive, time of the status, time of the report]`, "
            "the last one null where no lag is shown.",
            ("node", "text"),
        ),
        EventKind(
            "rows",
            "The client got a partition as `peer` answered it: the rows at position `offset`.",
            ("process", "op", "partition", "peer", "offset", "text"),
            may_carry=("node",),
        ),
    ),
    columns=(
        Column(30, "partition", pa.int32(), "the partition of the table"),
        Column(31, "stamp", pa.int64(), "a time of a server's wall clock", "milliseconds"),
        Column(32, "epoch", pa.int64(), "the epoch of an assignment, of a record of a changelog, or of LSNs"),
    ),
    words=(Words("f", ("invoke", "ok", "fail", "info"), {Operation.QUERY: "look keys up in a table, or scan it"}),),
)
