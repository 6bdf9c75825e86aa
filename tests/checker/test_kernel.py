"""Loops may be compiled before all that have parts are imported, and are kept in one place whichever that are."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from logwitness.checks import families, kernel

pytestmark = pytest.mark.skipif(not kernel.available(), reason="loops are compiled by numba")


def test_a_part_that_is_marked_after_a_loop_was_compiled_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_parts", [*kernel._parts])
    monkeypatch.setattr(kernel, "_kernels", [*kernel._kernels])
    monkeypatch.setattr(kernel, "_cache_directory", lambda: None)

    @kernel.part
    def twice(number: int) -> int:
        return 2 * number

    @kernel.kernel
    def first(number: int) -> int:
        return twice(number)

    assert first.compiled(3) == 6

    @kernel.part
    def thrice(number: int) -> int:
        return 3 * number

    @kernel.kernel
    def second(number: int) -> int:
        return twice(number) + thrice(number)

    assert second.compiled(3) == 15


def test_a_loop_that_is_called_often_tells_arrays_of_other_types_from_those_that_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel, "_kernels", [*kernel._kernels])
    monkeypatch.setattr(kernel, "_cache_directory", lambda: None)

    @kernel.kernel
    def cell(columns: tuple[np.ndarray, ...], place: int) -> int:
        return int(columns[0][place])

    loop, numbers = cell.often(True), np.array([1, 2, 3, 4])
    whole, every_other, small = (numbers,), (numbers[::2],), (numbers.astype(np.int8),)
    for columns in (whole, whole, every_other, every_other, whole, small, small, whole):
        assert [loop(columns, place) for place in range(2)] == columns[0][:2].tolist()
    assert cell.often(False) is cell.plain


def test_machine_code_is_kept_by_the_sources_of_all_families() -> None:
    families()
    asked = "from logwitness.checks import kernel; print(kernel._cache_directory())"
    answer = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == str(kernel._cache_directory())
