"""A client of servers of pull queries over HTTP: queries and /clusterStatus, and what a client tells apart of errors.

async with ServerClient(HybridClock()) as client:
    reply = await client.query("127.0.0.1:8080", Query(keys=("k1",)))
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Self

import httpx2
import msgspec

from loghistory import HybridClock
from quorumlog.pull_queries.core import STORE
from quorumlog.pull_queries.events import Answer, Query
from quorumlog.pull_queries.server import headers
from quorumlog.pull_queries.wire import AnswerReader, Asked, BadRequestError, encode_query


class Reply(NamedTuple):
    """What a server said: the HTTP status, the partitions that came, and the message of what failed, if anything."""

    status: int
    answers: tuple[Answer, ...]
    message: str | None


class RefusedError(Exception):
    """Nobody listens there: nothing was asked."""


class LostError(Exception):
    """No answer, or not the whole of one."""


class ServerClient:
    """See the module. ``timeout`` in seconds is for a whole answer."""

    def __init__(self, clock: HybridClock, timeout: float = 2.0) -> None:
        self._clock, self._timeout = clock, timeout
        self._http = httpx2.AsyncClient(timeout=None, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    async def query(self, place: str, query: Query, operation: int | None = None) -> Reply:
        """Ask the server whose public port is at ``place``; it records what it does for an ``operation``.

        Raises `RefusedError` and `LostError`.
        """
        known = {} if operation is None else {headers.OPERATION: str(operation)}
        answer = await self._ask("POST", f"http://{place}/query", encode_query(Asked(STORE.query, query)), known)
        reader = AnswerReader(answer.status_code)
        for line in answer.content.splitlines():
            reader.line(line)
        failed = reader.ended() is not None
        return Reply(answer.status_code, tuple(reader.answers), _message(answer.content) if failed else None)

    async def cluster_status(self, place: str) -> dict[str, Any] | None:
        """What a server says of each host; None if heartbeats are switched off. Raises `RefusedError`, `LostError`."""
        answer = await self._ask("GET", f"http://{place}/clusterStatus", b"", {})
        if answer.status_code != 200:
            return None
        found: dict[str, Any] = msgspec.json.decode(answer.content)["clusterStatus"]
        return found

    async def _ask(self, method: str, url: str, body: bytes, more: dict[str, str]) -> httpx2.Response:
        try:
            async with asyncio.timeout(self._timeout):
                sent = {**headers.stamp(self._clock), **more}
                answer = await self._http.request(method, url, content=body, headers=sent)
            headers.merge(self._clock, answer.headers)
        except httpx2.ConnectError as error:
            raise RefusedError(str(error)) from None
        except TimeoutError:
            raise LostError("timeout") from None
        except (httpx2.HTTPError, BadRequestError) as error:
            raise LostError(f"connection lost: {error}") from None
        return answer


def _message(body: bytes) -> str:
    """What the last line says that went wrong."""
    try:
        said: Any = msgspec.json.decode(body.splitlines()[-1])
        return str(said.get("errorMessage", said)["message"])
    except (msgspec.MsgspecError, IndexError, KeyError, AttributeError, TypeError):
        return "the answer is not whole"
