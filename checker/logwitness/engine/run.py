"""The verdict on a whole run: the outcomes of all its logs together, and the exit status that follows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec

from ..checks import all_checks, families
from ..checks.contract import Check, Loss, Outcome, Verdict, Verdicts, outcome, summed, worst
from ..checks.well_formed.operations import BEGINS_LATE
from ..checks.well_formed.rules import CHECKS as NODES
from ..checks.well_formed.rules import STARTED
from .doubt import explained

HOLDS, VIOLATED, UNUSABLE, UNDECIDED = 0, 1, 2, 3
"""Exit statuses (architecture, "Verdicts")."""
_STARTS = NODES[STARTED].id
_TRIMS = "trim-within-commit"
"""Judged where nodes are seen to trim."""


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
    set_aside: dict[str, int] = {}
    """Lines or events that a lenient reading set aside, by reason."""
    unknown_operations: dict[str, int] = {}
    """Operations that there is no rule for, by their name."""

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
            "set_aside": dict(self.set_aside),
            "unknown_operations": dict(self.unknown_operations),
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
    found: dict[str, list[tuple[Outcome, int]]] = {check.id: [] for check in checks}
    losses: list[Loss] = []
    distinct = _distinct([(log, settled(verdicts)) for log, verdicts in by_log])
    for log, verdicts, times in distinct:
        for each in verdicts.outcomes:
            if each.id in found:
                if several and each.violations:
                    named = tuple(msgspec.structs.replace(v, log=log) for v in each.violations)
                    each = msgspec.structs.replace(each, violations=named)
                found[each.id].append((each, times))
        losses += [msgspec.structs.replace(loss, log=log) if several else loss for loss in verdicts.losses or ()]
    merged = [_merged(check, found[check.id], keep) for check in checks]
    return tuple(_on_their_ground(merged, [verdicts for _, verdicts, _ in distinct])), tuple(losses)


def _on_their_ground(found: Sequence[Outcome], answers: Sequence[Verdicts]) -> Iterator[Outcome]:
    """The outcomes, those that hold by events that are not well formed as undecided (history-checks.md#ground).

    A violation stays one. And that a run is well formed is nothing where nothing else could be judged.
    """
    ground = {check.id for check in all_checks() if check.unsettles}
    lost = _without_ground(answers)
    rest = [each for each in found if each.id not in ground]
    idle = bool(rest) and all(each.verdict is Verdict.UNEXERCISED for each in rest)
    for each in found:
        if each.verdict is not Verdict.HOLDS:
            yield each
        elif each.id in lost:
            yield groundless(each, lost[each.id])
        elif idle:
            yield msgspec.structs.replace(each, verdict=Verdict.UNEXERCISED, reason="nothing rests on it")
        else:
            yield each


def groundless(found: Outcome, broken: Iterable[str]) -> Outcome:
    """What held, undecided: the checks ``broken`` say that its events are not well formed."""
    reason = f"it rests on events that are not well formed: {', '.join(broken)}"
    return msgspec.structs.replace(found, verdict=Verdict.UNDECIDED, reason=reason)


def _without_ground(answers: Sequence[Verdicts]) -> dict[str, list[str]]:
    """Of the checks that see events which a breach makes uncertain, each with the checks that say so."""
    broken = {
        each.id
        for verdicts in answers
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


def _begun_late(found: Verdicts) -> Verdicts:
    """What is said of a log whose record begins late: what may come from before that is undecided.

    Source: history-checks.md#begins-late, history-checks.md#starts-are-recorded, pull-queries.md#acts-while-it-serves.
    """
    late = [each for each in found.outcomes if each.unjudged and each.id in _telling_of_it()]
    if not late:
        return found
    # Nodes are seen to do something before a start, or there is none.
    running = any(each.id == _STARTS and (each.verdict is Verdict.UNDECIDED or not each.judged) for each in late)
    back = _looking_back(running)
    outcomes = (explained(each, BEGINS_LATE) if each.violated and each.id in back else each for each in found.outcomes)
    return replace(found, outcomes=tuple(outcomes))


@cache
def _telling_of_it() -> frozenset[str]:
    return frozenset(check.id for check in all_checks() if check.begins_late)


@cache
def _looking_back(running: bool) -> frozenset[str]:
    return frozenset(check.id for check in all_checks() if check.looks_back or (running and check.from_start))


def settled(found: Verdicts) -> Verdicts:
    """What is said of a log of which the record begins late, or a node's may end early: what that may explain is
    undecided.

    One that was complete before the record ended stands; nor does one become doubtful by nodes alone that do nothing
    any more (`Check.waits`).
    """
    found = _begun_late(found)
    since = found.quiet_since
    if since is None:
        return found
    trims = any(each.judged for each in found.outcomes if each.id == _TRIMS)
    seen = {
        check.id: check
        for family in families()
        for check in family.checks
        if family.protocol is not None or (trims and check.by_trims)
    }
    late = {
        each.id
        for each in found.outcomes
        if each.violated and each.id in seen and not seen[each.id].conclusive
        if all(max(v.events, default=-1) > since for v in each.violations)
    }
    if all(seen[each].waits for each in late):
        return found
    why = f"the record of a node seems to end at event {since}"
    outcomes = tuple(explained(each, why) if each.id in late else each for each in found.outcomes)
    return replace(found, outcomes=outcomes, quiet_since=None)


def _distinct(by_log: Sequence[tuple[str | None, Verdicts]]) -> list[tuple[str | None, Verdicts, int]]:
    """The answers with the first log that each is about, and of how many; those that name events are about one."""
    first: dict[int, int] = {}
    found: list[tuple[str | None, Verdicts, int]] = []
    for log, verdicts in by_log:
        place = first.get(id(verdicts))
        if place is None:
            if not verdicts.losses and not any(each.violated for each in verdicts.outcomes):
                first[id(verdicts)] = len(found)
            found.append((log, verdicts, 1))
        else:
            found[place] = (*found[place][:2], found[place][2] + 1)
    return found


def _merged(check: Check, outcomes: Sequence[tuple[Outcome, int]], keep: int) -> Outcome:
    if not outcomes:
        return outcome(check, 0)
    if len(outcomes) == 1 and outcomes[0][1] == 1:
        return outcomes[0][0]
    verdict = worst([each.verdict for each, _ in outcomes])
    doubtful = (verdict, Verdict.UNDECIDED) if verdict is Verdict.VIOLATED else (verdict,)
    reasons = [each.reason for of in doubtful for each, _ in outcomes if each.verdict is of and each.reason]
    excuses = summed(
        msgspec.structs.replace(excuse, facts=excuse.facts * times)
        for each, times in outcomes
        for excuse in each.excuses
    )
    return Outcome(
        check.id,
        verdict,
        sum(each.judged * times for each, times in outcomes),
        sum(each.violated * times for each, times in outcomes),
        sum(each.excused * times for each, times in outcomes),
        sum(each.unjudged * times for each, times in outcomes),
        tuple(violation for each, _ in outcomes for violation in each.violations)[:keep],
        reasons[0] if reasons else None,
        excuses,
    )


def worst_status(statuses: Sequence[int]) -> int:
    """The exit status of several runs: violated, else unusable, else undecided, else all hold."""
    for status in (VIOLATED, UNUSABLE, UNDECIDED):
        if status in statuses:
            return status
    return HOLDS
