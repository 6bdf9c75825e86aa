"""What every process of a cluster has: an end with an exit status, orders of its supervisor, one-line warnings.

A node and a server build on it. Under a supervisor a process also goes when that dies, and takes orders
(`quorumlog.node.supervision`, which has the exit statuses too).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import msgspec

from quorumlog.lifetime import die_with
from quorumlog.node.supervision import FAULT, STOPPED, UNUSABLE, Order, Supervisor
from quorumlog.storage.disk import StorageError

_WARNINGS = 200
_WARNINGS_SECONDS = 10.0


class Supervised:
    """A process called ``name`` in what it prints; made inside its event loop. ``muted``: to whom it sends nothing."""

    def __init__(self, name: str, supervisor: Supervisor | None) -> None:
        self.muted: frozenset[int] = frozenset()
        self._name = name
        self._supervisor = supervisor
        self._warned = 0
        self._silent_until = 0.0
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []

    def watch_signals(self) -> None:
        """From now on SIGTERM and SIGINT end the process, and an error that nobody expected stops it at once."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._loop_fault)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end, STOPPED)

    async def work(self, doings: Iterable[Coroutine[Any, Any, None]]) -> int:
        """Do all of these, and obey the supervisor, until `end` is called; returns the exit status."""
        self._tasks = [asyncio.create_task(doing) for doing in doings]
        if self._supervisor is not None:
            self._tasks.append(asyncio.create_task(self._watch_orders()))
        for task in self._tasks:
            task.add_done_callback(self._task_ended)
        return await self._status

    def cease(self) -> None:
        """Cancel what `work` began, without waiting for its end."""
        for task in self._tasks:
            task.cancel()

    def end(self, status: int) -> None:
        """Let `work` return this status, if it is the first."""
        if not self._status.done():
            self._status.set_result(status)

    def warn(self, text: str) -> None:
        """Write one line to the log; a flood of them is limited."""
        now = asyncio.get_running_loop().time()
        if now >= self._silent_until:
            self._silent_until = now + _WARNINGS_SECONDS
            self._warned = 0
        self._warned += 1
        if self._warned < _WARNINGS:
            say(self._name, text)
        elif self._warned == _WARNINGS:
            say(self._name, f"{text}; further such lines are suppressed for {_WARNINGS_SECONDS:g} s")

    def fault(self, error: BaseException) -> None:
        """An error that nobody expected: the core may have changed without its effects, so nothing may go on."""
        traceback.print_exception(error)
        say(self._name, f"stopped by an internal error: {error!r}")
        with contextlib.suppress(OSError):
            self.last_words()
        os._exit(FAULT)

    def obey(self, order: Order) -> None:
        """Obey what an order asks for besides cut links, as far as this kind of process can."""

    def last_words(self) -> None:
        """Write what must not be lost when the process ends by a fault. Raises OSError."""

    def _loop_fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None:
            self.warn(str(context.get("message")))
        else:
            self.fault(error)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.fault(error)

    def _ordered(self, line: bytes) -> None:
        try:
            order = msgspec.json.decode(line, type=Order)
        except msgspec.MsgspecError as error:
            self.warn(f"an invalid order: {error}")
            return
        if order.mute is not None:
            self.muted = frozenset(order.mute)
        self.obey(order)

    async def _watch_orders(self) -> None:
        """Read orders from standard input until its end, which means that the supervisor is gone."""
        reader = asyncio.StreamReader(limit=1 << 16)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        with contextlib.suppress(ValueError):  # a line above the limit: no supervisor of ours
            while line := await reader.readline():
                self._ordered(line)
        self.end(STOPPED)


def say(name: str, text: str) -> None:
    """Print one line about a process to standard error, if anybody still reads it."""
    with contextlib.suppress(OSError):
        print(f"{name}: {' '.join(text.split())}", file=sys.stderr, flush=True)


def run_process(
    name: str,
    address: str,
    supervisor: Supervisor | None,
    life: Callable[[], Coroutine[Any, Any, int]],
    refusals: tuple[type[Exception], ...] = (StorageError,),
) -> int:
    """Run a process until it stops; returns the exit status. The end of a supervisor's process ends this one.

    ``life`` is all that it does; ``refusals`` are what it raises where its disk or its configuration cannot be used,
    besides OSError. An OSError that names no file is about ``address``.
    """
    if supervisor is not None and not die_with(supervisor.process):
        return STOPPED
    try:
        return asyncio.run(life())
    except refusals as error:
        say(name, str(error))
    except OSError as error:
        say(name, f"{error.filename or address}: {error.strerror or error}")
    return UNUSABLE
