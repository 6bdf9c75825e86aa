"""What the rules about quorums promise, for groups of one to seven voters, joint ones and ones with learners.

The large proofs know of quorums only that any two have a node in common (``vocabulary.quorums_intersect``). Here that
is proved of ``vote_result``, across a joint configuration as well, and that ``commit_candidate`` and
``majority_replicated`` count on such quorums. Sources: raft.md#quorum-match, raft.md#election-majority.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import z3

from logspec.proofs.vocabulary import Formula

Run = Callable[..., Any]
"""Runs a rule, given its name and its arguments."""

WON = 1
LOST = 2
"""What ``vote_result`` answers."""


@dataclass(frozen=True)
class Voters:
    """A group as the rules are given it: see ``quorumlog.quorum.Voters``."""

    current: tuple[int, ...]
    old: tuple[int, ...] = ()
    learners: tuple[int, ...] = ()

    @property
    def halves(self) -> list[tuple[int, ...]]:
        """The halves that have anybody in them: each must agree."""
        return [half for half in (self.current, self.old) if half]

    @property
    def nodes(self) -> list[int]:
        """Everybody, the leader (node 0) among them, whether it votes or not."""
        return sorted({0, *self.current, *self.old, *self.learners})


JOINT: dict[str, Voters] = {
    "joint-one-added": Voters((0, 1, 2, 3), old=(0, 1, 2)),
    "joint-one-replaced": Voters((0, 1, 3), old=(0, 1, 2)),
    "joint-all-replaced": Voters((3, 4, 5), old=(0, 1, 2)),
    "joint-two-demoted": Voters((0, 1, 2), old=(0, 1, 2, 3, 4), learners=(3, 4)),
}
GROUPS: dict[str, Voters] = {
    **{f"{n}-voters": Voters(tuple(range(n))) for n in range(1, 8)},
    "two-learners": Voters((0, 1, 2), learners=(3, 4)),
    "a-leader-without-vote": Voters((1, 2)),
    **JOINT,
}


def _majority_has(half: Sequence[int], reached: Mapping[int, Any], least: Any) -> Formula:  # noqa: ANN401
    """More than half of the nodes have reached at least ``least``."""
    return 2 * z3.Sum([z3.If(reached[node] >= least, 1, 0) for node in half]) > len(half)


def _quorum_has(voters: Voters, reached: Mapping[int, Any], least: Any) -> Formula:  # noqa: ANN401
    return z3.And([_majority_has(half, reached, least) for half in voters.halves])


def _of_offsets(reached: Mapping[int, Any], goals: dict[str, Formula]) -> dict[str, Formula]:
    """The goals for what nodes can have reached: -1 is nothing, and nobody has less."""
    offsets = z3.And([offset >= -1 for offset in reached.values()])
    return {name: z3.Implies(offsets, goal) for name, goal in goals.items()}


def commit_candidate(voters: Voters, run: Run) -> dict[str, Formula]:
    """What a leader may commit, given what each node has flushed."""
    durable = {node: z3.Int(f"flushed_{node}") for node in voters.nodes}
    own, larger = durable[0], z3.Int("larger")
    candidate = run("commit_candidate", voters, durable, own)
    goals = {
        "a-majority-has-reached-it": _quorum_has(voters, durable, candidate),
        "the-leader-has-flushed-it": candidate <= own,
        "no-larger-one-would-do": z3.Implies(
            z3.And(larger > candidate, larger <= own), z3.Not(_quorum_has(voters, durable, larger))
        ),
    }
    return _of_offsets(durable, goals)


def majority_replicated(voters: Voters, run: Run) -> dict[str, Formula]:
    """The majority replicated index, given what each node holds."""
    replicated = {node: z3.Int(f"dirty_{node}") for node in voters.nodes}
    before, larger = z3.Ints("before larger")
    majority = run("majority_replicated", voters, replicated, before)
    goals = {
        "never-moves-back": majority >= before,
        "a-majority-has-reached-it": z3.Implies(majority > before, _quorum_has(voters, replicated, majority)),
        "no-larger-one-would-do": z3.Implies(larger > majority, z3.Not(_quorum_has(voters, replicated, larger))),
    }
    return _of_offsets(replicated, goals)


def _votes(name: str, voters: Voters) -> dict[int, z3.BoolRef]:
    return {node: z3.Bool(f"{name}_{node}") for node in voters.nodes}


def _counted(half: Sequence[int], votes: Mapping[int, z3.BoolRef]) -> Formula:
    return 2 * z3.Sum([z3.If(votes[node], 1, 0) for node in half]) > len(half)


def vote_result(voters: Voters, run: Run) -> dict[str, Formula]:
    """How a vote stands: won by quorums, any two of which have a voter in common, and decided for good."""
    one, other = _votes("one", voters), _votes("other", voters)
    result, rival = run("vote_result", voters, one), run("vote_result", voters, other)
    both_won = z3.And(result == WON, rival == WON)
    stays = []
    for silent in voters.nodes:
        before = run("vote_result", voters, {node: vote for node, vote in one.items() if node != silent})
        stays += [z3.Implies(before == decided, result == decided) for decided in (WON, LOST)]
    won = z3.And([_counted(half, one) for half in voters.halves])
    return {
        "won-by-a-majority-of-each-half": (result == WON) == won,
        "lost-otherwise": (result == LOST) == z3.Not(won),
        "two-quorums-intersect": z3.And(
            [z3.Implies(both_won, z3.Or([z3.And(one[n], other[n]) for n in half])) for half in voters.halves]
        ),
        "decided-for-good": z3.And(stays),
    }


def quorums_across_a_change(voters: Voters, run: Run) -> dict[str, Formula]:
    """A quorum of a joint group meets every quorum of the group before it, and of the one that follows."""
    one, other = _votes("one", voters), _votes("other", voters)
    joint = run("vote_result", voters, one) == WON
    return {
        f"meets-those-of-the-{name}-half": z3.Implies(
            z3.And(joint, run("vote_result", Voters(half), other) == WON),
            z3.Or([z3.And(one[node], other[node]) for node in half]),
        )
        for name, half in (("current", voters.current), ("old", voters.old))
    }
