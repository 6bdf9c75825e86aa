"""The processes of a log on many storage shards, under a supervisor: shards first, then sequencers, then readers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import msgspec

from loghistory import HybridClock
from quorumlog.cluster.client import NodeClient
from quorumlog.cluster.log_client import LogPlace
from quorumlog.cluster.processes import Processes, journal_of
from quorumlog.node.recording import HistoryFile
from quorumlog.node.wire import Channel
from quorumlog.read_path.core import Role
from quorumlog.read_path.nodeset import Location
from quorumlog.read_path.process.calls import (
    ANSWERS,
    CALLS,
    AppendRecord,
    AskState,
    Ended,
    NoteStall,
    PressMemory,
    Read,
    StartReading,
    State,
    Taken,
    TrimLog,
)
from quorumlog.read_path.process.shards import CHANGES, RECORDS
from quorumlog.storage.files import FileDisk
from quorumlog.storage.power import Damage, damage

COMMAND = (sys.executable, "-m", "quorumlog.read_path.process")


def _changes(disk: FileDisk) -> list[tuple[str, int]]:
    """The file of a shard, all of which is synced once it was opened."""
    return [(CHANGES, disk.size(CHANGES))] if disk.exists(CHANGES) else []


class PathClient(NodeClient):
    """A connection to a process. Calls end with `ConnectionError` when it is lost; time-outs are the caller's."""

    asked: ClassVar[Channel[Any]] = CALLS
    answered: ClassVar[Channel[Any]] = ANSWERS

    async def append_record(self, payload: bytes) -> Ended:
        """Ask a sequencer to append a payload."""
        ended: Ended = await self._call(lambda number: AppendRecord(number, payload))
        return ended

    async def trim_log(self, lsn: int) -> Ended:
        """Ask a sequencer to give up what is at or below ``lsn``."""
        ended: Ended = await self._call(lambda number: TrimLog(number, lsn))
        return ended

    async def start_reading(self, stream: int, first: int, until: int) -> None:
        """Begin a stream at a reader, in place of any other."""
        await self._call(lambda number: StartReading(number, stream, first, until))

    async def take(self, stream: int, count: int) -> Taken:
        """Take what is ready of a stream."""
        taken: Taken = await self._call(lambda number: Read(number, stream, count))
        return taken

    async def note_stall(self, stream: int, released: int) -> None:
        """Let a reader record where its stream stalls, if it does; `LAST_LSN`: before the last that it has heard of."""
        await self._call(lambda number: NoteStall(number, stream, released))

    async def press_memory(self, short: bool) -> None:
        """Let memory be short at a reader, or no longer."""
        await self._call(lambda number: PressMemory(number, short))

    async def state(self) -> State:
        """How far the process is that is connected."""
        state: State = await self._call(AskState)
        return state

    async def _call(self, make: Callable[[int], Any]) -> Any:  # noqa: ANN401
        number, future = self._begin()
        self._send_soon(make(number), 0)
        return await future


class PathProcesses(Processes):
    """See `Processes`; ``settings`` are further fields of `ProcessConfiguration` that all processes share.
    The parameters are many because each is a setting of its own."""

    def __init__(
        self,
        directory: Path,
        *,
        name: str,
        locations: Mapping[int, Location],
        sequencers: int,
        readers: int,
        internal: LogPlace,
        settings: Mapping[str, Any],
        recorder: HistoryFile | None = None,
        ended: Callable[[int, int], None] | None = None,
        loses_power: bool = False,
    ) -> None:
        counts = {Role.SHARD: len(locations), Role.SEQUENCER: sequencers, Role.READER: readers}
        self.roles = dict(enumerate(role for role, count in counts.items() for _ in range(count)))
        super().__init__(
            directory,
            nodes=len(self.roles),
            command=COMMAND,
            recorder=recorder,
            ended=ended,
            loses_power=loses_power,
        )
        self.name, self._locations, self._internal, self._settings = name, locations, internal, settings

    def numbers(self, role: Role) -> list[int]:
        """The numbers of the processes with a role, in ascending order."""
        return [number for number, each in self.roles.items() if each is role]

    def configuration(self, node: int) -> dict[str, Any]:
        """The configuration file of a process."""
        return {
            "node": node,
            "cluster": self.name,
            "addresses": {str(each): f"{host}:{port}" for each, (host, port) in enumerate(self.addresses)},
            "roles": {str(number): role.value for number, role in self.roles.items()},
            "locations": {str(shard): list(location) for shard, location in self._locations.items()},
            "internal": msgspec.to_builtins(self._internal, str_keys=True),
            "data": f"node-{node}",
            "history": self.histories.name,
            "journal": journal_of(node) if self._loses_power else None,
            **self._settings,
        }

    async def client(self, node: int, clock: HybridClock | None = None) -> PathClient:
        """Connect to a process. Raises OSError."""
        return await PathClient.connect(self.addresses[node], self.name, clock or self.clock)

    async def answers(self, node: int) -> None:
        """Return if the process answers. Raises OSError if it does not."""
        (await self.client(node)).close()

    def wipe(self, shard: int) -> None:
        """Remove what a shard that is down has stored; how often it was started stays."""
        shutil.rmtree(self.directory / f"node-{shard}" / RECORDS, ignore_errors=True)
        shutil.rmtree(self.directory / journal_of(shard), ignore_errors=True)  # it begins anew with what is left

    def _damaged(self, node: int, draw: Random, lose_name: bool) -> Damage | None:
        root = self.directory / f"node-{node}"
        return damage(root, draw, lose_name=lose_name, flushed=_changes)
