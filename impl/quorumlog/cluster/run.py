"""A whole run on real processes: load under faults, everything healed, agreement, a final read, one merged history."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from loghistory import Format, HybridClock, Manifest, merge_runs
from loghistory.schema import Kind, Operation
from quorumlog.cluster.faults import JOURNALLED, Injector, draw_plan
from quorumlog.cluster.supervisor import Cluster, ClusterError
from quorumlog.cluster.workload import ACKS_ALL, Client, Load, Register
from quorumlog.faults import Plan, plan_to_json
from quorumlog.node.real_protocol import real_protocol
from quorumlog.node.recording import HistoryFile

AGREEMENT_SECONDS = 20.0
_LEADER_SECONDS = 15.0
_POLL = 0.05


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What decides a run, apart from the machine it runs on.

    ``duration``: seconds of load. ``retention``: bytes of log that each node keeps, None: all. ``timing``: times of the
    protocol in milliseconds that replace its defaults for short runs (`RealProtocol`).
    """

    seed: int
    protocol: str
    nodes: int = 3
    duration: float = 10.0
    faults: tuple[str, ...] = ("kill", "stop", "cut")
    write_caching: bool = False
    retention: int | None = None
    load: Load = Load()
    timing: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """The faults, drawn from the seed."""
        return draw_plan(self.seed, self.faults, self.nodes, self.duration)


@dataclass(slots=True)
class Result:
    """The result of a run. ``agreed``: all nodes up, one leader, all logs equal, durable, committed, and read."""

    agreed: bool = False
    counts: Counter[tuple[str, int | None, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    events: int = 0


async def play(
    setting: Setting, work: Path, output: Path, name: str, command: list[str], report: Callable[[str], None]
) -> Result:
    """Play a run in the directory ``work`` and write its history to ``output``, under a name and how it was made.

    ``report`` is called with the current phase, as text for a person. Raises `ClusterError`, OSError,
    `loghistory.HistoryError` or `UnknownProtocolError`. When the task is cancelled all processes are stopped and
    nothing is written.
    """
    protocol = real_protocol(setting.protocol)
    setting = msgspec.structs.replace(
        setting, load=setting.load.limited_to(protocol.operations), timing={**protocol.brisk, **setting.timing}
    )
    recorder = HistoryFile(work / "clients.jsonl", HybridClock(), {})
    register = Register(recorder)
    result = Result(counts=register.counts)

    def ended(node: int, status: int) -> None:
        result.problems.append(f"node {node} ended by itself with status {status}: {cluster.last_words(node)}")

    report("starting")
    cluster = Cluster(
        work,
        nodes=setting.nodes,
        seed=setting.seed,
        settings={name: getattr(setting, name) for name in ("protocol", "write_caching", "retention", "timing")},
        recorder=recorder,
        ended=ended,
        loses_power=not JOURNALLED.isdisjoint(setting.faults),
    )
    async with cluster:
        await _Run(setting, cluster, register, result, report).run()
        report("stopping the nodes")
    recorder.close()
    report("merging the histories")
    files = [work / "clients.jsonl", *cluster.histories_of_all()]
    manifest = Manifest(name=name, made_by=_made_by(setting, protocol.limits, command))
    # In a thread, so that an interruption still gets through.
    complete = await asyncio.to_thread(merge_runs, files, output, manifest, Format.JSON_LINES)
    result.events = complete.events
    return result


def _made_by(setting: Setting, limits: Mapping[str, int], command: list[str]) -> dict[str, Any]:
    configuration = msgspec.to_builtins(setting)
    seed = configuration.pop("seed")
    return {
        "command": command,
        "seed": seed,
        "configuration": {**configuration, "limits": dict(limits), "plan": plan_to_json(setting.plan)},
    }


class _Run:
    """The phases of a run."""

    def __init__(
        self, setting: Setting, cluster: Cluster, register: Register, result: Result, report: Callable[[str], None]
    ) -> None:
        self._setting = setting
        self._cluster = cluster
        self._register = register
        self._result = result
        self._report = report
        self._injector = Injector(cluster, register, setting.plan, setting.seed)

    async def run(self) -> None:
        """All phases."""
        setting, register = self._setting, self._register
        await self._first_leader()
        register.record(Kind.PHASE, {"f": "load"})
        clients = [
            Client(self._cluster, register, setting.load, random.Random(f"{setting.seed} client {number}"))
            for number in range(setting.load.clients)
        ]
        over, healed = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            injecting = group.create_task(self._injector.run(healed))
            for client in clients:
                group.create_task(client.work(over))
            try:
                await self._let_pass(setting.duration)
                register.record(Kind.PHASE, {"f": "heal"})
                self._report("healing")
                healed.set()
                await injecting
            finally:
                over.set()
        for node in self._cluster.nodes:
            await self._injector.revive(node)
        self._report("waiting for agreement")
        agreed = await self._agreement()
        register.record(Kind.PHASE, {"f": "final_read"})
        self._report("final read")
        read = await self._final_read()
        self._result.agreed = agreed and read
        self._result.problems += self._injector.problems

    async def _first_leader(self) -> None:
        deadline = asyncio.get_running_loop().time() + _LEADER_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            if any(state is not None and state.role == "leader" for state in await self._injector.states()):
                return
            await asyncio.sleep(_POLL)
        raise ClusterError(f"no leader within {_LEADER_SECONDS:g} s")

    async def _let_pass(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while (passed := loop.time() - begun) < seconds:
            appends = sum(n for (f, _, how), n in self._register.counts.items() if f == "append" and how == "ok")
            down = [str(node) for node in self._cluster.nodes if not self._cluster.running(node)]
            self._report(
                f"{passed:4.1f} s of {seconds:g}, {appends} appends" + (f", down: {' '.join(down)}" if down else "")
            )
            await asyncio.sleep(min(0.2, seconds - passed))

    async def _agreement(self) -> bool:
        """Write once more with acks=all and wait until all nodes agree."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + AGREEMENT_SECONDS
        writer = Client(self._cluster, self._register, self._setting.load, random.Random(0))
        written = False
        try:
            while loop.time() < deadline:
                if not written:
                    written = await writer.append(await self._injector.leader(), acks=ACKS_ALL)
                elif await self._agreed():
                    return True
                await asyncio.sleep(_POLL)
        finally:
            writer.close()
        return False

    async def _agreed(self) -> bool:
        states = await self._injector.states()
        if any(state is None for state in states) or sum(state.role == "leader" for state in states) != 1:
            return False
        offsets = {offset for state in states for offset in (state.dirty, state.flushed, state.commit, state.visible)}
        return len(offsets) == 1 and len({state.term for state in states}) == 1

    async def _final_read(self) -> bool:
        """Read everything from every node; whether all of them answered."""
        reader = Client(self._cluster, self._register, self._setting.load, random.Random(0))
        try:
            return all([await reader.read(node, Operation.FINAL_READ, 0) for node in self._cluster.nodes])
        finally:
            reader.close()
