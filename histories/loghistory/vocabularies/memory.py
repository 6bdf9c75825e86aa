"""What a leader holds in memory for appends, from when they are enqueued until the network has taken them.

Sources: raft.md#memory-units, raft.md#units-returned, raft.md#bounded-memory.
"""

from __future__ import annotations

import pyarrow as pa

from ..vocabulary import Column, EventKind, Vocabulary

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
    ),
    columns=(
        Column(29, "reserved", pa.int64(), "what the leader counts as held for appends, after the event", "bytes"),
    ),
)
