"""Faults on real processes: those that overlap on a node end one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from loghistory import HybridClock
from quorumlog.cluster.faults import Injector
from quorumlog.cluster.register import Register
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
        for change in (injector._begin, injector._begin, injector._end, injector._end):
            await change("pause", 0)
            answers.append(await bench.state(0) is not None)
        assert answers == [False, False, False, True]

    arena(tmp_path, body)
