"""The recorder: what it takes, what it refuses and when."""

from __future__ import annotations

import contextlib
import inspect
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from loghistory import (
    SCHEMA,
    FileSink,
    HistoryError,
    Kind,
    Manifest,
    MemorySink,
    Recorder,
    RunSink,
    open_run,
)
from loghistory.recorder import BUFFER_EVENTS

STATE = {"node": 1, "term": 2, "dirty": 5, "flushed": 4, "commit": 3}


def test_event_takes_every_column_of_the_schema_in_its_order() -> None:
    parameters = list(inspect.signature(Recorder.event).parameters)
    assert parameters == ["self", "kind", "time", *[n for n in SCHEMA.names if n not in {"seq", "time", "kind"}]]


def test_every_column_arrives_where_it_belongs() -> None:
    given = {
        name: "word" if pa.types.is_dictionary(kind) or kind == pa.string() else number
        for number, (name, kind) in enumerate(zip(SCHEMA.names, SCHEMA.types, strict=True), 100)
        if name not in {"seq", "kind", "acks", "offset", "last_offset"}
    } | {"acks": 1, "offset": 7, "last_offset": 9}
    sink = MemorySink()
    with Recorder(sink) as record:
        assert record.event(Kind.APPEND, **given) == 0
        assert record.event("stop", time=200, node=1) == 1
        assert record.record(Kind.APPEND, given["time"], {name: given[name] for name in given if name != "time"}) == 2
    first, second, third = sink.table.to_pylist()
    assert first == {"seq": 0, "kind": "append", **given}
    assert third == {**first, "seq": 2}
    assert {k: v for k, v in second.items() if v is not None} == {"seq": 1, "kind": "stop", "time": 200, "node": 1}
    assert sink.table.schema == SCHEMA


def test_an_unknown_kind_or_column_is_an_error_at_once() -> None:
    record = Recorder(MemorySink())
    with pytest.raises(ValueError, match="unknown kind 'fulsh'; the kinds are invoke, observe"):
        record.event("fulsh", time=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'ofset'"):
        record.event(Kind.TRIM, time=1, node=1, ofset=3)
    with pytest.raises(ValueError, match="unknown kind 'fulsh'; the kinds are invoke, observe"):
        record.record("fulsh", 1, {})
    with pytest.raises(TypeError, match="unexpected keyword argument 'ofset'"):
        record.record(Kind.TRIM, 1, {"node": 1, "ofset": 3})
    for column in ("seq", "time", "kind"):
        with pytest.raises(TypeError, match=column):
            record.record(Kind.TRIM, 1, {"node": 1, "offset": 3, column: 7})


@pytest.mark.parametrize(
    ("kind", "columns", "line"),
    [
        ("flush", {**STATE, "flushed": None}, "field flushed: a flush event must carry it: correct what records it"),
        (
            "trim",
            {**STATE, "offset": 5, "commit": None},
            "field commit: a trim event must carry it: correct what records it",
        ),
        (
            "compact",
            {"node": 1, "offset": 5, "last_offset": 5},
            "field term: a compact event must carry it: correct what records it",
        ),
        ("stop", {}, "field node: a stop event must carry it: correct what records it"),
        (
            "flush",
            {**STATE, "flushed": 4.5},
            f"field flushed: 4.5 is not an integer from {-(2**63)} to {2**63 - 1}: correct what records it",
        ),
        (
            "flush",
            {**STATE, "dirty": True},
            f"field dirty: True is not an integer from {-(2**63)} to {2**63 - 1}: correct what records it",
        ),
        (
            "flush",
            {**STATE, "node": 1 << 31},
            "field node: 2147483648 is not an integer from -2147483648 to 2147483647: correct what records it",
        ),
        ("fault", {"f": b"loss"}, "field f: b'loss' is not a string: correct what records it"),
        ("fault", {"f": "loss", "text": "\ud800"}, r'field text: "\ud800" is not a string: correct what records it'),
        (
            "invoke",
            {"process": 0, "op": 1, "f": "append", "acks": 2},
            "field acks: 2 is no acks level: correct what records it",
        ),
        (
            "compact",
            {**STATE, "offset": 5, "last_offset": 4},
            "field last_offset: 4 is below the offset 5: correct what records it",
        ),
        (
            "observe",
            {"process": 0, "op": 1, "offset": 0, "last_offset": 1 << 20},
            "field last_offset: a batch of 1048577 offsets is too wide: correct what records it",
        ),
    ],
)
def test_a_mistake_of_the_caller_names_the_event_and_the_column(kind: str, columns: dict[str, Any], line: str) -> None:
    record = Recorder(MemorySink())
    record.event(Kind.STOP, time=1, node=1)
    record.flush()
    record.event(Kind.STOP, time=1, node=1)
    record.event(kind, time=2, **columns)
    with pytest.raises(HistoryError) as error:
        record.flush()
    assert str(error.value) == f"memory, event 2, {line}"


def test_a_closed_run_has_its_manifest_and_an_open_one_has_not(tmp_path: Path) -> None:
    record = Recorder(RunSink(tmp_path / "run", Manifest(name="demo")))
    with contextlib.suppress(InterruptedError), record:
        record.event(Kind.STOP, time=1, node=1)
        raise InterruptedError
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["events.jsonl.part"]
    run = open_run(tmp_path / "run")
    assert run.table().num_rows == 1
    assert run.notes == ["There is no manifest: the recording was killed, or is still going on."]
    record.close()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["events.jsonl", "manifest.json"]
    run = open_run(tmp_path / "run")
    assert run.table().num_rows == 1
    assert run.notes == []
    assert run.manifest is not None
    assert (run.manifest.events, run.manifest.counts, run.manifest.nodes) == (1, {"stop": 1}, [1])


def test_a_directory_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with pytest.raises(HistoryError) as error:
        RunSink(tmp_path, {})
    assert str(error.value) == f"{tmp_path}: already exists and is not empty: name another directory"


def test_a_sink_is_handed_events_whenever_there_are_enough() -> None:
    sink = MemorySink()
    record = Recorder(sink)
    for time in range(3 * BUFFER_EVENTS + 1):
        record.record(Kind.STOP, time, {"node": 1})
    assert [batch.num_rows for batch in sink.batches] == [BUFFER_EVENTS] * 3


@pytest.mark.parametrize("name", ["node.jsonl", "node.jsonl.zst"])
def test_a_file_holds_all_events_in_order_once_it_is_closed(tmp_path: Path, name: str) -> None:
    sinks = MemorySink(), FileSink(tmp_path / name)
    for sink in sinks:
        with Recorder(sink) as record:
            for time, text in enumerate((None, "a", None, "b")):
                record.event(Kind.FAULT, time=time, f="loss", text=text)
                record.record(Kind.STOP, time, {"node": 1})
    table = open_run(tmp_path / name).table()
    assert table["kind"].to_pylist() == ["fault", "stop"] * 4
    assert table["text"].to_pylist() == [None, None, "a", None, None, None, "b", None]
    assert table.to_pylist() == sinks[0].table.to_pylist()


@pytest.mark.parametrize("name", ["node.jsonl", "node.jsonl.zst"])
def test_a_file_has_its_name_when_it_is_closed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    record = Recorder(FileSink(path))
    for time in range(3):
        record.event(Kind.STOP, time=time, node=1)
        record.flush()
        assert open_run(f"{path}.part").table().num_rows == time + 1
    assert not path.exists()
    record.close()
    assert open_run(path).table().column("seq").to_pylist() == [0, 1, 2]


def test_parquet_is_not_streamed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Parquet cannot be streamed"):
        FileSink(tmp_path / "node.parquet")


def test_a_recording_is_never_overwritten(tmp_path: Path) -> None:
    record = Recorder(FileSink(tmp_path / "node.jsonl"))
    with pytest.raises(HistoryError, match=r"node.jsonl.part: already exists: name another file"):
        FileSink(tmp_path / "node.jsonl")
    record.close()
    with pytest.raises(HistoryError, match=r"node.jsonl: already exists: name another file"):
        FileSink(tmp_path / "node.jsonl")


def test_the_exception_of_the_implementation_is_the_one_that_is_seen() -> None:
    with pytest.raises(ZeroDivisionError), Recorder(MemorySink()) as record:
        record.event(Kind.STOP, time=record.event(Kind.STOP, time=0) // 0)


def test_an_error_travels_between_processes() -> None:
    error = HistoryError("file", 3, "field", "problem", "remedy", place="event")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "file, event 3, field field: problem: remedy"
