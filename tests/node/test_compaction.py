"""Real nodes compact their logs by key: what was replaced is gone, and gaps are told of, whenever SIGKILL comes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from verdicts import judged, supervised

from loghistory import open_run
from quorumlog.node.wire import DoneResult

SETTINGS = {"largest_segment": 1024}
KEYS = 5
ONCE = 99
JUDGES = ("ghost-term", "gaps-are-explained", "newest-values-agree")

KILLED_WHILE_COMPACTING = """
import os, signal, sys
from pathlib import Path
from quorumlog.node.__main__ import main
from quorumlog.raft.driver import RaftDriver
from quorumlog.storage.files import FileDisk

mark, left = Path(sys.argv[1]), int(sys.argv[2])
del sys.argv[1:3]
replace, note = FileDisk.replace, RaftDriver._note

def killed():
    global left
    if left == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1

def replacing(disk, path, data):
    if path.endswith(".log"):
        killed()
    replace(disk, path, data)

def noting(driver, event):
    if event.kind == "compact":
        killed()
    note(driver, event)

FileDisk.replace, RaftDriver._note = replacing, noting
main()
"""
"""A node that is killed once: when it is about to replace a segment, or to note that it compacted, for the Nth time."""

MUTANT = """
import sys
from quorumlog.node.__main__ import main
from quorumlog.raft import real
from quorumlog.raft.mutants import MUTANTS

mutant = MUTANTS[sys.argv.pop(1)]
if mutant.make_core is not None:
    real.RaftCore = mutant.make_core
else:
    real.RaftDriver.superseded = staticmethod(mutant.stage.node_type.superseded)
main()
"""
"""A node with a mutant's core, or its choice of what may go."""


async def fill(put: Callable[..., Any], client: Any, values: range) -> None:  # noqa: ANN401
    """Append all values with acks=all, each in place of the one so many before it; one in so many has no key.

    Value 0 has a key that no other has.
    """
    answers = await asyncio.gather(
        *(put(client, value, size=60, key=value % KEYS if value else ONCE) for value in values)
    )
    assert {answer.outcome for answer in answers} == {"success"}


async def compact(bench: Any, node: int) -> None:  # noqa: ANN401
    """Have a node compact its log, once it has applied what is committed: that goes by its heartbeats."""
    await asyncio.sleep(0.2)
    client = await bench.cluster.client(node)
    done = await asyncio.wait_for(client.compact(), 10)
    assert isinstance(done, DoneResult)
    assert done.outcome == "success"
    client.close()


async def keyed(bench: Any, node: int) -> list[tuple[int, int]]:  # noqa: ANN401
    """Key and value of all that a node shows as committed, in order."""
    return [(batch.key, batch.value) for batch in await bench.batches(node)]


async def away_while_others_compact(bench: Any, put: Callable[..., Any]) -> list[int]:  # noqa: ANN401
    """One is down while the others append, compact and elect again; it comes back, and is told of the gaps."""
    cluster = bench.cluster
    first = await bench.leader()
    away, other = (first + 1) % 3, (first + 2) % 3
    client = await cluster.client(first)
    await fill(put, client, range(100))
    await cluster.kill(away)
    await fill(put, client, range(100, 200))
    client.close()
    for node in (first, other):
        await compact(bench, node)
    pairs = [(first, other), (other, first)]
    cluster.cut(pairs)  # it steps down, and whoever leads next does so in a later term
    await asyncio.sleep(0.6)
    cluster.mend(pairs)
    client = await cluster.client(leader := await bench.leader([first, other]))
    await fill(put, client, range(200, 260))
    await compact(bench, leader)
    client.close()
    await cluster.start(away)
    await cluster.wait_for(away)
    return [away, leader]


def verdicts(directory: Path, ends: Any) -> dict[str, Any]:  # noqa: ANN401
    """What the checker says of the run, by check."""
    verdict = judged(directory, list((directory / "histories").iterdir()), ends, [0, 1, 2])
    return {check["id"]: check for check in verdict["checks"]}


def test_what_was_replaced_goes_and_who_was_away_is_told_of_gaps(
    tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        away, leader = await away_while_others_compact(bench, put)
        await bench.until_equal()
        for node in bench.cluster.nodes:
            held = await keyed(bench, node)
            assert [value for key, value in held if key == 0] == [*range(KEYS, 260, KEYS)]  # what has no key stays
            assert dict(held) == {ONCE: 0, 0: 255, **{key: 255 + key for key in range(1, KEYS)}}
        assert len(await keyed(bench, leader)) < 120
        # It never had what the others had removed.
        assert len(await keyed(bench, away)) < 220

    ends = supervised(tmp_path)
    arena(tmp_path, body, settings=SETTINGS, recorder=ends)
    found = verdicts(tmp_path, ends)
    assert [id_ for id_, check in found.items() if check["verdict"] == "violated"] == []
    for id_ in JUDGES:
        assert found[id_]["verdict"] == "holds", id_
        assert found[id_]["judged"] >= 3, found[id_]


@pytest.mark.long
@pytest.mark.parametrize(
    ("mutant", "notices"),
    [
        ("last-gap-missed", "log-matching"),
        ("drops-last-of-key", "gaps-are-explained"),
    ],
)
def test_a_mutant_on_real_nodes_is_found(
    mutant: str, notices: str, tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        await away_while_others_compact(bench, put)
        await asyncio.sleep(1)

    ends = supervised(tmp_path)
    command = (sys.executable, "-c", MUTANT, mutant)
    arena(tmp_path, body, settings=SETTINGS, recorder=ends, command=command)
    assert verdicts(tmp_path, ends)[notices]["verdict"] == "violated"


@pytest.mark.long
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 7])
def test_killed_in_the_middle_of_a_compaction(
    steps: int, tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    mark = tmp_path / "killed"

    async def body(bench: Any) -> None:  # noqa: ANN401
        cluster = bench.cluster
        client = await cluster.client(await bench.leader())
        await fill(put, client, range(100))
        await asyncio.sleep(0.2)  # it is applied with a heartbeat
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(client.compact(), 10)
        await bench.until_killed()
        await cluster.start(0)
        await cluster.wait_for(0)
        client = await cluster.client(await bench.leader())
        await compact(bench, 0)
        await fill(put, client, range(100, 120))
        held = await keyed(bench, 0)
        assert dict(held) == {ONCE: 0, 0: 115, **{key: 115 + key for key in range(1, KEYS)}}
        assert [value for key, value in held if key == 0] == [*range(KEYS, 120, KEYS)]

    ends = supervised(tmp_path)
    arena(
        tmp_path,
        body,
        nodes=1,
        recorder=ends,
        settings=SETTINGS,
        command=(sys.executable, "-c", KILLED_WHILE_COMPACTING, str(mark), str(steps)),
    )
    assert mark.exists()
    histories = tmp_path / "histories"
    first, again = histories / "node-0.0.jsonl.part", histories / "node-0.1.jsonl"
    reported = open_run(again).table().to_pylist()
    begins = next(at for at, row in enumerate(reported) if row["kind"] == "start")
    # The next incarnation says what the one before had removed and could not say any more.
    assert {row["kind"] for row in reported[:begins]} == ({"compact"} if steps else set())
    verdict = judged(tmp_path, [first, again], ends, [0])
    assert verdict["verdict"] == "holds", verdict
