"""The memory budget by itself: first in first out, any size passes, nothing comes back twice."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from quorumlog.events import AppendRequested
from quorumlog.raft.budget import Budget
from quorumlog.storage.batch import BatchKind, RecordBatch

HEADER = RecordBatch(0, 0, BatchKind.DATA, 1, -1, bytes(8)).size_bytes - 8


def item(request: int, size: int) -> AppendRequested:
    """An append of so many bytes, its header included."""
    return AppendRequested(request, RecordBatch(0, 0, BatchKind.DATA, 1, 0, bytes(size - HEADER)))


def admitted(budget: Budget) -> list[int]:
    return [each.request for each in budget.admitted()]


def test_a_large_append_that_waits_keeps_back_small_ones() -> None:
    budget = Budget(1000)
    for request, size in enumerate((600, 700, 300), 1):
        budget.wait(item(request, size), 0)
    assert admitted(budget) == [1]
    assert budget.reserved == 600
    budget.release([1])
    assert admitted(budget) == [2, 3]
    assert budget.reserved == 1000


def test_an_append_larger_than_the_limit_passes_alone() -> None:
    budget = Budget(1000)
    budget.wait(item(1, 5000), 0)
    budget.wait(item(2, 400), 0)
    assert admitted(budget) == [1]
    assert budget.reserved == 1000
    budget.release([1])
    assert admitted(budget) == [2]


def test_who_waits_too_long_goes_and_lets_the_next_pass() -> None:
    budget = Budget(1000)
    for request, size, until in ((1, 800, 5), (2, 900, 6), (3, 200, 7)):
        budget.wait(item(request, size), until)
    assert admitted(budget) == [1]
    assert budget.deadline == 6
    assert budget.expired(5) == []
    assert [each.request for each in budget.expired(6)] == [2]
    assert admitted(budget) == [3]
    assert budget.deadline is None


@given(
    st.integers(HEADER + 8, 400),
    st.lists(st.integers(HEADER + 8, 600) | st.sampled_from(["release", "clear", "twice"]), max_size=60),
)
def test_reserved_is_what_is_held_and_never_above_the_limit(limit: int, steps: list[int | str]) -> None:
    budget = Budget(limit)
    held: dict[int, int] = {}
    waiting: deque[tuple[int, int]] = deque()
    for request, step in enumerate(steps, 1):
        if isinstance(step, int):
            budget.wait(item(request, step), 0)
            waiting.append((request, min(step, limit)))
        elif step == "clear":
            assert [each.request for each in budget.clear()] == [request for request, _ in waiting]
            held.clear()
            waiting.clear()
        elif held:
            oldest = next(iter(held))
            budget.release([oldest])
            del held[oldest]
            if step == "twice":
                budget.release([oldest])
        for request_in in admitted(budget):
            expected, size = waiting.popleft()
            assert request_in == expected
            held[expected] = size
        assert budget.reserved == sum(held.values()) <= limit
        assert not waiting or budget.reserved + waiting[0][1] > limit
