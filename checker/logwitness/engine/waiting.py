"""Events of many logs that wait to be judged, held in as little memory as what they say needs.

A column of 64 bits takes 32 where its numbers allow it, and one that says the same of all events takes none. It is wide
again when it is read, some events at a time.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ..checks.codes import NULL
from ..checks.columns import Array, Columns, Ints, read_only, with_blanks

_NARROW = np.dtype(np.int32)
_LEAST, _MOST = np.iinfo(_NARROW).min, np.iinfo(_NARROW).max
"""The least stands for `NULL`."""


class Waiting:
    """Events, each with the number of its log, in the order in which they came or in that of `keep`."""

    def __init__(self, names: Collection[str]) -> None:
        """``names`` are the columns that hold something."""
        self.names = tuple(name for name in Columns._fields if name in names)
        self._chunks: dict[str, list[Array]] = {name: [] for name in self.names}
        self._widths: dict[str, np.dtype[np.generic]] = {}
        self._whose: list[Ints] = []
        self._held = 0

    def __len__(self) -> int:
        return self._held

    def add(self, columns: Columns, numbers: Ints) -> None:
        """Take more events, of the logs with these numbers."""
        for name, chunks in self._chunks.items():
            column = getattr(columns, name)
            self._widths[name] = column.dtype
            chunks.append(_narrowed(column))
        self._whose.append(numbers.astype(_NARROW))
        self._held += len(numbers)

    def numbers(self) -> Ints:
        """For each waiting event, in order, the number of its log; an array of the narrow integer type."""
        if len(self._whose) > 1:
            self._whose = [np.concatenate(self._whose)]
        return self._whose[0]

    def keep(self, kept: Array) -> None:
        """Keep these events, by truth or by position, in this order."""
        # One column after the other, so that few are there twice.
        self._whose = [self.numbers()[kept]]
        for name, chunks in self._chunks.items():
            column = _joined(chunks, self._widths[name])
            chunks.clear()
            chunks.append(_narrowed(column[kept]))
            del column
        self._held = len(self._whose[0])

    def between(self, start: int, end: int) -> Columns:
        """The events from one place up to another, which is left out; only after `keep`."""
        return with_blanks(
            {name: read_only(_widened(chunk[start:end], self._widths[name])) for name, (chunk,) in self._chunks.items()}
        )


def _same(column: Array) -> bool:
    return not any(column.strides)


def _narrowed(column: Array) -> Array:
    """The same numbers in less memory."""
    if not len(column):
        return column
    if (column == column[0]).all():
        return np.broadcast_to(column[0], column.shape)
    if column.itemsize < 8:
        return column.copy() if column.base is not None else column
    null = column == NULL
    if not (null | ((column > _LEAST) & (column <= _MOST))).all():
        return column.copy() if column.base is not None else column
    narrow = column.astype(_NARROW)
    narrow[null] = _LEAST
    return narrow


def _widened(column: Array, width: np.dtype[np.generic]) -> Array:
    if column.dtype == width:
        return np.ascontiguousarray(column)
    wide = column.astype(width)
    wide[column == _LEAST] = NULL
    return wide


def _joined(chunks: list[Array], width: np.dtype[np.generic]) -> Array:
    """Pieces behind one another; narrow if all are."""
    filled = [chunk for chunk in chunks if len(chunk)]
    if not filled:
        return chunks[0]
    if len(filled) == 1:
        return filled[0]
    if all(_same(chunk) and chunk[0] == filled[0][0] for chunk in filled):
        return np.broadcast_to(filled[0][0], (sum(map(len, filled)),))
    narrow = [chunk if chunk.dtype == _NARROW or not _same(chunk) else _narrow_constant(chunk) for chunk in filled]
    if len({chunk.dtype for chunk in narrow}) > 1:
        narrow = [_widened(chunk, width) for chunk in narrow]
    return np.concatenate(narrow)


def _narrow_constant(chunk: Array) -> Array:
    """What says the same of all events, as narrow as its neighbours may be."""
    value = int(chunk[0])
    if chunk.itemsize == 8 and (value == NULL or _LEAST < value <= _MOST):
        return np.broadcast_to(_NARROW.type(_LEAST if value == NULL else value), chunk.shape)
    return chunk
