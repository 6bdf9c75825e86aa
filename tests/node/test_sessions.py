"""Back-pressure reaches the client: while there is no memory for an append, its connection is not read from; and the
limits of a session."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loghistory import HybridClock
from quorumlog.events import Started, TimerFired
from quorumlog.node import sessions
from quorumlog.node.driver import Place
from quorumlog.node.framing import FrameError
from quorumlog.node.recording import NoHistory
from quorumlog.node.sessions import Session
from quorumlog.node.wire import RESULTS, AppendCall, AppendResult, MembersCall, ReadCall, Refusal, TailCall
from quorumlog.quorum import Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.driver import RaftDriver
from quorumlog.raft.events import Timer
from quorumlog.raft.messages import AppendEntries, AppendReply, VoteReply
from quorumlog.raft.real import Timing
from quorumlog.raft.restored import StateMachine
from quorumlog.raft.state import Configuration, Restored
from quorumlog.storage.batch import MAX_RECORDS, BatchKind, RecordBatch
from quorumlog.storage.files import FileDisk
from quorumlog.storage.log import Log
from quorumlog.storage.vote import VoteStore

HELD = RecordBatch(0, 0, BatchKind.DATA, 1, 1, bytes(40)).size_bytes
"""What one append of the test holds; two are more than the leader may hold."""


class Connection:
    """What a session does to its connection."""

    def __init__(self) -> None:
        self.open = True
        self.reading = True
        self.full = False
        self.refused: str | None = None
        self.answers: list[Any] = []

    def send(self, frame: bytes) -> bool:
        if self.full:
            return False
        self.answers += RESULTS.decode(frame[4:])[1]
        return True

    def pause(self) -> None:
        self.reading = False

    def resume(self) -> None:
        self.reading = True

    def refuse(self, reason: str) -> None:
        assert self.full
        self.refused = reason


class Leader:
    """Node 0 of three, elected; its network takes nothing before it is told to."""

    def __init__(self, directory: Path, memory_bytes: int = 100) -> None:
        disk = FileDisk(directory)
        votes = VoteStore(disk)
        votes.begin()
        self.untaken: list[Callable[[], None]] = []
        place = Place(
            node=0,
            nodes=(0, 1, 2),
            timing=Timing(),
            write_caching=False,
            disk=disk,
            log=Log.open(disk, "log", 1 << 20),
            history=NoHistory(HybridClock()),
            jitter=random.Random(1),
            send=self._send,
            disconnect=lambda _: None,
            failed=lambda _: None,
        )
        core = RaftCore(Configuration(0, Voters((0, 1, 2)), memory_bytes=memory_bytes), Restored())
        self.core = core
        self.driver = RaftDriver(core, votes, StateMachine(disk, place.log), place)

    def _send(self, node: int, messages: list[Any], taken: Callable[[], None]) -> None:
        if any(isinstance(each, AppendEntries) and each.batches for each in messages):
            self.untaken.append(taken)
        else:
            taken()

    def network_takes_all(self) -> None:
        untaken, self.untaken = self.untaken, []
        for taken in untaken:
            taken()

    async def elected(self) -> None:
        driver, core = self.driver, self.core
        driver.post(Started())
        driver.post(TimerFired(Timer.ELECTION))
        driver.received(1, [VoteReply(0, 0, pre_vote=True, granted=True)])
        while core.role != "leader":
            driver.received(1, [VoteReply(core.term, core.term, pre_vote=False, granted=True)])
            await asyncio.sleep(0.01)
        while not core.serving:
            sequence = core.progress[1].sequence
            driver.received(1, [AppendReply(core.term, sequence, success=True, match=0, flushed=0, dirty=0)])
            await asyncio.sleep(0.01)
        self.network_takes_all()

    async def hears_that_all_is_flushed(self, enough: Callable[[], bool]) -> None:
        """A follower answers what it is sent, until enough has come of it."""
        async with asyncio.timeout(5):
            while not enough():
                self.network_takes_all()
                sequence, last = self.core.progress[1].sequence, self.core.dirty
                answer = AppendReply(self.core.term, sequence, success=True, match=last, flushed=last, dirty=last)
                self.driver.received(1, [answer])
                await asyncio.sleep(0.01)


def append(number: int, *, acks: int = -1, records: int = 1, size: int = 40) -> AppendCall:
    return AppendCall(number, bytes(size), records, acks, -1, force_flush=False)


def test_a_client_whose_append_waits_for_memory_is_not_read_from(tmp_path: Path) -> None:
    async def body() -> None:
        leader, connection = Leader(tmp_path), Connection()
        await leader.elected()
        session = Session(leader.driver, connection, 0, lambda: False)
        session.calls([append(number, acks=1) for number in (1, 2)])
        assert not connection.reading
        async with asyncio.timeout(5):
            while len(connection.answers) < 1:
                await asyncio.sleep(0.01)
            assert [(each.id, each.outcome) for each in connection.answers] == [(1, "success")]
            assert leader.core.reserved == HELD
            while not leader.untaken:
                await asyncio.sleep(0.01)
            leader.network_takes_all()
            assert connection.reading
            while len(connection.answers) < 2:
                await asyncio.sleep(0.01)
        assert all(isinstance(each, AppendResult) for each in connection.answers)
        await leader.driver.stop()

    asyncio.run(body())


@pytest.mark.parametrize(("limit", "most"), [("MAX_OPEN_CALLS", 4), ("MAX_OPEN_BYTES", 160)])
def test_a_client_with_too_much_open_is_read_from_again_once_half_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(sessions, limit, most)

    async def body() -> None:
        leader, connection = Leader(tmp_path, memory_bytes=10_000), Connection()
        await leader.elected()
        session = Session(leader.driver, connection, 0, lambda: False)
        session.calls([append(number, acks=-1) for number in (1, 2)])
        session.calls([append(3, acks=0)])
        assert connection.reading
        session.calls([append(4, acks=0)])
        assert not connection.reading
        async with asyncio.timeout(5):
            while len(connection.answers) < 2:
                await asyncio.sleep(0.01)
            assert [each.id for each in connection.answers] == [3, 4]
            assert not connection.reading
            await leader.hears_that_all_is_flushed(lambda: len(connection.answers) == 4)
        assert connection.reading
        await leader.driver.stop()

    asyncio.run(body())


def test_a_client_with_too_many_open_questions_is_read_from_again_once_they_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_OPEN_CALLS", 4)

    async def body() -> None:
        leader, connection = Leader(tmp_path), Connection()
        await leader.elected()
        session = Session(leader.driver, connection, 0, lambda: False)
        session.calls([TailCall(number) for number in range(3)])
        assert connection.reading
        session.calls([TailCall(3)])
        assert not connection.reading
        await leader.hears_that_all_is_flushed(lambda: len(connection.answers) == 4)
        assert connection.reading
        await leader.driver.stop()

    asyncio.run(body())


def test_a_read_is_given_what_fits_and_an_append_may_be_so_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_READ_BYTES", 50)
    monkeypatch.setattr(sessions, "MAX_APPEND_BYTES", 40)

    async def body() -> None:
        leader, connection = Leader(tmp_path, memory_bytes=10_000), Connection()
        await leader.elected()
        session = Session(leader.driver, connection, 0, lambda: False)
        session.calls([append(1), append(2), append(3, size=41)])
        await leader.hears_that_all_is_flushed(lambda: len(connection.answers) == 3)
        assert [each.reason for each in connection.answers if isinstance(each, Refusal)] == [
            "too_large: a batch may have 40 bytes"
        ]
        session.calls([ReadCall(4, 1, 1 << 30, True)])
        while len(connection.answers) < 4:
            await asyncio.sleep(0.01)
        assert (connection.answers[-1].next_offset, leader.core.commit) == (2, 2)
        await leader.driver.stop()

    asyncio.run(body())


@pytest.mark.parametrize("wrong", [{"acks": 2}, {"records": 0}, {"records": MAX_RECORDS + 1}, {"size": 7}])
def test_an_append_that_none_can_be_is_refused(tmp_path: Path, wrong: dict[str, int]) -> None:
    async def body() -> None:
        leader = Leader(tmp_path)
        session = Session(leader.driver, Connection(), 0, lambda: False)
        with pytest.raises(FrameError, match="impossible acks, records or payload"):
            session.calls([append(1, **wrong)])
        await leader.driver.stop()

    asyncio.run(body())


def test_a_client_that_does_not_read_its_results_is_cut_off(tmp_path: Path) -> None:
    async def body() -> None:
        leader, connection = Leader(tmp_path), Connection()
        connection.full = True
        session = Session(leader.driver, connection, 0, lambda: False)
        session.calls([MembersCall(1)])
        session.hand_out()
        assert connection.refused == "the client does not read its results"
        await leader.driver.stop()

    asyncio.run(body())
