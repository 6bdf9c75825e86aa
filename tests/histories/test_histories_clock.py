"""Hybrid logical clocks: stamps respect causality and stay close to the wall clock (Kulkarni et al. 2014)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loghistory import HybridClock, HybridTime

SECOND = 1_000_000_000


class Wall:
    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def test_a_stamp_is_the_wall_clock_while_it_moves_and_counts_while_it_stands() -> None:
    wall = Wall(100)
    clock = HybridClock(wall)
    assert [clock.tick() for _ in range(3)] == [(100, 0), (100, 1), (100, 2)]
    wall.now = 90
    assert clock.tick() == (100, 3)
    wall.now = 101
    assert clock.tick() == (101, 0)
    assert clock.now == (101, 0)
    began = clock.wall()
    wall.now = 500
    assert [clock.tick(began) for _ in range(2)] == [(101, 1), (101, 2)]
    assert clock.tick() == (500, 0)
    assert clock.tick(began) == (500, 1)


@pytest.mark.parametrize(
    ("local", "wall", "remote", "merged"),
    [
        ((50, 3), 100, (70, 9), (100, 0)),
        ((50, 3), 40, (70, 9), (70, 10)),
        ((70, 3), 40, (50, 9), (70, 4)),
        ((70, 3), 40, (70, 9), (70, 10)),
        ((70, 9), 70, (70, 3), (70, 10)),
    ],
)
def test_merging_is_later_than_both(
    local: tuple[int, int], wall: int, remote: tuple[int, int], merged: tuple[int, int]
) -> None:
    time = Wall(local[0])
    clock = HybridClock(time)
    for _ in range(local[1] + 1):
        clock.tick()
    assert clock.now == local
    time.now = wall
    assert clock.merge(remote) == merged


@pytest.mark.parametrize(
    ("stamp", "problem"),
    [
        ((61 * SECOND, 0), r"the remote clock is 61.0 s ahead; at most 60.0 s are allowed"),
        ((-1, 0), "is not a time stamp"),
        ((0, -1), "is not a time stamp"),
        ((0, 1 << 31), "is not a time stamp"),
    ],
)
def test_a_remote_clock_that_is_broken_changes_nothing(stamp: tuple[int, int], problem: str) -> None:
    clock = HybridClock(Wall(0))
    with pytest.raises(ValueError, match=problem):
        clock.merge(stamp)
    assert clock.tick() == (0, 1)


def test_the_counter_does_not_overflow() -> None:
    clock = HybridClock(Wall(0))
    assert clock.merge((7, (1 << 31) - 2)) == (7, (1 << 31) - 1)
    assert clock.tick() == (8, 0)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(-3, 5)), max_size=60))
def test_causality_and_closeness(steps: list[tuple[int, int, int]]) -> None:
    """Processes with skewed walls that go back and forth: a stamp is after its causes, not ahead of all walls."""
    walls = [Wall(100 + 10 * i) for i in range(3)]
    clocks = [HybridClock(wall) for wall in walls]
    last: list[HybridTime] = [HybridTime(-1, 0)] * 3
    latest_wall = 0
    for sender, receiver, advance in steps:
        walls[sender].now = max(0, walls[sender].now + advance)
        latest_wall = max(latest_wall, walls[sender].now, walls[receiver].now)
        sent = clocks[sender].tick()
        assert sent > last[sender]
        last[sender] = sent
        received = clocks[receiver].merge(sent)
        assert received > max(sent, last[receiver])
        last[receiver] = received
        assert received.time <= latest_wall
