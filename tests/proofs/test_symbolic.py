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

from logspec.groups import Census, Node, PerNode
from logspec.proofs.quorums import Voters as AnyVoters
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
        elif "Collection" in str(parameter.annotation):
            made.append(data.draw(st.frozensets(st.integers(0, 5))))
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
        elif isinstance(value, (Voters, frozenset)):
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
@settings(max_examples=25, deadline=None)
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


@settings(max_examples=120, deadline=None)
@given(a=SMALL, b=SMALL, c=SMALL, p=st.booleans())
def test_what_the_subset_allows(a: int, b: int, c: int, p: bool) -> None:
    agrees(written_at_length, [a, b, p])
    agrees(calls_others, [a, b, c])
    agrees(looks_up, [{0: a, 1: b, 5: c}, GROUPS[-2]])
    agrees(looks_up, [{0: a, 3: b}, GROUPS[-2]])


@settings(max_examples=40, deadline=None)
@given(values=st.lists(SMALL, min_size=1, max_size=7))
def test_the_sorting_network_sorts(values: list[int]) -> None:
    symbols, meaning = _symbols(values)
    assert [_value(term, meaning) for term in Executor().ascending(symbols)] == sorted(values)


@settings(max_examples=40, deadline=None)
@given(a=SMALL, b=SMALL)
def test_plain_arguments_give_plain_answers(a: int, b: int) -> None:
    answer = Executor().call(REFERENCE.may_commit, a, b, 1, 1)
    assert answer is (a > b)


def looks_at_all(voters: Voters, reached: Mapping[int, int]) -> int:
    """Uses what may be asked of a group, but for counting anew for each node."""
    known = [reached[node] for node in voters.current if node in reached]
    both = [*voters.current, *voters.old]
    if any(offset > 2 for offset in known) and not all(node in reached for node in both):
        return max(-1, *known) + len(both)
    return min([3, *known]) - sorted([7, *[reached.get(node, 0) for node in both]])[-1]


def counts_for_each(voters: Voters, reached: Mapping[int, int]) -> int:
    """The largest offset that two have reached."""
    offsets = [reached.get(node, -1) for node in voters.current]
    return max([-1, *[o if sum([reached.get(n, -1) >= o for n in voters.current]) > 1 else -1 for o in offsets]])


def filters(voters: Voters, reached: Mapping[int, int]) -> int:
    reported = {node: reached.get(node, -1) > 1 for node in voters.current}
    return len([node for node in voters.old if reported.get(node, False)]) + len(voters.current)


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.tuples(*[st.frozensets(st.integers(0, 4))] * 2),
    reached=st.dictionaries(st.integers(0, 4), SMALL, max_size=5),
    rule=st.sampled_from([counts_for_each, looks_at_all, filters]),
)
def test_a_group_of_any_size_is_counted_as_python_counts(
    sizes: tuple[frozenset[int], ...], reached: dict[int, int], rule: Callable[..., Any]
) -> None:
    """What is known of the answer for given nodes allows Python's, and nothing else if there are no other nodes."""
    current, old = sizes
    symbols = {node: z3.Const(f"node_{node}", Node) for node in range(5)}
    has, value = z3.Function("has", Node, z3.BoolSort()), z3.Function("value", Node, z3.IntSort())
    group = AnyVoters()
    for nodes in ((), list(symbols.values())):
        census = Census(nodes=nodes)
        census.every(group.current, lambda node: z3.Or([node == symbols[n] for n in current]))
        census.every(group.old, lambda node: z3.Or([node == symbols[n] for n in old]))
        for node in symbols:
            census.element(f"node_{node}")
        answer = Executor(census=census).call(rule, group, PerNode(has, value))
        solver = z3.Solver()
        solver.add(z3.Distinct(*symbols.values()), *census.facts())
        for node, term in symbols.items():
            solver.add(group.current.has(term) == (node in current), group.old.has(term) == (node in old))
            solver.add(has(term) == (node in reached), value(term) == reached.get(node, 0))
        expected = rule(Voters(tuple(current), old=tuple(old)), reached)
        assert solver.check(answer == expected) == z3.sat
        if nodes:
            assert solver.check(answer != expected) == z3.unsat


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
    return len(voters.__str__())


def first(voters: Voters, reached: Mapping[int, int]) -> int:
    return reached.get(0, -1)


def one_of_them(voters: Voters, reached: Mapping[int, int]) -> int:
    return reached[voters.current[0]]


def sorts_for_each(voters: Voters, reached: Mapping[int, int]) -> int:
    return max([-1, *[sorted([max(reached[m], reached[n]) for m in voters.current])[0] for n in voters.current]])


@pytest.mark.parametrize(
    ("function", "why"),
    [(first, "particular node"), (one_of_them, "known length"), (sorts_for_each, "anew for each node")],
)
def test_what_cannot_be_asked_of_a_group_of_any_size_is_refused(function: Callable[..., Any], why: str) -> None:
    reached = PerNode(z3.Function("has", Node, z3.BoolSort()), z3.Function("value", Node, z3.IntSort()))
    with pytest.raises(UnsupportedRuleError, match=why):
        Executor().call(function, AnyVoters(), reached)


def test_an_index_must_be_known() -> None:
    with pytest.raises(UnsupportedRuleError, match="symbolic value"):
        Executor().call(indexes, [1, 2], z3.Int("x"))
    with pytest.raises(UnsupportedRuleError, match="symbolic value"):
        Executor().call(indexes, {1: 2}, z3.Int("x"))
    with pytest.raises(UnsupportedRuleError, match="indexes"):
        Executor().call(indexes, {1: 2}, 3)
    with pytest.raises(UnsupportedRuleError, match=r"voters\.__str__"):
        Executor().call(asks_a_method, GROUPS[3])


@settings(max_examples=25, deadline=None)
@given(a=SMALL, send=st.integers(1, 5))
def test_a_rule_divides_by_what_is_assumed_positive(a: int, send: int) -> None:
    x, interval = z3.Ints("x interval")
    quotient = Executor(positive=[interval]).call(lambda gap, by: gap // by, x, interval)
    assert _value(quotient, [(x, z3.IntVal(a)), (interval, z3.IntVal(send))]) == a // send
    with pytest.raises(UnsupportedRuleError, match="not known to be positive"):
        Executor(positive=[interval]).call(lambda gap, by: gap // by, interval, x)


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
