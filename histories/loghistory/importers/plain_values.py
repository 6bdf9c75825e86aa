"""Texts of plain EDN values, many at once; equal ones are read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .edn import INTEGERS, EdnError, forms, integers
from .values import Value

BAD: Any = object()
"""Stands for a text that is not read here."""

_MOST_BRACKETS = 32
"""A form that opens no more than these is far from the limit of nesting, whatever it stands in."""


def plain_values(texts: Sequence[str]) -> list[Value]:
    """The values, as `forms` gives them, of texts that are one value each and have no comments, tags and escapes.

    Equal texts share one value; `BAD` for a text that is not read here.
    """
    values = {text: _form(text) for text in dict.fromkeys(texts)}
    return [values[text] for text in texts]


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
