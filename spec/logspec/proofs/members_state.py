"""``raft_state`` with voters that change: what is added to the state, and which steps say more or do more.

An entry of the log may be a *change*: from its append on, every node that has it goes by its configuration, the last
one in its own log (raft.md#configuration-in-force). Only changes of voters are told apart; an entry that repeats the
configuration is as any other. A commit counts a quorum of the configuration in force on its leader, an election one of
that on its candidate. Before all entries stands the first configuration, as a change of its own.
Sources: raft.md#change-refused, raft.md#change-steps, raft.md#joint.
"""

# A short formula reads best as a named lambda; z3 has no type hints.
# ruff: noqa: E731
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import cast

import z3

from logspec.proofs import raft_state
from logspec.proofs.claims import Rules
from logspec.proofs.raft_state import EXECUTOR, Choice, Commit, Relation, State, Step, as_formula
from logspec.proofs.vocabulary import Epoch, Formula, Index, Offset, Quorum, Term, TermSort, forall, implies

Config = z3.DeclareSort("Config")
"""A configuration: who votes, in one half or two."""

quorum_of = z3.Function("quorum_of", Quorum, Config, z3.BoolSort())
"""The nodes are a quorum of this configuration."""
steps_to = z3.Function("steps_to", Config, Config, z3.BoolSort())
"""One step of a change leads from the first to the second (``quorums``: ``vote-result/across`` and ``/promotion``)."""


@dataclass(frozen=True)
class MembersState(State):
    """The state with configurations; what nobody could see is ghost, and decides nothing."""

    change: Relation  # (term, offset): the leader of the term wrote a change there
    config: Relation  # (term, offset) -> config: which one
    prior_term: Relation  # (term, offset) -> term: the change before it in the log, by its term..
    prior_offset: Relation  # (term, offset) -> offset: ..and its offset
    basis: Relation  # (term, offset) -> commit: what its leader had committed when it wrote it
    # -- ghost
    counted_term: Relation  # commit -> term: the change by whose configuration a commit was counted..
    counted_offset: Relation  # commit -> offset
    counted_end: Relation  # commit -> offset: where the leader's log ended then
    elected_term: Relation  # term -> term: the change by whose configuration its leader was elected..
    elected_offset: Relation  # term -> offset
    lost: Relation  # (term, offset): the leader of some later term lacked the entry of this term
    first_lost: Relation  # (term, offset, term): this one was elected first of these

    def within(self, log: Callable[[Term, Term], Formula], term: Term, offset: Term) -> Formula:
        """The entry of this term is in a log, given as a relation; what stands before all entries is in every log."""
        return z3.Or(z3.And(term == Epoch.least, offset == Offset.least), log(offset, term))

    def in_force(self, log: Callable[[Term, Term], Formula], term: Term, offset: Term) -> Formula:
        """The last change in a log is the one of this term and offset."""
        later = lambda i, u: implies(log(i, u), Offset.below(offset, i), z3.Not(self.change(u, i)))
        return z3.And(self.change(term, offset), self.within(log, term, offset), forall(Index, TermSort, later))

    def of(self, node: Term) -> Callable[[Term, Term], Formula]:
        """A node's log, as a relation of offsets and terms."""
        return lambda i, u: self.entry(node, i, u)

    def led_by(self, term: Term, end: Term) -> Callable[[Term, Term], Formula]:
        """The log of the leader of a term up to an offset."""
        return lambda i, u: z3.And(self.term_log(term, i, u), Offset.at_most(i, end))

    def begun_by(self, term: Term) -> Callable[[Term, Term], Formula]:
        """The log of the leader of a term as it was elected."""
        return lambda i, u: z3.And(self.term_log(term, i, u), Epoch.below(u, term))


_SORTS: dict[str, tuple[z3.SortRef, ...]] = {
    "change": (TermSort, Index, z3.BoolSort()),
    "config": (TermSort, Index, Config),
    "prior_term": (TermSort, Index, TermSort),
    "prior_offset": (TermSort, Index, Index),
    "basis": (TermSort, Index, Commit),
    "counted_term": (Commit, TermSort),
    "counted_offset": (Commit, Index),
    "counted_end": (Commit, Index),
    "elected_term": (TermSort, TermSort),
    "elected_offset": (TermSort, Index),
    "lost": (TermSort, Index, z3.BoolSort()),
    "first_lost": (TermSort, Index, TermSort, z3.BoolSort()),
}

_OLD = {field.name: getattr(raft_state.BEFORE, field.name) for field in fields(State)}
BEFORE = MembersState(**_OLD, **{key: z3.Function(key, *sorts) for key, sorts in _SORTS.items()})


@dataclass(frozen=True)
class MembersChoice(Choice):
    """What a step picks: beside what `Choice` has, the change in force (``w``, ``k0``) and the next configuration."""

    def __getattr__(self, key: str) -> Term:
        sorts = {"w": TermSort, "x0": Index, "new": Config}
        return z3.Const(f"{key}{self.label}", sorts[key]) if key in sorts else super().__getattr__(key)


def _put(function: Relation, *keys_then_value: Term) -> Relation:
    """The function with one value replaced."""
    *keys, value = keys_then_value
    return lambda *given: z3.If(z3.And([a == b for a, b in zip(given, keys, strict=True)]), value, function(*given))


MakeStep = Callable[[MembersState, Rules, MembersChoice], Step]


def _and(step: Step, **changed: Relation) -> Step:
    """The step, with more of the state changed."""
    return replace(step, after=replace(cast("MembersState", step.after), **changed))


def become_leader(s: MembersState, rules: Rules, c: MembersChoice) -> Step:
    """A quorum of the configuration in force in the candidate's log has voted for it."""
    step = raft_state.become_leader(s, rules, c)
    lacks = lambda t, i: z3.And(Epoch.below(t, c.t), z3.Not(s.entry(c.n, i, t)))
    return _and(
        step,
        elected_term=_put(s.elected_term, c.t, c.w),
        elected_offset=_put(s.elected_offset, c.t, c.x0),
        lost=lambda t, i: z3.Or(s.lost(t, i), lacks(t, i)),
        first_lost=lambda t, i, u: z3.Or(s.first_lost(t, i, u), z3.And(u == c.t, z3.Not(s.lost(t, i)), lacks(t, i))),
    )


def leader_commit(s: MembersState, rules: Rules, c: MembersChoice) -> Step:
    """A quorum of the configuration in force in the leader's log was counted."""
    step = raft_state.leader_commit(s, rules, c)
    return _and(
        step,
        counted_term=_put(s.counted_term, c.event, c.w),
        counted_offset=_put(s.counted_offset, c.event, c.x0),
        counted_end=_put(s.counted_end, c.event, s.dirty(c.n)),
    )


def change_voters(s: MembersState, rules: Rules, c: MembersChoice) -> Step:
    """A leader that serves, and has committed the configuration in force, appends the next one."""
    step = raft_state.leader_append(s, rules, c)
    serves = z3.And(s.entry(c.n, s.commit(c.n), c.u), as_formula(EXECUTOR.call(rules.may_serve, c.u, c.t)))
    return _and(
        Step("change-voters", z3.And(step.guard, serves), step.after),
        change=_put(s.change, c.t, c.i, z3.BoolVal(True)),
        config=_put(s.config, c.t, c.i, c.new),
        prior_term=_put(s.prior_term, c.t, c.i, c.w),
        prior_offset=_put(s.prior_offset, c.t, c.i, c.x0),
        basis=_put(s.basis, c.t, c.i, s.known(c.n)),
    )


def by_configuration(make: MakeStep, s: MembersState, c: MembersChoice) -> dict[str, Formula]:
    """What a step asks of configurations: that in force at its node is the change ``w`` at ``x0``."""
    in_force = {"in-force": s.in_force(s.of(c.n), c.w, c.x0)}
    if make in CHANGED.values():
        return {**in_force, "quorum-of-it": quorum_of(c.q, s.config(c.w, c.x0))}
    if make is change_voters:
        committed, one_step = Offset.at_most(c.x0, s.commit(c.n)), steps_to(s.config(c.w, c.x0), c.new)
        return {**in_force, "newest-is-committed": committed, "one-step": one_step}
    return {}


CHANGED: dict[str, MakeStep] = {"become_leader": become_leader, "leader_commit": leader_commit}
STEPS: tuple[MakeStep, ...] = (*(CHANGED.get(step.__name__, step) for step in raft_state.STEPS), change_voters)


def start() -> MembersState:
    """Nothing has happened; the first configuration stands before all entries."""
    old = raft_state.start()
    first = lambda t, i: z3.And(t == Epoch.least, i == Offset.least)
    some = {TermSort: Epoch.least, Index: Offset.least, Commit: z3.Const("no_commit", Commit)}
    some |= {z3.BoolSort(): z3.BoolVal(False), Config: z3.Const("first_config", Config)}
    empty = {key: (lambda *given, value=some[sorts[-1]]: value) for key, sorts in _SORTS.items()}
    return MembersState(
        **{field.name: getattr(old, field.name) for field in fields(State)}, **{**empty, "change": first}
    )
