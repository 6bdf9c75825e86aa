"""What holds at all times in ``members_state``, beside what ``raft_invariants`` says of logs, terms and disks.

Two quorums meet only if one step leads from the configuration of the one to that of the other. So *can still be
committed* is no matter of quorums here, as it is in ``raft_invariants``: an entry counts as *lost* from the moment on
when somebody is elected in a later term who lacks it, and what is said of an entry is said until then. The key
conjuncts are ``voters-of-the-first-have-not-replied`` and ``committed-is-not-lost``. Sources: raft.md#change-refused,
raft.md#durable, raft.md#log-ok.
"""

# A short formula reads best as a named lambda; z3 has no type hints.
# ruff: noqa: E731
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable

import z3

from logspec.proofs import raft_invariants
from logspec.proofs.members_state import MembersState, quorum_of, steps_to
from logspec.proofs.raft_state import Commit
from logspec.proofs.vocabulary import (
    Epoch,
    Formula,
    Index,
    Node,
    Offset,
    Term,
    TermSort,
    exists,
    forall,
    implies,
    member,
)

at_most, below = Offset.at_most, Offset.below
earlier, not_later = Epoch.below, Epoch.at_most


def first(term: Term, offset: Term) -> Formula:
    """The configuration that stands before all entries."""
    return z3.And(term == Epoch.least, offset == Offset.least)


def change_invariants(s: MembersState) -> dict[str, Formula]:
    """Changes are entries, one step after the other, each after what was in force was committed in its own term."""
    T, I = TermSort, Index  # noqa: E741, N806
    real = lambda t, i: z3.And(s.change(t, i), z3.Not(first(t, i)))
    prior = lambda t, i: (s.prior_term(t, i), s.prior_offset(t, i))
    in_log = lambda t, u, i: s.within(lambda j, w: s.term_log(t, j, w), u, i)
    basis = lambda t, i: z3.And(
        s.happened(s.basis(t, i)),
        s.commit_term(s.basis(t, i)) == t,
        at_most(s.prior_offset(t, i), s.commit_offset(s.basis(t, i))),
        below(s.commit_offset(s.basis(t, i)), i),
    )
    return {
        "the-first-configuration-is-one": s.change(Epoch.least, Offset.least),
        "change-is-an-entry": forall(T, I, lambda t, i: implies(real(t, i), s.term_log(t, i, t))),
        "change-follows-a-change": forall(
            T, I, lambda t, i: implies(real(t, i), z3.And(s.change(*prior(t, i)), in_log(t, *prior(t, i))))
        ),
        "changes-are-committed": forall(T, I, lambda t, i: implies(real(t, i), basis(t, i))),
        "no-change-in-between": forall(
            T,
            I,
            I,
            T,
            lambda t, i, j, u: implies(
                real(t, i), s.term_log(t, j, u), below(s.prior_offset(t, i), j), below(j, i), z3.Not(s.change(u, j))
            ),
        ),
        "one-step-at-a-time": forall(
            T, I, lambda t, i: implies(real(t, i), steps_to(s.config(*prior(t, i)), s.config(t, i)))
        ),
    }


def counting_invariants(s: MembersState) -> dict[str, Formula]:
    """By which configuration a leader was elected and a commit was counted: the last one in the log, as it was.

    It is long because it is a list of statements, each as it stands.
    """
    N, T, I = Node, TermSort, Index  # noqa: E741, N806
    of_term = lambda t: (s.elected_term(t), s.elected_offset(t))
    of_commit = lambda e: (s.counted_term(e), s.counted_offset(e))
    return {
        "candidate-has-no-entry-of-its-term": forall(
            N, T, I, lambda n, t, i: implies(s.candidate(n), s.at(n, t), z3.Not(s.entry(n, i, t)))
        ),
        "elected-by-a-configuration": forall(
            T,
            lambda t: implies(
                s.elected(t),
                z3.And(
                    s.change(*of_term(t)),
                    s.within(s.begun_by(t), *of_term(t)),
                    quorum_of(s.voting_quorum(t), s.config(*of_term(t))),
                ),
            ),
        ),
        "elected-by-the-last-one": forall(
            T,
            I,
            T,
            lambda t, j, u: implies(
                s.elected(t), s.begun_by(t)(j, u), below(s.elected_offset(t), j), z3.Not(s.change(u, j))
            ),
        ),
        "counted-by-a-configuration": forall(
            Commit,
            lambda e: implies(
                s.happened(e),
                z3.And(
                    s.change(*of_commit(e)),
                    s.within(s.led_by(s.commit_term(e), s.counted_end(e)), *of_commit(e)),
                    s.has(s.commit_term(e), s.counted_end(e)),
                    at_most(s.commit_offset(e), s.counted_end(e)),
                    quorum_of(s.commit_quorum(e), s.config(*of_commit(e))),
                ),
            ),
        ),
        "counted-by-the-last-one": forall(
            Commit,
            I,
            T,
            lambda e, j, u: implies(
                s.happened(e),
                s.led_by(s.commit_term(e), s.counted_end(e))(j, u),
                below(s.counted_offset(e), j),
                z3.Not(s.change(u, j)),
            ),
        ),
        "changes-before-a-commit-rest-on-earlier-ones": forall(
            Commit,
            I,
            lambda e, i: implies(
                s.happened(e),
                s.change(s.commit_term(e), i),
                i != Offset.least,
                at_most(i, s.counted_end(e)),
                below(s.commit_offset(s.basis(s.commit_term(e), i)), s.commit_offset(e)),
            ),
        ),
        "leader-commits-by-itself": forall(
            N,
            T,
            lambda n, t: implies(
                s.leader(n),
                s.at(n, t),
                s.entry(n, s.commit(n), t),
                z3.And(
                    s.happened(s.known(n)),
                    s.commit_term(s.known(n)) == t,
                    s.commit_offset(s.known(n)) == s.commit(n),
                ),
            ),
        ),
        "changes-rest-on-what-the-leader-committed": forall(
            N,
            T,
            I,
            lambda n, t, i: implies(
                s.leader(n),
                s.at(n, t),
                s.change(t, i),
                i != Offset.least,
                at_most(s.commit_offset(s.basis(t, i)), s.commit(n)),
            ),
        ),
    }


def loss_invariants(s: MembersState) -> dict[str, Formula]:
    """Until an entry is lost, who was counted for it has it, and so has whoever these vote for."""
    N, T, I = Node, TermSort, Index  # noqa: E741, N806
    kept = lambda t, i: z3.And(s.term_log(t, i, t), z3.Not(s.lost(t, i)))
    return {
        "later-leaders-have-it-or-it-is-lost": forall(
            T, T, I, lambda t, u, i: implies(s.elected(u), earlier(t, u), z3.Or(s.term_log(u, i, t), s.lost(t, i)))
        ),
        "the-first-who-lacks-it": forall(
            T,
            I,
            T,
            lambda t, i, u: implies(
                s.first_lost(t, i, u), z3.And(s.elected(u), earlier(t, u), z3.Not(s.term_log(u, i, t)))
            ),
        ),
        "leaders-before-the-first-have-it": forall(
            T,
            I,
            T,
            I,
            T,
            lambda t, i, u, j, w: implies(s.first_lost(t, i, u), s.term_log(u, j, w), earlier(w, u), not_later(w, t)),
        ),
        "voters-of-the-first-have-not-replied": forall(
            T,
            I,
            T,
            N,
            lambda t, i, u, m: implies(
                s.first_lost(t, i, u),
                member(m, s.voting_quorum(u)),
                s.term_log(t, i, t),
                z3.Not(s.replied(m, t, i)),
            ),
        ),
        "replied-is-durable": forall(
            N,
            T,
            I,
            lambda n, t, i: implies(kept(t, i), s.replied(n, t, i), z3.And(s.entry(n, i, t), at_most(i, s.durable(n)))),
        ),
        **raft_invariants.votes_for_complete_logs(s, kept),
        "committed-is-not-lost": forall(
            Commit, lambda e: implies(s.happened(e), z3.Not(s.lost(s.commit_term(e), s.commit_offset(e))))
        ),
    }


def _disk_invariants(s: MembersState) -> dict[str, Formula]:
    return {key: each for key, each in raft_invariants.disk_invariants(s).items() if key != "replied-is-durable"}


Group = Callable[[MembersState], dict[str, Formula]]
OLD: tuple[Group, ...] = (
    raft_invariants.term_invariants,
    raft_invariants.election_invariants,
    raft_invariants.log_invariants,
    _disk_invariants,
)
CHANGES: tuple[Group, ...] = (change_invariants, counting_invariants)
LOSSES: tuple[Group, ...] = (loss_invariants, raft_invariants.committed_invariants)
GROUPS = (*OLD, *CHANGES, *LOSSES)


def invariants(s: MembersState) -> dict[str, Formula]:
    """All groups: what is kept by every step."""
    return {name: formula for group in GROUPS for name, formula in group(s).items()}


def firsts(s: MembersState) -> dict[str, Formula]:
    """What is lost was lost first by somebody. On its own: it says *for every term there is a term*."""
    return {
        "lost-has-a-first": forall(
            TermSort, Index, lambda t, i: implies(s.lost(t, i), exists(TermSort, lambda u: s.first_lost(t, i, u)))
        )
    }
