"""Damage that is aimed: rare kinds of events are as likely to be hit as common ones, and every column of theirs is."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from loghistory.schema import Kind, columns_of, words_of

Row: TypeAlias = dict[str, Any]
"""One event: its columns that are not null."""

Damage: TypeAlias = Callable[[list[Row], random.Random], None]
"""Changes the events in place; ``seq`` is written anew afterwards."""

KEPT = ("seq", "kind")
"""What makes an event the one that it is, or is written anew afterwards."""

ENOUGH = 50
"""How many texts are looked at for what may stand in another."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"(?=\s*(:?))|-?\d+(?:\.\d+)?|true|false|null|[^\W\d]+')
"""What a text is made of, JSON or not: a name, a string, a number, a constant or a word."""


def of_one_kind(rows: list[Row], rng: random.Random) -> list[int]:
    """Where the events of one kind are, each kind as likely as any other."""
    kind = rng.choice(sorted({row["kind"] for row in rows}))
    return [place for place, row in enumerate(rows) if row["kind"] == kind]


def drop_of_kind(rows: list[Row], rng: random.Random) -> None:
    """Take one event out."""
    del rows[rng.choice(of_one_kind(rows, rng))]


def repeat_of_kind(rows: list[Row], rng: random.Random) -> None:
    """Put one event in a second time, here or somewhat later."""
    place = rng.choice(of_one_kind(rows, rng))
    rows.insert(place + rng.choice((1, 1, 5, 50, 500)), dict(rows[place]))


def move_of_kind(rows: list[Row], rng: random.Random) -> None:
    """Put one event somewhat earlier or later."""
    place = rng.choice(of_one_kind(rows, rng))
    rows.insert(max(0, place + rng.choice((-50, -5, -1, 1, 5, 50))), rows.pop(place))


def exchange_of_kind(rows: list[Row], rng: random.Random) -> None:
    """Exchange what two events have in a column that differs, such as their texts."""
    places = of_one_kind(rows, rng)
    one, other = rows[rng.choice(places)], rows[rng.choice(places)]
    columns = sorted(name for name in one.keys() & other.keys() if name not in KEPT and one[name] != other[name])
    if columns:
        column = rng.choice(columns)
        one[column], other[column] = other[column], one[column]


def change_of_kind(rows: list[Row], rng: random.Random) -> None:
    """Change any column of one event, or take it out, or give the event one that others of its kind have."""
    those = [rows[place] for place in of_one_kind(rows, rng)]
    row, other = rng.choice(those), rng.choice(those)
    column = rng.choice(sorted((row.keys() | other.keys()) - {*KEPT}))
    if column not in row:
        row[column] = other[column]
    elif rng.random() < 0.1:
        del row[column]
    else:
        row[column] = _changed(row, column, those, rows, rng)


def change_text(rows: list[Row], rng: random.Random) -> None:
    """Change one word, name or number of a text."""
    kinds = sorted({row["kind"] for row in rows if "text" in row})
    if kinds:
        kind = rng.choice(kinds)
        those = [row for row in rows if row["kind"] == kind and "text" in row]
        row = rng.choice(those)
        row["text"] = _other_text(row["text"], those, rows, rng)


def change_word(rows: list[Row], rng: random.Random) -> None:
    """Let a word be another that has a meaning there, though it may be in no event of the run."""
    kinds = sorted({(row["kind"], column) for row in rows for column in row if _words(row["kind"], column)})
    if kinds:
        kind, column = rng.choice(kinds)
        row = rng.choice([row for row in rows if row["kind"] == kind and column in row])
        row[column] = rng.choice(_words(kind, column))


def by_name(*kinds: Damage) -> dict[str, Damage]:
    """Kinds of damage, each under the name of its function."""
    return {each.__name__.replace("_", "-"): each for each in kinds}


AIMED = by_name(
    drop_of_kind,
    repeat_of_kind,
    move_of_kind,
    exchange_of_kind,
    change_of_kind,
    change_text,
    change_word,
)
"""Every kind of aimed damage by name."""


def _words(kind: str, column: str) -> tuple[str, ...]:
    return words_of(column, {kind}) if column in columns_of(Kind(kind)) else ()


def _changed(row: Row, column: str, those: list[Row], rows: list[Row], rng: random.Random) -> str | int:
    """Another value for a column: one of the same kind of events, or near to it, or with one bit, or that of a node."""
    value, others = row[column], [each[column] for each in those if column in each]
    if column == "text":
        return _other_text(value, those, rows, rng)
    if isinstance(value, str):
        return str(rng.choice([*others, *_words(row["kind"], column)]))
    assert isinstance(value, int)
    if rng.random() < 0.4:
        return int(rng.choice(others))
    if column == "shards":
        return value ^ 1 << rng.randrange(8)
    return rng.choice((value - 1, value + 1, value + 2, value + (1 << rng.randrange(7)), _node(rows, rng)))


def _node(rows: list[Row], rng: random.Random) -> int:
    node: int = rng.choice(sorted({row["node"] for row in rows if "node" in row}) or [0])
    return node


def _sort(token: re.Match[str]) -> str:
    word = token.group()
    if word.startswith('"'):
        return ("name" if token[1] else "string") + (" of digits" if word[1:-1].isdigit() else "")
    return "number" if word[-1].isdigit() else "constant" if word in ("true", "false", "null") else "word"


def _other_text(text: str, those: list[Row], rows: list[Row], rng: random.Random) -> str:
    """A text of another event, or this one with one token like one that occurs in them, or near it, or a node's."""
    texts = [each["text"] for each in those if "text" in each]
    tokens = [*_TOKEN.finditer(text)]
    if not tokens or rng.random() < 0.2:
        return str(rng.choice(texts))
    token = rng.choice(tokens)
    sort = _sort(token)
    seen = rng.sample(texts, min(ENOUGH, len(texts)))
    found = sorted({each.group() for t in seen for each in _TOKEN.finditer(t) if _sort(each) == sort} - {token.group()})
    if sort == "name":  # twice in one object it may mean anything (RFC 8259, 4)
        found = [name for name in found if name not in text]
    if sort == "number" and "." not in token.group():
        near = int(token.group()) + rng.choice((-1, 1))
        found = [rng.choice([*found, str(near)]), str(near), str(_node(rows, rng))]
    if sort == "constant":
        found = ["true", "false"] if token.group() != "null" else found
    return text[: token.start()] + rng.choice(found or [token.group()]) + text[token.end() :]
