"""What a node knows when it starts: what its snapshot sums up is committed, readers see no more than that, and where
the term changes in its log.

Source: raft.md#starts-as-it-knows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from loghistory.schema import END_KINDS, Kind

from ..codes import CRASH, DISK_FULL, FAULT, FAULT_WIPE, NULL, SNAPSHOT, START, STOP, STORAGE_ERROR, TRIM, among, codes
from ..columns import Columns, Ints, groups
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from .protocol import RAFT

KNOWS = Check(
    id="starts-as-it-knows",
    rule="A node that starts knows that to be committed which its snapshot sums up; nothing that it did not know when "
    "it stopped; it shows readers no more than that; and where it says that terms change, its log may have "
    "entries of them.",
    source=("raft.md#starts-as-it-knows", "raft.md#restart", "raft.md#snapshot-install"),
    fact="a start that states a commit index",
    sentence={
        "less": "Node {node} started with commit index {commit}, but all up to offset {before} is summed up there.",
        "more": "Node {node} started with commit index {commit}, but had stopped with {before}.",
        "visible": "Node {node} started with commit index {commit}, but shows readers everything up to {visible}.",
        "terms": "Node {node} started in term {term} with a log that ends at offset {dirty}, which cannot have entries "
        "of these terms from these offsets on: {runs}.",
    },
    kinds=(Kind.START,),
    columns=("node", "commit"),
)
_RARE = frozenset({Kind.START, Kind.SNAPSHOT, Kind.TRIM, Kind.FAULT}) | END_KINDS
_RARE_CODES = codes(_RARE)
_MOVES = codes((Kind.COMMIT, Kind.START, Kind.SNAPSHOT, Kind.TRIM))
_KEEPS = (CRASH, STOP)
"""How lives end after which all is on the disk that was written."""


_GAP = -1
_LONGEST = 60
"""Characters of a text that a sentence quotes."""


class _Known(NamedTuple):
    """An offset, and the event that said it."""

    offset: int
    seq: int


class RestartsFold:
    """Judges the starts of one log's nodes; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tally = Tally(KNOWS, setting.keep, setting.seen)
        self._words = setting.words
        self._summed: dict[int, _Known] = {}
        self._known: dict[int, _Known] = {}  # the commit index that a node stated last
        self._ended: dict[int, _Known] = {}  # how its life ended first, as a kind

    def feed(self, columns: Columns) -> None:
        """Take the next events: the rare ones, and by each stop how far the node had committed."""
        rare = np.flatnonzero(among(columns.kind, _RARE_CODES))
        moves = np.flatnonzero(among(columns.kind, _MOVES))
        done = 0
        names = ("seq", "kind", "node", "f", "offset", "commit", "visible", "term", "dirty", "value", "reason")
        for place, (*event, reason) in zip(rare.tolist(), columns.rows(rare, *names), strict=True):
            if event[1] == STORAGE_ERROR and reason == DISK_FULL:
                event[1] = CRASH  # it loses nothing either
            if event[1] == STOP:
                upto = int(np.searchsorted(moves, place))
                self._commits(columns, moves[done:upto])
                done = upto
            self._take(*event)
        self._commits(columns, moves[done:])

    def _commits(self, columns: Columns, which: Ints) -> None:
        """What nodes state of their commit index, the last of each."""
        for node, own in groups(columns.node[which], which):
            self._known[node] = _Known(int(columns.commit[own[-1]]), int(columns.seq[own[-1]]))

    def _take(
        self, seq: int, kind: int, node: int, f: int, offset: int, commit: int, visible: int, *found: int
    ) -> None:
        if kind == START:
            if commit != NULL:
                self._starts(seq, node, commit, visible)
                self._finds(seq, node, *found)
            self._ended.pop(node, None)
        elif kind in (SNAPSHOT, TRIM):
            end = _Known(offset - (kind == TRIM), seq)
            self._summed[node] = max(self._summed.get(node, end), end)
        elif kind == FAULT:
            if f == FAULT_WIPE:
                for each in (self._summed, self._known, self._ended):
                    each.pop(node, None)
        else:
            self._ended.setdefault(node, _Known(kind, seq))

    def _starts(self, seq: int, node: int, commit: int, visible: int) -> None:
        self._tally.judged += 1
        (end, ended), summed = self._ended.get(node, _Known(NULL, -1)), self._summed.get(node)
        known = self._known.get(node)
        if end in _KEEPS and summed is not None and commit < summed.offset:
            self._tally.violation(summed.seq, ended, seq, way="less", node=node, commit=commit, before=summed.offset)
        if end == STOP and known is not None and commit > known.offset:
            self._tally.violation(known.seq, ended, seq, way="more", node=node, commit=commit, before=known.offset)
        if visible != NULL and visible > commit:
            self._tally.violation(seq, way="visible", node=node, commit=commit, visible=visible)

    def _finds(self, seq: int, node: int, term: int, dirty: int, value: int) -> None:
        """What a start says of the terms in the log that was found."""
        text = self._words.text(value)
        runs = None if text is None else _runs_in(text)
        if runs is not None and not _may_be(runs, term, dirty):
            runs_said = (text or "")[:_LONGEST]
            self._tally.violation(seq, way="terms", node=node, term=term, dirty=dirty, runs=runs_said)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._tally,))

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken."""
        return Verdicts((self._tally.outcome(),))


def _runs_in(text: str) -> list[tuple[int, int]] | None:
    """Offsets, and the term from there on, as the text of a start has them; None for any other text."""
    try:
        return msgspec.json.decode(text, type=list[tuple[int, int]])
    except (msgspec.DecodeError, RecursionError):
        return None


def _may_be(runs: list[tuple[int, int]], term: int, dirty: int) -> bool:
    """Whether a log that ends at ``dirty`` may have these terms from these offsets on, -1 for a gap before the next."""
    offsets, terms = [offset for offset, _ in runs], [each for _, each in runs if each != _GAP]
    rise = all(a < b for a, b in pairwise(offsets)) and terms == sorted(terms)
    inside = not runs or (offsets[0] >= 0 and offsets[-1] <= dirty and runs[-1][1] != _GAP)
    return rise and inside and all(0 <= each <= term for each in terms)


FAMILY = Family(
    "restarts",
    (KNOWS,),
    _RARE | {Kind.COMMIT},
    ("node", "f", "offset", "commit", "visible", "term", "dirty", "value", "reason"),
    RestartsFold,
    RAFT,
    reads_texts=True,
)
