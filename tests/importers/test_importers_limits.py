"""Files that mean harm, judged by the command itself in one process that cannot have much memory.

A whole directory of them: each ends in one line that says what is wrong and what would be right, or in a verdict.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loghistory import HistoryError, open_run
from loghistory.validity import LARGEST_OFFSET

MEMORY = 2 << 30
PEAK = 700 << 20
CHECK = """
import resource, sys, time
from logwitness.cli import main
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
began = time.monotonic()
try:
    main(sys.argv[2:])
finally:
    # Of this program alone: what `resource` tells includes the parent that forked.
    peak = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(peak, time.monotonic() - began, file=sys.stderr)
"""
HEADER = '{"kind":"history","version":2}\n'
OP = "{:process 0 :type :invoke :f :write :value 1}\n{:process 0 :type :ok :f :write :value 1}\n"

STARTS = {
    "edn": b'{:type "',
    "json": b'{"type":"',
    "log": b"1 :invoke :read nil\n1 :ok :read ",
    "jsonl": HEADER.encode(),
}
"""How files begin whose next line has no end."""


def _sparse(path: Path, start: bytes) -> None:
    """A line of a gigabyte: as a hole in the file."""
    with path.open("wb") as file:
        file.write(start)
        file.truncate(1 << 30)


def _bomb(path: Path, start: bytes, block: bytes, count: int) -> None:
    """Much of the same, compressed."""
    if path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(start)
            for _ in range(count):
                stream.write(block)
        return
    # What repeats is compressed once: a member of a gzip file may follow another.
    path.write_bytes(gzip.compress(start) + gzip.compress(block, 9) * count)


def _appends(offsets: list[int]) -> str:
    """A log of ours with one append at each offset, and a read of all."""
    lines = []
    for op, offset in enumerate(offsets):
        common = f'"process":1,"op":{op},"f":"append"'
        lines.append(f'{{"seq":{2 * op},"time":{op},"kind":"invoke",{common},"value":{op},"acks":-1}}')
        lines.append(f'{{"seq":{2 * op + 1},"time":{op},"kind":"ok",{common},"offset":{offset},"term":1}}')
    return HEADER + "\n".join(lines) + "\n"


def _kafka(offsets: list[int]) -> str:
    maps = []
    for value, offset in enumerate(offsets):
        common = ":process 0 :f :send :value"
        maps.append(
            f"{{:type :invoke {common} [[:send 1 {value}]]}} {{:type :ok {common} [[:send 1 [{offset} {value}]]]}}"
        )
    given = " ".join(f"[{offset} {value}]" for value, offset in enumerate(offsets))
    maps.append("{:type :invoke :process 1 :f :poll :value [[:poll]]}")
    maps.append(f"{{:type :ok :process 1 :f :poll :value [[:poll {{1 [{given}]}}]]}}")
    return "\n".join(maps)


def _parquet(path: Path, **columns: pa.Array) -> None:
    count = len(next(iter(columns.values())))
    whole = {
        "seq": pa.array(range(count), pa.int64()),
        "time": pa.array([0] * count, pa.int64()),
        "kind": pa.array(["fault"] * count),
        "f": pa.array(["x"] * count),
    }
    options: dict[str, Any] = {"store_schema": False, "compression": "zstd", "dictionary_pagesize_limit": 1 << 30}
    pq.write_table(pa.table(whole | columns), path, **options)


def _lying_parquet(path: Path) -> None:
    """A good file whose index claims another size."""
    _parquet(path, text=pa.array(["a", "b"] * 500))
    data = bytearray(path.read_bytes())
    place = data.find(b"schema")
    data[place - 12 : place - 8] = b"\xff\xff\xff\x7f"
    path.write_bytes(data)


UNREADABLE = {
    "deep.edn": "nest deeper than 64",
    "deep.json": "nest deeper than 64",
    "deep.log": "nest deeper than 64",
    "deep.jsonl": "longer than",
    "integer.edn": "64 bits",
    "integer.json": "out of range",
    "integer.log": "64 bits",
    "integer.jsonl": "out of range",
    "utf8.edn": "not valid UTF-8",
    "utf8.json": "not valid UTF-8",
    "utf8.log": "not valid UTF-8",
    "utf8.jsonl": "not UTF-8",
    "utf16.edn": "UTF-16",
    "zeros.edn.gz": "longer than",
    "spaces.edn.zst": "times its size",
    "maps.edn.zst": "times its size",
    "lines.log.zst": "times its size",
    "cut.edn.gz": "cut off",
    "damaged.edn.gz": "damaged",
    "gigabyte.edn": "longer than",
    "gigabyte.json": "longer than",
    "gigabyte.log": "longer than",
    "gigabyte.jsonl": "longer than",
    "zip.edn": "a zip archive",
    "nested.parquet": "holds list",
    "struct.parquet": "holds struct",
    "words.parquet": "must hold an integer",
    "text.parquet": "times the size of the file",
    "long-text.parquet": "longer than 1048576",
    "lying.parquet": "row group 1 is damaged",
    "too-large.edn": "too large to judge",
    "too-large.jsonl": "too large to judge",
    "wide.jsonl": "last_offset",
    "duplicate.json": "repeated",
    "empty.edn": "empty",
}
GAPS = {
    "gap.edn": "holds",
    "many-gaps.edn": "holds",
    # Nobody appended what is between: in a log of ours that is a loss.
    "gap.jsonl": "violated",
    "sparse.jsonl": "violated",
}


def _make(place: Path) -> None:
    def write(name: str, data: str | bytes) -> None:
        (place / name).write_bytes(data.encode() if isinstance(data, str) else data)

    def foreign(name: str, value: str | bytes) -> None:
        """A file of a name's format with an operation of this value."""
        raw = value.encode() if isinstance(value, str) else value
        start, end = {
            ".edn": (OP.encode() + b"{:process 1 :type :invoke :f :write :value ", b"}"),
            ".json": (b'{"process":1,"type":"invoke","f":"write","value":', b"}"),
            ".log": (b"x - 0 :invoke :read nil\nx - 1 :invoke :write ", b"\n"),
            ".jsonl": (HEADER.encode() + b'{"seq":0,"time":0,"kind":"fault","f":"x","op":', b"}\n"),
        }[name[name.rindex(".") :]]
        write(name, start + raw + end)

    for format_ in ("edn", "json", "log", "jsonl"):
        foreign(f"deep.{format_}", "[" * (900_000 if format_ == "log" else 20 << 20))
        foreign(f"integer.{format_}", "9" * 900_000)
        foreign(f"utf8.{format_}", b'"\xff\xc3("')
        _sparse(place / f"gigabyte.{format_}", STARTS[format_])
    write("utf16.edn", OP.encode("utf-16"))
    _bomb(place / "zeros.edn.gz", OP.encode(), bytes(1 << 20), 200)
    _bomb(place / "spaces.edn.zst", OP.encode(), b" " * (1 << 20), 300)
    _bomb(place / "maps.edn.zst", OP.encode(), b"; nothing to see here\n" * 50_000 + OP.encode(), 200)
    _bomb(place / "lines.log.zst", b"x - 1 :invoke :read nil\n", b"\n" * (1 << 20), 300)
    write("cut.edn.gz", gzip.compress(OP.encode() * 9000)[:-500])
    damaged = bytearray(gzip.compress((OP * 9000).encode(), 1))
    damaged[len(damaged) // 2] ^= 255
    write("damaged.edn.gz", damaged)
    write("zip.edn", b"PK\x03\x04" + zlib.compress(bytes(1 << 20)))
    _parquet(place / "nested.parquet", offset=pa.array([[1, 2], [3]]))
    _parquet(place / "struct.parquet", text=pa.array([{"a": {"b": [1]}}]))
    _parquet(place / "words.parquet", offset=pa.array(["1", "2"]))
    count = 200_000
    long = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["y" * (1 << 20)]))
    _parquet(place / "text.parquet", text=long)
    _parquet(place / "long-text.parquet", text=pa.array(["y" * (5 << 20)]))
    _lying_parquet(place / "lying.parquet")
    write(
        "wide.jsonl",
        HEADER + '{"seq":0,"time":0,"kind":"observe","process":1,"op":1,"offset":0,"last_offset":9000000000}\n',
    )
    write("duplicate.json", '{"process":1,"type":"invoke","f":"write","value":1,"value":2}\n')
    write("empty.edn", "")
    write("gap.edn", _kafka([0, 3_000_000_000, LARGEST_OFFSET]))
    write("too-large.edn", _kafka([0, LARGEST_OFFSET + 1]))
    write("many-gaps.edn", _kafka([i << 50 for i in range(2000)]))
    write("gap.jsonl", _appends([0, 3_000_000_000]))
    write("sparse.jsonl", _appends([i << 49 for i in range(4000)]))
    write("too-large.jsonl", _appends([0, LARGEST_OFFSET + 1]))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    place = tmp_path_factory.mktemp("hostile")
    _make(place)
    command = [sys.executable, "-c", CHECK, str(MEMORY), "check", "--json", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    documents = {Path(each["file"]).name: each for each in map(json.loads, done.stdout.splitlines())}
    peak, seconds = done.stderr.splitlines()[-1].split()
    return documents | {"": {"peak": int(peak), "seconds": float(seconds), "status": done.returncode}}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNREADABLE)
def test_a_hostile_file_ends_in_one_line(judged: dict[str, dict[str, Any]], name: str) -> None:
    found = judged[name]
    assert found["verdict"] == "unreadable", found
    assert UNREADABLE[name] in found["error"], found["error"]
    assert found["error"].isprintable()
    assert len(found["error"]) < 500


@pytest.mark.slow
@pytest.mark.parametrize("name", GAPS)
def test_gaps_and_sparse_offsets_are_nothing_special(judged: dict[str, dict[str, Any]], name: str) -> None:
    assert judged[name]["verdict"] == GAPS[name], judged[name]


@pytest.mark.slow
def test_all_in_bounded_memory_and_time(judged: dict[str, dict[str, Any]]) -> None:
    assert judged[""]["status"] == 1
    assert len(judged) == len(UNREADABLE) + len(GAPS) + 1
    assert judged[""]["peak"] < PEAK
    assert judged[""]["seconds"] < 120


@pytest.mark.slow
def test_many_damaged_files_cost_no_more_than_one(tmp_path: Path) -> None:
    whole = gzip.compress(OP.encode() * 90)
    path = tmp_path / "damaged.edn.gz"
    before = 0
    for number in range(600):
        place = len(whole) // 2 + number % 50
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with pytest.raises(HistoryError):
            open_run(path).table()
        if number == 100:
            before = _resident()
    assert _resident() - before < 16 << 20


def _resident() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
