"""The three reads of real nodes (raft.md#read-levels), asked of a leader that is one no more."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loghistory import HybridClock, open_run
from loghistory.schema import Operation
from quorumlog.cluster.register import Register
from quorumlog.cluster.workload import Client, Load
from quorumlog.node.recording import HistoryFile
from quorumlog.node.wire import ReadResult, TailResult, unpack_batches
from quorumlog.storage.batch import BatchKind


async def read(client: Any, **options: Any) -> list[int]:  # noqa: ANN401
    answer = await asyncio.wait_for(client.read(0, **options), 5)
    assert isinstance(answer, ReadResult)
    return [batch.value for batch in unpack_batches(answer.batches) if batch.kind is BatchKind.DATA]


@pytest.mark.parametrize("fault", ["partition", "mute", "deafen"])
def test_a_leader_that_is_cut_off_serves_no_linearizable_read(
    fault: str, tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        cluster = bench.cluster
        old = await bench.leader()
        others = [node for node in cluster.nodes if node != old]
        client = await cluster.client(old)
        assert (await put(client, 1)).outcome == "success"
        index = await asyncio.wait_for(client.read_index(), 5)
        assert (index.outcome, index.offset) == ("success", (await bench.state(old)).commit)
        away = [] if fault == "deafen" else [(old, other) for other in others]
        back = [] if fault == "mute" else [(other, old) for other in others]
        cluster.cut(away + back)
        await asyncio.sleep(0.1)  # until they know, and what was under way has arrived

        async def hardly_linearizable() -> list[TailResult]:
            """Ask as often as it goes, until the others have another leader."""
            answers = []
            while (await bench.state(old)).role == "leader":
                try:
                    answers.append(await asyncio.wait_for(client.read_index(), 0.05))
                except TimeoutError:
                    continue
            return answers

        early = await hardly_linearizable()  # it steps down, although nobody tells it to
        assert {answer.outcome for answer in early} <= {"not_leader"}
        new = await bench.leader(among=others)
        assert (await put(await cluster.client(new), 2)).outcome == "success"
        refused = await asyncio.wait_for(client.read_index(), 5)
        assert (refused.outcome, refused.offset) == ("not_leader", -1)
        assert (await put(client, 3, acks=1)).outcome == "not_leader"
        if fault != "mute":  # it hears of nothing: what it serves is old, and a prefix
            assert await read(client) == await read(client, committed=True) == [1]
        cluster.mend(away + back)
        new = await bench.leader()
        client = await cluster.client(new)
        index = await asyncio.wait_for(client.read_index(), 5)
        assert index.outcome == "success"
        assert await read(client, committed=True) == [1, 2]
        assert (await bench.state(new)).commit >= index.offset

    arena(tmp_path, body)


def test_a_final_read_goes_on_to_the_end_and_an_ordinary_one_does_not(
    tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        client = await bench.cluster.client(await bench.leader())
        for value in range(3):
            await put(client, value, size=600_000)  # two fit into one answer
        recorder = HistoryFile(tmp_path / "clients.jsonl", HybridClock(), {})
        reader = Client(bench.cluster, Register(recorder), Load(timeout=10), random.Random(1))
        for f in (Operation.READ, Operation.READ_LINEARIZABLE, Operation.FINAL_READ):
            assert await reader.read(0, f, 0)
        reader.close()
        recorder.close()

    arena(tmp_path, body, nodes=1)
    answers = [row["count"] for row in open_run(tmp_path / "clients.jsonl").table().to_pylist() if row["kind"] == "ok"]
    assert answers[0] < 3
    assert answers[1:] == [3, 3]
