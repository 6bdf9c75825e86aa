"""The replicated log of a node, batch by batch, and how far the node knows it to be durable, committed and visible.

Offsets as in the rules: ``dirty`` is the last appended offset, ``flushed`` the last one known to be durable, ``commit``
the commit index, ``visible`` what readers may see; -1 means "nothing yet". Sources: raft.md#commit-index,
raft.md#visibility, raft.md#acks, raft.md#flush, raft.md#truncation-crash-restart;
documents.md#raft-recovery-committed-and-dirty.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

from ..vocabulary import Column, EventKind, Vocabulary, Words

STATE = ("node", "term", "dirty", "flushed", "commit")
"""The state of a node's log, which every event that changes it carries; ``visible`` comes with it where it is known."""


class Resolution(StrEnum):
    """Column ``reason`` of an ``acked`` event."""

    SUCCESS = "success"
    TRUNCATED = "truncated"


VOCABULARY = Vocabulary(
    "log",
    "the log of a node",
    kinds=(
        EventKind(
            "append",
            "One batch is appended (dirty).",
            ("offset", "entry_term"),
            state=STATE,
            may_carry=("visible", "last_offset", "value", "key", "acks", "bytes"),
            entries=True,
        ),
        EventKind("flush", "Everything up to `flushed` is durable now.", (), state=STATE, may_carry=("visible",)),
        EventKind(
            "truncate",
            "Entries from `offset` on are removed from the end of the log.",
            ("offset",),
            state=STATE,
            may_carry=("visible",),
        ),
        EventKind("commit", "The commit index moved to `commit`.", (), state=STATE, may_carry=("visible",)),
        EventKind("visible", "The visible offset moved to `visible`.", ("visible",), state=STATE),
        EventKind(
            "acked",
            "The leader answered an append.",
            ("offset", "entry_term", "acks", "reason"),
            state=STATE,
            may_carry=("visible", "last_offset"),
            entries=True,
        ),
        EventKind(
            "compact",
            "Compaction removed these records.",
            ("node", "offset", "last_offset"),
            state=STATE,
            may_carry=("visible",),
            state_since=2,
        ),
        EventKind(
            "gap",
            "The leader said that compaction left nothing from `offset` to `last_offset`; what lies behind, in "
            "`entry_term`, is appended next. The node first cuts what it holds there.",
            ("offset", "last_offset", "entry_term"),
            state=STATE,
            may_carry=("visible",),
        ),
        EventKind(
            "trim",
            "Entries before `offset` are given up; it is the first one kept. If `dirty` is below it, nothing is kept "
            "and the log starts over there.",
            ("node", "offset"),
            state=STATE,
            may_carry=("visible",),
            state_since=2,
        ),
    ),
    columns=(
        Column(
            13, "term", pa.int64(), "current term of the node; for an acknowledged append the term it was written in"
        ),
        Column(17, "entry_term", pa.int64(), "term of the entries it concerns", least=-1),
        Column(39, "key", pa.int64(), "what a later batch of the same key replaces; null: nothing", least=-(1 << 63)),
        Column(20, "dirty", pa.int64(), "the node's last appended offset, after the event", "offset", least=-1),
        Column(21, "flushed", pa.int64(), "the node's last durable offset, after the event", "offset", least=-1),
        Column(22, "commit", pa.int64(), "the node's commit index, after the event", "offset", least=-1),
        Column(23, "visible", pa.int64(), "the node's visible offset, after the event", "offset", least=-1),
    ),
    words=(
        Words(
            "reason",
            ("acked",),
            {
                Resolution.SUCCESS: "the entries are in the log as the acks level promises",
                Resolution.TRUNCATED: "the entries are not in the log and never will be",
            },
        ),
    ),
)
