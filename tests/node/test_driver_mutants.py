"""Every mutant of the driver does what the driver must not do, and the driver does not.

Each promise of the driver is played on a real disk and a real history; what is watched is the order of what leaves the
process, what is synced and what is written.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from loghistory import HybridClock, open_run
from quorumlog.events import Started, TimerFired
from quorumlog.node.driver import Place
from quorumlog.node.recording import HistoryFile, find_history, whole_events
from quorumlog.quorum import Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.driver import RaftDriver
from quorumlog.raft.events import SaveVote, Timer, VoteSaved
from quorumlog.raft.members import Members
from quorumlog.raft.messages import AppendEntries, Heartbeat, InstallSnapshot, VoteRequest
from quorumlog.raft.mutants import MUTANTS
from quorumlog.raft.real import Timing
from quorumlog.raft.restored import StateMachine
from quorumlog.raft.snapshot import Snapshot, State
from quorumlog.raft.state import Configuration, Restored
from quorumlog.storage.batch import NO_KEY, BatchKind, RecordBatch
from quorumlog.storage.disk import FlushFailed, SyncPoint
from quorumlog.storage.files import FileDisk
from quorumlog.storage.log import Log
from quorumlog.storage.vote import VoteStore

DRIVERS = {id_: mutant.driver for id_, mutant in MUTANTS.items() if mutant.driver is not None}


class WatchedDisk(FileDisk):
    """A disk whose syncs wait until they may run, or fail, and which says what it did."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.fails = False
        self.removed: Callable[[], None] = lambda: None

    def sync_point(self, path: str) -> SyncPoint:
        point, disk = super().sync_point(path), self

        class Waits:
            def run(self) -> None:
                disk.may_sync.wait(5)
                if disk.fails:
                    raise FlushFailed(f"{path}: sync failed")
                point.run()

        return Waits()

    def remove(self, path: str) -> None:
        self.removed()
        super().remove(path)


class WatchedVotes(VoteStore):
    """A vote file that is written when it may be."""

    may_save: threading.Event

    def save(self, term: int, voted_for: int | None) -> None:
        self.may_save.wait(5)
        super().save(term, voted_for)


@dataclass
class Node:
    """Node 0 of a group, alone with its disk; what it sends and that it failed is noted."""

    directory: Path
    make: type[RaftDriver]
    nodes: tuple[int, ...] = (0, 1, 2)
    clock: HybridClock = field(default_factory=HybridClock)
    sent: list[tuple[int, Any, list[str]]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.file = self.directory / "node.jsonl"
        self.disk = WatchedDisk(self.directory / "disk")
        self.votes = WatchedVotes(self.disk)
        self.votes.may_save = threading.Event()
        self.votes.may_save.set()
        self.votes.save(0, None)
        core = RaftCore(Configuration(0, Voters(self.nodes), flush_delay=1_000_000), Restored())
        history = HistoryFile(self.file, self.clock, {"node": 0, "incarnation": 0})
        place = Place(
            node=0,
            nodes=self.nodes,
            timing=Timing(),
            write_caching=False,
            disk=self.disk,
            log=Log.open(self.disk, "log", 200),
            history=history,
            jitter=random.Random(1),
            send=self._send,
            disconnect=lambda _: None,
            failed=self.failures.append,
        )
        self.driver = self.make(core, self.votes, StateMachine(self.disk, place.log), place)

    def _send(self, node: int, messages: list[Any], taken: Callable[[], None]) -> None:
        self.sent += [(node, message, self.written()) for message in messages]
        taken()

    def settled(self) -> bool:
        """Whether ten entries are on disk, and the term, before which nothing is given up."""
        return self.driver.core.flushed == 9 and not self.driver.core._saving_term

    def written(self) -> list[str]:
        """The kinds of the events that are in the file."""
        found = find_history(self.file)
        assert found is not None
        return [event.kind for event in whole_events(found)]


def batches(first: int, last: int, term: int = 1, key: int = NO_KEY) -> tuple[RecordBatch, ...]:
    return tuple(RecordBatch(offset, term, BatchKind.DATA, 1, -1, bytes(100), key) for offset in range(first, last + 1))


async def until(condition: Callable[[], object]) -> None:
    """Wait until it holds, for a second at most."""
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0.005)


async def leaves_after_it_is_written(node: Node) -> bool:
    """A message leaves when what led to it is in the file."""
    node.driver.received(1, [AppendEntries(1, 1, -1, -1, -1, -1, False, batches(0, 0))])
    await until(lambda: node.sent)
    node.driver.received(1, [AppendEntries(1, 2, 0, 1, -1, -1, False, batches(1, 1))])
    await until(lambda: len(node.sent) == 2)
    return [written.count("append") for _, _, written in node.sent] == [1, 2]


async def leaves_after_the_step(node: Node) -> bool:
    """Nothing leaves while an event is handled."""
    node.driver.received(1, [AppendEntries(1, 1, -1, -1, -1, -1, False, batches(0, 0))])
    await until(lambda: node.driver.core.term == 1)
    node.driver.received(1, [Heartbeat(1, 2, 0, 1, -1, -1)])
    at_once = len(node.sent)
    await until(lambda: len(node.sent) > 1)
    node.driver.received(1, [Heartbeat(1, 3, 0, 1, -1, -1)])
    return len(node.sent) - at_once < 3 and at_once == 0


async def flushed_after_the_sync(node: Node) -> bool:
    """The core counts a flush when the sync has returned."""
    node.disk.may_sync.clear()
    node.driver.received(1, [AppendEntries(1, 1, -1, -1, -1, -1, True, batches(0, 0))])
    await asyncio.sleep(0.05)
    early = node.driver.core.flushed
    node.disk.may_sync.set()
    await until(lambda: node.driver.core.flushed == 0)
    return early == -1 and node.driver.core.flushed == 0


async def flushed_is_what_was_synced(node: Node) -> bool:
    """Of flushes that waited for one that ran, each covers what was in the log when it began."""
    reported: list[int] = []
    node.driver._flushed = reported.append  # type: ignore[method-assign]
    node.disk.may_sync.clear()
    for at in range(4):
        node.driver.log.append(batches(at, at))
        node.driver._start_flush(at)
    node.disk.may_sync.set()
    await until(lambda: len(reported) == 4)
    return len(reported) == 4 and node.driver.log.flushed == 3


async def votes_after_they_are_saved(node: Node) -> bool:
    """A vote leaves when it is on the disk."""
    node.votes.may_save.clear()
    node.driver.received(1, [VoteRequest(1, 1, 0, -1, False)])
    await asyncio.sleep(0.05)
    early = len(node.sent)
    node.votes.may_save.set()
    await until(lambda: node.sent)
    return early == 0 and len(node.sent) == 1 and node.votes.load() == (1, 1)


async def the_newest_vote_is_saved(node: Node) -> bool:
    """While a vote is being saved the newest one waits, not the first that came."""
    node.votes.may_save.clear()
    for ticket, term in enumerate((3, 5, 7), start=1):
        node.driver._save_vote(SaveVote(term, 1, ticket))
    node.votes.may_save.set()
    await until(lambda: node.votes.load()[0] == 7)
    return node.votes.load() == (7, 1)


async def the_saved_vote_is_reported(node: Node) -> bool:
    """While an older vote is being saved, one that waits for it is not reported as saved."""
    reported: list[VoteSaved] = []
    node.driver.post = reported.append  # type: ignore[method-assign]
    node.votes.may_save.clear()
    for ticket, term in ((1, 3), (2, 5)):
        node.driver._save_vote(SaveVote(term, 1, ticket))
    node.votes.may_save.set()
    await until(lambda: len(reported) == 2)
    return [each.ticket for each in reported] == [1, 2]


async def stops_at_an_error(node: Node) -> bool:
    """An error of the disk ends the node."""
    node.disk.fails = True
    node.driver.received(1, [AppendEntries(1, 1, -1, -1, -1, -1, True, batches(0, 0))])
    await until(lambda: node.failures or node.driver.core.flushed == 0)
    node.disk.fails = False
    return bool(node.failures) and node.driver.core.flushed == -1


async def trims_after_it_is_written(node: Node) -> bool:
    """Entries go when what led to it is in the file."""
    seen: list[list[str]] = []
    node.disk.removed = lambda: seen.append(node.written())
    node.driver.received(1, [AppendEntries(1, 1, -1, -1, -1, -1, True, batches(0, 9))])
    await until(node.settled)
    node.driver.received(1, [Heartbeat(1, 2, 9, 1, 9, 9)])
    node.driver.retain(1)
    return bool(seen) and all("commit" in written for written in seen)


async def begins_anew_after_it_is_written(node: Node) -> bool:
    """A log is begun anew when what led to it is in the file."""
    seen: list[list[str]] = []
    node.disk.removed = lambda: seen.append(node.written())
    node.driver.received(1, [AppendEntries(1, 1, -1, -1, -1, -1, True, batches(0, 9))])
    await until(node.settled)
    node.driver.received(1, [Heartbeat(1, 2, 9, 1, 4, 4)])
    snapshot = Snapshot(20, 1, -1, Members(Voters(node.nodes)).encode(), State())
    node.driver.received(1, [InstallSnapshot(1, 3, 20, 0, snapshot.encode(), True)])
    return node.driver.log.start_offset == 21 and bool(seen) and all("commit" in written for written in seen)


async def compacts_after_it_is_written(node: Node) -> bool:
    """What was replaced goes when what led to it is in the file."""
    seen: list[list[str]] = []
    node.disk.removed = lambda: seen.append(node.written())
    node.driver.received(1, [AppendEntries(1, 1, -1, -1, -1, -1, True, batches(0, 9, key=1))])
    await until(node.settled)
    node.driver.received(1, [Heartbeat(1, 2, 9, 1, 9, 9)])
    node.driver._compact_on(0, deque(node.driver.log.superseded(9)))
    await until(lambda: len([*node.driver.log.headers()]) < 5)
    return bool(seen) and all("commit" in written for written in seen)


async def answers_after_it_is_written(node: Node) -> bool:
    """A client is answered when what led to it is in the file."""
    seen: list[list[str]] = []

    class Answer:
        def hand_out(self) -> None:
            seen.append(node.written())

    node.driver.received(1, [AppendEntries(1, 1, -1, -1, -1, -1, False, batches(0, 0))])
    node.driver.deliver(Answer())
    await until(lambda: seen)
    return len(seen) == 1 and "append" in seen[0]


async def a_cancelled_timer_is_silent(node: Node) -> bool:
    """A timer that was cancelled does not fire."""
    fired: list[str] = []
    node.driver._fired = fired.append  # type: ignore[method-assign]
    for name in (Timer.HEARTBEAT, Timer.FLUSH):
        node.driver._set_timer(name, 1_000_000, 0)
    node.driver._cancel_timer(Timer.HEARTBEAT)
    await asyncio.sleep(0.05)
    return fired == [Timer.FLUSH]


async def a_timer_replaces_the_one_before(node: Node) -> bool:
    """A timer that is set three times fires once."""
    fired: list[str] = []
    node.driver._fired = fired.append  # type: ignore[method-assign]
    for _ in range(3):
        node.driver._set_timer(Timer.HEARTBEAT, 1_000_000, 0)
    await asyncio.sleep(0.05)
    return fired == [Timer.HEARTBEAT]


async def a_step_is_one_moment(node: Node) -> bool:
    """The events of one step have one time, however long it takes."""
    node.driver.post(Started())
    node.driver.post(TimerFired(Timer.ELECTION))
    await node.driver.stop()
    table = open_run(node.file).table()
    times = dict(zip(table["kind"].to_pylist(), table["time"].to_pylist(), strict=True))
    return bool(times["term"] == times["role"])


PROMISES: dict[str, Callable[[Node], Awaitable[bool]]] = {
    "sends-before-recording": leaves_after_it_is_written,
    "sends-at-once": leaves_after_the_step,
    "flush-reported-at-once": flushed_after_the_sync,
    "flushes-the-oldest": flushed_is_what_was_synced,
    "vote-reported-at-once": votes_after_they_are_saved,
    "older-vote-stays": the_newest_vote_is_saved,
    "newest-vote-reported": the_saved_vote_is_reported,
    "disk-error-ignored": stops_at_an_error,
    "trims-before-recording": trims_after_it_is_written,
    "resets-before-recording": begins_anew_after_it_is_written,
    "compacts-before-recording": compacts_after_it_is_written,
    "answers-before-recording": answers_after_it_is_written,
    "cancelled-timers-fire": a_cancelled_timer_is_silent,
    "timers-pile-up": a_timer_replaces_the_one_before,
    "steps-take-time": a_step_is_one_moment,
}
"""What the driver promises, by the mutant that breaks it."""


def kept(directory: Path, make: type[RaftDriver], mutant: str) -> bool:
    """Whether a driver keeps the promise that this mutant breaks."""

    async def play() -> bool:
        seconds = count(1_000_000_000, 1_000_000_000)
        alone = mutant == "steps-take-time"
        clock = HybridClock(lambda: next(seconds)) if alone else HybridClock()
        node = Node(directory, make, (0,) if alone else (0, 1, 2), clock)
        return await PROMISES[mutant](node)

    return asyncio.run(play())


@pytest.mark.parametrize("mutant", PROMISES)
def test_the_driver_keeps_its_promises(tmp_path: Path, mutant: str) -> None:
    assert kept(tmp_path, RaftDriver, mutant)


@pytest.mark.parametrize("mutant", DRIVERS)
def test_a_mutant_breaks_its_promise(tmp_path: Path, mutant: str) -> None:
    assert not kept(tmp_path, DRIVERS[mutant], mutant)
