"""Lives of nodes: the events of each, from one turn of its life to the next."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .codes import ENDS, NULL, among
from .columns import Array, Columns, Ints, by_number

NO_TURN = -1


def between_turns(columns: Columns, begins_life: int, is_deed: Array) -> Iterator[tuple[int, int, Ints]]:
    """Go through what nodes did, node by node, clients left out.

    A life turns where an event of the kind ``begins_life`` begins it, and where a process ends; ``is_deed`` tells by
    kind what else is wanted. Yields the node, the place of the turn (`NO_TURN` for what comes before the first one) and
    the places of what follows, up to the next turn.
    """
    kinds, own = columns.kind, (columns.node >= 0) & (columns.process == NULL)
    turns = among(kinds, (begins_life, *ENDS)) & own
    places = np.flatnonzero(turns | (is_deed[kinds] & own))
    order = places[by_number(columns.node[places])]
    begins = np.flatnonzero(turns[order] | (np.diff(columns.node[order], prepend=-1) != 0)).tolist()
    for begin, end in zip(begins, [*begins[1:], len(order)], strict=False):
        first = int(order[begin])
        turn = first if turns[first] else NO_TURN
        yield int(columns.node[first]), turn, order[begin + (turn != NO_TURN) : end]
