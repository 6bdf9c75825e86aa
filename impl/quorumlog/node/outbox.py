"""What the groups of one process send their peers, collected over one turn of the event loop: one frame a peer for all.

Heartbeats of all groups fall due together, and the answers to those that arrived in one frame are ready together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

Taken = Callable[[], None]
Transmit = Callable[[int, list[Any], Taken], None]
"""Hands what is for a node to its link; the last argument is called once the socket has it, or never will."""


class GroupsOutbox:
    """Collects messages of groups, each with the number of its group, and hands them on together."""

    def __init__(self, transmit: Transmit) -> None:
        self._transmit = transmit
        self._items: dict[int, list[tuple[int, Any]]] = {}
        self._taken: dict[int, list[Taken]] = {}

    def of(self, group: int) -> Transmit:
        """How the group with this number sends; what it sends leaves in the next turn of the event loop."""
        return partial(self._send, group)

    def _send(self, group: int, node: int, messages: list[Any], taken: Taken) -> None:
        if not self._items:
            asyncio.get_running_loop().call_soon(self._hand_out)
        self._items.setdefault(node, []).extend((group, message) for message in messages)
        self._taken.setdefault(node, []).append(taken)

    def _hand_out(self) -> None:
        items, self._items = self._items, {}
        taken, self._taken = self._taken, {}
        for node, of_node in items.items():
            self._transmit(node, of_node, partial(_call_all, taken[node]))


def _call_all(taken: list[Taken]) -> None:
    for each in taken:
        each()
