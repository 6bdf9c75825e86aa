"""Texts of plain EDN values: what was read before is known, and equal texts share one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .edn import INTEGERS, EdnError, forms, integers
from .values import Value

BAD: Any = object()
"""Stands for a text that is not read here."""

_MOST_KNOWN = 1 << 15
_LONGEST_KNOWN = 64
_MOST_BRACKETS = 32
"""A form that opens no more than these is far from the limit of nesting, whatever it stands in."""


class PlainValues:
    """Reads texts that are one value each and have no comments, tags and escapes."""

    def __init__(self) -> None:
        self._known: dict[str, Value] = {}

    def read(self, texts: Sequence[str]) -> list[Value]:
        """The values, as `forms` gives them; `BAD` for a text that is not read here. Equal texts share one."""
        known = self._known
        try:
            return [known[text] for text in texts]
        except KeyError:
            pass
        if len(known) > _MOST_KNOWN:
            known.clear()
        new = {text: _form(text) for text in dict.fromkeys(texts) if text not in known}
        found = [new[text] if text in new else known[text] for text in texts]
        if len(new) < len(texts) // 2:
            known.update((text, value) for text, value in new.items() if len(text) <= _LONGEST_KNOWN)
        return found


def _form(text: str) -> Value:
    """The only form of a text."""
    if len(text) < 19 and text.isdecimal() and text.isascii():
        return int(text)
    if INTEGERS.fullmatch(text):
        return integers(text)
    if len(text) > _MOST_BRACKETS and sum(map(text.count, "[({")) > _MOST_BRACKETS:
        return BAD
    try:
        found = forms(text)
    except EdnError:
        return BAD
    return found[0] if len(found) == 1 else BAD
