"""What each fault does to simulated hosts, disks and links, and how it ends; every pair of calls nests and overlaps.

Words that a fault may name instead of a node: ``leader`` (the protocol says which node leads; while none does, the last
one that did), ``follower`` (the node after it), ``followers``, ``minority`` and ``majority`` (the leader and as many
others), ``all``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from quorumlog.durations import MILLISECOND
from quorumlog.faults import Fault, Target
from quorumlog.simulation.loop import Simulation
from quorumlog.simulation.network import UNIMPAIRED, Link, Network, Pair
from quorumlog.simulation.node import Node

_REVIVAL = 50 * MILLISECOND


class Stage(Protocol):
    """The cluster that faults happen to."""

    simulation: Simulation
    network: Network

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes, each at the index that is its number."""

    def leader(self) -> Node | None:
        """The node that leads now, if any."""

    def record(self, kind: str, columns: dict[str, Any]) -> None:
        """Record an event at the current time."""


class HostFaults:
    """See the module; carries out what an `Injector` says."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._network = stage.network
        self._nodes = stage.nodes
        self._last_leader = 0
        count = len(stage.nodes)
        self._down: list[set[int]] = [set() for _ in range(count)]
        self._paused: list[set[int]] = [set() for _ in range(count)]
        self._rates: list[dict[int, float]] = [{} for _ in range(count)]
        self._slow: list[dict[int, float]] = [{} for _ in range(count)]

    def resolve(self, target: Target) -> Sequence[int]:
        """The nodes that a number or a word means now; empty for a number or word that means none."""
        count = len(self._nodes)
        if isinstance(target, int):
            return (target,) if 0 <= target < count else ()
        leader = self._stage.leader()
        if leader is not None:
            self._last_leader = leader.number
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
        self._stage.record("fault", self._describe(fault, nodes))
        match fault.name:
            case "kill":
                for number in nodes:
                    self._down[number].add(token)
                    if self._nodes[number].host.running:
                        self._end_process(number, "crash")
            case "power_loss":
                for number in nodes:
                    self._down[number].add(token)
                    self._end_process(number, "power_loss")
                    self._nodes[number].disk.power_loss()
            case "pause":
                for number in nodes:
                    self._paused[number].add(token)
                    self._nodes[number].host.pause()
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
                    self._nodes[number].disk.fail_next_sync = True
            case "disk_full":
                for number in nodes:
                    self._down[number].add(token)
                    self._nodes[number].disk.capacity_bytes = 0
            case "partition" | "mute" | "deafen":
                self._network.cut(self._pairs(fault.name, nodes))
            case _:
                self._network.impair(token, _impairment(fault), self._pairs("partition", nodes, inside=True))

    def end(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        """End a fault that `begin` began."""
        match fault.name:
            case "pause":
                for number in nodes:
                    self._paused[number].discard(token)
                    if not self._paused[number]:
                        self._nodes[number].host.resume()
            case "clock":
                for number in nodes:
                    del self._rates[number][token]
                    self._set_rate(number)
            case "slow_disk":
                for number in nodes:
                    del self._slow[number][token]
                    self._set_slowness(number)
            case "partition" | "mute" | "deafen":
                self._network.mend(self._pairs(fault.name, nodes))
            case "kill" | "power_loss" | "fsync_error" | "disk_full":
                for number in nodes:
                    if fault.name == "fsync_error":
                        self._nodes[number].disk.fail_next_sync = False
                    elif fault.name == "disk_full":
                        self._nodes[number].disk.capacity_bytes = None
                    self._down[number].discard(token)
                    self._revive(number)
            case _:
                self._network.restore(token)
        self._stage.record("heal", self._describe(fault, nodes))

    def storage_failed(self, number: int) -> None:
        """A node stopped itself; it is started again at once, or when the fault that holds it down ends."""
        if not self._down[number]:
            self._stage.simulation.after(_REVIVAL, self._revive, number)

    def _revive(self, number: int) -> None:
        if not self._down[number]:
            self._nodes[number].start()

    def _end_process(self, number: int, kind: str) -> None:
        node = self._nodes[number]
        self._stage.record(kind, {"node": number, "incarnation": max(node.host.incarnation, 0)})
        node.kill()

    def _set_rate(self, number: int) -> None:
        rate = 1.0
        for factor in self._rates[number].values():
            rate *= factor
        self._nodes[number].host.set_rate(rate)

    def _set_slowness(self, number: int) -> None:
        self._nodes[number].slowness = max(self._slow[number].values(), default=1.0)

    def _pairs(self, name: str, nodes: Sequence[int], *, inside: bool = False) -> list[Pair]:
        """The directed links between these nodes and the others; with ``inside`` also those among them."""
        side = frozenset(nodes)
        pairs: list[Pair] = []
        for one in sorted(side):
            for other in range(len(self._nodes)):
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


def _impairment(fault: Fault) -> Link:
    if fault.name == "delay":
        return replace(UNIMPAIRED, delay=int(fault.argument("ms") * MILLISECOND))
    return replace(UNIMPAIRED, **{fault.name: fault.argument("probability")})
