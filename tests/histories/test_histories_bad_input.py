"""Every kind of bad input is one line that names file, place, field and remedy. The table is the test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loghistory import SCHEMA, Format, HistoryError, Kind, MemorySink, Recorder, open_run, write_run
from loghistory.columns import integer_range
from loghistory.run import write_file

HEADER = b'{"kind":"history","version":2}\n'
STOP = b'{"seq":%d,"time":5,"kind":"stop","node":1}\n'
INT64 = "an integer from {} to {}".format(*integer_range(pa.int64()))
COLUMNS = ", ".join(SCHEMA.names)
KINDS = ", ".join(Kind)
OFFSET = "offset: offsets count from 0; leave out one that is not known, or give -1 in the ok of an append"
STATE = {"term": 1, "dirty": 0, "flushed": -1, "commit": -1}
WHOLE = "one JSON object a line"
HEADER_REMEDY = 'write {"kind":"history","version":2} first'


def event(**changed: object) -> bytes:
    columns = {"seq": 1, "time": 5, "kind": "stop", "node": 1} | changed
    return json.dumps({k: v for k, v in columns.items() if v is not ...}).encode() + b"\n"


# The bad line is the third of the file, after the header and a good event; the message, without the file's name.
BAD_LINES = {
    "empty": (b"\n", f"line 3: the line is empty: {WHOLE}"),
    "no JSON": (b"seq=1\n", f"line 3: not valid JSON, Expecting value at column 1: {WHOLE}"),
    "cut in the middle": (
        b'{"seq":1,"ti\n',
        f"line 3: not valid JSON, Unterminated string starting at at column 10: {WHOLE}",
    ),
    "two objects": (STOP[:-1] % 1 + b" " + STOP % 2, f"line 3: not valid JSON, Extra data at column 43: {WHOLE}"),
    "an array": (b"[1,2]\n", f"line 3: an array instead of an object: {WHOLE}"),
    "NaN": (event(text=...)[:-2] + b',"term":NaN}\n', f"line 3: not valid JSON, NaN is not a JSON number: {WHOLE}"),
    "infinity": (b'{"seq":-Infinity}\n', f"line 3: not valid JSON, -Infinity is not a JSON number: {WHOLE}"),
    "no UTF-8": (
        b'{"seq":1,"time":5,"kind":"fault","f":"\xff"}\n',
        "line 3: byte 39 of the line is not UTF-8: write the text in UTF-8",
    ),
    "UTF-16": (
        '{"seq":1}'.encode("utf-16") + b"\n",
        "line 3: byte 1 of the line is not UTF-8: write the text in UTF-8",
    ),
    "half a surrogate pair": (
        b'{"seq":1,"time":5,"kind":"fault","f":"\\ud800"}\n',
        "line 3, field f: half a surrogate pair is not text: give valid Unicode",
    ),
    "deep": (b"[" * 100_000 + b"\n", "line 3: nested too deeply: an event is a flat object"),
    "deep in a column": (b'{"text":' + b"[" * 100_000 + b"\n", "line 3: nested too deeply: an event is a flat object"),
    "huge integer": (b'{"seq":' + b"9" * 5000 + b"}\n", "line 3: an integer is out of range: give one of 64 bits"),
    "unknown kind": (event(kind="leaderr"), f'line 3, field kind: unknown kind "leaderr": the kinds are {KINDS}'),
    "no kind": (event(kind=...), 'line 3, field kind: an event must say its kind: add "kind"'),
    "kind null": (event(kind=None), 'line 3, field kind: an event must say its kind: add "kind"'),
    "second header": (HEADER, 'line 3, field seq: every event must carry it: add "seq"'),
    "unknown column": (event(ofset=3), f"line 3, field ofset: unknown column: the columns are {COLUMNS}"),
    "hostile column": (event(**{"a\nb": 3}), rf"line 3, field a\nb: unknown column: the columns are {COLUMNS}"),
    "no seq": (event(seq=...), 'line 3, field seq: every event must carry it: add "seq"'),
    "no time": (event(time=...), 'line 3, field time: every event must carry it: add "time"'),
    "seq null": (event(seq=None), f"line 3, field seq: null is not an integer: give {INT64}"),
    "missing field": (
        event(kind="invoke", op=1, f="append"),
        'line 3, field process: an invoke event must carry it: add "process"',
    ),
    "required field null": (event(node=None), 'line 3, field node: a stop event must carry it: add "node"'),
    "string for an integer": (event(seq="1"), f'line 3, field seq: the string "1" is not an integer: give {INT64}'),
    "float for an integer": (event(time=5.0), f"line 3, field time: 5.0 is not an integer: give {INT64}"),
    "exponent": (
        b'{"seq":1,"time":5e3,"kind":"stop","node":1}\n',
        f"line 3, field time: 5000.0 is not an integer: give {INT64}",
    ),
    "truth value": (event(seq=True), f"line 3, field seq: a truth value is not an integer: give {INT64}"),
    "object for an integer": (event(seq={}), f"line 3, field seq: an object is not an integer: give {INT64}"),
    "integer for a string": (event(f=5), "line 3, field f: 5 is not a string: give a string"),
    "array for a string": (event(text=[1]), "line 3, field text: an array is not a string: give a string"),
    "beyond 64 bits": (event(seq=2**63), f"line 3, field seq: 9223372036854775808 is out of range: give {INT64}"),
    "beyond 32 bits": (
        event(node=2**31),
        "line 3, field node: 2147483648 is out of range: give an integer from -2147483648 to 2147483647",
    ),
    "no acks level": (event(acks=3), "line 3, field acks: 3 is no acks level: -1 all, 1 leader, 0 none"),
    "offsets backwards": (
        event(offset=9, last_offset=8),
        "line 3, field last_offset: 8 is below the offset 9: the last offset is inclusive",
    ),
    "an entry below the first offset": (
        event(kind="observe", process=1, op=1, offset=-1, value=7),
        f"line 3, field offset: -1 is no {OFFSET}",
    ),
    "acknowledged below the first offset": (
        event(kind="ok", process=1, op=1, f="append", offset=-5),
        f"line 3, field offset: -5 is no {OFFSET}",
    ),
    "a tail below none": (
        event(kind="ok", process=1, op=1, f="tail", offset=-1),
        f"line 3, field offset: -1 is no {OFFSET}",
    ),
    "a batch below the first offset": (
        event(kind="append", **STATE, entry_term=1, offset=-(2**63), last_offset=-1),
        f"line 3, field offset: {-(2**63)} is no {OFFSET}",
    ),
    "answered below the first offset": (
        event(kind="acked", **STATE, entry_term=1, acks=1, reason="success", offset=-1),
        f"line 3, field offset: -1 is no {OFFSET}",
    ),
    "wide batch": (
        event(kind="observe", process=1, op=1, offset=0, last_offset=2**63 - 1),
        "line 3, field last_offset: a batch of 9223372036854775808 offsets is too wide: "
        "at most 1048576; record it as several batches",
    ),
    "key twice": (
        b'{"seq":1,"time":5,"kind":"stop","node":1,"node":2}\n',
        "line 3, field node: the key appears twice: give each column once",
    ),
    "key twice, once escaped": (
        b'{"seq":1,"time":5,"kind":"stop","node":1,"n\\u006fde":2}\n',
        "line 3, field node: the key appears twice: give each column once",
    ),
    "key twice, once null": (
        b'{"seq":1,"time":5,"kind":"stop","node":1,"node":null}\n',
        "line 3, field node: the key appears twice: give each column once",
    ),
    "seq repeated": (
        event(seq=0),
        "line 3, field seq: 0 does not come after 0: "
        "seq increases strictly; merge the files of several processes with `history merge`",
    ),
    "long line": (
        event(text="x" * (1 << 20)),
        "line 3: the line is longer than 1048576 bytes: split what it holds into several events",
    ),
    "cut off": (
        b'{"seq":1,"time":5',
        "line 3: the last line is cut off: record it again, or read up to the line before with --lenient",
    ),
}


def message(path: Path) -> str:
    with pytest.raises(HistoryError) as error:
        for _ in open_run(path).batches():
            pass
    text = str(error.value)
    assert text.isprintable()
    assert text.startswith(str(path))
    return text[len(str(path)) :].removeprefix(", ").removeprefix(": ")


def test_an_append_may_be_acknowledged_without_its_offset(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    said = event(kind="ok", process=1, op=1, f="append", offset=-1)
    trim = event(seq=2, kind="trim", offset=-1, **STATE)  # no entry is at the offset of a trim
    path.write_bytes(HEADER + said + trim)
    assert open_run(path).table().column("offset").to_pylist() == [-1, -1]
    assert [batch.num_rows for batch in open_run(path).batches(["kind", "offset"])] == [2]


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line(tmp_path: Path, name: str) -> None:
    line, expected = BAD_LINES[name]
    path = tmp_path / "events.jsonl"
    after = STOP % 7 if line.endswith(b"\n") else b""
    path.write_bytes(HEADER + STOP % 0 + line + after)
    assert message(path) == expected


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_set_aside_and_the_rest_is_read(tmp_path: Path, name: str) -> None:
    line, expected = BAD_LINES[name]
    path = tmp_path / "events.jsonl"
    after = STOP % 7 if line.endswith(b"\n") else b""
    path.write_bytes(HEADER + STOP % 0 + line + after)
    run = open_run(path, lenient=True, quarantine=tmp_path / "aside")
    assert run.table().column("seq").to_pylist() == ([0, 7] if after else [0])
    assert sum(run.set_aside.values()) == 1
    (kept,) = (json.loads(text) for text in (tmp_path / "aside").read_text().splitlines())
    assert kept["line"] == 3
    assert kept["problem"] in expected
    assert kept["reason"] in run.set_aside
    assert kept["raw"][:20] == line.decode("utf-8", "backslashreplace")[:20].rstrip("\n")


BAD_FILES = {
    "empty": (b"", "line 1: the file is empty: name a file that holds a history"),
    "no header": (STOP % 0, f"line 1: the first line is not a history header: {HEADER_REMEDY}"),
    "text": (b"hello\n", f"line 1: the first line is not a history header: {HEADER_REMEDY}"),
    "binary": (b"\x00\xff" * 50, f"line 1: the first line is not a history header: {HEADER_REMEDY}"),
    "another header": (
        b'{"kind":"log","version":1}\n',
        f"line 1: the first line is not a history header: {HEADER_REMEDY}",
    ),
    "version as text": (
        b'{"kind":"history","version":"1"}\n',
        f"line 1: the first line is not a history header: {HEADER_REMEDY}",
    ),
    "later version": (
        b'{"kind":"history","version":3}\n',
        "line 1, field version: history version 3 is not known: "
        "this library reads versions up to 2; install a later one",
    ),
    "no version": (
        b'{"kind":"history","version":0}\n',
        "line 1, field version: history version 0 is not known: versions start at 1",
    ),
    "header cut off": (b'{"kind":"hist', f"line 1: the first line is not a history header: {HEADER_REMEDY}"),
    "one long line": (
        b"x" * (3 << 20),
        "line 1: the line is longer than 1048576 bytes: split what it holds into several events",
    ),
    "zstd, cut off at once": (
        b"\x28\xb5\x2f\xfd",
        "the compressed file is cut off: record it again, or read up to the last whole event with --lenient",
    ),
    "zstd, damaged": (
        b"\x28\xb5\x2f\xfd" + b"\xff" * 40,
        "the compressed file is damaged: copy or record it again, or read what is before with --lenient",
    ),
    "Parquet, cut off": (
        b"PAR1" + b"\x00" * 40,
        "not a whole Parquet file, Parquet magic bytes not found in footer. Either the file is…: "
        "copy or record it again",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file(tmp_path: Path, name: str) -> None:
    content, expected = BAD_FILES[name]
    path = tmp_path / "events"
    path.write_bytes(content)
    assert message(path) == expected


def good_table(events: int = 3) -> pa.Table:
    sink = MemorySink()
    with Recorder(sink) as record:
        for time in range(events):
            record.event(Kind.STOP, time=time, node=1)
    return sink.table


def parquet_with(**columns: pa.Array) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        table = {"seq": pa.array([0, 1]), "time": pa.array([5, 6]), "kind": pa.array(["stop", "stop"])} | {
            "node": pa.array([1, 1], pa.int32())
        }
        pq.write_table(pa.table(table | columns), path)

    return write


def _later_version(path: Path) -> None:
    table = good_table()
    pq.write_table(table.replace_schema_metadata({"loghistory.version": "3"}), path)


def _without_seq(path: Path) -> None:
    pq.write_table(good_table().drop_columns(["seq"]), path)


BAD_PARQUET: dict[str, tuple[Callable[[Path], None], str]] = {
    "later version": (
        _later_version,
        "field version: history version 3 is not known: this library reads versions up to 2; install a later one",
    ),
    "no seq": (_without_seq, 'field seq: the column is missing: add "seq"'),
    "unknown column": (parquet_with(ofset=pa.array([1, 2])), f"field ofset: unknown column: the columns are {COLUMNS}"),
    "nested column": (
        parquet_with(text=pa.array([{"a": 1}, None])),
        "field text: the column holds struct<a: int64>: it must hold a string",
    ),
    "float column": (
        parquet_with(term=pa.array([1.0, 2.0])),
        f"field term: the column holds double: it must hold {INT64}",
    ),
    "unknown kind": (
        parquet_with(kind=pa.array(["stop", "stopp"])),
        f'event 2, field kind: unknown kind "stopp": the kinds are {KINDS}',
    ),
    "kind null": (
        parquet_with(kind=pa.array(["stop", None])),
        'event 2, field kind: an event must say its kind: add "kind"',
    ),
    "missing field": (
        parquet_with(node=pa.array([1, None])),
        'event 2, field node: a stop event must carry it: add "node"',
    ),
    "missing column": (
        parquet_with(kind=pa.array(["stop", "heal"])),
        'event 2, field f: a heal event must carry it: add "f"',
    ),
    "out of range": (
        parquet_with(node=pa.array([1, 2**40])),
        "event 1, field node: row group 1 holds a value that does not fit: "
        "every value must be an integer from -2147483648 to 2147483647",
    ),
    "seq repeated": (
        parquet_with(seq=pa.array([4, 4])),
        "event 2, field seq: 4 does not come after 4: "
        "seq increases strictly; merge the files of several processes with `history merge`",
    ),
}


@pytest.mark.parametrize("name", BAD_PARQUET)
def test_a_bad_parquet_file(tmp_path: Path, name: str) -> None:
    write, expected = BAD_PARQUET[name]
    path = tmp_path / "events.parquet"
    write(path)
    assert message(path) == expected


def test_a_flipped_bit_in_a_parquet_page_is_seen_without_a_manifest(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    write_file(path, good_table(1000))
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    assert message(path).startswith("event 1: row group 1 is damaged, ")


def run_with(tmp_path: Path, form: Format) -> tuple[Path, Path]:
    write_run(tmp_path / "run", good_table(), {"name": "demo"}, form)
    return tmp_path / "run", tmp_path / "run" / f"events{form.suffix}"


DIGEST_REMEDY = "copy the run again, or open the events file alone to read it without its manifest"


@pytest.mark.parametrize("form", list(Format))
def test_a_run_that_is_not_what_its_manifest_says(tmp_path: Path, form: Format) -> None:
    run, events = run_with(tmp_path, form)
    whole = events.read_bytes()
    for content, problem in [
        (whole[:-1], f"cut off: {len(whole) - 1} bytes where the manifest says {len(whole)}"),
        (whole + b"\n", f"too long: {len(whole) + 1} bytes where the manifest says {len(whole)}"),
        (whole[:-1] + b" ", "the digest is not the one in the manifest"),
    ]:
        events.write_bytes(content)
        with pytest.raises(HistoryError) as error:
            open_run(run)
        assert str(error.value) == f"{events}: {problem}: {DIGEST_REMEDY}"
    events.write_bytes(whole)
    assert open_run(run).table().num_rows == 3
    events.unlink()
    with pytest.raises(HistoryError) as error:
        open_run(run)
    assert str(error.value) == f"{events}: no such file: name a run directory or a file of events"


@pytest.mark.parametrize("form", list(Format))
@pytest.mark.parametrize(("field", "said"), [("nodes", [0, 1, 7]), ("events", 2), ("counts", {"stop": 2, "start": 1})])
def test_a_manifest_that_contradicts_the_events_is_refused(
    tmp_path: Path, form: Format, field: str, said: object
) -> None:
    run, _ = run_with(tmp_path, form)
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {field: said}))
    for lenient in (False, True):
        with pytest.raises(HistoryError, match=f"manifest.json, field {field}: .* is not what the events show"):
            open_run(run, lenient=lenient).table()
    # Of some kinds alone nothing follows.
    assert open_run(run).table(kinds=["stop"]).num_rows <= 3


MANIFEST_REMEDY = "restore the file that was written with the run, or remove it to read the run without its digest"
BAD_MANIFESTS = {
    "no JSON": ("{", f": not valid JSON, Input data was truncated: {MANIFEST_REMEDY}"),
    "wrong type": ('{"nodes":"all"}', f", field nodes: Expected `array`, got `str`: {MANIFEST_REMEDY}"),
    "an array": ("[]", f": Expected `object`, got `array`: {MANIFEST_REMEDY}"),
    "elsewhere": (
        '{"version":1,"file":"../../etc/passwd"}',
        ', field file: "../../etc/passwd" is not a file name: name the events file in the same directory',
    ),
    "no file": ('{"version":1}', ', field file: "" is not a file name: name the events file in the same directory'),
    "no digest": (
        '{"version":1,"file":"events.jsonl"}',
        f', field digests: no digest of "events.jsonl": {MANIFEST_REMEDY}',
    ),
    "later version": (
        '{"version":9,"file":[]}',
        ", field version: history version 9 is not known: this library reads versions up to 2; install a later one",
    ),
}


@pytest.mark.parametrize("name", BAD_MANIFESTS)
def test_a_bad_manifest(tmp_path: Path, name: str) -> None:
    content, expected = BAD_MANIFESTS[name]
    run, _ = run_with(tmp_path, Format.JSON_LINES)
    (run / "manifest.json").write_text(content)
    with pytest.raises(HistoryError) as error:
        open_run(run)
    assert str(error.value) == f"{run / 'manifest.json'}{expected}"


def test_what_is_no_run(tmp_path: Path) -> None:
    for path, problem in [
        (tmp_path / "nowhere", "no such file: name a run directory or a file of events"),
        (tmp_path, "not a run: it has no manifest.json and no events file: name the directory of a run"),
    ]:
        with pytest.raises(HistoryError) as error:
            open_run(path)
        assert str(error.value) == f"{path}: {problem}"


def test_the_name_of_a_hostile_file_stays_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a\nb\x1b[31m.jsonl"
    path.write_bytes(b"x\n")
    with pytest.raises(HistoryError) as error:
        open_run(path).table()
    assert str(error.value).isprintable()
    assert r"a\nb\x1b[31m.jsonl, line 1" in str(error.value)


def test_a_manifest_is_the_same_for_the_same_run(tmp_path: Path) -> None:
    write_run(tmp_path / "a", good_table(), {"name": "x", "made_by": {"seed": 1, "configuration": {"b": 1, "a": 2}}})
    write_run(tmp_path / "b", good_table(), {"made_by": {"configuration": {"a": 2, "b": 1}, "seed": 1}, "name": "x"})
    first = (tmp_path / "a" / "manifest.json").read_bytes()
    assert first == (tmp_path / "b" / "manifest.json").read_bytes()
    events = (tmp_path / "a" / "events.jsonl").read_bytes()
    assert json.loads(first)["digests"] == {"events.jsonl": f"sha256:{hashlib.sha256(events).hexdigest()}"}


BEYOND = {
    **dict.fromkeys(
        (
            *("seq", "process", "op", "txn", "term", "message", "count", "bytes", "reserved", "stamp", "epoch"),
            *("version", "filter", "shards", "recovery", "session"),
        ),
        (-1, 0, 2**63 - 1),
    ),
    **dict.fromkeys(("node", "peer", "incarnation", "logical", "partition", "wave"), (-1, 0, 2**31 - 1)),
    **dict.fromkeys(("last_offset", "entry_term", "dirty", "flushed", "commit", "visible"), (-2, -1, 2**63 - 1)),
    "offset": (-2, -1, 2**63 - 1),
    "time": (2**62, -(2**62) + 1, 2**62 - 1),
}
"""For each column of numbers: one that it may not hold, and the limits."""


def test_every_column_of_numbers_has_limits() -> None:
    numbers = {column.name for column in SCHEMA if pa.types.is_integer(column.type)}
    # A value and a key may be any integer in a file; one that is too small is refused by who judges.
    assert {*BEYOND, "acks", "value", "key"} == numbers


@pytest.mark.parametrize("form", [".jsonl", ".parquet"])
@pytest.mark.parametrize("name", BEYOND)
def test_a_number_beyond_the_limits_is_refused_in_one_line(tmp_path: Path, name: str, form: str) -> None:
    bad, low, high = BEYOND[name]
    smallest = -(2 ** (31 if high < 2**31 else 63))
    for number in (bad, smallest, low):
        row = {"seq": 0, "time": 0, "kind": "stop", "node": 1, name: number}
        path = tmp_path / f"{number}{form}"
        if form == ".jsonl":
            path.write_bytes(HEADER + json.dumps(row).encode() + b"\n")
        else:
            pq.write_table(pa.Table.from_pylist([row], SCHEMA), path)
        if number == low:
            assert open_run(path).table().num_rows == 1
            continue
        with pytest.raises(HistoryError) as error:
            open_run(path).table()
        place = "line 2" if form == ".jsonl" else "event 1"
        remedy = f"give an integer from {low} to {high}"
        assert str(error.value) == f"{path}, {place}, field {name}: {number} is out of range: {remedy}"


@pytest.mark.parametrize("form", [".jsonl", ".parquet"])
@pytest.mark.parametrize(("name", "number"), [("value", -(2**63)), ("value", -(2**61) - 1), ("offset", 2**61)])
def test_what_no_check_can_reckon_with_is_set_aside_alone(tmp_path: Path, name: str, number: int, form: str) -> None:
    rows = [{"seq": seq, "time": 0, "kind": "stop", "node": 1} for seq in range(3)]
    rows[1][name] = number
    path = tmp_path / f"history{form}"
    if form == ".jsonl":
        path.write_bytes(HEADER + b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    assert open_run(path).table().num_rows == 3
    lenient = open_run(path, lenient=True)
    assert lenient.table(["seq"]).column("seq").to_pylist() == [0, 2]
    assert lenient.set_aside == {"out_of_range": 1}
