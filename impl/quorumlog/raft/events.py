"""A Raft core's own events and effects; it has those of any replicated log as well (`quorumlog.events`).

``SaveVote`` takes time like a flush; it is answered by ``VoteSaved`` with the same ticket. A request with batches is
answered by ``HandedOver``, as they hold memory (raft.md#units-returned).
"""

from __future__ import annotations

from enum import StrEnum

from quorumlog.events import Effect, Event
from quorumlog.raft.members import Change
from quorumlog.raft.messages import AppendEntries
from quorumlog.raft.snapshot import Snapshot


class Timer(StrEnum):
    """The core's timers; setting one again replaces it."""

    ELECTION = "election"
    HEARTBEAT = "heartbeat"
    FLUSH = "flush"
    DRAIN = "drain"
    ENQUEUE = "enqueue"
    TRANSFER = "transfer"


class VoteSaved(Event, frozen=True):
    """Term and vote with this ticket are on disk."""

    ticket: int


class TransferRequested(Event, frozen=True):
    """Whoever runs the group asks the leader to hand its leadership on to node ``target``."""

    request: int
    target: int


class ChangeRequested(Event, frozen=True):
    """Whoever runs the group asks the leader to change its members."""

    request: int
    change: Change


class CompactRequested(Event, frozen=True):
    """Remove these batches, each given by its first and last offset: what is superseded up to ``compaction_bound``."""

    gaps: tuple[tuple[int, int], ...]


class HandedOver(Event, frozen=True):
    """The network has taken a request with batches for node ``to``, or refused it: it needs no memory any more."""

    to: int
    message: AppendEntries


class Disconnect(Effect, frozen=True):
    """Drop what the network has not taken yet of the messages to this node; ``HandedOver`` follows for each request."""

    to: int


class SnapshotRead(Event, frozen=True):
    """The read with this ticket is done: ``data`` of the snapshot up to ``last``; ``done``: they end it.

    ``last`` is -1 if the snapshot asked for is gone.
    """

    ticket: int
    last: int
    position: int
    data: bytes
    done: bool


class Apply(Effect, frozen=True):
    """Apply the entries from ``offset`` to ``last_offset`` to the state machine; they follow what was applied."""

    offset: int
    last_offset: int


class TakeSnapshot(Effect, frozen=True):
    """Keep a snapshot of all up to ``last``, durably when this effect is done; the log will begin behind it.

    ``term`` is that of the entry at ``last``; the configuration in force there was the entry at ``offset``, ``members``
    is it as an entry holds it.
    """

    last: int
    term: int
    offset: int
    members: bytes


class KeepSnapshot(Effect, frozen=True):
    """Keep a snapshot that another node took, and its state, durably when this effect is done; the log will begin
    behind it."""

    snapshot: Snapshot


class ReadSnapshot(Effect, frozen=True):
    """Read ``max_bytes`` at most of the snapshot up to ``last`` from a position on; answer with ``SnapshotRead``."""

    ticket: int
    last: int
    position: int
    max_bytes: int


class Compact(Effect, frozen=True):
    """Remove these batches from the log, durably, and move no offset."""

    gaps: tuple[tuple[int, int], ...]


class SaveVote(Effect, frozen=True):
    """Make term and vote durable; answer with ``VoteSaved``."""

    term: int
    voted_for: int
    ticket: int
