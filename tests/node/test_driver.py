"""What the driver adds to a core: one step is one moment of the history, and is written before entries go for good."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from loghistory import HybridClock, open_run
from quorumlog.events import Effect, Event, Note, Started, TimerFired
from quorumlog.node.driver import Place
from quorumlog.node.recording import History, HistoryFile, NoHistory, find_history, whole_events
from quorumlog.raft.driver import RaftDriver
from quorumlog.raft.events import Timer
from quorumlog.raft.messages import AppendEntries, Heartbeat, InstallSnapshot
from quorumlog.raft.real import REAL, Timing
from quorumlog.raft.snapshot import Snapshot, State
from quorumlog.storage.batch import BatchKind, RecordBatch
from quorumlog.storage.files import FileDisk
from quorumlog.storage.log import Log


def place(disk: FileDisk, history: History, nodes: tuple[int, ...], segment_bytes: int) -> Place:
    """Node 0 of these, alone with its disk."""
    return Place(
        node=0,
        nodes=nodes,
        timing=Timing(flush_delay=1),
        write_caching=False,
        disk=disk,
        log=Log.open(disk, "log", segment_bytes),
        history=history,
        jitter=random.Random(1),
        send=lambda *_: None,
        disconnect=lambda _: None,
        failed=lambda *_: None,
    )


def kinds_written(path: Path) -> list[str]:
    """The kinds of the events that are in the file of a history in progress."""
    found = find_history(path)
    assert found is not None
    return [event.kind for event in whole_events(found)]


def test_the_events_of_one_step_have_one_time_however_long_it_takes(tmp_path: Path) -> None:
    """A node became a candidate; between its term and its role half a second went by and another was first."""
    seconds = count(1_000_000_000, 1_000_000_000)

    async def body() -> None:
        clock = HybridClock(lambda: next(seconds))  # a second goes by with each look at it
        history = HistoryFile(tmp_path / "node.jsonl", clock, {"node": 0, "incarnation": 0})
        driver = REAL.drive(place(FileDisk(tmp_path / "disk"), history, (0,), 1 << 20))
        driver.post(Started())
        driver.post(TimerFired(Timer.ELECTION))  # nobody else votes: pre-vote and candidacy are one step
        await driver.stop()

    asyncio.run(body())
    table = open_run(tmp_path / "node.jsonl").table()
    times = dict(zip(table["kind"].to_pylist(), table["time"].to_pylist(), strict=True))
    assert list(times) == ["term", "role", "stop"]
    assert times["term"] == times["role"] < times["stop"]


def test_what_led_to_a_trim_is_written_before_a_segment_goes(tmp_path: Path) -> None:
    """Afterwards the log could not tell any more what was missing in the file: see `quorumlog.node.missing`."""
    written: list[list[str]] = []

    class Watched(FileDisk):
        def remove(self, path: str) -> None:
            written.append(kinds_written(tmp_path / "node.jsonl"))
            super().remove(path)

    async def body() -> None:
        history = HistoryFile(tmp_path / "node.jsonl", HybridClock(), {"node": 0, "incarnation": 0})
        driver = REAL.drive(place(Watched(tmp_path / "disk"), history, (0, 1, 2), 200))
        batches = tuple(RecordBatch(offset, 1, BatchKind.DATA, 1, -1, bytes(100)) for offset in range(10))
        driver.received(1, [AppendEntries(1, 1, -1, -1, -1, -1, False, batches)])
        async with asyncio.timeout(5):
            while driver.core.flushed < 9 or driver.core._saving_term:
                await asyncio.sleep(0.01)
        # All in one turn of the loop, in which nothing is handed out.
        driver.received(1, [Heartbeat(1, 2, 9, 1, 9, 9)])
        driver.retain(1)
        assert driver.log.start_offset == 8
        snapshot = Snapshot(99, 1, -1, b"0,1,2", State())
        driver.received(1, [InstallSnapshot(1, 3, 99, 0, snapshot.encode(), True)])
        assert (driver.log.start_offset, driver.log.dirty) == (100, 99)
        await driver.stop()

    asyncio.run(body())
    assert [kinds[-2:] for kinds in written] == [["visible", "apply"]] * 4 + [["trim", "part"]]


def test_without_a_history_a_node_does_the_same_and_makes_no_notes(tmp_path: Path) -> None:
    """What nobody records is not made, and nothing else is left out."""
    effects: dict[bool, list[list[Effect]]] = {}

    async def body(*, records: bool) -> None:
        directory = tmp_path / str(records)
        directory.mkdir()
        clock = HybridClock()
        common = {"node": 0, "incarnation": 0}
        history = HistoryFile(directory / "node.jsonl", clock, common) if records else NoHistory(clock)
        driver = REAL.drive(place(FileDisk(directory / "disk"), history, (0,), 1 << 20))
        core, handle = driver.core, driver.core.handle
        made = effects[records] = []

        def watched(now: int, event: Event) -> Sequence[Effect]:
            made.append(list(handle(now, event)))
            return made[-1]

        driver.core.handle = watched  # type: ignore[method-assign]
        driver.post(Started())
        driver.post(TimerFired(Timer.ELECTION))
        ended: list[str] = []
        async with asyncio.timeout(5):
            while not core.commit == core.flushed == 0:
                await asyncio.sleep(0.01)
            batch = RecordBatch(0, 0, BatchKind.DATA, 2, -1, bytes(100))
            driver.append(batch, -1, False, lambda: None, lambda end: ended.append(end.outcome))
            while not ended:
                await asyncio.sleep(0.01)
        await driver.stop()
        assert ended == ["success"]

    for records in (True, False):
        asyncio.run(body(records=records))
    noted, others = (
        {kept: [each for step in effects[kept] for each in step if isinstance(each, Note) is notes] for kept in effects}
        for notes in (True, False)
    )
    assert {"role", "append", "enqueue", "hand_over", "acked", "flush"} <= {each.kind for each in noted[True]}
    assert not noted[False]
    # How often flushes and timers come is up to the machine.
    assert {*map(type, others[False])} == {*map(type, others[True])}


def test_what_was_cut_off_is_not_applied(tmp_path: Path) -> None:
    """What was just appended is applied without being read back: it has to be what the log holds."""

    def entries(first: int, term: int) -> tuple[RecordBatch, ...]:
        return tuple(RecordBatch(at, term, BatchKind.DATA, 1, 1, bytes([term] * 8)) for at in range(first, 4))

    async def body() -> None:
        history = HistoryFile(tmp_path / "node.jsonl", HybridClock(), {"node": 0, "incarnation": 0})
        driver = REAL.drive(place(FileDisk(tmp_path / "disk"), history, (0, 1, 2), 1 << 20))
        assert isinstance(driver, RaftDriver)
        for term, first, before in ((1, 0, 0), (2, 2, 1)):
            driver.received(term, [AppendEntries(term, 1, first - 1, before, -1, -1, True, entries(first, term))])
        async with asyncio.timeout(5):
            while driver.core.flushed < 3:
                await asyncio.sleep(0.01)
        driver.received(2, [Heartbeat(2, 2, 3, 2, 3, 3)])
        assert driver.core.applied == 3
        assert driver._machine.state == State().applied([*entries(0, 1)[:2], *entries(2, 2)])
        await driver.stop()

    asyncio.run(body())


def keyed(directory: Path) -> RaftDriver:
    """A node that holds ten batches of one key, committed, in segments of two."""
    history = HistoryFile(directory / "node.jsonl", HybridClock(), {"node": 0, "incarnation": 0})
    driver = REAL.drive(place(FileDisk(directory / "disk"), history, (0, 1, 2), 200))
    assert isinstance(driver, RaftDriver)
    batches = tuple(RecordBatch(offset, 1, BatchKind.DATA, 1, -1, bytes(100), key=1) for offset in range(10))
    driver.received(1, [AppendEntries(1, 1, -1, -1, -1, -1, False, batches)])
    return driver


async def settled(driver: RaftDriver) -> None:
    """Wait until log and term are on its disk; then all of it is committed."""
    async with asyncio.timeout(5):
        while driver.core.flushed < 9 or driver.core._saving_term:
            await asyncio.sleep(0.01)
    driver.received(1, [Heartbeat(1, 2, 9, 1, 9, 9)])


def test_what_was_trimmed_meanwhile_is_not_compacted(tmp_path: Path) -> None:
    async def body() -> None:
        driver = keyed(tmp_path)
        await settled(driver)
        chosen = deque(driver.log.superseded(9))
        gone = {first for first, _ in chosen}
        driver.retain(900)
        left = [place.base_offset for place in driver.log.headers()]
        assert chosen[0][0] < left[0] <= chosen[-1][0]
        driver._compact_on(0, chosen)
        async with asyncio.timeout(5):
            while chosen:
                await asyncio.sleep(0.01)
        kept = [offset for offset in left if offset not in gone]
        assert [place.base_offset for place in driver.log.headers()] == kept
        assert (driver.core.index.start, len(driver.core.index)) == (left[0], len(kept))
        await driver.stop()

    asyncio.run(body())


def test_compaction_waits_until_the_term_is_on_disk(tmp_path: Path) -> None:
    """raft.md#summed-in-saved-term: the core would refuse it, and whoever asked be told that it was done."""

    async def body() -> None:
        driver = keyed(tmp_path)
        await settled(driver)
        chosen = deque(driver.log.superseded(9))
        driver._saving = True
        driver._compact_on(0, chosen)
        waiting = len(chosen)
        assert waiting
        assert len([*driver.log.headers()]) == 10
        driver._saving = False
        async with asyncio.timeout(5):
            while chosen:
                await asyncio.sleep(0.01)
        assert len([*driver.log.headers()]) == 10 - waiting
        await driver.stop()

    asyncio.run(body())


def test_no_append_that_has_ended_counts_as_queued(tmp_path: Path) -> None:
    """Neither one that is refused nor one that has its place; or a node would say one day that it is busy, for ever."""

    async def body() -> None:
        for alone in (False, True):
            history = HistoryFile(tmp_path / f"{alone}.jsonl", HybridClock(), {"node": 0, "incarnation": 0})
            voters = (0,) if alone else (0, 1, 2)
            driver = REAL.drive(place(FileDisk(tmp_path / f"disk-{alone}"), history, voters, 1 << 20))
            done: list[object] = []
            driver.post(Started())
            if alone:
                driver.post(TimerFired(Timer.ELECTION))
            async with asyncio.timeout(5):
                while alone and driver.core.commit < 0:
                    await asyncio.sleep(0.01)
                assert driver.append(RecordBatch(-1, -1, BatchKind.DATA, 1, 1, bytes(8)), -1, False, list, done.append)
                while not done:
                    await asyncio.sleep(0.01)
            assert driver._queued_bytes == 0
            await driver.stop()

    asyncio.run(body())


def test_a_core_is_configured_as_its_place_says_and_shares_the_slots_of_its_process(tmp_path: Path) -> None:
    """raft.md#may-recover, raft.md#wiped-disk, raft.md#write-caching."""

    async def body() -> None:
        cores = []
        for group in range(2):
            history = HistoryFile(tmp_path / f"{group}.jsonl", HybridClock(), {"node": 0, "incarnation": 0})
            given = place(FileDisk(tmp_path / f"disk-{group}"), history, (0, 1, 2), 200)
            driver = REAL.drive(replace(given, write_caching=True, least_session=7))
            assert isinstance(driver, RaftDriver)
            cores.append(driver.core)
            await driver.stop()
        assert cores[0].slots is cores[1].slots
        assert (cores[0].configuration.write_caching, cores[0].configuration.least_session) == (True, 7)

    asyncio.run(body())


def test_what_a_client_asked_for_is_written_before_the_log_shows_that_it_was_done(tmp_path: Path) -> None:
    """After a SIGKILL between the two the log would show an append that nobody had enqueued."""
    written: list[list[str]] = []
    done: list[object] = []

    class Watched(Log):
        def append(self, batches: Sequence[RecordBatch]) -> None:
            written.append(kinds_written(tmp_path / "node.jsonl"))
            super().append(batches)

    async def body() -> None:
        history = HistoryFile(tmp_path / "node.jsonl", HybridClock(), {"node": 0, "incarnation": 0})
        alone = place(FileDisk(tmp_path / "disk"), history, (0,), 1 << 20)
        driver = REAL.drive(replace(alone, log=Watched.open(alone.disk, "log", 1 << 20)))
        driver.post(Started())
        driver.post(TimerFired(Timer.ELECTION))
        async with asyncio.timeout(5):
            while driver.core.commit < 0:  # it serves once an entry of its own term is committed
                await asyncio.sleep(0.01)
            batch = RecordBatch(-1, -1, BatchKind.DATA, 1, 1, bytes(8))
            assert driver.append(batch, -1, False, lambda: None, done.append)
            while not done:
                await asyncio.sleep(0.01)
        await driver.stop()

    asyncio.run(body())
    assert written[-1][-1] == "enqueue", (written, done)


def carried_out(directory: Path, effects: int | None) -> list[str]:
    """The effects of one step that a follower carries out, of which `Driver.end_midway` allows so many."""
    done: list[str] = []

    async def body() -> None:
        driver = REAL.drive(place(FileDisk(directory), NoHistory(HybridClock()), (0, 1, 2), 1 << 20))
        for kind, carry_out in [*driver._carry_out.items()]:

            def noted(effect: Effect, carry_out: Callable[[Effect], object] = carry_out) -> None:
                print(type(effect).__name__, flush=True)
                done.append(type(effect).__name__)
                carry_out(effect)

            driver._carry_out[kind] = noted  # type: ignore[index]
        if effects is not None:
            driver.end_midway(effects)
        batch = RecordBatch(0, 1, BatchKind.DATA, 1, -1, bytes(100))
        driver.received(1, [AppendEntries(1, 1, -1, -1, -1, -1, True, (batch,))])
        driver.halt()

    asyncio.run(body())
    return done


def ends_midway(directory: str) -> None:
    """Played in a process of its own."""
    every = carried_out(Path(directory, "all"), None)
    carried_out(Path(directory, "enough"), len(every))
    print("midway", flush=True)
    carried_out(Path(directory, "few"), 2)


def test_a_process_ends_midway_after_so_many_effects_of_the_first_step_that_has_more(tmp_path: Path) -> None:
    for name in ("all", "enough", "few"):
        (tmp_path / name).mkdir()
    code = "import sys, runpy; runpy.run_path(sys.argv[1])['ends_midway'](sys.argv[2])"
    command = [sys.executable, "-c", code, __file__, str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr
    steps, midway = (part.split() for part in process.stdout.split("midway"))
    half = len(steps) // 2
    assert half > 2
    assert steps[:half] == steps[half:]
    assert midway == steps[:2]
