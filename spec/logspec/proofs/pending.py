"""The visibility upper bound (UB): what nodes show before it is committed is never an acks=all entry.

For any number of nodes, terms and entries, one log at a time: an entry that required a flush *waits* until it is
committed, and while it waits, nothing at or behind it is visible on any node that has it. That is kept by all that
moves a log or what is shown of it, also by what only nodes that do not lead go through: truncation, election, a log
that begins anew, and a restart after a crash or a power loss. ``settled`` is the end of what is committed and in this
log; it knows nothing of it. A log that its leader wrote in a term stays as the term left it, for the messages that are
still under way. Sources: raft.md#visibility, documents.md#raft-simplification-acks.
"""

# A short formula reads best as a named lambda; z3 has no type hints.
# ruff: noqa: E731
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import z3

from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.pictures import table
from logspec.proofs.quorums import HALVES, Asked, Said, Voters
from logspec.proofs.vocabulary import Formula
from logspec.symbolic import Executor

_RUN = Executor()
_LARGEST = 9
"""Offsets of a counterexample that a person reads."""

TRUNCATION_LOWERS_BOUND = "truncation-lowers-the-bound"
TRUNCATION_LOWERS_MAJORITY = "truncation-lowers-the-majority-index"
ANEW_LOWERS_BOTH = "a-log-that-begins-anew-shows-nothing-of-before"
RESTART_SHOWS_COMMITTED = "a-restart-shows-what-is-committed"
RESTART_COMMITS_COMMITTED = "a-restart-takes-for-committed-what-is"
ELECTION_KEEPS_BOUND = "an-election-keeps-the-bound"
MAJORITY_FIRST = "the-majority-index-is-counted-first"


@dataclass(frozen=True)
class Log:
    """One log and what is shown of it. Offsets are integers, -1 is nothing."""

    dirty: Any
    settled: Any
    commit: Any  # the commit index here
    majority: Any  # MRI
    upper: Any  # UB
    last_quorum: Any  # LQ: end of the last append that required a flush
    sent: Any  # the highest visible offset that its leader has sent in this term
    waits: Callable[[Any], Any]  # offset: the entry there required a flush

    def visible(self) -> Any:  # noqa: ANN401
        """The visible offset: MRI, clamped to the upper bound (raft.md#visible-offset)."""
        return z3.If(self.majority <= self.upper, self.majority, self.upper)


_NUMBERS = ("dirty", "settled", "commit", "majority", "upper", "last_quorum", "sent")


def _any_log(of: str) -> Log:
    waits = z3.Function(f"{of}waits", z3.IntSort(), z3.BoolSort())
    return Log(waits=waits, **{number: z3.Int(f"{of}{number}") for number in _NUMBERS})


_LOG, _LEADERS = _any_log(""), _any_log("leader_")
_waits_new = z3.Function("waits_new", z3.IntSort(), z3.BoolSort())
_last, _settled, _leader_commit, _flushed, _received, _verified = z3.Ints(
    "last settled' leader_commit flushed received verified"
)
_term, _candidate_term, _counted_term = z3.Ints("term candidate_term counted_term")
_required = z3.Bool("required")
_offset = z3.Int("o")


def invariants(b: Log, *, leads: bool) -> dict[str, Formula]:
    """Of a leader, then also of what its term leaves; or of any node, which is less: so to step down keeps them."""
    waiting = z3.And(b.waits(_offset), _offset > b.settled, _offset <= b.dirty)
    found = {
        "nothing-is-below-the-log": z3.And(b.dirty >= -1, b.settled >= -1, b.majority >= -1, b.upper >= -1),
        "visible-within-dirty": z3.And(b.majority <= b.dirty, b.upper <= b.dirty),
        "known-commit-is-a-commit": z3.And(b.commit >= -1, b.commit <= b.settled, b.settled <= b.dirty),
        "committed-is-visible": b.commit <= b.visible(),
        "pending-is-beyond-the-bound": z3.ForAll([_offset], z3.Implies(waiting, b.upper < _offset)),
        "pending-not-visible": z3.ForAll([_offset], z3.Implies(waiting, b.visible() < _offset)),
    }
    if leads:
        found["pending-is-within-last-quorum"] = z3.ForAll([_offset], z3.Implies(waiting, _offset <= b.last_quorum))
        found["last-quorum-is-in-the-log"] = b.last_quorum <= b.dirty
        found["what-was-sent-is-in-the-log"] = z3.And(b.sent >= -1, b.sent <= b.dirty)
        found["pending-not-sent"] = z3.ForAll([_offset], z3.Implies(waiting, b.sent < _offset))
    return found


class _Moved(NamedTuple):
    """When a step can happen, and the log after it."""

    guard: Formula
    after: Log


def _longer(b: Log) -> tuple[Formula, Log]:
    """The log with new entries up to ``_last``, some of which require a flush."""
    waits = lambda o: z3.If(o <= b.dirty, b.waits(o), _waits_new(o))
    return _last > b.dirty, replace(b, dirty=_last, waits=waits)


def append_round(b: Log, rules: Rules, _: frozenset[str]) -> _Moved:
    """The leader appends a round; it requires a flush if any of its entries does."""
    new, after = _longer(b)
    asked = z3.ForAll(
        [_offset], z3.Implies(z3.And(_offset > b.dirty, _offset <= _last, _waits_new(_offset)), _required)
    )
    last_quorum = z3.If(_required, _last, b.last_quorum)
    upper = _RUN.call(rules.visibility_on_append, b.upper, b.commit, last_quorum, _last)
    return _Moved(z3.And(new, asked), replace(after, last_quorum=last_quorum, upper=upper))


def advance_commit(b: Log, rules: Rules, without: frozenset[str]) -> _Moved:
    """The leader counts what its followers, however many, hold and what they have flushed: MRI rises, then the commit
    index."""
    held, durable = Said("held", z3.IntSort()), Said("durable", z3.IntSort())
    asked = Asked(rules, held, durable)
    counts = lambda node: z3.And(durable.offset(node) <= held.offset(node), held.offset(node) <= b.dirty)
    for half in HALVES:
        asked.census.every(half, counts)
    counted = asked.run("majority_replicated", Voters(), held.mapping, b.majority)
    own_term = _RUN.call(rules.may_count_replicated, _counted_term, _term)
    before = b.majority if MAJORITY_FIRST in without else z3.If(own_term, counted, b.majority)
    commit = asked.run("commit_candidate", Voters(), durable.mapping, _flushed)
    moves = _RUN.call(rules.may_commit, commit, b.commit, _candidate_term, _term)
    terms_rise = z3.And(_counted_term <= _term, z3.Implies(commit <= counted, _candidate_term <= _counted_term))
    upper = _RUN.call(rules.visibility_on_commit, b.upper, before, commit, b.last_quorum)
    larger = lambda one, other: z3.If(one > other, one, other)
    return _Moved(
        z3.And(*asked.known(), moves, terms_rise, _flushed <= b.dirty),
        replace(b, commit=commit, settled=larger(commit, b.settled), upper=upper, majority=larger(before, commit)),
    )


def raise_majority_index(b: Log, rules: Rules, _: frozenset[str]) -> _Moved:
    """MRI rises because followers, however many, replied that they hold what the leader has."""
    held = Said("held", z3.IntSort())
    asked = Asked(rules, held)
    for half in HALVES:
        asked.census.every(half, lambda node: held.offset(node) <= b.dirty)
    majority = asked.run("majority_replicated", Voters(), held.mapping, b.majority)
    return _Moved(z3.And(asked.known()), replace(b, majority=majority))


def send(b: Log, rules: Rules, _: frozenset[str]) -> _Moved:
    """The leader tells its followers what it shows."""
    shown = b.visible()
    return _Moved(z3.BoolVal(True), replace(b, sent=z3.If(shown > b.sent, shown, b.sent)))


def committed_elsewhere(b: Log, rules: Rules, _: frozenset[str]) -> _Moved:
    """A leader, this one or another, commits more of what this log has."""
    return _Moved(z3.And(_settled >= b.settled, _settled <= b.dirty), replace(b, settled=_settled))


def become_leader(b: Log, rules: Rules, without: frozenset[str]) -> _Moved:
    """A new leader: LQ is its flushed offset, and its configuration batch, which requires a flush, follows at once."""
    upper = b.dirty if ELECTION_KEEPS_BOUND in without else b.upper
    elected = replace(b, last_quorum=_flushed, sent=z3.IntVal(-1), upper=upper)
    guard, after = append_round(elected, rules, without)
    first = z3.And(_required, _last == b.dirty + 1, _waits_new(_last))
    return _Moved(z3.And(guard, first, _flushed <= b.dirty), after)


def follower_append(b: Log, rules: Rules, _: frozenset[str]) -> _Moved:
    """A follower appends what its leader sent; some of it may have been committed long ago."""
    new, after = _longer(b)
    return _Moved(z3.And(new, _settled >= b.settled, _settled <= _last), replace(after, settled=_settled))


def follow(b: Log, rules: Rules, _: frozenset[str]) -> _Moved:
    """A follower, whose log is its leader's up to ``verified``, learns what its leader showed once, and a commit index
    that the leader had before it showed that."""
    commit = _RUN.call(rules.follower_commit, b.commit, _leader_commit, _flushed, _verified)
    shown = _RUN.call(rules.follower_visible, _received, b.dirty, _verified)
    rise = lambda bound: z3.If(shown > bound, shown, bound)
    same = z3.And(_LEADERS.waits(_offset) == b.waits(_offset), (_offset <= _LEADERS.settled) == (_offset <= b.settled))
    guard = z3.And(
        *invariants(_LEADERS, leads=True).values(),
        _received >= -1,
        _received <= _LEADERS.sent,
        _verified >= -1,
        _verified <= b.dirty,
        _verified <= _LEADERS.dirty,
        z3.ForAll([_offset], z3.Implies(z3.And(_offset >= 0, _offset <= _verified), same)),
        _leader_commit <= _received,
        _flushed <= b.dirty,
        commit <= b.settled,
    )
    return _Moved(guard, replace(b, commit=commit, majority=rise(b.majority), upper=rise(b.upper)))


def truncate(b: Log, rules: Rules, without: frozenset[str]) -> _Moved:
    """A follower cuts off what its leader does not have; that is never committed."""
    fall = lambda bound: z3.If(bound < _last, bound, _last)
    return _Moved(
        z3.And(_last >= b.settled, _last < b.dirty),
        replace(
            b,
            dirty=_last,
            majority=b.majority if TRUNCATION_LOWERS_MAJORITY in without else fall(b.majority),
            upper=b.upper if TRUNCATION_LOWERS_BOUND in without else fall(b.upper),
        ),
    )


def begin_anew(b: Log, rules: Rules, without: frozenset[str]) -> _Moved:
    """A follower drops its log for one that begins behind ``_last``, which is committed and not in its log."""
    after = replace(b, dirty=_last, settled=_last, commit=_last)
    if ANEW_LOWERS_BOTH not in without:
        after = replace(after, majority=_last, upper=_last)
    return _Moved(_last > b.settled, after)


def restart(b: Log, rules: Rules, without: frozenset[str]) -> _Moved:
    """A node stops, loses what was not flushed, or nothing, and starts: what was trimmed is all it knows committed."""
    trimmed = z3.Int("trimmed")
    settled = z3.If(b.settled < _last, b.settled, _last)
    shown = _last if RESTART_SHOWS_COMMITTED in without else trimmed
    commit = _last if RESTART_COMMITS_COMMITTED in without else trimmed
    guard = z3.And(_last <= b.dirty, _last >= trimmed, trimmed >= -1, trimmed <= b.settled)
    return _Moved(guard, replace(b, dirty=_last, settled=settled, commit=commit, majority=shown, upper=shown))


class _Taken(NamedTuple):
    """A step, whether a leader takes it, and whether it leaves one."""

    make: Callable[[Log, Rules, frozenset[str]], _Moved]
    led: bool
    leads: bool


_STEPS = {
    "append-round": _Taken(append_round, led=True, leads=True),
    "advance-commit": _Taken(advance_commit, led=True, leads=True),
    "raise-majority-index": _Taken(raise_majority_index, led=True, leads=True),
    "send": _Taken(send, led=True, leads=True),
    "committed-elsewhere": _Taken(committed_elsewhere, led=True, leads=True),
    "become-leader": _Taken(become_leader, led=False, leads=True),
    "committed-by-others": _Taken(committed_elsewhere, led=False, leads=False),
    "follower-append": _Taken(follower_append, led=False, leads=False),
    "follow": _Taken(follow, led=False, leads=False),
    "truncate": _Taken(truncate, led=False, leads=False),
    "begin-anew": _Taken(begin_anew, led=False, leads=False),
    "restart": _Taken(restart, led=False, leads=False),
}


def _keeps(name: str, rules: Rules, without: frozenset[str]) -> Claim:
    step = _STEPS[name]
    guard, after = step.make(_LOG, rules, without)
    assume = [*invariants(_LOG, leads=step.led).values(), guard]
    tidy = [z3.And(value >= -1, value <= _LARGEST) for b in (_LOG, after) for value in (b.dirty, b.settled)]
    return Claim(assume, invariants(after, leads=step.leads), _picture(_LOG, after), tidy)


def _start() -> Claim:
    """An empty log, of which nothing is shown."""
    empty = Log(waits=_LOG.waits, **{number: z3.IntVal(-1) for number in _NUMBERS})
    return Claim([], invariants(empty, leads=False))


def _possible(name: str, rules: Rules) -> Claim:
    """The step can happen, with something committed, and an entry pending in the log after it or before it."""
    step = _STEPS[name]
    guard, after = step.make(_LOG, rules, frozenset())
    pending = z3.Int("pending")
    in_log = lambda b: z3.And(b.waits(pending), pending > b.settled, pending <= b.dirty)
    assume = [*invariants(_LOG, leads=step.led).values(), guard, z3.Or(in_log(_LOG), in_log(after))]
    return Claim([*assume, _LOG.settled >= 0])


def _picture(before: Log, after: Log) -> Callable[[z3.ModelRef], str]:
    def row(model: z3.ModelRef, b: Log) -> list[str]:
        values = (b.dirty, b.commit, b.settled, b.last_quorum, b.majority, b.upper, b.visible())
        numbers = [model.eval(value, model_completion=True).as_long() for value in values]
        pending = [
            str(o)
            for o in range(max(0, numbers[2] + 1), min(numbers[0], numbers[2] + 200) + 1)
            if z3.is_true(model.eval(b.waits(z3.IntVal(o)), model_completion=True))
        ]
        return [*map(str, numbers), " ".join(pending[:8]) or "none"]

    head = ["", "dirty", "commit", "committed", "LQ", "MRI", "UB", "visible", "pending"]
    return lambda model: table(head, [["before", *row(model, before)], ["after", *row(model, after)]])


def claims(rules: Rules, without: frozenset[str]) -> dict[str, Callable[[], Claim]]:
    """The claims by name; ``without`` names the premises to drop for a twin."""
    made: dict[str, Callable[[], Claim]] = {"start": _start}
    for name in _STEPS:
        made[f"{name}/possible"] = partial(_possible, name, rules)
        made[name] = partial(_keeps, name, rules, without)
    return made


PROOF = Proof(
    "pending",
    ("raft.md#visibility", "documents.md#raft-simplification-acks"),
    "An acks=all entry is not visible before it is committed, in any log, term or life of a node; and what a node knows"
    " to be committed is visible there.",
    claims,
    (
        Twin(
            "visible-jumps-pending",
            "every append raises the upper bound",
            "append-round",
            "pending-not-visible",
            {"visibility_on_append": lambda upper_bound, commit, last_quorum, appended: max(upper_bound, appended)},
        ),
        Twin(
            "visible-ignores-last-quorum",
            "a commit shows all that a majority holds, though an acks=all entry behind it waits",
            "advance-commit",
            "pending-is-beyond-the-bound",
            {"visibility_on_commit": lambda upper_bound, majority, commit, last_quorum: max(upper_bound, majority)},
        ),
        Twin(
            "commit-counted-first",
            "the commit index is counted before the MRI, so that the bound stays behind it",
            "advance-commit",
            "committed-is-visible",
            without=frozenset({MAJORITY_FIRST}),
        ),
        Twin(
            "follower-visible-unbounded",
            "a follower shows what its leader shows, though its own log is shorter",
            "follow",
            "visible-within-dirty",
            {"follower_visible": lambda leader_visible, dirty, verified: leader_visible},
        ),
        Twin(
            "follower-visible-unverified",
            "a follower shows a tail that its leader does not have",
            "follow",
            "pending-is-beyond-the-bound",
            {"follower_visible": lambda leader_visible, dirty, verified: min(leader_visible, dirty)},
        ),
        Twin(
            "bound-at-election",
            "the visibility bound of a new leader is the end of its log",
            "become-leader",
            "pending-is-beyond-the-bound",
            without=frozenset({ELECTION_KEEPS_BOUND}),
        ),
        Twin(
            "bound-survives-truncation",
            "a truncation does not lower the visibility bound",
            "truncate",
            "visible-within-dirty",
            without=frozenset({TRUNCATION_LOWERS_BOUND}),
        ),
        Twin(
            "majority-survives-truncation",
            "a truncation does not lower the MRI",
            "truncate",
            "visible-within-dirty",
            without=frozenset({TRUNCATION_LOWERS_MAJORITY}),
        ),
        Twin(
            "reset-keeps-visible",
            "a log that begins anew shows as much as before",
            "begin-anew",
            "visible-within-dirty",
            without=frozenset({ANEW_LOWERS_BOTH}),
        ),
        Twin(
            "restart-shows-log",
            "a node that starts shows its whole log to readers",
            "restart",
            "pending-not-visible",
            without=frozenset({RESTART_SHOWS_COMMITTED}),
        ),
        Twin(
            "restart-commits-log",
            "a node that starts takes its whole log for committed",
            "restart",
            "known-commit-is-a-commit",
            without=frozenset({RESTART_COMMITS_COMMITTED}),
        ),
    ),
    covers="all N, all terms",
    assumes=(
        "what is committed stays, in every log that has it: nothing of it is truncated (raft-safety)",
        "a commit index covers nothing but what is committed (raft-safety)",
        "logs that have the same entry are the same up to it (raft-safety); terms rise along a log, and none is later"
        " than that of its leader (membership-safety)",
        "what a leader counts as durable on a node it counts as held there",
        "the commit index in a message is one that its leader had when it showed what the message says, or earlier",
        "acks=all requires a flush, as it does without write caching",
        "steps are those of this proof, which the rules decide",
    ),
    protocol="raft",
)
