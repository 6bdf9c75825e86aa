"""One log by ranges of offsets: the answer of the fold where there is one, and none where the fold must be asked."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from audit_tables import Auditor
from pyspark.sql import SparkSession
from test_audit import same_verdicts

from loghistory import SCHEMA, HistoryError, open_run, write_run
from logwitness.checks.contract import Verdict
from logwitness.checks.linearizable_log import CHECK, FAMILY
from logwitness.engine.doubt import Doubt
from logwitness.engine.local import judge_logs, setting_of
from logwitness.engine.run import together
from logwitness.pipeline import audit
from logwitness.pipeline.ingest import Large
from logwitness.pipeline.offset_ranges import judge_by_ranges


def _events(seed: int, appends: int, log: str | None = None) -> list[dict[str, Any]]:
    """A linearizable log of overlapping appends, some of unknown outcome, with reads, tails and a final read."""
    chosen = random.Random(seed)
    reported: list[tuple[int, int, dict[str, Any]]] = []
    op = 0

    def operation(begin: int, end: int, f: str, asked: dict[str, Any], *closing: dict[str, Any]) -> None:
        nonlocal op
        op += 1
        common = {"process": op, "op": op, "f": f, "log": log}
        reported.append((begin, op, common | {"kind": "invoke"} | asked))
        reported.extend((end, op, common | row) for row in closing)

    offset = 0
    for value in range(appends):
        now = 100 * value  # the entry comes into the log at this time
        begin, end = now - chosen.randrange(1, 400), now + chosen.randrange(1, 400)
        width = chosen.choice([1, 1, 3])
        asked = {"value": value, "acks": -1}
        done = {"kind": "ok", "offset": offset, "last_offset": offset + width - 1, "term": 1}
        operation(begin, end, "append", asked, {"kind": "info"} if chosen.random() < 0.05 else done)
        batch = {"kind": "observe", "offset": offset, "last_offset": offset + width - 1, "value": value}
        read = {"kind": "ok", "offset": offset + width, "count": 1}
        operation(now + 100 * chosen.randrange(50), 100 * appends + 10_000, "read", {"offset": offset}, batch, read)
        offset += width
        if chosen.random() < 0.2:
            operation(now + 1, now + 99, "tail", {}, {"kind": "ok", "offset": offset})
    reported.sort(key=lambda each: each[:2])
    return [row | {"seq": seq, "time": time + 10_000} for seq, (time, _, row) in enumerate(reported)]


def _large(place: Path, table: pa.Table) -> Large:
    """The history as the first stage hands it on."""
    write_run(place, table, {"name": "log"}, format="parquet")
    file = place / "events.parquet"
    setting = setting_of(open_run(place), compiled=False)
    row = {"run": str(place), "events": table.num_rows}
    highest = max(pc.max(table.column("offset")).as_py() or 0, 0)
    lowest = min(pc.min(table.column("offset")).as_py() or 0, 0)
    return Large(
        row,
        str(file),
        file.stat().st_size,
        shell=None,
        notes=(),
        stated=setting,
        lowest_offset=lowest,
        highest_offset=highest,
        doubt=Doubt(),
    )


def _whole(large: Large) -> Any:  # noqa: ANN401
    """What the fold says. Whether it rests on events that are well formed is weighed after it, either way."""
    _, by_log = judge_logs("log", open_run(large.file).batches, (FAMILY,), large.setting(compiled=False))
    ((found,), _) = together((CHECK,), by_log, 10)
    return found


@pytest.mark.parametrize("log", [None, "orders"])
def test_a_log_that_holds_is_judged_like_by_the_fold(tmp_path: Path, spark: SparkSession, log: str | None) -> None:
    large = _large(tmp_path / "run", pa.Table.from_pylist(_events(3, 2000, log), SCHEMA))
    whole = _whole(large)
    assert whole.verdict is Verdict.HOLDS
    assert whole.judged > 2000
    assert judge_by_ranges(spark, large) == (log, whole)


def test_a_log_that_is_violated_is_left_to_the_fold(tmp_path: Path, spark: SparkSession) -> None:
    events = _events(4, 500)
    # In the end somebody is told that the log is as short as it was in the beginning.
    common = {"process": 10_000, "op": 10_000, "f": "tail"}
    for kind in ({"kind": "invoke"}, {"kind": "ok", "offset": 5}):
        events.append(common | kind | {"seq": len(events), "time": events[-1]["time"] + 1})
    table = pa.Table.from_pylist(events, SCHEMA)
    large = _large(tmp_path / "run", table)
    assert _whole(large).violated
    assert judge_by_ranges(spark, large) is None


@pytest.mark.parametrize("negative", [False, True])
def test_an_audit_judges_a_large_log_by_ranges(
    tmp_path: Path, audited: Auditor, monkeypatch: pytest.MonkeyPatch, negative: bool
) -> None:
    events = _events(5, 300)
    if negative:
        state = {"term": 1, "dirty": 0, "flushed": 0, "commit": 0}
        trim = {"seq": len(events), "time": events[-1]["time"], "kind": "trim", "node": 1, "offset": -1}
        events.append(trim | state)
    table = pa.Table.from_pylist(events, SCHEMA)
    write_run(tmp_path / "run", table, {"name": "log"}, format="parquet")
    asked: list[tuple[Large, Any]] = []

    def judged(spark: SparkSession, large: Large) -> Any:  # noqa: ANN401
        asked.append((large, judge_by_ranges(spark, large)))
        return asked[-1][1]

    monkeypatch.setattr(audit, "FROM_EVENTS", 1)
    monkeypatch.setattr(audit, "judge_by_ranges", judged)
    audited(tmp_path / "run", tmp_path / "out", large=1)
    ((large, answer),) = asked
    assert (large.lowest_offset, large.highest_offset) == (-negative, pc.max(table.column("offset")).as_py())
    assert (answer is None) is negative
    assert same_verdicts(tmp_path / "out") == 1


class _OneProcess:
    """What `judge_by_ranges` asks of Spark, done here: for many small histories it is a hundred times as fast."""

    def __init__(self, rows: list[Any] | None = None) -> None:
        self.rows = rows or []
        self.parts: list[list[Any]] = []
        self.sparkContext = self
        self.defaultParallelism = 3

    def parallelize(self, rows: list[Any], tasks: int) -> _OneProcess:
        return _OneProcess(rows)

    def flatMap(self, work: Callable[[Any], Iterable[Any]]) -> _OneProcess:
        return _OneProcess([each for row in self.rows for each in work(row)])

    def partitionBy(self, tasks: int, place: Callable[[int], int]) -> _OneProcess:
        result = _OneProcess()
        result.parts = [[row for row in self.rows if place(row[0]) % tasks == part] for part in range(tasks)]
        return result

    def mapPartitions(self, work: Callable[[Iterable[Any]], Iterable[Any]]) -> _OneProcess:
        return _OneProcess([each for part in self.parts for each in work(iter(part))])

    def mapPartitionsWithIndex(self, work: Callable[[int, Iterable[Any]], Iterable[Any]]) -> _OneProcess:
        return _OneProcess([each for number, part in enumerate(self.parts) for each in work(number, iter(part))])

    def collect(self) -> list[Any]:
        return self.rows


def _disturbed(events: list[dict[str, Any]], chosen: random.Random) -> list[dict[str, Any]]:
    """The history with one thing changed, anywhere; mostly it is then wrong, or does not compose."""
    rows = [dict(row) for row in events]
    row = chosen.choice(rows)
    what = chosen.choice(
        ["offset", "value", "acks", "drop", "fail", "last_offset", "kind", "time", "op", "log", "empty"]
    )
    if what == "drop":
        rows.remove(row)
    elif what == "empty":
        read = chosen.choice([row for row in rows if row["kind"] == "ok" and row["f"] == "read"])
        read |= {"offset": read["offset"] - chosen.choice([1, 3]), "count": 0}
        (invoked,) = (row for row in rows if row["kind"] == "invoke" and row["op"] == read["op"])
        invoked["offset"] = read["offset"]
        rows = [row for row in rows if row["kind"] != "observe" or row["op"] != read["op"]]
    elif what == "fail" and row["kind"] == "ok":
        row["kind"] = "fail"
    elif what == "kind" and row["kind"] == "ok":
        row["kind"] = "info"
    elif what == "acks" and row["kind"] == "invoke" and row["f"] == "append":
        row["acks"] = chosen.choice([0, 1])
    elif what == "log":
        row["log"] = "another"
    elif what == "op":
        row["op"] = chosen.choice(rows)["op"]
    elif isinstance(row.get(what), int):
        row[what] = max(0, row[what] + chosen.choice([-300, -3, -1, 1, 3, 300]))
        if row.get("last_offset") is not None:
            row["last_offset"] = max(row["last_offset"], row["offset"])
    return rows


def test_the_index_of_the_file_is_not_asked(tmp_path: Path) -> None:
    """A stranger's file is copied as it is, and pyarrow ends the process when a damaged index is asked for a column."""
    table = pa.Table.from_pylist(_events(3, 50), SCHEMA)
    large = _large(tmp_path / "run", table)
    # The histogram of definition levels (a list of two in field 3) becomes one of repetition levels (field 2).
    nulls = table.column("offset").null_count
    counts = b"".join(bytes([2 * n & 127 | 128, n >> 6]) for n in (nulls, len(table) - nulls))
    whole = Path(large.file).read_bytes()
    assert b"\x29\x06\x19\x26" + counts in whole
    Path(large.file).write_bytes(whole.replace(b"\x29\x06\x19\x26" + counts, b"\x29\x26" + counts + b"\x19\x06"))
    with pytest.raises(OSError, match="histogram"):
        judge_by_ranges(_OneProcess(), large)  # type: ignore[arg-type]


def test_whatever_it_answers_is_what_the_fold_says(tmp_path: Path) -> None:
    chosen = random.Random(11)
    events = {seed: _events(seed, 40) for seed in range(4)}
    answers = refused = violated = 0
    for number in range(200):
        rows = _disturbed(events[number % 4], chosen)
        try:
            large = _large(tmp_path / str(number), pa.Table.from_pylist(rows, SCHEMA))
        except HistoryError:
            continue
        answer = judge_by_ranges(_OneProcess(), large)  # type: ignore[arg-type]
        whole = _whole(large)
        violated += whole.verdict is Verdict.VIOLATED
        if answer is None:
            refused += 1
        else:
            answers += 1
            assert answer[1] == whole, number
    assert min(answers, violated) > 20, (answers, refused, violated)
