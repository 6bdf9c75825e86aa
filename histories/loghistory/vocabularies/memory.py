"""What a leader holds in memory for appends, from when they are enqueued until the network has taken them.

Sources: raft.md#memory-units, raft.md#units-returned, raft.md#bounded-memory.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

from ..vocabulary import Column, EventKind, Vocabulary, Words


class ReadBack(StrEnum):
    """Column ``reason`` of a ``read_back`` event."""

    ANSWER = "answer"
    SILENT = "silent"
    ROUND = "round"


VOCABULARY = Vocabulary(
    "memory",
    "what a leader holds for appends",
    kinds=(
        EventKind(
            "enqueue",
            "An append passed the first stage: the leader holds its `bytes`. Appends are in the log in this order.",
            ("node", "bytes", "acks", "reserved"),
            may_carry=("term", "value"),
        ),
        EventKind(
            "hand_over",
            "No request needs the entries from `offset` to `last_offset` in the leader's memory any more. `count` is "
            "the largest number of requests to one follower that are unanswered.",
            ("node", "offset", "last_offset", "count", "reserved"),
            may_carry=("term",),
        ),
        EventKind(
            "wait",
            "An append has to wait for memory, behind all that wait already.",
            ("node", "value"),
            may_carry=("term", "bytes", "acks", "reserved"),
        ),
        EventKind(
            "withdraw",
            "An append that waited for memory is refused; nothing of it is written.",
            ("node", "value"),
            may_carry=("term", "bytes", "acks", "reserved"),
        ),
        EventKind(
            "read_back",
            "The leader begins to read from its log, behind `offset`, what `peer` lacks, of which `count` requests are "
            "unanswered, for `reason`.",
            ("node", "peer", "offset", "count", "reason"),
            may_carry=("term",),
        ),
    ),
    words=(
        Words(
            "reason",
            ("read_back",),
            {
                ReadBack.ANSWER: "it answered that it lacks what it was sent, or holds something else",
                ReadBack.SILENT: "it has not answered for long",
                ReadBack.ROUND: "it was not sent a round in its turn",
            },
        ),
    ),
    columns=(
        Column(29, "reserved", pa.int64(), "what the leader counts as held for appends, after the event", "bytes"),
    ),
)
