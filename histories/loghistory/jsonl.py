"""JSON Lines: one event a line, written and read a block at a time.

The first line is the header ``{"kind":"history","version":2}``. Each further line is one JSON object with the
event's non-null columns, in the order of the schema and without white space, so that the same events are the same
bytes. A reader takes any order and white space, but no repeated key and nothing that the schema does not know.

A block of lines is decoded at once. Repeated keys are found by counting quotation marks: an object of flat values with
k keys and s strings has 2(k + s) of them, and more if some are escaped, so a line with more than its decoded event
explains is looked at closely, and only such a line. The same count shows whether a block has columns that the one
before lacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import starmap
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import astuple

from .columns import Row, from_rows, integer_range
from .diagnosis import diagnose, repeated_key
from .errors import HistoryError
from .lines import Block, Lines
from .quarantine import Quarantine
from .schema import COLUMNS, SCHEMA, VERSION
from .validity import Reason, flaws
from .versions import UPGRADES, known


def header(version: int) -> bytes:
    """The first line of a file whose events were recorded in a version."""
    return msgspec.json.encode({"kind": "history", "version": version}) + b"\n"


HEADER = header(VERSION)


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
_NAMES = frozenset(c.name for c in COLUMNS)
_ATTRIBUTES = [attrgetter(c.name) for c in COLUMNS]
_NEW_LINE, _QUOTE = b'\n"'


def encode(rows: Iterable[Row]) -> bytes:
    """The lines of some rows, each with its line end: one JSON object a row, columns that are null left out."""
    return _encoder.encode_lines(starmap(Event, rows))


@dataclass(slots=True)
class FileEnd:
    """How the file ended; ``torn``: its end is missing, as when a process is killed in mid-write."""

    torn: bool = False


def read(
    read_bytes: Callable[[int], bytes], file: str, quarantine: Quarantine, end: FileEnd, *, torn_end_allowed: bool
) -> Iterator[pa.RecordBatch]:
    """The events of a file as record batches of the schema, one for each block read.

    ``read_bytes(n)`` gives up to n further bytes and none at the end; it may raise `BrokenStream`. What has to be
    refused goes to ``quarantine``. With ``torn_end_allowed`` an end that is missing is noted in ``end`` and all
    whole events before it are given; otherwise it is refused, after them.
    """
    lines = Lines(read_bytes, _is_whole, file, quarantine)
    last_seq: int | None = None
    version: int | None = None
    used = set(_NAMES)
    for block in lines:
        events = block
        if version is None:
            events, version = _after_header(block, file, quarantine)
        batch = _batch(events, version, file, quarantine, last_seq, used)
        quarantine.take(batch.num_rows)
        if batch.num_rows:
            last_seq = batch.column(0)[-1].as_py()
            yield batch
    if lines.broken is not None:
        end.torn = True
        if not (torn_end_allowed and lines.broken.reason is Reason.CUT_OFF):
            quarantine.refuse(lines.broken.reason, lines.broken.error, lines.tail)
    elif lines.tail or version is None:
        end.torn = True
        if torn_end_allowed:
            return
        if version is None:
            _after_header(Block(1, lines.tail), file, quarantine)
        else:
            error = HistoryError(file, lines.number, None, "the last line is cut off", _SKIP_REST)
            quarantine.refuse(Reason.CUT_OFF, error, lines.tail)


_SKIP_REST = "record it again, or read up to the line before with --lenient"


def _is_whole(line: bytes) -> bool:
    """Whether a line without line end is a JSON object: no proper prefix of one is."""
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


class _Header(msgspec.Struct):
    kind: str
    version: int


def version_of(start: bytes) -> int:
    """The version that the first bytes of a file state; `VERSION` if they state none, for reading will say so."""
    try:
        return msgspec.json.decode(start.partition(b"\n")[0], type=_Header).version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return VERSION


def _after_header(block: Block, file: str, quarantine: Quarantine) -> tuple[Block, int]:
    """The lines after the header and their version."""
    end = block.data.find(b"\n") + 1 or len(block.data)
    line = block.data[:end]
    rest = Block(block.number + 1, block.data[end:])
    try:
        found = msgspec.json.decode(line, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    if found is not None and found.kind == "history":
        return rest, known(found.version, file, block.number)
    if not line:  # then nothing is left to read, leniently or not
        raise HistoryError(file, block.number, None, "the file is empty", "name a file that holds a history")
    problem, remedy = "the first line is not a history header", f"write {HEADER.decode().strip()} first"
    quarantine.refuse(Reason.NO_HEADER, HistoryError(file, block.number, None, problem, remedy), line)
    # A file may merely have lost its header: then its first line is an event, else it is refused with the header.
    return block if _is_event(line) else rest, VERSION


def _is_event(line: bytes) -> bool:
    try:
        _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _batch(
    block: Block, version: int, file: str, quarantine: Quarantine, last_seq: int | None, used: set[str]
) -> pa.RecordBatch:
    """The good events of a block. ``used`` are the columns that are looked for first, those of the block before."""
    if not block.data:
        return from_rows([])
    line_ends = np.flatnonzero(np.frombuffer(block.data, np.uint8) == _NEW_LINE)
    numbers: npt.NDArray[np.int64] = np.arange(block.number, block.number + len(line_ends))
    try:
        events = _decoder.decode_lines(block.data)
        batch = _columns(events, used) if len(events) == len(line_ends) else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        batch = None
    if batch is not None:
        suspects = _suspects(block.data, line_ends, batch)
        if len(suspects) and len(used) < len(COLUMNS):
            batch = _columns(events, used | _NAMES)
            suspects = _suspects(block.data, line_ends, batch)
        used.clear()
        used.update(c.name for c, array in zip(COLUMNS, batch.columns, strict=True) if array.null_count < len(array))
    if batch is None or _repeat_keys(block.data, line_ends, suspects):
        batch, numbers = _one_by_one(block, file, quarantine)
    batch = UPGRADES[version](batch)
    wrong = flaws(batch, last_seq, version, judged=quarantine.judged)
    if not wrong:
        return batch
    keep = np.ones(batch.num_rows, bool)
    lines = block.data.split(b"\n")
    for flaw in wrong:
        number = int(numbers[flaw.row])
        error = HistoryError(file, number, flaw.field, flaw.problem, flaw.remedy)
        quarantine.refuse(flaw.reason, error, lines[number - block.number])
        keep[flaw.row] = False
    return batch.filter(pa.array(keep))


def _columns(events: Sequence[msgspec.Struct], used: Set[str]) -> pa.RecordBatch:
    """These columns of decoded events, of which there must be some; the decoder has seen to their types."""
    size = len(events)
    arrays = [
        pa.array(map(attribute, events), column.type, size=size) if column.name in used else pa.nulls(size, column.type)
        for column, attribute in zip(COLUMNS, _ATTRIBUTES, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _suspects(data: bytes, line_ends: npt.NDArray[np.int64], batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The lines with quotation marks that the columns of the batch do not explain.

    No other line repeats a key, or has a column that the batch lacks: each adds some, and nothing takes any away.
    """
    octets = np.frombuffer(data, np.uint8)
    marks = np.diff(np.searchsorted(np.flatnonzero(octets == _QUOTE), line_ends), prepend=0)
    explained = np.zeros(batch.num_rows, np.int64)
    for array, is_string in zip(batch.columns, _STRINGS, strict=True):
        if array.null_count < len(array):
            weight = 4 if is_string else 2
            explained += weight * array.is_valid().to_numpy(zero_copy_only=False)
    suspect: npt.NDArray[np.bool_] = marks != explained
    return np.flatnonzero(suspect)


def _repeat_keys(data: bytes, line_ends: npt.NDArray[np.int64], suspects: npt.NDArray[np.int64]) -> bool:
    """Whether any of these lines repeats a key."""
    starts = np.concatenate(([0], line_ends[:-1] + 1))
    return any(repeated_key(data[starts[row] : line_ends[row]]) is not None for row in suspects.tolist())


def _one_by_one(block: Block, file: str, quarantine: Quarantine) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
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
            quarantine.refuse(trouble.reason, error, line)
    return from_rows(rows, file), np.array(numbers, np.int64)
