"""What each fault does to simulated hosts, disks and links, and how it ends; every pair of calls nests and overlaps.

Words that a fault may name instead of a node: ``leader`` (the protocol says which node leads; while none does, the last
one that did), ``follower`` (the node after it), ``followers``, ``minority`` and ``majority`` (the leader and as many
others), ``all``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from quorumlog.durations import MILLISECOND
from quorumlog.faults import Fault, Target
from quorumlog.simulation.loop import Simulation
from quorumlog.simulation.network import UNIMPAIRED, Link, Network, Pair
from quorumlog.simulation.node import Node
from quorumlog.storage.disk import StorageError

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
        self._damaged: list[set[int]] = [set() for _ in range(count)]
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
        """Make a fault happen to these nodes; see `quorumlog.faults.KINDS`. A case for each kind, so it is long."""
        self._record("fault", fault, nodes)
        match fault.name:
            case "kill":
                for number in nodes:
                    self._down[number].add(token)
                    self._crash(number)
            case "power_loss":
                for number in nodes:
                    self._down[number].add(token)
                    self._lose_power(number)
            case "kill_midway" | "power_loss_midway":
                ends = self._lose_power if fault.name == "power_loss_midway" else self._crash
                for number in nodes:
                    self._down[number].add(token)
                    self._nodes[number].end_midway(int(fault.argument("effects")), partial(ends, number))
            case "stop":
                for number in nodes:
                    self._down[number].add(token)
                    if self._nodes[number].host.running:
                        self._nodes[number].stop()
            case "open_error":
                for number in nodes:
                    self._down[number].add(token)
                    self._crash(number)
            case "flipped_bit" | "lost_name":
                for number in nodes:
                    self._damaged[number].add(token)
                    self._damage(number, fault.name)
            case "trim":
                for number in nodes:
                    self._nodes[number].host.deliver(self._nodes[number].retain, int(fault.argument("keep")))
            case "compact":
                for number in nodes:
                    self._nodes[number].host.deliver(self._nodes[number].compact)
            case "transfer":
                for number in nodes:
                    target = (number + int(fault.argument("places"))) % len(self._nodes)
                    self._nodes[number].host.deliver(self._nodes[number].transfer, target)
            case "join" | "leave" | "demote" | "cancel_change":
                leader = self._stage.leader()
                if leader is not None:
                    leader.host.deliver(leader.change, fault.name, nodes)
            case "clock_jump":
                for number in nodes:
                    self._nodes[number].jump(int(fault.argument("ms") * MILLISECOND))
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
            case "one_way":
                self._network.cut(self._one_way(fault, nodes))
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
            case "one_way":
                self._network.mend(self._one_way(fault, nodes))
            case "trim" | "compact" | "transfer" | "clock_jump" | "join" | "leave" | "demote" | "cancel_change":
                pass  # done when it began
            case "loss" | "duplicate" | "reorder" | "delay":
                self._network.restore(token)
            case _:
                for number in nodes:
                    self._down[number].discard(token)
                    self._damaged[number].discard(token)
                    self._repair(fault, number)
                    self._revive(number)
        self._record("heal", fault, nodes)

    def storage_failed(self, number: int) -> None:
        """A node stopped itself; it is started again at once, or when what holds it down ends."""
        if not self._down[number] and not self._damaged[number]:
            self._stage.simulation.after(_REVIVAL, self._revive, number)

    def _revive(self, number: int) -> None:
        if not self._down[number]:
            self._nodes[number].start()

    def _crash(self, number: int) -> None:
        if self._nodes[number].host.running:
            self._end_process(number, "crash")

    def _lose_power(self, number: int) -> None:
        self._end_process(number, "power_loss")
        self._nodes[number].disk.power_loss()

    def _damage(self, number: int, name: str) -> None:
        """Flip a bit of what is known to be flushed, or kill the process and take such a file from its directory."""
        node, draw = self._nodes[number], self._stage.simulation.random("damage")
        try:
            files = [(path, size) for path, size in node.settled() if size]
        except StorageError:
            return  # the disk is damaged already
        if not files:
            return
        path, size = draw.choice(files)
        if name == "flipped_bit":
            node.disk.flip_bit(path, draw.randrange(size), draw.randrange(8))
        else:
            self._crash(number)
            node.disk.lose_name(path)
            self._stage.simulation.after(_REVIVAL, self._revive, number)

    def _repair(self, fault: Fault, number: int) -> None:
        node = self._nodes[number]
        disk = node.disk
        match fault.name:
            case "kill_midway" | "power_loss_midway":
                node.end_midway(0, None)
            case "fsync_error":
                disk.fail_next_sync = False
            case "open_error":
                disk.fail_next_sync, disk.syncs_before_failure = True, int(fault.argument("sync")) - 1
            case "disk_full":
                disk.capacity_bytes = None
            case "flipped_bit" | "lost_name" if not self._damaged[number]:
                disk.restore()

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

    def _one_way(self, fault: Fault, nodes: Sequence[int]) -> list[Pair]:
        count, places = len(self._nodes), int(fault.argument("places"))
        return [(one, (one + places) % count) for one in nodes if places % count]

    def _record(self, kind: str, fault: Fault, nodes: Sequence[int]) -> None:
        """An event for each of the nodes, so that whoever reads them need not read the text."""
        plain = {"nodes": list(nodes), **fault.to_json()}
        plain["nodes"] = list(nodes)
        text = json.dumps(plain, separators=(",", ":"))
        for number in nodes:
            self._stage.record(kind, {"f": fault.name, "node": number, "text": text})


def _impairment(fault: Fault) -> Link:
    if fault.name == "delay":
        return replace(UNIMPAIRED, delay=int(fault.argument("ms") * MILLISECOND))
    return replace(UNIMPAIRED, **{fault.name: fault.argument("probability")})
