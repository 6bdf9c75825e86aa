"""Light heartbeats: where nothing has changed since the last full one, a leader says no more than that it is there.

A light heartbeat carries nothing, not even a term. It is answered by who follows its sender; it counts for check-quorum
and for having heard a leader, and for nothing else (raft.md#light-heartbeat).
"""

from __future__ import annotations

from quorumlog.events import Send
from quorumlog.raft.leader import Leader
from quorumlog.raft.messages import LightHeartbeat, LightReply
from quorumlog.raft.rules import Rules
from quorumlog.raft.state import Configuration, Restored


class Heartbeats(Leader):
    """The leader that has nothing new to say, and the follower that hears so."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules) -> None:
        super().__init__(configuration, restored, rules)
        # By follower: the sequence of its last full heartbeat, and what that said.
        self._said: dict[int, tuple[int, tuple[int, ...]]] = {}

    def _become_leader(self) -> None:
        self._said = {}
        super()._become_leader()

    def _send_heartbeats(self) -> None:
        state = self.term, self.commit, self.index.dirty, self.visible
        for peer, follower in self.progress.items():
            if self.configuration.light_heartbeats and not self._barriers and not follower.recovering:
                sequence, said = self._said.get(peer, (-1, ()))
                answered = self.rules.full_was_answered(follower.sequence, sequence, follower.last_reply)
                if self.rules.light_suffices(answered, said == state, follower.flushed, self.flushed):
                    self._effects.append(Send(peer, LightHeartbeat()))
                    continue
            self._send_heartbeat(peer, follower)
            self._said[peer] = follower.sequence, state

    def _light_heartbeat(self, sender: int) -> None:
        """Answer whether this node follows the sender; it heard all there was to say in full before."""
        follows = self.role == "follower" and self.leader == sender and not self._save
        if follows:
            self._heard = self.now
        self._effects.append(Send(sender, LightReply(follows)))

    def _light_replied(self, sender: int, reply: LightReply) -> None:
        follower = self.progress.get(sender)
        if follower is None:
            return
        if reply.follows:
            follower.heard = self.now
        else:
            self._said.pop(sender, None)


__all__ = ["Heartbeats"]
