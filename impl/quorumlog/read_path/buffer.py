"""A reader's window: records and markers at LSNs from the next one to deliver on (read-path.md#markers)."""

from __future__ import annotations

from bisect import bisect_right, insort

from quorumlog.read_path.records import Copy
from quorumlog.read_path.rules import NOWHERE


class Buffer:
    """What is at the LSNs of the window: a record, or a marker, where a gap may end. Both count as used slots."""

    def __init__(self) -> None:
        self.records: dict[int, Copy] = {}
        self._markers: set[int] = set()
        self._used: list[int] = []

    def put(self, copy: Copy) -> None:
        """Take a record; one that is there already is a duplicate."""
        if copy.lsn not in self.records:
            self._use(copy.lsn)
            self.records[copy.lsn] = copy

    def mark(self, lsn: int) -> None:
        """Let a gap end before ``lsn``."""
        self._use(lsn)
        self._markers.add(lsn)

    def _use(self, lsn: int) -> None:
        if lsn not in self.records and lsn not in self._markers:
            insort(self._used, lsn)

    def is_marker(self, lsn: int) -> bool:
        """Whether there is a marker and nothing else."""
        return lsn in self._markers and lsn not in self.records

    def drop_marker(self, lsn: int) -> None:
        """Forget the marker at ``lsn``, where there is no record (read-path.md#drop-marker)."""
        self._markers.discard(lsn)
        self._used.remove(lsn)

    def above(self, lsn: int) -> int:
        """The first used slot above ``lsn``, or NOWHERE."""
        place = bisect_right(self._used, lsn)
        return self._used[place] if place < len(self._used) else NOWHERE

    def drop_below(self, lsn: int) -> None:
        """Forget records and markers below ``lsn``; what is at it stays."""
        place = bisect_right(self._used, lsn - 1)
        for used in self._used[:place]:
            self.records.pop(used, None)
            self._markers.discard(used)
        del self._used[:place]

    def clear(self) -> None:
        """Forget all records and markers, as a rewind does."""
        self.records.clear()
        self._markers.clear()
        self._used.clear()
