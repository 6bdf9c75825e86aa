"""JSON Lines: one event a line, written and read a block at a time.

The first line is the header ``{"kind":"history","version":1}``. Each further line is one JSON object with the
event's non-null columns, in the order of the schema and without white space, so that the same events are the same
bytes. A reader takes any order and white space, but no repeated key and nothing that the schema does not know.

A block of lines is decoded at once. Repeated keys are found by counting quotation marks: an object of flat values with
k keys and s strings has 2(k + s) of them if none is escaped, so a line with more than its decoded event explains is
looked at closely, and only such a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import astuple

from .columns import Row, from_rows, integer_range
from .diagnosis import diagnose, repeated_key
from .errors import HistoryError, quote
from .intake import Intake
from .schema import COLUMNS, VERSION
from .validity import Reason, flaws

BLOCK = 1 << 20
"""Bytes read at once."""

MAX_LINE = BLOCK
"""Longest line in bytes that a reader takes. No more than a block, so that only a block's first line can be longer."""

HEADER = msgspec.json.encode({"kind": "history", "version": VERSION}) + b"\n"


def _event_type() -> type[msgspec.Struct]:
    fields: list[Any] = []
    for column in COLUMNS:
        kind: Any = str
        if pa.types.is_integer(column.type):
            low, high = integer_range(column.type)
            kind = Annotated[int, msgspec.Meta(ge=low, le=high)]
        fields.append((column.name, kind) if column.name in {"seq", "time"} else (column.name, kind | None, None))
    return msgspec.defstruct("Event", fields, module=__name__, omit_defaults=True, forbid_unknown_fields=True, gc=False)


Event = _event_type()
"""One line: an attribute for each column. Objects of it live no longer than one block."""

_decoder = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()
_STRINGS = [not pa.types.is_integer(c.type) for c in COLUMNS]
_NEW_LINE, _QUOTE, _BACKSLASH = b'\n"\\'


def encode(rows: Iterable[Row]) -> bytes:
    """The lines of some rows."""
    return _encoder.encode_lines(starmap(Event, rows))


class BrokenStream(Exception):  # noqa: N818
    """The bytes of a file end before their time; what came before is good."""

    def __init__(self, reason: Reason, error: HistoryError) -> None:
        self.reason = reason
        self.error = error
        super().__init__(str(error))


@dataclass(slots=True)
class Ending:
    """How the file ended; ``torn``: its end is missing, as when a process is killed in mid-write."""

    torn: bool = False


def read(
    read_bytes: Callable[[int], bytes], file: str, intake: Intake, ending: Ending, *, torn_end_allowed: bool
) -> Iterator[pa.RecordBatch]:
    """The events of a file as record batches of the schema, one for each block read.

    ``read_bytes(n)`` gives up to n further bytes and none at the end; it may raise `BrokenStream`. What has to be
    refused goes to ``intake``. With ``torn_end_allowed`` an end that is missing is noted in ``ending`` and all
    whole events before it are given; otherwise it is refused, after them.
    """
    lines = _Lines(read_bytes, file, intake)
    last_seq: int | None = None
    header_seen = False
    for block in lines:
        if not header_seen:
            header_seen = True
            block = _after_header(block, file, intake)
        batch = _batch(block, file, intake, last_seq)
        if batch.num_rows:
            last_seq = batch.column(0)[-1].as_py()
            yield batch
    if lines.broken is not None:
        ending.torn = True
        if not (torn_end_allowed and lines.broken.reason is Reason.CUT_OFF):
            intake.refuse(lines.broken.reason, lines.broken.error, lines.tail)
    elif lines.tail or not header_seen:
        ending.torn = True
        if torn_end_allowed:
            return
        if not header_seen:
            _after_header(_Block(1, lines.tail), file, intake)
        else:
            error = HistoryError(file, lines.number, None, "the last line is cut off", _SKIP_REST)
            intake.refuse(Reason.CUT_OFF, error, lines.tail)


_SKIP_REST = "record it again, or read up to the line before with --lenient"


@dataclass(frozen=True, slots=True)
class _Block:
    """Whole lines, each with its line end; ``number`` is the line number of the first."""

    number: int
    data: bytes


class _Lines:
    """Cuts a stream of bytes into blocks of whole lines, without the lines that are too long.

    After the iteration ``tail`` holds what is left of an unfinished last line, ``number`` its line number and
    ``broken`` what ended the stream before its time.
    """

    def __init__(self, read_bytes: Callable[[int], bytes], file: str, intake: Intake) -> None:
        self._read = read_bytes
        self._file = file
        self._intake = intake
        self.number = 1
        self.tail = b""
        self.broken: BrokenStream | None = None

    def __iter__(self) -> Iterator[_Block]:
        inside_long_line = False
        while data := self._more():
            if inside_long_line:
                data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
                inside_long_line = not data
                if inside_long_line:
                    continue
                self.number += 1
            whole = data.rfind(b"\n") + 1
            if whole:
                first = self.tail + data[: data.find(b"\n") + 1]
                block = _Block(self.number, self.tail + data[:whole])
                self.tail = data[whole:]
                self.number += block.data.count(b"\n")
                if len(first) > MAX_LINE:
                    self._too_long(block.number, first)
                    block = _Block(block.number + 1, block.data[len(first) :])
                if block.data:
                    yield block
            else:
                self.tail += data
                if len(self.tail) > MAX_LINE:
                    self._too_long(self.number, self.tail)
                    self.tail, inside_long_line = b"", True
        if self.tail and _is_whole(self.tail):
            tail, self.tail = self.tail, b""
            yield _Block(self.number, tail + b"\n")

    def _more(self) -> bytes:
        try:
            return self._read(BLOCK)
        except BrokenStream as broken:
            self.broken = broken
            return b""

    def _too_long(self, number: int, line: bytes) -> None:
        problem = f"the line is longer than {MAX_LINE} bytes"
        error = HistoryError(self._file, number, None, problem, "split what it holds into several events")
        self._intake.refuse(Reason.LONG_LINE, error, line)


def _is_whole(line: bytes) -> bool:
    """Whether a line without line end is a JSON object: no proper prefix of one is."""
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


class _Header(msgspec.Struct):
    kind: str
    version: int


def _after_header(block: _Block, file: str, intake: Intake) -> _Block:
    """The lines after the header; a block whose first line is no header is given back whole."""
    end = block.data.find(b"\n") + 1 or len(block.data)
    line = block.data[:end]
    try:
        header = msgspec.json.decode(line, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        header = None
    if header is None or header.kind != "history":
        problem = "the file is empty" if not block.data.strip() else "the first line is no history header"
        error = HistoryError(file, block.number, "kind", problem, f"write {HEADER.decode().strip()} first")
        intake.refuse(Reason.NO_HEADER, error, line)
        # A file that merely lost its header is read on; other first lines are refused once, as the missing header.
        return block if header is None and _is_event(line) else _Block(block.number + 1, block.data[end:])
    version_check(header.version, file)
    return _Block(block.number + 1, block.data[end:])


def _is_event(line: bytes) -> bool:
    try:
        _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def version_check(version: int, file: str, line: int | None = 1) -> None:
    """Raises unless this library can read histories of the version."""
    if version == VERSION:
        return
    problem = f"history version {quote(version)} is not known"
    remedy = (
        f"this library reads version {VERSION}; install a later one" if version > VERSION else "versions start at 1"
    )
    raise HistoryError(file, line, "version", problem, remedy)


def _batch(block: _Block, file: str, intake: Intake, last_seq: int | None) -> pa.RecordBatch:
    """The good events of a block."""
    if not block.data:
        return from_rows([])
    line_ends = np.flatnonzero(np.frombuffer(block.data, np.uint8) == _NEW_LINE)
    numbers: npt.NDArray[np.int64] = np.arange(block.number, block.number + len(line_ends))
    try:
        events = _decoder.decode_lines(block.data)
        batch = from_rows(list(map(astuple, events)), file) if len(events) == len(line_ends) else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        batch = None
    if batch is None or _repeats_keys(block.data, line_ends, batch):
        batch, numbers = _one_by_one(block, file, intake)
    wrong = flaws(batch, last_seq)
    if not wrong:
        return batch
    keep = np.ones(batch.num_rows, bool)
    lines = block.data.split(b"\n")
    for flaw in wrong:
        number = int(numbers[flaw.row])
        error = HistoryError(file, number, flaw.field, flaw.problem, flaw.remedy)
        intake.refuse(flaw.reason, error, lines[number - block.number])
        keep[flaw.row] = False
    return batch.filter(pa.array(keep))


def _repeats_keys(data: bytes, line_ends: npt.NDArray[np.int64], batch: pa.RecordBatch) -> bool:
    """Whether any line repeats a key. Only lines with an escape or with unexplained quotation marks are looked at."""
    octets = np.frombuffer(data, np.uint8)
    marks = np.diff(np.searchsorted(np.flatnonzero(octets == _QUOTE), line_ends), prepend=0)
    explained = np.zeros(batch.num_rows, np.int64)
    for array, is_string in zip(batch.columns, _STRINGS, strict=True):
        if array.null_count < len(array):
            weight = 4 if is_string else 2
            explained += weight * array.is_valid().to_numpy(zero_copy_only=False)
    suspect: npt.NDArray[np.bool_] = marks != explained
    if b"\\" in data:
        suspect[np.searchsorted(line_ends, np.flatnonzero(octets == _BACKSLASH))] = True
    starts = np.concatenate(([0], line_ends[:-1] + 1))
    return any(repeated_key(data[starts[row] : line_ends[row]]) is not None for row in np.flatnonzero(suspect).tolist())


def _one_by_one(block: _Block, file: str, intake: Intake) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
    """The events of a block that holds a bad line or a doubtful one, each looked at closely, and their line numbers."""
    rows: list[Row] = []
    numbers: list[int] = []
    for number, line in enumerate(block.data.split(b"\n")[:-1], block.number):
        try:
            event = _decoder.decode(line)
            fine = repeated_key(line) is None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            fine = False
        if fine:
            rows.append(astuple(event))
            numbers.append(number)
        else:
            trouble = diagnose(line)
            error = HistoryError(file, number, trouble.field, trouble.problem, trouble.remedy)
            intake.refuse(trouble.reason, error, line)
    return from_rows(rows, file), np.array(numbers, np.int64)
