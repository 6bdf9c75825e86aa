"""What the driver adds to a core: one step is one moment of the history."""

from __future__ import annotations

import asyncio
import random
from itertools import count
from pathlib import Path

from loghistory import HybridClock, open_run
from quorumlog.node.driver import Place
from quorumlog.node.recording import HistoryFile
from quorumlog.raft.events import Started, Timer, TimerFired
from quorumlog.raft.real import REAL, Timing
from quorumlog.storage.files import FileDisk
from quorumlog.storage.log import Log


def test_the_events_of_one_step_have_one_time_however_long_it_takes(tmp_path: Path) -> None:
    """A node became a candidate; between its term and its role half a second went by and another was first."""
    seconds = count(1_000_000_000, 1_000_000_000)

    async def body() -> None:
        disk = FileDisk(tmp_path / "disk")
        clock = HybridClock(lambda: next(seconds))  # a second goes by with each look at it
        history = HistoryFile(tmp_path / "node.jsonl", clock, {"node": 0, "incarnation": 0})
        place = Place(
            node=0,
            nodes=(0,),
            timing=Timing(),
            write_caching=False,
            disk=disk,
            log=Log.open(disk, "log"),
            history=history,
            jitter=random.Random(1),
            send=lambda *_: None,
            failed=lambda *_: None,
        )
        driver = REAL.drive(place)
        driver.post(Started())
        driver.post(TimerFired(Timer.ELECTION))  # nobody else votes: pre-vote and candidacy are one step
        await driver.stop()

    asyncio.run(body())
    table = open_run(tmp_path / "node.jsonl").table()
    times = dict(zip(table["kind"].to_pylist(), table["time"].to_pylist(), strict=True))
    assert list(times) == ["term", "role", "stop"]
    assert times["term"] == times["role"] < times["stop"]
