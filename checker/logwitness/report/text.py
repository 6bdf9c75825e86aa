"""The report for people: a table of verdicts, each violation explained by its events, the loss account.

What a history contains is foreign text: control characters appear as escapes, for a terminal would obey them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from loghistory import Kind
from loghistory.errors import printable

from ..checks.contract import Check, Loss, Outcome, Verdict
from ..engine.run import RunVerdict

_STYLES = {
    Verdict.HOLDS: "green",
    Verdict.VIOLATED: "bold red",
    Verdict.UNDECIDED: "yellow",
    Verdict.UNEXERCISED: "dim",
}
_LEAST_WIDTH = 80
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
_STATE = ("term", "dirty", "flushed", "commit", "visible")


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        # A pipe or a file has no width of its own; one that people can read is the same everywhere.
        console = Console(highlight=False, width=_LEAST_WIDTH, soft_wrap=False)
    return console


def print_run(verdict: RunVerdict, events: Mapping[int, Mapping[str, Any]], examples: int) -> None:
    """Print the verdict on a run; ``events`` are those that the first ``examples`` violations of each check name."""
    console = _console()
    title = Text(printable(verdict.run) + "  ")
    title.append(str(verdict.verdict), style=_STYLES[verdict.verdict])
    logs = "" if verdict.logs == 1 else f" in {verdict.logs:,} logs"
    title.append(f"  ({verdict.events:,} events{logs})", style="dim")
    console.print(title)
    console.print(_verdicts(verdict.checks))
    idle = [each for each in verdict.checks if each.verdict is Verdict.UNEXERCISED]
    if idle:
        console.print(Text("unexercised: " + ", ".join(each.id for each in idle), style="dim"))
    for each in verdict.checks:
        if each.violated:
            _explain(console, each, events, examples)
    _print_losses(console, verdict.losses)
    for note in verdict.notes:
        console.print(Text(f"note: {printable(note)}", style="yellow"))
    console.print()


def _verdicts(outcomes: Sequence[Outcome]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("check")
    table.add_column("verdict")
    table.add_column("judged", justify="right")
    table.add_column("violated", justify="right")
    table.add_column("excused", justify="right")
    for each in outcomes:
        if each.verdict is Verdict.UNEXERCISED:
            continue
        style = _STYLES[each.verdict]
        word = f"[{style}]{each.verdict}[/]"
        if each.reason:
            word += f" ({escape(printable(each.reason))})"
        numbers = [f"{number:,}" if number else "" for number in (each.violated, each.excused)]
        table.add_row(each.id, word, f"{each.judged:,}", *numbers)
    return table


def _explain(console: Console, each: Outcome, events: Mapping[int, Mapping[str, Any]], examples: int) -> None:
    console.print()
    for violation in each.violations[:examples]:
        where = f" (log {printable(violation.log)})" if violation.log is not None else ""
        console.print(Text.assemble((f"{each.id}{where}: ", "bold red"), printable(violation.sentence)))
        console.print(Padding(_event_table([events[seq] for seq in violation.events if seq in events]), (0, 0, 0, 2)))
    left = each.violated - min(examples, len(each.violations))
    if left:
        console.print(Text(f"  and {left:,} more of {each.id}", style="dim"))


def _event_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    for name, right in (("seq", True), ("seconds", True), ("where", False), ("event", False), ("", False)):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        kind = Kind(row["kind"])
        where = f"client {row['process']}" if "process" in row else f"node {row['node']}" if "node" in row else ""
        fields = [name for name in _SHOWN.get(kind, _STATE) if name in row and name not in _COMMON]
        if "process" in row:
            fields = [name for name in fields if name != "process"]
        words = " ".join(_field(name, row) for name in fields)
        table.add_row(str(row["seq"]), f"{row['time'] / 1e9:.6f}", where, str(kind), escape(words))
    return table


def _field(name: str, row: Mapping[str, Any]) -> str:
    value = row[name]
    if name == "offset" and row.get("last_offset", value) != value:
        return f"offset={value}..{row['last_offset']}"
    if name == "acks":
        value = "all" if value == -1 else value
    return f"{name}={printable(str(value))}"


def _print_losses(console: Console, losses: Sequence[Loss]) -> None:
    if not losses:
        return
    console.print(Text("\nloss account: acknowledged, gone, and not promised by their acks level", style="bold"))
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    for name in ("acks", "fault", "batches", "entries", "bytes", "acknowledged between (s)"):
        table.add_column(name, justify="left" if name in ("acks", "fault") else "right")
    for loss in losses:
        window = f"{loss.first_time / 1e9:.6f} and {loss.last_time / 1e9:.6f}"
        numbers = [f"{number:,}" for number in (loss.batches, loss.entries, loss.bytes)]
        table.add_row(loss.acks, escape(printable(loss.fault)), *numbers, window)
    console.print(table)


def print_checks(listed: Sequence[tuple[str, Check, Sequence[str]]]) -> None:
    """Print what can be judged: family by family the checks, with the models that they judge."""
    console = _console()
    for family, checks in groupby(listed, key=itemgetter(0)):
        console.print(Text(family, style="bold underline"))
        for _, check, models in checks:
            console.print(Text(check.id, style="bold"))
            for line in (
                check.rule,
                f"source: {'; '.join(check.source)}",
                f"judges: {', '.join(models)}",
                f"needs: {', '.join(check.kinds) or 'any events'} with {', '.join(check.columns)}",
                f"a fact: {check.fact}",
            ):
                console.print(Padding(Text(line), (0, 0, 0, 2)))
        console.print()
