"""What the installed parts know, each by name: the entry point group ``logwitness.explainers``.

An explainer is a function without arguments that yields *topics*, plain dictionaries, so that the parts need nothing
of each other:

    kind     check, mutant, rule (a function of an implementation), invariant, operator, proof
    name     its id
    says     a sentence
    source   citations of the rules pages that state it
    details  pairs of a label and a text, to be shown with it
    names    other topics that belong to it: kind -> names
    shows    commands, or a place, that show more

Topics of one kind and name that several parts offer become one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any

from ..extras import not_installed

EXPLAINERS = "logwitness.explainers"
KINDS = ("check", "invariant", "operator", "proof", "rule", "mutant")


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing that can be explained; the fields as above."""

    kind: str
    name: str
    says: str = ""
    source: Sequence[str] = ()
    details: Sequence[tuple[str, str]] = ()
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    shows: Sequence[str] = ()

    def owns(self, other: Topic) -> bool:
        """Whether the other one belongs to it."""
        return other.name in self.names.get(other.kind, ())

    def and_(self, other: Topic) -> Topic:
        """What two parts say of the same thing."""
        return Topic(
            self.kind,
            self.name,
            self.says or other.says,
            tuple(dict.fromkeys([*self.source, *other.source])),
            (*self.details, *other.details),
            {kind: (*self.names.get(kind, ()), *other.names.get(kind, ())) for kind in {**self.names, **other.names}},
            (*self.shows, *other.shows),
        )


class Topics:
    """All topics of the installed parts; ``silent`` names the parts that could not say anything, and why."""

    def __init__(self, topics: Iterable[Topic], silent: Sequence[str] = ()) -> None:
        together: dict[tuple[str, str], Topic] = {}
        for topic in topics:
            key = (topic.kind, topic.name)
            together[key] = together[key].and_(topic) if key in together else topic
        self.all = tuple(together.values())
        self.silent = tuple(silent)

    def named(self, name: str, kind: str | None = None) -> list[Topic]:
        """The topics of this name, in the order of their kinds."""
        found = [topic for topic in self.all if topic.name == name and kind in (None, topic.kind)]
        return sorted(found, key=lambda topic: KINDS.index(topic.kind) if topic.kind in KINDS else len(KINDS))

    def citing(self, citation: str) -> list[Topic]:
        """The topics that a passage of the rules is a source of."""
        return [topic for topic in self.all if citation in topic.source]

    def around(self, topics: Sequence[Topic]) -> list[Topic]:
        """The invariants among these topics, or that these belong to or share a source with, and all that is theirs."""
        invariants = [topic for topic in topics if topic.kind == "invariant"]
        if not invariants:
            there = [each for each in self.all if each.kind == "invariant"]
            invariants = [
                each for each in there if any(topic.name in each.names.get(topic.kind, ()) for topic in topics)
            ]
            cited = {citation for topic in topics for citation in topic.source}
            invariants = invariants or [each for each in there if cited & set(each.source)]
        found = [*topics, *invariants]
        for each in invariants:
            for kind in KINDS:
                for name in each.names.get(kind, ()):
                    found += self.named(name, kind) or [Topic(kind, name)]
        return list({(topic.kind, topic.name): topic for topic in found}.values())


@cache
def gather() -> Topics:
    """Ask every installed part, once in a process; those that fail are in ``silent``, with the reason."""
    found: list[Topic] = []
    silent = []
    for point in sorted(metadata.entry_points(group=EXPLAINERS), key=lambda point: point.name):
        try:
            explainer: Callable[[], Iterable[Mapping[str, Any]]] = point.load()
            found += [Topic(**topic) for topic in explainer()]
        except ImportError as problem:
            silent.append(f"{point.name}: {not_installed(problem)}")
        except ValueError as problem:  # what the part is made of is not as it should be
            silent.append(f"{point.name}: {problem}")
    return Topics(found, silent)


def close(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are closest to this one."""
    there = sorted(set(known))
    parts = [each for each in there if name.lower() in each.lower()]
    return list(dict.fromkeys([*difflib.get_close_matches(name, there, 5), *parts]))[:8]
