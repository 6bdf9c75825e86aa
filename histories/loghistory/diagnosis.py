"""What exactly is wrong with one line of JSON Lines that is not an event.

The fast decoder only says that a line is no event. This looks at the line slowly and names the field, the problem and
the remedy. It runs for refused lines only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from .columns import expected, integer_range
from .errors import quote
from .schema import COLUMNS, SCHEMA
from .validity import Reason

_COLUMNS = {c.name: c for c in COLUMNS}
_ALWAYS = ("seq", "time", "kind")
_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "a truth value", type(None): "null"}


@dataclass(frozen=True, slots=True)
class Trouble:
    """The reason for which a line is refused, the column it concerns (None: the whole line), problem and remedy."""

    reason: Reason
    field: str | None
    problem: str
    remedy: str


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in the order of the text, repeated keys included."""


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _load(line: bytes) -> Any:  # noqa: ANN401
    return json.loads(line.decode(), object_pairs_hook=_Pairs, parse_constant=_no_number)


def repeated_key(line: bytes) -> str | None:
    """The first key that a line with one valid JSON object repeats, None if it repeats none."""
    seen: set[str] = set()
    for key, _ in _load(line):
        if key in seen:
            return str(key)
        seen.add(key)
    return None


def diagnose(line: bytes) -> Trouble:
    """Why a line is no event."""
    whole = "one JSON object a line"
    if not line.strip():
        return Trouble(Reason.NOT_JSON, None, "the line is empty", whole)
    try:
        members = _load(line)
    except UnicodeDecodeError as error:
        problem = f"byte {error.start + 1} of the line is not UTF-8"
        return Trouble(Reason.NOT_UTF8, None, problem, "write the text in UTF-8")
    except json.JSONDecodeError as error:
        return Trouble(Reason.NOT_JSON, None, f"not valid JSON, {error.msg} at column {error.colno}", whole)
    except ValueError as error:
        if "integer string conversion" in str(error):
            return Trouble(Reason.OUT_OF_RANGE, None, "an integer is out of range", "give one of 64 bits")
        return Trouble(Reason.NOT_JSON, None, f"not valid JSON, {quote(str(error))[1:-1]}", whole)
    except RecursionError:
        return Trouble(Reason.NOT_JSON, None, "nested too deeply", "an event is a flat object")
    if not isinstance(members, _Pairs):
        return Trouble(Reason.NOT_JSON, None, f"{_described(members)} instead of an object", whole)
    return _member_trouble(members) or Trouble(Reason.NOT_JSON, None, "not valid JSON", whole)


def _member_trouble(members: _Pairs) -> Trouble | None:
    seen: set[str] = set()
    for key, value in members:
        if key in seen:
            return Trouble(Reason.DUPLICATE_KEY, key, "the key appears twice", "give each column once")
        seen.add(key)
        column = _COLUMNS.get(key)
        if column is None:
            known = ", ".join(SCHEMA.names)
            return Trouble(Reason.UNKNOWN_COLUMN, key, "unknown column", f"the columns are {known}")
        if value is None and key not in _ALWAYS:
            continue
        good = expected(column.type)
        if good == "a string":
            if not isinstance(value, str):
                return Trouble(Reason.WRONG_TYPE, key, f"{_described(value)} is not a string", "give a string")
            if any("\ud800" <= c <= "\udfff" for c in value):
                return Trouble(Reason.NOT_UTF8, key, "half a surrogate pair is not text", "give valid Unicode")
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            return Trouble(Reason.WRONG_TYPE, key, f"{_described(value)} is not an integer", f"give {good}")
        low, high = integer_range(column.type)
        if not low <= value <= high:
            return Trouble(Reason.OUT_OF_RANGE, key, f"{quote(value)} is out of range", f"give {good}")
    for name in _ALWAYS:
        if name not in seen:
            return Trouble(Reason.MISSING_FIELD, name, "every event must carry it", f"add {quote(name)}")
    return None


def _described(value: object) -> str:
    """A JSON value in words: its type if that says enough, else the value."""
    if isinstance(value, _Pairs):
        return "an object"
    if isinstance(value, str):
        return f"the string {quote(value)}"
    return _NAMES.get(type(value)) or quote(value)
