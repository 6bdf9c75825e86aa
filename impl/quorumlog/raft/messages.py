"""The messages between nodes of one Raft group. Immutable; ``raft.wire`` encodes them.

Every request to a follower carries a ``sequence`` that rises per leader and follower; its reply repeats it, so that a
reply that was overtaken is recognised (raft.md#reply-order). Replies to append_entries and heartbeats carry ``flushed``
and ``dirty`` (documents.md#raft-recovery-follower) and, if successful, ``match``: the last offset that the request
showed to be equal on both sides (raft.md#match, raft.md#full-heartbeat). The document uses the follower's last offset
instead, which counts a differing tail.
"""

from __future__ import annotations

import msgspec

from quorumlog.storage.batch import RecordBatch


class _BetweenMembers(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False, kw_only=True):
    """A request names the sessions of its target and of its sender; the answer repeats both (raft.md#session)."""

    session: int = 0
    sender_session: int = 0


class Message(_BetweenMembers, frozen=True):
    """Base of all messages; ``term`` is the sender's current term."""

    term: int


class VoteRequest(Message, frozen=True):
    """Ask for a vote (or, with ``pre_vote``, whether one would be given) for a log that ends at (last_term, dirty).

    ``transfer``: the leader told the candidate to ask, so nobody needs to have missed it (raft.md#refuse-vote).
    """

    candidate: int
    last_term: int
    dirty: int
    pre_vote: bool
    transfer: bool = False


class VoteReply(Message, frozen=True):
    """Answer to a vote request; ``asked`` is the term of the request, ``behind``: the candidate's log is worse than
    the sender's."""

    asked: int
    pre_vote: bool
    granted: bool
    behind: bool = False


class AppendEntries(Message, frozen=True):
    """Batches that follow the entry ``previous`` of term ``previous_term``.

    ``flush`` asks for durability before the reply; ``recovery``: the sender reads its log to send them.
    """

    sequence: int
    previous: int
    previous_term: int
    commit: int
    visible: int
    flush: bool
    batches: tuple[RecordBatch, ...]
    recovery: bool = False


class _Offsets(Message, frozen=True):
    """A follower's offsets after a request; ``may_recover``: if it is behind, it has a slot (raft.md#may-recover)."""

    sequence: int
    success: bool
    match: int
    flushed: int
    dirty: int
    may_recover: bool = True


class AppendReply(_Offsets, frozen=True):
    """Answer to an `AppendEntries`, with the offsets of the log as they are behind it."""


class InstallSnapshot(Message, frozen=True):
    """What you need was given up here: a part, from ``position`` on, of the snapshot of all up to ``last``.

    ``done``: it ends the snapshot.
    """

    sequence: int
    last: int
    position: int
    data: bytes
    done: bool


class SnapshotReply(Message, frozen=True):
    """Answer to a part of a snapshot. Success: all up to ``match`` is the leader's and committed.

    Else ``position`` is up to where the follower has the snapshot of all up to ``last``.
    """

    sequence: int
    success: bool
    match: int
    flushed: int
    dirty: int
    last: int
    position: int
    may_recover: bool = True


class Heartbeat(Message, frozen=True):
    """The leader is alive; its log ends at (previous, previous_term). Never truncates, never flushes."""

    sequence: int
    previous: int
    previous_term: int
    commit: int
    visible: int


class HeartbeatReply(_Offsets, frozen=True):
    """Answer to a heartbeat: success means that the follower holds (previous, previous_term)."""


class TimeoutNow(Message, frozen=True):
    """The leader leaves, and the target, which has all that it has, is to stand for election at once."""


class LightHeartbeat(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """The leader is alive, and has nothing to add to its last full heartbeat (raft.md#light-heartbeat)."""


class LightReply(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Answer to a light heartbeat: whether the sender follows the one that asked."""

    follows: bool


AnyMessage = (
    VoteRequest
    | VoteReply
    | AppendEntries
    | AppendReply
    | InstallSnapshot
    | SnapshotReply
    | Heartbeat
    | HeartbeatReply
    | TimeoutNow
    | LightHeartbeat
    | LightReply
)

Reply = AppendReply | HeartbeatReply | SnapshotReply
"""What a follower answers: each has its offsets."""

Answer = Reply | VoteReply
OfLeaders = AppendEntries | Heartbeat | InstallSnapshot | TimeoutNow
Request = OfLeaders | VoteRequest
