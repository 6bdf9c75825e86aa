"""Mutants of the driver of real nodes: the order of its steps. No simulated run has it; tests of the driver do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from quorumlog.events import Note
from quorumlog.node.driver import Outbox
from quorumlog.protocol import Mutant
from quorumlog.raft.driver import RaftDriver
from quorumlog.raft.events import SaveVote
from quorumlog.storage.compaction import Gap


class SendsBeforeRecording(RaftDriver):
    """Messages leave before the history that led to them is written."""

    def _hand_out(self) -> None:
        outgoing, self._outgoing = self._outgoing, {}
        for node, messages in outgoing.items():
            self._place.send(node, messages, partial(self._taken, node, messages))
        super()._hand_out()


class SendsAtOnce(RaftDriver):
    """A message leaves in the middle of the step that sends it."""

    def _queue_message(self, to: int, message: Any) -> None:  # noqa: ANN401
        self._place.send(to, [message], partial(self._taken, to, [message]))


class FlushReportedAtOnce(RaftDriver):
    """A flush is reported as done when it begins."""

    def _start_flush(self, ticket: int) -> None:
        super()._start_flush(ticket)
        self._flushed(ticket)


class FlushesTheOldest(RaftDriver):
    """Of the flushes that wait, the oldest is run, and all are reported as done."""

    def _next_flush(self) -> None:
        due = self._flushes_due
        if len(due) > 1 and not self._flushing:
            self._flushes_due = [(number, due[0][1]) for number, _ in due]
        super()._next_flush()


class VoteReportedAtOnce(RaftDriver):
    """A vote is reported as saved when its saving begins."""

    def _save_vote(self, effect: SaveVote) -> None:
        super()._save_vote(effect)
        self._vote_ended(effect.ticket)


class OlderVoteStays(RaftDriver):
    """A vote that waits to be saved is not replaced by a newer one."""

    def _save_vote(self, effect: SaveVote) -> None:
        if self._vote_due is None:
            self._vote_due = effect
        self._next_vote()


class NewestVoteReported(RaftDriver):
    """When a vote is saved, the newest is reported as saved, also one that still waits."""

    def _vote_ended(self, ticket: int) -> None:
        super()._vote_ended(ticket if self._vote_due is None else self._vote_due.ticket)


class DiskErrorIgnored(RaftDriver):
    """An error of the disk in a thread is taken for success."""

    def _in_thread(self, thread: Any, done: Callable[[], None], work: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401
        def ignoring(*given: Any) -> None:  # noqa: ANN401
            with suppress(Exception):
                work(*given)

        super()._in_thread(thread, done, ignoring, *arguments)


class TrimsBeforeRecording(RaftDriver):
    """Entries go for good before the history that led to it is written."""

    def _trim(self, offset: int) -> None:
        self.log.trim(offset)
        self.history.flush()


class ResetsBeforeRecording(RaftDriver):
    """A log is begun anew before the history that led to it is written."""

    def _reset(self, start: int, term_before: int) -> None:
        self.log.reset(start, term_before)
        self.history.flush()


class CompactsBeforeRecording(RaftDriver):
    """Entries are compacted away before the history that led to it is written."""

    def _compact(self, gaps: Sequence[Gap]) -> None:
        self.log.compact(gaps)
        self.history.flush()


class AnswersBeforeRecording(RaftDriver):
    """Clients are answered before the history that led to it is written."""

    def deliver(self, outbox: Outbox) -> None:
        """See `Driver.deliver`."""
        outbox.hand_out()


class CancelledTimersFire(RaftDriver):
    """A timer that is cancelled fires nevertheless."""

    def _cancel_timer(self, name: str) -> None:
        self._timers.pop(name, None)


class TimersPileUp(RaftDriver):
    """A timer that is set anew does not replace the one before."""

    def _set_timer(self, name: str, delay: int, jitter: int) -> None:
        self._timers.pop(name, None)
        super()._set_timer(name, delay, jitter)


class StepsTakeTime(RaftDriver):
    """The events of one step have the times at which each was noted."""

    def _note(self, note: Note) -> None:
        self.history.event(note.kind, dict(note.columns), self.history.clock.wall())


def _mutant(id_: str, change: str, driver: type[RaftDriver]) -> Mutant:
    return Mutant(id_, change, (), test="tests/node/test_driver_mutants.py", driver=driver)


MUTANTS = (
    _mutant(
        "sends-before-recording", "messages leave before the history that led to them is written", SendsBeforeRecording
    ),
    _mutant("sends-at-once", "a message leaves in the middle of the step that sends it", SendsAtOnce),
    _mutant("flush-reported-at-once", "a flush is reported as done when it begins", FlushReportedAtOnce),
    _mutant(
        "flushes-the-oldest",
        "the oldest of the flushes that wait is run, and all are reported as done",
        FlushesTheOldest,
    ),
    _mutant("vote-reported-at-once", "a vote is reported as saved when its saving begins", VoteReportedAtOnce),
    _mutant("older-vote-stays", "a vote that waits to be saved is not replaced by a newer one", OlderVoteStays),
    _mutant(
        "newest-vote-reported",
        "when a vote is saved, the newest is reported as saved, even if it still waits",
        NewestVoteReported,
    ),
    _mutant("disk-error-ignored", "an error of the disk in a thread counts as success", DiskErrorIgnored),
    _mutant(
        "trims-before-recording",
        "entries go for good before what led to that is recorded",
        TrimsBeforeRecording,
    ),
    _mutant(
        "resets-before-recording",
        "a log is begun anew before what led to that is recorded",
        ResetsBeforeRecording,
    ),
    _mutant(
        "compacts-before-recording",
        "entries are compacted away before what led to that is recorded",
        CompactsBeforeRecording,
    ),
    _mutant(
        "answers-before-recording",
        "clients are answered before what led to the answer is recorded",
        AnswersBeforeRecording,
    ),
    _mutant("cancelled-timers-fire", "a timer that is cancelled fires nevertheless", CancelledTimersFire),
    _mutant("timers-pile-up", "a timer that is set anew does not replace the one before", TimersPileUp),
    _mutant("steps-take-time", "the events of one step have times of their own", StepsTakeTime),
)
