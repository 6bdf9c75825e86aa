"""Virtual time: one heap of callbacks and one seed; it knows no protocol.

Time is an integer of nanoseconds that moves only when the next callback is due. Callbacks due at the same
instant run in the order in which they were scheduled, so a run is a function of its seed and its
configuration alone. Randomness comes in named streams that are derived from the seed with a hash that does
not depend on the process: a stream that one part draws from more often does not shift what another part sees,
which keeps a shrunk fault plan close to the run it came from.

Leaves to others: machines that stop or pause (`host`), messages (`network`), disks (`quorumlog.storage`).
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable
from typing import Any

from quorumlog.durations import MILLISECOND

NEVER = (1 << 63) - 1
"""Later than any time a history can hold."""

Entry = list[Any]
"""A scheduled callback: [due, order, callback or None once cancelled, arguments]."""


CROWD = 100_000
STANDSTILL = 50 * MILLISECOND
"""`CROWD` callbacks in less virtual time than this are a livelock; the busiest runs of hunts come to 3,000."""


class LivelockError(RuntimeError):
    """Callbacks go on and on, and virtual time hardly does: something schedules itself without end."""


class Simulation:
    """The event loop of one simulated run.

    ``now`` is the virtual time in nanoseconds, ``dispatched`` the number of callbacks run so far. Another ``schedule``
    gives other random streams for the same seed. ``crowd`` callbacks within `STANDSTILL` are a livelock.
    """

    __slots__ = (
        "_crowd",
        "_heap",
        "_looked_at",
        "_looks_at",
        "_order",
        "_prefix",
        "_streams",
        "dispatched",
        "now",
        "seed",
    )

    def __init__(self, seed: int, *, schedule: int = 0, crowd: int = CROWD) -> None:
        self.seed = seed
        self._prefix = f"{seed}.{schedule}" if schedule else str(seed)
        self.now = 0
        self.dispatched = 0
        self._crowd = crowd
        self._looked_at, self._looks_at = (
            0,
            crowd,
        )  # when it was last seen that time goes on, and after which callback next
        self._heap: list[Entry] = []
        self._order = 0
        self._streams: dict[str, random.Random] = {}

    def random(self, name: str) -> random.Random:
        """The random stream of that name; the same seed and name give the same numbers in every process."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = derived_random(self._prefix, name)
        return stream

    def after(self, delay: int, callback: Callable[..., None], *args: Any) -> Entry:  # noqa: ANN401
        """Run ``callback(*args)`` ``delay`` nanoseconds from now (if <= 0: now, after what is due)."""
        self._order = order = self._order + 1
        entry = [self.now + delay if delay > 0 else self.now, order, callback, args]
        heapq.heappush(self._heap, entry)
        return entry

    def at(self, time: int, callback: Callable[..., None], *args: Any) -> Entry:  # noqa: ANN401
        """Run ``callback(*args)`` at virtual time ``time``, or now if that is past."""
        return self.after(time - self.now, callback, *args)

    @staticmethod
    def cancel(entry: Entry) -> None:
        """Make a scheduled callback do nothing; harmless if it has run."""
        entry[2] = None

    def run(self, until: int) -> None:
        """Dispatch everything due up to and including ``until``, then stand at ``until``.

        Raises `LivelockError`.
        """
        heap = self._heap
        pop = heapq.heappop
        dispatched = self.dispatched
        looks_at = self._looks_at
        try:
            while heap and heap[0][0] <= until:
                if dispatched >= looks_at:
                    self._look(heap[0])
                    looks_at = self._looks_at = dispatched + self._crowd
                time, _, callback, args = pop(heap)
                if callback is None:
                    continue
                self.now = time
                dispatched += 1
                callback(*args)
        finally:
            self.dispatched = dispatched
        self.now = max(self.now, until)

    def _look(self, following: Entry) -> None:
        """See whether virtual time has gone on since the last look. Raises `LivelockError`."""
        passed = self.now - self._looked_at
        if passed < STANDSTILL:
            raise LivelockError(
                f"seed {self.seed}: {self._crowd} callbacks in {passed} ns of virtual time, up to {self.now} ns; "
                f"the next one is {getattr(following[2], '__qualname__', following[2])}"
            )
        self._looked_at = self.now

    def watch(self, most: int) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """Dispatch at most so many callbacks, whenever they are due, and say which; what repeats is seen so."""
        seen: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        while self._heap and len(seen) < most:
            time, _, callback, args = heapq.heappop(self._heap)
            if callback is not None:
                self.now = time
                self.dispatched += 1
                seen.append((callback, args))
                callback(*args)
        return seen


def derived_random(seed: int | str, name: str) -> random.Random:
    """An independent generator for ``name``, the same in every process and on every platform."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))
