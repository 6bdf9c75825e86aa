"""Recorded operations of clients of replicated logs, followed in the specification (`TraceClientLog`).

A trace is one log of one run: which operations began and how they were answered. Runs in which what was acknowledged
with acks=all may be lost (write caching, wiped or damaged disks) are not followed. Sources: raft.md#quorum-ack,
raft.md#read-levels, history-checks.md#one-open-operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from loghistory import Kind, RunSource
from logspec.recording import find_setting
from logspec.server_traces import followed
from logspec.tlavalue import print_value
from logspec.toolchain import Toolchain
from logspec.traces import batches

MODULE = "raft/TraceClientLog.tla"
BATCH_EVENTS = 40_000
"""Events that are followed in one run of TLC."""

_KINDS = (Kind.INVOKE, Kind.OBSERVE, Kind.OK, Kind.FAIL, Kind.INFO, Kind.FAULT, Kind.START, Kind.TRIM)
_COLUMNS = ("seq", "kind", "log", "op", "f", "acks", "value", "offset", "last_offset", "count")
_READS = frozenset({"read", "read_committed", "read_linearizable"})
_FOLLOWED = _READS | {"append", "tail"}
_TAKING = frozenset({"wipe", "damage", "fsync_error", "open_error", "power_loss_midway"})
"""Faults that may take what a majority had flushed, or what is to be flushed."""

ClientEvent = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    """An operation that waits: what it is, from where it reads, how many entries it appends."""

    f: str
    offset: int | None
    count: int


@dataclass(slots=True)
class ClientTrace:
    """What clients of one log asked and were told; ``seqs[i]`` is where ``events[i]`` was recorded."""

    name: str
    log: str | None
    events: list[ClientEvent] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    stuck: str | None = None
    """What the spec does not allow, in a sentence, once it was followed..."""
    stuck_at: int | None = None
    """...and the ``seq`` of that event."""


def read_client_traces(source: RunSource, name: str, write_caching: bool | None = None) -> list[ClientTrace]:
    """The traces of a run, by log; none if nothing was answered, or if what was acknowledged in it may be lost."""
    if write_caching is None:
        write_caching = bool(find_setting(source.manifest.made_by if source.manifest else {}, "write_caching"))
    if write_caching:
        return []
    traces: dict[str | None, ClientTrace] = {}
    waiting: dict[int, _Asked] = {}
    seen: set[str] = set()  # with starts and no trims, who reads nothing has not asked for what is gone
    for batch in source.batches(kinds=list(_KINDS), columns=list(_COLUMNS)):
        for event in batch.to_pylist():
            if event["kind"] == Kind.FAULT:
                if event["f"] in _TAKING:
                    return []
                continue
            if event["kind"] in (Kind.START, Kind.TRIM):
                seen.add(event["kind"])
                continue
            reported = _reported(event, waiting, seen == {Kind.START})
            if reported:
                trace = traces.setdefault(event["log"], ClientTrace(name, event["log"]))
                trace.events.append(reported)
                trace.seqs.append(event["seq"])
    return [trace for trace in traces.values() if any(event[0] not in ("begin", "unknown") for event in trace.events)]


def _reported(event: dict[str, Any], waiting: dict[int, _Asked], whole: bool) -> ClientEvent | None:
    """An event as the module has it; None if it says nothing that is followed."""
    kind, op, f = event["kind"], event["op"], event["f"]
    if kind == Kind.INVOKE:
        if f not in _FOLLOWED or (f == "append" and event["value"] is None):
            return None
        waiting[op] = _Asked(f, event["offset"], event["count"] or 1)
        return "begin", op, f, -1 if event["value"] is None else event["value"], event["acks"] or 0
    asked = waiting.get(op)
    if asked is None:
        return None
    if kind == Kind.OBSERVE:
        last = event["offset"] if event["last_offset"] is None else event["last_offset"]
        return None if event["value"] is None else ("shown", op, last, event["value"])
    del waiting[op]
    offset = -1 if event["offset"] is None else event["offset"]
    if kind == Kind.FAIL:
        return "failed", op
    if kind == Kind.INFO or offset < 0:
        return "unknown", op
    if asked.f == "append":
        return (
            "appended",
            op,
            offset,
            offset + asked.count - 1 if event["last_offset"] is None else event["last_offset"],
        )
    if asked.f != "tail" and offset == asked.offset and not whole:
        return "unknown", op
    return "tail" if asked.f == "tail" else "read", op, offset


def follow_clients(traces: Sequence[ClientTrace], tools: Toolchain, seconds: float | None = None) -> None:
    """Follow every trace, and set ``stuck`` of those that the spec does not allow. Raises `SpecError`."""
    for batch in batches(traces, BATCH_EVENTS, lambda trace: 0):
        for trace, line, _ in followed(MODULE, batch, written, ("VIEW Line",), tools, seconds):
            trace.stuck_at = trace.seqs[line - 1]
            trace.stuck = f"operation {trace.events[line - 1][1]} {_sentence(trace.events[line - 1])}"


def written(trace: ClientTrace) -> str:
    """The trace as a sequence of TLA+."""
    return "<<" + ", ".join(f"<<{', '.join(map(print_value, event))}>>" for event in trace.events) + ">>"


def _sentence(event: ClientEvent) -> str:
    """What clients were told that they may not be told."""
    kind, _, *values = event
    match kind:
        case "appended":
            return f"is acknowledged at {values[0]} to {values[1]}: another value is there, or more was known before"
        case "shown":
            return (
                f"reads the value {values[1]} at offset {values[0]}: another one is there, or it is elsewhere or failed"
            )
        case "failed":
            return "failed, and what it appends is committed"
        case "read" | "tail":
            return f"reaches only to offset {values[0]}, behind what was known when it was asked for"
        case _:
            return f"cannot be followed by {kind}"
