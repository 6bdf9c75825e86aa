"""``logwitness spec trace``: check recorded runs against the specification."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from loghistory import HistoryError, open_run
from logspec.client_traces import ClientTrace, follow_clients, read_client_traces
from logspec.console import HOLDS, UNEXERCISED, VIOLATED, Status, print_actions, tool_options
from logspec.errors import SpecError
from logspec.heartbeat_traces import HeartbeatTrace, follow_heartbeats, read_heartbeat_traces
from logspec.message_traces import follow_messages, read_message_traces
from logspec.reading_traces import ReadingTrace, follow_reading, nearest_step, read_reading_traces
from logspec.recording import read_traces
from logspec.recovery_traces import RecoveryTrace, follow_recoveries, nearest_recovery, read_recovery_traces
from logspec.routing_traces import RoutingTrace, follow_queries, read_routing_traces
from logspec.toolchain import Toolchain, find_toolchain
from logspec.traces import Campaign, Followed, Nearest, action_names, follow_traces, nearest_action

_EXPLAINED = 3
"""Of so many runs that are not allowed the nearest action is looked for; that takes seconds each."""


@click.command("trace")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per log, then one for all of them.")
@click.option("--coverage/--no-coverage", help="Show which actions and branches of the spec were taken; slower.")
@click.option(
    "--write-caching/--no-write-caching",
    "caching",
    default=None,
    help="Whether acks=all is answered without a flush; by default the manifest says.",
)
@tool_options
def trace_command(
    runs: Sequence[Path],
    as_json: bool,
    coverage: bool,
    caching: bool | None,
    jar: str | None,
    version: str | None,
    workers: int,
    seconds: float,
) -> int:
    """Follow recorded runs in the specification; name the first event that it does not allow.

    RUN is a run directory or a file of events, with the internal events of the nodes; what clients were told, and
    messages if they are recorded, are followed as well. Exit status 0: the spec allows all; 1: it does not; 3: a run
    had nothing to follow.

    \b
    logwitness spec trace histories/runs/raft/reference-default
    logwitness spec trace histories/runs/pull_queries/cluster-kill-active
    logwitness spec trace histories/runs/read_path/reference-failover
    """
    try:
        traces, empty = [], []
        heard: list[HeartbeatTrace] = []
        asked: list[RoutingTrace] = []
        clients: list[ClientTrace] = []
        messages: list[ClientTrace] = []
        streams: list[ReadingTrace] = []
        epochs: list[RecoveryTrace] = []
        for run in runs:
            of_servers = read_heartbeat_traces(open_run(run), str(run))
            of_queries = read_routing_traces(open_run(run), str(run))
            of_readers = read_reading_traces(open_run(run), str(run))
            of_epochs = read_recovery_traces(open_run(run), str(run))
            heard += of_servers
            asked += of_queries
            streams += of_readers
            epochs += of_epochs
            if of_servers or of_queries or of_readers or of_epochs:
                continue
            found = read_traces(open_run(run), caching)
            for trace in found:
                trace.name = str(run)
            traces += found
            of_clients = read_client_traces(open_run(run), str(run), caching)
            clients += of_clients
            messages += read_message_traces(open_run(run), str(run))
            if not of_clients and not any(trace.events for trace in found):
                empty.append(run)
        traces = [trace for trace in traces if trace.events]
        campaign = None
        if traces or heard or asked or streams or epochs or clients:
            tools = find_toolchain(jar, version)
            follow_heartbeats(heard, tools, seconds)
            follow_queries(asked, tools, seconds)
            follow_reading(streams, tools, seconds)
            follow_recoveries(epochs, tools, seconds)
            follow_clients(clients, tools, seconds)
            follow_messages(messages, tools, seconds)
        if traces:
            with Status("trace", enabled=sys.stderr.isatty() and not as_json) as status:
                campaign = follow_traces(
                    traces,
                    tools,
                    workers=workers,
                    coverage=coverage,
                    seconds=seconds,
                    on_batch=lambda done, of: status.say(f"{done} of {of} runs followed"),
                )
    except (SpecError, HistoryError) as problem:
        raise click.ClickException(str(problem)) from None
    rejected = _show_servers(heard, asked, as_json)
    of_log = {(each.name, each.log): each for each in (*clients, *(said for said in messages if said.stuck))}
    if streams or epochs:
        rejected += _show_read_path(streams, epochs, tools, seconds, as_json)
    if campaign:
        for followed in campaign.followed:
            clients_trace = of_log.pop((followed.trace.name, followed.trace.log), None)
            if followed.accepted and clients_trace and clients_trace.stuck:
                rejected += 1
                _show_clients(clients_trace, as_json)
                continue
            rejected += not followed.accepted
            near = nearest_action(followed, tools, seconds) if rejected <= _EXPLAINED else None
            _show_followed(followed, near, as_json)
    for alone in of_log.values():
        rejected += alone.stuck is not None
        _show_clients(alone, as_json)
    for run in empty:
        click.echo(json.dumps({"run": str(run), "verdict": "unexercised"}) if as_json else f"{run}: no events of nodes")
    if campaign:
        _show_campaign(campaign, as_json, coverage)
    return VIOLATED if rejected else UNEXERCISED if empty else HOLDS


def _show_servers(heard: Sequence[HeartbeatTrace], asked: Sequence[RoutingTrace], as_json: bool) -> int:
    """What became of runs of servers of pull queries; how many the spec does not allow."""
    rejected = 0
    for run in dict.fromkeys((*(each.name for each in heard), *(each.name for each in asked))):
        lives, queries = [each for each in heard if each.name == run], [each for each in asked if each.name == run]
        events = sum(len(each.events) for each in lives) + sum(len(each.events) for each in queries)
        said = [*(each.stuck for each in lives), *(each.stuck for each in queries)]
        stuck = [sentence for sentence in said if sentence is not None]
        rejected += bool(stuck)
        if as_json:
            verdict = "rejected" if stuck else "accepted"
            click.echo(json.dumps({"run": run, "events": events, "verdict": verdict, "sentences": stuck}))
        elif stuck:
            click.echo(f"{run}: not allowed: {stuck[0]}")
        else:
            judged = f"{len(lives)} lives of pairs of servers and {len(queries)} partitions of queries"
            click.echo(f"{run}: allowed, {events} events in {judged}")
    return rejected


def _show_clients(trace: ClientTrace, as_json: bool) -> None:
    """What became of a log of which only the clients were followed, or only they were told what is not allowed."""
    name = trace.name if trace.log is None else f"{trace.name} log {trace.log}"
    if as_json:
        result: dict[str, Any] = {"run": trace.name, "log": trace.log, "events": len(trace.events)}
        result["verdict"] = "rejected" if trace.stuck else "accepted"
        if trace.stuck:
            result |= {"seq": trace.stuck_at, "sentence": trace.stuck}
        click.echo(json.dumps(result))
    elif trace.stuck:
        click.echo(f"{name}: event {trace.stuck_at} is not allowed: {trace.stuck}")
    else:
        click.echo(f"{name}: allowed, {len(trace.events)} events of clients")


def _show_read_path(
    streams: Sequence[ReadingTrace], epochs: Sequence[RecoveryTrace], tools: Toolchain, seconds: float, as_json: bool
) -> int:
    """What became of runs of the read path; how many the spec does not allow."""
    rejected = 0
    for run in dict.fromkeys([*(each.name for each in streams), *(each.name for each in epochs)]):
        read, written = [t for t in streams if t.name == run], [t for t in epochs if t.name == run]
        of_run: list[ReadingTrace | RecoveryTrace] = [*read, *written]
        events, stuck = sum(len(each.events) for each in of_run), [each for each in of_run if each.stuck is not None]
        rejected += bool(stuck)
        near = _nearest(stuck[0], tools, seconds) if stuck and rejected <= _EXPLAINED else None
        if as_json:
            result = {"run": run, "events": events, "verdict": "rejected" if stuck else "accepted"}
            result |= {"sentences": [each.stuck for each in stuck]}
            result |= {"nearest": {"action": near.action, "conjunct": near.conjunct}} if near else {}
            click.echo(json.dumps(result))
        elif stuck:
            click.echo(f"{run}: not allowed: {stuck[0].stuck}")
            _show_nearest(near)
        else:
            click.echo(f"{run}: allowed, {events} events in {len(read)} streams and {len(written)} epochs")
    return rejected


def _nearest(trace: ReadingTrace | RecoveryTrace, tools: Toolchain, seconds: float) -> Nearest | None:
    if isinstance(trace, ReadingTrace):
        return nearest_step(trace, tools, seconds)
    return nearest_recovery(trace, tools, seconds)


def _show_nearest(near: Nearest | None) -> None:
    if near:
        click.echo(f"  nearest action: {near.action}; what does not hold: {near.conjunct}")


def _show_followed(followed: Followed, near: Nearest | None, as_json: bool) -> None:
    trace, stuck = followed.trace, followed.stuck
    name = trace.name if trace.log is None else f"{trace.name} log {trace.log}"
    if as_json:
        result: dict[str, Any] = {"run": trace.name, "log": trace.log, "events": len(trace.events)}
        result["verdict"] = "accepted" if stuck is None else "rejected"
        if stuck:
            result |= {"seq": stuck.place.seq, "line": stuck.place.row + 2, "sentence": stuck.sentence}
            result["followed"] = stuck.index
            result["nearest"] = {"action": near.action, "conjunct": near.conjunct} if near else None
        else:
            result["pairs"] = sorted(followed.pairs)
        click.echo(json.dumps(result))
    elif stuck is None:
        took = f"{len(followed.actions)} of {len(action_names())} actions"
        pairs = sum(before != "" for before, _ in followed.pairs)
        click.echo(f"{name}: allowed, {len(trace.events)} events, {took}, {pairs} pairs of them")
    else:
        click.echo(f"{name}: event {stuck.place.seq} (line {stuck.place.row + 2}) is not allowed: {stuck.sentence}")
        _show_nearest(near)


def _show_campaign(campaign: Campaign, as_json: bool, coverage: bool) -> None:
    rate = campaign.events / campaign.seconds if campaign.seconds else 0
    if as_json:
        click.echo(
            json.dumps(
                {
                    "runs": len(campaign.followed),
                    "events": campaign.events,
                    "seconds": round(campaign.seconds, 2),
                    "actions": campaign.actions,
                    "unvisited": campaign.unvisited,
                }
            )
        )
        return
    click.echo(f"{campaign.events} events in {campaign.seconds:.1f} s, {rate:.0f} a second")
    if coverage:
        print_actions(Console(highlight=False), campaign.actions)
        _show_pairs(campaign)
        for place in campaign.unvisited:
            click.echo(f"never evaluated: {place}")


def _show_pairs(campaign: Campaign) -> None:
    """A picture of what nodes did directly after what: a row is what came first."""
    names = action_names()
    columns = [chr(ord("a") + place) for place in range(len(names))]
    width = max(map(len, names))
    click.echo(f"\n{'what came next':{width}}   {' '.join(columns)}")
    for column, before in zip(columns, names, strict=True):
        marks = " ".join("x" if (before, after) in campaign.pairs else "." for after in names)
        click.echo(f"{before:{width}} {column} {marks}")
