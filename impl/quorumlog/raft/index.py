"""The core's own view of its log: where batches begin and which term an offset has. No payloads, no I/O.

The core changes it together with the ``Append`` and ``Truncate`` effects it hands out, so that decisions inside one
``handle`` call already see the log as it will be. Eight bytes per batch, sixteen per change of term. Offsets:
raft.md#dirty, raft.md#term-of.

A gap that compaction left belongs to the batch behind it: offsets in it have that batch's term, and go where it goes
(ghost-batches.md#prev-outside-gaps). So where this module says that a batch begins, its gap begins.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

NO_TERM = -1


class LogIndex:
    """Offsets ``start..dirty`` of a log; ``dirty`` is ``start - 1`` when it is empty."""

    __slots__ = ("_bases", "_behind_gap", "_run_starts", "_run_terms", "dirty", "start", "start_term")

    def __init__(self, start: int = 0, start_term: int = NO_TERM) -> None:
        """Begin an empty log; ``start_term`` is the term of the entry before ``start``, if one was trimmed away."""
        self.start = start
        self.start_term = start_term
        self.dirty = start - 1
        self._bases = array("q")
        self._behind_gap: dict[int, int] = {}  # where a gap begins, in order, and the batch behind it
        self._run_starts = array("q")
        self._run_terms = array("q")

    @classmethod
    def of(cls, batches: Iterable[tuple[int, int, int]], start: int = 0, start_term: int = NO_TERM) -> LogIndex:
        """Build the index of existing batches, each (base offset, last offset, term), in order; there may be gaps."""
        index = cls(start, start_term)
        for base, last, term in batches:
            index.append(base, last, term, gap=base - index.dirty - 1)
        return index

    @property
    def last_term(self) -> int:
        """Term of the last entry; the term before the log's start if it is empty."""
        return self._run_terms[-1] if self._run_terms else self.start_term

    @property
    def gap_end(self) -> int:
        """The end of the batch behind the last gap: it is committed (ghost-batches.md#gap-is-committed); -1 without."""
        return self._last_of(next(reversed(self._behind_gap))) if self._behind_gap else -1

    def append(self, base: int, last: int, term: int, gap: int = 0) -> None:
        """Add a batch at the end, behind a gap of so many offsets.

        Raises ValueError if it does not follow, or its term goes back.
        """
        begin = base - gap
        if begin != self.dirty + 1 or last < base:
            raise ValueError(f"batch {base}..{last} does not follow offset {self.dirty}")
        if gap:
            self._behind_gap[begin] = base
        if not self._run_terms or term != self._run_terms[-1]:
            if term < self.last_term:
                raise ValueError(f"batch {base}..{last} of term {term} follows term {self.last_term}")
            self._run_starts.append(begin)
            self._run_terms.append(term)
        self._bases.append(begin)
        self.dirty = last

    def truncate(self, offset: int) -> None:
        """Remove all from ``offset`` on, its batch as a whole, with its gap. Raises ValueError before the log."""
        if offset > self.dirty:
            return
        keep = bisect_right(self._bases, offset) - 1
        if keep < 0:
            raise ValueError(f"cannot truncate at {offset}: the log starts at {self.start}")
        self.dirty = self._bases[keep] - 1
        del self._bases[keep:]
        self._behind_gap = {begin: base for begin, base in self._behind_gap.items() if begin <= self.dirty}
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
        self._behind_gap = {begin: behind for begin, behind in self._behind_gap.items() if begin >= base}
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

    def compact(self, gaps: Sequence[tuple[int, int]]) -> None:
        """Take batches out, in order, given by first and last offset; each is in the gap of the next one that stays.

        The last batch stays. What lies before the first and behind the last of them is not gone through.
        """
        if not gaps:
            return
        gone = {first for first, _ in gaps}
        low, high = bisect_right(self._bases, gaps[0][0]) - 1, bisect_right(self._bases, gaps[-1][1])
        first, last = self._bases[low], self._bases[high]
        begins, behind, starts, terms = array("q"), {}, array("q"), array("q")
        before = self.term(first - 1) if first > self.start else None
        begin = first
        for at in range(low, high + 1):
            base = self._behind_gap.get(self._bases[at], self._bases[at])
            if base in gone:
                continue
            term = self.term(base)
            if term != before:
                starts.append(begin)
                terms.append(term)
                before = term
            begins.append(begin)
            if begin != base:
                behind[begin] = base
            begin = self._bases[at + 1] if at < high else last
        earlier = {begin: base for begin, base in self._behind_gap.items() if begin < first}
        later = {begin: base for begin, base in self._behind_gap.items() if begin > last}
        self._behind_gap = {**earlier, **behind, **later}
        runs = slice(bisect_left(self._run_starts, first), bisect_right(self._run_starts, last))
        self._run_starts[runs], self._run_terms[runs] = starts, terms
        self._bases[low : high + 1] = begins

    def behind_gap(self, offset: int) -> int:
        """Where the batch behind the gap that begins at ``offset`` begins; ``offset`` if no gap begins there."""
        return self._behind_gap.get(offset, offset)

    def outside_gaps(self, offset: int) -> int:
        """Return ``offset``; or the end of the batch before, if it is in a gap (ghost-batches.md#prev-outside-gaps)."""
        if not self._behind_gap or not self.start <= offset <= self.dirty:
            return offset
        begin = self.batch_base(offset)
        return begin - 1 if offset < self._behind_gap.get(begin, begin) else offset

    def _last_of(self, begin: int) -> int:
        """The last offset of the batch that begins there."""
        following = bisect_right(self._bases, begin)
        return self._bases[following] - 1 if following < len(self._bases) else self.dirty

    def batch_base(self, offset: int) -> int:
        """Return the first offset of the batch that holds ``offset``, or has it in its gap. Raises ValueError."""
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
