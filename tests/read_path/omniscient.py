"""A plain judge of a recorded run that knows all: what was acknowledged and where, and what each reader was given.

It is for runs in which nothing more may be lost than the replication property allows for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

_LOSSES = ("dataloss", "hole", "bridge")


def problems(events: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A sentence for each thing that is wrong: gaps in deliveries, wrong values, losses of what was acknowledged."""
    acknowledged = {e["offset"]: (e["value"], e["seq"]) for e in events if e["kind"] == "acknowledge"}
    trims = sorted(e["offset"] for e in events if e["kind"] == "trim_point")
    trimmed = trims[-1] if trims else 0
    begun = {e["op"]: e["offset"] for e in events if e["kind"] == "invoke" and e["f"] == "read_stream"}
    written = {e["value"] for e in events if e["kind"] == "invoke" and e["f"] == "append_record"}
    given: dict[int, list[tuple[int, int, str, int]]] = defaultdict(list)
    released, values = 0, dict[int, int]()
    for event in events:
        kind, op = event["kind"], event["op"]
        if kind == "release":
            released = max(released, event["offset"])
        elif kind == "stream_record":
            given[op].append((event["offset"], event["offset"], "record", event["value"]))
            if event["value"] not in written:
                yield f"stream {op} delivers {event['value']}, which nobody wrote"
            if values.setdefault(event["offset"], event["value"]) != event["value"]:
                yield f"streams deliver different records at {show(event['offset'])}"
            if event["offset"] > released:
                yield f"stream {op} delivers {show(event['offset'])}, which is not released"
        elif kind == "stream_gap":
            given[op].append((event["offset"], event["last_offset"], event["f"], 0))
            if event["f"] == "trim" and event["last_offset"] > trimmed:
                yield f"stream {op} skips more than is trimmed, {show(event['last_offset'])}"
    for op, items in given.items():
        position = begun[op]
        for first, last, what, value in items:
            if first != position:
                yield f"stream {op} delivers {show(first)} where {show(position)} comes next"
            position = last + 1
            if what == "record" and first in acknowledged and acknowledged[first][0] != value:
                yield f"stream {op} delivers {value} at {show(first)}, where {acknowledged[first][0]} was acknowledged"
            if what in _LOSSES:
                for lsn in sorted(acknowledged):
                    if first <= lsn <= last and lsn > trimmed:
                        yield f"stream {op} has a {what} over {show(lsn)}, which was acknowledged"
    holes = {first for items in given.values() for first, _, what, _ in items if what == "hole"}
    for lsn in sorted(holes.intersection(values)):
        yield f"one stream has a hole at {show(lsn)}, another a record"


def show(lsn: int) -> str:
    """An LSN as it is written."""
    return f"e{lsn >> 32}n{lsn & 0xFFFFFFFF}"
