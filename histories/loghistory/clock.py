"""Hybrid logical clocks: time stamps of real processes that respect causality and stay close to the wall clock.

A time stamp is a pair (time, logical): nanoseconds of a wall clock that never goes back, and a counter for events
within one nanosecond or while the wall clock lags. Each local event and each message sent takes ``tick()``; a
message carries that stamp, and its receiver takes ``merge(stamp)``, which is later than both. Pairs then compare like
causality wherever there is any. Source: Kulkarni, Demirbas, Madappa, Avva, Leone: Logical Physical Clocks (2014).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

_MAX_LOGICAL = (1 << 31) - 1


class HybridTime(NamedTuple):
    """A time stamp; later ones compare greater. ``time`` in nanoseconds, ``logical`` fits 31 bits."""

    time: int
    logical: int


_stamp: Callable[[tuple[int, int]], HybridTime] = partial(tuple.__new__, HybridTime)
"""The same from a pair, in a third of the time: every recorded event has one."""


class HybridClock:
    """The clock of one process.

    ``wall`` gives nanoseconds since the epoch. ``max_drift`` (nanoseconds) bounds how far a stamp received may
    be ahead of the wall clock: a broken or hostile peer must not drag the clock of everyone along.
    """

    def __init__(self, wall: Callable[[], int] = time.time_ns, max_drift: int = 60_000_000_000) -> None:
        self.wall = wall
        """The wall clock, nanoseconds since the epoch."""
        self._max_drift = max_drift
        self._now = HybridTime(0, 0)

    @property
    def now(self) -> HybridTime:
        """The last stamp given by `tick` or `merge`; (0, 0) before the first."""
        return self._now

    def tick(self, wall: int | None = None) -> HybridTime:
        """The stamp of a local event or of a message to be sent; later than every one before.

        ``wall``: what `wall` said when a step began whose events belong together.
        """
        if wall is None:
            wall = self.wall()
        time, logical = self._now
        if wall > time:
            time, logical = wall, 0
        elif logical < _MAX_LOGICAL:
            logical += 1
        else:
            time, logical = time + 1, 0
        self._now = now = _stamp((time, logical))
        return now

    def merge(self, remote: tuple[int, int]) -> HybridTime:
        """The stamp of receiving a message that carries ``remote``; later than that and than every one before.

        Raises `ValueError`, and changes nothing, if the remote stamp is negative, out of range or too far ahead.
        """
        stamp = HybridTime(*remote)
        wall = self.wall()
        if stamp.time < 0 or not 0 <= stamp.logical <= _MAX_LOGICAL:
            raise ValueError(f"{stamp} is not a time stamp")
        if stamp.time - wall > self._max_drift:
            seconds = (stamp.time - wall) / 1e9
            raise ValueError(
                f"the remote clock is {seconds:.1f} s ahead; at most {self._max_drift / 1e9:.1f} s are allowed"
            )
        self._now = max(self._now, stamp)
        return self.tick(wall)
