"""What a shard has: its copies with their index, seals, recovered epochs, the trim point; all of it on its disk."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from quorumlog.read_path.events import Change
from quorumlog.read_path.records import Copy
from quorumlog.read_path.rules import Rules, lsn_of


class Contents:
    """The fold of all changes. ``intact``: the shard has all that was ever stored on it.

    ``sealed``: no sequencer of an epoch up to this one writes here; ``clean``: by epoch ``(lng, last, run, attempt)``
    of its recovery if this shard took part; ``attempts``: by run and epoch which attempt read this shard last, if not
    the first; ``last_clean``: all epochs up to it are recovered or purged here. The index has the LSNs in order; a
    copy's copyset and flags are read without its payload.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.copies: dict[int, Copy] = {}
        self._index: list[int] = []
        self.sealed, self.last_clean, self.trim_point = 0, 0, 0
        self.clean: dict[int, tuple[int, int, int, int]] = {}
        self.attempts: dict[tuple[int, int], int] = {}
        self.intact = False

    def apply(self, change: Change) -> None:
        """Take a change. Of two copies of an LSN the one that wins stays; of equal ones the later (it was amended)."""
        if change.copy is not None:
            self._put(change.copy)
        if change.delete is not None:
            self._delete(*change.delete)
        if change.sealed is not None:
            self.sealed = max(self.sealed, change.sealed)
        if change.clean is not None:
            epoch, lng, last, run, attempt = change.clean
            self.clean[epoch] = lng, last, run, attempt
            if self.last_clean == epoch - 1:
                self.last_clean = epoch
        if change.attempt is not None:
            run, epoch, attempt = change.attempt
            self.attempts[run, epoch] = attempt
        if change.last_clean is not None:
            self.last_clean = max(self.last_clean, change.last_clean)
        if change.trim_point is not None and change.trim_point > self.trim_point:
            self.trim_point = change.trim_point
            self._delete(0, self.trim_point)
        if change.intact is not None:
            self.intact = change.intact

    def changes(self) -> Iterator[Change]:
        """As few changes as lead to these contents."""
        yield Change(sealed=self.sealed or None, trim_point=self.trim_point or None, intact=self.intact)
        for lsn in self._index:
            yield Change(copy=self.copies[lsn])
        for epoch, recovered in self.clean.items():
            yield Change(clean=(epoch, *recovered))
        for of, attempt in self.attempts.items():
            yield Change(attempt=(*of, attempt))
        yield Change(last_clean=self.last_clean)

    def _put(self, copy: Copy) -> None:
        held = self.copies.get(copy.lsn)
        if held is not None and self._rules.beats(held.run, held.wave, copy.run, copy.wave):
            return
        if copy.lsn <= self.trim_point:
            return
        if held is None:
            insort(self._index, copy.lsn)
        self.copies[copy.lsn] = copy

    def _delete(self, first: int, last: int) -> None:
        start, end = bisect_left(self._index, first), bisect_right(self._index, last)
        for lsn in self._index[start:end]:
            del self.copies[lsn]
        del self._index[start:end]

    def between(self, first: int, last: int) -> Iterator[Copy]:
        """The copies from ``first`` to ``last``, in order."""
        for place in range(bisect_left(self._index, first), bisect_right(self._index, last)):
            yield self.copies[self._index[place]]

    def next_from(self, lsn: int) -> int | None:
        """The first LSN from ``lsn`` on that has a copy."""
        place = bisect_left(self._index, lsn)
        return self._index[place] if place < len(self._index) else None

    def of_epochs(self, first: int, last: int) -> list[Copy]:
        """The copies of these epochs, in order."""
        return list(self.between(lsn_of(first, 0), lsn_of(last + 1, 0) - 1))

    def with_any_of(self, shards: frozenset[int]) -> list[Copy]:
        """The copies whose copysets have one of these shards."""
        found = (copy for copy in self.copies.values() if not shards.isdisjoint(copy.copyset))
        return sorted(found, key=lambda copy: copy.lsn)
