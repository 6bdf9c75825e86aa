"""A plain judge of a recorded run that knows all: what was acknowledged and where, and what each reader was given.

It is for runs in which nothing more may be lost than the replication property allows for.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

_LOSSES = ("dataloss", "hole", "bridge")


def problems(events: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A sentence for each thing that is wrong."""
    yield from deliveries(events)
    yield from writes(events)
    yield from manners(events)


def deliveries(events: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What readers were given: breaks in it, wrong values, losses of what was acknowledged."""
    acknowledged = {e["offset"]: (e["value"], e["seq"]) for e in events if e["kind"] == "acknowledge"}
    trimmed = 0
    begun = {e["op"]: e["offset"] for e in events if e["kind"] == "invoke" and e["f"] == "read_stream"}
    written = {e["value"] for e in events if e["kind"] == "invoke" and e["f"] == "append_record"}
    given: dict[int, list[tuple[int, int, str, int, int]]] = defaultdict(list)
    released, values = 0, dict[int, int]()
    for event in events:
        kind, op = event["kind"], event["op"]
        if kind == "release":
            released = max(released, event["offset"])
        elif kind == "trim_point":
            trimmed = max(trimmed, event["offset"])
        elif kind == "stream_record":
            given[op].append((event["offset"], event["offset"], "record", event["value"], trimmed))
            if event["value"] not in written:
                yield f"stream {op} delivers {event['value']}, which nobody wrote"
            if values.setdefault(event["offset"], event["value"]) != event["value"]:
                yield f"streams deliver different records at {show(event['offset'])}"
            if event["offset"] > released:
                yield f"stream {op} delivers {show(event['offset'])}, which is not released"
        elif kind == "stream_gap":
            given[op].append((event["offset"], event["last_offset"], event["f"], 0, trimmed))
            if event["f"] == "trim" and event["last_offset"] > trimmed:
                yield f"stream {op} skips more than is trimmed, {show(event['last_offset'])}"
    for op, items in given.items():
        position = begun[op]
        for first, last, what, value, given_up in items:
            if first != position:
                yield f"stream {op} delivers {show(first)} where {show(position)} comes next"
            position = last + 1
            if what == "record" and first in acknowledged and acknowledged[first][0] != value:
                yield f"stream {op} delivers {value} at {show(first)}, where {acknowledged[first][0]} was acknowledged"
            if what in _LOSSES:
                for lsn in sorted(acknowledged):
                    if first <= lsn <= last and lsn > given_up:
                        yield f"stream {op} has a {what} over {show(lsn)}, which was acknowledged"
    holes = {first for items in given.values() for first, _, what, *_ in items if what == "hole"}
    for lsn in sorted(holes.intersection(values)):
        yield f"one stream has a hole at {show(lsn)}, another a record"


def members(mask: int) -> list[int]:
    """The shards of a bit mask."""
    return [shard for shard in range(mask.bit_length()) if mask >> shard & 1]


def writes(events: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Who has copies of what is acknowledged, what is released, and what recoveries leave behind."""
    nodesets: dict[int, dict[str, Any]] = {}
    held: dict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
    acknowledged: set[int] = set()
    for event in events:
        match event["kind"]:
            case "nodeset":
                nodesets[event["epoch"]] = json.loads(event["text"])
            case "copy":
                held[event["node"]][event["offset"]] = event
            case "purge" | "trim_point":
                first, last = event["offset"], event["last_offset"]
                first, last = (0, first) if event["kind"] == "trim_point" else (first, last)
                for lsn in [lsn for lsn in held[event["node"]] if first <= lsn <= last]:
                    del held[event["node"]][lsn]
            case "fault" if event["f"] == "wipe":
                held[event["node"]].clear()
            case "acknowledge":
                lsn, wave = event["offset"], event["wave"]
                acknowledged.add(lsn)
                nodeset = nodesets[max(since for since in nodesets if since <= lsn >> 32)]
                having = [s for s in members(event["shards"]) if _has(held[s], lsn, wave)]
                if not _spread(nodeset, having):
                    yield f"{show(lsn)} is acknowledged, and is on shards {having} alone"
            case "release" if event["offset"] >> 32 == event["epoch"]:
                first = (event["epoch"] << 32) + 1
                for lsn in [lsn for lsn in range(first, event["offset"] + 1) if lsn not in acknowledged]:
                    yield f"{show(lsn)} is released, and was not acknowledged"
            case "recover":
                yield from _agreement(event, held)


def _has(held: dict[int, dict[str, Any]], lsn: int, wave: int) -> bool:
    """Whether a shard has that wave of a record, or what took its place, or had it and lost or trimmed it since."""
    return lsn not in held or held[lsn]["recovery"] > 0 or held[lsn]["wave"] >= wave


def _spread(nodeset: dict[str, Any], shards: Collection[int]) -> bool:
    scopes = ("REGION", "CLUSTER", "ROW", "RACK", "NODE")
    inside = [nodeset["locations"][str(shard)] for shard in shards if str(shard) in nodeset["locations"]]
    return all(
        len({tuple(location[: scopes.index(name) + 1]) for location in inside}) >= factor
        for name, factor in nodeset["replication"].items()
    )


def _agreement(event: dict[str, Any], held: dict[int, dict[int, dict[str, Any]]]) -> Iterator[str]:
    """The shards of the mutation set have the same above the last known good LSN, as far as they have a copy."""
    for lsn in range(max(event["offset"], event["epoch"] << 32) + 1, event["last_offset"] + 1):
        found = {
            shard: (held[shard][lsn]["record"], held[shard][lsn]["value"])
            for shard in members(event["shards"])
            if lsn in held[shard]
        }
        if len(set(found.values())) > 1:
            yield f"epoch {event['epoch']} is recovered, and shards differ at {show(lsn)}: {found}"


def manners(events: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Rejected records come next; not too many shards are slow; nothing is delivered while a rewind is due."""
    rejected: dict[int, int] = {}
    rewinding: set[int] = set()
    statuses: dict[int, int] = defaultdict(int)
    newest: dict[int, int] = defaultdict(int)
    factor = 1
    for event in events:
        op = event["op"]
        match event["kind"]:
            case "nodeset":
                factor = max(json.loads(event["text"])["replication"].values())
            case "stream_reject" if event["value"] is not None:
                rejected[op] = event["offset"]
            case "stream_rewind":
                (rewinding.add if event["f"] == "due" else rewinding.discard)(op)
                rejected.pop(op, None)
            case "stream_statuses":
                statuses[op] = event["version"]
            case "stream_started":
                newest[op] = max(newest[op], event["version"])
            case "stream_slow":
                if len(members(event["shards"])) + event["count"] >= factor > 0 and event["shards"]:
                    yield f"stream {op} passes over {members(event['shards'])} as slow, {event['count']} are down"
            case "stream_record" | "stream_gap":
                if op in rejected and rejected.pop(op) != event["offset"]:
                    yield f"stream {op} delivers {show(event['offset'])} where a rejected record comes next"
                judged = event["kind"] == "stream_gap" and event["text"] is not None
                if judged and op in rewinding:
                    yield f"stream {op} has a gap at {show(event['offset'])} while a rewind is due"
                if judged and newest[op] > statuses[op]:
                    yield f"stream {op} has a gap at {show(event['offset'])} by statuses older than an answer"


def show(lsn: int) -> str:
    """An LSN as it is written."""
    return f"e{lsn >> 32}n{lsn & 0xFFFFFFFF}"
