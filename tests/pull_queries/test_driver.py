"""The driver of a server in a process: what it hands to its core, and on to others. With its mutants, beside it."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec
import pytest
from real_servers import until

from loghistory import HybridClock
from quorumlog.cluster.groups import Groups
from quorumlog.cluster.log_client import Log, LogPlace, UnreachableError
from quorumlog.events import Event, TimerFired
from quorumlog.node.recording import History, NoHistory, begin_history
from quorumlog.pull_queries import events as e
from quorumlog.pull_queries.assignment import Assignment, Placement
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.core import STORE, ServerCore
from quorumlog.pull_queries.records import ASSIGNMENTS, form_of
from quorumlog.pull_queries.server import http
from quorumlog.pull_queries.server.driver import ServerDriver, clocks
from quorumlog.pull_queries.server.http import Endpoints
from quorumlog.pull_queries.server.peers import Peers
from quorumlog.pull_queries.wire import AnswerReader

A, B = "a:1", "127.0.0.1:1"
ASSIGNED = tuple(
    Assignment(epoch, members, tuple(Placement(host) for host in (A, members[-1])))
    for epoch, members in ((1, (A,)), (2, (A, B)))
)
"""By the last one, a:1 keeps the first of two partitions; the other is at a port where nobody listens."""


class AssignmentsSkipped(ServerDriver):
    """assignments-skipped: of several assignments that are read at once, the last one alone is folded."""

    async def _look(self, log: Log, start: int) -> tuple[int, list[tuple[int, Any]]]:
        visible, found = await super()._look(log, start)
        return visible, found[-1:]


class Piecemeal(ServerDriver):
    """Notes what of a source it hands to its core; a log gives it one record at a time."""

    handed: tuple[Any, ...] = ()

    async def _look(self, log: Log, start: int) -> tuple[int, list[tuple[int, Any]]]:
        visible, found = await super()._look(log, start)
        return visible, found[:1]

    def handle(self, event: Event) -> None:
        if isinstance(event, e.SourceRead):
            self.handed += event.entries
        super().handle(event)


class AnswersDropped(ServerDriver):
    """answers-dropped: a reply in which a partition is given up leaves the answers for the others out."""

    def forwarded(self, op: int | None, host: str, query: e.Query, partitions: tuple[int, ...]) -> e.Reply:
        reply = super().forwarded(op, host, query, partitions)
        return msgspec.structs.replace(reply, answers=()) if reply.refused else reply


Driver = TypeVar("Driver", bound=ServerDriver)


def driver(
    kind: type[Driver],
    logs: dict[str, Log],
    errors: list[Any],
    history: History | None = None,
    **given: Any,  # noqa: ANN401
) -> Driver:
    """The driver of a:1, which records nothing unless it is told where; what fails is put into ``errors``."""
    configuration, history = Configuration(partitions=2, **given), history or NoHistory(HybridClock())
    core = ServerCore(A, configuration, clocks())
    peers = Peers(A, configuration, history.clock, frozenset)
    return kind(core, history, {A: 0, B: 1}, peers, logs, 50, 1 << 20, errors.append, errors.append)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "epoch"), [(ServerDriver, 2), (AssignmentsSkipped, 0)])
def test_every_assignment_is_folded_though_several_are_read_at_once(
    kind: type[ServerDriver], epoch: int, tmp_path: Path
) -> None:
    async def body() -> None:
        async with Groups(tmp_path, [ASSIGNMENTS], 1, 1) as groups:
            log = Log(ASSIGNMENTS, form_of(ASSIGNMENTS), groups.places[ASSIGNMENTS], HybridClock())
            for each in ASSIGNED:
                await until(lambda each=each: appended(log, each), "the group has a leader")
            made = driver(kind, {ASSIGNMENTS: log}, [])
            assignments, *others = made.doings()
            for other in others:
                other.close()
            following = asyncio.create_task(assignments)
            read = asyncio.create_task(until(lambda: folded(made, epoch), "what is read is folded", 10))
            await asyncio.wait((following, read), return_when=asyncio.FIRST_COMPLETED)
            await read
            await asyncio.sleep(0.3)
            assert made.core.assignment.epoch == epoch
            following.cancel()
            made.close()

    asyncio.run(body())


@pytest.mark.slow
def test_a_source_is_read_until_all_is_there_that_is_asked_for(tmp_path: Path) -> None:
    async def body() -> None:
        async with Groups(tmp_path, ["s0"], 1, 1) as groups:
            log = Log("s0", form_of("s0"), groups.places["s0"], HybridClock())
            await until(lambda: appended(log, ("k", 1)), "the group has a leader")
            await log.append([("k", 2)])
            made = driver(Piecemeal, {"s0": log}, [])
            first, end = 0, (await log.read_index()) + 1
            reading = asyncio.create_task(made._read_source(0))
            made._reads[0].put_nowait(e.ReadSource(0, first, end))
            await until(lambda: handed(made), "what was read is handed over", 10)
            assert len(made.handed) == end - first
            assert [each for each in made.handed if each is not None] == [("k", 1), ("k", 2)]
            reading.cancel()
            made.close()

    asyncio.run(body())


async def handed(made: Piecemeal) -> bool:
    return bool(made.handed)


async def appended(log: Log, record: Any) -> bool:  # noqa: ANN401
    try:
        await log.append([record])
    except UnreachableError:
        return False
    return True


async def folded(made: ServerDriver, epoch: int) -> bool:
    return made.core.assignment.epoch == epoch


@pytest.mark.parametrize(("kind", "answered"), [(ServerDriver, [0]), (AnswersDropped, [])])
def test_what_a_server_may_answer_is_answered_beside_what_it_gives_up(
    kind: type[ServerDriver], answered: list[int]
) -> None:
    async def body() -> None:
        made = driver(kind, {}, [])
        for each in ASSIGNED:
            made.handle(e.AssignmentRead(each))
        application = Endpoints(made, frozenset, lambda: False).internal()
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(application), base_url=f"http://{A}") as client:
            answer = await client.post("/query", json={"table": "T", "partitions": [0, 1]})
        reader = AnswerReader(answer.status_code)
        for line in answer.content.splitlines():
            reader.line(line)
        assert [each.partition for each in reader.answers] == answered
        failure = reader.ended()
        assert failure is not None
        assert failure.value == "error line"
        assert "partition 1: Host does not hold this partition." in answer.text
        made.close()

    asyncio.run(body())


@pytest.mark.parametrize("gone", [False, True])
def test_what_is_asked_for_a_client_that_is_gone_comes_to_nothing(gone: bool) -> None:
    async def body() -> None:
        errors: list[Any] = []
        made = driver(ServerDriver, {}, errors, mode="shipped")
        for each in ASSIGNED:
            made.handle(e.AssignmentRead(each))
        request, asked = made.query(None, e.Query())
        forwarded = set(asyncio.all_tasks()) - {asyncio.current_task()}
        if gone:
            made.drop(request)
        await asyncio.wait(forwarded)
        assert [task.cancelled() for task in forwarded] == [gone]
        assert asked.ended.done() is not gone
        assert not made.core._queries
        assert errors == []
        made.close()

    asyncio.run(body())


def test_what_is_kept_of_a_host_is_bounded() -> None:
    """Of one that is not listed, or whose clock is far ahead, and of one that reports what there is not."""

    async def body() -> None:
        made = driver(ServerDriver, {}, [], heartbeat_check=1000, heartbeat_window=1000)
        endpoints = Endpoints(made, frozenset, lambda: False)
        transport = httpx2.ASGITransport(app=endpoints.internal())
        most = http.MAX_STAMPS + 40
        async with httpx2.AsyncClient(transport=transport, base_url="http://a") as peer:
            for stamp in range(most + 1):
                if stamp > most - 3:
                    beat = {"hostInfo": B, "timestamp": stamp}
                    answer = await peer.post("/heartbeat", json=beat)
                    assert answer.status_code == (200 if stamp < most else 429)
                else:
                    made.core.handle(clocks(), e.HeartbeatReceived(B, stamp))
            assert made.core.membership.stamps_of(B) == most
            assert (await peer.post("/heartbeat", json={"hostInfo": A, "timestamp": 0})).status_code == 200
            made.core.handle(clocks(), e.AssignmentRead(ASSIGNED[0]))
            made.core.handle(clocks(), e.AssignmentRead(ASSIGNED[1]))
            for timer in ("discover", "check"):
                made.core.handle(clocks(), TimerFired(timer))
            assert (await peer.post("/heartbeat", json={"hostInfo": B, "timestamp": 0})).status_code == 200
            lags = {str(number): {"currentOffsetPosition": 1, "endOffsetPosition": 2} for number in range(9)}
            said = {"stateStoreLags": {"T#store": {"lagByPartition": lags}, "U#store": {"lagByPartition": lags}}}
            report = {"ksqlHost": B, "hostStoreLags": {**said, "updateTimeMs": 1}}
            assert (await peer.post("/reportlag", json=report)).status_code == 200
        kept = made.core.records.reports[B].positions
        assert [*kept] == [(STORE, 0), (STORE, 1)]
        made.close()

    asyncio.run(body())


def test_timers_go_at_a_fixed_rate_though_one_fires_late() -> None:
    async def body() -> None:
        made = driver(ServerDriver, {}, [])
        loop = asyncio.get_running_loop()
        due = loop.time() - 0.5
        made._fire("report", due)
        assert made._timers["report"].when() == pytest.approx(due + 5)
        made._fire("report", due - 9)
        assert made._timers["report"].when() <= loop.time()
        made.close()

    asyncio.run(body())


def test_an_append_that_fails_is_done_again() -> None:
    """Nobody listens where the changelog should be."""

    async def body() -> None:
        log = Log("c0", form_of("c0"), LogPlace("nobody", {0: B}), HybridClock())
        made = driver(ServerDriver, {"c0": log}, [])
        made.handle(e.AssignmentRead(ASSIGNED[0]))
        doings = made.doings()
        appending = asyncio.create_task(doings.pop(3))
        for each in doings:
            each.close()
        for _ in range(2):
            await until(lambda: waits_to_feed(made), "an append has failed", 10)
            made._fire("feed", asyncio.get_running_loop().time())
            made._timers.pop("feed").cancel()
        appending.cancel()
        made.close()

    asyncio.run(body())


async def waits_to_feed(made: ServerDriver) -> bool:
    return "feed" in made._timers


@pytest.mark.parametrize("closing", [False, True])
def test_what_was_answered_is_told_though_the_query_fails_and_nothing_is_once_the_server_is_about_to_stop(
    closing: bool,
) -> None:
    async def body() -> list[httpx2.Response]:
        made = driver(ServerDriver, {}, [], mode="shipped", standby_reads=True)
        for each in ASSIGNED:
            made.handle(e.AssignmentRead(each))
        endpoints, found = Endpoints(made, frozenset, lambda: closing), []
        for application, more in ((endpoints.public(), {}), (endpoints.internal(), {"partitions": [0]})):
            transport = httpx2.ASGITransport(application)
            async with httpx2.AsyncClient(transport=transport, base_url=f"http://{A}") as client:
                found.append(await client.post("/query", json={"table": "T", **more}))
        made.close()
        return found

    asked, forwarded = asyncio.run(body())
    lines, of_server = ([json.loads(line) for line in each.text.splitlines()] for each in (asked, forwarded))
    if closing:
        assert (asked.status_code, asked.headers["connection"]) == (503, "close")
        assert lines[0]["message"] == of_server[1]["errorMessage"]["message"] == "the server is about to stop"
    else:
        assert asked.status_code == 200
        assert lines[1]["partition"] == of_server[1]["partition"] == 0
        assert lines[2]["errorMessage"]["attempts"] == [[0, A, "answered"], [1, B, "no connection"]]
        assert of_server[2] == {"finalMessage": "Query Completed"}


def test_what_happens_is_written_before_anything_follows_from_it(tmp_path: Path) -> None:
    def kinds() -> list[str]:
        (file,) = tmp_path.iterdir()
        events = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        return [each["kind"] for each in events if "kind" in each]

    async def body() -> None:
        made = driver(ServerDriver, {}, [], begin_history(tmp_path, 0, 1))
        made.start()
        for timer in made._timers.values():
            timer.cancel()  # else more happens on a slow machine
        assert kinds() == ["history", "serve"]
        made.handle(e.HeartbeatReceived(B, 5))
        assert kinds()[2:] == ["heard"]
        endpoints = Endpoints(made, frozenset, lambda: False)
        asked = {"json": {"table": "T"}, "headers": {"operation": "5", "asked-by": B}}
        for application, method, path, then in (
            (endpoints.public(), "GET", "/clusterStatus", ["shown"]),
            (endpoints.public(), "POST", "/query", ["route", "finish"]),
            (endpoints.internal(), "POST", "/query", ["forwarded", "give_up"]),
        ):
            known = len(kinds())
            if then[0] == "forwarded":
                asked["json"]["partitions"] = [0]
            transport = httpx2.ASGITransport(application)
            async with httpx2.AsyncClient(transport=transport, base_url=f"http://{A}") as client:
                await client.request(method, path, **(asked if method == "POST" else {}))
            assert kinds()[known:] == then
        made.close()

    asyncio.run(body())


def test_queries_at_once_are_limited_and_each_that_is_over_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host that has to answer accepts connections, and says nothing until it is given up."""
    monkeypatch.setattr(http, "MAX_QUERIES", 2)

    async def body(silent: str) -> list[tuple[int, str]]:
        made = driver(ServerDriver, {}, [], mode="shipped", forward_timeout=500)
        made.handle(e.AssignmentRead(Assignment(1, (A, silent), (Placement(silent), Placement(silent)))))
        transport = httpx2.ASGITransport(Endpoints(made, frozenset, lambda: False).public())
        async with httpx2.AsyncClient(transport=transport, base_url=f"http://{A}") as client:

            async def ask() -> tuple[int, str]:
                answer = await client.post("/query", json={"table": "T"})
                return answer.status_code, answer.json()["message"]

            found = [*await asyncio.gather(*(ask() for _ in range(3))), await ask()]
        made.close()
        return found

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        host, port = silent.getsockname()
        found = asyncio.run(asyncio.wait_for(body(f"{host}:{port}"), 20))
    assert [status for status, _ in found] == [503, 503, 429, 503]
    assert found[2][1] == "2 queries are under way; ask again later"


@pytest.mark.parametrize("muted", [False, True])
def test_a_host_that_is_cut_off_gets_no_answer(muted: bool) -> None:
    async def body() -> bool:
        made = driver(ServerDriver, {}, [])
        made.handle(e.AssignmentRead(ASSIGNED[0]))
        transport = httpx2.ASGITransport(Endpoints(made, lambda: frozenset({B} if muted else ()), bool).internal())
        async with httpx2.AsyncClient(transport=transport, base_url=f"http://{A}") as peer:
            asked = peer.post("/query", json={"table": "T", "partitions": [0]}, headers={"asked-by": B})
            try:
                await asyncio.wait_for(asked, 0.3 if muted else 20)
            except TimeoutError:
                return False
            finally:
                made.close()
        return True

    assert asyncio.run(body()) is not muted
