"""A rule run on symbolic terms says what Python says, on every input that is tried; what cannot be run is refused."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from logspec.symbolic import Executor, Order, UnsupportedRuleError
from quorumlog.quorum import Voters
from quorumlog.raft import rules as raft_rules
from quorumlog.raft.rules import REFERENCE, Rules

SMALL = st.integers(-3, 4)
GROUPS = [
    *(Voters(tuple(range(n))) for n in range(7)),
    Voters((0, 1, 2), old=(2, 3, 4), learners=(5,)),
    Voters((), old=(0, 1)),
]
RULES = sorted(Rules.__dataclass_fields__)


def _arguments(data: st.DataObject, function: Callable[..., Any]) -> list[Any]:
    """Random arguments by the annotations of a rule."""
    made: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.annotation == "Voters":
            made.append(data.draw(st.sampled_from(GROUPS)))
        elif "Mapping" in str(parameter.annotation):
            of = st.booleans() if "bool" in parameter.annotation else SMALL
            made.append(data.draw(st.dictionaries(st.integers(0, 5), of)))
        elif "bool" in str(parameter.annotation):
            made.append(data.draw(st.booleans()))
        else:
            made.append(data.draw(SMALL))
    return made


def _symbols(values: Sequence[Any], prefix: str = "x") -> tuple[list[Any], list[tuple[Any, Any]]]:
    """A symbol for each value, and what it stands for."""
    symbols: list[Any] = []
    meaning: list[tuple[Any, Any]] = []
    for number, value in enumerate(values):
        name = f"{prefix}{number}"
        if isinstance(value, list):
            inner, known = _symbols(value, f"{name}_")
            symbols.append(inner)
            meaning += known
        elif isinstance(value, dict):
            inner, known = _symbols(list(value.values()), f"{name}_")
            symbols.append(dict(zip(value, inner, strict=True)))
            meaning += known
        elif isinstance(value, Voters):
            symbols.append(value)
        else:
            symbol = z3.Bool(name) if isinstance(value, bool) else z3.Int(name)
            constant = z3.BoolVal(value) if isinstance(value, bool) else z3.IntVal(value)
            symbols.append(symbol)
            meaning.append((symbol, constant))
    return symbols, meaning


def _value(term: Any, meaning: list[tuple[Any, Any]]) -> Any:  # noqa: ANN401
    """What a symbolic result is for these values."""
    if isinstance(term, (bool, int)):
        return term
    result = z3.simplify(z3.substitute(term, *meaning))
    return z3.is_true(result) if z3.is_bool(result) else result.as_long()


def agrees(function: Callable[..., Any], values: Sequence[Any]) -> None:
    symbols, meaning = _symbols(values)
    assert _value(Executor().call(function, *symbols), meaning) == function(*values)


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_rule_agrees_with_plain_execution(name: str, data: st.DataObject) -> None:
    function = getattr(REFERENCE, name)
    agrees(function, _arguments(data, function))


def middle(values: Sequence[int]) -> int:
    return sorted(values)[len(values) // 2]


def written_at_length(a: int, b: int, wanted: bool) -> int:
    """Uses what rules may use and the reference does not."""
    low = a if a <= b else b
    high: int = max(a, b)
    if wanted and not (a == b or low < 0):
        low = low + 2 * high - 1
    elif a in (1, 2, b):
        return abs(a - b) // 2
    if -2 <= low < high != 3:
        return sum([1 for other in [a, b] if True]) + high
    pair = [low, *[high]]
    return pair[-1] if any(x > 2 for x in pair) else len(pair[0:1])


def looks_up(known: Mapping[int, int], voters: Voters) -> int:
    """Uses a mapping in every way that a rule may."""
    return known[0] + known.get(1, 7) - sum([known.get(node, 2) for node in [*voters.old, *voters.learners]])


def calls_others(a: int, b: int, c: int) -> int:
    return raft_rules.flushed_after(a, captured=middle([a, b, c, a + b])) if a > raft_rules.PENDING else min([b, c])


def truth(a: int, b: int, p: bool) -> bool:
    return (p or a > b) and not (p and a in (0, b)) and all([a != 4, b is not None or p])


@settings(max_examples=300, deadline=None)
@given(a=SMALL, b=SMALL, c=SMALL, p=st.booleans())
def test_what_the_subset_allows(a: int, b: int, c: int, p: bool) -> None:
    agrees(written_at_length, [a, b, p])
    agrees(calls_others, [a, b, c])
    agrees(looks_up, [{0: a, 1: b, 5: c}, GROUPS[-2]])
    agrees(looks_up, [{0: a, 3: b}, GROUPS[-2]])


@settings(max_examples=100, deadline=None)
@given(values=st.lists(SMALL, min_size=1, max_size=7))
def test_the_sorting_network_sorts(values: list[int]) -> None:
    symbols, meaning = _symbols(values)
    assert [_value(term, meaning) for term in Executor().ascending(symbols)] == sorted(values)


@settings(max_examples=100, deadline=None)
@given(a=SMALL, b=SMALL)
def test_plain_arguments_give_plain_answers(a: int, b: int) -> None:
    answer = Executor().call(REFERENCE.may_commit, a, b, 1, 1)
    assert answer is (a > b)


def loops(a: int) -> int:
    for _ in range(3):
        a += 1
    return a


def ends(a: int) -> int:  # type: ignore[return]  # noqa: RET503
    if a > 0:
        return a


def recurses(a: int) -> int:
    return recurses(a - 1) if a > 0 else 0


def prints(a: int) -> int:
    return len(str(a))


def throws_dice(a: int) -> bool:
    return random.random() > a


def indexes(values: Sequence[int], a: int) -> int:
    return values[a]


def mixes(a: int) -> int:
    return (a > 1) + 1


def types(a: int) -> object:
    return [a] if a > 0 else a


def truthy(a: int) -> int:
    return 1 if a else 0


def unbounded(a: int) -> int:
    return len([x for x in [1, 2] if x < a])


@pytest.mark.parametrize(
    ("function", "arguments", "why"),
    [
        (loops, 1, "statement"),
        (ends, 1, "without a return"),
        (recurses, 1, "recursion"),
        (prints, 1, "str"),
        (throws_dice, 1, "random.random()"),
        (mixes, 1, "boolean"),
        (types, 1, "different types"),
        (truthy, 1, "not a boolean"),
        (unbounded, 1, "length depends"),
    ],
)
def test_what_cannot_be_run_is_refused_with_function_and_line(
    function: Callable[..., Any], arguments: int, why: str
) -> None:
    with pytest.raises(UnsupportedRuleError) as refused:
        Executor().call(function, *z3.Ints(" ".join(f"x{n}" for n in range(arguments))))
    sentence = str(refused.value)
    assert function.__name__ in sentence
    assert why in sentence
    assert f"{__file__}:" in sentence
    assert "\n" not in sentence


def asks_a_method(voters: Voters) -> int:
    return len(voters.members)


def test_an_index_must_be_known() -> None:
    with pytest.raises(UnsupportedRuleError, match="symbolic value"):
        Executor().call(indexes, [1, 2], z3.Int("x"))
    with pytest.raises(UnsupportedRuleError, match="symbolic value"):
        Executor().call(indexes, {1: 2}, z3.Int("x"))
    with pytest.raises(UnsupportedRuleError, match="indexes"):
        Executor().call(indexes, {1: 2}, 3)
    with pytest.raises(UnsupportedRuleError, match=r"voters\.members"):
        Executor().call(asks_a_method, GROUPS[3])


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UnsupportedRuleError, match="wrong arguments"):
        Executor().call(REFERENCE.may_commit, z3.Int("x"))


def test_a_builtin_is_not_a_rule() -> None:
    with pytest.raises(UnsupportedRuleError, match="not a function written in Python"):
        Executor().call(max, z3.Int("x"))


def test_lambdas_on_one_line_cannot_be_told_apart() -> None:
    pair = (lambda a: a + 1, lambda a: a + 2)
    with pytest.raises(UnsupportedRuleError, match="separate function"):
        Executor().call(pair[0], z3.Int("x"))
    assert str(Executor().call(lambda a: a + 1, z3.Int("x"))) == "x + 1"


def test_a_sort_without_order_is_compared_only_for_equality() -> None:
    sort = z3.DeclareSort("Name")
    nobody, somebody = z3.Consts("nobody somebody", sort)
    executor = Executor([Order(sort, None, {-1: nobody})])
    granted = executor.call(REFERENCE.grant_vote, nobody, somebody, True, False)
    assert z3.is_true(z3.simplify(granted))
    with pytest.raises(UnsupportedRuleError, match="no order"):
        executor.call(REFERENCE.flushed_after, nobody, somebody)
    with pytest.raises(UnsupportedRuleError, match="the number 3"):
        executor.call(lambda vote: vote == 3, somebody)
