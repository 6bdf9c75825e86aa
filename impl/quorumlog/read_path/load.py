"""Clients of a real log on many storage shards: some append records and trim, others are a reader's application.

The same as in the simulator (`client`, `nodes.ReaderNode`), on sockets.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from loghistory.schema import Kind, Operation
from quorumlog.cluster.register import Register
from quorumlog.read_path.core import Role
from quorumlog.read_path.process.calls import Ended
from quorumlog.read_path.processes import PathClient, PathProcesses
from quorumlog.read_path.rules import NOWHERE, lsn_of
from quorumlog.read_path.stream import LAST_LSN

_Answer = TypeVar("_Answer")


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What clients do: times in seconds, and a trim in so many operations."""

    think: float = 0.02
    timeout: float = 1.5
    trim: float = 0.01
    trim_behind: int = 400
    value_bytes: int = 200
    take: int = 50
    take_every: float = 0.01
    stalled: float = 0.5


class Connected:
    """Somebody with a connection to one process at a time."""

    def __init__(self, processes: PathProcesses, register: Register, load: Load) -> None:
        self._processes, self._register, self._load = processes, register, load
        self._process = next(register.processes)
        self._connection: PathClient | None = None
        self._node = -1

    def close(self) -> None:
        """Close the connection, if there is one; the next call makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connected(self, node: int) -> PathClient:
        """A connection to a process. Raises OSError or TimeoutError."""
        if self._connection is None or not self._connection.open or self._node != node:
            self.close()
            async with asyncio.timeout(self._load.timeout):
                self._connection = await self._processes.client(node)
            self._node = node
        return self._connection

    async def _answered(self, waiting: Awaitable[_Answer]) -> _Answer:
        """The answer. Raises OSError or TimeoutError."""
        try:
            async with asyncio.timeout(self._load.timeout):
                return await waiting
        except TimeoutError:
            self.close()
            raise

    def _close(self, common: dict[str, Any], kind: Kind, columns: dict[str, Any]) -> None:
        ended = "ok" if kind is Kind.OK else f"{kind} {columns['reason']}"
        self._register.counts[common["f"], None, ended] += 1
        self._register.record(kind, {**common, **columns})
        if kind is Kind.INFO:
            self._process = next(self._register.processes)


class Appender(Connected):
    """One client. It speaks to the first sequencer, and after a failure to another one."""

    def __init__(self, processes: PathProcesses, register: Register, load: Load, draw: random.Random) -> None:
        super().__init__(processes, register, load)
        self._draw, self._newest, self._failures = draw, 0, 0

    async def work(self, until: asyncio.Event) -> None:
        """Go from one operation to the next until ``until`` is set."""
        while not until.is_set():
            await asyncio.sleep(self._draw.expovariate(1 / self._load.think))
            if self._newest and self._draw.random() < self._load.trim:
                await self.trim(self._newest - self._draw.randrange(self._load.trim_behind))
            else:
                await self.append()
        self.close()

    async def append(self) -> bool:
        """Append a record; whether that certainly succeeded."""
        value = next(self._register.values)
        payload = value.to_bytes(8, "big") + bytes(self._draw.randrange(self._load.value_bytes + 1))
        return await self._ask(Operation.APPEND_RECORD, {"value": value}, lambda to: to.append_record(payload))

    async def trim(self, lsn: int) -> bool:
        """Give up what is at or below ``lsn``; whether that certainly succeeded."""
        return await self._ask(Operation.TRIM_LOG, {"offset": lsn}, lambda to: to.trim_log(lsn))

    async def _ask(self, f: str, columns: dict[str, Any], call: Callable[[PathClient], Awaitable[Ended]]) -> bool:
        sequencers = self._processes.numbers(Role.SEQUENCER)
        node = sequencers[self._failures % len(sequencers)]
        operation = next(self._register.operations)
        common = {"process": self._process, "op": operation, "f": str(f), "node": node}
        self._register.record(Kind.INVOKE, {**common, **columns})
        try:
            connection = await self._connected(node)
        except (OSError, TimeoutError):
            self._failures += 1
            self._close(common, Kind.FAIL, {"reason": "refused"})  # nothing was sent
            return False
        try:
            ended = await self._answered(call(connection))
        except (OSError, TimeoutError) as error:
            self._failures += 1
            self._close(common, Kind.INFO, {"reason": "timeout" if isinstance(error, TimeoutError) else "lost"})
            return False
        if ended.lsn != NOWHERE and ended.refused is None:
            self._newest = max(self._newest, ended.lsn)
            self._close(common, Kind.OK, {"offset": ended.lsn})
            return True
        self._failures += 1
        if ended.refused is None:
            self._close(common, Kind.INFO, {"reason": "unknown"})
        else:
            self._close(common, Kind.FAIL, {"reason": ended.refused})
        return False


class Application(Connected):
    """The application of a reader: it takes what is ready, remembers how far it is, and goes on from there when the
    reader is started again."""

    def __init__(self, processes: PathProcesses, register: Register, load: Load, reader: int) -> None:
        super().__init__(processes, register, load)
        self.reader = reader
        self.next, self._until = lsn_of(1, 1), LAST_LSN
        self._open: dict[str, Any] | None = None

    async def work(self, until: asyncio.Event) -> None:
        """Read on until ``until`` is set; the stream stays open. Where it waits for long, the reader records it."""
        clock, before = asyncio.get_running_loop().time, self.next
        since = clock()
        while not until.is_set():
            await self.take()
            if self.next != before or clock() - since > self._load.stalled:
                if self.next == before:
                    await self._stalls(LAST_LSN)
                before, since = self.next, clock()
            await asyncio.sleep(self._load.take_every)

    async def read(self, first: int, until: int, seconds: float) -> bool:
        """Read this range with a new stream, for at most so many seconds; whether all of it came."""
        self._give_up()
        self.next, self._until = first, until
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            if await self.take():
                return True
            await asyncio.sleep(self._load.take_every)
        await self._stalls(until)
        self._give_up()
        return False

    async def take(self) -> bool:
        """Take what is ready; whether the stream delivered its last."""
        try:
            connection = await self._connected(self.reader)
            if self._open is None:
                await self._start(connection)
            stream = self._stream
            taken = await self._answered(connection.take(stream, self._load.take))
        except (OSError, TimeoutError):
            self._give_up()
            return False
        if taken.records:
            self.next = taken.records[-1][0] + 1
        if taken.gap is not None:
            self.next = taken.gap[2] + 1
        if self.next <= self._until:
            return False
        self._end(Kind.OK, {"offset": self.next - 1})
        return True

    @property
    def _stream(self) -> int:
        assert self._open is not None
        stream: int = self._open["op"]
        return stream

    async def _start(self, connection: PathClient) -> None:
        operation = next(self._register.operations)
        self._open = {
            "process": self._process,
            "op": operation,
            "f": str(Operation.READ_STREAM),
            "node": self.reader,
        }
        until = {} if self._until == LAST_LSN else {"last_offset": self._until}
        self._register.record(Kind.INVOKE, {**self._open, "offset": self.next, **until})
        await self._answered(connection.start_reading(operation, self.next, self._until))

    async def _stalls(self, released: int) -> None:
        if self._open is not None and self._connection is not None:
            try:
                await self._answered(self._connection.note_stall(self._stream, released))
            except (OSError, TimeoutError):
                return

    def _give_up(self) -> None:
        if self._open is not None:
            self._end(Kind.INFO, {"reason": "given up"})
        self.close()

    def _end(self, kind: Kind, columns: dict[str, Any]) -> None:
        assert self._open is not None
        common, self._open = self._open, None
        self._close(common, kind, columns)
