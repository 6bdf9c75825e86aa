"""Events whose effect nobody looks at before another one takes its place.

Most of what a fold is told of a server replaces what it was told before: offsets passed, reports heard and kept. An
event that is plainly right, and is followed by another of its kind before anything looks at what it left, need not be
taken at all.
"""

from __future__ import annotations

import numpy as np

from loghistory.schema import Kind

from ...codes import code
from ...columns import Array, Columns, Ints, by_number
from .finder import Plain

_FOLD, _REPORT, _REPORT_HEARD, _REPORT_KEPT, _ASSIGNED, _SERVE = map(
    code, (Kind.FOLD, Kind.REPORT, Kind.REPORT_HEARD, Kind.REPORT_KEPT, Kind.ASSIGNED, Kind.SERVE)
)
_CHANGELOG, _ROUTE, _SHOWN, _ANSWER, _GIVE_UP = map(
    code, (Kind.CHANGELOG, Kind.ROUTE, Kind.SHOWN, Kind.ANSWER, Kind.GIVE_UP)
)
_WIDE = 1 << 32


def before_others(owner: Ints, part: Ints, places: Ints, looks: tuple[Ints, Ints]) -> Ints:
    """Of events at ascending ``places``: which one of the same owner and part comes next (its place among them).

    -1 if there is none, or if what ``looks`` (owners, with places) tells comes before it, or is it.
    """
    looked = np.sort(looks[0] * _WIDE + looks[1])
    seen = np.searchsorted(looked, owner * _WIDE + places, side="right")
    order = by_number(part)
    order = order[by_number(owner[order])]
    one, other = order[:-1], order[1:]
    same = (owner[one] == owner[other]) & (part[one] == part[other]) & (seen[one] == seen[other])
    found = np.full(len(places), -1)
    found[one[same]] = other[same]
    return found


def _numbers(columns: Columns, which: Ints, one: str, other: str) -> tuple[Ints, Ints]:
    return getattr(columns, one)[which].astype(np.int64), getattr(columns, other)[which].astype(np.int64)


def _at_least(columns: Columns, folds: Ints, following: Ints) -> Array:
    """Whether a fold is followed by one that passes as much at least."""
    last = columns.last_offset[folds]
    return (following >= 0) & (last <= last[following])


def for_tables(columns: Columns, plain: Plain) -> Array:
    """Events that the fold of tables need not take."""
    right, hidden = plain.right, np.zeros(len(columns.seq), bool)

    reports = plain.of(_REPORT)
    of_lives = plain.of(_ASSIGNED, _SERVE)
    node = columns.node[reports].astype(np.int64)
    wrong = reports[~right[reports]]
    looks = np.concatenate((wrong, of_lives))
    owners = columns.node[looks].astype(np.int64)
    as_reported = before_others(node, np.zeros_like(node), reports, (owners, looks)) >= 0

    folds = plain.of(_FOLD)
    looks = np.concatenate((wrong, plain.of(_SERVE)))
    owners = columns.node[looks].astype(np.int64)
    hidden[folds] = _at_least(
        columns, folds, before_others(*_numbers(columns, folds, "node", "partition"), folds, (owners, looks))
    )

    kept = plain.of(_REPORT_KEPT)
    routes = plain.of(_ROUTE)
    looks = np.concatenate((kept[~right[kept]], routes[~plain.events[routes]], plain.of(_SHOWN)))
    owners = columns.node[looks].astype(np.int64)
    after = before_others(*_numbers(columns, kept, "node", "peer"), kept, (owners, looks))
    hidden[kept] = right[kept] & (after >= 0)

    heard = plain.of(_REPORT, _REPORT_HEARD)
    node, peer = _numbers(columns, heard, "node", "peer")
    made = columns.kind[heard] == _REPORT
    peer[made] = node[made]
    looks = kept[~hidden[kept]]
    owner, other = _numbers(columns, looks, "node", "peer")
    few = (min(int(each.min(initial=0)) for each in (node, peer, owner, other)) >= 0) and (
        max(int(each.max(initial=0)) for each in (node, peer, owner, other)) < 1 << 15
    )
    if few:
        hidden[heard] = before_others(node << 15 | peer, np.zeros_like(node), heard, (owner << 15 | other, looks)) >= 0
    hidden[reports] &= right[reports] & as_reported
    logs = plain.of(_CHANGELOG)
    hidden[logs] = right[logs]
    return hidden


def for_placements(columns: Columns, plain: Plain) -> Array:
    """Events that the fold of placements need not take."""
    right, hidden = plain.right, np.zeros(len(columns.seq), bool)

    folds, answers = plain.of(_FOLD), plain.of(_ANSWER, _GIVE_UP)
    answers = answers[~plain.placed[answers]]
    wrong = folds[~right[folds]]
    looks = np.concatenate((wrong, answers, plain.of(_SERVE)))
    owners = columns.node[looks].astype(np.int64)
    after = before_others(*_numbers(columns, folds, "node", "partition"), folds, (owners, looks))
    hidden[folds] = right[folds] & _at_least(columns, folds, after)

    kept = plain.of(_REPORT_KEPT)
    own = kept[columns.peer[kept] == columns.node[kept]]
    hidden[kept] = True
    node = columns.node[own].astype(np.int64)
    hidden[own] = before_others(node, np.zeros_like(node), own, (columns.node[answers].astype(np.int64), answers)) >= 0

    reports, looks = plain.of(_REPORT), own[~hidden[own]]
    node = columns.node[reports].astype(np.int64)
    owners = columns.node[looks].astype(np.int64)
    hidden[reports] = before_others(node, np.zeros_like(node), reports, (owners, looks)) >= 0

    logs = plain.of(_CHANGELOG)
    looks = np.concatenate((wrong, logs[~right[logs]]))
    partition, epoch = _numbers(columns, logs, "partition", "epoch")
    owners = columns.partition[looks].astype(np.int64)
    after = before_others(partition, np.zeros_like(partition), logs, (owners, looks))
    order = np.argsort(partition, kind="stable")
    rising = np.ones(len(logs), bool)
    rising[order[1:]] = (np.diff(partition[order]) != 0) | (np.diff(epoch[order]) > 0)
    hidden[logs] = right[logs] & (after >= 0) & ~rising
    return hidden
