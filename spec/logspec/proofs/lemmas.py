"""What each rule promises by itself, in integers: the small facts that the large proofs and the core rely on.

Rules about quorums are proved for the groups in ``quorums``. Sources: the rules of raft.md#commit-index,
raft.md#visibility and the sections behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import z3

from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.quorums import (
    GROUPS,
    JOINT,
    Run,
    Voters,
    commit_candidate,
    majority_replicated,
    quorums_across_a_change,
    vote_result,
)
from logspec.proofs.vocabulary import Formula
from logspec.symbolic import Executor

_RUN = Executor()
_NOBODY = -1
_ACKS_ALL = -1

a, b, c, d, e = z3.Ints("a b c d e")
p, q = z3.Bools("p q")


def _formula(value: Any) -> Formula:  # noqa: ANN401
    return z3.BoolVal(value) if isinstance(value, bool) else value


@dataclass(frozen=True)
class _Lemma:
    """``goals`` and ``assume`` get a function that runs a rule by its name."""

    goals: Callable[[Run], dict[str, Formula]]
    assume: Callable[[Run], Sequence[Formula]] = field(default=lambda run: ())


def _for_groups(
    rule: str, goals: Callable[[Voters, Run], dict[str, Formula]], groups: Mapping[str, Voters]
) -> dict[str, _Lemma]:
    return {f"{rule}/{name}": _Lemma(partial(goals, voters)) for name, voters in groups.items()}


LEMMAS: dict[str, _Lemma] = {
    # rules: Commit index
    **_for_groups("commit-candidate", commit_candidate, GROUPS),
    "replicated-flushed": _Lemma(
        lambda run: {
            "at-most-flushed": run("replicated_flushed", a, b, c) <= b,
            "at-most-match": run("replicated_flushed", a, b, c) <= c,
        }
    ),
    "may-commit": _Lemma(
        lambda run: {"moves-forward": a > b, "by-an-entry-of-its-term": c == d},
        lambda run: [_formula(run("may_commit", a, b, c, d)), c <= d],  # no entry is of a later term
    ),
    "follower-commit": _Lemma(
        lambda run: {
            "at-most-flushed": run("follower_commit", a, b, c, d) <= c,
            "never-moves-back": run("follower_commit", a, b, c, d) >= a,
            "at-most-what-was-told-and-verified": z3.Implies(
                run("follower_commit", a, b, c, d) > a,
                z3.And(run("follower_commit", a, b, c, d) <= b, run("follower_commit", a, b, c, d) <= d),
            ),
        },
        lambda run: [a <= c],
    ),
    # rules: Visibility
    **_for_groups("majority-replicated", majority_replicated, GROUPS),
    "replicated-dirty": _Lemma(
        lambda run: {
            "at-most-dirty": run("replicated_dirty", a, b, c) <= a,
            "at-most-match": run("replicated_dirty", a, b, c) <= c,
        }
    ),
    "may-count-replicated": _Lemma(
        lambda run: {"an-entry-of-its-term": a == b}, lambda run: [_formula(run("may_count_replicated", a, b)), a <= b]
    ),
    "visibility-on-append": _Lemma(
        lambda run: {
            "never-moves-back": run("visibility_on_append", a, b, c, d) >= a,
            "stays-while-an-append-waits": z3.Implies(b < c, run("visibility_on_append", a, b, c, d) == a),
        }
    ),
    "visibility-on-commit": _Lemma(
        lambda run: {
            "never-moves-back": run("visibility_on_commit", a, b, c, d) >= a,
            "at-most-commit-while-an-append-waits": run("visibility_on_commit", a, b, c, d) <= z3.If(a > c, a, c),
        },
        lambda run: [c < d],
    ),
    "follower-visible": _Lemma(
        lambda run: {
            "at-most-dirty": run("follower_visible", a, b, c) <= b,
            "at-most-verified": run("follower_visible", a, b, c) <= c,
            "at-most-the-leaders": run("follower_visible", a, b, c) <= a,
        }
    ),
    # rules: Acks, Flush
    "flush-required": _Lemma(
        lambda run: {
            "acks-all-unless-cached": z3.Implies(z3.Not(p), _formula(run("flush_required", _ACKS_ALL, p, q))),
            "whatever-is-forced": _formula(run("flush_required", a, p, True)),
        }
    ),
    "resolve-write-cached": _Lemma(
        lambda run: {
            "a-majority-is-enough": z3.Implies(
                z3.And(c == b, d >= a), run("resolve_write_cached", a, b, c, d, e, z3.Int("f")) == 1
            ),
            "else-as-without-caching": z3.Implies(
                z3.Not(z3.And(c == b, d >= a)),
                run("resolve_write_cached", a, b, c, d, e, z3.Int("f"))
                == run("resolve_quorum_ack", a, b, c, e, z3.Int("f")),
            ),
        }
    ),
    "accept-flush": _Lemma(
        lambda run: {"no-truncation-came-between": a == b}, lambda run: [_formula(run("accept_flush", a, b)), a <= b]
    ),
    "flushed-after": _Lemma(
        lambda run: {
            "never-moves-back": run("flushed_after", a, b) >= a,
            "covers-the-flush": run("flushed_after", a, b) >= b,
            "at-most-dirty": run("flushed_after", a, b) <= c,
        },
        lambda run: [a <= c, b <= c],
    ),
    # rules: Heartbeats, Recovery, Truncation
    "batch-matches": _Lemma(lambda run: {"same-term-same-entry": _formula(run("batch_matches", a, b)) == (a == b)}),
    "reply-is-current": _Lemma(
        lambda run: {
            "only-newer": z3.Implies(_formula(run("reply_is_current", a, b)), a > b),
            "never-twice": z3.Not(_formula(run("reply_is_current", a, a))),
            "every-newer-one": z3.Implies(a > b, _formula(run("reply_is_current", a, b))),
        }
    ),
    "recovery-flush": _Lemma(
        lambda run: {
            "at-the-end-if-the-last-write-required-it": z3.Implies(
                z3.And(p, q), _formula(run("recovery_flush", p, q, a, b))
            ),
            "every-so-many-bytes": z3.Implies(a >= b, _formula(run("recovery_flush", p, q, a, b))),
        }
    ),
    "recovery-commit": _Lemma(
        lambda run: {
            "at-most-chunk-end": run("recovery_commit", a, b, c) <= a,
            "at-most-what-was-committed-before-the-read": run("recovery_commit", a, b, c) <= b,
        }
    ),
    "recovery-waits": _Lemma(lambda run: {"once-all-is-sent": _formula(run("recovery_waits", a, b)) == (a >= b)}),
    "may-dispatch": _Lemma(
        lambda run: {
            "in-order-while-it-recovers": z3.Implies(z3.And(p, _formula(run("may_dispatch", p, a, b))), a == b),
            "always-otherwise": z3.Implies(z3.Not(p), _formula(run("may_dispatch", p, a, b))),
        }
    ),
    # rules: Elections
    "log-ok": _Lemma(
        lambda run: {
            "any-two-logs-compare": z3.Or(_formula(run("log_ok", a, b, c, d)), _formula(run("log_ok", c, d, a, b))),
            "a-log-is-as-good-as-itself": _formula(run("log_ok", a, b, a, b)),
            "transitive": z3.Implies(
                z3.And(_formula(run("log_ok", a, b, c, d)), _formula(run("log_ok", c, d, e, z3.Int("f")))),
                _formula(run("log_ok", a, b, e, z3.Int("f"))),
            ),
            "never-an-older-term": z3.Implies(a < c, z3.Not(_formula(run("log_ok", a, b, c, d)))),
            "never-shorter-in-one-term": z3.Implies(z3.And(a == c, b < d), z3.Not(_formula(run("log_ok", a, b, c, d)))),
        }
    ),
    "grant-vote": _Lemma(
        lambda run: {
            "only-for-an-up-to-date-log": p,
            "not-while-a-leader-is-heard": z3.Not(q),
            "one-candidate-per-term": z3.Or(a == _NOBODY, a == b),
        },
        lambda run: [b != _NOBODY, _formula(run("grant_vote", a, b, p, q))],
    ),
    **_for_groups("vote-result", vote_result, GROUPS),
    **_for_groups("vote-result/across", quorums_across_a_change, JOINT),
    "vote-after-step-down": _Lemma(
        lambda run: {
            "kept-within-the-term": z3.Implies(b == c, run("vote_after_step_down", a, b, c) == a),
            "free-in-a-later-term": z3.Implies(c > b, run("vote_after_step_down", a, b, c) == _NOBODY),
        }
    ),
    "pre-vote-term": _Lemma(lambda run: {"raises-nothing": run("pre_vote_term", a) == a}),
    "vote-is-durable-first": _Lemma(lambda run: {"always": _formula(run("vote_is_durable_first"))}),
}


def claims(rules: Rules, without: frozenset[str]) -> dict[str, Callable[[], Claim]]:
    """Each lemma, and for those with assumptions that these can hold."""
    made: dict[str, Callable[[], Claim]] = {}
    for name, lemma in LEMMAS.items():
        run = partial(_call, rules)
        if lemma.assume(run):
            made[f"{name}/possible"] = partial(_possible, lemma, run)
        made[name] = partial(_claim, name, lemma, run)
    return made


def _call(rules: Rules, rule: str, *arguments: Any) -> Any:  # noqa: ANN401
    return _RUN.call(getattr(rules, rule), *arguments)


def _possible(lemma: _Lemma, run: Run) -> Claim:
    return Claim(lemma.assume(run))


def _claim(name: str, lemma: _Lemma, run: Run) -> Claim:
    return Claim(lemma.assume(run), lemma.goals(run), _picture)


def _picture(model: z3.ModelRef) -> str:
    values = sorted((str(declared), str(model[declared])) for declared in model.decls() if declared.arity() == 0)
    return ", ".join(f"{name} = {value}" for name, value in values)


PROOF = Proof(
    "rules",
    (
        *("raft.md#commit-index", "raft.md#visibility", "raft.md#acks", "raft.md#flush"),
        *("raft.md#heartbeats", "raft.md#recovery", "raft.md#elections"),
    ),
    "Each decision rule keeps what the core relies on, whatever its arguments; quorums for one to seven voters, and"
    " across a change of voters.",
    claims,
    (
        Twin(
            "commit-counts-dirty",
            "the largest offset that any voter has reached",
            "commit-candidate/3-voters",
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
            "commit-candidate/3-voters",
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
            "majority-replicated/4-voters",
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
            "commit-candidate/joint-one-replaced",
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
            "commit-candidate/two-learners",
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
            "commit-candidate/a-leader-without-vote",
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
            "vote-result/4-voters",
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
            "vote-for-all",
            "a node votes for whoever asks",
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
)
