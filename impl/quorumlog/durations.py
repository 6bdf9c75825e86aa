"""Durations as people write them in plans and scenarios: "250ms", "1.5s", "40us"; nanoseconds inside."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated

import msgspec

_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TEXT = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*(ns|us|ms|s)")

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000

Pause = Annotated[int, msgspec.Meta(ge=0, le=3600 * SECOND)]
"""Nanoseconds, zero included, as configurations may give them."""
Interval = Annotated[int, msgspec.Meta(ge=MICROSECOND, le=3600 * SECOND)]
"""Nanoseconds between two repetitions, at least one: at zero, virtual time would never pass."""


def parse_duration(text: object) -> int:
    """Nanoseconds of "250ms" and the like; raises ``ValueError`` saying what would be right."""
    match = _TEXT.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write one like '250ms', '1.5s' or '40us'")
    nanoseconds = Decimal(match[1]) * _UNITS[match[2]]
    if nanoseconds != int(nanoseconds):
        raise ValueError(f"{text!r} is finer than a nanosecond")
    return int(nanoseconds)


def format_duration(nanoseconds: int) -> str:
    """The shortest text that `parse_duration` reads back exactly."""
    for unit in ("s", "ms", "us"):
        if nanoseconds >= _UNITS[unit]:
            return f"{(Decimal(nanoseconds) / _UNITS[unit]).normalize():f}{unit}"
    return f"{nanoseconds}ns"
