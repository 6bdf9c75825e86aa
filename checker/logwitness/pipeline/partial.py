"""The verdict on a run whose families were judged by different tasks."""

from __future__ import annotations

from collections.abc import Sequence

from ..checks.contract import Family, Loss, Outcome, Verdicts, quiet_first

ByLog = Sequence[tuple[str | None, Verdicts]]
"""What `engine.local.judge_logs` answers."""


def groups(families: Sequence[Family], parts: int) -> list[tuple[Family, ...]]:
    """The families in at most so many groups of neighbours, of about the same number of columns to work on."""
    total = sum(len(family.columns) for family in families)
    result: list[list[Family]] = []
    before = 0
    for family in families:
        middle = before + len(family.columns) / 2
        if not result or middle * parts >= total * len(result):
            result.append([])
        result[-1].append(family)
        before += len(family.columns)
    return [tuple(group) for group in result]


def joined_by_log(parts: Sequence[ByLog]) -> ByLog:
    """What several groups of families say, as one answer. The groups are in the order of `families`."""
    outcomes: dict[str | None, tuple[Outcome, ...]] = {}
    losses: dict[str | None, tuple[Loss, ...] | None] = {}
    quiet: dict[str | None, list[Verdicts]] = {}
    for part in parts:
        for log, verdicts in part:
            outcomes[log] = outcomes.get(log, ()) + verdicts.outcomes
            quiet.setdefault(log, []).append(verdicts)
            # As in `engine.logs`: the last family that can tell is believed.
            losses[log] = losses.get(log) if verdicts.losses is None else verdicts.losses
    return [(log, Verdicts(found, losses[log], quiet_first(quiet[log]))) for log, found in outcomes.items()]
