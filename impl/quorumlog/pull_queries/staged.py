"""The stage of pull queries in real processes: servers, and the Raft groups that hold their logs.

The groups of the changelogs tell what is true: once a run is over they are read, and each offset enters the history
where a node of its group first showed it (`loghistory.vocabularies.pull_queries`), whatever the servers made of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec

from loghistory import HybridClock
from quorumlog.cluster.groups import Groups, content
from quorumlog.cluster.log_client import Log, LogPlace
from quorumlog.cluster.processes import ClusterError
from quorumlog.cluster.register import Register
from quorumlog.cluster.stage import Ended, Setting, Stage, Staging, Worker
from quorumlog.node.recording import HistoryFile
from quorumlog.node.wire import Stamp
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.events import Query
from quorumlog.pull_queries.load import Load, PullClient
from quorumlog.pull_queries.processes import Servers
from quorumlog.pull_queries.recording import json_text
from quorumlog.pull_queries.records import changelog_of, form_of, log_names, source_of
from quorumlog.pull_queries.server.configuration import Bound, Positive
from quorumlog.pull_queries.server_client import LostError, RefusedError, ServerClient
from quorumlog.pull_queries.table import Record, partition_of

_READY_SECONDS = 30.0
_POLL = 0.1

_BRISK = {"lag_report": 500, "discover": 400, "partitions": 2, "forward_timeout": 500}
"""Of the servers' configuration, what suits short runs on one machine; `--set` replaces it."""
_SWITCHED_ON = {"standby_reads": True, "heartbeats": True, "lag_reports": True}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What may be set beside the fields of the servers' `Configuration`: the nodes of each group, how many of them all
    are killed a second under load, to be started again at once, and fields of `ServerConfiguration`."""

    brokers: Annotated[int, msgspec.Meta(ge=1, le=7)] = 3
    broker_kills: Annotated[float, msgspec.Meta(ge=0)] = 0
    poll: Positive = 25
    save: Positive = 1000
    with_bound: Bound | None = None


class BrokerKiller:
    """Kills nodes of the groups under load, ``per_second`` of them; it works beside the clients."""

    def __init__(self, groups: Groups, per_second: float, draw: random.Random) -> None:
        self._groups, self._per_second, self._draw = groups, per_second, draw

    async def work(self, until: asyncio.Event) -> None:
        """Go on until ``until`` is set."""
        while not until.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), self._draw.expovariate(self._per_second))
            if not until.is_set():
                await self._groups.kill_any(self._draw)


class PullStage(Stage):
    """The stage of servers of pull queries; see the module."""

    processes: Servers

    def __init__(self, setting: Setting, work: Path, register: Register, ended: Ended) -> None:
        """Raises `ClusterError` for what cannot be run."""
        self._setting, self._register, self._load = setting, register, Load()
        self.options, self.server = _configured(setting)
        self._partitions = self.server.partitions
        self._groups = Groups(work / "logs", log_names(self._partitions), self.options.brokers, setting.seed)
        places, clock = self._groups.places, register.recorder.clock
        settings = {name: getattr(self.options, name) for name in ("poll", "save", "with_bound")}
        (work / "servers").mkdir()
        self.processes = Servers(
            work / "servers",
            nodes=setting.nodes,
            server=self.server,
            logs=places,
            settings=settings,
            recorder=register.recorder,
            ended=ended,
        )
        numbers = range(self._partitions)
        self._sources = [_log(source_of(each), places, clock) for each in numbers]
        self._changelogs = [_log(changelog_of(each), places, clock) for each in numbers]
        self._http = ServerClient(clock)
        self._contents: list[list[tuple[int, Any]]] = []
        self._leader = 0

    async def __aenter__(self) -> Self:
        """Start the groups, then the servers; see `Stage`."""
        await self._groups.__aenter__()
        try:
            await self.processes.__aenter__()
        except BaseException as error:
            await self._groups.__aexit__(type(error))
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Stop the servers, read what the changelogs hold, stop the groups; see `Stage`."""
        try:
            await self.processes.__aexit__(kind, *error)
            if kind is None:
                self._contents = [await content(log) for log in self._changelogs]
        finally:
            for log in (*self._sources, *self._changelogs):
                log.close()
            await self._http.__aexit__()
            await self._groups.__aexit__(kind, *error)

    async def begin(self) -> None:
        """Wait until every server answers a scan. Raises `ClusterError` if it takes too long."""
        deadline = asyncio.get_running_loop().time() + _READY_SECONDS
        for place in self.processes.public:
            while not await self._answers(place):
                if asyncio.get_running_loop().time() > deadline:
                    raise ClusterError(f"the server at {place} answers no query within {_READY_SECONDS:g} s")
                await asyncio.sleep(_POLL)

    async def _answers(self, place: str) -> bool:
        try:
            return (await self._http.query(place, Query())).message is None
        except (RefusedError, LostError):
            return False

    def clients(self) -> Sequence[Worker]:
        """Clients that put rows and ask, and who kills nodes of the groups; see `Stage`."""
        draw, kills = self._setting.draw, self.options.broker_kills
        asking = [self._client(draw(f"client {number}")) for number in range(self._setting.clients)]
        return [*asking, *([BrokerKiller(self._groups, kills, draw("brokers"))] if kills else [])]

    def _client(self, draw: random.Random) -> PullClient:
        servers = self.processes
        return PullClient(
            self._register,
            self._load,
            draw,
            servers.public,
            lambda host: servers.numbers.get(host, -1),
            self._sources,
        )

    async def leader(self) -> int:
        """The active of partition 0, as any server says; while none says so, the last one."""
        for status in await self._statuses():
            for host, said in (status or {}).items():
                holds = said["activeStandbyPerQuery"].values()
                if any(0 in each["activePartitions"] for each in holds) and host in self.processes.numbers:
                    self._leader = self.processes.numbers[host]
                    return self._leader
        return self._leader

    async def converge(self, seconds: float) -> bool:
        """Put a row into each partition; wait until all think all alive and caught up, and every server shows it."""
        loop = asyncio.get_running_loop()
        deadline, client = loop.time() + seconds, self._client(random.Random(0))
        left = {key: next(self._register.values) for key in _a_key_of_each(self._partitions)}
        written: dict[str, Any] = {}
        try:
            while loop.time() < deadline:
                for key in left.keys() - written.keys():
                    if await client.put(key, left[key]):
                        written[key] = left[key]
                if len(written) == len(left) and await self._agreed(written):
                    return True
                await asyncio.sleep(_POLL)
        finally:
            await client.close()
        return False

    async def final_read(self) -> bool:
        """Scan at every server; see `Stage`."""
        client = self._client(random.Random(0))
        try:
            return all([await client.query(node, Query()) is not None for node in self.processes.nodes])
        finally:
            await client.close()

    async def histories(self, directory: Path) -> list[Path]:
        """Those of the servers, and what the groups of the changelogs showed when."""
        path = directory / "changelogs.jsonl"
        recorder = HistoryFile(path, self._register.recorder.clock, {})
        for stamp, partition, offset, record in sorted(self._shown(), key=lambda each: each[:3]):
            columns: dict[str, Any] = {"partition": partition, "offset": offset}
            if record is not None:
                columns |= {"epoch": record.epoch, "text": json_text(record)}
            recorder.stamped("changelog", stamp, columns)
        recorder.close()
        return [path, *self.processes.histories_of_all()]

    def _shown(self) -> Iterator[tuple[Stamp, int, int, Record | None]]:
        """When each offset of each changelog was shown first, and what it holds."""
        for partition, held in enumerate(self._contents):
            for stamp, offset, record in self._groups.dated(changelog_of(partition), held):
                yield stamp, partition, offset, record

    def described(self) -> dict[str, Any]:
        """Load, options and the servers' configuration."""
        return {name: msgspec.to_builtins(getattr(self, place)) for name, place in _DESCRIBED.items()}

    async def _agreed(self, written: Mapping[str, Any]) -> bool:
        for status in await self._statuses():
            if status is not None and not _settled(status, self.processes.hosts):
                return False
        for place in self.processes.public:
            try:
                reply = await self._http.query(place, Query(keys=tuple(sorted(written))))
            except (RefusedError, LostError):
                return False
            if {key: value for answer in reply.answers for key, value in answer.rows} != written:
                return False
        return True

    async def _statuses(self) -> list[dict[str, Any] | None]:
        """What each server that runs says of all; None for one that says nothing."""

        async def ask(node: int) -> dict[str, Any] | None:
            try:
                return await self._http.cluster_status(self.processes.public[node])
            except (RefusedError, LostError):
                return None

        return await asyncio.gather(*(ask(node) for node in self.processes.nodes if self.processes.running(node)))


_DESCRIBED = {"load": "_load", "options": "options", "server": "server"}


def _log(name: str, places: Mapping[str, LogPlace], clock: HybridClock) -> Log:
    return Log(name, form_of(name), places[name], clock)


def _configured(setting: Setting) -> tuple[Options, Configuration]:
    """What the options of a setting say. Raises `ClusterError`."""
    if setting.write_caching or setting.retention is not None:
        raise ClusterError("pull-queries: logs are kept whole and flushed; leave out --write-caching and --retention")
    own = {name: value for name, value in setting.options.items() if name in Options.__struct_fields__}
    rest = {name: value for name, value in setting.options.items() if name not in own}
    unknown = sorted(rest.keys() - set(Configuration.__struct_fields__))
    if unknown:
        known = ", ".join((*Options.__struct_fields__, *Configuration.__struct_fields__))
        raise ClusterError(f"pull-queries: there is no option {unknown[0]}; the options are {known}")
    try:
        server = msgspec.convert({**_BRISK, **(_SWITCHED_ON if _shipped(rest) else {}), **rest}, Configuration)
        return msgspec.convert(own, Options), server
    except msgspec.ValidationError as error:
        raise ClusterError(f"pull-queries: {error}") from None


def _shipped(given: Mapping[str, Any]) -> bool:
    return given.get("mode") == "shipped"


def _settled(status: Mapping[str, Any], hosts: Sequence[str]) -> bool:
    """Whether a server thinks all alive, and all that they report caught up."""
    if not set(hosts) <= status.keys() or not all(status[host]["hostAlive"] for host in hosts):
        return False
    lags = [
        lag
        for host in hosts
        for store in status[host]["hostStoreLags"]["stateStoreLags"].values()
        for lag in store["lagByPartition"].values()
    ]
    return all(lag["offsetLag"] == 0 for lag in lags)


def _a_key_of_each(partitions: int) -> list[str]:
    """A key of each partition."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(partition_of(f"last{number}", partitions), f"last{number}")
        number += 1
    return list(found.values())


STAGING = Staging(name="pull-queries", faults=("kill", "kill-leader", "stop", "terminate", "cut"), make=PullStage)
