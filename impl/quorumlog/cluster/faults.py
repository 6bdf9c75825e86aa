"""Faults in a run of real processes: a plan drawn from the seed, and what carries it out.

The plan is the simulator's (`quorumlog.faults`), limited to what can be done to a process: ``kill``
(SIGKILL, started again at the end), ``power_loss`` (the same, and what the node had not synced is discarded),
``kill_midway`` and ``power_loss_midway`` (in the middle of a step), ``stop`` (SIGTERM under load), ``pause`` (SIGSTOP),
disks that fail (``fsync_error``, ``open_error``, ``disk_full``) or that are damaged while the process is down
(``flipped_bit``, ``lost_name``) or lost with all that it stored (``wipe``), a process that is ``slow`` (stopped nearly
all of the time), a clock that jumps ahead (``clock_jump``), and cut links: ``partition`` (both directions), ``mute``
(nobody hears the node, which hears the others), ``deafen`` (it hears nobody) and ``one_way`` (the next node does not
hear it). Any other fault is the protocol's own: its stage begins and ends it. Times are real, so the same seed gives
the same plan but not the same run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Mapping
from typing import Protocol

from loghistory.schema import Kind
from quorumlog.cluster.processes import ClusterError, Pair, Processes
from quorumlog.cluster.register import Register
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.faults import Fault, Plan, Target

Choices = Mapping[str, tuple[tuple[str, str], ...]]
CHOICES: Choices = {
    "kill": (("kill", "any"), ("kill", "leader")),
    "kill-leader": (("kill", "leader"),),
    "power": (("power_loss", "any"), ("power_loss", "leader")),
    "midway": (("kill_midway", "leader"), ("power_loss_midway", "any"), ("kill_midway", "any")),
    "stop": (("pause", "leader"), ("pause", "any")),
    "terminate": (("stop", "leader"), ("stop", "any")),
    "disk": (("fsync_error", "leader"), ("disk_full", "any"), ("open_error", "any"), ("fsync_error", "any")),
    "damage": (("flipped_bit", "any"), ("lost_name", "any")),
    "wipe": (("wipe", "any"),),
    "slow": (("slow", "any"),),
    "cut": (
        *(("partition", "leader"), ("mute", "leader"), ("deafen", "leader"), ("partition", "any")),
        *(("one_way", "leader"), ("one_way", "any")),
    ),
    "clock": (("clock_jump", "any"), ("clock_jump", "leader")),
}
"""What any protocol may be asked to stand, and the faults and nodes that each stands for, in turn. What only some know
is said where they are staged (`quorumlog.cluster.stage.Staging`)."""

JOURNALLED = frozenset({"power", "midway", "disk", "damage"})
"""Of these, what nodes keep a journal for."""

_FIRST = 1.0
_EVERY = 2.5
_EFFECTS = 4
"""A process ends in the middle of a step after at most so many effects."""
_SYNCS = 2
"""An opening does at least so many."""
_SLOW = 0.002, 0.038
"""Seconds that a slow process runs, and then stands still."""
_CUTS = frozenset({"partition", "mute", "deafen", "one_way"})
_HOLDS_DOWN = frozenset(
    {
        *("kill", "kill_midway", "wipe", "power_loss", "power_loss_midway", "stop"),
        *("fsync_error", "disk_full", "open_error", "flipped_bit", "lost_name"),
    }
)


def draw_plan(seed: int, choices: Choices, nodes: int, duration: float) -> Plan:
    """Draw a plan for ``duration`` seconds of load: each of the choices in turn, in a drawn order, at drawn times.

    A fault lasts between a third of the gap to the next one and a little more than all of it, so that some overlap.
    """
    draw = random.Random(f"{seed} faults")
    if not choices or duration <= _FIRST:
        return ()
    order = list(choices)
    draw.shuffle(order)
    turns = {kind: draw.randrange(len(choices[kind])) for kind in order}
    count = max(len(order), round((duration - _FIRST) / _EVERY))
    gap = (duration - _FIRST) / count
    plan = []
    for number in range(count):
        kind = order[number % len(order)]
        name, who = choices[kind][turns[kind] % len(choices[kind])]
        turns[kind] += 1
        target: Target = draw.randrange(nodes) if who == "any" else who
        at = _FIRST + gap * (number + 0.4 * draw.random())
        lasting = gap * (0.33 + 0.77 * draw.random())
        args = {"effects": float(draw.randint(1, _EFFECTS))} if name.endswith("_midway") else {}
        plan.append(Fault(_milliseconds(at), name, (target,), _milliseconds(lasting), args))
    return tuple(plan)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000) * MILLISECOND


class Leading(Protocol):
    """What the injector asks of the stage (`quorumlog.cluster.stage.Stage`)."""

    async def leader(self) -> int:
        """The process that matters most now."""

    async def allows(self, fault: str, node: int) -> bool:
        """Whether a fault may befall a process now."""

    async def begin_own(self, fault: str, node: int) -> None:
        """Begin a fault that is the protocol's own."""

    async def end_own(self, fault: str, node: int) -> None:
        """End a fault that `begin_own` began."""


class Injector:
    """Carries a plan out on processes and records it. Faults that overlap on a node end one by one.

    ``leading`` tells which node leads now, what it allows, and carries out what is the protocol's own (``drain``).
    """

    def __init__(self, cluster: Processes, register: Register, plan: Plan, seed: int, leading: Leading) -> None:
        self._cluster = cluster
        self._leading = leading
        self._slow: dict[int, tuple[int, asyncio.Task[None]]] = {}  # how often, and what slows it down
        self._draw = random.Random(f"{seed} power")
        self._register = register
        self._plan = plan
        self._down: dict[int, int] = dict.fromkeys(cluster.nodes, 0)
        self._paused: dict[int, int] = dict.fromkeys(cluster.nodes, 0)
        self.problems: list[str] = []

    async def run(self, healed: asyncio.Event) -> None:
        """Begin and end each fault at its time; once ``healed`` is set, end all and begin no more."""
        begun = asyncio.get_running_loop().time()
        await asyncio.gather(*(self._one(fault, begun, healed) for fault in self._plan))

    async def _one(self, fault: Fault, begun: float, healed: asyncio.Event) -> None:
        await _sleep(fault.at / SECOND - (asyncio.get_running_loop().time() - begun), healed)
        if healed.is_set():
            return
        target = fault.nodes[0]
        node = await self._leading.leader() if isinstance(target, str) else target
        if not await self._leading.allows(fault.name, node):
            return
        described = {"f": fault.name, "node": node, "text": _described(fault, node)}
        self._register.record(Kind.FAULT, described)
        await self._begin(fault, node)
        await _sleep(fault.lasting / SECOND, healed)
        await self._end(fault.name, node)
        self._register.record(Kind.HEAL, described)

    async def _begin(self, fault: Fault, node: int) -> None:
        name = fault.name
        if name == "kill":
            self._down[node] += 1
            await self._cluster.kill(node)
        elif name in ("kill_midway", "power_loss_midway"):
            self._down[node] += 1
            await self._cluster.end_midway(node, round(fault.argument("effects")), fault.lasting / SECOND)
            await (self._cluster.kill(node) if name == "kill_midway" else self._cluster.lose_power(node, self._draw))
        elif name == "clock_jump":
            self._cluster.jump_clock(node, round(fault.argument("ms")) * MILLISECOND)
        elif name == "wipe":
            self._down[node] += 1
            await self._cluster.kill(node)
            self._cluster.wipe(node)
        elif name == "slow":
            count, slow = self._slow.get(node) or (0, asyncio.create_task(self._slow_down(node)))
            self._slow[node] = count + 1, slow
        elif name == "power_loss":
            self._down[node] += 1
            await self._cluster.lose_power(node, self._draw)
        elif name == "stop":
            self._down[node] += 1
            await self._cluster.terminate(node)
        elif name in ("fsync_error", "disk_full"):
            self._down[node] += 1
            self._cluster.break_disk(node, name)
        elif name == "open_error":
            self._down[node] += 1
            await self._cluster.kill(node)
            self._cluster.break_disk(node, name, self._draw.randrange(_SYNCS))
            await self._start_alone(node)
        elif name in ("flipped_bit", "lost_name"):
            self._down[node] += 1
            await self._cluster.kill(node)
            await self._start_alone(node)  # an opening writes down how far the log is flushed
            await self._cluster.kill(node)
            self._cluster.damage(node, self._draw, lose_name=name == "lost_name")
            await self._start_alone(node)
        elif name == "pause":
            self._paused[node] += 1
            self._cluster.pause(node)
        elif name in _CUTS:
            self._cluster.cut(self._pairs(name, node))
        else:
            await self._leading.begin_own(name, node)

    async def _start_alone(self, node: int) -> None:
        """Start a node and wait until it answers or has ended, unless another fault keeps it down."""
        if self._down[node] == 1:
            with contextlib.suppress(ClusterError, OSError):
                await self._cluster.start(node)
                await self._cluster.wait_for(node)

    async def _end(self, name: str, node: int) -> None:
        if name in ("fsync_error", "disk_full", "open_error"):
            self._cluster.mend_disk(node, name)
        elif name in ("flipped_bit", "lost_name"):
            await self._cluster.kill(node)
            self._cluster.restore(node)
        if name in _HOLDS_DOWN:
            self._down[node] -= 1
            if not self._down[node]:
                await self.revive(node)
        elif name == "slow":
            count, slow = self._slow.pop(node)
            if count > 1:
                self._slow[node] = count - 1, slow
            else:
                slow.cancel()
                await asyncio.wait([slow])
        elif name == "pause":
            self._paused[node] -= 1
            if not self._paused[node]:
                self._cluster.resume(node)
        elif name in _CUTS:
            self._cluster.mend(self._pairs(name, node))
        elif name != "clock_jump":
            await self._leading.end_own(name, node)

    async def _slow_down(self, node: int) -> None:
        """Let a process stand still most of the time, until cancelled."""
        runs, stands = _SLOW
        try:
            while True:
                self._cluster.pause(node)
                await asyncio.sleep(stands)
                if not self._paused[node]:
                    self._cluster.resume(node)
                await asyncio.sleep(runs)
        finally:
            if not self._paused[node]:
                self._cluster.resume(node)

    async def revive(self, node: int) -> None:
        """Start a node that is down and wait until it answers."""
        if self._cluster.running(node):
            return
        try:
            await self._cluster.start(node)
            await self._cluster.wait_for(node)
        except (ClusterError, OSError) as error:
            if not self._down[node]:  # else it was killed again before it answered
                self.problems.append(str(error))

    def _pairs(self, name: str, node: int) -> list[Pair]:
        others = [other for other in self._cluster.nodes if other != node]
        if name == "one_way":
            return [(node, (node + 1) % len(self._cluster.nodes))] if others else []
        away = [] if name == "deafen" else [(node, other) for other in others]
        back = [] if name == "mute" else [(other, node) for other in others]
        return away + back


def _described(fault: Fault, node: int) -> str:
    return json.dumps({**fault.to_json(), "nodes": [node]}, separators=(",", ":"))


async def _sleep(seconds: float, healed: asyncio.Event) -> None:
    """Sleep, but not beyond the end of all faults."""
    if seconds > 0:
        try:
            async with asyncio.timeout(seconds):
                await healed.wait()
        except TimeoutError:
            return
