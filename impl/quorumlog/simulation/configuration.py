"""What decides a simulated run, together with its seed: plain data, written to the run's manifest and read back.

Times are nanoseconds of virtual time. The defaults make short, eventful runs: election time-outs are short
against faults, flushes slow against messages, so that dirty and flushed offsets differ for a long time.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Annotated, Any, Self, TypeVar

import msgspec
from msgspec import structs

from quorumlog.durations import MICROSECOND, MILLISECOND, SECOND, Interval, Pause, format_duration
from quorumlog.faults import KNOWN, FaultMix, FaultPlanError, Plan, Weight, plan_from_json, plan_to_json
from quorumlog.simulation.network import Link, Probability
from quorumlog.simulation.swarm import between, drawn_link, drawn_mix, some
from quorumlog.storage.log import REMEMBER_BYTES

WORDS = ("leader", "follower", "followers", "minority", "majority", "all")
"""What a fault may name instead of a node's number; `quorumlog.simulation.host_faults` says what each means."""


class ConfigurationError(ValueError):
    """A configuration that cannot be read or used: one line with the field and the remedy."""


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many clients there are, and how fast they work; a protocol adds what they do."""

    clients: int = 6
    think: Interval = 25 * MILLISECOND  # mean pause between two operations of a client
    timeout: Interval = 350 * MILLISECOND  # after that the outcome is unknown
    pipeline: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1  # operations that a client begins at once

    def drawn(self, draw: Random) -> Self:
        """Another workload: few or many clients, slow or fast."""
        return structs.replace(
            self,
            clients=draw.randint(1, 4),
            think=between(draw, 8 * MILLISECOND, 80 * MILLISECOND),
            timeout=between(draw, 60 * MILLISECOND, 500 * MILLISECOND),
            pipeline=draw.choice((1, 1, 1, 2, 4)),
        )


class LogWorkload(Workload, frozen=True, kw_only=True):
    """What clients of a log do; the numbers named like operations and acks levels are relative weights."""

    append: Weight = 6.0
    read: Weight = 2.0
    read_committed: Weight = 1.0
    read_linearizable: Weight = 1.0
    tail: Weight = 0.5
    acks_all: Weight = 3.0
    acks_leader: Weight = 1.5
    acks_none: Weight = 0.5
    largest_batch: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 3  # records
    value_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = 24  # payload of a record at most
    stray: Probability = 0.1  # how often an append goes to any node instead of the believed leader
    expected_term: Probability = 0.05  # how often an append names the only term it may be written in
    rewind: Probability = 0.05  # how often a reader starts again from offset 0
    former: Probability = 0.0  # how often a client asks the leader before the one that it believes in
    force_flush: Probability = 0.0  # how often an append asks to be made durable whatever its acks level
    keys: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = 0  # of appends; 0: they have none, and nothing is replaced
    keyed: Probability = 1.0  # how often an append has one, if there are any

    def __post_init__(self) -> None:
        """Refuse a workload that gives clients nothing to do."""
        operations = self.append + self.read + self.read_committed + self.read_linearizable + self.tail
        if not operations or not self.acks_all + self.acks_leader + self.acks_none:
            raise ConfigurationError(
                "workload: all operations, or all acks levels, have weight 0; give one of them more"
            )

    def drawn(self, draw: Random) -> Self:
        """Another workload: some operations and acks levels, in other proportions."""
        acks = some(draw, ("acks_all", "acks_leader", "acks_none"))
        acks["acks_all"] = max(acks["acks_all"], 0.3)  # what is promised most should never be missing
        return structs.replace(
            super().drawn(draw),
            append=draw.uniform(2.0, 10.0),
            read=draw.choice((0.0, 1.0, 3.0)),
            read_committed=draw.choice((0.0, 1.0, 2.0)),
            read_linearizable=draw.choice((0.0, 0.5, 2.0)),
            tail=draw.choice((0.0, 0.5, 2.0)),
            **acks,
            largest_batch=draw.randint(1, 5),
            value_bytes=between(draw, 1, 400),
            stray=draw.choice((0.0, 0.1, 0.4)),
            expected_term=draw.choice((0.0, 0.05, 0.3)),
            former=draw.choice((0.0, 0.2, 0.6)),
            force_flush=draw.choice((0.0, 0.2)),
        )


class DiskTiming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the disk takes: each flush between ``least`` and ``most``, uniform in the logarithm."""

    least: Interval = 1 * MILLISECOND
    most: Interval = 30 * MILLISECOND
    read: Pause = 2 * MILLISECOND  # at most; recovery reads

    def drawn(self, draw: Random) -> Self:
        """Another disk, fast or slow, even or uneven."""
        least = between(draw, MILLISECOND // 5, 20 * MILLISECOND)
        return structs.replace(
            self,
            least=least,
            most=max(least, between(draw, MILLISECOND, 120 * MILLISECOND)),
            read=between(draw, MICROSECOND, 30 * MILLISECOND),
        )


class ClusterConfiguration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One simulated run of a cluster, except for its seed; a protocol adds its own fields."""

    nodes: int = 3
    duration: int = 3 * SECOND  # load and faults
    settle: int = 20 * SECOND  # at most, from healing to convergence
    link: Link = Link()
    client_delay: Interval = 300 * MICROSECOND
    disk: DiskTiming = DiskTiming()
    workload: Workload = Workload()
    faults: FaultMix = FaultMix()
    first_fault: Pause = 250 * MILLISECOND  # none begins earlier, so that a run begins with a leader
    plan: Plan | None = None  # instead of a plan drawn from ``faults``
    messages: bool = False  # record every message sent and received
    schedule: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] = 0  # another one: other delays, other operations
    progress_bound: Interval = 10 * SECOND  # while a majority is up and connected, nothing waits for longer

    def __post_init__(self) -> None:
        """Refuse a configuration that no run can have."""
        for name, least, most in (
            ("nodes", 1, 31),
            ("duration", 0, 3600 * SECOND),
            ("settle", 0, 3600 * SECOND),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ConfigurationError(f"{name} {value} is out of range; it may be {least} to {most}")
        if not 0 <= self.workload.clients <= 10_000:
            raise ConfigurationError(f"workload.clients {self.workload.clients} is out of range; 0 to 10000")
        self._check_faults()

    def known_to_the_judge(self) -> dict[str, Any]:
        """What a judge must know of how a run was made."""
        return {"voters": list(range(self.nodes)), "progress_bound": self.progress_bound}

    @property
    def summary(self) -> str:
        """What decides most, in a line."""
        load, faults = self.workload, self.faults
        several = f" with {load.pipeline} operations at once" if load.pipeline > 1 else ""
        names = ", ".join(name.replace("_", " ") for name, weight in faults.weights.items() if weight)
        return (
            f"{self.nodes} nodes, {load.clients} clients{several}, {format_duration(self.duration // 10**6 * 10**6)}, "
            f"{faults.per_second:g} faults a second: {names}"
        )

    def drawn(self, draw: Random) -> Self:
        """Another configuration: how many nodes, what load, which faults, how often; swarm testing.

        Source: Groce and others, Swarm Testing (ISSTA 2012): a feature that is left out lets others go deeper.
        """
        nodes = draw.choice((1, 2, *(3,) * 10, *(4,) * 2, *(5,) * 4))
        return structs.replace(
            self,
            nodes=nodes,
            duration=between(draw, 700 * MILLISECOND, 2000 * MILLISECOND),
            first_fault=between(draw, 20 * MILLISECOND, 200 * MILLISECOND),
            link=drawn_link(draw),
            disk=self.disk.drawn(draw),
            workload=self.workload.drawn(draw),
            faults=drawn_mix(draw, [word for word in WORDS if nodes > 1 or word in ("leader", "all")]),
        )

    def _check_faults(self) -> None:
        for name in self.faults.weights:
            if name not in KNOWN:
                raise ConfigurationError(f"faults: {name!r} is unknown; known are {', '.join(KNOWN)}")
        for name, arguments in self.faults.arguments.items():
            try:
                plan_from_json([{"at": "0s", "name": name, **arguments}])
            except FaultPlanError as error:
                raise ConfigurationError(f"faults.arguments: {error}") from None
        drawn = [("faults.targets", target) for target in self.faults.targets if target != "any"]
        planned = [
            (f"fault {at} of the plan", node) for at, fault in enumerate(self.plan or ()) for node in fault.nodes
        ]
        for place, target in [*drawn, *planned]:
            if target not in WORDS and target not in range(self.nodes):
                known = f"0 to {self.nodes - 1}, {', '.join(WORDS)}"
                raise ConfigurationError(f"{place}: there is no node {target!r}; known are {known}")


class LogConfiguration(ClusterConfiguration, frozen=True, kw_only=True):
    """One simulated run of a cluster that replicates a log, except for its seed."""

    segment_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 30)] = 4096
    remember_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 30)] = REMEMBER_BYTES
    workload: LogWorkload = LogWorkload()

    def drawn(self, draw: Random) -> Self:
        """Another configuration, with small limits of the log."""
        return structs.replace(
            super().drawn(draw),
            segment_bytes=between(draw, 60, 4096),
            remember_bytes=between(draw, 60, 4096),
        )


Configuration = TypeVar("Configuration", bound=ClusterConfiguration)


def configuration_to_json(configuration: ClusterConfiguration) -> dict[str, Any]:
    """A configuration as plain data, in the order of the fields."""
    plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(configuration, plan=None))
    plain["plan"] = None if configuration.plan is None else plan_to_json(configuration.plan)
    return plain


def configuration_from_json(plain: Mapping[str, Any], type_: type[Configuration]) -> Configuration:
    """Read back what `configuration_to_json` wrote; omitted fields have their defaults. Raises `ConfigurationError`."""
    fields = dict(plain)
    plan = fields.pop("plan", None)
    try:
        read = msgspec.convert(fields, type_)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"the configuration of the run: {error}") from None
    if plan is None:
        return read
    return msgspec.structs.replace(read, plan=plan_from_json(plan))
