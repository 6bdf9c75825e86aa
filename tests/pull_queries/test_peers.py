"""What a server asks of others, and makes of their answers, on whatever side of HTTP something goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from loghistory import HybridClock
from quorumlog.pull_queries import events as e
from quorumlog.pull_queries import wire
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.rules import Failure
from quorumlog.pull_queries.server import headers, peers
from quorumlog.pull_queries.server.listener import Listener, take_port
from quorumlog.pull_queries.server.peers import Peers

ROWS = [wire.encode_answer(e.Answer(partition, "b:1", 7, (("k", partition),))) for partition in range(2)]
ANSWER = b"\n".join([wire.HEADER, *ROWS, wire.COMPLETED])
Serves = Callable[[Request], Awaitable[Response]]


@asynccontextmanager
async def asked_of(
    serves: Serves, *, limit: int = 20_000, later: bool = False
) -> AsyncIterator[tuple[str, Peers, asyncio.Event]]:
    """Somebody who is asked at an address, whoever asks, and when to begin to serve, if that is not at once; ``limit``
    in milliseconds."""
    port = take_port(("127.0.0.1", 0), shared=False)
    begin = asyncio.Event()
    if not later:
        begin.set()
    listener = Listener(Starlette(routes=[Route("/{path}", serves, methods=["POST"])]))

    async def serve() -> None:
        await begin.wait()
        await listener.serve(sockets=[port])

    serving = asyncio.create_task(serve())
    made = Peers("a:1", Configuration(forward_timeout=limit), HybridClock(), frozenset)
    while not later and not listener.started:
        await asyncio.sleep(0.01)
    try:
        host, number = port.getsockname()
        yield f"{host}:{number}", made, begin
    finally:
        await made.close()
        listener.should_exit = listener.force_exit = True
        await serving


def forwarded(serves: Serves, **given: int) -> e.ForwardEnded:
    """How a query for two partitions ends that is forwarded to somebody."""

    async def body() -> e.ForwardEnded:
        async with asked_of(serves, **given) as (host, made, _):
            return await made.forward(e.Forward(1, host, e.Query(), (0, 1)), 5)

    return asyncio.run(body())


def in_parts(*parts: bytes | float, **more: Any) -> Serves:  # noqa: ANN401
    """Bytes one after the other, and pauses of so many seconds."""

    async def serves(_: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            for part in parts:
                if isinstance(part, bytes):
                    yield part
                else:
                    await asyncio.sleep(part)

        return StreamingResponse(body(), **more)

    return serves


def test_lines_are_whole_however_they_come_and_the_last_one_too_though_nothing_ends_it() -> None:
    for parts in ([ANSWER], [ANSWER[at : at + 7] for at in range(0, len(ANSWER), 7)], [ANSWER + b"\n"]):
        ended = forwarded(in_parts(*parts))
        assert [(each.partition, each.position, each.rows) for each in ended.answers] == [
            (partition, 7, (("k", partition),)) for partition in range(2)
        ]
        assert ended.failure is None


def test_what_came_before_a_time_out_was_answered() -> None:
    ended = forwarded(in_parts(b"\n".join([wire.HEADER, ROWS[0], b""]), 30.0), limit=1500)
    assert ended.failure is Failure.TIME_OUT
    assert [each.partition for each in ended.answers] == [0]


def test_a_redirection_is_not_followed_and_no_answer() -> None:
    ended = forwarded(in_parts(ANSWER, status_code=307, headers={"location": "/query"}))
    assert (ended.failure, ended.answers) == (Failure.CLIENT_ERROR, ())


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MAX_ANSWER_BYTES", 100_000)
    assert forwarded(in_parts(ANSWER, b"\n" * 90_000)).failure is None
    assert forwarded(in_parts(wire.HEADER, *[b"x" * 10_000] * 11)).failure is Failure.BROKEN_STREAM


def test_who_asks_says_so_and_takes_the_clock_of_the_answer() -> None:
    said: list[str] = []

    async def serves(request: Request) -> Response:
        said.extend(request.headers[name] for name in (headers.ASKED_BY, headers.OPERATION))
        time, _ = HybridClock().tick()
        return Response(ANSWER, headers={headers.CLOCK: f"{time + 30_000_000_000} 7"})

    async def body() -> None:
        async with asked_of(serves) as (host, made, _):
            await made.forward(e.Forward(1, host, e.Query(), (0, 1)), 5)
            time, logical = made._clock.now
            assert time > HybridClock().tick().time + 20_000_000_000
            assert logical > 7

    asyncio.run(body())
    assert said == ["a:1", "5"]


def test_heartbeats_go_on_where_none_could_be_told_before() -> None:
    heard = asyncio.Event()

    async def serves(_: Request) -> Response:
        heard.set()
        return Response(wire.OK)

    async def body() -> None:
        async with asked_of(serves, later=True) as (host, made, begin):
            for stamp in range(20):
                made.heartbeat(e.SendHeartbeat(host, stamp))
                await asyncio.sleep(0.005)
            begin.set()
            async with asyncio.timeout(10):
                while not heard.is_set():
                    made.heartbeat(e.SendHeartbeat(host, 100))
                    await asyncio.sleep(0.02)

    asyncio.run(body())


def test_who_does_not_answer_is_told_few_things_at_once() -> None:
    told: list[str] = []

    async def serves(request: Request) -> Response:
        told.append(request.url.path)
        await asyncio.sleep(30)
        return Response(wire.OK)

    async def body() -> None:
        async with asked_of(serves) as (host, made, _):
            for stamp in range(20):
                made.heartbeat(e.SendHeartbeat(host, stamp))
            async with asyncio.timeout(10):
                while len(told) < 4:
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.1)

    asyncio.run(body())
    assert told == ["/heartbeat"] * 4
