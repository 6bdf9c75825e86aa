"""Real nodes with a retention: what is committed and not to be kept is gone from the disk, whenever SIGKILL comes."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdicts import judged, supervised

from loghistory import open_run
from quorumlog.node.wire import unpack_batches
from quorumlog.storage.batch import BatchKind, RecordBatch
from quorumlog.storage.log import Log
from quorumlog.storage.segment import parse_segment_name
from quorumlog.storage.simulated import SimulatedDisk

RETENTION = 8192
SIZE = 500
"""Payload of an append, in bytes."""

KILLED_WHILE_TRIMMING = """
import os, signal, sys
from pathlib import Path
from quorumlog.node.__main__ import main
from quorumlog.storage.files import FileDisk

mark = Path(sys.argv[1])
left = int(sys.argv[2])
del sys.argv[1:3]
remove = FileDisk.remove

def killed(disk, path):
    global left
    if left == 0 and path.endswith(".log") and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    remove(disk, path)

FileDisk.remove = killed
main()
"""
"""A node that is killed once, when it is about to remove its Nth segment."""


def rows(path: Path, *kinds: str) -> list[dict[str, Any]]:
    """The events of some kinds in a history file."""
    return [row for batch in open_run(path).batches(kinds=list(kinds)) for row in batch.to_pylist()]


def on_disk(directory: Path, node: int) -> tuple[int, int]:
    """First offset of the oldest segment file of a node, and the bytes of all of them."""
    segments = sorted((directory / f"node-{node}" / "log").glob("*.log"))
    if not segments:  # it is begun anew just now
        return 0, 1 << 62
    named = parse_segment_name(segments[0].name)
    assert named is not None
    return named[0], sum(path.stat().st_size for path in segments)


async def fill(bench: Any, put: Callable[..., Any], values: range) -> None:  # noqa: ANN401
    """Append all values with acks=all."""
    client = await bench.cluster.client(await bench.leader())
    for begin in range(values.start, values.stop, 20):
        group = range(begin, min(begin + 20, values.stop))
        answers = await asyncio.gather(*(put(client, value, size=SIZE) for value in group))
        assert {answer.outcome for answer in answers} == {"success"}


def test_what_is_not_kept_is_gone_from_the_disk_and_stays_gone(
    tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        cluster = bench.cluster
        await fill(bench, put, range(100))  # 50 KB: six times as much as is kept

        async def small() -> bool:
            states = [await bench.state(node) for node in cluster.nodes]  # who began anew shows nothing at first
            fits = (on_disk(tmp_path, node)[1] < 1.5 * RETENTION for node in cluster.nodes)
            return all(state is not None and state.commit >= state.start for state in states) and all(fits)

        await bench.until(small, "the disks hold about what is to be kept")
        starts = {}
        for node in cluster.nodes:
            state = await bench.state(node)
            starts[node] = state.start
            assert state.start == on_disk(tmp_path, node)[0] > 50  # not a byte of what lies before the start
            assert on_disk(tmp_path, node)[1] >= RETENTION
            client = await cluster.client(node)
            first = unpack_batches((await client.read(0, committed=True)).batches)[0]
            assert first.base_offset == state.start

        # After SIGKILL the log begins where it began, and what is committed does not go back behind that.
        follower = (await bench.leader() + 1) % 3
        await cluster.kill(follower)
        await cluster.start(follower)
        await cluster.wait_for(follower)
        assert (await bench.state(follower)).start >= starts[follower]

        # One that was down while the others went on begins anew where its leader's log begins.
        await cluster.kill(follower)
        await fill(bench, put, range(100, 200))

        async def beyond() -> bool:
            states = [await bench.state(node) for node in cluster.nodes if node != follower]
            return all(state.start > 120 for state in states)

        await bench.until(beyond, "the others give up what the follower would need")
        await cluster.start(follower)
        await cluster.wait_for(follower)
        await bench.until_equal()
        assert (await bench.values(follower))[-1] == 199

    ends = supervised(tmp_path)
    arena(tmp_path, body, settings={"retention": RETENTION}, recorder=ends)
    files = list((tmp_path / "histories").iterdir())
    trims = [row for path in files for row in rows(path, "trim")]
    assert all(row[name] is not None for row in trims for name in ("term", "dirty", "flushed", "commit", "visible"))
    assert all(row["offset"] <= row["commit"] + 1 for row in trims)
    assert any(row["dirty"] < row["offset"] for row in trims), "no log was begun anew"
    verdict = judged(tmp_path, files, ends, [0, 1, 2])
    assert verdict["verdict"] == "holds", verdict


@pytest.mark.parametrize("segments", [0, 1])
def test_killed_in_the_middle_of_a_trim(
    segments: int, tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    mark = tmp_path / "killed"

    async def body(bench: Any) -> None:  # noqa: ANN401
        cluster = bench.cluster
        client = await cluster.client(await bench.leader())
        value = 0
        while not bench.ended:
            value += 1
            try:
                await put(client, value, size=SIZE)
            except ConnectionError:
                break
            await asyncio.sleep(0.001 * (value % 5 == 0))
        await bench.until_killed()
        left, _ = on_disk(tmp_path, 0)
        await cluster.start(0)
        await cluster.wait_for(0)
        state = await bench.state(0)
        assert state.start > left  # the trim is done: its start had been written down before the first segment went
        assert on_disk(tmp_path, 0)[0] == state.start
        await fill(bench, put, range(1000, 1040))

    ends = supervised(tmp_path)
    arena(
        tmp_path,
        body,
        nodes=1,
        recorder=ends,
        settings={"retention": RETENTION},
        command=(sys.executable, "-c", KILLED_WHILE_TRIMMING, str(mark), str(segments)),
    )
    assert mark.exists()
    histories = tmp_path / "histories"
    first, again = histories / "node-0.0.jsonl.part", histories / "node-0.1.jsonl"
    found = rows(again, "trim", "start")
    # The next incarnation says what the one before could not: it had begun to trim, at a start that then holds.
    assert [row["kind"] for row in found[:2]] == ["trim", "start"]
    assert (found[0]["incarnation"], found[1]["incarnation"]) == (0, 1)
    assert found[0]["offset"] == found[1]["commit"] + 1
    known = rows(first, "commit")[-1]["commit"]
    assert found[0]["offset"] <= known + 1, "what was committed was not written before the log was trimmed"
    verdict = judged(tmp_path, [first, again], ends, [0])
    # Its record may have lost the snapshot with its end: then it has none (history-checks.md#never-recorded).
    kept = bool(rows(first, "snapshot") + rows(again, "snapshot"))
    assert verdict["verdict"] == ("holds" if kept else "undecided"), verdict
    reasons = {each["reason"] for each in verdict["checks"] if each["verdict"] == "undecided"}
    assert reasons == (set() if kept else {"no snapshot event is recorded"})


@given(
    sizes=st.lists(st.integers(8, 300), min_size=1, max_size=30),
    kept=st.integers(1, 3000),
    committed=st.integers(-1, 30),
)
def test_only_whole_segments_go(sizes: list[int], kept: int, committed: int) -> None:
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, "log", segment_bytes=400)
    for offset, size in enumerate(sizes):
        log.append([RecordBatch(offset, 1, BatchKind.DATA, 1, -1, bytes(size))])
    before = {name: disk.size(f"log/{name}") for name in disk.list("log") if name.endswith(".log")}
    start = log.start_to_keep(kept, committed)
    log.trim(start)
    after = {name: disk.size(f"log/{name}") for name in disk.list("log") if name.endswith(".log")}
    assert start == log.start_offset == (parse_segment_name(min(after)) or (-1,))[0]
    assert start <= max(committed + 1, 0)
    assert sum(after.values()) >= min(kept, sum(before.values()))
    # No further segment could have gone.
    behind = sorted(after)[1:]
    if behind:
        following = (parse_segment_name(behind[0]) or (-1,))[0]
        assert following > committed + 1 or sum(after[name] for name in behind) < kept
