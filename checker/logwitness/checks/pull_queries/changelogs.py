"""Changelogs: the group of one shows its offsets one after the other, each once.

Where the record of a changelog begins is not judged. Source: pull-queries.md#changelog-in-order.
"""

from __future__ import annotations

import numpy as np

from loghistory.schema import Kind

from ..codes import code
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from .protocol import PULL_QUERIES

ORDER = Check(
    id="changelog-in-order",
    rule="The group of a changelog shows its offsets one after the other, each once.",
    source=("pull-queries.md#changelog-in-order", "pull-queries.md#changelog"),
    fact="an offset that a changelog shows after another",
    sentence="Offset {offset} of the changelog of partition {partition} was shown right after offset {before}.",
    kinds=(Kind.CHANGELOG,),
    columns=("partition", "offset"),
)
_CHANGELOG = code(Kind.CHANGELOG)


class ChangelogFold:
    """Judges the order of one log's changelogs; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tally = Tally(ORDER, setting.keep)
        self._last: dict[int, tuple[int, int]] = {}
        """By partition: the offset shown last, and the event."""

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log, changelog by changelog."""
        shown = np.flatnonzero(columns.kind == _CHANGELOG)
        for partition in np.unique(columns.partition[shown]).tolist():
            own = shown[columns.partition[shown] == partition]
            offsets, seqs = columns.offset[own].astype(np.int64), columns.seq[own]
            known = partition in self._last
            before, event = self._last.get(partition, (int(offsets[0]) - 1, -1))
            self._tally.judged += len(own) - (not known)
            for at in np.flatnonzero(np.diff(offsets, prepend=before) != 1).tolist():
                last, seq = (int(offsets[at - 1]), int(seqs[at - 1])) if at else (before, event)
                place = {"partition": partition, "offset": int(offsets[at]), "before": last}
                self._tally.violation(seq, int(seqs[at]), **place)
            self._last[partition] = int(offsets[-1]), int(seqs[-1])

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._tally,))

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken."""
        return Verdicts((self._tally.outcome(),))


FAMILY = Family(
    "pull_queries_changelogs",
    (ORDER,),
    frozenset({Kind.CHANGELOG}),
    ("partition", "offset"),
    ChangelogFold,
    PULL_QUERIES,
)
