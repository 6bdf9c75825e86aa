"""The gate of ``logwitness check``: weighs verdicts against a baseline, and writes the reports that CI systems read."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from pathlib import Path

import click
import msgspec

from loghistory import HistoryError, RunSource
from loghistory.errors import printable

from ..checks.contract import Outcome, Verdict
from ..engine.local import events_at
from ..engine.run import HOLDS, UNDECIDED, VIOLATED, RunVerdict
from .annotations import annotations_of, listen, silence
from .baseline import Baseline, read_baseline, write_baseline
from .junit import junit
from .results import History, Result, State, lines_at, shown, write_whole
from .sarif import sarif
from .totals import counted


class Gate:
    """Takes each verdict as it is reached; `finish` writes what was asked for.

    ``junit``, ``sarif`` and ``record`` (the baseline to write) are files, None: not wanted; ``annotate``: workflow
    commands on standard output; ``baseline``: the known violations; ``required``: ids that must not be unexercised.
    Raises `HistoryError` for a file that is no baseline, and bad usage for a file in a directory that does not exist.
    """

    def __init__(
        self,
        *,
        junit: Path | None = None,
        sarif: Path | None = None,
        annotate: bool = False,
        baseline: Path | None = None,
        record: Path | None = None,
        required: Collection[str] = (),
    ) -> None:
        for output in (junit, sarif, record):
            if output is not None and not output.parent.is_dir():
                raise click.UsageError(f"{output}: there is no directory {output.parent}: make it first")
        self._junit, self._sarif, self._record = junit, sarif, record
        self._baseline = None if baseline is None else read_baseline(baseline)
        self._recorded = Baseline()
        self._required = frozenset(required)
        self._reports = junit is not None or sarif is not None or annotate
        self._histories: list[History] = []
        self._names: set[str] = set()
        self._token = f"logwitness-{secrets.token_hex(16)}" if annotate else None
        if self._token is not None:
            click.echo(silence(self._token))

    def judged(self, source: RunSource, verdict: RunVerdict) -> tuple[RunVerdict, tuple[Result, ...]]:
        """Take the verdict on a history.

        The answer is the verdict, with an exit status and notes that say what the baseline makes of it, and what each
        check means for the gate; checks that were required and not judged stand at the end.
        """
        name = self._name(source.path, source.manifest.name if source.manifest else "")
        results = tuple(self._result(name, each) for each in (*verdict.checks, *self._missing(verdict.checks)))
        if self._record is not None:
            for each in verdict.checks:
                self._recorded.add(name, each)
        if self._baseline is not None:
            verdict = self._weighed(name, verdict, results)
        if self._reports:
            events = frozenset(seq for each in verdict.checks for v in each.violations for seq in v.events)
            rows, lines = events_at(source, events), lines_at(source, events)
            self._histories.append(History(name, source.events, results, None, verdict.notes, rows, lines))
        return verdict, results

    def unusable(self, path: Path, problem: HistoryError) -> None:
        """Take note of a history that cannot be read."""
        if self._reports:
            self._histories.append(History(self._name(path, ""), Path(problem.file), error=problem))

    def finish(self) -> None:
        """Write the reports; call it when all is judged and printed."""
        if self._token is not None:
            click.echo(listen(self._token))
            for history in self._histories:
                for line in annotations_of(history):
                    click.echo(line)
        if self._baseline is not None and (unseen := self._baseline.runs.keys() - self._names):
            click.echo(f"logwitness: {counted(len(unseen), 'run')} of the baseline not judged", err=True)
        if self._junit is not None:
            write_whole(self._junit, junit(self._histories))
        if self._sarif is not None:
            write_whole(self._sarif, sarif(self._histories, with_baseline=self._baseline is not None))
        if self._record is not None:
            write_baseline(self._record, self._recorded)

    def _name(self, path: Path, called: str) -> str:
        """The run's name: as its manifest says, else the path; two runs of one name are told apart by their paths."""
        place = shown(path).as_posix()
        name = printable(called or place)
        if name in self._names:
            name = f"{name} ({printable(place)})"
        self._names.add(name)
        return name

    def _missing(self, checks: Sequence[Outcome]) -> list[Outcome]:
        """What was required but not judged at all: of another model, or not among those asked for."""
        ids = sorted(self._required - {each.id for each in checks})
        return [Outcome(id_, Verdict.UNEXERCISED, 0, 0, 0, 0, (), "it was not judged") for id_ in ids]

    def _result(self, name: str, outcome: Outcome) -> Result:
        if outcome.verdict is Verdict.VIOLATED:
            if self._baseline is None:
                return Result(State.FAILED, outcome)
            state = State.KNOWN if self._baseline.excuses(name, outcome) else State.FAILED
            return Result(state, outcome, self._baseline.known(name, outcome))
        if outcome.verdict is Verdict.UNDECIDED:
            return Result(State.UNDECIDED, outcome)
        if outcome.verdict is Verdict.HOLDS:
            return Result(State.PASSED, outcome)
        return Result(State.REQUIRED if outcome.id in self._required else State.IDLE, outcome)

    def _weighed(self, name: str, verdict: RunVerdict, results: tuple[Result, ...]) -> RunVerdict:
        assert self._baseline is not None
        status = verdict.exit_status
        notes = list(verdict.notes)
        states = {result.state for result in results}
        if status == VIOLATED and State.FAILED not in states:
            status = UNDECIDED if states & {State.UNDECIDED, State.REQUIRED} else HOLDS
        for result in results:
            outcome = result.outcome
            if result.state is State.KNOWN:
                notes.append(f"{outcome.id}: {counted(outcome.violated, 'violation')}, known from the baseline.")
            elif result.state is State.FAILED:
                new = len(outcome.violations) - len(result.known)
                kept = counted(len(outcome.violations), "violation")
                notes.append(f"{outcome.id}: {new:,} of the first {kept} not in the baseline.")
                if not new:
                    notes[-1] = f"{outcome.id}: {result.headline}."
            notes += [
                f"{outcome.id}: in the baseline, but not found: {gone}" for gone in self._baseline.gone(name, outcome)
            ]
        return msgspec.structs.replace(verdict, exit_status=status, notes=tuple(notes))
