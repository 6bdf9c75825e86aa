"""What holds at all times in ``raft_state``: some seventy statements, by name, in the order in which they are
understood.

The first layer (``invariants``) knows quorums; its key conjunct is ``replied-is-durable``. The second
(``commit_invariants``) speaks of what nodes take for committed and needs only ``FACTS`` of the first. ``raft_safety``
proves that every step keeps them.
"""

# A short formula reads best as a named lambda; z3 has no type hints.
# ruff: noqa: E731
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache

import z3

from logspec.proofs.raft_state import BEFORE, Commit, Name, State, name, nobody
from logspec.proofs.vocabulary import (
    Count,
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


def term_invariants(s: State) -> dict[str, Formula]:
    """Terms in memory and on disk, votes, candidates."""
    N, T, X = Node, TermSort, Name  # noqa: N806
    return {
        "one-current-term": forall(N, T, T, lambda n, t, u: implies(s.at(n, t), s.passed(n, u) == earlier(u, t))),
        "current-term-is-one": forall(N, T, T, lambda n, t, u: implies(s.at(n, t), s.at(n, u), t == u)),
        "one-term-on-disk": forall(N, T, T, lambda n, t, u: implies(s.disk_at(n, t), s.gone(n, u) == earlier(u, t))),
        "term-on-disk-is-one": forall(N, T, T, lambda n, t, u: implies(s.disk_at(n, t), s.disk_at(n, u), t == u)),
        "gone-downwards": forall(N, T, T, lambda n, t, u: implies(s.gone(n, t), not_later(u, t), s.gone(n, u))),
        "disk-not-ahead": forall(N, T, T, lambda n, t, u: implies(s.disk_at(n, t), s.at(n, u), not_later(t, u))),
        "gone-is-passed": forall(N, T, T, lambda n, t, u: implies(s.gone(n, t), s.at(n, u), earlier(t, u))),
        "vote-on-disk-is-the-vote": forall(
            N,
            T,
            lambda n, t: implies(
                s.disk_at(n, t), s.at(n, t), z3.Or(s.disk_voted(n) == nobody, s.disk_voted(n) == s.voted(n))
            ),
        ),
        "sent-vote-is-durable": forall(N, T, X, lambda n, t, x: implies(s.vote(n, t, x), s.saved(n, t))),
        "sent-vote-is-on-disk": forall(
            N, T, X, lambda n, t, x: implies(s.vote(n, t, x), s.disk_at(n, t), s.disk_voted(n) == x)
        ),
        "sent-vote-names-somebody": forall(N, T, X, lambda n, t, x: implies(s.vote(n, t, x), x != nobody)),
        "one-vote-per-term": forall(N, T, X, X, lambda n, t, x, y: implies(s.vote(n, t, x), s.vote(n, t, y), x == y)),
        "candidate-votes-for-itself": forall(N, lambda n: implies(s.candidate(n), s.voted(n) == name(n))),
        "candidate-is-not-leader": forall(N, lambda n: z3.Not(z3.And(s.candidate(n), s.leader(n)))),
        "nobody-stands-in-the-first-term": forall(N, lambda n: z3.Not(z3.And(s.candidate(n), s.at(n, Epoch.least)))),
        "vote-was-asked-for": forall(
            N,
            N,
            T,
            lambda n, c, t: implies(s.at(n, t), s.voted(n) == name(c), z3.Or(n == c, s.saved(c, t))),
        ),
        "vote-on-disk-was-asked-for": forall(
            N, N, T, lambda n, c, t: implies(s.disk_at(n, t), s.disk_voted(n) == name(c), s.saved(c, t))
        ),
        "sent-vote-was-asked-for": forall(N, N, T, lambda n, c, t: implies(s.vote(n, t, name(c)), s.saved(c, t))),
        "request-is-durable": forall(N, T, Index, T, lambda n, t, i, u: implies(s.request(n, t, i, u), s.saved(n, t))),
        "request-is-the-log": forall(
            N,
            T,
            Index,
            T,
            lambda n, t, i, u: implies(
                s.candidate(n), s.at(n, t), s.request(n, t, i, u), z3.And(i == s.dirty(n), s.log_ends(n, u))
            ),
        ),
    }


def election_invariants(s: State) -> dict[str, Formula]:
    """Who led a term, elected by whom."""
    N, T, X = Node, TermSort, Name  # noqa: N806
    return {
        "one-leader-per-term": forall(T, X, X, lambda t, x, y: implies(s.led(t, x), s.led(t, y), x == y)),
        "led-is-elected": forall(T, X, lambda t, x: implies(s.led(t, x), s.elected(t))),
        "leader-has-majority": forall(
            T, X, N, lambda t, x, m: implies(s.led(t, x), member(m, s.voting_quorum(t)), s.vote(m, t, x))
        ),
        "nobody-leads-in-the-first-term": z3.Not(s.elected(Epoch.least)),
        "elected-has-a-leader": forall(T, lambda t: implies(s.elected(t), exists(X, lambda x: s.led(t, x)))),
        "leader-led": forall(N, T, lambda n, t: implies(s.leader(n), s.at(n, t), s.led(t, name(n)))),
        "led-is-saved": forall(N, T, lambda n, t: implies(s.led(t, name(n)), s.saved(n, t))),
        "candidate-has-not-led": forall(
            N, T, lambda n, t: implies(s.candidate(n), s.at(n, t), z3.Not(s.led(t, name(n))))
        ),
    }


def log_invariants(s: State) -> dict[str, Formula]:
    """Logs of nodes and of terms: a log that has an entry of a term is, up to there, the log of that term's leader."""
    N, T, I = Node, TermSort, Index  # noqa: E741, N806
    return {
        "entries-end-at-dirty": forall(
            N, I, T, lambda n, i, u: implies(s.entry(n, i, u), z3.And(i != Offset.least, at_most(i, s.dirty(n))))
        ),
        "one-entry-per-offset": forall(
            N, I, T, T, lambda n, i, u, w: implies(s.entry(n, i, u), s.entry(n, i, w), u == w)
        ),
        "log-matching": forall(
            N,
            I,
            I,
            T,
            T,
            lambda n, i, j, u, w: implies(s.entry(n, i, u), at_most(j, i), s.entry(n, j, w) == s.term_log(u, j, w)),
        ),
        "log-matching-of-leaders": forall(
            T,
            I,
            I,
            T,
            T,
            lambda t, i, j, u, w: implies(
                s.term_log(t, i, u), at_most(j, i), s.term_log(t, j, w) == s.term_log(u, j, w)
            ),
        ),
        "entries-are-of-past-terms": forall(N, I, T, lambda n, i, u: implies(s.entry(n, i, u), s.reached(n, u))),
        "leaders-entries-are-of-past-terms": forall(
            T, I, T, lambda t, i, u: implies(s.term_log(t, i, u), not_later(u, t))
        ),
        "one-leaders-entry-per-offset": forall(
            T, I, T, T, lambda t, i, u, w: implies(s.term_log(t, i, u), s.term_log(t, i, w), u == w)
        ),
        "leaders-log-has-its-entries": forall(
            T, I, T, lambda t, i, u: implies(s.term_log(t, i, u), z3.And(s.has(t, i), i != Offset.least))
        ),
        "leaders-log-without-gaps": forall(T, I, I, lambda t, i, j: implies(s.has(t, i), at_most(j, i), s.has(t, j))),
        "leaders-log-of-elected": forall(T, I, lambda t, i: implies(s.has(t, i), s.elected(t))),
        "entry-terms-were-elected": forall(
            T, I, T, lambda t, i, u: implies(s.term_log(t, i, u), z3.And(s.elected(u), s.elected(t)))
        ),
        "leader-holds-its-log": forall(
            N, T, I, T, lambda n, t, i, u: implies(s.leader(n), s.at(n, t), s.entry(n, i, u) == s.term_log(t, i, u))
        ),
        "leader-log-ends-at-dirty": forall(
            N, T, I, lambda n, t, i: implies(s.leader(n), s.at(n, t), s.has(t, i) == at_most(i, s.dirty(n)))
        ),
    }


def disk_invariants(s: State) -> dict[str, Formula]:
    """What is flushed is durable, and what was counted on is durable as long as that matters."""
    N, T, I = Node, TermSort, Index  # noqa: E741, N806
    choosable = cache(s.choosable)
    return {
        "flushed-durable": forall(N, lambda n: at_most(s.flushed(n), s.durable(n))),
        "durable-at-most-dirty": forall(N, lambda n: at_most(s.durable(n), s.dirty(n))),
        "tickets-are-of-the-past": forall(
            N, I, Count.sort, lambda n, i, c: implies(s.ticket(n, i, c), Count.at_most(c, s.truncations(n)))
        ),
        "ticket-covers-the-log": forall(
            N, I, lambda n, i: implies(s.ticket(n, i, s.truncations(n)), at_most(i, s.dirty(n)))
        ),
        "verified-is-in-the-log": forall(
            N,
            I,
            T,
            lambda n, i, t: implies(
                s.verified(n, i),
                s.at(n, t),
                z3.And(at_most(i, s.dirty(n)), s.elected(t), z3.Or(i == Offset.least, s.has(t, i))),
            ),
        ),
        "verified-is-equal": forall(
            N,
            I,
            I,
            T,
            T,
            lambda n, i, j, t, u: implies(
                s.verified(n, i), s.at(n, t), at_most(j, i), s.entry(n, j, u) == s.term_log(t, j, u)
            ),
        ),
        "replied-is-saved": forall(
            N, T, I, lambda n, t, i: implies(s.replied(n, t, i), z3.And(s.saved(n, t), s.elected(t)))
        ),
        "replied-is-in-leaders-log": forall(
            N, T, I, lambda n, t, i: implies(s.replied(n, t, i), z3.Or(i == Offset.least, s.has(t, i)))
        ),
        "replied-downwards": forall(
            N, T, I, I, lambda n, t, i, j: implies(s.replied(n, t, i), at_most(j, i), s.replied(n, t, j))
        ),
        "replied-is-durable": forall(
            N,
            T,
            I,
            lambda n, t, i: implies(
                choosable(t, i), s.replied(n, t, i), z3.And(s.entry(n, i, t), at_most(i, s.durable(n)))
            ),
        ),
    }


def votes_for_complete_logs(s: State, kept: Callable[[Term, Term], Formula]) -> dict[str, Formula]:
    """Whoever has replied with an entry votes, later, only for those who have it: in memory, on disk and as sent.

    ``kept``: of which entries, by term and offset, that is said.
    """
    N, T, I = Node, TermSort, Index  # noqa: E741, N806
    votes = {
        "vote-in-memory-is-for-a-complete-log": lambda n, c, t: z3.And(s.at(n, t), s.voted(n) == name(c)),
        "vote-on-disk-is-for-a-complete-log": lambda n, c, t: z3.And(s.disk_at(n, t), s.disk_voted(n) == name(c)),
        "votes-go-to-complete-logs": lambda n, c, t: s.vote(n, t, name(c)),
    }
    return {
        statement: forall(
            N,
            N,
            T,
            T,
            I,
            lambda n, c, t, later, i, voted=voted: implies(
                s.candidate(c),
                s.at(c, later),
                voted(n, c, later),
                earlier(t, later),
                kept(t, i),
                s.replied(n, t, i),
                s.entry(c, i, t),
            ),
        )
        for statement, voted in votes.items()
    }


def completeness_invariants(s: State) -> dict[str, Formula]:
    """What can still be committed is in the log of every later leader and candidate that may win."""
    T, I = TermSort, Index  # noqa: E741, N806
    choosable = cache(s.choosable)
    return {
        **votes_for_complete_logs(s, choosable),
        "choosable-is-in-later-logs": forall(
            T,
            T,
            I,
            lambda t, later, i: implies(choosable(t, i), s.elected(later), earlier(t, later), s.term_log(later, i, t)),
        ),
    }


def committed_invariants(s: State) -> dict[str, Formula]:
    """What was committed is in the logs of all later leaders and on the disks of a quorum."""
    N, T = Node, TermSort  # noqa: N806
    return {
        "commit-current-term": forall(
            Commit,
            lambda e: implies(s.happened(e), s.term_log(s.commit_term(e), s.commit_offset(e), s.commit_term(e))),
        ),
        "commit-was-counted": forall(
            Commit,
            N,
            lambda e, m: implies(
                s.happened(e), member(m, s.commit_quorum(e)), s.replied(m, s.commit_term(e), s.commit_offset(e))
            ),
        ),
        "leader-completeness": forall(
            Commit,
            T,
            lambda e, later: implies(
                s.happened(e),
                s.elected(later),
                earlier(s.commit_term(e), later),
                s.term_log(later, s.commit_offset(e), s.commit_term(e)),
            ),
        ),
        "committed-flushed-on-majority": forall(
            Commit,
            N,
            lambda e, m: implies(
                s.happened(e), member(m, s.commit_quorum(e)), at_most(s.commit_offset(e), s.durable(m))
            ),
        ),
    }


GROUPS: tuple[Callable[[State], dict[str, Formula]], ...] = (
    term_invariants,
    election_invariants,
    log_invariants,
    disk_invariants,
    completeness_invariants,
    committed_invariants,
)
"""The first layer: everything about terms, logs, disks and quorums."""


def invariants(s: State) -> dict[str, Formula]:
    """All groups of the first layer."""
    return {name: formula for group in GROUPS for name, formula in group(s).items()}


@cache
def _names(group: Callable[[State], dict[str, Formula]]) -> frozenset[str]:
    return frozenset(group(BEFORE))


def invariants_with(s: State, wanted: Collection[str]) -> dict[str, Formula]:
    """The groups in which these are; the others need not be written out."""
    return {
        name: formula for group in GROUPS if not _names(group).isdisjoint(wanted) for name, formula in group(s).items()
    }


def commit_invariants(s: State) -> dict[str, Formula]:
    """The second layer: what nodes take for committed."""
    N, T, I = Node, TermSort, Index  # noqa: E741, N806
    source = lambda n: s.commit_term(s.known(n))
    summed_in = lambda n: s.commit_term(s.summed_by(n))
    return {
        "commit-within-flushed": forall(N, lambda n: at_most(s.commit(n), s.flushed(n))),
        "commit-index-has-a-commit": forall(
            N,
            lambda n: implies(
                s.commit(n) != Offset.least,
                z3.And(s.happened(s.known(n)), at_most(s.commit(n), s.commit_offset(s.known(n)))),
            ),
        ),
        "commit-is-of-a-past-term": forall(
            N, T, lambda n, t: implies(s.commit(n) != Offset.least, s.at(n, t), not_later(source(n), t))
        ),
        "committed-entries-are-the-committed-ones": forall(
            N,
            I,
            T,
            lambda n, j, u: implies(
                j != Offset.least, at_most(j, s.commit(n)), s.entry(n, j, u) == s.term_log(source(n), j, u)
            ),
        ),
        "snapshot-is-committed": forall(N, lambda n: at_most(s.summed(n), s.commit(n))),
        "summed-has-a-commit": forall(
            N,
            lambda n: implies(
                s.summed(n) != Offset.least,
                z3.And(s.happened(s.summed_by(n)), at_most(s.summed(n), s.commit_offset(s.summed_by(n)))),
            ),
        ),
        "summed-in-saved-term": forall(N, lambda n: implies(s.summed(n) != Offset.least, s.saved(n, summed_in(n)))),
        "summed-entries-are-the-committed-ones": forall(
            N,
            I,
            T,
            lambda n, j, u: implies(
                j != Offset.least, at_most(j, s.summed(n)), s.entry(n, j, u) == s.term_log(summed_in(n), j, u)
            ),
        ),
        "told-commit-happened": forall(
            T,
            Commit,
            I,
            lambda t, e, i: implies(
                s.sent_commit(t, e, i),
                z3.And(s.happened(e), s.elected(t), not_later(s.commit_term(e), t), at_most(i, s.commit_offset(e))),
            ),
        ),
    }


def agreement(s: State) -> dict[str, Formula]:
    """What follows of what nodes take for committed; it is no part of what is kept, as it follows in every state."""
    N, T, I = Node, TermSort, Index  # noqa: E741, N806
    return {
        "committed-agree": forall(
            N,
            N,
            I,
            T,
            T,
            lambda n, m, j, u, w: implies(
                at_most(j, s.commit(n)), at_most(j, s.commit(m)), s.entry(n, j, u), s.entry(m, j, w), u == w
            ),
        ),
    }


FACTS = (
    "one-current-term",
    "current-term-is-one",
    "one-term-on-disk",
    "term-on-disk-is-one",
    "gone-downwards",
    "disk-not-ahead",
    "gone-is-passed",
    "entries-end-at-dirty",
    "one-entry-per-offset",
    "log-matching",
    "log-matching-of-leaders",
    "one-leaders-entry-per-offset",
    "leaders-entries-are-of-past-terms",
    "leaders-log-has-its-entries",
    "leader-holds-its-log",
    "leaders-log-without-gaps",
    "leaders-log-of-elected",
    "leader-led",
    "led-is-elected",
    "nobody-leads-in-the-first-term",
    "verified-is-in-the-log",
    "verified-is-equal",
    "flushed-durable",
    "durable-at-most-dirty",
    "ticket-covers-the-log",
    "tickets-are-of-the-past",
    "entry-terms-were-elected",
    "commit-current-term",
    "leader-completeness",
)
"""What the second layer takes from the first: none of it speaks of quorums."""


def gaplessness(s: State) -> dict[str, Formula]:
    """Logs have no gaps. On its own, because it is the only statement of the form *for every term there is a term*."""
    N, T, I = Node, TermSort, Index  # noqa: E741, N806
    return {
        "no-gaps-in-logs": forall(
            N,
            I,
            lambda n, i: implies(i != Offset.least, at_most(i, s.dirty(n)), exists(T, lambda u: s.entry(n, i, u))),
        ),
        "no-gaps-in-leaders-logs": forall(
            T, I, lambda t, i: implies(i != Offset.least, s.has(t, i), exists(T, lambda u: s.term_log(t, i, u)))
        ),
    }


def facts(first: Mapping[str, Formula]) -> list[Formula]:
    """What the second layer, and other proofs, take from the first."""
    return [first[fact] for fact in FACTS]
