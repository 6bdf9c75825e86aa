"""Histories as events: what comes later is later, and what never returns is unknown."""

from __future__ import annotations

import pytest

from linearizability_checker import FAILED, Call, Checker, Return, check_events


def test_order_is_the_order_of_the_events(checker: Checker) -> None:
    history: list[Call | Return] = [
        Call(0, 10, ("write", 1)),
        Return(10, None),
        Call(1, 11, ("read",)),
        Return(11, None),
    ]
    result = checker.check_events("register", history)
    assert result.verdict == "illegal"
    assert result.partitions[0].operations == (10, 11)
    assert result.partitions[0].linearizations == ((10,),)
    overlapping = [history[0], history[2], history[1], history[3]]
    assert checker.check_events("register", overlapping).partitions[0].linearizations == ((11, 10),)


def test_call_without_return_is_unknown() -> None:
    assert check_events("log", [Call(0, 1, ("append", 5)), Call(1, 2, ("tail",)), Return(2, 1)])
    assert check_events("log", [Call(0, 1, ("append", 5)), Call(1, 2, ("tail",)), Return(2, 0)])
    lost = [Call(0, 1, ("append", 5)), Return(1, FAILED), Call(1, 2, ("tail",)), Return(2, 1)]
    assert not check_events("log", lost)


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ([Return(1, None)], "event 0: id: 1 was not called"),
        ([Call(0, 1, ("tail",)), Call(0, 1, ("tail",))], "event 1: id: 1 was called before"),
        ([Call(0, 1, ("tail",)), Return(1, 0), Return(1, 0)], "event 2: id: 1 returned before"),
        ([Call(0, 1.5, ("tail",))], "event 0: id: 1.5 is not an integer"),  # type: ignore[arg-type]
        (["x"], "event 0: 'x' is neither Call nor Return"),
        ([Call(0, 1, ("tail",)), Return(1, -1)], "operation 0: output: -1 is negative"),
    ],
)
def test_bad_events(checker: Checker, history: list[Call | Return], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checker.check_events("log", history)
