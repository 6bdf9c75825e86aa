"""What is wrong with events, found by whole batches and found event by event: the same, wherever the bad one is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.junk import integers, words

from loghistory import HistoryError, open_run, parquet
from loghistory.columns import WORDS, integer_range, limits
from loghistory.compressed import FREE
from loghistory.lines import MAX_LINE
from loghistory.schema import (
    ALWAYS,
    COLUMNS,
    ENTRY_KINDS,
    MAX_BATCH_OFFSETS,
    SCHEMA,
    UNKNOWN_OFFSET,
    Kind,
    Operation,
    required_in,
)
from loghistory.validity import Reason, flaws

Row = dict[str, Any]
_LIMITS = {
    column.name: (-1, 1) if column.name == "acks" else limits(column)
    for column in COLUMNS
    if pa.types.is_integer(column.type)
}
_PLACES = (0, 1, 7, 8, 9, 62, 63, 64, 71, 72)
"""Of events in a batch: where bytes and words of a bitmap begin and end; and the last one."""


def plainly_wrong(row: Row, version: int, names: Sequence[str]) -> set[tuple[Reason, str]]:
    """All that is wrong with one event by itself, as far as these columns show it."""
    row = {name: value for name, value in row.items() if name in names}
    kind = row.get("kind")
    if kind not in [*Kind]:
        return {(Reason.MISSING_FIELD if kind is None else Reason.UNKNOWN_KIND, "kind")}
    found = {(Reason.MISSING_FIELD, name) for name in (*ALWAYS, *required_in(version)[kind]) if row.get(name) is None}
    for name, (low, high) in _LIMITS.items():
        if row.get(name) is not None and not low <= row[name] <= high:
            found.add((Reason.OUT_OF_RANGE, name))
    first, last = row.get("offset"), row.get("last_offset")
    if first is not None and first < 0 and kind in ENTRY_KINDS:
        appends = "f" not in names or row.get("f") == Operation.APPEND
        unknown = kind == Kind.OK and first == UNKNOWN_OFFSET and appends
        if not unknown:
            found.add((Reason.OUT_OF_RANGE, "offset"))
    most = MAX_BATCH_OFFSETS if kind in ENTRY_KINDS else 1 << 65
    if first is not None and last is not None and not 0 <= last - first < most:
        found.add((Reason.OUT_OF_RANGE, "last_offset"))
    return {(reason, name) for reason, name in found if name in names}


def judged(rows: Sequence[Row], last_seq: int | None, version: int, names: Sequence[str]) -> list[set[Any]]:
    """By event: what may be said of it, nothing if it is good."""
    found: list[set[Any]] = []
    for row in rows:
        wrong = plainly_wrong(row, version, names)
        if not wrong:
            if last_seq is not None and row["seq"] <= last_seq:
                wrong = {(Reason.SEQUENCE, "seq")}
            else:
                last_seq = row["seq"]
        found.append(wrong)
    return found


def batch_of(rows: Sequence[Row], names: Sequence[str], before: int, draw: random.Random) -> pa.RecordBatch:
    """A batch of these columns, cut out of a longer one: its columns begin ``before`` places behind their buffers."""
    padding: list[Row] = [{"seq": 5, "time": 5, "kind": "unheard-of", "offset": 7, "last_offset": 3}] * before
    arrays = []
    for name in names:
        values = [row.get(name) for row in (*padding, *rows, *padding)]
        kind = SCHEMA.field(name).type
        if name in WORDS:
            arrays.append(words(values, draw))
        else:
            arrays.append(integers(values, kind, draw) if pa.types.is_integer(kind) else pa.array(values, kind))
    return pa.RecordBatch.from_arrays(arrays, names=[*names]).slice(before, len(rows))


def good_event(draw: random.Random, seq: int, version: int) -> Row:
    """One that has what its kind needs, and some other columns."""
    kind = draw.choice([*Kind])
    row: Row = {"seq": seq, "time": draw.choice((0, 3)), "kind": str(kind)}
    others = draw.sample(SCHEMA.names, draw.choice((0, 3, 30)))
    for name in dict.fromkeys((*required_in(version)[kind], *others)):
        if name in _LIMITS and name not in row:
            row[name] = draw.choice((0, 1))
        elif name not in row:
            row[name] = draw.choice((Operation.APPEND, "word")) if name in WORDS else "text"
    if "last_offset" in row:
        row["last_offset"] = row.get("offset", 0) + draw.choice((0, 5, MAX_BATCH_OFFSETS - 1))
    return row


def damages(draw: random.Random, row: Row) -> Iterator[Row]:
    """The same event with something that is at a limit, or beyond."""
    name = draw.choice([*_LIMITS])
    low, high = _LIMITS[name]
    held = integer_range(SCHEMA.field(name).type)
    for value in (low - 1, low, high, high + 1, *held):
        if held[0] <= value <= held[1] and not (name == "seq" and value > 0):
            yield {**row, name: value}
    yield {each: value for each, value in row.items() if each != draw.choice([*row])}
    yield {**row, "kind": draw.choice(("", "Append", "appends"))}
    yield {**row, "seq": row["seq"] - draw.choice((1, 2, 50))}
    for first in (0, 1, -1, -2, 1 << 62):
        for width in (-1, 0, MAX_BATCH_OFFSETS - 1, MAX_BATCH_OFFSETS):
            kind, f = draw.choice([*sorted(ENTRY_KINDS), Kind.OK]), draw.choice((Operation.APPEND, Operation.TAIL))
            yield {**row, "kind": str(kind), "f": f, "offset": first, "last_offset": first + width}
            yield {**row, "kind": str(kind), "f": f, "offset": first}
            yield {**row, "offset": first, "last_offset": first + width}
    # Their difference does not fit 64 bits.
    yield {**row, "offset": -1, "last_offset": (1 << 63) - 1}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("size", "version"),
    [
        *((1, 1), (8, 2), (64, 1), (73, 2)),
        *(pytest.param(size, version, marks=pytest.mark.slow) for size, version in ((1, 2), (8, 1), (64, 2), (73, 1))),
    ],
)
def test_events_of_a_batch_are_judged_as_they_are_one_by_one(size: int, version: int) -> None:
    draw = random.Random(100 * version + size)
    rows = [good_event(draw, 10 + 2 * i, version) for i in range(size)]
    refused = 0
    for some in ([place for place in _PLACES if place < size][-4:], [size - 1]):
        place = draw.choice(some)
        names = draw.choice([SCHEMA.names, [name for name in SCHEMA.names if name in ALWAYS or draw.random() < 0.8]])
        for row in (rows[place], *damages(draw, rows[place])):
            events = [*rows[:place], row, *rows[place + 1 :]]
            if draw.random() < 0.2:
                events[draw.randrange(size)] = row
            last_seq = draw.choice((None, 9, 10))
            expected = judged(events, last_seq, version, names)
            found = flaws(batch_of(events, names, draw.choice((0, 3, 4, 8)), draw), last_seq, version)
            assert [flaw.row for flaw in found] == [number for number, wrong in enumerate(expected) if wrong]
            assert all((flaw.reason, flaw.field) in expected[flaw.row] for flaw in found)
            refused += bool(found)
    assert refused > 40


def test_a_batch_without_events_is_good() -> None:
    draw = random.Random(1)
    empty = batch_of([], SCHEMA.names, 0, draw)
    assert flaws(empty, None) == flaws(empty, 5) == flaws(batch_of([], SCHEMA.names, 3, draw), 5) == []


@pytest.mark.parametrize(
    ("seqs", "bad"), [([5, 5], [1]), ([5, 4, 6], [1]), ([-(1 << 63), 0, 1], [0]), ([0, 3, 2, 3, 4], [2, 3]), ([5], [])]
)
def test_nothing_is_before_the_first_event(seqs: list[int], bad: list[int]) -> None:
    """What is refused for another reason does not count in the order of the rest."""
    rows = [{"seq": seq, "time": 0, "kind": "heal", "f": "all", "node": 1} for seq in seqs]
    batch = batch_of(rows, ("seq", "time", "kind", "f", "node"), 0, random.Random(1))
    assert [flaw.row for flaw in flaws(batch, None)] == bad


@pytest.mark.parametrize("batch_rows", [1, 2, 5, 64])
def test_a_bad_event_of_a_parquet_file_is_named_wherever_its_batch_begins(tmp_path: Path, batch_rows: int) -> None:
    """Batches do not end where row groups do; ``seq`` increases across both."""
    rows = [{"seq": 3 * i, "time": 0, "kind": "heal", "f": "all", "node": 1} for i in range(12)]
    for place in range(12):
        for damage, reason in (({"seq": 3 * place - 3}, "does not come after"), ({"node": -2}, "is out of range")):
            events = [*rows[:place], {**rows[place], **damage}, *rows[place + 1 :]]
            path = tmp_path / "events.parquet"
            pq.write_table(pa.Table.from_pylist(events, SCHEMA), path, row_group_size=5)
            if not place and "seq" in damage:
                continue
            with pytest.raises(HistoryError, match=rf", event {place + 1}, field .*{reason}"):
                list(open_run(path).batches(batch_rows=batch_rows))
            lenient = open_run(path, lenient=True)
            kept = [seq for batch in lenient.batches(batch_rows=batch_rows) for seq in batch["seq"].to_pylist()]
            assert kept == [row["seq"] for row in rows if row is not rows[place]]


@pytest.mark.parametrize(("code", "good"), [(0, True), (2, True), (3, False), (-1, False), (1 << 30, False)])
@pytest.mark.parametrize("place", [0, 7, 8, 70])
def test_a_word_that_its_dictionary_does_not_have(code: int, place: int, good: bool) -> None:
    """Damage that no checksum shows: pages of files of others have none."""
    indices = np.zeros(71, np.int32)
    indices[place] = code
    column = pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(["a", "b", "c"]), safe=False)
    if good:
        parquet.validate(column)
    else:
        with pytest.raises(pa.ArrowInvalid):
            parquet.validate(column)


def test_a_long_text_of_many_events_is_handed_on_in_parts_and_not_without_end(tmp_path: Path) -> None:
    """A dictionary holds it once; a file that says more than a thousand times its size is refused."""
    path = tmp_path / "events.parquet"

    def read(text: str, events: int) -> list[int]:
        texts = pa.DictionaryArray.from_arrays(np.zeros(events, np.int32), [text])
        columns = {"seq": range(events), "time": [0] * events, "kind": ["heal"] * events, "f": ["all"] * events}
        pq.write_table(pa.table({**columns, "node": [1] * events, "text": texts}), path, compression="zstd")
        return [batch.num_rows * len(text) for batch in open_run(path).batches(coded_texts=True)]

    size = MAX_LINE // 2 - 2
    parts = read(random.Random(1).randbytes(size // 2).hex(), 100)
    assert max(parts) <= parquet.BATCH_TEXT < sum(parts) == 100 * size
    assert read("x" * MAX_LINE, 1) == [MAX_LINE]
    with pytest.raises(HistoryError, match="row group 1 holds a text longer than 1048576 bytes"):
        read("x" * (MAX_LINE + 1), 1)
    assert sum(read("x" * size, FREE // size)) == FREE // size * size
    with pytest.raises(HistoryError, match="texts of more than 1000 times the size of the file"):
        read("x" * size, FREE // size + 1)
