"""The status decision of pull queries: no host that was heard is called down, and no silent one up.

In the mode shipped the decision is a loop over the stamps in the window, in the proposal one over its slots. What the
loops do with one stamp, one slot and the end are the rules of the implementation; that an invariant holds when a loop
begins, that each step keeps it and that it decides the end is proved for any number of steps, any window and interval.

Sources: pull-queries.md#tail-decides, pull-queries.md#slots, pull-queries.md#thresholds, pull-queries.md#clock-line,
documents.md#pull-queries-failure-detection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import z3

from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.pictures import values
from logspec.proofs.vocabulary import Formula, Term
from logspec.symbolic import Executor

start, end, send, threshold = z3.Ints("window_start window_end send threshold")
previous, missed, stamp, before, heard, behind = z3.Ints("previous missed stamp before heard behind")
seen, filled, up = z3.Bools("seen filled up")
received, most, least, empty, full, slots, slot = z3.Ints("received most least empty full slots slot")

_RUN = Executor(positive=[send])
_SILENCE = threshold * send
_INTERVALS = [send >= 1, threshold >= 1]
_TWO_BEFORE, _LONG_WINDOW = "two-before-the-end", "long-window"


def claims(rules: Rules, without: frozenset[str]) -> Mapping[str, Callable[[], Claim]]:
    """Begin, step and end of each loop, what a further stamp changes, and how far clocks may differ.

    One function around all claims, and long: they speak of the same rules and of the same window.
    """

    def run(rule: str, *arguments: Any) -> Any:  # noqa: ANN401
        return _RUN.call(getattr(rules, rule), *arguments)

    window = [*_INTERVALS, start < end]
    if _LONG_WINDOW not in without:
        window.append(run("window_suffices", end - start, send, threshold))
    latest = end - (1 if _TWO_BEFORE in without else 2)
    host = [*window, start <= heard, heard <= latest, end - heard <= _SILENCE]

    def alive(last: Term, missed_before: Term) -> Formula:
        return run("tolerated", run("missed_at_end", last, missed_before, end, send), threshold)

    def heard_so_far(last: Term, missed_before: Term, was_seen: Formula) -> Formula:
        kept = z3.And(last >= heard, z3.Implies(last > heard, run("tolerated", missed_before, threshold)))
        return z3.And(start <= last, last < end, z3.If(was_seen, kept, last <= heard))

    def silent_so_far(last: Term) -> Formula:
        return last < end - _SILENCE

    def shipped_begins() -> Claim:
        goals = {"no-false-down": heard_so_far(start, z3.IntVal(0), z3.BoolVal(False))}
        return _claim((window, {"silence-is-down": silent_so_far(start)}), (host, goals))

    def shipped_stamp() -> Claim:
        one = [previous <= stamp, stamp < end]
        between = run("missed_between", previous, stamp, send)
        heard_one = [*host, *one, heard_so_far(previous, missed, seen), z3.Implies(z3.Not(seen), stamp <= heard)]
        goals = {"no-false-down": heard_so_far(stamp, between, z3.Or(seen, stamp == heard))}
        silent_one = [*window, *one, silent_so_far(previous), stamp < end - _SILENCE]
        return _claim((silent_one, {"silence-is-down": silent_so_far(stamp)}), (heard_one, goals))

    def shipped_ends() -> Claim:
        heard_all = [*host, heard_so_far(previous, missed, z3.BoolVal(True))]
        return _claim(
            ([*window, silent_so_far(previous)], {"silence-is-down": z3.Not(alive(previous, missed))}),
            (heard_all, {"no-false-down": alive(previous, missed)}),
        )

    def further_stamp() -> Claim:
        """The last two stamps decide; ``stamp`` is one more, before, between or behind them."""
        two = [*window, start <= before, before <= previous, z3.Or(before < previous, previous == start)]
        two += [previous < end, start <= stamp, stamp != previous, stamp < end]
        two.append(alive(previous, run("missed_between", before, previous, send)))
        last = z3.If(stamp > previous, stamp, previous)
        before_it = z3.If(stamp > previous, previous, z3.If(stamp > before, stamp, before))
        return Claim(two, {"more-heartbeats": alive(last, run("missed_between", before_it, last, send))}, values)

    def clocks() -> Claim:
        """A sender that is ``behind`` sends a stamp every interval; ``stamp`` is the newest that has come."""
        sent = [*window, behind >= 0, end - behind - send < stamp, stamp <= end - behind]
        taken = z3.If(stamp >= end, stamp - send, stamp)

        def up_with(last: Term) -> Formula:
            within, first = _larger(last, start), _larger(last - send, start)
            return z3.And(last >= start, alive(within, run("missed_between", first, within, send)))

        line = behind <= (threshold - 1) * send + 1
        between = z3.And(z3.Not(line), behind <= _SILENCE)
        return Claim(
            sent,
            {
                "always-up": z3.Implies(line, up_with(taken)),
                "never-up": z3.Implies(behind > _SILENCE, z3.Not(up_with(taken))),
                "sometimes-up": z3.Implies(between, up_with(end - behind)),
                "sometimes-down": z3.Implies(between, z3.Not(up_with(end - behind - send + 1))),
            },
            values,
        )

    after = run("after_slot", filled, up, missed, received, most, least)
    counters = [most >= 1, least >= 1, missed >= 0, received >= 0, empty >= 0, full >= 0]

    def proposal_slot() -> Claim:
        """``empty`` and ``full`` are the true numbers of empty and filled slots in a row."""
        now_empty, now_full = z3.If(filled, 0, empty + 1), z3.If(filled, full + 1, 0)
        stayed_up = [*counters, up, missed == empty, now_empty <= most]
        enough = [*counters, received >= full, z3.Implies(full >= least, up)]
        silent = [*counters, missed >= empty, z3.Implies(empty > most, z3.Not(up))]
        return _claim(
            (
                silent,
                {"silence-is-down": z3.And(after[1] >= now_empty, z3.Implies(now_empty > most, z3.Not(after[0])))},
            ),
            (stayed_up, {"no-false-down": z3.And(after[0], after[1] == now_empty)}),
            (enough, {"enough-in-a-row": z3.And(after[2] >= now_full, z3.Implies(now_full >= least, after[0]))}),
        )

    def proposal_silence() -> Claim:
        """The last ``threshold`` slots cover just the silence, and the window has so many."""
        cut = [*window, end - start == slots * send, slot == (stamp - start) / send, start <= stamp, stamp < end]
        inside = z3.And(end - _SILENCE <= stamp, stamp < end)
        return Claim(cut, {"silence-is-down": z3.And(slots > threshold, (slot >= slots - threshold) == inside)}, values)

    made = {
        "shipped-begins": shipped_begins,
        "shipped-stamp": shipped_stamp,
        "shipped-ends": shipped_ends,
        "further-stamp": further_stamp,
        "clocks": clocks,
        "proposal-slot": proposal_slot,
        "proposal-silence": proposal_silence,
    }
    possible = {
        "shipped-possible": [*host, heard_so_far(previous, missed, seen), seen, previous > heard],
        "silence-possible": [*window, silent_so_far(previous), start < previous],
        "slots-possible": [*counters, up, missed == empty, empty == most, missed > 1],
    }
    return {**{name: partial(Claim, assume) for name, assume in possible.items()}, **made}


def _claim(*parts: tuple[Sequence[Formula], Mapping[str, Formula]]) -> Claim:
    """One claim of goals that have assumptions of their own."""
    goals = {name: z3.Implies(z3.And(*assume), goal) for assume, named in parts for name, goal in named.items()}
    return Claim(_INTERVALS, goals, values)


def _larger(one: Term, other: Term) -> Term:
    return z3.If(one >= other, one, other)


PROOF = Proof(
    "status-decision",
    (
        *("pull-queries.md#tail-decides", "pull-queries.md#slots", "pull-queries.md#thresholds"),
        *("pull-queries.md#no-false-down", "pull-queries.md#silence-is-down", "pull-queries.md#clock-line"),
    ),
    "A host that was heard in time is up, one that was silent is down, in both modes, and a further heartbeat never"
    " turns up into down.",
    claims,
    (
        Twin(
            "stamp-just-before-the-end",
            "a stamp at the window's end - 1 is said to be enough",
            "shipped-ends",
            "no-false-down",
            without=frozenset({_TWO_BEFORE}),
        ),
        Twin(
            "window-too-short",
            "the window is as long as the silence that is to be noticed, or shorter",
            "shipped-begins",
            "silence-is-down",
            without=frozenset({_LONG_WINDOW}),
        ),
        Twin(
            "threshold-not-reached",
            "as many missed heartbeats as the threshold are tolerated",
            "shipped-ends",
            "silence-is-down",
            {"tolerated": lambda missed, threshold: missed <= threshold},
        ),
        Twin(
            "counters-not-reset",
            "a filled slot leaves the count of empty ones",
            "proposal-slot",
            "no-false-down",
            {
                "after_slot": lambda filled, up, missed, received, most, least: (
                    (up or received + 1 >= least, missed, received + 1)
                    if filled
                    else (up and missed + 1 <= most, missed + 1, 0)
                )
            },
        ),
    ),
    covers="all windows, intervals, thresholds and stamps",
    assumes=(
        "stamps are taken in ascending order from the window's start, as far as its end",
        "a sender whose clock differs sends a stamp every interval",
    ),
    protocol="pull-queries",
)
