"""Mutants of elections: who wins, what a vote on the disk is worth, when a term begins, timers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from quorumlog.events import SetTimer
from quorumlog.protocol import Mutant
from quorumlog.quorum import VOTE_LOST, VOTE_PENDING, VOTE_WON, Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import Timer
from quorumlog.raft.messages import Heartbeat, VoteReply, VoteRequest
from quorumlog.raft.mutants.parts import with_rules
from quorumlog.raft.rules import NOBODY, REFERENCE, Rules
from quorumlog.raft.state import Configuration, Restored


def _won_by(enough: int, nodes: Sequence[int], votes: Mapping[int, bool]) -> int:
    """How a vote stands that so many nodes decide."""
    granted = sum(votes.get(node, False) for node in nodes)
    refused = sum(not votes.get(node, True) for node in nodes)
    if granted >= enough:
        return VOTE_WON
    return VOTE_LOST if refused > len(nodes) - enough else VOTE_PENDING


def _half_elects(voters: Voters, votes: Mapping[int, bool]) -> int:
    return _won_by((len(voters.current) + 1) // 2, voters.current, votes)


def _one_less_elects(voters: Voters, votes: Mapping[int, bool]) -> int:
    return _won_by(max(1, len(voters.current) // 2), voters.current, votes)


class CandidateKeepsVote(RaftCore):
    """What a candidate writes down is its new term and whom it had voted for before."""

    _before = NOBODY

    def _ask_for_votes(self, *, pre_vote: bool) -> None:
        self._before = self.voted_for
        super()._ask_for_votes(pre_vote=pre_vote)

    def _save_vote(self) -> None:
        voted_for = self.voted_for
        if voted_for == self.node:
            self.voted_for = self._before
        super()._save_vote()
        self.voted_for = voted_for


class LateVotesCount(RaftCore):
    """A candidate counts votes that it asked for in an earlier term."""

    def _vote_replied(self, sender: int, reply: VoteReply) -> None:
        super()._vote_replied(sender, structs.replace(reply, asked=self.term))


class EarlierVotesCount(RaftCore):
    """A candidate counts the votes that it had in its last candidacy."""

    def _ask_for_votes(self, *, pre_vote: bool) -> None:
        before = self._votes
        super()._ask_for_votes(pre_vote=pre_vote)
        self._votes.update(before)


class PreVotesElect(RaftCore):
    """A candidate takes a pre-vote for a vote."""

    def _vote_replied(self, sender: int, reply: VoteReply) -> None:
        super()._vote_replied(sender, structs.replace(reply, pre_vote=reply.pre_vote and self.role != "candidate"))


class TermRaisedUnderLeader(RaftCore):
    """A heartbeat of a later term raises the term of a leader, which goes on leading."""

    def _heartbeat(self, sender: int, request: Heartbeat) -> None:
        if self.role == "leader" and request.term > self.term:
            self.term = request.term
            self.note("term")
        super()._heartbeat(sender, request)


class RestartForgetsVote(RaftCore):
    """A node that starts does not read whom it voted for."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules = REFERENCE) -> None:
        super().__init__(configuration, replace(restored, voted_for=NOBODY), rules)


class RestartForgetsTerm(RaftCore):
    """A node that starts takes the term of the last entry of its log for its own."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules = REFERENCE) -> None:
        term = max(restored.index.last_term, 0)
        super().__init__(configuration, replace(restored, term=term, voted_for=NOBODY), rules)


class ElectionTimerForgotten(RaftCore):
    """A leader that steps down does not begin an election time-out."""

    def _follow(self, term: int, leader: int = NOBODY) -> None:
        led = self.role == "leader"
        super()._follow(term, leader)
        if led:
            self._effects[:] = [
                effect
                for effect in self._effects
                if not (isinstance(effect, SetTimer) and effect.name is Timer.ELECTION)
            ]


class ReleasesOnAnySave(RaftCore):
    """Whatever save of term and vote is done, it releases what waits for the newest."""

    def _vote_saved(self, ticket: int) -> bool:
        return super()._vote_saved(self._save) if self._save else False


class HeldForEver(RaftCore):
    """What waits for a save of term and vote leaves after it, also if it is of a term that is over by then."""

    def _vote_saved(self, ticket: int) -> bool:
        late = [send for send in self._held if send.message.term != self.term]
        saved = super()._vote_saved(ticket)
        if saved:
            self._effects += late
        return saved


class PreVotesIgnoreLogs(RaftCore):
    """A pre-vote is granted whatever the candidate's log is."""

    def _vote_requested(self, sender: int, request: VoteRequest) -> None:
        up_to_date = structs.replace(request, last_term=request.term, dirty=max(request.dirty, self.index.dirty))
        super()._vote_requested(sender, up_to_date if request.pre_vote else request)


class VotesWhileLed(RaftCore):
    """A node that hears its leader votes for others nevertheless."""

    def _heard_leader(self) -> bool:
        return self.role == "leader"


class TermHeardNotSaved(RaftCore):
    """A node that hears of a later term writes that down only with its vote."""

    def _save_vote(self) -> None:
        if self.voted_for != NOBODY:
            super()._save_vote()


class VoteComparesFlushed(RaftCore):
    """A node that is asked for its vote compares what it has flushed, not where its log ends."""

    def _vote_requested(self, sender: int, request: VoteRequest) -> None:
        unflushed = self.index.dirty - self.flushed
        super()._vote_requested(sender, structs.replace(request, dirty=request.dirty + unflushed))


class HeardInAnEarlierTerm(RaftCore):
    """What a node heard of the leader of an earlier term puts off its vote in the present one."""

    def _follow(self, term: int, leader: int = NOBODY) -> None:
        heard = self._heard
        super()._follow(term, leader)
        self._heard = heard


MUTANTS = (
    Mutant(
        "half-elects",
        "half of an even number of voters elects",
        ("leader-has-majority", "one-leader-per-term"),
        with_rules(vote_result=_half_elects),
    ),
    Mutant(
        "quorums-need-not-intersect",
        "one vote less than a majority elects",
        ("leader-has-majority", "one-leader-per-term"),
        with_rules(vote_result=_one_less_elects),
    ),
    Mutant(
        "vote-for-all",
        "a node votes for any candidate that asks",
        ("one-vote-per-term",),
        with_rules(grant_vote=lambda voted_for, candidate, log_ok, heard: log_ok and not heard),
        thread="https://github.com/microsoft/CCF/issues/5891",
    ),
    Mutant(
        "vote-for-a-shorter-log",
        "a vote looks at the offset of the last entry alone",
        ("leader-completeness",),
        with_rules(log_ok=lambda last_term, dirty, own_last_term, own_dirty: dirty >= own_dirty),
        setting="leaders-fall",
    ),
    Mutant(
        "candidate-keeps-vote",
        "a candidate writes down its new term with its old vote",
        ("one-vote-per-term",),
        CandidateKeepsVote,
        thread="https://github.com/nats-io/nats-server/pull/7956",
        setting="stale-votes",
        seeds=100,
    ),
    Mutant(
        "late-votes-count",
        "votes that were asked for in an earlier term count",
        ("leader-has-majority", "one-leader-per-term"),
        LateVotesCount,
        thread="https://github.com/andreev-io/little-raft/pull/45",
        setting="stale-votes",
    ),
    Mutant(
        "earlier-votes-count",
        "a candidate counts the votes that it had in its last candidacy",
        ("leader-has-majority", "one-leader-per-term"),
        EarlierVotesCount,
        setting="stale-votes",
    ),
    Mutant(
        "pre-votes-elect",
        "a candidate takes a pre-vote for a vote",
        ("leader-has-majority", "one-leader-per-term"),
        PreVotesElect,
        thread="https://github.com/nats-io/nats-server/pull/5149",
    ),
    Mutant(
        "term-raised-under-leader",
        "a heartbeat of a later term raises the term of a leader, which goes on leading",
        ("one-leader-per-term", "leader-has-majority"),
        TermRaisedUnderLeader,
        thread="https://github.com/hashicorp/raft/issues/695",
        test="tests/raft/test_mutants.py",
        setting="two-leaders",
        seeds=100,
    ),
    Mutant(
        "restart-forgets-vote",
        "a node that starts does not read whom it voted for",
        ("one-vote-per-term",),
        RestartForgetsVote,
        thread="https://github.com/Mininglamp-OSS/octo-im/pull/42",
        setting="stale-votes",
        seeds=100,
    ),
    Mutant(
        "restart-forgets-term",
        "a node that starts takes the term of its last entry for its own",
        ("term-monotonic", "one-vote-per-term"),
        RestartForgetsTerm,
        thread="https://github.com/Mininglamp-OSS/octo-im/pull/42",
    ),
    Mutant(
        "election-timer-forgotten",
        "a leader that steps down does not begin an election time-out",
        ("somebody-leads",),
        ElectionTimerForgotten,
        seeds=100,
    ),
    Mutant(
        "no-check-quorum",
        "a leader without replies goes on leading",
        ("somebody-leads",),
        with_rules(keeps_office=lambda voters, silence, election_timeout: True),
        setting="deaf-leaders",
    ),
    Mutant(
        "releases-on-any-save",
        "a save of term and vote releases what waits for a later one",
        ("one-vote-per-term", "term-monotonic"),
        ReleasesOnAnySave,
        setting="stale-votes",
        seeds=100,
    ),
    Mutant(
        "held-for-ever",
        "what waits for a save of term and vote leaves after it, even if it belongs to a term that is over by then",
        (),
        HeldForEver,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "pre-votes-ignore-logs",
        "a pre-vote is granted whatever the candidate's log is",
        (),
        PreVotesIgnoreLogs,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "votes-while-led",
        "a node that hears its leader votes for others nevertheless",
        ("converges",),
        VotesWhileLed,
        setting="five-nodes",
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "heard-in-an-earlier-term",
        "a node that heard the leader of an earlier term refuses its vote in the present one",
        (),
        HeardInAnEarlierTerm,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "term-heard-not-saved",
        "a node that hears of a later term writes that down only with its vote",
        ("term-monotonic",),
        TermHeardNotSaved,
        setting="compacted",
        seeds=100,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "vote-compares-flushed",
        "a node that is asked for its vote compares what it has flushed, not where its log ends",
        ("votes-go-to-complete-logs",),
        VoteComparesFlushed,
        setting="unflushed",
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "priority-never-decays",
        "the priority that a leader has to have is never lowered",
        ("somebody-leads",),
        with_rules(lowered_target=lambda share, members: share * members),
        setting="preferences",
    ),
    Mutant(
        "gives-way-for-ever",
        "a node that could stand lets one with a longer log go first every time",
        (),
        with_rules(gives_way=lambda behind, gave_way: behind),
        test="tests/raft/test_mutants.py",
    ),
)
