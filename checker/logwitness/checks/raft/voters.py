"""Who counts for a majority: the voters of the configuration, and what to say where that cannot be believed.

Source: raft.md#who-votes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..sentences import listed

UNKNOWN_VOTERS = (
    "who votes is not known: the configuration names neither the voters nor a number of nodes that fits the events"
)


def majority_of(voters: Sequence[int]) -> int:
    """How many voters are a majority; 0 if they are not known."""
    return len(voters) // 2 + 1 if voters else 0


def acts_as_voter(node: int, voters: Sequence[int]) -> str:
    """The reason why nothing is said about majorities: a node acts as a voter that is none, or a voter as a learner."""
    acts = "is a learner" if node in voters else "votes, is voted for, stands for election or leads"
    return f"node {node} {acts}, but the configuration has the voters {listed([*voters])}"


def too_many_nodes(found: int, nodes: int) -> str:
    """The reason why nothing is said about majorities: there are more nodes than there are."""
    return f"voters and other nodes that are told of are {found}, but the configuration has {nodes} nodes"


def recorded_nothing(voters: Sequence[int]) -> str:
    """The reason why a check that could not count a majority does not hold: nothing is known of some voters."""
    several = "s" if len(voters) > 1 else ""
    return f"majorities cannot be counted: nothing is recorded of voter{several} {listed([*voters])}"
