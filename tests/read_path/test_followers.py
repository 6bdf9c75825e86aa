"""Who follows the log of epochs, metadata and events, and a port with readers: without the processes around them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from test_shard_driver import READER, SEQUENCER, configured, until

from loghistory import HybridClock
from quorumlog.cluster.log_client import Log, UnreachableError
from quorumlog.node.connection import Connection
from quorumlog.node.framing import Hello
from quorumlog.node.framing import Role as HelloRole
from quorumlog.node.recording import HistoryFile, NoHistory
from quorumlog.node.supervised import Supervised
from quorumlog.read_path import events as e
from quorumlog.read_path.core import make_core
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.internal_log import Activation, CleanEpoch, Logged
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.process.calls import CALLS, AppendRecord, AskState, TrimLog
from quorumlog.read_path.process.driver import Place
from quorumlog.read_path.process.internal import FORM, LOG, Internal
from quorumlog.read_path.process.port import MAX_OPEN_CALLS, Port
from quorumlog.read_path.process.sequencers import SequencerDriver

_KEY = b"01234567"


class OneByOne(Log):
    """The log of a group, in this process; it is read a record at a time, and an append ends a turn of the loop later.

    ``kept`` is what several of them share.
    """

    def __init__(self, kept: list[Any]) -> None:
        super().__init__(LOG, FORM, configured().internal, HybridClock(), 1)
        self.kept = kept

    async def read(self, start: int, most: int) -> tuple[int, list[tuple[int, Any]]]:
        """The next record, if there is one."""
        await asyncio.sleep(0)
        return len(self.kept) - 1, [(start, self.kept[start])] if start < len(self.kept) else []

    async def read_index(self) -> int:
        """The offset of the last record."""
        await asyncio.sleep(0)
        return len(self.kept) - 1

    async def append(self, records: Sequence[Any]) -> int:
        """Append records; the first offset."""
        await asyncio.sleep(0)
        self.kept.extend(records)
        return len(self.kept) - len(records)


class Heard:
    """Whoever is told: of records, of messages, of the connections of readers."""

    readers = frozenset({READER})

    def __init__(self) -> None:
        self.history = NoHistory(HybridClock())
        self.told: list[Any] = []

    def followed(self, record: Any, counted: bool) -> None:  # noqa: ANN401
        self.told.append(record)

    def caught_up(self) -> None:
        """See `quorumlog.read_path.process.internal.Follower`."""

    def hand_over(self, messages: Sequence[Any]) -> None:
        self.told += messages

    def opened(self, reader: int, connection: Connection) -> None:
        self.told.append("opened")

    def gone(self, reader: int) -> None:
        self.told.append("gone")


def played(body: Callable[[], Awaitable[None]]) -> None:
    async def play() -> None:
        async with asyncio.timeout(20):
            await body()

    asyncio.run(play())


def test_who_catches_up_has_the_last_record_too() -> None:
    async def body() -> None:
        kept = [Logged(1, number, LogRecord(Word.REBUILD, 0)) for number in (1, 2, 3)]
        heard = Heard()
        await Internal(OneByOne([*kept]), (0,), 2, 1, heard).catch_up()
        assert heard.told == kept

    played(body)


def sequencer_of(directory: Path, by: int, kept: list[Any]) -> SequencerDriver:
    """A sequencer, which follows this log and appends to it by this name."""
    driver = SequencerDriver(
        Place(
            configuration=replace(configured(), node=SEQUENCER),
            incarnation=by,
            cluster_key=_KEY,
            history=HistoryFile(directory / f"{by}.jsonl", HybridClock(), {"node": by, "incarnation": 0}),
            make_core=make_core,
            peers={0: Heard()},
            process=Supervised("sequencer", None),
            failed=lambda why: None,
        )
    )
    driver.internal = Internal(OneByOne(kept), (0,), by, 1, driver)
    driver.begin()
    return driver


def test_a_sequencer_that_was_overtaken_tries_the_next_epoch(tmp_path: Path) -> None:
    kept: list[Any] = []

    async def body() -> None:
        both = [sequencer_of(tmp_path, by, kept) for by in (1, 2)]
        for driver in both:
            driver.handle(e.AppendAsked(1, bytes(8)))
        writing = [asyncio.create_task(driver.internal.write()) for driver in both]
        await until(lambda: all(driver.core.epoch for driver in both))
        assert {driver.core.epoch for driver in both} == {1, 2}
        for driver, task in zip(both, writing, strict=True):
            task.cancel()
            await driver.close()

    played(body)


@pytest.mark.parametrize("first", [1, 0])
def test_an_activation_that_is_there_twice_activates_once(first: int, tmp_path: Path) -> None:
    """Nobody had heard of the first, so it was appended again; whether it counted, or another one came before it."""
    kept: list[Any] = []

    async def body() -> None:
        driver = sequencer_of(tmp_path, 1, kept)
        if not first:
            kept.append(Activation(7, 1, 1, Nodeset({"NODE": 1}, driver.configuration.locations)))
        driver.handle(e.AppendAsked(1, bytes(8)))
        writing = asyncio.create_task(driver.internal.write())
        await until(lambda: any(record.by == 1 for record in kept))
        kept.append(next(record for record in kept if record.by == 1))
        await until(lambda: bool(driver.core.epoch))
        await driver.internal.catch_up()
        await asyncio.sleep(0.02)
        await driver.internal.catch_up()
        assert driver.core.epoch == driver.internal.held.epoch == 2 - first
        writing.cancel()
        await driver.close()

    played(body)


def test_a_sequencer_knows_of_its_epochs_when_they_are_in_the_log(tmp_path: Path) -> None:
    """That its epoch is shown, and that those before it are clean; what others show is not its own."""
    kept: list[Any] = []
    events: list[tuple[Any, list[str]]] = []

    async def body() -> None:
        driver = sequencer_of(tmp_path, 1, kept)
        handle = driver.core.handle

        def seen(now: int, event: Any) -> Any:  # noqa: ANN401
            events.append((event, [type(record).__name__ for record in kept]))
            return handle(now, event)

        driver.core.handle = seen  # type: ignore[method-assign]
        driver.handle(e.AppendAsked(1, bytes(8)))
        writing = asyncio.create_task(driver.internal.write())
        await until(lambda: "Shown" in [type(record).__name__ for record in kept])
        driver._perform[e.SetClean](e.SetClean(1))
        await until(lambda: any(isinstance(event, e.CleanSet) for event, _ in events))
        writing.cancel()
        await driver.close()

    played(body)
    known = {type(event): there for event, there in reversed(events)}
    assert "Shown" in known[e.MetadataWritten]
    assert "CleanEpoch" in known[e.CleanSet]


def test_a_client_is_answered_and_forgotten_and_what_is_no_record_refused(tmp_path: Path) -> None:
    class Client:
        answers: list[Any] = []  # noqa: RUF012

        def hand_over(self, answers: Sequence[Any]) -> None:
            self.answers += answers

    async def body() -> None:
        driver = sequencer_of(tmp_path, 1, [])
        client = Client()
        driver.asked(AppendRecord(0, b"short"), client)  # type: ignore[arg-type]
        for call in range(1, MAX_OPEN_CALLS + 3):
            driver.asked(TrimLog(call, 1), client)  # type: ignore[arg-type]
        await until(lambda: len(client.answers) > MAX_OPEN_CALLS + 2)
        assert [each.refused for each in client.answers].count("busy") == 0
        assert "8 bytes" in client.answers[0].refused
        await driver.close()

    played(body)


def test_a_port_is_later_than_who_calls_it() -> None:
    async def body() -> None:
        heard = Heard()
        heard.asked = lambda call, session: heard.told.append(call)  # type: ignore[attr-defined]
        port = Port(heard, Hello(HelloRole.NODE, 0, _KEY), frozenset(), heard.told.append)  # type: ignore[arg-type]
        time, logical = HybridClock().tick()
        port.calls(None, CALLS.encode((time + 10**8, logical), [AskState(1)])[4:])
        assert heard.told == [AskState(1)]
        assert heard.history.clock.tick() > (time + 10**8, logical)

    played(body)


def test_a_new_epoch_may_leave_out_as_many_shards_as_are_spare(tmp_path: Path) -> None:
    async def body() -> None:
        driver = sequencer_of(tmp_path, 1, [])
        locations = {shard: ("R", "C", "W", "K", f"N{shard}") for shard in range(4)}
        driver.configuration = replace(driver.configuration, locations=locations, spare=2, nodeset_changes=1.0)
        assert {len(driver._nodeset(None).locations) for _ in range(50)} == {2, 3, 4}
        before = driver._nodeset(None)
        driver.configuration = replace(driver.configuration, nodeset_changes=0.0)
        assert driver._nodeset(before) is before
        await driver.close()

    played(body)


def test_a_reader_is_gone_when_its_last_connection_is() -> None:
    async def body() -> None:
        heard = Heard()
        node = Hello(HelloRole.NODE, 0, _KEY)
        port = Port(heard, node, frozenset({READER}), heard.told.append)  # type: ignore[arg-type]
        await port.listen(("127.0.0.1", 0), shared=False)
        await port.serve()
        assert port._server is not None
        calls = []
        for count in (1, 2):
            reader, writer = await asyncio.open_connection(*port._server.sockets[0].getsockname())
            writer.write(Hello(HelloRole.NODE, READER, _KEY).encode())
            await reader.readexactly(len(node.encode()))
            calls.append((reader, writer))
            await until(lambda count=count: heard.told.count("opened") == count)
        assert await calls[0][0].read() == b""  # it was replaced
        calls[0][1].close()
        await asyncio.sleep(0.05)
        assert heard.told == ["opened", "opened"]
        calls[1][1].close()
        await until(lambda: len(heard.told) == 3)
        assert heard.told == ["opened", "opened", "gone"]
        await port.close()

    played(body)


class LosesTheFirst(OneByOne):
    """An append that nobody has heard of: it fails, and the next one does not."""

    failed = False

    async def append(self, records: Sequence[Any]) -> int:
        """Fail once."""
        if not self.failed:
            self.failed = True
            raise UnreachableError("nobody leads")
        return await super().append(records)


def test_what_was_lost_on_its_way_to_the_log_is_appended_again_once() -> None:
    async def body() -> None:
        kept: list[Any] = []
        internal = Internal(LosesTheFirst(kept), (0,), 2, 0.001, Heard())
        for word in (Word.REBUILD, Word.ABORT):  # what is asked for again while it waits is the same
            internal.append("of shard 0", lambda by, number, word=word: Logged(by, number, LogRecord(word, 0)))
        writing = asyncio.create_task(internal.write())
        await until(lambda: kept)
        await asyncio.sleep(0.02)
        assert kept == [Logged(2, 1, LogRecord(Word.REBUILD, 0))]
        writing.cancel()

    played(body)


def test_that_an_epoch_is_clean_is_said_whoever_found_it(tmp_path: Path) -> None:
    async def body() -> None:
        driver = sequencer_of(tmp_path, 1, [CleanEpoch(7, 1, 1)])
        handled = list[Any]()
        driver.core.handle = lambda now, event: handled.append(event) or []  # type: ignore[method-assign]
        await driver.internal.catch_up()
        assert e.CleanSet(1) in handled
        handled.clear()
        driver._set_clean(1)
        assert handled == [e.CleanSet(1)]
        assert not driver.internal._waiting  # it is there
        driver._set_clean(2)
        assert [*driver.internal._waiting] == ["clean 2"]
        await driver.close()

    played(body)
