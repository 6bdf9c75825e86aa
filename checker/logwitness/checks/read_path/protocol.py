"""What a run of the read path is told by, and how LSNs are written."""

from __future__ import annotations

from typing import ClassVar

from loghistory.schema import Kind, Operation
from loghistory.vocabularies.read_path import VOCABULARY, GapWord, RecordWord

from ..codes import RECORDS, word_code
from ..columns import Columns
from ..contract import Check, Protocol, Setting, Tally, Verdicts, violated

READ_PATH = Protocol("read-path", frozenset(Kind(kind.word) for kind in VOCABULARY.kinds))

GAP = {word: word_code(word) for word in GapWord}
"""The codes of column ``f`` of a gap."""
BRIDGE = RECORDS[RecordWord.BRIDGE]
F_READ, F_APPEND = word_code(Operation.READ_STREAM), word_code(Operation.APPEND_RECORD)


def epoch_of(lsn: int) -> int:
    """The epoch of an LSN."""
    return lsn >> 32


def esn_of(lsn: int) -> int:
    """The place of an LSN in its epoch."""
    return lsn & 0xFFFFFFFF


def shown(lsn: int) -> str:
    """An LSN as it is written."""
    return f"e{lsn >> 32}n{lsn & 0xFFFFFFFF}"


class StreamFold:
    """What the folds of this protocol share: a tally for each check of the family."""

    checks: ClassVar[tuple[Check, ...]]

    def __init__(self, setting: Setting) -> None:
        self._tallies = {check.id: Tally(check, setting.keep) for check in self.checks}

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        raise NotImplementedError

    def violated(self) -> frozenset[str]:
        """The checks that are violated so far (`Watchful`)."""
        return violated(self._tallies.values())

    def finish(self) -> Verdicts:
        """Answer."""
        return Verdicts(tuple(tally.outcome() for tally in self._tallies.values()))
