"""What each rule promises by itself, in integers: the small facts that the large proofs and the core rely on.

Both sides of each: what a rule may at most allow, for safety, and what it must at least do; a rule that never moves
would keep every other promise.

Rules about quorums are in ``quorums``. Sources: the rules of raft.md#commit-index,
raft.md#visibility and the sections behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import z3

from logspec.proofs import quorums
from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.pictures import values
from logspec.proofs.vocabulary import Formula
from logspec.symbolic import Executor

Run = Callable[..., Any]
"""Runs a rule, given its name and its arguments."""

_RUN = Executor()
_NOBODY = -1
_ACKS_ALL = -1
_SUCCESS, _TRUNCATED = 1, 2

dirty, flushed, match, commit, verified, captured = z3.Ints("dirty flushed match commit verified captured")
candidate, leader_commit, leader_visible, majority = z3.Ints("candidate leader_commit leader_visible majority")
candidate_term, current_term, term, new_term = z3.Ints("candidate_term current_term term new_term")
term_at_offset, term_at_commit, term_here, term_there = z3.Ints("term_at_offset term_at_commit term_here term_there")
upper_bound, last_quorum, appended, offset, acks = z3.Ints("upper_bound last_quorum appended offset acks")
at_start, now, sequence, processed = z3.Ints("truncations_at_start truncations_now sequence last_processed")
chunk_end, before_read, last_sent, previous = z3.Ints("chunk_end commit_before_read last_sent previous")
unflushed, every, voted_for = z3.Ints("unflushed_bytes every_bytes voted_for")
write_caching, force_flush, last_chunk, required = z3.Bools("write_caching force_flush last_chunk last_write_required")
recovering, saving, log_ok, heard_leader = z3.Bools("recovering saving candidate_log_ok heard_leader")
behind, gave_way, alone, answered, unchanged = z3.Bools("behind gave_way alone answered unchanged")
target, share, unit, members, place, last_full = z3.Ints("target share unit members place last_full")
_LARGEST = 2**32 - 1

_RECEIVED = (commit, leader_commit, flushed, verified)
_CACHED = (offset, term, term_at_offset, majority, commit, term_at_commit)
_FREE = z3.Or(voted_for == _NOBODY, voted_for == candidate)
_HELD = z3.And(term_at_offset == term, majority >= offset)
_THEIRS, _OWN, _THIRD = (z3.Ints(f"{whose}last_term {whose}dirty") for whose in ("", "own_", "third_"))


def _ok(run: Run, log: Sequence[Formula], other: Sequence[Formula]) -> Formula:
    return _formula(run("log_ok", *log, *other))


def _larger(one: Formula, other: Formula) -> Formula:
    return z3.If(one >= other, one, other)


def _smaller(one: Formula, other: Formula) -> Formula:
    return z3.If(one <= other, one, other)


def _commits(run: Run) -> Formula:
    return _formula(run("may_commit", candidate, commit, candidate_term, current_term))


def _on_commit(run: Run) -> Formula:
    return run("visibility_on_commit", upper_bound, majority, commit, last_quorum)


def _grants(run: Run) -> Formula:
    return _formula(run("grant_vote", voted_for, candidate, log_ok, heard_leader))


def _formula(value: Any) -> Formula:  # noqa: ANN401
    return z3.BoolVal(value) if isinstance(value, bool) else value


@dataclass(frozen=True)
class _Lemma:
    """``goals`` and ``assume`` get a function that runs a rule by its name; ``given`` says in words what is assumed."""

    goals: Callable[[Run], dict[str, Formula]]
    assume: Callable[[Run], Sequence[Formula]] = field(default=lambda run: ())
    given: str = ""


LEMMAS: dict[str, _Lemma] = {
    # rules: Commit index
    "replicated-flushed": _Lemma(
        lambda run: {
            "at-most-flushed": run("replicated_flushed", dirty, flushed, match) <= flushed,
            "at-most-match": run("replicated_flushed", dirty, flushed, match) <= match,
            "no-less-than-one-reply-shows": z3.Implies(
                flushed <= dirty, run("replicated_flushed", dirty, flushed, match) >= _smaller(flushed, match)
            ),
        }
    ),
    "may-commit": _Lemma(
        lambda run: {
            "moves-forward": z3.Implies(_commits(run), candidate > commit),
            "by-an-entry-of-its-term": z3.Implies(_commits(run), candidate_term == current_term),
            "whenever-both-are-so": z3.Implies(
                z3.And(candidate > commit, candidate_term == current_term), _commits(run)
            ),
        },
        lambda run: [candidate_term <= current_term],
        "no entry is of a later term than the leader's",
    ),
    "follower-commit": _Lemma(
        lambda run: {
            "at-most-flushed": run("follower_commit", *_RECEIVED) <= flushed,
            "never-moves-back": run("follower_commit", *_RECEIVED) >= commit,
            "at-most-what-was-told-and-verified": z3.Implies(
                run("follower_commit", *_RECEIVED) > commit,
                z3.And(
                    run("follower_commit", *_RECEIVED) <= leader_commit, run("follower_commit", *_RECEIVED) <= verified
                ),
            ),
            "as-far-as-that-goes": run("follower_commit", *_RECEIVED)
            >= _smaller(_smaller(leader_commit, verified), flushed),
        },
        lambda run: [commit <= flushed],
        "the commit index is flushed already",
    ),
    # rules: Visibility
    "replicated-dirty": _Lemma(
        lambda run: {
            "at-most-dirty": run("replicated_dirty", dirty, flushed, match) <= dirty,
            "at-most-match": run("replicated_dirty", dirty, flushed, match) <= match,
            "no-less-than-one-reply-shows": run("replicated_dirty", dirty, flushed, match) >= _smaller(dirty, match),
        }
    ),
    "may-count-replicated": _Lemma(
        lambda run: {
            "an-entry-of-its-term": _formula(run("may_count_replicated", candidate_term, current_term))
            == (candidate_term == current_term)
        },
        lambda run: [candidate_term <= current_term],
        "no entry is of a later term than the leader's",
    ),
    "visibility-on-append": _Lemma(
        lambda run: {
            "never-moves-back": run("visibility_on_append", upper_bound, commit, last_quorum, appended) >= upper_bound,
            "stays-while-an-append-waits": z3.Implies(
                commit < last_quorum,
                run("visibility_on_append", upper_bound, commit, last_quorum, appended) == upper_bound,
            ),
            "reaches-the-append-when-none-waits": z3.Implies(
                commit >= last_quorum,
                run("visibility_on_append", upper_bound, commit, last_quorum, appended) >= appended,
            ),
        }
    ),
    "visibility-on-commit": _Lemma(
        lambda run: {
            "never-moves-back": _on_commit(run) >= upper_bound,
            "at-most-commit-while-an-append-waits": z3.Implies(
                commit < last_quorum, _on_commit(run) <= _larger(upper_bound, commit)
            ),
            "at-most-what-is-replicated": z3.Implies(
                commit >= last_quorum, _on_commit(run) <= _larger(upper_bound, majority)
            ),
            "reaches-what-is-committed": z3.Implies(commit < last_quorum, _on_commit(run) >= commit),
            "reaches-what-is-replicated-when-none-waits": z3.Implies(
                commit >= last_quorum, _on_commit(run) >= majority
            ),
        },
    ),
    "follower-visible": _Lemma(
        lambda run: {
            "at-most-dirty": run("follower_visible", leader_visible, dirty, verified) <= dirty,
            "at-most-verified": run("follower_visible", leader_visible, dirty, verified) <= verified,
            "at-most-the-leaders": run("follower_visible", leader_visible, dirty, verified) <= leader_visible,
            "as-far-as-that-goes": run("follower_visible", leader_visible, dirty, verified)
            >= _smaller(_smaller(leader_visible, dirty), verified),
        }
    ),
    # rules: Acks, Flush
    "flush-required": _Lemma(
        lambda run: {
            "acks-all-unless-cached": z3.Implies(
                z3.Not(write_caching), _formula(run("flush_required", _ACKS_ALL, write_caching, force_flush))
            ),
            "whatever-is-forced": _formula(run("flush_required", acks, write_caching, True)),
            "nothing-else": z3.Implies(
                z3.Or(acks != _ACKS_ALL, write_caching),
                z3.Not(_formula(run("flush_required", acks, write_caching, False))),
            ),
        }
    ),
    "resolve-quorum-ack": _Lemma(
        lambda run: {
            "success-once-committed": z3.Implies(
                z3.And(term_at_offset == term, commit >= offset),
                run("resolve_quorum_ack", offset, term, term_at_offset, commit, term_at_commit) == _SUCCESS,
            ),
            "truncated-once-a-later-term-commits": z3.Implies(
                z3.And(term_at_offset != term, term_at_commit > term),
                run("resolve_quorum_ack", offset, term, term_at_offset, commit, term_at_commit) == _TRUNCATED,
            ),
        }
    ),
    "resolve-write-cached": _Lemma(
        lambda run: {
            "a-majority-is-enough": z3.Implies(_HELD, run("resolve_write_cached", *_CACHED) == _SUCCESS),
            "else-as-without-caching": z3.Implies(
                z3.Not(_HELD),
                run("resolve_write_cached", *_CACHED)
                == run("resolve_quorum_ack", offset, term, term_at_offset, commit, term_at_commit),
            ),
        }
    ),
    "accept-flush": _Lemma(
        lambda run: {"no-truncation-came-between": _formula(run("accept_flush", at_start, now)) == (at_start == now)},
        lambda run: [at_start <= now],
        "truncations are counted upwards",
    ),
    "flushed-after": _Lemma(
        lambda run: {
            "never-moves-back": run("flushed_after", flushed, captured) >= flushed,
            "covers-the-flush": run("flushed_after", flushed, captured) >= captured,
            "at-most-dirty": run("flushed_after", flushed, captured) <= dirty,
        },
        lambda run: [flushed <= dirty, captured <= dirty],
        "what was flushed is in the log",
    ),
    # rules: Heartbeats, Recovery, Truncation
    "batch-matches": _Lemma(
        lambda run: {
            "same-term-same-entry": _formula(run("batch_matches", term_here, term_there)) == (term_here == term_there)
        }
    ),
    "reply-is-current": _Lemma(
        lambda run: {
            "only-newer": z3.Implies(_formula(run("reply_is_current", sequence, processed)), sequence > processed),
            "never-twice": z3.Not(_formula(run("reply_is_current", sequence, sequence))),
            "every-newer-one": z3.Implies(sequence > processed, _formula(run("reply_is_current", sequence, processed))),
        }
    ),
    "recovery-flush": _Lemma(
        lambda run: {
            "at-the-end-if-the-last-write-required-it": z3.Implies(
                z3.And(last_chunk, required), _formula(run("recovery_flush", last_chunk, required, unflushed, every))
            ),
            "every-so-many-bytes": z3.Implies(
                unflushed >= every, _formula(run("recovery_flush", last_chunk, required, unflushed, every))
            ),
            "not-on-every-request": z3.Implies(
                z3.And(unflushed < every, z3.Not(z3.And(last_chunk, required))),
                z3.Not(_formula(run("recovery_flush", last_chunk, required, unflushed, every))),
            ),
        }
    ),
    "recovery-commit": _Lemma(
        lambda run: {
            "at-most-chunk-end": run("recovery_commit", chunk_end, before_read, commit) <= chunk_end,
            "at-most-what-was-committed-before-the-read": run("recovery_commit", chunk_end, before_read, commit)
            <= before_read,
            "as-far-as-that-goes": run("recovery_commit", chunk_end, before_read, commit)
            >= _smaller(chunk_end, before_read),
        }
    ),
    "recovery-waits": _Lemma(
        lambda run: {"once-all-is-sent": _formula(run("recovery_waits", last_sent, dirty)) == (last_sent >= dirty)}
    ),
    "may-dispatch": _Lemma(
        lambda run: {
            "in-order-while-it-recovers": z3.Implies(
                z3.And(recovering, _formula(run("may_dispatch", recovering, last_sent, previous))),
                last_sent == previous,
            ),
            "what-comes-next-while-it-recovers": z3.Implies(
                z3.And(recovering, last_sent == previous),
                _formula(run("may_dispatch", recovering, last_sent, previous)),
            ),
            "always-otherwise": z3.Implies(
                z3.Not(recovering), _formula(run("may_dispatch", recovering, last_sent, previous))
            ),
        }
    ),
    # rules: Elections
    "log-ok": _Lemma(
        lambda run: {
            "any-two-logs-compare": z3.Or(_ok(run, _THEIRS, _OWN), _ok(run, _OWN, _THEIRS)),
            "a-log-is-as-good-as-itself": _ok(run, _OWN, _OWN),
            "transitive": z3.Implies(
                z3.And(_ok(run, _THEIRS, _OWN), _ok(run, _OWN, _THIRD)), _ok(run, _THEIRS, _THIRD)
            ),
            "never-an-older-term": z3.Implies(_THEIRS[0] < _OWN[0], z3.Not(_ok(run, _THEIRS, _OWN))),
            "never-shorter-in-one-term": z3.Implies(
                z3.And(_THEIRS[0] == _OWN[0], _THEIRS[1] < _OWN[1]), z3.Not(_ok(run, _THEIRS, _OWN))
            ),
        }
    ),
    "grant-vote": _Lemma(
        lambda run: {
            "only-for-an-up-to-date-log": z3.Implies(_grants(run), log_ok),
            "not-while-a-leader-is-heard": z3.Implies(_grants(run), z3.Not(heard_leader)),
            "one-candidate-per-term": z3.Implies(_grants(run), _FREE),
            "whenever-all-are-so": z3.Implies(z3.And(log_ok, z3.Not(heard_leader), _FREE), _grants(run)),
        },
        lambda run: [candidate != _NOBODY],
        "the candidate is a node",
    ),
    "vote-after-step-down": _Lemma(
        lambda run: {
            "kept-within-the-term": run("vote_after_step_down", voted_for, term, term) == voted_for,
            "free-in-a-later-term": z3.Implies(
                new_term > term, run("vote_after_step_down", voted_for, term, new_term) == _NOBODY
            ),
        }
    ),
    "pre-vote-term": _Lemma(lambda run: {"raises-nothing": run("pre_vote_term", term) == term}),
    "vote-is-durable-first": _Lemma(lambda run: {"always": _formula(run("vote_is_durable_first"))}),
    "election-waits": _Lemma(
        lambda run: {"while-term-and-vote-are-saved": _formula(run("election_waits", saving)) == saving}
    ),
    "priority": _Lemma(
        lambda run: {
            "who-is-named-earlier-comes-first": run("priority", place, members, unit)
            > run("priority", place + 1, members, unit),
            "the-first-is-wanted-at-first": run("priority", 0, members, unit) == run("first_target", members, unit),
            "a-stranger-may-always-stand": z3.Implies(
                members * unit <= _LARGEST, run("priority", -1, members, unit) >= run("first_target", members, unit)
            ),
        },
        lambda run: [unit >= 1, place >= 0, members > place],
        "every member adds something, and has a place",
    ),
    "first-target": _Lemma(
        lambda run: {"nobody-else-has-it": run("priority", 1, members, unit) < run("first_target", members, unit)},
        lambda run: [unit >= 1, members > 1],
        "every member adds something, and there is another one",
    ),
    "lowered-target": _Lemma(
        lambda run: {
            "falls-until-everybody-may-stand": z3.Implies(
                z3.And(members * share <= target, target < members * share + members, target > 1),
                run("lowered_target", share, members) < target,
            ),
            "is-never-less-than-one": run("lowered_target", share, members) >= 1,
        },
        lambda run: [share >= 0, members >= 1],
        "it was not negative, and there is a member",
    ),
    "may-stand": _Lemma(
        lambda run: {
            "with-the-priority-that-is-wanted": z3.Implies(
                z3.Not(alone), _formula(run("may_stand", candidate, target, alone)) == (candidate >= target)
            ),
            "or-alone": _formula(run("may_stand", candidate, target, True)),
        }
    ),
    "gives-way": _Lemma(
        lambda run: {
            "only-to-a-better-log": z3.Implies(_formula(run("gives_way", behind, gave_way)), behind),
            "not-twice-in-a-row": z3.Not(_formula(run("gives_way", behind, True))),
            "once": _formula(run("gives_way", True, False)),
        }
    ),
    # rules: Heartbeats
    "full-was-answered": _Lemma(
        lambda run: {
            "when-nothing-was-sent-since": _formula(run("full_was_answered", sequence, last_full, processed))
            == z3.And(sequence == last_full, sequence == processed)
        }
    ),
    "light-suffices": _Lemma(
        lambda run: {
            "when-all-was-said-and-flushed": _formula(run("light_suffices", answered, unchanged, flushed, captured))
            == z3.And(answered, unchanged, flushed == captured)
        }
    ),
    # rules: Serving clients
    "may-serve": _Lemma(
        lambda run: {
            "once-an-entry-of-its-term-is-committed": _formula(run("may_serve", term_at_commit, current_term))
            == (term_at_commit == current_term)
        },
        lambda run: [term_at_commit <= current_term],
        "no entry is of a later term than the leader's",
    ),
    "read-index": _Lemma(
        lambda run: {
            "reaches-what-is-committed": run("read_index", commit, majority, write_caching) >= commit,
            "reaches-what-was-acknowledged-unflushed": z3.Implies(
                write_caching, run("read_index", commit, majority, write_caching) >= majority
            ),
            "waits-for-no-more": run("read_index", commit, majority, write_caching)
            <= z3.If(write_caching, _larger(commit, majority), commit),
        }
    ),
}


def claims(rules: Rules, without: frozenset[str]) -> dict[str, Callable[[], Claim]]:
    """Each lemma, and for those with assumptions that these can hold."""
    made: dict[str, Callable[[], Claim]] = {}
    for name, lemma in LEMMAS.items():
        run = partial(_call, rules)
        if lemma.assume(run):
            made[f"{name}/possible"] = partial(_possible, lemma, run)
        made[name] = partial(_claim, lemma, run)
    return {**made, **quorums.claims(rules)}


def _call(rules: Rules, rule: str, *arguments: Any) -> Any:  # noqa: ANN401
    return _RUN.call(getattr(rules, rule), *arguments)


def _possible(lemma: _Lemma, run: Run) -> Claim:
    return Claim(lemma.assume(run))


def _claim(lemma: _Lemma, run: Run) -> Claim:
    return Claim(lemma.assume(run), lemma.goals(run), values, given=lemma.given)


PROOF = Proof(
    "rules",
    (
        *("raft.md#commit-index", "raft.md#visibility", "raft.md#acks", "raft.md#flush"),
        *("raft.md#heartbeats", "raft.md#recovery", "raft.md#elections", "raft.md#reads"),
    ),
    "Each decision rule keeps what the core relies on, whatever its arguments; those about quorums in any group, and"
    " across a change of voters.",
    claims,
    (
        Twin(
            "large-group-differs",
            "from eight voters on, what the leader itself has flushed is committed",
            "commit-candidate",
            "a-majority-has-reached-it",
            {
                "commit_candidate": lambda voters, durable, own_flushed: min(
                    own_flushed,
                    sorted([durable.get(node, -1) for node in voters.current])[(len(voters.current) - 1) // 2]
                    if len(voters.current) in (1, 2, 3, 4, 5, 6, 7) and len(voters.old) == 0
                    else own_flushed,
                )
            },
        ),
        Twin(
            "no-check-quorum",
            "a leader that nobody answers goes on leading",
            "keeps-office",
            "while-a-quorum-answered-in-time",
            {"keeps_office": lambda voters, silence, election_timeout: True},
        ),
        Twin(
            "read-unconfirmed",
            "a read is served without asking a majority",
            "leadership-confirmed",
            "once-a-quorum-answered",
            {"leadership_confirmed": lambda voters, confirmed: True},
        ),
        Twin(
            "read-before-own-term",
            "a leader serves before an entry of its own term is committed",
            "may-serve",
            "once-an-entry-of-its-term-is-committed",
            {"may_serve": lambda term_at_commit, current_term: True},
        ),
        Twin(
            "read-index-ignores-caching",
            "under write caching a read index is the commit index",
            "read-index",
            "reaches-what-was-acknowledged-unflushed",
            {"read_index": lambda commit, majority, write_caching: commit},
        ),
        Twin(
            "election-never-waits",
            "an election begins while term and vote are being saved",
            "election-waits",
            "while-term-and-vote-are-saved",
            {"election_waits": lambda saving: False},
        ),
        Twin(
            "priority-never-decays",
            "the priority that a leader has to have is never lowered",
            "lowered-target",
            "falls-until-everybody-may-stand",
            {"lowered_target": lambda share, members: share * members},
        ),
        Twin(
            "gives-way-for-ever",
            "a node lets one with a longer log go first every time",
            "gives-way",
            "not-twice-in-a-row",
            {"gives_way": lambda behind, gave_way: behind},
        ),
        Twin(
            "light-after-any-answer",
            "heartbeats are light once any request was answered",
            "full-was-answered",
            "when-nothing-was-sent-since",
            {"full_was_answered": lambda last_request, last_full, last_reply: last_request == last_reply},
        ),
        Twin(
            "light-ignores-flushed",
            "heartbeats are light though the follower has not flushed all",
            "light-suffices",
            "when-all-was-said-and-flushed",
            {"light_suffices": lambda answered, unchanged, flushed, own_flushed: answered and unchanged},
        ),
        Twin(
            "commit-counts-dirty",
            "the largest offset that any voter has reached",
            "commit-candidate",
            "a-majority-has-reached-it",
            {
                "commit_candidate": lambda voters, durable, own_flushed: max(
                    [durable.get(node, -1) for node in voters.current]
                )
            },
        ),
        Twin(
            "commit-before-own-flush",
            "the leader's own flushed offset does not bound the candidate",
            "commit-candidate",
            "the-leader-has-flushed-it",
            {
                "commit_candidate": lambda voters, durable, own_flushed: sorted(
                    [durable.get(node, -1) for node in voters.current]
                )[(len(voters.current) - 1) // 2]
            },
        ),
        Twin(
            "quorum-one-off",
            "of an even number of voters one half is taken for a majority",
            "majority-replicated",
            "a-majority-has-reached-it",
            {
                "majority_replicated": lambda voters, replicated, majority: max(
                    majority,
                    sorted([replicated.get(node, -1) for node in voters.current])[len(voters.current) // 2],
                )
            },
        ),
        Twin(
            "joint-current-only",
            "while the voters change, the old half is not asked",
            "commit-candidate",
            "a-majority-has-reached-it",
            {
                "commit_candidate": lambda voters, durable, own_flushed: min(
                    own_flushed,
                    sorted([durable.get(node, -1) for node in voters.current])[(len(voters.current) - 1) // 2],
                )
            },
        ),
        Twin(
            "learner-counts",
            "learners are counted like voters",
            "commit-candidate",
            "a-majority-has-reached-it",
            {
                "commit_candidate": lambda voters, durable, own_flushed: min(
                    own_flushed,
                    sorted([durable.get(node, -1) for node in [*voters.current, *voters.learners]])[
                        (len(voters.current) + len(voters.learners) - 1) // 2
                    ],
                )
            },
        ),
        Twin(
            "self-counts-when-removed",
            "a leader that is no longer a voter counts itself",
            "commit-candidate",
            "a-majority-has-reached-it",
            {
                "commit_candidate": lambda voters, durable, own_flushed: min(
                    own_flushed,
                    sorted([own_flushed, *[durable.get(node, -1) for node in voters.current]])[
                        len(voters.current) // 2
                    ],
                )
            },
        ),
        Twin(
            "half-elects",
            "of an even number of voters one half elects",
            "vote-result",
            "two-quorums-intersect",
            {
                "vote_result": lambda voters, votes: (
                    1 if 2 * sum([votes.get(node, False) for node in voters.current]) >= len(voters.current) else 0
                )
            },
        ),
        Twin(
            "follower-commit-unclamped",
            "a follower takes over the leader's commit index",
            "follower-commit",
            "at-most-flushed",
            {"follower_commit": lambda commit, leader_commit, flushed, verified: max(commit, leader_commit)},
        ),
        Twin(
            "flush-assigns",
            "the flushed offset is set, not raised",
            "flushed-after",
            "never-moves-back",
            {"flushed_after": lambda flushed, captured: captured},
        ),
        Twin(
            "flush-ignores-truncation",
            "every flush counts",
            "accept-flush",
            "no-truncation-came-between",
            {"accept_flush": lambda truncations_at_start, truncations_now: True},
        ),
        Twin(
            "stale-reply-accepted",
            "no guard on replies that were overtaken",
            "reply-is-current",
            "only-newer",
            {"reply_is_current": lambda sequence, last_processed: True},
        ),
        Twin(
            "recovery-late-commit-sample",
            "the commit index is sampled after the read",
            "recovery-commit",
            "at-most-what-was-committed-before-the-read",
            {"recovery_commit": lambda chunk_end, commit_before_read, commit_now: min(chunk_end, commit_now)},
        ),
        Twin(
            "recovery-never-flushes",
            "the last chunk asks for no flush",
            "recovery-flush",
            "at-the-end-if-the-last-write-required-it",
            {"recovery_flush": lambda last_chunk, last_write_required, unflushed_bytes, every_bytes: False},
        ),
        Twin(
            "recovery-resends",
            "what was sent is forgotten",
            "recovery-waits",
            "once-all-is-sent",
            {"recovery_waits": lambda last_sent, leader_dirty: False},
        ),
        Twin(
            "never-commits",
            "a leader never moves its commit index",
            "may-commit",
            "whenever-both-are-so",
            {"may_commit": lambda candidate, commit, candidate_term, current_term: False},
        ),
        Twin(
            "follower-stays",
            "a follower never moves its commit index",
            "follower-commit",
            "as-far-as-that-goes",
            {"follower_commit": lambda commit, leader_commit, flushed, verified: commit},
        ),
        Twin(
            "nothing-before-commit",
            "an append becomes visible only when it is committed",
            "visibility-on-append",
            "reaches-the-append-when-none-waits",
            {"visibility_on_append": lambda upper_bound, commit, last_quorum, appended: upper_bound},
        ),
        Twin(
            "never-truncated",
            "the caller of an entry that is gone waits forever",
            "resolve-quorum-ack",
            "truncated-once-a-later-term-commits",
            {
                "resolve_quorum_ack": lambda offset, term, term_at_offset, commit, term_at_commit: (
                    1 if term_at_offset == term and commit >= offset else 0
                )
            },
        ),
        Twin(
            "flushes-always",
            "every append requires a flush",
            "flush-required",
            "nothing-else",
            {"flush_required": lambda acks, write_caching, force_flush: True},
        ),
        Twin(
            "recovery-flushes-always",
            "every request of a recovery asks for a flush",
            "recovery-flush",
            "not-on-every-request",
            {"recovery_flush": lambda last_chunk, last_write_required, unflushed_bytes, every_bytes: True},
        ),
        Twin(
            "never-dispatches",
            "a follower that recovers is sent no round",
            "may-dispatch",
            "what-comes-next-while-it-recovers",
            {"may_dispatch": lambda recovering, last_sent, previous: not recovering},
        ),
        Twin(
            "vote-for-all",
            "a node votes for any candidate that asks",
            "grant-vote",
            "one-candidate-per-term",
            {
                "grant_vote": lambda voted_for, candidate, candidate_log_ok, heard_leader: (
                    candidate_log_ok and not heard_leader
                )
            },
        ),
        Twin(
            "vote-twice",
            "a node that steps down forgets its vote",
            "vote-after-step-down",
            "kept-within-the-term",
            {"vote_after_step_down": lambda voted_for, old_term, new_term: -1},
        ),
        Twin(
            "vote-not-durable",
            "messages do not wait for the disk",
            "vote-is-durable-first",
            "always",
            {"vote_is_durable_first": lambda: False},
        ),
        Twin(
            "prevote-bumps-term",
            "asking for pre-votes raises the term",
            "pre-vote-term",
            "raises-nothing",
            {"pre_vote_term": lambda term: term + 1},
        ),
    ),
    quorums.SIZES,
    "the rule by itself, all N",
    ("that the core calls each rule with what it is made for; tests and the large proofs see to that",),
    protocol="raft",
)
