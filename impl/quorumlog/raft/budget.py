"""The memory that a leader spends on appends: reserved at stage one, first in first out, and returned by rounds.

Units are bytes; an append needs as many as it has, or all of them if it has more, so that any size can pass. What
waits holds none. No clock and no I/O: the caller says what time it is. Sources: raft.md#memory-units,
raft.md#units-returned, documents.md#raft-simplification-memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from quorumlog.events import AppendRequested


class Budget:
    """``reserved``, of ``limit`` bytes, is what the appends hold that passed stage one (raft.md#bounded-memory)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.reserved = 0
        self._held: dict[int, int] = {}  # request -> its units
        self._waiting: deque[tuple[AppendRequested, int]] = deque()

    def units(self, item: AppendRequested) -> int:
        """How many bytes an append reserves: its size, at most all there are. Source: raft.md#memory-units."""
        return min(item.batch.size_bytes, self.limit)

    def wait(self, item: AppendRequested, until: int) -> None:
        """Let an append wait for its units behind all others, ``until`` a time of the caller's clock at most."""
        self._waiting.append((item, until))

    def waits(self, item: AppendRequested) -> bool:
        """Whether this append is still in the queue for memory."""
        return bool(self._waiting) and any(each is item for each, _ in self._waiting)

    def admitted(self) -> Iterator[AppendRequested]:
        """Give units to those who wait, one by one; a large one that does not fit yet keeps back what is behind it.

        Source: raft.md#memory-units.
        """
        while self._waiting:
            item, _ = self._waiting[0]
            units = self.units(item)
            if self.reserved + units > self.limit:
                break
            self._waiting.popleft()
            self._held[item.request] = units
            self.reserved += units
            yield item

    def expired(self, now: int) -> list[AppendRequested]:
        """Take out who has waited for too long; nothing of it was written."""
        expired = []
        while self._waiting and self._waiting[0][1] <= now:
            expired.append(self._waiting.popleft()[0])
        return expired

    @property
    def deadline(self) -> int | None:
        """When the first of those who wait has waited for too long; None if nobody waits."""
        return self._waiting[0][1] if self._waiting else None

    def release(self, requests: Iterable[int]) -> None:
        """Take back the units of these appends; those that hold none are passed over."""
        self.reserved -= sum(self._held.pop(request, 0) for request in requests)

    def send_away(self) -> list[AppendRequested]:
        """Return who waits, and let nobody wait any more; nothing of it was written."""
        waited = [item for item, _ in self._waiting]
        self._waiting.clear()
        return waited

    def clear(self) -> list[AppendRequested]:
        """Take back all units, and return who waited."""
        self._held.clear()
        self.reserved = 0
        return self.send_away()
