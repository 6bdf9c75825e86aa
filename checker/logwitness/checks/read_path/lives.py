"""Lives of nodes: what a node records is of the life that it last took part in, and of the part that it takes there.

Each life has a number (``incarnation``), which most events of the node carry. Of a life whose beginning is not recorded
nothing is concluded. Source: read-path.md#lives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loghistory.schema import END_KINDS, Kind
from loghistory.vocabularies.read_path import VOCABULARY, NodeWord

from ..codes import ENDS, NO_NODE, NULL, OTHER, code, lookup, word_code
from ..columns import Array, Columns, Ints
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..kernel import kernel
from ..lives import NO_TURN, between_turns
from .protocol import READ_PATH

LIVES = Check(
    id="acts-in-its-life",
    rule="What a node records is of the life that it last took part in, and what a shard, a sequencer or a reader does "
    "of one that takes part as such; it records nothing once that is over, and as a reader only of the read that it "
    "takes part for.",
    source=("read-path.md#lives",),
    fact="an event of a node that names its life or its read, since it took part",
    sentence={
        "life": "Node {node} recorded something of its life {before} in life {now}.",
        "over": "Node {node} recorded something of its life {now}, which was over.",
        "part": "Node {node} does not take part as what it acted as.",
        "read": "Node {node} takes part for read {now} and recorded something of read {before}.",
    },
    kinds=(Kind.TAKES_PART,),
    columns=("node", "incarnation"),
)

_TAKES_PART = code(Kind.TAKES_PART)
_OWN = frozenset(Kind(kind.word) for kind in VOCABULARY.kinds)
_IS_OWN = lookup(_OWN)
_IS_OF_READER = lookup({kind for kind in _OWN if kind.startswith("stream_")})
_SHARD, _SEQUENCER, _READER = map(word_code, NodeWord)
_OF_SHARD = (Kind.COPY, Kind.PURGE, Kind.TRIM_POINT, Kind.SHIP, Kind.SEAL)
_OF_SEQUENCER = (Kind.ACKNOWLEDGE, Kind.RELEASE, Kind.RECOVER)
_PART_OF = np.full(len(_IS_OWN), OTHER)
"""As what one takes part that records a kind of event."""
for _kinds, _part in ((_OF_SHARD, _SHARD), (_OF_SEQUENCER, _SEQUENCER)):
    _PART_OF[[*map(code, _kinds)]] = _part
_PART_OF[_IS_OF_READER] = _READER
_MOST_NODES = 1 << 10
"""Nodes that the loop goes through the events of."""
_MOST_TURNS = 64
"""Events of a batch that the loop is left for, one by one."""
_NUMBER, _READ, _PART, _OVER = range(4)
"""What the loop knows of a life: its number, its read, as what it takes part, and whether it is over."""


@dataclass(slots=True)
class _Life:
    """What a node takes part in."""

    incarnation: int
    read: int
    part: int
    seq: int  # by which it began
    over: int = -1  # and ended


@kernel
def _skim(columns: Columns, at: int, lives: Ints, judged: Ints) -> int:
    """Count what breaks no rule, up to the turn of a life or an event that may break one."""
    kinds, nodes, numbers, reads = columns.kind, columns.node, columns.incarnation, columns.op
    for i in range(at, len(kinds)):
        kind, node, number = kinds[i], nodes[i], numbers[i]
        if node < 0 or columns.process[i] != NULL:
            continue
        if kind == _TAKES_PART or kind in ENDS:
            return i
        if not _IS_OWN[kind]:
            continue
        if node >= _MOST_NODES:
            return i
        life, names = lives[node, _NUMBER], number != NO_NODE
        if life == NO_NODE:
            continue
        if number > life or (names and (number < life or lives[node, _OVER])):
            return i
        if names and lives[node, _PART] != OTHER and _PART_OF[kind] not in (OTHER, lives[node, _PART]):
            return i
        if not lives[node, _OVER] and _IS_OF_READER[kind] and reads[i] != NULL and lives[node, _READ] != NULL:
            if reads[i] != lives[node, _READ]:
                return i
            names = True
        judged[0] += names
    return len(kinds)


class LivesFold:
    """Judges the lives of one log's nodes; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tally = Tally(LIVES, setting.keep)
        self._compiled = setting.compiled
        self._lives: dict[int, _Life] = {}

    def feed(self, columns: Columns) -> None:
        """Take the next events, in the order of ``seq``."""
        if self._compiled:
            columns = self._skimmed(columns)
        self._feed(columns)

    def _skimmed(self, columns: Columns) -> Columns:
        """What the loop leaves of some events: nothing, mostly."""
        lives, judged, at, rows = np.full((_MOST_NODES, 4), NO_NODE), np.zeros(1, np.int64), 0, len(columns.seq)
        for _ in range(_MOST_TURNS):
            for node, life in self._lives.items():
                if node < _MOST_NODES:
                    lives[node] = life.incarnation, life.read, life.part, life.over >= 0
            at = _skim.compiled(columns, at, lives, judged)
            self._tally.judged += int(judged[0])
            judged[0] = 0
            if at == rows or not (columns.kind[at] == _TAKES_PART or columns.kind[at] in ENDS):
                break
            self._turn(columns, at)
            at += 1
        return columns.between(at, rows)

    def _feed(self, columns: Columns) -> None:
        """Take events of each node, piece by piece between the turns of its life."""
        for node, turn, piece in between_turns(columns, _TAKES_PART, _IS_OWN):
            if turn != NO_TURN:
                self._turn(columns, turn)
            if len(piece):
                self._piece(columns, node, piece)

    def _turn(self, columns: Columns, at: int) -> None:
        node, seq, kind = int(columns.node[at]), int(columns.seq[at]), int(columns.kind[at])
        if kind == _TAKES_PART:
            part = int(columns.f[at]) if columns.f[at] in (_SHARD, _SEQUENCER, _READER) else OTHER
            self._lives[node] = _Life(int(columns.incarnation[at]), int(columns.op[at]), part, seq)
        elif node in self._lives and self._lives[node].over < 0:
            self._lives[node].over = seq

    def _piece(self, columns: Columns, node: int, piece: Array) -> None:
        """Events of one life, unless they say otherwise."""
        life = self._lives.get(node)
        if life is None or life.incarnation == NO_NODE:
            return
        lives = columns.incarnation[piece]
        later = np.flatnonzero(lives > life.incarnation)
        if len(later):
            # It began a life that is not recorded.
            first = int(later[0])
            self._tally.unjudged += 1
            self._piece(columns, node, piece[:first])
            self._lives[node] = _Life(int(lives[first]), NULL, OTHER, int(columns.seq[piece[first]]))
            self._piece(columns, node, piece[first:])
            return
        names = lives != NO_NODE
        reads = columns.op[piece]
        of_read = _IS_OF_READER[columns.kind[piece]] & (reads != NULL) & (life.read != NULL)
        other = of_read & (reads != life.read)
        if life.over >= 0:
            other[:] = False
            of_read = names
        self._tally.judged += int(np.count_nonzero(names | of_read))
        wrong = names & ((lives < life.incarnation) | (life.over >= 0))
        parts = _PART_OF[columns.kind[piece]]
        strange = names & (parts != OTHER) & (parts != life.part) & (life.part != OTHER)
        for at in np.flatnonzero(wrong | strange | other).tolist():
            seq, event = int(columns.seq[piece[at]]), life.seq
            said = {"node": node, "now": life.incarnation}
            if names[at] and lives[at] < life.incarnation:
                self._tally.violation(event, seq, way="life", before=int(lives[at]), **said)
            elif wrong[at]:
                self._tally.violation(event, life.over, seq, way="over", **said)
            elif strange[at]:
                self._tally.violation(event, seq, way="part", node=node)
            else:
                self._tally.violation(event, seq, way="read", node=node, now=life.read, before=int(reads[at]))

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._tally,))

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken."""
        return Verdicts((self._tally.outcome(),))


FAMILY = Family(
    "read_path_lives",
    (LIVES,),
    _OWN | END_KINDS,
    ("node", "process", "incarnation", "op", "f"),
    LivesFold,
    READ_PATH,
)
