"""Whole simulated runs: reproducible to the byte, and what each fault does to a cluster."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from loghistory import MemorySink, Recorder
from logwitness.checks import all_checks
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.faults import KINDS, Fault
from quorumlog.node.real_protocol import real_protocol, real_protocols
from quorumlog.protocol import every, load, names
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import SETTINGS, RaftConfiguration
from quorumlog.raft.simulated import RaftCluster
from quorumlog.simulation.configuration import (
    ConfigurationError,
    configuration_from_json,
    configuration_to_json,
)

QUIET = RaftConfiguration(duration=SECOND, plan=())

PROGRAM = """
import hashlib, sys
from pathlib import Path
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.simulation.runs import made_by, save_run
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import SETTINGS
table, _ = PROTOCOL.simulate(5, SETTINGS[sys.argv[1]])
save_run(Path(sys.argv[2]), table, made_by("raft", 5, SETTINGS[sys.argv[1]]))
"""


def rows(configuration: RaftConfiguration, seed: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = PROTOCOL.simulate(seed, configuration)[0].to_pylist()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["default", "stale-votes"])
def test_the_same_seed_and_configuration_give_the_same_bytes_in_every_process(setting: str, tmp_path: Path) -> None:
    digests = set()
    for hash_seed in ("0", "1", "4242"):
        directory = tmp_path / hash_seed / "run"
        directory.parent.mkdir()
        subprocess.run(
            [sys.executable, "-c", PROGRAM, setting, str(directory)],
            env={"PYTHONHASHSEED": hash_seed},
            check=True,
            timeout=120,
        )
        digests.add(
            tuple(
                hashlib.sha256((directory / name).read_bytes()).hexdigest()
                for name in ("events.jsonl", "manifest.json")
            )
        )
    assert len(digests) == 1


def test_another_seed_gives_another_run() -> None:
    assert rows(SETTINGS["default"], 1) != rows(SETTINGS["default"], 2)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_configuration_survives_json(setting: str) -> None:
    configuration = replace(SETTINGS[setting], plan=(Fault(1, "loss", ("leader", 1), 7, {"probability": 0.25}),))
    plain = json.loads(json.dumps(configuration_to_json(configuration)))
    assert configuration_from_json(plain, RaftConfiguration) == configuration


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"nodes": 0}, "nodes 0 is out of range"),
        ({"nodes": "3"}, "Expected `int`, got `str`"),
        ({"nodse": 3}, "unknown field `nodse`"),
        ({"duration": -1}, "duration -1 is out of range"),
        ({"workload": {"clients": 10**9}}, "workload.clients"),
        ({"faults": {"weights": {"flood": 1}}}, "flood"),
    ],
)
def test_a_bad_configuration_is_refused_in_one_line(plain: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        configuration_from_json(plain, RaftConfiguration)
    assert "\n" not in str(caught.value)


def test_a_quiet_run_has_one_leader_and_hardly_a_failure() -> None:
    history, outcome = PROTOCOL.simulate(3, QUIET)
    counts = outcome.counts
    assert outcome.converged
    assert [row["f"] for row in history.to_pylist() if row["kind"] == "phase"] == ["load", "heal", "final_read"]
    assert counts["leader"] == 1
    assert counts["crash"] == counts["truncate"] == counts["storage_error"] == 0
    assert counts["append ok"] > 50
    assert counts["append info"] == 0
    assert counts["final_read ok"] == 3


@pytest.mark.parametrize("name", KINDS)
def test_every_fault_is_recorded_ended_and_survived(name: str) -> None:
    plan = (Fault(300 * MILLISECOND, name, ("leader",), 400 * MILLISECOND),)
    table, outcome = PROTOCOL.simulate(4, replace(QUIET, plan=plan))
    events = table.to_pylist()
    assert outcome.converged
    seen = Counter((event["kind"], event["f"]) for event in events)
    assert seen["fault", name] == seen["heal", name] == 1
    leader = next(event["node"] for event in events if event["kind"] == "fault")
    kinds = Counter(event["kind"] for event in events if event["node"] == leader)
    ends_process = {
        "kill": "crash",
        "kill_midway": "crash",
        "power_loss": "power_loss",
        "power_loss_midway": "power_loss",
        "stop": "stop",
        "fsync_error": "storage_error",
        "open_error": "storage_error",
        "disk_full": "storage_error",
        "lost_name": "storage_error",
    }
    if name in ends_process:
        assert kinds[ends_process[name]] == 1
        assert kinds["start"] == 2
    else:
        assert kinds["start"] == 1
    if name in {"kill", "power_loss", "pause", "partition", "mute"}:
        assert outcome.counts["leader"] >= 2


@pytest.mark.parametrize(("name", "hears_of_it"), [("mute", True), ("partition", False), ("deafen", False)])
def test_only_a_mute_leader_learns_while_it_is_cut_off_that_another_one_leads(name: str, hears_of_it: bool) -> None:
    plan = (Fault(500 * MILLISECOND, name, ("leader",), 1200 * MILLISECOND),)
    events = rows(replace(QUIET, duration=2 * SECOND, plan=plan), 4)
    cut, healed = (next(event for event in events if event["kind"] == kind) for kind in ("fault", "heal"))
    meanwhile = [event for event in events if cut["time"] < event["time"] < healed["time"]]
    assert [event["node"] for event in meanwhile if event["kind"] == "leader"] not in ([], [cut["node"]])
    entered = {event["term"] for event in meanwhile if event["kind"] == "term" and event["node"] == cut["node"]}
    assert (2 in entered) == hears_of_it


def test_a_paused_leader_learns_afterwards_that_it_is_over() -> None:
    plan = (Fault(300 * MILLISECOND, "pause", ("leader",), 600 * MILLISECOND),)
    events = rows(replace(QUIET, plan=plan), 4)
    paused = next(event for event in events if event["kind"] == "fault")
    resumed = next(event for event in events if event["kind"] == "heal")
    node = paused["node"]
    of_node = [e for e in events if e["node"] == node and e["dirty"] is not None]
    assert not [e for e in of_node if paused["seq"] < e["seq"] and e["time"] < resumed["time"]]
    later = [e for e in of_node if e["time"] >= resumed["time"]]
    assert {"kind": "term", "term": 2} in [{"kind": e["kind"], "term": e["term"]} for e in later]


def test_power_loss_takes_only_what_was_not_flushed() -> None:
    lost = 0
    for seed in range(12):
        configuration = replace(SETTINGS["lost-power"], duration=SECOND)
        last: dict[int, dict[str, Any]] = {}
        for event in rows(configuration, seed):
            node = event["node"]
            if event["kind"] == "start" and node in last:
                assert event["dirty"] >= last[node]["flushed"]
                lost += last[node]["dirty"] - event["dirty"]
            if event["dirty"] is not None:
                last[node] = event
    assert lost > 0


def test_a_cluster_has_not_converged_before_a_write_is_acknowledged() -> None:
    for seed in range(8):
        cluster = RaftCluster(seed, QUIET, Recorder(MemorySink()))
        cluster.start()
        assert cluster.converge(5 * SECOND)
        assert cluster.counts["append ok"] == 1


def test_nodes_that_only_one_more_write_brings_together_have_not_converged() -> None:
    class Late(RaftCluster):
        def agreed(self) -> bool:
            return self.counts["append ok"] > 0 and super().agreed()

    cluster = Late(1, QUIET, Recorder(MemorySink()))
    cluster.start()
    assert not cluster.converge(5 * SECOND)
    assert cluster.agreed()


def test_messages_are_recorded_on_demand() -> None:
    events = rows(replace(QUIET, duration=300 * MILLISECOND, messages=True))
    sent = {e["message"]: e for e in events if e["kind"] == "send"}
    received = [e for e in events if e["kind"] == "receive"]
    assert received
    assert all(sent[e["message"]]["seq"] < e["seq"] and sent[e["message"]]["node"] == e["peer"] for e in received)
    assert "AppendEntries" in {e["f"] for e in received}
    assert all(e["term"] is not None for e in received if e["f"] == "AppendEntries")


@pytest.mark.parametrize(
    ("name", "first", "second", "seen"),
    [
        ("pause", {}, {}, [True, True, True, False]),
        ("kill", {}, {}, [True, True, True, False]),
        ("clock", {"rate": 4.0}, {"rate": 0.5}, [4.0, 2.0, 0.5, 1.0]),
        ("slow_disk", {"factor": 20.0}, {"factor": 5.0}, [20.0, 20.0, 5.0, 1.0]),
        ("slow_disk", {"factor": 5.0}, {"factor": 20.0}, [5.0, 20.0, 20.0, 1.0]),
    ],
)
def test_faults_that_overlap_on_a_node_end_one_by_one(
    name: str, first: dict[str, float], second: dict[str, float], seen: list[object]
) -> None:
    cluster = RaftCluster(2, QUIET, Recorder(MemorySink()))
    cluster.start()
    node = cluster.nodes[1]

    def rate() -> float:
        before = node.host.clock()
        cluster.advance(MILLISECOND)
        return (node.host.clock() - before) / MILLISECOND

    states: dict[str, Callable[[], object]] = {
        "pause": lambda: node.host.paused,
        "kill": lambda: not node.host.running,
        "clock": rate,
        "slow_disk": lambda: node.slowness,
    }
    faults = [Fault(0, name, (1,), args=arguments) for arguments in (first, second)]
    found = []
    for change in (cluster.faults.begin, cluster.faults.end):
        for token, fault in enumerate(faults):
            change(fault, [1], token)
            found.append(states[name]())
    assert found == seen


@pytest.mark.parametrize(
    ("fault", "begun", "ended"),
    [
        (Fault(0, "disk_full", (1,)), (0, False, 0), (None, False, 0)),
        (Fault(0, "fsync_error", (1,)), (None, True, 0), (None, False, 0)),
        (Fault(0, "open_error", (1,), args={"sync": 3}), (None, False, 0), (None, True, 2)),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_fault_of_a_disk_ends_with_it_also_while_another_one_keeps_the_node_down(
    fault: Fault, begun: tuple[object, ...], ended: tuple[object, ...]
) -> None:
    """What fails at the opening is what `open_error` leaves behind: the sync of that number."""
    cluster = RaftCluster(2, QUIET, Recorder(MemorySink()))
    disk = cluster.nodes[1].disk
    found = []
    cluster.faults.begin(Fault(0, "kill", (1,)), [1], 1)
    for change in (cluster.faults.begin, cluster.faults.end):
        change(fault, [1], 0)
        found.append((disk.capacity_bytes, disk.fail_next_sync, disk.syncs_before_failure))
    assert found == [begun, ended]


def test_a_fault_of_several_nodes_is_recorded_once_for_each() -> None:
    sink = MemorySink()
    with Recorder(sink) as recorder:
        cluster = RaftCluster(2, QUIET, recorder)
        fault = Fault(0, "partition", (0, 2))
        cluster.faults.begin(fault, [0, 2], 0)
        cluster.faults.end(fault, [0, 2], 0)
    found = [(event["kind"], event["node"], event["f"]) for event in sink.table.to_pylist()]
    assert found == [(kind, node, "partition") for kind in ("fault", "heal") for node in (0, 2)]


def test_what_all_nodes_lose_among_themselves_is_lost() -> None:
    def elected(*plan: Fault) -> int:
        return next(e["time"] for e in rows(replace(QUIET, plan=plan)) if e["kind"] == "leader")

    loss = Fault(0, "loss", ("all",), 900 * MILLISECOND, {"probability": 1.0})
    assert elected() < loss.lasting < elected(loss)


def test_a_node_that_met_damage_is_started_when_its_disk_is_restored() -> None:
    cluster = RaftCluster(2, QUIET, Recorder(MemorySink()))
    cluster.start()
    cluster.advance(SECOND)
    node, damage = cluster.nodes[1], Fault(0, "flipped_bit", (1,))
    cluster.faults.begin(damage, [1], 0)
    node.kill()
    cluster.storage_failed(1)
    before = node.host.incarnation
    cluster.advance(SECOND)
    assert node.host.incarnation == before
    cluster.faults.end(damage, [1], 0)
    assert node.host.running
    node.kill()
    cluster.storage_failed(1)
    cluster.advance(SECOND)
    assert node.host.running, "nothing holds it down"


@pytest.mark.parametrize(("nodes", "minority", "majority"), [(2, 1, 2), (3, 1, 2), (4, 1, 3), (5, 2, 3)])
def test_words_name_nodes_by_the_leader_and_by_the_last_one_while_there_is_none(
    nodes: int, minority: int, majority: int
) -> None:
    cluster = RaftCluster(2, replace(QUIET, nodes=nodes), Recorder(MemorySink()))
    cluster.start()
    cluster.advance(SECOND)
    leader = cluster.leader()
    assert leader is not None
    ring = [(leader.number + step) % nodes for step in range(nodes)]
    meant = {"leader": 1, "minority": minority, "majority": majority, "all": nodes}
    for _ in range(2):
        assert {word: list(cluster.faults.resolve(word)) for word in meant} == {w: ring[:n] for w, n in meant.items()}
        assert list(cluster.faults.resolve("follower")) == ring[1:2]
        assert list(cluster.faults.resolve("followers")) == ring[1:]
        assert list(cluster.faults.resolve(nodes - 1)) == [nodes - 1]
        for node in cluster.nodes:
            node.kill()
        assert cluster.leader() is None


def test_every_protocol_is_found_with_what_it_names() -> None:
    known = {check.id for check in all_checks()}
    for protocol in every():
        assert load(protocol.name) is protocol
        for mutant in protocol.mutants.values():
            assert protocol.configured(mutant.setting, 1)
            changed = protocol.mutated(mutant.id)
            assert (changed.core, changed.stage) == (mutant.make_core or protocol.core, mutant.stage or protocol.stage)
            assert known.issuperset(mutant.checks), mutant.id
        assert all(isinstance(setting, protocol.configuration) for setting in protocol.settings.values())
        assert protocol.scenarios is None or protocol.scenarios.is_file()
    assert {real_protocol(name).name for name in real_protocols()} == set(real_protocols()) <= set(names())
