"""Hostile sizes end in an error, within bounded memory: each runs in a process that cannot have more."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loghistory import Kind
from loghistory.importers.rows import batch_of
from loghistory.run import write_file

pytestmark = pytest.mark.slow

MIB = 640
"""To which a bomb expands at least; a process has less left when it has loaded what it needs."""
HEADER = b'{"kind":"history","version":2}\n'

# Loading pyarrow takes about 350 MB of address space by itself; what the bombs expand to is far more than the limit.
READER = """
import resource, sys
import loghistory
limit = 900 << 20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
path, lenient = sys.argv[1:]
try:
    run = loghistory.open_run(path, lenient=lenient == "lenient", quarantine="quarantine.jsonl")
    print(sum(batch.num_rows for batch in run.batches()), dict(run.set_aside))
except loghistory.HistoryError as error:
    print(error)
    sys.exit(2)
"""


def read(path: Path, mode: str = "strict") -> tuple[int, str]:
    command = [sys.executable, "-c", READER, path.name, mode]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.strip()


def zeros() -> Iterator[bytes]:
    for _ in range(MIB):
        yield bytes(1 << 20)


def blank_lines() -> Iterator[bytes]:
    yield HEADER
    for _ in range(MIB):
        yield b"\n" * (1 << 20)


def one_string() -> Iterator[bytes]:
    yield HEADER + b'{"seq":1,"time":1,"kind":"fault","f":"'
    for _ in range(MIB):
        yield b"a" * (1 << 20)


def repeated_event() -> Iterator[bytes]:
    yield HEADER
    for _ in range(150):
        yield b'{"seq":1,"time":1,"kind":"fault","f":"x"}\n' * 25_000


TOO_LONG = "the line is longer than 1048576 bytes: split what it holds into several events"
TOO_DENSE = (
    "the compressed file expands to more than 1000 times its size: "
    "if it is a history nevertheless, unpack it with zstd and read that"
)
GIVEN_UP = "more than 1048576 lines or events are bad, more than are good: name a file that is a history"
# What a strict and what a lenient reading say.
BOMBS: dict[str, tuple[Callable[[], Iterator[bytes]], str, str]] = {
    "zeros": (zeros, f", line 1: {TOO_LONG}", "0 {'long_line': 1, 'bomb': 1}"),
    "blank lines": (
        blank_lines,
        ", line 2: the line is empty: one JSON object a line",
        f"bomb.jsonl.zst, line 1048578: {GIVEN_UP}",
    ),
    "one string": (one_string, f", line 2: {TOO_LONG}", "0 {'long_line': 1, 'bomb': 1}"),
    "repeated event": (
        repeated_event,
        ", line 3, field seq: 1 does not come after 1: "
        "seq increases strictly; merge the files of several processes with `history merge`",
        "1 {'sequence': N, 'bomb': 1}",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_zstd_bomb(tmp_path: Path, name: str) -> None:
    content, strict, lenient = BOMBS[name]
    bomb = tmp_path / "bomb.jsonl.zst"
    with pa.CompressedOutputStream(str(bomb), "zstd") as stream:
        for block in content():
            stream.write(block)
    assert bomb.stat().st_size < 1 << 20
    assert read(bomb) == (2, f"bomb.jsonl.zst{strict}")
    status, said = read(bomb, "lenient")
    # How far a bomb is read before it is given up depends on the zstd library.
    assert re.sub(r"'sequence': \d+", "'sequence': N", said) == lenient
    assert status == (2 if said.startswith("bomb") else 0)


def test_a_bomb_that_begins_well(tmp_path: Path) -> None:
    """Rising numbers are the densest history there can be; a stream that is denser still is given up."""
    bomb = tmp_path / "bomb.jsonl.zst"
    with pa.CompressedOutputStream(str(bomb), "zstd") as stream:
        stream.write(HEADER)
        padding = " " * 100_000
        for number in range(1500):
            stream.write(f'{{"seq":{number},"time":1,"kind":"fault","f":"x"{padding}}}\n'.encode())
    status, said = read(bomb)
    assert (status, said) == (2, f"bomb.jsonl.zst: {TOO_DENSE}")


def test_a_huge_line_in_a_huge_file(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with path.open("wb") as file:
        file.write(HEADER)
        file.seek(1 << 30)
        file.write(b'\n{"seq":1,"time":1,"kind":"stop","node":1}\n')
    assert read(path) == (2, f"events.jsonl, line 2: {TOO_LONG}")
    assert read(path, "lenient") == (0, "1 {'long_line': 1}")


def test_many_bad_lines_stay_in_bounds(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(HEADER + b"{}\n" * 200_000)
    assert read(path, "lenient") == (0, "0 {'missing_field': 200000}")
    assert (tmp_path / "quarantine.jsonl").stat().st_size < 65 << 20


def test_a_parquet_file_that_claims_too_much(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    same = pa.array(np.full(60_000_000, 7, np.int8))
    kinds = pa.DictionaryArray.from_arrays(np.zeros(60_000_000, np.int8), ["stop"])
    table = pa.table({"seq": same, "time": same, "kind": kinds})
    pq.write_table(table, path, compression="zstd", row_group_size=60_000_000)
    status, said = read(path)
    assert status == 2
    assert said == (
        f"events.parquet: the file claims 60000000 events in {path.stat().st_size} bytes: "
        "no history is that dense; record it again"
    )


def test_a_million_events_pass_in_the_same_memory(tmp_path: Path) -> None:
    count = 1_000_000
    places = np.arange(count)
    stops = pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [str(Kind.STOP)])
    texts = pa.repeat("abcdefgh" * 8, count)
    state = {"node": np.ones(count, np.int64), "offset": places, "last_offset": places, "text": texts}
    events = batch_of(0, count, {"time": places, "kind": stops, **state})
    for name in ("events.jsonl.zst", "events.parquet"):
        write_file(tmp_path / name, [events])
        assert read(tmp_path / name) == (0, "1000000 {}"), name
