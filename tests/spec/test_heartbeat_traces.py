"""What servers heard and how they routed, in simulated and real runs, are behaviours of the spec; mutants' are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner

from loghistory import open_run
from logspec.heartbeat_traces import HeartbeatTrace, follow_heartbeats, read_heartbeat_traces
from logspec.routing_traces import RoutingTrace, follow_queries, read_routing_traces
from logspec.toolchain import find_toolchain
from logspec.trace_command import trace_command

RECORDED = Path(__file__).resolve().parents[2] / "histories" / "runs" / "pull_queries"
MUTANTS = ("counters-not-reset", "threshold-not-reached", "future-stamps-counted")


def traces_of(*names: str) -> list[HeartbeatTrace]:
    return [trace for name in names for trace in read_heartbeat_traces(open_run(RECORDED / name), name)]


def test_runs_of_the_reference_are_allowed_and_those_of_mutants_are_not() -> None:
    good = sorted(path.name for path in RECORDED.iterdir() if not path.name.startswith("mutant-"))
    assert {"cluster-kill-active", "cluster-shipped", "reference-clocks-differ"} <= set(good)
    traces = traces_of(*good, *(f"mutant-{name}" for name in MUTANTS))
    follow_heartbeats(traces, find_toolchain(None, None))
    stuck = {trace.name for trace in traces if trace.stuck is not None}
    assert stuck == {f"mutant-{name}" for name in MUTANTS}
    for name in good:
        assert sum(word == "check" for trace in traces if trace.name == name for word, _ in trace.events) > 40, name


CHANGED = {"heard": "hears a heartbeat with stamp {stamp} that node {peer} had not sent", "check": "the spec says"}


def test_a_trace_that_is_changed_is_refused_at_that_event() -> None:
    trace = max(traces_of("cluster-kill-active"), key=lambda trace: len(trace.events))
    others = {}
    for word in CHANGED:
        at = [place for place, event in enumerate(trace.events) if event[0] == word][20]
        number = trace.events[at][1]
        changed = (word, 1 - number if word == "check" else number + 7)
        events = [*trace.events[:at], changed, *trace.events[at + 1 :]]
        others[word] = at, changed[1] + trace.zero, replace(trace, events=events)
    follow_heartbeats([trace, *(other for _, _, other in others.values())], find_toolchain(None, None))
    assert trace.stuck is None
    for word, (at, stamp, other) in others.items():
        assert other.stuck is not None
        assert other.stuck.startswith(f"event {trace.seqs[at]}: node {trace.node} ")
        assert CHANGED[word].format(stamp=stamp, peer=trace.peer) in other.stuck


# -- queries -----------------------------------------------------------------------------------------------------------

MISROUTED = (
    "dead-standby-admitted",
    "unknown-lag-admitted",
    "lag-beyond-bound",
    "own-report-as-end",
    "failure-is-final",
)


def queries_of(*names: str) -> list[RoutingTrace]:
    return [trace for name in names for trace in read_routing_traces(open_run(RECORDED / name), name)]


def test_queries_of_the_reference_are_allowed_and_those_of_mutants_are_not() -> None:
    good = sorted(path.name for path in RECORDED.iterdir() if not path.name.startswith("mutant-"))
    traces = queries_of(*good, *(f"mutant-{name}" for name in MISROUTED))
    follow_queries(traces, find_toolchain(None, None))
    stuck = {trace.name for trace in traces if trace.stuck is not None}
    assert stuck == {f"mutant-{name}" for name in MISROUTED}
    for name in good:
        words = [word for trace in traces if trace.name == name for word, _ in trace.events]
        assert words.count("reply") > 30, name


MISTOLD: tuple[tuple[list[tuple[str, int]], int | None], ...] = (
    ([("ask", 0), ("attempt", 2), ("reply", 0)], None),  # the second candidate before the first
    ([("ask", 0), ("over", 0)], None),  # an end before anybody was asked
    ([("ask", 0), ("attempt", 1), ("reply", 0), ("attempt", 2)], None),  # one more after an answer
    ([("ask", 0), ("attempt", 1), ("fail", 0), ("attempt", 2), ("reply", 0)], None),  # a failure of who answers
    ([("ask", 0), ("attempt", 1), ("fail", 0), ("attempt", 2), ("passed", 0), ("reply", 0)], 0),  # a smaller bound
)
"""What is told of a query as it did not happen, and by which bound."""


def test_a_query_that_is_changed_is_refused() -> None:
    answered = [each for each in queries_of("cluster-kill-active") if each.events[-1] == ("reply", 0)]
    trace = next(each for each in answered if {1, 2} <= set(each.alive) and each.active == 1 and not each.failed)
    others = [replace(trace, events=events, failed=[] if bound is None else [1]) for events, bound in MISTOLD]
    for other, (_, bound) in zip(others, MISTOLD, strict=True):
        other.bound = trace.bound if bound is None else bound
    follow_queries([trace, *others], find_toolchain(None, None))
    assert trace.stuck is None
    for other in others:
        assert (other.stuck or "").startswith(f"event {trace.seq}: operation {trace.op} "), other.events


def test_the_command_follows_servers_too() -> None:
    runs = [str(RECORDED / name) for name in ("cluster-shipped", "mutant-threshold-not-reached")]
    done = CliRunner().invoke(trace_command, runs, standalone_mode=False)
    assert done.return_value == 1
    allowed, refused = done.output.splitlines()
    assert allowed.startswith(f"{runs[0]}: allowed, ")
    assert refused.startswith(f"{runs[1]}: not allowed: event ")
