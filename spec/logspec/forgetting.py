"""What a long trace may leave out of its logs: positions that no event ahead speaks of.

TLC looks through every entry of every log at every event, so that a run would take time by the square of its length.
Now and then a trace therefore forgets the beginning of all logs (`TraceForget`), and positions are counted from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from logspec.recording import TraceEvent

EVERY = 500
"""Events between two times of forgetting."""
LEAST = 50
"""Positions that are worth forgetting."""
FORGET = "forget"

_DIRTY, _FLUSHED, _COMMIT, _VISIBLE, _FIRST = 3, 4, 5, 6, 7
_PLACED = frozenset({"append", "truncate", "acked", "snapshot", "trim", "install"})
"""Kinds whose first value is a position."""


class Line(NamedTuple):
    """A line of a trace as TLC has it, the event that it is of or comes before, and how much is forgotten by then."""

    event: TraceEvent
    of: int
    forgotten: int


def forgetting(events: Sequence[TraceEvent], nodes: int) -> Iterator[Line]:
    """The lines of a trace: its events, their positions counted from what is forgotten, and where that grows.

    What is forgotten lies before every end and every flushed offset of a node, now and in all events to come, and
    before every other position that is not 0 (which is what a node starts with): so that nothing is asked of it.
    """
    needed = _least_needed(events)
    now: dict[int | str, int] = {}
    forgotten = 0
    for index, event in enumerate(events):
        if index % EVERY == 0 and len(now) == nodes:
            base = min(needed[index], *now.values()) - 1
            if base >= forgotten + LEAST:
                yield Line((FORGET, base - forgotten), index, base)
                forgotten = base
        now[event[1]] = _least(event)
        yield Line(shifted(event, forgotten), index, forgotten)


def shifted(event: TraceEvent, forgotten: int) -> TraceEvent:
    """The event with its positions counted from there; 0 and what is misplaced stay."""
    if not forgotten:
        return event
    columns = (_DIRTY, _FLUSHED, _COMMIT, _VISIBLE, *((_FIRST,) if event[0] in _PLACED else ()))
    values = list(event)
    for column in columns:
        position = int(event[column])
        values[column] = position - forgotten if position > 0 else position
    return tuple(values)


def _least(event: TraceEvent) -> int:
    """The first position that the event speaks of; 0 if an end is 0 or a position is misplaced."""
    ends = [int(event[_DIRTY]), int(event[_FLUSHED])]
    others = [int(event[_COMMIT]), int(event[_VISIBLE])] + ([int(event[_FIRST])] if event[0] in _PLACED else [])
    return max(0, min(*ends, *(position for position in others if position)))


def _least_needed(events: Sequence[TraceEvent]) -> list[int]:
    least = [0] * len(events)
    so_far: int | None = None
    for index in range(len(events) - 1, -1, -1):
        here = _least(events[index])
        so_far = here if so_far is None else min(so_far, here)
        least[index] = so_far
    return least
