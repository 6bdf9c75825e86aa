"""The lives of nodes as their events tell of them: from a start to an end, by one of several ways to end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from plain import GONE, Event, History, once, wipes

FOR_EVER = 1 << 62
"""Behind every event."""


class Act(NamedTuple):
    """An event of a node, or the end of one of its lives, with what was before it."""

    event: Event
    before: Event | None
    """The node's last event, if its state is known by that: not if it did something while it was down."""
    seen: bool
    """The node had done something, or had ended."""
    down: Event | None
    """The last end of its last life, if it has not started since."""
    ended: frozenset[str]
    """How its last life ended, by every end that was recorded."""
    wiped: bool
    """Its disk was emptied since its last start."""
    starts: bool
    """Some node has started before."""


OF_MEMORY = ("enqueue", "hand_over")
"""What a leader says of the memory that it holds for appends."""


def acts(history: History, besides: tuple[str, ...] = ()) -> Iterator[Act]:
    """All of them, in order; with events of other kinds ``besides``, which change nothing."""
    before: dict[int, Event] = {}
    seen: set[int] = set()
    down: dict[int, Event] = {}
    ended: dict[int, frozenset[str]] = {}
    wiped: set[int] = set()
    starts = False
    for e in history.events:
        n = e.node
        if wipes(e):
            wiped.add(n)
        if n is None or (e.dirty is None and e.kind not in (*GONE, *besides)):
            continue
        act = Act(e, before.get(n), n in seen, down.get(n), ended.get(n, frozenset()), n in wiped, starts)
        if e.kind in besides:
            yield act
            continue
        if e.kind in GONE:
            yield act
            ended[n] = (ended[n] if n in down else frozenset()) | {e.kind}
            down[n] = e
        else:
            if e.kind != "start" and n in down:
                act = act._replace(before=None)
            yield act
            down.pop(n, None)
            before[n] = e
            if e.kind == "start":
                starts = True
                wiped.discard(n)
                ended[n] = frozenset()
        seen.add(n)


@once
def cut_off(history: History) -> dict[int, list[tuple[int, int]]]:
    """When the lives of each node ended, not of its own accord, and by then the last event recorded of it.

    A voter of which nothing was recorded may have done anything, from the first event to the last.
    """
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    running: set[int] = set()
    last: dict[int, int] = {}
    everyone = {*history.voters} | {e.node for e in history.events if e.node is not None}
    for e in history.events:
        if wipes(e):
            for node in everyone if e.node is None else [e.node]:
                found[node].append((e.seq, last.get(node, -1)))
                running.discard(node)
        elif e.node in running and (e.kind == "start" or (e.kind in GONE and e.kind != "stop")):
            found[e.node].append((e.seq, last[e.node]))
        if e.kind in GONE and e.node is not None:
            running.discard(e.node)
        elif e.dirty is not None:
            running.add(e.node)
        if e.dirty is not None or (e.kind == "stop" and e.node is not None):
            last[e.node] = e.seq
    found.update({voter: [(FOR_EVER, -1)] for voter in silent(history)})
    return found


def falls_quiet(history: History) -> bool:
    """Whether a node that runs records nothing any more while others record 12 events: its record may end early.

    One that is no voter in the only configuration, and has begun nothing, is none of them.
    """
    reported = [e for e in history.events if e.dirty is not None and e.node is not None]
    place = {e.node: i for i, e in enumerate(reported, 1)}
    last = {e.node: e for e in history.events if e.node is not None and (e.dirty is not None or e.kind in GONE)}
    runs = {node for node, e in last.items() if e.kind not in GONE}
    if history.voters and not history.configurations:
        runs -= {n for n in runs if n not in history.voters and (last[n].term, last[n].dirty) == (0, -1)}
    return any(len(reported) - at >= 12 and node in runs for node, at in place.items())


def silent(history: History) -> set[int]:
    """The voters of which nothing was recorded."""
    return history.everyone() - {e.node for e in history.events if e.dirty is not None}


def may_lack(history: History, since: int, until: int) -> bool:
    """Whether the record of a voter may lack something that it did between two events, for the voter was cut off."""
    return any(
        end > since and recorded < until for voter in history.everyone() for end, recorded in cut_off(history)[voter]
    )
