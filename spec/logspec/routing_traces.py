"""Recorded queries of servers of pull queries, followed in the specification (`TraceRouting`).

A trace is one partition of one query: the view that it was routed by, whom it attempted in turn, and who answered from
which position. Sources: pull-queries.md#routing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from loghistory import Kind, RunSource
from logspec.errors import SpecError
from logspec.followers import Follower
from logspec.server_traces import followed
from logspec.toolchain import Toolchain

MODULE = "pull_queries/TraceRouting.tla"
BATCH_TRACES = 2000
"""Traces that are followed in one run of TLC."""

_EXHAUSTED = "Unable to execute pull query: Exhausted standby hosts to try."
_FINAL = ("client error", "no header")
"""After these the public implementation tries nobody else, which the model does not know."""
_KINDS = (Kind.SERVE, Kind.INVOKE, Kind.ROUTE, Kind.ANSWER, Kind.FINISH)
_COLUMNS = ("seq", "kind", "node", "op", "partition", "offset", "text")
_MOST = 1 << 30
"""TLC counts with 32 bits: no lag is as large, and a bound that is larger bounds nothing."""


@dataclass(slots=True)
class RoutingTrace:
    """One partition of one query. ``hosts`` are those of the partition, then others that reported; ``records`` by
    number from 1: offsets passed and the end."""

    name: str
    op: int
    partition: int
    seq: int
    shipped: bool
    bound: int
    filtered: bool
    active: int
    hosts: list[str]
    alive: list[int]
    records: dict[int, tuple[int, int]]
    failed: list[int] = field(default_factory=list)
    events: list[tuple[str, int]] = field(default_factory=lambda: [("ask", 0)])
    stuck: str | None = None
    """What the spec does not allow, in a sentence, once it was followed."""

    @property
    def end(self) -> int:
        """An end that the changelog may have had."""
        passed = [number for word, number in self.events if word == "passed"]
        return max([0, *passed, *(end for _, end in self.records.values())])


def read_routing_traces(source: RunSource, name: str) -> list[RoutingTrace]:
    """The traces of a run; none if it has no queries. Raises `SpecError`, and what reading raises."""
    servers: dict[int, Mapping[str, Any]] = {}
    asked: dict[int, int | None] = {}
    routed: dict[int, Mapping[str, Any]] = {}
    answered: dict[tuple[int, str, int], int] = {}
    found: list[RoutingTrace] = []
    for event in _events(source):
        kind, node, op = event["kind"], event["node"], event["op"]
        try:
            if kind == Kind.SERVE:
                servers[node] = json.loads(event["text"])
            elif kind == Kind.INVOKE:
                asked[op] = json.loads(event["text"] or "{}").get("bound")
            elif kind == Kind.ROUTE:
                routed.setdefault(op, event)
            elif kind == Kind.ANSWER and node in servers:
                answered[op, servers[node]["host"], event["partition"]] = event["offset"]
            elif kind == Kind.FINISH and op in asked and op in routed and routed[op]["node"] == node:
                view, finished = json.loads(routed[op]["text"]), json.loads(event["text"])
                for partition in _partitions(finished):
                    trace = _routed(name, event, partition, servers[node], asked[op], view)
                    _attempted(trace, finished, answered)
                    found.append(trace)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise SpecError(f"{name}: what event {event['seq']} says cannot be read: {error!r}") from None
    return found


def follow_queries(traces: Sequence[RoutingTrace], tools: Toolchain, seconds: float | None = None) -> None:
    """Follow every trace, and set ``stuck`` of those that the spec does not allow. Raises `SpecError`."""
    for _, group in groupby(sorted(traces, key=lambda trace: trace.shipped), key=lambda trace: trace.shipped):
        of_mode = list(group)
        for start in range(0, len(of_mode), BATCH_TRACES):
            batch = of_mode[start : start + BATCH_TRACES]
            for trace, line, _ in followed(MODULE, batch, _written, _configuration(batch), tools, seconds):
                trace.stuck = _sentence(trace, line - 1)


def _events(source: RunSource) -> Iterator[Mapping[str, Any]]:
    for batch in source.batches(kinds=list(_KINDS), columns=list(_COLUMNS)):
        yield from batch.to_pylist()


def _partitions(finished: Mapping[str, Any]) -> list[int]:
    """Those that were attempted, or of which the message says that nobody could be."""
    reported = re.findall(r"Partition (\d+) failed to find valid host", finished["message"] or "")
    return sorted({*(int(each) for each in reported), *(partition for partition, _, _ in finished["attempts"])})


def _routed(
    name: str,
    event: Mapping[str, Any],
    partition: int,
    server: Mapping[str, Any],
    bound: int | None,
    view: Mapping[str, Any],
) -> RoutingTrace:
    """What the router knew, in numbers. Whoever it may not ask at all is not alive."""
    shipped, placements = server["mode"] == "shipped", view["assignment"]["placements"]
    active, standbys = placements[partition] if partition < len(placements) else (None, [])
    placed = [*([active] if active in view["statuses"] or standbys or active in view["records"] else []), *standbys]
    reads, filtered = server.get("standby_reads", True), server.get("lag_reports", True)
    bounds = (bound, None if shipped else server.get("with_bound"), server["maximum_lag"])
    records = {
        host: (current, end)
        for host, (_, positions) in view["records"].items()
        for current, end in [positions.get(str(partition), (None, None))]
        if current is not None and (host in placed or not shipped)
    }
    if any(end >= _MOST or current >= _MOST for current, end in records.values()):
        raise SpecError(f"{name}: event {event['seq']} has offsets that are too large to be followed")
    hosts = [*placed, *(host for host in records if host not in placed)]
    number = {host: place for place, host in enumerate(hosts, 1)}
    alive = [
        number[host] for host in placed if view["statuses"].get(host, (shipped, 0))[0] and (reads or host == active)
    ]
    return RoutingTrace(
        name,
        event["op"],
        partition,
        event["seq"],
        shipped,
        min(next(each for each in bounds if each is not None), _MOST),
        filtered,
        number.get(active, 0),
        hosts,
        alive,
        {number[host]: record for host, record in records.items()},
    )


def _attempted(trace: RoutingTrace, finished: Mapping[str, Any], answered: Mapping[tuple[int, str, int], int]) -> None:
    """Whom the query attempted in turn, and how that ended."""
    number = {host: place for place, host in enumerate(trace.hosts, 1)}
    attempts = [(host, failure) for partition, host, failure in finished["attempts"] if partition == trace.partition]
    for host, failure in attempts:
        trace.events.append(("attempt", number.get(host, len(number) + 1)))
        if failure is not None:
            trace.failed.append(number.get(host, len(number) + 1))
            trace.events.append(("fail", 0))
            continue
        position = answered.get((trace.op, host, trace.partition))
        trace.events += [] if position is None else [("passed", position)]
        trace.events.append(("reply", 0))
    alone = {partition for partition, _, _ in finished["attempts"]} <= {trace.partition}
    final = trace.shipped and bool(attempts) and attempts[-1][1] in _FINAL
    unknown = not trace.shipped and finished["message"] not in (None, _EXHAUSTED)  # who is not exhausted goes on
    if not attempts or (finished["message"] is not None and (alone or unknown) and not final):
        trace.events.append(("over", 0))


def _written(trace: RoutingTrace) -> str:
    """The trace as a record of TLA+."""
    records = " @@ ".join(f"{h} :> [current |-> {c}, end |-> {e}]" for h, (c, e) in trace.records.items())
    events = ", ".join(f'<<"{word}", {number}>>' for word, number in trace.events)
    alive, failed = (", ".join(map(str, each)) for each in (trace.alive, trace.failed))
    return (
        f"[end |-> {trace.end}, bound |-> {trace.bound}, filtered |-> {str(trace.filtered).upper()}, "
        f"active |-> {trace.active}, alive |-> {{{alive}}}, failed |-> {{{failed}}}, "
        f"records |-> {records or '<<>>'}, events |-> <<{events}>>]"
    )


def _configuration(batch: Iterable[RoutingTrace]) -> list[str]:
    traces = list(batch)
    hosts = ", ".join(str(number) for number in range(1, 2 + max(len(trace.hosts) for trace in traces)))
    constants = {"Shipped": str(traces[0].shipped).upper(), "Node": f"{{{hosts}}}", "Nobody": "Nobody"}
    constants |= dict.fromkeys(("Bound", "MaxEnd", "MaxReports", "MaxCrashes", "MaxEpochs"), "0")  # bounds of own steps
    lines = [f"CONSTANT {name} = {value}" for name, value in constants.items()]
    lines += [f"CONSTANT {name} <- Given{name}" for name in ("Within", "LagCounts")]
    return [*lines, "INVARIANT GivenStaleness"]


def _sentence(trace: RoutingTrace, index: int) -> str:
    """What the event claims."""
    word, number = trace.events[index]
    place = f"event {trace.seq}: operation {trace.op}"
    host = trace.hosts[number - 1] if word == "attempt" and number <= len(trace.hosts) else "another host"
    said = {
        "attempt": f"asks {host} for partition {trace.partition}, whom the spec would not ask then",
        "over": f"ends, where the spec has somebody left to ask for partition {trace.partition}",
    }
    return f"{place} {said.get(word, f'goes on with partition {trace.partition} where the spec has come to its end')}"


FOLLOWER = Follower(module=MODULE, traces="partitions of queries", read=read_routing_traces, follow=follow_queries)
