"""What is asked on either port of a server, and how it is answered: paths, status codes, limits.

Servers ask on the internal port, clients on the public one; what is for servers is refused there with 400. Errors are
one line in a body of one form. Source: pull-queries.md#http, pull-queries.md#endpoints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from quorumlog.pull_queries import wire
from quorumlog.pull_queries.core import STORE
from quorumlog.pull_queries.events import Finish, ReportReceived
from quorumlog.pull_queries.server import headers
from quorumlog.pull_queries.server.driver import ServerDriver

MAX_QUERY_BYTES = 1 << 20
MAX_REPORT_BYTES = 1 << 20
MAX_HEARTBEAT_BYTES = 4 << 10
BODY_SECONDS = 5.0
LINGER_SECONDS = 1.0
"""How long what is too large is read, and thrown away, before that is said."""
MAX_QUERIES = 256
"""Queries of clients at once."""
MAX_HOSTS = 512
"""Hosts of which heartbeats and lag reports are kept."""
MAX_STAMPS = 4096
"""Stamps of a host that are kept, besides those of two windows and checks: of one whose clock is far ahead, or that is
not listed."""

_JSON = "application/json"
_LINES = "application/x-ndjson"
_CLOSE = {"connection": "close"}


class Endpoints:
    """The applications of one server; ``muted()`` are hosts that get no answer now, ``closing()`` is whether the
    process is about to end."""

    def __init__(self, driver: ServerDriver, muted: Callable[[], frozenset[str]], closing: Callable[[], bool]) -> None:
        self._driver, self._muted, self._closing = driver, muted, closing
        self._core = driver.core
        self._asked = 0
        self._heard: set[str] = set()
        each = self._core.configuration
        self._stamps = MAX_STAMPS + 2 * (each.heartbeat_window + each.heartbeat_check) // each.heartbeat_send

    def public(self) -> Starlette:
        """The application for clients: queries, and the status of the cluster; 400 for what is for servers."""
        internal = ("/heartbeat", "/reportlag", "/lag")
        routes = [Route(path, self._for_servers, methods=["GET", "POST", "PUT", "DELETE"]) for path in internal]
        routes += [
            Route("/query", self._query, methods=["POST"]),
            Route("/clusterStatus", self._cluster_status, methods=["GET"]),
        ]
        return self._application(routes)

    def internal(self) -> Starlette:
        """The application for other servers: forwarded queries, heartbeats, lag reports."""
        return self._application(
            [
                Route("/query", self._forwarded_query, methods=["POST"]),
                Route("/heartbeat", self._heartbeat, methods=["POST"]),
                Route(wire.report_path(self._core.configuration), self._report, methods=["POST"]),
            ]
        )

    def _application(self, routes: list[Route]) -> Starlette:
        application = Starlette(
            routes=routes,
            exception_handlers={
                HTTPException: self._refused,
                wire.BadRequestError: self._malformed,
                ClientDisconnect: self._gone,
            },
        )
        application.router.redirect_slashes = False  # it would be to whatever the host header says
        return application

    # -- errors --------------------------------------------------------------------------------------------------------

    async def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        said = error.detail
        if error.status_code == 405:
            said = f"{request.url.path} does not take {request.method[:20]}"
        elif error.status_code == 404 and said == "Not Found":
            said = f"there is no {request.url.path[:100]} here"
        return self._error(error.status_code, said, error.headers)

    async def _malformed(self, _: Request, error: Exception) -> Response:
        return self._error(400, str(error))

    async def _gone(self, _: Request, error: Exception) -> Response:
        return self._error(400, "the body ended early", _CLOSE)

    def _error(self, status: int, message: str, more: Mapping[str, str] | None = None) -> Response:
        return self._response(wire.error_body(status, message), status, more=more)

    def _response(
        self, body: bytes, status: int = 200, kind: str = _JSON, more: Mapping[str, str] | None = None
    ) -> Response:
        sent = {**headers.stamp(self._driver.history.clock), **(more or {})}
        return Response(body, status, sent, kind)

    # -- bodies --------------------------------------------------------------------------------------------------------

    async def _body(self, request: Request, most: int) -> bytes:
        """The body, and the sender's clock. Raises HTTPException and BadRequestError."""
        headers.merge(self._driver.history.clock, request.headers)
        announced = request.headers.get("content-length", "0")
        too_large = announced.isdecimal() and int(announced[:19]) > most
        found = bytearray()
        try:
            async with asyncio.timeout(LINGER_SECONDS if too_large else BODY_SECONDS) as limit:
                async for part in request.stream():
                    if too_large:
                        continue  # most clients read the answer only when they have sent all
                    found += part
                    if len(found) > most:
                        too_large = True
                        limit.reschedule(asyncio.get_running_loop().time() + LINGER_SECONDS)
        except TimeoutError:
            if not too_large:
                raise HTTPException(408, f"the body did not come within {BODY_SECONDS:g} s", _CLOSE) from None
        if too_large:
            raise HTTPException(413, f"the body is larger than {most} bytes", _CLOSE)
        return bytes(found)

    # -- the public port -----------------------------------------------------------------------------------------------

    async def _for_servers(self, request: Request) -> Response:
        raise HTTPException(400, f"{request.url.path} is for servers only; they ask on another port")

    async def _cluster_status(self, request: Request) -> Response:
        headers.merge(self._driver.history.clock, request.headers)
        core = self._core
        if not core.configuration.heartbeats:
            raise HTTPException(404, "heartbeats are switched off, so there is no status to show")
        self._driver.shows()
        statuses = core.membership.statuses
        return self._response(wire.cluster_status(statuses, core.records.shown(statuses), core.assignment, STORE))

    async def _query(self, request: Request) -> Response:
        asked = wire.decode_query(await self._body(request, MAX_QUERY_BYTES), forwarded=False)
        self._refuse_other_tables(asked)
        if self._closing():
            raise HTTPException(503, "the server is about to stop", _CLOSE)
        if self._asked >= MAX_QUERIES:
            raise HTTPException(429, f"{MAX_QUERIES} queries are under way; ask again later")
        number, query = self._driver.query(headers.operation(request.headers), asked.query)
        self._asked += 1
        gone = asyncio.ensure_future(request.receive())
        try:
            waiting: tuple[asyncio.Future[Any], ...] = (gone, query.ended)
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not query.ended.done():
                raise ClientDisconnect
            return self._answer(query.ended.result(), [wire.encode_answer(each) for each in query.emitted])
        finally:
            gone.cancel()
            self._asked -= 1
            self._driver.drop(number)

    def _answer(self, finish: Finish, lines: list[bytes]) -> Response:
        """The response to a query that is over: so its clock is later than all that it tells."""
        if finish.message is not None and not lines:
            return self._response(wire.error_body(503, finish.message, finish.attempts), 503)
        last = wire.COMPLETED if finish.message is None else wire.error_line(finish)
        return self._lines([*lines, last])

    def _lines(self, lines: list[bytes]) -> Response:
        return self._response(b"\n".join([wire.HEADER, *lines, b""]), kind=_LINES)

    def _refuse_other_tables(self, asked: wire.Asked) -> None:
        if asked.table != STORE.query:
            raise HTTPException(404, f"there is no table {asked.table[:100]!r}; the table is {STORE.query}")

    # -- the internal port ---------------------------------------------------------------------------------------------

    async def _heartbeat(self, request: Request) -> Response:
        body = await self._body(request, MAX_HEARTBEAT_BYTES)
        if not self._core.configuration.heartbeats:
            raise HTTPException(404, "heartbeats are switched off")
        heartbeat = wire.decode_heartbeat(body)
        self._known(heartbeat.host)
        if self._core.membership.stamps_of(heartbeat.host) >= self._stamps:
            raise HTTPException(429, f"{self._stamps} heartbeats of {heartbeat.host} are kept; this one is lost")
        self._driver.handle(heartbeat)
        return self._response(wire.OK)

    async def _report(self, request: Request) -> Response:
        body = await self._body(request, MAX_REPORT_BYTES)
        if not self._core.configuration.lag_reports:
            raise HTTPException(404, "lag reports are switched off")
        report = wire.decode_report(body).report
        self._known(report.host)
        partitions = range(self._core.configuration.partitions)
        of_here = {each: said for each, said in report.positions.items() if each[0] == STORE and each[1] in partitions}
        self._driver.handle(ReportReceived(report._replace(positions=of_here)))
        return self._response(wire.OK)

    def _known(self, host: str) -> None:
        """Keep what is kept of hosts bounded: nobody can make up more of them than so many."""
        if host not in self._heard and len(self._heard) >= MAX_HOSTS:
            raise HTTPException(429, f"more than {MAX_HOSTS} hosts have been heard of")
        self._heard.add(host)

    async def _forwarded_query(self, request: Request) -> Response:
        asked = wire.decode_query(await self._body(request, MAX_QUERY_BYTES), forwarded=True)
        self._refuse_other_tables(asked)
        host = request.headers.get(headers.ASKED_BY, "")
        if host in self._muted():
            await request.receive()  # until it gives up
            raise ClientDisconnect
        partitions = asked.partitions or ()
        wrong = [each for each in partitions if each >= self._core.configuration.partitions]
        if wrong:
            raise HTTPException(400, f"there is no partition {wrong[0]} - at `$.partitions`")
        if self._closing():
            return self._lines([_gave_up("the server is about to stop")])
        reply = self._driver.forwarded(headers.operation(request.headers), host, asked.query, partitions)
        lines = [wire.encode_answer(each) for each in reply.answers]
        refused = [f"partition {partition}: {reason}" for partition, reason in reply.refused.items()]
        last = _gave_up("; ".join(refused)) if refused else wire.COMPLETED
        return self._lines([*lines, last])


def _gave_up(message: str) -> bytes:
    """The last line of an answer that is not whole (pull-queries.md#falls-through)."""
    return wire.error_line(Finish(0, message))
