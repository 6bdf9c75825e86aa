"""What a check answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """The answer to "is this history linearizable?"."""

    OK = "ok"
    ILLEGAL = "illegal"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why a verdict is unknown: the time or the memory allowed did not suffice, or the worker failed."""

    TIMEOUT = "timeout"
    MEMORY = "memory"
    WORKER = "worker"
    """The worker process was ended by something else, for example by the kernel, or did not answer as a worker."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a history that can be judged by itself: one key of a key-value store, elsewhere the whole history.

    Operations are named by their position in the history that was given (by their id, for events). Failed operations
    and reads of unknown outcome say nothing and are in no partition.
    """

    operations: tuple[int, ...]
    linearizations: tuple[tuple[int, ...], ...]
    """Orders in which operations can have taken effect, longest first: one that is complete if there is any, else
    the longest ones that were found, which end where the search was stuck."""
    left_out: int
    """How many more were found and not listed, since they were too long."""

    @property
    def complete(self) -> bool:
        """Whether the listed linearizations prove that the partition is linearizable."""
        return not self.operations or any(len(order) == len(self.operations) for order in self.linearizations)

    @property
    def unplaced(self) -> tuple[int, ...]:
        """The operations that the longest linearization could not place: where to look first."""
        if not self.linearizations:
            return self.operations
        placed = set(self.linearizations[0])
        return tuple(operation for operation in self.operations if operation not in placed)


@dataclass(frozen=True, slots=True)
class Result:
    """The answer about one history. Its truth value is ``verdict == "ok"``, so that unknown never passes a test."""

    verdict: Verdict
    reason: Reason | None = None
    """Why the verdict is unknown; None if it is not."""
    partitions: tuple[Partition, ...] = ()
    """How far the search came: in every partition of a history that is linearizable, else in the one that is not, or
    that could not be decided. Empty where no explanation was asked for or the worker did not live to give one."""
    too_large: bool = False
    """Whether the partitions come without linearizations because those would not have fitted into memory."""

    seconds: float = field(default=0.0, compare=False)
    """Processor time that the worker took, where one history was asked about and it lived to answer."""

    def __bool__(self) -> bool:
        return self.verdict is Verdict.OK
