"""Elections: one leader a term, one vote a term and node, a leader has a majority, a term begins with a candidate.

Elections are rare beside appends, so this fold takes their events out of the columns and keeps plain
dictionaries. Source: raft.md#elections.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from loghistory.schema import Kind

from ..codes import FAULT, FAULT_WIPE, LEADER, NULL, ROLE, ROLE_CANDIDATE, TERM, VOTE
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts
from ..faults import CAUSES, WIPE
from ..sentences import listed
from .protocol import RAFT

ONE_LEADER = Check(
    id="one-leader-per-term",
    rule="No two nodes win the election of the same term.",
    source=("raft.md#election-majority",),
    fact="an election won",
    sentence="Nodes {first} and {second} both became leader of term {term}.",
    kinds=(Kind.LEADER,),
    columns=("node", "term"),
)
ONE_VOTE = Check(
    id="one-vote-per-term",
    rule="In each term a node votes for at most one candidate, even across restarts and power loss.",
    source=("raft.md#election-majority", "raft.md#vote-durable"),
    fact="a durable vote",
    sentence="Node {node} voted in term {term} for node {first} and for node {second}.",
    kinds=(Kind.VOTE,),
    columns=("node", "term", "peer"),
)
MAJORITY = Check(
    id="leader-has-majority",
    rule="A node becomes leader of a term only with the durable votes of a majority of the voters in that term.",
    source=("raft.md#election-majority",),
    fact="an election won, in a history that shows votes",
    sentence="Node {node} became leader of term {term} with {votes:durable vote|durable votes}; "
    "{needed:is|are} needed.",
    kinds=(Kind.LEADER, Kind.VOTE),
    columns=("node", "term", "peer"),
)
CANDIDATE = Check(
    id="term-needs-candidate",
    rule="A term begins with a candidate: no other node enters it earlier, and a pre-vote raises nobody's term.",
    source=("raft.md#pre-vote",),
    fact="a node that moves to a later term",
    sentence={
        "too early": "Node {node} moved to term {term} before any node was a candidate in it; node {candidate} was the "
        "first.",
        "no candidate": "Nodes {nodes} moved to term {term}, which has no candidate.",
    },
    kinds=(Kind.TERM,),
    columns=("node", "term", "peer"),
)


@dataclass(slots=True)
class _Term:
    """What is known of one term."""

    leader: tuple[int, int] | None = None  # node, seq
    votes: dict[int, tuple[int, int]] = field(default_factory=dict)  # voter -> candidate, seq
    forgotten: list[tuple[int, int, int]] = field(default_factory=list)  # votes that a wiped disk took: node as well
    begun: int | None = None  # the event that showed its first candidate
    early: dict[int, int] = field(default_factory=dict)  # who moved to it before that, and by which event


class ElectionsFold:
    """Judges the elections of one log."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._terms: dict[int, _Term] = {}
        self._leaders = Tally(ONE_LEADER, setting.keep)
        self._votes = Tally(ONE_VOTE, setting.keep)
        self._majorities = Tally(MAJORITY, setting.keep)
        self._candidates = Tally(CANDIDATE, setting.keep)
        self._wiped: dict[int, int] = {}  # by node, the last event that emptied its disk
        self._votes_seen = False

    def feed(self, columns: Columns) -> None:
        """Take the next events; those of elections are judged one by one."""
        kinds = columns.kind
        wanted = (kinds == VOTE) | (kinds == LEADER) | (kinds == TERM) | (kinds == ROLE) | (kinds == FAULT)
        places = np.flatnonzero(wanted)
        if not len(places):
            return
        some = columns.where(places).lists()
        rows = zip(some.seq, some.kind, some.node, some.term, some.peer, some.f, some.role, strict=True)
        for seq, kind, node, term, peer, f, role in rows:
            if kind == FAULT:
                if f == FAULT_WIPE:
                    self._wiped[node] = seq
            elif node >= 0 and term != NULL:
                known = self._terms.setdefault(term, _Term())
                if kind == VOTE:
                    self._vote(known, seq, node, term, peer)
                elif kind == LEADER:
                    self._leader(known, seq, node, term)
                elif kind == TERM:
                    self._candidates.judged += 1
                    if role == ROLE_CANDIDATE:
                        self._begun(known, seq, node, term)
                    elif known.begun is None:
                        known.early[node] = seq
                elif role == ROLE_CANDIDATE:
                    self._begun(known, seq, node, term)

    def _vote(self, known: _Term, seq: int, node: int, term: int, peer: int) -> None:
        self._votes_seen = True
        self._votes.judged += 1
        if peer == node:
            self._begun(known, seq, node, term)
        earlier = known.votes.setdefault(node, (peer, seq))
        if earlier[0] == peer:
            return
        wiped = self._emptied(node)
        if earlier[1] < wiped:
            self._votes.excuse(CAUSES[WIPE], (node,), wiped)
            known.forgotten.append((node, *earlier))
        else:
            self._votes.violation(earlier[1], seq, node=node, term=term, first=earlier[0], second=peer)
        known.votes[node] = (peer, seq)

    def _leader(self, known: _Term, seq: int, node: int, term: int) -> None:
        self._leaders.judged += 1
        if known.leader is None:
            known.leader = (node, seq)
        elif known.leader[0] != node:
            # Only a node that voted twice, since its disk was emptied in between, can give a term two leaders.
            if known.forgotten:
                self._leaders.excuse(CAUSES[WIPE], (known.forgotten[0][0],), self._emptied(known.forgotten[0][0]))
            elif self._wiped and not self._votes_seen:
                self._leaders.excuse(CAUSES[WIPE], first=max(self._wiped.values()))
            else:
                self._leaders.violation(known.leader[1], seq, term=term, first=known.leader[0], second=node)
        if not self._votes_seen:
            return
        self._majorities.judged += 1
        voters = self._setting.voters
        cast = {voter: vote for voter, *vote in known.forgotten if vote[0] == node}
        cast |= {voter: [*vote] for voter, vote in known.votes.items() if vote[0] == node}
        given = [vote[1] for voter, vote in cast.items() if voter in voters]
        needed = len(voters) // 2 + 1
        if len(given) < needed:
            self._majorities.violation(*given, seq, node=node, term=term, votes=len(given), needed=needed)

    def _emptied(self, node: int) -> int:
        """The last event that emptied the disk of ``node``, or of a node that is not named; -1."""
        return max(self._wiped.get(node, -1), self._wiped.get(-1, -1))

    def _begun(self, known: _Term, seq: int, node: int, term: int) -> None:
        """``node`` is a candidate: whoever moved to the term before the first one had no reason to."""
        known.early.pop(node, None)
        if known.begun is not None:
            return
        known.begun = seq
        for early, moved in known.early.items():
            self._candidates.violation(moved, seq, way="too early", node=early, term=term, candidate=node)

    def finish(self) -> Verdicts:
        """Judge terms that never had a candidate, and answer."""
        for term, known in self._terms.items():
            # One node alone may be a candidate that was stopped at once.
            if known.begun is None and len(known.early) > 1:
                nodes, moves = listed(sorted(known.early)), list(known.early.values())[:2]
                self._candidates.violation(*moves, way="no candidate", nodes=nodes, term=term)
        found = (self._leaders, self._votes, self._majorities, self._candidates)
        return Verdicts(tuple(each.outcome() for each in found))


FAMILY = Family(
    "elections",
    (ONE_LEADER, ONE_VOTE, MAJORITY, CANDIDATE),
    frozenset({Kind.VOTE, Kind.LEADER, Kind.TERM, Kind.ROLE, Kind.FAULT}),
    ("node", "term", "peer", "f", "role"),
    ElectionsFold,
    RAFT,
)
