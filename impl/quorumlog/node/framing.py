"""The byte stream between two processes: one hello, then frames with a length. Bytes in, frames out, no I/O.

Every connection begins with a hello of ``HELLO_BYTES`` from either side: magic, version, role, node, cluster.
Anything else is refused at its first wrong byte. Then come frames, big-endian::

    length u32 | payload

``length`` counts the payload and is checked against the limit as soon as its four bytes are there, before anything is
kept for it. What a reader holds is therefore never more than one frame and one read of the socket.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

MAGIC = b"QLOG"
VERSION = 1
MAX_FRAME_BYTES = 8 << 20
"""Largest payload: a round of 1 MiB and the largest batch a client may append, with room to spare."""
MAX_APPEND_BYTES = 4 << 20
"""Largest payload of a batch that a client may append."""

_HELLO = struct.Struct(">4sHBxi8s")
HELLO_BYTES = _HELLO.size
_LENGTH = struct.Struct(">I")
LENGTH_BYTES = _LENGTH.size


class FrameError(ValueError):
    """The other side does not speak this protocol; the connection is of no further use."""


class Role(IntEnum):
    """Who is at the other end."""

    NODE = 1
    CLIENT = 2


class Hello(NamedTuple):
    """The first bytes of a connection. ``cluster`` keeps nodes of other clusters out.

    ``node`` is -1 for clients, of a process that holds several groups -1 less the number of the one that they ask.
    """

    role: Role
    node: int
    cluster: bytes

    @property
    def group(self) -> int:
        """The group that a client asks."""
        return -1 - self.node

    def encode(self) -> bytes:
        """The ``HELLO_BYTES`` bytes with which a connection begins."""
        return _HELLO.pack(MAGIC, VERSION, self.role, self.node, self.cluster)


def frame(payload: bytes) -> bytes:
    """A payload with its length; raises `FrameError` if it is above the limit."""
    if len(payload) > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {len(payload)} bytes is above the limit of {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Takes bytes as they arrive; gives the hello and then whole frames."""

    __slots__ = ("_buffer", "_limit", "hello")

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self.hello: Hello | None = None
        self._buffer = bytearray()
        self._limit = limit

    @property
    def partial(self) -> bool:
        """Whether it waits for the rest of something that has begun, or for the hello."""
        return self.hello is None or bool(self._buffer)

    @property
    def held(self) -> int:
        """How many bytes the reader holds: a hello or a frame that is not complete yet."""
        return len(self._buffer)

    def forget(self) -> None:
        """Drop the bytes it holds: no more will come."""
        self._buffer.clear()

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; return the payloads of the frames that are now complete, in order. Raises `FrameError`."""
        buffer = self._buffer
        buffer += data
        position = 0
        if self.hello is None:
            if not self._take_hello():
                return []
            position = HELLO_BYTES
        frames = []
        end = len(buffer)
        while end - position >= LENGTH_BYTES:
            (length,) = _LENGTH.unpack_from(buffer, position)
            if length > self._limit:
                raise FrameError(f"a frame of {length} bytes is announced; the limit is {self._limit}")
            stop = position + LENGTH_BYTES + length
            if stop > end:
                break
            frames.append(bytes(buffer[position + LENGTH_BYTES : stop]))
            position = stop
        if position:
            del buffer[:position]
        return frames

    def _take_hello(self) -> bool:
        buffer = self._buffer
        if not MAGIC.startswith(buffer[: len(MAGIC)]):
            raise FrameError(f"not this protocol: it begins with {bytes(buffer[:8])!r}")
        if len(buffer) < HELLO_BYTES:
            return False
        _, version, role, node, cluster = _HELLO.unpack_from(buffer)
        if version != VERSION:
            raise FrameError(f"protocol version {version}; this node speaks {VERSION}")
        if role not in tuple(Role):
            raise FrameError(f"unknown role {role} in the hello")
        self.hello = Hello(Role(role), node, cluster)
        return True
