"""Mutants of the transfer of leadership: a leader that leaves too early, or not at all."""

from __future__ import annotations

from msgspec import structs

from quorumlog.events import AppendRequested
from quorumlog.protocol import Mutant
from quorumlog.raft.core import RaftCore
from quorumlog.raft.leader import Leader
from quorumlog.raft.messages import TimeoutNow, VoteRequest
from quorumlog.raft.transfer import Transfer


class TransferKeepsWriting(RaftCore):
    """A leader that leaves goes on taking appends until it hears of the next one."""

    def _append_requested(self, event: AppendRequested) -> None:
        Leader._append_requested(self, event)


class TransferSkipsDrain(RaftCore):
    """A leader tells the target before that and a majority have everything."""

    def _caught_up(self, transfer: Transfer) -> bool:
        return True


class PlannedMoveLoses(RaftCore):
    """A leader that has told the target serves again after a while, if it still leads."""

    def _transfer_timer_fired(self) -> None:
        if self._transfer is not None:
            self._transfer.asked = False
        super()._transfer_timer_fired()


class TransferNeverGivenUp(RaftCore):
    """A leader whose target does not catch up in time goes on waiting for it, and takes no appends."""

    def _transfer_timer_fired(self) -> None:
        transfer = self._transfer
        super()._transfer_timer_fired()
        if transfer is not None and not transfer.asked:
            self._transfer = transfer


class TimeoutNowFromAnybody(RaftCore):
    """A node stands for election when anybody tells it to, also who led in an earlier term."""

    def _timeout_now(self, sender: int, message: TimeoutNow) -> None:
        super()._timeout_now(self.leader, structs.replace(message, term=self.term))


class TransferVoteSkipsLog(RaftCore):
    """A vote for a transfer is given whatever the candidate's log is."""

    def _vote_requested(self, sender: int, request: VoteRequest) -> None:
        if request.transfer:
            request = structs.replace(request, last_term=self.index.last_term, dirty=self.index.dirty)
        super()._vote_requested(sender, request)


MUTANTS = (
    Mutant(
        "transfer-keeps-writing",
        "a leader that has told the target goes on taking appends",
        ("transfer-loses-nothing",),
        TransferKeepsWriting,
        setting="transfers",
    ),
    Mutant(
        "transfer-skips-drain",
        "a leader tells the target before it and a majority have everything",
        ("transfer-loses-nothing",),
        TransferSkipsDrain,
        setting="transfers",
    ),
    Mutant(
        "planned-move-loses",
        "a leader that has told the target takes appends again when nothing comes of the transfer for a while",
        ("transfer-loses-nothing",),
        PlannedMoveLoses,
        setting="transfers",
        thread="https://issues.apache.org/jira/browse/KAFKA-20554",
        seeds=100,
    ),
    Mutant(
        "transfer-never-given-up",
        "a leader whose target does not catch up in time goes on waiting for it, and takes no appends",
        ("somebody-leads",),
        TransferNeverGivenUp,
        setting="lost-targets",
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "timeout-now-from-anybody",
        "a node stands for election when any node tells it to, even a leader of an earlier term",
        (),
        TimeoutNowFromAnybody,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "transfer-vote-skips-log",
        "a vote for a transfer is given whatever the candidate's log is",
        ("leader-completeness", "committed-agree"),
        TransferVoteSkipsLog,
        test="tests/raft/test_mutants.py",
        setting="late-transfers",
        seeds=100,
    ),
)
