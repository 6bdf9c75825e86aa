"""Kinds of events that a run never records, though it shows that what they tell of took place.

Who trims a log takes a snapshot before, and who compacts one was asked to, by a fault. What then lacks in a log is held
against nobody. Source: history-checks.md#never-recorded.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import msgspec

from loghistory.schema import Kind

from ..checks import all_checks, families
from ..checks.contract import Check, Outcome, Protocol, Setting, Verdict, Verdicts
from .doubt import explained

_SHOWN_BY = {
    Kind.TRIM: (Kind.SNAPSHOT, ("trim",)),
    Kind.COMPACT: (None, ("compact",)),
    Kind.INVOKE: (Kind.OK, ()),
    Kind.SEND: (Kind.RECEIVE, ()),
    Kind.TERM: (Kind.LEADER, ()),
    Kind.APPEND: (Kind.COMMIT, ()),
}
"""What shows in any log that there were some: events of another kind, or a fault or an operation of such a name."""


def unrecorded(found: Verdicts, setting: Setting) -> Verdicts:
    """What is said of a log, undecided where a kind that is not recorded may explain it, or would be judged."""
    seen, words = setting.seen, setting.words
    unsaid = {
        kind
        for kind, (shows, names) in _shown().items()
        if seen.lacks((kind,))
        and ((shows and not seen.lacks((shows,))) or not seen.asked.isdisjoint(map(words.code, names)))
    }
    due = {kind for shows, kinds in _brought() if not seen.lacks((shows,)) for kind in kinds if seen.lacks((kind,))}
    if not unsaid and not due:
        return found
    return replace(found, outcomes=tuple(_weighed(each, unsaid, due) for each in found.outcomes))


def _weighed(each: Outcome, unsaid: set[Kind], due: set[Kind]) -> Outcome:
    check = _checks().get(each.id)
    if check is None:
        return each
    if each.violated and unsaid & check.explained_by:
        return explained(each, f"no {min(unsaid & check.explained_by)} event is recorded")
    if each.verdict is Verdict.UNEXERCISED and due.intersection(check.kinds):
        reason = f"no {min(due.intersection(check.kinds))} event is recorded"
        return msgspec.structs.replace(each, verdict=Verdict.UNDECIDED, reason=reason)
    return each


@cache
def _brought() -> list[tuple[Kind, frozenset[Kind]]]:
    """What events bring with them, as all protocols declare it."""
    return [each for protocol in _protocols() for each in protocol.brings.items()]


@cache
def _shown() -> dict[Kind, tuple[Kind | None, tuple[str, ...]]]:
    """What shows that there were events of a kind, in any log and by protocol."""
    return _SHOWN_BY | {kind: (None, names) for protocol in _protocols() for kind, names in protocol.shown.items()}


def _protocols() -> set[Protocol]:
    return {family.protocol for family in families() if family.protocol is not None}


@cache
def _checks() -> dict[str, Check]:
    return {check.id: check for check in all_checks()}
