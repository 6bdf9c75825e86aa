"""Which shards are far slower than their peers, by the time that each takes for a window (read-path.md#slow-shards)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from reading import Reading

from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.events import Received
from quorumlog.read_path import messages as m
from quorumlog.read_path import rules as r
from quorumlog.read_path.events import Connected, Disconnected, StatusesLearned
from quorumlog.read_path.slow import SlowShards

MS = MILLISECOND


def detector(margin: float = 1.0, probation: int = 60 * SECOND, most: int = 200 * SECOND) -> SlowShards:
    return SlowShards(margin, probation, most)


def windows(slow: SlowShards, now: int, times: Mapping[int, int | None]) -> int:
    """All begin a window now, and complete it after so many milliseconds, None: not yet; the time after the last."""
    slow.window_begins(now, times)
    for shard, took in times.items():
        if took is not None:
            slow.completed(now + took * MS, shard)
    return now + max(took or 0 for took in times.values()) * MS


def test_who_is_not_done_is_slow_once_it_stands_out_from_all_others() -> None:
    """By their mean, the margin, and five times how much they differ."""
    for others, due in ((10, 10), 20), ((10, 30), 20 * 2 + 5 * 10):
        slow = detector()
        windows(slow, 0, {0: others[0], 1: others[1], 2: None})
        assert not slow.judge((due - 1) * MS, 1, 0.5)
        assert slow.judge(due * MS, 1, 0.5)
        assert slow.slow == {2}
        assert not slow.judge(due * MS, 1, 0.5)


def test_as_many_as_may_be_are_slow_at_once_and_each_of_them_stands_out() -> None:
    slow = detector()
    windows(slow, 0, {0: 10, 1: 10, 2: None, 3: None})
    assert not slow.judge(100 * MS, 1, 0.5)  # more are not done than may be slow
    assert slow.judge(100 * MS, 2, 0.5)
    assert slow.slow == {2, 3}
    one = detector()
    windows(one, 0, {0: 10, 1: 10, 2: None})
    one.window_begins(90 * MS, [3])
    assert one.judge(100 * MS, 2, 0.5)  # 3 has had 10 ms so far
    assert one.slow == {2}
    assert one.judge(101 * MS, 0, 0.5)  # others are down now
    assert one.slow == set()


def test_nobody_stands_out_from_a_single_other_one() -> None:
    slow = detector()
    windows(slow, 0, {0: 10, 1: None})
    assert not slow.judge(10_000 * MS, 1, 0.5)


def test_the_time_of_a_window_counts_from_when_it_began_for_the_shard() -> None:
    """Not from the next one, which begins for all; what was completed is over; what is asked anew begins anew."""
    slow = detector()
    windows(slow, 0, {0: 10, 1: 10, 2: None})
    windows(slow, 12 * MS, {0: 10, 1: 10, 2: None})
    assert slow.judge(22 * MS, 1, 0.5)
    done = detector()
    windows(done, 0, {0: 10, 1: 10, 2: 10})
    assert not done.judge(100 * MS, 1, 0.5)
    fast = detector()
    windows(fast, 0, {0: 10, 1: 10, 2: 10})
    windows(fast, 20 * MS, {0: 10, 1: 10, 2: None})
    assert not fast.judge(39 * MS, 1, 0.5)
    assert fast.judge(40 * MS, 1, 0.5)  # what has passed counts, however fast it was before
    anew = detector()
    windows(anew, 0, {0: 10, 1: 10, 2: None})
    anew.forget([2])
    assert not anew.judge(100 * MS, 1, 0.5)
    anew.window_begins(100 * MS, [2])
    assert not anew.judge(110 * MS, 1, 0.5)


def test_what_was_long_ago_is_forgotten() -> None:
    """A moving average over half an hour."""
    slow = detector()
    windows(slow, 0, {0: 1000, 1: 1000})
    half_an_hour = 1800 * SECOND
    for now, due in ((half_an_hour - SECOND, False), (half_an_hour, True)):
        windows(slow, now, {0: 10, 1: 10})
        slow.forget([2])
        slow.window_begins(now, [2])
        assert slow.judge(now + 500 * MS, 1, 0.5) == due


def test_who_is_slow_again_and_again_is_passed_over_longer_and_needs_to_stand_out_more() -> None:
    slow, now, probations = detector(), 0, []
    for round_ in range(4):
        now = windows(slow, now, {0: 10, 1: 10, 2: None})
        margin = 2**round_  # mean times 1 + margin
        begun = now - 10 * MS
        assert not slow.judge(begun + (10 * (1 + margin) - 1) * MS, 1, 0.5)
        now = begun + 10 * (1 + margin) * MS
        assert slow.judge(now, 1, 0.5)
        slow.forget([2])
        until = next(at for at in range(60, 260, 20) if slow.judge(now + at * SECOND, 1, 0.5))
        probations.append(until)
        now += until * SECOND
    assert probations == [60, 120, 200, 200]


def test_by_chance_probation_is_a_tenth_shorter_or_longer() -> None:
    for fuzz, seconds in ((0.0, 54), (1.0, 66)):
        slow = detector()
        windows(slow, 0, {0: 10, 1: 10, 2: None})
        assert slow.judge(SECOND, 1, fuzz)
        slow.forget([2])
        assert not slow.judge((1 + seconds) * SECOND - 1, 1, fuzz)
        assert slow.judge((1 + seconds) * SECOND, 1, fuzz)


def test_what_was_doubled_decays_but_not_the_probation_of_who_is_slow() -> None:
    def slow_once(passing: int, during: int) -> int:
        """Who was slow once is so again, at once where the margin is as in the beginning: seconds of its probation."""
        slow = detector()
        windows(slow, 0, {0: 10, 1: 10, 2: None})
        assert slow.judge(SECOND, 1, 0.5)
        for _ in range(during):
            slow.windows_pass()
        slow.forget([2])
        assert slow.judge(100 * SECOND, 1, 0.5)
        for _ in range(passing):
            slow.windows_pass()
        slow.window_begins(100 * SECOND, [2])
        assert slow.judge(101 * SECOND, 1, 0.5)
        slow.forget([2])
        return next(at for at in range(1, 250) if slow.judge((101 + at) * SECOND, 1, 0.5))

    assert slow_once(0, 0) == slow_once(0, 14) == 120
    assert slow_once(14, 0) == 59  # 0.95 to the power of 14 of a minute, doubled


@pytest.mark.parametrize("way", ["all are there", "one is down", "one is empty", "all are asked anew"])
def test_a_reader_passes_over_who_is_slow_unless_too_many_are_down_or_it_was_just_asked(way: str) -> None:
    settings = {"single_copy": True, "slow_shards": True, "slow_margin": 1.0, "window": 4}
    reading = Reading({"shards": 5, "factor": 3 if way == "all are asked anew" else 2, "settings": settings})
    if way in ("one is down", "one is empty"):
        away = r.AUTHORITATIVE_EMPTY if way == "one is empty" else r.UNAVAILABLE
        reading.give(StatusesLearned(1, {**dict.fromkeys(range(4), 0), 4: away}, 0))
        leaves(reading)
    reading.hear("a1,2,3")  # a window begins
    for shard in "abde" if len(reading.core.down) == 0 else "abd":
        reading.hear(f"{shard}:g4-9")
    if way == "all are asked anew":
        reading.give(StatusesLearned(1, dict.fromkeys(range(5), 0), 1))
        leaves(reading)
    reading.now += SECOND
    reading.hear("a:g4")
    if way in ("one is down", "all are asked anew"):
        assert "rewind" not in reading.timers
        return
    reading.give(Disconnected(1))
    reading.give(Connected(1))
    assert reading.start.delivery is not None
    assert 2 not in reading.start.delivery.down  # as all others of this version were told
    reading.did("rewind")
    assert reading.core.slow == {2}
    assert 2 in reading.start.delivery.down


def leaves(reading: Reading) -> None:
    """The last shard is gone, and the others are asked anew."""
    reading.give(Disconnected(4))
    reading.did("rewind")
    for shard in range(4):
        reading.give(Received(shard, m.Started(1, 0, reading.core.filter_version, m.Answer.OK)))
