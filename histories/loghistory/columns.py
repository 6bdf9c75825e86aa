"""Events as rows and as columns: the conversions between plain tuples, Arrow record batches and slices of them.

A *row* is a tuple with one value for each column of the schema, in its order, None where the event has none. Rows
exist for as short a time as possible: a recorder collects some thousands and turns them into one record batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .errors import HistoryError, quote
from .schema import COLUMNS, SCHEMA, Column

Row: TypeAlias = tuple[Any, ...]

WORDS = tuple(c.name for c in COLUMNS if pa.types.is_dictionary(c.type))
"""Columns that hold few different words; they are dictionary encoded."""

INTEGERS = {pa.int8(): 7, pa.int32(): 31, pa.int64(): 63}
"""The types of columns of integers, and how many bits a value has besides its sign."""
_SEQ = 0
_SHARED = 1 << 15


def integer_range(kind: pa.DataType) -> tuple[int, int]:
    """Smallest and largest value of an integer column."""
    bits = INTEGERS[kind]
    return -(1 << bits), (1 << bits) - 1


def limits(column: Column) -> tuple[int, int]:
    """Smallest and largest value that a column of integers may hold."""
    return column.least, integer_range(column.type)[1] if column.most is None else column.most


def expected(kind: pa.DataType) -> str:
    """What a column of this type holds, in words for a message."""
    if kind not in INTEGERS:
        return "a string"
    low, high = integer_range(kind)
    return f"an integer from {low} to {high}"


def from_rows(rows: Sequence[Row], file: str = "memory") -> pa.RecordBatch:
    """Rows as one record batch of the schema.

    A value of the wrong type is a `HistoryError` that names the file, the event's ``seq`` and the column.
    """
    if not rows:
        return empty()
    size = len(rows)
    arrays, nothing = [], (None,) * size
    for column, values in zip(COLUMNS, zip(*rows, strict=True), strict=True):
        if values == nothing:  # compares no further than the first value
            arrays.append(nulls(size, column.type))
            continue
        try:
            arrays.append(array_of(values, column.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise _wrong_type(rows, values, column.type, column.name, file) from None
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def nulls(size: int, kind: pa.DataType) -> pa.Array:
    """A column of nulls, as most columns of most batches are."""
    return _nulls(kind).slice(0, size) if size <= _SHARED else pa.nulls(size, kind)


@cache
def _nulls(kind: pa.DataType) -> pa.Array:
    return pa.nulls(_SHARED, kind)


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values as an array. A conversion alone would cut floats off to integers and take bytes for text.

    Raises `pa.ArrowException`, TypeError, ValueError or OverflowError.
    """
    plain_type = int if kind in INTEGERS else str
    for found in set(map(type, values)):
        if (
            found is not plain_type
            and found is not type(None)
            and not (issubclass(found, plain_type) and found is not bool)
        ):
            raise TypeError(f"{found} for {plain_type}")
    return pa.array(values, kind)


def _wrong_type(rows: Sequence[Row], values: Sequence[Any], kind: pa.DataType, name: str, file: str) -> HistoryError:
    for row, value in zip(rows, values, strict=True):
        if value is None:
            continue
        try:
            array_of([value], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            problem = f"{quote(value)} is not {expected(kind)}"
            return HistoryError(file, row[_SEQ], name, problem, "correct what records it", place="event")
    return HistoryError(file, rows[0][_SEQ], name, "mixed types", f"give {expected(kind)}", place="event")


def to_rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows of a record batch of the schema."""
    columns = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if array.null_count == len(array):
            columns.append([None] * len(array))
        elif name in WORDS:
            columns.append(plain(array).to_pylist())
        else:
            columns.append(array.to_pylist())
    return zip(*columns, strict=True)


def empty() -> pa.RecordBatch:
    """A record batch of the schema without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, c.type) for c in COLUMNS], schema=SCHEMA)


def plain(array: pa.Array) -> pa.Array:
    """A column of words as plain strings."""
    if pa.types.is_dictionary(array.type):
        return pc.take(array.dictionary, array.indices)
    return array


def columns_in_order(columns: Iterable[str] | None) -> list[str]:
    """The wanted columns (None: all) in the order of the schema; an unknown one is a `ValueError`."""
    if columns is None:
        return list(SCHEMA.names)
    wanted = set(columns)
    unknown = wanted - set(SCHEMA.names)
    if unknown:
        raise ValueError(f"unknown columns: {', '.join(sorted(unknown))}; the columns are {', '.join(SCHEMA.names)}")
    return [name for name in SCHEMA.names if name in wanted]


def schema_of(columns: Iterable[str]) -> pa.Schema:
    """The part of the schema with these columns, in their order."""
    return _schema_of(tuple(columns))


@cache
def _schema_of(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([SCHEMA.field(name) for name in columns], metadata=SCHEMA.metadata)


def of_kinds(batch: pa.RecordBatch, kinds: frozenset[str]) -> pa.RecordBatch:
    """The events of a batch whose kind is one of these words; the batch itself if all are. It must have ``kind``."""
    column = batch.column("kind")
    wanted = np.array([word in kinds for word in column.dictionary.to_pylist()] + [False])
    keep = wanted[column.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return batch if keep.all() else batch.filter(pa.array(keep))


def fits(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a column found elsewhere can hold what a column of the schema holds: integers or text, not either."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_null(found):
        return True
    if pa.types.is_integer(kind):
        return bool(pa.types.is_integer(found))
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))


def conform(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with every column of the schema in its order and type; columns that it lacks are null.

    Raises `ValueError` for a column that the schema does not know, `pa.ArrowException` for values that do not fit.
    """
    if batch.schema.equals(SCHEMA):
        return batch
    columns_in_order(batch.schema.names)
    arrays = []
    for column in COLUMNS:
        index = batch.schema.get_field_index(column.name)
        if index < 0:
            arrays.append(pa.nulls(batch.num_rows, column.type))
        else:
            found = batch.column(index)
            if not fits(found.type, column.type):
                raise ValueError(f"column {column.name} holds {found.type} instead of {expected(column.type)}")
            arrays.append(cast(found, column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array in a column's type."""
    if array.type == kind:
        return array
    if pa.types.is_null(array.type) or array.null_count == len(array):
        return nulls(len(array), kind)
    if pa.types.is_dictionary(kind):
        return plain(array).cast(kind.value_type).dictionary_encode()
    return plain(array).cast(kind)


def rechunk(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same events in record batches of exactly ``rows`` rows (the last one may be shorter).

    Words are encoded anew, in order of first appearance, so that the result depends on the events alone and not on
    how they were cut before.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        rest = conform(batch)
        while size + rest.num_rows >= rows:
            held.append(rest.slice(0, rows - size))
            rest = rest.slice(rows - size)
            yield joined(held)
            held, size = [], 0
        if rest.num_rows:
            held.append(rest)
            size += rest.num_rows
    if held:
        yield joined(held)


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One record batch with the events of several, in order; there must be at least one."""
    arrays = []
    for position, column in enumerate(COLUMNS):
        parts = [batch.column(position) for batch in batches]
        if column.name in WORDS:
            array = pa.concat_arrays([plain(part) for part in parts]).dictionary_encode()
        else:
            array = pa.concat_arrays(parts)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
