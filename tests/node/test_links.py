"""A link tells when the socket has taken what was sent: a round's memory depends on it; and who is sent nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import Awaitable, Callable

import pytest

from quorumlog.node import links
from quorumlog.node.framing import Hello, Role, frame
from quorumlog.node.links import SHORTEST_BACKOFF, Link, Outgoing
from quorumlog.raft.messages import AppendEntries, Heartbeat
from quorumlog.raft.wire import MESSAGES
from quorumlog.storage.batch import BatchKind, RecordBatch

KEY = bytes(8)
HEARTBEAT = Heartbeat(1, 1, -1, -1, -1, -1)
SMALL = AppendEntries(1, 1, -1, -1, -1, -1, False, (RecordBatch(0, 1, BatchKind.DATA, 1, 1, bytes(20_000)),))
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


def test_what_the_socket_took_but_for_a_little_is_not_taken() -> None:
    async def body(arena: Arena) -> None:
        names = [str(number) for number in range(10_000)]
        sent = next(n for n, name in enumerate(names) if arena.send(name, SMALL) == 0 and name not in arena.taken)
        await asyncio.sleep(0.05)
        assert arena.taken == names[:sent]
        arena.reads.set()
        await arena.until_taken(*names[: sent + 1])

    played(body)


def test_a_full_queue_takes_no_message_and_says_how_many() -> None:
    async def body(arena: Arena) -> None:
        assert 1 <= arena.send("too much", *[LARGE] * 12) < 8
        assert arena.send("more", HEARTBEAT, HEARTBEAT, HEARTBEAT) == 3

    played(body)


def test_the_operating_system_is_asked_to_give_up_on_the_silent() -> None:
    async def body(arena: Arena) -> None:
        assert arena.link._connection is not None
        assert arena.link._connection._transport is not None
        connected = arena.link._connection._transport.get_extra_info("socket")
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)

    played(body)


@pytest.mark.parametrize(
    "answer", [Hello(Role.NODE, 1, b"stranger"), Hello(Role.NODE, 2, KEY), Hello(Role.CLIENT, 1, KEY)]
)
def test_whoever_is_not_the_node_of_this_cluster_is_sent_nothing(answer: Hello) -> None:
    assert "answers there; it is of another cluster" in warned_of(answer.encode())


def test_a_node_that_was_called_must_not_send() -> None:
    # In one piece, so that nothing is sent to it before.
    assert "must not send" in warned_of(Hello(Role.NODE, 1, KEY).encode() + frame(b"x"))


def warned_of(answer: bytes) -> str:
    """What a link says of a peer that answers so; it sends it nothing."""

    async def peer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async def body() -> list[str]:
        server = await asyncio.start_server(peer, "127.0.0.1", 0)
        link = Link(Hello(Role.NODE, 0, KEY), 1, server.sockets[0].getsockname(), MESSAGES, random.Random(1))
        warned: list[str] = []
        running = asyncio.create_task(link.run(warned.append))
        while not warned:
            assert link.send(lambda: (1, 0), [HEARTBEAT], lambda: None) == 1
            await asyncio.sleep(0.01)
        running.cancel()
        server.close()
        return warned

    return asyncio.run(asyncio.wait_for(body(), 30))[0]


def test_pauses_before_connecting_double_until_a_connection_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link(Hello(Role.NODE, 0, KEY), 1, ("127.0.0.1", 1), MESSAGES, random.Random(1))
    made = [False, None, False, True, False, "refused", False]  # None: it takes too long
    waits: list[float] = []

    async def connect() -> Outgoing:
        there = made[len(waits)]
        if there is None:
            await asyncio.Event().wait()
        if not there:
            raise ConnectionRefusedError
        outgoing = Outgoing(Hello(Role.NODE, 0, KEY), 1)
        outgoing.reason = there if there == "refused" else None  # whoever is there is not the node
        outgoing.gone.set()
        return outgoing

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == len(made):
            raise asyncio.CancelledError

    monkeypatch.setattr(links, "CONNECT_SECONDS", 0.01)
    monkeypatch.setattr(link, "_connect", connect)
    monkeypatch.setattr(link._random, "random", lambda: 0.5)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(asyncio.wait_for(link.run(lambda text: None), 10))
    assert waits == [SHORTEST_BACKOFF * times * 0.75 for times in (1, 2, 4, 1, 2, 4, 8)]
