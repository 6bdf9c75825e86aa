"""Many small logs: those that are alike are judged once.

Two logs are alike if one becomes the other when clients, operations and values get other names, and times others in
the same order. What the checks of the house say of a log does not depend on these, unless it names an event, counts
what is lost, or has configurations, which are texts; such logs are judged each for itself, and so are all if a family
of another package may depend on more, or reads what texts say, or the run states how long something may take.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from functools import cache

import numpy as np

from ..checks import house_families
from ..checks.codes import CONFIGURATION, NULL
from ..checks.columns import Array, Columns, Ints
from ..checks.contract import Family, Verdict, Verdicts
from .waiting import Waiting

_NAMES = ("process", "op", "value")
"""Columns of names: that two are the same is all that they say."""
_ROWS = 1 << 15
"""Events whose shapes are found at once, about."""


def judge_alike(
    waiting: Waiting,
    shared: Columns | None,
    families: Sequence[Family],
    judge: Callable[[Columns], Verdicts],
    *,
    timed: bool,
) -> tuple[list[int], list[Verdicts]]:
    """The numbers of the logs, and what is said of each; equal answers are one object.

    ``waiting`` are the events by log and ``seq``; ``shared`` are those that concern all logs, ``judge`` answers for the
    events of one, ``timed`` says that it depends on how long something takes.
    """

    def answer(own: Columns) -> Verdicts:
        return judge(own if shared is None else own.merged(shared))

    numbers = waiting.numbers()
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    if len(starts) == 1:
        return numbers[starts].tolist(), [answer(waiting.between(0, len(numbers)))]
    ends = np.append(starts[1:], len(numbers))
    of_house = not timed and all(
        any(family is each for each in house_families()) and not family.reads_texts for family in families
    )
    of_all = frozenset(shared.seq.tolist()) if shared is not None else frozenset()
    by_shape: dict[bytes, Verdicts] = {}
    by_answer: dict[Verdicts, Verdicts] = {}
    answers = []
    first = 0
    while first < len(starts):
        last = int(np.searchsorted(ends, starts[first] + _ROWS, side="right"))
        some = slice(first, max(last, first + 1))
        begin, end = int(starts[some][0]), int(ends[some][-1])
        columns = waiting.between(begin, end)
        shapes = _shapes(columns, starts[some] - begin, ends[some] - begin, shared, waiting.names)
        for shape, start, stop in zip(shapes, starts[some].tolist(), ends[some].tolist(), strict=True):
            known = by_shape.get(shape)
            if known is None:
                own = columns.between(start - begin, stop - begin)
                known = answer(own)
                known = by_answer.setdefault(known, known)
                if of_house and not _names_events(known, of_all) and CONFIGURATION not in own.kind:
                    by_shape[shape] = known
            answers.append(known)
        first = some.stop
    return numbers[starts].tolist(), answers


@cache
def _doubtful() -> frozenset[str]:
    return frozenset(check.id for family in house_families() for check in family.checks if check.doubtful)


def _names_events(found: Verdicts, of_all: Collection[int]) -> bool:
    """Whether an answer names events, other than those that concern all logs: of a violation, or what might be one, an
    excuse, a loss, or the end of a record."""
    reported = (
        each.violated
        or (each.verdict is Verdict.UNDECIDED and each.id in _doubtful())
        or any(excuse.first >= 0 and excuse.first not in of_all for excuse in each.excuses)
        for each in found.outcomes
    )
    return bool(found.losses) or found.quiet_since is not None or any(reported)


def _shapes(columns: Columns, starts: Ints, ends: Ints, shared: Columns | None, held: Collection[str]) -> list[bytes]:
    """Digests of logs; those of two are the same if the logs are alike."""
    log = np.repeat(np.arange(len(starts)), ends - starts)
    reported: list[Array] = []
    for name, column in columns._asdict().items():
        if name not in held:
            continue
        if name in _NAMES:
            reported.append(np.where(column == NULL, -1, _by_appearance(log, column, starts)))
        elif name == "time":
            reported.append(_ranks(log, column, starts))
        elif name != "seq":
            reported.append(column)
    if shared is not None:
        times = np.sort(shared.time)
        reported.append(np.searchsorted(shared.seq, columns.seq))
        reported += [np.searchsorted(times, columns.time, side) for side in ("left", "right")]
    rows = np.stack([each.astype(np.int64, copy=False) for each in reported], axis=1)
    width = rows.itemsize * rows.shape[1]
    data = memoryview(rows.tobytes())
    pairs = zip((starts * width).tolist(), (ends * width).tolist(), strict=True)
    return [hashlib.blake2b(data[start:end], digest_size=16).digest() for start, end in pairs]


def _ranks(log: Ints, key: Array, starts: Ints) -> Ints:
    """The place of each key among the different ones of its log, in their order."""
    order = np.lexsort((key, log))
    groups = _groups(log, key, order)
    ranks = np.empty_like(groups)
    ranks[order] = groups
    result: Ints = ranks - np.repeat(np.minimum.reduceat(ranks, starts), np.diff(np.append(starts, len(log))))
    return result


def _by_appearance(log: Ints, key: Array, starts: Ints) -> Ints:
    """The place of each key among the different ones of its log, in order of first appearance."""
    order = np.lexsort((key, log))
    groups = _groups(log, key, order)
    first = order[np.flatnonzero(np.diff(groups, prepend=-1))]  # equal keys stay in the order of events
    numbers = np.empty_like(first)
    numbers[np.argsort(first)] = np.arange(len(first))
    named = np.empty_like(groups)
    named[order] = numbers[groups]
    result: Ints = named - np.repeat(named[starts], np.diff(np.append(starts, len(log))))
    return result


def _groups(log: Ints, key: Array, order: Ints) -> Ints:
    """Numbers from 0 on for the different pairs of log and key, in this order."""
    new = (np.diff(log[order], prepend=log[:1]) != 0) | (np.diff(key[order], prepend=key[order[:1]]) != 0)
    groups: Ints = np.cumsum(new)
    return groups
