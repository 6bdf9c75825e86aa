"""Groups of any size for ``logspec.symbolic``: who is in one, and how many there are, is left open.

A rule that counts, sorts or looks for the largest value in such a group is given terms, and ``Census.facts`` says what
is known of them. Nothing is assumed of the size, so a rule that decides otherwise in groups of eight is run for eight
too; a rule that asks for a particular node is refused.

The nodes that the counted conditions tell apart fall into classes. Each class has a number of nodes, and one of them
as an example if it has any. That is all there is to say: a group is made of a model by taking as many copies of the
example as there are nodes in the class (``exact``). Only where a rule counts anew for each node are the facts fewer,
those about examples and named nodes; what follows from them is proved all the same, but a model of them need not be a
group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from typing import Any

import z3

Node = z3.DeclareSort("Voter")
_ANY = z3.Const("any", Node)
_TRUE = z3.BoolVal(True)
_NUMBERS = count()
_MOST_CONDITIONS = 10
"""Conditions that are told apart in one group; the classes are two to this power."""


@dataclass(frozen=True)
class Group:
    """A set of nodes, perhaps empty."""

    name: str

    def has(self, node: Any) -> z3.BoolRef:  # noqa: ANN401
        """The node is one of them."""
        return z3.Function(self.name, Node, z3.BoolSort())(node)

    @property
    def each(self) -> Each:
        """Its nodes, one after the other."""
        node = z3.FreshConst(Node)
        return Each(self, node, _TRUE, node)


@dataclass(frozen=True)
class Each:
    """``value`` for each ``node`` of a group for which ``where`` holds."""

    group: Group
    node: Any
    where: Any
    value: Any

    def of(self, node: Any) -> Each:  # noqa: ANN401
        """The same, said about another node."""
        put = [(self.node, node)]
        value = z3.substitute(self.value, *put) if isinstance(self.value, z3.ExprRef) else self.value
        return replace(self, node=node, where=z3.substitute(self.where, *put), value=value)


@dataclass(frozen=True)
class Many:
    """A list of unknown length: what there is for the nodes of groups, and single values."""

    parts: tuple[Each, ...]
    single: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Sorted:
    """The values of a list of unknown length in ascending order."""

    values: Many


@dataclass(frozen=True)
class PerNode:
    """A mapping from nodes: ``known`` says which have a value. A set of nodes has ``known`` alone."""

    known: Callable[[Any], Any]
    value: Callable[[Any], Any] = lambda node: True


@dataclass(frozen=True)
class _Count:
    """How many nodes of a group meet a condition, which may be about the nodes in ``given`` as well."""

    function: z3.FuncDeclRef
    group: Group
    node: Any
    condition: Any
    given: tuple[Any, ...]


class Census:
    """What is asked about groups, and what is known of the answers. ``always`` is known of every node.

    ``nodes``: there are no others. So counterexamples are found that a person reads; nothing is proved.
    """

    def __init__(self, always: Callable[[Any], Any] = lambda node: _TRUE, nodes: Sequence[Any] = ()) -> None:
        self._always = always
        self._nodes = list(nodes)
        self._counts: list[_Count] = []
        self._everywhere: list[Each] = []  # the value is true of each
        self._elements: list[Any] = list(nodes)
        self._facts: list[Any] = []
        self._bound: list[Any] = []
        self._shown: list[tuple[Any, Any]] = []

    def element(self, name: str) -> Any:  # noqa: ANN401
        """Return a node that has a name; it may be in any group or in none."""
        node = z3.Const(name, Node)
        self._elements.append(node)
        return node

    def every(self, group: Group, holds: Callable[[Any], Any]) -> None:
        """Assume that something holds of every node of a group."""
        node = z3.FreshConst(Node)
        self._everywhere.append(Each(group, node, _TRUE, holds(node)))

    # -- what rules ask ----------------------------------------------------------------------------------------------

    def over(self, many: Many) -> Iterator[Each]:
        """Yield each part about a node of its own; what is asked meanwhile may be about that node."""
        for part in many.parts:
            about = part.of(z3.FreshConst(Node))
            self._bound.append(about.node)
            yield about
            self._bound.pop()

    def number(self, each: Each, value: Any = True) -> Any:  # noqa: ANN401
        """Return for how many nodes ``where`` and ``value`` hold."""
        node = z3.FreshConst(Node)
        condition = z3.And(each.of(node).where, replace(each, value=_formula(value)).of(node).value)
        if self._nodes:
            there = [z3.And(each.group.has(one), z3.substitute(condition, (node, one))) for one in self._nodes]
            return z3.Sum([z3.If(counts, 1, 0) for counts in there])
        given = tuple(bound for bound in self._bound if _mentions(condition, bound))
        function = z3.Function(f"count_{next(_NUMBERS)}", *[Node] * len(given), z3.IntSort())
        self._counts.append(_Count(function, each.group, node, condition, given))
        return function(*given)

    def total(self, many: Many, of: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        """Return how many values of a list there are for which ``of`` holds."""
        single = [z3.If(_formula(of(value)), 1, 0) for value in many.single]
        return z3.Sum([*(self.number(part, of(part.value)) for part in many.parts), *single, z3.IntVal(0)])

    def extreme(self, many: Many, at_most: Callable[[Any, Any], Any]) -> Any:  # noqa: ANN401
        """Return the largest value of a list in the given order; an empty list has any."""
        self._refuse_nested("takes the largest or smallest value anew for each node")
        best = z3.FreshInt("best")
        reached = [best == value for value in many.single]
        for part in many.parts:
            bounded = z3.Implies(part.where, at_most(part.value, best))
            self._everywhere.append(replace(part, where=_TRUE, value=bounded))
            example = self.element(z3.FreshConst(Node).decl().name())
            there = part.of(example)
            reached.append(z3.And(part.group.has(example), there.where, there.value == best))
        self._facts += [at_most(value, best) for value in many.single]
        self._facts.append(z3.Or(self.total(many, lambda value: True) == 0, *reached))
        return best

    def item(self, many: Many, place: Any) -> Any:  # noqa: ANN401
        """Return the value at a place of the sorted list; a place that it does not have has any."""
        self._refuse_nested("sorts anew for each node")
        found, length = z3.FreshInt("sorted"), self.total(many, lambda value: True)
        place = z3.If(place < 0, place + length, place)
        below, reached = self.total(many, lambda value: value < found), self.total(many, lambda value: value <= found)
        self._facts.append(z3.Implies(z3.And(place >= 0, place < length), z3.And(below <= place, place < reached)))
        return found

    def _refuse_nested(self, what: str) -> None:
        if self._bound:
            raise ValueError(f"{what} of a group of any size")

    # -- what is known -------------------------------------------------------------------------------------------------

    @property
    def exact(self) -> bool:
        """Whether every model of the facts is a group."""
        return not any(asked.given for asked in self._counts)

    def facts(self) -> list[Any]:
        """Return all that is known of the terms handed out so far."""
        facts = [*self._facts, *map(self._always, self._elements)]
        for each in self._everywhere:
            facts += [z3.Implies(each.group.has(node), each.of(node).value) for node in self._elements]
        conditions: dict[Group, dict[int, Any]] = {}
        answers: dict[Group, list[tuple[Any, int]]] = {}
        for asked, given in self._instances():
            answer = asked.function(*given)
            condition = z3.substitute(asked.condition, *zip(asked.given, given, strict=True))
            if self._counts_about(condition, asked.node):
                facts.append(answer >= 0)
                for node in self._elements:
                    meets = z3.And(asked.group.has(node), z3.substitute(condition, (asked.node, node)))
                    facts.append(z3.Implies(meets, answer > 0))
            else:
                condition = z3.simplify(z3.substitute(condition, (asked.node, _ANY)))
                conditions.setdefault(asked.group, {})[condition.get_id()] = condition
                answers.setdefault(asked.group, []).append((answer, condition.get_id()))
        self._shown = [(z3.IntVal(1), node) for node in self._nodes]
        for group, distinct in conditions.items():
            facts += self._classes(group, distinct, answers[group])
        return facts

    def shown(self, model: z3.ModelRef) -> Iterator[tuple[int, Any]]:
        """Yield the classes of equal nodes that a model has: how many there are, and one of them."""
        for size, example in self._shown:
            number = model.eval(size, model_completion=True).as_long()
            if number:
                yield number, example

    def _instances(self) -> Iterator[tuple[_Count, tuple[Any, ...]]]:
        """What was counted, for the named nodes and examples that it is known of."""
        for asked in self._counts:
            for given in product(self._elements, repeat=len(asked.given)):
                yield asked, given

    def _classes(self, group: Group, conditions: Mapping[int, Any], answers: list[tuple[Any, int]]) -> Iterator[Any]:
        """The group divided into classes by who meets which of the conditions, given by their ids."""
        varying = {key: condition for key, condition in conditions.items() if not z3.is_true(condition)}
        if len(varying) > _MOST_CONDITIONS:
            raise ValueError(f"tells nodes apart by more than {_MOST_CONDITIONS} conditions")

        def meeting(node: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401
            put = [z3.substitute(condition, (_ANY, node)) for condition in varying.values()]
            return [(condition, z3.Not(condition)) for condition in put]

        counted: dict[int, list[Any]] = {key: [] for key in conditions}
        elements = [(group.has(node), meeting(node)) for node in self._elements]
        for number, meets in enumerate(product((True, False), repeat=len(varying))):
            size, example = z3.Int(f"{group.name}_{number}"), z3.Const(f"{group.name}_{number}", Node)

            def such(conditions: list[tuple[Any, Any]], meets: tuple[bool, ...] = meets) -> list[Any]:
                return [yes if met else no for met, (yes, no) in zip(meets, conditions, strict=True)]

            general = [
                each.of(example).value
                for each in self._everywhere
                if each.group == group and not self._counts_about(each.value, each.node)
            ]
            known = z3.And(group.has(example), *such(meeting(example)), self._always(example), *general)
            yield from (size >= 0, z3.Implies(size > 0, known))
            yield from (z3.Implies(z3.And(there, *such(put)), size > 0) for there, put in elements)
            for key in conditions:
                if key not in varying or dict(zip(varying, meets, strict=True))[key]:
                    counted[key].append(size)
            self._shown.append((size, example))
        for answer, key in answers:
            yield answer == z3.Sum(counted[key])

    def _counts_about(self, formula: Any, node: Any) -> bool:  # noqa: ANN401
        """Whether the formula asks for a number of nodes that depends on this node."""
        functions = {asked.function.name() for asked in self._counts if asked.given}
        return any(
            z3.is_app(term) and term.decl().name() in functions and _mentions(term, node) for term in _terms(formula)
        )


def _formula(value: Any) -> Any:  # noqa: ANN401
    return z3.BoolVal(value) if isinstance(value, bool) else value


def _terms(formula: Any) -> Iterator[Any]:  # noqa: ANN401
    seen: set[int] = set()
    waiting = [formula]
    while waiting:
        term = waiting.pop()
        if isinstance(term, z3.ExprRef) and term.get_id() not in seen:
            seen.add(term.get_id())
            yield term
            waiting.extend(term.children())


def _mentions(formula: Any, node: Any) -> bool:  # noqa: ANN401
    return any(term.eq(node) for term in _terms(formula))
