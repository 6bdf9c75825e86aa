"""The stage of the read path in real processes: shards, sequencers, readers, and the group that keeps their log.

That group tells what is true: once a run is over its log is read, and each nodeset and each record of the event log
enters the history where a node of the group first showed it. A shard that is down for long is declared to be rebuilt,
as an administrator would; one that was drained comes back when the fault ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from quorumlog.cluster.faults import JOURNALLED
from quorumlog.cluster.groups import Groups, content
from quorumlog.cluster.log_client import Log, UnreachableError
from quorumlog.cluster.processes import ClusterError, Pair
from quorumlog.cluster.register import Register
from quorumlog.cluster.stage import Ended, Setting, Stage, Staging, Worker
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.node.recording import HistoryFile
from quorumlog.read_path.configuration import ReaderSettings, SequencerSettings, ShardSettings
from quorumlog.read_path.core import Role
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.internal_log import Activation, InternalLog, Logged
from quorumlog.read_path.load import Appender, Application, Load
from quorumlog.read_path.nodeset import Location, scopes_of
from quorumlog.read_path.process.calls import State
from quorumlog.read_path.process.internal import FORM, LOG
from quorumlog.read_path.processes import PathProcesses
from quorumlog.read_path.recording import event_noted, nodeset_noted
from quorumlog.read_path.rules import lsn_of

_POLL = 0.05
_ANSWER_SECONDS = 0.5
_READY_SECONDS = 30.0
_FINAL_READ_SECONDS = 30.0

_READER = ReaderSettings(
    window=64,
    in_flight=32,
    room=200,
    redelivery=20 * MILLISECOND,
    scd_timeout=2 * SECOND,
    all_send_all_timeout=4 * SECOND,
    rewind_most=400 * MILLISECOND,
    probation=500 * MILLISECOND,
    probation_most=4 * SECOND,
)
"""Time-outs of minutes are seconds here, so that short runs have many."""


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be set; ``replication`` is by scope, ``rebuild_after`` seconds, ``poll`` milliseconds.

    ``brokers``: the nodes of the group that keeps epochs, metadata and events; ``spare``: so many shards a new nodeset
    may leave out, by a chance of ``nodeset_changes``.
    """

    sequencers: int = 2
    readers: int = 1
    brokers: int = 1
    replication: dict[str, int] | None = None
    spare: int = 0
    nodeset_changes: float = 0.0
    rebuild_after: float = 1.0
    poll: int = 25
    reader: ReaderSettings = _READER
    shard: ShardSettings = ShardSettings()
    sequencer: SequencerSettings = SequencerSettings(in_flight=32, store=100 * MILLISECOND)
    load: Load = Load()


class PathStage(Stage):
    """The stage of shards, sequencers and readers; see the module."""

    processes: PathProcesses

    def __init__(self, setting: Setting, work: Path, register: Register, ended: Ended) -> None:
        """Raises `ClusterError` for what cannot be run."""
        self._setting, self._register = setting, register
        self.options = options = _configured(setting)
        self._shards = tuple(range(setting.nodes))
        self._group = Groups(work / "logs", [LOG], options.brokers, setting.seed)
        place, clock = self._group.places[LOG], register.recorder.clock
        self._replication = options.replication or {"NODE": min(3, max(1, setting.nodes - 1))}
        locations: dict[int, Location] = {shard: ("0", "0", "0", "0", f"N{shard}") for shard in self._shards}
        try:
            scopes_of(self._replication, locations)
        except ValueError as error:
            raise ClusterError(f"read-path: {error}") from None
        if max(self._replication.values()) > setting.nodes - options.spare:
            raise ClusterError(
                f"read-path: replication {self._replication} needs more shards than a nodeset has; give more --nodes"
            )
        common = ("spare", "nodeset_changes", "poll", "reader", "shard", "sequencer")
        (work / "processes").mkdir()
        self.processes = PathProcesses(
            work / "processes",
            name=f"read path of {work}",
            locations=locations,
            sequencers=options.sequencers,
            readers=options.readers,
            internal=place,
            settings={
                "seed": setting.seed,
                "replication": self._replication,
                **{name: msgspec.to_builtins(getattr(options, name)) for name in common},
            },
            recorder=register.recorder,
            ended=ended,
            loses_power=not JOURNALLED.isdisjoint(setting.faults),
        )
        self._log = Log(LOG, FORM, place, clock)
        self._logged = 0
        self._content: list[tuple[int, Any]] = []
        readers = self.processes.numbers(Role.READER)
        self._applications = [Application(self.processes, register, options.load, reader) for reader in readers]
        self._leader, self._brokers = setting.nodes, setting.draw("brokers")
        self._supervisor: asyncio.Task[None] | None = None
        self._lost: set[int] = set()
        self._pressed = Counter[int]()

    async def __aenter__(self) -> Self:
        """Start the group, then the processes; see `Stage`."""
        await self._group.__aenter__()
        try:
            await self.processes.__aenter__()
        except BaseException as error:
            await self._group.__aexit__(type(error))
            raise
        self._supervisor = asyncio.create_task(self._supervise())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Stop the processes, read what their log holds, stop the group; see `Stage`."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.wait([self._supervisor])
        try:
            for application in self._applications:
                application.close()
            await self.processes.__aexit__(kind, *error)
            if kind is None:
                self._content = await content(self._log)
        finally:
            self._log.close()
            await self._group.__aexit__(kind, *error)

    async def begin(self) -> None:
        """Wait until a record is appended. Raises `ClusterError` if it takes too long."""
        writer = Appender(self.processes, self._register, self.options.load, random.Random(0))
        deadline = asyncio.get_running_loop().time() + _READY_SECONDS
        try:
            while not await writer.append():
                if asyncio.get_running_loop().time() > deadline:
                    raise ClusterError(f"no record could be appended within {_READY_SECONDS:g} s")
                await asyncio.sleep(_POLL)
        finally:
            writer.close()

    def clients(self) -> Sequence[Worker]:
        """Clients that append, and the readers' applications; see `Stage`."""
        draws = (self._setting.draw(f"client {number}") for number in range(self._setting.clients))
        return [
            *(Appender(self.processes, self._register, self.options.load, draw) for draw in draws),
            *self._applications,
        ]

    async def leader(self) -> int:
        """The sequencer of the newest epoch; while none is active, the last one."""
        states = await self._states(Role.SEQUENCER)
        found = max(((state.epoch, node) for node, state in states.items() if state.epoch), default=None)
        if found is not None:
            self._leader = found[1]
        return self._leader

    async def converge(self, seconds: float) -> bool:
        """Append once more; wait until no shard is lost, all is released, and every reader is at the end."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        writer = Appender(self.processes, self._register, self.options.load, random.Random(0))
        written = False
        try:
            while loop.time() < deadline:
                written = written or await writer.append()
                for application in self._applications:
                    await application.take()
                if written and await self._agreed():
                    return True
                await asyncio.sleep(_POLL)
        finally:
            writer.close()
        return False

    async def final_read(self) -> bool:
        """Read everything released with every reader; see `Stage`."""
        until = max(await self._released(), lsn_of(1, 1))
        return all([await each.read(lsn_of(1, 1), until, _FINAL_READ_SECONDS) for each in self._applications])

    async def histories(self, directory: Path) -> list[Path]:
        """Those of the processes, and what their log showed when."""
        path = directory / "internal.jsonl"
        recorder = HistoryFile(path, self._register.recorder.clock, {})
        held = InternalLog(self._shards)
        for stamp, _, record in self._group.dated(LOG, self._content):
            if record is None or not held.fold(record):
                continue
            if isinstance(record, Activation) and record.epoch in held.nodesets:
                kind, columns = nodeset_noted(record.epoch, record.nodeset)
                recorder.stamped(kind, stamp, columns)
            elif isinstance(record, Logged):
                kind, columns = event_noted(held.event_log, record.record)
                recorder.stamped(kind, stamp, columns)
        recorder.close()
        return [path, *self.processes.histories_of_all()]

    def described(self) -> dict[str, Any]:
        """The options, and what follows from them."""
        return {**msgspec.to_builtins(self.options), "replication": self._replication}

    # -- faults of its own ---------------------------------------------------------------------------------------------

    async def allows(self, fault: str, node: int) -> bool:
        """A shard is wiped only if no other is lost, so that no record loses all its copies."""
        if fault not in ("wipe", "lost_name"):
            return True
        states = await self._states(Role.SHARD)
        others = [shard for shard in self._shards if shard != node]
        gone = self._lost.difference({node}) or any(
            shard not in states or states[shard].lost or shard in states[shard].leaving for shard in others
        )
        if gone or min(self._replication.values()) < 2:
            return False
        self._lost.add(node)
        return True

    async def begin_own(self, fault: str, node: int) -> None:
        """Drain a shard, part a reader from it and other shards, press its memory, or kill a node of the group."""
        if fault == "part":
            self.processes.cut(self._parted(node))
        elif fault == "little_memory":
            await self._press(self._reader(node), 1)
        elif fault == "kill_broker":
            await self._group.kill_any(self._brokers)
        else:
            await self._append(LogRecord(Word.DRAIN, node))

    async def end_own(self, fault: str, node: int) -> None:
        """Let a drained shard come back, at once or when it is empty; or the reader hear again."""
        if fault == "part":
            self.processes.mend(self._parted(node))
        elif fault == "little_memory":
            await self._press(self._reader(node), -1)
        if fault != "drain":
            return
        states = await self._states(Role.SHARD)
        empty = node in states and node in states[node].leaving
        await self._append(LogRecord(Word.ABORT, node))
        if empty:
            await self._append(LogRecord(Word.ACKNOWLEDGE, node))

    def _parted(self, node: int) -> list[Pair]:
        """A reader, and half of the shards, from a shard on."""
        reader = self._reader(node)
        part = [self._shards[(node + each) % len(self._shards)] for each in range((len(self._shards) + 1) // 2)]
        return [*((reader, shard) for shard in part), *((shard, reader) for shard in part)]

    def _reader(self, number: int) -> int:
        readers = self.processes.numbers(Role.READER)
        return readers[number % len(readers)]

    async def _press(self, reader: int, more: int) -> None:
        """Memory is short at a reader while any such fault goes on."""
        self._pressed[reader] += more
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                client = await self.processes.client(reader)
                try:
                    await client.press_memory(self._pressed[reader] > 0)
                finally:
                    client.close()

    async def _supervise(self) -> None:
        """Have shards rebuilt that have been down for long."""
        loop, since = asyncio.get_running_loop(), dict.fromkeys(self._shards, 0.0)
        reported: set[int] = set()
        while True:
            for shard in self._shards:
                if self.processes.running(shard):
                    since[shard] = loop.time()
                    reported.discard(shard)
                elif shard not in reported and loop.time() - since[shard] > self.options.rebuild_after:
                    reported.add(shard)
                    await self._append(LogRecord(Word.REBUILD, shard))
            states = await self._states(Role.SHARD)
            self._lost -= {shard for shard, state in states.items() if not state.lost and not state.leaving}
            await asyncio.sleep(_POLL)

    async def _append(self, record: LogRecord) -> None:
        """Append to the event log, once."""
        self._logged += 1
        for _ in range(100):
            try:
                await self._log.append([Logged(0, self._logged, record)])
                return
            except UnreachableError:
                await asyncio.sleep(_POLL)

    # -- how far all are -----------------------------------------------------------------------------------------------

    async def _agreed(self) -> bool:
        shards, sequencers = await self._states(Role.SHARD), await self._states(Role.SEQUENCER)
        active = max(sequencers.values(), key=lambda state: state.epoch, default=None)
        if len(shards) < len(self._shards) or active is None or not active.epoch or active.released < active.lng:
            return False
        if any(state.lost or state.leaving for state in shards.values()):
            return False
        return all(application.next > active.released for application in self._applications)

    async def _released(self) -> int:
        return max((state.released for state in (await self._states(Role.SEQUENCER)).values()), default=0)

    async def _states(self, role: Role) -> dict[int, State]:
        """How far the processes of a role are, of those that answer."""

        async def ask(node: int) -> State | None:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    client = await self.processes.client(node)
                    try:
                        return await client.state()
                    finally:
                        client.close()
            except (OSError, TimeoutError):
                return None

        nodes = [node for node in self.processes.numbers(role) if self.processes.running(node)]
        found = await asyncio.gather(*map(ask, nodes))
        return {node: state for node, state in zip(nodes, found, strict=True) if state is not None}


def _configured(setting: Setting) -> Options:
    """What the options of a setting say; of a part of them, what is not said is as it is without. Raises
    `ClusterError`."""
    if setting.write_caching or setting.retention is not None:
        raise ClusterError("read-path: copies are always flushed; leave out --write-caching and --retention")
    default = Options()
    given = {
        name: {**msgspec.to_builtins(getattr(default, name)), **value}
        if isinstance(value, dict) and isinstance(getattr(default, name, None), msgspec.Struct)
        else value
        for name, value in setting.options.items()
    }
    try:
        options = msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        raise ClusterError(f"read-path: {error}; the options are {', '.join(Options.__struct_fields__)}") from None
    if min(options.sequencers, options.readers, options.brokers) < 1:
        raise ClusterError("read-path: give at least 1 of sequencers, readers and brokers")
    return options


STAGING = Staging(
    name="read-path",
    faults=(
        "kill",
        "kill-leader",
        "power",
        "wipe",
        "drain",
        "slow",
        "stop",
        "terminate",
        "disk",
        "damage",
        "cut",
        "cut-reader",
        "memory",
        "kill-broker",
    ),
    make=PathStage,
    own={
        "drain": (("drain", "any"),),
        "cut-reader": (("part", "any"),),
        "memory": (("little_memory", "any"),),
        "kill-broker": (("kill_broker", "any"),),
    },
)
