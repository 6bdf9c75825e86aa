"""Named settings of simulated runs: which faults, how dense, on how many nodes, under what load.

Each leans towards one kind of trouble. The reference is run under all of them; a mutant names the one that brings it
out fast.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from quorumlog.simulation.configuration import ClusterConfiguration, DiskTiming, NodeTiming, WorkloadMix
from quorumlog.simulation.durations import MILLISECOND
from quorumlog.simulation.faults import FaultMix

_DEFAULT = ClusterConfiguration()

_LEADERS_FALL = replace(
    _DEFAULT,
    faults=FaultMix(
        weights={"partition": 4.0, "kill": 2.0, "power_loss": 2.0, "pause": 2.0, "slow_disk": 2.0},
        targets={"leader": 6.0, "follower": 2.0, "minority": 1.0},
        per_second=8.0,
        longest=400 * MILLISECOND,
    ),
)

SETTINGS: Mapping[str, ClusterConfiguration] = {
    # A bit of everything on three nodes.
    "default": _DEFAULT,
    # Leaders isolated, stopped and restarted, with appends pending.
    "leaders-fall": _LEADERS_FALL,
    # The same on five nodes: a minority can hold what the others never saw.
    "five-nodes": replace(_LEADERS_FALL, nodes=5),
    # Power lost together, disks slow: dirty and flushed differ for long.
    "lost-power": replace(
        _DEFAULT,
        disk=DiskTiming(least=5 * MILLISECOND, most=60 * MILLISECOND),
        faults=FaultMix(
            weights={"power_loss": 6.0, "slow_disk": 3.0, "partition": 1.0},
            targets={"leader": 2.0, "follower": 3.0, "majority": 2.0, "all": 1.0, "any": 2.0},
            per_second=8.0,
            longest=300 * MILLISECOND,
        ),
    ),
    # Elections that run into each other, their messages late and doubled.
    "stale-votes": replace(
        _DEFAULT,
        nodes=5,
        timing=NodeTiming(heartbeat=20 * MILLISECOND, election=40 * MILLISECOND),
        faults=FaultMix(
            weights={
                "power_loss": 3.0,
                "reorder": 3.0,
                "duplicate": 3.0,
                "delay": 2.0,
                "partition": 2.0,
                "kill": 2.0,
            },
            targets={"leader": 4.0, "all": 3.0, "any": 2.0},
            per_second=15.0,
            longest=300 * MILLISECOND,
            arguments={"reorder": {"probability": 0.5}, "duplicate": {"probability": 0.5}},
        ),
    ),
    # Requests and replies late and doubled under dense load.
    "duplicates": replace(
        _DEFAULT,
        workload=WorkloadMix(think=5 * MILLISECOND, clients=8),
        faults=FaultMix(
            weights={"duplicate": 4.0, "reorder": 2.0, "kill": 2.0, "partition": 2.0, "power_loss": 2.0},
            targets={"leader": 3.0, "all": 2.0},
            per_second=8.0,
            arguments={"duplicate": {"probability": 0.5}, "reorder": {"probability": 0.3}},
        ),
    ),
}
"""Every setting by name."""
