"""Mutants of the membership: changes that are too early or too large, and nodes that count where they do not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise

from msgspec import structs

from quorumlog.protocol import Mutant
from quorumlog.quorum import VOTE_LOST, VOTE_PENDING, VOTE_WON, Voters, vote_result
from quorumlog.raft import rules
from quorumlog.raft.core import RaftCore
from quorumlog.raft.members import Members, next_step
from quorumlog.raft.messages import Answer, Request, VoteReply, VoteRequest
from quorumlog.raft.mutants.parts import with_rules
from quorumlog.raft.rules import Rules
from quorumlog.raft.state import Configuration, Restored


class ReconfigureUncommitted(RaftCore):
    """A step of a change is made before the configuration in force is committed."""

    def _is_committed(self) -> bool:
        return True


class RemovedWithoutJoint(RaftCore):
    """Voters are removed in one step."""

    def _propose(self, members: Members) -> None:
        super()._propose((next_step(members, ()) or members) if members.voters.old else members)


class SingleServer2015(RemovedWithoutJoint):
    """Voters are removed without a joint configuration, by leaders that may have committed nothing in their term."""

    def _may_change(self) -> bool:
        return self.role == "leader" and self._transfer is None and self._is_committed()

    def _is_committed(self) -> bool:
        """As if a leader began its term with an entry that is no configuration."""
        known = self._configurations
        changed = [offset for (_, before), (offset, members) in pairwise(known) if members != before]
        return self.commit >= max(changed, default=-1)


def _current(voters: Voters) -> Voters:
    return Voters(voters.current)


def _with_learners(voters: Voters) -> Voters:
    return Voters((*voters.current, *voters.learners), tuple(voters.old))


def _commit_by_current(voters: Voters, durable: Mapping[int, int], own_flushed: int) -> int:
    return rules.commit_candidate(_current(voters), durable, own_flushed)


def _replicated_by_current(voters: Voters, replicated: Mapping[int, int], majority: int) -> int:
    return rules.majority_replicated(_current(voters), replicated, majority)


def _elected_by_current(voters: Voters, votes: Mapping[int, bool]) -> int:
    return vote_result(_current(voters), votes)


def _in_office_by_current(voters: Voters, silence: Mapping[int, int], election_timeout: int) -> bool:
    return rules.keeps_office(_current(voters), silence, election_timeout)


def _confirmed_by_current(voters: Voters, confirmed: Collection[int]) -> bool:
    return rules.leadership_confirmed(_current(voters), confirmed)


def _commit_with_learners(voters: Voters, durable: Mapping[int, int], own_flushed: int) -> int:
    return rules.commit_candidate(_with_learners(voters), durable, own_flushed)


class SelfCountsWhenRemoved(RaftCore):
    """A leader counts itself also once it is no voter any more."""

    def _replicated(self) -> None:
        voters = self.voters
        if self.role == "leader" and self.node not in voters.voting:
            learners = tuple(node for node in voters.learners if node != self.node)
            self.voters = Voters((*voters.current, self.node), voters.old, learners)
        super()._replicated()
        self.voters = self.members.voters


class WipedDiskVotes(RaftCore):
    """A node on an empty disk votes and answers as before."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules = rules.REFERENCE) -> None:
        super().__init__(structs.replace(configuration, least_session=0), restored, rules)


class LearnerLeaderWaits(RaftCore):
    """A leader that is itself the learner to be promoted waits for a follower that is ready."""

    def _following(self) -> Members | None:
        return None if self.members.adding == (self.node,) else super()._following()


class RemovedNeverStands(RaftCore):
    """Who is removed does not stand for election, though its removal may not be committed."""

    def _may_be_needed(self) -> bool:
        return self.node in self.voters.voting


class RejoinSession(RaftCore):
    """What a node answers to what it was asked before it was removed counts when it was added again."""

    def _concerns(self, sender: int, message: Request | Answer) -> bool:
        return not isinstance(message, Request) or super()._concerns(sender, message)


class AnySessionAnswered(RaftCore):
    """A node answers what was sent to an earlier session of it."""

    def _concerns(self, sender: int, message: Request | Answer) -> bool:
        return isinstance(message, Request) or super()._concerns(sender, message)


class EarlierSessionElected(RaftCore):
    """A vote counts that was asked for in an earlier session of the candidate."""

    def _concerns(self, sender: int, message: Request | Answer) -> bool:
        if isinstance(message, VoteReply):
            message = structs.replace(message, sender_session=self.session)
        return super()._concerns(sender, message)


class RemovedLeaderLeavesEarly(RaftCore):
    """A leader that is removed steps down when it appends that."""

    def _members_changed(self) -> None:
        super()._members_changed()
        if self.role == "leader" and self.node not in self.voters.voting:
            self._follow(self.term)


class VoteFromRemoved(RaftCore):
    """A candidate asks also those that were voters once, and counts every vote that it is given."""

    def _ask_for_votes(self, *, pre_vote: bool) -> None:
        super()._ask_for_votes(pre_vote=pre_vote)
        request = VoteRequest(self.term, self.node, self.index.last_term, self.index.dirty, pre_vote)
        once = {node for _, members in self._configurations for node in members.voters.voting}
        for node in sorted(once - {*self.voters.voting, self.node}):
            self._send(node, request)

    def _concerns(self, sender: int, message: Request | Answer) -> bool:
        return isinstance(message, VoteReply) or super()._concerns(sender, message)

    def _vote_replied(self, sender: int, reply: VoteReply) -> None:
        if sender in self.voters.voting or reply.asked != self.term:
            super()._vote_replied(sender, reply)
        elif reply.pre_vote and self._pre_voting:
            self._count_pre_vote(sender, granted=reply.granted)
        elif not reply.pre_vote and self.role == "candidate":
            self._count_vote(sender, granted=reply.granted)


def _every_vote(voters: Voters, votes: Mapping[int, bool]) -> int:
    needed = max(len(half) // 2 + 1 for half in (voters.current, voters.old))
    if sum(votes.values()) >= needed:
        return VOTE_WON
    return VOTE_LOST if sum(not vote for vote in votes.values()) >= needed else VOTE_PENDING


class TruncatedConfigKept(RaftCore):
    """A configuration stays in force after its entry was truncated."""

    def _truncate(self, offset: int) -> None:
        kept = [*self._configurations]
        in_force = self._in_force
        self._in_force = lambda: None  # type: ignore[method-assign]
        super()._truncate(offset)
        self._configurations = kept
        self._in_force = in_force  # type: ignore[method-assign]


class SizeOneAfterReplay(RaftCore):
    """A node that starts takes itself for the only voter of a group that has changed."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules = rules.REFERENCE) -> None:
        alone = Voters((configuration.node,))
        members = [(offset, replace(each, voters=alone)) for offset, each in restored.members if each.revision]
        kept = [(offset, each) for offset, each in restored.members if not each.revision]
        super().__init__(configuration, replace(restored, members=(*kept, *members)), rules)


MUTANTS = (
    Mutant(
        "reconfigure-uncommitted",
        "a step of a change is made before the configuration in force is committed",
        ("changes-are-committed",),
        ReconfigureUncommitted,
        setting="members",
    ),
    Mutant(
        "removed-without-joint",
        "voters are removed in one step, without a joint configuration",
        ("quorums-intersect",),
        RemovedWithoutJoint,
        setting="members-leave",
    ),
    Mutant(
        "single-server-2015",
        "voters are removed one by one by leaders that have committed nothing in their term",
        ("changes-are-committed",),
        SingleServer2015,
        setting="members-leave",
        thread="https://groups.google.com/g/raft-dev/c/t4xj6dJTP6E/m/d2D9LrWRza8J",
        seeds=40,
    ),
    Mutant(
        "joint-current-only",
        "a joint configuration counts the current half alone",
        ("leader-has-majority", "committed-flushed-on-majority"),
        with_rules(
            commit_candidate=_commit_by_current,
            majority_replicated=_replicated_by_current,
            vote_result=_elected_by_current,
            keeps_office=_in_office_by_current,
            leadership_confirmed=_confirmed_by_current,
        ),
        setting="members-leave",
        seeds=40,
    ),
    Mutant(
        "learner-counts",
        "a learner counts for the commit index",
        ("committed-flushed-on-majority",),
        with_rules(commit_candidate=_commit_with_learners),
        setting="members",
        seeds=40,
    ),
    Mutant(
        "self-counts-when-removed",
        "a removed leader counts itself",
        ("committed-flushed-on-majority",),
        SelfCountsWhenRemoved,
        setting="members-leave",
        seeds=100,
    ),
    Mutant(
        "removed-never-stands",
        "a removed node does not stand for election, though its removal may not be committed",
        ("somebody-leads",),
        RemovedNeverStands,
        setting="pairs",
        thread="https://github.com/databendlabs/openraft/issues/2091",
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "learner-leader-waits",
        "a leader that is itself the learner to be promoted is never promoted",
        (),
        LearnerLeaderWaits,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "wiped-disk-votes",
        "a node whose disk was wiped goes on as the member that it was",
        ("acked-survives", "log-matching", "committed-agree"),
        WipedDiskVotes,
        setting="wiped",
        seeds=100,
    ),
    Mutant(
        "rejoin-session",
        "replies of an earlier session of a node that was removed and added again count",
        ("answers-of-members",),
        RejoinSession,
        setting="readded",
        thread="https://github.com/tikv/raft-rs/issues/571",
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "any-session-answered",
        "a node answers what was sent to an earlier session of it",
        (),
        AnySessionAnswered,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "earlier-session-elected",
        "a vote counts that was asked for in an earlier session of the candidate",
        (),
        EarlierSessionElected,
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "removed-leader-leaves-early",
        "a leader that is removed steps down when it appends that",
        ("office-is-kept",),
        RemovedLeaderLeavesEarly,
        setting="leaders-leave",
        test="tests/raft/test_mutants.py",
    ),
    Mutant(
        "vote-from-removed",
        "the votes of nodes that were removed are counted",
        ("leader-has-majority",),
        partial(VoteFromRemoved, rules=replace(rules.REFERENCE, vote_result=_every_vote)),
        setting="members-leave",
        thread="https://github.com/nats-io/nats-server/pull/8353",
        seeds=40,
    ),
    Mutant(
        "truncated-config-kept",
        "a configuration stays in force after its entry was truncated",
        ("configuration-in-force",),
        TruncatedConfigKept,
        setting="members",
        thread="https://github.com/nats-io/nats-server/pull/8332",
        seeds=40,
    ),
    Mutant(
        "size-one-after-replay",
        "a node that starts takes itself for the only voter of a group that has changed",
        ("one-leader-per-term", "committed-agree", "acked-survives"),
        SizeOneAfterReplay,
        setting="members",
        seeds=40,
    ),
)
