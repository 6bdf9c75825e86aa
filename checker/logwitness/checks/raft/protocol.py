"""What a run of Raft is told by."""

from __future__ import annotations

from loghistory.schema import Kind

from ..contract import Protocol

RAFT = Protocol(
    "raft",
    frozenset(
        {
            Kind.START,
            Kind.TERM,
            Kind.VOTE,
            Kind.LEADER,
            Kind.ROLE,
            Kind.APPEND,
            Kind.FLUSH,
            Kind.TRUNCATE,
            Kind.COMMIT,
            Kind.VISIBLE,
            Kind.ACKED,
        }
    ),
    {Kind.TRIM: frozenset({Kind.SNAPSHOT})},
    {Kind.CONFIGURATION: ("join", "leave", "demote")},
)
