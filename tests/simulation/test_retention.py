"""Nodes give up the beginning of their logs at random times: whoever is behind begins where its leader's log begins."""

from __future__ import annotations

import pytest

from loghistory import MemorySink, Recorder
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.faults import Fault
from quorumlog.hunting.judge import judge_table
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import SETTINGS, RaftConfiguration
from quorumlog.raft.simulated import RaftCluster

MEAN_PAUSE = 60 * MILLISECOND
NOBODY_BEHIND = {"leaders-leave", "pairs"}
"""Settings in which hardly anything hinders anybody, so that no log begins anew."""


class Trimming(RaftCluster):
    """A cluster of which now and then one node keeps only what it does not know to be committed."""

    def start(self) -> None:
        super().start()
        self.draw = self.simulation.random("retention")
        self._soon()

    def _soon(self) -> None:
        self.simulation.after(int(self.draw.expovariate(1) * MEAN_PAUSE), self._trim)

    def _trim(self) -> None:
        node = self.draw.choice(self.nodes)
        if node.host.running and not node.host.paused:
            node.trim(node.core.commit + 1)
        self._soon()


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_trimmed_logs_under_faults_keep_all_promises(setting: str) -> None:
    configuration = SETTINGS[setting]
    begun_anew = 0
    for seed in range(3):
        sink = MemorySink()
        recorder = Recorder(sink)
        outcome = Trimming(seed, configuration, recorder).play()
        recorder.close()
        assert outcome.converged, f"seed {seed}"
        judged = judge_table("raft", sink.table, configuration)
        assert [check for check in judged["checks"] if check["verdict"] == "violated"] == [], f"seed {seed}"
        events = sink.table.select(["kind", "offset", "dirty"]).to_pylist()
        begun_anew += sum(event["kind"] == "trim" and event["dirty"] < event["offset"] for event in events)
        if begun_anew:
            break
    assert begun_anew or setting in NOBODY_BEHIND, "no log was given up whole; choose other seeds or trim more often"


@pytest.mark.parametrize("seed", range(6))
def test_a_trim_that_the_next_start_finds_done_is_recorded_although_its_sync_failed(seed: int) -> None:
    begin = 500 * MILLISECOND
    plan = (Fault(begin, "fsync_error", ("all",)), Fault(begin, "trim", ("all",)))
    configuration = RaftConfiguration(plan=plan, duration=SECOND, segment_bytes=200)
    table, _ = PROTOCOL.simulate(seed, configuration)
    events = table.to_pylist()
    begins = {}
    for event in events:
        if event["kind"] == "trim":
            begins[event["node"]] = event["offset"]
        elif event["kind"] == "start" and event["incarnation"]:
            assert event["commit"] == begins.get(event["node"], 0) - 1
    assert any(event["kind"] == "storage_error" for event in events)
    assert judge_table("raft", table, configuration)["verdict"] == "holds"
