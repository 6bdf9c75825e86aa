"""Operation maps of EDN that are all alike, read many lines at once.

A program prints its maps in one way: the same keys in the same order with the same white space, here called a *shape*.
A shape is learned from one line and turned into a regular expression; what its lines hold is read column by column.
Lines without a shape are left to the reader of forms, and so is whatever is not plain: comments, tags other than sets,
escapes, texts in collections. What is read here is what the reader of forms would give.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import itemgetter
from typing import TypeAlias

from .edn import places
from .plain_values import BAD, plain_values
from .values import Value

Fields: TypeAlias = tuple[str, str, int, int | None, Value, dict[str, Value]]
"""What a line says: type, f, process, time, value, and the members besides them."""

_MOST_SHAPES = 8
_MOST_FAILURES = 64
"""After so many lines without a shape of theirs no more are learned."""
_LONGEST = 1024
"""Characters of a line that a shape is learned from."""
_MOST_MEMBERS = 16

_WORD = r"[^\s,;\"\\#^()\[\]{}]++"
_TEXT = r"\"[^\"\\\n]*+\""
_FLAT = r"\[[^\"\\;#^\n()\[\]{}]*+\]"
_NESTED = r"#?[\[({][^\"\\;#^\n]*?[\])}]"
_OTHER = rf"({_WORD}|{_TEXT}|{_FLAT})"
_GROUPS = {
    "type": r":(invoke|ok|fail|info)",
    "f": r":([A-Za-z][\w-]*+)",
    "process": r"([0-9]{1,18}+)",
    "time": r"(-?[0-9]{1,18}+)",
    "index": r"(-?[0-9]{1,18}+)",
    # This one alone may try several ends: the time for a line grows with its length, not with a power of it.
    "value": rf"({_WORD}|{_TEXT}|{_NESTED})",
}
_KEY = re.compile(r":[A-Za-z][\w.?!-]*")
_TAG = re.compile(r"[ \t\r,]*#:?[A-Za-z][\w.-]*(?=[ \t\r,{])")
_GAP = re.compile(r"[ \t\r,]*")


@dataclass(frozen=True, slots=True)
class _Shape:
    """Lines that differ in their values alone."""

    keys: tuple[str, ...]
    """One for each group of the pattern."""
    pattern: re.Pattern[str]
    """Matches once for every line; the groups are empty for a line of another shape."""


class Shapes:
    """Reads lines of EDN; it learns their shapes on the way. ``index`` tells how far those before them have counted."""

    def __init__(self, index: Callable[[], int]) -> None:
        self._index = index
        self._shapes: list[_Shape] = []
        self._failures = 0

    def read(self, lines: Sequence[str]) -> list[Fields | None]:
        """What every line says that is one map and no more; None for lines that are not read here."""
        found: list[Fields | None] = [None] * len(lines)
        left: Sequence[int] = range(len(lines))
        tried = 0
        while left:
            some = lines if len(left) == len(lines) else [lines[place] for place in left]
            if tried == len(self._shapes) and not self._learn(some):
                break
            fields = self._fields(self._shapes[tried], some, len(lines))
            if len(fields) == len(lines) and None not in fields:
                return fields
            missed = []
            for place, each in zip(left, fields, strict=True):
                if each is None:
                    missed.append(place)
                else:
                    found[place] = each
            if tried and len(missed) < len(left) // 2:
                self._shapes.insert(0, self._shapes.pop(tried))  # what most lines are is tried first
            left = missed
            tried += 1
        return found

    def _learn(self, lines: Sequence[str]) -> bool:
        """Learn the shape of the first line that has one."""
        for line in lines:
            if len(self._shapes) == _MOST_SHAPES or self._failures == _MOST_FAILURES:
                return False
            shape = _shape_of(line)
            if shape is not None and all(shape.pattern.pattern != known.pattern.pattern for known in self._shapes):
                self._shapes.append(shape)
                return True
            self._failures += 1
        return False

    def _fields(self, shape: _Shape, lines: Sequence[str], all_of: int) -> list[Fields | None]:
        rows = shape.pattern.findall("\n".join(lines) + "\n")
        kind = itemgetter(shape.keys.index("type"))
        matched: list[int] | None = None
        if not all(map(kind, rows)):
            matched = [place for place, row in enumerate(rows) if kind(row)]
            rows = [rows[place] for place in matched]
            if not rows:
                return [None] * len(lines)
        given = dict(zip(shape.keys, zip(*rows, strict=True), strict=True))
        values: list[Value] | repeat[None] = repeat(None)
        rest: Iterable[dict[str, Value]] = repeat({})
        bad: set[int] = set()
        others: list[tuple[str, list[Value]]] = []
        if "index" in given:
            # Where all lines are in order, that of the last one is enough to go on from.
            indices = list(map(int, given["index"]))
            in_order = indices[0] >= self._index() and indices == sorted(indices)
            if matched is None and len(rows) == all_of and in_order:
                rest = chain(repeat({}, len(rows) - 1), ({"index": indices[-1]},))
            else:
                others.append(("index", indices))
        for key, column in given.items():
            if key == "value" or key not in _GROUPS:
                read = plain_values(column)
                if BAD in read:
                    bad.update(place for place, value in enumerate(read) if value is BAD)
                if key == "value":
                    values = read
                else:
                    others.append((key, read))
        if others:
            names = [key for key, _ in others]
            rest = [dict(zip(names, row, strict=True)) for row in zip(*(read for _, read in others), strict=True)]
        times = map(int, given["time"]) if "time" in given else repeat(None)
        columns = (given["type"], given["f"], map(int, given["process"]), times, values, rest)
        fields: list[Fields | None] = list(zip(*columns, strict=False))
        for place in bad:
            fields[place] = None
        if matched is None:
            return fields
        found: list[Fields | None] = [None] * len(lines)
        for place, each in zip(matched, fields, strict=True):
            found[place] = each
        return found


def _shape_of(line: str) -> _Shape | None:
    """The shape of a line that is one map with a word for its type, with f and process; None for others."""
    if len(line) > _LONGEST:
        return None
    tag = _TAG.match(line)
    begin = tag.end() if tag is not None else 0
    found = [place for place in places(line) if place[0] >= begin]
    texts = [line[start:end] for start, end in found]
    edges = [begin, *(edge for place in found for edge in place), len(line)]
    gaps = [line[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    if len(found) < 2 or texts[0] != "{" or texts[-1] != "}" or not all(map(_GAP.fullmatch, gaps)):
        return None
    pattern = [re.escape(line[:begin] + gaps[0] + "{" + gaps[1])]
    keys: list[str] = []
    place = 1
    while place < len(texts) - 1:
        key = texts[place]
        end = _end_of_value(texts, place + 1)
        if end is None or _KEY.fullmatch(key) is None or key[1:] in keys or not gaps[place + 1]:
            return None
        if not gaps[end] and end < len(texts) - 1:
            return None
        keys.append(key[1:])
        pattern += [re.escape(key + gaps[place + 1]), _GROUPS.get(key[1:], _OTHER), re.escape(gaps[end])]
        place = end
    if not {"type", "f", "process"} <= set(keys) or len(keys) > _MOST_MEMBERS:
        return None
    whole = re.compile("".join(pattern) + re.escape("}" + gaps[-1]) + r"\n|[^\n]*+\n")
    match = whole.fullmatch(line + "\n")
    return _Shape(tuple(keys), whole) if match is not None and match[1] else None


def _end_of_value(texts: Sequence[str], place: int) -> int | None:
    """The place behind the value that begins here; None if it does not end in the map, or is not plain."""
    depth = 0
    for end in range(place, len(texts) - 1):
        text = texts[end]
        if text in ("[", "(", "{", "#{"):
            depth += 1
        elif text in ("]", ")", "}"):
            depth -= 1
        elif text[0] in "#^;":
            return None
        if depth <= 0:
            return end + 1 if depth == 0 else None
    return None
