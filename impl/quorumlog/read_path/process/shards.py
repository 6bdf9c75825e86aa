"""A shard as a process: what its core adds to the driver, with its disk.

A change is written to the file at once, and is durable when a sync that began later has ended; all that wait by then
share one (group commit). A file that holds far more changes than it needs is written anew at the start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from quorumlog.events import Note
from quorumlog.node.connection import Connection
from quorumlog.read_path import events as e
from quorumlog.read_path import messages as m
from quorumlog.read_path.contents import Contents
from quorumlog.read_path.core import Role
from quorumlog.read_path.internal_log import Logged
from quorumlog.read_path.process.calls import State
from quorumlog.read_path.process.driver import Place, StreamDriver
from quorumlog.read_path.recording import shipped
from quorumlog.read_path.rules import REFERENCE
from quorumlog.read_path.shard import ShardCore
from quorumlog.read_path.wire import framed, torn, unframed
from quorumlog.storage.disk import StorageError
from quorumlog.storage.files import FileDisk

RECORDS = "records"
"""The directory of a shard's disk that has all that it stores: without it the shard has lost its data."""
CHANGES = f"{RECORDS}/changes"
_WORTH_WRITING_ANEW = 1 << 20
_ON_STREAMS = (m.Start, m.Window, m.Stop, m.FromShard)


def stored(disk: FileDisk, incarnation: int, *, lost_power: bool = False) -> list[e.Change]:
    """The changes on a shard's disk, in order; ``lost_power``: since it was used last. A shard that was never started
    has nothing, and knows that this is all that it ever had. Raises `StorageError`."""
    if not disk.exists(CHANGES):
        disk.make_directory(RECORDS)
        disk.create(CHANGES)
        if incarnation == 0:
            disk.append(CHANGES, framed(e.Change(intact=True)))
        disk.sync(CHANGES)
        disk.sync(RECORDS)
    size = disk.size(CHANGES)
    changes, whole = unframed(disk.read(CHANGES, 0, size))
    if whole < size:
        if not torn(disk.read(CHANGES, whole, size - whole), whole, lost_power=lost_power):
            raise StorageError(
                f"{CHANGES}: damaged at byte {whole} of {size}; remove {RECORDS}, and others rebuild what was there"
            )
        disk.truncate(CHANGES, whole)
        disk.sync(CHANGES)
    contents = Contents(REFERENCE)
    for change in changes:
        contents.apply(change)
    needed = list(contents.changes())
    if whole > _WORTH_WRITING_ANEW and len(needed) < len(changes) // 2:
        disk.replace(CHANGES, b"".join(map(framed, needed)))
        return needed
    return [*changes]


class ShardDriver(StreamDriver):
    """The driver of a shard; an error of its disk ends the process."""

    core: ShardCore

    def __init__(self, place: Place, disk: FileDisk, *, lost_power: bool) -> None:
        super().__init__(place)
        configuration = place.configuration
        self.readers = frozenset(configuration.numbers(Role.READER))
        self._disk = disk
        changes = stored(disk, place.incarnation, lost_power=lost_power)
        locations = dict(configuration.locations)
        self.core = place.make_core(Role.SHARD, self.number, locations, changes, configuration.shard)
        self._synced_bytes = disk.size(CHANGES)
        self._due_tickets: list[int] = []
        self._being_synced: list[int] = []
        self._syncing: asyncio.Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, "sync")
        self._perform |= {
            e.Persist: self._persist,
            e.ReadBatch: self._read_batch,
            e.TellEventLog: self._tell_event_log,
        }

    def state(self) -> dict[str, Any]:
        """The role, and whether the shard has all that was ever stored on it."""
        return {**super().state(), "reason": "intact" if self.core.contents.intact else "lost"}

    def answer_of(self, call: int) -> State:
        """The last released LSN that it knows, whether its data is lost, and which shards leave."""
        leaving = tuple(sorted(self.core.leaving))
        return State(call, released=self.core.released, lost=self.core.lost, leaving=leaving)

    async def close(self) -> None:
        """Handle nothing more; what was written arrives on the disk, and in the record. Raises `StorageError`."""
        written = [] if self._dead else [*self._being_synced, *self._due_tickets]
        try:
            await super().close()
            await self._loop.run_in_executor(None, self._thread.shutdown)
            if written:
                if self._syncing is not None:
                    await self._syncing
                self._disk.sync(CHANGES)
                self._record(written)
        finally:
            self._disk.close()

    def _record(self, tickets: Iterable[int]) -> None:
        """Record what is durable now; nobody hears of it from this life."""
        self._moment = self.history.clock.wall()
        for ticket in tickets:
            for effect in self.core.handle(time.monotonic_ns(), e.Persisted(ticket)):
                if isinstance(effect, Note):
                    self._note(effect)

    # -- the disk ------------------------------------------------------------------------------------------------------

    def _persist(self, effect: e.Persist) -> None:
        try:
            self._disk.append(CHANGES, framed(effect.change, self._synced_bytes))
        except StorageError as error:
            self._fail(error)
            return
        self._due_tickets.append(effect.ticket)
        self._sync()

    def _sync(self) -> None:
        if self._syncing is not None or not self._due_tickets or self._dead:
            return
        self._being_synced, self._due_tickets = self._due_tickets, []
        point, size = self._disk.sync_point(CHANGES), self._disk.size(CHANGES)
        self._syncing = self._loop.run_in_executor(self._thread, point.run)
        self._syncing.add_done_callback(lambda done: self._synced(done, size))

    def _synced(self, done: asyncio.Future[None], size: int) -> None:
        if done.cancelled() or self._dead:
            return
        tickets, self._being_synced, self._syncing = self._being_synced, [], None
        if (error := done.exception()) is not None:
            self._fail(error)
            return
        self._synced_bytes = size
        for ticket in tickets:
            self.handle(e.Persisted(ticket))
        self._sync()

    def _fail(self, error: BaseException) -> None:
        self._dead = True
        self.history.storage_error(type(error).__name__)
        self.place.failed(str(error))

    def _read_batch(self, effect: e.ReadBatch) -> None:
        self._loop.call_soon(self.handle, e.BatchRead(effect.reader, effect.stream, effect.ticket))

    def _tell_event_log(self, effect: e.TellEventLog) -> None:
        record = effect.record
        self.internal.append(str(record), lambda by, number: Logged(by, number, record))

    # -- readers -------------------------------------------------------------------------------------------------------

    def opened(self, reader: int, connection: Connection) -> None:
        """A reader has a connection, in place of any before it: what was open on that one is over."""
        self.gone(reader)
        self.new_line(reader, connection)
        self.handle(e.Connected(reader))

    def gone(self, reader: int) -> None:
        """A reader has no connection any more."""
        if self.lines.pop(reader, None) is not None:
            self.handle(e.Disconnected(reader))

    def received(self, sender: int, messages: list[Any]) -> None:
        """Give the core messages; those of a reader are also a sign of life of its connection."""
        if sender in self.lines:
            self.lines[sender].heard()
        super().received(sender, messages)

    def send(self, to: int, message: Any) -> None:  # noqa: ANN401
        """Send; to a reader over its connection."""
        if not isinstance(message, _ON_STREAMS):
            super().send(to, message)
            return
        if isinstance(message, m.Records):
            stream = self.core.streams[to, message.stream]
            self.noted(shipped(message, to, stream.start.filter_version))
        if to in self.lines:
            self.hand(self.lines[to], message)
