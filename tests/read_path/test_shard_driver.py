"""The driver of a shard alone, with its connections, on a real disk and with a real history: what leaves, and when.

A shard of a run on real processes is killed, but its machine goes on: no run shows that an answer came before the sync.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from loghistory import HybridClock
from quorumlog.cluster.log_client import Log, LogPlace
from quorumlog.durations import MILLISECOND
from quorumlog.events import Note, SetTimer, TimerFired
from quorumlog.node.connection import Connection
from quorumlog.node.framing import Hello
from quorumlog.node.framing import Role as HelloRole
from quorumlog.node.framing import frame as as_frame
from quorumlog.node.recording import HistoryFile, NoHistory, find_history, history_path, whole_events
from quorumlog.node.supervised import Supervised
from quorumlog.node.supervision import STOPPED
from quorumlog.read_path import messages as m
from quorumlog.read_path.core import Role, make_core
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.events import Change, NodesetsLearned, StatusesLearned
from quorumlog.read_path.internal_log import Activation, Logged
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.process.calls import MESSAGES
from quorumlog.read_path.process.configuration import ProcessConfiguration
from quorumlog.read_path.process.driver import Peer, Place
from quorumlog.read_path.process.internal import FORM, LOG, Internal
from quorumlog.read_path.process.lines import SILENCE_SECONDS, Line
from quorumlog.read_path.process.process import PathProcess
from quorumlog.read_path.process.shards import CHANGES, RECORDS, ShardDriver, stored
from quorumlog.read_path.records import new_copy
from quorumlog.read_path.rules import lsn_of
from quorumlog.read_path.wire import framed
from quorumlog.storage.disk import FlushFailed, StorageError, SyncPoint
from quorumlog.storage.files import FileDisk

SEQUENCER, READER = 1, 2


class HeldDisk(FileDisk):
    """A disk whose syncs, once it is open, begin when they are asked for, and end when they may or fail."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.may_sync = threading.Semaphore(0)
        self.opened = self.fails = False

    def sync_point(self, path: str) -> SyncPoint:
        point, disk = super().sync_point(path), self

        class Waits:
            def run(self) -> None:
                assert not disk.opened or disk.may_sync.acquire(timeout=5)
                if disk.fails:
                    raise FlushFailed(f"{path}: sync failed")
                point.run()

        return Waits()


def configured(port: int = 1, data: str = "") -> ProcessConfiguration:
    """Shard 0; nobody listens where the log that all follow should be."""
    return ProcessConfiguration(
        node=0,
        cluster="test",
        addresses={0: f"127.0.0.1:{port}", SEQUENCER: "127.0.0.1:2", READER: "127.0.0.1:4"},
        roles={0: Role.SHARD, SEQUENCER: Role.SEQUENCER, READER: Role.READER},
        locations={0: ("R", "C", "W", "K", "N0")},
        internal=LogPlace(LOG, {0: "127.0.0.1:3"}),
        data=data,
        replication={"NODE": 1},
    )


@dataclass(eq=False)
class Shard:
    """Shard 0, which knows the log that all follow; what it sends is noted with what its history file has by then."""

    directory: Path
    incarnation: int = 0
    sent: list[tuple[Any, list[str]]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        configuration = configured()
        clock = HybridClock()
        self.file = self.directory / "node-0.jsonl"
        self.disk = HeldDisk(self.directory / "disk")
        place = Place(
            configuration=configuration,
            incarnation=self.incarnation,
            cluster_key=b"",
            history=HistoryFile(self.file, clock, {"node": 0, "incarnation": 0}),
            make_core=make_core,
            peers={SEQUENCER: self},
            process=Supervised("shard 0", None),
            failed=self.failures.append,
        )
        self.driver = ShardDriver(place, self.disk, lost_power=False)
        self.disk.opened = True
        log = Log(LOG, FORM, configuration.internal, clock, 1)
        self.driver.internal = Internal(log, (0,), 1, 1, self.driver)
        self.driver.begin()

    def hand_over(self, messages: Sequence[Any]) -> None:
        """The sequencer is sent these."""
        self.sent += [(message, self.written()) for message in messages]

    def written(self) -> list[str]:
        """The kinds of the events that are in the history file."""
        found = find_history(self.file)
        return [] if found is None else [event.kind for event in whole_events(found)]

    def store(self, esn: int) -> None:
        """The sequencer has a record stored."""
        self.driver.received(SEQUENCER, [m.Store(new_copy(lsn_of(1, esn), (0,), b"12345678"), 1)])

    @property
    def stored(self) -> list[int]:
        """What it said that it has stored."""
        return [message.lsn for message, _ in self.sent if isinstance(message, m.Stored)]


class Told(Connection):
    """A connection to a reader: what is sent over it, with what the history file has by then."""

    def __init__(self, written: Callable[[], list[str]]) -> None:
        super().__init__(Hello(HelloRole.NODE, 0, b""))
        self._written = written
        self.sent: list[tuple[Any, list[str]]] = []
        self.refused: list[str] = []

    @property
    def open(self) -> bool:
        """Always."""
        return True

    def refuse(self, reason: str) -> None:
        """It is given up."""
        self.refused.append(reason)

    def send(self, frame: bytes) -> bool:
        """Note the messages of a frame."""
        _, messages = MESSAGES.decode(frame[len(as_frame(b"")) :])
        self.sent += [(message, self._written()) for message in messages]
        return True


async def until(condition: Callable[[], object]) -> None:
    """Wait until it holds; fail if it does not within some seconds."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    assert condition()


def play(tmp_path: Path, body: Callable[[Shard], Coroutine[Any, Any, None]]) -> None:
    """Do this with a shard, and let its last syncs pass."""

    async def whole() -> None:
        shard = Shard(tmp_path)
        try:
            await body(shard)
        finally:
            shard.disk.may_sync.release(100)
            await shard.driver.close()

    asyncio.run(asyncio.wait_for(whole(), 20))


def test_an_answer_leaves_when_a_sync_that_began_later_has_ended(tmp_path: Path) -> None:
    """What was written while a sync was under way waits for the next one."""

    async def body(shard: Shard) -> None:
        shard.store(1)
        shard.store(2)
        await asyncio.sleep(0.05)
        assert shard.stored == []
        shard.disk.may_sync.release()
        await until(lambda: shard.stored)
        await asyncio.sleep(0.05)
        assert shard.stored == [lsn_of(1, 1)]
        shard.disk.may_sync.release()
        await until(lambda: len(shard.stored) == 2)
        assert shard.stored == [lsn_of(1, 1), lsn_of(1, 2)]

    play(tmp_path, body)


def test_each_change_says_how_much_was_synced_when_it_was_written(tmp_path: Path) -> None:
    """After a power loss the second record may be gone from the middle of the file, the first one may not."""

    async def body(shard: Shard) -> None:
        ends = []
        for esn, known in ((1, 0), (2, 0), (3, 1)):
            shard.store(esn)
            ends.append(shard.disk.size(CHANGES))
            if known < esn - 1:
                shard.disk.may_sync.release()
                await until(lambda: shard.stored)
        path = tmp_path / "disk" / CHANGES
        for first, last, refused in ((ends[0], ends[1], False), (ends[0] - 40, ends[0], True)):
            (tmp_path / f"after {first}").mkdir()
            data = path.read_bytes()
            after = FileDisk(tmp_path / f"after {first}")
            after.make_directory(RECORDS)
            after.create(CHANGES)
            after.append(CHANGES, data[:first] + bytes(last - first) + data[last:])
            if refused:
                with pytest.raises(StorageError, match="damaged at byte"):
                    stored(after, 1, lost_power=True)
            else:
                assert len(stored(after, 1, lost_power=True)) == 2
            after.close()

    play(tmp_path, body)


def test_a_timer_that_is_set_anew_runs_out_once(tmp_path: Path) -> None:
    async def body(shard: Shard) -> None:
        handled, handle = list[Any](), shard.driver.core.handle

        def seen(now: int, event: Any) -> Any:  # noqa: ANN401
            handled.append(event)
            return handle(now, event)

        shard.driver.core.handle = seen  # type: ignore[method-assign]
        for milliseconds in (10, 20):
            shard.driver._perform[SetTimer](SetTimer("again", milliseconds * MILLISECOND))
        await asyncio.sleep(0.06)
        assert handled == [TimerFired("again")]

    play(tmp_path, body)


def test_a_shard_that_has_lost_its_data_says_so(tmp_path: Path) -> None:
    async def body() -> None:
        for incarnation, lost in ((0, False), (1, True)):
            (tmp_path / str(incarnation)).mkdir()
            shard = Shard(tmp_path / str(incarnation), incarnation)
            assert shard.driver.answer_of(1).lost == lost
            assert shard.driver.state()["reason"] == ("lost" if lost else "intact")
            shard.disk.may_sync.release(100)
            await shard.driver.close()

    asyncio.run(body())


def test_what_is_new_in_the_log_reaches_the_core(tmp_path: Path) -> None:
    async def body(shard: Shard) -> None:
        told, handle = list[Any](), shard.driver.core.handle

        def seen(now: int, event: Any) -> Any:  # noqa: ANN401
            told.append(type(event))
            return handle(now, event)

        shard.driver.core.handle = seen  # type: ignore[method-assign]
        held = shard.driver.internal.held
        assert held.fold(Activation(1, 1, 1, Nodeset({"NODE": 1}, {0: ("R", "C", "W", "K", "N0")})))
        assert held.fold(Logged(1, 2, LogRecord(Word.DRAIN, 0)))
        shard.driver.caught_up()
        assert told == [NodesetsLearned, StatusesLearned]
        for number in (3, 4):  # each version, and none twice
            assert held.fold(Logged(1, number, LogRecord(Word.ABORT, 0)))
            shard.driver.caught_up()
            shard.driver.caught_up()
        assert told[2:] == [NodesetsLearned, StatusesLearned, NodesetsLearned] * 2

    play(tmp_path, body)


def test_over_a_cut_link_nothing_is_sent() -> None:
    async def body() -> None:
        sent, process = list[Any](), Supervised("shard 0", None)

        class Wire:
            def send(self, tick: Any, messages: list[Any], lost: Any) -> None:  # noqa: ANN401
                sent.extend(messages)

        peer = Peer(SEQUENCER, Wire(), NoHistory(HybridClock()), process)  # type: ignore[arg-type]
        process.muted = frozenset([SEQUENCER])
        peer.hand_over([m.Stop(1)])
        process.muted = frozenset()
        peer.hand_over([m.Stop(2)])
        assert sent == [m.Stop(2)]

    asyncio.run(body())


def test_an_answer_leaves_when_what_led_to_it_is_recorded(tmp_path: Path) -> None:
    async def body(shard: Shard) -> None:
        shard.disk.may_sync.release(2)
        for esn in (1, 2):
            shard.store(esn)
            await until(lambda esn=esn: len(shard.stored) == esn)  # type: ignore[misc]
        assert [kinds.count("copy") for _, kinds in shard.sent] == [1, 2]

    play(tmp_path, body)


def test_what_is_shipped_is_recorded_before_it_leaves(tmp_path: Path) -> None:
    async def body(shard: Shard) -> None:
        shard.disk.may_sync.release(2)
        connection = Told(shard.written)
        shard.driver.opened(READER, connection)
        shard.store(1)
        await until(lambda: shard.stored)
        lsn = lsn_of(1, 1)
        shard.driver.received(SEQUENCER, [m.Release(1, lsn)])
        shard.driver.received(READER, [m.Start(1, 1, lsn, lsn, lsn, None)])
        await until(lambda: len(connection.sent) > 1)
        (kinds,) = (kinds for message, kinds in connection.sent if isinstance(message, m.Records))
        assert "ship" in kinds

    play(tmp_path, body)


@pytest.mark.parametrize("replaced", [False, True])
def test_the_streams_of_a_reader_end_with_its_connection(replaced: bool, tmp_path: Path) -> None:
    async def body(shard: Shard) -> None:
        shard.driver.opened(READER, Told(shard.written))
        lsn = lsn_of(1, 1)
        shard.driver.received(READER, [m.Start(1, 1, lsn, lsn, lsn, None)])
        assert {*shard.driver.core.streams} == {(READER, 1)}
        if replaced:
            shard.driver.opened(READER, Told(shard.written))
        else:
            shard.driver.gone(READER)
        assert not shard.driver.core.streams

    play(tmp_path, body)


def test_what_cannot_be_sent_over_a_cut_link_waits_in_its_order() -> None:
    async def body() -> None:
        cut, connection = {READER}, Told(list)
        line = Line(connection, READER, HybridClock(), lambda: cut)
        messages = [m.Stop(stream) for stream in range(4)]
        line.hand_over(messages[:1])
        line.hand_over(messages[1:2])
        line.watch()
        assert connection.sent == []
        cut.clear()
        line.hand_over(messages[2:])
        assert [message for message, _ in connection.sent] == messages

    asyncio.run(body())


@pytest.mark.parametrize("speaks", [False, True])
def test_a_reader_that_speaks_keeps_its_connection(speaks: bool, tmp_path: Path) -> None:
    async def body(shard: Shard) -> None:
        connection = Told(shard.written)
        shard.driver.opened(READER, connection)
        for _ in range(2):
            await asyncio.sleep(SILENCE_SECONDS * 0.6)
            if speaks:
                shard.driver.received(READER, [m.Stop(9)])
        shard.driver.lines[READER].watch()
        assert bool(connection.refused) == (not speaks)

    play(tmp_path, body)


def test_a_shard_whose_sync_fails_answers_nothing_more(tmp_path: Path) -> None:
    async def body(shard: Shard) -> None:
        shard.disk.fails = True
        shard.store(1)
        shard.store(2)
        shard.disk.may_sync.release(2)
        await until(lambda: shard.failures)
        await asyncio.sleep(0.05)
        assert shard.stored == []
        assert len(shard.failures) == 1
        assert "sync failed" in shard.failures[0]

    play(tmp_path, body)


def test_a_process_serves_nobody_before_it_has_read_the_log_that_all_follow(tmp_path: Path) -> None:
    """Source: read-path.md#knows-before-it-stores."""

    async def body() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        process = PathProcess(configured(port, str(tmp_path / "disk")), None)
        running = asyncio.create_task(process.run())
        await asyncio.sleep(0.4)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        process.end(STOPPED)
        await running

    asyncio.run(asyncio.wait_for(body(), 20))


class Steps:
    """A core that does what it is given, and notes it: a message to itself comes behind all that is under way."""

    def __init__(self, driver: Any) -> None:  # noqa: ANN401
        self.driver, self.done = driver, list[Any]()

    def handle(self, now: int, event: Any) -> list[Any]:  # noqa: ANN401
        """Take an event; the timer "first" causes another one in the middle of its effects."""
        self.done.append(event)
        if event != TimerFired("first"):
            return []
        self.driver._perform[m.Stop] = lambda _: self.driver.handle(TimerFired("second"))
        self.driver._perform[m.Start] = lambda _: self.done.append("the rest of the first")
        return [m.Stop(1), m.Start(1, 1, 1, 1, 1, None)]


def test_what_an_effect_causes_at_once_comes_behind_the_other_effects(tmp_path: Path) -> None:
    async def body(shard: Shard) -> None:
        steps = shard.driver.core = Steps(shard.driver)  # type: ignore[assignment]
        shard.driver.handle(TimerFired("first"))
        assert steps.done == [TimerFired("first"), "the rest of the first", TimerFired("second")]

    play(tmp_path, body)


def test_a_step_is_recorded_as_one_moment(tmp_path: Path) -> None:
    async def body(shard: Shard) -> None:
        clock, begun = shard.driver.history.clock, list[int]()

        def slow(now: int, event: Any) -> list[Any]:  # noqa: ANN401
            begun.append(clock.wall())
            time.sleep(0.01)
            return [Note("seal", {"epoch": 1}), Note("seal", {"epoch": 2})]

        shard.driver.core.handle = slow  # type: ignore[method-assign]
        shard.driver.handle(TimerFired("any"))
        await until(lambda: "seal" in shard.written())
        found = find_history(shard.file)
        assert found is not None
        assert all(event.time <= begun[0] for event in whole_events(found) if event.kind == "seal")

    play(tmp_path, body)


def test_a_driver_that_is_closed_handles_nothing_more(tmp_path: Path) -> None:
    async def body(shard: Shard) -> None:
        shard.disk.may_sync.release(100)
        await shard.driver.close()
        handled = list[Any]()
        shard.driver.core.handle = lambda now, event: handled.append(event) or []  # type: ignore[method-assign]
        shard.driver.handle(TimerFired("late"))
        assert handled == []

    play(tmp_path, body)


def test_what_is_on_its_way_to_the_disk_at_the_end_is_recorded_in_this_life(tmp_path: Path) -> None:
    """One change is being synced, and one waits for the next sync; nobody hears that either is stored."""

    async def body(shard: Shard) -> None:
        shard.store(1)
        shard.store(2)
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(shard.driver.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        shard.store(3)
        shard.disk.may_sync.release(100)
        await closing
        shard.driver.history.flush()
        assert shard.written().count("copy") == 2
        assert shard.stored == []

    play(tmp_path, body)


def test_what_no_sync_had_begun_for_is_synced_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(shard: Shard) -> None:
        synced, sync = list[int](), FileDisk.sync

        def counted(disk: FileDisk, path: str) -> None:
            synced.append(disk.size(path))
            sync(disk, path)

        monkeypatch.setattr(FileDisk, "sync", counted)
        shard.store(1)
        shard.store(2)
        size = shard.disk.size(CHANGES)
        shard.disk.may_sync.release(100)
        await shard.driver.close()
        assert synced == [size]

    play(tmp_path, body)


def test_a_sync_that_fails_at_the_end_is_said_and_recorded_nowhere(tmp_path: Path) -> None:
    async def body(shard: Shard) -> None:
        shard.store(1)
        await asyncio.sleep(0.05)
        shard.disk.fails = True
        shard.disk.may_sync.release(100)
        with pytest.raises(StorageError, match="sync failed"):
            await shard.driver.close()
        shard.driver.history.flush()
        assert "copy" not in shard.written()
        FileDisk(tmp_path / "disk").close()  # another process may use it

    play(tmp_path, body)


def test_a_change_that_cannot_be_written_is_not_synced(tmp_path: Path) -> None:
    async def body(shard: Shard) -> None:
        def full(path: str, data: bytes) -> int:
            raise StorageError("no space left")

        shard.disk.append = full  # type: ignore[method-assign,assignment]
        shard.store(1)
        assert shard.failures == ["no space left"]
        assert shard.driver._due_tickets == []

    play(tmp_path, body)


def test_what_is_shipped_on_no_connection_is_recorded_all_the_same(tmp_path: Path) -> None:
    """A reader that has gone meanwhile may have had it: what was shipped is in the record of who ships."""

    async def body(shard: Shard) -> None:
        shard.disk.may_sync.release(2)
        shard.driver.opened(READER, Told(shard.written))
        shard.store(1)
        await until(lambda: shard.stored)
        lsn = lsn_of(1, 1)
        shard.driver.received(SEQUENCER, [m.Release(1, lsn)])
        del shard.driver.lines[READER]
        shard.driver.received(READER, [m.Start(1, 1, lsn, lsn, lsn, None)])
        await until(lambda: "ship" in shard.written())
        assert "ship" in shard.written()

    play(tmp_path, body)


def test_a_line_on_which_too_much_waits_is_given_up() -> None:
    async def body() -> None:
        connection = Told(list)
        line = Line(connection, READER, HybridClock(), lambda: {READER})
        line.hand_over([m.Stop(1)] * 4096)
        assert connection.refused == []
        line.hand_over([m.Stop(1)])
        assert connection.refused == ["more than 4096 messages wait"]

    asyncio.run(body())


def test_what_a_life_before_could_not_record_is_recorded_first(tmp_path: Path) -> None:
    """A change is on the disk when the process is killed, and in no history."""

    async def body() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (tmp_path / "history").mkdir()
        at = replace(configured(port, str(tmp_path / "disk")), history=str(tmp_path / "history"))
        for life in range(2):
            running = asyncio.create_task((process := PathProcess(at, None)).run())
            await asyncio.sleep(0.1)
            process.end(STOPPED)
            await running
            with (tmp_path / "disk" / CHANGES).open("ab") as file:
                file.write(framed(Change(copy=new_copy(lsn_of(1, life + 1), (0,), b"12345678"))))
        found = find_history(history_path(tmp_path / "history", 0, 1))
        assert found is not None
        events = [*whole_events(found)]
        assert [(event.kind, event.offset) for event in events][:2] == [("copy", lsn_of(1, 1)), ("takes_part", None)]

    asyncio.run(asyncio.wait_for(body(), 20))
