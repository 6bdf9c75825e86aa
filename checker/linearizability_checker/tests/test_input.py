"""Input that is no history: a ValueError that names the operation and the field, and never a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linearizability_checker import MODELS, UNKNOWN, Checker, Model, Operation, Verdict, check_operations


def _deep() -> Any:  # noqa: ANN401
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    return value


def op(**changed: Any) -> Operation:  # noqa: ANN401
    return Operation(**{"process": 0, "call": 0, "return_": 1, "input": ("append", 1), "output": 0, **changed})


CASES: list[tuple[str, Callable[[], Any], str]] = [
    ("log", lambda: op(call=2**63), "call: 9223372036854775808 does not fit in 64 bits"),
    ("log", lambda: op(call=-(2**63) - 1), "call: -9223372036854775809 does not fit in 64 bits"),
    ("log", lambda: op(process=10**10000), "process: an integer of 33220 bits does not fit in 64 bits"),
    ("log", lambda: op(process=None), "process: None is not an integer"),
    ("log", lambda: op(input="\U00010000" * 21), "input: a text of 21 characters is no tuple of a name and arguments"),
    ("log", lambda: op(input="a" * 41), "input: a text of 41 characters is no tuple of a name and arguments"),
    ("log", lambda: op(call=1.0), "call: 1.0 is not an integer"),
    ("log", lambda: op(call=True), "call: True is not an integer"),
    ("log", lambda: op(return_=None), "return_: None, but the output is neither UNKNOWN nor FAILED"),
    ("log", lambda: op(return_=math.nan), "return_: nan is not an integer"),
    ("log", lambda: op(call=5), "return_: 1 is before the call at 5"),
    ("log", lambda: op(call=5, output=UNKNOWN), "return_: 1 is before the call at 5"),
    ("log", lambda: op(output=-1), "output: -1 is negative"),
    ("log", lambda: op(output=math.inf), "output: inf is not an integer"),
    ("log", lambda: op(output=2**64), "output: 18446744073709551616 does not fit in 64 bits"),
    ("log", lambda: op(output="0"), "output: '0' is not an integer"),
    ("log", lambda: op(input=("append", math.nan)), r"input\[1\]: nan is no value"),
    ("log", lambda: op(input=("append", None)), r"input\[1\]: None is no value here"),
    ("log", lambda: op(input=("append", _deep())), r"input\[1\]: a list is no value"),
    ("log", lambda: op(input=("append", 2**200)), r"input\[1\]: an integer of 201 bits does not fit"),
    ("log", lambda: op(input=("append", "\ud800")), r"input\[1\]: '\\ud800' has half a surrogate pair"),
    ("log", lambda: op(input=("append", b"x")), r"input\[1\]: a bytes is no value"),
    ("log", lambda: op(input=("read", -1)), r"input\[1\]: -1 is negative"),
    ("log", lambda: op(input=("append",)), "input: append takes 1 arguments, not 0"),
    ("log", lambda: op(input=("tail", 1)), "input: tail takes 0 arguments, not 1"),
    ("log", lambda: op(input=("write", 1)), r"input\[0\]: 'write' is not one of append, read, tail"),
    ("log", lambda: op(input=([], 1)), r"input\[0\]: a list is not one of append"),
    ("log", lambda: op(input="append"), "input: 'append' is no tuple"),
    ("log", lambda: op(input=()), "input: a tuple is no tuple of a name and arguments"),
    ("log", lambda: {"process": 0}, "a dict is not an Operation"),
    ("log", lambda: None, "None is not an Operation"),
    ("register", lambda: op(input=("write", 1), output=1), "output: 1 instead of None"),
    ("cas-register", lambda: op(input=("cas", 1, 2), output=1), "output: 1 is neither True nor False"),
    ("key-value", lambda: op(input=("append", 1, 2), output=None), r"input\[2\]: 2 is not a text"),
    ("key-value", lambda: op(input=("put", 1.5, 2), output=None), r"input\[1\]: 1.5 is no value"),
    ("set", lambda: op(input=("read",), output=5), "output: 5 is not a list, tuple or set"),
    ("set", lambda: op(input=("read",), output=[1, 1]), "output: an element is listed twice"),
    ("set", lambda: op(input=("read",), output=[[1]]), "output: a list is no value"),
    ("queue", lambda: op(input=("enqueue", None), output=None), r"input\[1\]: None is no value here"),
]


@pytest.mark.parametrize(("model", "bad", "message"), CASES, ids=[f"{c[0]}: {c[2]}" for c in CASES])
def test_unfit_operation(checker: Checker, model: str, bad: Callable[[], Any], message: str) -> None:
    good = {
        "log": op(),
        "register": op(input=("write", 1), output=None),
        "cas-register": op(input=("write", 1), output=None),
        "key-value": op(input=("put", 1, 1), output=None),
        "set": op(input=("add", 1), output=True),
        "queue": op(input=("enqueue", 1), output=None),
    }[model]
    with pytest.raises(ValueError, match=rf"^operation 1: {message}"):
        checker.check_operations(model, [good, bad()])
    with pytest.raises(ValueError, match=rf"^history 2, operation 0: {message}"):
        list(checker.check_many(model, [[good], [], [bad()]]))
    assert checker.check_operations(model, [good]), "the checker is as good as before"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("lock", "model: 'lock' is not one of log, register, cas-register, key-value, set, queue"),
        (7, "model: 7 is not one of"),
        (Model("tree"), "model: 'tree' is not one of"),  # type: ignore[arg-type]
        (MODELS["log"].starting(5), "model: a log starts empty"),
        (MODELS["queue"].starting(0), "model: a queue starts empty"),
        (MODELS["register"].starting(math.nan), "model: initial: nan is no value"),  # type: ignore[arg-type]
        (MODELS["register"].starting([]), "model: initial: a list is no value"),  # type: ignore[arg-type]
    ],
)
def test_unfit_model(checker: Checker, model: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=message):
        checker.check_operations(model, [])


@pytest.mark.parametrize(
    "limits",
    [{"timeout": t} for t in (0, -1, math.nan, math.inf, "5", True)]
    + [{"memory_limit": m} for m in (0, -1, 1 << 20, 1e9, True, 1 << 70)],
    ids=str,
)
def test_unfit_limits(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        check_operations("log", [], **limits)


def test_integers_of_other_libraries(checker: Checker) -> None:
    one = np.int64(1)
    operation = Operation(one, one, one, ("append", one), np.uint8(0))  # type: ignore[arg-type]
    assert checker.check_operations("log", [operation, Operation(1, 5, 6, ("read", 0), 1)])


def test_true_is_not_one(checker: Checker) -> None:
    added = [Operation(process, 0, 1, ("add", value), None) for process, value in enumerate((1, True))]
    assert checker.check_operations("set", [*added, Operation(2, 2, 3, ("read",), [1, True])])
    assert not checker.check_operations("set", [added[0], Operation(2, 2, 3, ("read",), [True])])


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(UNKNOWN),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["append", "read", "tail", "write", "cas", "get", "put", "add", "contains", "enqueue", "dequeue"]
)
INPUT = st.one_of(ANYTHING, st.tuples(NAMES), st.tuples(NAMES, ANYTHING), st.tuples(NAMES, ANYTHING, ANYTHING))
SMALL = st.integers(0, 9) | ANYTHING
OPERATION = st.builds(Operation, process=SMALL, call=SMALL, return_=SMALL, input=INPUT, output=ANYTHING | SMALL)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(model=st.sampled_from(list(MODELS)), operations=st.lists(OPERATION, max_size=4))
def test_whatever_is_given_there_is_a_verdict_or_a_value_error(
    checker: Checker, model: str, operations: list[Operation]
) -> None:
    problem = ""
    try:
        verdict = checker.check_operations(model, operations).verdict
    except ValueError as error:
        problem = str(error)
    if problem:
        assert problem.startswith("operation ")
        assert len(problem) < 200
    else:
        assert verdict in (Verdict.OK, Verdict.ILLEGAL)
