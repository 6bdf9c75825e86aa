"""Raft's messages on the wire: unchanged, except that the batches of `AppendEntries` travel as their bytes.

What arrives is checked before the core sees it: numbers in a sane range, batches that follow one another and the entry
named before them, and ghosts that have a batch of their term behind them.
"""

from __future__ import annotations

from typing import Any, TypeVar

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
    LightHeartbeat,
    LightReply,
    Message,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from quorumlog.raft.snapshot import MOST_SNAPSHOT_BYTES
from quorumlog.storage.batch import CONFIGURATION, GHOST

_Message = TypeVar("_Message", bound=msgspec.Struct)
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
    recovery: bool


OnWire = (
    VoteRequest
    | VoteReply
    | _Packed
    | AppendReply
    | InstallSnapshot
    | SnapshotReply
    | Heartbeat
    | HeartbeatReply
    | TimeoutNow
    | LightHeartbeat
    | LightReply
)


def pack(message: AnyMessage) -> Any:  # noqa: ANN401
    """What travels for a message (`OnWire`)."""
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
        message.recovery,
        session=message.session,
        sender_session=message.sender_session,
    )


def check_numbers(message: _Message) -> _Message:
    """The message itself; raises `FrameError` if a number in it is not one of a sane node's."""
    if any(type(value) is int and not -1 <= value < _LARGEST for value in msgspec.structs.astuple(message)):
        raise FrameError(f"a {type(message).__name__} with a number out of range")
    return message


def unpack(message: OnWire) -> AnyMessage:
    """What arrived as the core takes it; raises `FrameError` for what cannot be right."""
    check_numbers(message)
    if isinstance(message, InstallSnapshot) and message.position + len(message.data) > MOST_SNAPSHOT_BYTES:
        raise FrameError(f"a part of a snapshot of more than {MOST_SNAPSHOT_BYTES} bytes")
    if not isinstance(message, _Packed):
        return message
    batches = unpack_batches(message.batches)
    following, term, ghost = message.previous + 1, message.previous_term, False
    for batch in batches:
        if batch.base_offset != following or not term <= batch.term <= message.term:
            raise FrameError(f"an AppendEntries whose batch at offset {batch.base_offset} follows nothing")
        if ghost and batch.term != term:
            raise FrameError(f"a ghost of term {term} before a batch of term {batch.term}")
        if batch.kind is CONFIGURATION:
            _check_members(batch.payload)
        following, term, ghost = batch.last_offset + 1, batch.term, batch.kind is GHOST
    if ghost:
        raise FrameError(f"an AppendEntries that ends with a ghost, up to offset {following - 1}")
    return AppendEntries(
        message.term,
        message.sequence,
        message.previous,
        message.previous_term,
        message.commit,
        message.visible,
        message.flush,
        batches,
        message.recovery,
        session=message.session,
        sender_session=message.sender_session,
    )


def _check_members(payload: bytes) -> None:
    try:
        Members.decode(payload)
    except ValueError as error:
        raise FrameError(str(error)) from None


def payload_bytes(message: AnyMessage) -> int:
    """How many bytes of record batches a message carries."""
    return sum(batch.size_bytes for batch in message.batches) if type(message) is AppendEntries else 0


MESSAGES: Channel[AnyMessage] = Channel("message", OnWire, pack=pack, unpack=unpack, payload_bytes=payload_bytes)
"""The frames between the nodes of a Raft group."""
