"""What a check is, and what it answers.

A *check* is one rule with an id. Checks that read the same columns and keep the same state are judged together by
one *fold*: ``start(setting) -> feed(columns) ... -> finish() -> outcomes``. A fold sees the events of one log of one
run, in order, in pieces of any size, and its answer does not depend on where the pieces were cut; that is what lets
the same code run in process and on a cluster. Its memory is bounded by live state: the logs of the nodes and the
values that clients named, never the events.

Verdicts as in the architecture page: ``holds``, ``violated``, ``undecided``, ``unexercised``, with the number of
facts judged.

Some checks judge whether a history is well formed (`well_formed`). They are part of every judgement of a history of our
own format, whatever it is asked about; once one of them does not hold, no check holds that sees events which it
`unsettles` (`engine.run`). Source: history-checks.md#ground.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from loghistory.schema import SCHEMA, Kind

from .codes import FAULT, INVOKE, OTHER, census, code
from .sentences import fields_of, listed, worded
from .words import Words

if TYPE_CHECKING:
    from .columns import Columns


_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule that a history can be judged by. Raises ValueError for a record that contradicts itself."""

    id: str
    """Small letters, digits and hyphens; unique among all checks."""
    rule: str
    """The rule in one sentence."""
    source: tuple[str, ...]
    """Where the rule is stated: citations of docs/rules, each ``PAGE.md#ANCHOR``."""
    fact: str
    """What counts as one judged fact."""
    sentence: str | Mapping[str, str]
    """What a violation says, with named fields (`sentences`). A rule that can be broken in several ways has a sentence
    for each way, by a name for it."""
    fields: type[tuple[int, ...]] | None = None
    """For a rule that a kernel judges: the named tuple that the kernel reports, with the fields of the sentence."""
    kinds: tuple[Kind, ...] = ()
    """Event kinds without any one of which there is nothing to judge; what a node states comes with all its events."""
    columns: tuple[str, ...] = ()
    """Columns that these events must carry for it."""
    conclusive: bool = False
    """The events of a violation show it whatever else happened: none that is missing could explain it. Then it stands
    even in a history that is not judged in full."""
    unsettles: frozenset[Kind] = frozenset()
    """For a rule of well-formed histories: the kinds whose events show nothing for certain once it is broken."""
    doubtful: bool = False
    """A correct system may have left a history that breaks the rule: a breach makes it undecided, not violated."""
    waits: bool = False
    """It accuses whoever does nothing any more: no sign that a node does, and does not record it."""
    begins_late: bool = False
    """What it leaves unjudged shows that the record begins late, or lacks somebody."""
    looks_back: bool = False
    """It accuses of what came from nowhere: a record that begins late may lack where that came from."""
    from_start: bool = False
    """It accuses by what a node did before: a record that begins while nodes run lacks that."""
    by_trims: bool = False
    """It accuses of what lacks at the beginning of a log: a trim that is not recorded may be why."""
    explained_by: frozenset[Kind] = frozenset()
    """It accuses of what events of these kinds may explain, where the run shows that there were some, and records none
    (`engine.unrecorded`)."""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"{self.id!r} is not the id of a check: lower-case letters, digits and hyphens")
        named = frozenset().union(*map(fields_of, self.sentences.values()))
        if self.fields is not None and named != set(_names(self.fields)):
            reported = ", ".join(_names(self.fields))
            raise ValueError(f"{self.id}: the sentence has {', '.join(sorted(named))}, but {reported} are reported")

    @property
    def sentences(self) -> Mapping[str, str]:
        """Every sentence, by the way in which the rule is broken; the way of a single one is empty."""
        return {"": self.sentence} if isinstance(self.sentence, str) else self.sentence

    def violation(self, events: Iterable[int], way: str = "", /, **fields: object) -> Violation:
        """A breach shown by these events (their ``seq``; negative ones are none), with the fields of its sentence.

        Raises KeyError for an unknown way and for a field that is missing.
        """
        return Violation(worded(self.sentences[way], fields), tuple(sorted({seq for seq in events if seq >= 0})))


def _names(fields: type[tuple[int, ...]]) -> tuple[str, ...]:
    names: tuple[str, ...] = fields._fields  # type: ignore[attr-defined]
    return names


class Violation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One breach of a rule, with what shows it."""

    sentence: str
    """What happened, for a person."""
    events: tuple[int, ...]
    """``seq`` of the smallest set of events that shows it, ascending."""
    log: str | None = None
    """The log it happened in, where a run has several."""


class Excuse(msgspec.Struct, frozen=True):
    """One line of what a check excuses: facts that break its rule, and whose fault that is."""

    cause: str
    """What excuses them, such as ``wipe`` (`faults.CAUSES`)."""
    nodes: tuple[int, ...]
    """The nodes it happened to, ascending; none where the history names none, or where no node is to blame."""
    facts: int
    first: int
    """``seq`` of the first event that is such a cause; -1 if it is none, as an acks level is."""


class Loss(msgspec.Struct, frozen=True):
    """One line of the loss account: acknowledged appends that are gone and that their acks level does not promise."""

    acks: str
    """``all`` (with write caching or after a wiped disk), ``1`` or ``0``."""
    fault: str
    """The first fault that can have lost them (`faults.fault_of`), or ``none known``."""
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
    """Why it is undecided or unexercised; of a violated one, what else it leaves undecided."""
    excuses: tuple[Excuse, ...] = ()
    """A line for each cause; their facts add up to ``excused``."""


class Recorded:
    """What a run has recorded by now: a kind of which there is no event may be one that it leaves out."""

    def __init__(self) -> None:
        self._kinds: set[int] = set()
        self.asked: set[int] = set()
        """What clients and faults asked for, by column ``f``."""

    def see(self, columns: Columns) -> None:
        """Note the kinds of the next events, and what is asked for in them."""
        kinds = {kind for kind, count in enumerate(census(columns.kind)) if count}
        self._kinds |= kinds
        if len(columns.f) == len(columns.kind):
            for kind in kinds & {FAULT, INVOKE}:
                asked = columns.f[np.flatnonzero(columns.kind == kind)]
                self.asked.update((np.flatnonzero(np.bincount(asked.astype(np.int64) - OTHER)) + OTHER).tolist())

    def lacks(self, kinds: Iterable[Kind]) -> Kind | None:
        """The first of these kinds of which there is no event."""
        return next((kind for kind in kinds if code(kind) not in self._kinds), None)


@dataclass(frozen=True, slots=True)
class Setting:
    """What a fold must know before the first event."""

    voters: tuple[int, ...]
    """The nodes that count for a majority; none: nobody knows."""
    write_caching: bool = False
    """acks=all promises a majority without a flush (raft.md#write-caching)."""
    compiled: bool = False
    """Run kernels as machine code (needs numba), or as they stand."""
    keep: int = 10
    """Violations kept per check; all are counted."""
    idempotent: bool = True
    """One append of a value puts it into the log once at most, however often it is tried again."""
    words: Words = field(default_factory=Words)
    """The codes of column ``f`` and of texts, shared with the reader of the events."""
    seen: Recorded = field(default_factory=Recorded)
    """What is recorded of the run, kept by who hands its events to folds."""
    progress_bound: int | None = None
    """Nanoseconds after which something that waits, while nothing hinders it, waits for ever; None: nobody says."""
    memory_bytes: int | None = None
    """What a leader may hold in memory for appends (raft.md#bounded-memory); None: nobody says."""
    max_in_flight: int | None = None
    """How many requests to one follower may be unanswered (raft.md#in-flight); None: nobody says."""
    nodes: int = 0
    """How many nodes there are, voters or not; 0: nobody says."""
    stated: Mapping[str, Any] = field(default_factory=dict)
    """The configuration of the run, as whoever made it has it: what events say of it is held against that."""
    protocols: frozenset[str] = frozenset()
    """Names of the protocols that the run is of; none: only what clients saw can be judged."""
    recorded: bool = False
    """Nodes recorded what they did, in this log or in another one."""
    foreign: bool = False
    """Another tool wrote the history: its importer has asked for what our own format promises."""


class Fold(typing.Protocol):
    """The state of one family of checks over one log."""

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""

    def finish(self) -> Verdicts:
        """Judge what can only be judged at the end, and answer. Called once."""


@typing.runtime_checkable
class Watchful(typing.Protocol):
    """A fold that can be asked before the end, by who stops a run at its first violation."""

    def violated(self) -> frozenset[str]:
        """The ids of checks that are violated by what was fed so far; others may be, which only the end tells."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What a fold answers: one outcome a check, and the loss account as it sees it."""

    outcomes: tuple[Outcome, ...]
    losses: tuple[Loss, ...] | None = None
    """None: it cannot tell. The first family that can is believed."""
    quiet_since: int | None = None
    """The last event of a node whose record seems to end before the run does; None: there is no such node."""


def quiet_first(answers: Iterable[Verdicts]) -> int | None:
    """The first of the events from which on a node records nothing more, as far as some families tell."""
    return min((each.quiet_since for each in answers if each.quiet_since is not None), default=None)


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a run is of, as far as checks must know: whose rules its nodes follow."""

    name: str
    """As manifests have it (``made_by.protocol``), and as the folders of checks and rules are called."""
    kinds: frozenset[Kind]
    """The events of its nodes. A run whose manifest names no protocol is of this one if such an event occurs in it."""
    brings: Mapping[Kind, frozenset[Kind]] = field(default_factory=dict, compare=False)
    """By a kind of event, those of which there must have been some where there is one: if none is recorded, a check
    that has nothing to judge without them is undecided (`engine.unrecorded`)."""
    shown: Mapping[Kind, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """Of a kind of event there must have been some where there is a fault, or an operation, of such a name: if none is
    recorded, what they may explain is undecided (`Check.explained_by`)."""


@dataclass(frozen=True, slots=True)
class Family:
    """Checks that are judged by one fold. Raises ValueError for columns that the schema does not have."""

    name: str
    checks: tuple[Check, ...]
    kinds: frozenset[Kind]
    """The kinds that the fold must see."""
    columns: tuple[str, ...]
    """The columns that the fold reads, besides ``seq`` and ``kind``."""
    start: Callable[[Setting], Fold]
    protocol: Protocol | None = None
    """Whose runs it judges, by what their nodes recorded; None: any log, by what its clients saw."""
    operations: frozenset[str] = frozenset()
    """What clients may do that it has rules for, by column ``f``; none: it does not depend on what they do."""
    reads_texts: bool = False
    """It depends on what texts say, not only on which ones are equal."""
    histories: str = ""
    """Small histories of its checks, in the notation of `logwitness.explain.transcripts`, which has those of others."""

    def __post_init__(self) -> None:
        for name in (*self.columns, *(name for check in self.checks for name in check.columns)):
            if name not in SCHEMA.names:
                raise ValueError(f"family {self.name}: the history has no column {name!r}")

    @property
    def is_ground(self) -> bool:
        """Whether its checks ask for well-formed histories, which others depend on."""
        return any(check.unsettles for check in self.checks)

    def judges(self, setting: Setting) -> bool:
        """Whether it has anything to say about such a run."""
        of_its_protocol = self.protocol is None or self.protocol.name in setting.protocols
        return of_its_protocol and not (setting.foreign and self.is_ground)


class Tally:
    """What a fold written in plain Python finds of one check: counts, and the first violations."""

    def __init__(self, check: Check, keep: int, seen: Recorded | None = None) -> None:
        """``keep`` violations are worded; all are counted. ``seen``: what is recorded of the run."""
        self.judged = 0
        self.unjudged = 0
        self.check = check
        self.keep = keep
        self._seen = Recorded() if seen is None else seen
        self._sure = 0
        self._violations: list[Violation] = []
        self._resting: dict[tuple[Kind, ...], tuple[int, list[Violation]]] = {}
        self._excuses: list[Excuse] = []
        self.lacks: str | None = None
        """What the record lacks, so that the check cannot hold."""

    @property
    def violated(self) -> int:
        """How many violations there are, but for those that rest on a kind of which nothing is recorded."""
        resting = (found for kinds, (found, _) in self._resting.items() if not self._seen.lacks(kinds))
        return self._sure + sum(resting)

    def excuse(self, cause: str, nodes: Iterable[int] = (), first: int = -1) -> None:
        """One more fact that is excused; see `Excuse`."""
        self._excuses.append(Excuse(cause, tuple(nodes), 1, first))

    def violation(
        self,
        *events: int,
        way: str = "",
        rests_on: Any = (),  # noqa: ANN401 - kinds; typed, it would forbid callers to give fields of one type
        **fields: object,
    ) -> None:
        """One more violation, shown by these events; see `Check.violation`.

        It ``rests_on`` kinds of events of which one should be there and is not: where nothing of such a kind is ever
        recorded, it is undecided (history-checks.md#never-recorded).
        """
        found, kept = self._resting.get(rests_on, (0, [])) if rests_on else (self._sure, self._violations)
        if len(kept) < self.keep:
            kept.append(self.check.violation(events, way, **fields))
        if rests_on:
            self._resting[rests_on] = found + 1, kept
        else:
            self._sure = found + 1

    def more(self, count: int, rests_on: tuple[Kind, ...] = ()) -> None:
        """So many violations more, behind one that is worded."""
        if rests_on:
            found, kept = self._resting.get(rests_on, (0, []))
            self._resting[rests_on] = found + count, kept
        else:
            self._sure += count

    def join(self, other: Tally) -> None:
        """Take what another one of the same check found among the same events; the first violations of both stay."""
        self.judged += other.judged
        self.unjudged += other.unjudged
        self._sure += other._sure
        self._violations = _first((*self._violations, *other._violations), self.keep)
        for kinds, (more, kept) in other._resting.items():
            found, mine = self._resting.get(kinds, (0, []))
            self._resting[kinds] = found + more, _first((*mine, *kept), self.keep)

    def outcome(self, undecided: str | None = None, *, void: bool = False) -> Outcome:
        """What the check says about the log; the verdict follows from the counts.

        ``undecided`` says why it cannot hold; ``void``: nor is it violated, whatever was found.
        """
        unjudged, resting, lacking = self.unjudged, list[Violation](), list[str]()
        for kinds, (found, kept) in self._resting.items():
            kind = self._seen.lacks(kinds)
            if kind is None:
                resting += kept
            else:
                first = f", which may explain this: {kept[0].sentence}" if kept else ""
                more = f" (and {found - 1:,} more)" if found > 1 else ""
                unjudged += found
                lacking.append(f"no {kind} event is recorded{first}{more}")
        undecided, kept = undecided or "; ".join(lacking) or self.lacks, self._violations
        return outcome(
            self.check,
            self.judged,
            0 if void else self.violated,
            () if void else tuple(_first((*kept, *resting), self.keep) if resting else kept),
            excuses=summed(self._excuses),
            unjudged=unjudged,
            undecided=undecided,
        )


def _first(found: Iterable[Violation], keep: int) -> list[Violation]:
    """So many violations, those that were first."""
    return sorted(found, key=lambda each: each.events[-1:])[:keep]


def violated(tallies: Iterable[Tally]) -> frozenset[str]:
    """The ids of the checks of which a violation has been counted."""
    return frozenset(each.check.id for each in tallies if each.violated)


def outcome(
    check: Check,
    judged: int,
    violated: int = 0,
    violations: tuple[Violation, ...] = (),
    *,
    excuses: tuple[Excuse, ...] = (),
    unjudged: int = 0,
    undecided: str | None = None,
) -> Outcome:
    """The outcome that follows from the counts; ``undecided`` says why the fold gave up, if it did."""
    reason = None
    if violated and check.doubtful:
        verdict = Verdict.UNDECIDED
        shown = violations[0] if violations else Violation(check.rule, ())
        reason = f"{shown.sentence} (seq {listed(list(shown.events))})" if shown.events else shown.sentence
        unjudged, violated, violations = unjudged + violated, 0, ()
    elif violated:
        verdict, reason = Verdict.VIOLATED, undecided
    elif undecided is not None:
        verdict, reason = Verdict.UNDECIDED, undecided
    elif judged:
        verdict = Verdict.HOLDS
    else:
        verdict = Verdict.UNEXERCISED
        reason = "what it needs is not in the history" if unjudged else f"no fact: {check.fact}"
    excused = sum(each.facts for each in excuses)
    return Outcome(check.id, verdict, judged, violated, excused, unjudged, violations, reason, excuses)


def summed(excuses: Iterable[Excuse]) -> tuple[Excuse, ...]:
    """The same with one line a cause."""
    found: dict[str, Excuse] = {}
    for each in excuses:
        other = found.get(each.cause, each)
        if other is not each:
            nodes = tuple(sorted({*other.nodes, *each.nodes}))
            firsts = [first for first in (other.first, each.first) if first >= 0]
            each = Excuse(each.cause, nodes, other.facts + each.facts, min(firsts, default=-1))
        found[each.cause] = each
    return tuple(found[cause] for cause in sorted(found))
