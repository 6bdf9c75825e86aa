"""A Raft core's events and effects: those of any replicated log (`quorumlog.events`), and what votes and timers add.

``SaveVote`` takes time like a flush; it is answered by ``VoteSaved`` with the same ticket.
"""

from __future__ import annotations

from enum import StrEnum

from quorumlog import events
from quorumlog.events import (
    Accepted,
    Append,
    AppendRequested,
    BarrierRequested,
    CancelTimer,
    Flushed,
    LogRead,
    Note,
    Outcome,
    ReadIndexRequested,
    ReadLog,
    Received,
    Reset,
    Resolved,
    Send,
    SetTimer,
    Started,
    StartFlush,
    TimerFired,
    Trim,
    TrimRequested,
    Truncate,
)


class Timer(StrEnum):
    """The core's timers; setting one again replaces it."""

    ELECTION = "election"
    HEARTBEAT = "heartbeat"
    FLUSH = "flush"
    DRAIN = "drain"


class VoteSaved(events.Event, frozen=True):
    """Term and vote with this ticket are on disk."""

    ticket: int


class SaveVote(events.Effect, frozen=True):
    """Make term and vote durable; answer with ``VoteSaved``."""

    term: int
    voted_for: int
    ticket: int


Event = (
    Started
    | Received
    | TimerFired
    | AppendRequested
    | BarrierRequested
    | ReadIndexRequested
    | TrimRequested
    | Flushed
    | VoteSaved
    | LogRead
)
Effect = (
    Append
    | Truncate
    | Trim
    | Reset
    | StartFlush
    | SaveVote
    | ReadLog
    | Send
    | SetTimer
    | CancelTimer
    | Accepted
    | Resolved
    | Note
)

__all__ = [
    "Accepted",
    "Append",
    "AppendRequested",
    "BarrierRequested",
    "CancelTimer",
    "Effect",
    "Event",
    "Flushed",
    "LogRead",
    "Note",
    "Outcome",
    "ReadIndexRequested",
    "ReadLog",
    "Received",
    "Reset",
    "Resolved",
    "SaveVote",
    "Send",
    "SetTimer",
    "StartFlush",
    "Started",
    "Timer",
    "TimerFired",
    "Trim",
    "TrimRequested",
    "Truncate",
    "VoteSaved",
]
