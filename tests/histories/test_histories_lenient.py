"""A lenient reading counts what it sets aside, by reason, and keeps it in a quarantine file."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loghistory import Format, HistoryError, Kind, MemorySink, Recorder, lines, open_run
from loghistory.quarantine import Lenient, set_aside_in_words
from loghistory.run import write_file
from loghistory.validity import Reason

HEADER = b'{"kind":"history","version":2}\n'
STOP = b'{"seq":%d,"time":5,"kind":"stop","node":1}\n'

MIXED = HEADER + b"".join(
    [
        STOP % 0,
        b"\n",
        STOP % 1,
        b'{"seq":2,"time":5,"kind":"stoop","node":1}\n',
        b'{"seq":2,"time":5,"kind":"stop"}\n',
        b'{"seq":2,"time":5,"kind":"stop","node":"1"}\n',
        STOP % 2,
        STOP % 2,
        b'{"seq":3,"time":5,"kind":"stop","node":1,"node":1}\n',
        b'{"seq":3,"time":5,"kind":"fault","f":"\xff\xfe"}\n',
        STOP % 3,
        b"x" * ((1 << 20) + 1) + b"\n",
        STOP % 4,
        b'{"seq":5,"ti',
    ]
)
COUNTS = {
    "not_json": 1,
    "unknown_kind": 1,
    "missing_field": 1,
    "wrong_type": 1,
    "sequence": 1,
    "duplicate_key": 1,
    "not_utf8": 1,
    "long_line": 1,
    "cut_off": 1,
}
LINES = [3, 5, 6, 7, 9, 10, 11, 13, 15]


@pytest.mark.parametrize("form", [Format.JSON_LINES, Format.ZSTD])
def test_all_reasons_at_once(tmp_path: Path, form: Format) -> None:
    path = tmp_path / "events"
    if form is Format.ZSTD:
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(MIXED)
    else:
        path.write_bytes(MIXED)
    run = open_run(path, lenient=True, quarantine=tmp_path / "aside")
    for _ in range(2):
        assert run.table(["seq"]).column("seq").to_pylist() == [0, 1, 2, 3, 4]
        assert run.set_aside == COUNTS
        kept = [json.loads(line) for line in (tmp_path / "aside").read_text().splitlines()]
        assert sorted(k["line"] for k in kept) == LINES
        assert all(list(k) == ["line", "reason", "field", "problem", "raw"] for k in kept)
        assert {k["line"]: k["raw"] for k in kept}[11] == r'{"seq":3,"time":5,"kind":"fault","f":"\xff\xfe"}'
        assert max(len(k["raw"]) for k in kept) == 4096
        assert sorted(p.name for p in tmp_path.iterdir()) == ["aside", "events"]
    assert run.notes == [
        "The file of events has no proper end; the events are those up to its last whole one.",
        "9 lines or events were set aside (1 cut off, 1 with a key that appears twice, 1 too long, 1 without a column "
        "that it needs, 1 no valid JSON or EDN, 1 no UTF-8, 1 out of order, 1 of an unknown kind, 1 with a value that "
        f"makes no sense there), kept in {tmp_path}/aside.",
    ]


def test_a_good_file_leaves_no_quarantine(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(HEADER + STOP % 0)
    aside = tmp_path / "aside"
    aside.write_text("of an earlier reading")
    run = open_run(path, lenient=True, quarantine=aside)
    assert run.table().num_rows == 1
    assert run.set_aside == {}
    assert [p.name for p in tmp_path.iterdir()] == ["events.jsonl"]


def test_a_reading_given_up_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(HEADER + b"\n" + (STOP % 0) + b"".join(b'{"seq":%d}\n' % n for n in range(100_000)))
    batches = open_run(path, lenient=True, quarantine=tmp_path / "aside").batches()
    next(batches)
    batches.close()
    assert [p.name for p in tmp_path.iterdir()] == ["events.jsonl"]


def test_nothing_is_written_unless_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(HEADER + b"\n" + STOP % 0)
    run = open_run(path, lenient=True)
    assert run.table().num_rows == 1
    assert run.notes == ["1 line or event was set aside (1 no valid JSON or EDN)."]
    assert [p.name for p in tmp_path.iterdir()] == ["events.jsonl"]


def test_every_reason_has_plain_words() -> None:
    for reason in Reason:
        assert reason not in set_aside_in_words({reason: 2}) or "_" not in reason
        assert "_" not in set_aside_in_words({reason: 2})


def test_a_quarantine_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(HEADER + b"\n")
    with pytest.raises(HistoryError) as error:
        open_run(path, lenient=True, quarantine=tmp_path / "no" / "where").table()
    expected = "cannot be written (No such file or directory): name another quarantine file"
    assert str(error.value) == f"{tmp_path}/no/where: {expected}"


def test_a_lost_header_is_set_aside_and_its_line_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(STOP % 0 + STOP % 1)
    run = open_run(path, lenient=True)
    assert run.table().num_rows == 2
    assert run.set_aside == {"no_header": 1}


@pytest.mark.parametrize("name", ["events.jsonl", "history.edn"])
def test_of_an_empty_file_nothing_is_left_to_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.touch()
    for lenient in (False, True):
        with pytest.raises(HistoryError, match=r"empty|no operation"):
            open_run(path, lenient=lenient).table()


@pytest.mark.slow
def test_a_damaged_row_group_is_left_out(tmp_path: Path) -> None:
    sink = MemorySink()
    with Recorder(sink) as record:
        for number in range(300_000):
            record.event(Kind.STOP, time=number, node=1, offset=number, last_offset=number)
    path = tmp_path / "events.parquet"
    write_file(path, sink.batches)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    run = open_run(path, lenient=True)
    for columns in (["seq"], None):
        assert run.table(columns).num_rows == 300_000 - (1 << 17)
        assert run.set_aside == {"damaged": 1}


def test_bad_events_of_a_parquet_file_are_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    columns = {"seq": [0, 1, 1, 2, 3], "time": [1, 2, 3, 4, 5], "kind": ["stop", "stopp", "stop", "stop", "trim"]}
    pq.write_table(pa.table({**columns, "node": [1, 1, None, 1, 1]}), path)
    run = open_run(path, lenient=True, quarantine=tmp_path / "aside")
    # Whatever is asked for, what is set aside is the same.
    for columns, kinds in ((["seq"], ["stop", "trim"]), (None, None)):
        assert run.table(columns, kinds).column("seq").to_pylist() == [0, 2]
        assert run.set_aside == {"unknown_kind": 1, "missing_field": 2}
    kept = [json.loads(line) for line in (tmp_path / "aside").read_text().splitlines()]
    assert [(k["line"], k["field"]) for k in kept] == [(2, "kind"), (3, "node"), (5, "offset")]
    assert json.loads(kept[0]["raw"]) == {"seq": 1, "time": 2, "kind": "stopp", "node": 1}


def test_later_versions_and_missing_files_are_errors_even_so(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"kind":"history","version":3}\n')
    with pytest.raises(HistoryError, match="history version 3 is not known"):
        open_run(path, lenient=True).table()
    with pytest.raises(HistoryError, match="no such file"):
        open_run(tmp_path / "nowhere", lenient=True)


@pytest.mark.parametrize("block", [8, 33, 64])
def test_a_line_may_be_as_long_as_the_limit_and_lines_are_counted_behind_longer_ones(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(lines, "BLOCK", block)
    monkeypatch.setattr(lines, "MAX_LINE", 64)
    for size in range(60, 300):
        data = b"".join(b"%s\n" % (b"x" * length) for length in (1, size, 2, 64, size, 3))
        lenient = Lenient(None)
        found = [*lines.Lines(io.BytesIO(data).read, lambda _: False, "file", lenient)]
        numbered = [
            (number, len(line)) for each in found for number, line in enumerate(each.data.splitlines(), each.number)
        ]
        expected = [*enumerate((1, size, 2, 64, size, 3), 1)]
        assert numbered == [(number, length) for number, length in expected if length <= 64]
        assert lenient.counts == ({"long_line": 2} if size > 64 else {})


@pytest.mark.parametrize("block", [64, 150, 333])
def test_blocks_are_read_as_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """Also where a column is in a later block only, and where the order breaks between two."""
    monkeypatch.setattr(lines, "BLOCK", block)
    monkeypatch.setattr(lines, "MAX_LINE", 333)
    path = tmp_path / "events.jsonl"
    for last in range(1, 20):
        fault = b'{"seq":%d,"time":5,"kind":"fault","f":"loss","text":"\\"%d\\""}\n' % (last + 1, last)
        path.write_bytes(HEADER + b"".join(STOP % seq for seq in range(last + 1)) + fault)
        table = open_run(path).table()
        assert table["seq"].to_pylist() == [*range(last + 2)]
        assert table["node"].to_pylist() == [1] * (last + 1) + [None]
        assert table["text"].to_pylist() == [None] * (last + 1) + [f'"{last}"']
        path.write_bytes(HEADER + b"".join(STOP % seq for seq in [*range(last + 1), last]))
        with pytest.raises(HistoryError, match=f"line {last + 3}, field seq: {last} does not come after {last}"):
            open_run(path).table()
