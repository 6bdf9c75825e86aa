"""One node as a process: start from what the disk holds, serve, stop gracefully or fail with one line.

Exit statuses: 0 stopped as asked (SIGTERM, SIGINT, end of the supervisor); 2 the configuration, the port or what lies
on the disk cannot be used; 4 the disk failed while it ran (full, failing sync); 70 a fault of this program.

On a graceful stop the node refuses new appends, gives those that are open ``DRAIN_SECONDS``, flushes its log, records
a stop event and goes. Under a supervisor (`Supervisor`) it also goes when that dies, and takes orders: one JSON
object a line on its standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import struct
import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from loghistory import HybridClock
from loghistory.schema import Kind
from quorumlog.lifetime import die_with
from quorumlog.node.configuration import NodeConfiguration
from quorumlog.node.driver import Driver
from quorumlog.node.framing import Hello, Role
from quorumlog.node.links import Link
from quorumlog.node.recording import (
    History,
    HistoryFile,
    NoHistory,
    end_stamp,
    files_before,
    history_path,
    missing_changes,
    term_runs,
)
from quorumlog.node.server import Server
from quorumlog.node.wire import Stamp
from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import Started
from quorumlog.raft.index import LogIndex
from quorumlog.raft.messages import AnyMessage
from quorumlog.raft.rules import NOBODY, REFERENCE, Rules
from quorumlog.raft.state import Restored
from quorumlog.storage.disk import StorageError
from quorumlog.storage.files import FileDisk
from quorumlog.storage.log import Log
from quorumlog.storage.recovery import RecoveryReport
from quorumlog.storage.sealed import FileDamaged
from quorumlog.storage.vote import VoteStore

DRAIN_SECONDS = 1.0
STOPPED, UNUSABLE, DISK_FAILED, FAULT = 0, 2, 4, 70
_WARNINGS = 200
_WARNINGS_SECONDS = 10.0
_COUNTER = struct.Struct(">Q")


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line from the supervisor.

    ``mute``: nodes to which nothing is sent from now on, in place of the ones before (cut links).
    """

    mute: list[int]


class Supervisor(NamedTuple):
    """Who started this process: its number, and a hybrid clock stamp that everything here is later than."""

    process: int
    after: Stamp


class Node:
    """A running node. Made by `run`, which is what most callers want."""

    def __init__(self, configuration: NodeConfiguration, rules: Rules, supervisor: Supervisor | None) -> None:
        """Open disk, log, vote and history. Raises `StorageError` or OSError."""
        self._configuration = configuration
        self._supervisor = supervisor
        self._muted: frozenset[int] = frozenset()
        self._warned = 0
        self._silent_until = 0.0
        self._status = asyncio.get_running_loop().create_future()
        number = configuration.node
        self._disk = FileDisk(Path(configuration.data))
        incarnation = _next_incarnation(self._disk)
        log = Log.open(self._disk, "log")
        votes = VoteStore(self._disk)
        _report_recovery(number, log.recovery)
        if not self._disk.exists("vote"):
            if log.dirty >= 0:
                problem = "vote: it is missing beside a log that has entries; restore it, or remove the node's data"
                raise FileDamaged(f"{configuration.data}/{problem} and let it recover from the others")
            votes.save(0, None)  # from here on a missing vote is a lost vote
        term, voted_for = votes.load()
        index = LogIndex.of(
            ((place.base_offset, place.last_offset, place.term) for place in log.headers()),
            log.start_offset,
            log.term(log.start_offset - 1),
        )
        core = RaftCore(configuration.core(), Restored(term, NOBODY if voted_for is None else voted_for, index), rules)
        self._history = _open_history(configuration, incarnation, log)
        if supervisor is not None:
            self._history.clock.merge(supervisor.after)
        self._driver = Driver(
            core,
            log,
            votes,
            self._history,
            random.Random(f"{configuration.seed} timers {number} {incarnation}"),
            self._send,
            self._disk_failed,
        )
        hello = Hello(Role.NODE, number, configuration.cluster_key)
        peers = [peer for peer in sorted(configuration.addresses) if peer != number]
        self._server = Server(self._driver, hello, frozenset(peers), incarnation, self._warn)
        self._links = {
            peer: Link(hello, peer, configuration.address(peer), random.Random(f"{configuration.seed} {number} {peer}"))
            for peer in peers
        }

    async def run(self) -> int:
        """Serve until told to stop; returns the exit status. Raises OSError if the port is taken."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._fault)
        address = self._configuration.address(self._configuration.node)
        await self._server.listen(address, shared=self._supervisor is not None)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        core = self._driver.core
        state = {name: getattr(core, name) for name in ("term", "role", "dirty", "flushed", "commit", "visible")}
        text = msgspec.json.encode(term_runs(self._driver.log)).decode()
        self._history.event(Kind.START, {**state, "text": text})
        self._history.flush()
        await self._server.serve()
        tasks = [asyncio.create_task(link.run(self._warn)) for link in self._links.values()]
        if self._supervisor is not None:
            tasks.append(asyncio.create_task(self._watch_orders()))
        for task in tasks:
            task.add_done_callback(self._task_ended)
        self._driver.post(Started())
        try:
            status: int = await self._status
            if status == STOPPED:
                status = await self._drain()
        finally:
            for task in tasks:
                task.cancel()
            await self._server.close()
        return status

    async def _drain(self) -> int:
        """The graceful end."""
        self._server.stopping = True
        deadline = asyncio.get_running_loop().time() + DRAIN_SECONDS
        while not self._driver.idle and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        try:
            await self._driver.stop()
            self._disk.close()
        except (StorageError, OSError) as error:
            self._disk_failed(str(error))
            return DISK_FAILED
        return STOPPED

    def _send(self, node: int, messages: list[AnyMessage]) -> None:
        if node not in self._muted:
            self._links[node].send(self._history.clock.tick, messages)

    def _obey(self, line: bytes) -> None:
        try:
            self._muted = frozenset(msgspec.json.decode(line, type=Order).mute)
        except msgspec.MsgspecError as error:
            self._warn(f"an order that makes no sense: {error}")

    async def _watch_orders(self) -> None:
        """Read orders from standard input until its end, which means that the supervisor is gone."""
        reader = asyncio.StreamReader(limit=1 << 16)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        with contextlib.suppress(ValueError):  # a line above the limit: no supervisor of ours
            while line := await reader.readline():
                self._obey(line)
        self._stop()

    def _stop(self) -> None:
        self._end(STOPPED)

    def _end(self, status: int) -> None:
        if not self._status.done():
            self._status.set_result(status)

    def _disk_failed(self, reason: str) -> None:
        _say(self._configuration.node, f"stopped, the disk failed: {reason}")
        self._end(DISK_FAILED)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._fault(asyncio.get_running_loop(), {"exception": task.exception()})

    def _fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that nobody expected: the core may have changed without its effects, so nothing may go on."""
        error = context.get("exception")
        if error is None:
            self._warn(str(context.get("message")))
            return
        traceback.print_exception(error)
        _say(self._configuration.node, f"stopped by a fault of this program: {error!r}")
        with contextlib.suppress(OSError):
            self._history.flush()
        os._exit(FAULT)

    def _warn(self, text: str) -> None:
        """One line in the log; a flood of them is cut short."""
        now = asyncio.get_running_loop().time()
        if now >= self._silent_until:
            self._silent_until = now + _WARNINGS_SECONDS
            self._warned = 0
        self._warned += 1
        if self._warned < _WARNINGS:
            _say(self._configuration.node, text)
        elif self._warned == _WARNINGS:
            _say(self._configuration.node, f"{text}; more such lines are left out for {_WARNINGS_SECONDS:g} s")


def run(configuration: NodeConfiguration, rules: Rules = REFERENCE, supervisor: Supervisor | None = None) -> int:
    """Run a node until it stops; returns the exit status. The end of a supervisor's process ends this one."""
    if supervisor is not None and not die_with(supervisor.process):
        return STOPPED

    async def serve() -> int:
        return await Node(configuration, rules, supervisor).run()

    try:
        return asyncio.run(serve())
    except StorageError as error:
        _say(configuration.node, str(error))
    except OSError as error:
        place = error.filename or configuration.addresses[configuration.node]
        _say(configuration.node, f"{place}: {error.strerror or error}")
    return UNUSABLE


def _say(node: int, text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"node {node}: {' '.join(text.split())}", file=sys.stderr, flush=True)


def _report_recovery(node: int, recovery: RecoveryReport) -> None:
    """Say what was cut from the log, so that nothing goes silently."""
    if recovery.bytes_cut:
        behind = "; undamaged batches lay behind it" if recovery.whole_batches_behind else ""
        _say(node, f"cut {recovery.bytes_cut} bytes behind offset {recovery.dirty}: {recovery.reason}{behind}")


def _next_incarnation(disk: FileDisk) -> int:
    """Count this start, durably; 0 for the first."""
    number = 0
    if disk.exists("incarnation"):
        content = disk.read("incarnation", 0, _COUNTER.size + 1)
        if len(content) != _COUNTER.size:
            raise StorageError("incarnation: this file of the node's directory is damaged; restore the disk")
        (number,) = _COUNTER.unpack(content)
    disk.replace("incarnation", _COUNTER.pack(number + 1))
    return int(number)


def _open_history(configuration: NodeConfiguration, incarnation: int, log: Log) -> History:
    """Begin this incarnation's history with what that of the one before could not record any more."""
    clock = HybridClock()
    if configuration.history is None:
        return NoHistory(clock)
    directory = Path(configuration.history)
    directory.mkdir(parents=True, exist_ok=True)
    node = configuration.node
    common = {"node": node, "incarnation": incarnation}
    history = HistoryFile(history_path(directory, node, incarnation), clock, common)
    before = files_before(directory, node, incarnation)
    last, end = max(map(end_stamp, before), default=((0, 0), (0, 0)))
    for step, (kind, columns) in enumerate(missing_changes(before, log), start=1):
        history.stamped(kind, (last[0], last[1] + step), columns)
    try:
        clock.merge(end)
    except ValueError as error:
        raise StorageError(f"{before[-1]}: {error}; set this machine's clock right") from None
    return history
