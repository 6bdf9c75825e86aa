"""A planned transfer of leadership: nothing acknowledged is lost by it, at any acks level (raft.md#transfer).

The leader stops taking appends, so that its dirty offset is fixed; waits until the target and a majority have all of
it; and tells the target to stand for election at once (``TimeoutNow``). From then on it writes nothing more in its
term. The others vote without having missed it (`elections`).
"""

from __future__ import annotations

from dataclasses import dataclass

from quorumlog.events import AppendRequested, CancelTimer, Outcome, Resolved, SetTimer
from quorumlog.raft.events import Timer, TransferRequested
from quorumlog.raft.heartbeats import Heartbeats
from quorumlog.raft.messages import TimeoutNow
from quorumlog.raft.rules import Rules
from quorumlog.raft.state import Configuration, Restored


@dataclass(slots=True)
class Transfer:
    """A transfer under way; ``end`` is the leader's fixed dirty offset, ``asked`` whether the target was told."""

    request: int
    target: int
    end: int
    asked: bool = False


class Transfers(Heartbeats):
    """The leader that leaves, and the follower that it calls."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules) -> None:
        super().__init__(configuration, restored, rules)
        self._transfer: Transfer | None = None

    # -- who leaves ------------------------------------------------------------------------------------------------

    def _transfer_requested(self, event: TransferRequested) -> None:
        """Begin a transfer, or refuse it and change nothing (raft.md#transfer-refused)."""
        if not self.serving:
            self._refuse(event.request)
        elif (
            self._transfer is not None
            or event.target == self.node
            or event.target not in self.voters.voting
            or self.commit < self._configurations[-1][0]  # as always while it is joint
        ):
            self._refuse(event.request, Outcome.REFUSED)
        else:
            self._stop_writing()
            self._transfer = Transfer(event.request, event.target, self.index.dirty)
            self._effects.append(SetTimer(Timer.TRANSFER, self.configuration.transfer_timeout))
            self._hand_on()

    def _stop_writing(self) -> None:
        """Write what is enqueued; who waits for memory is refused (raft.md#transfer-drain)."""
        for item in self._budget.send_away():
            self._give_up(item)
        while self._queue:
            self._drain()

    def _append_requested(self, event: AppendRequested) -> None:
        if self._transfer is None:
            super()._append_requested(event)
        else:
            self._refuse(event.request)

    def _replicated(self) -> None:
        super()._replicated()
        self._hand_on()

    def _hand_on(self) -> None:
        """Call the target once it and a majority have everything (raft.md#transfer-catch-up, raft.md#timeout-now)."""
        transfer = self._transfer
        if transfer is None or transfer.asked or not self._caught_up(transfer):
            return
        transfer.asked = True
        self.note("transfer", peer=transfer.target, offset=transfer.end)
        self._effects.append(SetTimer(Timer.TRANSFER, self.configuration.election_timeout))
        self._send(transfer.target, TimeoutNow(self.term))

    def _caught_up(self, transfer: Transfer) -> bool:
        return self.progress[transfer.target].match == transfer.end == self.majority_replicated

    def _transfer_timer_fired(self) -> None:
        transfer = self._transfer
        if transfer is None:
            return
        if transfer.asked:
            self._follow(self.term)
        else:
            self._transfer = None
            self._refuse(transfer.request, Outcome.TIMED_OUT)

    def _stop_leading(self) -> None:
        super()._stop_leading()
        transfer, self._transfer = self._transfer, None
        if transfer is not None:
            outcome = Outcome.SUCCESS if transfer.asked else Outcome.NOT_LEADER
            self._effects.append(CancelTimer(Timer.TRANSFER))
            self._effects.append(Resolved(transfer.request, outcome, -1, -1, -1))

    # -- who is called ---------------------------------------------------------------------------------------------

    def _timeout_now(self, sender: int, message: TimeoutNow) -> None:
        """Stand for election at once, if this node follows the sender in that term (raft.md#transfer-target)."""
        follows = self.role == "follower" and self.leader == sender and self.term == message.term
        if follows and self.node in self.voters.voting and not self.configuration.never_leads:
            self._called_to = self.term + 1
            self._ask_for_votes(pre_vote=False)
