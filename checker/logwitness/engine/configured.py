"""What a run was made with, as its configuration states it: a value of another type is refused, never guessed at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loghistory.errors import HistoryError, quote


def configured_switch(name: str, configuration: Mapping[str, Any], field: str, default: bool) -> bool:
    """Whether something was switched on; ``default`` if the configuration does not say. Raises `HistoryError`."""
    found = configuration.get(field)
    if found is None:
        return default
    if not isinstance(found, bool):
        problem = f"{quote(found)} is neither true nor false"
        raise HistoryError(name, None, f"configuration.{field}", problem, "give true or false, without quotes")
    return found


def configured_bound(name: str, configuration: Mapping[str, Any], field: str) -> int | None:
    """A bound that a run was made with, by itself or among its ``limits``; None: nobody says, or there is none (0).

    Raises `HistoryError`.
    """
    limits = configuration.get("limits")
    place, found = f"configuration.{field}", configuration.get(field)
    if found is None and isinstance(limits, Mapping):
        place, found = f"configuration.limits.{field}", limits.get(field)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        problem, remedy = (
            f"{quote(found)} is not a bound",
            "give a whole number, without a unit, or leave the field out",
        )
        raise HistoryError(name, None, place, problem, remedy)
    return found or None
