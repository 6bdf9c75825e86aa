"""Which configuration is in force on a node: that of its last event that says so since it started, else the first one.

Source: raft.md#configuration-in-force.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ..codes import CONFIGURATION
from ..columns import Columns
from ..findings import MAX_NODES, KernelFold
from ..kernel import part
from ..words import Words

NOT_READABLE = "a configuration is recorded that cannot be read"
"""Why nothing is said about majorities."""

CHANGES = "the members change, and what is due from those that come and go is not judged"
"""Why nothing is said about what becomes of the voters."""

_LONGEST = 4096
_SEARCHED = 12
"""Nodes of two configurations of which all subsets are looked at."""


class Configuration(NamedTuple):
    """One configuration: ids of nodes, its revision, and the sessions of members that have one."""

    voters: tuple[int, ...]
    old: tuple[int, ...] = ()
    learners: tuple[int, ...] = ()
    revision: int = 0
    sessions: tuple[tuple[int, int], ...] = ()

    @property
    def halves(self) -> tuple[tuple[int, ...], ...]:
        """The sets of voters of each of which a majority must agree."""
        return (self.voters, self.old) if self.old else (self.voters,)

    @property
    def deciding(self) -> frozenset[int]:
        """The voters, and those of the configuration that it replaces."""
        return frozenset((*self.voters, *self.old))

    @property
    def members(self) -> frozenset[int]:
        """All nodes of the group: voters, those of the configuration that it replaces, and learners."""
        return frozenset((*self.voters, *self.old, *self.learners))

    def __str__(self) -> str:
        named = (("", self.voters), (" old ", self.old), (" learners ", self.learners))
        return "".join(name + ",".join(map(str, nodes)) for name, nodes in named if nodes)

    def is_quorum(self, nodes: Iterable[int]) -> bool:
        """Whether these nodes are a majority of each half."""
        given = {*nodes}
        return all(2 * len(given.intersection(half)) > len(half) for half in self.halves)


def parsed(text: str | None) -> Configuration | None:
    """The configuration that a text says; None if it says none."""
    words = (text or "").split(" ")
    if len(text or "") > _LONGEST or len(words) % 2 == 0:
        return None
    named = dict(zip(words[1::2], words[2::2], strict=True))
    lists = [_numbers(words[0]), *(_numbers(named[name]) if name in named else () for name in ("old", "learners"))]
    revision = named.get("revision", "0")
    if any(each is None for each in lists) or not lists[0] or not revision.isdecimal():
        return None
    voters, old, learners = (each or () for each in lists)
    return Configuration(voters, old, learners, int(revision[:18]), _sessions(named.get("sessions", "")))


def _sessions(text: str) -> tuple[tuple[int, int], ...]:
    """Members with their sessions; none if it is not a list of these."""
    pairs = [each.split(":") for each in text.split(",")]
    if not all(len(pair) == 2 and all(n.isdecimal() and len(n) < 19 for n in pair) for pair in pairs):
        return ()
    return tuple((int(node), int(session)) for node, session in pairs)


def _numbers(text: str) -> tuple[int, ...] | None:
    numbers = text.split(",")
    if not all(each.isdecimal() and len(each) < 10 for each in numbers) or len({*numbers}) < len(numbers):
        return None
    return tuple(int(each) for each in numbers)


def configuration_of(words: Words, code: int) -> Configuration | None:
    """The configuration of an event, by its column ``value``."""
    return parsed(words.text(code))


def apart(one: Configuration, other: Configuration) -> tuple[frozenset[int], frozenset[int]] | None:
    """A quorum of each of which no node is in the other; None if there are none, or too many nodes to look at."""
    if any(len({*a}) // 2 + len({*b}) // 2 + 2 > len({*a, *b}) for a in one.halves for b in other.halves):
        return None
    mine, theirs = frozenset().union(*one.halves), frozenset().union(*other.halves)
    shared = sorted(mine & theirs)
    if len(shared) > _SEARCHED:
        return None
    for size in range(len(shared) + 1):
        for some in combinations(shared, size):
            first = frozenset((*(mine - theirs), *some))
            second = theirs - first
            if one.is_quorum(first) and other.is_quorum(second):
                return first, second
    return None


class ConfiguredFold(KernelFold):
    """A fold whose kernel judges by configurations: it is told of one before it sees the event that says so."""

    def feed(self, columns: Columns) -> None:
        """Take the next events, in pieces that begin with a configuration."""
        start = 0
        for place in np.flatnonzero(columns.kind == CONFIGURATION).tolist():
            if place > start:
                super().feed(columns.between(start, place))
            start = place
            node = self.nodes.place(int(columns.node[place]))
            found = configuration_of(self.setting.words, int(columns.value[place]))
            self.configured(node, None if found is None else [self._bits(half) for half in (found.voters, found.old)])
        super().feed(columns.between(start, len(columns.seq)) if start else columns)

    def configured(self, node: int, halves: Sequence[int] | None) -> None:
        """The configuration with these halves, bit sets of nodes, is in force on the node; None: it says nothing."""
        raise NotImplementedError

    def _bits(self, nodes: Iterable[int]) -> int:
        places = [self.nodes.place(node) for node in nodes]
        return sum(1 << place for place in places if 0 <= place < MAX_NODES)


@part
def majority_in(half: int) -> int:
    """How many nodes of a bit set are a majority; 0 if it is empty."""
    count = 0
    while half:
        half &= half - 1
        count += 1
    return count // 2 + 1 if count else 0
