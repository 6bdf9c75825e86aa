"""Servers in processes of their own: the document's test plan, with kills by SIGKILL under load."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import defaultdict
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest
from real_servers import Arena, arena, found, until

from loghistory import open_run
from logspec.heartbeat_traces import follow_heartbeats, read_heartbeat_traces
from logspec.toolchain import find_toolchain
from quorumlog.cluster.run import play
from quorumlog.cluster.stage import Setting
from quorumlog.pull_queries import processes
from quorumlog.pull_queries.events import Query
from quorumlog.pull_queries.rules import UNBOUNDED
from quorumlog.pull_queries.server.http import MAX_QUERIES

COMMAND = [sys.executable, "-c", "from quorumlog.cluster.cli import cluster; cluster(prog_name='logwitness cluster')"]
ACTIVE, ROUTER = 0, 3

pytestmark = pytest.mark.slow


def test_the_most_caught_up_standby_answers_while_the_active_is_down_and_nobody_who_lags_too_far(
    tmp_path: Path,
) -> None:
    """Server 0 is the active, 1 and 2 are standbys, 3 holds nothing; the standby that comes first by name is slow."""

    async def body() -> None:
        async with arena(tmp_path, 4, standbys=2) as made:
            hosts = made.servers.hosts
            slow, quick = sorted((1, 2), key=lambda node: hosts[node])
            made.of_each[slow] = {"poll": 400, "read_bytes": 1}
            await made.start(0, 1, 2, 3)
            rows = {"k1": 1, "k2": 2}
            await made.put(rows)
            for node in (ROUTER, slow):
                await until(lambda node=node: made.answers(node, Query(), rows), "all servers answer for the active")
            reply = await made.ask(ROUTER, Query())
            assert reply is not None
            assert {answer.host for answer in reply.answers} == {hosts[ACTIVE]}

            rows |= {f"n{number}": number for number in range(40)}
            await made.put(rows, pause=0.03)  # so that the changes are many batches, which the slow one reads singly
            await until(lambda: made.answers(ROUTER, Query(), rows), "the active has it all")
            await until(lambda: reported(made, quick), "the quick standby has reported all of it")
            await killed_under_load(made, ACTIVE, {hosts[quick]})

            await made.servers.kill(quick)
            await until(lambda: found_down(made, quick), "the router finds the quick standby down", 2)
            refuses = f"{hosts[slow]} was not selected because Host excluded because lag "
            await until(lambda: refused(made, refuses), "it refuses the slow one for its lag alone", 5)
            stale = await made.ask(ROUTER, Query(bound=UNBOUNDED))
            assert stale is not None
            assert stale.message is None
            assert {answer.host for answer in stale.answers} == {hosts[slow]}
            assert found(stale).items() < rows.items()

            for node in (quick, ACTIVE):
                await made.servers.start(node)
            await until(lambda: made.answers(ROUTER, Query(bound=1), rows), "who was killed comes back", 30)

    asyncio.run(body())


async def reported(made: Arena, node: int) -> bool:
    """Whether the router knows of a server that it lags behind by nothing."""
    status = await made.client.cluster_status(made.servers.public[ROUTER]) or {}
    ends, mine = [], []
    for host, said in status.items():
        for lags in said["hostStoreLags"]["stateStoreLags"].values():
            ends.append(lags["lagByPartition"]["0"]["endOffsetPosition"])
            if host == made.servers.hosts[node]:
                mine.append(lags["lagByPartition"]["0"]["currentOffsetPosition"])
    return bool(mine) and mine[0] == max(ends)


async def found_down(made: Arena, node: int) -> bool:
    """Whether the router takes a server for dead."""
    status = await made.client.cluster_status(made.servers.public[ROUTER]) or {}
    return not status[made.servers.hosts[node]]["hostAlive"]


async def refused(made: Arena, why: str) -> bool:
    """Whether a query that accepts a lag of 1 is refused, for this reason among others."""
    reply = await made.ask(ROUTER, Query(bound=1))
    assert reply is not None
    assert reply.status == 503
    assert reply.answers == ()
    said = str(reply.message)
    return why in said and "exceeds maximum allowed lag 1." in said  # not where it seems down, on a busy machine


async def killed_under_load(made: Arena, node: int, answer: set[str]) -> None:
    """Kill a server while clients ask; the others answer in under 2 s, and in the end these hosts do."""
    answered: list[tuple[float, set[str]]] = []
    over = asyncio.Event()

    async def client() -> None:
        while not over.is_set():
            reply = await made.ask(ROUTER, Query(keys=("k1",)))
            if reply is not None and reply.message is None:
                answered.append((time.monotonic(), {each.host for each in reply.answers}))
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(client())
        await asyncio.sleep(0.5)
        await made.servers.kill(node)
        await asyncio.sleep(1.5)
        over.set()
    answered.sort(key=lambda each: each[0])
    assert max(after - before for (before, _), (after, _) in pairwise(answered)) < 2
    assert answered[-1][1] == answer


def test_queries_at_once_are_limited_and_those_whose_client_is_gone_make_room(tmp_path: Path) -> None:
    """The active is stopped and not found out, so that its router waits for it as long as clients do."""
    patient = {"forward_timeout": 60_000, "missed_threshold": 750, "heartbeat_window": 90_000, "received_threshold": 1}

    async def body() -> None:
        async with arena(tmp_path, 2, standbys=1, **patient) as made:
            await made.start(0, 1)

            async def from_active() -> bool:
                """Whether the active answers and a check has found it alive; until the first one all are alive."""
                status = await made.client.cluster_status(made.servers.public[1]) or {}
                said = status.get(made.servers.hosts[0], {})
                if said.get("hostAlive"):
                    times_alive.add(said["lastStatusUpdateMs"])
                reply = await made.ask(1, Query())
                hosts = set() if reply is None else {each.host for each in reply.answers}
                return len(times_alive) > 1 and hosts == {made.servers.hosts[0]}

            times_alive: set[int] = set()
            await until(from_active, "the active answers")
            url = f"http://{made.servers.public[1]}/query"
            limits = httpx2.Limits(max_connections=None)
            async with httpx2.AsyncClient(timeout=None, trust_env=False, limits=limits) as client:

                async def refused() -> bool:
                    """Whether one more query is refused at once; else it waits, until nobody waits for it."""
                    try:
                        answer = await asyncio.wait_for(client.post(url, json={"table": "T"}), 3)
                    except TimeoutError:
                        return False
                    if answer.status_code != 429:  # on a busy machine the standby may be asked
                        return False
                    assert answer.json()["message"] == f"{MAX_QUERIES} queries are under way; ask again later"
                    return True

                def asked() -> asyncio.Task[httpx2.Response]:
                    return asyncio.create_task(client.post(url, json={"table": "T"}))

                async def more_are_refused() -> bool:
                    waiting[:] = [asked() if each.done() else each for each in waiting]
                    return await refused()

                made.servers.pause(0)
                waiting = [asked() for _ in range(MAX_QUERIES)]
                await until(more_are_refused, "more are refused than may be under way", 60)
                assert not any(each.done() for each in waiting)
                for each in waiting:
                    each.cancel()
                await asyncio.wait(waiting)

                async def has_room() -> bool:
                    return not await refused()

                await until(has_room, "there is room for others", 10)
            made.servers.resume(0)

    asyncio.run(body())


def test_a_run_with_its_actives_and_nodes_of_its_logs_killed_is_recorded_and_holds(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    arguments = ["--protocol", "pull-queries", "--faults", "kill-leader", "--duration", "4", "--seed", "3"]
    arguments += ["--set", "with_bound=5", "--set", "broker_kills=1"]
    done = subprocess.run(
        [*COMMAND, "-o", str(directory), *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done
    assert "all nodes agree" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    (judge,) = entry_points(group="logwitness.judges", name="history")
    run = open_run(directory)
    verdict = judge.load()(run)
    assert verdict["verdict"] == "holds", verdict
    judged = {check["id"]: check["judged"] for check in verdict["checks"]}
    for check in ("rows-are-the-table", "status-replays", "candidates-follow-view", "reports-are-true"):
        assert judged[check] > 20, check
    kinds = [kind for batch in run.batches(columns=["kind"]) for kind in batch.column("kind").to_pylist()]
    assert {"crash", "forward", "answer", "finish"} <= set(kinds)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--retention", "8192"], "leave out --write-caching and --retention"),
        (["--set", "partition=2"], "there is no option partition; the options are brokers, broker_kills, poll,"),
        (["--set", "partitions=0"], "partitions is 0; it must be at least 1"),
        (["--set", "with_bound=-1"], "pull-queries: Expected `int` >= 0 - at `$.with_bound`"),
        (["--set", "with_bound=1e400"], "pull-queries: Expected `int | null`, got `str` - at `$.with_bound`"),
        (["--set", "poll=0"], "pull-queries: Expected `int` >= 1 - at `$.poll`"),
        (["--set", "partitions"], "'partitions' is not NAME=VALUE"),
        (["--faults", "powr"], "'powr' is unknown; give none, or some of kill, kill-leader, stop, terminate, cut"),
        (
            ["--faults", "power"],
            "'power' is a fault of raft and read-path only (--protocol); give none, or some of kill,",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_with_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--protocol", "pull-queries", "-o", str(tmp_path / "run"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_each_key_is_available_99_per_cent_of_five_minutes_with_a_kill_a_minute(tmp_path: Path) -> None:
    """A probe each 100 ms for each key, at any server that is there and ready."""
    keys = [f"k{number}" for number in range(6)]

    async def body() -> dict[str, list[bool]]:
        async with arena(tmp_path, 4, standbys=2, partitions=2) as made:
            await made.start(0, 1, 2, 3)
            rows = {key: number for number, key in enumerate(keys)}
            await made.put(rows)
            await until(lambda: made.answers(0, Query(), rows), "the rows are there")
            probes: dict[str, list[bool]] = defaultdict(list)
            over = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                for key in keys:
                    group.create_task(probe(made, key, over, probes[key]))
                for _ in range(5):
                    await asyncio.sleep(20)
                    victim = await active(made)
                    await made.servers.kill(victim)
                    await asyncio.sleep(25)
                    await made.servers.start(victim)
                    await asyncio.sleep(15)
                over.set()
            return probes

    for key, answered in asyncio.run(body()).items():
        assert len(answered) > 1000, f"{key}: too few probes for five minutes, even on a busy machine"
        assert sum(answered) >= 0.99 * len(answered), key


async def probe(made: Arena, key: str, over: asyncio.Event, answered: list[bool]) -> None:
    """Ask for a key every 100 ms: a server that refuses the connection, or is not ready, is passed over."""
    loop, turn = asyncio.get_running_loop(), 0
    due = loop.time()
    while not over.is_set():
        good = False
        for _ in made.servers.nodes:
            reply = await made.ask(turn % len(made.servers.nodes), Query(keys=(key,)))
            turn += 1
            if reply is not None and not (reply.message or "").endswith("not ready."):
                good = reply.message is None
                break
        answered.append(good)
        due += 0.1
        await asyncio.sleep(max(0.0, due - loop.time()))


async def active(made: Arena) -> int:
    """The active of partition 0."""
    for place in made.servers.public:
        try:
            status = await made.client.cluster_status(place) or {}
        except Exception:
            continue
        for host, said in status.items():
            if any(0 in each["activePartitions"] for each in said["activeStandbyPerQuery"].values()):
                return made.servers.numbers[host]
    raise AssertionError("nobody knows an active")


PLANTED = {
    "heard": "from quorumlog.pull_queries.mutants import MUTANTS\n"
    "process.ServerCore = MUTANTS['no-heartbeats-to-dead'].make_core",
    "rows": "from quorumlog.pull_queries.mutants.lags import TombstonesKeptCore\n"
    "process.ServerCore = TombstonesKeptCore",
    "ends": "import quorumlog.pull_queries.server.driver as driver\nlook = driver.ServerDriver._look\n"
    "async def beyond(self, log, start):\n    visible, found = await look(self, log, start)\n"
    "    return visible + 3, found\ndriver.ServerDriver._look = beyond",
    "said": "import quorumlog.pull_queries.wire as wire\nsay = wire.encode_answer\n"
    "wire.encode_answer = lambda answer: say(answer).replace(b'\"position\":', b'\"position\":1')",
    "stamps": "import quorumlog.pull_queries.server.peers as peers\nsay = peers.encode_heartbeat\n"
    "peers.encode_heartbeat = lambda host, stamp: say(host, stamp + 50)",
}
"""Faults of the core, of the driver, and of what is said over HTTP."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "noticed"),
    [
        ("heard", "heartbeats-to-all"),
        ("rows", "rows-are-the-table"),
        ("ends", "reports-are-true"),
        ("said", "rows-are-the-table"),
        ("stamps", "heard-was-said"),
    ],
)
def test_a_fault_in_real_servers_is_noticed(
    fault: str, noticed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import quorumlog.pull_queries.server.process as process\n"
        f"from quorumlog.pull_queries.server.__main__ import main\n{PLANTED[fault]}\nmain()"
    )
    monkeypatch.setattr(processes, "SERVER_COMMAND", (sys.executable, "-c", program))
    (tmp_path / "work").mkdir()
    setting = Setting(seed=5, protocol="pull-queries", duration=5, faults=("kill", "kill-leader"))
    asyncio.run(play(setting, tmp_path / "work", tmp_path / "run", "run", [], lambda _: None))
    (judge,) = entry_points(group="logwitness.judges", name="history")
    run = open_run(tmp_path / "run")
    violated = {check["id"] for check in judge.load()(run)["checks"] if check["verdict"] == "violated"}
    assert noticed in violated
    if fault == "stamps":
        traces = read_heartbeat_traces(run, "run")
        follow_heartbeats(traces, find_toolchain(None, None))
        assert any("had not sent" in (trace.stuck or "") for trace in traces)
