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
        self._pieces: dict[str, list[Array]] = {name: [] for name in self.names}
        self._widths: dict[str, np.dtype[np.generic]] = {}
        self._whose: list[Ints] = []
        self._held = 0

    def __len__(self) -> int:
        return self._held

    def add(self, columns: Columns, numbers: Ints) -> None:
        """Take more events, of the logs with these numbers."""
        for name, pieces in self._pieces.items():
            column = getattr(columns, name)
            self._widths[name] = column.dtype
            pieces.append(_narrowed(column))
        self._whose.append(numbers.astype(_NARROW))
        self._held += len(numbers)

    def numbers(self) -> Ints:
        """The numbers of their logs."""
        if len(self._whose) > 1:
            self._whose = [np.concatenate(self._whose)]
        return self._whose[0]

    def keep(self, kept: Array) -> None:
        """Keep these events, by truth or by position, in this order."""
        # One column after the other, so that few are there twice.
        self._whose = [self.numbers()[kept]]
        for name, pieces in self._pieces.items():
            column = _joined(pieces, self._widths[name])
            pieces.clear()
            pieces.append(_narrowed(column[kept]))
            del column
        self._held = len(self._whose[0])

    def between(self, start: int, end: int) -> Columns:
        """The events from one place up to another, which is left out; only after `keep`."""
        return with_blanks(
            {name: read_only(_widened(piece[start:end], self._widths[name])) for name, (piece,) in self._pieces.items()}
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


def _joined(pieces: list[Array], width: np.dtype[np.generic]) -> Array:
    """Pieces behind one another; narrow if all are."""
    filled = [piece for piece in pieces if len(piece)]
    if not filled:
        return pieces[0]
    if len(filled) == 1:
        return filled[0]
    if all(_same(piece) and piece[0] == filled[0][0] for piece in filled):
        return np.broadcast_to(filled[0][0], (sum(map(len, filled)),))
    narrow = [piece if piece.dtype == _NARROW or not _same(piece) else _narrow_constant(piece) for piece in filled]
    if len({piece.dtype for piece in narrow}) > 1:
        narrow = [_widened(piece, width) for piece in narrow]
    return np.concatenate(narrow)


def _narrow_constant(piece: Array) -> Array:
    """What says the same of all events, as narrow as its neighbours may be."""
    value = int(piece[0])
    if piece.itemsize == 8 and (value == NULL or _LEAST < value <= _MOST):
        return np.broadcast_to(_NARROW.type(_LEAST if value == NULL else value), piece.shape)
    return piece
