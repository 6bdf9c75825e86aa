"""Mutants of what holds memory: reservations that come back too early, too late or never, requests without a limit."""

from __future__ import annotations

from collections.abc import Iterator

from quorumlog.events import AppendRequested
from quorumlog.protocol import Mutant
from quorumlog.raft.budget import Budget
from quorumlog.raft.core import RaftCore
from quorumlog.raft.messages import AppendReply
from quorumlog.raft.progress import Progress, Round
from quorumlog.raft.rules import ACKS_ALL, REFERENCE, Rules
from quorumlog.raft.state import Configuration, Restored
from quorumlog.storage.batch import RecordBatch


class ReleaseAtAppend(RaftCore):
    """Memory returns when a round is written, not when its requests were handed over."""

    def _round(self, batches: tuple[RecordBatch, ...], *, required: bool, requests: tuple[int, ...] = ()) -> None:
        self._budget.release(requests)
        super()._round(batches, required=required, requests=requests)


class ReleaseAtFirstHandOver(RaftCore):
    """Memory returns when the first request of a round was handed over; a slow follower holds back nobody."""

    def _let_go(self, current: Round) -> None:
        if current.requests:
            self._budget.release(current.requests)
        super()._let_go(current)


class BatcherNoRelease(RaftCore):
    """What a round has reserved never returns to the budget."""

    def _release(self, current: Round) -> None:
        pass


class _AcksAllOnly(Budget):
    """Reserves nothing for appends with acks 0 and 1."""

    def units(self, item: AppendRequested) -> int:
        return super().units(item) if item.batch.acks == ACKS_ALL else 0


class RelaxedAcksUnreserved(RaftCore):
    """Appends with acks 0 and 1 need no memory: the leader takes as many as come."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules = REFERENCE) -> None:
        super().__init__(configuration, restored, rules)
        self._budget = _AcksAllOnly(configuration.memory_bytes)


class _Overtaken(Budget):
    """Gives units to whoever needs no more than there are, also behind a larger one that waits."""

    def admitted(self) -> Iterator[AppendRequested]:
        for _ in range(len(self._waiting)):
            yield from super().admitted()
            self._waiting.rotate(-1)


class SmallOvertakes(RaftCore):
    """A small append overtakes a large one that waits for memory."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules = REFERENCE) -> None:
        super().__init__(configuration, restored, rules)
        self._budget = _Overtaken(configuration.memory_bytes)


class NoSlotRecovers(RaftCore):
    """A follower without a free slot is recovered from the log."""

    def _expects(self, follower: Progress, previous: int) -> bool:
        return super()._expects(follower, previous) and self._has_slot(follower)


class NoSemaphore(RaftCore):
    """A follower is sent requests however many it has not answered."""

    def _has_slot(self, follower: Progress) -> bool:
        return True


class OldRepliesFreeSlots(RaftCore):
    """Whatever request was answered with success, all slots of the follower are free."""

    def _append_replied(self, sender: int, reply: AppendReply) -> None:
        if reply.success and sender in self.progress:
            self.progress[sender].unanswered.clear()
        super()._append_replied(sender, reply)


class HandingSurvivesStepDown(RaftCore):
    """What the network had not taken when a leader stepped down is still waited for when it leads again."""

    def _forget_appends(self) -> None:
        handing = dict(self._handing)
        super()._forget_appends()
        self._handing = handing


MUTANTS = (
    Mutant(
        "release-at-append",
        "memory returns at the append, before the requests are handed over",
        ("bounded-memory",),
        ReleaseAtAppend,
    ),
    Mutant(
        "release-at-first-hand-over",
        "memory returns when the first request of a round was handed over",
        ("bounded-memory",),
        ReleaseAtFirstHandOver,
    ),
    Mutant(
        "batcher-no-release",
        "memory never returns",
        ("bounded-memory",),
        BatcherNoRelease,
    ),
    Mutant(
        "relaxed-acks-unreserved",
        "appends with acks 0 and 1 need no memory",
        ("bounded-memory",),
        RelaxedAcksUnreserved,
    ),
    Mutant(
        "old-replies-free-slots",
        "success in answer to any request frees all slots of the follower",
        (),
        OldRepliesFreeSlots,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "small-overtakes",
        "a small append overtakes a large one that waits for memory",
        ("waits-in-turn",),
        SmallOvertakes,
        setting="little-memory",
    ),
    Mutant(
        "no-slot-recovers",
        "a follower without a free slot is recovered from the log",
        ("slots-are-waited-for",),
        NoSlotRecovers,
        setting="little-memory",
    ),
    Mutant(
        "handing-survives-step-down",
        "a leader that leads again waits for the network to take what it sent before it stepped down",
        (),
        HandingSurvivesStepDown,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "no-semaphore",
        "a follower is sent requests however many it has left unanswered",
        ("bounded-memory",),
        NoSemaphore,
        setting="little-memory",
    ),
)
