"""The driver of a reader alone, with a shard's end of its connections on a real port: whom it hears, and when."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from test_shard_driver import READER, configured, until

from loghistory import HybridClock
from quorumlog.cluster.log_client import Log
from quorumlog.durations import MILLISECOND
from quorumlog.node.connection import Connection
from quorumlog.node.framing import Hello
from quorumlog.node.framing import Role as HelloRole
from quorumlog.node.recording import HistoryFile, find_history, whole_events
from quorumlog.node.supervised import Supervised
from quorumlog.read_path import messages as m
from quorumlog.read_path.configuration import ReaderSettings
from quorumlog.read_path.core import make_core
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.events import MetadataRead
from quorumlog.read_path.internal_log import Activation, Logged, Shown
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.process.calls import MESSAGES, AnyCall, NoteStall, PressMemory, Read, StartReading
from quorumlog.read_path.process.driver import Place
from quorumlog.read_path.process.internal import FORM, LOG, Internal
from quorumlog.read_path.process.port import Session
from quorumlog.read_path.process.readers import ReaderDriver
from quorumlog.read_path.rules import lsn_of
from quorumlog.read_path.stream import LAST_LSN

_KEY = b"01234567"
_FIRST, _LAST = lsn_of(1, 1), lsn_of(1, 9)


class ShardsEnd(asyncio.Protocol):
    """A shard's end of a connection, which says what it is told to, and when."""

    def __init__(self, all_of_them: list[ShardsEnd]) -> None:
        self._all_of_them, self.closed = all_of_them, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A reader has connected: from now on this end can speak."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._all_of_them.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self.closed = True

    def hang_up(self) -> None:
        """End the connection."""
        self._transport.close()

    def say(self, *messages: m.Message, hello: bool = False, shard: int = 0, ahead: int = 0) -> None:
        """Send these in one piece, with a clock that is so many nanoseconds ahead."""
        said = Hello(HelloRole.NODE, shard, _KEY).encode() if hello else b""
        time, logical = HybridClock().tick()
        self._transport.write(said + MESSAGES.encode((time + ahead, logical), [*messages]))


class Names(ThreadPoolExecutor):
    """Who looks up names of hosts, one after the other, and only when he may."""

    def __init__(self) -> None:
        super().__init__(1)
        self.may_be_found, self.asked = threading.Event(), -1
        self.submit(self.may_be_found.wait)

    def submit(self, *args: Any, **named: Any) -> Future[Any]:  # noqa: ANN401
        """Count who asks."""
        self.asked += 1
        return super().submit(*args, **named)


class Reading:
    """A reader, and the connections to shard 0 in the order in which it made them."""

    def __init__(self, directory: Path, port: int, settings: ReaderSettings) -> None:
        addresses = {**configured().addresses, 0: f"localhost:{port}"}
        self.configuration = replace(configured(), node=READER, addresses=addresses, reader=settings)
        self._file = directory / "node-2.jsonl"
        clock = HybridClock()
        place = Place(
            configuration=self.configuration,
            incarnation=0,
            cluster_key=_KEY,
            history=HistoryFile(self._file, clock, {"node": READER, "incarnation": 0}),
            make_core=make_core,
            peers={},
            process=Supervised("reader", None),
            failed=lambda why: None,
        )
        self.driver = ReaderDriver(place)
        log = Log(LOG, FORM, self.configuration.internal, clock, 1)
        self.driver.internal = Internal(log, (0,), 1, 1, self.driver)
        self.driver.begin()

    def start(self, stream: int) -> None:
        """A client begins a stream in place of any other."""
        self.ask(StartReading(1, stream, _FIRST, _LAST))

    def ask(self, call: AnyCall) -> None:
        """A client asks."""
        self.driver.asked(call, Session(Connection(Hello(HelloRole.CLIENT, -1, _KEY)), HybridClock()))

    def learn(self) -> None:
        """The metadata log says that all epochs are on shard 0."""
        self.driver.handle(MetadataRead(1, since=1, until=100, last=False, nodeset=self.nodeset))

    @property
    def nodeset(self) -> Nodeset:
        """Shard 0, of which one is enough."""
        return Nodeset({"NODE": 1}, self.configuration.locations)

    def written(self, kind: str) -> list[Any]:
        """The events of a kind that are in the history file."""
        found = find_history(self._file)
        return [] if found is None else [event for event in whole_events(found) if event.kind == kind]


def play(
    tmp_path: Path,
    body: Callable[[Reading, list[ShardsEnd]], Coroutine[Any, Any, None]],
    settings: ReaderSettings,
) -> None:
    """Do this with a reader whose shard listens."""

    async def whole() -> None:
        ends: list[ShardsEnd] = []
        server = await asyncio.get_running_loop().create_server(lambda: ShardsEnd(ends), "127.0.0.1", 0)
        reading = Reading(tmp_path, server.sockets[0].getsockname()[1], settings)
        try:
            await body(reading, ends)
        finally:
            await reading.driver.close()
            server.close()

    asyncio.run(asyncio.wait_for(whole(), 20))


def test_a_connection_that_was_replaced_is_not_heard(tmp_path: Path) -> None:
    """The name of the shard's host is not found in time for the first one, which opens when it was replaced; it says
    that nothing is there in one piece with its hello, when the other one is open."""

    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        names = Names()
        asyncio.get_running_loop().set_default_executor(names)
        reading.start(1)
        reading.learn()
        await until(lambda: names.asked == 2)
        names.may_be_found.set()
        await until(lambda: len(ends) == 2)
        old, new = ends
        new.say(m.Started(1, 0, 1, m.Answer.OK), hello=True)
        await until(lambda: reading.written("stream_started"))
        old.say(m.ShardGap(1, 0, m.GapKind.NO_RECORDS, _FIRST, _LAST), hello=True)
        await until(lambda: old.closed)
        new.say(m.ShardGap(1, 0, m.GapKind.NO_RECORDS, _FIRST, _FIRST + 1))
        await until(lambda: reading.written("stream_heard"))
        assert [(event.last_offset, event.filter) for event in reading.written("stream_heard")] == [(_FIRST + 1, 1)]
        assert [end.closed for end in ends] == [True, False]

    play(tmp_path, body, ReaderSettings(single_copy=False, started=600 * MILLISECOND))


def test_a_shard_whose_connection_ends_is_called_again(tmp_path: Path) -> None:
    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        reading.start(1)
        reading.learn()
        await until(lambda: ends)
        ends[0].say(m.Started(1, 0, 1, m.Answer.OK), hello=True)
        await until(lambda: reading.written("stream_started"))
        ends[0].hang_up()
        await until(lambda: len(ends) == 2)
        assert reading.written("stream_closed")

    play(tmp_path, body, ReaderSettings())


def test_a_connection_on_which_no_start_is_answered_is_closed_for_another_one(tmp_path: Path) -> None:
    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        reading.start(1)
        reading.learn()
        await until(lambda: ends)
        ends[0].say(hello=True)
        await until(lambda: reading.written("stream_start"))
        await until(lambda: len(ends) > 1 and ends[0].closed)

    play(tmp_path, body, ReaderSettings(single_copy=False, started=50 * MILLISECOND))


def test_only_the_shard_that_was_called_is_heard(tmp_path: Path) -> None:
    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        reading.start(1)
        reading.learn()
        await until(lambda: ends)
        ends[0].say(m.Started(1, 0, 1, m.Answer.OK), hello=True, shard=1)
        await until(lambda: ends[0].closed)
        assert ends[0].closed
        assert reading.written("stream_started") == []

    play(tmp_path, body, ReaderSettings())


def test_what_was_heard_is_recorded_later_than_it_was_said(tmp_path: Path) -> None:
    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        reading.start(1)
        reading.learn()
        await until(lambda: ends)
        said = HybridClock().tick()[0] + 300 * MILLISECOND
        ends[0].say(m.Started(1, 0, 1, m.Answer.OK), hello=True, ahead=300 * MILLISECOND)
        await until(lambda: reading.written("stream_started"))
        assert reading.written("stream_started")[0].time >= said

    play(tmp_path, body, ReaderSettings())


class Client:
    """The answers to a client."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def hand_over(self, answers: Sequence[Any]) -> None:
        """Note them."""
        self.answers += answers


def test_a_client_takes_what_is_ready_of_its_own_stream_before_it_hears_of_the_end(tmp_path: Path) -> None:
    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        client = Client()
        for call in (StartReading(1, 5, _FIRST, _FIRST), Read(2, 4, 9)):
            reading.driver.asked(call, client)  # type: ignore[arg-type]
        reading.learn()
        await until(lambda: ends)
        gap = m.ShardGap(5, 0, m.GapKind.NO_RECORDS, _FIRST, _LAST)
        ends[0].say(m.Started(5, 0, 1, m.Answer.OK), gap, hello=True)
        await until(lambda: reading.driver.core is not None and reading.driver.core.ended)
        for call in (Read(3, 5, 9), Read(4, 5, 9)):
            reading.driver.asked(call, client)  # type: ignore[arg-type]
        await until(lambda: len(client.answers) == 4)
        assert [(each.id, each.gap is not None, each.ended) for each in client.answers] == [
            *((1, False, False), (2, False, True), (3, True, False), (4, False, True))
        ]

    play(tmp_path, body, ReaderSettings(single_copy=False))


def test_the_timers_of_a_stream_end_with_it(tmp_path: Path) -> None:
    """A rewind was due in the stream before: the next one, which has asked nobody yet, does not rewind."""

    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        reading.start(1)
        reading.learn()
        await until(lambda: ends)
        ends[0].say(m.Started(1, 0, 1, m.Answer.REBUILDING), hello=True)
        await until(lambda: reading.written("stream_rewind"))
        reading.start(2)
        await asyncio.sleep(0.4)
        assert [(event.op, event.f) for event in reading.written("stream_rewind")] == [(1, "due")]

    play(tmp_path, body, ReaderSettings(rewind=200 * MILLISECOND))


def test_what_is_held_of_the_log_counts_once_it_was_read_anew(tmp_path: Path) -> None:
    """Nobody keeps the log now: what a reader asks about may be older in what is held than what others have heard."""

    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        held = reading.driver.internal.held
        assert held.fold(Activation(1, 1, 1, reading.nodeset))
        assert held.fold(Shown(1, 2, 1))
        reading.start(1)
        await asyncio.sleep(0.2)
        assert ends == []
        reading.learn()
        await until(lambda: ends)
        assert held.fold(Logged(1, 3, LogRecord(Word.DRAIN, 0)))
        ends[0].say(m.Started(1, 0, 1, m.Answer.REBUILDING), hello=True)
        await until(lambda: [event for event in reading.written("stream_rewind") if event.f == "done"])
        await asyncio.sleep(0.1)
        assert {event.version for event in reading.written("stream_statuses")} == {0}

    play(tmp_path, body, ReaderSettings())


def test_memory_is_short_for_a_stream_and_those_that_follow_until_it_is_no_more(tmp_path: Path) -> None:
    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        short = []
        for call in (True, StartReading(1, 1, _FIRST, _LAST), StartReading(1, 2, _FIRST, _LAST), False, True):
            reading.ask(PressMemory(1, call) if isinstance(call, bool) else call)
            short.append(reading.driver.core is not None and reading.driver.core._pressed)
        assert short == [False, True, True, False, True]

    play(tmp_path, body, ReaderSettings())


def test_a_reader_that_has_heard_of_nothing_more_does_not_stall(tmp_path: Path) -> None:
    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        reading.start(1)
        reading.ask(NoteStall(2, 1, LAST_LSN))
        await asyncio.sleep(0.05)
        assert reading.written("stream_stall") == []
        reading.ask(NoteStall(3, 1, _LAST))
        await until(lambda: reading.written("stream_stall"))
        assert [event.offset for event in reading.written("stream_stall")] == [_FIRST]

    play(tmp_path, body, ReaderSettings())


def test_over_a_link_that_is_cut_nobody_is_called(tmp_path: Path) -> None:
    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        reading.driver.place.process.muted = frozenset([0])
        reading.start(1)
        reading.learn()
        await asyncio.sleep(0.2)
        assert ends == []

    play(tmp_path, body, ReaderSettings())


def test_a_reader_has_a_region_and_an_order_of_copysets_of_its_own(tmp_path: Path) -> None:
    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        made = list[dict[str, Any]]()
        regions = {shard: (region, "C", "W", "K", f"N{shard}") for shard, region in enumerate("ABC")}
        configuration = replace(reading.configuration, locations=regions)

        def seen(*args: Any, **named: Any) -> Any:  # noqa: ANN401
            made.append(named)
            return make_core(*args, **named)

        driver = ReaderDriver(dataclasses.replace(reading.driver.place, configuration=configuration, make_core=seen))
        driver.internal = reading.driver.internal
        driver.asked(StartReading(1, 1, _FIRST, _LAST), Client())  # type: ignore[arg-type]
        assert made == [{"seed": READER, "region": "ABC"[READER % 3]}]
        await driver.close()

    play(tmp_path, body, ReaderSettings())


def test_what_is_said_to_another_stream_is_not_recorded_as_heard(tmp_path: Path) -> None:
    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        reading.start(2)
        reading.learn()
        await until(lambda: ends)
        ends[0].say(m.Started(1, 0, 1, m.Answer.OK), m.Started(2, 0, 1, m.Answer.OK), hello=True)
        await until(lambda: reading.written("stream_started"))
        assert [event.op for event in reading.written("stream_started")] == [2]

    play(tmp_path, body, ReaderSettings())


def test_a_shard_of_another_cluster_is_not_heard(tmp_path: Path) -> None:
    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        reading.start(1)
        reading.learn()
        await until(lambda: ends)
        hello = Hello(HelloRole.NODE, 0, b"76543210").encode()
        ends[0]._transport.write(hello + MESSAGES.encode(HybridClock().tick(), [m.Started(1, 0, 1, m.Answer.OK)]))
        await until(lambda: ends[0].closed)
        assert ends[0].closed
        assert reading.written("stream_started") == []

    play(tmp_path, body, ReaderSettings())


def test_the_questions_of_a_stream_end_with_it(tmp_path: Path) -> None:
    async def body(reading: Reading, ends: list[ShardsEnd]) -> None:
        reading.start(1)
        (asking,) = reading.driver._asking
        reading.start(2)
        await until(lambda: asking.done())
        assert asking.cancelled()

    play(tmp_path, body, ReaderSettings())
