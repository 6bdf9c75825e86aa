"""A server as a process: start from the tables that the disk holds, serve both ports, stop gracefully or fail.

On a graceful stop it refuses new queries, gives those that are open ``DRAIN_SECONDS``, saves its tables, records a stop
event and exits. `quorumlog.node.supervised` has what any process of a cluster does.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from loghistory.schema import Kind
from quorumlog.cluster.log_client import Log, address
from quorumlog.node.incarnation import next_incarnation
from quorumlog.node.recording import begin_history
from quorumlog.node.supervised import Supervised, run_process, say
from quorumlog.node.supervision import DISK_FAILED, STOPPED, Supervisor
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.records import form_of
from quorumlog.pull_queries.server.configuration import ServerConfiguration
from quorumlog.pull_queries.server.driver import ServerDriver, clocks
from quorumlog.pull_queries.server.http import Endpoints
from quorumlog.pull_queries.server.listener import Listener, take_port, warn_with
from quorumlog.pull_queries.server.peers import Peers
from quorumlog.pull_queries.table import SavedTable
from quorumlog.storage.disk import StorageError
from quorumlog.storage.files import FileDisk

DRAIN_SECONDS = 1.0
_TABLES = "tables"


class Server(Supervised):
    """A running server. Made by `run`, which is what most callers want."""

    def __init__(self, configuration: ServerConfiguration, supervisor: Supervisor | None) -> None:
        """Open the disk and the history. Raises `StorageError` or OSError."""
        super().__init__(_name(configuration), supervisor)
        self._configuration = configuration
        self._disk = FileDisk(Path(configuration.data))
        saved = _saved_tables(self._disk)
        incarnation = next_incarnation(self._disk)
        self._history = begin_history(
            None if configuration.history is None else Path(configuration.history), configuration.node, incarnation
        )
        if supervisor is not None:
            self._history.clock.merge(supervisor.after)
        self._stopping = False
        self._written = b""
        clock = self._history.clock
        core = ServerCore(
            configuration.internal, configuration.server, clocks(), saved, with_bound=configuration.with_bound
        )
        self._peers = Peers(core.host, configuration.server, clock, self._muted_hosts)
        number = (configuration.node << 16) + incarnation
        self._driver = ServerDriver(
            core,
            self._history,
            {host: number for number, host in configuration.servers.items()},
            self._peers,
            {name: Log(name, form_of(name), place, clock, number) for name, place in configuration.logs.items()},
            configuration.poll,
            configuration.read_bytes,
            self._failed,
            self.fault,
        )
        endpoints = Endpoints(self._driver, self._muted_hosts, lambda: self._stopping)
        self._listeners = {
            configuration.internal: Listener(endpoints.internal()),
            configuration.public: Listener(endpoints.public()),
        }

    async def run(self) -> int:
        """Serve until asked to stop; returns the exit status. Raises OSError if a port is taken."""
        shared = self._supervisor is not None
        ports = [take_port(address(place), shared=shared) for place in self._listeners]
        self.watch_signals()
        warn_with(self.warn)
        self._driver.start()
        serving = [
            listener.serve(sockets=[port]) for listener, port in zip(self._listeners.values(), ports, strict=True)
        ]
        try:
            status = await self.work([*serving, *self._driver.doings(), self._save_tables()])
            if status == STOPPED:
                status = await self._drain()
        finally:
            self.cease()
            self._driver.close()
            await self._peers.close()
        return status

    async def _drain(self) -> int:
        """Stop gracefully; see the module."""
        self._stopping = True
        deadline = asyncio.get_running_loop().time() + DRAIN_SECONDS
        while not self._driver.idle and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        try:
            await self._save()
            self._disk.close()
            self._history.event(Kind.STOP, {})
            self._history.close()
        except (StorageError, OSError) as error:
            self._failed(str(error))
            return DISK_FAILED
        return STOPPED

    async def _save_tables(self) -> None:
        """Save the tables at intervals, until cancelled."""
        while True:
            await asyncio.sleep(self._configuration.save / 1000)
            try:
                await self._save()
            except StorageError as error:
                self._history.storage_error(type(error).__name__)
                self._failed(str(error))

    async def _save(self) -> None:
        """Tables and their positions together (pull-queries.md#saved-together). Raises `StorageError`."""
        tables = {partition: table.saved() for partition, table in self._driver.core.tables.items()}
        content = msgspec.json.encode(tables)
        if content != self._written:
            await asyncio.to_thread(self._disk.replace, _TABLES, content)
            self._written = content

    def _muted_hosts(self) -> frozenset[str]:
        return frozenset(self._configuration.servers[number] for number in self.muted)

    def _failed(self, reason: str) -> None:
        say(self._name, f"stopped: {reason}")
        self.end(DISK_FAILED)

    def last_words(self) -> None:
        """Write the history so far. Raises OSError."""
        self._history.flush()


def run(configuration: ServerConfiguration, supervisor: Supervisor | None = None) -> int:
    """Run a server until it stops; returns the exit status. The end of a supervisor's process ends this one."""

    async def life() -> int:
        return await Server(configuration, supervisor).run()

    return run_process(_name(configuration), configuration.internal, supervisor, life)


def _name(configuration: ServerConfiguration) -> str:
    return f"server {configuration.node}"


def _saved_tables(disk: FileDisk) -> dict[int, SavedTable]:
    """What the disk holds. Raises `StorageError`."""
    if not disk.exists(_TABLES):
        return {}
    try:
        return msgspec.json.decode(disk.read(_TABLES, 0, disk.size(_TABLES)), type=dict[int, SavedTable])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise StorageError(
            f"{_TABLES}: this file of the server's directory is damaged; remove it, and the tables are rebuilt"
        ) from None
