"""Who writes what it enqueued, in a long term: refusals are remembered, and cost nobody the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from loghistory import SCHEMA
from logwitness import check

REMEMBERED = 1000
"""Values that were refused before the last one written, so many of which are remembered."""


def leader(refused: int, writes: int, *then: int) -> list[dict[str, Any]]:
    """A leader enqueues values below 0, which it does not write, and others, which it does; then it writes ``then``."""
    state = {"node": 0, "term": 1, "role": "leader", "flushed": -1, "commit": -1}
    held = {"node": 0, "term": 1, "bytes": 1, "reserved": 0, "acks": 1}
    rows: list[dict[str, Any]] = [{"kind": "start", **state, "term": 0, "role": "follower", "dirty": -1}]
    rows += [{"kind": "leader", **state, "dirty": -1}]
    rows += [{"kind": "enqueue", **held, "value": -1 - each} for each in range(refused)]
    for offset, value in enumerate([*range(writes), *then]):
        if offset < writes:
            rows.append({"kind": "enqueue", **held, "value": value})
        rows.append({"kind": "append", **state, "dirty": offset, "value": value, "acks": 1})
        rows[-1] |= {"offset": offset, "last_offset": offset, "entry_term": 1}
    return [row | {"seq": seq, "time": seq} for seq, row in enumerate(rows)]


def order(rows: Sequence[dict[str, Any]]) -> tuple[str, int, int]:
    """What is said of the order: the verdict, facts, and what could not be judged."""
    table = pa.Table.from_pylist(list(rows), schema=SCHEMA)
    known = {"voters": [0, 1, 2], "protocol": "raft"}
    (found,) = check(table, ["written-as-enqueued"], configuration=known, compiled=False).checks
    return str(found.verdict), found.judged, found.unjudged


@pytest.mark.parametrize(("refused", "writes"), [(1, 1200), (REMEMBERED + 100, 60)])
def test_a_long_term_holds_whatever_was_refused(refused: int, writes: int) -> None:
    assert order(leader(refused, writes)) == ("holds", writes, 0)


def test_what_is_written_out_of_order_is_found_after_a_long_time() -> None:
    assert order(leader(1, 1200, -1)) == ("violated", 1201, 0)


def test_the_oldest_refusals_are_forgotten() -> None:
    """A value that is none of the last ones is written, and nobody knows that it was enqueued: it never holds."""
    assert order(leader(REMEMBERED + 100, 50, -1)) == ("undecided", 50, 1)
    assert order(leader(REMEMBERED + 100, 50, -200)) == ("violated", 51, 0)
