"""Sorts and orders for proofs without arithmetic, and small helpers to write formulas that read well.

The proofs for all numbers of nodes, terms and offsets stay in a decidable fragment (EPR, with functions that form no
cycle from a sort back to itself): quorums are a sort of which only the intersection is known, offsets and terms are
ordered sorts of which only the order is known.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import product
from types import MappingProxyType
from typing import Any, TypeAlias

import z3

from logspec.symbolic import Order

# z3 has no type hints, so these names are for the reader.
Formula: TypeAlias = Any
Term: TypeAlias = Any


_NO_SCOPE: Mapping[z3.SortRef, Sequence[Term]] = MappingProxyType({})
_SCOPE: ContextVar[Mapping[z3.SortRef, Sequence[Term]]] = ContextVar("scope", default=_NO_SCOPE)


_WANTED: ContextVar[str] = ContextVar("wanted", default="")


@contextmanager
def scope(sizes: Mapping[z3.SortRef, int], wanted: str = "") -> Iterator[None]:
    """Inside, quantifiers over these sorts run over the given number of elements; ``wanted`` is the goal to refute.

    A formula written inside has no quantifier over them, so that a counterexample is found quickly and is small. It
    is a counterexample; that there is none in here proves nothing. Add ``scope_axioms`` to such formulas.
    """
    elements = {
        sort: [z3.Const(f"{sort.name()}_{number}", sort) for number in range(size)] for sort, size in sizes.items()
    }
    token, wish = _SCOPE.set(elements), _WANTED.set(wanted)
    try:
        yield
    finally:
        _SCOPE.reset(token)
        _WANTED.reset(wish)


def is_scoped() -> bool:
    """Whether formulas are being written inside a ``scope``."""
    return bool(_SCOPE.get())


def elements_of(sort: z3.SortRef) -> Sequence[Term]:
    """The elements of a sort, if formulas are being written for so many; else none."""
    return _SCOPE.get().get(sort, ())


def goal_wanted() -> str:
    """The only goal that is asked for, so that others need not be written out; empty if all are."""
    return _WANTED.get()


def scope_axioms(formulas: Sequence[Formula]) -> list[Formula]:
    """The elements of the scope differ, and every term in the formulas is one of them; no term, no axiom."""
    elements = _SCOPE.get()
    axioms: list[Formula] = []
    met: set[z3.SortRef] = set()
    seen: set[int] = set()
    waiting: list[Term] = list(formulas)
    while waiting:
        term = waiting.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        waiting.extend(term.children())
        constants = elements.get(term.sort())
        if constants and z3.is_app(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            axioms.append(z3.Or([term == constant for constant in constants]))
            met.add(term.sort())
    return [*(z3.Distinct(*elements[sort]) for sort in elements if sort in met and len(elements[sort]) > 1), *axioms]


def forall(*sorts_then_body: Any) -> Formula:  # noqa: ANN401
    """``forall(Node, Index, lambda n, i: ...)``: the body holds for all; the variables are named as in the lambda."""
    return _quantified(z3.ForAll, z3.And, *sorts_then_body)


def exists(*sorts_then_body: Any) -> Formula:  # noqa: ANN401
    """``exists(Quorum, lambda q: ...)``: the body holds for some."""
    return _quantified(z3.Exists, z3.Or, *sorts_then_body)


def _quantified(
    quantify: Callable[..., Formula],
    junction: Callable[..., Formula],
    *parts: Any,  # noqa: ANN401
) -> Formula:
    *sorts, body = parts
    ranges = _SCOPE.get()
    if ranges:
        return junction([body(*elements) for elements in product(*(ranges[sort] for sort in sorts))])
    names = list(inspect.signature(body).parameters)[: len(sorts)]
    variables = [z3.FreshConst(sort, name) for name, sort in zip(names, sorts, strict=True)]
    return quantify(variables, body(*variables))


def implies(*parts: Formula) -> Formula:
    """All parts but the last imply the last."""
    *premises, conclusion = parts
    return z3.Implies(z3.And(premises), conclusion)


class Ordered:
    """A totally ordered sort with a least element; ``below`` is its strict order."""

    def __init__(self, name: str, least: str) -> None:
        self.sort = z3.DeclareSort(name)
        self._at_most = z3.Function(f"{name}_at_most", self.sort, self.sort, z3.BoolSort())
        self.least = z3.Const(least, self.sort)
        self.order = Order(self.sort, self.at_most, {-1: self.least})

    def at_most(self, left: Term, right: Term) -> Formula:
        """The formula ``left <= right`` in this order."""
        return self._at_most(left, right)

    def below(self, left: Term, right: Term) -> Formula:
        """The formula ``left < right`` in this order."""
        return z3.Not(self._at_most(right, left))

    def follows(self, following: Term, before: Term) -> Formula:
        """``following`` is the next element after ``before``."""
        return z3.And(
            self.below(before, following),
            forall(self.sort, lambda i: z3.Or(self.at_most(i, before), self.at_most(following, i))),
        )

    def axioms(self) -> list[Formula]:
        """Reflexive, transitive, antisymmetric, total, with a least element."""
        sort, at_most = self.sort, self._at_most
        return [
            forall(sort, lambda a: at_most(a, a)),
            forall(sort, sort, sort, lambda a, b, c: implies(at_most(a, b), at_most(b, c), at_most(a, c))),
            forall(sort, sort, lambda a, b: implies(at_most(a, b), at_most(b, a), a == b)),
            forall(sort, sort, lambda a, b: z3.Or(at_most(a, b), at_most(b, a))),
            forall(sort, lambda a: at_most(self.least, a)),
        ]


Node = z3.DeclareSort("Node")
Quorum = z3.DeclareSort("Quorum")
Offset = Ordered("Offset", "nothing")
Epoch = Ordered("Term", "no_term")
Count = Ordered("Count", "zero")

Index = Offset.sort
TermSort = Epoch.sort

member = z3.Function("member", Node, Quorum, z3.BoolSort())


def quorums_intersect() -> Formula:
    """Any two quorums have a member in common: all that is ever used of a majority."""
    return forall(Quorum, Quorum, lambda q, r: exists(Node, lambda n: z3.And(member(n, q), member(n, r))))


ORDERS = (Offset.order, Epoch.order, Count.order)
