"""Events as a recorder collects them: by shape, until there are enough of them for a record batch.

A *shape* is the kind of an event and the columns that it was given, and a run has a few dozen of them. The values of
the events of one shape lie behind one another in one list, so that an event costs no more than the columns that it has,
a column is every n-th value of some lists, and no object is kept for an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .columns import INTEGERS, WORDS, Row, array_of, from_rows
from .errors import HistoryError
from .schema import COLUMNS, SCHEMA, Column

Shape: TypeAlias = tuple[str, ...]
"""The kind of an event, then the names of the columns that it has besides ``seq``, ``time`` and ``kind``."""

Collected: TypeAlias = dict[Shape, list[Any]]
"""By shape, for event after event: ``seq``, ``time``, and the values of the other columns."""


_Known: TypeAlias = tuple[list[npt.NDArray[np.int64]], list[Any]]
"""What is known of a column: the rows, shape by shape, and their values behind one another."""

_HELD_AS = {column.name: column.type.index_type if column.name in WORDS else column.type for column in COLUMNS}
_HELD_AS = {name: kind for name, kind in _HELD_AS.items() if kind in INTEGERS}
"""The integers that a column consists of, if it does: its values, or the numbers of its words."""


def rows_of(collected: Collected) -> list[Row]:
    """The events as rows, in order of ``seq``."""
    rows: list[Row] = []
    for (kind, *names), events in collected.items():
        places = {name: place for place, name in enumerate(("seq", "time", *names, "kind"))}
        laid_out = itemgetter(*(places.get(name, -1) for name in SCHEMA.names))
        width = len(names) + 2
        rows.extend(laid_out((*events[at : at + width], kind, None)) for at in range(0, len(events), width))
    rows.sort(key=itemgetter(0))
    return rows


def batch_of(collected: Collected, first: int, size: int, file: str) -> pa.RecordBatch:
    """The events, of which there are so many and the first has this ``seq``, as one record batch of the schema.

    A value of the wrong type is a `HistoryError` that names the file, the event's ``seq`` and the column.
    """
    parts: dict[str, _Known] = {name: ([], []) for name in SCHEMA.names}
    for (kind, *names), events in collected.items():
        width = len(names) + 2
        rows = np.array(events[::width]) - first
        for place, name in enumerate(("seq", "time", *names, "kind")):
            values = events[place::width] if place < width else [kind] * len(rows)
            if values[0] is not None or values.count(None) < len(values):
                which, held = parts[name]
                which.append(rows)
                held += values
    try:
        arrays = [_column(*parts[column.name], size, column) for column in COLUMNS]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        from_rows(rows_of(collected), file)  # which says what is wrong
        raise HistoryError(file, first, None, str(error), "correct what records it", place="event") from error
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _column(which: Sequence[npt.NDArray[np.int64]], values: list[Any], size: int, column: Column) -> pa.Array:
    """A column that has these values in these rows, and is null in the rest."""
    if not values:
        return pa.nulls(size, column.type)
    rows = np.concatenate(which)
    kind = _HELD_AS.get(column.name)
    if kind is None or {*map(type, values)} != {str if column.name in WORDS else int}:
        scattered: list[Any] = [None] * size
        for row, value in zip(rows.tolist(), values, strict=True):
            scattered[row] = value
        return array_of(scattered, column.type)
    words: list[str] = []
    if column.name in WORDS:
        words = [*dict.fromkeys(values)]
        values = [*map(dict(zip(words, range(len(words)), strict=True)).__getitem__, values)]
    placed = np.zeros(size, kind.to_pandas_dtype())
    placed[rows] = np.array(values, placed.dtype)
    nulls = size - len(values)
    known = pa.py_buffer(_bits(rows, size)) if nulls else None
    numbers = pa.Array.from_buffers(kind, size, [known, pa.py_buffer(placed)], nulls)
    return pa.DictionaryArray.from_arrays(numbers, array_of(words, pa.string())) if words else numbers


def _bits(rows: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.uint8]:
    """A bitmap of so many rows, in which these are set."""
    known = np.zeros(size, bool)
    known[rows] = True
    return np.packbits(known, bitorder="little")
