"""One node's life: graceful stop, SIGKILL and restart, a full disk, and what it says when it cannot start."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loghistory import open_run
from quorumlog.node import process
from quorumlog.node.configuration import NodeConfiguration
from quorumlog.node.process import Node
from quorumlog.node.real_protocol import real_protocol
from quorumlog.node.supervision import DISK_FAILED, STOPPED, UNUSABLE
from quorumlog.raft.messages import Heartbeat
from quorumlog.storage import FileDisk, VoteStore

LIMITED = (
    "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2); del sys.argv[1]; "
    "from quorumlog.node.__main__ import main; main()"
)
"""A node none of whose files may become larger than its first argument says: to it, the disk is full."""


def events(path: Path) -> list[dict[str, Any]]:
    """The events of a history file, without what is null."""
    rows = [row for batch in open_run(path).batches() for row in batch.to_pylist()]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def test_what_is_cut_is_said_and_a_lost_vote_is_refused(
    tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        cluster = bench.cluster
        leader = await bench.leader()
        client = await cluster.client(leader)
        assert (await put(client, 1, acks=-1)).outcome == "success"
        await cluster.kill(leader)
        (segment,) = sorted((tmp_path / f"node-{leader}" / "log").glob("*.log"))[-1:]
        with segment.open("ab") as file:
            file.write(b"torn")
        await cluster.start(leader)
        await cluster.wait_for(leader)
        said = (tmp_path / f"node-{leader}.stderr").read_text()
        assert said.startswith(f"node {leader}: cut 4 bytes behind offset ")
        await cluster.kill(leader)
        (tmp_path / f"node-{leader}" / "vote").unlink()
        await cluster.start(leader)
        await bench.until(lambda: gone(cluster, leader), "the node refuses to start")
        said = (tmp_path / f"node-{leader}.stderr").read_text()
        assert "vote: it is missing beside a log; restore it" in said

    arena(tmp_path, body)


def test_graceful_stop_and_restart(tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        cluster = bench.cluster
        leader = await bench.leader()
        client = await cluster.client(leader)
        for value, acks in enumerate([-1, 1, 0, -1, 1]):
            assert (await put(client, value, acks=acks)).outcome == "success"
        os.kill(cluster.process_id(leader), signal.SIGTERM)
        await bench.until(lambda: gone(cluster, leader), "the leader stops")
        first = events(tmp_path / "histories" / f"node-{leader}.0.jsonl")
        assert first[-1]["kind"] == "stop"
        dirty = max(event["dirty"] for event in first if "dirty" in event)

        await cluster.start(leader)
        await cluster.wait_for(leader)
        again = events(tmp_path / "histories" / f"node-{leader}.1.jsonl.part")[0]
        assert (again["kind"], again["incarnation"]) == ("start", 1)
        assert again["dirty"] == again["flushed"] == dirty
        assert again["commit"] == -1
        await bench.leader()

    arena(tmp_path, body)
    # The other nodes were stopped by the end of the cluster, all with a stop event and a finished file.
    finished = sorted(path.name for path in (tmp_path / "histories").iterdir())
    assert len(finished) == 4
    assert all(name.endswith(".jsonl") for name in finished)
    assert all((tmp_path / f"node-{node}.stderr").read_text() == "" for node in range(3))


async def gone(cluster: Any, node: int) -> bool:  # noqa: ANN401
    return not cluster.running(node)


def test_killed_again_and_again_it_keeps_what_was_acknowledged(
    tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        cluster = bench.cluster
        acknowledged = []
        value = 0
        for _ in range(3):
            leader = await bench.leader()
            client = await cluster.client(leader)
            waiting = []
            for _ in range(200):
                value += 1
                waiting.append((value, asyncio.ensure_future(put(client, value))))
            await asyncio.sleep(0.02)
            await cluster.kill(leader)
            for name, answer in waiting:
                try:
                    if (await answer).outcome == "success":
                        acknowledged.append(name)
                except ConnectionError:
                    continue
            await cluster.start(leader)
            await cluster.wait_for(leader)
        leader = await bench.leader()
        assert (await put(await cluster.client(leader), value + 1)).outcome == "success"

        async def equal() -> bool:
            return len({tuple(await bench.values(node)) for node in cluster.nodes}) == 1

        await bench.until(equal, "all nodes show the same")
        shown = await bench.values(leader)
        assert len(shown) == len(set(shown))
        assert set(acknowledged) <= set(shown)
        assert shown[-1] == value + 1

    arena(tmp_path, body)
    for path in (tmp_path / "histories").glob("*.1.*"):
        kinds = [event["kind"] for event in events(path)]
        assert kinds.count("start") == 1


def test_a_full_disk_stops_the_node_with_one_line(
    tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]
) -> None:
    limit = 300_000

    async def body(bench: Any) -> None:  # noqa: ANN401
        client = await bench.cluster.client(await bench.leader())
        outcomes = []
        for value in range(100):
            try:
                outcomes.append((await put(client, value, size=10_000)).outcome)
            except ConnectionError:
                break
        assert 20 < outcomes.count("success") < 40  # as much as fits
        await bench.until(lambda: gone(bench.cluster, 0), "the node stops")

    ended: list[tuple[int, int]] = []
    arena(
        tmp_path,
        body,
        nodes=1,
        command=(sys.executable, "-c", LIMITED, str(limit)),
        ended=lambda node, status: ended.append((node, status)),
    )
    assert ended == [(0, DISK_FAILED)]
    lines = (tmp_path / "node-0.stderr").read_text().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("node 0: stopped, the disk failed: log/")
    assert "File too large" in lines[0]
    history = events(tmp_path / "histories" / "node-0.0.jsonl.part")
    assert history[-1]["kind"] == "storage_error"
    assert "File too large" in history[-1]["reason"]


def test_a_full_disk_under_the_history_stops_the_node_too(
    tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A node without room for its files has none for coverage data either.
    for variable in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
        monkeypatch.delenv(variable, raising=False)

    async def body(bench: Any) -> None:  # noqa: ANN401
        client = await bench.cluster.client(await bench.leader())
        with pytest.raises((ConnectionError, TimeoutError)):  # noqa: PT012
            for value in range(1000):
                await put(client, value, size=0)
        await bench.until(lambda: gone(bench.cluster, 0), "the node stops")

    arena(tmp_path, body, nodes=1, command=(sys.executable, "-c", LIMITED, "60000"))
    (line,) = (tmp_path / "node-0.stderr").read_text().splitlines()
    assert "the disk failed" in line
    assert len(events(tmp_path / "histories" / "node-0.0.jsonl.part")) > 100  # readable up to its last whole event


GOOD = {"node": 0, "addresses": {"0": "127.0.0.1:1"}, "data": "disk"}
BAD_CONFIGURATIONS: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "truncated"),
    "no object": ("[1]", "Expected `object`"),
    "a missing field": (json.dumps({"node": 0, "data": "d"}), "addresses"),
    "an unknown field": (json.dumps({**GOOD, "nodes": 3}), "nodes"),
    "a node that is not among them": (json.dumps({**GOOD, "node": 4}), "4 is not in addresses"),
    "a wrong address": (json.dumps({**GOOD, "addresses": {"0": "here"}}), "'here' of node 0 is not host:port"),
    "a wrong port": (json.dumps({**GOOD, "addresses": {"0": "h:70000"}}), "is not host:port"),
    "a negative node": (json.dumps({**GOOD, "node": -1, "addresses": {"-1": "h:1"}}), "from 0 to"),
    "a wrong type": (json.dumps({**GOOD, "seed": "x"}), "$.seed"),
    "a wrong time": (json.dumps({**GOOD, "timing": {"heartbeat_interval": 2000}}), "election_timeout"),
}


def start(config: Path) -> subprocess.CompletedProcess[str]:
    """Run a node that should not get far."""
    return subprocess.run(
        [sys.executable, "-m", "quorumlog.node", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_bad_configurations_are_told_in_one_line(tmp_path: Path) -> None:
    # In this process for speed; once below as a command.
    from quorumlog.node.configuration import ConfigurationError, load

    for name, (text, expected) in BAD_CONFIGURATIONS.items():
        path = tmp_path / "node.json"
        path.write_text(text)
        with pytest.raises(ConfigurationError) as error:
            load(path)
        assert str(error.value).startswith(f"{path}: "), name
        assert expected in str(error.value), name
        assert "\n" not in str(error.value), name


def test_what_a_node_cannot_use_ends_it_with_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for name in ("missing", "port", "vote", "vanished segment"):
            directory = tmp_path / name
            directory.mkdir()
            config = directory / "node.json"
            if name == "missing":
                expected = "cannot be read"
            else:
                config.write_text(json.dumps({**GOOD, "addresses": {"0": f"127.0.0.1:{port}"}}))
                expected = "address already in use"
            if name == "vote":
                (directory / "disk").mkdir()
                (directory / "disk" / "vote").write_bytes(b"not a vote at all, but some other file")
                expected = "vote"
            if name == "vanished segment":
                disk = FileDisk(directory / "disk")
                VoteStore(disk).save(0, None)
                disk.close()
                (directory / "disk" / "log").mkdir()
                (directory / "disk" / "log" / "state").write_bytes(b"")
                expected = "log/state"
            done = start(config)
            assert done.returncode == UNUSABLE, (name, done)
            (line,) = done.stderr.splitlines()
            assert expected in line, (name, line)


def test_a_node_that_sends_nothing_to_a_peer_holds_no_memory_for_it(tmp_path: Path) -> None:
    async def body() -> None:
        node = Node(alone(tmp_path), real_protocol("raft"), None)
        for order in ({"mute": [1]}, {"jump": 1}):  # a further order mends no link
            node._ordered(json.dumps(order).encode())
        assert node.muted == {1}
        taken: list[int] = []
        for peer in (1, 2):  # the second has no connection
            node._send(peer, [Heartbeat(1, 1, -1, -1, -1, -1)], lambda peer=peer: taken.append(peer))  # type: ignore[misc]
        assert taken == [1, 2]
        await node._drain()

    asyncio.run(body())


def test_each_group_of_a_node_keeps_what_is_to_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "RETENTION_SECONDS", 0.01)
    asked: list[tuple[int, int]] = []

    async def body() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            mine = {0: f"127.0.0.1:{server.getsockname()[1]}"}
        configuration = alone(tmp_path)
        addresses = configuration.addresses | mine
        configuration = msgspec.structs.replace(configuration, groups=2, retention=7, addresses=addresses)
        node = Node(configuration, real_protocol("raft"), None)
        for group, driver in enumerate(node._drivers):
            monkeypatch.setattr(driver, "retain", lambda size, group=group: asked.append((group, size)))
        running = asyncio.create_task(node.run())
        while len(asked) < 4:
            await asyncio.sleep(0.01)
        node.end(STOPPED)
        assert await running == STOPPED

    asyncio.run(asyncio.wait_for(body(), 30))
    assert asked[:4] == [(0, 7), (1, 7)] * 2


def alone(directory: Path) -> NodeConfiguration:
    """Node 0 of three, of which no other runs."""
    addresses = {number: f"127.0.0.1:{number + 1}" for number in range(3)}
    return NodeConfiguration(node=0, addresses=addresses, data=str(directory / "data"))
