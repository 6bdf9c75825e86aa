"""A link tells when the socket has taken what was sent: the memory of a round depends on it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import pytest

from quorumlog.node.framing import Hello, Role
from quorumlog.node.links import SHORTEST_BACKOFF, Link, Outgoing
from quorumlog.raft.messages import AppendEntries, Heartbeat
from quorumlog.raft.wire import MESSAGES
from quorumlog.storage.batch import BatchKind, RecordBatch

KEY = bytes(8)
LARGE = AppendEntries(1, 1, -1, -1, -1, -1, False, (RecordBatch(0, 1, BatchKind.DATA, 1, 1, bytes(3 << 20)),))


class Arena:
    """A link, and the other side of it, which says hello and reads when it is told to."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.taken: list[str] = []
        self.warned: list[str] = []

    async def _peer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(Hello(Role.NODE, 1, KEY).encode())
        await self.reads.wait()
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 20):
                pass
        writer.close()

    def send(self, name: str, *messages: object) -> int:
        return self.link.send(lambda: (1, 0), list(messages), lambda: self.taken.append(name))

    async def __aenter__(self) -> Arena:
        self._server = await asyncio.start_server(self._peer, "127.0.0.1", 0, limit=1 << 16)
        address = self._server.sockets[0].getsockname()
        self.link = Link(Hello(Role.NODE, 0, KEY), 1, address, MESSAGES, random.Random(1))
        assert self.send("nobody is there", LARGE) == 1
        assert self.taken == ["nobody is there"]
        self._running = asyncio.create_task(self.link.run(self.warned.append))
        while self.send("hello", Heartbeat(1, 1, -1, -1, -1, -1)):
            await asyncio.sleep(0.01)
        self.taken.clear()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        self.reads.set()
        self._server.close()

    async def until_taken(self, *names: str) -> None:
        while self.taken != [*names]:
            await asyncio.sleep(0.01)


def played(body: Callable[[Arena], Awaitable[None]]) -> None:
    async def play() -> None:
        async with asyncio.timeout(10), Arena() as arena:
            await body(arena)

    asyncio.run(play())


def test_what_the_other_side_does_not_read_is_taken_once_it_reads() -> None:
    async def body(arena: Arena) -> None:
        assert arena.send("stuck", *[LARGE] * 4) == 0
        await asyncio.sleep(0.05)
        assert arena.taken == []
        arena.reads.set()
        await arena.until_taken("stuck")
        arena.send("at once", Heartbeat(1, 2, -1, -1, -1, -1))
        await arena.until_taken("stuck", "at once")
        arena.link.disconnect()  # nothing waits, so the connection stays
        assert arena.send("still", Heartbeat(1, 3, -1, -1, -1, -1)) == 0
        assert arena.warned == []

    played(body)


def test_a_link_that_gives_up_drops_what_is_stuck() -> None:
    async def body(arena: Arena) -> None:
        arena.send("stuck", *[LARGE] * 4)
        arena.link.disconnect()
        await arena.until_taken("stuck")
        while not arena.warned:
            await asyncio.sleep(0.01)
        assert "takes nothing" in arena.warned[0]

    played(body)


@pytest.mark.parametrize(
    "answer", [Hello(Role.NODE, 1, b"stranger"), Hello(Role.NODE, 2, KEY), Hello(Role.CLIENT, 1, KEY)]
)
def test_whoever_is_not_the_node_of_this_cluster_is_sent_nothing(answer: Hello) -> None:
    async def peer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer.encode())

    async def body() -> list[str]:
        server = await asyncio.start_server(peer, "127.0.0.1", 0)
        link = Link(Hello(Role.NODE, 0, KEY), 1, server.sockets[0].getsockname(), MESSAGES, random.Random(1))
        warned: list[str] = []
        running = asyncio.create_task(link.run(warned.append))
        while not warned:
            assert link.send(lambda: (1, 0), [Heartbeat(1, 1, -1, -1, -1, -1)], lambda: None) == 1
            await asyncio.sleep(0.01)
        running.cancel()
        server.close()
        return warned

    assert "answers there; it is of another cluster" in asyncio.run(asyncio.wait_for(body(), 30))[0]


def test_pauses_before_connecting_double_until_a_connection_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link(Hello(Role.NODE, 0, KEY), 1, ("127.0.0.1", 1), MESSAGES, random.Random(1))
    made = [False, False, False, True, False]
    waits: list[float] = []

    async def connect() -> Outgoing:
        if not made[len(waits)]:
            raise ConnectionRefusedError
        outgoing = Outgoing(Hello(Role.NODE, 0, KEY), 1)
        outgoing.gone.set()
        return outgoing

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == len(made):
            raise asyncio.CancelledError

    monkeypatch.setattr(link, "_connect", connect)
    monkeypatch.setattr(link._random, "random", lambda: 1.0)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(link.run(lambda text: None))
    assert waits == [SHORTEST_BACKOFF * times for times in (1, 2, 4, 1, 2)]
