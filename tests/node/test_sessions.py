"""Back-pressure reaches the client: while there is no memory for an append, its connection is not read from."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loghistory import HybridClock
from quorumlog.events import Started, TimerFired
from quorumlog.node.driver import Place
from quorumlog.node.recording import NoHistory
from quorumlog.node.sessions import MAX_OPEN_CALLS, Session
from quorumlog.node.wire import RESULTS, AppendCall, AppendResult, TailCall
from quorumlog.quorum import Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.driver import RaftDriver
from quorumlog.raft.events import Timer
from quorumlog.raft.messages import AppendEntries, AppendReply, VoteReply
from quorumlog.raft.real import Timing
from quorumlog.raft.restored import StateMachine
from quorumlog.raft.state import Configuration, Restored
from quorumlog.storage.batch import BatchKind, RecordBatch
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
        self.answers: list[Any] = []

    def send(self, frame: bytes) -> bool:
        self.answers += RESULTS.decode(frame[4:])[1]
        return True

    def pause(self) -> None:
        self.reading = False

    def resume(self) -> None:
        self.reading = True

    def refuse(self, reason: str) -> None:
        raise AssertionError(reason)


class Leader:
    """Node 0 of three, elected; its network takes nothing before it is told to."""

    def __init__(self, directory: Path) -> None:
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
        core = RaftCore(Configuration(0, Voters((0, 1, 2)), memory_bytes=100), Restored())
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


def test_a_client_whose_append_waits_for_memory_is_not_read_from(tmp_path: Path) -> None:
    async def body() -> None:
        leader, connection = Leader(tmp_path), Connection()
        await leader.elected()
        session = Session(leader.driver, connection, 0, lambda: False)
        session.calls([AppendCall(number, bytes(40), 1, 1, -1, force_flush=False) for number in (1, 2)])
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


def test_a_client_with_too_many_open_calls_is_read_from_again_once_they_are_answered(tmp_path: Path) -> None:
    async def body() -> None:
        leader, connection = Leader(tmp_path), Connection()
        await leader.elected()
        session = Session(leader.driver, connection, 0, lambda: False)
        session.calls([TailCall(number) for number in range(MAX_OPEN_CALLS - 1)])
        assert connection.reading
        session.calls([TailCall(MAX_OPEN_CALLS)])
        assert not connection.reading
        async with asyncio.timeout(5):
            while len(connection.answers) < MAX_OPEN_CALLS:
                sequence = leader.core.progress[1].sequence
                answer = AppendReply(leader.core.term, sequence, success=True, match=0, flushed=0, dirty=0)
                leader.driver.received(1, [answer])
                await asyncio.sleep(0.01)
        assert connection.reading
        await leader.driver.stop()

    asyncio.run(body())
