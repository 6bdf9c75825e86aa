"""What the rules about quorums promise in any group: any number of voters, joint or not, any learners, any leader.

The large proofs know of quorums only that any two have a node in common (``vocabulary.quorums_intersect``), that who is
elected has the votes of one, and that what is committed or counted as replicated has been reached by one. Here that is
proved of the rules; ``raft_safety`` and ``visible_safety`` have these claims among their own. Counterexamples have at
most five nodes if they can. Sources: raft.md#quorum-match, raft.md#election-majority, raft.md#check-quorum.
"""

# z3 has no type hints.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import z3

from logspec.groups import Census, Each, Group, Many, Node, PerNode
from logspec.proofs.claims import Claim, Rules
from logspec.proofs.pictures import table
from logspec.proofs.vocabulary import Formula, Term, elements_of, implies
from logspec.symbolic import Executor

WON = 1
LOST = 2
"""What ``vote_result`` answers."""

EVERYTHING = 2**63 - 1

SIZES: Mapping[z3.SortRef, int] = {Node: 5}
"""Counterexamples have so many nodes if they can."""

GIVEN = "a group has a voter; offsets are from -1 to 2^63 - 1"


CURRENT, OLD, LEARNERS = Group("current"), Group("old"), Group("learners")
HALVES = (CURRENT, OLD)


@dataclass(frozen=True)
class Voters:
    """A group as the rules are given it: see ``quorumlog.quorum.Voters``."""

    current: Group | Many | tuple[int, ...] = CURRENT
    old: Group | tuple[int, ...] = OLD
    learners: Group | tuple[int, ...] = LEARNERS


class Said:
    """What nodes have reached or voted, as far as it is known: ``mapping`` is what a rule is given of it."""

    def __init__(self, name: str, sort: z3.SortRef, known: Callable[[Term], Formula] | None = None) -> None:
        self.known = known or z3.Function(f"has_{name}", Node, z3.BoolSort())
        self.value = z3.Function(name, Node, sort)
        self.mapping = PerNode(self.known, self.value)

    def offset(self, node: Term) -> Term:
        """What a node has reached; -1 if that is not known."""
        return z3.If(self.known(node), self.value(node), -1)

    def yes(self, node: Term) -> Formula:
        """The formula that a node is known to have said yes."""
        return z3.And(self.known(node), self.value(node))

    def no(self, node: Term) -> Formula:
        """The formula that a node is known to have said no."""
        return z3.And(self.known(node), z3.Not(self.value(node)))


class Asked:
    """One claim about a group, while it is made: the rules, and what they ask of the group."""

    def __init__(self, rules: Rules, *said: Said) -> None:
        offsets = [each for each in said if each.value.range() == z3.IntSort()]
        in_range = lambda node: z3.And([z3.And(o.value(node) >= -1, o.value(node) <= EVERYTHING) for o in offsets])  # noqa: E731
        self.census = Census(in_range, elements_of(Node))
        self._executor = Executor(census=self.census)
        self._rules = rules
        self._said = said
        self._named: dict[str, Term] = {}

    def run(self, rule: str, *arguments: Any) -> Any:  # noqa: ANN401
        """Run a rule, given its name and its arguments."""
        return self._executor.call(getattr(self._rules, rule), *arguments)

    def count(self, half: Group, condition: Callable[[Term], Formula]) -> Term:
        """How many nodes of a half meet a condition."""
        node = z3.FreshConst(Node)
        return self.census.number(Each(half, node, z3.BoolVal(True), condition(node)), condition(node))

    def size(self, half: Group) -> Term:
        """How many nodes a half has."""
        return self.count(half, lambda node: z3.BoolVal(True))

    def quorum(self, condition: Callable[[Term], Formula]) -> Formula:
        """Those who meet a condition are a quorum: a majority of each half that has anybody in it."""
        majorities = [2 * self.count(half, condition) > self.size(half) for half in HALVES]
        return z3.And([z3.Or(self.size(h) == 0, most) for h, most in zip(HALVES, majorities, strict=True)])

    def leader(self, said: Said) -> Term:
        """What the leader has reached, whether it votes or not."""
        self._named["leader"] = self.census.element("leader")
        return said.offset(self._named["leader"])

    def known(self) -> list[Formula]:
        """All that is known of a group, whatever it is: that it has a voter, and how numbers of nodes add up."""
        return [z3.Or([self.size(half) > 0 for half in HALVES]), *self.census.facts()]

    def claim(self, goals: Mapping[str, Formula], assume: Sequence[Formula]) -> Claim:
        """The claim that the goals hold in every group that has a voter; without goals, that there are large groups."""
        large = [] if goals else [self.size(half) > 8 for half in HALVES]
        return Claim([*assume, *large, *self.known()], goals, self._picture, exact=self.census.exact, given=GIVEN)

    def _picture(self, model: z3.ModelRef) -> str:
        """A row for each class of equal nodes; in a small group each has a row of its own."""
        value = partial(model.eval, model_completion=True)
        rows = []
        for who, node in (*self.census.shown(model), *self._named.items()):
            groups = [group.name for group in (*HALVES, LEARNERS) if z3.is_true(value(group.has(node)))]
            reported = [
                str(value(said.value(node))) if z3.is_true(value(said.known(node))) else "-" for said in self._said
            ]
            if groups or who in self._named:
                rows.append([str(who), " ".join(groups), *reported])
        given = {term.name(): str(value(term())) for term in model.decls() if term.name() in _GIVEN}
        head = ["nodes", "in", *(said.value.name() for said in self._said)]
        return "\n".join([table(head, rows), *(f"{name}={given[name]}" for name in sorted(given))])


_GIVEN = frozenset({"larger", "before", "election_timeout"})

Made = tuple[Asked, dict[str, Formula], Sequence[Formula]]
"""A claim in the making: what was asked, the goals, and what they assume beside what goes for every group."""


def _commit_candidate(rules: Rules) -> Made:
    """What a leader may commit, given what each node has flushed."""
    flushed = Said("flushed", z3.IntSort())
    asked = Asked(rules, flushed)
    own, larger = asked.leader(flushed), z3.Int("larger")
    candidate = asked.run("commit_candidate", Voters(), flushed.mapping, own)
    return (
        asked,
        {
            "a-majority-has-reached-it": asked.quorum(lambda node: flushed.offset(node) >= candidate),
            "the-leader-has-flushed-it": candidate <= own,
            "no-larger-one-would-do": implies(
                larger > candidate, larger <= own, z3.Not(asked.quorum(lambda node: flushed.offset(node) >= larger))
            ),
        },
        [_next_reached(asked, flushed, larger)],
    )


def _next_reached(asked: Asked, said: Said, offset: Term) -> Formula:
    """Somebody has reached the offset, and of those who have, a certain voter the least: a finite group has such a one.

    Where a quorum has reached the offset this is no restriction.
    """
    voter = asked.census.element("voter")
    least = said.offset(voter)
    for half in HALVES:
        asked.census.every(half, lambda node: z3.Or(said.offset(node) < offset, least <= said.offset(node)))
    return z3.And(z3.Or([half.has(voter) for half in HALVES]), least >= offset)


def _majority_replicated(rules: Rules) -> Made:
    """The majority replicated index, given what each node holds."""
    dirty = Said("dirty", z3.IntSort())
    asked = Asked(rules, dirty)
    before, larger = z3.Ints("before larger")
    majority = asked.run("majority_replicated", Voters(), dirty.mapping, before)
    return (
        asked,
        {
            "never-moves-back": majority >= before,
            "a-majority-has-reached-it": z3.Implies(
                majority > before, asked.quorum(lambda node: dirty.offset(node) >= majority)
            ),
            "no-larger-one-would-do": z3.Implies(
                larger > majority, z3.Not(asked.quorum(lambda node: dirty.offset(node) >= larger))
            ),
        },
        [_next_reached(asked, dirty, larger)],
    )


def _vote_result(rules: Rules) -> Made:
    """How a vote stands: won by quorums, any two of which have a voter in common, and decided for good."""
    one, other = Said("votes", z3.BoolSort()), Said("other_votes", z3.BoolSort())
    heard = z3.Function("heard_before", Node, z3.BoolSort())
    before = Said("votes", z3.BoolSort(), lambda node: z3.And(heard(node), one.known(node)))
    asked = Asked(rules, one, other)
    result, rival, earlier = (asked.run("vote_result", Voters(), said.mapping) for said in (one, other, before))
    lost = z3.Or([z3.And(asked.size(h) > 0, 2 * asked.count(h, one.no) >= asked.size(h)) for h in HALVES])
    meet = [z3.Or(asked.size(h) == 0, _in_common(asked, h, one, other)) for h in HALVES]
    return (
        asked,
        {
            "won-by-a-majority-of-each-half": (result == WON) == asked.quorum(one.yes),
            "lost-once-a-half-cannot-win": (result == LOST) == lost,
            "two-quorums-intersect": implies(result == WON, rival == WON, z3.And(meet)),
            "decided-for-good": z3.And([z3.Implies(earlier == decided, result == decided) for decided in (WON, LOST)]),
        },
        (),
    )


def _in_common(asked: Asked, half: Group, one: Said, other: Said) -> Formula:
    return asked.count(half, lambda node: z3.And(one.yes(node), other.yes(node))) > 0


def _across_a_change(rules: Rules) -> Made:
    """A quorum of a joint group meets every quorum of the group before it, and of the one that follows."""
    one, other = Said("votes", z3.BoolSort()), Said("other_votes", z3.BoolSort())
    asked = Asked(rules, one, other)
    joint = asked.run("vote_result", Voters(), one.mapping) == WON
    alone = {half: asked.run("vote_result", Voters(half, ()), other.mapping) == WON for half in HALVES}
    return (
        asked,
        {
            f"meets-those-of-the-{half.name}-half": implies(
                joint, won, asked.size(half) > 0, _in_common(asked, half, one, other)
            )
            for half, won in alone.items()
        },
        (),
    )


def _promotion(rules: Rules) -> Made:
    """A quorum of a group meets every quorum of that group with one voter more."""
    one, other = Said("votes", z3.BoolSort()), Said("other_votes", z3.BoolSort())
    asked = Asked(rules, one, other)
    added = asked.census.element("added")
    before = asked.run("vote_result", Voters(CURRENT, ()), one.mapping) == WON
    after = asked.run("vote_result", Voters(Many((CURRENT.each,), (added,)), ()), other.mapping) == WON
    both = implies(before, after, asked.size(CURRENT) > 0, _in_common(asked, CURRENT, one, other))
    return asked, {"meets-those-without-it": both}, [z3.Not(CURRENT.has(added))]


def _keeps_office(rules: Rules) -> Made:
    """Which leaders go on leading."""
    silence = Said("silence", z3.IntSort())
    asked, limit = Asked(rules, silence), z3.Int("election_timeout")
    stays = asked.run("keeps_office", Voters(), silence.mapping, limit)
    answered = asked.quorum(lambda node: z3.And(silence.known(node), silence.value(node) <= limit))
    return asked, {"while-a-quorum-answered-in-time": stays == answered}, ()


def _leadership_confirmed(rules: Rules) -> Made:
    """When a barrier or read may be answered."""
    confirmed = Said("confirmed", z3.BoolSort())
    asked = Asked(rules, confirmed)
    led = asked.run("leadership_confirmed", Voters(), PerNode(confirmed.known))
    return asked, {"once-a-quorum-answered": led == asked.quorum(confirmed.known)}, ()


_CLAIMS: Mapping[str, Callable[[Rules], Made]] = {
    "commit-candidate": _commit_candidate,
    "majority-replicated": _majority_replicated,
    "vote-result": _vote_result,
    "vote-result/across": _across_a_change,
    "vote-result/promotion": _promotion,
    "keeps-office": _keeps_office,
    "leadership-confirmed": _leadership_confirmed,
}


def _claim(make: Callable[[Rules], Made], possible: bool, rules: Rules) -> Claim:
    asked, goals, assume = make(rules)
    return asked.claim({} if possible else goals, assume)


def claims(rules: Rules, names: Sequence[str] = tuple(_CLAIMS)) -> dict[str, Callable[[], Claim]]:
    """What the rules promise of quorums, by the names of the rules, and that groups of more than 16 voters can be."""
    made: dict[str, Callable[[], Claim]] = {}
    for name in names:
        made[f"{name}/possible"] = partial(_claim, _CLAIMS[name], True, rules)
        made[name] = partial(_claim, _CLAIMS[name], False, rules)
    return made
