"""What a run says of its configuration, held against what the configuration of the run says itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from .codes import among
from .columns import Columns
from .contract import Check, Setting, Tally, Verdicts, violated
from .sentences import listed

_LONGEST = 40
_KEPT = 1 << 10
"""Texts whose meaning is remembered."""


class AsConfiguredFold:
    """Judges the events that say how something is configured; a protocol says which, and what of them (`stated`)."""

    check: ClassVar[Check]
    wanted: ClassVar[tuple[int, ...]]
    """The kinds of these events, by code."""

    def __init__(self, setting: Setting) -> None:
        self.stated: Mapping[str, Any] = setting.stated
        self._tally = Tally(self.check, setting.keep, setting.seen)
        self._words = setting.words
        self._said: dict[int, Mapping[str, Any]] = {}
        self._counted: dict[str, dict[int, int]] = {}

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        if not self.stated:
            return
        rows = columns.where(among(columns.kind, self.wanted)).lists()
        for at in range(len(rows.kind)):
            self.take(rows, at)

    def take(self, rows: Columns, at: int) -> None:
        """Judge what one event says, or count who it is of."""
        raise NotImplementedError

    def part(self, name: str) -> Mapping[str, Any]:
        """What the configuration says under a name, as a mapping; empty if it says nothing."""
        found = self.stated.get(name)
        return found if isinstance(found, Mapping) else {}

    def said(self, code: int) -> Mapping[str, Any]:
        """What a text says, by its code; empty if it is no object."""
        if code not in self._said:
            text, found = self._words.text(code), None
            try:
                found = msgspec.json.decode(text) if text is not None else None
            except (msgspec.MsgspecError, ValueError, RecursionError):
                found = None
            if len(self._said) >= _KEPT:
                self._said.clear()
            self._said[code] = found if isinstance(found, dict) else {}
        return self._said[code]

    def compare(self, stated: Mapping[str, Any], said: Mapping[str, Any], seq: int) -> None:
        """What is said under a name that the configuration has is what that says."""
        both = sorted(stated.keys() & said.keys())
        self._tally.judged += bool(both)
        for name in both:
            if stated[name] != said[name]:
                place = {"name": name, "said": _shown(said[name]), "stated": _shown(stated[name])}
                self._tally.violation(seq, way="other", **place)
                return

    def count(self, what: str, node: int, seq: int, *names: str) -> None:
        """One more node that acts as something, of which there are as many as the first of these names says."""
        most = next((self.stated[name] for name in names if type(self.stated.get(name)) is int), None)
        nodes = self._counted.setdefault(what, {})
        if most is None or node in nodes or len(nodes) > most:
            return
        nodes[node] = seq
        self._tally.judged += 1
        if len(nodes) > most:
            self._tally.violation(*nodes.values(), way="many", what=what, nodes=listed([*nodes]), most=most)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._tally,))

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken."""
        return Verdicts((self._tally.outcome(),))


SENTENCES = {
    "other": "The configuration says of {name} that it is {stated}, but it was {said}.",
    "many": "Nodes {nodes} are {what}, but the configuration has {most}.",
}


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
