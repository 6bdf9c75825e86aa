"""Elections: one leader a term, one vote a term and node, a leader has a majority, a term begins with a candidate.

Elections are rare beside appends, so this fold takes their events out of the columns and keeps plain
dictionaries. Sources: rules/raft.md (Elections, Known faults).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from loghistory.schema import Kind

from ..codes import FAULT, FAULT_WIPE, LEADER, NULL, ROLE, ROLE_CANDIDATE, TERM, VOTE
from ..columns import Columns
from ..contract import Check, Family, Outcome, Setting, Verdicts, Violation, outcome

CHECKS = (
    Check(
        "one-leader-per-term",
        "No two nodes win the election of the same term.",
        "rules/raft.md, Elections and Known faults (one leader per term)",
        "an election won",
        (Kind.LEADER,),
        ("node", "term"),
    ),
    Check(
        "one-vote-per-term",
        "A node votes for one candidate a term at most, across restarts and power loss.",
        "rules/raft.md, Elections (term and voted_for are durable before the reply leaves)",
        "a durable vote",
        (Kind.VOTE,),
        ("node", "term", "peer"),
    ),
    Check(
        "leader-has-majority",
        "A node becomes leader of a term only with the durable votes of a majority of the voters in that term.",
        "rules/raft.md, Elections",
        "an election won, in a history that shows votes",
        (Kind.LEADER, Kind.VOTE),
        ("node", "term", "peer"),
    ),
    Check(
        "term-needs-candidate",
        "A term begins with a candidate: nobody else moves to it earlier, and a pre-vote moves nobody.",
        "rules/raft.md, Elections (pre-vote: the vote RPC without a term bump)",
        "a node that moves to a later term",
        (Kind.TERM,),
        ("node", "term", "peer"),
    ),
)
ONE_LEADER, ONE_VOTE, MAJORITY, CANDIDATE = range(4)


@dataclass(slots=True)
class _Term:
    """What is known of one term."""

    leader: tuple[int, int] | None = None  # node, seq
    votes: dict[int, tuple[int, int]] = field(default_factory=dict)  # voter -> candidate, seq
    begun: int | None = None  # the event that showed its first candidate
    early: dict[int, int] = field(default_factory=dict)  # who moved to it before that, and by which event


class ElectionsFold:
    """Judges the elections of one log."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._terms: dict[int, _Term] = {}
        self._judged = [0] * len(CHECKS)
        self._violated = [0] * len(CHECKS)
        self._excused = [0] * len(CHECKS)
        self._violations: list[list[Violation]] = [[] for _ in CHECKS]
        self._wiped: set[int] = set()
        self._votes_seen = False

    def feed(self, columns: Columns) -> None:
        """Take the next events."""
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
                    self._wiped.add(node)
            elif node >= 0 and term != NULL:
                known = self._terms.setdefault(term, _Term())
                if kind == VOTE:
                    self._vote(known, seq, node, term, peer)
                elif kind == LEADER:
                    self._leader(known, seq, node, term)
                elif kind == TERM:
                    self._judged[CANDIDATE] += 1
                    if role == ROLE_CANDIDATE:
                        self._begun(known, seq, node, term)
                    elif known.begun is None:
                        known.early[node] = seq
                elif role == ROLE_CANDIDATE:
                    self._begun(known, seq, node, term)

    def _vote(self, known: _Term, seq: int, node: int, term: int, peer: int) -> None:
        self._votes_seen = True
        self._judged[ONE_VOTE] += 1
        if peer == node:
            self._begun(known, seq, node, term)
        earlier = known.votes.setdefault(node, (peer, seq))
        if earlier[0] == peer:
            return
        if node in self._wiped:
            self._excused[ONE_VOTE] += 1
        else:
            told = f"Node {node} voted in term {term} for node {earlier[0]} and for node {peer}."
            self._violation(ONE_VOTE, told, earlier[1], seq)
        known.votes[node] = (peer, seq)

    def _leader(self, known: _Term, seq: int, node: int, term: int) -> None:
        self._judged[ONE_LEADER] += 1
        if known.leader is None:
            known.leader = (node, seq)
        elif known.leader[0] != node:
            if self._wiped:
                self._excused[ONE_LEADER] += 1
            else:
                told = f"Nodes {known.leader[0]} and {node} both became leader of term {term}."
                self._violation(ONE_LEADER, told, known.leader[1], seq)
        if not self._votes_seen:
            return
        self._judged[MAJORITY] += 1
        voters = self._setting.voters
        given = [vote[1] for voter, vote in known.votes.items() if vote[0] == node and voter in voters]
        needed = len(voters) // 2 + 1
        if len(given) < needed:
            told = f"Node {node} became leader of term {term} with {len(given)} durable votes; it takes {needed}."
            self._violation(MAJORITY, told, *given, seq)

    def _begun(self, known: _Term, seq: int, node: int, term: int) -> None:
        """``node`` is a candidate: whoever moved to the term before the first one had no reason to."""
        known.early.pop(node, None)
        if known.begun is not None:
            return
        known.begun = seq
        for early, moved in known.early.items():
            told = (
                f"Node {early} moved to term {term} before any node was a candidate in it; node {node} was the first."
            )
            self._violation(CANDIDATE, told, moved, seq)

    def _violation(self, check: int, sentence: str, *events: int) -> None:
        self._violated[check] += 1
        if len(self._violations[check]) < self._setting.keep:
            self._violations[check].append(Violation(sentence, tuple(sorted(set(events)))))

    def finish(self) -> Verdicts:
        """The outcomes."""
        for term, known in self._terms.items():
            # One node alone may be a candidate that was stopped at once.
            if known.begun is None and len(known.early) > 1:
                told = f"Nodes {', '.join(map(str, sorted(known.early)))} moved to term {term}, which has no candidate."
                self._violation(CANDIDATE, told, *list(known.early.values())[:2])
        return Verdicts(tuple(self._outcome(place, check) for place, check in enumerate(CHECKS)))

    def _outcome(self, place: int, check: Check) -> Outcome:
        return outcome(
            check,
            self._judged[place],
            self._violated[place],
            tuple(self._violations[place]),
            excused=self._excused[place],
        )


FAMILY = Family(
    "elections",
    CHECKS,
    frozenset({Kind.VOTE, Kind.LEADER, Kind.TERM, Kind.ROLE, Kind.FAULT}),
    ("node", "term", "peer", "f", "role"),
    ElectionsFold,
    of_nodes=True,
)
