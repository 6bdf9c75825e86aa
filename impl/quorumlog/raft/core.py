"""The Raft core: one event in, effects out. No clock, no socket, no disk, no randomness, no await.

    core = RaftCore(Configuration(node=0, voters=Voters((0, 1, 2))), Restored())
    for effect in core.handle(now, Started()):
        ...  # the driver carries it out

The layers, each a file and a class on top of the one before: ``state`` (offsets, flush, durable vote), ``elections``,
``follower``, ``rounds`` (what is appended, its memory, its requests), ``leader`` (commit, visibility, acks, recovery),
``heartbeats``, ``transfer``, ``membership``, and this dispatcher. The decisions are in
``rules``; replace one with ``RaftCore(..., rules=dataclasses.replace(REFERENCE, may_commit=mine))``. Sources:
documents.md#raft-recovery, documents.md#raft-simplification; the layers name the rules.
"""

from __future__ import annotations

from quorumlog.events import (
    AppendRequested,
    BarrierRequested,
    Effect,
    Event,
    Flushed,
    LogRead,
    ReadIndexRequested,
    Received,
    Started,
    TimerFired,
    TrimRequested,
)
from quorumlog.raft.events import (
    ChangeRequested,
    CompactRequested,
    HandedOver,
    SnapshotRead,
    Timer,
    TransferRequested,
    VoteSaved,
)
from quorumlog.raft.members import Members
from quorumlog.raft.membership import Memberships
from quorumlog.raft.messages import (
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    LightHeartbeat,
    LightReply,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from quorumlog.raft.rules import REFERENCE, Rules
from quorumlog.raft.state import Configuration, Restored

_OF_ANYONE = (LightHeartbeat, LightReply)


class RaftCore(Memberships):
    """One replica of one group. Readable at any time: term, role, leader, dirty, flushed, commit, visible, serving."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules = REFERENCE) -> None:
        """Take over what the disk held. Raises ValueError if the node is not in the group that it begins with."""
        if configuration.voters.current and configuration.node not in configuration.voters.members:
            raise ValueError(f"node {configuration.node} is not in its group: voters {configuration.voters}")
        super().__init__(configuration, restored, rules)

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take one event at the node's monotonic time ``now`` (ns); return the effects, to be carried out in order."""
        self.now = now
        effects: list[Effect] = []
        self._effects = effects
        if isinstance(event, Received):
            self._received(event)
        elif isinstance(event, TimerFired):
            self._timer_fired(event.name)
        elif isinstance(event, AppendRequested):
            self._append_requested(event)
        elif isinstance(event, Flushed):
            self._flush_done(event.ticket)
            self._flushed_as_follower()
            self._moved()
        elif isinstance(event, HandedOver):
            self._handed_over(event)
        elif isinstance(event, LogRead):
            self._log_read(event)
        elif isinstance(event, SnapshotRead):
            self._snapshot_read(event)
        elif isinstance(event, VoteSaved):
            if self._vote_saved(event.ticket):
                self._vote_durable()
        elif isinstance(event, BarrierRequested):
            self._barrier_requested(event)
        elif isinstance(event, ReadIndexRequested):
            self._read_index_requested(event)
        elif isinstance(event, TransferRequested):
            self._transfer_requested(event)
        elif isinstance(event, ChangeRequested):
            self._change_requested(event)
        elif isinstance(event, TrimRequested):
            self._trim(event.offset)
        elif isinstance(event, CompactRequested):
            self._compact(event.gaps)
        elif isinstance(event, Started):
            if self.members != Members(self.configuration.voters):
                self._note_members()
            self._arm_election(self.configuration.election_timeout)
        return effects

    def _moved(self) -> None:
        """Act on a change of the node's own offsets."""
        if self.role == "leader":
            self._replicated()
        else:
            self._resolve()

    def _received(self, event: Received) -> None:
        sender, message = event.sender, event.message
        if not isinstance(message, _OF_ANYONE) and not (self._concerns(sender, message) and self._has_session()):
            return  # without a session it is down until a leader names it one
        if isinstance(message, AppendEntries):
            self._append_entries(sender, message)
            self._resolve()
        elif isinstance(message, AppendReply):
            self._append_replied(sender, message)
        elif isinstance(message, Heartbeat):
            self._heartbeat(sender, message)
            self._resolve()
            self._apply(self.commit)
        elif isinstance(message, HeartbeatReply):
            self._heartbeat_replied(sender, message)
        elif isinstance(message, LightHeartbeat):
            self._light_heartbeat(sender)
        elif isinstance(message, LightReply):
            self._light_replied(sender, message)
        elif isinstance(message, InstallSnapshot):
            self._snapshot_sent(sender, message)
            self._resolve()
        elif isinstance(message, SnapshotReply):
            self._snapshot_replied(sender, message)
        elif isinstance(message, VoteRequest):
            self._vote_requested(sender, message)
        elif isinstance(message, VoteReply):
            self._vote_replied(sender, message)
        elif isinstance(message, TimeoutNow):
            self._timeout_now(sender, message)

    def _timer_fired(self, timer: str) -> None:
        if timer is Timer.HEARTBEAT:
            self._heartbeat_timer_fired()
            self._apply(self.commit)
        elif timer is Timer.ELECTION:
            self._election_timer_fired()
        elif timer is Timer.FLUSH:
            self._flush_timer_fired()
        elif timer is Timer.DRAIN:
            self._drain()
        elif timer is Timer.ENQUEUE:
            self._enqueue_timer_fired()
        elif timer is Timer.TRANSFER:
            self._transfer_timer_fired()


__all__ = ["Configuration", "RaftCore", "Restored", "Started"]
