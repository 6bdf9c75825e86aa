"""Safety of Raft with flush, crash, power loss and voters that change, for all numbers of nodes, terms and offsets.

``raft_safety`` takes for granted that any two quorums meet. With voters that change only those of one configuration and
of its neighbours do, so it is proved first that no other two are ever compared (``configurations-meet``): if of two
logs each holds what the changes of the other rest on, their last changes are the same or one step apart. That a leader
holds all that was committed, and that a term has one leader, follow from it (``become-leader/..``), as does that what
is committed is lost by nobody who leads already (``leader-commit/..``).

What ``raft_safety`` says of what nodes take for committed (``../commits``), and that logs have no gaps, speaks of no
quorum and goes for these steps as it is. Sources: raft.md#change-refused, raft.md#change-steps, raft.md#joint.
"""

# A short formula reads best as a named lambda; z3 has no type hints.
# ruff: noqa: E731
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import cast

import z3

from logspec.proofs import quorums, raft_safety
from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.members_invariants import (
    CHANGES,
    LOSSES,
    OLD,
    Group,
    change_invariants,
    firsts,
    invariants,
    loss_invariants,
)
from logspec.proofs.members_state import (
    BEFORE,
    CHANGED,
    STEPS,
    Config,
    MakeStep,
    MembersChoice,
    MembersState,
    become_leader,
    by_configuration,
    change_voters,
    leader_commit,
    quorum_of,
    start,
    steps_to,
)
from logspec.proofs.pictures import picture
from logspec.proofs.raft_invariants import commit_invariants, election_invariants, log_invariants
from logspec.proofs.raft_safety import POWER_LOSS, World, comes_to, runs_in
from logspec.proofs.raft_state import (
    Commit,
    Name,
    State,
    Step,
    append_entries,
    axioms,
    begin_flush,
    count_own,
    end_flush,
    reply,
)
from logspec.proofs.vocabulary import (
    Count,
    Epoch,
    Formula,
    Index,
    Node,
    Offset,
    Quorum,
    Term,
    TermSort,
    exists,
    forall,
    goal_wanted,
    implies,
    is_scoped,
    member,
)

Log = Callable[[Term, Term], Formula]
"""A log as a relation: it has an entry of this term at this offset."""

CHOICE = MembersChoice()
NOTHING: frozenset[str] = frozenset()
NO_LATER_TERMS = "no-later-terms"
E, LATER = z3.Const("committed", Commit), z3.Const("later_leader", TermSort)


def near(one: Term, other: Term) -> Formula:
    """Two configurations are the same or one step apart."""
    return z3.Or(one == other, steps_to(one, other), steps_to(other, one))


def quorums_meet() -> Formula:
    """Quorums of configurations that are near each other have a node in common (`quorums/vote-result/..`)."""
    return forall(
        Quorum,
        Quorum,
        Config,
        Config,
        lambda q, r, c, d: implies(
            quorum_of(q, c), quorum_of(r, d), near(c, d), exists(Node, lambda n: z3.And(member(n, q), member(n, r)))
        ),
    )


@dataclass(frozen=True)
class Pair:
    """Two logs with their last changes, each given by term and offset."""

    one: Log
    other: Log
    last_of_one: tuple[Term, Term]
    last_of_other: tuple[Term, Term]

    def premises(self, s: MembersState) -> dict[str, Formula]:
        """What has to be known of the two."""
        return {
            "one-is-a-log": _is_log(s, self.one),
            "other-is-a-log": _is_log(s, self.other),
            "one-has-its-last-change": s.in_force(self.one, *self.last_of_one),
            "other-has-its-last-change": s.in_force(self.other, *self.last_of_other),
            "other-has-what-one-rests-on": _rests(s, self.one, self.other),
            "one-has-what-other-rests-on": _rests(s, self.other, self.one),
        }

    def meet(self, s: MembersState) -> Formula:
        """Their configurations are near each other."""
        return near(s.config(*self.last_of_one), s.config(*self.last_of_other))


def _is_log(s: MembersState, log: Log) -> Formula:
    """Up to each of its entries it is the log of that entry's leader."""
    return forall(
        Index,
        TermSort,
        Index,
        TermSort,
        lambda i, u, j, w: implies(
            log(i, u), Offset.at_most(j, i), z3.And(s.term_log(u, i, u), log(j, w) == s.term_log(u, j, w))
        ),
    )


def _rests(s: MembersState, log: Log, other: Log) -> Formula:
    """What the changes in a log rest on is in the other one."""
    return forall(
        Index,
        TermSort,
        lambda i, u: implies(log(i, u), s.change(u, i), other(s.commit_offset(s.basis(u, i)), u)),
    )


def _configurations_meet() -> Claim:
    """Of any two logs."""
    free = [z3.Function(f"log_{number}", Index, TermSort, z3.BoolSort()) for number in (1, 2)]
    last = [(z3.Const(f"term_{number}", TermSort), z3.Const(f"offset_{number}", Index)) for number in (1, 2)]
    pair = Pair(free[0], free[1], last[0], last[1])
    s = BEFORE
    known = [*log_invariants(s).values(), *change_invariants(s).values(), *pair.premises(s).values()]
    return Claim([*axioms(), *known], {"quorums-intersect": pair.meet(s)})


def consequences(s: MembersState) -> dict[str, Formula]:
    """What follows from the invariants and is used more than once."""
    T, I = TermSort, Index  # noqa: E741, N806
    basis = lambda t, i: s.commit_offset(s.basis(t, i))
    return {
        "terms-rise-along-a-log": forall(
            T,
            I,
            I,
            T,
            T,
            lambda t, i, j, u, w: implies(
                s.term_log(t, i, u), s.term_log(t, j, w), Epoch.below(u, w), Offset.below(i, j)
            ),
        ),
        "changes-rest-on-entries-before": forall(
            T,
            I,
            lambda t, i: implies(
                s.change(t, i), i != Offset.least, z3.And(s.term_log(t, basis(t, i), t), Offset.below(basis(t, i), i))
            ),
        ),
    }


def _far_quorums_may_be_apart() -> Claim:
    """What is assumed of quorums leaves two that do not meet, if their configurations are not near each other."""
    (q, r), (c, d) = z3.Consts("one_quorum other_quorum", Quorum), z3.Consts("one_config other_config", Config)
    apart = forall(Node, lambda n: z3.Not(z3.And(member(n, q), member(n, r))))
    return Claim([*axioms(), quorums_meet(), quorum_of(q, c), quorum_of(r, d), apart])


def _consequences() -> Claim:
    known = _known(is_scoped()).invariants
    names = [*log_invariants(BEFORE), *change_invariants(BEFORE), "commit-current-term"]
    return Claim([*axioms(), *(known[name] for name in names)], consequences(BEFORE))


@dataclass(frozen=True)
class Known:
    """What is known before a step."""

    axioms: list[Formula]
    invariants: Mapping[str, Formula]


@lru_cache(maxsize=4)
def _known(scoped: bool, world: World = POWER_LOSS) -> Known:
    return Known([*axioms(), quorums_meet()], invariants(_seen(BEFORE, world)))


def _seen(s: State, world: World) -> MembersState:
    return cast("MembersState", world.see(s))


def _take(
    make: MakeStep,
    rules: Rules,
    without: frozenset[str] = NOTHING,
    choice: MembersChoice = CHOICE,
    before: MembersState = BEFORE,
) -> Step:
    """A step with all that it asks for, but for what is dropped."""
    step = make(before, rules, choice)
    asks = by_configuration(make, before, choice)
    return replace(step, guard=z3.And(step.guard, *(each for key, each in asks.items() if key not in without)))


_LOST = ("the-first-who-lacks-it", "leaders-before-the-first-have-it", "leader-led", "led-is-elected")
_LOGS = (
    *log_invariants(BEFORE),
    *change_invariants(BEFORE),
    "one-current-term",
    "current-term-is-one",
    "commit-current-term",
    "leader-completeness",
    "candidate-has-no-entry-of-its-term",
    "changes-before-a-commit-rest-on-earlier-ones",
    "counted-by-a-configuration",
    "committed-is-not-lost",
    "later-leaders-have-it-or-it-is-lost",
)
"""Invariants by which two logs are compared..."""
_ENDS = (
    "counted-by-the-last-one",
    "elected-by-a-configuration",
    "elected-by-the-last-one",
    *_LOST,
)
"""...and two logs as they were when somebody was elected or something committed."""
_VOTES = (
    *election_invariants(BEFORE),
    "one-vote-per-term",
    "one-current-term",
    "current-term-is-one",
    "elected-by-a-configuration",
    "counted-by-a-configuration",
    "votes-go-to-complete-logs",
    "the-first-who-lacks-it",
    "voters-of-the-first-have-not-replied",
    "commit-was-counted",
    "commit-current-term",
    "committed-is-not-lost",
    "leader-holds-its-log",
)
"""Invariants by which two quorums are compared."""


def _apart(
    step: Step,
    pair: Pair,
    given: Sequence[Formula],
    unless: Formula,
    goal: str,
    hints: Mapping[str, Formula],
    lost: Sequence[str] = (),
    without: frozenset[str] = NOTHING,
) -> tuple[Claim, Claim, Claim]:
    """Three claims: that two logs can be compared, ``unless`` something holds, and that it does if they meet.

    ``hints`` are proved first, and help with the second.
    """
    s, known = BEFORE, _known(is_scoped())
    some = lambda names: [known.invariants[name] for name in dict.fromkeys(names)]
    facts = axioms() if "quorums-intersect" in without else known.axioms
    assume = lambda names: [*facts, *some(names), *consequences(s).values(), step.guard, *given]
    or_else = lambda goals: {key: z3.Or(unless, each) for key, each in goals.items()}
    logs = Claim([*assume((*_LOGS, *_ENDS)), *or_else(hints).values()], or_else(pair.premises(s)))
    return (
        Claim(assume((*_LOGS, *lost)), or_else(hints)),
        logs,
        Claim(assume(_VOTES), {goal: z3.Implies(pair.meet(s), unless)}),
    )


def _after(step: Step) -> MembersState:
    return cast("MembersState", step.after)


def _committed_before(offset_below: Term | None = None) -> Formula:
    """The candidate holds what was committed in earlier terms, perhaps only below an offset."""
    s, c = BEFORE, CHOICE
    limit = lambda e: z3.BoolVal(True) if offset_below is None else Offset.below(s.commit_offset(e), offset_below)
    return forall(
        Commit,
        lambda e: implies(
            s.happened(e),
            Epoch.below(s.commit_term(e), c.t),
            limit(e),
            s.entry(c.n, s.commit_offset(e), s.commit_term(e)),
        ),
    )


def _rests_on(log: Log, other: Log, where: Callable[[Term], Formula]) -> Formula:
    """Of the changes in a log, what those of some terms rest on is in the other one."""
    s = BEFORE
    return forall(
        Index,
        TermSort,
        lambda i, u: implies(log(i, u), s.change(u, i), where(u), other(s.commit_offset(s.basis(u, i)), u)),
    )


def _holds_what_was_committed(rules: Rules, without: frozenset[str]) -> tuple[Claim, Claim, Claim]:
    """By induction on offsets: whoever is elected holds what was committed in an earlier term."""
    s, c = BEFORE, CHOICE
    step = _take(become_leader, rules)
    term, offset = s.commit_term(E), s.commit_offset(E)
    held = s.entry(c.n, offset, term)
    pair = Pair(s.led_by(term, s.counted_end(E)), s.of(c.n), (s.counted_term(E), s.counted_offset(E)), (c.w, c.x0))
    given = [s.happened(E), Epoch.below(term, c.t), _committed_before(offset)]
    below = lambda i, u: implies(pair.one(i, u), s.change(u, i), Offset.below(s.commit_offset(s.basis(u, i)), offset))
    hints = {
        "what-changes-rest-on-is-below": forall(Index, TermSort, below),
        NO_LATER_TERMS: forall(Index, TermSort, lambda i, u: implies(s.entry(c.n, i, u), Epoch.at_most(u, term))),
        "changes-of-its-own-term": _rests_on(pair.other, pair.one, lambda u: u == term),
        "changes-of-earlier-terms": _rests_on(pair.other, pair.one, lambda u: Epoch.below(u, term)),
    }
    claims = _apart(step, pair, given, held, "candidate-holds-what-was-committed", hints, (), without)
    induction = "the candidate holds what was committed at smaller offsets (induction on offsets)"
    first, second, third = (replace(claim, given=induction) for claim in claims)
    apart = {name: goal for name, goal in first.goals.items() if name != NO_LATER_TERMS}
    return replace(first, goals=apart), second, third


_TERMS = (
    *("log-matching", "log-matching-of-leaders", "entry-terms-were-elected", "leader-completeness"),
    *("commit-current-term", "one-leaders-entry-per-offset", "leaders-log-has-its-entries"),
    *("leaders-entries-are-of-past-terms", "entries-are-of-past-terms"),
)


def _no_later_terms(rules: Rules) -> Claim:
    """Who lacks what was committed has no entry of a later term: with more facts the solver loses its way."""
    s, c, known = BEFORE, CHOICE, _known(is_scoped())
    term, offset = s.commit_term(E), s.commit_offset(E)
    assume = [*axioms(), *(known.invariants[name] for name in _TERMS), *consequences(s).values()]
    assume += [_take(become_leader, rules).guard, s.happened(E), Epoch.below(term, c.t)]
    later = forall(Index, TermSort, lambda i, u: implies(s.entry(c.n, i, u), Epoch.at_most(u, term)))
    return Claim(assume, {NO_LATER_TERMS: z3.Or(s.entry(c.n, offset, term), later)})


def _one_leader(rules: Rules, without: frozenset[str]) -> tuple[Claim, Claim, Claim]:
    """A term that has a leader gets no other one."""
    s, c = BEFORE, CHOICE
    step = _take(become_leader, rules)
    pair = Pair(s.begun_by(c.t), s.of(c.n), (s.elected_term(c.t), s.elected_offset(c.t)), (c.w, c.x0))
    return _apart(step, pair, [_committed_before()], z3.Not(s.elected(c.t)), "one-leader-per-term", {}, (), without)


def _lost_by_nobody(rules: Rules, without: frozenset[str]) -> tuple[Claim, Claim, Claim]:
    """What is committed now was not lost: whoever lacked it first would have been elected by somebody who has it."""
    s, c = BEFORE, CHOICE
    step = _take(leader_commit, rules)
    pair = Pair(s.of(c.n), s.begun_by(LATER), (c.w, c.x0), (s.elected_term(LATER), s.elected_offset(LATER)))
    hints = {
        NO_LATER_TERMS: forall(Index, TermSort, lambda i, u: implies(pair.other(i, u), Epoch.at_most(u, c.t))),
        "changes-of-its-own-term": _rests_on(pair.other, pair.one, lambda u: u == c.t),
        "changes-of-earlier-terms": _rests_on(pair.other, pair.one, lambda u: Epoch.below(u, c.t)),
    }
    return _apart(step, pair, [], z3.Not(s.first_lost(c.t, c.i, LATER)), "committed-is-not-lost", hints, _LOST, without)


Comparison = Callable[[Rules, frozenset[str]], tuple[Claim, Claim, Claim]]
COMPARED: Mapping[str, Comparison] = {
    "become-leader/holds-what-was-committed": _holds_what_was_committed,
    "become-leader/one-leader": _one_leader,
    "leader-commit/lost-by-nobody": _lost_by_nobody,
}


def _nowhere_yet() -> Formula:
    """The entry that a leader is about to write is in no log."""
    s, c = BEFORE, CHOICE
    return forall(TermSort, Index, lambda t, i: implies(s.term_log(t, i, c.t), z3.Not(Offset.at_most(c.i, i))))


def _new_entry(rules: Rules) -> Claim:
    s = BEFORE
    step, known = _take(change_voters, rules), _known(is_scoped()).invariants
    assume = [*axioms(), *(known[name] for group in OLD for name in group(s)), step.guard]
    return Claim(assume, {"nowhere-yet": _nowhere_yet()})


def _compared(compare: Comparison, part: int, rules: Rules, without: frozenset[str]) -> Claim:
    return compare(rules, without)[part]


_LAYERS: Mapping[str, tuple[tuple[Group, ...], tuple[Group, ...]]] = {
    "logs": (OLD, ()),
    "changes": (CHANGES, OLD),
    "losses": (LOSSES, OLD),
}
"""The invariants in three layers: those of a layer, and those that help to keep them."""


def _keeps(layer: str, make: MakeStep, rules: Rules, without: frozenset[str], world: World) -> Claim:
    """A layer is kept, given what was proved of elections and commits apart."""
    s, c, known = _seen(BEFORE, world), CHOICE, _known(is_scoped(), world)
    step = _take(make, rules, without, before=s)
    step = replace(step, after=world.see(step.after))
    own, others = _LAYERS[layer]
    proved: list[Formula] = []
    if make is become_leader:
        proved = [quorums_meet(), _committed_before(), z3.Not(s.elected(c.t))]
    if make is change_voters:
        proved = [_nowhere_yet()]
    if make is leader_commit:
        proved = [forall(TermSort, lambda u: z3.Not(s.first_lost(c.t, c.i, u))), *firsts(s).values()]
    names = [name for group in (*own, *others) for name in group(s) if name not in without]
    assume = [*axioms(), *(known.invariants[name] for name in names), step.guard, *proved]
    if layer != "logs":
        assume += [*commit_invariants(s).values(), *consequences(s).values()]
    goal = world.invariant(goal_wanted())
    wanted = [group for group in own if not goal or goal in group(s)]
    goals = world.named({name: goal for group in wanted for name, goal in group(_after(step)).items()})
    return Claim(assume, goals, picture(s, step.after), [] if without else _tidy())


def _keeps_firsts(make: MakeStep, rules: Rules) -> Claim:
    """What is lost has a first who lacked it: kept, and needed where something is committed."""
    step, known = _take(make, rules), _known(is_scoped())
    assume = [*axioms(), *(known.invariants[name] for name in loss_invariants(BEFORE)), *firsts(BEFORE).values()]
    return Claim([*assume, step.guard], firsts(_after(step)))


def _tidy() -> list[Formula]:
    s = BEFORE
    return [
        forall(Node, lambda n: exists(TermSort, lambda t: s.at(n, t))),
        forall(Node, lambda n: exists(TermSort, lambda t: s.disk_at(n, t))),
    ]


def _start() -> Claim:
    s = start()
    return Claim([*axioms(), quorums_meet()], {**invariants(s), **firsts(s)})


Run = Sequence[tuple[Callable[..., Step], str]]
_FLUSHED: Run = (
    (begin_flush, "n1"), (end_flush, "n1"), (append_entries, "n2"), (begin_flush, "n2"), (end_flush, "n2"),
    (reply, "n2"), (count_own, "n1"), (leader_commit, "n1"),
)  # fmt: skip
RUNS: Mapping[str, Run] = {
    **raft_safety.RUNS,
    "a-run-that-changes-voters": (*raft_safety.ELECTS_FIRST, *_FLUSHED, (change_voters, "n1"), *_FLUSHED),
}
"""Runs from the empty state: every step is possible, and after a change of voters a commit by the new configuration."""


def _reachable(run_name: str, rules: Rules) -> Claim:
    nodes = {label: z3.Const(label, Node) for label in ("n1", "n2", "n3")}
    state, assume = start(), [*axioms(), quorums_meet(), z3.Distinct(*nodes.values())]
    for number, (make, label) in enumerate(RUNS[run_name]):
        choice = MembersChoice(f"_{number}")
        step = _take(CHANGED.get(make.__name__, make), rules, choice=choice, before=state)
        assume += [choice.n == nodes[label], step.guard]
        state = _after(step)
    return Claim([*assume, *comes_to(run_name, state, nodes)])


def claims(
    rules: Rules, without: frozenset[str] = frozenset(), world: World = POWER_LOSS
) -> dict[str, Callable[[], Claim]]:
    """The lemma, the initial state, what each step must keep, and what quorums of neighbours have in common."""
    made: dict[str, Callable[[], Claim]] = {name: partial(_reachable, name, rules) for name in runs_in(world, RUNS)}
    made |= {
        "configurations-meet": _configurations_meet,
        "start": _start,
        "consequences": _consequences,
    }
    for name, compare in COMPARED.items():
        for number, part in enumerate(("changes", "logs", "quorums")):
            made[f"{name}/{part}"] = partial(_compared, compare, number, rules, without)
    del made["become-leader/one-leader/changes"]
    made["become-leader/holds-what-was-committed/terms"] = partial(_no_later_terms, rules)
    made["change-voters/new-entry"] = partial(_new_entry, rules)
    for make in STEPS:
        name_of_step = make.__name__.replace("_", "-")
        for layer in _LAYERS:
            made[f"{name_of_step}/{layer}"] = partial(_keeps, layer, make, rules, without, world)
        made[f"{name_of_step}/firsts"] = partial(_keeps_firsts, make, rules)
    of_quorums = quorums.claims(rules, (*ACROSS, *world.counting))
    made |= {f"quorums/{name}": claim for name, claim in of_quorums.items()}
    return made | {"quorums-apart/possible": _far_quorums_may_be_apart}


ACROSS = ("vote-result/across", "vote-result/promotion")
"""What the rules promise of quorums of two configurations that are one step apart."""

SIZES = {
    Node: 2,
    Index: 4,
    TermSort: 3,
    Count.sort: 1,
    Commit: 2,
    Quorum: 1,
    Name: 3,
    Config: 2,
    **quorums.SIZES,
}
"""Counterexamples are looked for with two nodes, three entries, two terms and two configurations."""

QUORUMS_APART = Twin(
    "quorums-need-not-intersect",
    "two configurations a step apart without a common voter",
    "become-leader/one-leader/quorums",
    "one-leader-per-term",
    without=frozenset({"quorums-intersect"}),
)
"""What every proof in which voters change rests on."""

TWINS = (
    Twin(
        "single-server-2015",
        "a leader changes the voters before an entry of its own term is committed",
        "change-voters/changes",
        "changes-are-committed",
        {"may_serve": lambda term_at_commit, current_term: True},
    ),
    Twin(
        "reconfigure-uncommitted",
        "a leader changes the voters again before the last change is committed",
        "change-voters/changes",
        "changes-are-committed",
        without=frozenset({"newest-is-committed"}),
    ),
    Twin(
        "removed-without-joint",
        "one configuration follows another whose quorums it need not meet",
        "change-voters/changes",
        "one-step-at-a-time",
        without=frozenset({"one-step"}),
    ),
    Twin(
        "joint-current-only",
        "in a joint configuration the new voters alone decide",
        "quorums/vote-result/across",
        "meets-those-of-the-old-half",
        {
            "vote_result": lambda voters, votes: (
                1 if 2 * sum([votes.get(node, False) for node in voters.current]) > len(voters.current) else 0
            )
        },
    ),
    Twin(
        "counts-by-an-older-configuration",
        "a leader commits by a configuration that is not the last one in its log",
        "leader-commit/changes",
        "counted-by-the-last-one",
        without=frozenset({"in-force"}),
    ),
    Twin(
        "elects-by-an-older-configuration",
        "a candidate counts votes by a configuration that is not the last one in its log",
        "become-leader/changes",
        "elected-by-the-last-one",
        without=frozenset({"in-force"}),
    ),
    Twin(
        "commit-counts-dirty",
        "an offset that is only dirty is counted as durable",
        "reply/losses",
        "replied-is-durable",
        {"replicated_flushed": lambda dirty, flushed, match: min(dirty, match)},
    ),
    QUORUMS_APART,
    Twin(
        "without-the-key-conjunct",
        "nothing says that what was counted is durable",
        "grant-vote/losses",
        "vote-in-memory-is-for-a-complete-log",
        without=frozenset({"replied-is-durable"}),
    ),
)

ASSUMES = (
    "what a log is trimmed of no step looks at, so that it counts as still there; a node that lost its disk does not"
    " come back as the same node",
    "what was flushed survives a power loss, and what is written to a disk is read as it was written",
    "steps are those of members_state, which the rules decide; an election takes the votes of a quorum of the"
    " configuration in force and a commit counts one; of two configurations a step apart any two quorums meet, as the"
    " claims quorums/ show of the rules; that the core's steps lead to such a configuration a test shows of four nodes",
    "what raft-safety shows of what nodes take for committed (its claims /commits), which knows of no quorums",
)

PROOF = Proof(
    "membership-safety",
    ("raft.md#membership", "raft.md#change-refused", "raft.md#joint", "raft.md#commit-index"),
    "With voters that change, and any number of nodes, terms, offsets, crashes and power losses, a term has one leader,"
    " and what was committed is in every later leader's log and on the disks of a quorum of the configuration that it"
    " was counted by.",
    claims,
    TWINS,
    SIZES,
    "all N",
    ASSUMES,
    protocol="raft",
)
