"""The commit rule, one term: what is committed is the leader's entry, durable on every node of a quorum, and stays
so.

Sources: raft.md#leader-commit, raft.md#durable, documents.md#raft-recovery-leader. ``raft_safety`` proves the same
across terms; this one is the one to read first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import z3

from logspec.proofs import one_term
from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.one_term import BEFORE, SIZES, State, Step, leader
from logspec.proofs.vocabulary import Formula, Index, Node, Offset, forall, implies, member

_STEPS: tuple[Callable[[State, Rules], Step], ...] = (
    one_term.leader_append,
    one_term.follower_append,
    one_term.flush,
    one_term.power_loss,
    one_term.reply,
    one_term.count_own,
    one_term.commit,
)


def _equal(s: State, node: z3.ExprRef, offset: z3.ExprRef) -> Formula:
    return forall(Index, lambda j: implies(j != Offset.least, Offset.at_most(j, offset), s.same(node, j)))


def invariants(s: State) -> dict[str, Formula]:
    """What is counted is durable and equal; what is committed was counted on a quorum."""
    return {
        **one_term.invariants(s),
        "match-is-real": forall(Node, Index, lambda m, j: implies(s.counted(m, j), j != Offset.least, s.same(m, j))),
        "match-is-durable": forall(Node, Index, lambda m, j: implies(s.counted(m, j), Offset.at_most(j, s.durable(m)))),
        "counted-downwards": forall(
            Node, Index, Index, lambda m, j, g: implies(s.counted(m, j), Offset.at_most(g, j), s.counted(m, g))
        ),
        "committed-was-counted": forall(
            Index, Node, lambda j, m: implies(s.committed(j), member(m, s.commit_quorum(j)), s.counted(m, j))
        ),
        "committed-is-flushed-by-the-leader": forall(
            Index, lambda j: implies(s.committed(j), Offset.at_most(j, s.durable(leader)))
        ),
        "committed-flushed-on-majority": forall(
            Index,
            Node,
            lambda j, m: implies(
                s.committed(j),
                member(m, s.commit_quorum(j)),
                j != Offset.least,
                z3.And(s.same(m, j), Offset.at_most(j, s.durable(m))),
            ),
        ),
    }


def claims(rules: Rules, without: frozenset[str]) -> dict[str, Callable[[], Claim]]:
    """An entry can be committed; the invariants hold at the start of the term; every step keeps them."""
    made: dict[str, Callable[[], Claim]] = {"possible": partial(_possible, rules), "start": _start}
    for make in _STEPS:
        step = partial(make, of_one_reply=False) if make is one_term.reply and "one-reply" in without else make
        made[make.__name__.replace("_", "-")] = partial(_keeps, step, rules)
    return made


def _start() -> Claim:
    assume = [*one_term.axioms(), *one_term.invariants(BEFORE).values()]
    return Claim(assume, invariants(one_term.start()), one_term.picture(BEFORE, BEFORE))


def _keeps(make: Callable[[State, Rules], Step], rules: Rules) -> Claim:
    step = make(BEFORE, rules)
    assume = [*one_term.axioms(), *invariants(BEFORE).values(), step.guard]
    return Claim(assume, invariants(step.after), one_term.picture(BEFORE, step.after))


def _possible(rules: Rules) -> Claim:
    """A leader with one flushed entry; a follower appends it, flushes, replies; the entry is committed."""
    s = one_term.start()
    least = Offset.least
    assume = [*one_term.axioms(), *one_term.invariants(s).values(), Offset.follows(one_term.i, least)]
    assume += [s.flushed(leader) == one_term.i, s.dirty(one_term.n) == least, member(one_term.n, one_term.q)]
    for make in (one_term.follower_append, one_term.flush, one_term.reply, one_term.count_own, one_term.commit):
        step = make(s, rules)
        assume.append(step.guard)
        s = step.after
    return Claim([*assume, s.committed(one_term.i)])


PROOF = Proof(
    "commit-rule",
    ("raft.md#commit-index", "documents.md#raft-recovery-leader"),
    "Within a term, what the leader commits is its own entry and durable on every node of a quorum, whatever crashes.",
    claims,
    (
        Twin(
            "commit-counts-dirty",
            "an offset that is only dirty is counted as durable",
            "reply",
            "match-is-durable",
            {"replicated_flushed": lambda dirty, flushed, match: min(dirty, match)},
        ),
        Twin(
            "commit-ignores-match",
            "a flushed tail of another log is counted",
            "reply",
            "match-is-real",
            {"replicated_flushed": lambda dirty, flushed, match: flushed},
        ),
        Twin(
            "replies-combined",
            "flushed is taken from one reply and match from a later one, after the flushed tail was cut off",
            "reply",
            "match-is-durable",
            without=frozenset({"one-reply"}),
        ),
    ),
    SIZES,
    "all N, one term",
    ("one leader and one term; the voters stay the same", "what was flushed survives a power loss"),
    protocol="raft",
)
