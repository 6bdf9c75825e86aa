"""Several searches that share one limit of time: easy ones are decided before a hard one takes all of it.

One part that no order explains decides the verdict, so no part may take the time of the others, and the order of the
parts in the history must not matter.
Source: history-checks.md#one-limit-for-all-parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from linearizability_checker import Result

_FIRST: Final = 0.25
"""Seconds of processor time that each part may take at first."""
_MORE: Final = 8
"""How many times as much in each further round."""


def in_rounds(
    parts: Sequence[int], ask: Callable[[int, float | None], Result], timeout: float | None, *, enough: bool = False
) -> tuple[dict[int, Result], float]:
    """What was answered last about each part that was asked about, and how many of the seconds are left.

    ``parts`` come easiest first. ``ask`` is given one and the seconds that its search may take. The round in which one
    is found illegal is the last, and if that is known (``enough``) the first one is.
    """
    answers: dict[int, Result] = {}
    left, share, again = math.inf if timeout is None else timeout, _FIRST, list(parts)
    while again and left > 0:
        round_, again = again, []
        for place, part in enumerate(round_):
            if left <= 0:
                again += round_[place:]
                break
            others = len(round_) - place
            seconds = left if len(parts) == 1 else min(share, left / others)
            answers[part] = result = ask(part, None if seconds == math.inf else seconds)
            gave_up = result.reason == "timeout"
            left -= result.seconds or (seconds if gave_up else 0.0)
            enough = enough or result.verdict == "illegal"
            if gave_up:
                again.append(part)
        if enough:
            break
        share *= _MORE
    return answers, max(0.0, left)
