"""One log split by ranges of offsets, keys that come and go in a table, and pieces that are read ahead."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logwitness import Violation
from logwitness.checks.hashing import Table, empty_table, place_of, remove
from logwitness.checks.linearizable_log import (
    NEVER,
    Appends,
    Bounds,
    Ends,
    Outcome,
    Range,
    Reads,
    judge,
    merge,
    range_of,
)
from logwitness.engine.read_ahead import read_ahead

_NONE = np.zeros(0, dtype=np.int64)
_ENTRY = st.tuples(st.integers(0, 12), st.integers(0, 12), st.booleans())
"""When its append began, how long that took, and whether it was acknowledged."""
_END = st.tuples(st.integers(0, 8), st.integers(0, 12), st.integers(0, 12), st.booleans())


def _ends(rows: list[tuple[int, int, int, bool]], seq: int) -> Ends:
    offset, invoked, took, reaches = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    seqs = seq + np.arange(len(rows))
    return Ends(offset, invoked, invoked + took, reaches.astype(bool), seqs, seqs)


@given(
    st.lists(_ENTRY, min_size=1, max_size=8),
    st.lists(_END, min_size=1, max_size=4),
    st.sets(st.integers(1, 8), max_size=3),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=300)
def test_ranges_put_together_give_the_verdict_of_the_whole(
    entries: list[tuple[int, int, bool]],
    ends: list[tuple[int, int, int, bool]],
    cuts: set[int],
    random_: random.Random,
) -> None:
    offset = np.arange(len(entries))
    invoked, took, acked = (np.array(column, dtype=np.int64) for column in zip(*entries, strict=True))
    completed = np.where(acked != 0, invoked + took, NEVER)
    reads = Reads(offset, offset, offset, np.full(len(offset), 99), 300 + offset)
    outcome = np.where(acked != 0, Outcome.OK, Outcome.UNKNOWN)
    reported = np.where(acked != 0, offset, -1)
    appends = Appends(offset, invoked, completed, outcome, reported, reported, offset, 100 + offset)
    found_ends = _ends(ends, 200)
    whole = judge(appends, reads, found_ends, dense=False)

    borders = [0, *sorted(cuts), 1 << 40]
    parts = []
    for low, high in itertools.pairwise(borders):
        mine = (offset >= low) & (offset < high)
        its = (found_ends.offset >= low) & (found_ends.offset < high)
        earliest = Bounds(offset[mine], invoked[mine], offset[mine])
        latest = Bounds(offset[mine], np.minimum(completed[mine], 99), 100 + offset[mine])
        parts.append(range_of(earliest, latest, Ends(*(column[its] for column in found_ends))))
    merged = reduce(merge, parts)
    assert bool(merged.violated) == bool(whole.violated)
    while len(parts) > 1:
        place = random_.randrange(len(parts) - 1)
        parts[place : place + 2] = [merge(parts[place], parts[place + 1])]
    assert (bool(parts[0].violated), parts[0].high, parts[0].low) == (
        bool(merged.violated),
        merged.high,
        merged.low,
    )


def test_a_pair_across_ranges_is_told() -> None:
    """What is at offset 0 was appended after offset 7 was known to be filled."""
    left = range_of(
        Bounds(np.array([0]), np.array([50]), np.array([5])),
        Bounds(np.array([0]), np.array([60]), np.array([6])),
        Ends(*[_NONE] * 3, _NONE.astype(bool), _NONE, _NONE),
    )
    right = range_of(
        Bounds(np.array([7]), np.array([10]), np.array([1])),
        Bounds(np.array([7]), np.array([20]), np.array([2])),
        Ends(*[_NONE] * 3, _NONE.astype(bool), _NONE, _NONE),
    )
    assert left.violated == right.violated == 0
    found = merge(left, right)
    assert isinstance(found, Range)
    sentence = "It was known that offset 7 was filled, and only then did the append begin whose entry comes before it, "
    assert found.violations == (Violation(f"{sentence}at offset 0.", (2, 5)),)


@pytest.mark.parametrize("spread", [1, 8, 1_000_003])
def test_a_table_from_which_keys_are_removed_is_a_dictionary(spread: int) -> None:
    table: Table = empty_table(64)
    known: dict[int, int] = {}
    rng = random.Random(spread)
    for step in range(5000):
        key = rng.randrange(60) * spread - 20
        place = place_of(table, key)
        assert (int(table.rows[place]) if table.rows[place] >= 0 else None) == known.get(key)
        if key in known:
            remove(table, place)
            del known[key]
        elif len(known) < 42:
            table.keys[place], table.rows[place] = key, step
            known[key] = step
    assert sorted(table.rows[table.rows >= 0].tolist()) == sorted(known.values())


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_read_ahead_comes_in_order_with_its_errors(threads: int) -> None:
    def source() -> Iterator[int]:
        yield from range(5)
        raise ValueError("the sixth piece is broken")

    before = pa.cpu_count()
    pa.set_cpu_count(threads)
    try:
        seen: list[int] = []
        with pytest.raises(ValueError, match="sixth"):
            seen.extend(read_ahead(source()))
    finally:
        pa.set_cpu_count(before)
    assert seen == [0, 1, 2, 3, 4]
