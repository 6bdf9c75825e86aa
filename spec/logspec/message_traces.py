"""Recorded messages between nodes of replicated logs, followed in the specification (`TraceMessageLog`).

A trace is one log of one run that recorded every message: the terms and roles of its nodes, and what they sent and
received. Sources: raft.md#elections, raft.md#reply-order, history-checks.md#sent-before-received.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loghistory import Kind, RunSource
from logspec.client_traces import BATCH_EVENTS, ClientEvent, ClientTrace, written
from logspec.server_traces import followed
from logspec.toolchain import Toolchain
from logspec.traces import batches

MODULE = "raft/TraceMessageLog.tla"

_COLUMNS = ("seq", "kind", "log", "node", "term", "role", "peer", "f", "message")
_STOPS = frozenset({Kind.STOP, Kind.CRASH, Kind.POWER_LOSS, Kind.STORAGE_ERROR})
_LIGHT = frozenset({"LightHeartbeat", "LightReply"})
"""Messages that carry no term, and speak of all groups of a process at once."""


def read_message_traces(source: RunSource, name: str) -> list[ClientTrace]:
    """The traces of a run whose nodes recorded their messages; none if they did not, or if it has several logs.

    A run is followed up to the first lost disk, for its node forgets in which terms it spoke.
    """
    if not any(batch.num_rows for batch in source.batches(kinds=[Kind.SEND], columns=["seq"])):
        return []
    trace = ClientTrace(name, None)
    stands: dict[int, tuple[int, str]] = {}
    for batch in source.batches(columns=list(_COLUMNS)):
        for event in batch.to_pylist():
            if event["log"] is not None:
                return []
            if event["kind"] == Kind.FAULT and event["f"] == "wipe":
                return [trace]
            reported = _reported(event, stands)
            if reported:
                trace.events.append(reported)
                trace.seqs.append(event["seq"])
    return [trace]


def _reported(event: Mapping[str, Any], stands: dict[int, tuple[int, str]]) -> ClientEvent | None:
    """An event as the module has it; None if it says nothing that is followed."""
    kind, node = event["kind"], event["node"]
    if node is None:
        return None
    if kind in (Kind.SEND, Kind.RECEIVE):
        if event["f"] in _LIGHT:
            return None
        return str(kind), node, event["message"], event["f"], event["term"], event["peer"]
    if kind in _STOPS:
        stands.pop(node, None)
        return "stop", node
    if event["role"] is None or event["term"] is None:
        return None
    before, now = stands.get(node), (event["term"], event["role"])
    stands[node] = now
    if kind == Kind.START:
        return "start", node, event["term"]
    return ("becomes", node, *now) if now != before else None


def follow_messages(traces: Sequence[ClientTrace], tools: Toolchain, seconds: float | None = None) -> None:
    """Follow every trace, and set ``stuck`` of those that the spec does not allow. Raises `SpecError`."""
    for batch in batches(traces, BATCH_EVENTS, lambda trace: 0):
        nodes = sorted({int(event[1]) for trace in batch for event in trace.events})
        configuration = [f"CONSTANT Node = {{{', '.join(map(str, nodes))}}}", "VIEW Line"]
        for trace, line, _ in followed(MODULE, batch, written, configuration, tools, seconds):
            trace.stuck_at = trace.seqs[line - 1]
            trace.stuck = _sentence(trace.events[line - 1])


def _sentence(event: ClientEvent) -> str:
    """What a node says or hears that it may not."""
    kind, node, *values = event
    match kind:
        case "send":
            number, what, term, peer = values
            return (
                f"node {node} sends message {number}, {what} of term {term}, to {peer}: it is in another term or has "
                f"no such role, or no request of {peer} waits for that answer"
            )
        case "receive":
            number, what, term, peer = values
            return f"node {node} receives message {number}, {what} of term {term}, which {peer} has not sent to it so"
        case _:
            said = f" in term {values[0]}" if values else ""
            return (
                f"node {node} records {kind}{said}: it is down, its term falls, or it has sent messages of a later one"
            )
