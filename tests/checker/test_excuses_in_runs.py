"""Simulated runs of the reference under all faults, emptied disks among them: nothing is accused, and what is excused
is listed with its cause; with what nodes recorded, and without it."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from loghistory import MemorySink, Recorder
from loghistory.schema import CLIENT_KINDS, Kind
from logwitness import Verdict, check
from logwitness.checks.faults import CAUSES
from logwitness.explain.transcripts import history
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.faults import CHANGES, KINDS
from quorumlog.raft.core import RaftCore
from quorumlog.raft.settings import SETTINGS, RaftConfiguration
from quorumlog.raft.simulated import RaftCluster

SEEN_BY_CLIENTS = pa.array(sorted({*CLIENT_KINDS, Kind.FAULT, Kind.HEAL, Kind.PHASE, Kind.TRIM}))

LATER = {"preferences", "light-heartbeats", "groups", "late-replies", "quiet-leaders", "stops"} | {
    "unflushed",
    "lost-targets",
}
"""Without these settings the seeds have the runs that they had."""


class Wiping(RaftCluster):
    """A cluster some of whose nodes lose their power and their disk, and begin anew."""

    def wipe_some(self, draw: random.Random, count: int) -> None:
        """Empty so many disks at drawn times."""
        for _ in range(count):
            at = int(draw.uniform(0.3, 0.9) * self.configuration.duration)
            self.simulation.after(at, self._wipe, draw.randrange(len(self.nodes)), draw)

    def _wipe(self, number: int, draw: random.Random) -> None:
        node = self.nodes[number]
        if node.host.running:
            self.record("power_loss", {"node": number, "incarnation": node.host.incarnation})
            node.kill()
        self.record("fault", {"f": "wipe", "node": number})
        node.new_disk()
        self.simulation.after(int(draw.uniform(1, 400) * MILLISECOND), self.faults.storage_failed, number)


def _configuration(draw: random.Random, without: set[str]) -> RaftConfiguration:
    same_voters = {name for name, setting in SETTINGS.items() if CHANGES.isdisjoint(setting.faults.weights)} - without
    base = SETTINGS[draw.choice(sorted(same_voters))]
    faults = {
        *draw.sample(sorted({*KINDS} - CHANGES), draw.randint(1, 6)),
        *draw.sample(["fsync_error", "power_loss"], 1),
    }
    return replace(
        base,
        nodes=draw.choice([3, 3, 5]),
        duration=int(draw.uniform(0.8, 2) * SECOND),
        settle=5 * SECOND,
        write_caching=draw.random() < 0.35,
        disk=replace(base.disk, most=draw.choice([10, 30, 100]) * MILLISECOND),
        workload=replace(
            base.workload,
            acks_all=draw.choice([0.0, 1.0, 3.0]),
            acks_leader=draw.choice([0.5, 3.0]),
            acks_none=draw.choice([0.0, 1.0]),
            tail=draw.choice([0.0, 2.0]),
            think=draw.choice([8, 25]) * MILLISECOND,
        ),
        faults=replace(
            base.faults,
            weights={name: draw.choice([1.0, 3.0]) for name in sorted(faults)},
            per_second=draw.choice([3.0, 8.0, 15.0]),
        ),
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("seed", "without"),
    [
        *((seed, LATER) for seed in range(8)),
        (2, set()),  # two disks are emptied, and what the third node committed is not in the log of the others
        *(pytest.param(seed, LATER, marks=pytest.mark.long(42)) for seed in range(8, 300)),
    ],
)
def test_the_reference_is_not_accused(seed: int, without: set[str]) -> None:
    draw = random.Random(f"{seed} excuses")
    configuration = _configuration(draw, without)
    sink = MemorySink()
    recorder = Recorder(sink)
    cluster = Wiping(seed, configuration, recorder, RaftCore)
    cluster.wipe_some(draw, draw.choice([0, 0, 1, 2]))
    cluster.play()
    recorder.close()
    known = configuration.known_to_the_judge()
    by_clients = sink.table.filter(pc.is_in(sink.table.column("kind").cast("string"), value_set=SEEN_BY_CLIENTS))
    for table, protocol in ((sink.table, "raft"), (by_clients, "none")):
        verdict = check(table, configuration={"protocol": protocol, **known})
        doubted = [each for each in verdict.checks if each.verdict is Verdict.UNDECIDED]
        assert verdict.verdict is (Verdict.UNDECIDED if doubted else Verdict.HOLDS), verdict.document()
        # Clients alone do not see all that nodes trim (counting.md#trims).
        assert all(protocol == "none" and "may be trimmed" in str(each.reason) for each in doubted)
        for each in verdict.checks:
            assert each.excused == sum(excuse.facts for excuse in each.excuses)
            assert {excuse.cause for excuse in each.excuses} <= set(CAUSES)


def test_a_wipe_excuses_a_skip_of_what_was_asked_for_before_it() -> None:
    reported = "c1 append v8 all|c1 ok 0|{}|c3 read 0|c3 sees 0 v8|c3 sees 1 v9|c3 ok 2|{}|c1 append v10 all|c1 ok 2"
    passes = "|c2 read 0|c2 sees 0 v8|c2 sees 2 v10|c2 ok 3"
    value, wipe, power = "c1 append v9 all|c1 ok 1", "- fault wipe n1", "- fault power_loss n1"
    for first, then, excused in ((value, wipe, True), (wipe, value, False), (value, power, False)):
        configuration = {"voters": [1, 2, 3], "protocol": "raft"}
        (skip,) = check(
            history(reported.format(first, then) + passes).table, ["skip"], configuration=configuration
        ).checks
        assert (skip.excused, skip.violated) == (excused, not excused)
        assert not excused or [each.cause for each in skip.excuses] == ["wipe"]
