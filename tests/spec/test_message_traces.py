"""What nodes said to each other in runs of the reference is allowed; what is planted in one is refused, where it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace as configured

from loghistory import open_run
from logspec.cli import spec
from logspec.client_traces import ClientEvent, ClientTrace
from logspec.message_traces import follow_messages, read_message_traces
from logspec.toolchain import Toolchain
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import SETTINGS
from quorumlog.simulation.runs import made_by, save_run

RECORDED = Path(__file__).parents[2] / "histories" / "runs" / "raft"


def planted(trace: ClientTrace, name: str, at: int, *events: ClientEvent) -> ClientTrace:
    """The trace with events put in the place of one."""
    seqs = [*trace.seqs[:at], *[trace.seqs[at]] * len(events), *trace.seqs[at + 1 :]]
    return replace(trace, name=name, events=[*trace.events[:at], *events, *trace.events[at + 1 :]], seqs=seqs)


def test_what_is_planted_is_refused_where_it_is(tools: Toolchain) -> None:
    (trace,) = read_message_traces(open_run(RECORDED / "reference-messages"), "reference")
    said = [at for at, event in enumerate(trace.events) if event[0] == "send"]
    answers = [at for at in said if trace.events[at][3] == "AppendReply"]
    requests = [at for at in said if trace.events[at][3] == "AppendEntries"]
    answer, request = answers[len(answers) // 2], requests[len(requests) // 2]
    vote = next(at for at in said if trace.events[at][3] == "VoteReply")
    received = next(at for at, event in enumerate(trace.events) if event[0] == "receive" and at > request)
    _, follower, number, what, term, peer = trace.events[answer]
    _, leader, asked, _, _, of = trace.events[request]
    _, voter, ballot, _, _, candidate = trace.events[vote]
    hears = trace.events[received]
    faults = [
        (answer, ("send", follower, number, "Heartbeat", term, peer)),
        (answer, ("send", follower, number, "InstallSnapshot", term, peer)),
        (answer, ("send", follower, number, "HeartbeatReply", term, follower)),
        (answer, ("send", follower, number, what, int(term) + 1, peer)),
        (answer, ("send", follower, number, what, int(term) - 1, peer)),
        (answer, trace.events[answer], ("send", follower, 10_000, what, term, peer)),
        (answer, ("stop", follower), ("start", follower, term), trace.events[answer]),
        (answer, ("stop", follower), ("start", follower, int(term) - 1)),
        (answer, ("stop", follower), trace.events[answer]),
        (request, ("send", leader, asked, "VoteRequest", term, of)),
        (request, ("send", leader, asked, "AppendReply", term, of)),
        (request, ("send", leader, trace.events[answers[0]][2], "AppendEntries", term, of)),
        (vote, ("send", voter, ballot, "VoteReply", 0, voter)),
        (received, ("receive", hears[1], 10_000, *hears[3:])),
        (received, ("receive", hears[1], *hears[2:5], hears[1])),
        (received, ("receive", hears[1], hears[2], hears[3], int(hears[4]) + 1, hears[5])),
        (answer, ("becomes", follower, int(term) - 1, "follower")),
    ]
    assert candidate != voter
    traces = [planted(trace, f"fault {number}", *fault) for number, fault in enumerate(faults)]
    follow_messages([trace, *traces], tools)
    assert trace.stuck is None
    for fault, reported in zip(faults, traces, strict=True):
        assert reported.stuck, fault
        late = len(fault) == 3 and fault[2][0] == "send"  # of two answers too many the second may be the one to be seen
        assert reported.stuck_at is not None
        assert reported.stuck_at >= trace.seqs[fault[0]] if late else reported.stuck_at == trace.seqs[fault[0]], fault


def test_a_run_is_refused_for_what_is_said_in_it(tmp_path: Path) -> None:
    lines = []
    source = open_run(RECORDED / "reference-messages")
    for batch in source.batches():
        for event in batch.to_pylist():
            reported = {name: value for name, value in event.items() if value is not None}
            if reported["kind"] in ("send", "receive") and reported.get("message") == 50:
                reported["f"] = "VoteReply"
            lines.append(json.dumps(reported))
    file = tmp_path / "run.jsonl"
    file.write_text("\n".join(['{"kind": "history", "version": 2}', *lines]) + "\n")
    reported = CliRunner().invoke(spec, ["trace", str(file)], standalone_mode=False)
    assert reported.return_value == 1
    assert "sends message 50, VoteReply of term 1" in reported.output


def test_who_forgets_the_term_that_it_has_spoken_in_is_refused(tools: Toolchain, tmp_path: Path) -> None:
    configuration = configured(PROTOCOL.configured("swarm", 2), messages=True)
    table, _ = PROTOCOL.simulate(2, configuration, PROTOCOL.mutants["restart-forgets-term"].make_core)
    save_run(tmp_path / "run", table, made_by("raft", 2, configuration))
    (trace,) = read_message_traces(open_run(tmp_path / "run"), "run")
    follow_messages([trace], tools)
    assert trace.stuck is not None
    assert "records start in term 1" in trace.stuck


@pytest.mark.long
def test_what_is_said_in_simulated_runs_is_allowed(tools: Toolchain, tmp_path: Path) -> None:
    traces = []
    for seed, (name, setting) in enumerate(SETTINGS.items()):
        configuration = configured(setting, messages=True)
        table, _ = PROTOCOL.simulate(seed, configuration)
        save_run(tmp_path / name, table, made_by("raft", seed, configuration))
        traces += read_message_traces(open_run(tmp_path / name), name)
    assert len(traces) > len(SETTINGS) // 2
    follow_messages(traces, tools)
    assert [(trace.name, trace.stuck_at, trace.stuck) for trace in traces if trace.stuck] == []
