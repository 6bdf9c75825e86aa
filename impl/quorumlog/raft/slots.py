"""How many of a process's groups are recovered at a time (raft.md#may-recover)."""

from __future__ import annotations

from collections.abc import Hashable


class RecoverySlots:
    """So many places for followers that are behind; one object for all groups of a process."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: set[Hashable] = set()

    def take(self, follower: Hashable, *, by_force: bool = False) -> bool:
        """Whether the follower has a place now: one that it had, a free one, or one more ``by_force``."""
        if by_force or len(self._taken) < self._limit:
            self._taken.add(follower)
        return follower in self._taken

    def give_back(self, follower: Hashable) -> None:
        """Leave the place to others, if the follower has one."""
        self._taken.discard(follower)
