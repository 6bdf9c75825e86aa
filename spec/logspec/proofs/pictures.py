"""Counterexamples as small tables: which node holds what.

A model of the solver assigns elements such as ``Node!val!0``; here nodes become n1, n2.., offsets and terms become
their rank in the model's order, so that a person reads 0, 1, 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3

from logspec.proofs.raft_state import Name, State, name
from logspec.proofs.vocabulary import Epoch, Node, Offset, Ordered


class Reading:
    """A model with its elements given names that read well."""

    def __init__(self, model: z3.ModelRef) -> None:
        self.model = model
        self.nodes = list(model.get_universe(Node) or [])
        self.offsets = self._ascending(Offset)
        self.terms = self._ascending(Epoch)

    def _ascending(self, ordered: Ordered) -> list[z3.ExprRef]:
        elements = list(self.model.get_universe(ordered.sort) or [])
        return sorted(elements, key=lambda a: sum(self.true(ordered.at_most(b, a)) for b in elements))

    def true(self, formula: z3.BoolRef) -> bool:
        """Whether the model makes the formula true."""
        return bool(z3.is_true(self.model.eval(formula, model_completion=True)))

    def value(self, term: z3.ExprRef) -> z3.ExprRef:
        """The element that a term stands for."""
        return self.model.eval(term, model_completion=True)

    def offset(self, term: z3.ExprRef) -> str:
        """An offset as its rank, ``-`` for nothing."""
        return self._rank(self.offsets, term)

    def term(self, term: z3.ExprRef) -> str:
        """A term of the protocol as its rank among all terms of the model, ``-`` for the least."""
        return self._rank(self.terms, term)

    def _rank(self, elements: list[z3.ExprRef], term: z3.ExprRef) -> str:
        value = self.value(term)
        rank = next((index for index, element in enumerate(elements) if element.eq(value)), 0)
        return "-" if rank == 0 else str(rank)

    def node(self, term: z3.ExprRef) -> str:
        """A node as n1, n2, .."""
        value = self.value(term)
        return next((f"n{i}" for i, node in enumerate(self.nodes, 1) if node.eq(value)), "n?")


def values(model: z3.ModelRef) -> str:
    """``a=1, b=true``: each constant of a model, by name."""
    named = sorted((str(declared), str(model[declared])) for declared in model.decls() if declared.arity() == 0)
    return ", ".join(f"{constant}={value}" for constant, value in named)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Columns padded to their widest cell."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "\n".join(line.rstrip() for line in lines)


def _log(reading: Reading, has: Callable[[Any, Any], Any]) -> str:
    """``1:1 2:3``: offset and term of each entry that a predicate of offset and term admits."""
    cells = [
        f"{reading.offset(i)}:{reading.term(u)}"
        for i in reading.offsets
        for u in reading.terms
        if reading.true(has(i, u))
    ]
    return " ".join(cells) or "empty"


def nodes_table(reading: Reading, s: State) -> str:
    """A row for each node: term, role, vote, log, what is dirty, flushed, durable, committed, summed up."""
    rows = []
    for n in reading.nodes:
        roles = [
            role for role, holds in (("leader", s.leader(n)), ("candidate", s.candidate(n))) if reading.true(holds)
        ]
        vote = [reading.node(m) for m in reading.nodes if reading.true(s.voted(n) == name(m))]
        current = [reading.term(t) for t in reading.terms if reading.true(s.at(n, t))]
        disk = [reading.term(t) for t in reading.terms if reading.true(s.disk_at(n, t))]
        rows.append(
            [
                reading.node(n),
                "".join(current) or "?",
                "".join(disk) or "?",
                *(roles[:1] or ["follower"]),
                "".join(vote) or "-",
                _log(reading, lambda i, u, n=n: s.entry(n, i, u)),  # type: ignore[misc]
                *(reading.offset(offset(n)) for offset in (s.dirty, s.flushed, s.durable, s.commit, s.summed)),
            ]
        )
    logs = ["log (offset:term)", "dirty", "flushed", "durable", "commit", "summed"]
    return table(["node", "term", "on disk", "role", "vote", *logs], rows)


def terms_table(reading: Reading, s: State) -> str:
    """A row for each term that had a leader: who, its log, and who replied up to where."""
    rows = []
    for t in reading.terms:
        if not reading.true(s.elected(t)):
            continue
        names = list(reading.model.get_universe(Name) or [])
        leader = [
            reading.node(m)
            for x in names
            if reading.true(s.led(t, x))
            for m in reading.nodes
            if reading.true(name(m) == x)
        ]
        replies = []
        for m in reading.nodes:
            acknowledged = [i for i in reading.offsets if reading.true(s.replied(m, t, i))]
            if acknowledged:
                replies.append(f"{reading.node(m)}:{reading.offset(acknowledged[-1])}")
        log = _log(reading, lambda i, u, t=t: s.term_log(t, i, u))  # type: ignore[misc]
        rows.append([reading.term(t), "".join(leader) or "?", log, " ".join(replies) or "none"])
    return table(["term", "leader", "its log (offset:term)", "counted as durable (node:offset)"], rows) if rows else ""


def picture(before: State, after: State) -> Callable[[z3.ModelRef], str]:
    """Return a printer of the state before a step and of what the step changed."""

    def show(model: z3.ModelRef) -> str:
        reading = Reading(model)
        parts = ["before:"]
        changed = ["after (rows that changed):"]
        for make in (nodes_table, terms_table):
            old, new = make(reading, before).splitlines(), make(reading, after).splitlines()
            parts += old
            changed += [line for line in new if line not in old]
        return "\n".join([*parts, *changed])

    return show
