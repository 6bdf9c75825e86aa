"""What empty answers tell, for any number of shards and domains: f-majority, its verdict, and that of a reader.

The shards of a domain are a group of any size, and so are the domains. All that the rules ask of a domain is whether it
is complete, whether it counts and whether it has a copy; domains that are alike in this are stood for by one of them,
and there are as many of each kind as one likes. A complete domain counts, and where no holder has been seen it has no
copy, so there are four kinds. That both scopes are about the same shards is not assumed, so what is
proved holds of more than there can be. Sources: read-path.md#f-majority, read-path.md#gap-verdict,
documents.md#read-path-gap-detection, documents.md#read-path-authoritative-status.
"""

# z3 has no type hints.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import z3

from logspec.groups import Census, Each, Group, Many, Node, PerNode
from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.pictures import table
from logspec.proofs.vocabulary import Formula, Term
from logspec.symbolic import Executor

FULL, UNDER, EMPTY, UNAVAILABLE = range(4)
"""The statuses of a shard."""
NONE, INCOMPLETE, NON_AUTH, COMPLETE = range(4)
"""The verdicts."""
SILENT, LACKING, GAP = range(3)
"""What a shard has said."""

SCOPES = ("rack", "node")
KINDS = 4

status = z3.Function("status", Node, z3.IntSort())
state = z3.Function("said", Node, z3.IntSort())
holds = z3.Function("holds", Node, z3.BoolSort())


@dataclass(frozen=True)
class _Scope:
    """A scope as the rules are given it."""

    factor: Term
    domains: Many


class _Nodeset:
    """Any shards in any domains of two scopes, and what the rules say of them."""

    def __init__(self, rules: Rules) -> None:
        known = lambda node: z3.And(status(node) >= 0, status(node) <= 3, state(node) >= 0, state(node) <= 2)  # noqa: E731
        self.census = Census(known)
        self._rules = rules
        self._executor = Executor(census=self.census)
        self.kinds = {(scope, kind): Group(f"{scope}_{kind}") for scope in SCOPES for kind in range(KINDS)}
        self.shards = {place: Group(f"of_{domains.name}") for place, domains in self.kinds.items()}
        self.factors = {scope: z3.Int(f"{scope}_factor") for scope in SCOPES}
        self.scopes = [_Scope(self.factors[scope], Many(tuple(self._domains(scope)))) for scope in SCOPES]
        self.everyone = Many(tuple(group.each for group in self.shards.values()))

    def _domains(self, scope: str) -> Sequence[Each]:
        """For each kind as many domains as there are, all with the same shards."""
        parts = []
        for kind in range(KINDS):
            node = z3.FreshConst(Node)
            parts.append(Each(self.kinds[scope, kind], node, z3.BoolVal(True), self.shards[scope, kind]))
        return parts

    def run(self, rule: str, *arguments: Any) -> Any:  # noqa: ANN401
        return self._executor.call(getattr(self._rules, rule), *arguments)

    def verdict(self, responded: Callable[[Term], Formula]) -> Term:
        """The verdict of the shards that responded."""
        return self.run("f_majority_verdict", self.scopes, self.everyone, _of(status), _of(responded))

    def some(self, condition: Callable[[Term], Formula]) -> Formula:
        """Say that some shard meets a condition."""
        return z3.Or([self._number(group, condition) > 0 for group in self.shards.values()])

    def _number(self, group: Group, condition: Callable[[Term], Formula]) -> Term:
        node = z3.FreshConst(Node)
        return self.census.number(Each(group, node, z3.BoolVal(True), node), condition(node))

    def everywhere(self, condition: Callable[[Term], Formula]) -> Sequence[Formula]:
        """Assume that all shards meet a condition, and that copies are on shards that are not empty."""
        for group in self.shards.values():
            self.census.every(group, condition)
            self.census.every(group, lambda node: z3.Implies(holds(node), status(node) != EMPTY))
        return []

    def claim(self, goals: Mapping[str, Formula], assume: Sequence[Formula]) -> Claim:
        """The claim that goals hold of every nodeset."""
        factors = [factor >= 1 for factor in self.factors.values()]
        return Claim([*factors, *assume, *self.census.facts()], goals, self._picture, given="factors are at least 1")

    def _picture(self, model: z3.ModelRef) -> str:
        """The kinds of domains that there are, how many of each, and the shards of one of them."""
        value = lambda term: str(model.eval(term, model_completion=True))  # noqa: E731
        shown = [(number, str(node).rpartition("_")[0], node) for number, node in self.census.shown(model)]
        domains = {name: number for number, name, _ in shown if not name.startswith("of_")}
        rows = [
            [f"{domains[name.removeprefix('of_')]} {name}", str(number), value(status(node)), value(state(node)),
             value(holds(node))]
            for number, name, node in shown
            if name.removeprefix("of_") in domains and name.startswith("of_")
        ]  # fmt: skip
        factors = [f"{scope}_factor={value(factor)}" for scope, factor in self.factors.items()]
        return "\n".join([table(["domains", "shards", "status", "said", "holds"], rows), *factors])


def _of(function: Callable[[Term], Formula]) -> PerNode:
    return PerNode(lambda node: z3.BoolVal(True), function)


def _full(node: Term) -> Formula:
    return z3.Or(status(node) == FULL, status(node) == UNAVAILABLE)


def _seen(node: Term) -> Formula:
    return z3.And(_full(node), state(node) == GAP)


def _said_nothing_there(node: Term) -> Formula:
    return state(node) == GAP


def _f_majority(verdict: Term) -> Formula:
    return z3.Or(verdict == COMPLETE, verdict == INCOMPLETE)


def claims(rules: Rules, without: frozenset[str]) -> Mapping[str, Callable[[], Claim]]:
    """What an f-majority leaves unseen, what COMPLETE says of the others, and the same of a reader's verdict."""

    def possible() -> Claim:
        nodeset = _Nodeset(rules)
        record = nodeset.run("replicated", nodeset.scopes, _of(holds))
        return nodeset.claim({}, [nodeset.verdict(_said_nothing_there) == INCOMPLETE, record])

    def record() -> Claim:
        """No holder of a record has said that it has nothing: then these answers are no f-majority."""
        nodeset = _Nodeset(rules)
        found = nodeset.verdict(_said_nothing_there)
        whole = nodeset.run("replicated", nodeset.scopes, _of(holds))
        unseen = nodeset.everywhere(lambda node: z3.Implies(holds(node), z3.Not(_seen(node))))
        return nodeset.claim({"f-majority-leaves-no-record": z3.Implies(whole, z3.Not(_f_majority(found)))}, unseen)

    def enough() -> Claim:
        """The shards that may have a copy are too few for a record: then the others are an f-majority."""
        nodeset = _Nodeset(rules)
        found = nodeset.verdict(_said_nothing_there)
        possible = nodeset.run("replicated", nodeset.scopes, _of(holds))
        left = nodeset.everywhere(lambda node: holds(node) == z3.And(status(node) != EMPTY, z3.Not(_seen(node))))
        return nodeset.claim({"f-majority-is-enough": z3.Or(possible, _f_majority(found))}, left)

    def verdict() -> Claim:
        nodeset = _Nodeset(rules)
        found = nodeset.verdict(_said_nothing_there)
        missing = nodeset.some(lambda node: z3.And(_full(node), state(node) != GAP))
        said = z3.Implies(z3.Or(found == COMPLETE, found == NON_AUTH), z3.Not(missing))
        return nodeset.claim({"incomplete-is-not-complete": said}, [])

    def gap_verdict() -> Claim:
        """Answers that may lack the record count only where every full shard has answered."""
        nodeset = _Nodeset(rules)
        found = nodeset.run("gap_verdict", nodeset.scopes, nodeset.everyone, _of(status), _of(state))
        plain = nodeset.verdict(_said_nothing_there)
        silent = nodeset.some(lambda node: z3.And(_full(node), state(node) == SILENT))
        goals = {
            "incomplete-is-not-complete": z3.Implies(z3.Or(found == COMPLETE, found == NON_AUTH), z3.Not(silent)),
            "what-lacks-is-no-f-majority": _f_majority(found) == _f_majority(plain),
        }
        return nodeset.claim(goals, [])

    return {
        "possible": possible,
        "record": record,
        "enough": enough,
        "verdict": verdict,
        "gap-verdict": gap_verdict,
    }


# What twins leave as it is.


def _has_all(status: Any) -> Any:  # noqa: ANN401
    return status != UNDER and status != EMPTY


def _complete(domain: Any, statuses: Any, responded: Any) -> Any:  # noqa: ANN401
    return any(_has_all(statuses[s]) and responded[s] for s in domain) and all(
        statuses[s] == EMPTY or (_has_all(statuses[s]) and responded[s]) for s in domain
    )


def _completes(scope: Any, statuses: Any, responded: Any, short: Any) -> Any:  # noqa: ANN401
    complete = sum([_complete(domain, statuses, responded) for domain in scope.domains])
    counting = sum([any(statuses[s] != EMPTY for s in domain) for domain in scope.domains])
    return complete >= max(0, counting - scope.factor + 1 - short)


def _everyone(shards: Any, statuses: Any, responded: Any) -> Any:  # noqa: ANN401
    return all(responded[s] or not _has_all(statuses[s]) for s in shards)


def _one_short(scopes: Any, shards: Any, statuses: Any, responded: Any) -> Any:  # noqa: ANN401
    if any(_completes(scope, statuses, responded, 1) for scope in scopes):
        return COMPLETE if _everyone(shards, statuses, responded) else INCOMPLETE
    return NON_AUTH if _everyone(shards, statuses, responded) else NONE


def _in_every_scope(scopes: Any, shards: Any, statuses: Any, responded: Any) -> Any:  # noqa: ANN401
    if all(_completes(scope, statuses, responded, 0) for scope in scopes):
        return COMPLETE if _everyone(shards, statuses, responded) else INCOMPLETE
    return NON_AUTH if _everyone(shards, statuses, responded) else NONE


def _incomplete_as_complete(scopes: Any, shards: Any, statuses: Any, responded: Any) -> Any:  # noqa: ANN401
    if any(_completes(scope, statuses, responded, 0) for scope in scopes):
        return COMPLETE
    return NON_AUTH if _everyone(shards, statuses, responded) else NONE


def _unavailable_dropped(scopes: Any, shards: Any, statuses: Any, responded: Any) -> Any:  # noqa: ANN401
    known = {s: EMPTY if statuses[s] == UNAVAILABLE else statuses[s] for s in shards}
    if any(_completes(scope, known, responded, 0) for scope in scopes):
        return COMPLETE if _everyone(shards, known, responded) else INCOMPLETE
    return NON_AUTH if _everyone(shards, known, responded) else NONE


PROOF = Proof(
    "f-majority",
    (
        *("read-path.md#complete-domain", "read-path.md#f-majority-verdict", "read-path.md#gap-verdict"),
        *("documents.md#read-path-gap-detection", "documents.md#read-path-authoritative-status"),
    ),
    "An f-majority of empty answers leaves no record with enough copies unseen, and whoever leaves none is one;"
    " COMPLETE and NON_AUTH are said only when every full shard has answered.",
    claims,
    (
        Twin(
            "f-majority-one-short",
            "n - R shards are taken for an f-majority",
            "record",
            "f-majority-leaves-no-record",
            {"f_majority_verdict": _one_short},
        ),
        Twin(
            "f-majority-in-every-scope",
            "an f-majority is asked for in every scope",
            "enough",
            "f-majority-is-enough",
            {"f_majority_verdict": _in_every_scope},
        ),
        Twin(
            "incomplete-as-complete",
            "an f-majority is enough for COMPLETE",
            "verdict",
            "incomplete-is-not-complete",
            {"f_majority_verdict": _incomplete_as_complete},
        ),
        Twin(
            "unavailable-dropped",
            "a shard that may come back does not count",
            "record",
            "f-majority-leaves-no-record",
            {"f_majority_verdict": _unavailable_dropped},
        ),
    ),
    covers="any number of shards and domains, any factors of two scopes, all statuses",
    assumes=(
        "no copy is on a shard whose status is EMPTY",
        "domains that are alike in being complete, in counting and in having a copy are stood for by one of them",
    ),
    protocol="read-path",
)
