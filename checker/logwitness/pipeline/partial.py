"""The verdict on a run from its parts: families judged by different tasks, or logs judged by different tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ..checks import families
from ..checks.contract import Excuse, Family, Loss, Outcome, Verdict, Verdicts, Violation, quiet_first, summed, worst

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


@dataclass(slots=True)
class _Check:
    judged: int = 0
    violated: int = 0
    excused: int = 0
    unjudged: int = 0
    reasons: dict[Verdict, tuple[int, str | None]] = field(default_factory=dict)
    """Of every verdict given, the first reason and the place of its log."""
    violations: list[tuple[int, Violation]] = field(default_factory=list)
    excuses: tuple[Excuse, ...] = ()


@dataclass(slots=True)
class ManyLogs:
    """The outcomes of any number of logs, together; parts are merged in any order.

    ``place`` of a log says which comes first, where only the first few are kept.
    """

    keep: int
    logs: int = 0
    losses: list[tuple[int, Loss]] = field(default_factory=list)
    checks: dict[str, _Check] = field(default_factory=dict)

    def add(self, place: int, log: str | None, verdicts: Verdicts) -> None:
        """Count what the families say about one log; ``log`` is its name, None: the only one."""
        self.logs += 1
        self.tell(place, verdicts.outcomes, log)
        self.losses += [(place, msgspec.structs.replace(loss, log=log)) for loss in verdicts.losses or ()]

    def tell(self, place: int, outcomes: Sequence[Outcome], log: str | None = None) -> None:
        """What checks say about a log, or about many that hold."""
        for each in outcomes:
            violations = [(place, msgspec.structs.replace(v, log=log)) for v in each.violations]
            counts = (each.judged, each.violated, each.excused, each.unjudged)
            self._count(each.id, counts, {each.verdict: (place, each.reason)}, violations, each.excuses)

    def merge(self, other: ManyLogs) -> None:
        """Count the logs of another part, which are others than those counted here."""
        self.logs += other.logs
        self.losses += other.losses
        for id_, check in other.checks.items():
            counts = (check.judged, check.violated, check.excused, check.unjudged)
            self._count(id_, counts, check.reasons, check.violations, check.excuses)

    def _count(
        self,
        id_: str,
        counts: tuple[int, int, int, int],
        reasons: Mapping[Verdict, tuple[int, str | None]],
        violations: Sequence[tuple[int, Violation]],
        excuses: Sequence[Excuse],
    ) -> None:
        check = self.checks.setdefault(id_, _Check())
        judged, violated, excused, unjudged = counts
        check.judged += judged
        check.violated += violated
        check.excused += excused
        check.unjudged += unjudged
        if excuses:
            check.excuses = summed([*check.excuses, *excuses])
        for verdict, found in reasons.items():
            earlier = check.reasons.get(verdict)
            if earlier is None or (found[1] is not None and (earlier[1] is None or found < earlier)):
                check.reasons[verdict] = found
        if violations:
            check.violations = sorted([*check.violations, *violations], key=lambda pair: pair[0])[: self.keep]

    def by_log(self) -> ByLog:
        """All logs as if they were one, for `engine.local.concluded`; violations and losses name theirs."""
        outcomes = []
        for family in families():
            for each in family.checks:
                check = self.checks.get(each.id)
                if check is not None:
                    verdict = worst(list(check.reasons))
                    kept = tuple(violation for _, violation in check.violations)
                    numbers = (check.judged, check.violated, check.excused, check.unjudged)
                    rest = (kept, check.reasons[verdict][1], check.excuses)
                    outcomes.append(Outcome(each.id, verdict, *numbers, *rest))
        losses = tuple(loss for _, loss in sorted(self.losses, key=lambda pair: pair[0]))
        return [(None, Verdicts(tuple(outcomes), losses))]
