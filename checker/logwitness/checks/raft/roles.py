"""The roles of a node: it starts as a follower, and in a term goes from follower to candidate to leader and back, once.

Fed by `elections` with the events in which a node starts, or states another role or term than before. What a node was
in a term is forgotten when it starts: a breach needs both halves in one life. Source: raft.md#roles.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..codes import LEADER, OTHER, ROLE_CANDIDATE, ROLE_FOLLOWER, ROLE_LEADER, START, TERM
from ..contract import Check, Tally

ROLES_IN_ORDER = Check(
    id="roles-in-order",
    rule="A node starts as a follower or a learner. Within a term it stands for election, leads and follows again, in "
    "that order, each at most once, and says once that it leads; it does not stand in a term in which it voted for "
    "another, nor lead one in which it started without standing for election, and it votes for itself only when it "
    "stands.",
    source=("raft.md#roles",),
    fact="a start that states a role, an event that states another role than the node had in that term or a second "
    "time that it leads, or a vote of a node for itself, once roles are recorded",
    sentence={
        "start": "Node {node} started as a {role} in term {term}.",
        "again": "Node {node} was a {role} in term {term}, in which it had already led or given up standing for "
        "election.",
        "twice": "Node {node} became leader of term {term} a second time.",
        "started": "Node {node} led term {term}, in which it had started without standing for election.",
        "itself": "Node {node} voted for itself in term {term}, in which it had not stood for election.",
        "voted": "Node {node} stood for election in term {term}, in which it had voted for node {peer}.",
    },
    columns=("node", "term", "role"),
)

_NAMES = {ROLE_LEADER: "leader", ROLE_CANDIDATE: "candidate"}


@dataclass(slots=True)
class _Turn:
    """What a node has been in a term of its present life, and the events that showed it; a follower at first."""

    term: int
    role: int = ROLE_FOLLOWER
    began: int = -1  # its life began in this term
    stood: int = -1
    led: int = -1
    gave_up: int = -1
    said: int = -1  # an event of the kind leader
    may_have_stood: bool = False  # voted for itself, or moved to the term as a candidate, if only of the one before

    def may_not(self, role: int) -> tuple[int, ...]:
        """The events for which it may not take this role now; none if it may."""
        if role == ROLE_CANDIDATE and self.led >= 0:
            return (self.led,)
        if self.gave_up < 0 or role not in _NAMES:
            return ()
        return (self.led if self.led >= 0 else self.stood), self.gave_up

    def take(self, seq: int, role: int) -> None:
        """It takes another role by event ``seq``, whether it may or not."""
        self.role = role
        if role == ROLE_LEADER:
            self.led, self.gave_up = seq, -1
        elif role == ROLE_CANDIDATE:
            self.stood, self.led, self.gave_up = seq, -1, -1
        elif max(self.led, self.stood) >= 0:
            self.gave_up = seq


class Roles:
    """Judges the roles of the nodes of one log."""

    def __init__(self, keep: int) -> None:
        self.tally = Tally(ROLES_IN_ORDER, keep)
        self._turns: dict[int, _Turn] = {}

    def take(
        self,
        seq: int,
        kind: int,
        node: int,
        term: int,
        role: int,
        vote: tuple[int, int] | None,
        *,
        stands: bool,
        itself: bool,
    ) -> None:
        """An event of a node; ``vote`` is whom it voted for in this term, by which event, as far as its disk knows;
        ``stands``: by this event it is a candidate, or votes for itself; ``itself``: it votes for itself, and roles are
        recorded."""
        role = ROLE_LEADER if kind == LEADER else OTHER if kind == TERM else role
        turn = self._turns.get(node)
        if kind == START:
            self._turns[node] = _Turn(term, began=seq)
            if role != OTHER:
                self.tally.judged += 1
                if role in _NAMES:
                    self.tally.violation(seq, way="start", node=node, role=_NAMES[role], term=term)
            return
        known = turn is not None
        if turn is None or turn.term != term:
            turn = self._turns[node] = _Turn(term)
        if itself and known and role != OTHER:
            self.tally.judged += 1
            if role not in _NAMES and not turn.may_have_stood and max(turn.stood, turn.led) < 0:
                self.tally.violation(seq, way="itself", node=node, term=term)
        turn.may_have_stood |= stands
        if role not in (OTHER, turn.role):
            if known:
                self._judge(turn, seq, node, role, vote)
            turn.take(seq, role)
        elif kind == LEADER and turn.said >= 0:
            self.tally.judged += 1
            self.tally.violation(turn.said, seq, way="twice", node=node, term=term)
        if kind == LEADER:
            turn.said = seq

    def _judge(self, turn: _Turn, seq: int, node: int, role: int, vote: tuple[int, int] | None) -> None:
        self.tally.judged += 1
        shown = turn.may_not(role)
        if shown:
            self.tally.violation(*shown, seq, way="again", node=node, role=_NAMES[role], term=turn.term)
        elif role == ROLE_LEADER and turn.began >= 0 and not turn.may_have_stood and max(turn.stood, turn.led) < 0:
            self.tally.violation(turn.began, seq, way="started", node=node, term=turn.term)
        elif role == ROLE_CANDIDATE and vote is not None and vote[0] != node:
            self.tally.violation(vote[1], seq, way="voted", node=node, term=turn.term, peer=vote[0])
