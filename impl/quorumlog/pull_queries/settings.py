"""The configuration of a simulated run of servers of pull queries, and the named settings.

Times are nanoseconds of virtual time, but for those of the servers' own configuration, which are milliseconds. Reports
and discoveries are more frequent than their defaults, so that short runs have many.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Annotated, Any, Self

import msgspec
from msgspec.structs import replace

from quorumlog.durations import MILLISECOND, SECOND, Interval, Pause
from quorumlog.faults import FaultMix, Weight
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.raft.settings import NodeTiming, RaftConfiguration
from quorumlog.simulation.configuration import ClusterConfiguration, ConfigurationError, DiskTiming, Workload
from quorumlog.simulation.network import Link, Probability
from quorumlog.simulation.swarm import between, some


class QueryWorkload(Workload, frozen=True, kw_only=True):
    """What clients do; the numbers named like operations are relative weights."""

    clients: int = 4
    think: Interval = 80 * MILLISECOND
    timeout: Interval = 2 * SECOND
    put: Weight = 3.0
    look_up: Weight = 3.0
    scan: Weight = 1.0
    keys: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 8  # how many there are
    bounded: Probability = 0.4  # how often a query says which lag it accepts
    largest_bound: Annotated[int, msgspec.Meta(ge=0, le=1 << 30)] = 6  # which is then at most this
    busy: Probability = 0.02  # how often a server has too much to do for a forwarded query, and says so (429)

    def __post_init__(self) -> None:
        """Refuse a workload that gives clients nothing to do."""
        if not self.put + self.look_up + self.scan:
            raise ConfigurationError("workload: all operations have weight 0; give one of them more")

    def drawn(self, draw: Random) -> Self:
        """Another workload: some operations, in other proportions."""
        return replace(
            super().drawn(draw),
            **some(draw, ("look_up", "scan"), 0.8),
            put=draw.uniform(1.0, 5.0),
            think=between(draw, 30 * MILLISECOND, 200 * MILLISECOND),
            timeout=between(draw, 500 * MILLISECOND, 3 * SECOND),
            pipeline=1,
            keys=between(draw, 1, 20),
            bounded=draw.choice((0.0, 0.4, 0.8)),
            largest_bound=between(draw, 1, 30),
            busy=draw.choice((0.0, 0.1)),
        )


_RARELY = FaultMix(
    weights={"kill": 2.0, "power_loss": 1.0, "pause": 1.0, "partition": 2.0},
    targets={"leader": 3.0, "follower": 1.0},
    per_second=0.5,
    longest=600 * MILLISECOND,
)

_SERVERS = FaultMix(
    weights={"kill": 4.0, "power_loss": 1.0, "stop": 1.0, "pause": 2.0, "partition": 2.0, "mute": 1.0, "deafen": 1.0}
    | {"slow_disk": 2.0, "loss": 1.0, "reorder": 1.0, "duplicate": 1.0, "delay": 1.0, "clock_jump": 0.5},
    targets={"leader": 4.0, "follower": 2.0, "any": 2.0},
    per_second=1.5,
    shortest=100 * MILLISECOND,
    longest=2500 * MILLISECOND,
    arguments={"slow_disk": {"factor": 60.0}},
)


class PullConfiguration(ClusterConfiguration, frozen=True, kw_only=True):
    """One simulated run of servers with the Raft groups that feed them, except for its seed; ``nodes`` are the servers.

    ``brokers``: the nodes of each group; ``log_faults``: what happens to them; ``poll``: how often a server reads its
    logs, ``take``: how many offsets of a changelog it then takes at most, 0 for all, and ``save``: how often it saves
    its tables; ``skew``: by how much wall clocks differ at most; ``learn``: how often it reads the log of assignments
    at least, 0 for as often as the others; ``watch``: how often somebody asks each server for the status of the
    cluster, 0 for never; ``with_bound``: the acceptable lag of the table's WITH clause, if it has one.
    """

    nodes: int = 4
    duration: int = 6 * SECOND
    settle: int = 30 * SECOND
    first_fault: Pause = 1500 * MILLISECOND
    server: Configuration = Configuration(lag_report=600, discover=400, partitions=2, standbys=2)
    brokers: Annotated[int, msgspec.Meta(ge=1, le=7)] = 3
    poll: Interval = 10 * MILLISECOND
    take: Annotated[int, msgspec.Meta(ge=0)] = 0
    save: Interval = 400 * MILLISECOND
    skew: Pause = 20 * MILLISECOND
    learn: Pause = 0
    watch: Pause = 0
    with_bound: Annotated[int, msgspec.Meta(ge=0)] | None = None
    workload: QueryWorkload = QueryWorkload()
    faults: FaultMix = _SERVERS
    log_faults: FaultMix = _RARELY

    def drawn(self, draw: Random) -> Self:
        """Another configuration: mode, intervals, thresholds, partitions and replicas, both kinds of faults."""
        shipped, send = draw.random() < 0.4, draw.choice((50, 100, 150))
        missed = draw.randint(1, 4)
        switches: dict[str, Any] = {}
        if shipped:
            on = draw.random() < 0.9
            reports = on and draw.random() < 0.85
            switches = {"standby_reads": draw.random() < 0.85, "heartbeats": on, "lag_reports": reports}
        server = Configuration(
            mode="shipped" if shipped else "proposal",
            heartbeat_send=send,
            heartbeat_check=draw.choice((100, 200, 350)),
            heartbeat_window=send * draw.randint(missed + 2, 24),
            missed_threshold=missed,
            received_threshold=draw.randint(1, 3),
            discover=draw.choice((200, 400, 1000)),
            lag_report=draw.choice((200, 600, 1500)),
            maximum_lag=draw.choice((0, 3, 20, 1 << 40)),
            partitions=draw.randint(1, 4),
            standbys=draw.randint(0, 3),
            forward_timeout=draw.choice((150, 500, 1500)),
            **switches,
        )
        drawn = super().drawn(draw)
        return replace(
            drawn,
            nodes=draw.randint(2, 5),
            duration=between(draw, 3 * SECOND, 8 * SECOND),
            settle=self.settle,
            first_fault=between(draw, 200 * MILLISECOND, 2 * SECOND),
            server=server,
            brokers=draw.choice((1, 3, 3)),
            poll=between(draw, 4 * MILLISECOND, 40 * MILLISECOND),
            save=between(draw, 100 * MILLISECOND, 2 * SECOND),
            skew=draw.choice((0, 20, 150, 400)) * MILLISECOND,
            faults=replace(drawn.faults, per_second=draw.uniform(0.5, 3.0), longest=3 * SECOND),
            log_faults=replace(_RARELY, per_second=draw.choice((0.0, 0.5, 1.5))),
            progress_bound=self.progress_bound,
            watch=draw.choice((0, 0, 300)) * MILLISECOND,
            learn=draw.choice((0, 0, 500)) * MILLISECOND,
            take=draw.choice((0, 0, 3)),
            with_bound=draw.choice((None, None, 2, 10)),
        )

    def of_a_group(self) -> RaftConfiguration:
        """The configuration of a Raft group that holds one of the logs."""
        timing = NodeTiming(heartbeat=60 * MILLISECOND, election=240 * MILLISECOND, flush=20 * MILLISECOND)
        return RaftConfiguration(
            nodes=self.brokers,
            link=self.link,
            client_delay=self.client_delay,
            disk=DiskTiming(least=MILLISECOND // 5, most=4 * MILLISECOND),
            timing=timing,
            segment_bytes=1 << 20,
            schedule=self.schedule,
        )


_DEFAULT = PullConfiguration()

_SHIPPED = Configuration(
    mode="shipped",
    standby_reads=True,
    heartbeats=True,
    lag_reports=True,
    lag_report=600,
    discover=400,
    partitions=2,
    forward_timeout=500,
)

_ACTIVES_ALONE = Configuration(
    mode="shipped",
    standby_reads=False,
    heartbeats=True,
    lag_reports=True,
    lag_report=600,
    discover=400,
    partitions=2,
    forward_timeout=500,
)

SETTINGS: Mapping[str, PullConfiguration] = {
    # A bit of everything, in the mode of the proposal.
    "default": _DEFAULT,
    # The same in the mode of the public implementation, all switches on.
    "shipped": replace(_DEFAULT, server=_SHIPPED),
    # Clocks differ by about the silence that is tolerated, and jump: hosts flap, and stamps lie ahead.
    "clocks-differ": replace(
        _DEFAULT,
        skew=450 * MILLISECOND,
        faults=FaultMix(
            weights={"clock_jump": 4.0, "clock": 1.0, "pause": 1.0, "delay": 1.0, "kill": 1.0},
            targets={"any": 3.0, "leader": 1.0},
            per_second=1.0,
            longest=2 * SECOND,
            arguments={"clock_jump": {"ms": 300.0}, "delay": {"ms": 150.0}},
        ),
    ),
    # Standbys fold slowly and queries accept little lag; reports overtake each other.
    "lagging": replace(
        _DEFAULT,
        workload=QueryWorkload(clients=6, think=50 * MILLISECOND, bounded=0.9, largest_bound=12),
        faults=FaultMix(
            weights={"slow_disk": 5.0, "kill": 2.0, "reorder": 2.0, "duplicate": 1.0, "pause": 1.0},
            targets={"any": 3.0, "leader": 2.0},
            per_second=2.0,
            shortest=300 * MILLISECOND,
            longest=2500 * MILLISECOND,
            arguments={"slow_disk": {"factor": 80.0}, "reorder": {"probability": 0.4}},
        ),
    ),
    # Messages overtake each other by more than reports are apart and than a forwarded query may take.
    "overtaken": replace(
        _DEFAULT,
        link=Link(reorder=0.3, duplicate=0.2, straggle=600 * MILLISECOND),
        server=Configuration(lag_report=150, discover=400, partitions=2, forward_timeout=150),
    ),
    # Hosts are away for so long that others take their place, and come back.
    "departures": replace(
        _DEFAULT,
        duration=30 * SECOND,
        workload=QueryWorkload(clients=2, think=250 * MILLISECOND),
        faults=FaultMix(
            weights={"kill": 2.0, "pause": 1.0, "partition": 1.0},
            targets={"leader": 3.0, "any": 1.0},
            per_second=0.15,
            shortest=11 * SECOND,
            longest=14 * SECOND,
        ),
    ),
    # Somebody watches what the servers say of each other.
    "watched": replace(_DEFAULT, watch=200 * MILLISECOND),
    # An active that is taken for dead goes on appending while another one takes over, and is slow to learn of it.
    "handed-over": replace(
        _DEFAULT,
        duration=18 * SECOND,
        poll=150 * MILLISECOND,
        learn=1500 * MILLISECOND,
        workload=QueryWorkload(clients=4, think=60 * MILLISECOND, bounded=0.0, keys=4),
        faults=FaultMix(
            weights={"mute": 1.0},
            targets={"leader": 1.0},
            per_second=1.0,
            shortest=11 * SECOND,
            longest=13 * SECOND,
        ),
    ),
    # Standbys are not read: one that takes over, and is slow to pass what it appends, answers once it has.
    "actives-alone": replace(
        _DEFAULT,
        nodes=3,
        duration=18 * SECOND,
        server=_ACTIVES_ALONE,
        poll=150 * MILLISECOND,
        take=4,
        link=Link(reorder=0.3, straggle=600 * MILLISECOND),
        workload=QueryWorkload(clients=6, think=50 * MILLISECOND, bounded=0.9, keys=8, largest_bound=60),
        faults=FaultMix(
            weights={"kill": 0.5, "slow_disk": 2.0, "mute": 1.0},
            targets={"leader": 1.0},
            per_second=1.0,
            shortest=11 * SECOND,
            longest=13 * SECOND,
            arguments={"slow_disk": {"factor": 6.0}},
        ),
    ),
}
"""Every setting by name."""
