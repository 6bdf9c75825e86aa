"""What a kernel writes down while it runs, and how that becomes outcomes with sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .columns import Array, Columns, Ints
from .contract import Check, Loss, Setting, Verdicts, Violation, outcome
from .kernel import part

EVENTS = 4
"""Events that a finding can name."""

NUMBERS = 5
"""Numbers for its sentence."""

MAX_NODES = 62
"""Nodes of one log; sets of nodes are bits of one signed word."""


class Findings(NamedTuple):
    """Counts by check, and the first violations as rows of `EVENTS` seqs (-1: none) and `NUMBERS` numbers."""

    judged: Ints
    violated: Ints
    excused: Ints
    unjudged: Ints
    rows: Ints


def empty_findings(checks: int, keep: int) -> Findings:
    """Nothing found yet for so many checks, with room for ``keep`` violations of each."""
    counts = {name: np.zeros(checks, dtype=np.int64) for name in Findings._fields if name != "rows"}
    return Findings(**counts, rows=np.full((checks, keep, EVENTS + NUMBERS), -1, dtype=np.int64))


@part
def report(
    found: Findings,
    check: int,
    e0: int,
    e1: int,
    e2: int,
    e3: int,
    n0: int,
    n1: int,
    n2: int,
    n3: int,
    n4: int,
) -> None:
    """Count a violation and keep it if it is among the first."""
    place = found.violated[check]
    found.violated[check] += 1
    if place < found.rows.shape[1]:
        row = found.rows[check, place]
        row[0] = e0
        row[1] = e1
        row[2] = e2
        row[3] = e3
        row[4] = n0
        row[5] = n1
        row[6] = n2
        row[7] = n3
        row[8] = n4


class Nodes:
    """Node ids as small indices, in order of appearance after the voters."""

    _DIRECT = 4096
    _NEW = -2

    def __init__(self, voters: Sequence[int]) -> None:
        self.names: list[int] = list(voters)
        self._index = {name: place for place, name in enumerate(self.names)}
        self._direct: Array | None = None

    @property
    def too_many(self) -> str | None:
        """Why the log cannot be judged, if it has too many nodes."""
        return f"more than {MAX_NODES} nodes in one log" if len(self.names) > MAX_NODES else None

    def _table(self) -> Array:
        """The index of every small node id; made when a node occurs, for many logs have clients alone."""
        if self._direct is None:
            # The last place answers for "no node", which is -1.
            self._direct = np.full(self._DIRECT + 1, self._NEW, dtype=np.int32)
            self._direct[-1] = -1
        return self._direct

    def indices(self, nodes: Array) -> Array:
        """The index of every node; -1 for none and for those beyond `MAX_NODES`."""
        highest = int(nodes.max(initial=-1))
        if highest < 0:
            return nodes
        if highest >= self._DIRECT:
            unique, inverse = np.unique(nodes, return_inverse=True)
            places = np.array([self._place(int(name)) for name in unique], dtype=np.int32)
            result: Array = places[inverse]
        else:
            table = self._table()
            result = table[nodes]
            if int(result.min()) == self._NEW:
                for name in np.unique(nodes[result == self._NEW]).tolist():
                    table[name] = self._place(name)
                result = table[nodes]
        result.flags.writeable = False
        return result

    def _known(self, name: int) -> int:
        place = self._index[name]
        return place if place < MAX_NODES else -1

    def _place(self, name: int) -> int:
        if name < 0:
            return -1
        if name not in self._index:
            self._index[name] = len(self.names)
            self.names.append(name)
        return self._known(name)

    def name(self, index: int) -> str:
        """The node's id for a sentence."""
        return str(self.names[index]) if 0 <= index < len(self.names) else "?"


class KernelFold:
    """A fold whose work is one kernel: keeps the findings and words them.

    ``sentences`` are format strings, one a check, over ``n0..n4`` (the numbers of a finding) and
    ``node0..node4`` (the same numbers read as node indices).
    """

    checks: tuple[Check, ...]
    sentences: tuple[str, ...]

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.nodes = Nodes(setting.voters)
        self.found = empty_findings(len(self.checks), setting.keep)

    def feed(self, columns: Columns) -> None:
        """Take the next events."""
        columns = columns._replace(node=self.nodes.indices(columns.node))
        self.run(columns if self.setting.compiled else columns.lists())

    def run(self, columns: Columns) -> None:
        """Run the kernel over the events, whose nodes are indices."""
        raise NotImplementedError

    def losses(self) -> tuple[Loss, ...] | None:
        """The loss account as this fold sees it; None: it cannot tell."""
        return None

    def undecided(self) -> str | None:
        """Why nothing can be said, if so."""
        return self.nodes.too_many

    def finish(self) -> Verdicts:
        """The outcomes."""
        undecided = self.undecided()
        counts = zip(*(column.tolist() for column in self.found[:-1]), strict=True)
        outcomes = tuple(
            outcome(
                check,
                judged,
                violated,
                self._violations(place) if violated else (),
                excused=excused,
                unjudged=unjudged,
                undecided=undecided,
            )
            for place, (check, (judged, violated, excused, unjudged)) in enumerate(
                zip(self.checks, counts, strict=True)
            )
        )
        return Verdicts(outcomes, self.losses())

    def _violations(self, place: int) -> tuple[Violation, ...]:
        kept = self.found.rows[place, : min(int(self.found.violated[place]), self.setting.keep)]
        return tuple(self._violation(self.sentences[place], row) for row in kept.tolist())

    def _violation(self, sentence: str, row: list[int]) -> Violation:
        numbers = row[EVENTS:]
        words = {f"n{i}": str(number) for i, number in enumerate(numbers)}
        words |= {f"node{i}": self.nodes.name(number) for i, number in enumerate(numbers)}
        return Violation(sentence.format(**words), tuple(sorted({seq for seq in row[:EVENTS] if seq >= 0})))
