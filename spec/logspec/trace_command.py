"""``logwitness spec trace``: check recorded runs against the specification."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from loghistory import HistoryError, open_run
from logspec.client_traces import ClientTrace, follow_clients, read_client_traces
from logspec.console import HOLDS, UNEXERCISED, VIOLATED, Status, print_actions, tool_options
from logspec.errors import SpecError
from logspec.followers import FollowedTrace, Follower, followers
from logspec.message_traces import follow_messages, read_message_traces
from logspec.recording import Trace, read_traces
from logspec.toolchain import Toolchain, find_toolchain
from logspec.traces import Campaign, Followed, Nearest, action_names, follow_traces, nearest_action

_EXPLAINED = 3
"""Of so many runs that are not allowed the nearest action is looked for; that takes seconds each."""


@click.command("trace", short_help="Follow recorded runs in the specification.")
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

    RUN is a run directory or a file of events that has the internal events of the nodes. What clients were told is
    followed as well, and so are messages if they are recorded. A log is followed until it is compacted or a disk is
    emptied.

    Exit status: 0 the spec allows everything; 1 it does not; 3 a run had nothing to follow.

    \b
    logwitness spec trace histories/runs/raft/reference-default
    logwitness spec trace histories/runs/pull_queries/cluster-kill-active
    logwitness spec trace histories/runs/read_path/reference-failover
    """
    read = _Read()
    try:
        for run in runs:
            read.add(run, caching)
        campaign = None
        tools = find_toolchain(jar, version) if read.any else None
        if tools:
            for follower, found in read.of_protocols.items():
                follower.follow(found, tools, seconds)
            follow_clients(read.clients, tools, seconds)
            follow_messages(read.messages, tools, seconds)
        if tools and read.logs:
            with Status("trace", enabled=sys.stderr.isatty() and not as_json) as status:
                campaign = follow_traces(
                    read.logs,
                    tools,
                    workers=workers,
                    coverage=coverage,
                    seconds=seconds,
                    on_batch=lambda done, of: status.say(f"{done} of {of} runs followed"),
                )
    except (SpecError, HistoryError) as problem:
        raise click.ClickException(str(problem)) from None
    rejected = _show_protocols(read.of_protocols, tools, seconds, as_json) if tools else 0
    if tools:
        rejected += _show_logs(read, campaign, tools, seconds, as_json)
    for run in read.empty:
        click.echo(json.dumps({"run": str(run), "verdict": "unexercised"}) if as_json else f"{run}: no events of nodes")
    if campaign:
        _show_campaign(campaign, as_json, coverage)
    return VIOLATED if rejected else UNEXERCISED if read.empty else HOLDS


@dataclass(slots=True)
class _Read:
    """What there is to follow: of replicated logs, of their clients and messages, of other protocols."""

    logs: list[Trace] = field(default_factory=list)
    clients: list[ClientTrace] = field(default_factory=list)
    messages: list[ClientTrace] = field(default_factory=list)
    of_protocols: dict[Follower[Any], list[FollowedTrace]] = field(default_factory=dict)
    empty: list[Path] = field(default_factory=list)

    @property
    def any(self) -> bool:
        return bool(self.logs or self.clients or any(self.of_protocols.values()))

    def add(self, run: Path, caching: bool | None) -> None:
        """Read a run: as one of another protocol if it has traces of that, else as logs."""
        found = {each: each.read(open_run(run), str(run)) for each in followers()}
        for follower, traces in found.items():
            self.of_protocols.setdefault(follower, []).extend(traces)
        if any(found.values()):
            return
        logs = [trace for trace in read_traces(open_run(run), caching) if trace.events]
        for trace in logs:
            trace.name = str(run)
        of_clients = read_client_traces(open_run(run), str(run), caching)
        self.logs += logs
        self.clients += of_clients
        self.messages += read_message_traces(open_run(run), str(run))
        if not of_clients and not logs:
            self.empty.append(run)


def _show_logs(read: _Read, campaign: Campaign | None, tools: Toolchain, seconds: float, as_json: bool) -> int:
    """What became of replicated logs; how many the spec does not allow."""
    rejected = 0
    of_log = {(each.name, each.log): each for each in (*read.clients, *(each for each in read.messages if each.stuck))}
    for followed in campaign.followed if campaign else ():
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
    return rejected


def _show_protocols(
    read: Mapping[Follower[Any], Sequence[FollowedTrace]], tools: Toolchain, seconds: float, as_json: bool
) -> int:
    """What became of runs of other protocols; how many the spec does not allow."""
    rejected = 0
    of_run: dict[str, dict[Follower[Any], list[FollowedTrace]]] = {}
    for follower, traces in read.items():
        for trace in traces:
            of_run.setdefault(trace.name, {}).setdefault(follower, []).append(trace)
    for run, found in of_run.items():
        events = sum(len(each.events) for traces in found.values() for each in traces)
        stuck = [(each, follower) for follower, traces in found.items() for each in traces if each.stuck is not None]
        rejected += bool(stuck)
        near = None
        if stuck and rejected <= _EXPLAINED:
            trace, follower = stuck[0]
            near = follower.nearest(trace, tools, seconds) if follower.nearest else None
        if as_json:
            result: dict[str, Any] = {"run": run, "events": events, "verdict": "rejected" if stuck else "accepted"}
            result |= {"sentences": [each.stuck for each, _ in stuck]}
            result |= {"nearest": {"action": near.action, "conjunct": near.conjunct}} if near else {}
            click.echo(json.dumps(result))
        elif stuck:
            click.echo(f"{run}: not allowed: {stuck[0][0].stuck}")
            _show_nearest(near)
        else:
            protocols = {each.protocol for each in found}
            kinds = [each for each in read if each.protocol in protocols]
            counts = " and ".join(f"{len(found.get(each, ()))} {each.traces}" for each in kinds)
            click.echo(f"{run}: allowed, {events} events in {counts}")
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
            result["until"] = trace.until.seq if trace.until else None
        click.echo(json.dumps(result))
    elif stuck is None:
        took = f"{len(followed.actions)} of {len(action_names())} actions"
        pairs = sum(before != "" for before, _ in followed.pairs)
        until = f" before event {trace.until.seq}, a {trace.until.event['kind']}," if trace.until else ""
        click.echo(f"{name}: allowed, {len(trace.events)} events{until or ','} {took}, {pairs} pairs of them")
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
    columns = [chr(ord("A") + place) for place in range(len(names))]
    width = max(map(len, names))
    click.echo(f"\n{'what came next':{width}}   {' '.join(columns)}")
    for column, before in zip(columns, names, strict=True):
        marks = " ".join("x" if (before, after) in campaign.pairs else "." for after in names)
        click.echo(f"{before:{width}} {column} {marks}")
