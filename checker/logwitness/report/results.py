"""What a gate makes of the verdicts on one history: the same for JUnit, SARIF and annotations, so that they agree.

A check of a run is passed, failed, known (violated, and the baseline has every violation), undecided, required (asked
for with ``--require`` but with nothing to judge) or idle.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import click
import numpy as np

from loghistory import Format, HistoryError, RunSource
from loghistory.errors import printable

from ..checks.contract import Outcome, Violation
from .totals import counted


class State(StrEnum):
    """What a check of a run means for a gate."""

    PASSED = "passed"
    FAILED = "failed"
    KNOWN = "known"
    UNDECIDED = "undecided"
    REQUIRED = "required"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Result:
    """What one check of one history means for the gate."""

    state: State
    outcome: Outcome
    known: frozenset[int] = frozenset()
    """Places of the violations that the baseline has."""

    @property
    def headline(self) -> str:
        """What there is to say about it, on one line."""
        outcome = self.outcome
        if self.state is State.REQUIRED:
            return printable(f"required, but it had nothing to judge ({outcome.reason})")
        if not outcome.violated:
            return printable(outcome.reason or "")
        new = [v for place, v in enumerate(outcome.violations) if place not in self.known]
        first = (new or outcome.violations)[:1]
        more = outcome.violated - 1
        if self.state is State.FAILED and not new:
            return f"{outcome.violated:,} violations, more than the baseline has"
        return printable(first[0].sentence) + (f" (and {more:,} more)" if more else "") if first else "violated"


@dataclass(frozen=True, slots=True)
class History:
    """One history that was judged, or could not be."""

    name: str
    """What the run is called: in its manifest, else the path."""
    file: Path
    """The file of its events, or what was named if there is none."""
    results: tuple[Result, ...] = ()
    error: HistoryError | None = None
    """Why it could not be read."""
    notes: tuple[str, ...] = ()
    rows: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """The events that violations name, by ``seq``."""
    lines: Mapping[int, int] = field(default_factory=dict)
    """The line of the file that holds an event, by ``seq``, where that is certain."""

    @property
    def idle(self) -> bool:
        """Whether it was read and nothing in it could be judged; that is never success."""
        return self.error is None and all(result.state is State.IDLE for result in self.results)

    @property
    def remarks(self) -> list[str]:
        """The notes on it, and what could not be judged, each on one line."""
        facts = filter(None, (_left_undecided(each.outcome) for each in self.results))
        return [printable(each) for each in (*self.notes, *facts)]

    def line_of(self, violation: Violation) -> int | None:
        """The line to point at: the last event completes what is wrong."""
        return self.lines.get(violation.events[-1]) if violation.events else None

    def sentence_of(self, violation: Violation) -> str:
        """The violation and its events, a line each."""
        log = f" (log {violation.log})" if violation.log is not None else ""
        lines = [printable(violation.sentence + log)]
        lines += [f"  {_event(seq, self.rows.get(seq))}" for seq in violation.events]
        return "\n".join(lines)


IDLE_PROBLEM = "nothing in this history could be judged"
"""What is said of a history that is `History.idle`."""


def _event(seq: int, row: Mapping[str, Any] | None) -> str:
    if row is None:
        return f"event {seq}"
    words = [f"{name}={value}" for name, value in row.items() if name not in ("seq", "time", "kind")]
    return printable(f"event {seq} at {row['time'] / 1e9:.6f} s: {' '.join([str(row['kind']), *words])}")


def lines_at(source: RunSource, wanted: frozenset[int]) -> dict[int, int]:
    """The lines of the events with these ``seq``: in JSON Lines the header is line 1, and each event has one line.

    Empty for other formats, and if lines were set aside: then the position of an event does not say its line.
    """
    if source.format is not Format.JSON_LINES or not wanted:
        return {}
    found: dict[int, int] = {}
    seqs = np.array(sorted(wanted), dtype=np.int64)
    before = 2
    for batch in source.batches(["seq"]):
        column = batch.column("seq").to_numpy()
        for place in np.flatnonzero(np.isin(column, seqs)).tolist():
            found[int(column[place])] = before + place
        before += len(column)
    return {} if source.set_aside else found


def shown(path: Path) -> Path:
    """The path as a CI system wants it: relative to where the command runs, if it is below."""
    try:
        return path.resolve().relative_to(Path.cwd().resolve()) if path.is_absolute() else path
    except ValueError:
        return path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, which appears by rename; a place that cannot be written is bad usage.

    What is no file, as /dev/stdout or a pipe, is written to and stays what it is: a rename would put a file there.
    """
    target = Path(os.path.realpath(path))
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and (not path.is_file() or _is_standard_output(path)):
            with path.open("ab") as stream:
                stream.write(data)
            return
        try:
            unfinished.write_bytes(data)
            unfinished.replace(target)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        problem = f"{path} cannot be written ({error.strerror or error}): make room or name another file"
        raise click.UsageError(printable(problem)) from None


def _is_standard_output(path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:
        return False  # closed


def _left_undecided(outcome: Outcome) -> str:
    """What a check could not judge, in a sentence; nothing if it judged all, or if its verdict says so anyhow."""
    why = outcome.reason if outcome.violated else None
    if outcome.unjudged:
        return f"{outcome.id}: {counted(outcome.unjudged, 'fact')} could not be judged" + (f": {why}." if why else ".")
    return f"besides, {outcome.id} is undecided: {why}." if why else ""
