"""The event log: its records are numbered one after the other, each once.

Where the record of it begins is not judged. Source: read-path.md#event-log-in-order.
"""

from __future__ import annotations

import numpy as np

from loghistory.schema import Kind

from ..codes import code
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..one_by_one import OneByOne
from .protocol import READ_PATH

ORDER = Check(
    id="event-log-in-order",
    rule="The records of the event log are numbered one after the other, each once.",
    source=("read-path.md#event-log-in-order", "read-path.md#event-log-version"),
    fact="a record of the event log after another",
    sentence="Record {version} of the event log came right after record {before}.",
    kinds=(Kind.EVENT_LOG,),
    columns=("version",),
)
_EVENT_LOG = code(Kind.EVENT_LOG)


class EventLogFold:
    """Judges the order of the event log; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tally = Tally(ORDER, setting.keep)
        self._versions = OneByOne()

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        shown = np.flatnonzero(columns.kind == _EVENT_LOG)
        for at, before, seq in self._versions.breaks(columns, shown, columns.kind, columns.version):
            self._tally.violation(seq, int(columns.seq[at]), version=int(columns.version[at]), before=before)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._tally,))

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken."""
        self._tally.judged += self._versions.judged
        return Verdicts((self._tally.outcome(),))


FAMILY = Family(
    "read_path_event_log",
    (ORDER,),
    frozenset({Kind.EVENT_LOG}),
    ("version",),
    EventLogFold,
    READ_PATH,
)
