"""Operations on registers, key-value stores, sets and queues, whoever judges them. Plain data.

Much is decided without Porcupine, so these are not the types of linearizability-checker, which need not be installed;
`search` translates.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

Value: TypeAlias = bool | int | str | None


class Unanswered(Enum):
    """In place of an output: how an operation ended that has none."""

    UNKNOWN = "unknown"
    """It may have taken effect at any time after its call, or never."""
    FAILED = "failed"
    """It certainly had no effect."""


UNKNOWN: Final = Unanswered.UNKNOWN
FAILED: Final = Unanswered.FAILED

Input: TypeAlias = tuple[Value, ...]
"""Name and arguments, as the table in the documentation of linearizability-checker has them."""
Output: TypeAlias = Value | list[Value] | Unanswered


@dataclass(slots=True)
class Operation:
    """One operation of a client. ``call`` and ``return_`` are the ``seq`` of its events; None: it stays open."""

    process: int
    call: int
    return_: int | None
    input: Input
    output: Output
