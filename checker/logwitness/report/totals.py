"""What all histories of one command come to, as one line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..checks.contract import Verdict
from ..directories import Left
from ..engine.run import HOLDS, VIOLATED, RunVerdict


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: ``counted(1, "event")`` is "1 event"; ``many`` is the plural if it is not ``one`` + s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


@dataclass(slots=True)
class Totals:
    """Counts over the histories that were judged, and the files that were not."""

    histories: Counter[str] = field(default_factory=Counter)
    """Histories by what became of them, one of `_ENDS`."""
    events: int = 0
    facts: int = 0
    """Facts judged, over all checks."""
    unjudged: int = 0
    """Facts that could not be judged because a history does not show what they need."""
    excused: int = 0
    """Facts that break a rule for a reason that the rule names."""
    left: Counter[Left] = field(default_factory=Counter)
    """What was passed over in directories."""
    fruitless: int = 0
    """Directories that hold no history, or cannot be read."""

    def add(self, verdict: RunVerdict) -> None:
        """Count a history that was judged."""
        self.histories[_end(verdict)] += 1
        self.events += verdict.events
        self.facts += sum(each.judged for each in verdict.checks)
        self.unjudged += sum(each.unjudged for each in verdict.checks)
        self.excused += sum(each.excused for each in verdict.checks)

    @property
    def bad(self) -> bool:
        """Whether anything at all does not hold."""
        return bool(self.fruitless) or any(end not in ("holds", "known") for end in self.histories)

    def __str__(self) -> str:
        """The line."""
        number = counted(self.histories.total(), "history", "histories")
        ends = [(self.histories[end], words) for end, words in _ENDS.items() if self.histories[end]]
        if len(ends) > 1:
            outcome = ", ".join(f"{count:,} {words[count > 1]}" for count, words in ends)
        else:
            outcome = "".join(f"all {words[1]}" if count > 1 else words[0] for count, words in ends)
        parts = [f"{number}: {outcome}" if outcome else number]
        if self.events:
            facts = [counted(self.events, "event"), counted(self.facts, "fact")]
            besides = [(self.unjudged, "unjudged"), (self.excused, "excused")]
            parts.append(", ".join([*facts, *(f"{count:,} {word}" for count, word in besides if count)]))
        files = [self.passed_over] if self.passed_over else []
        if self.fruitless:
            files.append(f"{counted(self.fruitless, 'directory', 'directories')} without a history")
        return "; ".join([*parts, *([", ".join(files)] if files else [])])

    @property
    def passed_over(self) -> str:
        """What was skipped or excluded, as in "2 skipped, 1 excluded"; empty if nothing was."""
        excluded = self.left[Left.EXCLUDED]
        skipped = self.left.total() - excluded
        counts = ((skipped, "skipped"), (excluded, "excluded"))
        return ", ".join(f"{number:,} {word}" for number, word in counts if number)


_ENDS = {
    "holds": ("holds", "hold"),
    "violated": ("violated", "violated"),
    "known": ("violated (known)", "violated (known)"),
    "undecided": ("undecided", "undecided"),
    "unexercised": ("unexercised", "unexercised"),
    "unreadable": ("unreadable", "unreadable"),
}
"""What can become of a history, worded for one and for several. Known: violated, and the baseline has it all."""


def _end(verdict: RunVerdict) -> str:
    """As the exit status has it, so that the line never contradicts it."""
    if verdict.exit_status == HOLDS:
        return "known" if verdict.verdict is Verdict.VIOLATED else "holds"
    if verdict.exit_status == VIOLATED:
        return "violated"
    return "undecided" if any(each.verdict is Verdict.UNDECIDED for each in verdict.checks) else "unexercised"
