"""The twin of the check of who is removed from the assignment, written from pull-queries.md#removed-when-gone."""

from __future__ import annotations

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain
from plain_availability import timed
from plain_pull_queries import is_assignment, numbers, said

LONG_ENOUGH = 9 * 10**9
"""10 s, and one less for what a killed process has not written; a tenth of it where a clock was set to another rate."""

Stretch = tuple[int, int]
"""From when on a host had been down for long enough, and when it was seen down last."""


def removed_when_gone(history: History) -> Count:
    """pull-queries.md#removed-when-gone."""
    count, events = Count(), history.events
    times = [time for _, time in timed(history)]
    first: dict[int, set[str]] = {0: set()}
    for at, e in enumerate(events):
        now = said(e, is_assignment) if e.kind == "assigned" else None
        if now is None or e.epoch in first:
            continue
        first[e.epoch] = {*now["members"]}
        if e.epoch - 1 not in first:
            count += UNJUDGED
            continue
        left = first[e.epoch - 1] - first[e.epoch]
        nodes = [numbers(events[:at]).get(host) for host in left]
        if left and (None in nodes or not any(b.kind in ("up", "down") for b in events[:at])):
            count += UNJUDGED
        elif left:
            views = [i for i in range(at) if events[i].epoch == e.epoch - 1 and folds(events[i])]
            right = any(gone(events, times, i, at, nodes) for i in views)
            count += JUDGED if right else JUDGED + VIOLATED
    return count


def folds(e: Event) -> bool:
    """Whether this is a server that folds an assignment which can be read."""
    return e.kind == "assigned" and said(e, is_assignment) is not None


def gone(events: list[Event], times: list[int], began: int, at: int, nodes: list[int | None]) -> bool:
    """Whether a server that folded an assignment at ``began`` saw, before another one, that all of these were gone."""
    node = events[began].node
    own = [i for i in range(at) if events[i].node == node]
    lives = [i for i in own if events[i].kind in ("serve", *GONE)]
    served = max([i for i in lives if i < began], default=-1)
    over = min([i for i in own if i > began and (i in lives or folds(events[i]))], default=at)
    seen = [stretches(events, times, peer, [i for i in own if served < i < over], over) for peer in nodes]
    lasts = [last for each in seen for _, last in each if last >= times[began]]
    return any(all(any(due <= last <= end for due, end in each) for each in seen) for last in lasts)


def stretches(events: list[Event], times: list[int], peer: int | None, own: list[int], over: int) -> list[Stretch]:
    """How long a server saw a host down under its last assignment, from what it recorded since it began to serve."""
    node, found = events[own[0]].node, list[Stretch]()
    since = last = None
    members: set[str] = set()
    for i in own:
        e = events[i]
        if folds(e):
            before, members = members, {*said(e, is_assignment)["members"]}
            joined = {numbers(events[:i]).get(host) for host in members - before}
            since, found = None if peer in joined else since, []
        elif e.kind in ("up", "down") and e.peer == peer:
            if e.kind == "up" and since is not None:
                found.append((since + enough(events, times, node, since, i), last or 0))
            since = None if e.kind == "up" else times[i] if since is None else since
            last = times[i]
    if since is not None:
        found.append((since + enough(events, times, node, since, over), last or 0))
    return found


def enough(events: list[Event], times: list[int], node: int | None, since: int, until: int) -> int:
    """How long a host must have been down for a server whose clock may have been set to another rate meanwhile."""
    for whose in {node, None}:
        on, touched = 0, -1
        for i, e in enumerate(events[:until]):
            if e.kind in ("fault", "heal") and e.f == "clock" and e.node == whose:
                on = max(on + (1 if e.kind == "fault" else -1), 0)
                touched = times[i]
        if on or touched >= since:
            return LONG_ENOUGH // 10
    return LONG_ENOUGH


TWINS: dict[str, Plain] = {"removed-when-gone": removed_when_gone}
