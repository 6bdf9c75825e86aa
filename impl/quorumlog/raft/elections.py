"""Elections with pre-vote; term and vote durable before an answer leaves (raft.md#elections, raft.md#vote-durable).

A node that has not heard from its leader asks for pre-votes in its own term; only a quorum of them lets it begin a term
(raft.md#pre-vote). A node that heard from a leader within the election time-out refuses, whatever the candidate's term
(raft.md#refuse-vote); one that is not a voter does not ask. While a candidate asks for pre-votes of the next term, the
votes of its own term still count: on a slow disk they come late (raft.md#election-waits). A vote that is asked for
because the leader hands its office on passes all this, but neither ``log_ok`` nor the one vote a term
(raft.md#refuse-vote).

Where priorities are wanted, a node stands, and is voted for, only with the priority that is the target by then; each
time-out without a leader lowers that (raft.md#priority). Where the longest log is wanted, a node that could begin a
term waits for the answers of the others as well, and lets who has a better log go first (raft.md#longest-log).
"""

from __future__ import annotations

from quorumlog.events import SetTimer
from quorumlog.quorum import VOTE_WON
from quorumlog.raft.events import Timer
from quorumlog.raft.messages import VoteReply, VoteRequest
from quorumlog.raft.rules import LARGEST_PRIORITY, NOBODY, Rules
from quorumlog.raft.state import Configuration, Replica, Restored


def _unit(members: int) -> int:
    """What each of so many members adds to a priority."""
    return LARGEST_PRIORITY // max(1, members)


class Elections(Replica):
    """The roles follower and candidate, and the step to leader."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules) -> None:
        super().__init__(configuration, restored, rules)
        self._heard: int | None = None  # when a leader of this term was last heard
        self._votes: dict[int, bool] = {}  # of the term that this node is a candidate of
        self._pre_votes: dict[int, bool] = {}  # for the term after it
        self._pre_voting = False
        self._asked_at = 0  # when this node asked for pre-votes
        self._behind = False  # an answer showed a better log
        self._gave_way = False  # to a better log, the last time that this node could have stood
        self._want_the_first()
        self._called_to = -1  # the term for which the leader before told this node to stand

    def _become_leader(self) -> None:
        raise NotImplementedError

    def _stop_leading(self) -> None:
        raise NotImplementedError

    def _heard_leader(self) -> bool:
        if self.role == "leader":
            return True
        return self._heard is not None and self.now - self._heard < self.configuration.election_timeout

    def _hear(self) -> None:
        """A leader of this term is there, with all that it has to say."""
        self._pre_voting = self._gave_way = False
        self._heard = self.now
        if self.configuration.priorities:
            self._want_the_first()

    def _want_the_first(self) -> None:
        members = len(self.voters.members)
        self._target = self.rules.first_target(members, _unit(members))

    def _has_priority(self, node: int) -> bool:
        """Tell whether ``node`` may stand by its priority; always where priorities are not wanted."""
        if not self.configuration.priorities:
            return True
        members = self.voters.members
        place = members.index(node) if node in members else -1
        priority = self.rules.priority(place, len(members), _unit(len(members)))
        return self.rules.may_stand(priority, self._target, self.voters.voting == (node,))

    def _arm_election(self, delay: int) -> None:
        self._effects.append(SetTimer(Timer.ELECTION, delay, self.configuration.election_jitter))

    def _set_role(self, role: str) -> None:
        if role != self.role:
            self.role = role
            self.note("role")

    def _know_leader(self, leader: int) -> None:
        """Take a node for the leader, or nobody; another one has to recover this node anew (raft.md#may-recover)."""
        if leader != self.leader:
            self.slots.give_back(self)
        self.leader = leader

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
        self._know_leader(leader)
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
        has_priority = self._has_priority(self.node)
        members = len(self.voters.members)
        self._target = self.rules.lowered_target(self._target // max(1, members), members)
        may_lead = self._may_be_needed() and not self.configuration.never_leads
        if may_lead and not self.rules.election_waits(bool(self._save)):
            if self._pre_voting and self.rules.vote_result(self.voters, self._pre_votes) == VOTE_WON:
                self._ask_for_votes(pre_vote=False)  # it has waited for the other answers long enough
            elif has_priority:
                self._ask_for_votes(pre_vote=True)

    def _may_be_needed(self) -> bool:
        """Tell whether this node is a voter, or was one and may still be needed to commit that it is none any more.

        Source: raft.md#needed-until-committed.
        """
        settled = sum(offset <= self.commit for offset, _ in self._configurations)
        return any(self.node in members.voters.voting for _, members in self._configurations[max(0, settled - 1) :])

    def _ask_for_votes(self, *, pre_vote: bool) -> None:
        self._know_leader(NOBODY)
        self._pre_voting = pre_vote
        self._pre_votes = {}
        if pre_vote:
            term = self.rules.pre_vote_term(self.term)
            self._asked_at, self._behind = self.now, False
        else:
            self._gave_way = False
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

    def _count_pre_vote(self, voter: int, *, granted: bool, behind: bool = False) -> None:
        """Begin a term with a quorum of pre-votes; if the longest log is wanted, once it is known who has it."""
        self._pre_votes[voter] = self._pre_votes.get(voter, False) or granted
        self._behind = self._behind or behind
        if self.rules.vote_result(self.voters, self._pre_votes) != VOTE_WON:
            return
        if not self.configuration.longest_log:
            self._ask_for_votes(pre_vote=False)
        elif self.rules.gives_way(self._behind, self._gave_way):
            self._pre_voting, self._gave_way = False, True
            self._arm_election(self.configuration.election_timeout)
        elif self._pre_votes.keys() >= {*self.voters.voting}:
            self._ask_for_votes(pre_vote=False)
        else:
            left = self._asked_at + self.configuration.election_timeout - self.now
            self._effects.append(SetTimer(Timer.ELECTION, max(0, left)))

    def _count_vote(self, voter: int, *, granted: bool) -> None:
        self._votes[voter] = self._votes.get(voter, False) or granted
        if self.rules.vote_result(self.voters, self._votes) == VOTE_WON and self.node in self._votes:
            self._votes.clear()
            self._pre_voting = False
            self._want_the_first()
            self.leader = self.node
            self._set_role("leader")
            self.note("leader")
            self._become_leader()

    def _vote_requested(self, sender: int, request: VoteRequest) -> None:
        rules = self.rules
        candidate_log_ok = rules.log_ok(request.last_term, request.dirty, self.index.last_term, self.index.dirty)
        refuses = not request.transfer and (self._heard_leader() or not self._has_priority(request.candidate))
        granted = False
        if request.pre_vote:
            granted = candidate_log_ok and not refuses and request.term >= self.term
        elif request.term >= self.term and not refuses:
            if request.term > self.term:
                self._follow(request.term)
            if rules.grant_vote(self.voted_for, request.candidate, candidate_log_ok, refuses):
                granted = True
                if self.voted_for != request.candidate:
                    self.voted_for = request.candidate
                    self._save_vote()
                    self._note_vote(request.candidate)
                    self._arm_election(self.configuration.election_timeout)
        reply = VoteReply(self.term, request.term, request.pre_vote, granted, not candidate_log_ok)
        self._reply(sender, request, reply)

    def _vote_replied(self, sender: int, reply: VoteReply) -> None:
        if sender not in self.voters.voting:
            return  # not even its term counts (raft.md#replies-of-members)
        if reply.term > self.term:
            self._follow(reply.term)
            return
        if reply.asked != self.term:
            return
        if reply.pre_vote and self._pre_voting:
            self._count_pre_vote(sender, granted=reply.granted, behind=reply.behind)
        elif not reply.pre_vote and self.role == "candidate":
            self._count_vote(sender, granted=reply.granted)
