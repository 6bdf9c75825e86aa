"""Events as columns while they are imported: a list for each column that an imported event can have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from ..schema import COLUMNS, SCHEMA


class Rows:
    """Events, added one by one or many of an observation at once, in order; `batch` gives them as columns.

    Whoever adds has seen to it that the values fit the columns: integers have 64 bits, an acks level is one.
    """

    def __init__(self) -> None:
        self.size = 0
        """Events since the last batch."""
        self._seq = 0
        self._time: list[int] = []
        self._kind: list[str] = []
        # A list may end before the last event: nothing more is in that column then.
        self._log: list[str | None] = []
        self._process: list[int | None] = []
        self._op: list[int | None] = []
        self._txn: list[int | None] = []
        self._f: list[str | None] = []
        self._acks: list[int | None] = []
        self._offset: list[int | None] = []
        self._value: list[int | None] = []
        self._text: list[str | None] = []
        self._count: list[int | None] = []
        self._reason: list[str | None] = []
        self._columns: dict[str, list[Any]] = {
            c.name: getattr(self, f"_{c.name}") for c in COLUMNS[1:] if hasattr(self, f"_{c.name}")
        }

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
        *,
        txn: int | None = None,
        acks: int | None = None,
        count: int | None = None,
        reason: str | None = None,
    ) -> None:
        """Add one event, with a parameter for each column that importers fill; ``time`` in nanoseconds.

        Written out, because it is called for every event: what is None costs nothing.
        """
        at = self.size
        self._time.append(time)
        self._kind.append(kind)
        self._process.append(process)
        self._op.append(op)
        self._f.append(f)
        if log is not None:
            _fill(self._log, at)
            self._log.append(log)
        if offset is not None:
            _fill(self._offset, at)
            self._offset.append(offset)
        if value is not None:
            _fill(self._value, at)
            self._value.append(value)
        if text is not None:
            _fill(self._text, at)
            self._text.append(text)
        if txn is not None:
            _fill(self._txn, at)
            self._txn.append(txn)
        if acks is not None:
            _fill(self._acks, at)
            self._acks.append(acks)
        if count is not None:
            _fill(self._count, at)
            self._count.append(count)
        if reason is not None:
            _fill(self._reason, at)
            self._reason.append(reason)
        self.size = at + 1

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
        at, count = self.size, len(offsets)
        self._time.extend(repeat(time, count))
        self._kind.extend(repeat("observe", count))
        self._process.extend(repeat(process, count))
        self._op.extend(repeat(op, count))
        self._f.extend(repeat(None, count))
        _fill(self._offset, at)
        self._offset.extend(offsets)
        _fill(self._value, at)
        self._value.extend(values)
        if txn is not None:
            _fill(self._txn, at)
            self._txn.extend(repeat(txn, count))
        if log is not None:
            _fill(self._log, at)
            self._log.extend(repeat(log, count))
        self.size = at + count

    def cut(self, size: int) -> None:
        """Forget all events behind the first ``size`` since the last batch."""
        for column in self._columns.values():
            del column[size:]
        self.size = size

    def pass_over(self, events: int) -> int:
        """Leave out the ``seq`` of some events that are made elsewhere; the first of them. None may be left here."""
        assert not self.size
        self._seq += events
        return self._seq - events

    def batch(self) -> pa.RecordBatch:
        """The events since the last batch as a record batch of the schema; there must be some."""
        size = self.size
        for column in self._columns.values():
            if column:
                _fill(column, size)
        batch = batch_of(self._seq, size, self._columns)
        self._seq += size
        self.cut(0)
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


def _fill(column: list[Any], size: int) -> None:
    """Add nulls until the column has ``size`` values."""
    if len(column) < size:
        column.extend(repeat(None, size - len(column)))
