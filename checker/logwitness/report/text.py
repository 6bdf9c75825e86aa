"""The report for people: a line for each history that holds, the story of each that does not, a line of totals.

The same states of checks as in JUnit, SARIF and annotations (`report.results`), so that they agree. What a history
contains is foreign text and is printed escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.table import Table
from rich.text import Text

from loghistory import Kind, RunSource
from loghistory.errors import printable
from loghistory.schema import columns_of

from ..checks.contract import Check, Loss, Outcome, Verdict, Violation
from ..checks.faults import CAUSES, GAP
from ..engine.local import events_at
from ..engine.run import HOLDS, RunVerdict
from ..models import every_check
from .console import Output
from .results import IDLE_PROBLEM, Result, State
from .totals import Totals, counted

EXAMPLES = 3
"""Violations of a check that are explained."""

_STYLES = {
    Verdict.HOLDS: "green",
    Verdict.VIOLATED: "bold red",
    Verdict.UNDECIDED: "yellow",
    Verdict.UNEXERCISED: "yellow",
}
_COMMON = ("seq", "time", "kind", "node", "log")
_SHOWN = {
    Kind.INVOKE: ("process", "op", "f", "value", "text", "acks", "offset"),
    Kind.OBSERVE: ("process", "op", "offset", "value", "text"),
    Kind.OK: ("process", "op", "f", "offset", "term", "text"),
    Kind.FAIL: ("process", "op", "f", "reason"),
    Kind.INFO: ("process", "op", "f", "reason"),
    Kind.APPEND: ("offset", "entry_term", "value", "acks", "dirty", "flushed", "commit"),
    Kind.VOTE: ("term", "peer"),
    Kind.ROLE: ("role", "term"),
    Kind.TRUNCATE: ("offset", "term", "dirty", "commit"),
    Kind.ACKED: ("offset", "entry_term", "acks", "reason", "commit"),
    Kind.FAULT: ("f", "text"),
}
"""What is shown of events of these kinds; of others, all that their vocabulary declares."""
_LONGEST = 100
"""Characters of a field that are shown."""


class Report:
    """Prints each history as it is judged; `close` prints the totals.

    ``quiet``: only of histories that do not hold, and nothing at all if all do; ``verbose``: every check with its
    counts, why others had nothing to judge, the loss account and all notes.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self.totals = Totals()
        self._quiet, self._verbose = quiet, verbose
        self._output = Output()
        self._rules = {check.id: check.rule for check in every_check()}

    def judged(self, source: RunSource, verdict: RunVerdict, results: Sequence[Result]) -> None:
        """Print one history; ``results`` are the states of its checks, as a gate sees them."""
        self.totals.add(verdict)
        holds = verdict.exit_status == HOLDS
        if holds and self._quiet:
            return
        self._output.line(*_headline(verdict, results))
        if self._verbose:
            self._checks(verdict.checks)
        if self._verbose or not holds:
            self._stories(source, results)
            self._losses(verdict.losses)
            self._excuses(verdict.checks)
        for note in dict.fromkeys(self._notes(source, verdict, holds=holds)):  # one file a log may say the same
            self._output.line((f"note: {printable(note)}", "yellow"), indent=2)
        if self._verbose or not holds:
            self._output.line()

    def close(self) -> None:
        """Print the totals; with ``quiet`` only if something does not hold."""
        if self.totals.bad or not self._quiet:
            self._output.line(str(self.totals))

    def _notes(self, source: RunSource, verdict: RunVerdict, *, holds: bool) -> list[str]:
        """What there is to know besides. Of a run that holds what its manifest says of it is left out."""
        reported = {violation.sentence for each in verdict.checks for violation in each.violations}
        if holds and not self._verbose and source.manifest is not None:
            reported |= set(source.manifest.notes)
        return [note for note in verdict.notes if note not in reported]

    def _checks(self, outcomes: Sequence[Outcome]) -> None:
        """Every check that judged something, with the counts that are not all zero; then why the others did not."""
        exercised = [each for each in outcomes if each.verdict is not Verdict.UNEXERCISED]
        if exercised:
            columns = [name for name in _COUNTS if any(getattr(each, name) for each in exercised)]
            table = _table("check", "verdict", *columns, right=columns)
            for each in exercised:
                word = Text(str(each.verdict), style=_STYLES[each.verdict])
                numbers = [getattr(each, name) for name in columns]
                table.add_row(each.id, word, *(f"{number:,}" if number else "" for number in numbers))
            self._output.block(table, indent=2)
        idle = [each for each in outcomes if each.verdict is Verdict.UNEXERCISED]
        for each in idle:
            lacking = f" ({each.unjudged:,} unjudged)" if each.unjudged else ""
            self._output.line((f"unexercised: {each.id}: {printable(each.reason or '')}{lacking}", "dim"), indent=2)

    def _stories(self, source: RunSource, results: Sequence[Result]) -> None:
        """What makes the exit status differ from 0, and with ``verbose`` known violations as well."""
        reported = (State.FAILED, State.KNOWN) if self._verbose else (State.FAILED,)
        shown = {each.outcome.id: _shown(each) for each in results if each.state in reported}
        rows = events_at(source, (seq for violations in shown.values() for each in violations for seq in each.events))
        undecided: dict[str, list[str]] = {}
        for result in results:
            if result.state is State.UNDECIDED:
                undecided.setdefault(result.headline, []).append(result.outcome.id)
        for result in results:
            id_ = result.outcome.id
            if id_ in shown:
                self._violated(result, shown[id_], rows)
            elif result.state is State.UNDECIDED and (ids := undecided.pop(result.headline, None)):
                # What keeps many checks from an answer is told once.
                more = "" if len(ids) == 1 else f" and {counted(len(ids) - 1, 'other check')}"
                self._output.line((f"{id_}{more}: undecided: ", "yellow"), result.headline, indent=2)
            elif result.state is State.REQUIRED:
                self._output.line((f"{id_}: ", "yellow"), result.headline, indent=2)
        if all(result.state is State.IDLE for result in results):
            self._output.line((IDLE_PROBLEM if self._verbose else f"{IDLE_PROBLEM}; -v says why", "yellow"), indent=2)

    def _violated(self, result: Result, shown: Sequence[Violation], rows: Mapping[int, Mapping[str, Any]]) -> None:
        outcome = result.outcome
        rule = Text(f"rule: {self._rules.get(outcome.id, '')}", style="dim")
        if not shown:
            self._output.line((f"{outcome.id}: ", "bold red"), result.headline, indent=2)
        for place, violation in enumerate(shown):
            where = f" (log {printable(violation.log)})" if violation.log is not None else ""
            self._output.line((f"{outcome.id}{where}: ", "bold red"), printable(violation.sentence), indent=2)
            if not place:
                self._output.line(rule, indent=4)
            found = [rows[seq] for seq in violation.events if seq in rows]
            if found:
                self._output.block(_events(found), indent=4)
        left = outcome.violated - len(shown) - (len(result.known) if result.state is State.FAILED else 0)
        if shown and left > 0:
            self._output.line((f"and {left:,} more of {outcome.id}", "dim"), indent=2)
        if outcome.reason:
            self._output.line((f"besides, {outcome.id} is undecided: ", "yellow"), printable(outcome.reason), indent=2)

    def _losses(self, losses: Sequence[Loss]) -> None:
        if not losses:
            return
        self._output.line(("loss account: acknowledged, gone, and not promised by their acks level", "bold"), indent=2)
        numbers = ("batches", "entries", "bytes")
        window = "acknowledged between (s)"
        table = _table("acks", "fault", *numbers, window, right=(*numbers, window))
        for loss in losses:
            between = f"{loss.first_time / 1e9:.6f} and {loss.last_time / 1e9:.6f}"
            amounts = [f"{getattr(loss, name):,}" for name in numbers]
            table.add_row(loss.acks, Text(printable(loss.fault)), *amounts, between)
        self._output.block(table, indent=4)

    def _excuses(self, outcomes: Sequence[Outcome]) -> None:
        """What breaks a rule and is excused, and by what; with ``verbose`` also the gaps of logs that are not dense."""
        lines = [
            (each.id, f"{excuse.facts:,}", excuse.cause, " ".join(map(str, excuse.nodes)))
            for each in outcomes
            for excuse in each.excuses
            if self._verbose or excuse.cause != CAUSES[GAP]
        ]
        if not lines:
            return
        self._output.line(("excused: breaks a rule, for a reason that the rule names", "bold"), indent=2)
        table = _table("check", "facts", "cause", "nodes", right=("facts",))
        for line in lines:
            table.add_row(*line)
        self._output.block(table, indent=4)


_COUNTS = ("judged", "violated", "excused", "unjudged")


def _headline(verdict: RunVerdict, results: Sequence[Result]) -> tuple[Text | tuple[str, str] | str, ...]:
    """Path, verdict, and how much there was to judge."""
    states = {result.state for result in results}
    known = State.KNOWN in states and State.FAILED not in states
    checks = sum(each.verdict is not Verdict.UNEXERCISED for each in verdict.checks)
    unjudged = sum(each.unjudged for each in verdict.checks)
    lost = sum(loss.batches for loss in verdict.losses)
    reported = [
        counted(verdict.events, "event") + ("" if verdict.logs == 1 else f" in {counted(verdict.logs, 'log')}"),
        counted(checks, "check"),
        counted(sum(each.judged for each in verdict.checks), "fact"),
        *([counted(violated, "violation")] if (violated := sum(each.violated for each in verdict.checks)) else []),
        *([f"{unjudged:,} unjudged"] if unjudged else []),
        *_excused(verdict.checks),
        *([counted(lost, "permitted loss", "permitted losses")] if lost else []),
    ]
    word = f"{verdict.verdict}{' (known)' if known else ''}"
    style = _STYLES[verdict.verdict] if verdict.exit_status else "green"
    return printable(verdict.run), "  ", (word, style), "  ", (", ".join(reported), "dim")


def _excused(outcomes: Iterable[Outcome]) -> list[str]:
    """How many facts are excused, and by what, as in "3 excused (2 wipe, 1 gap)"; nothing if none is."""
    causes = Counter[str]()
    for each in outcomes:
        for excuse in each.excuses:
            causes[excuse.cause] += excuse.facts
    if len(causes) == 1:
        return [f"{facts:,} excused ({cause})" for cause, facts in causes.items()]
    by_cause = ", ".join(f"{facts:,} {cause}" for cause, facts in causes.most_common())
    return [f"{causes.total():,} excused ({by_cause})"] if causes else []


def _shown(result: Result) -> list[Violation]:
    """The violations to explain: those that the baseline does not have, unless it has all."""
    found = result.outcome.violations
    new = [each for place, each in enumerate(found) if place not in result.known or result.state is State.KNOWN]
    return new[:EXAMPLES]


def _table(*names: str, right: Iterable[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def _events(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The events that show a violation; their times only if the history has any."""
    timed = any(row["time"] for row in rows)
    names = ["seq", *(["seconds"] if timed else []), "where", "event", ""]
    table = _table(*names, right=("seq", "seconds"))
    for row in rows:
        kind = Kind(row["kind"])
        where = f"client {row['process']}" if "process" in row else f"node {row['node']}" if "node" in row else ""
        fields = [name for name in _SHOWN.get(kind) or columns_of(kind) if name in row and name not in _COMMON]
        said = {"process", *(("last_offset",) if "offset" in row else ())}
        fields = [name for name in fields if name not in said]
        words = Text(" ".join(_field(name, row) for name in fields))
        seconds = [f"{row['time'] / 1e9:.6f}"] if timed else []
        table.add_row(str(row["seq"]), *seconds, where, str(kind), words)
    return table


def _field(name: str, row: Mapping[str, Any]) -> str:
    value = row[name]
    if name == "offset" and row.get("last_offset", value) != value:
        return f"offset={value}..{row['last_offset']}"
    if name == "acks":
        value = "all" if value == -1 else value
    text = printable(str(value))
    return f"{name}={text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}"


def print_checks(listed: Sequence[tuple[str, Check, Sequence[str]]]) -> None:
    """Print what can be judged: family by family the checks, with the models that they judge."""
    output = Output()
    for family, checks in groupby(listed, key=itemgetter(0)):
        output.line((family, "bold underline"))
        for _, check, models in checks:
            output.line((check.id, "bold"))
            for line in (
                check.rule,
                f"source: {'; '.join(check.source)}",
                f"judges: {', '.join(models)}",
                f"needs: {', '.join(check.kinds) or 'any events'} with {', '.join(check.columns)}",
                f"a fact: {check.fact}",
            ):
                output.line(line, indent=2)
        output.line()
