"""What the nodes of several Raft groups send each other: one frame a peer for all groups (raft.md#heartbeats).

Heartbeats and their answers are packed in fixed width: a full one has 52 bytes, its answer 46, of which 8 are the
flushed offset (documents.md#raft-recovery-drawbacks), a light one the 4 bytes of its group, its answer 5. All other
messages, and those that name a session, travel as they do for a single group. They come first in what is decoded:
a heartbeat names the end of the log that the appends before it bring.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from quorumlog.node.framing import FrameError, frame
from quorumlog.node.wire import STAMP, UNREADABLE, Channel, Stamp
from quorumlog.raft.messages import AnyMessage, Heartbeat, HeartbeatReply, LightHeartbeat, LightReply
from quorumlog.raft.wire import OnWire, check_numbers, pack, payload_bytes, unpack

Item = tuple[int, AnyMessage]
"""A message and the number of its group."""

_FULL = struct.Struct(">I6q")
_REPLY = struct.Struct(">I2q?3q?")
_LIGHT = struct.Struct(">I")
_LIGHT_REPLY = struct.Struct(">I?")


class _Frame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The items of a frame by kind; heartbeats and their answers one after the other, each with its group."""

    others: list[tuple[int, OnWire]]
    full: bytes
    replies: bytes
    light: bytes
    light_replies: bytes


class _Grouped(Channel[Item]):
    """Frames of items, with what is small and frequent in fixed width."""

    def __init__(self) -> None:
        super().__init__("message", _Frame, payload_bytes=lambda item: payload_bytes(item[1]))
        self._frames = msgspec.msgpack.Decoder(_Frame)

    def encode(self, stamp: Stamp, items: Sequence[Item]) -> bytes:
        """One frame. Raises `FrameError` if it would be above the limit."""
        others: list[tuple[int, Any]] = []
        full, replies, light, light_replies = bytearray(), bytearray(), bytearray(), bytearray()
        for group, message in items:
            kind = type(message)
            if kind is LightHeartbeat:
                light += _LIGHT.pack(group)
            elif kind is LightReply:
                light_replies += _LIGHT_REPLY.pack(group, *msgspec.structs.astuple(message))
            elif isinstance(message, Heartbeat | HeartbeatReply) and not (message.session or message.sender_session):
                fields = msgspec.structs.astuple(message)[:-2]
                if isinstance(message, Heartbeat):
                    full += _FULL.pack(group, *fields)
                else:
                    replies += _REPLY.pack(group, *fields)
            else:
                others.append((group, pack(message)))
        packed = _Frame(others, bytes(full), bytes(replies), bytes(light), bytes(light_replies))
        return frame(STAMP.pack(*stamp) + self._encoder.encode(packed))

    def decode(self, payload: bytes) -> tuple[Stamp, list[Item]]:
        """The stamp and the items of a frame's payload; raises `FrameError`."""
        if len(payload) < STAMP.size:
            raise FrameError(f"a frame of {len(payload)} bytes is too short for its clock stamp")
        time, logical = STAMP.unpack_from(payload)
        try:
            found = self._frames.decode(memoryview(payload)[STAMP.size :])
            items = [*self._packed(found)]
        except (*UNREADABLE, struct.error) as error:
            raise FrameError(f"not messages of this protocol: {error}") from None
        return (time, logical), [(group, unpack(message)) for group, message in found.others] + items

    @staticmethod
    def _packed(found: _Frame) -> Iterator[Item]:
        for group, *numbers in _FULL.iter_unpack(found.full):
            yield group, check_numbers(Heartbeat(*numbers))
        for group, *numbers in _REPLY.iter_unpack(found.replies):
            yield group, check_numbers(HeartbeatReply(*numbers))
        for (group,) in _LIGHT.iter_unpack(found.light):
            yield group, LightHeartbeat()
        for group, follows in _LIGHT_REPLY.iter_unpack(found.light_replies):
            yield group, LightReply(follows)


GROUPED: Channel[Item] = _Grouped()
"""The frames between processes that hold several Raft groups."""
