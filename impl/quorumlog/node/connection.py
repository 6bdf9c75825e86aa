"""One TCP connection: hello, frames, deadlines, and a bounded queue of what is not yet sent.

Both sides say hello first. A connection that has not said hello in ``HELLO_SECONDS``, or lets a frame that has begun
wait for ``FRAME_SECONDS``, is closed: a slow writer costs one small buffer for a short time. What cannot be handed to
the socket waits in the transport's buffer; above ``QUEUE_BYTES`` new messages are dropped (`send` says so), which
Raft tolerates. The newest are dropped and not the oldest: what a follower finds in the socket when it is back
continues its log.
"""

from __future__ import annotations

import asyncio
from typing import cast

from quorumlog.node.framing import MAX_FRAME_BYTES, FrameError, FrameReader, Hello

HELLO_SECONDS = 3.0
FRAME_SECONDS = 10.0
QUEUE_BYTES = 16 << 20


class Connection(asyncio.Protocol):
    """Base of the connections of nodes and clients. Subclasses define what a hello and a frame mean.

    ``refuse`` is what they call, or raise `FrameError` for, when the other side misbehaves.
    """

    def __init__(self, hello: Hello, limit: int = MAX_FRAME_BYTES) -> None:
        self._mine = hello
        self._reader = FrameReader(limit)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.peer_name = "?"
        self.reason: str | None = None  # why this side closed it

    # -- for subclasses ------------------------------------------------------------------------------------------

    def hello_received(self, hello: Hello) -> None:
        """The other side has said who it is. Raise `FrameError` if it has no business here."""

    def frames_received(self, payloads: list[bytes]) -> None:
        """Whole frames arrived, in order. Raise `FrameError` if one is invalid."""

    def closed(self) -> None:
        """The connection is gone; ``reason`` is why this side refused it, or None if it did not."""

    # -- for everybody -------------------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether bytes can still be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def waiting(self) -> int:
        """Bytes that the socket has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def held(self) -> int:
        """Bytes of a frame that has begun to arrive."""
        return self._reader.held

    def send(self, frame: bytes) -> bool:
        """Queue a frame; False if it was dropped because the connection is closed or too much is waiting already."""
        transport = self._transport
        if transport is None or transport.is_closing() or transport.get_write_buffer_size() > QUEUE_BYTES:
            return False
        transport.write(frame)
        return True

    def pause(self) -> None:
        """Read no more from the socket until `resume`: back-pressure."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read from the socket again after `pause`; does nothing on a closed connection."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def refuse(self, reason: str) -> None:
        """Close at once; what is queued is lost."""
        if self.reason is None:
            self.reason = reason
        self._reader.forget()
        if self._transport is not None:
            self._transport.abort()

    def finish(self) -> None:
        """Close once what is queued has been sent."""
        if self._transport is not None:
            self._transport.close()

    # -- asyncio.Protocol ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello and wait for the other's."""
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        self.peer_name = f"{address[0]}:{address[1]}" if address else "?"
        self._transport.write(self._mine.encode())
        self._set_deadline(HELLO_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Hand arriving bytes to the frame reader, and its hello and frames to the subclass.

        A `FrameError` closes the connection.
        """
        had_hello = self._reader.hello is not None
        try:
            frames = self._reader.feed(data)
            if not had_hello and self._reader.hello is not None:
                self.hello_received(self._reader.hello)
            if frames:
                self.frames_received(frames)
        except FrameError as error:
            self.refuse(str(error))
            return
        whole = bool(frames) or (not had_hello and self._reader.hello is not None)
        if whole and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._deadline is None and self._reader.partial:
            self._set_deadline(FRAME_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the deadline, drop what was half received, and call `closed`."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._reader.forget()
        self._transport = None
        self.closed()

    def _set_deadline(self, seconds: float) -> None:
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._too_slow, seconds)

    def _too_slow(self, seconds: float) -> None:
        what = "the hello" if self._reader.hello is None else "the rest of a frame"
        self.refuse(f"{what} did not come within {seconds:g} s")
