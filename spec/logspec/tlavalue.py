"""TLA+ values as TLC prints them, as Python values.

Integers, booleans and strings are themselves, model values are strings, sets are frozensets, sequences are tuples,
records and functions are a ``Record``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import permutations
from typing import Any

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|<<|>>|\|->|:>|@@|\.\.|-?\d+|\w+|[{}\[\](),])')


class Record(dict[Any, Any]):
    """A TLA+ record or function: a dictionary that is never changed, so that it can be an element of a set."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def parse_value(text: str) -> Any:  # noqa: ANN401
    """Return the value of one printed TLA+ expression; ValueError if it is none."""
    tokens = list(_tokens(text))
    try:
        value, rest = _expression(tokens, 0)
    except IndexError:
        raise ValueError("a TLA+ value ends too early") from None
    if rest != len(tokens):
        raise ValueError(f"{tokens[rest]!r} is left over after a TLA+ value")
    return value


def parse_values(text: str) -> list[Any]:
    """Return all values printed one after another, each perhaps over several lines; other text is left out."""
    values = []
    open_at, depth = 0, 0
    for match in re.finditer(r"<<|>>", text):
        if match[0] == "<<":
            if depth == 0:
                open_at = match.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                values.append(parse_value(text[open_at : match.end()]))
    return values


def print_value(value: Any, model_values: Collection[str] = ()) -> str:  # noqa: ANN401
    """Return the TLA+ expression of a value, the inverse of `parse_value`; some strings name model values."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return value if value in model_values else f'"{value}"'
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            fields = (f"{name} |-> {print_value(inner, model_values)}" for name, inner in value.items())
            return f"[{', '.join(fields)}]" if value else "<<>>"
        pairs = (
            f"{print_value(key, model_values)} :> {print_value(inner, model_values)}" for key, inner in value.items()
        )
        return f"({' @@ '.join(pairs)})"
    inside = ", ".join(print_value(inner, model_values) for inner in value)
    return f"<<{inside}>>" if isinstance(value, tuple) else f"{{{inside}}}"


def parse_state(text: str) -> dict[str, Any]:
    """Return the variables of one printed state: conjuncts of the form ``/\\ name = value``."""
    state: dict[str, Any] = {}
    for part in re.split(r"^/\\ ", text, flags=re.MULTILINE):
        name, equals, value = part.partition(" = ")
        if equals:
            state[name.strip()] = parse_value(value)
    return state


def renamed(value: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401
    """Return a value with model values renamed, as keys too."""
    if isinstance(value, dict):
        return Record((renamed(key, names), renamed(inner, names)) for key, inner in value.items())
    if isinstance(value, tuple):
        return tuple(renamed(inner, names) for inner in value)
    if isinstance(value, frozenset):
        return frozenset(renamed(inner, names) for inner in value)
    return names.get(value, value) if isinstance(value, str) else value


def same_but_for_names(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the renaming of nodes (``n1`` and so on) that makes one state the other; None if there is none."""
    nodes = sorted(other["role"])
    for order in permutations(nodes):
        names = dict(zip(nodes, order, strict=True))
        if renamed(one, names) == other:
            return names
    return None


def _tokens(text: str) -> Iterator[str]:
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"{text[position : position + 20]!r} is not a TLA+ value")
        yield match[1]
        position = match.end()


def _expression(tokens: list[str], at: int) -> tuple[Any, int]:
    if at >= len(tokens):
        raise ValueError("a TLA+ value ends too early")
    token = tokens[at]
    if token == "<<":
        items, at = _list(tokens, at + 1, ">>")
        return tuple(items), at
    if token == "{":
        items, at = _list(tokens, at + 1, "}")
        return frozenset(items), at
    if token == "[":
        return _record(tokens, at + 1)
    if token == "(":
        return _function(tokens, at + 1)
    if token.startswith('"'):
        return token[1:-1], at + 1
    if token in ("TRUE", "FALSE"):
        return token == "TRUE", at + 1
    if token.lstrip("-").isdigit():
        return int(token), at + 1
    return token, at + 1


def _list(tokens: list[str], at: int, end: str) -> tuple[list[Any], int]:
    items: list[Any] = []
    while tokens[at] != end:
        item, at = _expression(tokens, at)
        items.append(item)
        if tokens[at] == ",":
            at += 1
    return items, at + 1


def _record(tokens: list[str], at: int) -> tuple[Record, int]:
    fields = Record()
    while tokens[at] != "]":
        name = tokens[at]
        fields[name], at = _expression(tokens, at + 2)
        if tokens[at] == ",":
            at += 1
    return fields, at + 1


def _function(tokens: list[str], at: int) -> tuple[Record, int]:
    pairs = Record()
    while tokens[at] != ")":
        key, at = _expression(tokens, at)
        pairs[key], at = _expression(tokens, at + 1)
        if tokens[at] == "@@":
            at += 1
    return pairs, at + 1
