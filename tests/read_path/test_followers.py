"""Who follows the log of epochs, metadata and events, and a port with readers: without the processes around them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from test_shard_driver import READER, SEQUENCER, configured, until

from loghistory import HybridClock
from quorumlog.cluster.log_client import Log
from quorumlog.node.connection import Connection
from quorumlog.node.framing import Hello
from quorumlog.node.framing import Role as HelloRole
from quorumlog.node.recording import HistoryFile, NoHistory
from quorumlog.node.supervised import Supervised
from quorumlog.read_path import events as e
from quorumlog.read_path.core import make_core
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.internal_log import Logged
from quorumlog.read_path.process.driver import Place
from quorumlog.read_path.process.internal import FORM, LOG, Internal
from quorumlog.read_path.process.port import Port
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


def test_a_sequencer_that_was_overtaken_tries_the_next_epoch(tmp_path: Path) -> None:
    kept: list[Any] = []

    def sequencer(by: int) -> SequencerDriver:
        driver = SequencerDriver(
            Place(
                configuration=replace(configured(), node=SEQUENCER),
                incarnation=by,
                cluster_key=_KEY,
                history=HistoryFile(tmp_path / f"{by}.jsonl", HybridClock(), {"node": by, "incarnation": 0}),
                make_core=make_core,
                peers={0: Heard()},
                process=Supervised("sequencer", None),
                failed=lambda why: None,
            )
        )
        driver.internal = Internal(OneByOne(kept), (0,), by, 1, driver)
        driver.begin()
        return driver

    async def body() -> None:
        both = [sequencer(by) for by in (1, 2)]
        for driver in both:
            driver.handle(e.AppendAsked(1, bytes(8)))
        writing = [asyncio.create_task(driver.internal.write()) for driver in both]
        await until(lambda: all(driver.core.epoch for driver in both))
        assert {driver.core.epoch for driver in both} == {1, 2}
        for driver, task in zip(both, writing, strict=True):
            task.cancel()
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
