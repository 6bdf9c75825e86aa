"""Changelogs: the group of one shows its offsets one after the other, each once, with the epochs of its records.

Where the record of a changelog begins is not judged. Source: pull-queries.md#changelog-in-order.
"""

from __future__ import annotations

import numpy as np

from loghistory.schema import Kind

from ..codes import NULL, code
from ..columns import Columns, Ints
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..one_by_one import OneByOne
from ..words import Words
from .plain_queries import READS, PlainQueries, plain_queries
from .protocol import PULL_QUERIES, Record, said

ORDER = Check(
    id="changelog-in-order",
    rule="The group of a changelog shows its offsets one after the other, each once, and of a record the epoch that it "
    "states.",
    source=("pull-queries.md#changelog-in-order", "pull-queries.md#changelog"),
    fact="an offset that a changelog shows after another, or a record that it shows",
    sentence={
        "offset": "Offset {offset} of the changelog of partition {partition} was shown right after offset {before}.",
        "epoch": "Offset {offset} of the changelog of partition {partition} was shown with epoch {epoch}, but the "
        "record there states {stated}.",
    },
    kinds=(Kind.CHANGELOG,),
    columns=("partition", "offset"),
)
_CHANGELOG = code(Kind.CHANGELOG)


class ChangelogFold:
    """Judges the order of one log's changelogs, and the epochs of their records; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tally = Tally(ORDER, setting.keep)
        self._offsets = OneByOne()
        self._words: Words = setting.words
        self._compiled = setting.compiled
        self._finder: PlainQueries | None = None

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        shown = np.flatnonzero(columns.kind == _CHANGELOG)
        for at, before, seq in self._offsets.breaks(columns, shown, columns.partition, columns.offset):
            place = {"partition": int(columns.partition[at]), "offset": int(columns.offset[at])}
            self._tally.violation(seq, int(columns.seq[at]), way="offset", **place, before=before)
        self._epochs(columns, shown)

    def _epochs(self, columns: Columns, shown: Ints) -> None:
        """Compare the epochs of these events with those that their texts state."""
        right = np.zeros(len(shown), bool)
        if self._compiled:
            self._finder = self._finder or plain_queries(self._words, columns)
            found = self._finder.of(columns)
            at = found.said[shown]
            right = (at >= 0) & (found.numbers[at] == columns.epoch[shown])
        self._tally.judged += int(np.count_nonzero(right))
        others = shown[~right]
        for place, (epoch, text) in zip(others.tolist(), columns.rows(others, "epoch", "value"), strict=True):
            record = said(self._words, text, Record)
            if record is None:
                continue
            self._tally.judged += 1
            if record.epoch != epoch:
                offset = {"partition": int(columns.partition[place]), "offset": int(columns.offset[place])}
                stated = {"epoch": epoch if epoch != NULL else "none", "stated": record.epoch}
                self._tally.violation(int(columns.seq[place]), way="epoch", **offset, **stated)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._tally,))

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken."""
        self._tally.judged += self._offsets.judged
        return Verdicts((self._tally.outcome(),))


FAMILY = Family(
    "pull_queries_changelogs",
    (ORDER,),
    frozenset({Kind.CHANGELOG}),
    (*READS, "epoch"),
    ChangelogFold,
    PULL_QUERIES,
    reads_texts=True,
)
