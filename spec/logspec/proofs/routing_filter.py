"""The routing filter of pull queries: who may answer, by what the router knows, and how stale the answer is then.

The reasons against a host are the rule of the implementation, run on a host and on terms of which nothing is known.

Sources: pull-queries.md#filters, pull-queries.md#lag-bound, pull-queries.md#report-replaces,
documents.md#pull-queries-lag-aware-routing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import z3

from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.pictures import values
from logspec.proofs.vocabulary import Formula, Term
from logspec.symbolic import Executor

true_end, max_end, current, position, bound = z3.Ints("true_end max_end current position bound")
stored, received = z3.Ints("stored received")
active, has_status, alive, has_record, other_alive = z3.Bools("active has_status alive has_record other_alive")
shipped, standby_reads, lag_reports = z3.Bools("shipped standby_reads lag_reports")

_RUN = Executor()
_LOST_STORE = "lost-store"


@dataclass(frozen=True)
class _Known:
    """What the rule reads of a host."""

    active: Formula
    has_status: Formula
    alive: Formula
    has_record: Formula
    lag: Term


@dataclass(frozen=True)
class _Terms:
    """On what terms a query is routed."""

    bound: Term
    shipped: Formula
    standby_reads: Formula
    lag_reports: Formula


def claims(rules: Rules, without: frozenset[str]) -> Mapping[str, Callable[[], Claim]]:
    """Who is selected, what that bounds, what is said of the others, and when a report is accepted."""

    def run(rule: str, *arguments: Any) -> Any:  # noqa: ANN401
        return _RUN.call(getattr(rules, rule), *arguments)

    known = _Known(active, has_status, alive, has_record, run("lag", max_end, current))
    terms = _Terms(bound, shipped, standby_reads, lag_reports)
    against = [_formula(each) for each in run("obstacles", known, terms)]
    selected = z3.Not(z3.Or(against))
    filtered = z3.And(lag_reports, z3.Or(shipped, z3.Not(active)))
    lag = z3.If(max_end > current, max_end - current, 0)
    near = z3.If(shipped, lag <= bound, lag < bound)
    world = [bound >= 0, current >= 0, max_end >= 0, position >= 0, true_end >= 0]

    def selection() -> Claim:
        lost = 0 if _LOST_STORE in without else z3.If(current > position, current - position, 0)
        goals = {
            "selected-within-bound": z3.Implies(
                z3.And(selected, filtered),
                z3.And(max_end - current <= bound, z3.Or(shipped, max_end - current < bound)),
            ),
            "staleness-bounded": z3.Implies(
                z3.And(selected, filtered), true_end - position <= bound + (true_end - max_end) + lost
            ),
            "no-record-not-selected": z3.Implies(z3.And(filtered, z3.Not(has_record)), z3.Not(selected)),
            "candidates-follow-view": selected
            == z3.And(
                z3.Or(active, standby_reads),
                z3.If(has_status, alive, shipped),
                z3.Implies(filtered, z3.And(has_record, near)),
            ),
        }
        return Claim(world, goals, values)

    def said() -> Claim:
        """A host's status changes nothing of what is said of its lag, nor its lag of what is said of its status."""
        other = [_formula(each) for each in run("obstacles", replace(known, alive=other_alive), terms)]
        nearby = [_formula(each) for each in run("obstacles", replace(known, lag=z3.IntVal(0)), terms)]
        goal = z3.And(against[0] == other[0], against[2] == other[2], against[3] == other[3])
        goal = z3.And(goal, against[0] == nearby[0], against[1] == nearby[1], against[2] == nearby[2])
        return Claim(world, {"no-valid-host-says-why": goal}, values)

    def lag_report() -> Claim:
        after = z3.If(_formula(run("report_replaces", stored, received)), received, stored)
        goals = {"report-times-rise": after >= stored, "the-newest-is-kept": after >= received}
        return Claim([], goals, values)

    return {
        "possible": partial(Claim, [*world, selected, filtered, max_end > current, true_end > max_end]),
        "selection": selection,
        "said": said,
        "lag-report": lag_report,
    }


def _formula(value: Any) -> Formula:  # noqa: ANN401
    return z3.BoolVal(value) if isinstance(value, bool) else value


# What twins leave as it is.


def _standby_unread(known: Any, terms: Any) -> Formula:  # noqa: ANN401
    return not known.active and not terms.standby_reads


def _dead(known: Any, terms: Any) -> Formula:  # noqa: ANN401
    return not (known.alive if known.has_status else terms.shipped)


def _asked(known: Any, terms: Any) -> Formula:  # noqa: ANN401
    return terms.lag_reports and (terms.shipped or not known.active)


def _too_far(known: Any, terms: Any) -> Formula:  # noqa: ANN401
    return known.has_record and (known.lag > terms.bound if terms.shipped else known.lag >= terms.bound)


PROOF = Proof(
    "routing-filter",
    (
        *("pull-queries.md#filters", "pull-queries.md#selected-within-bound", "pull-queries.md#staleness-bounded"),
        *("pull-queries.md#no-record-not-selected", "pull-queries.md#report-times-rise"),
    ),
    "Who is selected is alive, near enough and known to be, by what the router knows; every reason against the others"
    " is said; an answer is as stale as the bound, what the router had not heard of yet, and what was lost.",
    claims,
    (
        Twin(
            "lost-store-forgotten",
            "a replica that lost its store is said to be as far as it reported",
            "selection",
            "staleness-bounded",
            without=frozenset({_LOST_STORE}),
        ),
        Twin(
            "dead-standby-admitted",
            "a standby with any status is taken for alive",
            "selection",
            "candidates-follow-view",
            {
                "obstacles": lambda known, terms: (
                    _standby_unread(known, terms),
                    not (known.alive or not known.active if known.has_status else terms.shipped),
                    _asked(known, terms) and not known.has_record,
                    _asked(known, terms) and _too_far(known, terms),
                )
            },
        ),
        Twin(
            "unknown-lag-admitted",
            "a host whose lag is not known is selected",
            "selection",
            "no-record-not-selected",
            {
                "obstacles": lambda known, terms: (
                    _standby_unread(known, terms),
                    _dead(known, terms),
                    False,
                    _asked(known, terms) and _too_far(known, terms),
                )
            },
        ),
        Twin(
            "lag-beyond-bound",
            "the bound applies to the active alone",
            "selection",
            "selected-within-bound",
            {
                "obstacles": lambda known, terms: (
                    _standby_unread(known, terms),
                    _dead(known, terms),
                    _asked(known, terms) and not known.has_record,
                    known.active and _asked(known, terms) and _too_far(known, terms),
                )
            },
        ),
        Twin(
            "first-reason-only",
            "the lag of a dead host is not looked at",
            "said",
            "no-valid-host-says-why",
            {
                "obstacles": lambda known, terms: (
                    _standby_unread(known, terms),
                    _dead(known, terms),
                    not _dead(known, terms) and _asked(known, terms) and not known.has_record,
                    not _dead(known, terms) and _asked(known, terms) and _too_far(known, terms),
                )
            },
        ),
        Twin(
            "older-report-wins",
            "every lag report replaces the stored one",
            "lag-report",
            "report-times-rise",
            {"report_replaces": lambda stored, received: True},
        ),
    ),
    covers="all lags, bounds, statuses and switches",
    assumes=("the largest end offset and the record are those of the router's view",),
    protocol="pull-queries",
)
