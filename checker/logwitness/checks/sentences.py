"""The sentence of a violation: a text with named fields, and how fields are worded.

A field is written as in a format string, ``{offset}``. With two words, ``{holders:voter|voters}``, it is a count: the
number, then the word for one or for many.
"""

from __future__ import annotations

from string import Formatter

NOTHING_OBSERVED = "reads say that they were given something, but no observation is recorded"
"""The reason why nobody is accused of what a read left out."""


class _Formatter(Formatter):
    def format_field(self, value: object, format_spec: str) -> str:
        one, several, many = format_spec.partition("|")
        if not several:
            return str(super().format_field(value, format_spec))
        return f"{value} {one if value == 1 else many}"


_FORMATTER = _Formatter()


def fields_of(sentence: str) -> frozenset[str]:
    """The names of its fields. Raises ValueError if one is no plain name, or the text is no format string."""
    names = frozenset(name for _, name, _, _ in _FORMATTER.parse(sentence) if name is not None)
    for name in names:
        if not name.isidentifier():
            raise ValueError(f"{name!r} is not the name of a field")
    return names


def worded(sentence: str, fields: dict[str, object]) -> str:
    """The sentence with its fields filled in. Raises KeyError for a field that is not given."""
    return _FORMATTER.vformat(sentence, (), fields)


def listed(names: list[int]) -> str:
    """Numbers for a sentence: ``1``, ``1 and 2``, ``1, 2 and 3``."""
    *most, last = map(str, names)
    return f"{', '.join(most)} and {last}" if most else last
