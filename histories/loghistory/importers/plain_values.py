"""Texts of plain EDN values, many at once: what was read before is known, collections are read as JSON in one go."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from .edn import EdnError, Keyword, forms
from .values import Value

BAD: Any = object()
"""Stands for a text that is not read here."""

_MOST_KNOWN = 1 << 15
_LONGEST_KNOWN = 64
_MOST_BRACKETS = 32
"""A form that opens no more than these is far from the limit of nesting, whatever it stands in."""

_INTEGER = r"(?:-?[1-9][0-9]{0,17}+|0)(?=[ \]])"
_INTEGERS = re.compile(rf"(?:[\[\] ]|{_INTEGER})++")
_PARTS = re.compile(rf"(?:[\[\]{{}} ]|, |{_INTEGER}|nil(?=[ \]])|:[a-z-]++(?=[ \]]))++")
_MEMBER = re.compile(r"(\{|, )(-?[0-9]++) (?=\[)")
_WORD = re.compile(r":([a-z-]++)")
_NIL = re.compile(r"(?<![:a-z-])nil")

_Given = dict[int, list[list[int | None]]]
_integers = msgspec.json.Decoder(list[int | list[int | list[int]]])
_parts = msgspec.json.Decoder(list[list[int | str | list[int | None] | _Given | None]])
"""Parts of an operation as JSON, keywords as texts. The types limit how deep they nest."""


class PlainValues:
    """Reads texts that are one value each and have no comments, tags and escapes."""

    def __init__(self) -> None:
        self._known: dict[str, Value] = {}
        self._keywords: dict[str, Keyword] = {}

    def read(self, texts: Sequence[str]) -> list[Value]:
        """The values, as `forms` gives them; `BAD` for a text that is not read here. Equal texts share one."""
        known = self._known
        try:
            return [known[text] for text in texts]
        except KeyError:
            pass
        if len(known) > _MOST_KNOWN:
            known.clear()
        new = self._new(list(dict.fromkeys(text for text in texts if text not in known)))
        found = [new[text] if text in new else known[text] for text in texts]
        if len(new) < len(texts) // 2:
            known.update((text, value) for text, value in new.items() if len(text) <= _LONGEST_KNOWN)
        return found

    def _new(self, texts: Sequence[str]) -> dict[str, Value]:
        found: dict[str, Value] = {}
        integers: list[str] = []
        parts: list[str] = []
        for text in texts:
            first = text[:1]
            if first == '"':
                found[text] = text[1:-1]
            elif first == "[" and _INTEGERS.fullmatch(text):
                integers.append(text)
            elif first == "[" and _PARTS.fullmatch(text):
                parts.append(text)
            else:
                found[text] = _form(text)
        found.update(zip(integers, self._integers(integers), strict=True))
        found.update(zip(parts, self._parts(parts), strict=True))
        return found

    def _integers(self, texts: Sequence[str]) -> Sequence[Value]:
        """Integers in vectors."""
        try:
            found = _integers.decode_lines("\n".join(texts).replace(" ", ","))
        except msgspec.DecodeError:
            found = []
        return found if len(found) == len(texts) else self._apart(texts, self._integers)

    def _parts(self, texts: Sequence[str]) -> Sequence[Value]:
        """Such as ``[[:send 1 2] [:poll {1 [[0 1]], 2 [[5 6]]}]]``."""
        json = _MEMBER.sub(r'\1"\2":', "\n".join(texts))
        members = json.count('":')
        json = _WORD.sub(r'"\1"', _NIL.sub("null", json)).replace(", ", ",").replace(" ", ",")
        try:
            found = _parts.decode_lines(json)
        except msgspec.DecodeError:
            found = []
        if len(found) == len(texts):
            for each in found:
                for micro in each:
                    for place, item in enumerate(micro):
                        if type(item) is str:
                            micro[place] = self._keyword(item)
                        elif type(item) is dict:
                            members -= len(item)
            if not members:
                return found
        return self._apart(texts, self._parts)

    def _apart(self, texts: Sequence[str], read: Callable[[Sequence[str]], Sequence[Value]]) -> Sequence[Value]:
        """One by one what could not be read at once."""
        return [_form(text) for text in texts] if len(texts) < 2 else [read([text])[0] for text in texts]

    def _keyword(self, word: str) -> Keyword:
        found = self._keywords.get(word)
        if found is None:
            found = Keyword(word)
            if len(self._keywords) < _MOST_KNOWN:
                self._keywords[word] = found
        return found


def _form(text: str) -> Value:
    """The only form of a text."""
    if text.isdecimal() and text.isascii() and len(text) < 19:
        return int(text)
    if sum(map(text.count, "[({")) > _MOST_BRACKETS:
        return BAD
    try:
        found = forms(text)
    except EdnError:
        return BAD
    return found[0] if len(found) == 1 else BAD
