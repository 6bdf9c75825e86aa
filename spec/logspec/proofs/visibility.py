"""The visibility rule: what a reader may see is on a majority, and no acks=all entry is seen before it is committed.

Two halves. The majority replicated index (MRI) in one term, for any number of nodes: what it covers is held by every
node of a quorum; the public implementation leaves out ``min(dirty, match)``, which the twin ``visible-unclamped``
refutes. The visibility upper bound (UB) at one leader, in integers: while an append that required a flush waits,
nothing behind it is visible. Entries written with acks=0/1 that are only dirty may be lost by a power loss after they
were seen: that is what the acks level permits, so the first half has no power loss. Sources: raft.md#visibility,
documents.md#raft-simplification-acks.
"""

# A short formula reads best as a named lambda; z3 has no type hints.
# ruff: noqa: E731
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import z3

from logspec.proofs import one_term
from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.one_term import BEFORE, SIZES, State, Step, leader
from logspec.proofs.pictures import table
from logspec.proofs.quorums import HALVES, Asked, Said, Voters
from logspec.proofs.vocabulary import Formula, Index, Node, Offset, forall, implies, member
from logspec.symbolic import Executor

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


# -- the visibility upper bound -----------------------------------------------------------------------------------

_RUN = Executor()
_waits = z3.Function("waits", z3.IntSort(), z3.BoolSort())
_waits_new = z3.Function("waits_new", z3.IntSort(), z3.BoolSort())
_last, _candidate, _reached, _verified, _f_dirty = z3.Ints("last candidate reached verified follower_dirty")
_required = z3.Bool("required")


@dataclass(frozen=True)
class Bound:
    """One log and what is shown of it. Offsets are integers, -1 is nothing."""

    dirty: Any
    committed: Any  # the highest commit index that any leader has had: what is below is committed, known here or not
    commit: Any  # the commit index here
    majority: Any  # MRI
    upper: Any  # UB
    last_quorum: Any  # LQ: end of the last append that required a flush
    waits: Callable[[Any], Any]  # offset: the entry there is acks=all

    def visible(self) -> Any:  # noqa: ANN401
        """The visible offset: MRI, clamped to the upper bound (raft.md#visible-offset)."""
        return z3.If(self.majority <= self.upper, self.majority, self.upper)


_NUMBERS = ("dirty", "committed", "commit", "majority", "upper", "last_quorum")
_BOUND = Bound(waits=_waits, **{number: z3.Int(number) for number in _NUMBERS})


def bound_invariants(b: Bound, *, leads: bool) -> dict[str, Formula]:
    """Of a leader, or of a node that may become one (without what only a leader knows)."""
    offset = z3.Int("o")
    waiting = z3.And(b.waits(offset), offset > b.committed, offset <= b.dirty)
    found = {
        "nothing-is-below-the-log": z3.And(b.dirty >= -1, b.majority >= -1, b.upper >= -1),
        "visible-within-dirty": z3.And(b.majority <= b.dirty, b.upper <= b.dirty),
        "known-commit-is-a-commit": z3.And(b.commit <= b.committed, b.commit >= -1, b.commit <= b.dirty),
        "pending-is-beyond-the-bound": z3.ForAll([offset], z3.Implies(waiting, b.upper < offset)),
        "pending-not-visible": z3.ForAll([offset], z3.Implies(waiting, b.visible() < offset)),
    }
    if leads:
        found["pending-is-within-last-quorum"] = z3.ForAll([offset], z3.Implies(waiting, offset <= b.last_quorum))
        found["last-quorum-is-in-the-log"] = b.last_quorum <= b.dirty
    return found


def append_round(b: Bound, rules: Rules) -> tuple[Formula, Bound]:
    """The leader appends a round; it requires a flush if any of its entries is acks=all."""
    new = lambda o: z3.And(o > b.dirty, o <= _last)
    waits = lambda o: z3.Or(b.waits(o), z3.And(new(o), _waits_new(o)))
    offset = z3.Int("o")
    asked = z3.ForAll([offset], z3.Implies(z3.And(new(offset), _waits_new(offset)), _required))
    fresh = z3.ForAll([offset], z3.Implies(offset > b.dirty, z3.Not(b.waits(offset))))
    last_quorum = z3.If(_required, _last, b.last_quorum)
    upper = _RUN.call(rules.visibility_on_append, b.upper, b.commit, last_quorum, _last)
    after = replace(b, dirty=_last, last_quorum=last_quorum, upper=upper, waits=waits)
    return z3.And(_last > b.dirty, asked, fresh), after


def advance_commit(b: Bound, rules: Rules) -> tuple[Formula, Bound]:
    """The leader's commit index moves; then MRI rises to it."""
    upper = _RUN.call(rules.visibility_on_commit, b.upper, b.majority, _candidate, b.last_quorum)
    after = replace(
        b,
        commit=_candidate,
        committed=z3.If(_candidate > b.committed, _candidate, b.committed),
        upper=upper,
        majority=z3.If(_candidate > b.majority, _candidate, b.majority),
    )
    return z3.And(_candidate > b.commit, _candidate <= b.dirty), after


def raise_majority_index(b: Bound, rules: Rules) -> tuple[Formula, Bound]:
    """MRI rises because followers, however many, replied that they hold what the leader has."""
    held = Said("held", z3.IntSort())
    asked = Asked(rules, held)
    for half in HALVES:
        asked.census.every(half, lambda node: held.offset(node) <= b.dirty)
    majority = asked.run("majority_replicated", Voters(), held.mapping, b.majority)
    return z3.And(asked.known()), replace(b, majority=majority)


def become_leader(b: Bound, rules: Rules) -> tuple[Formula, Bound]:
    """A new leader: LQ is its flushed offset, and its configuration batch, which requires a flush, follows at once."""
    flushed = z3.Int("flushed")
    guard, after = append_round(replace(b, last_quorum=flushed), rules)
    return z3.And(guard, _required, _last == b.dirty + 1, _waits_new(_last), flushed <= b.dirty), after


def follow(b: Bound, rules: Rules) -> tuple[Formula, Bound]:
    """A follower, whose log is the leader's up to ``verified``, learns what its leader shows.

    ``b`` is the leader. The follower has its own log end; what it showed before was shown rightly.
    """
    before = z3.Int("follower_visible")
    shown = _RUN.call(rules.follower_visible, b.visible(), _f_dirty, _verified)
    raised = z3.If(shown > before, shown, before)
    offset = z3.Int("o")
    rightly = z3.ForAll(
        [offset], z3.Implies(z3.And(b.waits(offset), offset > b.committed, offset <= _f_dirty), before < offset)
    )
    guard = z3.And(
        _f_dirty >= -1,
        before >= -1,
        _verified >= -1,
        _verified <= _f_dirty,
        _verified <= b.dirty,
        before <= _f_dirty,
        rightly,
    )
    return guard, replace(b, dirty=_f_dirty, majority=raised, upper=raised, commit=z3.IntVal(-1))


_BOUND_STEPS: dict[str, tuple[Callable[[Bound, Rules], tuple[Formula, Bound]], bool, bool]] = {
    "append-round": (append_round, True, True),
    "advance-commit": (advance_commit, True, True),
    "raise-majority-index": (raise_majority_index, True, True),
    "become-leader": (become_leader, False, True),
    "follow": (follow, True, False),
}
"""Each step, whether it is taken by a leader, and whether it leaves one."""


def _keeps_bound(name: str, rules: Rules) -> Claim:
    make, led, leads = _BOUND_STEPS[name]
    guard, after = make(_BOUND, rules)
    assume = [*bound_invariants(_BOUND, leads=led).values(), guard]
    tidy = [z3.And(value >= -1, value <= 9) for b in (_BOUND, after) for value in (b.dirty, b.committed, b.last_quorum)]
    return Claim(assume, bound_invariants(after, leads=leads), _bound_picture(_BOUND, after), tidy)


def _bound_possible(name: str, rules: Rules) -> Claim:
    """The step can happen, with an acks=all entry pending in the log after it or before it."""
    make, led, _ = _BOUND_STEPS[name]
    guard, after = make(_BOUND, rules)
    pending = z3.Int("pending")
    there = z3.And(after.waits(pending), pending > _BOUND.committed, pending >= 0, pending <= after.dirty)
    return Claim([*bound_invariants(_BOUND, leads=led).values(), guard, there, _BOUND.committed >= 0])


def _bound_picture(before: Bound, after: Bound) -> Callable[[z3.ModelRef], str]:
    def row(model: z3.ModelRef, b: Bound) -> list[str]:
        values = (b.dirty, b.commit, b.committed, b.last_quorum, b.majority, b.upper, b.visible())
        numbers = [model.eval(value, model_completion=True).as_long() for value in values]
        pending = [
            str(o)
            for o in range(max(0, numbers[2] + 1), min(numbers[0], numbers[2] + 200) + 1)
            if z3.is_true(model.eval(b.waits(z3.IntVal(o)), model_completion=True))
        ]
        return [*map(str, numbers), " ".join(pending[:8]) or "none"]

    head = ["", "dirty", "commit", "committed", "LQ", "MRI", "UB", "visible", "pending acks=all"]
    return lambda model: table(head, [["before", *row(model, before)], ["after", *row(model, after)]])


def claims(rules: Rules, without: frozenset[str]) -> dict[str, Callable[[], Claim]]:
    """The claims by name: MRI is held by a majority, and a pending acks=all entry stays hidden.

    ``without`` names the premises to drop for a twin.
    """
    made: dict[str, Callable[[], Claim]] = {
        "majority/possible": partial(_majority_possible, rules),
        "majority/start": _start_of_term,
    }
    for step in _STEPS:
        free = step is one_term.raise_majority and "a-quorum-for-the-majority-index" in without
        make = _raise_without_quorum if free else step
        made[f"majority/{step.__name__.replace('_', '-')}"] = partial(_keeps_majority, make, rules)
    for name in _BOUND_STEPS:
        made[f"bound/{name}/possible"] = partial(_bound_possible, name, rules)
        made[f"bound/{name}"] = partial(_keeps_bound, name, rules)
    return made


PROOF = Proof(
    "visibility",
    ("raft.md#visibility", "documents.md#raft-simplification-acks"),
    "What is visible is held by a majority, and an acks=all entry is not visible before it is committed.",
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
        Twin(
            "visible-jumps-pending",
            "every append raises the upper bound",
            "bound/append-round",
            "pending-not-visible",
            {"visibility_on_append": lambda upper_bound, commit, last_quorum, appended: max(upper_bound, appended)},
        ),
        Twin(
            "visible-ignores-last-quorum",
            "a commit shows all that a majority holds, though an acks=all entry behind it waits",
            "bound/advance-commit",
            "pending-is-beyond-the-bound",
            {"visibility_on_commit": lambda upper_bound, majority, commit, last_quorum: max(upper_bound, majority)},
        ),
        Twin(
            "follower-visible-unbounded",
            "a follower shows what its leader shows, though its own log is shorter",
            "bound/follow",
            "visible-within-dirty",
            {"follower_visible": lambda leader_visible, dirty, verified: leader_visible},
        ),
    ),
    SIZES,
    "all N, one term",
    (
        "one leader and one term; the voters stay the same",
        "a pending append is not followed through truncation, election and restart yet",
    ),
)
