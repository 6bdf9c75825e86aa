"""Recorded heartbeats of servers of pull queries, followed in the specification (`TraceHeartbeats`).

A trace is one life of one server with what it heard of one other server and decided about it. Times are milliseconds
since the first stamp of the trace, for TLC counts with 32 bits. Sources: pull-queries.md#status-decision.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loghistory import Kind, RunSource
from logspec.errors import SpecError
from logspec.followers import Follower
from logspec.server_traces import followed
from logspec.tlavalue import print_value
from logspec.toolchain import Toolchain
from logspec.traces import batches

MODULE = "pull_queries/TraceHeartbeats.tla"
BATCH_EVENTS = 40_000
"""Events that are followed in one run of TLC."""

_ENDS = (Kind.STOP, Kind.CRASH, Kind.POWER_LOSS, Kind.STORAGE_ERROR)
_KINDS = (Kind.SERVE, Kind.HEARTBEAT, Kind.HEARD, Kind.UP, Kind.DOWN, *_ENDS)
_COLUMNS = ("seq", "kind", "node", "peer", "stamp", "text")
_MOST = 1 << 30

Pair = tuple[int, int]
"""Two servers: who sends, and who hears."""


class Rule(NamedTuple):
    """By what a server decides: mode, thresholds, window and send interval."""

    shipped: bool
    threshold: int
    received: int
    window: int
    send: int


@dataclass(slots=True)
class HeartbeatTrace:
    """What server ``node`` heard of ``peer`` in one life; ``seqs[i]`` is where ``events[i]`` was recorded."""

    name: str
    node: int
    peer: int
    rule: Rule
    zero: int
    events: list[tuple[str, int]] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    stuck: str | None = None
    """What the spec does not allow, in a sentence, once it was followed."""

    def add(self, seq: int, *events: tuple[str, int]) -> None:
        """Append events that were all recorded at ``seq``."""
        self.events += events
        self.seqs += [seq] * len(events)


def read_heartbeat_traces(source: RunSource, name: str) -> list[HeartbeatTrace]:
    """The traces of a run; none if it has no servers of pull queries. Raises `SpecError`, and what reading raises."""
    found: list[HeartbeatTrace] = []
    open_traces: dict[Pair, HeartbeatTrace] = {}
    rules: dict[int, Rule] = {}
    sent: dict[Pair, set[int]] = {}
    in_trace: dict[Pair, set[int]] = {}
    for event in _events(source):
        kind, node, peer, stamp, seq = (event[name] for name in ("kind", "node", "peer", "stamp", "seq"))
        if kind == Kind.SERVE or kind in _ENDS:
            for pair in [pair for pair in open_traces if pair[1] == node]:
                del open_traces[pair], in_trace[pair]
            rules.pop(node, None)
            if kind == Kind.SERVE:
                rules[node] = _rule(event, name)
            continue
        if kind == Kind.HEARTBEAT:
            sent.setdefault((node, peer), set()).add(stamp)
            continue
        pair = (peer, node)
        if node not in rules:
            continue
        if pair not in open_traces:
            open_traces[pair] = HeartbeatTrace(name, node, peer, rules[node], stamp - rules[node].window)
            found.append(open_traces[pair])
            in_trace[pair] = set()
        trace = open_traces[pair]
        at = stamp - trace.zero
        if not -_MOST < at < _MOST:
            raise SpecError(f"{name}: the stamp {stamp} of event {seq} is too far from the others to be followed")
        if kind == Kind.HEARD:
            word = "copied" if stamp in in_trace[pair] else "sent"
            in_trace[pair].add(stamp)
            trace.add(seq, *([(word, at)] if stamp in sent.get(pair, ()) else []), ("heard", at))
        else:
            trace.add(seq, ("clock", at), ("check", int(kind == Kind.UP)))
    return found


def follow_heartbeats(traces: Sequence[HeartbeatTrace], tools: Toolchain, seconds: float | None = None) -> None:
    """Follow every trace, and set ``stuck`` of those that the spec does not allow. Raises `SpecError`."""
    for batch in batches(traces, BATCH_EVENTS, lambda trace: trace.rule):
        rule = batch[0].rule
        constants = {
            "Shipped": "TRUE" if rule.shipped else "FALSE",
            "Threshold": rule.threshold,
            "Received": rule.received,
            "Window": rule.window,
            **dict.fromkeys(("MaxNow", "MaxSkew", "MaxDelay"), 0),  # bounds of the model's own steps
        }
        lines = ["CONSTANT Interval <- Given", *(f"CONSTANT {name} = {value}" for name, value in constants.items())]
        for trace, line, _ in followed(MODULE, batch, _written, lines, tools, seconds, f"Given == {rule.send}"):
            trace.stuck = _sentence(trace, line - 1)


def _events(source: RunSource) -> Iterator[Mapping[str, Any]]:
    for batch in source.batches(kinds=list(_KINDS), columns=list(_COLUMNS)):
        yield from batch.to_pylist()


def _rule(event: Mapping[str, Any], name: str) -> Rule:
    """What a server was told, as `loghistory.vocabularies.pull_queries` has it."""
    try:
        reported = json.loads(event["text"])
        names = ("missed_threshold", "received_threshold", "heartbeat_window", "heartbeat_send")
        numbers = [int(reported[each]) for each in names]
        return Rule(reported["mode"] == "shipped", *numbers)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SpecError(f"{name}: the configuration in event {event['seq']} cannot be read: {error!r}") from None


def _written(trace: HeartbeatTrace) -> str:
    """The trace as a sequence of TLA+."""
    return f"<<{', '.join(f'<<{print_value(word)}, {number}>>' for word, number in trace.events)}>>"


def _sentence(trace: HeartbeatTrace, index: int) -> str:
    """What the event claims, and what the spec would have allowed."""
    word, number = trace.events[index]
    place = f"event {trace.seqs[index]}"
    if word == "heard":
        stamp = number + trace.zero
        return f"{place}: node {trace.node} hears a heartbeat with stamp {stamp} that node {trace.peer} had not sent"
    said, right = ("up", "down") if number else ("down", "up")
    before = [decided for at, decided in trace.events[:index] if at == "check"]
    held = "down" if before and not before[-1] else "up"
    return f"{place}: node {trace.node} decides that node {trace.peer} is {said}, {held} before; the spec says {right}"


FOLLOWER = Follower(
    module=MODULE, traces="lives of pairs of servers", read=read_heartbeat_traces, follow=follow_heartbeats
)
