"""A long, healthy history of three nodes and some clients, made column by column: for figures and for limits.

One round is one append of one client: appended on three nodes, flushed, committed, visible, acknowledged, read by
another client. Rounds differ in offset, value and time alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from loghistory import SCHEMA, write_run
from logwitness.explain.transcripts import history

_FIRST = "n1 start|n2 start|n3 start|n1 term 1|n1 role candidate|n1 vote 1|n2 term 1|n2 vote 1|n1 leader|n3 term 1"
_ROUND = (
    "c1 append v0 all|n1 append 0 t1 v0 all|n2 append 0 t1 v0 all|n2 flush|n1 flush|n1 commit 0|n1 visible 0|"
    "n1 acked 0 t1 all success|c1 ok 0 t1|n3 append 0 t1 v0 all|n3 flush|"
    "n2 commit 0|n2 visible 0|n3 commit 0|n3 visible 0|c2 read 0|c2 sees 0 v0|c2 ok 1"
)
_MOVING = ("offset", "last_offset", "value", "dirty", "flushed", "commit", "visible")
OPERATIONS = 2
"""Client operations of a round."""
MADE_BY = {"configuration": {"voters": [1, 2, 3]}}
"""What the manifest of such a history says of it."""


def batches(events: int, rounds_at_once: int = 4000) -> Iterator[pa.RecordBatch]:
    """About so many events."""
    first = history(_FIRST).table
    whole = history(f"{_FIRST}|{_ROUND}").table
    one = whole.slice(first.num_rows)
    yield from first.to_batches()
    done, seq = 0, first.num_rows
    while seq < events:
        rounds = np.repeat(np.arange(done, done + rounds_at_once), one.num_rows)
        tiled = pa.concat_tables([one] * rounds_at_once).combine_chunks()
        columns = {name: tiled.column(name).combine_chunks() for name in tiled.column_names}
        for name in _MOVING:
            column = columns[name]
            values = column.fill_null(0).to_numpy(zero_copy_only=False)
            # Before its own change a node stands where the round before left it, which tiling does by itself.
            columns[name] = pa.array(values + rounds, mask=~column.is_valid().to_numpy(zero_copy_only=False))
        operations = columns["op"].fill_null(0).to_numpy(zero_copy_only=False) + OPERATIONS * rounds
        columns["op"] = pa.array(operations, mask=~columns["op"].is_valid().to_numpy(zero_copy_only=False))
        columns["seq"] = pa.array(np.arange(seq, seq + len(rounds)))
        columns["time"] = pa.array(np.arange(seq, seq + len(rounds)) * 1000)
        yield pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)
        seq += len(rounds)
        done += rounds_at_once


if __name__ == "__main__":
    write_run(sys.argv[1], batches(int(sys.argv[2])), {"name": "long", "made_by": MADE_BY}, format="parquet")
