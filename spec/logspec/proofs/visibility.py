"""What a reader may see is on a majority: the majority replicated index (MRI) in one term, for any number of nodes.

What it covers is held by every node of a quorum; the public implementation leaves out ``min(dirty, match)``, which the
twin ``visible-unclamped`` refutes. Entries written with acks=0/1 that are only dirty may be lost by a power loss after
they were seen: that is what the acks level permits, so there is no power loss here. The other bound of what is visible
is that of `pending`. Sources: raft.md#visibility, documents.md#raft-simplification-acks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from logspec.proofs import one_term
from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.one_term import BEFORE, SIZES, State, Step, leader
from logspec.proofs.vocabulary import Formula, Index, Node, Offset, forall, implies, member

# -- the majority replicated index --------------------------------------------------------------------------------

_STEPS: tuple[Callable[[State, Rules], Step], ...] = (
    one_term.leader_append,
    one_term.follower_append,
    one_term.flush,
    one_term.reply,
    one_term.count_own,
    one_term.raise_majority,
)


def majority_invariants(s: State) -> dict[str, Formula]:
    """What counts as replicated is held; what the majority index covers was counted on a quorum."""
    return {
        **one_term.invariants(s),
        "replicated-is-held": forall(
            Node, Index, lambda m, j: implies(s.replicated(m, j), j != Offset.least, s.same(m, j))
        ),
        "replicated-downwards": forall(
            Node, Index, Index, lambda m, j, g: implies(s.replicated(m, j), Offset.at_most(g, j), s.replicated(m, g))
        ),
        "majority-was-counted": forall(
            Index, Node, lambda j, m: implies(s.majority(j), member(m, s.majority_quorum(j)), s.replicated(m, j))
        ),
        "visible-on-majority": forall(
            Index,
            Node,
            lambda j, m: implies(s.majority(j), member(m, s.majority_quorum(j)), j != Offset.least, s.same(m, j)),
        ),
    }


def _raise_without_quorum(s: State, rules: Rules) -> Step:
    """For the twin: the leader's own dirty offset is taken for the majority replicated index."""
    return Step(Offset.at_most(one_term.i, s.dirty(leader)), one_term.raise_majority(s, rules).after)


def _keeps_majority(make: Callable[[State, Rules], Step], rules: Rules) -> Claim:
    step = make(BEFORE, rules)
    assume = [*one_term.axioms(), *majority_invariants(BEFORE).values(), step.guard]
    return Claim(assume, majority_invariants(step.after), one_term.picture(BEFORE, step.after))


def _start_of_term() -> Claim:
    assume = [*one_term.axioms(), *one_term.invariants(BEFORE).values()]
    return Claim(assume, majority_invariants(one_term.start()), one_term.picture(BEFORE, BEFORE))


def _majority_possible(rules: Rules) -> Claim:
    """A leader with one entry; a follower appends it and replies, unflushed; the entry is on a majority."""
    s = one_term.start()
    assume = [*one_term.axioms(), *one_term.invariants(s).values(), Offset.follows(one_term.i, Offset.least)]
    assume += [s.dirty(leader) == one_term.i, s.dirty(one_term.n) == Offset.least, member(one_term.n, one_term.q)]
    for make in (one_term.follower_append, one_term.reply, one_term.count_own, one_term.raise_majority):
        step = make(s, rules)
        assume.append(step.guard)
        s = step.after
    return Claim([*assume, s.majority(one_term.i), s.flushed(one_term.n) != one_term.i])


def claims(rules: Rules, without: frozenset[str]) -> dict[str, Callable[[], Claim]]:
    """The claims by name; ``without`` names the premises to drop for a twin."""
    made: dict[str, Callable[[], Claim]] = {
        "majority/possible": partial(_majority_possible, rules),
        "majority/start": _start_of_term,
    }
    for step in _STEPS:
        free = step is one_term.raise_majority and "a-quorum-for-the-majority-index" in without
        make = _raise_without_quorum if free else step
        made[f"majority/{step.__name__.replace('_', '-')}"] = partial(_keeps_majority, make, rules)
    return made


PROOF = Proof(
    "visibility",
    ("raft.md#visibility", "documents.md#raft-simplification-acks"),
    "What is visible is held by a majority.",
    claims,
    (
        Twin(
            "visible-unclamped",
            "the majority index counts a follower's dirty offset without min(match), as the public implementation does",
            "majority/reply",
            "replicated-is-held",
            {"replicated_dirty": lambda dirty, flushed, match: dirty},
        ),
        Twin(
            "visible-uses-dirty",
            "the leader's dirty offset is taken for the majority index",
            "majority/raise-majority",
            "visible-on-majority",
            without=frozenset({"a-quorum-for-the-majority-index"}),
        ),
    ),
    SIZES,
    "all N, one term",
    ("one leader and one term; the voters stay the same", "no power is lost"),
    protocol="raft",
)
