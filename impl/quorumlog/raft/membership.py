"""Changes of the members of a group, one at a time, each step an entry that the leader proposes (raft.md#membership).

Every step needs the newest configuration to be committed, which for a leader implies a committed entry of its own term
(raft.md#change-refused). A leader goes on from the configuration that it finds (raft.md#change-steps). One that is
removed or demoted leads until that is committed, and then hands its leadership on (raft.md#removed-leader). The steps
themselves are in ``members``; the configuration in force is kept in ``state``.
"""

from __future__ import annotations

from quorumlog.events import Outcome, Resolved, SetTimer
from quorumlog.raft.events import ChangeRequested, Timer
from quorumlog.raft.members import Members, first_step, next_step
from quorumlog.raft.rules import Rules
from quorumlog.raft.state import Configuration, Restored
from quorumlog.raft.transfer import Transfer, Transfers

NO_REQUEST = 0
"""Instead of the number of a request: nobody asked for it."""


class Memberships(Transfers):
    """The leader that changes the members, also those that it found a change of under way."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules) -> None:
        super().__init__(configuration, restored, rules)
        self._change = NO_REQUEST  # the request that is answered when the change under way is done

    def _may_change(self) -> bool:
        """Whether this node may append another configuration now (raft.md#change-refused)."""
        return self.serving and self._transfer is None and self._is_committed()

    def _is_committed(self) -> bool:
        return self.commit >= self._configurations[-1][0]

    def _change_requested(self, event: ChangeRequested) -> None:
        if self.role != "leader":
            self._refuse(event.request)
            return
        first = first_step(self.members, event.change) if self._may_change() else None
        if first is None:
            self._refuse(event.request, Outcome.REFUSED)
            return
        self._end_change(Outcome.REFUSED)  # by a cancellation
        self._change = event.request
        self._propose(first)

    def _replicated(self) -> None:
        super()._replicated()
        self._go_on()

    def _go_on(self) -> None:
        """Take the next step of a change, or end it, if what the step before needed is committed."""
        idle = self._change == NO_REQUEST and self.members.simple and self.node in self.voters.current
        if idle or not self._may_change():  # a leader asks at every reply
            return
        following = self._following()
        if following is not None:
            self._propose(following)
        elif self.members.simple:
            self._end_change(Outcome.SUCCESS)
            if self.node not in self.members.voters.current:
                self._leave()

    def _following(self) -> Members | None:
        """The next step; a learner is promoted once it has all that this node has flushed, its own session durably.

        This node may be that learner (raft.md#learner-leads).
        """
        named = self._configurations[-1][0]
        matching = [peer for peer, follower in self.progress.items() if follower.match >= self.flushed]
        return next_step(self.members, [node for node in (self.node, *matching) if self.durable_on[node] >= named])

    def _leave(self) -> None:
        """Hand the leadership on to the voter that holds most."""
        target = max(self.members.voters.current, key=lambda voter: self.progress[voter].match)
        self._stop_writing()
        self._transfer = Transfer(NO_REQUEST, target, self.index.dirty)
        self._effects.append(SetTimer(Timer.TRANSFER, self.configuration.transfer_timeout))
        self._hand_on()

    def _end_change(self, outcome: Outcome) -> None:
        request, self._change = self._change, NO_REQUEST
        if request != NO_REQUEST:
            self._effects.append(Resolved(request, outcome, -1, -1, -1))

    def _stop_leading(self) -> None:
        super()._stop_leading()
        self._end_change(Outcome.UNKNOWN)
