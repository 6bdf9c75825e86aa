"""Columns as NumPy arrays without nulls: the same as Arrow's own, slower ways say, for slices too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from loghistory.arrays import coded, filled, packed, valid

_NUMBERS = st.lists(st.none() | st.integers(-128, 127), max_size=40)
_CUTS = st.tuples(st.integers(0, 12), st.integers(0, 40))


@given(
    numbers=_NUMBERS, cut=_CUTS, null=st.integers(-128, 127), kind=st.sampled_from([pa.int8(), pa.int32(), pa.int64()])
)
def test_numbers(numbers: list[int | None], cut: tuple[int, int], null: int, kind: pa.DataType) -> None:
    column = pa.array(numbers, kind).slice(*cut)
    assert valid(column).tolist() == [number is not None for number in column.to_pylist()]
    bits = np.unpackbits(packed(column), count=len(column), bitorder="little")
    assert bits.view(np.bool_).tolist() == valid(column).tolist()
    expected = pc.fill_null(column, pa.scalar(null, kind)).to_numpy(zero_copy_only=False)
    assert filled(column, null, expected.dtype).tolist() == expected.tolist()
    assert filled(column, null).dtype == np.int64


@given(
    words=st.lists(st.none() | st.integers(0, 400), max_size=40),
    cut=_CUTS,
    most=st.sampled_from([20, 300]),
    far=st.booleans(),
)
def test_words(words: list[int | None], cut: tuple[int, int], most: int, far: bool) -> None:
    """Few words with small numbers, and many or with large ones, which are looked up in another way."""
    dictionary = pa.array([str(number) for number in range(most)])
    indices = pa.array([None if number is None else number % most for number in words], pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, dictionary).slice(*cut)
    scale = 100 if far else 1

    def code(word: str) -> int:
        return int(word) % 100 * scale

    expected = [-1 if word is None else code(word) for word in column.to_pylist()]
    assert coded(column, code, -1, np.int16).tolist() == expected


def test_null_among_the_words() -> None:
    """A dictionary may hold a null itself."""
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array([None, "a"]))
    assert coded(column, len, -7, np.int8).tolist() == [-7, 1, -7, -7]
