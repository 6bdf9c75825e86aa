"""Writing operation maps in every form that other tools give them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

Map: TypeAlias = Mapping[str, Any]
"""An operation: words are plain strings, texts are `Text`."""


class Text(str):
    """A text: quoted in EDN, where other strings are keywords."""

    __slots__ = ()


def edn(value: Any) -> str:  # noqa: ANN401
    match value:
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case Text():
            return json.dumps(str(value))
        case str():
            return f":{value}"
        case Mapping():
            return "{" + ", ".join(f"{edn(k)} {edn(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + " ".join(map(edn, value)) + "]"
        case set() | frozenset():
            return "#{" + " ".join(map(edn, sorted(value))) + "}"
    return str(value)


def _plain(value: Any) -> Any:  # noqa: ANN401
    match value:
        case Mapping():
            return {str(k): _plain(v) for k, v in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case set() | frozenset():
            return sorted(value)
    return value


def _colons(value: Any) -> Any:  # noqa: ANN401
    """As JSON that was made from EDN word by word."""
    match value:
        case Text():
            return value
        case str():
            return f":{value}"
        case Mapping():
            return {_colons(k) if isinstance(k, str) else str(k): _colons(v) for k, v in value.items()}
        case list() | tuple():
            return [_colons(each) for each in value]
        case set() | frozenset():
            return sorted(value)
    return value


def _lines(form: Callable[[Map], str]) -> Callable[[Sequence[Map]], str]:
    return lambda maps: "".join(form(each) + "\n" for each in maps)


def _without(maps: Sequence[Map], *names: str) -> list[Map]:
    return [{name: value for name, value in each.items() if name not in names} for each in maps]


def _namespaced(each: Map) -> str:
    return edn({f"jepsen.history/{name}": value for name, value in each.items()})


def _spread(each: Map) -> str:
    """Over several lines, with comments, tags, metadata and forms to leave out."""
    members = "\n ,".join(f"#_{edn(name)} {edn(name)} ; {name}\n  ^:x {edn(value)}" for name, value in each.items())
    return f"#jepsen.history.Op ^{{:line 1}} {{{members}}}"


def _line(order: str, between: str = "\t", before: str = "") -> Callable[[Map], str]:
    """A line of a log, its words in some order."""

    def line(each: Map) -> str:
        words = {"p": edn(each["process"]), "t": edn(each["type"]), "f": edn(each["f"]), "v": edn(each.get("value"))}
        error = [edn(each["error"])] if "error" in each else []
        return before + between.join([*(words[letter] for letter in order), *error])

    return line


FORMS: dict[str, Callable[[Sequence[Map]], str | bytes]] = {
    "EDN, a map a line": _lines(edn),
    "EDN, maps without line ends": lambda maps: "".join(map(edn, maps)),
    "EDN, one vector": lambda maps: "[" + "\n ".join(map(edn, maps)) + "]\n",
    "EDN, one list": lambda maps: "(" + ", ".join(map(edn, maps)) + ")",
    "EDN, in a map": lambda maps: (
        "{:x {:history [1]}:history #jepsen.history.History [" + "\n".join(map(edn, maps)) + "]\n, :y {:a [{}]}}"
    ),
    "EDN, records": _lines(lambda each: f"#jepsen.history.Op{edn(each)}"),
    "EDN, namespaced": _lines(_namespaced),
    "EDN, one namespace": _lines(lambda each: "#:jepsen.history" + edn(each)),
    "EDN, spread out": _lines(_spread),
    "EDN, without times": lambda maps: _lines(edn)(_without(maps, "time", "index")),
    "EDN, CRLF": lambda maps: _lines(edn)(maps).replace("\n", "\r\n"),
    "EDN, byte order mark": lambda maps: "\ufeff" + _lines(edn)(maps),
    "EDN, gzip": lambda maps: gzip.compress(_lines(edn)(maps).encode()),
    "EDN, zstd": lambda maps: pa.Codec("zstd").compress(_lines(edn)(maps).encode(), asbytes=True),
    "JSON, an object a line": _lines(lambda each: json.dumps(_plain(each))),
    "JSON, one array": lambda maps: json.dumps(_plain(maps)),
    "JSON, in an object": lambda maps: json.dumps({"name": "x", "n": [1], "history": _plain(maps), "end": {"a": 1}}),
    "JSON, in an object, indented": lambda maps: json.dumps({"history": _plain(maps)}, indent=2),
    "JSON, indented": lambda maps: json.dumps(_plain(maps), indent=2),
    "JSON, words with colons": _lines(lambda each: json.dumps(_colons(each))),
    "JSON, gzip of two members": lambda maps: b"".join(
        gzip.compress(_lines(lambda each: json.dumps(_plain(each)))(some).encode()) for some in (maps[:7], maps[7:])
    ),
    "log": _lines(_line("ptfv", before="INFO  jepsen.util - ")),
    "log, bare": _lines(_line("ptfv")),
    "log, times": _lines(_line("ptfv", "  ", "2024-01-01 00:00:00,123{GMT}\tINFO\t[worker 1] jepsen.util: ")),
    "log, f first": _lines(_line("pftv")),
    "log, type first": _lines(_line("tpfv", " ")),
    "log, commas": _lines(_line("ptfv", ", ")),
    "log, CRLF": lambda maps: _lines(_line("ptfv"))(maps).replace("\n", "\r\n"),
    "log, byte order mark": lambda maps: "\ufeff" + _lines(_line("ptfv"))(maps),
    "log, zstd": lambda maps: pa.Codec("zstd").compress(_lines(_line("ptfv"))(maps).encode(), asbytes=True),
    "log, no end of line": lambda maps: _lines(_line("ptfv"))(maps).rstrip("\n"),
}  # fmt: skip
"""By name: what writes operation maps in a form."""

LOSSY = frozenset(name for name in FORMS if name.startswith("log"))
"""Forms that keep process, type, f, value and error alone."""


def written(maps: Sequence[Map], form: str) -> bytes:
    data = FORMS[form](maps)
    return data if isinstance(data, bytes) else data.encode()
