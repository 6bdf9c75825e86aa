"""Mutants of what callers see: the order inside a round, early answers, step-down, barriers and reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from msgspec import structs

from quorumlog.events import AppendRequested, Effect, Outcome, ReadIndexRequested, Resolved, Send, SetTimer
from quorumlog.protocol import Mutant
from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import Timer
from quorumlog.raft.leader import _Barrier
from quorumlog.raft.messages import LightReply
from quorumlog.raft.mutants.parts import with_rules
from quorumlog.raft.rules import ACKS_ALL
from quorumlog.storage.batch import RecordBatch


class QueueReversed(RaftCore):
    """A round takes what is enqueued in the reverse order."""

    def _drain(self) -> None:
        self._queue.reverse()
        super()._drain()


class _OutOfOrder(RaftCore):
    """Some effects of a round come before all others."""

    first: type[Effect]

    def _ordered(self, step: Callable[[], None]) -> None:
        before = len(self._effects)
        step()
        done = self._effects[before:]
        self._effects[before:] = [each for each in done if isinstance(each, self.first)]
        self._effects += [each for each in done if not isinstance(each, self.first)]


class LastItemDecides(RaftCore):
    """The last item of a round alone decides whether it requires a flush."""

    def _round(self, batches: tuple[RecordBatch, ...], *, required: bool, requests: tuple[int, ...] = ()) -> None:
        if requests:
            required = self.rules.flush_required(batches[-1].acks, self.configuration.write_caching, False)
        super()._round(batches, required=required, requests=requests)


class QueueLeftOver(RaftCore):
    """What a round has no room for stays in the queue, and so does what comes after it."""

    def _drain(self) -> None:
        before = len(self._effects)
        super()._drain()
        if self._queue:
            left = [each for each in self._effects[before:] if each != SetTimer(Timer.DRAIN, 0)]
            self._effects[before:] = left


class SendsBeforeWriting(_OutOfOrder):
    """The requests of a round leave before the leader's log is written."""

    first = Send

    def _round(self, batches: tuple[RecordBatch, ...], *, required: bool, requests: tuple[int, ...] = ()) -> None:
        self._ordered(lambda: super(SendsBeforeWriting, self)._round(batches, required=required, requests=requests))


class AnswersBeforeWriting(_OutOfOrder):
    """Appends with acks 0 and 1 are answered before the leader's log is written."""

    first = Resolved

    def _drain(self) -> None:
        self._ordered(super()._drain)


class QueueSurvivesStepDown(RaftCore):
    """What is enqueued when a leader steps down is written nevertheless."""

    def _stop_leading(self) -> None:
        queue, self._queue = self._queue, []
        super()._stop_leading()
        self._queue = queue


class _PendingEnds(RaftCore):
    """A leader that steps down answers the appends with acks=all that wait."""

    outcome: Outcome

    def _stop_leading(self) -> None:
        for wait in self._pending:
            self._answer(wait.request, self.outcome, wait.offset, wait.last_offset, wait.term, ACKS_ALL)
        self._pending = []
        super()._stop_leading()


class PendingFails(_PendingEnds):
    """Appends that wait at a step-down fail as truncated."""

    outcome = Outcome.TRUNCATED


class PendingSucceeds(_PendingEnds):
    """Appends that wait at a step-down succeed."""

    outcome = Outcome.SUCCESS


class PendingRefused(RaftCore):
    """A leader that steps down refuses the appends with acks=all that wait, as if they had never been written."""

    def _stop_leading(self) -> None:
        self._effects += [Resolved(wait.request, Outcome.NOT_LEADER, -1, -1, -1) for wait in self._pending]
        self._pending = []
        super()._stop_leading()


class PendingForgotten(RaftCore):
    """A leader that steps down forgets the appends with acks=all that wait."""

    def _stop_leading(self) -> None:
        self._pending = []
        super()._stop_leading()


class BarriersSurviveStepDown(RaftCore):
    """Reads and barriers that wait when a leader steps down wait until it leads again."""

    def _stop_leading(self) -> None:
        barriers, self._barriers = self._barriers, []
        super()._stop_leading()
        self._barriers = barriers


class BarriersSucceedAtStepDown(RaftCore):
    """A leader that steps down answers the reads and barriers that wait."""

    def _stop_leading(self) -> None:
        for barrier in self._barriers:
            target = min(barrier.target, self.commit)
            self._effects.append(Resolved(barrier.request, Outcome.SUCCESS, target, target, self.term))
        self._barriers = []
        super()._stop_leading()


class AcksAllCached(RaftCore):
    """An append with acks=all succeeds when a majority holds it, flushed or not."""

    def _resolve(self) -> None:
        self._pending = [replace(wait, cached=True) for wait in self._pending]
        super()._resolve()


class AcksAllAtOwnFlush(RaftCore):
    """An append with acks=all succeeds when the leader itself has flushed it."""

    def _resolve(self) -> None:
        if self.role == "leader":
            done = [wait for wait in self._pending if wait.last_offset <= self.flushed and wait.term == self.term]
            for wait in done:
                self._answer(wait.request, Outcome.SUCCESS, wait.offset, wait.last_offset, wait.term, ACKS_ALL)
            self._pending = [wait for wait in self._pending if wait not in done]
        super()._resolve()


class BarrierCountsOldReplies(RaftCore):
    """Whoever has answered in this term confirms a barrier, whenever it was asked."""

    def _check_barriers(self) -> None:
        for barrier in self._barriers:
            barrier.asked = dict.fromkeys(barrier.asked, 0)
        super()._check_barriers()


class BarrierCountsReplyOnItsWay(RaftCore):
    """The answer to what was sent last before a barrier confirms it."""

    def _barrier(self, request: int, target: int) -> _Barrier:
        barrier = super()._barrier(request, target)
        barrier.asked = {peer: sequence - 1 for peer, sequence in barrier.asked.items()}
        return barrier


class LightCountsForBarrier(RaftCore):
    """The answer to a light heartbeat confirms barriers and read indexes."""

    def _light_replied(self, sender: int, reply: LightReply) -> None:
        super()._light_replied(sender, reply)
        if reply.follows:
            for barrier in self._barriers:
                barrier.asked[sender] = -1
            self._check_barriers()


class BarrierAtCommit(RaftCore):
    """The target of a barrier is what is committed when it comes, not the end of the log."""

    def _barrier(self, request: int, target: int) -> _Barrier:
        return super()._barrier(request, min(target, self.commit))


class BarrierDoesNotWait(RaftCore):
    """A barrier does not wait until its target is committed, nor a read index."""

    def _check_barriers(self) -> None:
        commit, self.commit = self.commit, max(self.commit, self.index.dirty)
        super()._check_barriers()
        self.commit = commit


class FollowerServesReads(RaftCore):
    """A follower answers a linearizable read from what it knows as committed."""

    def _read_index_requested(self, event: ReadIndexRequested) -> None:
        if self.role == "follower":
            self._effects.append(Resolved(event.request, Outcome.SUCCESS, self.commit, self.commit, self.term))
        else:
            super()._read_index_requested(event)


class ExpectedTermIgnored(RaftCore):
    """An append that expects another term is written."""

    def _append_requested(self, event: AppendRequested) -> None:
        super()._append_requested(structs.replace(event, expected_term=-1))


class ForcedFlushCached(RaftCore):
    """Under write caching an append that asks for a flush succeeds when a majority holds it, flushed or not."""

    def _resolve(self) -> None:
        caching = self.configuration.write_caching
        self._pending = [replace(wait, cached=caching) for wait in self._pending]
        super()._resolve()


MUTANTS = (
    Mutant(
        "queue-reversed",
        "a round takes what is enqueued in the reverse order",
        ("written-as-enqueued",),
        QueueReversed,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "last-item-decides",
        "the last item of a round alone decides whether it requires a flush",
        ("pending-not-visible",),
        LastItemDecides,
        setting="little-memory",
    ),
    Mutant(
        "queue-left-over",
        "what a round has no room for stays in the queue, and so does what comes after it",
        ("somebody-leads",),
        QueueLeftOver,
        setting="little-memory",
    ),
    Mutant(
        "sends-before-writing",
        "the requests of a round leave before the leader's log is written",
        (),
        SendsBeforeWriting,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "answers-before-writing",
        "appends with acks 0 and 1 are answered before the leader's log is written",
        (),
        AnswersBeforeWriting,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "queue-survives-step-down",
        "what is enqueued when a leader steps down is written nevertheless",
        ("leader-writes-first", "one-leader-per-term"),
        QueueSurvivesStepDown,
        setting="leaders-fall",
    ),
    Mutant(
        "pending-fails-at-step-down",
        "a leader that steps down answers the appends that wait with TRUNCATED",
        ("truncated-rule", "failed-never-committed"),
        PendingFails,
    ),
    Mutant(
        "pending-succeeds-at-step-down",
        "a leader that steps down answers the appends that wait with success",
        ("ack-rule", "acked-survives"),
        PendingSucceeds,
    ),
    Mutant(
        "pending-refused-at-step-down",
        "a leader that steps down refuses the appends that wait, as if they had never been written",
        ("aborted-read", "failed-never-committed"),
        PendingRefused,
    ),
    Mutant(
        "pending-forgotten-at-step-down",
        "a leader that steps down forgets the appends with acks=all that wait",
        ("calls-end",),
        PendingForgotten,
        setting="patient-clients",
    ),
    Mutant(
        "barriers-survive-step-down",
        "reads and barriers that wait when a leader steps down wait until it leads again",
        ("calls-end",),
        BarriersSurviveStepDown,
        setting="patient-clients",
    ),
    Mutant(
        "barriers-succeed-at-step-down",
        "a leader that steps down answers the reads and barriers that wait",
        ("stale-read", "stale-tail"),
        BarriersSucceedAtStepDown,
        test="tests/raft/test_mutants.py",
        setting="two-leaders",
    ),
    Mutant(
        "acks-all-cached",
        "an append with acks=all succeeds when a majority holds it, flushed or not",
        ("ack-rule", "acked-survives"),
        AcksAllCached,
    ),
    Mutant(
        "acks-all-at-own-flush",
        "an append with acks=all succeeds when the leader itself has flushed it",
        ("ack-rule", "acked-survives"),
        AcksAllAtOwnFlush,
        thread="https://github.com/deventlab/d-engine/issues/329",
    ),
    Mutant(
        "barrier-counts-old-replies",
        "any answer in this term confirms a barrier, whenever it was asked for",
        ("stale-read", "stale-tail"),
        BarrierCountsOldReplies,
        thread="https://github.com/deventlab/d-engine/issues/381",
        test="tests/raft/test_mutants.py",
        setting="two-leaders",
    ),
    Mutant(
        "barrier-counts-reply-on-its-way",
        "a barrier is confirmed by the answer to what was sent last before it",
        ("stale-read", "stale-tail"),
        BarrierCountsReplyOnItsWay,
        setting="quiet-leaders",
    ),
    Mutant(
        "light-counts-for-barrier",
        "the answer to a light heartbeat confirms barriers and read indexes",
        ("stale-read", "stale-tail"),
        LightCountsForBarrier,
        setting="light-heartbeats",
        test="tests/raft/test_mutants.py",
        seeds=2000,
    ),
    Mutant(
        "barrier-at-commit",
        "the target of a barrier is what is committed when the barrier comes, not the end of the log",
        ("stale-read",),
        BarrierAtCommit,
        setting="write-caching",
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "barrier-does-not-wait",
        "neither a barrier nor a read index waits until its target is committed",
        ("stale-tail", "stale-read"),
        BarrierDoesNotWait,
    ),
    Mutant(
        "follower-serves-reads",
        "a follower answers a linearizable read from what it knows as committed",
        ("stale-read",),
        FollowerServesReads,
    ),
    Mutant(
        "force-flush-ignored",
        "an append that asks for a flush is flushed as its acks level says",
        (),
        with_rules(flush_required=lambda acks, write_caching, force_flush: acks == ACKS_ALL and not write_caching),
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "expected-term-ignored",
        "an append that expects another term is written",
        ("appends-as-asked",),
        ExpectedTermIgnored,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "forced-flush-cached",
        "under write caching an append that asks for a flush succeeds when a majority holds it",
        (),
        ForcedFlushCached,
        test="tests/raft/test_mutants.py",
    ),
)
