"""A whole run on real processes: load under faults, everything healed, agreement, a final read, one merged history."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loghistory import Format, HybridClock, Manifest, merge_runs
from loghistory.schema import Kind
from quorumlog.cluster.faults import Injector
from quorumlog.cluster.processes import ClusterError
from quorumlog.cluster.register import Register
from quorumlog.cluster.stage import Setting, Stage
from quorumlog.cluster.staging import staging
from quorumlog.faults import Plan, plan_to_json
from quorumlog.node.recording import HistoryFile

AGREEMENT_SECONDS = 20.0


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
    recorder = HistoryFile(work / "clients.jsonl", HybridClock(), {})
    register = Register(recorder)
    result = Result(counts=register.counts)

    def ended(node: int, status: int) -> None:
        words = stage.processes.last_words(node)
        result.problems.append(f"node {node} ended by itself with status {status}: {words}")

    report("starting")
    staged = staging(setting.protocol)
    if setting.groups > 1 and not staged.groups:
        raise ClusterError(f"{setting.protocol} runs one group in each process; leave --groups out")
    stage = staged.make(setting, work, register, ended)
    async with stage:
        await _Run(setting, stage, staged.plan(setting), register, result, report).run()
        report("stopping the nodes")
    recorder.close()
    report("merging the histories")
    files = [work / "clients.jsonl", *await stage.histories(work)]
    manifest = Manifest(name=name, made_by=_made_by(setting, stage, staged.plan(setting), command))
    # In a thread, so that an interruption still gets through.
    complete = await asyncio.to_thread(merge_runs, files, output, manifest, Format.JSON_LINES)
    result.events = complete.events
    return result


def _made_by(setting: Setting, stage: Stage, plan: Plan, command: list[str]) -> dict[str, Any]:
    common = {name: getattr(setting, name) for name in ("protocol", "nodes", "groups", "duration", "faults", "clients")}
    configuration = {**common, **stage.described(), "plan": plan_to_json(plan)}
    return {"command": command, "seed": setting.seed, "configuration": configuration}


class _Run:
    """The phases of a run."""

    def __init__(
        self,
        setting: Setting,
        stage: Stage,
        plan: Plan,
        register: Register,
        result: Result,
        report: Callable[[str], None],
    ) -> None:
        self._setting = setting
        self._stage = stage
        self._register = register
        self._result = result
        self._report = report
        self._injector = Injector(stage.processes, register, plan, setting.seed, stage)

    async def run(self) -> None:
        """Go through all phases, one after the other."""
        setting, register, stage = self._setting, self._register, self._stage
        await stage.begin()
        register.record(Kind.PHASE, {"f": "load"})
        over, healed = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            injecting = group.create_task(self._injector.run(healed))
            for client in stage.clients():
                group.create_task(client.work(over))
            try:
                await self._let_pass(setting.duration)
                register.record(Kind.PHASE, {"f": "heal"})
                self._report("healing")
                healed.set()
                await injecting
            finally:
                over.set()
        for node in stage.processes.nodes:
            await self._injector.revive(node)
        self._report("waiting for agreement")
        agreed = await stage.converge(AGREEMENT_SECONDS)
        register.record(Kind.PHASE, {"f": "final_read"})
        self._report("final read")
        read = await stage.final_read()
        self._result.agreed = agreed and read
        self._result.problems += self._injector.problems

    async def _let_pass(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while (passed := loop.time() - begun) < seconds:
            done: Counter[str] = Counter()
            for (f, _, how), n in self._register.counts.items():
                done[f] += n if how == "ok" else 0
            finished = ", ".join(f"{n} {f}" for f, n in done.most_common(2))
            down = [str(node) for node in self._stage.processes.nodes if not self._stage.processes.running(node)]
            self._report(f"{passed:4.1f} s of {seconds:g}, {finished}" + (f", down: {' '.join(down)}" if down else ""))
            await asyncio.sleep(min(0.2, seconds - passed))
