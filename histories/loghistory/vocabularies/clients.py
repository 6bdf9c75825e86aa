"""Operations of clients, after the manner of Jepsen.

``invoke`` opens operation ``op`` of client ``process``; exactly one of ``ok``, ``fail`` (certainly had no effect) or
``info`` (unknown, stays open for ever) closes it. An operation that is never closed counts as ``info``. What a read
returned comes as ``observe`` events just before the closing ``ok``. Source: history-checks.md#one-open-operation.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

from ..vocabulary import Column, EventKind, Vocabulary, Words


class Operation(StrEnum):
    """Column ``f`` of client operations.

    Foreign models may use other short names; checks ignore what they do not know.
    """

    APPEND = "append"
    READ = "read"
    READ_COMMITTED = "read_committed"
    READ_LINEARIZABLE = "read_linearizable"
    TAIL = "tail"
    FINAL_READ = "final_read"
    WRITE = "write"
    CAS = "cas"
    GET = "get"
    PUT = "put"
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    QUERY = "query"
    APPEND_RECORD = "append_record"
    READ_STREAM = "read_stream"
    TRIM_LOG = "trim_log"


class Refusal(StrEnum):
    """Column ``reason`` of an operation that failed, where the node itself refused it."""

    NOT_LEADER = "not_leader"
    TERM_MISMATCH = "term_mismatch"


class Acks:
    """The acks level of an append as column value: -1 all (quorum_ack), 1 leader_ack, 0 no_ack."""

    ALL = -1
    LEADER = 1
    NONE = 0


UNKNOWN_OFFSET = -1
"""``offset`` of an acknowledged append whose answer carried none, as with acks 0; means the same as null."""

_OPERATION = ("process", "op", "f")
_KINDS = ("invoke", "ok", "fail", "info")

VOCABULARY = Vocabulary(
    "clients",
    "operations of clients",
    kinds=(
        EventKind(
            "invoke",
            "A client begins an operation. Append: `value`, and in `term` the one it expects; read: from `offset` on.",
            _OPERATION,
            may_carry=("value", "acks", "term", "offset", "last_offset", "count", "bytes", "node", "text"),
        ),
        EventKind(
            "observe",
            "One batch that a read returned.",
            ("process", "op", "offset"),
            may_carry=("last_offset", "value"),
            entries=True,
        ),
        EventKind(
            "ok",
            "The operation took effect. Append: `offset` (-1 or null: the answer carried none) and `term`; read: "
            "`offset` is the next one to read from; tail: `offset` is the number of entries.",
            _OPERATION,
            may_carry=("offset", "last_offset", "term", "count"),
            entries=True,
        ),
        EventKind("fail", "The operation had no effect and never will.", _OPERATION, may_carry=("reason",)),
        EventKind(
            "info", "Whether the operation took effect is not known; it stays open.", _OPERATION, may_carry=("reason",)
        ),
    ),
    columns=(
        Column(8, "process", pa.int64(), "the client; it has at most one open operation"),
        Column(9, "op", pa.int64(), "the operation, unique in the run; joins `invoke`, `observe` and completion"),
        Column(10, "txn", pa.int64(), "the enclosing operation where one operation has several parts"),
        Column(12, "acks", pa.int8(), "acks level of an append: -1 all, 1 leader, 0 none", least=-128),
    ),
    words=(
        Words(
            "reason",
            ("fail",),
            {
                Refusal.NOT_LEADER: "the node says that it does not lead",
                Refusal.TERM_MISMATCH: "the node says that it does not lead in the term that was expected",
            },
        ),
        Words(
            "f",
            _KINDS,
            {
                Operation.APPEND: "put one batch at the end of the log",
                Operation.READ: "read from an offset on, up to what is visible",
                Operation.READ_COMMITTED: "read from an offset on, up to what is committed",
                Operation.READ_LINEARIZABLE: "read everything from an offset on that had been acknowledged by then",
                Operation.TAIL: "ask for the number of entries, linearizably",
                Operation.FINAL_READ: "read everything, after all faults are healed",
                Operation.WRITE: "write a register; `text` is the value",
                Operation.CAS: "compare and set a register; `text` is `[from, to]`",
                Operation.GET: "read a key; `log` is the key",
                Operation.PUT: "write a key",
                Operation.ASSIGN: "take positions in logs, as Kafka's consumers do",
                Operation.SUBSCRIBE: "have positions in logs assigned",
            },
        ),
    ),
)
