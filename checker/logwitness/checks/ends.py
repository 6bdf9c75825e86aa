"""Lives of nodes that end, and what waits for that or for a sign that they go on.

A node that is cut off may have lost the end of its record: all behind the last thing in it. So what is missing there is
held against it only once it records something more in the same life. All that waits for a node is settled by one
event; so only the first of it is kept, and how much it is.

Source: counting.md#may-lack.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from loghistory.schema import Kind

from . import codes
from .columns import Ints
from .contract import Tally
from .kernel import part

MOST_NODES = 1 << 10
"""Nodes from here on share a place where a loop looks whether a sign of them is awaited."""

NOBODY: Ints = np.zeros(MOST_NODES + 1, dtype=np.int64)
"""`Ends.awaited` where nothing waits."""


class _Sort(NamedTuple):
    """What is settled alike: what is wrong unless some nodes lost the end of their records."""

    tally: Tally
    nodes: frozenset[int]  # that may be cut off before they record anything more
    cut: frozenset[int]  # that were
    enough: Callable[[frozenset[int]], bool]  # whether it is explained if these were; compared, if it has values
    rests_on: tuple[Kind, ...]
    unseen: Callable[[frozenset[int]], bool]  # whether it rests on these kinds if these nodes were cut off
    sign: bool  # it takes a sign of the node, which shows it
    counted: bool  # among what is judged


def _always(_: frozenset[int]) -> bool:
    """Whoever was cut off."""
    return True


class _Found(NamedTuple):
    """What is wrong: the events that show it, and what its sentence names."""

    events: tuple[int, ...]
    way: str
    said: dict[str, object]


@dataclass(frozen=True, slots=True)
class All:
    """Whether all of these nodes lost the end of their records, where one is not enough."""

    nodes: frozenset[int]

    def __call__(self, cut: frozenset[int]) -> bool:
        """See `Ends.wait`."""
        return self.nodes <= cut


@part
def awaited_at(node: int) -> int:
    """The place of a node in `Ends.awaited`."""
    return node if 0 <= node < MOST_NODES else MOST_NODES


class Ends:
    """When lives ended, and what waits for that."""

    def __init__(self) -> None:
        self.awaited: Ints = np.zeros(MOST_NODES + 1, dtype=np.int64)
        """By node: how many things wait for a sign of it."""
        self._runs: set[int] = set()
        self._begun: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        self._cuts: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        self._ended: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        self._waiting: dict[_Sort, tuple[int, list[_Found]]] = {}
        self._of: defaultdict[int, dict[_Sort, None]] = defaultdict(dict)

    # -- lives ---------------------------------------------------------------------------------------------------------

    def turn(self, kind: int, node: int, seq: int) -> bool:
        """The life of a node begins or ends; whether one was cut off."""
        begins = kind not in codes.ENDS
        cut = node in self._runs if begins else kind != codes.STOP
        if cut or not begins:
            self._ended[node].append(seq)
        if cut:
            self._cuts[node].append(seq)
        self._settle(node, cut=cut or begins)
        self._runs.discard(node)
        if begins:
            self._runs.add(node)
            self._begun[node].append(seq)
        return cut

    def began(self, node: int, seq: int) -> int:
        """The event by which the life began that a node was in at an event; -1 if none is recorded."""
        begun = self._begun.get(node, ())
        place = bisect_left(begun, seq)
        return begun[place - 1] if place else -1

    def cut_since(self, node: int, seq: int) -> bool:
        """Whether a node was cut off since an event."""
        return any(cut > seq for cut in self._cuts.get(node, ())[-1:])

    def ended_since(self, node: int, seq: int) -> bool | None:
        """Whether the first life that ended since an event was cut off; None if none did."""
        ended, cuts = self._ended.get(node, ()), self._cuts.get(node, ())
        place = bisect_right(ended, seq)
        if place == len(ended):
            return None
        at = bisect_left(cuts, ended[place])
        return at < len(cuts) and cuts[at] == ended[place]

    def goes_on(self, node: int) -> bool:
        """Whether a life of a node is not over, as far as is recorded."""
        return node in self._runs or node not in self._ended

    def waited_for(self) -> set[int]:
        """The nodes that something waits for."""
        return {*self._of}

    # -- what waits ----------------------------------------------------------------------------------------------------

    def wait(
        self,
        tally: Tally,
        nodes: Collection[int],
        *events: int,
        said: dict[str, object],
        since: int | Mapping[int, int] = codes.MAX_OFFSET,
        by: int = codes.NO_NODE,
        way: str = "",
        rests_on: tuple[Kind, ...] = (),
        unseen: Callable[[frozenset[int]], bool] = _always,
        sign: bool = False,
        counted: bool = False,
        enough: Callable[[frozenset[int]], bool] = bool,
    ) -> None:
        """Something is wrong by the last of these events, unless one of these nodes lost the end of its record.

        They may have been cut off ``since`` an event (each, or all of them), or before they record anything more; not
        ``by`` whom the last event is recorded. ``said`` is what its sentence names; ``sign``: only a sign of the node
        shows it; ``counted``: it is among what is judged already; ``enough``: whether it is explained if some nodes
        lost the end, where one is not; ``unseen``: whether it ``rests_on`` these kinds then, where it does not always.
        It has many parameters, since rules differ in each of these.
        """
        each = since if isinstance(since, Mapping) else dict.fromkeys(nodes, since)
        cut = frozenset(node for node in nodes if self.cut_since(node, each[node]))
        going = frozenset(node for node in nodes if node not in (*cut, by) and self.goes_on(node))
        self._keep(_Sort(tally, going, cut, enough, rests_on, unseen, sign, counted), 1, [_Found(events, way, said)])

    def sign(self, node: int, seq: int) -> None:
        """A node records something more: what it did before was not lost."""
        self._settle(node, seq)

    def over(self) -> None:
        """The history is over: nothing shows any more that what waits was not lost."""
        for sort, (count, found) in sorted(self._waiting.items(), key=lambda each: each[1][1][0].events[-1]):
            if sort.sign:
                silent = ", ".join(f"node {node}" for node in sorted(sort.nodes))
                sort.tally.lacks = f"the end of the record of {silent} may be missing: nothing comes after it"
            _judge(sort, count, found, lost=False)
        self._waiting.clear()

    def _keep(self, sort: _Sort, count: int, found: list[_Found], *sign: int) -> None:
        """Judge so many things if that is decided, else let them wait."""
        lost, most = sort.enough(sort.cut), sort.cut | sort.nodes
        if lost or not (sort.enough(most) or sort.unseen(most) > sort.unseen(sort.cut)):
            _judge(sort, count, found, *sign, lost=lost)
            return
        if sort not in self._waiting:
            for node in sort.nodes:
                self._of[node][sort] = None
                self.awaited[awaited_at(node)] += 1
        before, first = self._waiting.get(sort, (0, []))
        if len(first) < sort.tally.keep:
            first = sorted([*first, *found], key=lambda each: each.events[-1])[: sort.tally.keep]
        self._waiting[sort] = before + count, first

    def _settle(self, node: int, *sign: int, cut: bool = False) -> None:
        """What waits for a node waits for it no longer."""
        for sort in self._of.pop(node, ()):
            count, found = self._waiting.pop(sort)
            for each in sort.nodes:
                self.awaited[awaited_at(each)] -= 1
                if each != node:
                    del self._of[each][sort]
            others, gone = sort.nodes - {node}, sort.cut | {node} if cut else sort.cut
            self._keep(sort._replace(nodes=others, cut=gone), count, found, *sign)


def _judge(sort: _Sort, count: int, found: list[_Found], *sign: int, lost: bool) -> None:
    """So many things are wrong, of which some are worded, or the end of a record that would say otherwise was lost."""
    tally = sort.tally
    if lost or (sort.sign and not sign):
        tally.unjudged += count
        return
    tally.judged += 0 if sort.counted else count
    rests_on = sort.rests_on if sort.unseen(sort.cut) else ()
    for events, way, said in found:
        shown = events + (sign if sort.sign else ())
        tally.violation(*shown, way=way, rests_on=rests_on, **said)
    tally.more(count - len(found), rests_on)
