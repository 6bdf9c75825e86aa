"""Events while they are imported, until they are columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from ..schema import COLUMNS, SCHEMA

_NAMES = ("kind", "time", "process", "op", "f", "log", "offset", "value", "text", "txn", "acks", "count", "reason")
"""The columns of an imported event, in the order of the parameters of `Rows.add`."""


class Rows:
    """Events, added one by one or many of an observation at once, in order; `batch` gives them as columns.

    Whoever adds has seen to it that the values fit the columns: integers have 64 bits, an acks level is one.
    """

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        """Those since the last batch; to add one costs a tuple, whatever it has."""
        self._seq = 0

    def add(
        self,
        kind: str,
        time: int,
        process: int | None,
        op: int | None,
        f: str | None,
        log: str | None = None,
        offset: int | None = None,
        value: int | None = None,
        text: str | None = None,
        txn: int | None = None,
        acks: int | None = None,
        count: int | None = None,
        reason: str | None = None,
    ) -> None:
        """Add one event, with a parameter for each column that importers fill; ``time`` in nanoseconds."""
        self.events.append((kind, time, process, op, f, log, offset, value, text, txn, acks, count, reason))

    def observe(
        self,
        time: int,
        process: int,
        op: int,
        txn: int | None,
        log: str | None,
        offsets: Sequence[int],
        values: Sequence[int],
    ) -> None:
        """Add what an operation was given of one log: an event for every offset."""
        before = map(repeat, ("observe", time, process, op, None, log))
        self.events += zip(*before, offsets, values, *map(repeat, (None, txn, None, None, None)), strict=False)

    def batch(self) -> pa.RecordBatch:
        """The events since the last batch as a record batch of the schema; there must be some."""
        size = len(self.events)
        columns = zip(_NAMES, zip(*self.events, strict=True), strict=True)
        batch = batch_of(self._seq, size, {name: each for name, each in columns if each.count(None) < size})
        self._seq += size
        self.events.clear()
        return batch


def batch_of(first: int, size: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Columns as a record batch of the schema whose events are numbered from ``first`` on; what is missing is null."""
    arrays: list[pa.Array] = [pa.array(np.arange(first, first + size))]
    for field in COLUMNS[1:]:
        column = columns.get(field.name)
        if column is None or not len(column):
            arrays.append(pa.nulls(size, field.type))
        elif isinstance(column, pa.Array):
            arrays.append(column)
        else:
            arrays.append(pa.array(column, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
