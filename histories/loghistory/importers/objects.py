"""Operations as JSON objects: one, or many lines of them at once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import msgspec

from ..errors import quote
from .edn import MAX_DEPTH
from .values import Value, key_in_json

Fields: TypeAlias = tuple[Value, Value, Value, Value, Value, Mapping[str, Value]]
"""Type, f, process, time, value, and the whole map."""

_CHUNK = 256
_WORDS = frozenset({"send", "poll", "txn", "assign", "subscribe"})
_KEYED = _WORDS | {f":{word}" for word in _WORDS}
_LATE_COLON = re.compile(r'"\s+:')
_INNERMOST = re.compile(r'\[[^\[\]{}"]*\]')
_F = itemgetter("f")
_USUAL = itemgetter("type", "f", "process", "time", "value")
_START = re.compile(r"[ \t]*\{")
_decoder = msgspec.json.Decoder()
_ERRORS = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)


def fields_of(found: Mapping[Any, Value]) -> Fields:
    """What an operation map says: type, f, process, time, value, and the map itself; None for what it lacks."""
    get = found.get
    return get("type"), get("f"), get("process"), get("time"), get("value"), found


def objects(lines: Sequence[str]) -> list[Fields | None]:
    """What every line says that is one object, maybe with a comma after it; None for lines that are not read here."""
    try:
        return _all(lines)
    except ValueError:
        if len(lines) < 2:
            return [None]
    size = _CHUNK if len(lines) > _CHUNK else 1
    return [each for place in range(0, len(lines), size) for each in objects(lines[place : place + size])]


def _all(lines: Sequence[str]) -> list[Fields | None]:
    """The same if all lines can be read here, a `ValueError` otherwise."""
    # Every line begins and ends an object, so that as many objects as lines are one a line.
    text = ("\n".join(lines) + "\n").replace("\r\n", "\n").replace("},\n", "}\n")
    if not all(map(_START.match, lines)) or text.count("}\n") != len(lines) or not _all_shallow(lines):
        raise ValueError
    try:
        found = _decoder.decode_lines(text)
    except RecursionError:
        raise ValueError from None
    if len(found) != len(lines) or set(map(type, found)) != {dict}:
        raise ValueError
    keys = sum(map(len if text.count("{") == len(lines) else _keys, found))
    if keys != text.count('":') or _LATE_COLON.search(text):
        for line, each in zip(text.split("\n"), found, strict=False):
            refuse_repeated(line, each)
    try:
        if _KEYED.isdisjoint(map(_F, found)):
            return [(*_USUAL(each), each) for each in found]
    except (KeyError, TypeError):
        pass
    return [fields_of(meant(each)) for each in found]


def one(text: str) -> Mapping[Any, Value]:
    """The operation map that a text is. Raises `msgspec.DecodeError`."""
    found: dict[str, Any] = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    refuse_repeated(text, found)
    return meant(found)


def meant(found: dict[Any, Any]) -> dict[Any, Any]:
    """An operation with its words as EDN has them: without colons, and with keys that are no texts."""
    if "type" not in found:
        found = renamed(found)
    f = found.get("f")
    if isinstance(f, str) and f in _KEYED:
        found["value"] = _with_keys(found.get("value"))
        if "rebalance-log" in found:
            found["rebalance-log"] = _rebalances(found["rebalance-log"])
    return found


def renamed(found: Mapping[Any, Value]) -> dict[Any, Value]:
    """A map whose words are namespaced keywords, or texts with a colon, by the plain words."""
    return {key.rpartition("/")[2].removeprefix(":") if isinstance(key, str) else key: found[key] for key in found}


def _all_shallow(lines: Sequence[str]) -> bool:
    return max(map(len, lines)) < 2 * MAX_DEPTH or all(map(is_shallow, lines))


def is_shallow(line: str) -> bool:
    """Whether nothing in a line can nest deeper than forms may: most lines have few brackets at all."""
    if len(line) < 2 * MAX_DEPTH or line.count("[") + line.count("{") < MAX_DEPTH:
        return True  # what is opened is closed in it, too, or it is refused
    rest = _INNERMOST.sub("", line)
    return rest.count("[") + rest.count("{") < MAX_DEPTH - 1


def _keys(value: Value) -> int:
    """How many keys the objects in a value have."""
    if type(value) is dict:
        return len(value) + sum(_keys(each) for each in value.values() if type(each) in (dict, list))
    return sum(_keys(each) for each in value if type(each) in (dict, list))


def refuse_repeated(text: str, found: Mapping[Any, Value]) -> None:
    """A `ValueError` if an object repeats a key, for nobody knows which of its values was meant.

    ``found`` is what the text was decoded to. Only a text with more colons behind quotation marks than it has keys is
    looked at closely, or one with white space between them.
    """
    if text.count('":') == _keys(found) and not _LATE_COLON.search(text):
        return

    def unique(pairs: list[tuple[str, Value]]) -> None:
        """Refuse an object, given as its members in order, that has a key twice."""
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise msgspec.DecodeError(f"the key {quote(key)} is repeated")
            seen.add(key)

    json.loads(text, object_pairs_hook=unique)


def _with_keys(value: Value) -> Value:
    """The value of a Kafka-like operation; keys of objects can only be texts, so 11 and "11" are one key in JSON."""
    if not isinstance(value, list):
        return _poll_keys(value)
    if value and value[0] in ("send", "poll", ":send", ":poll"):
        return _with_keys([value])[0]
    result: list[Value] = []
    for micro in value:
        if isinstance(micro, list) and micro and isinstance(micro[0], str):
            micro = [micro[0].removeprefix(":"), *map(_poll_keys, micro[1:2]), *micro[2:]]
        result.append(_poll_keys(micro))
    return result


def _rebalances(log: Value) -> Value:
    """Rebalances, or a map of lists of them, with keys that are no texts."""
    if isinstance(log, list):
        return [
            {name: _with_keys(keys) for name, keys in renamed(each).items()} if isinstance(each, dict) else each
            for each in log
        ]
    return {name: _rebalances(part) for name, part in log.items()} if isinstance(log, dict) else log


def _poll_keys(value: Value) -> Value:
    if isinstance(value, dict):
        return {_poll_keys(key): batches for key, batches in value.items()}
    return key_in_json(value) if isinstance(value, str) else value
