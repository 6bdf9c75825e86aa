"""Who must agree: a majority of the voters, of both halves while their set changes (raft.md#quorum-match).

Pure functions of a group's ``Voters`` and of what each node acknowledged or voted. The specification has each as an
operator of the same name (``spec/raft/Quorum.tla``), and the proofs run these very functions on symbolic terms.

An empty half asks for nothing: it has reached ``EVERYTHING``, and a vote in it is won. So a joint configuration with
one empty half decides like the other half alone, and no caller needs a case for it. A group without any voter would
by the same convention agree with everything; no core starts in one. A node that has not answered has acknowledged
``NOTHING`` and has not voted. Nodes in neither half, learners and others, do not count, whatever they acknowledged; a
leader too counts only where it is a voter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

NOTHING = -1
"""The offset that a node has reached if it has not acknowledged any."""

EVERYTHING = 2**63 - 1
"""The offset that an empty half has reached: larger than any other."""

VOTE_PENDING = 0
VOTE_WON = 1
VOTE_LOST = 2


@dataclass(frozen=True, slots=True)
class Voters:
    """The nodes of a group by what they decide, each half in the order of priority.

    ``current``: the voters; ``old``: the voters that are being replaced, empty except in a joint configuration;
    ``learners``: receive the log and decide nothing. A node may be in both halves; a learner may still be an old voter.

    Raises ValueError if a node is named twice in one place, or is a current voter and a learner.
    """

    current: tuple[int, ...]
    old: tuple[int, ...] = ()
    learners: tuple[int, ...] = ()
    voting: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The nodes that decide in some half: they are asked for votes."""
    members: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """All nodes of the group: they are sent the log. Current voters first, then learners, then old voters."""

    def __post_init__(self) -> None:
        for nodes in (self.current, self.old, (*self.current, *self.learners)):
            twice = [node for node in nodes if nodes.count(node) > 1]
            if twice:
                raise ValueError(f"node {twice[0]} is named twice in the voters {self}; name it once")
        object.__setattr__(self, "voting", tuple(dict.fromkeys((*self.current, *self.old))))
        object.__setattr__(self, "members", tuple(dict.fromkeys((*self.current, *self.learners, *self.old))))

    def __str__(self) -> str:
        """``0,1,2``, with ``old 2,3,4`` and ``learners 5`` behind it where there are any."""
        named = (("", self.current), (" old ", self.old), (" learners ", self.learners))
        return "".join(name + ",".join(map(str, nodes)) for name, nodes in named if nodes)


def majority_match(nodes: Sequence[int], acknowledged: Mapping[int, int]) -> int:
    """Return the largest offset that more than half of the nodes have reached, ``EVERYTHING`` if there are none."""
    if len(nodes) == 0:
        return EVERYTHING
    return sorted([acknowledged.get(node, NOTHING) for node in nodes])[(len(nodes) - 1) // 2]


def quorum_match(voters: Voters, acknowledged: Mapping[int, int]) -> int:
    """Return the largest offset that a quorum has reached: a majority of each half, so the smaller of two offsets.

    Source: raft.md#quorum-match.
    """
    current = majority_match(voters.current, acknowledged)
    if len(voters.old) == 0:  # nearly always the case, and the leader asks at every reply
        return current
    return min(current, majority_match(voters.old, acknowledged))


def majority_vote(nodes: Sequence[int], votes: Mapping[int, bool]) -> int:
    """Return how a vote among the nodes stands; ``votes`` has those that answered. Won if there are no nodes."""
    granted = sum([votes.get(node, False) for node in nodes])
    refused = sum([not votes.get(node, True) for node in nodes])
    if len(nodes) == 0 or 2 * granted > len(nodes):
        return VOTE_WON
    return VOTE_LOST if 2 * refused >= len(nodes) else VOTE_PENDING


def vote_result(voters: Voters, votes: Mapping[int, bool]) -> int:
    """Return VOTE_WON once a majority of each half has granted, VOTE_LOST once one half cannot any more, else
    VOTE_PENDING.

    Source: raft.md#election-majority.
    """
    current = majority_vote(voters.current, votes)
    if len(voters.old) == 0:
        return current
    old = majority_vote(voters.old, votes)
    if current == VOTE_LOST or old == VOTE_LOST:
        return VOTE_LOST
    return VOTE_WON if current == VOTE_WON and old == VOTE_WON else VOTE_PENDING


def is_quorum(voters: Voters, nodes: Collection[int]) -> bool:
    """Tell whether these nodes are a quorum: a majority of each half."""
    return vote_result(voters, {node: node in nodes for node in [*voters.current, *voters.old]}) == VOTE_WON
