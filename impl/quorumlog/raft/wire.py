"""Raft's messages on the wire: unchanged, except that the batches of `AppendEntries` travel as their bytes.

What arrives is checked before the core sees it: numbers in a sane range, and batches that follow one another and the
entry named before them.
"""

from __future__ import annotations

import msgspec

from quorumlog.node.framing import FrameError
from quorumlog.node.wire import Channel, pack_batches, unpack_batches
from quorumlog.raft.members import Members
from quorumlog.raft.messages import (
    AnyMessage,
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    Message,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from quorumlog.raft.snapshot import MOST_SNAPSHOT_BYTES
from quorumlog.storage.batch import BatchKind

_LARGEST = 1 << 60
"""No offset, term or sequence of a sane node comes near it; above it is garbage that happens to parse."""


class _Packed(Message, frozen=True, tag="AppendEntries"):
    """`AppendEntries` with its batches as bytes."""

    sequence: int
    previous: int
    previous_term: int
    commit: int
    visible: int
    flush: bool
    batches: bytes


_OnWire = (
    VoteRequest
    | VoteReply
    | _Packed
    | AppendReply
    | InstallSnapshot
    | SnapshotReply
    | Heartbeat
    | HeartbeatReply
    | TimeoutNow
)


def _pack(message: AnyMessage) -> Message:
    if type(message) is not AppendEntries:
        return message
    return _Packed(
        message.term,
        message.sequence,
        message.previous,
        message.previous_term,
        message.commit,
        message.visible,
        message.flush,
        pack_batches(message.batches),
    )


def _unpack(message: _OnWire) -> AnyMessage:
    if any(type(value) is int and not -1 <= value < _LARGEST for value in msgspec.structs.astuple(message)):
        raise FrameError(f"a {type(message).__name__} with a number out of range")
    if isinstance(message, InstallSnapshot) and message.position + len(message.data) > MOST_SNAPSHOT_BYTES:
        raise FrameError(f"a part of a snapshot of more than {MOST_SNAPSHOT_BYTES} bytes")
    if not isinstance(message, _Packed):
        return message
    batches = unpack_batches(message.batches)
    for batch in batches:
        if batch.kind is BatchKind.CONFIGURATION:
            _check_members(batch.payload)
    following, term = message.previous + 1, message.previous_term
    for batch in batches:
        if batch.base_offset != following or not term <= batch.term <= message.term:
            raise FrameError(f"an AppendEntries whose batch at offset {batch.base_offset} follows nothing")
        following, term = batch.last_offset + 1, batch.term
    return AppendEntries(
        message.term,
        message.sequence,
        message.previous,
        message.previous_term,
        message.commit,
        message.visible,
        message.flush,
        batches,
    )


def _check_members(payload: bytes) -> None:
    try:
        Members.decode(payload)
    except ValueError as error:
        raise FrameError(str(error)) from None


def _payload_bytes(message: AnyMessage) -> int:
    return sum(batch.size_bytes for batch in message.batches) if type(message) is AppendEntries else 0


MESSAGES: Channel[AnyMessage] = Channel("message", _OnWire, pack=_pack, unpack=_unpack, payload_bytes=_payload_bytes)
"""The frames between the nodes of a Raft group."""
