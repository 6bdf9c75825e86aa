"""What is checked: models, operations and events. Plain data; ``encoding`` is what judges it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, TypeAlias

Value: TypeAlias = bool | int | str | None


class Outcome(Enum):
    """In place of an output: how an operation ended that has none."""

    UNKNOWN = "unknown"
    """It may have taken effect at any time after its call, or never; it stays open to the end."""
    FAILED = "failed"
    """It certainly had no effect."""


UNKNOWN: Final = Outcome.UNKNOWN
FAILED: Final = Outcome.FAILED

Output: TypeAlias = Value | list[Value] | tuple[Value, ...] | set[Value] | frozenset[Value] | Outcome
Input: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A sequential specification by its name; the table in the package's documentation has its operations."""

    name: Literal["log", "register", "cas-register", "key-value", "set", "queue"]
    initial: Value = None

    def starting(self, initial: Value) -> Model:
        """The same model with another initial value (of every key); registers and key-value stores have one."""
        return replace(self, initial=initial)


LOG: Final = Model("log")
REGISTER: Final = Model("register")
CAS_REGISTER: Final = Model("cas-register")
KEY_VALUE: Final = Model("key-value")
SET: Final = Model("set")
QUEUE: Final = Model("queue")

MODELS: Final[dict[str, Model]] = {m.name: m for m in (LOG, REGISTER, CAS_REGISTER, KEY_VALUE, SET, QUEUE)}
"""The models by name, with None as initial value."""


@dataclass(slots=True)
class Operation:
    """One operation of a client, from its call to its return.

    ``process`` is any integer and only shown. ``call`` and ``return_`` are integers of 64 bits in any unit, ``call <=
    return_``; ``return_`` may be None where ``output`` is UNKNOWN or FAILED.
    """

    process: int
    call: int
    return_: int | None
    input: Input
    output: Output


@dataclass(slots=True)
class Call:
    """The call of operation ``id`` in a history of events."""

    process: int
    id: int
    input: Input


@dataclass(slots=True)
class Return:
    """The return of operation ``id`` in a history of events."""

    id: int
    output: Output
