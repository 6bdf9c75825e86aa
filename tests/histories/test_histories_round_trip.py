"""What is recorded is what is read, in every format, and the same events are the same bytes."""

from __future__ import annotations

import tempfile
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loghistory import (
    COLUMNS,
    REQUIRED,
    SCHEMA,
    Format,
    HistoryError,
    Kind,
    Manifest,
    MemorySink,
    Recorder,
    RunSink,
    open_run,
    write_run,
)
from loghistory.columns import limits, rechunk
from loghistory.run import write_file
from loghistory.vocabulary import Column

_WORDS = st.sampled_from(["", "a", "append", 'qu"ote', "back\\slash", "zeile\n", "héllo ✓", "\x00", "𝔘", '{"seq":1}'])


def _value(column: Column) -> st.SearchStrategy[Any]:
    if column.name == "acks":
        return st.integers(-1, 1)
    if pa.types.is_integer(column.type):
        low, high = limits(column)
        return st.one_of(st.integers(max(low, -2), 9), st.integers(low, high))
    return st.one_of(_WORDS, st.text(max_size=6))


_TIME = next(column for column in COLUMNS if column.name == "time")


@st.composite
def _event(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(list(Kind)))
    names = set(REQUIRED[kind]) | draw(st.sets(st.sampled_from(SCHEMA.names), max_size=4))
    columns = {c.name: draw(_value(c)) for c in COLUMNS if c.name in names - {"seq", "kind", "time"}}
    if kind in (Kind.OBSERVE, Kind.OK, Kind.APPEND, Kind.ACKED) and "offset" in columns:
        columns["offset"] = max(columns["offset"], 0)
    if "last_offset" in columns and "offset" in columns:
        columns["last_offset"] = min(columns["offset"] + abs(columns["last_offset"]) % 1000, 2**63 - 1)
    return {"kind": kind, "time": draw(_value(_TIME)), **columns}


EVENTS = st.lists(_event(), max_size=25)


def recorded(events: list[dict[str, Any]]) -> pa.Table:
    sink = MemorySink()
    with Recorder(sink) as record:
        for event in events:
            record.event(**event)
    return sink.table


def expected(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    nothing = dict.fromkeys(SCHEMA.names)
    return [{**nothing, **event, "kind": str(event["kind"]), "seq": seq} for seq, event in enumerate(events)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", list(Format))
@settings(max_examples=25, deadline=None)
@given(events=EVENTS)
def test_every_event_comes_back(form: Format, events: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        with Recorder(RunSink(f"{place}/streamed", {"name": "x"}, form)) as record:
            for event in events:
                given = {name: value for name, value in event.items() if name not in {"kind", "time"}}
                record.record(event["kind"], event["time"], given)
        manifest = write_run(f"{place}/written", recorded(events), {"name": "x"}, form)
        assert open_run(f"{place}/streamed").table().to_pylist() == expected(events)
        assert open_run(f"{place}/streamed").manifest == manifest
        for name in (manifest.file, "manifest.json"):
            assert Path(place, "streamed", name).read_bytes() == Path(place, "written", name).read_bytes()


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(events=EVENTS, cuts=st.lists(st.integers(1, 10), max_size=10))
def test_bytes_depend_on_the_events_alone(events: list[dict[str, Any]], cuts: list[int]) -> None:
    """However events are cut into batches, whenever they are flushed, through whatever formats they went."""
    table = recorded(events)
    ends = [0, *(min(end, table.num_rows) for end in accumulate(cuts)), table.num_rows]
    slices = [b for a, e in pairwise(ends) for b in table.slice(a, e - a).to_batches()]
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for form in Format:
            write_file(place / f"whole{form.suffix}", table, form)
            write_file(place / f"pieces{form.suffix}", slices, form)
            assert (place / f"whole{form.suffix}").read_bytes() == (place / f"pieces{form.suffix}").read_bytes()
            with Recorder(RunSink(place / f"flushed-{form}", {}, form)) as record:
                for number, event in enumerate(events):
                    record.event(**event)
                    if number in cuts:
                        record.flush()
            flushed = place / f"flushed-{form}" / f"events{form.suffix}"
            assert flushed.read_bytes() == (place / f"whole{form.suffix}").read_bytes()
        previous = place / "whole.jsonl"
        for step, form in enumerate([Format.ZSTD, Format.PARQUET, Format.ZSTD, Format.JSON_LINES]):
            following = place / f"step{step}{form.suffix}"
            write_file(following, open_run(previous).batches(batch_rows=3), form)
            assert following.read_bytes() == (place / f"whole{form.suffix}").read_bytes()
            previous = following


@settings(max_examples=20, deadline=None)
@given(
    events=EVENTS,
    columns=st.sets(st.sampled_from(SCHEMA.names), min_size=1),
    kinds=st.one_of(st.none(), st.sets(st.sampled_from(list(Kind)))),
    batch_rows=st.integers(1, 40),
)
def test_columns_and_kinds_are_chosen_alike_in_every_format(
    events: list[dict[str, Any]], columns: set[str], kinds: set[Kind] | None, batch_rows: int
) -> None:
    names = [name for name in SCHEMA.names if name in columns]
    chosen = [e for e in expected(events) if kinds is None or e["kind"] in kinds]
    with tempfile.TemporaryDirectory() as place:
        for form in Format:
            path = Path(place, f"events{form.suffix}")
            write_file(path, recorded(events))
            batches = list(open_run(path).batches(columns, kinds, batch_rows))
            assert [row for batch in batches for row in batch.to_pylist()] == [
                {name: event[name] for name in names} for event in chosen
            ]
            for batch in batches:
                assert batch.schema == pa.schema([SCHEMA.field(name) for name in names])
                assert 0 < batch.num_rows <= batch_rows


@pytest.mark.slow
@pytest.mark.parametrize("form", list(Format))
def test_more_events_than_any_block_frame_or_group_holds(tmp_path: Path, form: Format) -> None:
    """140,000 events: several reads of JSON Lines, several zstd frames, two Parquet row groups."""
    with Recorder(RunSink(tmp_path / "run", Manifest(made_by={"seed": 1}), form)) as record:
        for number in range(140_000):
            record.event(Kind.STOP, time=number, node=number % 5, offset=number, last_offset=number + 1, text='a"b')
    run = open_run(tmp_path / "run")
    at = 0
    for batch in run.batches():
        assert batch.num_rows <= 1 << 16
        assert batch.column("seq").to_pylist() == list(range(at, at + batch.num_rows))
        at += batch.num_rows
    assert at == 140_000
    assert sum(b.num_rows for b in run.batches(["node"], ["trim"])) == 0
    assert run.manifest is not None
    assert run.manifest.nodes == [0, 1, 2, 3, 4]


def test_lines_of_others_are_read_whatever_their_order_and_spaces(tmp_path: Path) -> None:
    path = tmp_path / "foreign.jsonl"
    path.write_text(
        '{"version": 1, "kind": "history", "tool": "another"}\r\n'
        '{"op": 4, "f": "app\\u0065nd", "process": 1, "kind": "invoke", "time": 7, "seq": 0, "acks": null}\r\n'
        '  {"kind":"ok","f":"append","op":4,"process":1,"time":8,"seq":3}'
    )
    events = [{k: v for k, v in row.items() if v is not None} for row in open_run(path).table().to_pylist()]
    assert events == [
        {"seq": 0, "time": 7, "kind": "invoke", "process": 1, "op": 4, "f": "append"},
        {"seq": 3, "time": 8, "kind": "ok", "process": 1, "op": 4, "f": "append"},
    ]


def test_a_parquet_file_of_others_is_read(tmp_path: Path) -> None:
    """Plain strings, other column order, other integer widths, columns left out, no word of a version."""
    path = tmp_path / "foreign.parquet"
    table = pa.table(
        {
            "kind": pa.array(["stop", "crash"], pa.large_string()),
            "node": pa.array([1, 2], pa.int64()),
            "time": pa.array([5, 6], pa.int32()),
            "seq": pa.array([0, 1], pa.uint8()),
            "f": pa.nulls(2),
        }
    )
    pq.write_table(table, path, row_group_size=1)
    read = open_run(path).table()
    assert read.schema == SCHEMA
    assert [(r["seq"], r["time"], r["kind"], r["node"]) for r in read.to_pylist()] == [
        (0, 5, "stop", 1),
        (1, 6, "crash", 2),
    ]
    assert open_run(path).table(["peer"]).to_pylist() == [{"peer": None}, {"peer": None}]
    assert open_run(path).table(["node"], ["crash"]).to_pylist() == [{"node": 2}]


def test_written_batches_are_checked(tmp_path: Path) -> None:
    table = recorded([{"kind": Kind.STOP, "time": 1, "node": 1}] * 2)
    twice = pa.concat_tables([table, table])
    with pytest.raises(HistoryError) as error:
        write_run(tmp_path / "run", twice, {})
    assert str(error.value) == (
        f"{tmp_path}/run, event 3, field seq: 0 does not come after 1: "
        "seq increases strictly; merge the files of several processes with `history merge`"
    )
    assert list(tmp_path.iterdir()) == []


def test_tables_of_others_are_written(tmp_path: Path) -> None:
    """Some columns, in any order, as plain strings or nulls."""
    table = pa.table({"node": [1, 2], "kind": ["stop", "crash"], "seq": [0, 4], "time": [8, 9], "role": pa.nulls(2)})
    write_file(tmp_path / "events.parquet", table)
    read = open_run(tmp_path / "events.parquet").table()
    assert read.schema == SCHEMA
    nothing = dict.fromkeys(SCHEMA.names)
    assert read.to_pylist() == [nothing | row for row in table.to_pylist()]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"ofset": [1]}, "unknown columns: ofset; the columns are seq, time, logical, kind, log, …"),
        ({"node": ["1"]}, "column node holds string instead of an integer from -2147483648 to 2…"),
        ({"term": [1.5]}, "column term holds double instead of an integer from -92233720368547…"),
        ({"node": [1 << 40]}, "Integer value 1099511627776 not in range: -2147483648 to 2147483647"),
    ],
)
def test_tables_that_do_not_fit_are_refused(tmp_path: Path, columns: dict[str, list[Any]], problem: str) -> None:
    table = pa.table({"seq": [0], "time": [8], "kind": ["stop"], "node": [1]} | columns)
    with pytest.raises(HistoryError) as error:
        write_file(tmp_path / "events.jsonl", table)
    found = str(error.value).removeprefix(f"{tmp_path}/events.jsonl: ").removesuffix(": give columns of the schema")
    assert found[:50] == problem[:50]
    assert list(tmp_path.iterdir()) == []


def test_rechunk_keeps_the_events() -> None:
    table = recorded(
        [{"kind": k, "time": i, "node": 1, "offset": 1, "last_offset": 2} for i, k in enumerate(["stop", "crash"] * 5)]
    )
    chunks = list(rechunk(table.to_batches(max_chunksize=3), 4))
    assert [chunk.num_rows for chunk in chunks] == [4, 4, 2]
    assert pa.Table.from_batches(chunks).to_pylist() == table.to_pylist()
