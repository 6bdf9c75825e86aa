"""The acks rule: SUCCESS means committed, for good; TRUNCATED means not committed now and never later.

The rule is run on the state of ``raft_safety``, with its invariants as facts, so this holds for all nodes, terms and
offsets. A commit that happened stays (``raft_safety``, "commits-stay"), so what is shown of one moment holds ever
after. The document's own stop conditions (2) and (3), "the term changed: success if the entry is still in the log",
are the twin ``ack-on-term-change``. Sources: raft.md#quorum-ack, raft.md#stop-conditions,
documents.md#raft-recovery-quorum-ack.
"""

# A short formula reads best as a named lambda; z3 has no type hints.
# ruff: noqa: E731
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import z3

from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.pictures import Reading, nodes_table, terms_table
from logspec.proofs.raft_invariants import facts
from logspec.proofs.raft_safety import SIZES, known_before
from logspec.proofs.raft_state import BEFORE, EXECUTOR, Commit, State
from logspec.proofs.vocabulary import Epoch, Formula, Index, Node, Offset, Term, TermSort, forall, implies, is_scoped

PENDING, SUCCESS, TRUNCATED = 0, 1, 2
"""What ``resolve_quorum_ack`` answers."""

_n = z3.Const("n", Node)
_offset, _at = z3.Consts("offset k", Index)
_term, _here, _at_commit, _current = z3.Consts("term here at_commit current", TermSort)
_first, _second = z3.Consts("first second", Commit)

TERM_CHANGED = z3.Bool("term_changed")
"""Whether the node that answers is no longer in the term of the append; only the document's rule asks."""


def _holds(s: State, event: Term, offset: Term, term: Term) -> Formula:
    """A commit covers the entry: it is at or before the committed offset in that leader's log."""
    covered = Offset.at_most(offset, s.commit_offset(event))
    return z3.And(s.happened(event), covered, s.term_log(s.commit_term(event), offset, term))


def _answer(rules: Rules) -> tuple[list[Formula], Any]:
    """The rule's answer at a node about the append (offset, term), with what it looks up in its log."""
    s = BEFORE
    nothing_here = z3.And(_here == Epoch.least, Offset.below(s.dirty(_n), _offset))
    nothing_committed = z3.And(_at_commit == Epoch.least, s.commit(_n) == Offset.least)
    known = known_before(is_scoped())
    assume = [
        *known.axioms,
        *facts(known.first),
        *known.second.values(),
        _offset != Offset.least,
        _term != Epoch.least,
        z3.Or(nothing_here, s.entry(_n, _offset, _here)),
        z3.Or(nothing_committed, s.entry(_n, s.commit(_n), _at_commit)),
        s.at(_n, _current),
        Epoch.at_most(_term, _current),
        Epoch.below(_term, _current) == TERM_CHANGED,
    ]
    return assume, EXECUTOR.call(rules.resolve_quorum_ack, _offset, _term, _here, s.commit(_n), _at_commit)


def _is(answer: Any, outcome: int) -> Formula:  # noqa: ANN401
    return z3.BoolVal(answer == outcome) if isinstance(answer, int) else answer == outcome


def _tidy() -> list[Formula]:
    """In a counterexample the append in question was really written."""
    return [*known_before(is_scoped()).tidy(), BEFORE.term_log(_term, _offset, _term)]


def _success(rules: Rules) -> Claim:
    """SUCCESS: the commit that this node knows of covers the entry, and so does every later leader's log."""
    assume, answer = _answer(rules)
    s, event = BEFORE, BEFORE.known(_n)
    later = lambda t: implies(s.elected(t), Epoch.at_most(s.commit_term(event), t), s.term_log(t, _offset, _term))
    goals = {
        "ack-rule": _holds(s, event, _offset, _term),
        "acked-survives": forall(TermSort, later),
    }
    return Claim([*assume, _is(answer, SUCCESS)], goals, _picture, _tidy())


def _one_value(rules: Rules) -> Claim:
    """Two commits never cover different entries at one offset: an offset has one acknowledged value."""
    known, other = known_before(is_scoped()), z3.Const("other", TermSort)
    assume = [
        *known.axioms,
        *facts(known.first),
        _holds(BEFORE, _first, _offset, _term),
        _holds(BEFORE, _second, _offset, other),
    ]
    return Claim(assume, {"one-acknowledged-value-per-offset": _term == other}, _picture, known.tidy())


def _rules_out(s: State, event: Term, at: Term, committed: Term, here: Term) -> Formula:
    """What a node that answers TRUNCATED has seen: a commit of a later term at ``at``, and not this entry before it."""
    other = z3.And(here != _term, s.term_log(s.commit_term(event), _offset, here))
    return z3.And(
        _holds(s, event, at, committed), Epoch.below(_term, committed), z3.Or(Offset.below(at, _offset), other)
    )


def _truncated(rules: Rules) -> Claim:
    """TRUNCATED: the node knows of a commit that rules the entry out (all of it stays true, see ``raft_safety``)."""
    assume, answer = _answer(rules)
    goal = _rules_out(BEFORE, BEFORE.known(_n), BEFORE.commit(_n), _at_commit, _here)
    goals = {"truncated-rule": goal}
    return Claim([*assume, _is(answer, TRUNCATED)], goals, _picture, _tidy())


def _never_committed(rules: Rules) -> Claim:
    """An entry that one commit rules out is covered by no commit, whenever and in whatever term it happens."""
    known = known_before(is_scoped())
    assume = [*known.axioms, *facts(known.first), _rules_out(BEFORE, _first, _at, _at_commit, _here)]
    goals = {"failed-never-committed": z3.Not(_holds(BEFORE, _second, _offset, _term))}
    return Claim(assume, goals, _picture, known.tidy())


def _possible(outcome: int, rules: Rules) -> Claim:
    assume, answer = _answer(rules)
    return Claim([*assume, _is(answer, outcome)])


def claims(rules: Rules, without: frozenset[str]) -> dict[str, Callable[[], Claim]]:
    """Each answer is possible, and means what it says."""
    return {
        "success/possible": partial(_possible, SUCCESS, rules),
        "truncated/possible": partial(_possible, TRUNCATED, rules),
        "pending/possible": partial(_possible, PENDING, rules),
        "success": partial(_success, rules),
        "one-value": partial(_one_value, rules),
        "truncated": partial(_truncated, rules),
        "never-committed": partial(_never_committed, rules),
    }


def _picture(model: z3.ModelRef) -> str:
    reading = Reading(model)
    asked = f"asked: {reading.node(_n)} about offset {reading.offset(_offset)} of term {reading.term(_term)}"
    return "\n".join([asked, nodes_table(reading, BEFORE), terms_table(reading, BEFORE)])


def _document(offset: int, term: int, term_at_offset: int, commit: int, term_at_commit: int) -> int:
    """documents.md#raft-recovery-quorum-ack: (1) committed, (2) or (3) the term changed; success if it is there."""
    if TERM_CHANGED:
        return SUCCESS if term_at_offset == term else TRUNCATED
    return SUCCESS if term_at_offset == term and commit >= offset else PENDING


def _without_term(offset: int, term: int, term_at_offset: int, commit: int, term_at_commit: int) -> int:
    return SUCCESS if commit >= offset else PENDING


def _truncated_at_once(offset: int, term: int, term_at_offset: int, commit: int, term_at_commit: int) -> int:
    if term_at_offset != term:
        return TRUNCATED
    return SUCCESS if commit >= offset else PENDING


def _truncated_for_equal_term(offset: int, term: int, term_at_offset: int, commit: int, term_at_commit: int) -> int:
    if term_at_offset == term and commit >= offset:
        return SUCCESS
    return TRUNCATED if term_at_commit >= term and term_at_offset != term else PENDING


PROOF = Proof(
    "acks",
    ("raft.md#quorum-ack", "raft.md#stop-conditions", "documents.md#raft-recovery-quorum-ack"),
    "SUCCESS is answered only for what is committed and stays; TRUNCATED only for what is never committed,"
    " so never read.",
    claims,
    (
        Twin(
            "ack-on-term-change",
            "the document's stop conditions (2) and (3): the term changed, success if the entry is still in the log",
            "success",
            "ack-rule",
            {"resolve_quorum_ack": _document},
        ),
        Twin(
            "ack-without-term",
            "success once the offset is committed, whatever entry is there",
            "success",
            "ack-rule",
            {"resolve_quorum_ack": _without_term},
        ),
        Twin(
            "truncated-for-equal-term",
            "TRUNCATED although nothing of a later term is committed, so that a later leader may still have the entry",
            "truncated",
            "truncated-rule",
            {"resolve_quorum_ack": _truncated_for_equal_term},
        ),
        Twin(
            "truncated-ignores-committed-term",
            "TRUNCATED as soon as the entry is gone, though its leader may come back with it",
            "truncated",
            "truncated-rule",
            {"resolve_quorum_ack": _truncated_at_once},
        ),
    ),
    SIZES,
    "all N",
    (
        "the state is one that raft-safety allows, and all that it assumes",
        "what a power loss takes was not answered early, as it may be under write caching",
    ),
    protocol="raft",
)
