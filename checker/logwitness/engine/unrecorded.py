"""Kinds of events that a run never records, though it shows that what they tell of took place.

Who trims a log takes a snapshot before, and who compacts one was asked to, by a fault. What then lacks in a log is held
against nobody. Source: history-checks.md#never-recorded.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import msgspec

from loghistory.schema import Kind

from ..checks import all_checks
from ..checks.contract import Check, Outcome, Setting, Verdict, Verdicts
from .doubt import explained

_SHOWN_BY = {
    Kind.TRIM: (Kind.SNAPSHOT, "trim"),
    Kind.COMPACT: (None, "compact"),
    Kind.TRIM_POINT: (None, "trim_log"),
    Kind.INVOKE: (Kind.OK, None),
    Kind.SEND: (Kind.RECEIVE, None),
    Kind.TERM: (Kind.LEADER, None),
    Kind.APPEND: (Kind.COMMIT, None),
}
"""What shows that there were some: events of another kind, or a fault or an operation of this name."""


_ALWAYS_WITH = {
    Kind.STREAM_RECORD: {
        *(Kind.NODESET, Kind.TAKES_PART, Kind.COPY, Kind.ACKNOWLEDGE, Kind.RELEASE, Kind.SHIP),
        *(Kind.STREAM_SETTINGS, Kind.STREAM_METADATA, Kind.STREAM_START, Kind.STREAM_STARTED, Kind.STREAM_HEARD),
    },
    Kind.ROWS: {Kind.SERVE, Kind.ASSIGNED, Kind.ROUTE, Kind.ANSWER, Kind.FINISH},
}
"""What there must have been where there are events of a kind: a check that cannot judge without it is undecided."""


def unrecorded(found: Verdicts, setting: Setting) -> Verdicts:
    """What is said of a log, undecided where a kind that is not recorded may explain it, or would be judged."""
    seen, words = setting.seen, setting.words
    unsaid = {
        kind
        for kind, (shows, word) in _SHOWN_BY.items()
        if seen.lacks((kind,)) and ((shows and not seen.lacks((shows,))) or (word and words.code(word) in seen.asked))
    }
    due = {
        kind
        for shows, kinds in _ALWAYS_WITH.items()
        if not seen.lacks((shows,))
        for kind in kinds
        if seen.lacks((kind,))
    }
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
def _checks() -> dict[str, Check]:
    return {check.id: check for check in all_checks()}
