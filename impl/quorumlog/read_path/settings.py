"""The configuration of a simulated run of the read path, and the named settings. Times are nanoseconds of virtual time.

Time-outs of minutes are seconds here, so that short runs have many.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Annotated, Any, Self

import msgspec
from msgspec.structs import replace

from quorumlog.durations import MICROSECOND, MILLISECOND, SECOND, Interval, Pause
from quorumlog.faults import Fault, FaultKind, FaultMix, Weight, declare
from quorumlog.read_path.configuration import ReaderSettings, SequencerSettings, ShardSettings
from quorumlog.read_path.nodeset import SCOPES, Location
from quorumlog.simulation.configuration import ClusterConfiguration, ConfigurationError, DiskTiming, Workload
from quorumlog.simulation.network import Link, Probability
from quorumlog.simulation.swarm import between

declare(
    {
        "part": FaultKind("a reader and half of the shards, these among them, do not hear each other"),
        "little_memory": FaultKind("a reader, by this number, is short of memory: its window shrinks until the end"),
        "kill_broker": FaultKind("SIGKILL of a node that keeps epochs, metadata and events; restarted at once"),
        "drain": FaultKind("the copies of these shards go elsewhere; they may have copies again from the end on"),
        "rot": FaultKind("a copy on each of these shards does not read back as it was written"),
        "memory_pressure": FaultKind("these readers are short of memory: their windows shrink until the end"),
    }
)

Few = Annotated[int, msgspec.Meta(ge=1, le=16)]


class ReadPathWorkload(Workload, frozen=True, kw_only=True):
    """What clients do; the numbers named like operations are relative weights."""

    clients: int = 4
    think: Interval = 12 * MILLISECOND
    timeout: Interval = 1500 * MILLISECOND
    append: Weight = 50.0
    trim: Weight = 0.3
    trim_behind: Annotated[int, msgspec.Meta(ge=0, le=1 << 30)] = 600  # by how many LSNs at most, from the newest
    value_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 16)] = 60  # of a payload, at most

    def drawn(self, draw: Random) -> Self:
        """Another workload: more or less trimming, larger or smaller records."""
        return replace(
            super().drawn(draw),
            clients=draw.randint(1, 5),
            pipeline=draw.choice((1, 1, 2, 4)),
            timeout=between(draw, 300 * MILLISECOND, 2 * SECOND),
            trim=draw.choice((0.0, 0.3, 2.0)),
            trim_behind=draw.choice((5, 200, 1000)),
            value_bytes=between(draw, 1, 400),
        )


_READER = ReaderSettings(
    window=64,
    in_flight=32,
    room=200,
    redelivery=20 * MILLISECOND,
    scd_timeout=1 * SECOND,
    all_send_all_timeout=2 * SECOND,
    rewind_most=400 * MILLISECOND,
    started=200 * MILLISECOND,
    probation=500 * MILLISECOND,
    probation_most=4 * SECOND,
)

_FAULTS = FaultMix(
    weights={"kill": 3.0, "power_loss": 1.0, "pause": 2.0, "partition": 2.0, "one_way": 1.0, "slow_disk": 2.0}
    | {"wipe": 2.0, "drain": 1.0, "loss": 1.0, "delay": 1.0},
    targets={"leader": 2.0, "follower": 5.0, "any": 3.0, "minority": 1.0},
    per_second=2.0,
    shortest=50 * MILLISECOND,
    longest=1500 * MILLISECOND,
    arguments={"slow_disk": {"factor": 30.0}, "delay": {"ms": 80.0}, "loss": {"probability": 0.1}},
)


class ReadPathConfiguration(ClusterConfiguration, frozen=True, kw_only=True):
    """One simulated run, except for its seed; ``nodes`` follows: the shards, the sequencers and the readers.

    ``replication``: the factor of each scope; ``domains``: into how many each scope is divided, from large to small,
    but for nodes; ``nodeset_changes``: how often an epoch has another nodeset, which leaves out up to ``spare`` shards;
    ``rebuild_after``: for so long a shard is down before it is rebuilt; ``loses``: more shards may be wiped than the
    property allows for; ``event_log_lag``: how late a reader may learn of the event log, and
    ``first_event_log_lag``: how long after its beginning it may read that at first; ``application``: how often a
    reader's application takes what is ready; ``dirty``: for how long before an unclean stop a shard is not sure what it
    wrote (read-path.md#nothing-dirty-is-lost).
    """

    nodes: int = 10
    shards: Few = 6
    sequencers: Few = 2
    readers: Few = 2
    replication: dict[str, Few] = msgspec.field(default_factory=lambda: {"NODE": 3})
    domains: tuple[Few, ...] = (1, 1, 1, 1)
    spare: Annotated[int, msgspec.Meta(ge=0, le=15)] = 1
    nodeset_changes: Probability = 0.3
    duration: int = 4 * SECOND
    settle: int = 20 * SECOND
    final_read: Interval = 20 * SECOND
    first_fault: Pause = 400 * MILLISECOND
    link: Link = Link(delay=300 * MICROSECOND, jitter=500 * MICROSECOND)
    disk: DiskTiming = DiskTiming(least=200 * MICROSECOND, most=3 * MILLISECOND)
    read_time: Interval = 500 * MICROSECOND
    dirty: Interval = 200 * MILLISECOND
    rebuild_after: Interval = 500 * MILLISECOND
    event_log_lag: Pause = 30 * MILLISECOND
    first_event_log_lag: Pause = 0
    loses: bool = False
    application: Interval = 5 * MILLISECOND
    application_batch: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)] = 50
    application_busy: Probability = 0.02
    reader: ReaderSettings = _READER
    shard: ShardSettings = ShardSettings(batch_bytes=1024, batch_records=16)
    sequencer: SequencerSettings = SequencerSettings(in_flight=32)
    workload: ReadPathWorkload = ReadPathWorkload()
    faults: FaultMix = _FAULTS

    def __post_init__(self) -> None:
        """Refuse a configuration that no run can have."""
        msgspec.structs.force_setattr(self, "nodes", self.shards + self.sequencers + self.readers)
        super().__post_init__()
        unknown = [scope for scope in self.replication if scope not in SCOPES]
        if unknown or not self.replication:
            raise ConfigurationError(f"replication {self.replication}: give factors of {', '.join(SCOPES)}")
        if max(self.replication.values()) > self.shards - self.spare:
            raise ConfigurationError(f"replication {self.replication}: more than the shards of a nodeset")

    def locations(self) -> dict[int, Location]:
        """The names of each shard's domains, from large to small; each is a node of its own."""
        names: dict[int, Location] = {}
        for shard in range(self.shards):
            rest, path = shard, []
            for count in self.domains:
                path.append(str(rest % count))
                rest //= count
            names[shard] = (*path, f"N{shard}")
        return names

    def drawn(self, draw: Random) -> Self:
        """Another configuration: how many shards, replicated how, which modes of reading, which faults."""
        shards = draw.choice((3, 4, 5, 6, 7, 8))
        sequencers, readers = draw.randint(1, 2), draw.randint(1, 3)
        factor = draw.randint(1, min(3, shards - 1))
        replication = {"NODE": factor}
        domains: tuple[int, ...] = (1, 1, 1, 1)
        if shards >= 6 and draw.random() < 0.4:
            scope = draw.choice((0, 3))
            replication = {SCOPES[scope]: 2, "NODE": max(2, factor)}
            domains = tuple(3 if place == scope else 1 for place in range(4))
        changes: dict[str, Any] = {
            "window": draw.choice((1, 5, 20, 64, 512)),
            "threshold": draw.choice((0.0, 0.5, 0.7, 1.0)),
            "grace": draw.choice((0, 20, 100)) * MILLISECOND,
            "require_full_read_set": draw.random() < 0.05,
            "skip_trimmed": draw.random() < 0.85,
            "single_copy": draw.random() < 0.7,
            "local": draw.random() < 0.3,
            "shuffle": draw.choice(("client", "fixed", "off")),
            "guaranteed_delivery_efficiency": draw.random() < 0.15,
            "slow_shards": draw.random() < 0.7,
            "room": draw.choice((1, 10, 200)),
        }
        spare = draw.randint(0, max(0, shards - max(replication.values()) - 2)) if domains == (1, 1, 1, 1) else 0
        patience = 10 if changes["room"] == 1 else 1  # a reader with room for one record asks for most of them again
        drawn = super().drawn(draw)
        weights = {name: weight for name, weight in _FAULTS.weights.items() if draw.random() < 0.5} or {"kill": 1.0}
        faults = replace(_FAULTS, weights=weights, per_second=draw.uniform(0.5, 4.0))
        return replace(
            drawn,
            shards=shards,
            sequencers=sequencers,
            readers=readers,
            replication=replication,
            domains=domains,
            spare=min(spare, 2),
            nodeset_changes=draw.choice((0.0, 0.3, 1.0)),
            duration=between(draw, 1500 * MILLISECOND, 4 * SECOND),
            settle=self.settle * patience,
            final_read=self.final_read * patience,
            first_fault=between(draw, 50 * MILLISECOND, 600 * MILLISECOND),
            link=Link(delay=drawn.link.delay // 4, jitter=drawn.link.jitter // 4, loss=drawn.link.loss),
            disk=DiskTiming(least=between(draw, 50 * MICROSECOND, MILLISECOND), most=between(draw, MILLISECOND, 10**7)),
            rebuild_after=between(draw, 100 * MILLISECOND, 2 * SECOND),
            event_log_lag=draw.choice((0, 30, 300)) * MILLISECOND,
            application_busy=draw.choice((0.0, 0.02, 0.3)),
            reader=replace(self.reader, **changes),
            shard=ShardSettings(batch_bytes=between(draw, 50, 4096), batch_records=draw.randint(1, 64)),
            sequencer=SequencerSettings(in_flight=draw.choice((4, 32)), sticky=draw.choice((1, 4, 16))),
            faults=faults,
            progress_bound=self.progress_bound,
        )


_DEFAULT = ReadPathConfiguration()

_CUT_OFF = replace(
    _DEFAULT,
    shards=4,
    sequencers=1,
    readers=1,
    spare=0,
    rebuild_after=10 * SECOND,
    reader=replace(_READER, single_copy=False),
)
_PATIENT = SequencerSettings(in_flight=32, sticky=1, store=2 * SECOND, store_most=2 * SECOND)
"""A sequencer that waits for a wave for long."""
_ONLY_SHARD_0 = tuple(
    Fault(600 * MILLISECOND, "one_way", (4,), 140 * MILLISECOND, {"places": places}) for places in (3.0, 4.0, 5.0)
)
"""What the sequencer, node 4 of 6, sends to shards 1, 2 and 3 is lost."""

_UNAVAILABLE = replace(
    _DEFAULT,
    shards=4,
    spare=0,
    replication={"NODE": 2},
    rebuild_after=60 * MILLISECOND,
    reader=replace(_READER, single_copy=False),
    faults=replace(
        _FAULTS, weights={"kill": 4.0}, targets={"leader": 2.0, "minority": 1.0, "follower": 3.0}, per_second=5.0
    ),
)

SETTINGS: Mapping[str, ReadPathConfiguration] = {
    # A bit of everything.
    "default": _DEFAULT,
    # Every shard sends every copy.
    "all-send-all": replace(_DEFAULT, reader=replace(_READER, single_copy=False)),
    # More is lost than the replication property allows for.
    "losses": replace(
        _DEFAULT,
        loses=True,
        replication={"NODE": 2},
        reader=replace(_READER, single_copy=False),
        faults=replace(_FAULTS, weights={"wipe": 4.0, "kill": 2.0, "power_loss": 1.0}, per_second=2.5),
    ),
    # Copies rot where they lie.
    "rot": replace(
        _DEFAULT,
        faults=replace(
            _FAULTS, weights={"rot": 6.0, "pause": 1.0, "partition": 1.0}, targets={"follower": 1.0}, per_second=8.0
        ),
    ),
    # Sequencers come and go in mid-write.
    "failover": replace(
        _DEFAULT,
        nodeset_changes=0.5,
        faults=replace(
            _FAULTS,
            weights={"kill": 3.0, "pause": 2.0, "partition": 3.0, "one_way": 2.0},
            targets={"leader": 5.0, "follower": 2.0},
            per_second=4.0,
            longest=600 * MILLISECOND,
        ),
    ),
    # Shards are lost and rebuilt, and everybody learns of that late.
    "rebuilding": replace(
        _DEFAULT,
        rebuild_after=150 * MILLISECOND,
        event_log_lag=400 * MILLISECOND,
        faults=replace(
            _FAULTS,
            weights={"wipe": 4.0, "kill": 3.0, "drain": 2.0, "partition": 1.0},
            targets={"follower": 1.0},
            per_second=2.5,
        ),
    ),
    # A reader hears that a shard has no copy; one is made there when another shard is rebuilt, of which the reader
    # learns late; the rebuilt shard then says that it has none either.
    "stale-answers": replace(
        _DEFAULT,
        shards=4,
        sequencers=1,
        readers=1,
        spare=0,
        replication={"NODE": 2},
        rebuild_after=300 * MILLISECOND,
        event_log_lag=3 * SECOND,
        reader=replace(_READER, single_copy=False),
        plan=(
            Fault(600 * MILLISECOND, "one_way", (0,), 1100 * MILLISECOND, {"places": 5.0}),
            Fault(600 * MILLISECOND, "one_way", (1,), 3400 * MILLISECOND, {"places": 4.0}),
            Fault(900 * MILLISECOND, "wipe", (0,), 100 * MILLISECOND),
        ),
    ),
    # All shards of some copysets are down with their data, and declared to be rebuilt, while an epoch is recovered.
    "unavailable": _UNAVAILABLE,
    # The last records of an epoch reach shard 0 alone, which is down while the epoch is recovered without them. Nothing
    # is trimmed before somebody reads all of it again.
    "left-behind": replace(
        _CUT_OFF,
        workload=ReadPathWorkload(trim=0.0),
        plan=(
            *_ONLY_SHARD_0,
            Fault(630 * MILLISECOND, "kill", (0,), 900 * MILLISECOND),
            Fault(635 * MILLISECOND, "kill", (4,), 100 * MILLISECOND),
        ),
    ),
    # The same, and they were sent twice; the first run of the recovery ends in mid-write, the second one finds them.
    "taken-over": replace(
        _CUT_OFF,
        plan=(
            *_ONLY_SHARD_0,
            Fault(685 * MILLISECOND, "kill", (0,), 450 * MILLISECOND),
            Fault(690 * MILLISECOND, "kill", (4,), 60 * MILLISECOND),
            Fault(900 * MILLISECOND, "one_way", (4,), 200 * MILLISECOND, {"places": 5.0}),
            Fault(1040 * MILLISECOND, "kill", (4,), 60 * MILLISECOND),
        ),
    ),
    # A sequencer sleeps while another one takes its place; two shards restart just before it wakes.
    "asleep": replace(
        _CUT_OFF,
        sequencers=2,
        replication={"NODE": 2},
        workload=ReadPathWorkload(timeout=300 * MILLISECOND),
        plan=(
            Fault(600 * MILLISECOND, "pause", (4,), 800 * MILLISECOND),
            Fault(1200 * MILLISECOND, "kill", (0, 1), 195 * MILLISECOND),
        ),
    ),
    # Shards answer later than they are waited for.
    "late-answers": replace(
        _CUT_OFF, plan=(Fault(300 * MILLISECOND, "slow_disk", (0, 1, 2, 3), 2 * SECOND, {"factor": 12.0}),)
    ),
    # All shards of some copysets are wiped before the epoch is recovered that has its last records there.
    "all-lost": replace(
        _CUT_OFF,
        loses=True,
        replication={"NODE": 2},
        plan=(
            Fault(600 * MILLISECOND, "kill", (4,), 100 * MILLISECOND),
            Fault(605 * MILLISECOND, "wipe", (0, 1), 100 * MILLISECOND),
        ),
    ),
    # One shard is far slower than the others.
    "slow": replace(
        _DEFAULT,
        faults=replace(
            _FAULTS,
            weights={"slow_disk": 1.0},
            targets={"follower": 1.0},
            per_second=2.0,
            arguments={"slow_disk": {"factor": 200.0}},
        ),
        reader=replace(_READER, window=16, slow_margin=3.0),
    ),
    # The same, of one that alone has what it has: nobody may be passed over.
    "slow-alone": replace(
        _DEFAULT,
        replication={"NODE": 1},
        faults=replace(
            _FAULTS,
            weights={"slow_disk": 1.0},
            targets={"follower": 1.0},
            per_second=2.0,
            arguments={"slow_disk": {"factor": 200.0}},
        ),
        reader=replace(_READER, window=16, slow_margin=3.0),
    ),
    # More is lost than the property allows for, and rewinds are a long time coming.
    "late-rewinds": replace(
        _DEFAULT,
        loses=True,
        replication={"NODE": 2},
        reader=replace(
            _READER, single_copy=False, rewind=200 * MILLISECOND, rewind_most=600 * MILLISECOND, grace=20 * MILLISECOND
        ),
        faults=replace(_FAULTS, weights={"wipe": 4.0, "kill": 2.0, "power_loss": 1.0}, per_second=2.5),
    ),
    # Far away, and much changes: what is on its way belongs to an earlier START.
    "far": replace(
        _DEFAULT,
        link=Link(delay=15 * MILLISECOND, jitter=10 * MILLISECOND),
        replication={"NODE": 2},
        faults=replace(
            _FAULTS,
            weights={"pause": 2.0, "rot": 4.0, "one_way": 2.0},
            targets={"follower": 1.0},
            per_second=8.0,
            longest=600 * MILLISECOND,
        ),
    ),
    # The same while epochs come and go: what is on its way was said in single-copy delivery.
    "far-failover": replace(
        _DEFAULT,
        link=Link(delay=15 * MILLISECOND, jitter=10 * MILLISECOND),
        nodeset_changes=0.0,
        faults=replace(
            _FAULTS,
            weights={"kill": 3.0, "pause": 2.0, "partition": 3.0, "one_way": 2.0},
            targets={"leader": 5.0, "follower": 2.0},
            per_second=4.0,
            longest=600 * MILLISECOND,
        ),
    ),
    # All shards of some copysets are down with their data, until long after the others have copied what they have.
    "two-away": replace(
        _CUT_OFF,
        replication={"NODE": 2},
        rebuild_after=100 * MILLISECOND,
        plan=(Fault(600 * MILLISECOND, "kill", (0, 1), 1200 * MILLISECOND),),
    ),
    # Shards restart and sleep, one always may lack what it had; nobody is waited for.
    "restarts": replace(
        _DEFAULT,
        shards=8,
        spare=0,
        dirty=3 * SECOND,
        event_log_lag=0,
        reader=replace(_READER, single_copy=False, grace=0),
        faults=replace(
            _FAULTS,
            weights={"kill": 4.0, "power_loss": 3.0, "pause": 4.0, "one_way": 2.0},
            targets={"leader": 2.0, "follower": 5.0},
            per_second=10.0,
            longest=700 * MILLISECOND,
        ),
    ),
    # A shard is away while others amend the copysets that it is in; then one of those is lost, and a record has several
    # donors. Copysets are read as they are.
    "two-donors": replace(
        _CUT_OFF,
        replication={"NODE": 2},
        reader=replace(_READER, shuffle="off"),
        workload=ReadPathWorkload(trim=0.0),
        plan=(
            Fault(500 * MILLISECOND, "kill", (2,), 300 * MILLISECOND),
            Fault(550 * MILLISECOND, "drain", (2,), 150 * MILLISECOND),
            Fault(1000 * MILLISECOND, "wipe", (3,), 100 * MILLISECOND),
        ),
    ),
    # What a donor sends to a shard that has copies too is lost while it amends copysets; then the donor itself is lost.
    "half-amended": replace(
        _CUT_OFF,
        workload=ReadPathWorkload(trim=0.0),
        plan=(
            Fault(20 * MILLISECOND, "kill", (2,), 380 * MILLISECOND),
            Fault(410 * MILLISECOND, "wipe", (3,), 100 * MILLISECOND),
            Fault(450 * MILLISECOND, "one_way", (0,), 250 * MILLISECOND, {"places": 1.0}),
            Fault(800 * MILLISECOND, "wipe", (0,), 100 * MILLISECOND),
        ),
    ),
    # A drain is given up when the drained shard has not yet stored what donors sent: of a record's copies the first
    # names other shards than the rest. Then two of those are lost, one after the other.
    "drain-given-up": replace(
        _CUT_OFF,
        workload=ReadPathWorkload(trim=0.0),
        plan=(
            Fault(480 * MILLISECOND, "slow_disk", (2,), 200 * MILLISECOND, {"factor": 10.0}),
            Fault(500 * MILLISECOND, "drain", (2,), 100 * MILLISECOND),
            Fault(1200 * MILLISECOND, "wipe", (3,), 100 * MILLISECOND),
            Fault(1900 * MILLISECOND, "wipe", (1,), 100 * MILLISECOND),
        ),
    ),
    # A drain is given up when the drained shard has amended its copies, and a donor that does not hear of that has not
    # amended its own. The shards that were to have the copies instead lose their disks, one after the other.
    "drained-unheard": replace(
        _CUT_OFF,
        replication={"NODE": 2},
        workload=ReadPathWorkload(trim=0.0),
        plan=(
            Fault(500 * MILLISECOND, "one_way", (2,), 150 * MILLISECOND, {"places": 4.0}),
            Fault(500 * MILLISECOND, "drain", (2,), 60 * MILLISECOND),
            Fault(800 * MILLISECOND, "wipe", (1,), 100 * MILLISECOND),
            Fault(1500 * MILLISECOND, "wipe", (0,), 100 * MILLISECOND),
        ),
    ),
    # A reader that wants efficiency and was away reads while a shard is drained, whose copies are amended; those of a
    # donor that does not hear of that are not.
    "read-while-drained": replace(
        _CUT_OFF,
        replication={"NODE": 2},
        workload=ReadPathWorkload(trim=0.0),
        reader=replace(_READER, guaranteed_delivery_efficiency=True),
        plan=(
            Fault(200 * MILLISECOND, "kill", (5,), 400 * MILLISECOND),
            Fault(400 * MILLISECOND, "one_way", (2,), 600 * MILLISECOND, {"places": 4.0}),
            Fault(400 * MILLISECOND, "drain", (2,), 800 * MILLISECOND),
        ),
    ),
    # Each write takes longer than a recovery waits at first.
    "slow-disks": replace(
        _CUT_OFF,
        disk=DiskTiming(least=550 * MILLISECOND, most=600 * MILLISECOND),
        workload=ReadPathWorkload(clients=1, trim=0.0, timeout=3 * SECOND),
        sequencer=_PATIENT,
        duration=1500 * MILLISECOND,
        plan=(Fault(1000 * MILLISECOND, "kill", (4,), 100 * MILLISECOND),),
    ),
    # A shard that was away while an epoch was recovered gets copies of it from a donor before any release.
    "away-then-donated": replace(
        _CUT_OFF,
        workload=ReadPathWorkload(trim=0.0),
        replication={"NODE": 2},
        plan=(
            Fault(560 * MILLISECOND, "kill", (0,), 600 * MILLISECOND),
            Fault(620 * MILLISECOND, "kill", (4,), 80 * MILLISECOND),
            Fault(1000 * MILLISECOND, "kill", (4,), 600 * MILLISECOND),
            Fault(1050 * MILLISECOND, "wipe", (1,), 100 * MILLISECOND),
            Fault(1900 * MILLISECOND, "wipe", (3,), 100 * MILLISECOND),
        ),
    ),
    # A reader that was away finds a loss while a shard is down for long; it asks that one again more often than a grace
    # period takes.
    "long-grace": replace(
        _CUT_OFF,
        loses=True,
        replication={"NODE": 2},
        duration=8500 * MILLISECOND,
        rebuild_after=30 * SECOND,
        workload=ReadPathWorkload(trim=0.0, think=80 * MILLISECOND),
        sequencer=SequencerSettings(in_flight=32, sticky=1),
        reader=replace(_READER, single_copy=False, grace=400 * MILLISECOND),
        plan=(
            Fault(300 * MILLISECOND, "kill", (5,), 1200 * MILLISECOND),
            Fault(700 * MILLISECOND, "wipe", (0, 1), 100 * MILLISECOND),
            Fault(1400 * MILLISECOND, "kill", (2,), 7 * SECOND),
        ),
    ),
    # The same, and a rack is down for long: the others are an f-majority of racks, and none of shards.
    "rack-away": replace(
        _CUT_OFF,
        shards=6,
        loses=True,
        replication={"RACK": 2},
        domains=(1, 1, 1, 3),
        duration=5 * SECOND,
        rebuild_after=30 * SECOND,
        workload=ReadPathWorkload(trim=0.0, think=40 * MILLISECOND),
        sequencer=SequencerSettings(in_flight=32, sticky=1),
        plan=(
            Fault(300 * MILLISECOND, "kill", (7,), 1200 * MILLISECOND),
            Fault(700 * MILLISECOND, "wipe", (1, 2), 100 * MILLISECOND),
            Fault(1400 * MILLISECOND, "kill", (0, 3), 2 * SECOND),
        ),
    ),
    # More is lost than the property allows for, in single-copy delivery.
    "losses-in-scd": replace(
        _DEFAULT,
        loses=True,
        replication={"NODE": 2},
        faults=replace(_FAULTS, weights={"wipe": 4.0, "kill": 2.0, "power_loss": 1.0}, per_second=2.5),
    ),
    # The same as "unavailable", and readers want efficiency: they may issue gaps in single-copy delivery.
    "efficient": replace(
        _UNAVAILABLE,
        reader=replace(_READER, guaranteed_delivery_efficiency=True),
        faults=replace(_UNAVAILABLE.faults, targets={"majority": 2.0, "leader": 1.0, "follower": 2.0}),
    ),
    # A reader hears from two shards alone, which have no copy of a record; they get one each. Those that had them go
    # down, and are wiped when that is done: the second when its own rebuilding has copied what the first one's had.
    "lost-in-turn": replace(
        _CUT_OFF,
        loses=True,
        replication={"NODE": 2},
        duration=2 * SECOND,
        rebuild_after=60 * MILLISECOND,
        event_log_lag=0,
        workload=ReadPathWorkload(trim=0.0, think=30 * MILLISECOND),
        sequencer=SequencerSettings(in_flight=32, sticky=1),
        plan=(
            Fault(300 * MILLISECOND, "one_way", (0,), 4 * SECOND, {"places": 5.0}),
            Fault(300 * MILLISECOND, "one_way", (1,), 4 * SECOND, {"places": 4.0}),
            Fault(600 * MILLISECOND, "slow_disk", (3,), 2 * SECOND, {"factor": 10.0}),
            Fault(700 * MILLISECOND, "kill", (0,), 300 * MILLISECOND),
            Fault(900 * MILLISECOND, "wipe", (0,), 100 * MILLISECOND),
            Fault(940 * MILLISECOND, "kill", (1,), 560 * MILLISECOND),
            Fault(1400 * MILLISECOND, "wipe", (1,), 100 * MILLISECOND),
        ),
    ),
    # Of four shards that say what they have in small pieces one is lost with its records, and the others may lack some.
    "said-in-pieces": replace(
        _CUT_OFF,
        loses=True,
        replication={"NODE": 1},
        duration=1100 * MILLISECOND,
        rebuild_after=500 * MILLISECOND,
        dirty=4 * SECOND,
        read_time=2 * MILLISECOND,
        workload=ReadPathWorkload(trim=0.0, think=40 * MILLISECOND),
        shard=ShardSettings(batch_bytes=64, batch_records=1),
        sequencer=SequencerSettings(in_flight=32, sticky=1),
        plan=(
            Fault(600 * MILLISECOND, "power_loss", (1,), 50 * MILLISECOND),
            Fault(700 * MILLISECOND, "power_loss", (2,), 50 * MILLISECOND),
            Fault(800 * MILLISECOND, "power_loss", (3,), 50 * MILLISECOND),
            Fault(950 * MILLISECOND, "wipe", (0,), 100 * MILLISECOND),
        ),
    ),
    # The shards with the only copies of an epoch's last records are back without them before the epoch is recovered.
    "back-without": replace(
        _CUT_OFF,
        loses=True,
        replication={"NODE": 1},
        plan=(
            Fault(600 * MILLISECOND, "kill", (4,), 600 * MILLISECOND),
            Fault(605 * MILLISECOND, "wipe", (0, 1), 50 * MILLISECOND),
        ),
    ),
    # All shards but one lose their data while both sequencers sleep, and the one wakes first whose place was taken; the
    # shard that has kept its seal is down by then.
    "asleep-and-lost": replace(
        _CUT_OFF,
        sequencers=2,
        loses=True,
        replication={"NODE": 1},
        workload=ReadPathWorkload(timeout=300 * MILLISECOND),
        plan=(
            Fault(600 * MILLISECOND, "pause", (4,), 900 * MILLISECOND),
            Fault(1150 * MILLISECOND, "pause", (5,), 1200 * MILLISECOND),
            Fault(1200 * MILLISECOND, "wipe", (0, 1, 2), 50 * MILLISECOND),
            Fault(1450 * MILLISECOND, "kill", (3,), 300 * MILLISECOND),
        ),
    ),
    # Readers whose windows slide at every delivery are short of memory, while all shards send them all that they have.
    "short-of-memory": replace(
        _DEFAULT,
        reader=replace(_READER, single_copy=False, threshold=0.0),
        faults=replace(
            _FAULTS,
            weights={"memory_pressure": 6.0, "kill": 1.0, "pause": 1.0},
            targets={"any": 5.0, "follower": 1.0},
            per_second=8.0,
        ),
    ),
    # A reader hears from two shards alone, which have no copy of a record; they get one each when another shard is
    # rebuilt that is down, and loses its disk then. The reader first reads the event log when all that is over.
    "late-first-statuses": replace(
        _CUT_OFF,
        replication={"NODE": 2},
        rebuild_after=60 * MILLISECOND,
        first_event_log_lag=4 * SECOND,
        workload=ReadPathWorkload(trim=0.0),
        plan=(
            Fault(600 * MILLISECOND, "one_way", (0,), 400 * MILLISECOND, {"places": 5.0}),
            Fault(600 * MILLISECOND, "one_way", (1,), 3400 * MILLISECOND, {"places": 4.0}),
            Fault(700 * MILLISECOND, "kill", (0,), 300 * MILLISECOND),
            Fault(900 * MILLISECOND, "wipe", (0,), 100 * MILLISECOND),
        ),
    ),
    # A shard with a very slow disk has its first copies on their way there for long. Another shard of their copysets
    # has stored them, loses its disk, and is back when it is rebuilt; the sequencer, whose clock is slow, learns late.
    "long-on-its-way": replace(
        _CUT_OFF,
        shards=6,
        replication={"NODE": 2},
        event_log_lag=4 * SECOND,
        workload=ReadPathWorkload(trim=0.0, think=40 * MILLISECOND),
        sequencer=_PATIENT,
        plan=(
            Fault(1 * MILLISECOND, "slow_disk", (1,), 2 * SECOND, {"factor": 100.0}),
            Fault(30 * MILLISECOND, "clock", (6,), 3 * SECOND, {"rate": 0.1}),
            Fault(60 * MILLISECOND, "wipe", (0,), 20 * MILLISECOND),
        ),
    ),
    # What is sent to a shard takes so long that another one of the copyset, which has stored it, loses its disk and is
    # back when it is rebuilt before it arrives.
    "overtaken-by-a-loss": replace(
        _CUT_OFF,
        replication={"NODE": 2},
        event_log_lag=0,
        workload=ReadPathWorkload(trim=0.0, think=60 * MILLISECOND),
        sequencer=_PATIENT,
        plan=(
            Fault(1 * MILLISECOND, "delay", (1,), 500 * MILLISECOND, {"ms": 700.0}),
            Fault(120 * MILLISECOND, "wipe", (0,), 20 * MILLISECOND),
        ),
    ),
    # The same, and the sequencer, whose clock is slow, has heard nothing of that either by then.
    "overtaken-unheard": replace(
        _CUT_OFF,
        replication={"NODE": 2},
        event_log_lag=SECOND,
        workload=ReadPathWorkload(trim=0.0, think=60 * MILLISECOND),
        sequencer=replace(_PATIENT, release=MILLISECOND),
        plan=(
            Fault(1 * MILLISECOND, "delay", (1,), 120 * MILLISECOND, {"ms": 700.0}),
            Fault(30 * MILLISECOND, "clock", (4,), SECOND, {"rate": 0.01}),
            Fault(120 * MILLISECOND, "wipe", (0,), 20 * MILLISECOND),
        ),
    ),
    # Two shards hear nothing of the last records of an epoch, and are down while its recovery seals the others. These
    # learn only then that the records are released and trimmed, and restart before they are read. Readers want what is
    # trimmed, too.
    "trimmed-elsewhere": replace(
        _CUT_OFF,
        replication={"NODE": 2},
        duration=800 * MILLISECOND,
        workload=ReadPathWorkload(clients=3, think=15 * MILLISECOND, trim=100.0, trim_behind=0),
        reader=replace(_READER, single_copy=False, skip_trimmed=False),
        plan=(
            Fault(400 * MILLISECOND, "one_way", (4,), 300 * MILLISECOND, {"places": 4.0}),
            Fault(400 * MILLISECOND, "one_way", (4,), 300 * MILLISECOND, {"places": 5.0}),
            Fault(600 * MILLISECOND, "delay", (0, 1), 50 * MILLISECOND, {"ms": 120.0}),
            Fault(650 * MILLISECOND, "kill", (2, 3), 180 * MILLISECOND),
            Fault(650 * MILLISECOND, "kill", (4,), 10 * MILLISECOND),
            Fault(780 * MILLISECOND, "kill", (0, 1), 10 * MILLISECOND),
        ),
    ),
}
"""Every setting by name."""
