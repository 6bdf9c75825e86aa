"""Raft with flush and crash for any number of nodes, terms and offsets: the state and what happens to it.

Relations instead of arithmetic; messages are not carried one by one: a relation remembers for ever what was sent
(``request``, ``vote``, ``replied``, ``told``) or could have been sent (``term_log``), so that every loss, delay,
duplication and reordering in the network is allowed. A step is a function that returns its guard and the state after
it; what it decides, it decides by the rules of the implementation. Sources: raft.md#elections, raft.md#durable,
raft.md#truncation-crash-restart.
"""

# A short formula reads best as a named lambda; z3 has no type hints.
# ruff: noqa: E731
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import z3

from logspec.proofs.claims import Rules
from logspec.proofs.vocabulary import (
    ORDERS,
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
    implies,
    member,
)
from logspec.symbolic import Executor, Order

Name = z3.DeclareSort("Name")
"""A node as another one writes it into its vote; ``nobody`` stands for no vote."""
nobody = z3.Const("nobody", Name)
name = z3.Function("name", Node, Name)

Commit = z3.DeclareSort("Commit")
"""One move of a leader's commit index: which offset, in which term, counted on which quorum."""

NOBODY = -1
"""How the rules write ``nobody``."""

EXECUTOR = Executor([*ORDERS, Order(Name, None, {NOBODY: nobody})])

Relation = Callable[..., Any]


@dataclass(frozen=True)
class State:
    """All nodes, their disks, and everything that was ever sent."""

    # -- terms and votes
    at: Relation  # (node, term): the node's current term, in memory
    passed: Relation  # (node, term): the current term is later than this one
    disk_at: Relation  # (node, term): the term on its disk
    gone: Relation  # (node, term): the term on its disk is later than this one
    voted: Relation  # node -> name: whom it voted for in its current term
    disk_voted: Relation  # node -> name: the vote on its disk
    candidate: Relation  # (node)
    leader: Relation  # (node): it acts as leader of its current term
    request: Relation  # (node, term, offset, term): asked for votes with a log that ends there
    vote: Relation  # (node, term, name): a vote that left the node
    elected: Relation  # (term): the term has had a leader
    led: Relation  # (term, name): this one
    voting_quorum: Relation  # term -> quorum: elected by these
    # -- logs
    entry: Relation  # (node, offset, term): the node's log has an entry of this term there
    dirty: Relation  # node -> offset: last appended
    flushed: Relation  # node -> offset: what the node believes durable
    durable: Relation  # node -> offset: what a power loss leaves for certain
    truncations: Relation  # node -> count: how often the log was cut
    ticket: Relation  # (node, offset, count): a flush that began with this dirty offset and this count
    term_log: Relation  # (term, offset, term): the log of the leader of a term, all of it that ever was
    has: Relation  # (term, offset): that log reaches to here
    # -- replication
    verified: Relation  # (node, offset): equal to the log of its term's leader up to here
    replied: Relation  # (node, term, offset): the leader of the term may count it as durable there
    # -- commits
    happened: Relation  # (commit)
    commit_term: Relation  # commit -> term: in which term it was counted
    commit_offset: Relation  # commit -> offset: the offset that was counted
    commit_quorum: Relation  # commit -> quorum: the nodes that were counted
    commit: Relation  # node -> offset: the node's commit index
    known: Relation  # node -> commit: where that comes from
    sent_commit: Relation  # (term, commit, offset): a commit index that the leader of a term sent
    summed: Relation  # node -> offset: up to where its snapshot sums its log up; known to be committed at a start
    summed_by: Relation  # node -> commit: where that comes from

    # -- what follows from the above
    def saved(self, node: Term, term: Term) -> Formula:
        """The term on its disk is this one or a later one."""
        return z3.Or(self.gone(node, term), self.disk_at(node, term))

    def reached(self, node: Term, term: Term) -> Formula:
        """The current term is this one or a later one."""
        return z3.Or(self.passed(node, term), self.at(node, term))

    def log_ends(self, node: Term, term: Term) -> Formula:
        """The last entry of its log has this term."""
        empty = z3.And(self.dirty(node) == Offset.least, term == Epoch.least)
        return z3.Or(empty, self.entry(node, self.dirty(node), term))

    def choosable(self, term: Term, offset: Term) -> Formula:
        """An entry that its own term's leader has committed or may still commit: a quorum replied or still can."""
        can_reply = lambda m: z3.Or(self.replied(m, term, offset), z3.Not(self.gone(m, term)))
        everyone = lambda q: forall(Node, lambda m: implies(member(m, q), can_reply(m)))
        return z3.And(self.term_log(term, offset, term), exists(Quorum, everyone))


_SORTS: dict[str, tuple[z3.SortRef, ...]] = {
    "at": (Node, TermSort, z3.BoolSort()),
    "passed": (Node, TermSort, z3.BoolSort()),
    "disk_at": (Node, TermSort, z3.BoolSort()),
    "gone": (Node, TermSort, z3.BoolSort()),
    "voted": (Node, Name),
    "disk_voted": (Node, Name),
    "candidate": (Node, z3.BoolSort()),
    "leader": (Node, z3.BoolSort()),
    "request": (Node, TermSort, Index, TermSort, z3.BoolSort()),
    "vote": (Node, TermSort, Name, z3.BoolSort()),
    "elected": (TermSort, z3.BoolSort()),
    "led": (TermSort, Name, z3.BoolSort()),
    "voting_quorum": (TermSort, Quorum),
    "entry": (Node, Index, TermSort, z3.BoolSort()),
    "dirty": (Node, Index),
    "flushed": (Node, Index),
    "durable": (Node, Index),
    "truncations": (Node, Count.sort),
    "ticket": (Node, Index, Count.sort, z3.BoolSort()),
    "term_log": (TermSort, Index, TermSort, z3.BoolSort()),
    "has": (TermSort, Index, z3.BoolSort()),
    "verified": (Node, Index, z3.BoolSort()),
    "replied": (Node, TermSort, Index, z3.BoolSort()),
    "happened": (Commit, z3.BoolSort()),
    "commit_term": (Commit, TermSort),
    "commit_offset": (Commit, Index),
    "commit_quorum": (Commit, Quorum),
    "commit": (Node, Index),
    "known": (Node, Commit),
    "sent_commit": (TermSort, Commit, Index, z3.BoolSort()),
    "summed": (Node, Index),
    "summed_by": (Node, Commit),
}

BEFORE = State(**{field.name: z3.Function(field.name, *_SORTS[field.name]) for field in fields(State)})
"""The state before a step: every relation is free, the invariants say what is known of it."""


@dataclass(frozen=True)
class Step:
    """Something that may happen: when (``guard``) and what the state is then (``after``)."""

    name: str
    guard: Formula
    after: State


@dataclass(frozen=True)
class Choice:
    """What a step picks: nodes ``n``, ``m``, terms, offsets, a quorum.. ``label`` keeps those of steps apart."""

    label: str = ""

    def __getattr__(self, key: str) -> Term:
        if key not in _CHOICES:
            raise AttributeError(key)
        return z3.Const(f"{key}{self.label}", _CHOICES[key])


_CHOICES: dict[str, z3.SortRef] = {
    **dict.fromkeys(("n", "m"), Node),
    **dict.fromkeys(("t", "old", "u", "own", "theirs", "here", "there"), TermSort),
    **dict.fromkeys(("i", "p", "e", "x", "y", "k", "v"), Index),
    "q": Quorum,
    "count": Count.sort,
    "later_count": Count.sort,
    "heard": z3.BoolSort(),
    "event": Commit,
}


def axioms() -> list[Formula]:
    """The orders, and that a node's name is its own."""
    return [
        *Offset.axioms(),
        *Epoch.axioms(),
        *Count.axioms(),
        forall(Node, Node, lambda n, m: implies(name(n) == name(m), n == m)),
        forall(Node, lambda n: name(n) != nobody),
    ]


# -- writing changes ---------------------------------------------------------------------------------------------------


def _set(function: Relation, key: Term, value: Term) -> Relation:
    """The function with one value replaced."""
    return lambda x: z3.If(x == key, value, function(x))


def _set_row(relation: Relation, key: Term, row: Relation) -> Relation:
    """The relation with the rows of one key replaced: ``row`` gets the other arguments."""
    return lambda x, *rest: z3.If(x == key, row(*rest), relation(x, *rest))


def _add(relation: Relation, *fact: Term) -> Relation:
    """The relation with one more fact."""
    same = lambda given: z3.And([a == b for a, b in zip(given, fact, strict=True)])
    return lambda *given: z3.Or(relation(*given), same(given))


def _enter_term(s: State, n: Term, term: Term) -> State:
    """The node's current term becomes ``term``."""
    return replace(
        s,
        at=_set_row(s.at, n, lambda t: t == term),
        passed=_set_row(s.passed, n, lambda t: Epoch.below(t, term)),
    )


def _follow(s: State, rules: Rules, n: Term, old: Term, new: Term) -> State:
    """What a message of term ``new`` does to a node before it is looked at: in a later term the node is a follower."""
    same = old == new
    vote = as_name(EXECUTOR.call(rules.vote_after_step_down, s.voted(n), old, new))
    return replace(
        _enter_term(s, n, new),
        voted=_set(s.voted, n, vote),
        candidate=_set(s.candidate, n, z3.And(same, s.candidate(n))),
        leader=_set(s.leader, n, z3.And(same, s.leader(n))),
        verified=_set_row(s.verified, n, lambda i: z3.And(same, s.verified(n, i))),
    )


def as_formula(value: Any) -> Formula:  # noqa: ANN401
    """A rule's answer as a formula; rules may answer a plain True."""
    return z3.BoolVal(value) if isinstance(value, bool) else value


def as_name(value: Any) -> Term:  # noqa: ANN401
    """A rule's answer as a name; rules may answer a plain NOBODY."""
    return nobody if isinstance(value, int) else value


def _may_send(s: State, rules: Rules, n: Term, term: Term) -> Formula:
    """Messages wait until term and vote are on disk, if the rules want it so."""
    on_disk = z3.And(s.disk_at(n, term), s.disk_voted(n) == s.voted(n))
    return z3.Implies(as_formula(EXECUTOR.call(rules.vote_is_durable_first)), on_disk)


# -- the steps: elections -----------------------------------------------------------------------------------------


def time_out(s: State, rules: Rules, c: Choice) -> Step:
    """A node begins an election in a later term and votes for itself."""
    after = replace(
        _enter_term(s, c.n, c.t),
        voted=_set(s.voted, c.n, name(c.n)),
        candidate=_set(s.candidate, c.n, z3.BoolVal(True)),
        leader=_set(s.leader, c.n, z3.BoolVal(False)),
        verified=_set_row(s.verified, c.n, lambda i: z3.BoolVal(False)),
    )
    return Step("time-out", z3.And(s.at(c.n, c.old), Epoch.below(c.old, c.t)), after)


def save_vote(s: State, rules: Rules, c: Choice) -> Step:
    """Term and vote reach the disk."""
    after = replace(
        s,
        disk_at=_set_row(s.disk_at, c.n, lambda t: t == c.t),
        gone=_set_row(s.gone, c.n, lambda t: Epoch.below(t, c.t)),
        disk_voted=_set(s.disk_voted, c.n, s.voted(c.n)),
    )
    return Step("save-vote", s.at(c.n, c.t), after)


def ask_for_votes(s: State, rules: Rules, c: Choice) -> Step:
    """A candidate says where its log ends; its own vote counts from now on."""
    guard = z3.And(s.candidate(c.n), s.at(c.n, c.t), _may_send(s, rules, c.n, c.t), s.log_ends(c.n, c.u))
    after = replace(s, request=_add(s.request, c.n, c.t, s.dirty(c.n), c.u), vote=_add(s.vote, c.n, c.t, name(c.n)))
    return Step("ask-for-votes", guard, after)


def grant_vote(s: State, rules: Rules, c: Choice) -> Step:
    """A node hears a request and may decide to vote for the candidate."""
    guard = z3.And(
        s.request(c.m, c.t, c.i, c.u), s.at(c.n, c.old), Epoch.at_most(c.old, c.t), s.log_ends(c.n, c.own), c.n != c.m
    )
    follower = _follow(s, rules, c.n, c.old, c.t)
    up_to_date = EXECUTOR.call(rules.log_ok, c.u, c.i, c.own, s.dirty(c.n))
    granted = as_formula(EXECUTOR.call(rules.grant_vote, follower.voted(c.n), name(c.m), up_to_date, c.heard))
    vote = z3.If(granted, name(c.m), follower.voted(c.n))
    return Step("grant-vote", guard, replace(follower, voted=_set(follower.voted, c.n, vote)))


def send_vote(s: State, rules: Rules, c: Choice) -> Step:
    """A vote leaves the node, once the rules let it: term and vote may have to be durable first."""
    guard = z3.And(s.at(c.n, c.t), s.voted(c.n) != nobody, _may_send(s, rules, c.n, c.t))
    return Step("send-vote", guard, replace(s, vote=_add(s.vote, c.n, c.t, s.voted(c.n))))


def become_leader(s: State, rules: Rules, c: Choice) -> Step:
    """A candidate has the votes of a quorum; its log becomes the log of the term."""
    elected = forall(Node, lambda m: implies(member(m, c.q), s.vote(m, c.t, name(c.n))))
    after = replace(
        s,
        candidate=_set(s.candidate, c.n, z3.BoolVal(False)),
        leader=_set(s.leader, c.n, z3.BoolVal(True)),
        elected=_add(s.elected, c.t),
        led=_add(s.led, c.t, name(c.n)),
        voting_quorum=_set(s.voting_quorum, c.t, c.q),
        term_log=_set_row(s.term_log, c.t, lambda i, u: s.entry(c.n, i, u)),
        has=_set_row(s.has, c.t, lambda i: Offset.at_most(i, s.dirty(c.n))),
    )
    return Step("become-leader", z3.And(s.candidate(c.n), s.at(c.n, c.t), elected), after)


def step_down(s: State, rules: Rules, c: Choice) -> Step:
    """A node hears of a later term, or a leader or candidate gives up."""
    follower = _follow(s, rules, c.n, c.old, c.t)
    after = replace(
        follower,
        candidate=_set(follower.candidate, c.n, z3.BoolVal(False)),
        leader=_set(follower.leader, c.n, z3.BoolVal(False)),
    )
    return Step("step-down", z3.And(s.at(c.n, c.old), Epoch.at_most(c.old, c.t)), after)


# -- the steps: logs and disks ------------------------------------------------------------------------------------


def leader_append(s: State, rules: Rules, c: Choice) -> Step:
    """The leader appends an entry, unflushed; its followers may be sent it at once."""
    after = replace(
        s,
        entry=_add(s.entry, c.n, c.i, c.t),
        dirty=_set(s.dirty, c.n, c.i),
        term_log=_add(s.term_log, c.t, c.i, c.t),
        has=_add(s.has, c.t, c.i),
    )
    return Step("leader-append", z3.And(s.leader(c.n), s.at(c.n, c.t), Offset.follows(c.i, s.dirty(c.n))), after)


def begin_flush(s: State, rules: Rules, c: Choice) -> Step:
    """A flush begins; several may be in flight."""
    after = replace(s, ticket=_add(s.ticket, c.n, s.dirty(c.n), s.truncations(c.n)))
    return Step("begin-flush", z3.BoolVal(True), after)


def end_flush(s: State, rules: Rules, c: Choice) -> Step:
    """A flush ends; what it counts for is a rule.

    What it made durable is known only if the log was not cut meanwhile.
    """
    untouched = z3.And(c.count == s.truncations(c.n), Offset.below(s.durable(c.n), c.i))
    counts = as_formula(EXECUTOR.call(rules.accept_flush, c.count, s.truncations(c.n)))
    flushed = EXECUTOR.call(rules.flushed_after, s.flushed(c.n), c.i)
    after = replace(
        s,
        durable=_set(s.durable, c.n, z3.If(untouched, c.i, s.durable(c.n))),
        flushed=_set(s.flushed, c.n, z3.If(counts, flushed, s.flushed(c.n))),
    )
    return Step("end-flush", s.ticket(c.n, c.i, c.count), after)


def _request_arrives(s: State, c: Choice, *, compared: bool = True) -> Formula:
    """The entries (p, e] of the leader of term t arrive at a node that holds the entry before them.

    For a twin, it is not ``compared`` whether that entry is the leader's.
    """
    same = z3.And(s.entry(c.n, c.p, c.u), s.term_log(c.t, c.p, c.u)) if compared else z3.BoolVal(True)
    holds_previous = z3.Or(c.p == Offset.least, z3.And(Offset.at_most(c.p, s.dirty(c.n)), same))
    from_leader = z3.And(s.elected(c.t), z3.Or(c.e == Offset.least, s.has(c.t, c.e)), Offset.at_most(c.p, c.e))
    in_term = z3.And(s.at(c.n, c.old), Epoch.at_most(c.old, c.t), z3.Not(z3.And(s.leader(c.n), c.old == c.t)))
    return z3.And(holds_previous, from_leader, in_term)


def _matches_up_to(s: State, rules: Rules, c: Choice, end: Term) -> Formula:
    """What the node holds in (p, end] is recognised as the leader's; both logs have an entry at ``end`` (no gaps)."""
    same = lambda a, b: as_formula(EXECUTOR.call(rules.batch_matches, a, b))
    both = lambda j, a, b: z3.And(s.entry(c.n, j, a), s.term_log(c.t, j, b))
    between = lambda j: z3.And(Offset.below(c.p, j), Offset.at_most(j, end))
    everywhere = forall(Index, TermSort, TermSort, lambda j, a, b: implies(between(j), both(j, a, b), same(a, b)))
    return z3.And(everywhere, z3.Or(Offset.at_most(end, c.p), both(end, c.here, c.there)))


def _accepted(s: State, rules: Rules, c: Choice) -> State:
    """The node follows the leader of term t and knows its log to be equal up to e."""
    follower = _follow(s, rules, c.n, c.old, c.t)
    return replace(
        follower,
        candidate=_set(follower.candidate, c.n, z3.BoolVal(False)),
        verified=_set_row(follower.verified, c.n, lambda i: z3.Or(follower.verified(c.n, i), Offset.at_most(i, c.e))),
    )


def append_entries(s: State, rules: Rules, c: Choice, *, compared: bool = True) -> Step:
    """A follower skips what it holds and appends the rest (a heartbeat is the case p = e)."""
    longer = Offset.below(s.dirty(c.n), c.e)
    matches = _matches_up_to(s, rules, c, z3.If(longer, s.dirty(c.n), c.e))
    new = lambda i, u: z3.And(Offset.below(s.dirty(c.n), i), Offset.at_most(i, c.e), s.term_log(c.t, i, u))
    after = replace(
        _accepted(s, rules, c),
        entry=_set_row(s.entry, c.n, lambda i, u: z3.Or(s.entry(c.n, i, u), new(i, u))),
        dirty=_set(s.dirty, c.n, z3.If(longer, c.e, s.dirty(c.n))),
    )
    return Step("append-entries", z3.And(_request_arrives(s, c, compared=compared), matches), after)


def truncate_and_append(s: State, rules: Rules, c: Choice) -> Step:
    """A follower finds at x an entry that it takes for another one: it cuts its log there and appends the leader's."""
    differs = z3.Not(as_formula(EXECUTOR.call(rules.batch_matches, c.own, c.theirs)))
    guard = z3.And(
        _request_arrives(s, c),
        Offset.below(c.p, c.x),
        Offset.at_most(c.x, c.e),
        s.entry(c.n, c.x, c.own),
        s.term_log(c.t, c.x, c.theirs),
        differs,
        Offset.follows(c.x, c.y),
        _matches_up_to(s, rules, c, c.y),
        Count.below(s.truncations(c.n), c.later_count),
    )
    cut = lambda offset: z3.If(Offset.at_most(offset, c.y), offset, c.y)
    log = lambda i, u: z3.If(
        Offset.below(i, c.x), s.entry(c.n, i, u), z3.And(Offset.at_most(i, c.e), s.term_log(c.t, i, u))
    )
    after = replace(
        _accepted(s, rules, c),
        entry=_set_row(s.entry, c.n, log),
        dirty=_set(s.dirty, c.n, c.e),
        flushed=_set(s.flushed, c.n, cut(s.flushed(c.n))),
        durable=_set(s.durable, c.n, cut(s.durable(c.n))),
        truncations=_set(s.truncations, c.n, c.later_count),
    )
    return Step("truncate-and-append", guard, after)


def restart(s: State, rules: Rules, c: Choice) -> Step:
    """Crash or power loss, then a restart: any prefix of the log that has all durable entries is left, and the disk's
    vote.

    What is left is flushed before the node does anything. Its term is that on the disk or, if later, that of its last
    entry. What its snapshot sums up it knows to be committed, and no more.
    """
    kept = lambda i: Offset.at_most(i, c.k)
    no_later = forall(Index, TermSort, lambda i, u: implies(s.entry(c.n, i, u), kept(i), Epoch.at_most(u, c.t)))
    from_disk = z3.And(s.disk_at(c.n, c.t), no_later)
    from_log = z3.And(s.entry(c.n, c.k, c.t), z3.Not(s.saved(c.n, c.t)))
    guard = z3.And(Offset.at_most(s.durable(c.n), c.k), Offset.at_most(c.k, s.dirty(c.n)), z3.Or(from_disk, from_log))
    after = replace(
        _enter_term(s, c.n, c.t),
        voted=_set(s.voted, c.n, z3.If(s.disk_at(c.n, c.t), s.disk_voted(c.n), nobody)),
        candidate=_set(s.candidate, c.n, z3.BoolVal(False)),
        leader=_set(s.leader, c.n, z3.BoolVal(False)),
        entry=_set_row(s.entry, c.n, lambda i, u: z3.And(s.entry(c.n, i, u), kept(i))),
        dirty=_set(s.dirty, c.n, c.k),
        flushed=_set(s.flushed, c.n, c.k),
        durable=_set(s.durable, c.n, c.k),
        ticket=_set_row(s.ticket, c.n, lambda i, count: z3.BoolVal(False)),
        verified=_set_row(s.verified, c.n, lambda i: z3.BoolVal(False)),
        commit=_set(s.commit, c.n, s.summed(c.n)),
        known=_set(s.known, c.n, s.summed_by(c.n)),
    )
    return Step("restart", guard, after)


# -- the steps: replies and commits -------------------------------------------------------------------------------


def reply(s: State, rules: Rules, c: Choice, *, in_term: bool = True) -> Step:
    """A follower answers its leader with its offsets; how far that counts as durable is a rule.

    For a twin, it is not asked whether it is still ``in_term``; its log is the leader's up to v all the same.
    """
    counted = EXECUTOR.call(rules.replicated_flushed, s.dirty(c.n), s.flushed(c.n), c.v)
    guard = z3.And(s.at(c.n, c.t), s.verified(c.n, c.v), _may_send(s, rules, c.n, c.t))
    if not in_term:
        same = z3.And(s.entry(c.n, c.v, c.u), s.term_log(c.t, c.v, c.u))
        guard = z3.And(s.at(c.n, c.old), Epoch.below(c.t, c.old), s.disk_at(c.n, c.old), same)
    added = lambda n, t, i: z3.And(n == c.n, t == c.t, Offset.at_most(i, counted))
    after = replace(s, replied=lambda n, t, i: z3.Or(s.replied(n, t, i), added(n, t, i)))
    return Step("reply", guard, after)


def count_own(s: State, rules: Rules, c: Choice) -> Step:
    """The leader counts itself, up to its flushed offset."""
    own = lambda n, t, i: z3.And(n == c.n, t == c.t, Offset.at_most(i, s.flushed(c.n)))
    after = replace(s, replied=lambda n, t, i: z3.Or(s.replied(n, t, i), own(n, t, i)))
    return Step("count-own", z3.And(s.leader(c.n), s.at(c.n, c.t)), after)


def leader_commit(s: State, rules: Rules, c: Choice) -> Step:
    """The leader moves its commit index to a candidate: all that is used of ``commit_candidate`` is proved of it
    apart.

    (That a majority has reached it, and the leader itself: see the proof ``rules``, ``commit-candidate``.)
    """
    counted = forall(Node, lambda m: implies(member(m, c.q), s.replied(m, c.t, c.i)))
    allowed = as_formula(EXECUTOR.call(rules.may_commit, c.i, s.commit(c.n), c.u, c.t))
    guard = z3.And(
        s.leader(c.n),
        s.at(c.n, c.t),
        counted,
        Offset.at_most(c.i, s.flushed(c.n)),
        s.entry(c.n, c.i, c.u),
        allowed,
        z3.Not(s.happened(c.event)),
    )
    after = replace(
        s,
        happened=_add(s.happened, c.event),
        commit_term=_set(s.commit_term, c.event, c.t),
        commit_offset=_set(s.commit_offset, c.event, c.i),
        commit_quorum=_set(s.commit_quorum, c.event, c.q),
        commit=_set(s.commit, c.n, c.i),
        known=_set(s.known, c.n, c.event),
    )
    return Step("leader-commit", guard, after)


def tell_commit(s: State, rules: Rules, c: Choice) -> Step:
    """The leader sends its commit index, or a smaller one, with a request or a heartbeat."""
    added = lambda t, e, i: z3.And(t == c.t, e == s.known(c.n), Offset.at_most(i, s.commit(c.n)))
    guard = z3.And(s.leader(c.n), s.at(c.n, c.t), s.commit(c.n) != Offset.least)
    return Step(
        "tell-commit", guard, replace(s, sent_commit=lambda t, e, i: z3.Or(s.sent_commit(t, e, i), added(t, e, i)))
    )


def follow_commit(s: State, rules: Rules, c: Choice) -> Step:
    """A follower raises its commit index after a request that showed its log to be equal up to v."""
    commit = EXECUTOR.call(rules.follower_commit, s.commit(c.n), c.i, s.flushed(c.n), c.v)
    guard = z3.And(s.at(c.n, c.t), z3.Not(s.leader(c.n)), s.verified(c.n, c.v), s.sent_commit(c.t, c.event, c.i))
    after = replace(
        s,
        commit=_set(s.commit, c.n, commit),
        known=_set(s.known, c.n, z3.If(commit == s.commit(c.n), s.known(c.n), c.event)),
    )
    return Step("follow-commit", guard, after)


def take_snapshot(s: State, rules: Rules, c: Choice, *, saved: bool = True) -> Step:
    """A node sums up, and may trim, what it knows to be committed, unless its term is not on disk yet.

    What was trimmed of a log counts as still there: no step looks at it. For a twin, it is not asked whether the term
    is ``saved``. Source: raft.md#summed-in-saved-term.
    """
    guard = z3.And(s.at(c.n, c.t), Offset.below(s.summed(c.n), c.i), Offset.at_most(c.i, s.commit(c.n)))
    after = replace(s, summed=_set(s.summed, c.n, c.i), summed_by=_set(s.summed_by, c.n, s.known(c.n)))
    return Step("take-snapshot", z3.And(guard, _term_is_saved(s, c, saved)), after)


def _term_is_saved(s: State, c: Choice, saved: bool) -> Formula:
    return s.disk_at(c.n, c.t) if saved else z3.BoolVal(True)


def install_snapshot(
    s: State, rules: Rules, c: Choice, *, compared: bool = True, durable: bool = True, saved: bool = True
) -> Step:
    """A follower takes over what its leader knew to be committed up to i: it keeps its log if that has the entry at i,
    else it begins anew with the leader's.

    Its term is on disk before it does so, and the snapshot before it answers. For twins, it is not ``compared`` whether
    the entry at i is the leader's, or the snapshot is not ``durable``, or the term not ``saved``.
    """
    follower = _follow(s, rules, c.n, c.old, c.t)
    guard = z3.And(
        _term_is_saved(s, c, saved),
        s.sent_commit(c.t, c.event, c.i),
        s.term_log(c.t, c.i, c.there) if compared else z3.BoolVal(True),
        s.at(c.n, c.old),
        Epoch.at_most(c.old, c.t),
        z3.Not(z3.And(s.leader(c.n), c.old == c.t)),
        Offset.below(s.commit(c.n), c.i),
        Count.below(s.truncations(c.n), c.later_count),
    )
    keeps = s.entry(c.n, c.i, c.there)
    least = lambda offset: z3.If(z3.And(keeps, Offset.below(c.i, offset)), offset, c.i)
    log = lambda j, u: z3.If(keeps, s.entry(c.n, j, u), z3.And(Offset.at_most(j, c.i), s.term_log(c.t, j, u)))
    after = replace(
        follower,
        candidate=_set(follower.candidate, c.n, z3.BoolVal(False)),
        verified=_set_row(follower.verified, c.n, lambda j: z3.Or(follower.verified(c.n, j), Offset.at_most(j, c.i))),
        entry=_set_row(s.entry, c.n, log),
        dirty=_set(s.dirty, c.n, least(s.dirty(c.n))),
        flushed=_set(s.flushed, c.n, least(s.flushed(c.n))),
        durable=_set(s.durable, c.n, least(s.durable(c.n))) if durable else s.durable,
        truncations=_set(s.truncations, c.n, z3.If(keeps, s.truncations(c.n), c.later_count)),
        commit=_set(s.commit, c.n, c.i),
        known=_set(s.known, c.n, c.event),
        summed=_set(s.summed, c.n, c.i),
        summed_by=_set(s.summed_by, c.n, c.event),
    )
    return Step("install-snapshot", guard, after)


STEPS: tuple[Callable[[State, Rules, Choice], Step], ...] = (
    time_out,
    save_vote,
    ask_for_votes,
    grant_vote,
    send_vote,
    become_leader,
    step_down,
    leader_append,
    begin_flush,
    end_flush,
    append_entries,
    truncate_and_append,
    restart,
    reply,
    count_own,
    leader_commit,
    tell_commit,
    follow_commit,
    take_snapshot,
    install_snapshot,
)


def start() -> State:
    """Nothing has happened: empty logs, empty disks, the term before all terms."""
    least = {Index: Offset.least, TermSort: Epoch.least, Count.sort: Count.least, Name: nobody}
    least |= {
        z3.BoolSort(): z3.BoolVal(False),
        Quorum: z3.Const("some_quorum", Quorum),
        Commit: z3.Const("no_commit", Commit),
    }
    empty = {key: _always(least[sorts[-1]]) for key, sorts in _SORTS.items()}
    first_term = lambda n, t: t == Epoch.least
    return State(**{**empty, "at": first_term, "disk_at": first_term})


def _always(value: Term) -> Relation:
    return lambda *given: value
