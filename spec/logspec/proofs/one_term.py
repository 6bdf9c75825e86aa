"""One leader in one term, any number of followers and offsets: what it may count, and what that guarantees.

A small model beside the large one of ``raft_state``: no elections, no terms; a follower's entry is the leader's or it
is not (``same``). It is quick, and its counterexamples fit on a few lines.
"""

# A short formula reads best as a named lambda; z3 has no type hints.
# ruff: noqa: E731
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import z3

from logspec.proofs.claims import Rules
from logspec.proofs.pictures import Reading, table
from logspec.proofs.vocabulary import (
    Formula,
    Index,
    Node,
    Offset,
    Quorum,
    Term,
    forall,
    implies,
    member,
    quorums_intersect,
)
from logspec.symbolic import Executor

EXECUTOR = Executor([Offset.order])

Relation = Callable[..., Any]

leader = z3.Const("leader", Node)


@dataclass(frozen=True)
class State:
    """The leader's group as it is, and what its leader has learned."""

    same: Relation  # (node, offset): its entry there is the leader's
    dirty: Relation  # node -> offset
    flushed: Relation  # node -> offset
    durable: Relation  # node -> offset: what a power loss leaves for certain
    said_flushed: Relation  # (node, offset): a flushed offset that a reply carried
    counted: Relation  # (node, offset): durable there as far as the leader counts
    replicated: Relation  # (node, offset): held there, durable or not, as far as the leader counts
    committed: Relation  # (offset)
    commit_quorum: Relation  # offset -> quorum: who was counted for it
    majority: Relation  # (offset): at or below the majority replicated index
    majority_quorum: Relation  # offset -> quorum


_SORTS: dict[str, tuple[z3.SortRef, ...]] = {
    "same": (Node, Index, z3.BoolSort()),
    "dirty": (Node, Index),
    "flushed": (Node, Index),
    "durable": (Node, Index),
    "said_flushed": (Node, Index, z3.BoolSort()),
    "counted": (Node, Index, z3.BoolSort()),
    "replicated": (Node, Index, z3.BoolSort()),
    "committed": (Index, z3.BoolSort()),
    "commit_quorum": (Index, Quorum),
    "majority": (Index, z3.BoolSort()),
    "majority_quorum": (Index, Quorum),
}

BEFORE = State(**{field.name: z3.Function(field.name, *_SORTS[field.name]) for field in fields(State)})

SIZES: Mapping[z3.SortRef, int] = {Node: 3, Index: 4, Quorum: 3}
"""Counterexamples have three nodes and three entries if they can."""

n = z3.Const("n", Node)
i, p, e, x, y, k, v, f = z3.Consts("i p e x y k v f", Index)
q = z3.Const("q", Quorum)


@dataclass(frozen=True)
class Step:
    """When something may happen, and the state then."""

    guard: Formula
    after: State


def _set(function: Relation, key: Term, value: Term) -> Relation:
    return lambda node: z3.If(node == key, value, function(node))


def _equal_up_to(s: State, node: Term, end: Term) -> Formula:
    return forall(Index, lambda j: implies(j != Offset.least, Offset.at_most(j, end), s.same(node, j)))


def axioms() -> list[Formula]:
    """The order of offsets, and quorums that intersect."""
    return [*Offset.axioms(), quorums_intersect()]


def invariants(s: State) -> dict[str, Formula]:
    """What holds of logs and disks at all times."""
    return {
        "flushed-durable": forall(Node, lambda m: Offset.at_most(s.flushed(m), s.durable(m))),
        "durable-at-most-dirty": forall(Node, lambda m: Offset.at_most(s.durable(m), s.dirty(m))),
        "leader-holds-its-log": forall(
            Index, lambda j: implies(j != Offset.least, Offset.at_most(j, s.dirty(leader)), s.same(leader, j))
        ),
        "same-entries-are-in-the-log": forall(
            Node, Index, lambda m, j: implies(s.same(m, j), z3.And(Offset.at_most(j, s.dirty(m)), j != Offset.least))
        ),
    }


def leader_append(s: State, rules: Rules) -> Step:
    """The leader appends; a follower's longer tail cannot be equal there."""
    after = replace(
        s,
        same=lambda m, j: z3.Or(s.same(m, j), z3.And(m == leader, j == i)),
        dirty=_set(s.dirty, leader, i),
    )
    return Step(Offset.follows(i, s.dirty(leader)), after)


def follower_append(s: State, rules: Rules) -> Step:
    """A follower whose log is the leader's up to p takes over what follows up to e; a tail that differs is cut at x."""
    cut = lambda offset: z3.If(Offset.at_most(offset, y), offset, y)
    differs = z3.And(Offset.at_most(x, s.dirty(n)), z3.Not(s.same(n, x)))
    reaches = z3.And(x == e, s.dirty(n) == y)
    guard = z3.And(
        n != leader,
        Offset.at_most(e, s.dirty(leader)),
        Offset.below(p, x),
        Offset.at_most(x, e),
        Offset.follows(x, y),
        Offset.at_most(y, s.dirty(n)),
        _equal_up_to(s, n, y),
        z3.Or(differs, reaches),
    )
    log = lambda m, j: z3.If(m == n, z3.And(j != Offset.least, Offset.at_most(j, e)), s.same(m, j))
    after = replace(
        s,
        same=log,
        dirty=_set(s.dirty, n, e),
        flushed=_set(s.flushed, n, cut(s.flushed(n))),
        durable=_set(s.durable, n, cut(s.durable(n))),
    )
    return Step(guard, after)


def flush(s: State, rules: Rules) -> Step:
    """A flush makes the log durable up to f."""
    guard = z3.And(Offset.at_most(s.durable(n), f), Offset.at_most(f, s.dirty(n)))
    return Step(guard, replace(s, flushed=_set(s.flushed, n, f), durable=_set(s.durable, n, f)))


def power_loss(s: State, rules: Rules) -> Step:
    """A follower restarts with any prefix of its log that has all durable entries."""
    guard = z3.And(n != leader, Offset.at_most(s.durable(n), k), Offset.at_most(k, s.dirty(n)))
    after = replace(
        s,
        same=lambda m, j: z3.And(s.same(m, j), z3.Or(m != n, Offset.at_most(j, k))),
        dirty=_set(s.dirty, n, k),
        flushed=_set(s.flushed, n, k),
        durable=_set(s.durable, n, k),
    )
    return Step(guard, after)


def reply(s: State, rules: Rules, *, of_one_reply: bool = True) -> Step:
    """A follower whose log is the leader's up to v answers; the rules say what that counts for.

    ``of_one_reply``: the flushed offset is that of this reply. Otherwise it is one that any earlier reply carried,
    as in a leader that combines the larger match and the flushed offset of different replies.
    """
    equal = z3.And(n != leader, Offset.at_most(v, s.dirty(n)), _equal_up_to(s, n, v))
    flushed, guard = (s.flushed(n), equal) if of_one_reply else (f, z3.And(equal, s.said_flushed(n, f)))
    durable = EXECUTOR.call(rules.replicated_flushed, s.dirty(n), flushed, v)
    held = EXECUTOR.call(rules.replicated_dirty, s.dirty(n), flushed, v)
    count = lambda relation, end: lambda m, j: z3.Or(relation(m, j), z3.And(m == n, Offset.at_most(j, end)))
    after = replace(
        s,
        counted=count(s.counted, durable),
        replicated=count(s.replicated, held),
        said_flushed=lambda m, j: z3.Or(s.said_flushed(m, j), z3.And(m == n, j == s.flushed(n))),
    )
    return Step(guard, after)


def count_own(s: State, rules: Rules) -> Step:
    """The leader counts itself: its flushed offset for the commit index, its dirty one for what is replicated."""
    count = lambda relation, end: lambda m, j: z3.Or(relation(m, j), z3.And(m == leader, Offset.at_most(j, end)))
    after = replace(s, counted=count(s.counted, s.flushed(leader)), replicated=count(s.replicated, s.dirty(leader)))
    return Step(z3.BoolVal(True), after)


def commit(s: State, rules: Rules) -> Step:
    """Everything up to i is counted as durable on a quorum: it is committed."""
    guard = z3.And(forall(Node, lambda m: implies(member(m, q), s.counted(m, i))), Offset.at_most(i, s.flushed(leader)))
    new = lambda j: z3.And(Offset.at_most(j, i), z3.Not(s.committed(j)))
    after = replace(
        s,
        committed=lambda j: z3.Or(s.committed(j), new(j)),
        commit_quorum=lambda j: z3.If(new(j), q, s.commit_quorum(j)),
    )
    return Step(guard, after)


def raise_majority(s: State, rules: Rules) -> Step:
    """Everything up to i is counted as held by a quorum: the majority replicated index rises."""
    new = lambda j: z3.And(Offset.at_most(j, i), z3.Not(s.majority(j)))
    after = replace(
        s,
        majority=lambda j: z3.Or(s.majority(j), new(j)),
        majority_quorum=lambda j: z3.If(new(j), q, s.majority_quorum(j)),
    )
    return Step(forall(Node, lambda m: implies(member(m, q), s.replicated(m, i))), after)


def start() -> State:
    """The beginning of a term: logs and disks as they are, nothing counted yet."""
    return replace(
        BEFORE,
        said_flushed=lambda m, j: z3.BoolVal(False),
        counted=lambda m, j: z3.BoolVal(False),
        replicated=lambda m, j: z3.BoolVal(False),
        committed=lambda j: z3.BoolVal(False),
        majority=lambda j: z3.BoolVal(False),
    )


def picture(before: State, after: State) -> Callable[[z3.ModelRef], str]:
    """Return a printer: a row for each node, with its log as ``=`` (the leader's entry) and ``x`` (another one)."""

    def rows(reading: Reading, s: State) -> list[list[str]]:
        found = []
        for m in reading.nodes:
            held = [j for j in reading.offsets[1:] if reading.true(Offset.at_most(j, s.dirty(m)))]
            log = " ".join(f"{reading.offset(j)}{'=' if reading.true(s.same(m, j)) else 'x'}" for j in held)
            highest = [
                reading.offset(max_of[-1]) if max_of else "-"
                for max_of in (
                    [j for j in reading.offsets if reading.true(relation(m, j))]
                    for relation in (s.counted, s.replicated)
                )
            ]
            is_leader = " (leader)" if reading.true(m == leader) else ""
            offsets = [reading.offset(offset(m)) for offset in (s.dirty, s.flushed, s.durable)]
            found.append([f"{reading.node(m)}{is_leader}", log or "empty", *offsets, *highest])
        return found

    def indexes(reading: Reading, s: State) -> str:
        found = [
            max((reading.offset(j) for j in reading.offsets if reading.true(covers(j))), default="-")
            for covers in (s.committed, s.majority)
        ]
        return f"commit index {found[0]}, majority replicated index {found[1]}"

    def show(model: z3.ModelRef) -> str:
        reading = Reading(model)
        head = ["node", "log (= the leader's, x another)", "dirty", "flushed", "durable", "counted", "replicated"]
        old, new = rows(reading, before), rows(reading, after)
        changed = [row for row in new if row not in old]
        parts = ["before:", table(head, old), indexes(reading, before)]
        if changed:
            parts += ["after (rows that changed):", table(head, changed)]
        if indexes(reading, after) != parts[2]:
            parts.append(f"after: {indexes(reading, after)}")
        return "\n".join(parts)

    return show
