"""The core's own view of its log: where batches begin and which term an offset has. No payloads, no I/O.

The core changes it together with the ``Append`` and ``Truncate`` effects it hands out, so that decisions inside one
``handle`` call already see the log as it will be. Eight bytes per batch, sixteen per change of term. Offsets:
raft.md#dirty, raft.md#term-of.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable

NO_TERM = -1


class LogIndex:
    """Offsets ``start..dirty`` of a log without gaps; ``dirty`` is ``start - 1`` when it is empty."""

    __slots__ = ("_bases", "_run_starts", "_run_terms", "dirty", "start", "start_term")

    def __init__(self, start: int = 0, start_term: int = NO_TERM) -> None:
        """Begin an empty log; ``start_term`` is the term of the entry before ``start``, if one was trimmed away."""
        self.start = start
        self.start_term = start_term
        self.dirty = start - 1
        self._bases = array("q")
        self._run_starts = array("q")
        self._run_terms = array("q")

    @classmethod
    def of(cls, batches: Iterable[tuple[int, int, int]], start: int = 0, start_term: int = NO_TERM) -> LogIndex:
        """Build the index of existing batches, each (base offset, last offset, term), in order."""
        index = cls(start, start_term)
        for base, last, term in batches:
            index.append(base, last, term)
        return index

    @property
    def last_term(self) -> int:
        """Term of the last entry; the term before the log's start if it is empty."""
        return self._run_terms[-1] if self._run_terms else self.start_term

    def append(self, base: int, last: int, term: int) -> None:
        """Add a batch at the end. Raises ValueError if it leaves a gap or its term goes back."""
        if base != self.dirty + 1 or last < base:
            raise ValueError(f"batch {base}..{last} does not follow offset {self.dirty}")
        if not self._run_terms or term != self._run_terms[-1]:
            if term < self.last_term:
                raise ValueError(f"batch {base}..{last} of term {term} follows term {self.last_term}")
            self._run_starts.append(base)
            self._run_terms.append(term)
        self._bases.append(base)
        self.dirty = last

    def truncate(self, offset: int) -> None:
        """Remove everything from ``offset`` on; the batch that holds it goes as a whole."""
        if offset > self.dirty:
            return
        keep = bisect_right(self._bases, offset) - 1
        if keep < 0:
            raise ValueError(f"cannot truncate at {offset}: the log starts at {self.start}")
        self.dirty = self._bases[keep] - 1
        del self._bases[keep:]
        runs = bisect_right(self._run_starts, self.dirty)
        del self._run_starts[runs:]
        del self._run_terms[runs:]

    def trim(self, offset: int) -> None:
        """Remove the batches that end before ``offset``; the one that holds it stays."""
        drop = bisect_right(self._bases, min(offset, self.dirty)) - 1
        if drop <= 0:
            return
        base = self._bases[drop]
        self.start_term = self.term(base - 1)
        self.start = base
        del self._bases[:drop]
        runs = bisect_right(self._run_starts, base) - 1
        del self._run_starts[:runs]
        del self._run_terms[:runs]
        self._run_starts[0] = base

    def term(self, offset: int) -> int:
        """Return the term of the entry at ``offset``; ``NO_TERM`` if the log holds none there."""
        if offset > self.dirty or offset < self.start:
            return self.start_term if offset == self.start - 1 else NO_TERM
        return self._run_terms[bisect_right(self._run_starts, offset) - 1]

    def batch_base(self, offset: int) -> int:
        """Return the first offset of the batch that holds ``offset``."""
        if not self.start <= offset <= self.dirty:
            raise ValueError(f"offset {offset} is outside the log {self.start}..{self.dirty}")
        return self._bases[bisect_right(self._bases, offset) - 1]

    def batch_end_at_most(self, offset: int) -> int:
        """Return the largest batch end that is not above ``offset``; ``start - 1`` if there is none."""
        if offset >= self.dirty:
            return self.dirty
        if offset < self.start:
            return self.start - 1
        following = bisect_right(self._bases, offset + 1) - 1
        return self._bases[following] - 1

    def end_of(self, batches: int, behind: int) -> int:
        """Return where the last of so many batches behind the offset ``behind`` ends; ``dirty`` if there are fewer."""
        following = bisect_right(self._bases, behind) + batches
        return self._bases[following] - 1 if following < len(self._bases) else self.dirty

    def __len__(self) -> int:
        return len(self._bases)
