"""Logs that are compacted by key. Sources: ghost-batches.md#compaction, ghost-batches.md#invariants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, wipes

_TELLING = ("append", "commit", "compact", "gap", "truncate", "trim", "start")


@dataclass(frozen=True)
class _Log:
    """What a node holds, from the offset ``known`` on; what it last stated; the gaps it was just told of."""

    known: int
    batches: tuple[Event, ...] = ()
    last: Event | None = None
    reported: tuple[Event, ...] = ()
    runs: bool = True


def _logs(history: History) -> Iterator[tuple[Event, _Log | None, dict[int, _Log]]]:
    """Every event from the first key or compaction on, with the log of its node before it and all logs after it."""
    logs: dict[int, _Log] = {}
    begun = False
    for e in history.events:
        begun = begun or e.key is not None or e.kind in ("compact", "gap")
        if not begun:
            continue
        if wipes(e):
            emptied = {n: replace(log, batches=(), known=0) for n, log in logs.items() if e.node in (None, n)}
            logs = {**logs, **emptied}
        before = logs.get(e.node)
        if e.kind in GONE and before:
            logs = {**logs, e.node: replace(before, runs=e.kind == "stop", reported=())}
        elif e.kind in _TELLING and e.node is not None and e.dirty is not None:
            before = before or _Log(e.offset if e.kind == "append" else e.dirty + 1)
            logs = {**logs, e.node: _after(e, before)}
        yield e, before, logs


def _after(e: Event, log: _Log) -> _Log:
    known, batches, reported = log.known, log.batches, log.reported
    if e.kind == "start":
        if log.last is not None and e.dirty > log.last.dirty:
            known = max(known, e.dirty + 1)
        batches, reported = tuple(b for b in batches if b.last <= e.dirty), ()
    elif e.kind == "append":
        batches = (*(b for b in batches if b.last < e.offset), e)
        reported = tuple(gap for gap in reported if gap.offset > e.last)
    elif e.kind == "compact":
        batches = tuple(b for b in batches if b.offset not in e.offsets)
    elif e.kind == "gap":
        reported = (*reported, e)
    elif e.kind == "truncate":
        batches = tuple(b for b in batches if b.last < e.offset)
    elif e.kind == "trim":
        batches = () if e.dirty < e.offset else tuple(b for b in batches if b.offset >= e.offset)
        known = max(known, e.offset)
    return _Log(known, batches, e, reported)


def ghost_term(history: History) -> Count:
    """What is appended behind a gap is of the term that the gap was told with, and the gap is right between that and
    what was before."""
    count = Count()
    for e, before, _ in _logs(history):
        if e.kind == "append" and before:
            passed = [gap for gap in before.reported if gap.offset <= e.last]
            ends = {before.last.dirty if before.last else None, *(gap.last for gap in passed)}
            starts = {e.offset, *(gap.offset for gap in passed)}
            for gap in passed:
                between = gap.offset - 1 in ends and gap.last + 1 in starts
                count += JUDGED if between and gap.entry_term == e.entry_term else JUDGED + VIOLATED
    return count


def gaps_are_explained(history: History) -> Count:
    """What is compacted is a whole batch with a key and a later one of it that is committed; gaps are where somebody
    compacted."""
    count = Count()
    gone: set[int] = set()
    for e, before, logs in _logs(history):
        if e.kind == "compact" and before:
            left = logs[e.node].batches
            removed = [b for b in before.batches if b not in left]
            begun = [b for b in left if b.offset < e.offset <= b.last]
            count += Count(judged=len(begun), violated=len(begun)) if begun else Count() if removed else UNJUDGED
            for b in removed:
                if b.last > e.last:
                    count += JUDGED + VIOLATED
                    continue
                later = [c for c in left if c.key == b.key and c.offset > b.offset and c.last <= e.commit]
                if b.key is not None and not later and b.offset < before.known:
                    count += UNJUDGED  # the later one may be among what is not known
                else:
                    count += JUDGED if b.key is not None and later else JUDGED + VIOLATED
            gone |= {*e.offsets}
        elif e.kind == "gap":
            reported = JUDGED if {*e.offsets} <= gone else JUDGED + VIOLATED
            count += reported if gone else UNJUDGED
    return count


def newest_values_agree(history: History) -> Count:
    """Who has all that is committed at the end, running or stopped, holds the newest batch of every key."""
    count = Count()
    logs = ([{}] + [logs for _, _, logs in _logs(history)])[-1]
    running = {n: log for n, log in logs.items() if log.runs and log.last}
    top = max((log.last.commit for log in running.values() if log.last), default=None)
    whole = {n: log for n, log in running.items() if log.last and log.last.commit == log.last.dirty == top}
    keys = {b.key for log in whole.values() for b in log.batches if b.key is not None}
    for key in keys:
        newest = max(b.offset for log in whole.values() for b in log.batches if b.key == key)
        holders = sorted(n for n, log in whole.items() if any(b.key == key and b.offset == newest for b in log.batches))
        for n, log in whole.items():
            if n != holders[0] and newest >= log.known:
                count += JUDGED if n in holders else JUDGED + VIOLATED
    return count


TWINS: dict[str, Plain] = {
    "ghost-term": ghost_term,
    "gaps-are-explained": gaps_are_explained,
    "newest-values-agree": newest_values_agree,
}
