"""Why a history is not judged in full: lines that were set aside, operations that no rule is for, or of two logs.

The first two may explain what a check found, and may be wrong themselves. So a check that holds without them is
undecided, and so is a violation, unless no event that is missing could explain it (`Check.conclusive`). Where times
say of two operations that one was over long before the other began, and the order of a history of another tool says
that it was not, or the other way round, nothing stands (history-checks.md#time-goes-forward). A check of operations
that found nothing to judge is undecided where there are some that nobody knows. And that the number of an operation is
used once in its log is not enough: it is used once in the run (history-checks.md#operations-are-new).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa

from loghistory import Kind, RunSource
from loghistory.arrays import Mask, coded, slots, valid
from loghistory.errors import quote
from loghistory.quarantine import set_aside_in_words

from ..checks.columns import Array
from ..checks.contract import Outcome, Verdict
from ..checks.well_formed.operations import CHECKS as OPERATIONS
from ..checks.well_formed.operations import NEW

_NAMED = 5
"""Operations that a reason names."""
_LONGEST = 40
_NEVER = -(1 << 62)
_SLACK = 1_000_000_000
"""Nanoseconds by which times may contradict the order: an event is stamped a moment before it is written."""
_BEGINS, _ENDS = 1, 2
_TURNS = {str(Kind.INVOKE): _BEGINS, str(Kind.OK): _ENDS, str(Kind.FAIL): _ENDS}
_NEW = OPERATIONS[NEW].id


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The operations that have a meaning somewhere, by column ``f``."""

    operations: frozenset[str]
    parts: frozenset[str] = frozenset()
    """Of operations with several parts: what the parts may be."""
    parted: frozenset[str] = frozenset()
    """Operations that are understood by their parts alone."""


@dataclass(slots=True)
class Doubt:
    """What of one history was not judged; `see` its events as they are judged."""

    vocabulary: Vocabulary | None = None
    """None: whatever the operations are, they are judged."""
    set_aside: Counter[str] = field(default_factory=Counter)
    """Lines or events that a lenient reading set aside, by reason."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Operations, or parts of some, that nothing is known of, by column ``f``."""
    operations: int = 0
    """Operations, and parts of them, in all, where some may be unknown."""
    by_log: bool = False
    """Each log is judged apart, and operations of several may have the same number."""
    timed: bool = False
    """Whether the times of operations are held against their order: those of our own format are judged by a check."""
    turned: str = ""
    """What is said of operations whose times contradict their order, if there are any."""
    shared: str = ""
    """What is said of operations of several logs that have the same number, if there are any."""
    _logs: dict[str, int] = field(default_factory=dict)
    _begun: list[tuple[Array, Array]] = field(default_factory=list)
    """The numbers of operations that were begun, and of their logs."""
    _latest: tuple[int, int] = (_NEVER, _NEVER)
    """When the last operation began, and ended, of those before."""

    def see(self, batch: pa.RecordBatch) -> None:
        """Take the next events, with columns kind and f, and time if that counts; where operations have parts also txn,
        value and text."""
        if self.timed and not self.turned:
            self._look_at_times(batch)
        vocabulary = self.vocabulary
        if vocabulary is None:
            return
        f = batch.column("f")
        invoked = coded(batch.column("kind"), lambda word: int(word == Kind.INVOKE), 0, np.int8) == 1
        if self.by_log and batch.column("log").null_count < batch.num_rows:
            self._number(batch, invoked)
        if not vocabulary.parts:
            self._count(f, invoked, vocabulary.operations)
            return
        part = valid(batch.column("txn"))
        self._count(f, invoked & ~part, vocabulary.operations)
        self._count(f, invoked & part, vocabulary.parts)
        if vocabulary.parted:
            said = valid(batch.column("value")) | valid(batch.column("text"))
            self._name(f, invoked & ~part & said, lambda word: word in vocabulary.parted)

    def _look_at_times(self, batch: pa.RecordBatch) -> None:
        """Compare the times at which operations began and ended with the order in which they did."""
        turns, time = (
            coded(batch.column("kind"), lambda word: _TURNS.get(word, 0), 0, np.int8),
            slots(batch.column("time")),
        )
        latest = []
        for turn, known in zip((_BEGINS, _ENDS), self._latest, strict=True):
            of_turn = np.where(turns == turn, time, _NEVER)
            latest.append(np.maximum.accumulate(np.concatenate(([known], of_turn))))
        begun, ended = latest
        before = np.where(turns == _BEGINS, ended[:-1], begun[:-1])
        back = np.flatnonzero((turns > 0) & (time < before - _SLACK))
        if len(back):
            place = int(back[0])
            begins = turns[place] == _BEGINS
            words = ("began", "ended") if begins else ("ended", "began")
            self.turned = (
                f"time goes back: an operation {words[0]} at {time[place]:,} ns (event {batch.column('seq')[place]}) "
                f"behind one that {words[1]} at {before[place]:,} ns"
            )
        self._latest = int(begun[-1]), int(ended[-1])

    def _number(self, batch: pa.RecordBatch, invoked: Mask) -> None:
        """Keep which numbers the operations of named logs have."""
        log, op = batch.column("log"), batch.column("op")
        numbered = np.flatnonzero(invoked & valid(log) & valid(op) & ~valid(batch.column("txn")))
        if len(numbered):
            names = [self._logs.setdefault(name, len(self._logs)) for name in log.dictionary.to_pylist()]
            logs = np.array(names, dtype=np.int32)[slots(log.indices)[numbered]]
            self._begun.append((slots(op)[numbered], logs))

    def settle(self) -> None:
        """Find the operations of several logs that have the same number; what was kept for that is let go."""
        if len(self._logs) > 1:
            ops, logs = (np.concatenate(column) for column in zip(*self._begun, strict=True))
            order = np.lexsort((logs, ops))
            ops, logs = ops[order], logs[order]
            again = np.flatnonzero((np.diff(ops) == 0) & (np.diff(logs) != 0))
            if len(again):
                names, place = list(self._logs), int(again[0])
                one, other = (quote(names[logs[each]][:_LONGEST]) for each in (place, place + 1))
                more = f" (and {len(again) - 1:,} more)" if len(again) > 1 else ""
                self.shared = f"operation {ops[place]} is begun in log {one} and in log {other}{more}"
        self._logs, self._begun = {}, []

    def _count(self, f: pa.DictionaryArray, which: Mask, known: Collection[str]) -> None:
        self.operations += int(np.count_nonzero(which))
        self._name(f, which, lambda word: word not in known)

    def _name(self, f: pa.DictionaryArray, which: Mask, unknown: Callable[[str], bool]) -> None:
        words = f.dictionary.to_pylist()
        codes = [code for code, word in enumerate(words) if unknown(word)]
        if codes:
            counts = np.bincount(slots(f.indices)[which & valid(f)], minlength=len(words))
            self.unknown.update({words[code]: int(counts[code]) for code in codes if counts[code]})

    def read(self, source: RunSource) -> None:
        """Take note of what a reading of the source to its end set aside."""
        self.set_aside = Counter(source.set_aside)
        self.settle()

    @property
    def notes(self) -> list[str]:
        """What a report says of it besides the verdicts; what was set aside is in the notes of the source."""
        return [f"Not judged: {self._unknown()}."] if self.unknown else []

    def _unknown(self) -> str:
        words = [(word, f"{quote(word[:_LONGEST])[1:-1]} ({count:,})") for word, count in sorted(self.unknown.items())]
        named = ", ".join(each for _, each in words[:_NAMED])
        more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
        return f"there is no rule for the operations {named}{more}, {self.unknown.total():,} of {self.operations:,}"

    def weigh(
        self, outcomes: Sequence[Outcome], conclusive: Collection[str], by_operations: Collection[str] | None = None
    ) -> tuple[Outcome, ...]:
        """The outcomes as far as they stand.

        ``conclusive`` are the checks whose violations stand whatever is missing, ``by_operations`` those that judge
        operations of clients (None: all).
        """
        self.settle()
        aside = set_aside_in_words(self.set_aside) if self.set_aside else ""
        result = []
        for each in outcomes:
            strange = self._unknown() if self.unknown and (by_operations is None or each.id in by_operations) else ""
            why = "; ".join(filter(None, (aside, self.turned, strange)))
            if strange and each.verdict is Verdict.UNEXERCISED:
                each = msgspec.structs.replace(each, verdict=Verdict.UNDECIDED, reason=strange)
            elif self.shared and each.id == _NEW and each.verdict is Verdict.HOLDS:
                each = msgspec.structs.replace(each, verdict=Verdict.UNDECIDED, reason=self.shared)
            elif why:
                each = _weighed(each, why, each.id in conclusive and not self.turned)
            result.append(each)
        return tuple(result)


def _weighed(outcome: Outcome, why: str, conclusive: bool) -> Outcome:
    if outcome.verdict is Verdict.HOLDS:
        return msgspec.structs.replace(outcome, verdict=Verdict.UNDECIDED, reason=why)
    if outcome.verdict is not Verdict.VIOLATED or conclusive:
        return outcome
    return explained(outcome, why)


def explained(outcome: Outcome, why: str) -> Outcome:
    """What was violated, undecided: ``why`` says what may explain it."""
    first = outcome.violations[0].sentence if outcome.violations else "a violation"
    more = f" (and {outcome.violated - 1:,} more)" if outcome.violated > 1 else ""
    return msgspec.structs.replace(
        outcome,
        verdict=Verdict.UNDECIDED,
        violated=0,
        violations=(),
        unjudged=outcome.unjudged + outcome.violated,
        reason=f"{why}, which may explain this: {first}{more}",
    )
