"""Reading a file of another tool as events: one stream of record batches, whatever the format."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from ..errors import HistoryError, quote
from ..intake import Intake
from ..lines import Lines
from ..validity import Reason, flaws
from .edn import EdnError, flat_map, forms
from .formats import LOG_LINE, ForeignFormat, log_operation
from .operations import Operations
from .pieces import Piece, Pieces
from .values import Malformed, Value, key_in_json

_ROWS = 1 << 13
_TOLD = re.compile(rb":(?:invoke|ok|fail|info)(?![\w.-])")
"""What a line has that tells an operation."""
_NO_OPERATION = "no operation in it"
_KEYED = frozenset({"send", "poll", "txn", "assign", "subscribe"})


def read(
    read_bytes: Callable[[int], bytes], file: str, intake: Intake, format_: ForeignFormat
) -> Iterator[pa.RecordBatch]:
    """The events of a file as record batches of the schema.

    ``read_bytes(n)`` gives up to n further bytes and none at the end. What has to be refused goes to ``intake``.
    Memory is bounded by one operation and by the operations that are open.
    """
    operations = Operations()
    taken = 0
    for line, found, raw in _maps(read_bytes, file, intake, format_):
        try:
            operations.take(found)
        except Malformed as error:
            problem = HistoryError(file, line, error.field, error.problem, error.remedy)
            intake.refuse(Reason.WRONG_TYPE, problem, raw)
            continue
        taken += 1
        if operations.rows.size >= _ROWS:
            batch = _batch(operations, file, line)
            yield batch
            intake.take(batch.num_rows)
    if operations.rows.size:
        yield _batch(operations, file, None)
    if not taken:
        remedy = f"name a history of operations, or say its format (one of {', '.join(ForeignFormat)})"
        intake.refuse(Reason.NO_HEADER, HistoryError(file, None, None, _NO_OPERATION, remedy), b"")


def _batch(operations: Operations, file: str, line: int | None) -> pa.RecordBatch:
    batch = operations.rows.batch()
    for flaw in flaws(batch, None):  # pragma: no cover - the events are made here
        raise HistoryError(file, line, flaw.field, flaw.problem, flaw.remedy)
    return batch


def _maps(
    read_bytes: Callable[[int], bytes], file: str, intake: Intake, format_: ForeignFormat
) -> Iterator[tuple[int, Mapping[str, Value], bytes]]:
    """Line, operation map and text of every operation."""
    if format_ is ForeignFormat.JEPSEN_LOG:
        yield from _log_lines(read_bytes, file, intake)
        return
    is_json = format_ is ForeignFormat.JEPSEN_JSON
    for piece in Pieces(read_bytes, file, intake, json=is_json):
        raw = piece.text.encode("utf-8", "surrogatepass")
        try:
            found = _json_map(raw) if is_json else _edn_map(piece)
        except (EdnError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            what = "JSON" if is_json else "EDN"
            problem = HistoryError(
                file, piece.line, None, f"not valid {what}, {quote(str(error))[1:-1]}", "correct what wrote it"
            )
            intake.refuse(Reason.NOT_JSON, problem, raw)
            continue
        yield piece.line, found, raw


def _edn_map(piece: Piece) -> Mapping[str, Value]:
    found = flat_map(piece.text)
    if found is None:
        (found,) = forms(piece.text)
    return found if "type" in found else _renamed(found)


def _renamed(found: dict[Value, Value]) -> dict[Value, Value]:
    """A map whose words are namespaced keywords, or texts with a colon, by the plain words."""
    return {key.rpartition("/")[2].removeprefix(":") if isinstance(key, str) else key: found[key] for key in found}


def _json_map(raw: bytes) -> Mapping[str, Value]:
    found: dict[str, Any] = msgspec.json.decode(raw)
    if raw.count(b'":') != _keys(found):
        _refuse_repeated(raw)
    if "type" not in found:
        found = _renamed(found)
    f = found.get("f")
    if isinstance(f, str) and f.removeprefix(":") in _KEYED:
        found["value"] = _with_keys(found.get("value"))
        if isinstance(found.get("rebalance-log"), list):
            found["rebalance-log"] = [
                {name: _with_keys(keys) for name, keys in each.items()} if isinstance(each, dict) else each
                for each in found["rebalance-log"]
            ]
    return found


def _keys(value: Value) -> int:
    """How many keys the objects in a value have. The nesting was limited when the text was cut."""
    if type(value) is dict:
        return len(value) + sum(_keys(each) for each in value.values() if type(each) in (dict, list))
    return sum(_keys(each) for each in value if type(each) in (dict, list))


def _refuse_repeated(raw: bytes) -> None:
    """A `ValueError` if an object repeats a key, for nobody knows which of its values was meant."""

    def unique(pairs: list[tuple[str, Value]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise msgspec.DecodeError(f"the key {quote(key)} is repeated")
            seen.add(key)

    json.loads(raw, object_pairs_hook=unique)


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


def _poll_keys(value: Value) -> Value:
    if isinstance(value, dict):
        return {_poll_keys(key): batches for key, batches in value.items()}
    return key_in_json(value) if isinstance(value, str) else value


def _log_lines(
    read_bytes: Callable[[int], bytes], file: str, intake: Intake
) -> Iterator[tuple[int, Mapping[str, Value], bytes]]:
    """The operations that a log tells; its other lines say nothing."""
    lines = Lines(read_bytes, lambda _: True, file, intake)
    for block in lines:
        data = block.data.removeprefix(codecs.BOM_UTF8) if block.number == 1 else block.data
        if _TOLD.search(data) is None:
            continue
        for number, raw in enumerate(data.split(b"\n")[:-1], block.number):
            if _TOLD.search(raw) is None:
                continue
            try:
                match = LOG_LINE.search(raw.decode())
                if match is None:
                    continue
                process, kind, f, rest = log_operation(match)
                given = forms(rest)
            except UnicodeDecodeError:
                remedy = "save the file as UTF-8"
                error = HistoryError(file, number, None, "the text is not valid UTF-8", remedy)
                intake.refuse(Reason.NOT_UTF8, error, raw)
                continue
            except EdnError as problem:
                if kind in ("fail", "info"):
                    # Why it failed is told to people, in words of all sorts.
                    yield number, {"type": kind, "f": f, "process": _process(process), "error": rest.strip()}, raw
                    continue
                error = HistoryError(file, number, "value", str(problem), "correct what wrote it")
                intake.refuse(Reason.NOT_JSON, error, raw)
                continue
            found: dict[str, Value] = {"type": kind, "f": f, "value": given[0] if given else None}
            found["process"] = _process(process)
            if len(given) > 1:
                found["error"] = given[1]
            yield number, found, raw
    if lines.broken is not None:
        intake.refuse(lines.broken.reason, lines.broken.error, lines.tail)


def _process(text: str) -> Value:
    """An integer, if it is one of reasonable length, or the name of something that injects faults."""
    if text.startswith(":"):
        return text[1:]
    return int(text) if len(text) < 20 else text
