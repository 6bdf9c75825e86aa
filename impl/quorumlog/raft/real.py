"""Raft in real processes: the record that `quorumlog.node` and `quorumlog.cluster` find it by."""

from __future__ import annotations

import msgspec

from loghistory.schema import Operation
from quorumlog.node.driver import Place
from quorumlog.node.real_protocol import RealProtocol
from quorumlog.quorum import Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.driver import RaftDriver
from quorumlog.raft.grouped import GROUPED
from quorumlog.raft.restored import StateMachine, restore
from quorumlog.raft.rules import REFERENCE, Rules
from quorumlog.raft.slots import RecoverySlots
from quorumlog.raft.state import MILLISECOND, Configuration
from quorumlog.raft.wire import MESSAGES
from quorumlog.storage.vote import VoteStore


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Raft's times in milliseconds, and who is preferred as leader; see `quorumlog.raft.state.Configuration`."""

    election_timeout: int = 1500
    election_jitter: int = 1500
    heartbeat_interval: int = 150
    flush_delay: int = 100
    priorities: bool = False
    longest_log: bool = False
    never_leads: bool = False
    light_heartbeats: bool = True

    def __post_init__(self) -> None:
        """Refuse times with which no group could keep a leader."""
        if min(self.election_timeout, self.heartbeat_interval, self.flush_delay) <= 0 or self.election_jitter < 0:
            raise ValueError("times are positive numbers of milliseconds")
        if self.election_timeout <= self.heartbeat_interval:
            raise ValueError("election_timeout must be larger than heartbeat_interval")


def real(rules: Rules = REFERENCE) -> RealProtocol:
    """Raft under these rules in real processes; the groups of one share its slots for recovery."""
    configuration = Configuration(0, Voters((0,)))
    slots = RecoverySlots(configuration.recoveries)

    def drive(place: Place) -> RaftDriver:
        driver = _drive(place, rules)
        driver.core.slots = slots
        return driver

    return RealProtocol(
        name="raft",
        by_default=True,
        limits={name: getattr(configuration, name) for name in ("memory_bytes", "max_in_flight")},
        messages=MESSAGES,
        grouped=GROUPED,
        timing=Timing,
        brisk={"election_timeout": 400, "election_jitter": 400, "heartbeat_interval": 60},
        drive=drive,
        begin=lambda disk: VoteStore(disk).begin(),
        operations=frozenset(
            {
                Operation.APPEND,
                Operation.READ,
                Operation.READ_COMMITTED,
                Operation.READ_LINEARIZABLE,
                Operation.TAIL,
            }
        ),
        faults=(
            *("kill", "kill-leader", "power", "midway", "stop", "terminate", "disk", "damage", "cut", "clock"),
            *("members", "transfer", "compact", "wipe"),
        ),
    )


def _drive(place: Place, rules: Rules) -> RaftDriver:
    """The driver of one incarnation. Raises `FileDamaged` if vote or snapshot are."""
    timing = place.timing
    assert isinstance(timing, Timing)
    votes = VoteStore(place.disk)
    voters = place.nodes if place.voters is None else place.voters
    voters = voters if place.node in voters else ()  # another one is to be added
    first = place.group % max(1, len(voters))  # who is preferred differs from group to group
    configuration = Configuration(
        place.node,
        Voters((*voters[first:], *voters[:first])),
        election_timeout=timing.election_timeout * MILLISECOND,
        election_jitter=timing.election_jitter * MILLISECOND,
        heartbeat_interval=timing.heartbeat_interval * MILLISECOND,
        flush_delay=timing.flush_delay * MILLISECOND,
        write_caching=place.write_caching,
        priorities=timing.priorities,
        longest_log=timing.longest_log,
        never_leads=timing.never_leads,
        light_heartbeats=timing.light_heartbeats,
        least_session=place.least_session,
    )
    machine = StateMachine(place.disk, place.log)
    return RaftDriver(RaftCore(configuration, restore(place.log, votes, machine), rules), votes, machine, place)


REAL = real()
