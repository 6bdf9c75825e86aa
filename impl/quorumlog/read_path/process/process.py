"""A process of the read path: start from what the disk holds, serve, stop gracefully or fail with one line.

`quorumlog.node.supervised` has what any process of a cluster does. On a graceful stop a shard waits for its disk; what
clients have open at a sequencer stays unanswered.
"""

from __future__ import annotations

import random
from pathlib import Path

from loghistory.schema import Kind
from quorumlog.cluster.log_client import Log, address
from quorumlog.node.configuration import cluster_key
from quorumlog.node.framing import Hello
from quorumlog.node.framing import Role as HelloRole
from quorumlog.node.incarnation import next_incarnation
from quorumlog.node.links import Link
from quorumlog.node.recording import begin_history
from quorumlog.node.supervised import Supervised, run_process, say
from quorumlog.node.supervision import DISK_FAILED, STOPPED, Supervisor
from quorumlog.read_path.core import Role, make_core
from quorumlog.read_path.process.calls import MESSAGES
from quorumlog.read_path.process.configuration import ProcessConfiguration
from quorumlog.read_path.process.driver import PathDriver, Peer, Place
from quorumlog.read_path.process.internal import FORM, LOG, Internal
from quorumlog.read_path.process.missing import files_before, record_missing
from quorumlog.read_path.process.port import Port
from quorumlog.read_path.process.readers import ReaderDriver
from quorumlog.read_path.process.sequencers import SequencerDriver
from quorumlog.read_path.process.shards import ShardDriver
from quorumlog.storage.disk import StorageError
from quorumlog.storage.files import FileDisk
from quorumlog.storage.power import disk_of

SENDS_TO = {Role.SHARD: (Role.SHARD, Role.SEQUENCER), Role.SEQUENCER: (Role.SHARD,), Role.READER: ()}
"""To whom each role sends what need not arrive; readers have connections of their own."""
HEARS = {Role.SHARD: (Role.SHARD, Role.SEQUENCER, Role.READER), Role.SEQUENCER: (Role.SHARD,), Role.READER: ()}


class PathProcess(Supervised):
    """A running process. Made by `run`, which is what most callers want."""

    def __init__(self, configuration: ProcessConfiguration, supervisor: Supervisor | None) -> None:
        """Open the disk and the history. Raises `StorageError`, OSError, or ValueError for a clock far behind."""
        super().__init__(_name(configuration), supervisor)
        self._configuration = configuration
        number, role = configuration.node, configuration.role
        disk, lost_power = disk_of(configuration.data, configuration.journal)
        incarnation = next_incarnation(disk)
        directory = None if configuration.history is None else Path(configuration.history)
        self._history = begin_history(directory, number, incarnation)
        if supervisor is not None:
            self._history.clock.merge(supervisor.after)
        key = cluster_key(configuration.cluster)
        hello = Hello(HelloRole.NODE, number, key)
        self._links = {
            peer: Link(hello, peer, address(configuration.addresses[peer]), MESSAGES, random.Random(f"{number} {peer}"))
            for each in SENDS_TO[role]
            for peer in configuration.numbers(each)
            if peer != number
        }
        place = Place(
            configuration=configuration,
            incarnation=incarnation,
            cluster_key=key,
            history=self._history,
            make_core=make_core,
            peers={peer: Peer(peer, link, self._history, self) for peer, link in self._links.items()},
            process=self,
            failed=self._failed,
        )
        self._driver = _driver(place, disk, lost_power=lost_power)
        if isinstance(self._driver, ShardDriver) and directory is not None and self._driver.core.contents.intact:
            ended = {} if supervisor is None else supervisor.ended
            before = files_before(directory, number, incarnation)
            record_missing(self._history, before, self._driver.core.contents, ended)
        by = (number << 16) + incarnation + 1
        log = Log(LOG, FORM, configuration.internal, self._history.clock, by)
        shards = configuration.numbers(Role.SHARD)
        self._driver.internal = Internal(log, shards, by, configuration.poll / 1000, self._driver)
        heard = frozenset(peer for each in HEARS[role] for peer in configuration.numbers(each)) - {number}
        self._port = Port(self._driver, hello, heard, self.warn)

    async def run(self) -> int:
        """Serve until asked to stop; returns the exit status. Raises OSError if the port is taken."""
        place = address(self._configuration.addresses[self._configuration.node])
        await self._port.listen(place, shared=self._supervisor is not None)
        self.watch_signals()
        self._history.event("takes_part", self._driver.state())
        self._history.flush()
        doings = [link.run(self.warn) for link in self._links.values()]
        try:
            status = await self.work([self._serve(), *doings, *self._driver.doings()])
            if status == STOPPED:
                status = await self._stop()
        finally:
            self.cease()
            await self._port.close()
        return status

    async def _serve(self) -> None:
        """Begin once the log that all follow is known, so that nothing old is taken for new."""
        await self._driver.internal.catch_up()
        self._driver.begin()
        await self._port.serve()

    async def _stop(self) -> int:
        try:
            await self._driver.close()
            self._history.event(Kind.STOP, {})
            self._history.close()
        except (StorageError, OSError) as error:
            self._failed(str(error))
            return DISK_FAILED
        return STOPPED

    def _failed(self, reason: str) -> None:
        say(self._name, f"stopped: {reason}")
        self.end(DISK_FAILED)

    def last_words(self) -> None:
        """Write the history so far. Raises OSError."""
        self._history.flush()


def run(configuration: ProcessConfiguration, supervisor: Supervisor | None = None) -> int:
    """Run a process until it stops; returns the exit status. The end of a supervisor's process ends this one."""

    async def life() -> int:
        return await PathProcess(configuration, supervisor).run()

    address = configuration.addresses[configuration.node]
    return run_process(_name(configuration), address, supervisor, life, (StorageError, ValueError))


def _name(configuration: ProcessConfiguration) -> str:
    return f"{configuration.role} {configuration.node}"


def _driver(place: Place, disk: FileDisk, *, lost_power: bool) -> PathDriver:
    match place.configuration.role:
        case Role.SHARD:
            return ShardDriver(place, disk, lost_power=lost_power)
        case Role.SEQUENCER:
            return SequencerDriver(place)
        case Role.READER:
            return ReaderDriver(place)
