"""Events as a recorder collects them: by shape, until there are enough of them for a record batch.

A *shape* is the kind of an event and the columns that it was given, and a run has a few dozen of them. The values of
the events of one shape lie behind one another in one list, so that an event costs no more than the columns that it has,
a column is every n-th value of some lists, and no object is kept for an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .columns import INTEGERS, Row, array_of, from_rows
from .errors import HistoryError
from .schema import COLUMNS, SCHEMA

Shape: TypeAlias = tuple[str, ...]
"""The kind of an event, then the names of the columns that it has besides ``seq``, ``time`` and ``kind``."""

Collected: TypeAlias = dict[Shape, list[Any]]
"""By shape, for event after event: ``seq``, ``time``, and the values of the other columns."""


_HELD_AS = {kind: np.dtype(kind.to_pandas_dtype()) for kind in INTEGERS}


class _Part(NamedTuple):
    """What the events of one shape have in one column, and in which rows."""

    rows: npt.NDArray[np.int64]
    values: Sequence[Any]


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
    parts: dict[str, list[_Part]] = {name: [] for name in SCHEMA.names}
    for (kind, *names), events in collected.items():
        width = len(names) + 2
        rows = np.array(events[::width]) - first
        parts["kind"].append(_Part(rows, [kind] * len(rows)))
        for place, name in enumerate(("seq", "time", *names)):
            values = events[place::width]
            if values.count(None) < len(values):
                parts[name].append(_Part(rows, values))
    try:
        arrays = [_column(parts[column.name], size, column.type) for column in COLUMNS]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        from_rows(rows_of(collected), file)  # which says what is wrong
        raise HistoryError(file, first, None, str(error), "correct what records it", place="event") from error
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _column(parts: Sequence[_Part], size: int, kind: pa.DataType) -> pa.Array:
    """A column of which these parts are known, and the rest is null."""
    if not parts:
        return pa.nulls(size, kind)
    rows = np.concatenate([part.rows for part in parts])
    values = list(chain.from_iterable(part.values for part in parts))
    if kind in INTEGERS and {*map(type, values)} == {int}:
        placed = np.zeros(size, _HELD_AS[kind])
        placed[rows] = np.array(values, placed.dtype)
        nulls = size - len(values)
        known = pa.py_buffer(_bits(rows, size)) if nulls else None
        return pa.Array.from_buffers(kind, size, [known, pa.py_buffer(placed)], nulls)
    scattered: list[Any] = [None] * size
    for row, value in zip(rows.tolist(), values, strict=True):
        scattered[row] = value
    return array_of(scattered, kind)


def _bits(rows: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.uint8]:
    """A bitmap of so many rows, in which these are set."""
    known = np.zeros(size, bool)
    known[rows] = True
    return np.packbits(known, bitorder="little")
