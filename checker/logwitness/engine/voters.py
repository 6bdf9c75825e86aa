"""Who votes in a run: as it was configured, never as it happens to look from who spoke.

Source: raft.md#who-votes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import count, islice
from typing import Any

from loghistory.errors import HistoryError, quote

MOST = 1 << 16
"""Nodes from which on a number of nodes is not believed."""


def configured_voters(name: str, configuration: Mapping[str, Any]) -> tuple[int, ...]:
    """The voters that a configuration lists (``voters``); none if it does not. Raises `HistoryError`."""
    listed = configuration.get("voters")
    if listed is None:
        return ()
    numbers = isinstance(listed, list) and all(isinstance(node, int) and not isinstance(node, bool) for node in listed)
    if not numbers or not listed or min(listed) < 0 or len(set(listed)) < len(listed):
        problem, remedy = f"{quote(listed)} does not list voters", "give the number of each node that votes, once"
        raise HistoryError(name, None, "configuration.voters", problem, remedy)
    return tuple(listed)


def configured_number(configuration: Mapping[str, Any]) -> int:
    """How many nodes a configuration speaks of (``nodes``, a number or a list); 0 if it does not say."""
    nodes = configuration.get("nodes")
    number = len(nodes) if isinstance(nodes, list) else nodes
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 < number <= MOST else 0


def numbered_voters(number: int, seen: Collection[int]) -> tuple[int, ...]:
    """The voters of a run of so many nodes, in which ``seen`` recorded something; none if those are more.

    Nodes are counted from 0 unless those seen say otherwise. Who was not seen votes under a number that is free.
    """
    if all(0 <= node < number for node in seen):
        return tuple(range(number))
    if len(seen) > number:
        return ()
    silent = islice((node for node in count() if node not in seen), number - len(seen))
    return tuple(sorted({*seen, *silent}))
