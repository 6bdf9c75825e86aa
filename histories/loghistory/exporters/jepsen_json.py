"""Jepsen JSON: one array of operation maps, each on a line of its own, as `loghistory.importers` reads them.

What clients did and what was injected is kept; what nodes say of themselves is not, for Jepsen has no words for it.
A read of a log has the member ``offset`` and answers pairs of offset and value; ``acks`` is a member as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from ..columns import to_rows
from ..errors import HistoryError
from ..importers.values import key_as_json, key_of
from ..schema import COLUMNS, Kind, Operation

_NAMES = tuple(column.name for column in COLUMNS)
_READS = frozenset({Operation.READ, Operation.READ_COMMITTED, Operation.READ_LINEARIZABLE, Operation.FINAL_READ})
_LISTS = frozenset({Operation.ASSIGN, Operation.SUBSCRIBE})


@dataclass(slots=True)
class _Open:
    """An operation that is not completed yet."""

    f: str
    log: str | None
    value: Any
    is_log: bool
    parts: dict[int, list[Any]] = field(default_factory=dict)
    seen: list[tuple[str | None, int, Any]] = field(default_factory=list)


def operations(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The operation maps of a history, in order. Memory: the operations that are open."""
    opened: dict[int, _Open] = {}
    index = 0
    held: dict[str, Any] | None = None
    for batch in batches:
        for row in to_rows(batch):
            event = {name: value for name, value in zip(_NAMES, row, strict=True) if value is not None}
            whole = opened.get(event.get("txn", -1))
            if event["kind"] == Kind.INVOKE and whole is not None:
                part = _part(event)
                whole.parts[event["op"]] = part
                if held is not None:
                    held["value"] = [*(held["value"] or []), list(part)]
                continue
            if held is not None:
                yield held
                held = None
            shown = _map(event, opened)
            if shown is not None:
                held = {"index": index, "time": event["time"]} | shown
                index += 1
    if held is not None:
        yield held


def _map(event: dict[str, Any], opened: dict[int, _Open]) -> dict[str, Any] | None:
    """The map that an event completes; None if it completes none."""
    kind = event["kind"]
    if kind in (Kind.FAULT, Kind.HEAL):
        return {"type": "info", "process": "nemesis", "f": event["f"], "value": _decoded(event.get("text"))}
    if "op" not in event or "process" not in event:
        return None
    whole = opened.get(event.get("txn", event["op"]))
    if kind == Kind.INVOKE and "txn" not in event:
        return _invoked(event, opened)
    if whole is None:
        return None
    if kind == Kind.OBSERVE:
        whole.seen.append((event.get("log"), event["offset"], _value(event)))
        if "txn" in event:
            part = whole.parts.get(event["op"])
            if part is not None:
                if len(part) == 1:
                    part.append({})
                part[1].setdefault(event.get("log", ""), []).append([event["offset"], _value(event)])
        return None
    if "txn" in event:
        _take_part(event, whole)
        return None
    del opened[event["op"]]
    shown = {"type": kind, "process": event["process"], "f": whole.f, "value": _answer(event, whole)}
    if "reason" in event:
        shown["error"] = event["reason"]
    if whole.parts and "text" in event:
        shown["rebalance-log"] = [{"keys": [key_as_json(name) for name in _decoded(event["text"])]}]
    return _with_key(shown, whole)


def _invoked(event: dict[str, Any], opened: dict[int, _Open]) -> dict[str, Any] | None:
    f = event["f"]
    is_log = (f in _READS and ("offset" in event or f != Operation.READ)) or (
        f == Operation.APPEND and "text" not in event
    )
    value = _value(event)
    if f in _LISTS:
        value = [key_as_json(name) for name in value or []]
    whole = _Open(f, event.get("log"), value, is_log)
    opened[event["op"]] = whole
    shown = {"type": "invoke", "process": event["process"], "f": f, "value": value}
    if f in _READS and is_log:
        shown["offset"] = event.get("offset")
    if f in _LISTS and "offset" in event:
        shown["seek-to-beginning?"] = True
    if "acks" in event:
        shown["acks"] = event["acks"]
    return _with_key(shown, whole)


def _part(event: dict[str, Any]) -> list[Any]:
    """The invocation of one part, as a micro-operation."""
    if "log" not in event:
        return [event["f"]]
    return [event["f"], key_as_json(event["log"]), _value(event)]


def _take_part(event: dict[str, Any], whole: _Open) -> None:
    """What one part of an operation answered."""
    part = whole.parts.get(event["op"], [])
    if event["f"] == "send" and len(part) == 3:
        if "offset" in event:
            part[2] = [event["offset"], part[2]]
    elif event["f"] != "poll" and "text" in event and len(part) == 3:
        part[2] = _decoded(event["text"])


def _answer(event: dict[str, Any], whole: _Open) -> Any:  # noqa: ANN401
    if whole.parts:
        return list(whole.parts.values())
    if event["kind"] != Kind.OK:
        return whole.value
    if whole.f in _LISTS:
        return [key_as_json(name) for name in _decoded(event.get("text")) or []]
    if whole.f == Operation.APPEND and whole.is_log and "offset" in event:
        return [event["offset"], whole.value]
    if whole.f == Operation.TAIL:
        return event.get("offset")
    if whole.is_log and whole.f in _READS:
        return [[offset, value] for _, offset, value in whole.seen]
    if "text" in event or "value" in event:
        return _value(event)
    return whole.value


def _with_key(shown: dict[str, Any], whole: _Open) -> dict[str, Any]:
    """The map with the key that its log is."""
    if whole.log is None:
        return shown
    return shown | {"key": key_of(whole.log)}


def _value(event: dict[str, Any]) -> Any:  # noqa: ANN401
    return event["value"] if "value" in event else _decoded(event.get("text"))


def _decoded(text: str | None) -> Any:  # noqa: ANN401
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def write_jepsen_json(path: str | os.PathLike[str], batches: Iterable[pa.RecordBatch]) -> int:
    """Write a history; the file appears by rename. Returns the number of operation maps.

    A file that exists, and a disk that cannot take it, is a `HistoryError`.
    """
    target = Path(path)
    if target.exists():
        raise HistoryError(target, None, None, "already exists", "name another file")
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    count = 0
    try:
        with unfinished.open("wb") as file:
            for count, operation in enumerate(operations(batches), 1):
                file.write(b"[\n" if count == 1 else b",\n")
                file.write(msgspec.json.encode(operation))
            file.write(b"\n]\n" if count else b"[]\n")
        unfinished.rename(target)
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        raise HistoryError(target, None, None, problem, "make room or name another place") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return count
