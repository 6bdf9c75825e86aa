"""A port that speaks HTTP, with limits: connections, the time for a request line with its headers, and their size.

What the application reads of a body, and for how long it waits, are its own limits (`http`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from quorumlog.pull_queries.wire import error_body

MAX_CONNECTIONS = 512
HEADER_SECONDS = 5.0
HEADER_BYTES = 16 << 10
IDLE_SECONDS = 15
"""How long a connection is kept after an answer, and while nobody reads one."""
_UNREADABLE = error_body(400, "what came is no request in HTTP/1.1 that can be read")


class _Connection(H11Protocol):
    """A connection that is closed where a request does not come in time or cannot be read, where answers are not read,
    or where there are too many."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self._await_request()

    def handle_events(self) -> None:
        asked = self.cycle
        super().handle_events()
        if self.cycle is not asked and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def on_response_complete(self) -> None:
        asked = self.cycle
        super().on_response_complete()
        if self.cycle is asked:
            self._await_request()  # also one that does not read its answer is closed

    def pause_writing(self) -> None:
        """Requests that came at once are answered one after the other, which waits for the client to read."""
        super().pause_writing()
        self._unread = self.loop.call_later(IDLE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Say so, unless an answer has begun already; what is being made is not sent any more."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            head = f"content-type: application/json\r\nconnection: close\r\ncontent-length: {len(_UNREADABLE)}"
            self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{head}\r\n\r\n".encode() + _UNREADABLE)
        self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        """Bytes unset the time-out of an idle connection, so that a request which comes byte by byte needs its own."""
        if self._deadline is not None:
            self._deadline.cancel()
        limit = HEADER_SECONDS if self.cycle is None else HEADER_SECONDS + IDLE_SECONDS
        self._deadline = self.loop.call_later(limit, self.transport.abort)


class Listener(uvicorn.Server):
    """Serves an ASGI application on one port; signals are the process's business."""

    def __init__(self, application: Any) -> None:  # noqa: ANN401
        super().__init__(
            uvicorn.Config(
                application,
                http=_Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=HEADER_BYTES,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: the process has its own handlers (`quorumlog.node.supervised`)."""
        yield


class _Warnings(logging.Handler):
    """Passes what uvicorn says on, as one line."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._warn(record.getMessage() + (f": {error!r}" if error is not None else ""))


def warn_with(warn: Callable[[str], None]) -> None:
    """Let ``warn`` have what uvicorn says of requests that cannot be read."""
    log = logging.getLogger("uvicorn.error")
    log.handlers, log.propagate = [_Warnings(warn)], False


def take_port(place: tuple[str, int], *, shared: bool) -> socket.socket:
    """Take a port; nobody is accepted yet. ``shared``: the supervisor holds it for us. Raises OSError."""
    # With the protocol's number, for asyncio sends at once (TCP_NODELAY) only on what says that it is TCP.
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(place)
    except OSError as error:
        taken.close()
        raise OSError(error.errno, error.strerror, f"{place[0]}:{place[1]}") from None
    return taken
