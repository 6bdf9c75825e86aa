"""The lives of nodes as their events tell of them: from a start to an end, by one of several ways to end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from plain import GONE, Event, History, wipes


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


def acts(history: History) -> Iterator[Act]:
    """All of them, in order."""
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
        if n is None or (e.dirty is None and e.kind not in GONE):
            continue
        act = Act(e, before.get(n), n in seen, down.get(n), ended.get(n, frozenset()), n in wiped, starts)
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
