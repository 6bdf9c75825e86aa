"""What an audit has found in all, from its tables: for people in 80 columns, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from loghistory.errors import printable

from ..checks import all_checks
from ..engine.run import UNDECIDED, UNUSABLE, VIOLATED, worst_status
from ..report.totals import counted
from .audit import Counts
from .sources import PassedOver
from .store import Store
from .tables import RUNS

WIDTH = 80
_COUNTS = ("judged", "violated", "excused", "unjudged")
_NAMED = 10
"""Histories of a kind that are named; all are in the tables."""


class Summary(msgspec.Struct):
    """The state of all tables, and what this audit added."""

    histories: int
    verdicts: dict[str, int]
    events: int
    quarantined: int
    """Lines or events that were set aside, and histories that could not be read."""
    bytes: int
    checks: dict[str, dict[str, int]]
    """By check id: facts judged, violations, excused, unjudged, and the number of histories that violate it."""
    losses: list[dict[str, Any]]
    """By acks level and fault: batches, entries, bytes, histories."""
    violated: list[str]
    unreadable: list[str]
    undecided: list[str]
    """The first histories that are."""
    seen: int
    judged: int
    unchanged: int
    skipped: int
    """Files that were passed over."""
    passed_over: list[str]
    """The first of them, with the reason."""
    exit_status: int


def summarize(store: Store, counts: Counts, passed_over: PassedOver) -> Summary:
    """Read the tables and add them up."""
    runs = store.table(RUNS, ["run", "verdict", "exit_status", "events", "quarantined", "bytes"])
    verdicts = Counter(runs.column("verdict").to_pylist())

    def named(status: int) -> list[str]:
        found = runs.filter(pc.equal(runs.column("exit_status"), status)).column("run")
        return sorted(found.to_pylist())[:_NAMED]

    return Summary(
        runs.num_rows,
        dict(sorted(verdicts.items())),
        pc.sum(runs.column("events")).as_py() or 0,
        pc.sum(runs.column("quarantined")).as_py() or 0,
        pc.sum(runs.column("bytes")).as_py() or 0,
        _checks(store),
        _losses(store),
        named(VIOLATED),
        named(UNUSABLE),
        named(UNDECIDED),
        counts.seen,
        counts.judged,
        counts.unchanged,
        passed_over.count,
        passed_over.names,
        worst_status(statuses) if (statuses := _statuses(runs)) else UNDECIDED,
    )


def _statuses(runs: pa.Table) -> list[int]:
    return [status for status in pc.unique(runs.column("exit_status")).to_pylist() if status is not None]


def _checks(store: Store) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for part in store.parts("verdicts", ["check", *_COUNTS]):
        broken = pc.cast(pc.greater(part.column("violated"), 0), "int64")
        sums = [(name, "sum") for name in (*_COUNTS, "histories")]
        for row in part.append_column("histories", broken).group_by("check").aggregate(sums).to_pylist():
            counter = found.setdefault(row["check"], Counter())
            counter.update({name: row[f"{name}_sum"] for name in (*_COUNTS, "histories")})
    order = {check.id: place for place, check in enumerate(all_checks())}
    return {id_: dict(found[id_]) for id_ in sorted(found, key=lambda id_: (order.get(id_, len(order)), id_))}


def _losses(store: Store) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], Counter[str]] = {}
    for part in store.parts("losses", ["run_id", "acks", "fault", "batches", "entries", "bytes"]):
        sums: list[tuple[str, str]] = [(name, "sum") for name in ("batches", "entries", "bytes")]
        for row in part.group_by(["acks", "fault"]).aggregate([*sums, ("run_id", "count_distinct")]).to_pylist():
            counter = found.setdefault((row["acks"], row["fault"]), Counter())
            counter.update({name: row[f"{name}_sum"] for name, _ in sums})
            counter["histories"] += row["run_id_count_distinct"]
    return [{"acks": acks, "fault": fault} | dict(counter) for (acks, fault), counter in sorted(found.items())]


def as_text(summary: Summary) -> str:
    """The summary for people: counts, the table of checks, the loss account, the first histories that do not hold."""
    lines = [
        f"{summary.histories:,} histories, {summary.events:,} events, {summary.quarantined:,} set aside in quarantine",
        "  " + ", ".join(f"{count:,} {verdict}" for verdict, count in summary.verdicts.items()),
        f"this audit: {summary.seen:,} seen, {summary.judged:,} judged, {summary.unchanged:,} unchanged"
        + (f", {counted(summary.skipped, 'file')} passed over" if summary.skipped else ""),
    ]
    exercised = {id_: counts for id_, counts in summary.checks.items() if counts["judged"] or counts["violated"]}
    idle = [id_ for id_ in summary.checks if id_ not in exercised]
    if exercised:
        lines += ["", *_check_lines(exercised)]
    if idle:
        lines += _wrapped("unexercised: ", idle)
    if summary.losses:
        lines += ["", "loss account: acknowledged, gone, and not promised by their acks level"]
        lines.append(f"{'acks':<6}{'fault':<26}{'batches':>12}{'entries':>12}{'bytes':>14}{'histories':>10}")
        for row in summary.losses:
            numbers = f"{row['batches']:>12,}{row['entries']:>12,}{row['bytes']:>14,}{row['histories']:>10,}"
            lines.append(f"{row['acks']:<6}{printable(row['fault'])[:25]:<26}{numbers}")
    rows = (
        ("violated", summary.violated, summary.verdicts.get("violated", 0)),
        ("unreadable", summary.unreadable, summary.verdicts.get("unreadable", 0)),
        ("undecided or nothing to judge", summary.undecided, 0),
        ("passed over", summary.passed_over, summary.skipped),
    )
    for what, runs, count in rows:
        if runs:
            lines += ["", f"{what}:", *(f"  {printable(run)}" for run in runs)]
            if count > len(runs):
                lines.append(f"  and {count - len(runs):,} more")
    return "\n".join(lines) + "\n"


def _check_lines(checks: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The table of checks, with the counts that are not all zero, and the number of histories that violate each."""
    columns = [name for name in _COUNTS if any(counts[name] for counts in checks.values())]
    if "violated" in columns:
        columns.append("histories")
    first = max(map(len, checks))
    widths = {name: max(len(name), *(len(f"{counts[name]:,}") for counts in checks.values())) for name in columns}
    lines = [f"{'check':<{first}}" + "".join(f"  {name:>{widths[name]}}" for name in columns)]
    for id_, counts in checks.items():
        numbers = [(f"{counts[name]:,}" if counts[name] else "").rjust(widths[name]) for name in columns]
        lines.append("  ".join([id_.ljust(first), *numbers]).rstrip())
    return lines


def _wrapped(title: str, words: Sequence[str]) -> list[str]:
    lines = [title]
    for place, word in enumerate(words):
        chunk = word + ("," if place < len(words) - 1 else "")
        if len(lines[-1]) + len(chunk) + 1 > WIDTH:
            lines.append("  ")
        lines[-1] += chunk if lines[-1].endswith(": ") or not lines[-1].strip() else f" {chunk}"
    return lines
