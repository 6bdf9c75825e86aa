"""Columns in whose memory something stands where they hold nothing: it means nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def integers(values: Sequence[int | None], kind: pa.DataType, draw: random.Random) -> pa.Array:
    """A column of this type."""
    bits = kind.bit_width - 1
    junk = (-1 << bits, -7, 99, (1 << bits) - 1)
    slots = np.array([draw.choice(junk) if value is None else value for value in values], kind.to_pandas_dtype())
    given = np.packbits(np.array([value is not None for value in values], bool), bitorder="little")
    return pa.Array.from_buffers(kind, len(values), [pa.py_buffer(given), pa.py_buffer(slots)])


def words(values: Sequence[str | None], draw: random.Random) -> pa.DictionaryArray:
    """A column of words; the first of its dictionary does not occur."""
    known = ["of nobody", *dict.fromkeys(value for value in values if value is not None)]
    indices = [None if value is None else known.index(value) for value in values]
    return pa.DictionaryArray.from_arrays(integers(indices, pa.int32(), draw), pa.array(known), safe=False)
