"""A simulated Raft cluster: nodes, network, clients and faults on one virtual clock, recorded as one history.

`RaftCluster` is the stage: it can be driven step by step (scenarios, state machines) or by `play`, which is a whole
run: load under faults, everything healed, convergence, a final read of everything from every node. The same seed and
configuration give the same history, byte for byte.

Words that a fault may name instead of a node: ``leader`` (the one of the highest term; while there is none, the last
one), ``follower`` (the node after it), ``followers``, ``minority`` and ``majority`` (the leader and as many others),
``all``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from loghistory import Recorder
from quorumlog.durations import MILLISECOND
from quorumlog.faults import Fault, Plan, Target, generate
from quorumlog.quorum import Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.messages import AnyMessage
from quorumlog.raft.state import Configuration
from quorumlog.simulation.configuration import ClusterConfiguration
from quorumlog.simulation.injector import Injector
from quorumlog.simulation.loop import Simulation
from quorumlog.simulation.network import UNDISTURBED, Link, Network, Pair
from quorumlog.simulation.raft_node import CoreFactory, RaftNode
from quorumlog.simulation.workload import Client

FIRST_FAULT = 250 * MILLISECOND
"""Before that a plan is empty, so that a run begins with a leader."""
_POLL = 10 * MILLISECOND
_REVIVAL = 50 * MILLISECOND


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to. ``converged``: every node up, one leader, all logs ended equal, durable and committed.

    ``counts`` has the events of the history by kind, client operations as "append ok", "append fail not_leader", ...
    ``time`` is the virtual time at the end in nanoseconds, ``dispatched`` the number of simulated events.
    """

    converged: bool
    counts: Counter[str]
    time: int
    dispatched: int
    plan: Plan


class RaftCluster:
    """See the module. ``make_core`` makes the core of every incarnation; a mutant's differs from the reference."""

    def __init__(
        self,
        seed: int,
        configuration: ClusterConfiguration,
        recorder: Recorder,
        make_core: CoreFactory = RaftCore,
    ) -> None:
        self.configuration = configuration
        self.simulation = Simulation(seed)
        self.counts: Counter[str] = Counter()
        self._recorder = recorder
        self._messages = 0
        self._operations = 0
        self._values = 0
        self._processes = 0
        self._last_leader = 0
        self._down: list[set[int]] = [set() for _ in range(configuration.nodes)]
        self._paused: list[set[int]] = [set() for _ in range(configuration.nodes)]
        self._rates: list[dict[int, float]] = [{} for _ in range(configuration.nodes)]
        self._slow: list[dict[int, float]] = [{} for _ in range(configuration.nodes)]
        self.network = Network(self.simulation, self._deliver, configuration.link)
        voters = Voters(tuple(range(configuration.nodes)))
        timing = configuration.timing
        self.nodes: Sequence[RaftNode] = [
            RaftNode(
                self,
                Configuration(
                    node=number,
                    voters=voters,
                    election_timeout=timing.election,
                    election_jitter=timing.election,
                    heartbeat_interval=timing.heartbeat,
                    flush_delay=timing.flush,
                    write_caching=configuration.write_caching,
                ),
                configuration.disk,
                configuration.segment_bytes,
                make_core,
            )
            for number in voters.members
        ]

    # -- the whole run -------------------------------------------------------------------------------------------

    def play(self) -> Outcome:
        """Load under faults, healing, convergence, final read."""
        configuration, simulation = self.configuration, self.simulation
        plan = configuration.plan
        numbers = range(configuration.nodes)
        if plan is None:
            draw = simulation.random("faults")
            plan = generate(draw, configuration.faults, numbers, FIRST_FAULT, configuration.duration)
        clients = [self.new_client() for _ in range(configuration.workload.clients)]
        self.record("phase", {"f": "load"})
        self.start()
        injector = Injector(simulation, self, plan, numbers)
        for client in clients:
            client.work()
        simulation.run(configuration.duration)
        self.record("phase", {"f": "heal"})
        injector.heal()
        for client in clients:
            client.stop()
        converged = self.converge(configuration.settle)
        self.final_read()
        return Outcome(converged, self.counts, simulation.now, simulation.dispatched, plan)

    def start(self) -> None:
        """Start every node that is down."""
        for node in self.nodes:
            node.start()

    def converge(self, limit: int) -> bool:
        """Write once more with acks=all and wait until all nodes agree; False if that takes longer than ``limit``."""
        deadline = self.simulation.now + limit
        writer = self.new_client()
        written = False
        while self.simulation.now < deadline:
            leader = self.leader()
            if not written and leader is not None:
                writer.append(leader.number, acks=-1)
                while not writer.idle:
                    self.advance(_POLL)
                written = writer.last_outcome == "ok"
            if written and self.agreed():
                return True
            self.advance(_POLL)
        return False

    def agreed(self) -> bool:
        """Whether every node is up and holds the same offsets, all of them durable, committed and visible."""
        leader = self.leader()
        if leader is None:
            return False
        dirty = leader.core.dirty
        return all(
            node.host.running
            and not node.host.paused
            and node.core.term == leader.core.term
            and dirty == node.core.dirty == node.core.flushed == node.core.commit == node.core.visible
            for node in self.nodes
        )

    def final_read(self) -> None:
        """Read everything from every node."""
        self.record("phase", {"f": "final_read"})
        reader = self.new_client()
        for node in self.nodes:
            reader.read(node.number, "final_read", 0)
            while not reader.idle:
                self.advance(_POLL)

    def advance(self, nanoseconds: int) -> None:
        """Let virtual time pass."""
        self.simulation.run(self.simulation.now + nanoseconds)

    def leader(self) -> RaftNode | None:
        """The running leader of the highest term, if any."""
        found: RaftNode | None = None
        for node in self.nodes:
            if node.host.running and node.core.role == "leader" and (found is None or node.core.term > found.core.term):
                found = node
        if found is not None:
            self._last_leader = found.number
        return found

    def new_client(self) -> Client:
        """A client that has not begun to work."""
        number = self._processes
        return Client(self, number, self.configuration.workload, self.configuration.client_delay)

    # -- for nodes and clients -----------------------------------------------------------------------------------

    def record(self, kind: str, columns: dict[str, Any]) -> None:
        """Put an event into the history, at the time it is now."""
        if kind in _CLOSINGS:
            reason = columns.get("reason")
            name = f"{columns['f']} {kind}"
            self.counts[name] += 1
            if reason is not None:
                self.counts[f"{name} {reason}"] += 1
        self.counts[kind] += 1
        self._recorder.event(kind, time=self.simulation.now, **columns)

    def transmit(self, source: int, target: int, message: AnyMessage) -> None:
        """Hand a message to the network, recording it if the run is to be that detailed."""
        if self.configuration.messages:
            self._messages += 1
            self._record_message("send", source, target, self._messages, message)
            self.network.send(source, target, (self._messages, message))
        else:
            self.network.send(source, target, message)

    def _deliver(self, source: int, target: int, message: Any) -> None:  # noqa: ANN401
        node = self.nodes[target]
        if self.configuration.messages:
            node.host.deliver(self._receive_recorded, node, source, *message)
        else:
            node.host.deliver(node.receive, source, message)

    def _receive_recorded(self, node: RaftNode, source: int, number: int, message: AnyMessage) -> None:
        self._record_message("receive", node.number, source, number, message)
        node.receive(source, message)

    def _record_message(self, kind: str, node: int, peer: int, number: int, message: AnyMessage) -> None:
        name = type(message).__name__
        self.record(kind, {"node": node, "peer": peer, "f": name, "message": number, "term": message.term})

    def new_operation(self) -> int:
        """A number for an operation, unique in the run."""
        self._operations += 1
        return self._operations

    def new_value(self) -> int:
        """A value for a batch, unique in the run."""
        self._values += 1
        return self._values

    def new_process(self) -> int:
        """A number for a client's process, unique in the run."""
        self._processes += 1
        return self._processes - 1

    # -- faults --------------------------------------------------------------------------------------------------

    def resolve(self, target: Target) -> Sequence[int]:
        """The nodes that a number or a word means now; empty for a number or word that means none."""
        count = len(self.nodes)
        if isinstance(target, int):
            return (target,) if 0 <= target < count else ()
        self.leader()
        ring = [(self._last_leader + step) % count for step in range(count)]
        return {
            "leader": ring[:1],
            "follower": ring[1:2],
            "followers": ring[1:],
            "minority": ring[: max(1, (count - 1) // 2)],
            "majority": ring[: count // 2 + 1],
            "all": ring,
        }.get(target, ())

    def begin(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        """Make a fault happen to these nodes; see `quorumlog.faults.KINDS`."""
        self.record("fault", self._describe(fault, nodes))
        match fault.name:
            case "kill":
                for number in nodes:
                    self._down[number].add(token)
                    if self.nodes[number].host.running:
                        self._end_process(number, "crash")
            case "power_loss":
                for number in nodes:
                    self._down[number].add(token)
                    self._end_process(number, "power_loss")
                    self.nodes[number].disk.power_loss()
            case "pause":
                for number in nodes:
                    self._paused[number].add(token)
                    self.nodes[number].host.pause()
            case "clock":
                for number in nodes:
                    self._rates[number][token] = fault.argument("rate")
                    self._set_rate(number)
            case "slow_disk":
                for number in nodes:
                    self._slow[number][token] = fault.argument("factor")
                    self._set_slowness(number)
            case "fsync_error":
                for number in nodes:
                    self._down[number].add(token)
                    self.nodes[number].disk.fail_next_sync = True
            case "disk_full":
                for number in nodes:
                    self._down[number].add(token)
                    self.nodes[number].disk.capacity_bytes = 0
            case "partition" | "mute" | "deafen":
                self.network.cut(self._pairs(fault.name, nodes))
            case _:
                self.network.disturb(token, _disturbance(fault), self._pairs("partition", nodes, inside=True))

    def end(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        """End a fault that `begin` began."""
        match fault.name:
            case "pause":
                for number in nodes:
                    self._paused[number].discard(token)
                    if not self._paused[number]:
                        self.nodes[number].host.resume()
            case "clock":
                for number in nodes:
                    del self._rates[number][token]
                    self._set_rate(number)
            case "slow_disk":
                for number in nodes:
                    del self._slow[number][token]
                    self._set_slowness(number)
            case "partition" | "mute" | "deafen":
                self.network.mend(self._pairs(fault.name, nodes))
            case "kill" | "power_loss" | "fsync_error" | "disk_full":
                for number in nodes:
                    if fault.name == "fsync_error":
                        self.nodes[number].disk.fail_next_sync = False
                    elif fault.name == "disk_full":
                        self.nodes[number].disk.capacity_bytes = None
                    self._down[number].discard(token)
                    self._revive(number)
            case _:
                self.network.calm(token)
        self.record("heal", self._describe(fault, nodes))

    def storage_failed(self, node: RaftNode) -> None:
        """A node stopped itself; it is started again when no fault holds it down, else when that ends."""
        if not self._down[node.number]:
            self.simulation.after(_REVIVAL, self._revive, node.number)

    def _revive(self, number: int) -> None:
        if not self._down[number]:
            self.nodes[number].start()

    def _end_process(self, number: int, kind: str) -> None:
        node = self.nodes[number]
        self.record(kind, {"node": number, "incarnation": max(node.host.incarnation, 0)})
        node.kill()

    def _set_rate(self, number: int) -> None:
        rate = 1.0
        for factor in self._rates[number].values():
            rate *= factor
        self.nodes[number].host.set_rate(rate)

    def _set_slowness(self, number: int) -> None:
        self.nodes[number].slowness = max(self._slow[number].values(), default=1.0)

    def _pairs(self, name: str, nodes: Sequence[int], *, inside: bool = False) -> list[Pair]:
        """The directed links between these nodes and the others; with ``inside`` also those among them."""
        side = frozenset(nodes)
        pairs: list[Pair] = []
        for one in sorted(side):
            for other in range(len(self.nodes)):
                if other == one or (other in side and not inside):
                    continue
                if name != "deafen":
                    pairs.append((one, other))
                if name != "mute" and other not in side:
                    pairs.append((other, one))
        return pairs

    @staticmethod
    def _describe(fault: Fault, nodes: Sequence[int]) -> dict[str, Any]:
        plain = {"nodes": list(nodes), **fault.to_json()}
        plain["nodes"] = list(nodes)
        described: dict[str, Any] = {"f": fault.name, "text": json.dumps(plain, separators=(",", ":"))}
        if len(nodes) == 1:
            described["node"] = nodes[0]
        return described


_CLOSINGS = frozenset({"ok", "fail", "info"})


def _disturbance(fault: Fault) -> Link:
    if fault.name == "delay":
        return replace(UNDISTURBED, delay=int(fault.argument("ms") * MILLISECOND))
    return replace(UNDISTURBED, **{fault.name: fault.argument("probability")})
