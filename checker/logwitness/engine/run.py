"""The verdict on a whole run: the outcomes of all its logs together, and the exit status that follows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from ..checks import all_checks, families
from ..checks.contract import Check, Loss, Outcome, Verdict, Verdicts, outcome, summed, worst

HOLDS, VIOLATED, UNUSABLE, UNDECIDED = 0, 1, 2, 3
"""Exit statuses (architecture, "Verdicts")."""


class RunVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the checks say about one run; `document` is its JSON form."""

    run: str
    verdict: Verdict
    exit_status: int
    events: int
    """Events read."""
    logs: int
    """Logs judged."""
    checks: tuple[Outcome, ...]
    losses: tuple[Loss, ...] = ()
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Plain dictionaries and lists, every field present."""
        result: dict[str, Any] = {
            "run": self.run,
            "verdict": str(self.verdict),
            "exit_status": self.exit_status,
            "events": self.events,
            "logs": self.logs,
            "checks": [
                {
                    "id": each.id,
                    "verdict": str(each.verdict),
                    "judged": each.judged,
                    "violated": each.violated,
                    "excused": each.excused,
                    "unjudged": each.unjudged,
                    "reason": each.reason,
                    "excuses": msgspec.to_builtins(list(each.excuses)),
                    "violations": [
                        {"sentence": v.sentence, "events": list(v.events), "log": v.log} for v in each.violations
                    ],
                }
                for each in self.checks
            ],
            "losses": msgspec.to_builtins(list(self.losses)),
            "notes": list(self.notes),
        }
        return result


def exit_status(checks: Sequence[Outcome], required: Collection[str] = ()) -> int:
    """0 all hold; 1 violated; 3 undecided, a required check unexercised or not judged, or nothing exercised at all."""
    verdict = worst([each.verdict for each in checks])
    if verdict is Verdict.VIOLATED:
        return VIOLATED
    exercised = {each.id for each in checks if each.verdict is not Verdict.UNEXERCISED}
    if verdict is not Verdict.HOLDS or set(required) - exercised:
        return UNDECIDED
    return HOLDS


def together(
    checks: Sequence[Check], by_log: Sequence[tuple[str | None, Verdicts]], keep: int
) -> tuple[tuple[Outcome, ...], tuple[Loss, ...]]:
    """The outcomes of a run from those of its logs, in the order of ``checks``, and its loss account."""
    several = len(by_log) > 1
    found: dict[str, list[Outcome]] = {check.id: [] for check in checks}
    losses: list[Loss] = []
    for log, verdicts in by_log:
        for each in verdicts.outcomes:
            if each.id in found:
                if several:
                    named = tuple(msgspec.structs.replace(v, log=log) for v in each.violations)
                    each = msgspec.structs.replace(each, violations=named)
                found[each.id].append(each)
        losses += [msgspec.structs.replace(loss, log=log) if several else loss for loss in verdicts.losses or ()]
    merged = [_merged(check, found[check.id], keep) for check in checks]
    return tuple(_on_their_ground(merged, by_log)), tuple(losses)


def _on_their_ground(found: Sequence[Outcome], by_log: Sequence[tuple[str | None, Verdicts]]) -> Iterator[Outcome]:
    """The outcomes, those that hold by events that are not well formed as undecided (history-checks.md#ground).

    A violation stays one. And that a run is well formed is nothing where nothing else could be judged.
    """
    ground = {check.id for check in all_checks() if check.unsettles}
    lost = _without_ground(by_log)
    rest = [each for each in found if each.id not in ground]
    idle = bool(rest) and all(each.verdict is Verdict.UNEXERCISED for each in rest)
    for each in found:
        if each.verdict is not Verdict.HOLDS:
            yield each
        elif each.id in lost:
            reason = f"it rests on events that are not well formed: {', '.join(lost[each.id])}"
            yield msgspec.structs.replace(each, verdict=Verdict.UNDECIDED, reason=reason)
        elif idle:
            yield msgspec.structs.replace(each, verdict=Verdict.UNEXERCISED, reason="nothing rests on it")
        else:
            yield each


def _without_ground(by_log: Sequence[tuple[str | None, Verdicts]]) -> dict[str, list[str]]:
    """Of the checks that see events which a breach makes uncertain, each with the checks that say so."""
    broken = {
        each.id
        for _, verdicts in by_log
        for each in verdicts.outcomes
        if each.verdict in (Verdict.VIOLATED, Verdict.UNDECIDED)
    }
    unsettled = [check for check in all_checks() if check.unsettles and check.id in broken]
    lost: dict[str, list[str]] = {}
    for family in families() if unsettled else ():
        said = [check.id for check in unsettled if check.unsettles & family.kinds]
        if said and not family.is_ground:
            lost |= {check.id: said for check in family.checks}
    return lost


def _merged(check: Check, outcomes: Sequence[Outcome], keep: int) -> Outcome:
    if not outcomes:
        return outcome(check, 0)
    if len(outcomes) == 1:
        return outcomes[0]
    verdict = worst([each.verdict for each in outcomes])
    reasons = [each.reason for each in outcomes if each.verdict is verdict and each.reason]
    excuses = summed(excuse for each in outcomes for excuse in each.excuses)
    return Outcome(
        check.id,
        verdict,
        sum(each.judged for each in outcomes),
        sum(each.violated for each in outcomes),
        sum(each.excused for each in outcomes),
        sum(each.unjudged for each in outcomes),
        tuple(violation for each in outcomes for violation in each.violations)[:keep],
        reasons[0] if reasons else None,
        excuses,
    )


def worst_status(statuses: Sequence[int]) -> int:
    """The exit status of several runs: violated, else unusable, else undecided, else all hold."""
    for status in (VIOLATED, UNUSABLE, UNDECIDED):
        if status in statuses:
            return status
    return HOLDS
