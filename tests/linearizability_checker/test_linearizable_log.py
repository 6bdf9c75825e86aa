"""The polynomial check of linearizable logs against Porcupine, and what it says about histories that it is given."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small_histories import random_history

from linearizability_checker import FAILED, LOG, UNKNOWN, Checker, Operation, Verdict
from loghistory.schema import SCHEMA
from logwitness.checks import contract
from logwitness.checks.columns import Reader
from logwitness.checks.linearizable_log import (
    FAMILY,
    NEVER,
    Appends,
    Ends,
    Judgement,
    Outcome,
    Reads,
    judge,
)
from logwitness.engine.logs import Logs

pytestmark = pytest.mark.slow


def log_history(rng: random.Random) -> list[Operation]:
    """A small history whose appends are acknowledged with their offset, if at all."""
    operations = random_history(rng, LOG, rng.randint(2, 9))
    for operation in operations:
        if operation.input[0] == "append" and operation.output is None:
            operation.output = UNKNOWN
    return operations


def _column(values: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def judged(operations: list[Operation]) -> Judgement:
    """What the check says of operations; ``seq`` 2 i is the call of operation i, 2 i + 1 its return."""
    appends: list[tuple[int, ...]] = []
    reads: list[tuple[int, ...]] = []
    ends: list[tuple[Any, ...]] = []
    for i, operation in enumerate(operations):
        match operation.input, operation.output:
            case ("append", value), output:
                completed: Any = NEVER if operation.output in (UNKNOWN, FAILED) else operation.return_
                outcome = {UNKNOWN: Outcome.UNKNOWN, FAILED: Outcome.FAILED}.get(output, Outcome.OK)  # type: ignore[call-overload]
                offset = -1 if outcome else output
                appends.append((value, operation.call, completed, outcome, offset, offset, 2 * i, 2 * i + 1))
            case _, (_UNSAID.UNKNOWN | _UNSAID.FAILED):
                continue
            case ("read", offset), None:
                ends.append((offset, operation.call, operation.return_, False, 2 * i, 2 * i + 1))
            case ("read", offset), value:
                reads.append((value, offset, offset, operation.return_, 2 * i + 1))
            case _, length:
                ends.append((length, operation.call, operation.return_, True, 2 * i, 2 * i + 1))
    return judge(
        Appends(*map(_column, zip(*appends, strict=True))) if appends else Appends(*[_column([])] * 8),
        Reads(*map(_column, zip(*reads, strict=True))) if reads else Reads(*[_column([])] * 5),
        Ends(*_ends(ends)),
    )


_UNSAID = type(UNKNOWN)


def _ends(rows: list[tuple[Any, ...]]) -> Iterator[np.ndarray[Any, Any]]:
    for place in range(6):
        column = _column([row[place] for row in rows])
        yield column.astype(bool) if place == 3 else column


def compare(checker: Checker, seed: int, count: int) -> Counter[Verdict]:
    """Judge ``count`` random histories twice and count Porcupine's verdicts; no difference is allowed."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    verdicts: Counter[Verdict] = Counter()
    while (left := count - verdicts.total()) > 0:
        histories = [log_history(rng) for _ in range(min(left, 10_000))]
        for history, result in zip(histories, checker.check_many(LOG, histories), strict=True):
            found = judged(history)
            assert result.verdict is (Verdict.ILLEGAL if found.violated else Verdict.OK), (history, found)
            verdicts[result.verdict] += 1
    return verdicts


def test_ten_thousand_histories_without_a_difference(checker: Checker) -> None:
    verdicts = compare(checker, 5, 10_000)
    assert min(verdicts[Verdict.OK], verdicts[Verdict.ILLEGAL]) > 2_500


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "number", [pytest.param(50_000, marks=pytest.mark.long), pytest.param(1_000_000, marks=pytest.mark.long(0))]
)
def test_many_histories_without_a_difference(checker: Checker, number: int) -> None:
    verdicts = compare(checker, random.SystemRandom().getrandbits(48), number)
    assert min(verdicts[Verdict.OK], verdicts[Verdict.ILLEGAL]) > number // 4


def as_events(operations: list[Operation]) -> list[dict[str, Any]]:
    """A history of appends, reads of one entry and tails as events of the schema, without ``seq``."""
    marks: list[tuple[int, int, dict[str, Any]]] = []
    for i, operation in enumerate(operations):
        f = operation.input[0]
        common = {"process": i, "op": i, "f": f}
        asked = {"append": "value", "read": "offset"}.get(str(f))
        given = {asked: operation.input[1]} if asked else {}
        marks.append((operation.call, 0, {"kind": "invoke", **common, **given}))
        if operation.output is UNKNOWN:
            continue
        end = operation.call if operation.return_ is None else operation.return_
        if operation.output is FAILED:
            marks.append((end, 1, {"kind": "fail", **common}))
        elif f == "read" and operation.output is None:
            marks.append((end, 1, {"kind": "ok", **common, "offset": operation.input[1], "count": 0}))
        elif f == "read":
            seen = {"offset": operation.input[1], "value": operation.output}
            marks.append((end, 1, {"kind": "observe", **common, **seen}))
            marks.append((end, 2, {"kind": "ok", **common, "offset": int(str(operation.input[1])) + 1, "count": 1}))
        else:
            marks.append((end, 1, {"kind": "ok", **common, "offset": operation.output}))
    marks.sort(key=lambda mark: mark[:2])
    return [{"time": 100 + time, **event} for time, _, event in marks]


def outcomes(events: list[dict[str, Any]], batches: int = 1) -> dict[str | None, contract.Outcome]:
    """The outcome of every log, from events fed in pieces."""
    numbered = [{"seq": seq, **event} for seq, event in enumerate(events)]
    table = pa.Table.from_pylist(numbered, schema=SCHEMA)
    setting = contract.Setting(voters=())
    reader = Reader("test", FAMILY.columns, setting.words)
    logs = Logs([FAMILY], setting)
    for batch in table.to_batches(max(1, len(numbered) // batches)):
        logs.feed(reader.columns(batch), batch.column("log"))
    return {log: verdicts.outcomes[0] for log, verdicts in logs.finish()}


@pytest.mark.parametrize("batches", [1, 7])
def test_histories_of_the_schema(checker: Checker, batches: int) -> None:
    rng = random.Random(11)
    histories = [log_history(rng) for _ in range(1500)]
    events = []
    for number, history in enumerate(histories):
        events += [{**event, "log": str(number)} for event in as_events(history)]
    found = outcomes(events, batches)
    for number, result in enumerate(checker.check_many(LOG, histories)):
        if str(number) in found:
            verdict = found[str(number)].verdict
            assert (verdict == "violated") == (result.verdict is Verdict.ILLEGAL), (
                histories[number],
                found[str(number)],
            )
    assert Counter(o.verdict for o in found.values())["violated"] > 300


def _append(op: int, value: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"kind": "invoke", "process": op, "op": op, "f": "append", "value": value, **more}


def _ok(op: int, f: str, offset: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"kind": "ok", "process": op, "op": op, "f": f, "offset": offset, **more}


def _tail(op: int) -> dict[str, Any]:
    return {"kind": "invoke", "process": op, "op": op, "f": "tail"}


def _read(op: int, offset: int) -> dict[str, Any]:
    return {"kind": "invoke", "process": op, "op": op, "f": "read", "offset": offset}


def _seen(op: int, offset: int, value: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"kind": "observe", "process": op, "op": op, "f": "read", "offset": offset, "value": value, **more}


INVERTED = [_append(1, 7), _ok(1, "append", 1), _append(2, 8), _ok(2, "append", 0)]
STALE = [_append(1, 7), _ok(1, "append", 0), _tail(2), _ok(2, "tail", 0)]
HOLE = [_append(1, 7), _ok(1, "append", 0), _append(2, 8), _ok(2, "append", 2)]
FIRST = [_append(1, 7), _ok(1, "append", 0)]
WIDE = [_append(1, 7), _ok(1, "append", 0, last_offset=1)]
BOTH = [_seen(3, 0, 7), _seen(3, 2, 8)]
INTERNAL = {"kind": "append", "node": 1, "offset": 1, "term": 1, "entry_term": 1, "dirty": 1, "flushed": 0, "commit": 0}
LOOSE = [_append(1, 7, acks=1), _ok(1, "append", 0)]

CASES: list[tuple[str, str, tuple[int, ...], list[dict[str, Any]]]] = [
    ("nothing", "unexercised", (), []),
    ("inverted", "violated", (1, 2), INVERTED),
    ("stale tail", "violated", (1, 2), STALE),
    ("hole", "violated", (3,), HOLE),
    ("hole that internal events explain", "holds", (), [*HOLE, INTERNAL]),
    ("hole that another acks level explains", "holds", (), [_append(9, 5, acks=0), *HOLE]),
    ("hole that a reader was led over", "holds", (), [*HOLE, _read(3, 0), *BOTH, _ok(3, "read", 3)]),
    ("hole that a reader began in", "holds", (), [*HOLE, _read(3, 1), _seen(3, 2, 8), _ok(3, "read", 3)]),
    ("hole that a reader ended in", "holds", (), [*HOLE, _read(3, 0), _seen(3, 0, 7), _ok(3, "read", 2)]),
    ("hole that an unknown append fills", "holds", (), [_append(9, 5), *HOLE]),
    ("hole that came to be too early for it", "violated", (3, 4), [*HOLE, _append(9, 5)]),
    ("batches are wide", "holds", (), [*WIDE, _append(2, 8), _ok(2, "append", 2)]),
    ("overlap", "violated", (1, 3), [*WIDE, _append(2, 8), _ok(2, "append", 1)]),
    ("duplicate", "violated", (1, 3), [*FIRST, _append(3, 7), _ok(3, "append", 1)]),
    ("other acks levels promise nothing", "unexercised", (), LOOSE),
    ("and their values may be read", "unexercised", (), [*LOOSE, _read(2, 0), _seen(2, 0, 7), _ok(2, "read", 1)]),
    ("phantom", "violated", (2,), [_read(2, 0), _seen(2, 0, 7), _ok(2, "read", 1)]),
    ("a read that did not complete says nothing", "unexercised", (), [_read(2, 0), _seen(2, 0, 7)]),
    ("a gap of quintillions", "violated", (1,), [_append(1, 7), _ok(1, "append", 2**60)]),
]  # fmt: skip


@pytest.mark.parametrize(("verdict", "shown", "events"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_it_says(verdict: str, shown: tuple[int, ...], events: list[dict[str, Any]]) -> None:
    found = outcomes([{"time": 10 * i, **event} for i, event in enumerate(events)])
    outcome = found[None] if found else contract.outcome(FAMILY.checks[0], 0)
    assert outcome.verdict == verdict, outcome
    assert tuple(event for v in outcome.violations for event in v.events) == shown


def test_equal_time_stamps_are_concurrent_unless_the_clock_stands_still() -> None:
    times = [0, 10, 10, 20]
    (at_once,) = outcomes([{"time": t, **e} for t, e in zip(times, INVERTED, strict=True)]).values()
    assert at_once.verdict == "holds"
    (no_clock,) = outcomes([{"time": 0, **e} for e in INVERTED]).values()
    assert no_clock.verdict == "violated"
