"""Real servers for tests: their processes, one group of one node for each log, and somebody who puts and asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from loghistory import HybridClock
from quorumlog.cluster.groups import Groups
from quorumlog.cluster.log_client import Log, LogPlace, UnreachableError
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.events import Query
from quorumlog.pull_queries.processes import Servers
from quorumlog.pull_queries.records import form_of, log_names, source_of
from quorumlog.pull_queries.server_client import LostError, RefusedError, Reply, ServerClient
from quorumlog.pull_queries.table import Value, partition_of

BRISK: dict[str, Any] = {"lag_report": 300, "discover": 300, "forward_timeout": 500}


class Arena:
    """``of_each``: further settings of single servers, which may be added before they are started."""

    def __init__(self, directory: Path, nodes: int, server: Configuration, logs: Mapping[str, LogPlace]) -> None:
        directory.mkdir(exist_ok=True)
        self.of_each: dict[int, dict[str, Any]] = {}
        self.standbys = server.standbys
        self.servers = Servers(directory, nodes=nodes, server=server, logs=logs, of_each=self.of_each)
        self.client = ServerClient(HybridClock())
        names = [source_of(each) for each in range(server.partitions)]
        self.sources = [Log(name, form_of(name), logs[name], HybridClock()) for name in names]

    async def start(self, *nodes: int) -> None:
        """Start servers, one after the other: the first becomes the active of all, the next ones its standbys."""
        for node in nodes:
            await self.servers.start(node)
            await self.servers.wait_for(node)
            if node <= self.standbys:
                await until(lambda node=node: self.holds(node), f"server {node} holds a partition")

    async def holds(self, node: int) -> bool:
        """Whether a server holds a partition, by its own view."""
        status = await self.client.cluster_status(self.servers.public[node]) or {}
        held = status[self.servers.hosts[node]]["activeStandbyPerQuery"].values()
        return any(each["activePartitions"] or each["standByPartitions"] for each in held)

    async def put(self, rows: Mapping[str, Value | None], pause: float = 0) -> None:
        """Put rows one by one, with so many seconds between them; again, if a group has no leader for a while."""
        for key, value in rows.items():
            await until(lambda key=key, value=value: self._appended(key, value), "a source takes a row")
            await asyncio.sleep(pause)

    async def _appended(self, key: str, value: Value | None) -> bool:
        try:
            await self.sources[partition_of(key, len(self.sources))].append([(key, value)])
        except UnreachableError:
            return False
        return True

    async def ask(self, node: int, query: Query) -> Reply | None:
        """What a server says; None: it is not there, or did not answer."""
        try:
            return await self.client.query(self.servers.public[node], query)
        except (RefusedError, LostError):
            return None

    async def answers(self, node: int, query: Query, rows: Mapping[str, Value]) -> bool:
        """Whether a server answers a query with these rows."""
        reply = await self.ask(node, query)
        return reply is not None and reply.message is None and found(reply) == rows


def found(reply: Reply) -> dict[str, Value]:
    """The rows of an answer."""
    return {key: value for answer in reply.answers for key, value in answer.rows}


async def until(holds: Any, what: str, seconds: float = 20) -> None:  # noqa: ANN401
    """Wait until an asynchronous question is answered with yes."""
    deadline = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.03)


@asynccontextmanager
async def arena(directory: Path, nodes: int, **server: Any) -> AsyncIterator[Arena]:  # noqa: ANN401
    """Groups that run, and servers that do not yet."""
    configuration = Configuration(**{**BRISK, **server})
    async with Groups(directory / "logs", log_names(configuration.partitions), 1, 1) as groups:
        made = Arena(directory / "servers", nodes, configuration, groups.places)
        try:
            yield made
        finally:
            await made.servers.stop()
            await made.servers.abandon()
            for log in made.sources:
                log.close()
            await made.client.__aexit__()
