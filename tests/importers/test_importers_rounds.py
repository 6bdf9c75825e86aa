"""Registers that share one limit of time: an illegal one is found beside hard ones, wherever it stands."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from logwitness.commands import check_command
from logwitness.models.rounds import in_rounds


class Answer(NamedTuple):
    """What a search answers."""

    verdict: str
    reason: str | None
    seconds: float


def _searches(needed: dict[int, float], illegal: frozenset[int]) -> Callable[[int, float | None], Answer]:
    """Searches that need so many seconds each."""

    def ask(part: int, seconds: float | None) -> Answer:
        if seconds is not None and needed[part] > seconds:
            return Answer("unknown", "timeout", seconds)
        return Answer("illegal" if part in illegal else "ok", None, needed[part])

    return ask


@pytest.mark.parametrize("parts", list(itertools.permutations((1, 2, 3))))
def test_hard_ones_leave_time_for_the_illegal_one(parts: tuple[int, ...]) -> None:
    answers, left = in_rounds(parts, _searches({1: 1000, 2: 1, 3: 500}, frozenset({2})), 60)  # type: ignore[arg-type]
    assert answers[2].verdict == "illegal"
    assert left > 50


def test_what_is_left_is_shared() -> None:
    answers, left = in_rounds((1, 2, 3), _searches({1: 1000, 2: 500, 3: 0.9}, frozenset({3})), 5)  # type: ignore[arg-type]
    assert answers[3].verdict == "illegal"
    assert left == pytest.approx(5 - 3 * 0.25 - 2 * 4.25 / 3 - 0.9)


def test_one_alone_has_all_the_time_at_once() -> None:
    answers, left = in_rounds((7,), _searches({7: 59}, frozenset()), 60)  # type: ignore[arg-type]
    assert (answers[7].verdict, left) == ("ok", 1)
    assert in_rounds((7,), _searches({7: 1e9}, frozenset()), None)[0][7].verdict == "ok"  # type: ignore[arg-type]


def test_the_first_round_is_the_last_where_one_is_known_to_be_illegal() -> None:
    answers, _ = in_rounds((1, 2), _searches({1: 5, 2: 0.1}, frozenset()), None, enough=True)  # type: ignore[arg-type]
    assert [answers[part].verdict for part in (1, 2)] == ["unknown", "ok"]


def _registers(kinds: str) -> list[str]:
    """A history of two registers, one after the other: a hard one and one that nothing explains."""
    events: list[dict[str, object]] = []
    for key, kind in enumerate(kinds):
        number = 24 if kind == "h" else 0
        for type_, f in (("invoke", "write"), ("invoke", "read"), ("ok", "read"), ("ok", "write")):
            for i in range(number):
                value = None if (type_, f) == ("invoke", "read") else (i * 7 + 3) % 12 if f == "read" else i
                process = 100 * key + i + (50 if f == "read" else 0)
                events.append({"process": process, "type": type_, "f": f, "value": [key, value]})
        for f, value in (("write", 1), ("write", 2), ("read", 1)) if not number else ():
            asked = None if f == "read" else value
            events += [
                {"process": 100 * key, "type": "invoke", "f": f, "value": [key, asked]},
                {"process": 100 * key, "type": "ok", "f": f, "value": [key, value]},
            ]
    return list(map(json.dumps, events))


@pytest.mark.slow
@pytest.mark.parametrize("kinds", ["hi", "ih", "hhi"])
def test_the_order_of_registers_does_not_change_the_verdict(kinds: str, tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text("\n".join(_registers(kinds)))
    done = CliRunner().invoke(check_command, ["--json", "--timeout", "2", "--model", "register", str(path)])
    (answer,) = map(json.loads, done.stdout.splitlines())
    assert answer["verdict"] == "violated"
    (check,) = answer["checks"]
    assert len(check["violations"][0]["events"]) == 4
