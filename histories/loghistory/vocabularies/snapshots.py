"""What a node's state machine has applied, and the snapshots that logs begin behind.

Sources: raft.md#snapshots-and-trim, raft.md#apply.
"""

from __future__ import annotations

from enum import StrEnum

from ..vocabulary import EventKind, Vocabulary, Words
from .log import STATE


class SnapshotFrom(StrEnum):
    """Column ``reason`` of a ``snapshot`` event."""

    TAKEN = "taken"
    INSTALLED = "installed"


VOCABULARY = Vocabulary(
    "snapshots",
    "what is applied, and the snapshots that logs begin behind",
    kinds=(
        EventKind(
            "apply",
            "The state machine of the node has applied the entries from `offset` to `last_offset`.",
            ("offset", "last_offset"),
            state=STATE,
            may_carry=("role", "visible"),
        ),
        EventKind(
            "snapshot",
            "The node keeps a snapshot of all up to `offset`, whose entry is of `entry_term`; the configuration in "
            "force there is in `text`.",
            ("offset", "entry_term", "text", "reason"),
            state=STATE,
            may_carry=("role", "visible"),
        ),
        EventKind(
            "part",
            "The node took `bytes` of the snapshot of all up to `offset`, to go behind the `count` bytes before.",
            ("node", "offset", "count", "bytes"),
            may_carry=("term",),
        ),
    ),
    words=(
        Words(
            "reason",
            ("snapshot",),
            {
                SnapshotFrom.TAKEN: "of what the node itself had applied",
                SnapshotFrom.INSTALLED: "received from the leader",
            },
        ),
    ),
)
