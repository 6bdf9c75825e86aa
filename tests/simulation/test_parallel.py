"""Helper processes give up what takes too much processor time, not what a busy machine delays."""

from __future__ import annotations

import signal
import time

import pytest

from quorumlog.hunting.parallel import in_order


def spin(seconds: float) -> float:
    """Take so much processor time, and hide from whatever interrupts it."""
    try:
        while time.process_time() < seconds:
            pass
    except Exception:
        return -1
    return seconds


def test_a_task_that_waits_is_no_endless_one() -> None:
    assert list(in_order(time.sleep, [1.0], 1, seconds=0.5)) == [None]


def test_a_task_that_takes_too_much_processor_time_is_given_up() -> None:
    with pytest.raises(TimeoutError):
        list(in_order(spin, [1e9], 1, seconds=0.5))


def test_a_task_that_waits_for_ever_is_given_up() -> None:
    with pytest.raises(TimeoutError):
        list(in_order(time.sleep, [1e9], 1, seconds=0.1))


@pytest.mark.slow
def test_the_time_of_one_task_is_not_held_against_the_next() -> None:
    assert list(in_order(spin, [1.0, 2.0, 3.0], 1, seconds=1.7)) == [1.0, 2.0, 3.0]


class Late:
    """An answer that is on its way when the time of its task runs out."""

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        signal.raise_signal(signal.SIGPROF)
        return str, ("in time",)


def in_time(_: int) -> Late:
    return Late()


def test_the_time_that_runs_out_behind_a_task_is_nobodys() -> None:
    assert [*in_order(in_time, [1, 2], 1, seconds=60)] == ["in time", "in time"]
