"""What a check is, and what it answers.

A *check* is one rule with an id. Checks that read the same columns and keep the same state are judged together by
one *fold*: ``start(setting) -> feed(columns) ... -> finish() -> outcomes``. A fold sees the events of one log of one
run, in order, in pieces of any size, and its answer does not depend on where the pieces were cut; that is what lets
the same code run in process and on a cluster. Its memory is bounded by live state: the logs of the nodes and the
values that clients named, never the events.

Verdicts as in the architecture page: ``holds``, ``violated``, ``undecided``, ``unexercised``, with the number of
facts judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import msgspec

from loghistory.schema import Kind

from .codes import Words

if TYPE_CHECKING:
    from .columns import Columns


class Verdict(StrEnum):
    """The answer of one check; the order of severity is that of `worst`."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNDECIDED = "undecided"
    UNEXERCISED = "unexercised"


def worst(verdicts: list[Verdict]) -> Verdict:
    """The verdict of several: violated, else undecided, else holds; unexercised only if all are or none is given."""
    for verdict in (Verdict.VIOLATED, Verdict.UNDECIDED, Verdict.HOLDS):
        if verdict in verdicts:
            return verdict
    return Verdict.UNEXERCISED


@dataclass(frozen=True, slots=True)
class Check:
    """One rule that a history can be judged by."""

    id: str
    rule: str
    """The rule in one sentence."""
    section: str
    """Document and section that state it."""
    fact: str
    """What counts as one judged fact."""
    kinds: tuple[Kind, ...]
    """Event kinds without any one of which there is nothing to judge; what a node states comes with all its events."""
    columns: tuple[str, ...]
    """Columns that these events must carry for it."""


class Violation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One breach of a rule."""

    sentence: str
    """What happened, for a person."""
    events: tuple[int, ...]
    """``seq`` of the smallest set of events that shows it, ascending."""
    log: str | None = None
    """The log it happened in, where a run has several."""


class Loss(msgspec.Struct, frozen=True):
    """One line of the loss account: acknowledged appends that are gone and that their acks level does not promise."""

    acks: str
    """``all`` (with write caching or after a wiped disk), ``1`` or ``0``."""
    fault: str
    """The first fault after the acknowledgement, else the last one before it, else ``none recorded``."""
    batches: int
    """Acknowledged appends lost."""
    entries: int
    """Offsets that they filled."""
    bytes: int
    """Their size, where it was recorded."""
    first_time: int
    """Time of the first acknowledgement among them, nanoseconds."""
    last_time: int
    """Time of the last one: the loss reaches from ``first_time`` to here."""
    events: tuple[int, ...]
    """``seq`` of the first few acknowledgements."""
    log: str | None = None


class Outcome(msgspec.Struct, frozen=True):
    """What one check says about one log of one run."""

    id: str
    verdict: Verdict
    judged: int
    """Facts judged."""
    violated: int
    """Violations in all; ``violations`` holds the first few."""
    excused: int
    """Facts that break the rule with an excuse that the rule names (compaction, a wiped disk, a permitted loss)."""
    unjudged: int
    """Facts that could not be judged because the history does not show what they need."""
    violations: tuple[Violation, ...] = ()
    reason: str | None = None
    """Why it is undecided or unexercised."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a fold must know before the first event."""

    voters: tuple[int, ...]
    """The nodes that count for a majority."""
    write_caching: bool = False
    """acks=all promises a majority without a flush (raft.md#write-caching)."""
    compiled: bool = False
    """Run kernels as machine code (needs numba), or as they stand."""
    keep: int = 10
    """Violations kept per check; all are counted."""
    idempotent: bool = True
    """One append of a value puts it into the log once at most, however often it is tried again."""
    words: Words = field(default_factory=Words)
    """The codes of column ``f``, shared with the reader of the events."""


class Fold(Protocol):
    """The state of one family of checks over one log."""

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""

    def finish(self) -> Verdicts:
        """Judge what can only be judged at the end, and answer. Called once."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What a fold answers: one outcome a check, and the loss account as it sees it."""

    outcomes: tuple[Outcome, ...]
    losses: tuple[Loss, ...] | None = None
    """None: it cannot tell. The first family that can is believed."""


@dataclass(frozen=True, slots=True)
class Family:
    """Checks that are judged by one fold."""

    name: str
    checks: tuple[Check, ...]
    kinds: frozenset[Kind]
    """The kinds that the fold must see."""
    columns: tuple[str, ...]
    """The columns that the fold reads, besides ``seq`` and ``kind``."""
    start: Callable[[Setting], Fold]
    of_nodes: bool = False
    """A history without internal events leaves it nothing to judge."""


def outcome(
    check: Check,
    judged: int,
    violated: int = 0,
    violations: tuple[Violation, ...] = (),
    *,
    excused: int = 0,
    unjudged: int = 0,
    undecided: str | None = None,
) -> Outcome:
    """The outcome that follows from the counts; ``undecided`` says why the fold gave up, if it did."""
    reason = None
    if violated:
        verdict = Verdict.VIOLATED
    elif undecided is not None:
        verdict, reason = Verdict.UNDECIDED, undecided
    elif judged:
        verdict = Verdict.HOLDS
    else:
        verdict = Verdict.UNEXERCISED
        reason = "what it needs is not in the history" if unjudged else f"no fact: {check.fact}"
    return Outcome(check.id, verdict, judged, violated, excused, unjudged, violations, reason)
