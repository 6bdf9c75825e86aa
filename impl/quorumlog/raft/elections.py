"""Elections with pre-vote; term and vote durable before an answer leaves (raft.md#elections, raft.md#vote-durable).

A node that has not heard from its leader asks for pre-votes in its own term; only a quorum of them lets it begin a term
(raft.md#pre-vote). A node that heard from a leader within the election time-out refuses, whatever the candidate's term
(raft.md#refuse-vote); one that is not a voter does not ask. While a candidate asks for pre-votes of the next term, the
votes of its own term still count: on a slow disk they come late (raft.md#election-waits). A vote that is asked for
because the leader hands its office on passes all this, but neither ``log_ok`` nor the one vote a term
(raft.md#refuse-vote). Priorities will hook in at ``_vote_requested``.
"""

from __future__ import annotations

from quorumlog.quorum import VOTE_WON
from quorumlog.raft.events import SetTimer, Timer
from quorumlog.raft.messages import VoteReply, VoteRequest
from quorumlog.raft.rules import NOBODY, Rules
from quorumlog.raft.state import Configuration, Replica, Restored


class Elections(Replica):
    """The roles follower and candidate, and the step to leader."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules) -> None:
        super().__init__(configuration, restored, rules)
        self._heard: int | None = None  # when a leader of this term was last heard
        self._votes: dict[int, bool] = {}  # of the term that this node is a candidate of
        self._pre_votes: dict[int, bool] = {}  # for the term after it
        self._pre_voting = False
        self._called_to = -1  # the term for which the leader before told this node to stand

    def _become_leader(self) -> None:
        raise NotImplementedError

    def _stop_leading(self) -> None:
        raise NotImplementedError

    def _heard_leader(self) -> bool:
        if self.role == "leader":
            return True
        return self._heard is not None and self.now - self._heard < self.configuration.election_timeout

    def _arm_election(self, delay: int) -> None:
        self._effects.append(SetTimer(Timer.ELECTION, delay, self.configuration.election_jitter))

    def _set_role(self, role: str) -> None:
        if role != self.role:
            self.role = role
            self.note("role")

    def _follow(self, term: int, leader: int = NOBODY) -> None:
        """Follow in ``term``, which is not before the current one; ``leader`` if it is known."""
        led = self.role == "leader"
        voted_for = self.rules.vote_after_step_down(self.voted_for, self.term, term)
        if term != self.term:
            self.term = term
            self.voted_for = voted_for
            self._heard = None
            self.note("term")
            self._save_vote()
        self.voted_for = voted_for
        self.leader = leader
        self._pre_voting = False
        if led:
            self._stop_leading()
            self._arm_election(self.configuration.election_timeout)
        self._set_role("follower")

    def _election_timer_fired(self) -> None:
        if self.role == "leader":
            return
        if self._heard is not None and self._heard_leader():
            self._arm_election(self._heard + self.configuration.election_timeout - self.now)
            return
        self._arm_election(self.configuration.election_timeout)
        if self.node in self.voters.voting and not self.rules.election_waits(bool(self._save)):
            self._ask_for_votes(pre_vote=True)

    def _ask_for_votes(self, *, pre_vote: bool) -> None:
        self.leader = NOBODY
        self._pre_voting = pre_vote
        self._pre_votes = {}
        if pre_vote:
            term = self.rules.pre_vote_term(self.term)
        else:
            term = self.term + 1
            self.voted_for = self.node
        if term != self.term or not pre_vote:
            self.term = term
            self._heard = None
            self._votes = {}
            self.note("term")
            self._save_vote()
        if not pre_vote:
            self._set_role("candidate")
            self._note_vote(self.node)
        transfer = not pre_vote and self.term == self._called_to
        request = VoteRequest(self.term, self.node, self.index.last_term, self.index.dirty, pre_vote, transfer)
        for voter in self.voters.voting:
            if voter != self.node:
                self._send(voter, request)
        if pre_vote:
            self._count_pre_vote(self.node, granted=True)

    def _vote_durable(self) -> None:
        """Begin the election time-out: only now can anybody learn of the vote, whoever it is for. Count the own one."""
        if self.role != "leader" and self.voted_for != NOBODY:
            self._arm_election(self.configuration.election_timeout)
        if self.role == "candidate":
            self._count_vote(self.node, granted=True)

    def _count_pre_vote(self, voter: int, *, granted: bool) -> None:
        self._pre_votes[voter] = self._pre_votes.get(voter, False) or granted
        if self.rules.vote_result(self.voters, self._pre_votes) == VOTE_WON:
            self._ask_for_votes(pre_vote=False)

    def _count_vote(self, voter: int, *, granted: bool) -> None:
        self._votes[voter] = self._votes.get(voter, False) or granted
        if self.rules.vote_result(self.voters, self._votes) == VOTE_WON and self.node in self._votes:
            self._votes.clear()
            self._pre_voting = False
            self.leader = self.node
            self._set_role("leader")
            self.note("leader")
            self._become_leader()

    def _vote_requested(self, sender: int, request: VoteRequest) -> None:
        rules = self.rules
        candidate_log_ok = rules.log_ok(request.last_term, request.dirty, self.index.last_term, self.index.dirty)
        heard = self._heard_leader() and not request.transfer
        granted = False
        if request.pre_vote:
            granted = candidate_log_ok and not heard and request.term >= self.term
        elif request.term >= self.term and not heard:
            if request.term > self.term:
                self._follow(request.term)
            if rules.grant_vote(self.voted_for, request.candidate, candidate_log_ok, heard):
                granted = True
                if self.voted_for != request.candidate:
                    self.voted_for = request.candidate
                    self._save_vote()
                    self._note_vote(request.candidate)
                    self._arm_election(self.configuration.election_timeout)
        self._send(sender, VoteReply(self.term, request.term, request.pre_vote, granted))

    def _vote_replied(self, sender: int, reply: VoteReply) -> None:
        if sender not in self.voters.voting:
            return  # not even its term counts (raft.md#replies-of-members)
        if reply.term > self.term:
            self._follow(reply.term)
            return
        if reply.asked != self.term:
            return
        if reply.pre_vote and self._pre_voting:
            self._count_pre_vote(sender, granted=reply.granted)
        elif not reply.pre_vote and self.role == "candidate":
            self._count_vote(sender, granted=reply.granted)
