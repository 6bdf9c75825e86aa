"""Foreign values as columns: compact JSON, names of logs, integers."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import msgspec

from .edn import Keyword, Members, Text, Word

Value: TypeAlias = Any
"""What a form is: None, bool, int, float, str, `Text`, `Keyword`, `Word`, list, `Members` or dict."""

_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_INTEGERS = {int}
_encode = msgspec.json.Encoder().encode
_LOOKS_LIKE_JSON = re.compile(r'(?:-?[0-9]|[\[{"]|(?:true|false|null)$)')


class Malformed(ValueError):  # noqa: N818 - the name says what is wrong
    """An operation is not what its format promises."""

    def __init__(self, field: str | None, problem: str, remedy: str) -> None:
        self.field = field
        self.problem = problem
        self.remedy = remedy
        super().__init__(problem)


def is_integer(value: Value) -> bool:
    """Whether it fits into a column of 64 bits."""
    return type(value) is int and _SMALLEST <= value <= _LARGEST


def as_json(value: Value) -> str:
    """A value as compact JSON: a keyword as the string with its colon, a set as the array of its members in order.

    Keys of maps are the names of logs that they would have, and in order.

    Raises `Malformed` for integers beyond 64 bits, the only values that a reader of JSON can give and EDN cannot.
    """
    kind = type(value)
    if kind is int and _SMALLEST <= value <= _LARGEST:
        return str(value)
    if (
        kind is list
        and value
        and set(map(type, value)) == _INTEGERS
        and min(value) >= _SMALLEST
        and max(value) <= _LARGEST
    ):
        return _encode(value).decode()
    return _encode(_plain(value)).decode()


def _plain(value: Value) -> Value:
    kind = type(value)
    if kind is int:
        if not _SMALLEST <= value <= _LARGEST:
            raise Malformed("value", "an integer does not fit in 64 bits", "give it as a string")
        return value
    if kind is Keyword:
        return f":{value}"
    if kind is Text:
        return _encode(str(value)).decode()
    if kind is Word:
        return str(value)
    # The nesting is limited by the reader of the forms.
    if kind is list or kind is tuple:
        return [_plain(item) for item in value]
    if kind is Members:
        return sorted((_plain(item) for item in value), key=_encode)
    if kind is dict:
        return dict(sorted((log_name(key), _plain(item)) for key, item in value.items()))
    return value


def log_name(key: Value) -> str:
    """The name of the log that a key stands for: the text itself, JSON for everything that is no text.

    A text that looks like JSON is quoted, so that the keys 11 and "11" are two logs.
    """
    if type(key) is Keyword:
        return f":{key}"
    if type(key) is Word:
        return str(key)
    if type(key) is str and not _LOOKS_LIKE_JSON.match(key):
        return key
    return as_json(key)


def key_in_json(text: str) -> Value:
    """The key that a text stands for where JSON has no other place for one: a number, a list or a quoted text.

    So 11 and "11" are one key in JSON.
    """
    if not _LOOKS_LIKE_JSON.match(text):
        return text
    try:
        found = msgspec.json.decode(text)
        if isinstance(found, (float, dict)) or as_json(found) != text:
            return text
    except (msgspec.DecodeError, RecursionError, Malformed):
        return text
    return tuple(found) if isinstance(found, list) else found


def key_as_json(log: str) -> Value:
    """A key for JSON, as `key_in_json` will read it."""
    key = key_of(log)
    return log if isinstance(key, str) and key != log else key


def key_of(log: str) -> Value:
    """The key that `log_name` turned into this name; a keyword comes back as its text with the colon."""
    if _LOOKS_LIKE_JSON.match(log):
        try:
            return msgspec.json.decode(log)
        except msgspec.DecodeError:
            return log
    return log
