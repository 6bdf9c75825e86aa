"""Clusters of real processes for the tests."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from quorumlog.cluster.client import NodeClient
from quorumlog.cluster.supervisor import Cluster
from quorumlog.node.wire import AnyResult, ReadResult, StatusResult, TailResult, unpack_batches
from quorumlog.storage.batch import BatchKind, RecordBatch

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside the tests
_T = TypeVar("_T")
TIMING = {"election_timeout": 300, "election_jitter": 300, "heartbeat_interval": 50}


class Bench:
    """A cluster and what tests do with it; every wait is bounded."""

    def __init__(self, cluster: Cluster, ended: list[tuple[int, int]]) -> None:
        self.cluster = cluster
        self.ended = ended  # processes that ended by themselves: the node, and the status

    async def leader(self, among: list[int] | None = None) -> int:
        """A node that leads and has committed in its term: it answers a linearizable question."""
        for _ in range(200):
            for node in among if among is not None else self.cluster.nodes:
                answer = await self._asked(node, NodeClient.tail)
                if isinstance(answer, TailResult) and answer.outcome == "success":
                    return node
            await asyncio.sleep(0.05)
        raise AssertionError("no leader within 10 s")

    async def state(self, node: int) -> StatusResult | None:
        """What a node says of itself; None if it does not answer."""
        answer = await self._asked(node, NodeClient.status)
        assert answer is None or isinstance(answer, StatusResult)
        return answer

    async def _asked(self, node: int, question: Callable[[NodeClient], Awaitable[AnyResult]]) -> AnyResult | None:
        try:
            client = await self.cluster.client(node)
        except OSError:
            return None
        try:
            return await asyncio.wait_for(question(client), 2)
        except (OSError, TimeoutError):
            return None
        finally:
            client.close()

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str, seconds: float = 10) -> None:
        """Wait until something holds."""
        for _ in range(int(seconds / 0.05)):
            if await holds():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not within {seconds} s: {what}")

    async def until_killed(self) -> None:
        """Wait until a process has ended by itself."""

        async def down() -> bool:
            return bool(self.ended)

        await self.until(down, "the node is killed")

    async def until_equal(self) -> None:
        """Wait until all nodes hold the same, committed and flushed."""

        async def equal() -> bool:
            states = [await self.state(node) for node in self.cluster.nodes]
            known = [offset for s in states if s is not None for offset in (s.dirty, s.flushed, s.commit)]
            return None not in states and len({*known}) == 1

        await self.until(equal, "all nodes hold the same")

    async def values(self, node: int) -> list[int]:
        """The values that a node shows as committed, in order."""
        return [batch.value for batch in await self.batches(node)]

    async def batches(self, node: int) -> list[RecordBatch]:
        """The batches with data that a node shows as committed, in order."""
        client = await self.cluster.client(node)
        found: list[RecordBatch] = []
        position = 0
        while True:
            answer = await asyncio.wait_for(client.read(position, committed=True), 5)
            assert isinstance(answer, ReadResult)
            found += [batch for batch in unpack_batches(answer.batches) if batch.kind is BatchKind.DATA]
            if answer.next_offset == position:
                client.close()
                return found
            position = answer.next_offset


async def append(client: NodeClient, value: int, size: int = 20, **options: Any) -> Any:  # noqa: ANN401
    """Append one value."""
    return await asyncio.wait_for(client.append(value.to_bytes(8, "big") + bytes(size), **options), 5)


def with_cluster(
    directory: Path,
    body: Callable[[Bench], Awaitable[_T]],
    nodes: int = 3,
    settings: Mapping[str, Any] = {},
    **options: Any,  # noqa: ANN401
) -> _T:
    """Run ``body`` on a fresh cluster and stop it."""

    async def run() -> _T:
        shared = {"timing": TIMING, **settings}
        ended: list[tuple[int, int]] = []
        noted = {"ended": lambda node, status: ended.append((node, status))}
        async with Cluster(directory, nodes=nodes, seed=1, settings=shared, **{**noted, **options}) as cluster:
            return await asyncio.wait_for(body(Bench(cluster, ended)), 60)

    return asyncio.run(run())


@pytest.fixture
def arena() -> Callable[..., Any]:
    """`with_cluster`, for tests that are not in a package."""
    return with_cluster


@pytest.fixture
def put() -> Callable[..., Any]:
    """`append`, likewise."""
    return append
