"""Faults on real processes: those that overlap on a node end one by one; orders that a node obeys."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loghistory import HybridClock, Kind, open_run
from quorumlog.cluster import processes
from quorumlog.cluster.faults import CHOICES, Injector, draw_plan
from quorumlog.cluster.register import Register
from quorumlog.cluster.stage import Setting, Stage, Staging
from quorumlog.cluster.staging import staging
from quorumlog.cluster.supervisor import Cluster
from quorumlog.durations import SECOND
from quorumlog.faults import Fault
from quorumlog.node.incarnation import INCARNATION
from quorumlog.node.recording import HistoryFile
from quorumlog.node.supervision import DISK_FAILED, FAULT, UNUSABLE


class Nobody:
    """A stage without a leader."""

    async def leader(self) -> int:
        return 0


def test_pauses_that_overlap_end_with_the_last_one(tmp_path: Path, arena: Callable[..., Any]) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        register = Register(HistoryFile(tmp_path / "clients.jsonl", HybridClock(), {}))

        injector = Injector(bench.cluster, register, (), 1, Nobody())
        answers = []
        pause = Fault(0, "pause", (0,))
        for change in (injector._begin, injector._begin, injector._end, injector._end):
            await change(pause if change == injector._begin else "pause", 0)
            answers.append(await bench.state(0) is not None)
        assert answers == [False, False, False, True]

    arena(tmp_path, body)


def test_slowness_that_overlaps_ends_with_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that stays slow for ever would keep its group from agreeing."""
    cluster = Cluster(tmp_path, nodes=1, seed=1)
    signals: list[str] = []
    monkeypatch.setattr(cluster, "pause", lambda node: signals.append("pause"))
    monkeypatch.setattr(cluster, "resume", lambda node: signals.append("resume"))
    register = Register(HistoryFile(tmp_path / "clients.jsonl", HybridClock(), {}))

    async def slowed() -> list[int]:
        injector = Injector(cluster, register, (), 1, Nobody())
        running = []
        for change in (injector._begin, injector._begin, injector._end, injector._end):
            await change(Fault(0, "slow", (0,)) if change == injector._begin else "slow", 0)
            await asyncio.sleep(0)
            running.append(len(asyncio.all_tasks()) - 1)
        await cluster.abandon()
        return running

    assert asyncio.run(slowed()) == [1, 1, 1, 0]
    assert signals == ["pause", "resume"]


def test_a_plan_takes_each_kind_in_turn_and_its_faults_overlap_a_little() -> None:
    members = staging("raft").own["members"]
    kinds = {kind: CHOICES[kind] for kind in ("kill", "cut", "stop")} | {"members": members}
    plan = draw_plan(3, kinds, 3, 5.8)
    assert plan == draw_plan(3, kinds, 3, 5.8) != draw_plan(4, kinds, 3, 5.8)
    gap = 4.8 / len(plan)
    assert len(plan) == 4, "each kind once, though that makes them more than one every 2.5 s"
    for number, fault in enumerate(plan):
        assert number * gap + 1 <= fault.at / SECOND <= (number + 0.4) * gap + 1.001
        assert 0.33 * gap - 0.001 <= fault.lasting / SECOND <= 1.1 * gap + 0.001
    names = [{name for name, _ in choices} for choices in kinds.values()]
    order = [next(at for at, some in enumerate(names) if fault.name in some) for fault in plan]
    assert order == order[:4]
    assert sorted(order[:4]) == [0, 1, 2, 3]
    longer = draw_plan(3, kinds, 3, 101.0)
    assert {fault.name for fault in longer} == set().union(*names)
    assert any(fault.at + fault.lasting > following.at for fault, following in pairwise(longer))


@pytest.mark.parametrize(
    ("fault", "node", "cut"),
    [
        ("partition", 0, {(0, 1), (0, 2), (1, 0), (2, 0)}),
        ("mute", 0, {(0, 1), (0, 2)}),
        ("deafen", 0, {(1, 0), (2, 0)}),
        ("one_way", 2, {(2, 0)}),
    ],
)
def test_the_links_that_a_fault_cuts(fault: str, node: int, cut: set[tuple[int, int]], tmp_path: Path) -> None:
    """Cut is what the source sends: nobody hears who is mute, and who is deaf hears nobody."""
    cluster = Cluster(tmp_path, nodes=3, seed=1)
    register = Register(HistoryFile(tmp_path / "clients.jsonl", HybridClock(), {}))
    assert {*Injector(cluster, register, (), 1, Nobody())._pairs(fault, node)} == cut
    asyncio.run(cluster.abandon())


def test_cuts_of_a_link_are_mended_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path, nodes=2, seed=1)
    orders: list[list[int] | None] = []
    monkeypatch.setattr(cluster, "_processes", {0: None})
    monkeypatch.setattr(cluster, "_order", lambda node, order: orders.append(order.mute))
    for change in (cluster.cut, cluster.cut, cluster.mend, cluster.mend, cluster.mend):
        change([(0, 1)])
    assert orders == [[1], [1], [1], [], []]
    asyncio.run(cluster.abandon())


@pytest.mark.parametrize(
    ("status", "broken", "kind"),
    [
        (UNUSABLE, False, Kind.CRASH),
        (UNUSABLE, True, Kind.STORAGE_ERROR),
        (DISK_FAILED, False, Kind.STORAGE_ERROR),
        (FAULT, True, Kind.CRASH),
    ],
)
def test_a_process_that_ends_by_itself_was_stopped_by_its_disk_if_that_was_broken(
    status: int, broken: bool, kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (sys.executable, "-c", f"raise SystemExit({status})")
    cluster = Cluster(tmp_path, nodes=1, seed=1, command=command)
    noted: list[Kind] = []
    monkeypatch.setattr(cluster, "_note_end", lambda node, kind: noted.append(kind))

    async def life() -> None:
        cluster._broken[0] = int(broken)
        await cluster.start(0)
        while not noted:
            await asyncio.sleep(0.01)
        await cluster.abandon()

    asyncio.run(asyncio.wait_for(life(), 30))
    assert noted == [kind]


def test_a_process_that_starts_while_links_are_cut_is_told_so(tmp_path: Path) -> None:
    program = f"import sys; open({str(tmp_path / 'told')!r}, 'w').write(sys.stdin.readline())"
    cluster = Cluster(tmp_path, nodes=2, seed=1, command=(sys.executable, "-c", program))

    async def life() -> None:
        cluster.cut([(0, 1)])
        await cluster.start(0)
        while cluster.running(0):
            await asyncio.sleep(0.01)
        await cluster.abandon()

    asyncio.run(asyncio.wait_for(life(), 30))
    assert json.loads((tmp_path / "told").read_text())["mute"] == [1]


def test_of_a_disk_that_is_wiped_only_the_number_of_lives_stays(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=3, seed=1)
    cluster.least_session = 5
    (tmp_path / "node-1.json").write_text(json.dumps(cluster.configuration(1)))
    for name in (INCARNATION, "vote", "log/0.log", "../node-1.journal/0"):
        file = tmp_path / "node-1" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    cluster.wipe(1)
    assert [path.name for path in (tmp_path / "node-1").iterdir()] == [INCARNATION]
    assert not (tmp_path / "node-1.journal").exists()
    changed = {"voters": [0, 2], "least_session": 5}
    assert json.loads((tmp_path / "node-1.json").read_text()) == json.loads(
        json.dumps({**cluster.configuration(1), **changed})
    )
    asyncio.run(cluster.abandon())


def test_a_process_is_told_of_its_last_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a life did last is stamped by its end, so a process needs those that are near."""
    cluster = Cluster(tmp_path, nodes=2, seed=1)
    monkeypatch.setattr(cluster, "_ends", {0: {life: (life, 7) for life in range(20)}})
    assert cluster.arguments(0) == " ".join(f"--ended {life} {life} 7" for life in range(4, 20)).split()
    assert cluster.arguments(1) == []
    asyncio.run(cluster.abandon())


def test_the_end_of_a_process_is_later_than_all_that_it_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its clock is ahead of the supervisor's."""
    clock = HybridClock()
    end = (clock.tick()[0] + 30 * SECOND, 7)
    recorder = HistoryFile(tmp_path / "clients.jsonl", clock, {})
    cluster = Cluster(tmp_path, nodes=1, seed=1, recorder=recorder)
    monkeypatch.setattr(cluster, "_starts", [1])
    monkeypatch.setattr(cluster, "_files", lambda node, incarnation: [tmp_path / "of the node"])
    monkeypatch.setattr(processes, "end_stamp", lambda path: (0, end))
    cluster._note_end(0, Kind.CRASH)
    recorder.close()
    (ended,) = open_run(tmp_path / "clients.jsonl").table().to_pylist()
    assert ended["kind"] == "crash"
    assert (ended["time"], ended["logical"]) > end
    asyncio.run(cluster.abandon())


def test_a_process_ends_by_itself_after_so_many_effects(tmp_path: Path, arena: Callable[..., Any]) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        leader = await bench.leader()
        process = bench.cluster.process_id(leader)
        await asyncio.wait_for(bench.cluster.end_midway(leader, 1, 600.0), 30)
        assert not Path(f"/proc/{process}").exists()

    arena(tmp_path, body)


def test_a_leader_whose_clock_jumps_has_heard_nobody_for_too_long(tmp_path: Path, arena: Callable[..., Any]) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        leader = await bench.leader()
        before = await bench.state(leader)
        bench.cluster.jump_clock(leader, 60 * SECOND)

        async def left() -> bool:
            now = await bench.state(leader)
            return now is not None and now.term > before.term

        await bench.until(left, "another term")

    arena(tmp_path, body)


def test_a_fault_that_no_process_knows_is_the_protocols_own(tmp_path: Path) -> None:
    done: list[tuple[str, str, int]] = []

    class Whose(Nobody):
        async def allows(self, fault: str, node: int) -> bool:
            return True

        async def begin_own(self, fault: str, node: int) -> None:
            done.append(("begin", fault, node))

        async def end_own(self, fault: str, node: int) -> None:
            done.append(("end", fault, node))

    staged = Staging(name="ours", faults=("burn",), make=Stage, own={"burn": (("fire", "leader"),)})  # type: ignore[arg-type]
    plan = staged.plan(Setting(seed=1, protocol="ours", faults=("burn",), duration=2.0))
    assert [fault.name for fault in plan] == ["fire"]
    register = Register(HistoryFile(tmp_path / "clients.jsonl", HybridClock(), {}))

    async def played() -> None:
        injector = Injector(Cluster(tmp_path, nodes=1, seed=1), register, plan, 1, Whose())
        for fault in plan:
            await injector._begin(fault, 0)
            await injector._end(fault.name, 0)

    asyncio.run(played())
    assert done == [("begin", "fire", 0), ("end", "fire", 0)]
