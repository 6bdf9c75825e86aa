"""What goes into a Raft core and what comes out: events and effects, both immutable.

The driver (simulated or real) calls ``core.handle(now, event)`` and carries out the returned effects *in order*.
``now`` is the node's own monotonic clock in nanoseconds; the core never reads a clock itself. ``Append`` and
``Truncate`` are done on the log before the next effect; the others that take time (``StartFlush``, ``SaveVote``,
``ReadLog``) are answered later by an event with the same ticket. Any storage error is fail-stop: the driver stops the
node, the core need not know.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from quorumlog.raft.messages import AnyMessage
from quorumlog.storage.batch import RecordBatch


class Outcome(StrEnum):
    """How a client's request ended."""

    SUCCESS = "success"
    TRUNCATED = "truncated"  # it is not in the log and never will be
    NOT_LEADER = "not_leader"  # nothing was written
    TERM_MISMATCH = "term_mismatch"  # the expected term is over; nothing was written
    UNKNOWN = "unknown"  # it may be in the log or not: the node's own copy was given up before it was decided


class Timer(StrEnum):
    """The core's timers; setting one again replaces it."""

    ELECTION = "election"
    HEARTBEAT = "heartbeat"
    FLUSH = "flush"
    DRAIN = "drain"


class _Event(msgspec.Struct, frozen=True, gc=False):
    pass


class Started(_Event, frozen=True):
    """The node is up; the first event of every incarnation."""


class Received(_Event, frozen=True):
    """A message arrived from node ``sender``."""

    sender: int
    message: AnyMessage


class TimerFired(_Event, frozen=True):
    """A timer set by ``SetTimer`` has run out."""

    name: Timer


class AppendRequested(_Event, frozen=True):
    """A client asks to append ``batch`` (its offset and term are given by the leader).

    ``expected_term``: -1, or the only term in which it may be written. ``force_flush``: durable on a majority whatever
    the acks.
    """

    request: int
    batch: RecordBatch
    expected_term: int = -1
    force_flush: bool = False


class BarrierRequested(_Event, frozen=True):
    """A client asks for the linearizable end of the log."""

    request: int


class TrimRequested(_Event, frozen=True):
    """Retention: entries before ``offset`` may go. Never beyond the commit index."""

    offset: int


class Flushed(_Event, frozen=True):
    """The flush with this ticket is on disk."""

    ticket: int


class VoteSaved(_Event, frozen=True):
    """Term and vote with this ticket are on disk."""

    ticket: int


class LogRead(_Event, frozen=True):
    """The read with this ticket is done; ``batches`` may be empty if the log was cut meanwhile."""

    ticket: int
    batches: tuple[RecordBatch, ...]


Event = (
    Started | Received | TimerFired | AppendRequested | BarrierRequested | TrimRequested | Flushed | VoteSaved | LogRead
)


class _Effect(msgspec.Struct, frozen=True, gc=False):
    pass


class Append(_Effect, frozen=True):
    """Append to the log, unflushed."""

    batches: tuple[RecordBatch, ...]


class Truncate(_Effect, frozen=True):
    """Remove the entries from ``offset`` on."""

    offset: int


class Trim(_Effect, frozen=True):
    """Remove the entries before ``offset``."""

    offset: int


class Reset(_Effect, frozen=True):
    """Forget the whole log and begin at ``start``; ``start_term`` is the term of the entry before it."""

    start: int
    start_term: int


class StartFlush(_Effect, frozen=True):
    """Make durable what is in the log now; answer with ``Flushed``."""

    ticket: int


class SaveVote(_Effect, frozen=True):
    """Make term and vote durable; answer with ``VoteSaved``."""

    term: int
    voted_for: int
    ticket: int


class ReadLog(_Effect, frozen=True):
    """Read whole batches from ``start`` on, about ``max_bytes`` but at least one; answer with ``LogRead``."""

    ticket: int
    start: int
    max_bytes: int


class Send(_Effect, frozen=True):
    """Hand a message to the network; it may be lost, late, doubled."""

    to: int
    message: AnyMessage


class SetTimer(_Effect, frozen=True):
    """Fire ``name`` after ``delay`` plus a random part below ``jitter``, both in nanoseconds."""

    name: Timer
    delay: int
    jitter: int = 0


class CancelTimer(_Effect, frozen=True):
    """Forget the timer."""

    name: Timer


class Accepted(_Effect, frozen=True):
    """Stage one of replicate: the request has its place in the log's order; the next one may be handed in."""

    request: int


class Resolved(_Effect, frozen=True):
    """Stage two: the request ended; offsets and term are -1 where nothing was written."""

    request: int
    outcome: Outcome
    offset: int
    last_offset: int
    term: int


class Note(_Effect, frozen=True):
    """An event for the history: its kind and columns (the node's state after it included)."""

    kind: str
    columns: dict[str, Any]


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
