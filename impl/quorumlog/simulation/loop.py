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

NEVER = (1 << 63) - 1
"""Later than any time a history can hold."""

Entry = list[Any]
"""A scheduled callback: [due, order, callback or None once cancelled, arguments]."""


class LimitReachedError(RuntimeError):
    """The run dispatched more callbacks than its limit: something schedules itself without end."""


class Simulation:
    """The event loop of one simulated run.

    ``now`` is the virtual time in nanoseconds, ``dispatched`` the number of callbacks run so far. Another ``schedule``
    gives other random streams for the same seed.
    """

    __slots__ = ("_heap", "_order", "_prefix", "_streams", "dispatched", "max_events", "now", "seed")

    def __init__(self, seed: int, *, schedule: int = 0, max_events: int = 5_000_000) -> None:
        self.seed = seed
        self._prefix = f"{seed}.{schedule}" if schedule else str(seed)
        self.now = 0
        self.dispatched = 0
        self.max_events = max_events
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

        Raises ``LimitReachedError`` when the run exceeds ``max_events`` callbacks in all.
        """
        heap = self._heap
        pop = heapq.heappop
        dispatched = self.dispatched
        limit = self.max_events
        try:
            while heap and heap[0][0] <= until:
                time, _, callback, args = pop(heap)
                if callback is None:
                    continue
                self.now = time
                dispatched += 1
                if dispatched > limit:
                    raise LimitReachedError(
                        f"seed {self.seed}: more than {limit} events before {until} ns of virtual time; "
                        f"the last one is {getattr(callback, '__qualname__', callback)}"
                    )
                callback(*args)
        finally:
            self.dispatched = dispatched
        self.now = max(self.now, until)


def derived_random(seed: int | str, name: str) -> random.Random:
    """An independent generator for ``name``, the same in every process and on every platform."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))
