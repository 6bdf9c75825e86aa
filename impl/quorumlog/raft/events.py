"""A Raft core's events and effects: those of any replicated log (`quorumlog.events`), and its own.

``SaveVote`` takes time like a flush; it is answered by ``VoteSaved`` with the same ticket. A request with batches is
answered by ``HandedOver``, as they hold memory (raft.md#units-returned).
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
from quorumlog.raft.members import Change
from quorumlog.raft.messages import AppendEntries


class Timer(StrEnum):
    """The core's timers; setting one again replaces it."""

    ELECTION = "election"
    HEARTBEAT = "heartbeat"
    FLUSH = "flush"
    DRAIN = "drain"
    ENQUEUE = "enqueue"
    TRANSFER = "transfer"


class VoteSaved(events.Event, frozen=True):
    """Term and vote with this ticket are on disk."""

    ticket: int


class TransferRequested(events.Event, frozen=True):
    """Whoever runs the group asks the leader to hand its leadership on to node ``target``."""

    request: int
    target: int


class ChangeRequested(events.Event, frozen=True):
    """Whoever runs the group asks the leader to change its members."""

    request: int
    change: Change


class HandedOver(events.Event, frozen=True):
    """The network has taken a request with batches for node ``to``, or refused it: it needs no memory any more."""

    to: int
    message: AppendEntries


class Disconnect(events.Effect, frozen=True):
    """Drop what the network has not taken yet of the messages to this node; ``HandedOver`` follows for each request."""

    to: int


class SaveMembers(events.Effect, frozen=True):
    """Keep, durably when this effect is done, the configuration of a log that will begin at ``start``.

    It was the entry at ``offset``; ``members`` is it as an entry holds it.
    """

    start: int
    offset: int
    members: bytes


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
    | HandedOver
    | TransferRequested
    | ChangeRequested
    | LogRead
)
Effect = (
    Append
    | Truncate
    | Trim
    | Reset
    | StartFlush
    | SaveVote
    | SaveMembers
    | ReadLog
    | Send
    | Disconnect
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
    "ChangeRequested",
    "Disconnect",
    "Effect",
    "Event",
    "Flushed",
    "HandedOver",
    "LogRead",
    "Note",
    "Outcome",
    "ReadIndexRequested",
    "ReadLog",
    "Received",
    "Reset",
    "Resolved",
    "SaveMembers",
    "SaveVote",
    "Send",
    "SetTimer",
    "StartFlush",
    "Started",
    "Timer",
    "TimerFired",
    "TransferRequested",
    "Trim",
    "TrimRequested",
    "Truncate",
    "VoteSaved",
]
