"""A connection and a port do what their deadlines, limits and accounts say, each in one process over real sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from loghistory import HybridClock
from quorumlog.node import connection as connection_module
from quorumlog.node import server as server_module
from quorumlog.node import supervised
from quorumlog.node.connection import Connection
from quorumlog.node.framing import Hello, Role, frame
from quorumlog.node.recording import NoHistory
from quorumlog.node.server import Server
from quorumlog.node.wire import CALLS
from quorumlog.raft.messages import Heartbeat
from quorumlog.raft.wire import MESSAGES

KEY = bytes(8)
NODE, CLIENT = Hello(Role.NODE, 1, KEY), Hello(Role.CLIENT, -1, KEY)
HALF = (1000).to_bytes(4, "big") + bytes(500)
"""Half a frame."""


class Kept(Connection):
    """A connection that keeps what happens to it."""

    def __init__(self) -> None:
        super().__init__(NODE)
        self.frames: list[bytes] = []
        self.greeted, self.ended = asyncio.Event(), asyncio.Event()

    def hello_received(self, hello: Hello) -> None:
        self.greeted.set()

    def frames_received(self, payloads: list[bytes]) -> None:
        self.frames += payloads

    def closed(self) -> None:
        self.ended.set()


def played(body: Callable[[], Awaitable[None]]) -> None:
    async def play() -> None:
        async with asyncio.timeout(20):
            await body()

    asyncio.run(play())


@asynccontextmanager
async def two_ends() -> AsyncIterator[tuple[Kept, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that was accepted, and the other side of it."""
    made: list[Kept] = []
    port = await asyncio.get_running_loop().create_server(lambda: made.append(Kept()) or made[-1], "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*port.sockets[0].getsockname())
    writer.write(CLIENT.encode())
    await reader.readexactly(len(NODE.encode()))
    await made[0].greeted.wait()
    yield made[0], reader, writer
    writer.close()
    port.close()


def test_what_is_queued_is_sent_before_a_connection_that_is_finished_ends() -> None:
    async def body() -> None:
        async with two_ends() as (connection, reader, _):
            assert connection.send(bytes(8 << 20))
            assert connection.waiting
            connection.finish()
            assert not connection.send(b"more")
            assert len(await reader.read(-1)) == 8 << 20

    played(body)


def test_a_connection_that_is_paused_hands_on_nothing_until_it_is_resumed() -> None:
    async def body() -> None:
        async with two_ends() as (connection, _, writer):
            connection.pause()
            writer.write(frame(b"one"))
            await asyncio.sleep(0.05)
            assert connection.frames == []
            connection.resume()
            while connection.frames != [b"one"]:
                await asyncio.sleep(0.01)

    played(body)


def test_only_a_frame_that_stays_incomplete_ends_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "FRAME_SECONDS", 0.2)
    monkeypatch.setattr(connection_module, "HELLO_SECONDS", 0.2)

    async def body() -> None:
        async with two_ends() as (connection, _, writer):
            writer.write(HALF)
            await asyncio.sleep(0.05)
            writer.write(bytes(500))
            await asyncio.sleep(0.4)
            assert connection.frames == [bytes(1000)]
            assert connection.open
            writer.write(HALF)
            await connection.ended.wait()
            assert connection.reason == "the rest of a frame did not come within 0.2 s"
            connection.refuse("another reason")
            assert connection.reason == "the rest of a frame did not come within 0.2 s"

    played(body)


def test_a_connection_that_is_reset_is_gone() -> None:
    async def body() -> None:
        async with two_ends() as (connection, _, writer):
            linger = struct.pack("ii", 1, 0)  # closing it sends a reset
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
            await connection.ended.wait()
            assert not connection.open
            assert connection.reason is None

    played(body)


def test_a_flood_of_warnings_is_limited_for_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervised, "_WARNINGS", 3)
    monkeypatch.setattr(supervised, "_WARNINGS_SECONDS", 0.2)

    async def body() -> None:
        process = supervised.Supervised("node 0", None)
        for _ in range(2):
            for text in "abcde":
                process.warn(text)
            await asyncio.sleep(0.25)

    played(body)
    limited = ["node 0: a", "node 0: b", "node 0: c; further such lines are suppressed for 0.2 s"]
    assert capsys.readouterr().err.splitlines() == 2 * limited


class Port:
    """The port of node 0, and who was called by what came in."""

    def __init__(self) -> None:
        self.history = NoHistory(HybridClock())
        self.heard: list[int] = []
        self.warned: list[str] = []
        self._calls: list[asyncio.StreamWriter] = []

    def received(self, sender: int, messages: list[Any]) -> None:
        """A message of a node: what a driver is told."""
        self.heard += [sender] * len(messages)

    async def __aenter__(self) -> Port:
        hello = Hello(Role.NODE, 0, KEY)
        self.server = Server([self], hello, MESSAGES, frozenset({1, 2}), 0, self.warned.append)  # type: ignore[list-item]
        await self.server.listen(("127.0.0.1", 0), shared=False)
        await self.server.serve()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()

    async def call(self, *sent: bytes) -> asyncio.StreamReader:
        """Connect and send something; returns once the port has said hello."""
        assert self.server._server is not None
        reader, writer = await asyncio.open_connection(*self.server._server.sockets[0].getsockname())
        writer.write(b"".join(sent))
        self._calls.append(writer)
        await reader.readexactly(len(NODE.encode()))
        await asyncio.sleep(0.02)
        return reader


def ended(reader: asyncio.StreamReader) -> bool:
    return reader.at_eof() or reader.exception() is not None


def test_who_said_no_hello_makes_room_first_then_the_oldest_client_and_never_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 3)

    async def body() -> None:
        async with Port() as port:
            node, client = await port.call(NODE.encode()), await port.call(CLIENT.encode())
            stranger = await port.call()
            second = await port.call(CLIENT.encode())
            assert [ended(each) for each in (node, client, stranger, second)] == [False, False, True, False]
            third = await port.call(CLIENT.encode())
            assert [ended(each) for each in (node, client, second, third)] == [False, True, False, False]
            assert ["more than 3 connections" in line for line in port.warned] == [True, True]

    played(body)


def test_a_new_connection_of_a_node_replaces_the_one_before() -> None:
    async def body() -> None:
        async with Port() as port:
            calls = []
            for count in range(1, 4):
                calls.append(await port.call(NODE.encode(), MESSAGES.encode((1, 0), [Heartbeat(1, 1, -1, -1, -1, -1)])))
                assert [ended(each) for each in calls] == [True] * (count - 1) + [False]
            assert port.heard == [1, 1, 1]
            assert port.warned == []

    played(body)


def test_whoever_holds_much_pays_for_it_and_nodes_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_HELD_BYTES", 1000)

    async def body() -> None:
        async with Port() as port:
            node = await port.call(NODE.encode(), (5000).to_bytes(4, "big") + bytes(4000))
            large = await port.call(CLIENT.encode(), (5000).to_bytes(4, "big") + bytes(900))
            small = await port.call(CLIENT.encode(), HALF[:200])
            assert [ended(each) for each in (node, large, small)] == [False, True, False]
            larger = await port.call(CLIENT.encode(), (5000).to_bytes(4, "big") + bytes(900))
            assert [ended(each) for each in (node, small, larger)] == [False, False, True]

    played(body)


def test_the_clock_of_whoever_calls_is_merged_and_groups_that_are_not_here_are_refused() -> None:
    async def body() -> None:
        async with Port() as port:
            now = port.history.clock.tick()[0]
            await port.call(CLIENT.encode(), CALLS.encode((now + (1 << 30), 0), []))
            assert port.history.clock.tick()[0] >= now + (1 << 30)
            for number, group in ((0, -1), (-2, 1)):
                assert ended(await port.call(Hello(Role.CLIENT, number, KEY).encode()))
                assert port.warned.pop().endswith(f"there is no group {group} here")

    played(body)
