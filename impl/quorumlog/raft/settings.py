"""The configuration of a simulated run of Raft, and the named settings: which faults, how dense, on how many nodes,
under what load.

Times are nanoseconds of virtual time. The defaults make short, eventful runs: election time-outs are short against
faults, flushes slow against messages, so that dirty and flushed offsets differ for a long time. Each setting favours
one kind of trouble. The reference is run under all of them; a mutant names the one that exposes it fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Annotated, Any, Self

import msgspec
from msgspec.structs import replace

from quorumlog.durations import MICROSECOND, MILLISECOND, SECOND, Interval
from quorumlog.faults import Fault, FaultMix
from quorumlog.simulation.configuration import ConfigurationError, DiskTiming, LogConfiguration, LogWorkload
from quorumlog.simulation.network import Link
from quorumlog.simulation.swarm import between
from quorumlog.storage.batch import HEADER_BYTES, MAX_GHOST_OFFSETS

Size = Annotated[int, msgspec.Meta(ge=1, le=1 << 30)]

_STEPS = 400
"""Batches that a follower can be behind after a short run, and has to catch up with."""


_TURNS = 8
"""Election time-outs, for each node, until the last of them may stand: twice as many as there are nodes, each up to two
long, and it may have to let another go first."""


class NodeTiming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The timers of the nodes, in nanoseconds of their own clocks."""

    heartbeat: Interval = 30 * MILLISECOND
    election: Interval = 120 * MILLISECOND  # plus a random part of up to as much again
    flush: Interval = 60 * MILLISECOND  # debounce of flushes that nobody waits for
    enqueue: Interval = 400 * MILLISECOND  # at most, until there is memory for an append
    transfer: Interval = 300 * MILLISECOND  # at most, until the next leader has caught up


class NodeLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of the nodes in bytes and requests; see `quorumlog.raft.state.Configuration`."""

    flush_bytes: Size = 256 << 10
    recovery_chunk_bytes: Size = 32 << 10
    recovery_flush_bytes: Size = 1 << 20
    snapshot_chunk_bytes: Size = 32 << 10
    ghost_offsets: Annotated[int, msgspec.Meta(ge=1, le=MAX_GHOST_OFFSETS)] = MAX_GHOST_OFFSETS  # a ghost spans
    max_in_flight: Size = 16
    round_bytes: Size = 1 << 20
    memory_bytes: Size = 1 << 20
    recoveries: Size = 64


class RaftConfiguration(LogConfiguration, frozen=True, kw_only=True):
    """One simulated run of a Raft cluster, except for its seed."""

    voters: tuple[int, ...] | None = None  # of the configuration that the group begins with; None: all nodes
    write_caching: bool = False
    priorities: bool = False  # who is named first among the members is preferred as leader
    longest_log: bool = False  # who has the longest log is
    light_heartbeats: bool = False  # heartbeats that say nothing new carry nothing
    groups: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1  # of each process; they share its disk and what it sends
    timing: NodeTiming = NodeTiming()
    limits: NodeLimits = NodeLimits()

    def drawn(self, draw: Random) -> Self:
        """Another configuration: timers, and limits so small that a short run crosses each of them."""
        heartbeat = between(draw, 8 * MILLISECOND, 40 * MILLISECOND)
        drawn = super().drawn(draw)
        link = drawn.link
        trips = 6 * (link.delay + link.jitter) + link.reorder * link.straggle
        # A follower may be sent what it lacks one batch at a time, and flush each: what that takes is no livelock.
        bound = max(drawn.progress_bound, _STEPS * int(trips + drawn.disk.read + drawn.disk.most))
        configuration = replace(
            drawn,
            progress_bound=bound,
            settle=2 * bound,
            write_caching=draw.random() < 0.15,
            timing=NodeTiming(
                heartbeat=heartbeat,
                # With less than a few trips of a message nobody could be elected.
                election=int(max(heartbeat * draw.uniform(1.5, 5.0), trips)),
                flush=between(draw, 5 * MILLISECOND, 150 * MILLISECOND),
            ),
            limits=NodeLimits(
                flush_bytes=between(draw, 60, 4096),
                recovery_chunk_bytes=between(draw, 1, 1024),
                recovery_flush_bytes=between(draw, 1, 4096),
                max_in_flight=between(draw, 1, 16),
                round_bytes=between(draw, 1, 2048),
                memory_bytes=between(draw, 1, 4096),
            ),
        )
        if drawn.nodes == 1:
            return configuration._with_bursts(draw)
        faults = _with_more(drawn.faults, draw)
        configuration = replace(configuration, faults=faults)._with_preferences(draw)
        limits = replace(configuration.limits, snapshot_chunk_bytes=between(draw, 8, 200))
        return replace(configuration, limits=limits)._with_bursts(draw)

    def _with_bursts(self, draw: Random) -> Self:
        """In half of the runs many appends come at once; rounds, memory and chunks have room for several, not for all.

        What waits for memory does not always get it in time.
        """
        if draw.random() < 0.5:
            return self
        batch = HEADER_BYTES + 8 + self.workload.value_bytes // 2

        def several(least: float, most: float) -> int:
            return int(batch * draw.uniform(least, most))

        return replace(
            self,
            workload=replace(self.workload, pipeline=draw.randint(3, 8)),
            timing=replace(self.timing, enqueue=between(draw, 10 * MILLISECOND, 400 * MILLISECOND)),
            limits=replace(
                self.limits,
                round_bytes=several(1.5, 4.0),
                memory_bytes=several(3.0, 12.0),
                recovery_chunk_bytes=several(1.5, 6.0),
            ),
        )

    def _with_preferences(self, draw: Random) -> Self:
        """In some runs heartbeats are light, in some not whoever asks first may lead: it is waited for longer then."""
        priorities, longest_log, light = draw.random() < 0.15, draw.random() < 0.15, draw.random() < 0.2
        if not priorities and not longest_log:
            return replace(self, light_heartbeats=light)
        bound = self.progress_bound + _TURNS * self.nodes * self.timing.election
        return replace(
            self,
            priorities=priorities,
            longest_log=longest_log,
            light_heartbeats=light,
            progress_bound=bound,
            settle=2 * bound,
        )

    def known_to_the_judge(self) -> dict[str, Any]:
        """Voters, whether acks=all waits for a flush, and the limits of what a leader may hold."""
        limits = {"memory_bytes": self.limits.memory_bytes, "max_in_flight": self.limits.max_in_flight}
        voters = {"voters": list(self.first_voters)}
        return {**super().known_to_the_judge(), **voters, "write_caching": self.write_caching, **limits}

    @property
    def first_voters(self) -> tuple[int, ...]:
        """The voters that the group begins with; the other nodes may be added."""
        return tuple(range(self.nodes)) if self.voters is None else self.voters

    def __post_init__(self) -> None:
        """Refuse a configuration that no run can have."""
        super().__post_init__()
        if not self.first_voters or not {*self.first_voters} <= {*range(self.nodes)}:
            raise ConfigurationError(f"voters {self.voters} are out of range; choose from 0 to {self.nodes - 1}")


def _with_more(mix: FaultMix, draw: Random) -> FaultMix:
    """In some runs half of all faults are of one sort: transfers, trimming, or what disks and power do."""
    share = draw.random()
    if share >= 0.75:
        more = {"transfer": 1.0}
    elif share < 0.2:
        more = {"trim": 1.0}
    elif share < 0.4:
        more = {"power_loss": 0.3, "open_error": 0.3, "fsync_error": 0.2, "flipped_bit": 0.1, "lost_name": 0.1}
    else:
        return mix
    total = sum(mix.weights.values())
    weights = {name: round(total * part, 2) for name, part in more.items()}
    drawn = {"trim": {"keep": draw.choice((0.0, 0.0, 4.0, 16.0))}, "open_error": {"sync": float(draw.randint(1, 4))}}
    arguments = {name: drawn[name] for name in more if name in drawn}
    return replace(mix, weights={**mix.weights, **weights}, arguments={**mix.arguments, **arguments})


_DEFAULT = RaftConfiguration()

_LEADERS_FALL = replace(
    _DEFAULT,
    faults=FaultMix(
        weights={"partition": 4.0, "kill": 2.0, "power_loss": 2.0, "pause": 2.0, "slow_disk": 2.0},
        targets={"leader": 6.0, "follower": 2.0, "minority": 1.0},
        per_second=8.0,
        longest=400 * MILLISECOND,
    ),
)

_LOST_POWER = replace(
    _DEFAULT,
    disk=DiskTiming(least=5 * MILLISECOND, most=60 * MILLISECOND),
    faults=FaultMix(
        weights={"power_loss": 6.0, "slow_disk": 3.0, "partition": 1.0},
        targets={"leader": 2.0, "follower": 3.0, "majority": 2.0, "all": 1.0, "any": 2.0},
        per_second=8.0,
        longest=300 * MILLISECOND,
    ),
)

_MEMBERS = replace(
    _DEFAULT,
    nodes=5,
    voters=(0, 1, 2),
    segment_bytes=400,
    faults=FaultMix(
        weights={"join": 6.0, "leave": 5.0, "demote": 2.0, "cancel_change": 1.0, "transfer": 1.0}
        | {"partition": 4.0, "kill": 2.0, "power_loss": 1.0, "slow_disk": 1.0, "trim": 1.0},
        targets={"leader": 4.0, "follower": 2.0, "any": 4.0, "majority": 1.0, "all": 1.0},
        per_second=15.0,
        longest=400 * MILLISECOND,
    ),
)

_COMPACTED = replace(
    _DEFAULT,
    settle=5 * SECOND,
    link=Link(reorder=0.2, duplicate=0.3, straggle=150 * MILLISECOND),
    limits=NodeLimits(recovery_chunk_bytes=100),
    segment_bytes=200,
    workload=LogWorkload(think=12 * MILLISECOND, keys=6, keyed=0.9),
    faults=FaultMix(
        weights={"compact": 8.0, "partition": 5.0, "kill": 2.0, "power_loss": 2.0, "reorder": 1.0},
        targets={"leader": 4.0, "follower": 3.0, "all": 1.0, "any": 2.0},
        per_second=20.0,
        longest=400 * MILLISECOND,
    ),
)

_STALE_VOTES = replace(
    _DEFAULT,
    nodes=5,
    link=Link(reorder=0.3, duplicate=0.3, straggle=150 * MILLISECOND),
    timing=NodeTiming(heartbeat=20 * MILLISECOND, election=40 * MILLISECOND),
    disk=DiskTiming(most=20 * MILLISECOND),
    workload=LogWorkload(clients=2, think=40 * MILLISECOND),
    faults=FaultMix(
        weights={"kill": 4.0, "partition": 3.0, "power_loss": 3.0, "loss": 1.0},
        targets={"leader": 5.0, "any": 1.0, "minority": 2.0},
        per_second=15.0,
        longest=150 * MILLISECOND,
        arguments={"loss": {"probability": 0.3}},
    ),
)


def _handed_to_the_first(at: int, nodes: int) -> tuple[Fault, ...]:
    """Whoever leads at that millisecond hands its leadership on to node 0."""
    others = range(1, nodes)
    return tuple(Fault(at * MILLISECOND, "transfer", (n,), 10 * MILLISECOND, {"places": nodes - n}) for n in others)


def _left_alone_and_led_again(begin: int) -> tuple[Fault, ...]:
    """Node 0 leads, with node 1 alone, and does not notice; the others lead, and hand on to it; then node 1 is away."""
    return (
        *_handed_to_the_first(begin - 50, 5),
        Fault((begin - 10) * MILLISECOND, "clock", (0,), 220 * MILLISECOND, {"rate": 0.25}),
        Fault(begin * MILLISECOND, "partition", (0, 1), 200 * MILLISECOND),
        Fault((begin + 5) * MILLISECOND, "duplicate", (1,), 200 * MILLISECOND, {"probability": 1.0}),
        *_handed_to_the_first(begin + 250, 5),
        Fault((begin + 270) * MILLISECOND, "partition", (1, 2, 3), 150 * MILLISECOND),
    )


def _cut_off_and_silent(begin: int) -> tuple[Fault, ...]:
    """Node 0 leads, sends nothing for long by its slow clock, and is cut off meanwhile."""
    return (
        *_handed_to_the_first(begin - 60, 3),
        Fault((begin - 32) * MILLISECOND, "clock", (0,), 432 * MILLISECOND, {"rate": 0.04}),
        Fault(begin * MILLISECOND, "partition", (0,), 400 * MILLISECOND),
    )


def _told_too_late(begin: int) -> tuple[Fault, ...]:
    """Node 0 is to lead next, and loses power with what it had not flushed; it hears of that once it is back."""
    return (
        Fault((begin - 100) * MILLISECOND, "slow_disk", (0,), 110 * MILLISECOND, {"factor": 40.0}),
        *_handed_to_the_first(begin, 3),
        Fault((begin + 12) * MILLISECOND, "power_loss", (0,), 20 * MILLISECOND),
        Fault((begin + 400) * MILLISECOND, "transfer", (0,), 10 * MILLISECOND, {"places": 1}),
    )


def _cut_off_and_asking(begin: int) -> tuple[Fault, ...]:
    """Node 2 lacks what the others have and nobody has flushed; their leader falls, and node 2 asks first."""
    return (
        *_handed_to_the_first(begin - 60, 3),
        Fault(begin * MILLISECOND, "partition", (2,), 60 * MILLISECOND),
        Fault((begin + 59) * MILLISECOND, "kill", (0,), 250 * MILLISECOND),
    )


def _readded_and_heard_late(begin: int) -> tuple[Fault, ...]:
    """Node 2 leaves and is added again; much of what it answered before arrives once more after that."""
    return (
        Fault(begin * MILLISECOND, "duplicate", (2,), 100 * MILLISECOND, {"probability": 1.0}),
        Fault((begin + 60) * MILLISECOND, "leave", (2,), MILLISECOND),
        Fault((begin + 110) * MILLISECOND, "join", (2,), MILLISECOND),
    )


SETTINGS: Mapping[str, RaftConfiguration] = {
    # A bit of everything on three nodes.
    "default": _DEFAULT,
    # Leaders isolated, stopped and restarted, with appends pending.
    "leaders-fall": _LEADERS_FALL,
    # The same on five nodes: a minority can hold what the others never saw.
    "five-nodes": replace(_LEADERS_FALL, nodes=5),
    # Power lost together, disks slow: dirty and flushed differ for long.
    "lost-power": _LOST_POWER,
    # The same with acks=all that does not wait for a flush: losses are expected, and accounted for.
    "write-caching": replace(_LOST_POWER, write_caching=True),
    # Every durable write takes longer than an election time-out may, and messages get lost.
    "slow-disks": replace(
        _DEFAULT,
        link=Link(loss=0.1),
        disk=DiskTiming(least=60 * MILLISECOND, most=500 * MILLISECOND),
        workload=LogWorkload(timeout=2 * SECOND),
        duration=5 * SECOND,
        faults=FaultMix(
            weights={"kill": 3.0, "partition": 2.0, "deafen": 2.0, "pause": 1.0},
            targets={"leader": 4.0, "follower": 1.0},
            per_second=3.0,
        ),
    ),
    # The followers' clocks run faster: another leader is elected before one that is cut off steps down; both are asked.
    "clocks-drift": replace(
        _DEFAULT,
        workload=LogWorkload(think=10 * MILLISECOND, read_linearizable=4.0, stray=0.4),
        faults=FaultMix(
            weights={"partition": 4.0, "clock": 4.0, "kill": 1.0},
            targets={"followers": 4.0, "leader": 1.0},
            per_second=8.0,
            shortest=100 * MILLISECOND,
            arguments={"clock": {"rate": 2.5}},
        ),
    ),
    # The same, and nodes are cut off for so short that the one before still leads when it hears of the next one.
    "two-leaders": replace(
        _DEFAULT,
        timing=NodeTiming(heartbeat=25 * MILLISECOND),
        workload=LogWorkload(
            clients=5, think=10 * MILLISECOND, append=4.0, read=0.5, read_linearizable=3.0, tail=3.0, stray=0.5
        ),
        duration=2 * SECOND,
        faults=FaultMix(
            weights={"partition": 6.0, "clock": 4.0},
            targets={"followers": 4.0, "leader": 1.0},
            per_second=10.0,
            shortest=30 * MILLISECOND,
            longest=300 * MILLISECOND,
            arguments={"clock": {"rate": 3.5}},
        ),
    ),
    # The same, and heartbeats are light; what answers them may come late.
    "light-heartbeats": replace(
        _DEFAULT,
        light_heartbeats=True,
        link=Link(reorder=0.3, straggle=400 * MILLISECOND),
        timing=NodeTiming(heartbeat=15 * MILLISECOND, election=60 * MILLISECOND),
        disk=DiskTiming(least=200 * MICROSECOND, most=60 * MILLISECOND),
        workload=LogWorkload(
            clients=4, think=15 * MILLISECOND, append=1.0, read=0.5, read_linearizable=4.0, tail=3.0, former=0.5
        ),
        duration=2 * SECOND,
        faults=FaultMix(
            weights={"partition": 6.0, "clock": 3.0, "kill": 1.0},
            targets={"leader": 2.0, "followers": 2.0},
            per_second=8.0,
            shortest=100 * MILLISECOND,
            longest=400 * MILLISECOND,
            arguments={"clock": {"rate": 2.5}},
        ),
    ),
    # Several groups in each process, each a log of its own.
    "groups": replace(
        _DEFAULT,
        groups=4,
        limits=NodeLimits(recoveries=1),
        priorities=True,
        light_heartbeats=True,
        workload=LogWorkload(clients=8),
        duration=2 * SECOND,
        faults=FaultMix(
            weights={"partition": 3.0, "kill": 2.0, "power_loss": 2.0, "pause": 1.0, "slow_disk": 1.0, "trim": 1.0}
            | {"kill_midway": 1.0, "stop": 1.0, "clock_jump": 1.0, "fsync_error": 1.0, "loss": 1.0, "transfer": 2.0},
            targets={"leader": 4.0, "any": 2.0, "all": 0.5},
            per_second=8.0,
            longest=400 * MILLISECOND,
        ),
    ),
    # Leaders hear nobody, or nobody hears them, for longer than a run may go without a commit.
    "deaf-leaders": replace(
        _DEFAULT,
        workload=LogWorkload(clients=2, think=40 * MILLISECOND),
        duration=5 * SECOND,
        progress_bound=1500 * MILLISECOND,
        faults=FaultMix(
            weights={"deafen": 4.0, "mute": 1.0},
            targets={"leader": 1.0},
            per_second=0.6,
            shortest=2 * SECOND,
            longest=4 * SECOND,
        ),
    ),
    # Followers that were given up answer while what they lack is being read, and fall back.
    "late-reads": replace(
        _DEFAULT,
        timing=NodeTiming(heartbeat=20 * MILLISECOND, election=40 * MILLISECOND),
        disk=DiskTiming(most=10 * MILLISECOND, read=100 * MILLISECOND),
        workload=LogWorkload(think=10 * MILLISECOND, acks_all=1.0, acks_leader=4.0),
        duration=2 * SECOND,
        faults=FaultMix(
            weights={"pause": 4.0, "reorder": 3.0, "loss": 3.0},
            targets={"follower": 6.0, "leader": 1.0},
            per_second=10.0,
            shortest=90 * MILLISECOND,
            longest=200 * MILLISECOND,
            arguments={"loss": {"probability": 0.3}},
        ),
    ),
    # A leader of the past leads again, and hears what was answered to it then by a node that has lost that since.
    "late-replies": replace(
        _DEFAULT,
        nodes=5,
        link=Link(straggle=600 * MILLISECOND),
        timing=NodeTiming(heartbeat=10 * MILLISECOND, election=40 * MILLISECOND, flush=8 * MILLISECOND),
        disk=DiskTiming(most=4 * MILLISECOND),
        workload=LogWorkload(clients=4, think=8 * MILLISECOND, append=20.0, acks_all=1.0, acks_leader=6.0, stray=0.05),
        duration=1600 * MILLISECOND,
        plan=(*_left_alone_and_led_again(300), *_left_alone_and_led_again(1100)),
    ),
    # A leader that is cut off is asked for little, and has no answer outstanding: another one commits before it asks.
    "quiet-leaders": replace(
        _DEFAULT,
        link=Link(delay=200 * MICROSECOND, jitter=200 * MICROSECOND),
        timing=NodeTiming(heartbeat=20 * MILLISECOND, election=35 * MILLISECOND, flush=8 * MILLISECOND),
        disk=DiskTiming(most=2 * MILLISECOND),
        workload=LogWorkload(
            clients=3,
            think=120 * MILLISECOND,
            append=4.0,
            read=0.0,
            read_committed=0.0,
            read_linearizable=4.0,
            tail=2.0,
            acks_leader=0.0,
            acks_none=0.0,
            stray=0.4,
            former=0.3,
        ),
        duration=2400 * MILLISECOND,
        plan=tuple(fault for begin in range(300, 2300, 600) for fault in _cut_off_and_silent(begin)),
    ),
    # Nodes whose log was just cut short are asked to stop, and write down how far it is durable.
    "stops": replace(
        _DEFAULT,
        timing=NodeTiming(heartbeat=15 * MILLISECOND, election=50 * MILLISECOND, flush=10 * MILLISECOND),
        disk=DiskTiming(most=4 * MILLISECOND),
        workload=LogWorkload(think=20 * MILLISECOND, acks_all=1.0, acks_leader=5.0, stray=0.3, former=0.3),
        faults=FaultMix(
            weights={"partition": 5.0, "stop": 6.0},
            targets={"leader": 4.0, "follower": 2.0, "followers": 2.0},
            per_second=15.0,
            shortest=40 * MILLISECOND,
            longest=150 * MILLISECOND,
        ),
    ),
    # Clients wait for longer than a call may take: whoever is asked has to answer, whatever becomes of its office.
    "patient-clients": replace(
        _DEFAULT,
        workload=LogWorkload(clients=4, think=40 * MILLISECOND, timeout=10 * SECOND, read_linearizable=2.0, tail=2.0),
        duration=4 * SECOND,
        progress_bound=1500 * MILLISECOND,
        faults=FaultMix(
            weights={"partition": 4.0, "pause": 2.0, "clock": 2.0, "kill": 1.0},
            targets={"leader": 4.0, "follower": 1.0},
            per_second=3.0,
            shortest=100 * MILLISECOND,
            longest=400 * MILLISECOND,
        ),
    ),
    # Who is preferred as leader is away for longer than a run may go without a commit.
    "preferences": replace(
        _DEFAULT,
        priorities=True,
        longest_log=True,
        workload=LogWorkload(clients=3, think=40 * MILLISECOND, acks_leader=4.0),
        duration=8 * SECOND,
        progress_bound=3 * SECOND,
        faults=FaultMix(
            weights={"kill": 2.0, "partition": 2.0, "power_loss": 1.0},
            targets={"leader": 1.0},
            per_second=0.5,
            shortest=4 * SECOND,
            longest=6 * SECOND,
        ),
    ),
    # Leaders come back with entries of their former term, hand them on in the smallest chunks, and fall again.
    "old-terms": replace(
        _LEADERS_FALL,
        write_caching=True,
        limits=NodeLimits(recovery_chunk_bytes=1, max_in_flight=1),
        link=Link(delay=8 * MILLISECOND, jitter=4 * MILLISECOND),
        timing=NodeTiming(election=80 * MILLISECOND),
        workload=LogWorkload(think=8 * MILLISECOND, acks_all=1.0, acks_leader=4.0, read=6.0),
        faults=FaultMix(
            weights={"partition": 5.0, "kill": 2.0},
            targets={"leader": 6.0, "minority": 2.0, "follower": 1.0},
            per_second=10.0,
            shortest=50 * MILLISECOND,
            longest=400 * MILLISECOND,
        ),
    ),
    # A majority loses power together, and with it what it has shown, while others that have it are cut off.
    "lost-majorities": replace(
        _LOST_POWER,
        workload=LogWorkload(think=12 * MILLISECOND, acks_all=0.5, acks_leader=5.0),
        faults=FaultMix(
            weights={"power_loss": 5.0, "partition": 5.0, "slow_disk": 2.0},
            targets={"majority": 4.0, "follower": 4.0, "leader": 2.0},
            per_second=8.0,
            shortest=30 * MILLISECOND,
            longest=300 * MILLISECOND,
        ),
    ),
    # Elections that collide, all messages delayed and duplicated, under little load.
    "stale-votes": _STALE_VOTES,
    # Isolated leaders grow and flush long tails with acks=1; what they send afterwards is delayed and duplicated.
    "long-tails": replace(
        _DEFAULT,
        link=Link(reorder=0.3, duplicate=0.4, straggle=150 * MILLISECOND),
        disk=DiskTiming(least=5 * MILLISECOND, most=150 * MILLISECOND),
        workload=LogWorkload(think=20 * MILLISECOND, acks_all=1.0, acks_leader=5.0, stray=0.2),
        faults=FaultMix(
            weights={"partition": 5.0, "kill": 3.0, "slow_disk": 2.0, "delay": 1.0},
            targets={"leader": 5.0, "follower": 4.0},
            per_second=8.0,
            shortest=50 * MILLISECOND,
            longest=600 * MILLISECOND,
        ),
    ),
    # Requests and replies delayed and duplicated under dense load.
    "duplicates": replace(
        _DEFAULT,
        workload=LogWorkload(think=10 * MILLISECOND),
        duration=2 * SECOND,
        faults=FaultMix(
            weights={"duplicate": 4.0, "reorder": 2.0, "kill": 2.0, "partition": 2.0, "power_loss": 2.0},
            targets={"leader": 3.0, "all": 2.0},
            per_second=8.0,
            arguments={"duplicate": {"probability": 0.5}, "reorder": {"probability": 0.3}},
        ),
    ),
    # Logs trimmed while nodes are away: whoever comes back has to begin anew.
    "trimmed": replace(
        _DEFAULT,
        settle=5 * SECOND,
        link=Link(reorder=0.2, duplicate=0.3, straggle=100 * MILLISECOND),
        segment_bytes=200,
        faults=FaultMix(
            weights={"trim": 6.0, "partition": 4.0, "kill": 2.0, "power_loss": 1.0, "reorder": 1.0},
            targets={"leader": 4.0, "follower": 3.0, "all": 2.0},
            per_second=15.0,
            longest=500 * MILLISECOND,
        ),
    ),
    # Followers trim more than their leader has, also while they are sent what they lack, in the smallest chunks.
    "followers-trim": replace(
        _DEFAULT,
        settle=5 * SECOND,
        limits=NodeLimits(recovery_chunk_bytes=1, max_in_flight=2),
        link=Link(delay=3 * MILLISECOND, loss=0.1, reorder=0.2, duplicate=0.3, straggle=100 * MILLISECOND),
        segment_bytes=200,
        workload=LogWorkload(think=10 * MILLISECOND),
        duration=2 * SECOND,
        faults=FaultMix(
            weights={"trim": 8.0, "partition": 4.0, "loss": 2.0, "kill": 1.0},
            targets={"follower": 5.0, "followers": 2.0},
            per_second=20.0,
            longest=200 * MILLISECOND,
            arguments={"loss": {"probability": 0.4}},
        ),
    ),
    # Values replace each other, and each replica removes what was replaced at its own pace, while others are away.
    "compacted": _COMPACTED,
    # The same, and a ghost spans no more than two offsets: a wider gap is several, and a wider one is not sent.
    "narrow-ghosts": replace(_COMPACTED, limits=replace(_COMPACTED.limits, ghost_offsets=2)),
    # Appends wait for memory: it is little, one request is in flight, and followers are paused and slow.
    "little-memory": replace(
        _DEFAULT,
        limits=NodeLimits(memory_bytes=300, max_in_flight=1, round_bytes=150),
        workload=LogWorkload(clients=12, think=10 * MILLISECOND, acks_leader=3.0, acks_none=3.0),
        faults=FaultMix(
            weights={"pause": 5.0, "slow_disk": 3.0, "kill": 1.0, "partition": 1.0},
            targets={"follower": 5.0, "leader": 1.0},
            per_second=8.0,
            shortest=50 * MILLISECOND,
            longest=600 * MILLISECOND,
        ),
    ),
    # Whoever is to lead next hears of it late: meanwhile it lost power, and what the leader thought it had.
    "late-transfers": replace(
        _DEFAULT,
        link=Link(reorder=0.5, straggle=100 * MILLISECOND),
        timing=NodeTiming(heartbeat=10 * MILLISECOND, election=150 * MILLISECOND),
        disk=DiskTiming(most=4 * MILLISECOND),
        workload=LogWorkload(clients=6, think=8 * MILLISECOND, append=20.0, acks_all=4.0),
        duration=3 * SECOND,
        plan=tuple(fault for begin in range(400, 3000, 600) for fault in _told_too_late(begin)),
    ),
    # The leader is asked to leave again and again, under load that is acknowledged early; no power is lost.
    "transfers": replace(
        _DEFAULT,
        nodes=5,
        workload=LogWorkload(clients=8, think=5 * MILLISECOND, acks_leader=4.0, acks_none=2.0),
        faults=FaultMix(
            weights={"transfer": 6.0, "partition": 1.0, "pause": 1.0, "delay": 1.0, "kill": 1.0} | {"loss": 2.0},
            targets={"leader": 8.0, "follower": 1.0},
            per_second=12.0,
            longest=200 * MILLISECOND,
            arguments={"loss": {"probability": 0.5}},
        ),
    ),
    # Nodes join and leave a group of three, while leaders fall and logs are trimmed.
    "members": _MEMBERS,
    # Many leave at once and come back, also the leader, and what was begun is taken back.
    "members-leave": replace(
        _MEMBERS,
        voters=None,
        faults=FaultMix(
            weights={"leave": 8.0, "join": 6.0, "demote": 1.0, "cancel_change": 1.0, "partition": 5.0, "kill": 2.0},
            targets={"leader": 4.0, "minority": 3.0, "majority": 3.0, "follower": 2.0, "all": 2.0},
            per_second=20.0,
            shortest=30 * MILLISECOND,
            longest=250 * MILLISECOND,
        ),
    ),
    # Disks are lost with all that they held, one at a time, while leaders fall; their nodes are replaced by themselves.
    "wiped": replace(
        _DEFAULT,
        duration=3 * SECOND,
        settle=5 * SECOND,
        faults=FaultMix(
            weights={"wipe": 8.0, "partition": 4.0, "kill": 3.0, "power_loss": 2.0, "pause": 1.0, "loss": 1.0},
            targets={"leader": 4.0, "follower": 3.0, "any": 1.0},
            per_second=10.0,
            longest=400 * MILLISECOND,
        ),
    ),
    # A node leaves and comes back as another member, while answers of the one that it was are still on their way.
    "readded": replace(
        _DEFAULT,
        link=Link(straggle=400 * MILLISECOND),
        timing=NodeTiming(heartbeat=10 * MILLISECOND, election=200 * MILLISECOND),
        disk=DiskTiming(most=4 * MILLISECOND),
        workload=LogWorkload(clients=4, think=8 * MILLISECOND, append=20.0),
        duration=1500 * MILLISECOND,
        plan=(
            *_handed_to_the_first(300, 3),
            *(fault for begin in range(500, 1400, 300) for fault in _readded_and_heard_late(begin)),
        ),
    ),
    # Nothing hinders anybody, and leaders are removed.
    "leaders-leave": replace(
        _DEFAULT,
        nodes=4,
        progress_bound=800 * MILLISECOND,
        workload=LogWorkload(clients=2, think=30 * MILLISECOND),
        duration=2 * SECOND,
        plan=tuple(Fault(at * MILLISECOND, "leave", ("leader",), MILLISECOND) for at in (1300, 1700)),
    ),
    # The leader of two falls with the entry that removes it, before the other one has that.
    "pairs": replace(
        _DEFAULT,
        nodes=2,
        progress_bound=1500 * MILLISECOND,
        link=Link(delay=20 * MILLISECOND, jitter=MILLISECOND),
        timing=NodeTiming(heartbeat=40 * MILLISECOND, election=200 * MILLISECOND, flush=10 * MILLISECOND),
        disk=DiskTiming(most=2 * MILLISECOND),
        workload=LogWorkload(clients=2, think=60 * MILLISECOND),
        duration=3 * SECOND,
        plan=(
            Fault(900 * MILLISECOND, "leave", ("leader",), MILLISECOND),
            Fault(930 * MILLISECOND, "mute", ("leader",), 60 * MILLISECOND),
            Fault(965 * MILLISECOND, "kill", ("leader",), 20 * MILLISECOND),
        ),
    ),
    # Nodes that come and go are behind logs that were trimmed: snapshots come in small parts, and bring the members.
    "snapshots": replace(
        _MEMBERS,
        settle=5 * SECOND,
        link=Link(loss=0.05, reorder=0.2, duplicate=0.3, straggle=50 * MILLISECOND),
        limits=NodeLimits(snapshot_chunk_bytes=16),
        segment_bytes=200,
        faults=FaultMix(
            weights={"trim": 8.0, "join": 6.0, "leave": 4.0, "cancel_change": 1.0}
            | {"partition": 5.0, "kill": 2.0, "power_loss": 1.0, "power_loss_midway": 2.0, "kill_midway": 1.0},
            targets={"leader": 4.0, "follower": 3.0, "any": 3.0, "minority": 1.0, "all": 1.0},
            per_second=20.0,
            longest=400 * MILLISECOND,
        ),
    ),
    # Syncs that fail, also while a log is opened, full disks, damage, and power lost before anybody looks again.
    "bad-disks": replace(
        _DEFAULT,
        segment_bytes=200,
        remember_bytes=300,
        faults=FaultMix(
            weights={"fsync_error": 4.0, "open_error": 3.0, "disk_full": 2.0, "power_loss": 6.0, "flipped_bit": 1.0}
            | {"lost_name": 1.0, "kill": 2.0, "slow_disk": 2.0, "partition": 1.0},
            targets={"leader": 2.0, "follower": 3.0, "any": 3.0, "majority": 1.0},
            per_second=15.0,
            longest=200 * MILLISECOND,
            arguments={"open_error": {"sync": 2.0}},
        ),
    ),
    # Elections that collide, on disks that lose files and flip bits, those of the vote among them.
    "lost-votes": replace(
        _STALE_VOTES,
        faults=FaultMix(
            weights={"lost_name": 6.0, "flipped_bit": 1.0, "partition": 3.0, "kill": 2.0},
            targets={"leader": 2.0, "any": 3.0, "minority": 2.0},
            per_second=15.0,
            longest=150 * MILLISECOND,
        ),
    ),
    # Followers trim that nobody hears; what they were sent last arrives once more when they are heard again.
    "unheard-trims": replace(
        _DEFAULT,
        settle=5 * SECOND,
        duration=1500 * MILLISECOND,
        link=Link(delay=1 * MILLISECOND, jitter=1 * MILLISECOND, duplicate=0.6, straggle=150 * MILLISECOND),
        timing=NodeTiming(heartbeat=70 * MILLISECOND, election=400 * MILLISECOND, flush=10 * MILLISECOND),
        disk=DiskTiming(least=200 * MICROSECOND, most=3 * MILLISECOND),
        limits=NodeLimits(max_in_flight=1),
        segment_bytes=100,
        workload=LogWorkload(clients=4, pipeline=4, largest_batch=1, think=10 * MILLISECOND, append=20.0),
        faults=FaultMix(
            weights={"mute": 4.0, "trim": 8.0, "one_way": 4.0},
            targets={"follower": 1.0, "followers": 0.4},
            per_second=25.0,
            shortest=30 * MILLISECOND,
            longest=200 * MILLISECOND,
            arguments={"one_way": {"places": 2.0}},
        ),
    ),
    # A leader that is cut off, and slow to notice, flushes for long what nobody else has; the others commit and trim.
    "long-flushes": replace(
        _DEFAULT,
        settle=5 * SECOND,
        duration=1400 * MILLISECOND,
        timing=NodeTiming(heartbeat=15 * MILLISECOND, election=60 * MILLISECOND, flush=10 * MILLISECOND),
        disk=DiskTiming(least=4 * MILLISECOND, most=15 * MILLISECOND, read=1 * MILLISECOND),
        limits=NodeLimits(recovery_chunk_bytes=1),
        segment_bytes=100,
        workload=LogWorkload(
            clients=10,
            think=6 * MILLISECOND,
            read=0.0,
            read_committed=0.0,
            read_linearizable=0.0,
            tail=0.0,
            acks_all=0.3,
            acks_leader=6.0,
            acks_none=3.0,
            largest_batch=1,
            stray=0.3,
            former=0.7,
        ),
        faults=FaultMix(weights={"clock": 1.0, "slow_disk": 1.0, "partition": 1.0, "trim": 3.0}),
        plan=(
            Fault(300 * MILLISECOND, "clock", ("leader",), SECOND, {"rate": 0.2}),
            Fault(300 * MILLISECOND, "slow_disk", ("leader",), SECOND, {"factor": 40.0}),
            Fault(330 * MILLISECOND, "partition", ("leader",), 300 * MILLISECOND),
            *(Fault(at * MILLISECOND, "trim", ("all",), 10 * MILLISECOND) for at in (615, 628, 640)),
        ),
    ),
    # Nobody flushes before a leader falls, and a node that lacks what the other one holds asks for its vote.
    "unflushed": replace(
        _DEFAULT,
        link=Link(delay=200 * MICROSECOND, jitter=200 * MICROSECOND),
        timing=NodeTiming(heartbeat=15 * MILLISECOND, election=40 * MILLISECOND, flush=400 * MILLISECOND),
        disk=DiskTiming(most=2 * MILLISECOND),
        workload=LogWorkload(clients=3, think=8 * MILLISECOND, append=20.0, acks_all=0.0, acks_leader=1.0, stray=0.0),
        duration=2400 * MILLISECOND,
        plan=tuple(fault for begin in range(300, 2300, 500) for fault in _cut_off_and_asking(begin)),
    ),
    # Whoever is to lead next falls before it has everything, and stays away: the leader gives that up and serves.
    "lost-targets": replace(
        _DEFAULT,
        progress_bound=1200 * MILLISECOND,
        workload=LogWorkload(clients=4, think=20 * MILLISECOND),
        duration=3 * SECOND,
        plan=(Fault(400 * MILLISECOND, "kill", (0,), 2500 * MILLISECOND), *_handed_to_the_first(900, 3)),
    ),
}
"""Every setting by name."""
