"""The decisions of highly available pull queries, each one a pure function, bundled in ``Rules``.

``status``, ``lag``, ``routing``, ``execution``, ``table`` and ``assignment`` keep state and carry these decisions out.
A caller replaces one by ``dataclasses.replace(REFERENCE, within=mine)``; the proofs run these very functions on
symbolic terms, so they use nothing but integers, booleans, fields of dataclasses and each other.

``shipped`` says in which of the two modes of pull-queries.md#two-modes a decision is made: that of the public
implementation if it is true, else that of the proposal. Times are milliseconds of the wall clock: stamps by that of the
sender, windows by that of the receiver. ``send`` is the interval at which heartbeats are sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum

UNBOUNDED = 2**63 - 1
"""The acceptable lag of a query that accepts any: larger than every lag."""

# -- status decision -----------------------------------------------------------------------------------------------


def window_suffices(window: int, send: int, missed: int) -> bool:
    """Tell whether a window is long enough for ``missed`` heartbeats in a row to be missed inside it.

    Otherwise the window's start, which counts as if a heartbeat had come there, would keep a silent host up.

    Source: pull-queries.md#thresholds.
    """
    return window > missed * send


def missed_between(previous: int, stamp: int, send: int) -> int:
    """Return how many heartbeats were missed between two stamps; ``previous`` may be the window's start.

    Source: pull-queries.md#tail-decides.
    """
    return (stamp - previous - 1) // send if stamp - previous > send else 0


def missed_at_end(previous: int, missed: int, end: int, send: int) -> int:
    """Return how many heartbeats were missed last, at the window's ``end``.

    ``previous``: the last stamp before ``end``; ``missed``: between it and the one before. So the tail alone decides,
    and with a stamp at ``end`` - 1 the gap before that.

    Source: pull-queries.md#tail-decides.
    """
    return (end - previous - 1) // send if end - previous > 1 else missed


def tolerated(missed: int, threshold: int) -> bool:
    """Tell whether a host that missed so many heartbeats is up (shipped).

    Source: pull-queries.md#down-when.
    """
    return missed < threshold


def after_slot(filled: bool, up: bool, missed: int, received: int, most: int, least: int) -> tuple[bool, int, int]:
    """Return ``up``, ``missed`` and ``received`` after one more slot (proposal).

    ``missed`` and ``received`` are the empty and the filled slots in a row. More than ``most`` empty ones mean down,
    ``least`` filled ones mean up; in between the status stays what it was.

    Source: pull-queries.md#slots, pull-queries.md#down-when, pull-queries.md#up-again.
    """
    if filled:
        return (up or received + 1 >= least, 0, received + 1)
    return (up and missed + 1 <= most, missed + 1, 0)


# -- lag -----------------------------------------------------------------------------------------------------------


def report_replaces(stored: int, received: int) -> bool:
    """Tell whether a lag report replaces the stored one of the same host, by the times of both; an equal one does.

    Source: pull-queries.md#report-replaces.
    """
    return received >= stored


def lag(max_end: int, current: int) -> int:
    """Return by how many offsets a replica is behind the largest end offset that is known.

    Source: pull-queries.md#lag-formula.
    """
    return max(0, max_end - current)


def within(lag: int, bound: int, shipped: bool) -> bool:
    """Tell whether a lag is acceptable.

    Source: pull-queries.md#lag-bound.
    """
    return lag <= bound if shipped else lag < bound


# -- routing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Known:
    """What a router knows of one host and one partition: by the assignment, the statuses and the lag records.

    ``lag`` says something only with ``has_record``, ``alive`` only with ``has_status``.
    """

    active: bool
    has_status: bool
    alive: bool
    has_record: bool
    lag: int


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a query is routed: the bound on the lag and the server's mode and switches."""

    bound: int
    shipped: bool
    standby_reads: bool = True
    lag_reports: bool = True


def not_the_active(known: Known, terms: Terms) -> bool:
    """Tell whether a host is passed over for not being the active, because standbys are not read.

    Source: pull-queries.md#filters, pull-queries.md#switches.
    """
    return not known.active and not terms.standby_reads


def not_alive(known: Known, terms: Terms) -> bool:
    """Tell whether a host is passed over for its status; what holds without a status depends on the mode.

    Source: pull-queries.md#filters, pull-queries.md#host-without-status.
    """
    return not (known.alive if known.has_status else terms.shipped)


def lag_counts(known: Known, terms: Terms) -> bool:
    """Tell whether the lag filter applies to a host: the proposal spares the active.

    Source: pull-queries.md#lag-bound, pull-queries.md#switches.
    """
    return terms.lag_reports and (terms.shipped or not known.active)


def lag_unknown(known: Known, terms: Terms) -> bool:
    """Tell whether a host is passed over because its lag is not known, whatever the bound.

    Source: pull-queries.md#unknown-lag, pull-queries.md#no-record-not-selected.
    """
    return not known.has_record


def too_far(known: Known, terms: Terms) -> bool:
    """Tell whether a host is passed over because its known lag is beyond the bound.

    Source: pull-queries.md#lag-bound.
    """
    return known.has_record and not within(known.lag, terms.bound, terms.shipped)


def obstacles(known: Known, terms: Terms) -> tuple[bool, bool, bool, bool]:
    """Return every reason against a host: not the active, not alive, lag unknown, lag too large. Selected if none.

    Source: pull-queries.md#filters.
    """
    filtered = lag_counts(known, terms)
    return (
        not_the_active(known, terms),
        not_alive(known, terms),
        filtered and lag_unknown(known, terms),
        filtered and too_far(known, terms),
    )


class Failure(Enum):
    """How an attempt at a host can fail (pull-queries.md#falls-through)."""

    NO_CONNECTION = "no connection"
    RESET = "reset"
    TIME_OUT = "time-out"
    BROKEN_STREAM = "broken stream"
    ERROR_LINE = "error line"
    SERVER_ERROR = "server error"  # 5xx
    GAVE_UP = "gave up"  # not held, lag, closing
    CLIENT_ERROR = "client error"  # 4xx with 429
    NO_HEADER = "no header"  # 200


def falls_through(failure: Failure, shipped: bool) -> bool:
    """Tell whether the next candidate is tried after a failure; else the query fails.

    Source: pull-queries.md#falls-through, pull-queries.md#next-candidate.
    """
    return not shipped or failure not in (Failure.CLIENT_ERROR, Failure.NO_HEADER)


# -- tables and assignments ----------------------------------------------------------------------------------------


def counts(epoch: int, seen: int, source: int, expected: int) -> bool:
    """Tell whether a record of a changelog counts: by its epoch and the largest seen, by its source offset and the
    next one expected.

    Source: pull-queries.md#changelog.
    """
    return epoch >= seen and source == expected


def end_after(end: int, visible: int) -> int:
    """Return the end offset after the group told a visible offset; it never falls.

    Source: pull-queries.md#current-and-end.
    """
    return max(end, visible + 1)


def assignment_valid(epoch: int, last: int) -> bool:
    """Tell whether an assignment counts after the last one that did; of several for one epoch the first does.

    Source: pull-queries.md#assignment-epochs.
    """
    return epoch == last + 1


@dataclass(frozen=True, slots=True)
class Rules:
    """The bundle of rules that a server runs; every field is one of the functions above or a stand-in for it."""

    window_suffices: Callable[[int, int, int], bool] = window_suffices
    missed_between: Callable[[int, int, int], int] = missed_between
    missed_at_end: Callable[[int, int, int, int], int] = missed_at_end
    tolerated: Callable[[int, int], bool] = tolerated
    after_slot: Callable[[bool, bool, int, int, int, int], tuple[bool, int, int]] = after_slot
    report_replaces: Callable[[int, int], bool] = report_replaces
    lag: Callable[[int, int], int] = lag
    obstacles: Callable[[Known, Terms], tuple[bool, bool, bool, bool]] = obstacles
    falls_through: Callable[[Failure, bool], bool] = falls_through
    counts: Callable[[int, int, int, int], bool] = counts
    end_after: Callable[[int, int], int] = end_after
    assignment_valid: Callable[[int, int], bool] = assignment_valid

    def changed(self) -> tuple[str, ...]:
        """Return the names of the rules that are not the reference's, in the order of this class."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) is not f.default)


REFERENCE = Rules()
"""The rules as this project believes them to be right."""
