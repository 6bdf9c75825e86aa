"""Faults on real processes: those that overlap on a node end one by one; orders that a node obeys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loghistory import HybridClock
from quorumlog.cluster.faults import Injector
from quorumlog.cluster.register import Register
from quorumlog.durations import SECOND
from quorumlog.faults import Fault
from quorumlog.node.recording import HistoryFile


class Nobody:
    """A stage without a leader."""

    async def leader(self) -> int:
        return 0


def test_pauses_that_overlap_end_with_the_last_one(tmp_path: Path, arena: Callable[..., Any]) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        register = Register(HistoryFile(tmp_path / "clients.jsonl", HybridClock(), {}))

        injector = Injector(bench.cluster, register, (), 1, Nobody())
        answers = []
        pause = Fault(0, "pause", (0,))
        for change in (injector._begin, injector._begin, injector._end, injector._end):
            await change(pause if change == injector._begin else "pause", 0)
            answers.append(await bench.state(0) is not None)
        assert answers == [False, False, False, True]

    arena(tmp_path, body)


def test_a_process_ends_by_itself_after_so_many_effects(tmp_path: Path, arena: Callable[..., Any]) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        leader = await bench.leader()
        process = bench.cluster.process_id(leader)
        await asyncio.wait_for(bench.cluster.end_midway(leader, 1, 600.0), 30)
        assert not Path(f"/proc/{process}").exists()

    arena(tmp_path, body)


def test_a_leader_whose_clock_jumps_has_heard_nobody_for_too_long(tmp_path: Path, arena: Callable[..., Any]) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        leader = await bench.leader()
        before = await bench.state(leader)
        bench.cluster.jump_clock(leader, 60 * SECOND)

        async def left() -> bool:
            now = await bench.state(leader)
            return now is not None and now.term > before.term

        await bench.until(left, "another term")

    arena(tmp_path, body)
