"""One log by ranges of offsets: the answer of the fold where there is one, and none where the fold must be asked."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from loghistory import SCHEMA, HistoryError, open_run, write_run
from logwitness.checks.contract import Verdict
from logwitness.engine.local import check, setting_of
from logwitness.pipeline.ingest import Large
from logwitness.pipeline.offset_ranges import judge_by_ranges

ID = "linearizable-log"


def _events(seed: int, appends: int, log: str | None = None) -> list[dict[str, Any]]:
    """A linearizable log of overlapping appends, some of unknown outcome, with reads, tails and a final read."""
    chosen = random.Random(seed)
    told: list[tuple[int, int, dict[str, Any]]] = []
    op = 0

    def operation(begin: int, end: int, f: str, asked: dict[str, Any], *closing: dict[str, Any]) -> None:
        nonlocal op
        op += 1
        common = {"process": op % 50, "op": op, "f": f, "log": log}
        told.append((begin, op, common | {"kind": "invoke"} | asked))
        told.extend((end, op, common | row) for row in closing)

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
    told.sort(key=lambda each: each[:2])
    return [row | {"seq": seq, "time": time + 10_000} for seq, (time, _, row) in enumerate(told)]


def _large(place: Path, table: pa.Table) -> Large:
    """The history as the first stage hands it on."""
    write_run(place, table, {"name": "log"}, format="parquet")
    file = place / "events.parquet"
    setting = setting_of(open_run(place), compiled=False)
    row = {"run": str(place), "events": table.num_rows}
    return Large(row, str(file), file.stat().st_size, None, (), setting.voters, False, True, None)


def _whole(large: Large) -> Any:  # noqa: ANN401
    (found,) = check(open_run(large.file), [ID]).checks
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
    common = {"process": 99, "op": 10_000, "f": "tail"}
    for kind in ({"kind": "invoke"}, {"kind": "ok", "offset": 5}):
        events.append(common | kind | {"seq": len(events), "time": events[-1]["time"] + 1})
    table = pa.Table.from_pylist(events, SCHEMA)
    large = _large(tmp_path / "run", table)
    assert _whole(large).violated
    assert judge_by_ranges(spark, large) is None


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
    what = chosen.choice(["offset", "value", "acks", "drop", "fail", "last_offset", "kind", "time", "op", "log"])
    if what == "drop":
        rows.remove(row)
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
