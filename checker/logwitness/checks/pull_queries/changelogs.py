"""Changelogs: the group of one shows its offsets one after the other, each once, with the epochs of its records.

Where the record of a changelog begins is not judged. Source: pull-queries.md#changelog-in-order.
"""

from __future__ import annotations

import msgspec
import numpy as np

from loghistory.schema import Kind

from ..codes import NULL, Words, code
from ..columns import Columns, Ints
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..one_by_one import OneByOne
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
_RECORDS = msgspec.json.Decoder(list[Record])


class ChangelogFold:
    """Judges the order of one log's changelogs, and the epochs of their records; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tally = Tally(ORDER, setting.keep)
        self._offsets = OneByOne()
        self._words: Words = setting.words

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        shown = np.flatnonzero(columns.kind == _CHANGELOG)
        for at, before, seq in self._offsets.breaks(columns, shown, columns.partition, columns.offset):
            place = {"partition": int(columns.partition[at]), "offset": int(columns.offset[at])}
            self._tally.violation(seq, int(columns.seq[at]), way="offset", **place, before=before)
        self._epochs(columns, shown)

    def _epochs(self, columns: Columns, shown: Ints) -> None:
        """Compare the epochs of these events with those that their texts state."""
        codes = columns.value[shown].tolist()
        epochs = columns.epoch[shown].tolist()
        for at, stated, epoch in zip(shown.tolist(), self._stated(codes), epochs, strict=True):
            if stated is None:
                continue
            self._tally.judged += 1
            if stated != epoch:
                place = {"partition": int(columns.partition[at]), "offset": int(columns.offset[at])}
                found = {"epoch": epoch if epoch != NULL else "none", "stated": stated}
                self._tally.violation(int(columns.seq[at]), way="epoch", **place, **found)

    def _stated(self, codes: list[int]) -> list[int | None]:
        """The epochs that texts state, by their codes: all texts are read at once if all are of records."""
        texts = [self._words.text(each) for each in codes]
        try:
            records = _RECORDS.decode(f"[{','.join(text for text in texts if text is not None)}]")
        except (msgspec.MsgspecError, ValueError, RecursionError):
            records = []
        if len(records) == len(texts) - texts.count(None):
            whole = iter(records)
            return [None if text is None else next(whole).epoch for text in texts]
        read = [said(self._words, each, Record) for each in codes]
        return [None if record is None else record.epoch for record in read]

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
    ("partition", "offset", "epoch", "value"),
    ChangelogFold,
    PULL_QUERIES,
    reads_texts=True,
)
