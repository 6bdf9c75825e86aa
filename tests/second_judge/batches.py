"""A log as its last batch, which knows the one before it; and a node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(eq=False)
class Batch:
    """Some offsets of a log, and through ``before`` the whole log up to them."""

    offset: int
    last: int
    term: int
    value: int | None
    before: Batch | None
    hidden: bool = False
    diverged: bool = False
    """It, or one before it, broke log matching."""
    acks: int | None = None
    seq: int = -1
    """The event that first showed it."""
    children: list[Batch] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.before is not None:
            self.before.children.append(self)

    def subtree(self) -> Iterator[Batch]:
        """It and everything behind it in any log, as far as that is shown."""
        if not self.hidden:
            yield self
            for child in self.children:
                yield from child.subtree()

    def log(self) -> Iterator[Batch]:
        """The log up to here, the last batch first, the empty log at the end."""
        batch: Batch | None = self
        while batch is not None:
            yield batch
            batch = batch.before

    def at(self, offset: int) -> Batch | None:
        """The batch of this log that holds the offset, the empty log if none can; None if the log ends before it."""
        return None if offset > self.last else next(b for b in self.log() if b.offset <= offset or b.before is None)

    def up_to(self, offset: int) -> Batch:
        """This log without every batch that reaches the offset."""
        return next(b for b in self.log() if b.last < offset or b.before is None)


@dataclass(frozen=True, eq=False)
class Node:
    """What is known of one node."""

    tip: Batch
    shown: bool = False
    """It is recorded from a start on."""
    down: bool = False
    """Its process ended."""
    takes: bool = False
    """What was not flushed may go with its next start: power was lost, or a disk failed."""
    term: int | None = None
    commit: int | None = None
    visible: int | None = None
    flushed: int | None = None
    leads: int | None = None
    """The term that it leads."""
    led: int | None = None
    """The last term that it led."""
    gap: tuple[int, int] | None = None
    """The gap that the events just before told it of: first and last offset."""


def covers(log: Batch, batch: Batch) -> bool:
    """Whether the log holds the batch."""
    return log.at(batch.last) is batch


def shared(one: Batch, other: Batch) -> Batch:
    """What two logs have in common, at least the empty log."""
    while one is not other:
        if one.last >= other.last and one.before is not None:
            one = one.before
        else:
            assert other.before
            other = other.before
    return one
