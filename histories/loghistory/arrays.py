"""Arrow columns as NumPy arrays without nulls, in as few passes over the data as there can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Values: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]

_BYTE = np.iinfo(np.int8)


def valid(column: pa.Array) -> Mask:
    """Which places of a column are not null."""
    bits = column.buffers()[0]
    if not column.null_count or bits is None:
        return np.full(len(column), not column.null_count)
    end = column.offset + len(column)
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=end, bitorder="little")[column.offset :].view(np.bool_)


def packed(column: pa.Array) -> npt.NDArray[np.uint8]:
    """The same with a bit for each place, the first in the lowest; those behind the last place mean nothing."""
    bits = column.buffers()[0]
    if not column.null_count or bits is None or column.offset % 8:
        return np.packbits(valid(column), bitorder="little")
    begin, end = column.offset // 8, (column.offset + len(column) + 7) // 8
    return np.frombuffer(bits, np.uint8)[begin:end]


def slots(column: pa.Array) -> Values:
    """The places of a column of integers as they are in memory; what stands in those of nulls means nothing."""
    if column.null_count:
        column = pa.Array.from_buffers(column.type, len(column), [None, column.buffers()[1]], 0, column.offset)
    values: Values = column.to_numpy(zero_copy_only=False)
    return values


def filled(column: pa.Array, null: int, dtype: npt.DTypeLike = np.int64) -> Values:
    """A column of integers with this number for null. Not to be written to: it may be the column's own memory."""
    values = slots(column)
    if column.null_count:
        values = _where(valid(column), values, null)
    return np.ascontiguousarray(values, dtype)


def coded(words: pa.DictionaryArray, code: Callable[[str], int], null: int, dtype: npt.DTypeLike) -> Values:
    """A column of words with the numbers that ``code`` gives them, and this number for null."""
    numbers = [null if word is None else code(word) for word in words.dictionary.to_pylist()]
    indices = slots(words.indices)
    found: Values
    if len(numbers) < 256 and all(_BYTE.min <= number <= _BYTE.max for number in (*numbers, null)):
        # Bytes are translated in a third of the time that looking up takes.
        table = np.array(numbers, np.int8).tobytes().ljust(256, b"\0")
        found = np.frombuffer(indices.astype(np.uint8).tobytes().translate(table), np.int8)
    else:
        found = np.array([*numbers, null], dtype).take(indices, mode="clip")
    if words.null_count:
        found = _where(valid(words), found, null)
    return found.astype(dtype, copy=False)


def occurrences(words: pa.DictionaryArray) -> Counter[str]:
    """How often each word of a column occurs that does."""
    known = words.dictionary.to_pylist()
    counts = np.bincount(slots(words.indices.drop_null()), minlength=len(known))
    found: Counter[str] = Counter()
    for code in np.flatnonzero(counts).tolist():
        found[known[code]] += int(counts[code])
    return found


def different(column: pa.Array) -> list[int]:
    """The numbers that occur in a column of integers."""
    numbers = slots(column.drop_null())
    few = len(numbers) and numbers.min() >= 0 and numbers.max() < len(numbers)
    # Counted in a fifth of the time.
    found = np.flatnonzero(np.bincount(numbers)) if few else np.unique(numbers)
    return [int(each) for each in found]


def _where(mask: Mask, values: Values, null: int) -> Values:
    """The values, and this number where the mask is false."""
    if values.itemsize > 1:
        return np.where(mask, values, values.dtype.type(null))
    # Several times as fast for bytes.
    keep = -mask.view(np.int8)
    chosen: Values = (values & keep) | (np.int8(null) & ~keep)
    return chosen
