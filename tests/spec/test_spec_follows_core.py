"""Hypothesis drives a cluster of Raft cores, and the specification has to allow what they did.

The counterpart of test_core_follows_spec.py: there the specification walks and the core follows. Several runs make one
example, because TLC takes a second to start; a failure names the first event that is not allowed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loghistory import Format, Manifest, MemorySink, Recorder, open_run, write_run
from logspec.recording import Trace, read_traces
from logspec.toolchain import find_toolchain
from logspec.traces import Campaign, follow_traces
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.events import CoreFactory
from quorumlog.faults import Fault
from quorumlog.raft.core import RaftCore
from quorumlog.raft.mutants import MUTANTS
from quorumlog.raft.settings import RaftConfiguration
from quorumlog.raft.simulated import RaftCluster
from quorumlog.simulation.configuration import DiskTiming, LogWorkload

NODES = (0, 1, 2)
Action = tuple[str, tuple[int, ...], int, int]
"""What, to which nodes (none: to the leader), with which acks, and how many milliseconds pass then."""

LASTING = (
    "kill",
    "partition",
    "mute",
    "deafen",
    "fsync_error",
    "slow_disk",
    "power_loss",
    "duplicate",
    "reorder",
    "loss",
)
ON_LINKS = ("duplicate", "reorder", "loss")

passing = st.sampled_from([0, 5, 30, 120, 400])
targets = st.sampled_from([(), (), (0,), (1,), (2,), (0, 1), NODES])
appends = st.tuples(
    st.just("append"), st.sampled_from([(), (), (0,), (1,), (2,)]), st.sampled_from([-1, -1, 1, 0]), passing
)
faults = st.tuples(st.sampled_from(LASTING), targets, st.just(0), passing)
healing = st.tuples(st.just("heal"), st.just(()), st.just(0), passing)
runs = st.tuples(st.integers(0, 2**16), st.lists(appends | appends | faults | healing, min_size=4, max_size=30))


def play(
    seed: int, actions: Sequence[Action], write_caching: bool, directory: Path, make_core: CoreFactory = RaftCore
) -> Trace:
    """Do what the actions say to a cluster, heal it at the end, and return what its nodes recorded."""
    configuration = RaftConfiguration(
        disk=DiskTiming(least=MILLISECOND, most=40 * MILLISECOND),
        workload=LogWorkload(timeout=SECOND),
        write_caching=write_caching,
    )
    sink = MemorySink()
    recorder = Recorder(sink)
    cluster = RaftCluster(seed, configuration, recorder, make_core)
    cluster.start()
    cluster.advance(300 * MILLISECOND)
    begun: list[tuple[Fault, tuple[int, ...]]] = []

    def heal() -> None:
        for token, (fault, nodes) in enumerate(begun):
            cluster.faults.end(fault, nodes, token)
        begun.clear()

    for what, nodes, acks, then in actions:
        leader = cluster.leader()
        hit = nodes or ((leader.number,) if leader is not None else ())
        if what == "heal":
            heal()
        elif what == "append" and hit:
            cluster.new_client().append(hit[0], acks=acks)
        elif hit:
            fault = Fault(cluster.simulation.now, what, hit, 0, {"probability": 0.3} if what in ON_LINKS else {})
            cluster.faults.begin(fault, hit, len(begun))
            begun.append((fault, hit))
        cluster.advance(then * MILLISECOND)
    heal()
    cluster.start()
    cluster.advance(SECOND)
    recorder.close()
    run = directory / f"run-{seed}-{len(list(directory.iterdir()))}"
    manifest = Manifest(name=run.name, made_by={"configuration": {"write_caching": write_caching}})
    write_run(run, sink.table, manifest, Format.JSON_LINES)
    (trace,) = read_traces(open_run(run))
    return trace


def follow(traces: Sequence[Trace]) -> Campaign:
    return follow_traces(traces, find_toolchain(), workers=1, coverage=False, seconds=120)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(batch=st.lists(runs, min_size=8, max_size=12), write_caching=st.booleans())
def test_the_specification_allows_what_the_cores_do(batch: list[tuple[int, list[Action]]], write_caching: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="driven-") as directory:
        campaign = follow([play(seed, actions, write_caching, Path(directory)) for seed, actions in batch])
    assert [one.stuck.sentence for one in campaign.followed if one.stuck is not None] == []


@pytest.mark.parametrize(
    ("mutant", "actions", "words"),
    [
        (
            "commit-counts-dirty",
            [("slow_disk", NODES, 0, 0), *[("append", (), -1, 30)] * 5],
            "the spec allows at most",
        ),
        (
            "visible-jumps-pending",
            [("partition", (), 0, 0), ("append", (), -1, 30), ("append", (), 1, 30)],
            "shows up to",
        ),
    ],
)
def test_it_does_not_allow_what_mutants_do(mutant: str, actions: list[Action], words: str, tmp_path: Path) -> None:
    campaign = follow([play(1, actions, False, tmp_path, MUTANTS[mutant].make_core)])
    (one,) = campaign.followed
    assert one.stuck is not None
    assert words in one.stuck.sentence
