"""The report of ``logwitness validate`` for people: a table of what broke and where, then how to reproduce each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from .console import Output

_STYLES = {"holds": "green", "violated": "bold red", "undecided": "yellow"}
_KEPT = 2
"""Results that hold are listed one by one up to this many a stage; more are counted."""


def print_validation(subject: str, stages: Sequence[str], results: Sequence[Mapping[str, Any]], seconds: float) -> None:
    """Print the table, and below it the evidence and the commands of everything that does not hold."""
    output = Output()
    table = Table(box=None, pad_edge=False)
    for heading in ("stage", "what", "verdict", "because"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("stage", "verdict"))
    bad: list[Mapping[str, Any]] = []
    for stage in stages:
        for row in _rows([result for result in results if result["stage"] == stage]):
            mark = ""
            if row["verdict"] != "holds":
                bad.append(row)
                mark = f"[{len(bad)}] "
            verdict = Text(row["verdict"], style=_STYLES[row["verdict"]])
            table.add_row(stage, Text(mark + row["item"]), verdict, Text(row["sentence"]))
    output.block(table)
    for number, row in enumerate(bad, 1):
        if not row["shows"] and not row["again"]:
            continue
        output.line()
        output.line((f"[{number}] {row['stage']}, {row['item']}", "bold"))
        for line in [*row["shows"].splitlines(), *row["again"]]:
            output.copied(line, indent=4)
    output.line()
    output.line(f"{subject}: {_summary(results)} ({seconds:.0f} s)")


def _rows(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What is listed of one stage: all that is wrong, then what holds, counted if it is much."""
    good = [result for result in results if result["verdict"] == "holds"]
    rows = sorted((r for r in results if r["verdict"] != "holds"), key=lambda r: r["verdict"] != "violated")
    if len(good) <= _KEPT:
        return [*rows, *good]
    families = Counter(result["item"].partition("/")[0] for result in good)
    counted = {
        "item": f"{len(good)} others" if rows else f"all {len(good)}",
        "verdict": "holds",
        "sentence": ", ".join(f"{name} {number}" for name, number in families.items()),
    }
    return [*rows, counted]


def _summary(results: Sequence[Mapping[str, Any]]) -> str:
    verdicts = [result["verdict"] for result in results]
    violated, undecided = verdicts.count("violated"), verdicts.count("undecided")
    if not violated and not undecided:
        return "everything holds"
    parts = [f"{violated} violated"] if violated else []
    return ", ".join([*parts, f"{undecided} undecided"] if undecided else parts)
