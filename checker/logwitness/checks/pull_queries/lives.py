"""Lives of servers: one acts while it serves, and does nothing from its end on until it serves again.

Of a server that has not yet served in this record nothing is concluded: the record begins late, or lacks that server.
Source: pull-queries.md#acts-while-it-serves.
"""

from __future__ import annotations

import numpy as np

from loghistory.schema import END_KINDS, Kind
from loghistory.vocabularies.pull_queries import VOCABULARY

from ..codes import NO_NODE, code, lookup
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..lives import NO_TURN, between_turns
from .protocol import PULL_QUERIES

_DEEDS = frozenset(Kind(kind.word) for kind in VOCABULARY.kinds) - {Kind.SERVE}

LIVES = Check(
    id="acts-while-it-serves",
    rule="A server does nothing from the end of its life until it serves again.",
    source=("pull-queries.md#acts-while-it-serves",),
    fact="something that a server did since it served first",
    sentence="Node {node} did something, although its life was over and it had not served again.",
    kinds=(Kind.SERVE,),
    columns=("node",),
    unsettles=_DEEDS,
    begins_late=True,
)

_SERVE = code(Kind.SERVE)
_LIFE = END_KINDS | {Kind.SERVE}
_IS_DEED = lookup(_DEEDS)
_NAMES_ONE = lookup((Kind.FORWARD, Kind.FORWARDED, Kind.ROWS))
_SERVES = -1


class LivesFold:
    """Judges the lives of one log's servers; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tally = Tally(LIVES, setting.keep)
        self._over: dict[int, int] = {}
        """By node that has served: the event that ended its life, or `_SERVES`."""
        self._asked: set[int] = set()
        """Servers that asked or were asked, as others say."""

    def feed(self, columns: Columns) -> None:
        """Take the next events: those of each node, from one turn of its life to the next."""
        for node, turn, deeds in between_turns(columns, _SERVE, _IS_DEED):
            if turn != NO_TURN:
                self._turns(node, int(columns.kind[turn]), int(columns.seq[turn]))
            if node in self._over:
                self._tally.judged += len(deeds)
                if self._over[node] != _SERVES:
                    for seq in columns.seq[deeds].tolist():
                        self._tally.violation(self._over[node], seq, node=node)
            else:
                self._tally.unjudged += len(deeds)
        self._asked.update(np.unique(columns.peer[_NAMES_ONE.take(columns.kind)]).tolist())

    def _turns(self, node: int, kind: int, seq: int) -> None:
        if kind == _SERVE:
            self._over[node] = _SERVES
        elif self._over.get(node) == _SERVES:
            self._over[node] = seq

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._tally,))

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken."""
        self._tally.unjudged += len(self._asked - {NO_NODE, *self._over})
        return Verdicts((self._tally.outcome(),))


FAMILY = Family("pull_queries_lives", (LIVES,), _DEEDS | _LIFE, ("node", "process", "peer"), LivesFold, PULL_QUERIES)
