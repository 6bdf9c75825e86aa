"""What requests carry beside their bodies, so that the histories of all processes merge into one causal order.

The sender's hybrid clock; the operation of the client whose query it is, where that records one; and on the internal
port which server asks.
"""

from __future__ import annotations

from collections.abc import Mapping

from loghistory import HybridClock
from quorumlog.pull_queries.wire import BadRequestError

CLOCK = "hybrid-clock"
OPERATION = "operation"
ASKED_BY = "asked-by"


def stamp(clock: HybridClock) -> dict[str, str]:
    """The header for what is sent now."""
    time, logical = clock.tick()
    return {CLOCK: f"{time} {logical}"}


def merge(clock: HybridClock, headers: Mapping[str, str]) -> None:
    """Take the sender's clock, if it sent one. Raises `BadRequestError`."""
    said = headers.get(CLOCK)
    if said is None:
        return
    try:
        time, logical = map(int, said.split(" "))
        clock.merge((time, logical))
    except ValueError as error:
        raise BadRequestError(f"{CLOCK}: {error}") from None


def operation(headers: Mapping[str, str]) -> int | None:
    """The operation of a client; None: it records none. Raises `BadRequestError`."""
    said = headers.get(OPERATION)
    if said is None:
        return None
    if not (said.isascii() and said.isdecimal() and len(said) < 19):
        raise BadRequestError(f"{OPERATION}: {said[:40]!r} is not the number of an operation")
    return int(said)
