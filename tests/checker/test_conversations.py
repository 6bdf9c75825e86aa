"""Recorded runs in which what a stream heard is made to differ from what shards shipped: `heard-was-shipped` finds it.

Source: read-path.md#heard-was-shipped.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from loghistory import SCHEMA, open_run
from logwitness import Outcome, check

Row = dict[str, Any]
RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs" / "read_path"
NAME = "heard-was-shipped"


@functools.cache
def table_of(name: str) -> pa.Table:
    return open_run(RUNS / name).table()


def judged(rows: list[Row]) -> Outcome:
    return check(pa.Table.from_pylist(rows, schema=SCHEMA), [NAME], configuration={"protocol": "read-path"}).checks[0]


def is_heard(row: Row, *words: str) -> bool:
    return bool(row["kind"] == "stream_heard" and row["f"] in words)


def settled(rows: list[Row], picked: Callable[[Row], bool]) -> int:
    """The place of such an event in the middle of the run, in answer to a START that was sent once."""
    times: dict[tuple[Any, ...], int] = {}
    for row in rows:
        if row["kind"] == "stream_start":
            key = row["op"], row["peer"], row["filter"]
            times[key] = times.get(key, 0) + 1
    found = [
        place
        for place, row in enumerate(rows)
        if picked(row) and times.get((row["op"], row["node" if row["kind"] == "ship" else "peer"], row["filter"])) == 1
    ]
    return found[len(found) // 2]


def from_another_shard(rows: list[Row]) -> None:
    at = settled(rows, lambda row: is_heard(row, "record"))
    asked = {row["peer"] for row in rows[:at] if row["kind"] == "stream_start" and row["op"] == rows[at]["op"]}
    having = {
        row["node"]
        for row in rows
        if row["kind"] == "ship" and row["op"] == rows[at]["op"] and rows[at]["offset"] in json.loads(row["text"])
    }
    rows[at]["peer"] = min(asked - having)


def to_another_reader(rows: list[Row]) -> None:
    rows[settled(rows, lambda row: bool(row["kind"] == "ship"))]["peer"] += 1


def fewer_shipped(rows: list[Row]) -> None:
    ship = rows[settled(rows, lambda row: bool(row["kind"] == "ship" and row["text"].count(",") > 1))]
    lsns = json.loads(ship["text"])
    ship["text"] = json.dumps([*lsns[:1], *lsns[2:]], separators=(",", ":"))


def not_shipped(rows: list[Row]) -> None:
    del rows[settled(rows, lambda row: bool(row["kind"] == "ship"))]


def not_heard(rows: list[Row]) -> None:
    at = settled(rows, lambda row: is_heard(row, "record") and follows(rows, row))
    del rows[at]


def follows(rows: list[Row], row: Row) -> bool:
    """Whether something more is heard for the same START, soon."""
    place = row["seq"]
    return any(
        is_heard(each, "record", "no_records")
        and (each["op"], each["peer"], each["filter"]) == (row["op"], row["peer"], row["filter"])
        for each in rows[place + 1 : place + 40]
    )


def longer_gap(rows: list[Row]) -> None:
    rows[settled(rows, lambda row: is_heard(row, "no_records") and follows(rows, row))]["last_offset"] += 1


def begins_later(rows: list[Row]) -> None:
    rows[settled(rows, lambda row: is_heard(row, "no_records"))]["offset"] += 1


def asked_elsewhere(rows: list[Row]) -> None:
    """START at another LSN, where a gap is the first that is heard."""
    for at, row in enumerate(rows):
        if row["kind"] == "stream_start":
            key = row["op"], row["peer"], row["filter"]
            answers = (e for e in rows[at:] if e["kind"] == "stream_heard" and (e["op"], e["peer"], e["filter"]) == key)
            first = next(answers, None)
            if first and first["f"] == "no_records":
                row["offset"] += 1
                return
    raise AssertionError("no such START")


def refused(rows: list[Row]) -> None:
    started = settled(
        rows, lambda row: bool(row["kind"] == "stream_started" and row["reason"] == "ok" and follows(rows, row))
    )
    rows[started]["reason"] = "rebuilding"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("run", ["reference-slow", "cluster-wipe"])
@pytest.mark.parametrize(
    "plant",
    [
        from_another_shard,
        to_another_reader,
        fewer_shipped,
        not_shipped,
        not_heard,
        longer_gap,
        begins_later,
        asked_elsewhere,
        refused,
    ],
)
def test_what_is_planted_is_found(run: str, plant: Callable[[list[Row]], None]) -> None:
    rows = table_of(run).to_pylist()
    plant(rows)
    assert judged(rows).violated


@pytest.mark.parametrize("run", ["reference-restarts", "reference-failover", "cluster-wipe"])
def test_the_end_of_a_record_may_be_lost(run: str) -> None:
    """Whatever a shard recorded last before it was killed is left out, of each life, be it much or little."""
    table = table_of(run)
    for lost in (1, 5, 40):
        rows = table.to_pylist()
        gone: set[int] = set()
        for end in [row for row in rows if row["kind"] in ("crash", "power_loss")]:
            own = [row["seq"] for row in rows[: end["seq"]] if row["node"] == end["node"] and row["process"] is None]
            began = max((s for s in own if rows[s]["kind"] == "takes_part"), default=-1)
            gone.update(s for s in own[-lost:] if s > began and rows[s]["kind"] in ("ship", "copy", "seal", "purge"))
        left = judged([row for row in rows if row["seq"] not in gone])
        assert left.judged
        assert not left.violated
