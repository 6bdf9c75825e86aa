"""Many small logs as one log, for `linearizable-log`: what a log costs by itself is paid once for thousands of them.

A log, and behind it another one that begins later and at a higher offset, are one log, which is linearizable iff both
are. So the logs are moved: each begins when the one before it has ended, at the offset where that one ends, and no two
have a value or an operation in common. What can be found over all of them is that each holds, with the sum of their
facts and no excuse. The one log is judged as one that need not be dense: else a hole might be filled with an append of
unknown outcome of another log. So it counts as excused, and that is no answer. For the same reason a dense log with a
read that found nothing is left to itself.

Logs that give no answer together are tried in smaller groups, and in the end are left to be judged by themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..checks.codes import (
    APPEND,
    F_APPEND,
    FAULT,
    FAULT_WIPE,
    INVOKE,
    MADE_BY_NODES,
    NULL,
    OBSERVE,
    OF_CLIENTS,
    OK,
    READS,
    among,
)
from ..checks.columns import Columns, Ints
from ..checks.contract import Outcome, Setting, Verdict, outcome
from ..checks.linearizable_log import CHECK, FAMILY

_GROUPS = (4096, 256, 16)
"""Logs that are tried together; where they give no answer, so many of them; in the end one."""

_ROOM = 1 << 60
"""Offsets and nanoseconds for all logs together."""


class _Line(NamedTuple):
    """The operations of some logs, one log after the other."""

    logs: Ints  # their places
    columns: Columns
    starts: Ints  # the first row of each log, and the end
    base: Ints  # the first offset of each log


def judge_together(columns: Columns, starts: Ints, setting: Setting) -> tuple[Outcome | None, set[int]]:
    """The outcome over all logs that hold, and the places of those that are to be judged by themselves.

    ``columns`` are the events by log and ``seq``; log ``i`` begins at row ``starts[i]``. None: there is no such log.
    """
    places = set(range(len(starts)))
    wiped = bool(((columns.kind == FAULT) & (columns.f == FAULT_WIPE)).any())
    if setting.write_caching or wiped or not places:
        return None, places
    line = _line(columns, np.append(starts, len(columns.seq)))
    judged = 0
    waiting = [(0, len(line.logs), -1)]
    while waiting:
        low, high, size = waiting.pop()
        facts = _facts(line, low, high, setting) if size >= 0 and low < high else None
        if facts is not None:
            judged += facts
            places -= set(line.logs[low:high].tolist())
        elif size + 1 < len(_GROUPS):
            step = _GROUPS[size + 1]
            waiting += [(at, min(at + step, high), size + 1) for at in range(low, high, step)]
    return (outcome(CHECK, judged) if len(places) < len(starts) else None), places


def _facts(line: _Line, low: int, high: int, setting: Setting) -> int | None:
    """The facts in some logs together, if all hold and none needs an excuse."""
    some = line.columns.where(np.arange(line.starts[low], line.starts[high]))
    moved = {name: _moved(getattr(some, name), -line.base[low]) for name in ("offset", "last_offset")}
    fold = FAMILY.start(setting)
    # An append that no client made: the log need not be dense.
    fold.feed(some._replace(kind=np.full_like(some.kind, APPEND)).where(np.arange(1)))
    fold.feed(some._replace(**moved).where(np.arange(len(some.seq))))
    (found,) = fold.finish().outcomes
    fine = found.verdict in (Verdict.HOLDS, Verdict.UNEXERCISED) and not found.excused and not found.unjudged
    return found.judged if fine else None


def _line(columns: Columns, starts: Ints) -> _Line:
    """The operations of the logs that can be moved: their offsets are not negative, and there is room for all."""
    log = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    sparse = np.zeros(len(starts) - 1, dtype=bool)
    sparse[log[np.isin(columns.kind, MADE_BY_NODES)]] = True
    mine = np.flatnonzero(among(columns.kind, OF_CLIENTS))
    log = log[mine]
    columns = columns.where(mine)
    logs, first, log = np.unique(log, return_index=True, return_inverse=True)
    if not len(logs):
        return _Line(logs, columns, np.zeros(1, dtype=np.int64), logs)
    kind, offset, last = columns.kind, columns.offset, columns.last_offset
    op = _numbered(log, columns.op)
    appends = np.zeros(len(op), dtype=bool)
    appends[op[(kind == INVOKE) & (columns.f == F_APPEND)]] = True
    by_op = np.argsort(op, kind="stable")
    given = np.zeros(len(op), dtype=bool)
    given[by_op[1:]] = (np.diff(op[by_op]) == 0) & (kind[by_op[:-1]] == OBSERVE)
    nothing = (kind == OK) & np.isin(columns.f, READS) & ~given
    empty = np.logical_or.reduceat(nothing, first) & ~sparse[logs]
    reported = ((kind == OBSERVE) | (kind == OK)) & (offset != NULL)
    top = np.maximum.reduceat(np.where(reported, np.where((kind == OBSERVE) | appends[op], last + 1, offset), 0), first)
    # The time of the fold: it is not set back, and while it stands still the order of events counts.
    moves = np.maximum.reduceat(columns.time, first) > columns.time[first]
    time = np.where(moves[log], np.maximum(columns.time, columns.time[first][log]), columns.seq)
    begin, end = time[first], np.maximum.reduceat(time, first)
    most = _ROOM // len(logs)
    below = np.logical_or.reduceat((offset < 0) & (offset != NULL), first)
    fits = ~below & ~empty & (top <= most) & (end.astype(np.float64) - begin <= most)
    base = np.cumsum(top * fits) - top * fits
    length = (end - begin) * fits
    later = np.cumsum(length) - length - begin
    kept = np.flatnonzero(fits[log])
    columns = columns._replace(
        time=time + later[log],
        op=op,
        value=np.where(columns.value == NULL, NULL, _numbered(log, columns.value)),
        offset=_moved(offset, base[log]),
        last_offset=_moved(last, base[log]),
    ).where(kept)
    starts = np.searchsorted(log[kept], np.append(np.flatnonzero(fits), len(logs)))
    return _Line(logs[fits], columns, starts, base[fits])


def _numbered(log: Ints, key: Ints) -> Ints:
    """Other numbers for the keys, such that no two logs have one in common."""
    order = np.lexsort((key, log))
    new = (np.diff(log[order], prepend=-1) != 0) | (np.diff(key[order], prepend=0) != 0)
    result = np.empty(len(key), dtype=np.int64)
    result[order] = np.cumsum(new) - 1
    return result


def _moved(offsets: Ints, by: Ints) -> Ints:
    moved: Ints = np.where(offsets == NULL, NULL, offsets + by)
    return moved
