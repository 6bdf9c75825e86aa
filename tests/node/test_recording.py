"""What SIGKILL kept a node from recording is found again by comparing its log with its history."""

from __future__ import annotations

import random
import resource
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loghistory import HybridClock, Kind, open_run
from quorumlog.node.configuration import NodeConfiguration
from quorumlog.node.missing import files_before, missing_changes, term_runs
from quorumlog.node.process import _open_history
from quorumlog.node.recording import HistoryFile, end_stamp, find_history, whole_events
from quorumlog.storage.batch import BatchKind, RecordBatch, ghost
from quorumlog.storage.log import Log
from quorumlog.storage.simulated import SimulatedDisk

STATE = {"term": 9, "role": "follower", "flushed": -1, "commit": -1, "visible": -1}


def log_of(terms: list[int]) -> Log:
    """A log with one batch a term, at offsets 0, 1, 2, ..; the value is the offset. Term 0 is an entry that is gone."""
    log = Log.open(SimulatedDisk(random.Random(1)), "log")
    gone = terms.count(0)
    if gone:
        log.reset(gone, 1)
    append(log, list(enumerate(terms))[gone:])
    return log


def append(log: Log, entries: list[tuple[int, int]]) -> None:
    for offset, term in entries:
        log.append([RecordBatch(offset, term, BatchKind.DATA, 1, -1, offset.to_bytes(8, "big"))])


def reported(directory: Path, start: list[int], steps: list[tuple[str, int, int]]) -> Path:
    """A history: a start with a log of these terms, then appends (offset, term) and cuts at an end (offset, dirty)."""
    clock = HybridClock()
    path = directory / "node-0.3.jsonl"
    history = HistoryFile(path, clock, {"node": 0, "incarnation": 3})
    runs = [[at, term] for at, term in enumerate(start) if term and (at == 0 or start[at - 1] != term)]
    history.event(Kind.START, {**STATE, "dirty": len(start) - 1, "text": str(runs)})
    for kind, offset, number in steps:
        if kind == "append":
            history.event(Kind.APPEND, {**STATE, "dirty": offset, "offset": offset, "entry_term": number})
        else:
            history.event(kind, {**STATE, "dirty": number, "offset": offset})
    history.flush()
    found = find_history(path)
    assert found is not None
    return found


CASES: dict[str, tuple[list[int], list[tuple[str, int, int]], list[int], list[tuple[Any, ...]]]] = {
    "nothing is missing": ([1, 1], [("append", 2, 1)], [1, 1, 1], []),
    "an append": ([1], [("append", 1, 1)], [1, 1, 2], [("append", 2, 2)]),
    "two appends on an empty log": ([], [], [1, 1], [("append", 0, 1), ("append", 1, 1)]),
    "a truncation": ([1, 1, 1], [], [1], [("truncate", 1)]),
    "a truncation of everything": ([1, 1], [], [], [("truncate", 0)]),
    "a truncation of what was appended": ([1], [("append", 1, 1), ("append", 2, 2)], [1, 1], [("truncate", 2)]),
    "a truncation, then appends": ([1, 2, 2], [], [1, 1, 3], [("truncate", 1), ("append", 1, 1), ("append", 2, 3)]),
    "appends after one that was told": ([1, 2], [("truncate", 1, 0)], [1, 3], [("append", 1, 3)]),
    "the same length, another term": ([1], [("append", 1, 2)], [1, 3], [("truncate", 1), ("append", 1, 3)]),
    "a trim": ([1, 1, 2], [], [0, 0, 2], [("trim", 2)]),
    "a trim, then an append": ([1, 1], [], [0, 1, 2], [("trim", 1), ("append", 2, 2)]),
    "a trim, then a truncation of the rest": ([1, 1], [], [0], [("trim", 1), ("truncate", 1)]),
    "a trim that was told": ([1, 1, 2], [("trim", 1, 2)], [0, 1, 2], []),
    "a trim after one that was told": ([1, 1, 2], [("trim", 1, 2)], [0, 0, 2], [("trim", 2)]),
    "a start behind a trim": ([0, 0, 1, 2], [], [0, 0, 1, 2], []),
    "a start of an empty log behind a trim": ([0, 0], [], [0, 0, 1], [("append", 2, 1)]),
    "a truncation behind a trim": ([0, 1, 2], [], [0, 1], [("truncate", 2)]),
    "a log begun anew": ([1, 1], [], [0, 0, 0, 0], [("trim", 4)]),
    "a log begun anew, then appends": ([1, 1], [], [0, 0, 0, 3], [("trim", 3), ("append", 3, 3)]),
    "a log begun anew behind a trim": ([0, 1], [("append", 2, 2)], [0, 0, 0, 0], [("trim", 4)]),
}


@pytest.mark.parametrize("name", CASES)
def test_missing_changes(name: str, tmp_path: Path) -> None:
    start, steps, now, expected = CASES[name]
    history = reported(tmp_path, start, steps)
    changes = missing_changes([history], log_of(now))
    found = [
        (kind, columns["offset"], columns["entry_term"]) if kind == "append" else (kind, columns["offset"])
        for kind, columns in changes
    ]
    assert found == expected
    cut = [kind for kind, *_ in expected][-1:] == ["truncate"]
    after_power_loss = missing_changes([history], log_of(now), lost_power=True)
    assert after_power_loss == (changes[:-1] if cut else changes), "what lacks at the end was not cut off"
    for kind, columns in changes:
        assert columns["incarnation"] == 3
        if kind == "trim":
            end = len(start) + sum(step == "append" for step, *_ in steps)
            assert columns["dirty"] == max(columns["offset"], end) - 1
            assert columns["flushed"] <= columns["dirty"]
            if columns["offset"] > end:  # begun anew, behind what the leader has committed
                assert columns["flushed"] == columns["commit"] == columns["visible"] == columns["offset"] - 1
            continue
        assert columns["dirty"] == (columns["offset"] - 1 if kind == "truncate" else columns["offset"])
        if kind == "append":
            assert columns["value"] == columns["offset"]


def test_compactions_and_gaps_that_were_not_told(tmp_path: Path) -> None:
    """What a kill in the middle of a compaction leaves, and one behind a ghost (ghost-batches.md#compaction)."""
    log = Log.open(SimulatedDisk(random.Random(1)), "log", 100)
    keyed = [
        RecordBatch(at, 1, BatchKind.DATA, 1, -1, at.to_bytes(8, "big"), 7 if at in (1, 2, 5, 7) else 0)
        for at in range(9)
    ]
    log.append(keyed)
    log.flush()
    before = term_runs(log)
    log.compact([(1, 1)])

    def missing(runs: list[tuple[int, int]], steps: list[tuple[str, dict[str, Any]]]) -> list[Any]:
        path = tmp_path / f"node-0.{len(list(tmp_path.iterdir()))}.jsonl"
        history = HistoryFile(path, HybridClock(), {"node": 0, "incarnation": 3})
        history.event(Kind.START, {**STATE, "commit": 8, "dirty": 8, "text": str([[*run] for run in runs])})
        for kind, columns in steps:
            history.event(kind, {**STATE, "commit": 8, "dirty": 8, **columns})
        history.flush()
        found = find_history(path)
        assert found is not None
        return [
            (kind, columns["offset"], columns.get("last_offset"), columns["dirty"], columns.get("key"))
            for kind, columns in missing_changes([found], log)
        ]

    assert missing(before, []) == [("compact", 1, 1, 8, None)]
    steps = [("compact", {"offset": 1, "last_offset": 1})]
    assert missing(before, steps) == []
    log.compact([(2, 2), (5, 5)])
    assert missing(before, steps) == [("compact", 2, 2, 8, None), ("compact", 5, 5, 8, None)]
    assert missing(term_runs(log), []) == []
    # A leader has told of a gap, for which entries were cut; and what lies behind it has a key.
    after = term_runs(log)
    log.truncate(6)
    log.append([ghost(log.dirty + 1, 11, 2), RecordBatch(12, 2, BatchKind.DATA, 1, -1, bytes(8), 9)])
    assert log.term(7) == 2
    found = missing(after, [])
    first = log.batch_base(7)
    assert found == [("gap", first, 11, 8, None), ("truncate", first, None, first - 1, None), ("append", 12, 12, 12, 9)]
    assert missing(term_runs(log), [("append", {"offset": 12, "dirty": 12, "entry_term": 2})]) == []
    log.truncate(12)
    assert missing(after, []) == [("truncate", first, None, first - 1, None)]


@given(
    start=st.lists(st.integers(1, 3), max_size=6).map(sorted),
    kept=st.integers(0, 6),
    added=st.lists(st.integers(4, 5), max_size=3).map(sorted),
)
def test_told_and_missing_together_are_the_log(start: list[int], kept: int, added: list[int]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = reported(Path(directory), start, [])
        model = list(start)
        for kind, columns in missing_changes([path], log_of(start[:kept] + added)):
            if kind == "truncate":
                del model[columns["offset"] :]
            else:
                assert columns["offset"] == len(model)
                model.append(columns["entry_term"])
    assert model == start[:kept] + added


def test_a_torn_last_line_is_no_event(tmp_path: Path) -> None:
    path = reported(tmp_path, [1], [("append", 1, 1)])
    last, end = end_stamp(path)
    whole = path.read_bytes()
    assert len(list(whole_events(path))) == 2
    for cut in range(1, 40, 7):
        path.write_bytes(whole[:-cut])
        assert len(list(whole_events(path))) == 1
        assert end_stamp(path)[0] < last < end
    assert missing_changes([path], log_of([1, 1])) != []


def test_incarnations_that_did_not_live_to_record_their_start(tmp_path: Path) -> None:
    reported(tmp_path, [1], [("append", 1, 1)])  # incarnation 3
    early = HistoryFile(tmp_path / "node-0.4.jsonl", HybridClock(), {"node": 0, "incarnation": 4})
    early.event(Kind.APPEND, {**STATE, "dirty": 2, "offset": 2, "entry_term": 2})  # what it found missing, no more
    early.flush()
    HistoryFile(tmp_path / "node-0.5.jsonl", HybridClock(), {"node": 0, "incarnation": 5})
    files = files_before(tmp_path, 0, 6)
    assert [path.name for path in files] == [f"node-0.{number}.jsonl.part" for number in (3, 4, 5)]
    ((kind, columns),) = missing_changes(files, log_of([1, 1, 2, 4]))
    assert (kind, columns["offset"], columns["entry_term"], columns["incarnation"]) == ("append", 3, 4, 3)
    assert files_before(tmp_path, 0, 0) == files_before(tmp_path, 1, 6) == []


def test_what_could_not_be_written_leaves_no_half_line(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    history = HistoryFile(tmp_path / "node-0.0.jsonl", HybridClock(), {"node": 0})
    for _ in range(3):
        history.event(Kind.STOP, {})
    history.flush()
    path = find_history(tmp_path / "node-0.0.jsonl")
    assert path is not None
    whole = path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 150, before[1]))
    try:
        history.event(Kind.CRASH, {"reason": "x" * 400})
        with pytest.raises(OSError, match="too large"):
            history.flush()
        assert path.read_bytes() == whole
        history.storage_error("no room")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [event.kind for event in whole_events(path)] == ["stop"] * 3 + ["storage_error"]


def test_a_failing_disk_concerns_all_logs_of_the_process(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "node-3.0.jsonl", HybridClock(), {"node": 3, "incarnation": 0, "log": "group 7"})
    history.event("stop", {})
    history.storage_error("no disk")
    history.close()
    events = open_run(tmp_path / "node-3.0.jsonl").table()
    assert events["kind"].to_pylist() == ["stop", "storage_error"]
    assert events["log"].to_pylist() == ["group 7", None]


def test_a_history_is_never_overwritten(tmp_path: Path) -> None:
    reported(tmp_path, [], [])
    with pytest.raises(FileExistsError):
        reported(tmp_path, [], [])


def test_term_runs() -> None:
    assert term_runs(log_of([])) == []
    assert term_runs(log_of([1, 1, 4, 4, 6])) == [(0, 1), (2, 4), (4, 6)]


@pytest.mark.parametrize("wiped", [False, True])
def test_what_an_emptied_log_lost_is_told_unless_its_disk_is_new(tmp_path: Path, wiped: bool) -> None:
    reported(tmp_path, [1, 1], [])
    log = log_of([])
    configuration = NodeConfiguration(
        node=0, addresses={0: "127.0.0.1:1"}, data="", history=str(tmp_path), least_session=4
    )
    _open_history(configuration, 4, log, HybridClock(), None, empty=wiped, lost_power=False, ended={}).flush()
    found = find_history(tmp_path / "node-0.4.jsonl")
    assert found is not None
    assert [(event.kind, event.offset) for event in whole_events(found)] == ([] if wiped else [("truncate", 0)])


def test_what_is_missing_is_of_the_last_life_that_began_and_at_its_end(tmp_path: Path) -> None:
    """Incarnation 4 ended before it could begin: nothing that is found after it was done since."""
    reported(tmp_path, [1], [])  # incarnation 3
    now, _ = HybridClock().tick()
    configuration = NodeConfiguration(
        node=0, addresses={0: "127.0.0.1:1"}, data="", history=str(tmp_path), least_session=5
    )
    ended = {2: (now + 5, 0), 3: (now + 10, 2), 4: (now + 1000, 0)}
    _open_history(
        configuration, 5, log_of([1, 1]), HybridClock(), None, empty=False, lost_power=False, ended=ended
    ).flush()
    found = find_history(tmp_path / "node-0.5.jsonl")
    assert found is not None
    (event,) = whole_events(found)
    assert (event.kind, event.incarnation, event.time, event.logical) == ("append", 3, now + 10, 3)


def test_the_end_of_a_file_is_the_whole_stamp_of_its_last_event(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "node.jsonl", HybridClock(lambda: 5), {"node": 0, "incarnation": 0})
    for _ in range(3):
        history.event("flush", {"term": 1})
    history.flush()
    last, later = end_stamp(tmp_path / "node.jsonl.part")
    assert last == (5, 2)
    assert later > last
