"""Lives of sequencers that end, and what may be missing from their records for that reason.

One that is cut off may have lost the end of its record: all behind the last acknowledgement or release in it.

Source: counting.md#may-lack.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from loghistory.schema import Kind

from ..codes import code
from ..contract import Tally

ENDS = frozenset({Kind.STOP, Kind.CRASH, Kind.POWER_LOSS, Kind.STORAGE_ERROR})
MOST_NODES = 1 << 10
"""Nodes that are shown by what they acknowledge and release to have lost nothing before that."""
_TAKES_PART, _STOP = code(Kind.TAKES_PART), code(Kind.STOP)


class _Waiting(NamedTuple):
    """What is wrong unless one of some nodes is cut off before it records anything more."""

    tally: Tally
    seq: int
    nodes: set[int]
    events: tuple[int, ...]
    found: dict[str, object]


class Ends:
    """When lives ended, and what waits for that."""

    def __init__(self) -> None:
        self.signed = np.full(MOST_NODES, -1, dtype=np.int64)
        """By node: the last event by which it acknowledged or released something."""
        self._runs: set[int] = set()
        self._begun: dict[int, list[int]] = {}
        self._ended: dict[int, list[tuple[int, bool]]] = {}  # events, and whether it was cut off
        self._waiting: list[_Waiting] = []

    def turn(self, kind: int, node: int, seq: int) -> None:
        """The life of a node begins or ends."""
        if kind != _TAKES_PART or node in self._runs:
            cut = kind != _STOP
            self._ended.setdefault(node, []).append((seq, cut))
            self._settle(node, cut=cut)
        self._runs.discard(node)
        if kind == _TAKES_PART:
            self._runs.add(node)
            self._begun.setdefault(node, []).append(seq)

    def began(self, node: int, seq: int) -> int:
        """The event by which the life began that a node was in at an event; -1 if none is recorded."""
        return max((begun for begun in self._begun.get(node, ()) if begun < seq), default=-1)

    def cut_since(self, node: int, seq: int) -> bool:
        """Whether a node was cut off since an event."""
        return any(cut and at > seq for at, cut in self._ended.get(node, ()))

    def ended_since(self, node: int, seq: int) -> bool | None:
        """Whether the first life that ended since an event was cut off; None if none did."""
        return next((cut for at, cut in self._ended.get(node, ()) if at > seq), None)

    def goes_on(self, node: int) -> bool:
        """Whether a life of a node is not over, as far as is recorded."""
        return node in self._runs or node not in self._ended

    def wait(self, tally: Tally, seq: int, nodes: Iterable[int], *events: int, **found: object) -> None:
        """Something is wrong by an event, unless one of these nodes lost the end of its record."""
        self._waiting.append(_Waiting(tally, seq, {*nodes}, events, found))

    def _settle(self, node: int, *, cut: bool) -> None:
        left = []
        for each in self._waiting:
            if node in each.nodes and cut and not (node < MOST_NODES and self.signed[node] > each.seq):
                each.tally.unjudged += 1
            else:
                each.nodes.discard(node)
                left.append(each)
        self._waiting = left

    def over(self) -> None:
        """The history is over: what waits is wrong."""
        for each in self._waiting:
            each.tally.judged += 1
            each.tally.violation(*each.events, **each.found)  # type: ignore[arg-type]
        self._waiting = []
