"""What decides a simulated run besides its seed: plain data that is written into the run's manifest and read back.

Times are nanoseconds of virtual time. The defaults make short, eventful runs: election time-outs are short
against faults, flushes slow against messages, so that dirty and flushed offsets differ for long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from quorumlog.simulation.durations import MICROSECOND, MILLISECOND, SECOND
from quorumlog.simulation.faults import KINDS, FaultMix, Plan, plan_from_json, plan_to_json
from quorumlog.simulation.network import Link


class ConfigurationError(ValueError):
    """A configuration that cannot be read or makes no sense: one line with the field and what would be right."""


class WorkloadMix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the clients do; the numbers named like operations and acks levels are relative weights."""

    clients: int = 6
    think: int = 25 * MILLISECOND  # mean pause between two operations of a client
    timeout: int = 350 * MILLISECOND  # after that the outcome is unknown
    append: float = 6.0
    read: float = 2.0
    read_committed: float = 1.0
    tail: float = 0.5
    acks_all: float = 3.0
    acks_leader: float = 1.5
    acks_none: float = 0.5
    largest_batch: int = 3  # records
    value_bytes: int = 24  # payload of a record at most
    stray: float = 0.1  # how often an append goes to any node instead of the believed leader
    expected_term: float = 0.05  # how often an append names the only term it may be written in
    rewind: float = 0.05  # how often a reader starts again from offset 0


class DiskTiming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the disk takes: each flush between ``least`` and ``most``, uniform in the logarithm."""

    least: int = 1 * MILLISECOND
    most: int = 30 * MILLISECOND
    read: int = 2 * MILLISECOND  # at most; recovery reads


class NodeTiming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The timers of the nodes."""

    heartbeat: int = 30 * MILLISECOND
    election: int = 120 * MILLISECOND  # plus a random part below as much again
    flush: int = 60 * MILLISECOND  # debounce of flushes that nobody waits for


class ClusterConfiguration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One simulated run of a Raft cluster, but for the seed."""

    nodes: int = 3
    duration: int = 3 * SECOND  # load and faults
    settle: int = 20 * SECOND  # at most, from healing to convergence
    write_caching: bool = False
    segment_bytes: int = 4096
    link: Link = Link()
    client_delay: int = 300 * MICROSECOND
    timing: NodeTiming = NodeTiming()
    disk: DiskTiming = DiskTiming()
    workload: WorkloadMix = WorkloadMix()
    faults: FaultMix = FaultMix()
    plan: Plan | None = None  # instead of one drawn from ``faults``
    messages: bool = False  # record every message sent and received

    def __post_init__(self) -> None:
        """Refuse what no run can be made of."""
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
        for name in (*self.faults.weights, *self.faults.arguments):
            if name not in KINDS:
                raise ConfigurationError(f"faults: {name!r} is unknown; known are {', '.join(KINDS)}")


def configuration_to_json(configuration: ClusterConfiguration) -> dict[str, Any]:
    """A configuration as plain data, in the order of the fields."""
    plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(configuration, plan=None))
    plain["plan"] = None if configuration.plan is None else plan_to_json(configuration.plan)
    return plain


def configuration_from_json(plain: Mapping[str, Any]) -> ClusterConfiguration:
    """Read back what `configuration_to_json` wrote; what is left out keeps its default. Raises `ConfigurationError`."""
    fields = dict(plain)
    plan = fields.pop("plan", None)
    try:
        read = msgspec.convert(fields, ClusterConfiguration)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"the configuration of the run: {error}") from None
    if plan is None:
        return read
    return msgspec.structs.replace(read, plan=plan_from_json(plan))
