"""Parquet: the columns as they are, for scanning.

Rows are cut into groups of `GROUP_ROWS`, words are dictionary encoded in order of first appearance, pages carry a
checksum: the same events are the same bytes for the pinned pyarrow. The reader reads a group's ``kind`` column first
and the rest of it only where a wanted kind occurs.

A Parquet file is readable only when it is whole (its index is at the end). A recorder therefore streams JSON Lines +
zstd and converts when it is closed; a killed run leaves the former.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .arrays import filled, slots, valid
from .columns import WORDS, cast, columns_in_order, expected, fits, of_kinds, rechunk, schema_of
from .compressed import FREE, MAX_RATIO
from .errors import HistoryError, quote
from .lines import MAX_LINE
from .quarantine import Quarantine
from .schema import COLUMNS, VERSION, VERSION_KEY, schema_in
from .validity import Reason, flaws
from .versions import UPGRADES, known

MAGIC = b"PAR1"
GROUP_ROWS = 1 << 17

MAX_ROWS_PER_BYTE = 50
"""A file that claims more rows for its size is refused as a bomb."""
MAX_GROUP_BYTES = 2 << 30
BATCH_TEXT = 16 << 20
"""Bytes of ``text`` in a batch: a dictionary can hold one long text for a million events."""

_TYPES = {c.name: c.type for c in COLUMNS}
_CODED = pa.dictionary(pa.int32(), pa.string())
_DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, MemoryError, OverflowError)


def write(batches: Iterable[pa.RecordBatch], file: Any, version: int = VERSION) -> None:  # noqa: ANN401
    """Write a whole Parquet file to a binary file, or to what pyarrow takes for one.

    ``version`` is the one in which the events were recorded.
    """
    options: dict[str, Any] = {
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": list(WORDS),
        "write_page_checksum": True,
        "version": "2.6",
    }
    with pq.ParquetWriter(file, schema_in(version), **options) as writer:
        for batch in rechunk(batches, GROUP_ROWS):
            writer.write_batch(batch, row_group_size=GROUP_ROWS)


def read(
    path: Path,
    quarantine: Quarantine,
    columns: Sequence[str] | None = None,
    kinds: frozenset[str] | None = None,
    batch_rows: int = 1 << 16,
    *,
    coded_texts: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The events of a file as record batches with the wanted columns, in the order and types of the schema.

    ``columns`` None: all; ``kinds`` None: all; ``coded_texts``: ``text`` may be dictionary encoded. Events are checked
    as far as the columns read show them; what has to be refused goes to ``quarantine``, a row group that cannot be read
    as a whole.
    """
    wanted = columns_in_order(columns)
    with _opened(path) as (file, version):
        first = 1
        last_seq: int | None = None
        unpacked = _Unpacked(path.stat().st_size)
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            done = 0
            try:
                for batch in _group(file, group, wanted, kinds, batch_rows, unpacked, coded_texts):
                    good, last_seq = _good(batch, version, first + done, path, quarantine, last_seq)
                    done += batch.num_rows
                    chosen = good if kinds is None else of_kinds(good, kinds)
                    if chosen.num_rows:
                        yield chosen if chosen.schema.names == wanted else chosen.select(wanted)
            except _Misfit as misfit:
                problem = f"row group {group + 1} holds {misfit.problem}"
                refused = HistoryError(path, first + done, misfit.column, problem, misfit.remedy, place="event")
                quarantine.refuse(misfit.reason, refused, b"")
            except _DAMAGE as error:
                problem = f"row group {group + 1} is damaged, {quote(_first_line(error))[1:-1]}"
                remedy = "copy or record it again, or leave the group out with --lenient"
                refused = HistoryError(path, first + done, None, problem, remedy, place="event")
                quarantine.refuse(Reason.DAMAGED, refused, b"")
            first += rows


class _Misfit(Exception):  # noqa: N818
    """A column of a batch holds what the schema has no place for."""

    def __init__(self, column: str, problem: str, remedy: str, reason: Reason = Reason.OUT_OF_RANGE) -> None:
        self.column = column
        self.problem = problem
        self.remedy = remedy
        self.reason = reason
        super().__init__(problem)


class _Unpacked:
    """The bytes of ``text`` that a file expanded to, with the limits of any compressed file."""

    def __init__(self, file_bytes: int) -> None:
        self._file_bytes = file_bytes
        self._given = 0

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in parts that hold no more than `BATCH_TEXT` bytes of text each."""
        place = batch.schema.get_field_index("text")
        found = batch.column(place) if place >= 0 else None
        if found is None or not pa.types.is_dictionary(found.type) or not len(found.dictionary):
            yield batch
            return
        of_texts = filled(pc.binary_length(found.dictionary), 0)
        lengths = of_texts.take(slots(found.indices), mode="clip") * valid(found)
        ends = np.cumsum(lengths, dtype=np.int64)
        if len(lengths) and int(lengths.max()) > MAX_LINE:
            raise _Misfit("text", f"a text longer than {MAX_LINE} bytes", "split what it holds into several events")
        if not len(ends) or int(ends[-1]) <= BATCH_TEXT:
            starts = [0]
        else:
            starts = [0, *(np.flatnonzero(np.diff(ends // BATCH_TEXT)) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            self._given += int(ends[end - 1] - (ends[start - 1] if start else 0)) if end else 0
            if self._given > FREE and self._given > MAX_RATIO * self._file_bytes:
                problem = f"texts of more than {MAX_RATIO} times the size of the file"
                raise _Misfit("text", problem, "no history is that dense; record it again", Reason.BOMB)
            yield batch.slice(start, end - start)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def version_of(path: Path) -> int:
    """The version that a file states; `VERSION` if it cannot be read, for reading will say so."""
    try:
        return _stated(pq.read_schema(path))
    except _DAMAGE:
        return VERSION


def _stated(schema: pa.Schema) -> int:
    """A file that states no version may come from anywhere; the first version asks the least of it."""
    stated = (schema.metadata or {}).get(VERSION_KEY.encode(), b"1")
    return int(stated) if stated.isdigit() else -1


@contextmanager
def _opened(path: Path) -> Iterator[tuple[pq.ParquetFile, int]]:
    """The file, its index read and found to be of a history that this library can read, and its version."""
    try:
        metadata = pq.read_metadata(path)
        words = [name for name in (*WORDS, "text") if name in metadata.schema.names]
        file = pq.ParquetFile(path, metadata=metadata, page_checksum_verification=True, read_dictionary=words)
        schema = file.schema_arrow
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        rows, largest = file.metadata.num_rows, max((g.total_byte_size for g in groups), default=0)
    except FileNotFoundError:
        raise
    except _DAMAGE as error:
        problem = f"not a whole Parquet file, {quote(_first_line(error))[1:-1]}"
        raise HistoryError(path, None, None, problem, "copy or record it again") from None
    with file:
        version = known(_stated(schema), str(path))
        for name in schema.names:
            if name not in _TYPES:
                columns = ", ".join(_TYPES)
                raise HistoryError(path, None, name, "unknown column", f"the columns are {columns}")
            if not fits(schema.field(name).type, _TYPES[name]):
                problem = f"the column holds {quote(str(schema.field(name).type))[1:-1]}"
                raise HistoryError(path, None, name, problem, f"it must hold {expected(_TYPES[name])}")
        for name in ("seq", "time", "kind"):
            if name not in schema.names:
                raise HistoryError(path, None, name, "the column is missing", f"add {quote(name)}")
        if rows > MAX_ROWS_PER_BYTE * path.stat().st_size or largest > MAX_GROUP_BYTES:
            problem = f"the file claims {rows} events in {path.stat().st_size} bytes"
            raise HistoryError(path, None, None, problem, "no history is that dense; record it again")
        yield file, version


def _group(
    file: pq.ParquetFile,
    group: int,
    wanted: list[str],
    kinds: frozenset[str] | None,
    batch_rows: int,
    unpacked: _Unpacked,
    coded_texts: bool,
) -> Iterator[pa.RecordBatch]:
    """The batches of a row group; if it has no wanted kind, its kinds alone."""
    names = set(wanted)
    if kinds is not None:
        names.add("kind")
        found = file.read_row_group(group, columns=["kind"]).column("kind")
        if not kinds.intersection(pc.unique(pc.cast(found, pa.string())).to_pylist()):
            names = {"kind"}
    # The index of a column chunk is not asked for anything: pyarrow ends the process over a damaged one.
    present = [name for name in file.schema_arrow.names if name in names] or ["seq"]
    for batch in file.iter_batches(batch_rows, row_groups=[group], columns=present):
        for column in batch.columns:
            if not pa.types.is_integer(column.type):
                validate(column)
        for part in unpacked.parts(batch):
            yield _with_columns(part, [name for name in _TYPES if name in names], coded_texts)


def validate(column: pa.Array) -> None:
    """Raise `pa.ArrowInvalid` if a column is not what it says. Of a column of words the codes are enough."""
    if pa.types.is_dictionary(column.type) and len(column):
        indices = slots(column.indices)
        if column.null_count == len(column) or (indices.min() >= 0 and indices.max() < len(column.dictionary)):
            column = column.dictionary
    column.validate(full=True)


def _good(
    batch: pa.RecordBatch, version: int, first: int, path: Path, quarantine: Quarantine, last_seq: int | None
) -> tuple[pa.RecordBatch, int | None]:
    """The good events of a batch and the ``seq`` of the last one (if it was read)."""
    batch = UPGRADES[version](batch)
    wrong = flaws(batch, last_seq, version, judged=quarantine.judged)
    if wrong:
        keep = np.ones(batch.num_rows, bool)
        for flaw in wrong:
            number = first + flaw.row
            error = HistoryError(path, number, flaw.field, flaw.problem, flaw.remedy, place="event")
            quarantine.refuse(flaw.reason, error, _as_line(batch, flaw.row))
            keep[flaw.row] = False
        batch = batch.filter(pa.array(keep))
    quarantine.take(batch.num_rows)
    if "seq" in batch.schema.names and batch.num_rows:
        last_seq = batch.column("seq")[-1].as_py()
    return batch, last_seq


def _as_line(batch: pa.RecordBatch, row: int) -> bytes:
    event = batch.slice(row, 1).to_pylist()[0]
    return msgspec.json.encode({name: value for name, value in event.items() if value is not None})


def _with_columns(batch: pa.RecordBatch, names: Sequence[str], coded_texts: bool) -> pa.RecordBatch:
    """The columns of these names in the types of the schema; one that the file lacks is null."""
    schema = schema_of(names)
    arrays: list[pa.Array] = []
    for name in names:
        index = batch.schema.get_field_index(name)
        found = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows)
        if name == "text" and coded_texts and found.type == _CODED:
            schema = schema.set(len(arrays), schema.field("text").with_type(_CODED))
        try:
            arrays.append(cast(found, schema.field(name).type))
        except pa.ArrowInvalid:
            remedy = f"every value must be {expected(_TYPES[name])}"
            raise _Misfit(name, "a value that does not fit", remedy) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
