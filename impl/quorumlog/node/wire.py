"""What is inside a frame: a clock stamp and a list of messages, as msgpack.

A payload is ``time i64 | logical u32 | msgpack array``. The stamp is the sender's hybrid logical clock when it sent,
so that the histories of all processes merge into one causal order. Record batches travel as the very bytes that lie
on the disk (`quorumlog.storage.batch`), several in one binary field, each with its own checksum.

Between nodes the array holds the messages of `quorumlog.raft.messages`; between clients and nodes the calls and
results below. Every call has an ``id`` that its result repeats; results may come in another order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from quorumlog.node.framing import FrameError, frame
from quorumlog.raft.messages import (
    AnyMessage,
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    StartAt,
    VoteReply,
    VoteRequest,
)
from quorumlog.storage.batch import BatchDamaged, RecordBatch, decode

Stamp = tuple[int, int]
"""Hybrid logical clock: nanoseconds and counter."""

_STAMP = struct.Struct(">qI")
STAMP_BYTES = _STAMP.size
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
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


_OnWire = VoteRequest | VoteReply | _Packed | AppendReply | StartAt | Heartbeat | HeartbeatReply


class Call(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of what a client asks."""

    id: int


class AppendCall(Call, frozen=True):
    """Append a batch of ``records`` offsets; the payload begins with its 8-byte value. ``expected_term`` -1: any."""

    payload: bytes
    records: int
    acks: int
    expected_term: int
    force_flush: bool


class ReadCall(Call, frozen=True):
    """Read whole batches from ``offset`` on, up to what this node knows as committed, or as visible."""

    offset: int
    max_bytes: int
    committed: bool


class TailCall(Call, frozen=True):
    """Ask for the linearizable end of the log."""


class StatusCall(Call, frozen=True):
    """Ask the node for its state."""


class Result(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of what a node answers; ``leader`` is whom it takes for the leader, or -1."""

    id: int
    leader: int


class AppendResult(Result, frozen=True):
    """How an append ended: an `Outcome`, and where it is if it is in the log."""

    outcome: str
    offset: int
    last_offset: int
    term: int


class ReadResult(Result, frozen=True):
    """Encoded batches, and the offset at which to go on; ``end`` is the last offset that may be read now."""

    batches: bytes
    next_offset: int
    end: int


class TailResult(Result, frozen=True):
    """How the barrier ended, and the last offset at its time."""

    outcome: str
    offset: int


class StatusResult(Result, frozen=True):
    """The node's state; ``flushes`` counts the flushes of the log since it started."""

    node: int
    incarnation: int
    term: int
    role: str
    dirty: int
    flushed: int
    commit: int
    visible: int
    flushes: int


class Refusal(Result, frozen=True):
    """The call was not carried out at all, and why."""

    reason: str


AnyCall = AppendCall | ReadCall | TailCall | StatusCall
AnyResult = AppendResult | ReadResult | TailResult | StatusResult | Refusal

_encoder = msgspec.msgpack.Encoder()
_messages = msgspec.msgpack.Decoder(list[_OnWire])
_calls = msgspec.msgpack.Decoder(list[AnyCall])
_results = msgspec.msgpack.Decoder(list[AnyResult])


def pack_batches(batches: Iterable[RecordBatch]) -> bytes:
    """Batches one after the other, as on the disk."""
    return b"".join([batch.encode() for batch in batches])


def unpack_batches(packed: bytes) -> tuple[RecordBatch, ...]:
    """The reverse of `pack_batches`; raises `FrameError` if a batch is damaged."""
    batches = []
    position = 0
    try:
        while position < len(packed):
            batch = decode(packed, position)
            batches.append(batch)
            position += batch.size_bytes
    except BatchDamaged as error:
        raise FrameError(f"a record batch in a message is damaged: {error}") from None
    return tuple(batches)


def encode_messages(stamp: Stamp, messages: Sequence[AnyMessage]) -> bytes:
    """One frame for another node. Raises `FrameError` if it would be above the limit."""
    return _frame(stamp, [_pack(message) for message in messages])


def decode_messages(payload: bytes) -> tuple[Stamp, list[AnyMessage]]:
    """The reverse of `encode_messages`; raises `FrameError`."""
    stamp = _stamp(payload)
    try:
        messages = _messages.decode(memoryview(payload)[STAMP_BYTES:])
    except _UNREADABLE as error:
        raise FrameError(f"not a message of this protocol: {error}") from None
    return stamp, [_unpack(message) for message in messages]


def encode_calls(stamp: Stamp, calls: Sequence[AnyCall]) -> bytes:
    """One frame for a node. Raises `FrameError` if it would be above the limit."""
    return _frame(stamp, calls)


def decode_calls(payload: bytes) -> tuple[Stamp, list[AnyCall]]:
    """The reverse of `encode_calls`; raises `FrameError`."""
    stamp = _stamp(payload)
    try:
        calls = _calls.decode(memoryview(payload)[STAMP_BYTES:])
    except _UNREADABLE as error:
        raise FrameError(f"not a call of this protocol: {error}") from None
    return stamp, calls


def encode_results(stamp: Stamp, results: Sequence[AnyResult]) -> bytes:
    """One frame for a client. Raises `FrameError` if it would be above the limit."""
    return _frame(stamp, results)


def decode_results(payload: bytes) -> tuple[Stamp, list[AnyResult]]:
    """The reverse of `encode_results`; raises `FrameError`."""
    stamp = _stamp(payload)
    try:
        results = _results.decode(memoryview(payload)[STAMP_BYTES:])
    except _UNREADABLE as error:
        raise FrameError(f"not a result of this protocol: {error}") from None
    return stamp, results


def _frame(stamp: Stamp, content: Sequence[Any]) -> bytes:
    return frame(_STAMP.pack(*stamp) + _encoder.encode(content))


def _stamp(payload: bytes) -> Stamp:
    if len(payload) < STAMP_BYTES:
        raise FrameError(f"a frame of {len(payload)} bytes is too short for its clock stamp")
    time, logical = _STAMP.unpack_from(payload)
    return time, logical


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
    if not isinstance(message, _Packed):
        return message
    batches = unpack_batches(message.batches)
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
