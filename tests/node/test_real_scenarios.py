"""Scenarios of Raft on real processes; the simulator plays all of them (quorumlog/raft/scenarios.toml).

Others are played elsewhere: raft.md#scenario-1 and raft.md#scenario-3 in test_cluster_command and test_process,
raft.md#scenario-9, raft.md#scenario-19 and raft.md#scenario-20 in test_members.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quorumlog.cluster.processes import Pair


def both_ways(node: int, others: list[int]) -> list[Pair]:
    """The links between a node and others."""
    return [pair for other in others for pair in ((node, other), (other, node))]


async def isolated_leader(bench: Any, put: Callable[..., Any]) -> tuple[int, list[int], Any]:  # noqa: ANN401
    """A leader that is cut off once 1 is acknowledged: its node, the others, and its client."""
    leader = await bench.leader()
    others = [node for node in bench.cluster.nodes if node != leader]
    client = await bench.cluster.client(leader)
    assert (await put(client, 1)).outcome == "success"
    bench.cluster.cut(both_ways(leader, others))
    return leader, others, client


def test_what_an_isolated_leader_took_is_truncated_and_its_caller_learns_so(
    tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    """raft.md#scenario-6."""

    async def body(bench: Any) -> None:  # noqa: ANN401
        cluster = bench.cluster
        old, others, client = await isolated_leader(bench, put)
        waiting = client.append((2).to_bytes(8, "big"), acks=-1)
        new = await bench.leader(among=others)
        assert (await put(await cluster.client(new), 3)).outcome == "success"
        assert not waiting.done()
        cluster.mend(both_ways(old, others))
        answer = await asyncio.wait_for(waiting, 10)
        assert (answer.outcome, answer.leader) == ("truncated", new)
        await bench.until_equal()
        assert [await bench.values(node) for node in cluster.nodes] == [[1, 3]] * 3

    arena(tmp_path, body)


@pytest.mark.long
def test_a_crashed_leader_that_comes_back_with_a_longer_log_gives_it_up(
    tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    """raft.md#scenario-8."""

    async def body(bench: Any) -> None:  # noqa: ANN401
        cluster = bench.cluster
        old, others, client = await isolated_leader(bench, put)
        for value in range(100, 120):
            assert (await put(client, value, acks=1)).outcome == "success"
        longer = (await bench.state(old)).dirty
        await cluster.kill(old)
        cluster.mend(both_ways(old, others))
        new = await bench.leader(among=others)
        assert (await put(await cluster.client(new), 2)).outcome == "success"
        assert (await bench.state(new)).dirty < longer
        await cluster.start(old)
        await cluster.wait_for(old)
        await bench.until_equal()
        assert [await bench.values(node) for node in cluster.nodes] == [[1, 2]] * 3

    arena(tmp_path, body)


def test_a_batch_larger_than_a_round_goes_through_and_order_is_kept(
    tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    """raft.md#scenario-16 and raft.md#scenario-17."""

    async def body(bench: Any) -> None:  # noqa: ANN401
        client = await bench.cluster.client(await bench.leader())
        sizes = [100, 3 << 20, *[2000] * 200, 3 << 20, *[10] * 50]
        appends = [client.append(at.to_bytes(8, "big") + bytes(size)) for at, size in enumerate(sizes)]
        answers = await asyncio.wait_for(asyncio.gather(*appends), 30)
        assert {answer.outcome for answer in answers} == {"success"}
        offsets = [answer.offset for answer in answers]
        assert offsets == sorted(offsets)
        await bench.until_equal()
        for node in bench.cluster.nodes:
            assert await bench.values(node) == [*range(len(sizes))]
        assert (await put(client, len(sizes))).outcome == "success"

    arena(tmp_path, body)


@pytest.mark.long
def test_a_power_loss_of_the_leader_alone_loses_nothing_acknowledged_by_all(
    tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    """raft.md#scenario-21."""

    async def body(bench: Any) -> None:  # noqa: ANN401
        cluster, old = bench.cluster, await bench.leader()
        client = await cluster.client(old)
        appends = [client.append(at.to_bytes(8, "big"), acks=-1 if at % 2 else 1) for at in range(100)]
        await asyncio.wait(appends[50:52])
        await cluster.lose_power(old, random.Random(1))
        answers = await asyncio.wait_for(asyncio.gather(*appends, return_exceptions=True), 10)
        done = {at for at, answer in enumerate(answers) if getattr(answer, "outcome", "") == "success"}
        promised = {at for at in done if at % 2}
        assert len(promised) > 20
        new = await bench.leader(among=[node for node in cluster.nodes if node != old])
        assert (await put(await cluster.client(new), 1000)).outcome == "success"
        await cluster.start(old)
        await cluster.wait_for(old)
        await bench.until_equal()
        for node in cluster.nodes:
            assert promised <= {*await bench.values(node)}

    arena(tmp_path, body, loses_power=True)
