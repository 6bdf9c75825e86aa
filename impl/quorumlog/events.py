"""What goes into the core of a replicated log and what comes out: events and effects, all immutable.

A core does no I/O. A driver (simulated or real) calls ``core.handle(now, event)`` and carries out the returned effects
*in order*. ``now`` is the node's own monotonic clock in nanoseconds; the core never reads a clock itself. ``Append``
and ``Truncate`` are done on the log before the next effect; the others that take time (``StartFlush``, ``ReadLog``) are
answered later by an event with the same ticket. Any storage error is fail-stop: the driver stops the node, and the core
does not learn of it.

A protocol uses those it needs and defines its own beside its core (`quorumlog.raft.events`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from quorumlog.storage.batch import RecordBatch


class Outcome(StrEnum):
    """How an append, a barrier, a read index or a transfer of leadership ended, as `Resolved` says."""

    SUCCESS = "success"
    TRUNCATED = "truncated"  # it is not in the log and never will be
    NOT_LEADER = "not_leader"  # nothing was written
    TERM_MISMATCH = "term_mismatch"  # the expected term is over; nothing was written
    TIMED_OUT = "timed_out"  # there was no memory for it in time; nothing was written
    REFUSED = "refused"  # it cannot be done now; nothing has changed
    UNKNOWN = "unknown"  # it may be in the log or not: the node lost its own copy before that was decided


class Event(msgspec.Struct, frozen=True, gc=False):
    """Base of everything that goes into a core."""


class Started(Event, frozen=True):
    """The node has started; the first event of every incarnation."""


class Received(Event, frozen=True):
    """A message arrived from node ``sender``."""

    sender: int
    message: Any


class TimerFired(Event, frozen=True):
    """A timer set by ``SetTimer`` has run out."""

    name: str


class AppendRequested(Event, frozen=True):
    """A client asks to append ``batch`` (its offset and term are given by the leader).

    ``expected_term``: -1, or the only term in which it may be written. ``force_flush``: make it durable on a majority
    whatever its acks level.
    """

    request: int
    batch: RecordBatch
    expected_term: int = -1
    force_flush: bool = False


class BarrierRequested(Event, frozen=True):
    """A client asks for the linearizable end of the log."""

    request: int


class ReadIndexRequested(Event, frozen=True):
    """A client asks up to where a read must reach to be linearizable; it may then be served by this node, at once."""

    request: int


class TrimRequested(Event, frozen=True):
    """Retention: entries before ``offset`` may go. Never beyond the commit index."""

    offset: int


class Flushed(Event, frozen=True):
    """The flush with this ticket is on disk."""

    ticket: int


class LogRead(Event, frozen=True):
    """The read with this ticket is done; ``batches`` may be empty if the log was cut meanwhile."""

    ticket: int
    batches: tuple[RecordBatch, ...]


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Base of everything that a core asks its driver to do."""


class Append(Effect, frozen=True):
    """Append batches, with offsets and terms assigned, to the end of the log; they are dirty until a flush."""

    batches: tuple[RecordBatch, ...]


class Truncate(Effect, frozen=True):
    """Remove the entries from ``offset`` on."""

    offset: int


class Trim(Effect, frozen=True):
    """Remove the entries before ``offset``, which becomes the first offset of the log."""

    offset: int


class Reset(Effect, frozen=True):
    """Discard the whole log and begin at ``start``; ``start_term`` is the term of the entry before it."""

    start: int
    start_term: int


class StartFlush(Effect, frozen=True):
    """Make durable what is in the log now; answer with ``Flushed``."""

    ticket: int


class ReadLog(Effect, frozen=True):
    """Read whole batches from ``start`` on, about ``max_bytes`` but at least one; answer with ``LogRead``."""

    ticket: int
    start: int
    max_bytes: int


class Send(Effect, frozen=True):
    """Hand a message to the network; it may be lost, delayed or duplicated."""

    to: int
    message: Any


class SetTimer(Effect, frozen=True):
    """Fire ``name`` after ``delay`` plus a random part below ``jitter``, both in nanoseconds."""

    name: str
    delay: int
    jitter: int = 0


class CancelTimer(Effect, frozen=True):
    """Cancel the timer ``name``; nothing happens if it is not set."""

    name: str


class Accepted(Effect, frozen=True):
    """Stage one of replicate: the request has its place in the order; the next one may be handed in."""

    request: int


class Resolved(Effect, frozen=True):
    """Stage two: the request ended; offsets and term are -1 where nothing was written."""

    request: int
    outcome: Outcome
    offset: int
    last_offset: int
    term: int


class Note(Effect, frozen=True):
    """An event for the history: its kind and columns (the node's state after it included)."""

    kind: str
    columns: dict[str, Any]


class Core(Protocol):
    """A protocol's decisions without I/O: one event in, effects out, to be carried out in order."""

    def handle(self, now: Any, event: Any, /) -> Sequence[Effect]:  # noqa: ANN401
        """Take one event at the node's monotonic time ``now`` (ns), or at what its protocol's driver says of time."""


class LogCore(Core, Protocol):
    """The core of a replicated log. Readable at any time; offsets are inclusive, -1 means "nothing yet"."""

    term: int
    role: str
    leader: int
    """The node that it follows, itself if it leads; -1 if there is none."""
    flushed: int
    commit: int
    visible: int

    @property
    def dirty(self) -> int:
        """The last appended offset, flushed or not (raft.md#dirty)."""


CoreFactory = Callable[..., Any]
"""Makes the core of one incarnation from its configuration and what was found on disk; a mutant's makes a different
one."""
