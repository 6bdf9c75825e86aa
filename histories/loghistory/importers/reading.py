"""Reading a file of another tool as events: one stream of record batches, whatever the format."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from ..errors import HistoryError, quote
from ..lines import Lines
from ..quarantine import Quarantine
from ..validity import Reason, flaws
from .edn import EdnError, flat_map, forms
from .formats import LOG_LINE, ForeignFormat, log_operation
from .objects import Fields, fields_of, objects, one, renamed
from .operations import Operations
from .shapes import Shapes
from .splitter import Chunk, Run, Splitter
from .values import Malformed, Value

_ROWS = 1 << 12
"""About the events of a batch."""
_STRETCH = 1 << 10
"""Lines of a log that are read at once."""
_MOST_KNOWN = 1 << 14
_LONGEST_KNOWN = 64
_TYPE = re.compile(rb":(?:invoke|ok|fail|info)(?![\w.-])")
"""What a line has that holds an operation."""
_NO_OPERATION = "no operation in it"
_NOTHING: Mapping[str, Value] = {}
_Some: TypeAlias = tuple[Sequence[int], Sequence[Fields], Sequence[str]]
"""Some operations: the numbers of their lines, what they say, their texts."""


def read(
    read_bytes: Callable[[int], bytes], file: str, quarantine: Quarantine, format_: ForeignFormat
) -> Iterator[pa.RecordBatch]:
    """The events of a file as record batches of the schema.

    ``read_bytes(n)`` gives up to n further bytes and none at the end. What has to be refused goes to ``quarantine``.
    Memory is bounded by one operation and by the operations that are open.
    """
    operations = Operations()
    taken = 0
    is_log = format_ is ForeignFormat.JEPSEN_LOG
    for numbers, some, texts in _fields(read_bytes, file, quarantine, format_, operations):
        if len(operations.rows.events) >= _ROWS:
            batch = _batch(operations.rows.batch(), file)
            yield batch
            quarantine.take(batch.num_rows)
        for line, each, text in zip(numbers, some, texts, strict=True):
            try:
                operations.take(each)
            except Malformed as error:
                problem = HistoryError(file, line, error.field, error.problem, error.remedy)
                raw = text if is_log else _map_in(text)
                quarantine.refuse(Reason.WRONG_TYPE, problem, raw.encode("utf-8", "surrogatepass"))
                continue
            taken += 1
    if operations.rows.events:
        yield _batch(operations.rows.batch(), file)
    if not taken:
        remedy = f"name a history of operations, or say its format (one of {', '.join(ForeignFormat)})"
        raise HistoryError(file, None, None, _NO_OPERATION, remedy)


def _batch(batch: pa.RecordBatch, file: str) -> pa.RecordBatch:
    for flaw in flaws(batch, None):  # pragma: no cover - the events are made here
        raise HistoryError(file, None, flaw.field, flaw.problem, flaw.remedy)
    return batch


def _fields(
    read_bytes: Callable[[int], bytes],
    file: str,
    quarantine: Quarantine,
    format_: ForeignFormat,
    operations: Operations,
) -> Iterator[_Some]:
    if format_ is ForeignFormat.JEPSEN_LOG:
        yield from _Log(file, quarantine).read(read_bytes)
        return
    is_json = format_ is ForeignFormat.JEPSEN_JSON
    at_once = objects if is_json else Shapes(lambda: operations.index).read
    for chunk in Splitter(read_bytes, file, quarantine, at_once, json=is_json):
        if isinstance(chunk, Run):
            yield chunk.lines, chunk.fields, chunk.texts
            continue
        try:
            found = one(chunk.text) if is_json else _edn_map(chunk)
        except (EdnError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            what = "JSON" if is_json else "EDN"
            problem = HistoryError(
                file, chunk.line, None, f"not valid {what}, {quote(str(error))[1:-1]}", "correct what wrote it"
            )
            quarantine.refuse(Reason.NOT_JSON, problem, chunk.text.encode("utf-8", "surrogatepass"))
            continue
        yield [chunk.line], [fields_of(found)], [chunk.text]


def _edn_map(chunk: Chunk) -> Mapping[str, Value]:
    found = flat_map(chunk.text)
    if found is None:
        (found,) = forms(chunk.text)
    return found if "type" in found else renamed(found)


class _Log:
    """The operations in the lines of a log; lines without one are passed over."""

    def __init__(self, file: str, quarantine: Quarantine) -> None:
        self._file = file
        self._quarantine = quarantine
        self._known: dict[str, tuple[Value, Mapping[str, Value]]] = {}
        """What stands behind the words of an operation, as it was read before: its value, and its error if any."""
        self._processes: dict[str, Value] = {}

    def read(self, read_bytes: Callable[[int], bytes]) -> Iterator[_Some]:
        """The operations, those of a block together; a stream that breaks off is reported to the quarantine."""
        lines = Lines(read_bytes, lambda _: True, self._file, self._quarantine)
        for block in lines:
            data = block.data.removeprefix(codecs.BOM_UTF8) if block.number == 1 else block.data
            if _TYPE.search(data) is not None:
                yield from self._block(block.number, data)
        if lines.broken is not None:
            self._quarantine.refuse(lines.broken.reason, lines.broken.error, lines.tail)

    def _block(self, first: int, data: bytes) -> Iterator[_Some]:
        try:
            texts: Sequence[str] = data.decode().split("\n")[:-1]
        except UnicodeDecodeError:
            for number, line in enumerate(data.split(b"\n")[:-1], first):
                yield from self._line(number, line)
            return
        numbers: Sequence[int] = range(first, first + len(texts))
        found = LOG_LINE.findall("\n".join(texts))
        if len(found) != len(texts):
            # No line has two matches, for a match goes on to the end of its line.
            found_at = [place for place, text in enumerate(texts) if LOG_LINE.search(text) is not None]
            numbers, texts = [first + place for place in found_at], [texts[place] for place in found_at]
        for begin in range(0, len(texts), _STRETCH):
            end = begin + _STRETCH
            operations = [log_operation(groups) for groups in found[begin:end]]
            yield from self._fields(numbers[begin:end], operations, texts[begin:end])

    def _line(self, number: int, line: bytes) -> Iterator[_Some]:
        """A line of a block that is not all UTF-8."""
        if _TYPE.search(line) is None:
            return
        try:
            text = line.decode()
        except UnicodeDecodeError:
            error = HistoryError(self._file, number, None, "the text is not valid UTF-8", "save the file as UTF-8")
            self._quarantine.refuse(Reason.NOT_UTF8, error, line)
            return
        found = LOG_LINE.findall(text)
        if found:
            yield from self._fields([number], list(map(log_operation, found)), [text])

    def _fields(
        self, numbers: Sequence[int], operations: Sequence[tuple[str, str, str, str]], texts: Sequence[str]
    ) -> Iterator[_Some]:
        fields: list[Fields] = []
        begin = 0
        for place, (process, kind, f, rest) in enumerate(operations):
            try:
                value, members = self._known.get(rest) or self._value(rest)
            except EdnError as problem:
                if kind in ("fail", "info"):
                    # Why it failed is said for people, in words of all sorts.
                    fields.append((kind, f, self._process(process), None, None, {"error": rest.strip()}))
                    continue
                yield numbers[begin:place], fields, texts[begin:place]
                fields, begin = [], place + 1
                error = HistoryError(self._file, numbers[place], "value", str(problem), "correct what wrote it")
                self._quarantine.refuse(Reason.NOT_JSON, error, texts[place].encode())
                continue
            who = self._processes.get(process)
            fields.append((kind, f, self._process(process) if who is None else who, None, value, members))
        yield numbers[begin:], fields, texts[begin:]

    def _value(self, rest: str) -> tuple[Value, Mapping[str, Value]]:
        """The value of an operation and the members besides it. Raises `EdnError`."""
        given = forms(rest)
        found = given[0] if given else None, {"error": given[1]} if len(given) > 1 else _NOTHING
        _remember(self._known, rest, found)
        return found

    def _process(self, text: str) -> Value:
        """An integer, if it is one of reasonable length, or the name of something that injects faults."""
        if text.startswith(":"):
            return text[1:]
        found = int(text) if len(text) < 20 else text
        _remember(self._processes, text, found)
        return found


def _remember(known: dict[str, Any], text: str, meaning: object) -> None:
    if len(text) <= _LONGEST_KNOWN:
        if len(known) > _MOST_KNOWN:
            known.clear()
        known[text] = meaning


def _map_in(text: str) -> str:
    """The map that a line is, without what stands around it."""
    begin = text.find("{")
    return text if begin < 0 else text[begin : text.rfind("}") + 1]
