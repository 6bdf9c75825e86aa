"""Which shards are far slower than their peers, by the time that each takes for a window (read-path.md#slow-shards)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import sqrt

from quorumlog.durations import SECOND

_BUCKETS = 10
_BUCKET = 180 * SECOND
_LARGEST_MARGIN = 1 << 20


class _Average:
    """A moving average over so many buckets of time."""

    def __init__(self) -> None:
        self._buckets: dict[int, tuple[int, int]] = {}  # number of the bucket -> (sum, how many)

    def add(self, now: int, value: int) -> None:
        number = now // _BUCKET
        total, count = self._buckets.get(number, (0, 0))
        self._buckets = {each: held for each, held in self._buckets.items() if each > number - _BUCKETS}
        self._buckets[number] = (total + value, count + 1)

    def value(self) -> float | None:
        count = sum(count for _, count in self._buckets.values())
        return sum(total for total, _ in self._buckets.values()) / count if count else None


@dataclass
class _Shard:
    average: _Average = field(default_factory=_Average)
    began: int | None = None  # when the window that it has not completed began
    slow_until: int = 0
    probation: int = 0


class SlowShards:
    """Takes when windows begin and who completes them; says which shards are to be passed over."""

    def __init__(self, margin: float, probation: int, most: int) -> None:
        self._margin, self._least_margin = margin, margin
        self._probation, self._most = probation, most
        self._shards: dict[int, _Shard] = {}
        self.slow: frozenset[int] = frozenset()

    def window_begins(self, now: int, shards: Iterable[int]) -> None:
        """A window begins for these shards; who has not completed the last one is still at it."""
        for shard in shards:
            each = self._shards.setdefault(shard, _Shard())
            if each.began is None:
                each.began = now

    def completed(self, now: int, shard: int) -> None:
        """A shard has sent all that it has of its window."""
        each = self._shards.get(shard)
        if each is not None and each.began is not None:
            each.average.add(now, now - each.began)
            each.began = None

    def forget(self, shards: Iterable[int]) -> None:
        """These are asked anew; what they had begun does not count."""
        for shard in shards:
            if shard in self._shards:
                self._shards[shard].began = None

    def judge(self, now: int, most: int, fuzz: float) -> bool:
        """See who is slow now, at most ``most`` at once; tell whether that has changed. ``fuzz``: 0 to 1, by chance."""
        before = self.slow
        kept = {shard for shard in self.slow if now < self._shards[shard].slow_until}
        times = self._times(now)
        pending = {shard for shard, each in self._shards.items() if each.began is not None}
        if 0 < len(pending) <= most:
            ranked = sorted(pending | kept, key=lambda shard: -times.get(shard, 0.0))
            for count in range(min(len(pending), most), 0, -1):
                top = ranked[:count]
                if self._stands_out(top, times):
                    self._condemn(now, [shard for shard in top if shard not in kept], fuzz)
                    kept = set(top)
                    break
        self.slow = frozenset(sorted(kept)[:most])
        return self.slow != before

    def _times(self, now: int) -> Mapping[int, float]:
        """The time of each shard for a window; of one that is pending, what has passed if that is more."""
        found: dict[int, float] = {}
        for shard, each in self._shards.items():
            average = each.average.value()
            elapsed = float(now - each.began) if each.began is not None else None
            known = [value for value in (average, elapsed) if value is not None]
            if known:
                found[shard] = max(known)
        return found

    def _stands_out(self, top: list[int], times: Mapping[int, float]) -> bool:
        others = [time for shard, time in times.items() if shard not in top]
        if len(others) < 2 or not all(shard in times for shard in top):
            return False
        mean = sum(others) / len(others)
        spread = sqrt(sum((time - mean) ** 2 for time in others) / len(others))
        return min(times[shard] for shard in top) >= mean * (1 + self._margin) + 5 * spread

    def _condemn(self, now: int, shards: list[int], fuzz: float) -> None:
        for shard in shards:
            each = self._shards[shard]
            each.probation = min(2 * each.probation or self._probation, self._most)
            each.slow_until = now + int(each.probation * (0.9 + 0.2 * fuzz))
            self._margin = min(2 * self._margin, _LARGEST_MARGIN)

    def windows_pass(self) -> None:
        """A window went by: what was doubled decays."""
        self._margin = max(self._least_margin, self._margin * 0.95)
        for shard, each in self._shards.items():
            if shard not in self.slow:
                each.probation = int(each.probation * 0.95)
