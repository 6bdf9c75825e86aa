"""Many logs judged as one: whatever is said about them is what the fold says about each."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_offset_ranges import _disturbed, _events

from loghistory import SCHEMA
from logwitness.checks.columns import Columns, Ints, Reader
from logwitness.checks.contract import Outcome, Setting, Verdict
from logwitness.checks.linearizable_log import FAMILY
from logwitness.explain.transcripts import HISTORIES, cases, history
from logwitness.pipeline.concatenated_logs import judge_together

Rows = list[dict[str, Any]]
SETTING = Setting(())


def _columns(logs: list[Rows]) -> tuple[Columns, Ints]:
    rows = [row for log in logs for row in log]
    table = pa.Table.from_pylist(rows, SCHEMA).combine_chunks()
    reader = Reader("memory", FAMILY.columns, SETTING.words)
    (batch,) = table.to_batches()
    return reader.columns(batch), np.cumsum([0, *map(len, logs[:-1])])


def _alone(columns: Columns) -> Outcome:
    fold = FAMILY.start(SETTING)
    fold.feed(columns)
    (found,) = fold.finish().outcomes
    return found


def _compared(logs: list[Rows]) -> tuple[int, int]:
    """Judge both ways; how many logs were judged together, and how many of those that hold were not."""
    columns, starts = _columns(logs)
    together, apart = judge_together(columns, starts, SETTING)
    each = np.split(np.arange(len(columns.seq)), starts[1:])
    alone = [_alone(columns.where(rows)) for rows in each]
    held = [found for place, found in enumerate(alone) if place not in apart]
    assert all(found.verdict in (Verdict.HOLDS, Verdict.UNEXERCISED) for found in held)
    assert not any(found.excused or found.unjudged for found in held)
    assert (together.judged if together else 0) == sum(found.judged for found in held)
    assert not held or together is not None
    return len(held), sum(alone[place].verdict is Verdict.HOLDS for place in apart)


def _still(rows: Rows, chosen: random.Random) -> Rows:
    return [row | {"time": 7} for row in rows]


def _set_back(rows: Rows, chosen: random.Random) -> Rows:
    place = chosen.randrange(len(rows))
    return [row | {"time": row["time"] - 5_000 * (n >= place)} for n, row in enumerate(rows)]


def _lost(rows: Rows, chosen: random.Random) -> Rows:
    """Nobody was told of one value, whose append was acknowledged: a hole, which an unknown append could fill."""
    value = chosen.choice([row["value"] for row in rows if row.get("value") is not None])
    ops = {row["op"] for row in rows if row.get("value") == value}
    return [row for row in rows if row["op"] not in ops]


@pytest.mark.parametrize("change", [_disturbed, _still, _set_back, _lost])
def test_what_is_said_of_all_is_what_the_fold_says_of_each(change: Callable[[Rows, random.Random], Rows]) -> None:
    chosen = random.Random(5)
    some = [_events(seed, 4) for seed in range(40)] + [[]]
    together = 0
    for _ in range(40):
        logs = [chosen.choice(some) for _ in range(chosen.randrange(1, 12))]
        logs = [change(rows, chosen) if rows and chosen.random() < 0.3 else rows for rows in logs]
        if any(logs):
            together += _compared([rows for rows in logs if rows])[0]
    assert together > 40


_MUCH = 1 << 62
_FINE = "c1 append v9 all|c1 ok 0|c2 tail|c2 ok 1"
_BEFORE = {
    "an unknown append that would fill the hole": "c1 append v1 all|c1 ok 0|c1 append v2 all|c1 info",
    "a batch of several offsets": "c1 append v1 all|c1 ok 0-3",
    "an operation that is open": "c1 tail",
    "centuries": f"c1 append v1 all|c1 ok 0|c2 tail|c2 ok 1 time={1 << 61}",
    "centuries back": f"c1 append v1 all time={_MUCH}|c1 ok 0 time={-_MUCH * 2}|c2 tail|c2 ok 1 time={_MUCH + 1}",
    "entries below the first offset": "c1 append v1 all|c1 info|c2 read|c2 sees 0 v1 offset=-1 last_offset=-1|c2 ok 0",
    "offsets that leave no room": f"c1 append v1 all|c1 ok {1 << 60}",
    "values of another acks level": "c1 append v1 1|c1 ok 0",
}
_AFTER = {
    "an entry is lost": "c1 append v1 all|c1 ok 1",
    "a tail is too short": "c1 append v1 all|c1 ok 0|c2 tail|c2 ok 0",
    "the same at one time": "c1 append v1 all time=7|c1 ok 0 time=7|c2 tail time=7|c2 ok 0 time=7",
    "a tail is too long": "c1 tail|c1 ok 1",
    "it was there before it was appended": "c2 tail|c2 ok 1|c1 append v1 all|c1 ok 0",
    "a value is there twice": "c1 append v1 all|c1 ok 0|c2 read 0|c2 sees 0 v1|c2 ok 1|c2 read 1|c2 sees 1 v1|c2 ok 2",
    "it was never appended": "c1 append v2 all|c1 ok 0|c2 read 1|c2 sees 1 v1|c2 ok 2",
}


@pytest.mark.parametrize("after", list(_AFTER.values()), ids=list(_AFTER))
@pytest.mark.parametrize("before", list(_BEFORE.values()), ids=list(_BEFORE))
def test_a_violation_is_not_hidden_by_another_log(before: str, after: str) -> None:
    first, wrong, fine = (history(text).rows for text in (before, after, _FINE))
    assert _alone(_columns([wrong])[0]).violated
    for logs in ([first, wrong], [wrong, first], [fine, first, wrong], [first] * 9 + [wrong]):
        _compared(logs)
    assert _compared([fine, wrong]) == (0, 1)


@pytest.mark.parametrize("before", list(_BEFORE.values()), ids=list(_BEFORE))
def test_a_read_that_found_nothing_is_not_hidden_by_another_log(before: str) -> None:
    wrong, early, fine = (
        history(text).rows
        for text in (
            "c1 append v1 all|c1 ok 0|c2 read 0|c2 ok 0 count=0",
            "c2 read 0|c2 ok 0 count=0|c1 append v1 all|c1 ok 0",
            _FINE,
        )
    )
    assert _alone(_columns([wrong])[0]).violated
    first = history(before).rows
    for logs in ([first, wrong], [wrong, first], [fine, first, wrong], [first] * 9 + [wrong], [first, early]):
        _compared(logs)
    assert _compared([fine, wrong]) == (1, 0)


def test_a_log_that_cannot_be_moved_is_left_out_alone() -> None:
    fine, wide, high, long = (
        history(text).rows
        for text in (
            _FINE,
            *(_BEFORE[name] for name in ("a batch of several offsets", "offsets that leave no room", "centuries")),
        )
    )
    assert _compared([fine, wide, fine]) == (3, 0)
    assert _compared([fine, high, fine]) == (2, 0)
    assert _compared([fine, long, fine]) == (2, 1)


def test_of_the_histories_of_the_checks_own_tests() -> None:
    logs = [case.rows for name in ("clients", "linearizable", "healthy") for case in cases(HISTORIES / f"{name}.txt")]
    healthy = [rows for rows in logs if _compared([rows])[0]]
    assert len(healthy) >= 10
    assert _compared(healthy * 2) == (2 * len(healthy), 0)


def test_a_log_that_is_odd_keeps_few_others_from_being_judged_together() -> None:
    ordinary = [rows for rows in (_events(seed, 3) for seed in range(100)) if _compared([rows])[0]]
    odd = [
        {"op": 1, "kind": kind, "f": "tail", "offset": n * 5, "seq": n, "time": n}
        for n, kind in enumerate(["invoke", "ok"])
    ]
    logs = [ordinary[n % len(ordinary)] for n in range(600)]
    assert _compared(logs) == (600, 0)
    assert _compared([*logs[:300], odd, *logs[300:]]) == (600 - 15, 15)
