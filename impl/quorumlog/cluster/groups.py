"""Raft groups that keep the logs which other processes build on: one group for each log."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from quorumlog.cluster.log_client import Log, LogPlace, UnreachableError
from quorumlog.cluster.processes import ClusterError
from quorumlog.cluster.supervisor import Cluster
from quorumlog.node.recording import whole_events
from quorumlog.node.wire import Stamp

_READ_BYTES = 1 << 20
_POLL = 0.1
_TIMING = {"election_timeout": 400, "election_jitter": 400, "heartbeat_interval": 60}


class Groups:
    """The groups of all logs, each of ``brokers`` nodes; ``names`` are those of the logs."""

    def __init__(self, directory: Path, names: Iterable[str], brokers: int, seed: int) -> None:
        self._groups: dict[str, Cluster] = {}
        for name in names:
            (directory / name).mkdir(parents=True)
            settings = {"protocol": "raft", "timing": _TIMING}
            self._groups[name] = Cluster(
                directory / name, nodes=brokers, seed=seed, settings=settings, name=f"{name} of {directory}"
            )

    async def __aenter__(self) -> Self:
        """Start all nodes. Raises `ClusterError`."""
        try:
            await asyncio.gather(*(group.__aenter__() for group in self._groups.values()))
        except BaseException:
            await self.__aexit__(asyncio.CancelledError)
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Stop all nodes."""
        await asyncio.gather(*(group.__aexit__(kind, *error) for group in self._groups.values()))

    async def kill_any(self, draw: random.Random) -> None:
        """Kill a node of some group by SIGKILL, and start it again. Raises `ClusterError`."""
        group = self._groups[draw.choice(list(self._groups))]
        node = draw.choice(list(group.nodes))
        await group.kill(node)
        await group.start(node)

    @property
    def places(self) -> dict[str, LogPlace]:
        """By the name of each log: its group, and the addresses of that group's nodes."""
        return {
            name: LogPlace(group.name, {node: f"{host}:{port}" for node, (host, port) in enumerate(group.addresses)})
            for name, group in self._groups.items()
        }

    def dated(self, name: str, held: Iterable[tuple[int, Any]]) -> Iterator[tuple[Stamp, int, Any]]:
        """What a log holds by offset, and when a node of its group first showed it."""
        moments = iter(self._shown(name))
        stamp, last = (0, 0), -1
        for offset, record in held:
            while offset > last:
                stamp, last = next(moments, (stamp, offset))
            yield stamp, offset, record

    def _shown(self, name: str) -> list[tuple[Stamp, int]]:
        """When a node of a group first showed how much: stamps, and the last offset shown from then on; both rise."""
        found = []
        for path in self._groups[name].histories_of_all():
            found += [
                ((event.time, event.logical or 0), event.visible)
                for event in whole_events(path)
                if event.visible is not None
            ]
        rising: list[tuple[Stamp, int]] = []
        for stamp, visible in sorted(found):
            if visible > (rising[-1][1] if rising else -1):
                rising.append((stamp, visible))
        return rising


async def content(log: Log) -> list[tuple[int, Any]]:
    """All that a log holds, also if its leader is new and shows nothing. Raises `ClusterError` if nobody can tell."""
    found: list[tuple[int, Any]] = []
    end: int | None = None
    for _ in range(100):
        try:
            end = await log.read_index() if end is None else end
            _, more = await log.read(len(found), _READ_BYTES)
        except UnreachableError:
            more = []
        found += more
        if end is not None and len(found) > end:
            return found
        if not more:
            await asyncio.sleep(_POLL)
    raise ClusterError(f"the log {log.name} cannot be read to its end")
