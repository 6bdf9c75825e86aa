"""What a reader does with something it must refuse: stop with one line, or set it aside and go on.

`Strict` raises. `Lenient` counts by reason and keeps the refused lines in a quarantine file, which appears by rename
when the reading ends: one JSON object a line with ``line``, ``reason``, ``field``, ``problem`` and ``raw`` (the line
as text, cut to `MAX_RAW` bytes; bytes that are no UTF-8 appear as backslash escapes). The file grows to
`MAX_QUARANTINE` bytes at most; what is refused after that is only counted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from .errors import HistoryError
from .validity import Reason

SUFFIX = ".quarantine.jsonl"
"""How a quarantine file is called, so that nobody takes it for a history."""

MAX_RAW = 4096
MAX_QUARANTINE = 64 << 20

MAX_BAD = 1 << 20
"""A lenient reading is given up after so many refusals if they are more than the good events."""

_IN_WORDS = {
    Reason.NOT_UTF8: "no UTF-8",
    Reason.NOT_JSON: "no valid JSON or EDN",
    Reason.LONG_LINE: "too long",
    Reason.CUT_OFF: "cut off",
    Reason.NO_HEADER: "without a header or an operation",
    Reason.DUPLICATE_KEY: "with a key that appears twice",
    Reason.UNKNOWN_COLUMN: "with an unknown column",
    Reason.UNKNOWN_KIND: "of an unknown kind",
    Reason.MISSING_FIELD: "without a column that it needs",
    Reason.WRONG_TYPE: "with a value that makes no sense there",
    Reason.OUT_OF_RANGE: "with a value out of range",
    Reason.SEQUENCE: "out of order",
    Reason.DAMAGED: "damaged",
    Reason.BOMB: "unpacked to too much",
}


def set_aside_in_words(counts: Mapping[str, int]) -> str:
    """What a lenient reading set aside, as in "2 lines or events were set aside (1 cut off, 1 too long)"."""
    number = sum(counts.values())
    lines = "1 line or event was" if number == 1 else f"{number:,} lines or events were"
    reasons = ", ".join(f"{count:,} {_IN_WORDS[Reason(reason)]}" for reason, count in sorted(counts.items()))
    return f"{lines} set aside ({reasons})"


class Quarantine(Protocol):
    """Where a reader reports what it refuses."""

    judged: bool
    """Whether what no check can reckon with is refused, too."""

    def refuse(self, reason: Reason, error: HistoryError, raw: bytes) -> None:
        """Take note of one refused line or event; raises the error if reading must stop."""

    def take(self, events: int) -> None:
        """Take note of so many good events."""

    def close(self) -> None:
        """The reading came to its end: what was set aside may be put in its place."""

    def abandon(self) -> None:
        """The reading was given up before its end."""


class Strict:
    """The first refusal ends the reading; what cannot be judged is left to who judges."""

    judged = False

    def refuse(self, reason: Reason, error: HistoryError, raw: bytes) -> None:
        """Raise the error: the reading ends here."""
        raise error

    def take(self, events: int) -> None:
        """Good events are not counted: no refusal is weighed against them."""

    def close(self) -> None:
        """Nothing was set aside, so there is nothing to put in place."""

    def abandon(self) -> None:
        """Nothing was set aside, so there is nothing to remove."""


class Lenient:
    """Reading goes on; refusals are counted in ``counts`` and written to the quarantine file."""

    judged = True

    def __init__(self, quarantine: Path | None) -> None:
        self.counts: Counter[str] = Counter()
        self._path = quarantine
        self._file: BinaryIO | None = None
        self._written = 0
        self._bad = 0
        self._good = 0

    def take(self, events: int) -> None:
        """Count so many good events, against which the bad ones are weighed."""
        self._good += events

    def refuse(self, reason: Reason, error: HistoryError, raw: bytes) -> None:
        """Count the refusal and keep the line; raises if there are more than `MAX_BAD` and more bad than good ones."""
        self.counts[str(reason)] += 1
        self._bad += 1
        if self._bad > max(MAX_BAD, self._good):
            problem = f"more than {self._bad - 1} lines or events are bad, more than are good"
            raise HistoryError(
                error.file, error.line, None, problem, "name a file that is a history", place=error.place
            )
        if self._path is None or self._written >= MAX_QUARANTINE:
            return
        record = {
            "line": error.line,
            "reason": str(reason),
            "field": error.field,
            "problem": error.problem,
            "raw": raw[:MAX_RAW].decode("utf-8", "backslashreplace"),
        }
        text = msgspec.json.encode(record) + b"\n"
        try:
            if self._file is None:
                self._file = self._unfinished().open("wb")
            self._file.write(text)
        except OSError as problem:
            raise self._unwritable(problem) from None
        self._written += len(text)

    def close(self) -> None:
        """Put the quarantine file in its place; without refusals there is none."""
        if self._path is None:
            return
        try:
            if self._file is None:
                self._path.unlink(missing_ok=True)
                return
            self._file.close()
            self._file = None
            self._unfinished().replace(self._path)
        except OSError as problem:
            raise self._unwritable(problem) from None

    def abandon(self) -> None:
        """Remove what was written so far."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._unfinished().unlink(missing_ok=True)

    def _unfinished(self) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")

    def _unwritable(self, problem: OSError) -> HistoryError:
        assert self._path is not None
        remedy = "name another quarantine file"
        return HistoryError(self._path, None, None, f"cannot be written ({problem.strerror})", remedy)
