"""Merging the files of processes: one order, the order inside a file kept, nothing received before it is sent."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loghistory import FileSink, HistoryError, HybridClock, Recorder, merge_runs, open_run
from loghistory import merge as merging

Story = list[tuple[int, int, str, int]]
"""Events of one file: time, logical, kind (send, receive, stop) and message."""


def record(path: Path, node: int, story: Story, *, closed: bool = True) -> Path:
    recorder = Recorder(FileSink(path))
    for time, logical, kind, message in story:
        columns: dict[str, Any] = {} if kind == "stop" else {"peer": 0, "f": "x", "message": message}
        recorder.event(kind, time=time, logical=logical, node=node, **columns)
    if closed:
        recorder.close()
    else:
        recorder.flush()
    return path


def merged(directory: Path) -> list[tuple[int, str, int | None]]:
    rows = open_run(directory).table().to_pylist()
    assert [row["seq"] for row in rows] == list(range(len(rows)))
    return [(row["node"], row["kind"], row["message"]) for row in rows]


# Name: the files' stories, the merged order as node, kind, message, and the notes.
SCENARIOS: dict[str, tuple[list[Story], list[tuple[int, str, int | None]], list[str]]] = {
    "by time, then counter, then file": (
        [[(5, 0, "stop", 0), (7, 2, "stop", 0)], [(5, 0, "stop", 0), (5, 1, "stop", 0), (7, 1, "stop", 0)]],
        [(0, "stop", None), (1, "stop", None), (1, "stop", None), (1, "stop", None), (0, "stop", None)],
        [],
    ),
    "an empty file": ([[], [(1, 0, "stop", 0)]], [(1, "stop", None)], []),
    "clocks that were merged": (
        [[(5, 0, "send", 1), (5, 2, "receive", 2)], [(5, 1, "receive", 1), (5, 2, "send", 2)], []],
        [(0, "send", 1), (1, "receive", 1), (1, "send", 2), (0, "receive", 2)],
        ["Receives stamped before their send, moved behind it: 1."],
    ),
    "a clock that is behind": (
        [[(100, 0, "send", 1)], [(5, 0, "receive", 1), (6, 0, "send", 2), (101, 0, "stop", 0)], [(7, 0, "receive", 2)]],
        [(0, "send", 1), (1, "receive", 1), (1, "send", 2), (2, "receive", 2), (1, "stop", None)],
        ["Receives stamped before their send, moved behind it: 2."],
    ),
    "a clock that goes back": (
        [[(9, 0, "stop", 0), (3, 0, "send", 1), (4, 0, "send", 2)], [(5, 0, "stop", 0), (10, 0, "receive", 2)]],
        [(1, "stop", None), (0, "stop", None), (0, "send", 1), (0, "send", 2), (1, "receive", 2)],
        ["Events stamped earlier than an event before them in their file: 2."],
    ),
    "a send that is lost": (
        [[(1, 0, "stop", 0)], [(5, 0, "receive", 8), (6, 0, "stop", 0)]],
        [(0, "stop", None), (1, "receive", 8), (1, "stop", None)],
        ["Messages received whose send is not recorded: 1."],
    ),
    "a message delivered twice": (
        [[(1, 0, "send", 1)], [(2, 0, "receive", 1), (3, 0, "receive", 1)]],
        [(0, "send", 1), (1, "receive", 1), (1, "receive", 1)],
        [],
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(tmp_path: Path, name: str) -> None:
    stories, order, notes = SCENARIOS[name]
    files = [record(tmp_path / f"node-{node}.jsonl", node, story) for node, story in enumerate(stories)]
    for number, arranged in enumerate(permutations(files)):
        manifest = merge_runs(arranged, tmp_path / f"run{number}")
        assert merged(tmp_path / f"run{number}") == order
        assert manifest.notes == notes
        assert manifest.made_by == {"merged": [path.name for path in files]}


def test_messages_in_a_circle_are_refused(tmp_path: Path) -> None:
    first = record(tmp_path / "a.jsonl", 0, [(1, 0, "receive", 2), (2, 0, "send", 1)])
    second = record(tmp_path / "b.jsonl", 1, [(1, 0, "receive", 1), (2, 0, "send", 2)])
    with pytest.raises(HistoryError) as error:
        merge_runs([first, second], tmp_path / "run")
    assert str(error.value) == (
        f"{first}, field message: messages are received before they are sent, in a circle: "
        "give every message of the run its own number"
    )
    assert not (tmp_path / "run").exists()


def test_a_send_long_after_its_receive_is_refused(tmp_path: Path) -> None:
    """The clocks are hours apart and were not merged: the send is not in memory when its receive is due."""
    early = record(tmp_path / "a.jsonl", 0, [(n, 0, "receive" if n == 5 else "stop", 1) for n in range(9)])
    many = 3 * merging.BATCH_ROWS
    late = record(tmp_path / "b.jsonl", 1, [(n, 0, "send" if n == many - 1 else "stop", 1) for n in range(many)])
    with pytest.raises(HistoryError) as error:
        merge_runs([early, late], tmp_path / "run")
    assert str(error.value) == (
        f"{late}, field time: message 1 is sent here, long after {early} received it: "
        "stamp events with hybrid logical clocks that merge the stamp of each message received"
    )


def test_what_killed_processes_left_is_merged(tmp_path: Path) -> None:
    whole = record(tmp_path / "node-1.jsonl", 1, [(1, 0, "send", 1), (9, 0, "stop", 0)])
    killed = record(tmp_path / "node-2.jsonl", 2, [(2, 0, "receive", 1), (3, 0, "stop", 0)], closed=False)
    with (tmp_path / "node-2.jsonl.part").open("ab") as file:
        file.write(b'{"seq":2,"ti')
    manifest = merge_runs([whole, killed], tmp_path / "run", {"name": "x", "notes": ["given"]}, "zst")
    assert merged(tmp_path / "run") == [(1, "send", 1), (2, "receive", 1), (2, "stop", None), (1, "stop", None)]
    assert manifest.notes == [
        "given",
        "node-2.jsonl.part: Its process was killed; its events go up to its last whole one.",
    ]
    whole.write_bytes(whole.read_bytes()[:-5])
    with pytest.raises(HistoryError, match="the last line is cut off"):
        merge_runs([whole, killed], tmp_path / "again")
    assert merge_runs([whole, killed], tmp_path / "again", lenient=True).events == 3


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4), st.booleans()), max_size=80),
    skews=st.lists(st.integers(0, 30), min_size=4, max_size=4),
    rows=st.integers(1, 12),
)
def test_runs_of_real_clocks(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int, bool]], skews: list[int], rows: int
) -> None:
    """Processes with skewed walls that merge what they receive: nothing has to be moved, whatever the batches."""
    place = tmp_path_factory.mktemp("merge")
    now = [0]
    clocks = [HybridClock(lambda skew=skew: now[0] + skew) for skew in skews]
    stories: list[Story] = [[], [], [], []]
    in_flight: list[tuple[int, int, tuple[int, int]]] = []
    for message, (sender, receiver, advance, deliver) in enumerate(steps):
        now[0] += advance
        stamp = clocks[sender].tick()
        stories[sender].append((*stamp, "send", message))
        in_flight.append((receiver, message, stamp))
        if deliver:
            to, number, sent = in_flight.pop(advance % len(in_flight))
            stories[to].append((*clocks[to].merge(sent), "receive", number))
    files = [record(place / f"node-{node}.jsonl", node, story) for node, story in enumerate(stories)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "BATCH_ROWS", rows)
        manifest = merge_runs(files, place / "run")
    assert manifest.notes == []
    order = merged(place / "run")
    assert len(order) == sum(map(len, stories))
    sent_before: set[int | None] = set()
    for _, kind, message in order:
        if kind == "send":
            sent_before.add(message)
        else:
            assert message in sent_before
    for node, story in enumerate(stories):
        assert [(k, m) for n, k, m in order if n == node] == [(k, m) for _, _, k, m in story]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_clocks_that_are_wrong_never_put_a_receive_first(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """A causal run whose stamps are random: receives are moved, the order inside each file stays."""
    place = tmp_path_factory.mktemp("merge")
    draw = random.Random(seed)
    stories: list[Story] = [[], [], []]
    in_flight: list[int] = []
    for message in range(40):
        if in_flight and draw.random() < 0.5:
            number = in_flight.pop(draw.randrange(len(in_flight)))
            stories[draw.randrange(3)].append((draw.randrange(100), 0, "receive", number))
        else:
            stories[draw.randrange(3)].append((draw.randrange(100), 0, "send", message))
            in_flight.append(message)
    files = [record(place / f"node-{node}.jsonl", node, story) for node, story in enumerate(stories)]
    merge_runs(files, place / "run")
    order = merged(place / "run")
    sent = [message for _, kind, message in order if kind == "send"]
    for at, (_, kind, message) in enumerate(order):
        if kind == "receive":
            assert order.index((order[at][0], kind, message)) == at
            assert sent.index(message) < sum(k == "send" for _, k, _ in order[:at])
    for node, story in enumerate(stories):
        assert [(k, m) for n, k, m in order if n == node] == [(k, m) for _, _, k, m in story]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_files(tmp_path: Path) -> None:
    """Ten times the events, the same memory."""
    script = (
        "import sys\nfrom loghistory import merge_runs\nmerge_runs(sys.argv[2:], sys.argv[1])\n"
        "print(next(int(line.split()[1]) >> 10 for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    peaks = []
    for events in (40_000, 400_000):
        files = []
        for node in range(4):
            files.append(str(tmp_path / f"{events}-{node}.jsonl"))
            with Recorder(FileSink(files[-1])) as recorder:
                for n in range(events // 4):
                    recorder.event(
                        "stop", time=10 * n + node, logical=0, node=node, offset=n, last_offset=n, text="x" * 99
                    )
        command = [sys.executable, "-c", script, str(tmp_path / f"run-{events}"), *files]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    assert peaks[1] < peaks[0] + 60, peaks
