"""The log of epochs, metadata and events as one process follows it: what it holds so far, and what is appended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from quorumlog.cluster.log_client import Log, UnreachableError
from quorumlog.read_path.internal_log import AnyInternal, InternalLog

FORM = list[AnyInternal]
"""The records of its batches."""
LOG = "internal"
_READ_BYTES = 1 << 20

Make = Callable[[int, int], AnyInternal]
"""Makes a record, given who appends it and its number."""


class Follower(Protocol):
    """Who is told of the records of the log as they are folded."""

    def followed(self, record: AnyInternal, counted: bool) -> None:
        """The next record was folded; ``counted``: and made a difference."""

    def caught_up(self) -> None:
        """All records that were read at once are folded."""


class Internal:
    """See the module. ``by`` names this process among those that append; ``poll`` in seconds."""

    def __init__(self, log: Log, shards: tuple[int, ...], by: int, poll: float, follower: Follower) -> None:
        self.held = InternalLog(shards)
        self._log, self._by, self._poll, self._follower = log, by, poll, follower
        self._position = 0
        self._number = 0
        self._reading = asyncio.Lock()
        self._waiting: dict[str, Make] = {}
        self._more = asyncio.Event()

    async def catch_up(self) -> None:
        """Have all records that anybody may have heard of before this call."""
        while True:
            try:
                index = await self._log.read_index()
                while self._position <= index:
                    await self._advance()
                return
            except UnreachableError:
                await asyncio.sleep(self._poll)

    async def follow(self) -> None:
        """Look again and again, until cancelled. Raises `quorumlog.storage.records.UnreadableError`."""
        while True:
            with contextlib.suppress(UnreachableError):
                await self._advance()
            await asyncio.sleep(self._poll)

    async def _advance(self) -> None:
        async with self._reading:
            _, found = await self._log.read(self._position, _READ_BYTES)
            for offset, record in found:
                self._position = offset + 1
                if record is not None:
                    self._follower.followed(record, self.held.fold(record))
            if found:
                self._follower.caught_up()

    def append(self, what: str, make: Make) -> None:
        """Append a record, in order and once; what is asked for again while it waits is appended once."""
        self._waiting.setdefault(what, make)
        self._more.set()

    async def write(self) -> None:
        """Append what is asked for, until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                what = next(iter(self._waiting))
                make = self._waiting.pop(what)
                self._number += 1
                await self._write(make, self._number)

    async def _write(self, make: Make, number: int) -> None:
        while not self.held.has(self._by, number):
            try:
                await self._log.append([make(self._by, number)])
            except UnreachableError:
                await asyncio.sleep(self._poll)
            await self.catch_up()

    def close(self) -> None:
        """Close the connection to the group that keeps the log."""
        self._log.close()
