"""The guards of the steps of a TLA+ module, and the module without one of them.

A guard is a conjunct of a step that looks at the state before alone: it primes nothing, and names no operator that
does. What only keeps a model finite (``MaxLog`` and the like) is none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_HEAD = re.compile(r"(\w+)(?:\([^)]*\))? ==")
_ENDS = re.compile(rf"---|===|{_HEAD.pattern}")
_COMMENT = re.compile(r"\\\*.*|\(\*.*?\*\)")
_CHOOSES = re.compile(r"Next\w*|\w*Reached|Symmetric|Others|Small")
"""Operators that say which steps there are, and no rule."""
_BOUND = re.compile(r"\bMax[A-Z]\w*")
_ITEM = re.compile(r"^(\s*(?:IN\s+)?)/\\ ")
_PRIMES = re.compile(r"\w'|UNCHANGED")


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard: its text on one line, and the lines that it is on, counted from 0, and what else the first has."""

    module: Path
    step: str
    text: str
    rest: tuple[str, ...]
    first: int
    last: int
    column: int

    @property
    def name(self) -> str:
        """The guard as the catalogue names it."""
        return f"{self.module.stem}.{self.step}: {self.text}"

    def without(self) -> str:
        """The text of the module without the guard."""
        lines = self.module.read_text(encoding="utf-8").splitlines()
        lines[self.first] = lines[self.first][: self.column] + "/\\ " + (" /\\ ".join(self.rest) or "TRUE")
        lines[self.first + 1 : self.last + 1] = [""] * (self.last - self.first)
        return "\n".join(lines) + "\n"


def guards_of(module: Path) -> Iterator[Guard]:
    """Yield the guards of a module, each part of ``a /\\ b`` on one line by itself, in their order."""
    lines = module.read_text(encoding="utf-8").splitlines()
    steps = _steps([file.read_text(encoding="utf-8").splitlines() for file in module.parent.glob("*.tla")])
    for name, first, end in _definitions(lines):
        if name in steps and not _CHOOSES.fullmatch(name):
            yield from _guards(module, name, lines, first, end, steps)


def _definitions(lines: list[str]) -> Iterator[tuple[str, int, int]]:
    """Each operator with the lines of its body: those behind the one that names it, up to an empty one."""
    for head, line in enumerate(lines):
        if match := _HEAD.match(line):
            end = head + 1
            while end < len(lines) and lines[end].strip() and not _ENDS.match(lines[end]):
                end += 1
            yield match[1], head + 1, end


def _steps(folder: list[list[str]]) -> set[str]:
    """The operators that prime a variable, or are made of one that does."""
    bodies = {
        name: _COMMENT.sub("", " ".join([lines[first - 1], *lines[first:end]]))
        for lines in folder
        for name, first, end in _definitions(lines)
    }
    found = {name for name, body in bodies.items() if _PRIMES.search(body)}
    while more := {
        name
        for name, body in bodies.items()
        if name not in found and not found.isdisjoint(re.findall(r"\w+", body.partition("==")[2]))
    }:
        found |= more
    return found


def _guards(module: Path, step: str, lines: list[str], first: int, end: int, steps: Collection[str]) -> Iterator[Guard]:
    """The conjuncts of the list that begins leftmost, behind a LET if there is one, without those that prime."""
    begin = max((i for i in range(first, end) if re.match(r"\s*(/\\ .*)?\bIN\s+/\\ ", lines[i])), default=first)
    columns = {i: len(match[1]) for i in range(begin, end) if (match := _ITEM.match(lines[i]))}
    starts = [i for i, column in columns.items() if column == columns[min(columns)]]
    for start, following in zip(starts, [*starts[1:], end][: len(starts)], strict=True):
        body = " ".join(_COMMENT.sub("", line).strip() for line in lines[start:following])
        text = re.sub(r"^(IN\s+)?/\\ ", "", " ".join(body.split()))
        if not _PRIMES.search(text) and steps.isdisjoint(re.findall(r"\w+", text)):
            parts = list(_parts(text))
            for i, part in enumerate(parts):
                if not _BOUND.search(part):
                    rest = (*parts[:i], *parts[i + 1 :])
                    yield Guard(module, step, part, rest, start, following - 1, columns[start])


def _parts(text: str) -> Iterator[str]:
    """What ``a /\\ b`` on one line consists of; all of it if something else binds it together."""
    depth, cuts = 0, [0]
    for match in re.finditer(r"[\[({]|<<|[\])}]|>>|/\\|\\/|=>|\\[AE] |LET|IF", text):
        if match[0] in ("[", "(", "{", "<<"):
            depth += 1
        elif match[0] in ("]", ")", "}", ">>"):
            depth -= 1
        elif depth == 0 and match[0] == "/\\":
            cuts.append(match.end())
        elif depth == 0 and match[0] in ("\\/", "=>"):
            cuts = [0]
            break
        elif depth == 0:
            break
    for begin, end in zip(cuts, [*cuts[1:], len(text)], strict=True):
        yield text[begin:end].removesuffix("/\\").strip()
