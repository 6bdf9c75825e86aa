"""Families that installed packages add, through the entry point group ``logwitness.families``.

An entry point names a `Family`. Others wrote it, so nothing it does ends a judgement: one that cannot be loaded, or
whose names are taken, is left out with one sentence that names it; one that fails while it judges leaves its own
checks undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points

import msgspec

from loghistory.errors import printable

from .columns import Columns
from .contract import Family, Fold, Outcome, Setting, Verdict, Verdicts, outcome

GROUP = "logwitness.families"
_LONGEST = 200


def admitted(house: Sequence[Family]) -> tuple[tuple[Family, ...], tuple[str, ...]]:
    """The families of installed packages, by the names of their entry points, and why others are left out."""
    families: list[Family] = []
    problems: list[str] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        try:
            families.append(_admitted(entry, [*house, *families]))
        except Exception as problem:  # whatever others do must not end a judgement
            problems.append(f"The family {_name(entry)} is left out: {_said(problem)}.")
    return tuple(families), tuple(problems)


def distributions() -> list[str]:
    """Name and version of every installed package that adds families."""
    found = {entry.dist for entry in entry_points(group=GROUP)}
    return sorted(f"{each.name} {each.version}" for each in found if each is not None)


def _name(entry: EntryPoint) -> str:
    package = "" if entry.dist is None else f" of {entry.dist.name} {entry.dist.version}"
    return printable(f"{entry.name}{package}")


def _said(problem: Exception) -> str:
    """What went wrong, as part of a sentence."""
    if isinstance(problem, ModuleNotFoundError) and problem.name:
        return f"the module {printable(problem.name)} is not installed"
    text = " ".join(str(problem).split()).rstrip(".")
    words = text if isinstance(problem, _RefusedError) else f"{type(problem).__name__}: {text}"
    return printable(words[:_LONGEST])


class _RefusedError(Exception):
    """A family that is none, or does not fit beside the others."""


def _admitted(entry: EntryPoint, others: Sequence[Family]) -> Family:
    family = entry.load()
    if not isinstance(family, Family):
        raise _RefusedError(f"{entry.value} is a {type(family).__name__}, not a Family")
    if not family.checks:
        raise _RefusedError("it has no checks")
    ids = [check.id for check in family.checks]
    for id_ in ids:
        if ids.count(id_) > 1:
            raise _RefusedError(f"it has two checks {id_}")
    for other in others:
        if other.name == family.name:
            raise _RefusedError(f"there is another family {family.name}")
        for check in other.checks:
            if check.id in ids:
                raise _RefusedError(f"the family {other.name} has a check {check.id} already")
    return replace(family, start=_Guarded(family, _name(entry), family.start))


@dataclass(frozen=True, slots=True)
class _Guarded:
    """Starts a fold that cannot do harm."""

    family: Family
    name: str
    begin: Callable[[Setting], Fold]

    def __call__(self, setting: Setting) -> Fold:
        return _GuardedFold(self, setting)


class _GuardedFold:
    """The fold of a third party's family, until it fails."""

    def __init__(self, guarded: _Guarded, setting: Setting) -> None:
        self._guarded = guarded
        self._keep = setting.keep
        self._fold: Fold | None = None
        self._failed: str | None = None
        try:
            self._fold = guarded.begin(setting)
        except Exception as problem:
            self._fail(problem)

    def feed(self, columns: Columns) -> None:
        """Take the next events, unless it failed before."""
        if self._fold is not None:
            try:
                self._fold.feed(columns)
            except Exception as problem:
                self._fail(problem)

    def finish(self) -> Verdicts:
        """Its answer; undecided if there is none. The loss account is told by the families of the house."""
        if self._fold is not None:
            try:
                return Verdicts(self._checked(self._fold.finish()))
            except Exception as problem:
                self._fail(problem)
        return Verdicts(tuple(outcome(check, 0, undecided=self._failed) for check in self._guarded.family.checks))

    def _fail(self, problem: Exception) -> None:
        if isinstance(problem, MemoryError):
            raise problem  # that is no fault of the family
        self._fold = None
        self._failed = f"the family {self._guarded.name} failed: {_said(problem)}"

    def _checked(self, answer: Verdicts) -> tuple[Outcome, ...]:
        """The outcomes, if there is one for each check and all is what it should be."""
        found = {each.id: each for each in answer.outcomes}
        ids = [check.id for check in self._guarded.family.checks]
        if len(found) != len(answer.outcomes) or set(found) != set(ids):
            raise _RefusedError(f"it answered for {', '.join(map(str, found))}, not for {', '.join(ids)}")
        return tuple(_sound(found[id_], self._keep) for id_ in ids)


def _sound(each: Outcome, keep: int) -> Outcome:
    """The outcome with the first ``keep`` violations. Raises if its types are wrong or it contradicts itself."""
    each = msgspec.convert(msgspec.to_builtins(each), Outcome)
    if min(each.judged, each.violated, each.excused, each.unjudged) < 0:
        raise _RefusedError(f"{each.id} has a count below 0")
    if (each.verdict is Verdict.VIOLATED) != (each.violated > 0) or len(each.violations) > each.violated:
        counts = f"violations counted: {each.violated}, shown: {len(each.violations)}"
        raise _RefusedError(f"{each.id} is {each.verdict}; {counts}")
    return msgspec.structs.replace(each, violations=each.violations[:keep])
