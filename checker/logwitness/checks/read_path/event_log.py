"""The event log: its records are numbered one after the other, each once, and the statuses follow from them.

Where the record of it begins is not judged, nor are statuses where it does not show the first one, or lacks one.
Sources: read-path.md#event-log-in-order, read-path.md#status-of-events.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loghistory.schema import Kind

from ..codes import code
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..one_by_one import OneByOne
from .nodesets import AUTHORITATIVE_EMPTY, FULLY_AUTHORITATIVE, UNAVAILABLE, UNDERREPLICATION, statuses_said
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
FOLLOWS = Check(
    id="statuses-follow-events",
    rule="The statuses of shards follow from the records of the event log, but for whether donors are done with all, "
    "which is not recorded.",
    source=("read-path.md#status-of-events",),
    fact="the statuses after a record of the event log, where it is recorded from its first one on",
    sentence="After record {version} of the event log shard {shard} has status {shown}, where its records say {known}.",
    kinds=(Kind.EVENT_LOG,),
    columns=("version", "peer", "f"),
)
_EVENT_LOG = code(Kind.EVENT_LOG)
WORDS = ("rebuild", "drain", "unrecoverable", "done", "abort", "acknowledge")
"""What records of the event log say of a shard."""
_UNKNOWN = -2
"""In place of a version, once a record is not known."""


@dataclass(slots=True)
class Lost:
    """A shard that is being rebuilt or drained, or was; `empty`: it was shown that donors are done."""

    drain: bool
    recoverable: bool
    empty: bool = False

    @property
    def status(self) -> int:
        """The status that the shard counts as, by the records of the event log so far."""
        if self.empty:
            return AUTHORITATIVE_EMPTY
        if self.drain:
            return FULLY_AUTHORITATIVE
        return UNAVAILABLE if self.recoverable else UNDERREPLICATION


def folded(lost: dict[int, Lost], word: str, shard: int) -> bool:
    """Take a record of the event log; whether donors begin anew by it."""
    of = lost.get(shard)
    if word == "rebuild" and (of is None or of.drain):
        lost[shard] = Lost(drain=False, recoverable=True)
        return True
    if word in ("drain", "unrecoverable") and of is None:
        lost[shard] = Lost(drain=word == "drain", recoverable=word == "drain")
        return True
    if word == "unrecoverable" and of is not None and not of.empty:
        drained, of.drain, of.recoverable = of.drain, False, False
        return drained
    if of is not None and of.empty:
        if word == "acknowledge":
            del lost[shard]
    elif of is not None and word == "abort" and (of.drain or of.recoverable):
        del lost[shard]
        return True
    return False


def is_empty_now(word: str, status: int) -> bool:
    """Whether a record of the event log shows that donors are done with a shard that has this status after it."""
    return status == AUTHORITATIVE_EMPTY and word in ("done", "unrecoverable")


class EventLogFold:
    """Judges the order of the event log; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tally, self._follows = Tally(ORDER, setting.keep), Tally(FOLLOWS, setting.keep)
        self._versions = OneByOne()
        self._words = setting.words
        self._known = {setting.words.code(word): word for word in WORDS}
        self._lost: dict[int, Lost] = {}
        self._version = 0  # up to here all records are known

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        shown = np.flatnonzero(columns.kind == _EVENT_LOG)
        for at, before, seq in self._versions.breaks(columns, shown, columns.kind, columns.version):
            self._tally.violation(seq, int(columns.seq[at]), version=int(columns.version[at]), before=before)
        wanted = columns.seq, columns.version, columns.f, columns.peer, columns.value
        for row in zip(*(each[shown].tolist() for each in wanted), strict=True):
            self._settles(*row)

    def _settles(self, seq: int, version: int, f: int, shard: int, text: int) -> None:
        """A record of the event log, and the statuses after it."""
        word = self._known.get(f)
        if version != self._version + 1 or word is None:
            self._version = _UNKNOWN
            self._follows.unjudged += 1
            return
        self._version = version
        folded(self._lost, word, shard)
        self._follows.judged += 1
        for each, status in sorted(statuses_said(self._words.text(text)).items()):
            lost = self._lost.get(each)
            if lost is not None and is_empty_now(word, status):
                lost.empty = True
            known = FULLY_AUTHORITATIVE if lost is None else lost.status
            if status != known:
                self._follows.violation(seq, version=version, shard=each, shown=status, known=known)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._tally, self._follows))

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken."""
        self._tally.judged += self._versions.judged
        return Verdicts((self._tally.outcome(), self._follows.outcome()))


FAMILY = Family(
    "read_path_event_log",
    (ORDER, FOLLOWS),
    frozenset({Kind.EVENT_LOG}),
    ("version", "f", "peer", "value"),
    EventLogFold,
    READ_PATH,
    reads_texts=True,
)
