"""Several Raft groups in each simulated process: one clock, one disk, one frame a peer for what they send at one time.

What befalls a process befalls all its groups; in the history it concerns all logs, while everything else is of one log
(raft.md#heartbeats). A group is a `RaftCluster` in the virtual time, on the hosts and on the disks of the processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from loghistory import MemorySink, Recorder
from loghistory.schema import Kind
from quorumlog.events import Core, CoreFactory, SetTimer
from quorumlog.quorum import Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import Timer
from quorumlog.raft.nodes import RaftNode
from quorumlog.raft.settings import RaftConfiguration
from quorumlog.raft.simulated import RaftCluster
from quorumlog.raft.slots import RecoverySlots
from quorumlog.simulation.cluster import Cluster
from quorumlog.simulation.log_client import LogClient
from quorumlog.simulation.loop import Simulation
from quorumlog.simulation.node import Node
from quorumlog.storage.folder import Folder
from quorumlog.storage.vote import VoteStore

_OF_A_PROCESS = frozenset(
    {Kind.CRASH, Kind.POWER_LOSS, Kind.STORAGE_ERROR, Kind.STOP, Kind.FAULT, Kind.HEAL, Kind.PHASE}
)
"""What is told once for all logs."""


class Replica(RaftNode):
    """The replica of one group in a process, whose host and disk it uses."""

    def __init__(
        self, group: Group, process: Process, voters: Voters, configuration: RaftConfiguration, make_core: CoreFactory
    ) -> None:
        self._process = process
        self.folder = group.folder
        super().__init__(group, process.number, configuration, make_core)
        self._configuration = structs.replace(self._configuration, voters=voters)
        self.host = process.host
        self._random = group.simulation.random(f"{self.folder} node {process.number}")

    def recover(self) -> RaftCore:
        """A core that is recovered in turn with those of the other groups; see `RaftNode.recover`."""
        core = super().recover()
        core.slots = self._process.slots
        return core

    def new_disk(self) -> None:
        """The folder of the group on the disk of the process."""
        self.disk = Folder(self._process.disk, self.folder)  # type: ignore[assignment]
        self._votes = VoteStore(self.disk)

    def kill(self) -> None:
        """End the process, with all its groups."""
        self._process.kill()

    def _set_timer(self, effect: SetTimer) -> None:
        if effect.name is Timer.HEARTBEAT:  # all groups at one time
            effect = SetTimer(effect.name, effect.delay - self.host.clock() % effect.delay)
        super()._set_timer(effect)


class Process(Node):
    """A process with a replica of each group."""

    replicas: Sequence[Replica] = ()
    recoveries: int  # of how many groups at a time
    slots: RecoverySlots

    def start(self) -> None:
        """Start a process and recover every replica; does nothing if one runs."""
        if self.host.running:
            return
        self.host.start()
        self.slots = RecoverySlots(self.recoveries)
        generation = self.host.generation
        for replica in self.replicas:
            if self.host.generation == generation:  # no disk has failed so far
                replica.begin()

    def recover(self) -> Core:
        """Not asked for: each replica has a core."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Nothing: each replica has a state."""
        return {}

    def forget(self) -> None:
        """Lose what all replicas knew; see `Node.forget`."""
        for replica in self.replicas:
            replica.forget()

    def close(self) -> None:
        """Bring all logs into order. Raises `StorageError`."""
        for replica in self.replicas:
            replica.close()

    def retain(self, entries: int) -> None:
        """Trim each log to its last ``entries`` committed entries; see `Node.retain`."""
        for replica in self.replicas:
            if self.host.running:
                replica.retain(entries)

    def compact(self) -> None:
        """Compact the log of each group, as far as the process still runs; see `Node.compact`."""
        for replica in self.replicas:
            if self.host.running:
                replica.compact()

    def transfer(self, target: int) -> None:
        """Hand on what this process leads."""
        for replica in self.replicas:
            if self.host.running:
                replica.transfer(target)

    def change(self, sort: str, nodes: Sequence[int]) -> None:
        """Change the members of what this process leads."""
        for replica in self.replicas:
            if self.host.running:
                replica.change(sort, nodes)

    def hurry(self, nanoseconds: int) -> None:
        """Let the timers of all replicas run out sooner."""
        for replica in self.replicas:
            replica.hurry(nanoseconds)

    def end_midway(self, effects: int, end: Callable[[], None] | None) -> None:
        """End the process in the middle of a step of whichever replica comes first; see `Node.end_midway`."""

        def ended() -> None:
            self.end_midway(0, None)
            if end is not None:
                end()

        for replica in self.replicas:
            replica.end_midway(effects, None if end is None else ended)

    def settled(self) -> Sequence[tuple[str, int]]:
        """What each replica knows to be flushed."""
        return [(f"{each.folder}/{path}", size) for each in self.replicas for path, size in each.settled()]

    def receive(self, source: int, message: Any) -> None:  # noqa: ANN401
        """A frame: messages, each with the number of its group."""
        generation = self.host.generation
        for group, each in message:
            if self.host.generation == generation:
                self.replicas[group].receive(source, each)

    @property
    def slowness(self) -> float:
        """By what factor the disk that the groups share is slower than configured; 1.0: not at all."""
        return self.replicas[0].slowness if self.replicas else 1.0

    @slowness.setter
    def slowness(self, times: float) -> None:
        for replica in self.replicas:
            replica.slowness = times


class Group(RaftCluster):
    """One of the groups: its replicas, its log in the history."""

    def __init__(self, processes: Processes, number: int) -> None:
        self.folder = f"group-{number}"
        self._number = number
        self._around = processes
        super().__init__(processes.seed, processes.configuration, Recorder(MemorySink()), processes.make_core)

    def new_simulation(self, seed: int) -> Simulation:
        """The virtual time of the processes."""
        del seed
        return self._around.simulation

    def new_node(self, number: int) -> RaftNode:
        """A replica in the process of that number."""
        first = self.configuration.first_voters
        turn = self._number % len(first)  # who is preferred differs from group to group
        voters = Voters((*first[turn:], *first[:turn]) if number in first else ())
        return Replica(self, self._around.nodes[number], voters, self.configuration, self._make_core)

    def record(self, kind: str, columns: dict[str, Any]) -> None:
        """An event of this log, or of the process."""
        log = {} if kind in _OF_A_PROCESS else {"log": str(self._number)}
        self._around.record(kind, {**columns, **log})

    def transmit(self, source: int, target: int, message: Any) -> None:  # noqa: ANN401
        """Send with what else the process sends now."""
        self._around.collect(source, target, (self._number, message))

    def storage_failed(self, number: int) -> None:
        """The process of node ``number`` stopped itself after a storage error: tell the processes' cluster."""
        self._around.storage_failed(number)

    def new_operation(self) -> int:
        """A number for an operation, unique in the run."""
        return self._around.new_operation()

    def new_value(self) -> int:
        """A value for what is written, unique in the run."""
        return self._around.new_value()

    def new_process(self) -> int:
        """A number for a client's process, unique in the run."""
        return self._around.new_process()


class Processes(Cluster[RaftConfiguration, Process]):
    """A simulated cluster of processes with several groups each; see `quorumlog.simulation.cluster`."""

    def __init__(
        self, seed: int, configuration: RaftConfiguration, recorder: Recorder, make_core: CoreFactory = RaftCore
    ) -> None:
        self.seed, self.make_core = seed, make_core
        super().__init__(seed, configuration, recorder, make_core)
        self.groups = [Group(self, number) for number in range(configuration.groups)]
        for process in self.nodes:
            process.replicas = [group.nodes[process.number] for group in self.groups]  # type: ignore[misc]
        self._frames: dict[tuple[int, int], list[tuple[int, Any]]] = {}
        self._clients = 0

    def new_node(self, number: int) -> Process:
        """A process that has not been started."""
        process = Process(self, number, self.configuration.disk)
        process.recoveries = self.configuration.limits.recoveries
        return process

    def new_client(self) -> LogClient:
        """A client of the next group in turn."""
        self._clients += 1
        return self.groups[self._clients % len(self.groups)].new_client()

    def leader(self) -> Process | None:
        """The process that leads the first of the groups that has a leader."""
        leaders = (group.leader() for group in self.groups)
        return next((self.nodes[leader.number] for leader in leaders if leader is not None), None)

    def agreed(self) -> bool:
        """Whether the members of each group agree."""
        return all(group.agreed() for group in self.groups)

    def converge(self, limit: int) -> bool:
        """Let each group agree, write once more and agree again; see `Cluster.converge`."""
        agreed = [group.converge(limit) for group in self.groups]
        return all(agreed)

    def final_read(self) -> None:
        """Read everything of every group from every node."""
        for group in self.groups:
            group.final_read()

    def collect(self, source: int, target: int, item: tuple[int, Any]) -> None:
        """Send with everything else that goes from one process to another at this time."""
        if not self._frames:
            self.simulation.after(0, self._hand_out)
        self._frames.setdefault((source, target), []).append(item)

    def _hand_out(self) -> None:
        frames, self._frames = self._frames, {}
        for (source, target), items in frames.items():
            self.transmit(source, target, items)


def stage(
    seed: int, configuration: RaftConfiguration, recorder: Recorder, make_core: CoreFactory = RaftCore
) -> Processes | RaftCluster:
    """A simulated cluster, of as many groups as the configuration says."""
    made = RaftCluster if configuration.groups == 1 else Processes
    return made(seed, configuration, recorder, make_core)
