"""Garbage on the port of a real node: that connection is closed with one line, and the node serves on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quorumlog.node import wire
from quorumlog.node.configuration import cluster_key
from quorumlog.node.framing import Hello, Role, frame
from quorumlog.raft.messages import Heartbeat
from quorumlog.raft.wire import MESSAGES

CONNECTIONS = 80


def attacks(cluster_name: str) -> dict[str, tuple[bytes, str]]:
    """What is sent, and what the node's line about it says."""
    key = cluster_key(cluster_name)
    client = Hello(Role.CLIENT, -1, key).encode()
    node = Hello(Role.NODE, 1, key).encode()
    noise = random.Random(5).randbytes(100_000)
    future = 2**62
    return {
        "random bytes": (noise, "not this protocol"),
        "another protocol": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "not this protocol"),
        "another version": (client[:5] + b"\x09" + client[6:], "protocol version 9"),
        "unknown role": (client[:6] + b"\x07" + client[7:], "unknown role"),
        "another cluster": (Hello(Role.CLIENT, -1, b"stranger").encode(), "another cluster"),
        "a node that is no peer": (Hello(Role.NODE, 17, key).encode(), "not one of the peers"),
        "a node that is this one": (Hello(Role.NODE, 0, key).encode(), "not one of the peers"),
        "a huge length": (client + b"\xff\xff\xff\xff" + noise, "the limit is"),
        "noise in a client's frame": (client + frame(noise[:5000]), ""),
        "noise in a node's frame": (node + frame(noise[:5000]), ""),
        "an empty frame": (client + frame(b""), "too short"),
        "a call that is none": (client + frame(bytes(12) + b"\x91\x93\xa3abc\x01\x02"), "not a call"),
        "impossible numbers": (node + MESSAGES.encode((1, 0), [Heartbeat(2**61, 1, 1, 1, 1, 1)]), "out of range"),
        "a clock far ahead": (node + MESSAGES.encode((future, 0), [Heartbeat(1, 1, 1, 1, 1, 1)]), "ahead"),
        "impossible acks": (
            client + wire.CALLS.encode((1, 0), [wire.AppendCall(1, bytes(8), 1, 5, -1, False)]),
            "impossible acks",
        ),
    }


async def closed(reader: asyncio.StreamReader) -> None:
    """Wait until the node has closed the connection."""
    try:
        while await reader.read(65536):
            pass
    except ConnectionError:
        return


def peak_bytes(process: int) -> int:
    """The most memory that a process has had."""
    text = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM:"))


def test_garbage_harms_nobody(tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        cluster = bench.cluster
        client = await cluster.client(await bench.leader())
        assert (await put(client, 1)).outcome == "success"
        term = (await bench.state(0)).term
        errors = tmp_path / "node-0.stderr"

        for name, (sent, expected) in attacks(cluster.name).items():
            before = len(errors.read_text().splitlines())
            reader, writer = await asyncio.open_connection(*cluster.addresses[0])
            writer.write(sent)
            await asyncio.wait_for(closed(reader), 5)
            writer.close()
            await bench.state(0)  # a turn of the node's loop, so that the line is there
            lines = errors.read_text().splitlines()[before:]
            assert len(lines) == 1, (name, lines)
            assert "refused 127.0.0.1:" in lines[0], (name, lines)
            assert expected in lines[0], (name, lines)

        # A connection that is dropped in the middle of a frame is no fault worth a line.
        before = len(errors.read_text().splitlines())
        _, writer = await asyncio.open_connection(*cluster.addresses[0])
        writer.write(attacks(cluster.name)["noise in a client's frame"][0][:1000])
        await writer.drain()
        writer.close()
        assert (await put(client, 2)).outcome == "success"
        assert len(errors.read_text().splitlines()) == before
        assert (await bench.state(0)).term == term

    arena(tmp_path, body)


def test_slow_and_greedy_connections_end(tmp_path: Path, arena: Callable[..., Any], put: Callable[..., Any]) -> None:
    async def body(bench: Any) -> None:  # noqa: ANN401
        cluster = bench.cluster
        client = await cluster.client(await bench.leader())
        hello = Hello(Role.CLIENT, -1, cluster_key(cluster.name)).encode()
        memory = peak_bytes(cluster.process_id(0))
        slow = []
        for number in range(CONNECTIONS):
            reader, writer = await asyncio.open_connection(*cluster.addresses[0])
            if number % 2:  # a hello that never ends
                writer.write(hello[:7])
            else:  # a frame of 7 MiB that never ends: all together would be 280 MiB
                writer.write(hello + (7 << 20).to_bytes(4, "big") + bytes(6 << 20))
            slow.append((reader, writer))
        assert (await put(client, 1)).outcome == "success"
        await asyncio.wait_for(asyncio.gather(*(closed(reader) for reader, _ in slow)), 20)
        for _, writer in slow:
            writer.close()
        assert (await put(client, 2)).outcome == "success"
        assert peak_bytes(cluster.process_id(0)) - memory < 100 << 20
        errors = tmp_path / "node-0.stderr"
        for _ in range(40):
            lines = errors.read_text().splitlines()
            if len(lines) >= CONNECTIONS:
                break
            await asyncio.sleep(0.05)
        assert sum("did not come within 3 s" in line for line in lines) == CONNECTIONS // 2
        assert sum("rest of a frame" in line or "together" in line for line in lines) == CONNECTIONS // 2
        assert sum("together" in line for line in lines) > 0
        assert len(lines) == CONNECTIONS

    arena(tmp_path, body)
