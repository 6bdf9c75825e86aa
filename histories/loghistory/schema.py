"""The history schema, version 1: event kinds, their columns, what each kind must carry.

A *run* is a sequence of events in one causal order. An event is one row of one wide, nullable table,
so that a million events are thirty columns and no Python objects. Rows are flat: an operation that sends or
returns several records is several rows with the same ``op``.

Client operations are Jepsen-like. ``invoke`` opens operation ``op`` of client ``process``; exactly one of ``ok``,
``fail`` (certainly had no effect) or ``info`` (unknown, stays open for ever) closes it. An operation that is
never closed counts as ``info``. What a reader was given comes as ``observe`` rows just before the closing ``ok``.
Internal events describe one node and one log and carry the node's state *after* the change. They are optional:
a run with client operations alone is a full citizen.

Offsets are inclusive and those of entries count from 0. A batch is one ``value`` that fills the offsets
``offset..last_offset`` (``last_offset`` left out means a batch of one offset); value ``v`` at offset ``o``
therefore means the pair ``(v, o - offset)``. Values are 64-bit integers that name what was written; where a
foreign history has richer values, ``text`` holds them as compact JSON and ``value`` is null.

Notation as in the rules: ``dirty`` last appended offset, ``flushed`` last offset known durable, ``commit`` the commit
index, ``visible`` what a reader may see; -1 means "nothing yet". Source: architecture, "The history".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

VERSION = 1


class Kind(StrEnum):
    """What an event says. The comment names the columns that matter besides the common ones."""

    # client operations
    INVOKE = "invoke"  # op process f; append: value acks [term: expected term]; read: offset [last_offset]
    OBSERVE = "observe"  # op process offset value: one batch that a read returned
    OK = "ok"  # op process f; append: offset (-1: not told) term; read: count, offset = next; tail: offset = entries
    FAIL = "fail"  # op process f; reason
    INFO = "info"  # op process f; reason

    # a node's life
    START = "start"  # incarnation term dirty flushed commit: after recovery of the disk
    STOP = "stop"  # graceful
    CRASH = "crash"  # the process died, the page cache lived (SIGKILL)
    POWER_LOSS = "power_loss"  # what was not flushed may be gone
    STORAGE_ERROR = "storage_error"  # reason: fsync failed, disk full; the node stops itself

    # elections
    TERM = "term"  # term: the node moved to a later term (in memory)
    VOTE = "vote"  # term peer: vote for peer in term is durable
    LEADER = "leader"  # term: won the election of this term
    ROLE = "role"  # role: follower, candidate, learner

    # the log
    APPEND = "append"  # offset last_offset entry_term value acks: one batch, appended (dirty)
    FLUSH = "flush"  # flushed: everything up to it is durable now
    TRUNCATE = "truncate"  # offset: first offset removed
    COMMIT = "commit"  # commit: the commit index moved
    VISIBLE = "visible"  # visible: the visible offset moved
    ACKED = "acked"  # offset entry_term acks reason(success|truncated|..): the leader answered an append
    COMPACT = "compact"  # offset last_offset: records removed by compaction
    TRIM = "trim"  # offset: first offset that is kept

    # messages between nodes (recorded only at detail "messages")
    SEND = "send"  # peer f message
    RECEIVE = "receive"  # peer f message

    # faults of the surroundings, as the one who injected them saw it
    FAULT = "fault"  # f: name (partition, pause, slow_disk, loss ..); text: its arguments
    HEAL = "heal"  # f: name of the fault that ends
    PHASE = "phase"  # f: name of a section of the run: load, heal, final_read


CLIENT_KINDS = frozenset({Kind.INVOKE, Kind.OBSERVE, Kind.OK, Kind.FAIL, Kind.INFO})


class Operation(StrEnum):
    """Column ``f`` of client operations.

    Foreign models may use other short names; checks ignore what they do not know.
    """

    APPEND = "append"
    READ = "read"  # from an offset on, up to what is visible
    READ_COMMITTED = "read_committed"  # the same, up to what is committed
    TAIL = "tail"  # number of entries, linearizable
    FINAL_READ = "final_read"  # everything, after all faults are healed
    WRITE = "write"  # registers: text = value
    CAS = "cas"  # text = [from, to]
    GET = "get"  # key-value: log = key
    PUT = "put"
    ASSIGN = "assign"  # Kafka-like: positions
    SUBSCRIBE = "subscribe"


class Acks:
    """The acks level of an append as column value: -1 all (quorum_ack), 1 leader_ack, 0 no_ack."""

    ALL = -1
    LEADER = 1
    NONE = 0


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its Arrow type and what it means."""

    name: str
    type: pa.DataType
    meaning: str


_WORD = pa.dictionary(pa.int32(), pa.string())

COLUMNS: tuple[Column, ...] = (
    Column("seq", pa.int64(), "position in the causal order, strictly increasing in a run"),
    Column("time", pa.int64(), "nanoseconds: virtual time, or the wall part of the hybrid logical clock"),
    Column("logical", pa.int32(), "the counter part of the hybrid logical clock; null in simulated runs"),
    Column("kind", _WORD, "what the event says"),
    Column("log", _WORD, "the log (group, topic-partition, key) it concerns; null: the run's only log"),
    Column("node", pa.int32(), "the node it happened on; for clients the node spoken to, if known"),
    Column("incarnation", pa.int32(), "how often this node had started before"),
    Column("process", pa.int64(), "the client; one has at most one open operation"),
    Column("op", pa.int64(), "operation, unique in the run; joins invoke, observe and completion"),
    Column("txn", pa.int64(), "the enclosing operation where one operation has several parts"),
    Column("f", _WORD, "operation, message or fault name"),
    Column("acks", pa.int8(), "-1 all, 1 leader, 0 none"),
    Column("term", pa.int64(), "current term of the node; for an acknowledged append the term it was written in"),
    Column("role", _WORD, "leader, follower, candidate, learner"),
    Column("offset", pa.int64(), "first (base) offset of what the event concerns"),
    Column("last_offset", pa.int64(), "last offset of it; null: the same as offset"),
    Column("entry_term", pa.int64(), "term of the entries it concerns"),
    Column("value", pa.int64(), "what was written, by name"),
    Column("text", pa.string(), "value or arguments that are no integer, as compact JSON"),
    Column("dirty", pa.int64(), "the node's last appended offset, after the event"),
    Column("flushed", pa.int64(), "the node's last durable offset, after the event"),
    Column("commit", pa.int64(), "the node's commit index, after the event"),
    Column("visible", pa.int64(), "the node's visible offset, after the event"),
    Column("peer", pa.int32(), "the other node: voted for, sent to, received from"),
    Column("message", pa.int64(), "message id, joins send and receive"),
    Column("count", pa.int64(), "how many records"),
    Column("bytes", pa.int64(), "how many bytes"),
    Column("reason", _WORD, "why it failed, how it was resolved"),
)

SCHEMA = pa.schema(
    [pa.field(c.name, c.type, nullable=c.name not in {"seq", "time", "kind"}) for c in COLUMNS],
    metadata={"loghistory.version": str(VERSION)},
)

_STATE = ("node", "term", "dirty", "flushed", "commit")

REQUIRED: dict[Kind, tuple[str, ...]] = {
    Kind.INVOKE: ("process", "op", "f"),
    Kind.OBSERVE: ("process", "op", "offset"),
    Kind.OK: ("process", "op", "f"),
    Kind.FAIL: ("process", "op", "f"),
    Kind.INFO: ("process", "op", "f"),
    Kind.START: (*_STATE, "incarnation"),
    Kind.STOP: ("node",),
    Kind.CRASH: ("node",),
    Kind.POWER_LOSS: ("node",),
    Kind.STORAGE_ERROR: ("node",),
    Kind.TERM: _STATE,
    Kind.VOTE: (*_STATE, "peer"),
    Kind.LEADER: _STATE,
    Kind.ROLE: (*_STATE, "role"),
    Kind.APPEND: (*_STATE, "offset", "entry_term"),
    Kind.FLUSH: _STATE,
    Kind.TRUNCATE: (*_STATE, "offset"),
    Kind.COMMIT: _STATE,
    Kind.VISIBLE: (*_STATE, "visible"),
    Kind.ACKED: (*_STATE, "offset", "entry_term", "acks", "reason"),
    Kind.COMPACT: ("node", "offset", "last_offset"),
    Kind.TRIM: ("node", "offset"),
    Kind.SEND: ("node", "peer", "f", "message"),
    Kind.RECEIVE: ("node", "peer", "f", "message"),
    Kind.FAULT: ("f",),
    Kind.HEAL: ("f",),
    Kind.PHASE: ("f",),
}
"""Columns that an event of a kind must carry besides ``seq``, ``time`` and ``kind``; a reader refuses it otherwise."""

UNTOLD = -1
"""Offset of an acknowledged append whose answer told none, as with acks 0; the same as null."""

MAX_BATCH_OFFSETS = 1 << 20
"""A batch wider than this is refused by the readers: offsets are expanded when they are compared."""
