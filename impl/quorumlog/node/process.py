"""One node as a process: start from what the disk holds, serve, stop gracefully or fail with one line.

On a graceful stop the node refuses new appends, gives those that are open ``DRAIN_SECONDS``, flushes its log, records a
stop event and exits. Under a supervisor it also goes when that dies, and takes orders (`quorumlog.node.supervision`,
which has the exit statuses too). A `RealProtocol` says which protocol it runs; retention is the node's own business:
every ``RETENTION_SECONDS`` it removes what the configuration does not ask to keep.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from loghistory import HybridClock
from loghistory.schema import Kind
from quorumlog.lifetime import die_with
from quorumlog.node.configuration import NodeConfiguration
from quorumlog.node.driver import Place
from quorumlog.node.framing import Hello, Role
from quorumlog.node.links import Link
from quorumlog.node.missing import files_before, missing_changes, term_runs
from quorumlog.node.real_protocol import RealProtocol, real_protocol
from quorumlog.node.recording import History, HistoryFile, NoHistory, end_stamp, history_path
from quorumlog.node.server import Server
from quorumlog.node.supervision import DISK_FAILED, FAULT, STOPPED, UNUSABLE, Order, Supervisor
from quorumlog.storage.disk import StorageError
from quorumlog.storage.files import FileDisk
from quorumlog.storage.log import Log
from quorumlog.storage.power import PowerDisk
from quorumlog.storage.recovery import RecoveryReport

DRAIN_SECONDS = 1.0
RETENTION_SECONDS = 0.25
_WARNINGS = 200
_WARNINGS_SECONDS = 10.0
_COUNTER = struct.Struct(">Q")


class Node:
    """A running node. Made by `run`, which is what most callers want."""

    def __init__(self, configuration: NodeConfiguration, protocol: RealProtocol, supervisor: Supervisor | None) -> None:
        """Open the disk, the log, the history and whatever else the protocol keeps. Raises `StorageError` or
        OSError."""
        self._configuration = configuration
        self._supervisor = supervisor
        self._muted: frozenset[int] = frozenset()
        self._warned = 0
        self._silent_until = 0.0
        self._status = asyncio.get_running_loop().create_future()
        number = configuration.node
        nodes = tuple(sorted(configuration.addresses))
        self._disk, lost_power = _disk_of(configuration)
        incarnation = _next_incarnation(self._disk)
        protocol.begin(self._disk)
        log = Log.open(self._disk, "log", configuration.segment_bytes)
        _report_recovery(number, log.recovery)
        self._history = _open_history(configuration, incarnation, log, lost_power=lost_power)
        if supervisor is not None:
            self._history.clock.merge(supervisor.after)
        place = Place(
            node=number,
            nodes=nodes,
            timing=msgspec.convert(configuration.timing, protocol.timing),
            write_caching=configuration.write_caching,
            disk=self._disk,
            log=log,
            history=self._history,
            jitter=random.Random(f"{configuration.seed} timers {number} {incarnation}"),
            send=self._send,
            disconnect=lambda node: self._links[node].disconnect(),
            failed=self._disk_failed,
        )
        self._driver = protocol.drive(place)
        hello = Hello(Role.NODE, number, configuration.cluster_key)
        peers = [peer for peer in nodes if peer != number]
        self._server = Server(self._driver, hello, protocol.messages, frozenset(peers), incarnation, self._warn)
        self._links = {}
        for peer in peers:
            backoff = random.Random(f"{configuration.seed} {number} {peer}")
            self._links[peer] = Link(hello, peer, configuration.address(peer), protocol.messages, backoff)

    async def run(self) -> int:
        """Serve until asked to stop; returns the exit status. Raises OSError if the port is taken."""
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
        if self._configuration.retention is not None:
            tasks.append(asyncio.create_task(self._retain(self._configuration.retention)))
        for task in tasks:
            task.add_done_callback(self._task_ended)
        self._driver.start()
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
        """Stop gracefully; see the module."""
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

    async def _retain(self, size: int) -> None:
        """Remove what is not to be kept, at intervals, until cancelled."""
        while True:
            await asyncio.sleep(RETENTION_SECONDS)
            self._driver.retain(size)

    def _send(self, node: int, messages: list[Any], taken: Callable[[], None]) -> None:
        if node in self._muted:
            taken()
        else:
            self._links[node].send(self._history.clock.tick, messages, taken)

    def _obey(self, line: bytes) -> None:
        try:
            self._muted = frozenset(msgspec.json.decode(line, type=Order).mute)
        except msgspec.MsgspecError as error:
            self._warn(f"an invalid order: {error}")

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
        _say(self._configuration.node, f"stopped by an internal error: {error!r}")
        with contextlib.suppress(OSError):
            self._history.flush()
        os._exit(FAULT)

    def _warn(self, text: str) -> None:
        """Write one line to the log; a flood of them is limited."""
        now = asyncio.get_running_loop().time()
        if now >= self._silent_until:
            self._silent_until = now + _WARNINGS_SECONDS
            self._warned = 0
        self._warned += 1
        if self._warned < _WARNINGS:
            _say(self._configuration.node, text)
        elif self._warned == _WARNINGS:
            _say(self._configuration.node, f"{text}; further such lines are suppressed for {_WARNINGS_SECONDS:g} s")


def run(
    configuration: NodeConfiguration, *, protocol: RealProtocol | None = None, supervisor: Supervisor | None = None
) -> int:
    """Run a node until it stops; returns the exit status. The end of a supervisor's process ends this one.

    ``protocol`` replaces the one that the configuration names: the same under other rules.
    """
    running = real_protocol(configuration.protocol) if protocol is None else protocol
    if supervisor is not None and not die_with(supervisor.process):
        return STOPPED

    async def serve() -> int:
        return await Node(configuration, running, supervisor).run()

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
    """Report what was cut from the log, so that nothing disappears silently."""
    if recovery.bytes_cut:
        behind = "; undamaged batches lay behind it" if recovery.whole_batches_behind else ""
        _say(node, f"cut {recovery.bytes_cut} bytes behind offset {recovery.dirty}: {recovery.reason}{behind}")


def _disk_of(configuration: NodeConfiguration) -> tuple[FileDisk, bool]:
    """The node's disk, and whether its power was lost since it was used last."""
    if configuration.journal is None:
        return FileDisk(Path(configuration.data)), False
    disk = PowerDisk(Path(configuration.data), Path(configuration.journal))
    return disk, disk.lost_power


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


def _open_history(configuration: NodeConfiguration, incarnation: int, log: Log, *, lost_power: bool) -> History:
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
    for step, (kind, columns) in enumerate(missing_changes(before, log, lost_power=lost_power), start=1):
        history.stamped(kind, (last[0], last[1] + step), columns)
    try:
        clock.merge(end)
    except ValueError as error:
        raise StorageError(f"{before[-1]}: {error}; set this machine's clock right") from None
    return history
