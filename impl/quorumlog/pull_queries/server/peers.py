"""Requests to other servers: heartbeats and lag reports, of which nobody awaits the answer, and forwarded queries."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection

import httpx2

from loghistory import HybridClock
from quorumlog.pull_queries import events as e
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.core import STORE
from quorumlog.pull_queries.rules import Failure
from quorumlog.pull_queries.server import headers
from quorumlog.pull_queries.wire import (
    AnswerReader,
    Asked,
    BadRequestError,
    encode_heartbeat,
    encode_query,
    encode_report,
    report_path,
)

MAX_ANSWER_BYTES = 64 << 20
_MAX_POSTED = 4
"""Heartbeats and reports to one host that may be under way; one more is not sent, as if it were lost."""
_TELL_SECONDS = 1.0


class Peers:
    """The requests of the server ``local``; ``muted()`` are hosts to which nothing is sent now."""

    def __init__(
        self, local: str, configuration: Configuration, clock: HybridClock, muted: Callable[[], Collection[str]]
    ) -> None:
        self._local, self._clock, self._muted = local, clock, muted
        self._limit = (configuration.forward_timeout or 0) / 1000
        self._report_path = report_path(configuration)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=10)
        self._http = httpx2.AsyncClient(limits=limits, timeout=None, trust_env=False)
        self._under_way: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def heartbeat(self, effect: e.SendHeartbeat) -> None:
        """Tell a server that this one is alive."""
        self._tell(effect.to, "/heartbeat", encode_heartbeat(self._local, effect.stamp))

    def report(self, effect: e.SendReport) -> None:
        """Tell a server how far this one is."""
        self._tell(effect.to, self._report_path, encode_report(effect.report))

    async def forward(self, effect: e.Forward, op: int | None) -> e.ForwardEnded:
        """Ask a server for partitions; the time-out is the configuration's (pull-queries.md#falls-through)."""
        asked = Asked(STORE.query, effect.query, effect.partitions)
        reader: list[AnswerReader] = []
        failure: Failure | None
        try:
            async with asyncio.timeout(self._limit):
                failure = await self._ask(effect.host, encode_query(asked), op, reader)
        except TimeoutError:
            failure = Failure.TIME_OUT
        answers = tuple(reader[0].answers) if reader else ()
        return e.ForwardEnded(effect.request, effect.host, answers, failure)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await self._http.aclose()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _headers(self, op: int | None = None) -> dict[str, str]:
        known = {} if op is None else {headers.OPERATION: str(op)}
        return {**headers.stamp(self._clock), headers.ASKED_BY: self._local, **known}

    def _tell(self, host: str, path: str, body: bytes) -> None:
        if host not in self._muted() and self._under_way[host] < _MAX_POSTED:
            self._under_way[host] += 1
            task = asyncio.create_task(self._post(host, path, body))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _post(self, host: str, path: str, body: bytes) -> None:
        try:
            async with asyncio.timeout(_TELL_SECONDS):
                answer = await self._http.post(f"http://{host}{path}", content=body, headers=self._headers())
            headers.merge(self._clock, answer.headers)
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, BadRequestError):
            pass  # nobody waits for it (pull-queries.md#heartbeats-to-all, pull-queries.md#lag-formula)
        finally:
            self._under_way[host] -= 1

    async def _ask(self, host: str, body: bytes, op: int | None, found: list[AnswerReader]) -> Failure | None:
        """Read the answer of a host into ``found`` as far as it comes; what failed, if anything did."""
        if host in self._muted():
            await asyncio.sleep(self._limit)
            return Failure.TIME_OUT
        try:
            request = self._http.stream("POST", f"http://{host}/query", content=body, headers=self._headers(op))
            async with request as response:
                headers.merge(self._clock, response.headers)
                reader = AnswerReader(response.status_code)
                found.append(reader)
                return await _read(response, reader)
        except httpx2.ConnectError:
            return Failure.NO_CONNECTION
        except (httpx2.HTTPError, httpx2.InvalidURL, BadRequestError):
            return Failure.BROKEN_STREAM if found else Failure.RESET


async def _read(response: httpx2.Response, reader: AnswerReader) -> Failure | None:
    """Hand the lines of an answer to its reader; one that is too large is a broken stream."""
    rest, size = bytearray(), 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            return Failure.BROKEN_STREAM
        *lines, last = part.split(b"\n")
        for line in lines:
            reader.line(bytes(rest + line))
            rest.clear()
        rest += last
    if rest:
        reader.line(bytes(rest))
    return reader.ended()
