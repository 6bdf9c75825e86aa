"""Reading what TLC prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logspec.tlavalue import Record, parse_state, parse_value, parse_values, print_value, renamed, same_but_for_names

VALUES = [
    ("-3", -3),
    ("TRUE", True),
    ('"a b"', "a b"),
    ("n1", "n1"),
    ("<<>>", ()),
    ("{}", frozenset()),
    ("<<1, <<2>>>>", (1, (2,))),
    ("[term |-> 1, acks |-> -1]", Record(term=1, acks=-1)),
    ("(n1 :> {2, 3} @@ n2 :> {})", Record(n1=frozenset({2, 3}), n2=frozenset())),
    ("{[a |-> {1}], [a |-> {}]}", frozenset({Record(a=frozenset({1})), Record(a=frozenset())})),
    ("( 2 :>\n    <<1>> @@\n  3 :> <<>> )", Record({2: (1,), 3: ()})),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_values(text: str, value: object) -> None:
    assert parse_value(text) == value
    assert parse_value(print_value(value, {"n1", "n2"})) == value


@pytest.mark.parametrize("text", ["", "<<1", "[a |->", "1 2", "#", "{1", "(1 :> 2"])
def test_what_is_no_value(text: str) -> None:
    with pytest.raises(ValueError, match="TLA"):
        parse_value(text)


def test_a_state() -> None:
    assert parse_state('/\\ a = <<1,\n  2>>\n/\\ b = (n1 :> "x")\n') == {"a": (1, 2), "b": {"n1": "x"}}


def test_values_among_other_text() -> None:
    assert parse_values('note\n<<"a", 1>>\nmore\n<<"b",\n  <<2>>>>\n') == [("a", 1), ("b", (2,))]


_names = st.permutations(["n1", "n2", "n3"])


@given(_names, st.integers(0, 2))
def test_states_that_differ_by_names_only(order: list[str], term: int) -> None:
    state = {"role": Record(n1="leader", n2="follower", n3="follower"), "vote": Record(n1="n1", n2="n1", n3="n2")}
    state["term"] = Record(n1=term, n2=term, n3=term)
    other = renamed(state, dict(zip(["n1", "n2", "n3"], order, strict=True)))
    found = same_but_for_names(state, other)
    assert found is not None
    assert renamed(state, found) == other
    other["term"] = Record(n1=term + 1, n2=term, n3=term)
    assert same_but_for_names(state, other) is None
