"""The guards of the steps of a TLA+ module, and the module without one of them.

A guard is a conjunct of a step that looks at the state before alone: it primes nothing, and names no operator that
does. What only keeps a model finite (``MaxLog``, ``Last``) is none.
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
_BOUND = re.compile(r"\bMax[A-Z]\w*|\bLast\b")
_ITEM = re.compile(r"^(\s*(?:IN\s+)?)/\\ ")
_PRIMES = re.compile(r"\w'|UNCHANGED")
_PROMISES = re.compile(r"\]_vars|\b[WS]F_")
_TOKEN = re.compile(r"/\\|\\/|=>|\b(?:IF|THEN|ELSE|IN|OTHER)\b|==|->| : |,|<<|>>|[\[({\])}]|\\[AE] ")
_OPENS, _CLOSES = ("[", "(", "{", "<<"), ("]", ")", "}", ">>")
_NEXT_ITEM = re.compile(r"\s*(/\\|\[\]|IN|THEN|ELSE|$)")
_GOES_ON = re.compile(r"(LET|CASE)\b|.*:$")
"""What begins on a line and goes on behind it."""


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard: its text on one line, and the lines that it is on, counted from 0, and what else the first has.

    ``to`` is where a conjunct ends that has something behind it on its line.
    """

    module: Path
    step: str
    text: str
    rest: tuple[str, ...]
    first: int
    last: int
    column: int
    to: int | None = None

    @property
    def name(self) -> str:
        """The guard as the catalogue names it."""
        return f"{self.module.stem}.{self.step}: {self.text}"

    def without(self) -> str:
        """The text of the module without the guard."""
        lines = self.module.read_text(encoding="utf-8").splitlines()
        line = lines[self.first]
        if self.to is not None:
            lines[self.first] = f"{line[: self.column]}TRUE{line[self.to :]}"
            return "\n".join(lines) + "\n"
        lines[self.first] = line[: self.column] + "/\\ " + (" /\\ ".join(self.rest) or "TRUE")
        lines[self.first + 1 : self.last + 1] = [""] * (self.last - self.first)
        return "\n".join(lines) + "\n"


def guards_of(module: Path) -> Iterator[Guard]:
    """Yield the guards of a module, each part of ``a /\\ b`` on one line by itself, in their order."""
    lines = module.read_text(encoding="utf-8").splitlines()
    steps = _steps([file.read_text(encoding="utf-8").splitlines() for file in module.parent.glob("*.tla")])
    for name, first, end in _definitions(lines):
        if name in steps and not _CHOOSES.fullmatch(name):
            yield from _guards(module, name, lines, first, end, steps)


def conjuncts_of(module: Path) -> Iterator[Guard]:
    """Yield the conjuncts of a module's rules, and those inside of what its steps say, in their order."""
    lines = module.read_text(encoding="utf-8").splitlines()
    steps = _steps([file.read_text(encoding="utf-8").splitlines() for file in module.parent.glob("*.tla")])
    taken = {(guard.first, guard.text) for guard in guards_of(module)}
    defined = {name: (first, end) for name, first, end in _definitions(lines)}
    words = {name: set(re.findall(r"\w+", " ".join(lines[begin:end]))) for name, (begin, end) in defined.items()}
    rules = defined.keys() & steps or set(defined)
    while more := (defined.keys() & {word for name in rules for word in words[name]}) - rules:
        rules |= more
    for name in sorted(rules, key=lambda each: defined[each]):
        first, end = defined[name]
        for i in range(first - 1, end if not _CHOOSES.fullmatch(name) else 0):
            whole = i + 1 == end or bool(_NEXT_ITEM.match(_COMMENT.sub("", lines[i + 1])))
            for begin, to in _conjuncts(lines[i], ends=whole):
                text = lines[i][begin:to]
                acts = _PRIMES.search(text) or not steps.isdisjoint(re.findall(r"\w+", text))
                if (i, text) not in taken and not (acts or _BOUND.search(text) or _GOES_ON.match(text)):
                    yield Guard(module, name, text, (), i, i, begin, to)


def _conjuncts(line: str, *, ends: bool) -> Iterator[tuple[int, int]]:
    """Where the parts of ``a /\\ b`` are on a line; the last one only if nothing of it is on the next."""
    line = _COMMENT.sub("", line).rstrip()
    item = re.compile(r"\s*(IN\s+)?/\\$")
    begins, conjunct, binds = [0], [False], [False]
    """Of each bracket that is open: where its last part begins, whether that is a conjunct, or binds all behind it."""
    for match in [*_TOKEN.finditer(line), None]:
        token, here, behind = (match[0], match.start(), match.end()) if match else ("", len(line), len(line))
        if token in _OPENS:
            begins, conjunct, binds = [*begins, behind], [*conjunct, False], [*binds, False]
        elif token.startswith(("\\A", "\\E")):
            binds[-1] |= not line[begins[-1] : here].strip()
        elif token in _CLOSES or not token or not binds[-1]:
            if token in ("\\/", "=>") and conjunct[-1] and item.match(line[: begins[-1]]):
                continue
            part = line[begins[-1] : here]
            if part.strip() and (conjunct[-1] or token == "/\\") and (token or (ends and len(begins) == 1)):
                yield begins[-1] + len(part) - len(part.lstrip()), begins[-1] + len(part.rstrip())
            if token in _CLOSES and len(begins) > 1:
                begins, conjunct, binds = begins[:-1], conjunct[:-1], binds[:-1]
            else:
                begins[-1], conjunct[-1], binds[-1] = behind, token == "/\\", False


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
    found = {name for name, body in bodies.items() if _PRIMES.search(body) and not _PROMISES.search(body)}
    while more := {
        name
        for name, body in bodies.items()
        if name not in found
        and not _PROMISES.search(body)
        and not found.isdisjoint(re.findall(r"\w+", body.partition("==")[2]))
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
