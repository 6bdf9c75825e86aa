"""Which faults may have taken what was promised, and what of it. Source: history-checks.md#excuses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lives import FOR_EVER
from plain import GONE, Event, History, wipes

LASTING = ("fsync_error", "open_error", "power_loss_midway")
"""Faults that take what is not flushed at some moment before they end."""

EMPTY = -2
"""Where a log ends whose disk was emptied, until the node starts."""

UNKNOWN = -(1 << 61)


@dataclass(frozen=True)
class Fault:
    """A fault that takes something from a disk."""

    event: Event
    disk: bool
    """It takes the whole disk, not only what is not flushed."""
    low: int
    """Of what is not flushed, it takes what is from this offset on."""
    high: int
    """The node held the log up to this offset."""
    last: int
    """The node's record may lack that it came to hold more between this event and another one; `cut` is -1 if not."""
    cut: int
    end: int
    """Until which event it may take something."""


def is_full(e: Event) -> bool:
    """Whether a disk failed for want of space, which loses nothing."""
    return bool(e.kind == "storage_error" and e.reason == "DiskFull")


def takes_unflushed(e: Event) -> bool:
    """Whether what is not flushed goes: power is lost, a disk fails, or its flushes begin to."""
    if e.kind in ("power_loss", "storage_error"):
        return not is_full(e)
    return bool(e.kind == "fault" and e.f in ("power_loss", "storage_error", *LASTING))


def empties(history: History, e: Event) -> bool:
    """Whether a disk is emptied that may have held what was promised: not one of a node that does not vote."""
    return wipes(e) and (e.node is None or not history.voters or e.node in history.voters)


def _going_on(history: History, e: Event) -> int:
    """Until which event a fault goes on."""
    if e.kind != "fault" or e.f not in LASTING:
        return int(e.seq)
    heals = (h.seq for h in history.events if h.kind == "heal" and h.f == e.f and h.node == e.node and h.seq > e.seq)
    return next(heals, FOR_EVER)


def _held(history: History, fault: Event) -> tuple[int | None, int, int, int]:
    """Where the log of a node ended before an event, and up to where that was flushed; the event that says so, and the
    one by which that life was cut off (this one: it goes on)."""
    own = [e for e in history.events if e.node == fault.node and e.seq < fault.seq and e.process is None]
    states = [e for e in own if e.dirty is not None]
    last = states[-1] if states else None
    after = [e for e in own if last is not None and e.seq > last.seq]
    if fault.node is None or last is None:
        return None, UNKNOWN, -1, FOR_EVER
    if any(wipes(e) for e in after):
        return EMPTY, -1, -1, -1
    flushed = UNKNOWN if last.flushed is None else last.flushed
    ends = [e for e in after if e.kind in GONE]
    if ends:
        return last.dirty, flushed, last.seq, -1 if ends[0].kind == "stop" else ends[0].seq
    return last.dirty, flushed, last.seq, fault.seq


def faults(history: History, by: int = FOR_EVER) -> list[Fault]:
    """All of them that are known by an event, in order."""
    found: list[Fault] = []
    for e in history.events:
        if e.seq >= by or not (empties(history, e) or takes_unflushed(e)):
            continue
        same = (f for f in found if e.kind == "fault" and e.f in LASTING and (f.event.f, f.event.node) == (e.f, e.node))
        if any(f.event.kind == "fault" and f.event.seq < e.seq < f.end for f in same):
            continue  # it goes on
        dirty, flushed, last, cut = _held(history, e)
        end = _going_on(history, e)
        low = flushed + 1
        if dirty is not None and flushed >= dirty and cut < 0 and e.f not in LASTING:
            low = FOR_EVER
        if dirty is not None and e.f in LASTING:
            meanwhile = [s for s in history.events if s.node == e.node and e.seq < s.seq < min(end, by)]
            flushes = [UNKNOWN if s.flushed is None else s.flushed for s in meanwhile if s.dirty is not None]
            low = min([low, *(f + 1 for f in flushes), *(0 for s in meanwhile if wipes(s))])
        found.append(Fault(e, wipes(e), low, FOR_EVER if dirty is None else dirty, last, cut, end))
    return found


def one_leader(history: History, by: int = FOR_EVER) -> bool:
    """Whether it is recorded who led, and the leader events come by term, one node each."""
    led = [(e.term, e.node) for e in history.events if e.kind == "leader" and e.term is not None and e.seq < by]
    in_order = all(a[0] < b[0] or a == b for a, b in pairwise(led))
    return bool(led) and in_order


def may_take(fault: Fault, since: int, known: int, offset: int, *, exact: bool) -> bool:
    """Whether it may take what was asked for at an event, and was at an offset by another one."""
    if fault.end <= since:
        return False
    if fault.disk:
        # Where a term had two leaders, a majority may rest on what the node said of the other one's entries.
        gap = since < fault.cut and fault.last < known
        return offset <= fault.high or gap or (not exact and fault.high > EMPTY)
    return fault.low <= offset


def may_be_lost(
    history: History, since: int, known: int, offset: int, until: int, *, weak: bool, by: int | None = None
) -> bool:
    """Whether what was asked for at an event, and was at an offset by another one, may be lost by a third one, as is
    known ``by`` a fourth one; ``weak``: it goes with what is not flushed."""
    by = until if by is None else by
    exact = one_leader(history, by)
    befell = [f for f in faults(history, by) if f.event.seq < until]
    return any((f.disk or weak) and may_take(f, since, known, offset, exact=exact) for f in befell)


def unflushed_lost(history: History, since: int, offset: int, until: int) -> bool:
    """The same, with what is not flushed alone."""
    befell = [f for f in faults(history) if f.event.seq < until and not f.disk]
    return any(may_take(f, since, FOR_EVER, offset, exact=True) for f in befell)
