"""The event loop, hosts and durations of the simulator."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorumlog.durations import SECOND, format_duration, parse_duration
from quorumlog.simulation.host import Host
from quorumlog.simulation.loop import LivelockError, Simulation


def test_callbacks_run_by_time_then_in_the_order_of_scheduling() -> None:
    simulation = Simulation(1)
    seen: list[tuple[int, str]] = []
    for delay, name in [(5, "c"), (3, "a"), (5, "d"), (3, "b")]:
        simulation.after(delay, lambda name=name: seen.append((simulation.now, name)))  # type: ignore[misc]
    simulation.run(4)
    assert seen == [(3, "a"), (3, "b")]
    assert simulation.now == 4
    simulation.run(10)
    assert seen[2:] == [(5, "c"), (5, "d")]


def test_a_cancelled_callback_does_nothing_and_is_not_counted() -> None:
    simulation = Simulation(1)
    seen: list[int] = []
    simulation.cancel(simulation.after(1, seen.append, 1))
    simulation.after(2, seen.append, 2)
    simulation.run(3)
    assert seen == [2]
    assert simulation.dispatched == 1


@pytest.mark.parametrize("delay", [0, 499_000])
def test_a_run_that_does_not_get_on_is_stopped_and_says_its_seed(delay: int) -> None:
    simulation = Simulation(77, crowd=100)

    def again() -> None:
        simulation.after(delay, again)

    again()
    with pytest.raises(LivelockError, match=rf"seed 77: 100 callbacks in {100 * delay} ns .*again"):
        simulation.run(SECOND)
    assert simulation.now == 100 * delay
    assert [args for _, args in simulation.watch(3)] == [()] * 3
    assert simulation.now == 103 * delay


def test_a_run_that_gets_on_goes_on_for_as_long_as_it_likes() -> None:
    simulation = Simulation(77, crowd=100)

    def again() -> None:
        simulation.after(501_000, again)

    again()
    simulation.run(SECOND)
    assert simulation.dispatched == SECOND // 501_000
    simulation.run(2 * SECOND)
    assert simulation.now == 2 * SECOND


def test_random_streams_are_independent_of_each_other() -> None:
    one, other = Simulation(5), Simulation(5)
    for _ in range(100):
        one.random("network").random()
    assert one.random("disk").random() == other.random("disk").random()
    assert Simulation(5).random("disk").random() != Simulation(6).random("disk").random()


def test_random_streams_do_not_depend_on_the_process() -> None:
    program = "from quorumlog.simulation.loop import Simulation; print(Simulation(9).random('a').getrandbits(64))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for hash_seed in ("0", "1", "12345")
    }
    assert len(printed) == 1


def test_a_paused_host_keeps_what_falls_due_and_a_stopped_one_loses_it() -> None:
    simulation = Simulation(1)
    host = Host(simulation, 0)
    host.start()
    seen: list[str] = []
    host.after(10, seen.append, "timer")
    host.after(30, seen.append, "later timer")
    host.after(60, seen.append, "last timer")
    simulation.at(5, host.pause)
    simulation.at(8, lambda: host.deliver(seen.append, "message"))
    simulation.at(20, host.resume)
    simulation.run(15)
    assert seen == []
    simulation.run(20)
    assert seen == ["message", "timer"]
    host.stop()
    simulation.run(40)
    assert seen == ["message", "timer"], "nothing is due while it is down"
    host.start()
    simulation.run(100)
    assert seen == ["message", "timer"]
    assert host.incarnation == 1


def test_what_a_paused_host_missed_is_not_done_by_the_next_process() -> None:
    host = Host(Simulation(1), 0)
    host.start()
    host.pause()
    seen: list[str] = []

    def restart() -> None:
        host.stop()
        host.start()

    host.deliver(restart)
    host.deliver(seen.append, "message")
    host.resume()
    assert (seen, host.incarnation) == ([], 1)


def test_who_waits_for_a_paused_host_is_told_when_it_is_stopped() -> None:
    host = Host(Simulation(1), 0)
    host.start()
    seen: list[str] = []
    for call in ("taken", "lost"):
        host.pause()
        host.deliver(seen.append, call, lost=lambda: seen.append("told"))
        if call == "taken":
            host.resume()
    host.stop()
    assert seen == ["taken", "told"]
    host.start()
    host.stop()
    assert seen == ["taken", "told"]


def test_a_fast_clock_fires_early() -> None:
    simulation = Simulation(1)
    host = Host(simulation, 0)
    host.start()
    seen: list[int] = []
    simulation.run(10)
    host.set_rate(2.0)
    host.after(100, lambda: seen.append(simulation.now))
    simulation.run(70)
    assert seen == [60]
    assert host.clock() == 10 + 2 * 60


@given(st.integers(min_value=0, max_value=10**15))
def test_durations_are_read_back_exactly(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


@pytest.mark.parametrize("text", ["", "12", "ms", "-1s", "1e3s", "1.5", "0.1ns", 12, None, "1h", "9" * 400 + "s"])
def test_bad_durations_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"duration|nanosecond"):
        parse_duration(text)


def test_who_waits_for_what_is_left_gets_ahead_also_by_a_fast_clock() -> None:
    """Else a timer that comes a nanosecond early, and is set again for that one, never ends (seed 283 of a hunt)."""
    simulation = Simulation(1, crowd=100)
    host = Host(simulation, 0)
    host.start()
    host.set_rate(1.7)

    def wait() -> None:
        left = 1000 - host.clock()
        if left > 0:
            host.after(left, wait)

    wait()
    simulation.run(1000)
    assert host.clock() >= 1000
