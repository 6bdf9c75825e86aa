"""What faults do to the processes of the read path, besides those of any host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quorumlog.faults import Fault, Target
from quorumlog.read_path.coordination import Coordination
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.settings import ReadPathConfiguration
from quorumlog.simulation.host_faults import HostFaults, Stage


class Shards(Stage, Protocol):
    """The cluster that these faults happen to, and what it does about them."""

    configuration: ReadPathConfiguration
    coordination: Coordination

    def may_lose(self, number: int) -> bool:
        """Whether a node is a shard whose disk may be lost now."""

    def rot(self, number: int) -> None:
        """A copy on a shard goes bad."""

    def power_is_lost(self, number: int) -> None:
        """A node is about to lose power."""

    def come_back(self, number: int) -> None:
        """A drained shard may have copies again."""

    def press(self, number: int, short: bool) -> None:
        """Memory is short at a reader, or no longer."""


class ReadPathFaults(HostFaults):
    """The faults of hosts, and those of shards (wiped, drained, rotten) and of readers (short of memory)."""

    _stage: Shards

    def __init__(self, stage: Shards) -> None:
        super().__init__(stage)
        self._pressed: dict[int, set[int]] = {}

    def resolve(self, target: Target) -> Sequence[int]:
        """The nodes that a word means now: followers are shards, minority as many as may be lost."""
        cluster = self._stage
        shards = cluster.configuration.shards
        turn = self._stage.simulation.random("shards").randrange(shards)
        ring = [(turn + step) % shards for step in range(shards)]
        factor = max(cluster.configuration.replication.values())
        return {
            "follower": ring[:1],
            "followers": ring,
            "minority": ring[: max(1, factor - 1)],
            "majority": ring[: shards // 2 + 1],
        }.get(str(target)) or super().resolve(target)

    def begin(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        """Make a fault happen; see `HostFaults.begin`."""
        match fault.name:
            case "wipe":
                for number in nodes:  # one by one: those that are wiped count for the next one
                    if not self._stage.may_lose(number):
                        continue
                    self._record("fault", fault, [number])
                    self._down[number].add(token)
                    self._crash(number)
                    self._nodes[number].new_disk()
            case "drain":
                for number in [number for number in nodes if number < self._stage.configuration.shards]:
                    self._record("fault", fault, [number])
                    self._stage.coordination.append(LogRecord(Word.DRAIN, number))
            case "rot":
                for number in [number for number in nodes if number < self._stage.configuration.shards]:
                    self._record("fault", fault, [number])
                    self._stage.rot(number)
            case "memory_pressure":
                for number in self._readers(nodes):
                    self._record("fault", fault, [number])
                    self._pressed.setdefault(number, set()).add(token)
                    self._stage.press(number, True)
            case _:
                super().begin(fault, nodes, token)

    def end(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        """End a fault: nodes come back, shards are no longer drained; see `HostFaults.end`."""
        match fault.name:
            case "wipe":
                for number in nodes:
                    self._down[number].discard(token)
                    self._revive(number)
                self._record("heal", fault, nodes)
            case "drain":
                for number in nodes:
                    self._stage.come_back(number)
                self._record("heal", fault, nodes)
            case "rot":
                self._record("heal", fault, nodes)
            case "memory_pressure":
                for number in self._readers(nodes):
                    self._pressed[number].discard(token)
                    self._stage.press(number, bool(self._pressed[number]))
                self._record("heal", fault, self._readers(nodes))
            case _:
                super().end(fault, nodes, token)

    def _lose_power(self, number: int) -> None:
        self._stage.power_is_lost(number)
        super()._lose_power(number)

    def _readers(self, nodes: Sequence[int]) -> list[int]:
        configuration = self._stage.configuration
        return [number for number in nodes if number >= configuration.shards + configuration.sequencers]
