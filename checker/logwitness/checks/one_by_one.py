"""Numbers that go up by one: each event of a kind has the next number after the one before, in each of its series."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .columns import Array, Columns, Ints


class OneByOne:
    """Finds where numbers do not go up by one; where a series begins is not judged."""

    def __init__(self) -> None:
        self.judged = 0
        self._last: dict[int, tuple[int, int]] = {}
        """By series: its last number, and the event."""

    def breaks(self, columns: Columns, which: Ints, series: Array, numbers: Array) -> Iterator[tuple[int, int, int]]:
        """Take these events, each with its series and number: of each break the place, the number before, its event."""
        for each in np.unique(series[which]).tolist():
            own = which[series[which] == each]
            found, seqs = numbers[own].astype(np.int64), columns.seq[own]
            known = each in self._last
            before, event = self._last.get(each, (int(found[0]) - 1, -1))
            self.judged += len(own) - (not known)
            for at in np.flatnonzero(np.diff(found, prepend=before) != 1).tolist():
                last, seq = (int(found[at - 1]), int(seqs[at - 1])) if at else (before, event)
                yield int(own[at]), last, seq
            self._last[each] = int(found[-1]), int(seqs[-1])
