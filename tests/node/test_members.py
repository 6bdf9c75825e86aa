"""The members of a group of real nodes change under load, and its leader hands its leadership on, as clients ask."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from verdicts import judged, supervised

from quorumlog.node.wire import DoneResult, MembersResult

GIVES_UP = 10.0
"""Seconds that a change of the members may take."""


class Administration:
    """Whoever runs the group: asks who leads for changes of the members, until they are made."""

    def __init__(self, bench: Any) -> None:  # noqa: ANN401
        self._bench = bench

    async def members(self, among: Sequence[int]) -> MembersResult:
        """The configuration in force on the node that leads."""
        client = await self._bench.cluster.client(await self._bench.leader(among))
        found = await asyncio.wait_for(client.members(), 5)
        assert isinstance(found, MembersResult)
        client.close()
        return found

    async def change(self, among: Sequence[int], **wanted: Any) -> str:  # noqa: ANN401
        """Ask for a change once; how that ended."""
        leader = await self._bench.leader(among)
        client = await self._bench.cluster.client(leader)
        try:
            there = await asyncio.wait_for(client.members(), 5)
            done = await asyncio.wait_for(client.change(there.revision + 1, **wanted), GIVES_UP)
        finally:
            client.close()
        return done.outcome if isinstance(done, DoneResult) else done.reason

    async def settled(self, among: Sequence[int], voters: set[int]) -> None:
        """Wait until these are the voters, and no change is under way."""

        async def holds() -> bool:
            found = await self.members(among)
            return found.settled and {*found.voters} == voters and not found.old

        await self._bench.until(holds, f"the voters are {voters}")


class Load:
    """Appends of all acks levels, one after the other, to who leads; what was acknowledged, by acks level."""

    def __init__(self, bench: Any, put: Callable[..., Any]) -> None:  # noqa: ANN401
        self._bench, self._put = bench, put
        self._values = itertools.count(1)
        self.acknowledged: dict[int, list[int]] = {-1: [], 0: [], 1: []}

    async def work(self, over: asyncio.Event) -> None:
        """Append until it is over."""
        leader, client = -1, None
        for value, acks in zip(self._values, itertools.cycle((-1, 1, 0)), strict=False):
            if over.is_set():
                break
            if client is None or not client.open:
                leader = await self._bench.leader()
                client = await self._bench.cluster.client(leader)
            try:
                answer = await self._put(client, value, acks=acks)
            except (OSError, TimeoutError):
                client.close()
                client = None
                continue
            if getattr(answer, "outcome", "") == "success":
                self.acknowledged[acks].append(value)
            elif answer.leader != leader:
                client.close()
                client = None
        if client is not None:
            client.close()

    @property
    def count(self) -> int:
        """How many appends were acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    async def goes_on(self) -> None:
        """Wait until something more is acknowledged with acks=all."""
        before = len(self.acknowledged[-1])

        async def more() -> bool:
            return len(self.acknowledged[-1]) > before

        await self._bench.until(more, "the group takes appends")


@pytest.fixture
def play(tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Run a body under load and judge it; what was acknowledged at an acks level that promises so is in the log of the
    nodes that it returns."""

    def played(
        body: Callable[[Any, Administration, Load], Any],
        nodes: int,
        voters: list[int],
        promised: tuple[int, ...] = (-1, 0, 1),
    ) -> dict[str, Any]:
        async def run(bench: Any) -> None:  # noqa: ANN401
            load, over = Load(bench, put), asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(load.work(over))
                try:
                    members = await body(bench, Administration(bench), load)
                finally:
                    over.set()
            client = await bench.cluster.client(await bench.leader(members))
            assert (await put(client, 1 << 40)).outcome == "success"

            async def equal() -> bool:
                states = [await bench.state(node) for node in members]
                return len({(state.dirty, state.commit, state.flushed) for state in states}) == 1

            await bench.until(equal, f"the nodes {members} hold the same")
            for node in members:
                there = await bench.values(node)
                assert len({*there}) == len(there)
                lost = {acks: {*load.acknowledged[acks]} - {*there} for acks in promised}
                assert not any(lost.values()), f"node {node} lacks {lost}, by acks level"

        ends = supervised(tmp_path)

        async def recorded(bench: Any) -> None:  # noqa: ANN401
            bench.recorder = ends
            await run(bench)

        arena(tmp_path, recorded, nodes=nodes, recorder=ends, settings={"voters": voters})
        verdict = judged(tmp_path, list((tmp_path / "histories").iterdir()), ends, voters)
        assert [check["id"] for check in verdict["checks"] if check["verdict"] == "violated"] == []
        return {check["id"]: check["verdict"] for check in verdict["checks"]}

    return played


def test_planned_transfers_lose_nothing_at_any_acks_level(play: Callable[..., dict[str, Any]]) -> None:
    async def body(bench: Any, administration: Administration, load: Load) -> list[int]:  # noqa: ANN401
        del administration
        for _ in range(4):
            await load.goes_on()
            leader = await bench.leader()
            client = await bench.cluster.client(leader)
            done = await asyncio.wait_for(client.transfer((leader + 1) % 3), 5)
            client.close()
            assert done.outcome == "success"
            assert await bench.leader() == (leader + 1) % 3
        await load.goes_on()
        return [0, 1, 2]

    assert play(body, 3, [0, 1, 2])["transfer-loses-nothing"] == "holds"


def test_what_no_leader_may_do_is_refused(arena: Callable[..., Any], tmp_path: Path) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        leader = await bench.leader()
        other = (leader + 1) % 3
        client, follower = await bench.cluster.client(leader), await bench.cluster.client(other)
        assert (await client.transfer(leader)).outcome == "refused"
        assert (await client.transfer(7)).reason == "no address is known of node 7"
        assert (await client.change(1, add=[-1])).reason == "no address is known of node -1"
        assert (await client.change(0, remove=[other])).outcome == "refused"  # an old revision
        assert (await client.change(1, remove=[0, 1, 2])).outcome == "refused"
        assert (await client.change(1, cancel=True)).outcome == "refused"
        assert (await follower.transfer(other)).outcome == "not_leader"
        assert (await follower.change(1, remove=[leader])).outcome == "not_leader"
        found = await follower.members()
        assert ({*found.voters}, found.old, found.learners, found.revision) == ({0, 1, 2}, (), (), 0)

    arena(tmp_path, body)


def test_an_empty_node_joins_and_holds_everything(play: Callable[..., dict[str, Any]]) -> None:
    """Scenario 9, without a hand on its disk: raft.md#scenario-9."""

    async def body(bench: Any, administration: Administration, load: Load) -> list[int]:  # noqa: ANN401
        await load.goes_on()
        assert (await bench.state(2)).dirty == -1
        assert await administration.change([0, 1], add=[2]) == "success"
        await administration.settled([0, 1, 2], {0, 1, 2})
        await load.goes_on()
        return [0, 1, 2]

    play(body, 3, [0, 1])


@pytest.mark.long
def test_a_node_whose_disk_is_lost_is_down_until_it_is_added_again(play: Callable[..., dict[str, Any]]) -> None:
    """raft.md#wiped-disk."""

    async def body(bench: Any, administration: Administration, load: Load) -> list[int]:  # noqa: ANN401
        cluster = bench.cluster
        await load.goes_on()
        await cluster.kill(2)
        for path in (cluster.directory / "node-2").iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "incarnation":
                path.unlink()
        bench.recorder.event("fault", {"f": "wipe", "node": 2})
        file = cluster.directory / "node-2.json"
        configuration = json.loads(file.read_text()) | {"voters": [0, 1], "least_session": 1}
        file.write_text(json.dumps(configuration))
        await cluster.start(2)
        await cluster.wait_for(2)
        await load.goes_on()
        await asyncio.sleep(1.0)
        state = await bench.state(2)
        assert (state.term, state.dirty) == (0, -1)
        for change in ({"remove": [2]}, {"add": [2]}):
            assert await administration.change([0, 1], **change) == "success"
        await administration.settled([0, 1, 2], {0, 1, 2})
        await load.goes_on()
        return [0, 1, 2]

    play(body, 3, [0, 1, 2])


@pytest.mark.long
def test_all_members_are_replaced_under_load(play: Callable[..., dict[str, Any]]) -> None:
    """Scenario 20: raft.md#scenario-20. One of the changes removes who leads."""

    async def body(bench: Any, administration: Administration, load: Load) -> list[int]:  # noqa: ANN401
        everybody = [0, 1, 2, 3, 4, 5]
        for old, new in ((0, 3), (1, 4), (2, 5)):
            await load.goes_on()
            await administration.change(everybody, add=[new], remove=[old])
            await administration.settled(everybody, {*range(old + 1, new + 1)})
        await load.goes_on()
        return [3, 4, 5]

    found = play(body, 6, [0, 1, 2])
    assert found["quorums-intersect"] == "holds"
    assert found["configuration-in-force"] == "holds"


@pytest.mark.long
def test_members_are_cut_off_while_they_change(play: Callable[..., dict[str, Any]]) -> None:
    """Scenario 19: raft.md#scenario-19. The leader, then each follower in turn."""

    async def body(bench: Any, administration: Administration, load: Load) -> list[int]:  # noqa: ANN401
        cluster = bench.cluster
        changes: list[tuple[str, set[int]]] = [("add", {0, 1, 2, 3}), ("remove", {0, 1, 2}), ("add", {0, 1, 2, 3})]
        for places, (change, voters) in enumerate(changes):
            await load.goes_on()
            leader = await bench.leader()
            away = (leader + places) % 3
            pairs = [pair for other in range(4) if other != away for pair in ((away, other), (other, away))]
            client = await cluster.client(leader)
            revision = (await client.members()).revision + 1
            asked = client.change(revision, **{change: [3]})
            await asyncio.sleep(0.01)
            cluster.cut(pairs)
            await asyncio.sleep(1.0)
            cluster.mend(pairs)
            await asyncio.wait([asked], timeout=GIVES_UP)
            client.close()
            while {*(found := await administration.members(range(4))).voters} != voters or not found.settled:
                if found.settled:  # the entry was cut off with its leader: it is as if nobody had asked
                    await administration.change(range(4), **{change: [3]})
                await asyncio.sleep(0.05)
        await load.goes_on()
        return [0, 1, 2, 3]

    assert play(body, 4, [0, 1, 2], promised=(-1,))["quorums-intersect"] == "holds"
