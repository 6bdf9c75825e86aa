"""One node as a process: start from what the disk holds, serve, stop gracefully or fail with one line.

On a graceful stop the node refuses new appends, gives those that are open ``DRAIN_SECONDS``, flushes its log, records a
stop event and exits; `quorumlog.node.supervised` has what any process of a cluster does. A `RealProtocol` says which
protocol it runs; retention is the node's own business: every ``RETENTION_SECONDS`` it removes what the configuration
does not ask to keep.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from loghistory import HybridClock
from loghistory.schema import Kind
from quorumlog.node.configuration import NodeConfiguration
from quorumlog.node.driver import Place
from quorumlog.node.framing import Hello, Role
from quorumlog.node.incarnation import next_incarnation
from quorumlog.node.links import Link
from quorumlog.node.missing import files_before, missing_changes, term_runs
from quorumlog.node.outbox import GroupsOutbox
from quorumlog.node.real_protocol import RealProtocol, real_protocol
from quorumlog.node.recording import History, HistoryFile, NoHistory, end_stamp, history_path, whole_events
from quorumlog.node.server import Server
from quorumlog.node.supervised import Supervised, run_process, say
from quorumlog.node.supervision import DISK_FAILED, STOPPED, Order, Supervisor
from quorumlog.node.wire import Stamp
from quorumlog.storage.disk import Disk, StorageError
from quorumlog.storage.folder import Folder
from quorumlog.storage.log import Log
from quorumlog.storage.power import disk_of
from quorumlog.storage.recovery import RecoveryReport
from quorumlog.storage.state import is_begun

DRAIN_SECONDS = 1.0
RETENTION_SECONDS = 0.25
_DISK_THREADS = 8
"""They wait for the disk that several groups share."""
_STATE = ("term", "role", "dirty", "flushed", "commit", "visible")


class Node(Supervised):
    """A running node. Made by `run`, which is what most callers want."""

    def __init__(self, configuration: NodeConfiguration, protocol: RealProtocol, supervisor: Supervisor | None) -> None:
        """Open the disk, the log, the history and whatever else the protocol keeps. Raises `StorageError` or
        OSError."""
        number = configuration.node
        super().__init__(_name(configuration), supervisor)
        self._configuration = configuration
        nodes = tuple(sorted(configuration.addresses))
        self._disk, lost_power = disk_of(configuration.data, configuration.journal)
        incarnation = next_incarnation(self._disk)
        self._clock = HybridClock()
        self._threads, self._outbox, channel = None, None, protocol.messages
        if configuration.groups > 1 and protocol.grouped is not None:
            self._threads = ThreadPoolExecutor(_DISK_THREADS, "disk")
            self._outbox, channel = GroupsOutbox(self._send), protocol.grouped
        self._drivers = [
            protocol.drive(self._place(protocol, group, incarnation, lost_power=lost_power))
            for group in range(configuration.groups)
        ]
        if supervisor is not None:
            self._clock.merge(supervisor.after)
        hello = Hello(Role.NODE, number, configuration.cluster_key)
        peers = [peer for peer in nodes if peer != number]
        self._server = Server(self._drivers, hello, channel, frozenset(peers), incarnation, self.warn)
        self._links = {}
        for peer in peers:
            backoff = random.Random(f"{configuration.seed} {number} {peer}")
            self._links[peer] = Link(hello, peer, configuration.address(peer), channel, backoff)

    def _place(self, protocol: RealProtocol, group: int, incarnation: int, *, lost_power: bool) -> Place:
        """What one group finds: of several, each has a folder of the disk and of the histories."""
        configuration = self._configuration
        alone = configuration.groups == 1
        disk: Disk = self._disk if alone else Folder(self._disk, f"group-{group}")
        protocol.begin(disk)
        empty = not is_begun(disk, "log")  # never used, or wiped since it was
        log = Log.open(disk, "log", configuration.segment_bytes)
        _report_recovery(self._name if alone else f"{self._name}, group {group}", log.recovery)
        named = None if alone else group
        stream = "timers" if alone else f"timers of group {group}"
        return Place(
            node=configuration.node,
            nodes=tuple(sorted(configuration.addresses)),
            timing=msgspec.convert(configuration.timing, protocol.timing),
            write_caching=configuration.write_caching,
            disk=disk,
            log=log,
            history=_open_history(
                configuration,
                incarnation,
                log,
                self._clock,
                named,
                empty=empty,
                lost_power=lost_power,
                ended={} if self._supervisor is None else self._supervisor.ended,
            ),
            jitter=random.Random(f"{configuration.seed} {stream} {configuration.node} {incarnation}"),
            send=self._send if self._outbox is None else self._outbox.of(group),
            disconnect=lambda node: self._links[node].disconnect(),
            failed=self._disk_failed,
            group=group,
            voters=configuration.voters,
            least_session=configuration.least_session,
            threads=self._threads,
        )

    async def run(self) -> int:
        """Serve until asked to stop; returns the exit status. Raises OSError if the port is taken."""
        address = self._configuration.address(self._configuration.node)
        await self._server.listen(address, shared=self._supervisor is not None)
        self.watch_signals()
        for driver in self._drivers:
            state = {name: getattr(driver.core, name) for name in _STATE}
            text = msgspec.json.encode(term_runs(driver.log)).decode()
            driver.history.event(Kind.START, {**state, "text": text})
            driver.history.flush()
        await self._server.serve()
        doings = [link.run(self.warn) for link in self._links.values()]
        if self._configuration.retention is not None:
            doings.append(self._retain(self._configuration.retention))
        for driver in self._drivers:
            driver.start()
        try:
            status = await self.work(doings)
            if status == STOPPED:
                status = await self._drain()
        finally:
            self.cease()
            await self._server.close()
        return status

    async def _drain(self) -> int:
        """Stop gracefully; see the module."""
        self._server.stopping = True
        deadline = asyncio.get_running_loop().time() + DRAIN_SECONDS
        while not all(driver.idle for driver in self._drivers) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        try:
            if self._threads is not None:
                self._halt()
                await asyncio.to_thread(self._threads.shutdown)
            for driver in self._drivers:
                await driver.stop()
            self._disk.close()
        except (StorageError, OSError) as error:
            self._disk_failed(str(error))
            return DISK_FAILED
        return STOPPED

    async def _retain(self, size: int) -> None:
        """Remove what is not to be kept, at intervals, until cancelled."""
        while True:
            await asyncio.sleep(RETENTION_SECONDS)
            for driver in self._drivers:
                driver.retain(size)

    def _send(self, node: int, messages: list[Any], taken: Callable[[], None]) -> None:
        if node in self.muted:
            taken()
        else:
            self._links[node].send(self._clock.tick, messages, taken)

    def _disk_failed(self, reason: str) -> None:
        self._halt()
        say(self._name, f"stopped, the disk failed: {reason}")
        self.end(DISK_FAILED)

    def obey(self, order: Order) -> None:
        """Let the clock jump, or the process end in the middle of a step."""
        for driver in self._drivers:
            driver.jump(order.jump)
            if order.effects is not None:
                driver.end_midway(order.effects)

    def last_words(self) -> None:
        """Write the history so far. Raises OSError."""
        for driver in self._drivers:
            driver.history.flush()

    def _halt(self) -> None:
        for driver in self._drivers:
            driver.halt()


def run(
    configuration: NodeConfiguration, *, protocol: RealProtocol | None = None, supervisor: Supervisor | None = None
) -> int:
    """Run a node until it stops; returns the exit status. The end of a supervisor's process ends this one.

    ``protocol`` replaces the one that the configuration names: the same under other rules.
    """
    running = real_protocol(configuration.protocol) if protocol is None else protocol

    async def life() -> int:
        return await Node(configuration, running, supervisor).run()

    return run_process(_name(configuration), configuration.addresses[configuration.node], supervisor, life)


def _name(configuration: NodeConfiguration) -> str:
    return f"node {configuration.node}"


def _report_recovery(name: str, recovery: RecoveryReport) -> None:
    """Report what was cut from the log, so that nothing disappears silently."""
    if recovery.bytes_cut:
        behind = "; undamaged batches lay behind it" if recovery.whole_batches_behind else ""
        say(name, f"cut {recovery.bytes_cut} bytes behind offset {recovery.dirty}: {recovery.reason}{behind}")


def _open_history(
    configuration: NodeConfiguration,
    incarnation: int,
    log: Log,
    clock: HybridClock,
    group: int | None,
    *,
    empty: bool,
    lost_power: bool,
    ended: Mapping[int, Stamp],
) -> History:
    """Begin this incarnation's history of a group with what the one before could not record any more.

    Nobody learned of that before its end (`quorumlog.node.driver`), and what led to it, such as the request of a
    client, may be later than the last event: it is stamped with the end of the last life that began, if that is known;
    one after it may have ended before it could begin. On a disk that was ``empty`` nothing is missing: what the log
    before held went with its disk.
    """
    if configuration.history is None:
        return NoHistory(clock)
    node = configuration.node
    directory = Path(configuration.history)
    common: dict[str, Any] = {"node": node, "incarnation": incarnation}
    if group is not None:
        directory, common["log"] = directory / f"group-{group}", str(group)
    directory.mkdir(parents=True, exist_ok=True)
    history = HistoryFile(history_path(directory, node, incarnation), clock, common)
    before = files_before(directory, node, incarnation)
    last, end = max(map(end_stamp, before), default=((0, 0), (0, 0)))
    lived = next((event.incarnation for path in before for event in whole_events(path) if event.kind == Kind.START), -1)
    last = max(last, ended.get(lived, last))
    missing = () if empty else missing_changes(before, log, lost_power=lost_power)
    for step, (kind, columns) in enumerate(missing, start=1):
        history.stamped(kind, (last[0], last[1] + step), columns)
    try:
        clock.merge(max(end, last))
    except ValueError as error:
        raise StorageError(f"{before[-1]}: {error}; set this machine's clock right") from None
    return history
