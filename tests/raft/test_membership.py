"""Configurations as entries of the log, and the leader that changes them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from quorumlog.events import (
    Append,
    AppendRequested,
    BarrierRequested,
    Effect,
    Event,
    Flushed,
    Note,
    Outcome,
    Received,
    Resolved,
    Send,
    Started,
    StartFlush,
    TimerFired,
)
from quorumlog.quorum import Voters
from quorumlog.raft.core import Configuration, RaftCore, Restored
from quorumlog.raft.events import ChangeRequested, Timer, TransferRequested, VoteSaved
from quorumlog.raft.index import LogIndex
from quorumlog.raft.members import Change, Members, first_step, next_step
from quorumlog.raft.messages import (
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    LightHeartbeat,
    LightReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from quorumlog.storage.batch import BatchKind, RecordBatch

SECOND = 1_000_000_000
START = Members(Voters((0, 1, 2)))


def steps(members: Members, change: Change) -> list[str]:
    """All configurations of a change, learners being quick."""
    found, following = [], first_step(members, change)
    while following is not None:
        found.append(str(following))
        following = next_step(following, following.voters.learners)
    return found


def test_steps_of_changes_read_as_they_are_written_down() -> None:
    assert steps(START, Change(1, add=(3, 4))) == [
        "0,1,2 learners 3,4 adding 3,4 revision 1 sessions 3:1,4:1",
        "0,1,2,3 learners 4 adding 4 revision 1 sessions 3:1,4:1",
        "0,1,2,3,4 revision 1 sessions 3:1,4:1",
    ]
    assert steps(START, Change(1, remove=(0,))) == ["1,2 old 0,1,2 removing 0 revision 1", "1,2 revision 1"]
    assert steps(START, Change(2, demote=(1,))) == [
        "0,2 old 0,1,2 learners 1 demoting 1 revision 2",
        "0,2 learners 1 revision 2",
    ]
    replaced = steps(START, Change(1, add=(3,), remove=(0,)))
    assert replaced == [
        "0,1,2 learners 3 adding 3 removing 0 revision 1 sessions 3:1",
        "0,1,2,3 removing 0 revision 1 sessions 3:1",
        "1,2,3 old 0,1,2,3 removing 0 revision 1 sessions 3:1",
        "1,2,3 revision 1 sessions 3:1",
    ]
    assert steps(Members.decode(b"0,2 learners 1 revision 2"), Change(3, add=(1,))) == [
        "0,2 learners 1 adding 1 revision 3",
        "0,2,1 revision 3",
    ]
    assert steps(Members.decode(b"0,2 learners 1 revision 2"), Change(3, remove=(1,))) == ["0,2 revision 3"]


def test_a_node_that_is_added_again_has_another_session() -> None:
    without = Members.decode(steps(START, Change(1, remove=(2,)))[-1].encode())
    assert without.session(2) == -1
    again = Members.decode(steps(without, Change(5, add=(2,)))[-1].encode())
    assert (again.session(2), again.session(0)) == (5, 0)


@pytest.mark.parametrize(
    ("under_way", "left"),
    [
        ("0,1,2 learners 3 adding 3 revision 4 sessions 3:4", "0,1,2 revision 5"),
        ("0,1,2,3 learners 4 adding 4 revision 4 sessions 3:4,4:4", "0,1,2 revision 5"),
        ("0,1 old 0,1,2 removing 2 revision 4", "0,1,2 revision 5"),
        ("0,2 old 0,1,2 learners 1 demoting 1 revision 4", "0,1,2 revision 5"),
        ("0,1,2 learners 7,3 adding 3 revision 4 sessions 7:2,3:4", "0,1,2 learners 7 revision 5 sessions 7:2"),
    ],
)
def test_a_change_is_taken_back(under_way: str, left: str) -> None:
    assert steps(Members.decode(under_way.encode()), Change(5, cancel=True))[-1] == left


def test_the_session_of_a_node_that_starts_is_that_of_its_newest_configuration() -> None:
    """raft.md#session."""
    texts = (b"0,1,2 revision 3 sessions 0:3", b"1,2 revision 4", b"1,2,0 revision 6 sessions 0:6")
    members = tuple((at, Members.decode(text)) for at, text in enumerate(texts))
    restored = Restored(2, index=LogIndex.of([(at, at, 2) for at in range(3)]), members=members)
    assert RaftCore(Configuration(0, Voters((0, 1, 2))), restored).session == 6


def test_voters_that_were_promoted_go_through_a_joint_configuration() -> None:
    """raft.md#cancel-change: two of them at once would leave quorums without a node in common."""
    taken_back = steps(
        Members.decode(b"0,1,2,3,4 learners 5 adding 5 revision 4 sessions 3:4,4:4,5:4"), Change(5, cancel=True)
    )
    assert [each.split(" revision")[0] for each in taken_back] == ["0,1,2 old 0,1,2,3,4 removing 3,4", "0,1,2"]


def test_a_removed_leader_hands_on_to_who_holds_most() -> None:
    """raft.md#removed-leader."""
    bench = Bench().lead()
    bench.change(remove=(0,))
    while bench.core.voters.old:
        bench.answer(1, 2)
    assert bench.core.role == "leader"
    for behind, ahead in ((1, 2), (2, 1)):
        bench.core.progress[behind].match, bench.core.progress[ahead].match = 0, 1
        bench.core._leave()
        assert bench.core._transfer is not None
        assert bench.core._transfer.target == ahead


@pytest.mark.parametrize(
    "change",
    [
        Change(0, add=(3,)),
        Change(1),
        Change(1, add=(1,)),
        Change(1, remove=(3,)),
        Change(1, demote=(3,)),
        Change(1, remove=(0, 1, 2)),
        Change(1, add=(3,), remove=(3,)),
        Change(1, add=(-1,)),
        Change(1, add=tuple(range(3, 70))),
        Change(1, cancel=True),
        Change((1 << 53) + 1, add=(3,)),
    ],
)
def test_changes_that_cannot_be_made(change: Change) -> None:
    assert first_step(START, change) is None


def test_the_largest_revision_can_be_read_back() -> None:
    begun = first_step(START, Change(1 << 53, add=(3,)))
    assert begun is not None
    assert Members.decode(begun.encode()) == begun


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"0,1,2 ",
        b"0,1,2 old",
        b"0,,2",
        b"0,1,1",
        b"0,1 learners 1",
        b"0,1 younger 1",
        b"0,1 old 1 old 2",
        b"0,-1",
        b"0 revision 99999999999999999999",
        b"0 sessions 0",
        b"0 sessions 0:1:2",
        b"\xff",
        b"0 learners " + b",".join(str(node).encode() for node in range(1, 63)),
        b"0" * 5000,
    ],
)
def test_what_is_no_configuration_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Members.decode(payload)


def entry(offset: int, term: int, text: str) -> RecordBatch:
    return RecordBatch(offset, term, BatchKind.CONFIGURATION, 1, -1, text.encode())


class Bench:
    """Drives one core. Its disk is quick; its peers answer when the test says so."""

    def __init__(
        self,
        node: int = 0,
        voters: Voters = START.voters,
        restored: Restored | None = None,
        least_session: int = 0,
    ) -> None:
        self.now = 0
        configuration = Configuration(node, voters, least_session=least_session)
        self.core = RaftCore(configuration, restored or Restored())
        self.effects: list[Effect] = []
        self.give(Started())

    def give(self, event: Event, after: int = 0) -> None:
        self.now += after
        self.effects = effects = self.core.handle(self.now, event)
        for effect in list(effects):
            if isinstance(effect, StartFlush):
                effects += self.core.handle(self.now, Flushed(effect.ticket))
            elif isinstance(effect, Append):
                assert all(batch.size_bytes for batch in effect.batches)
            elif type(effect).__name__ == "SaveVote":
                effects += self.core.handle(self.now, VoteSaved(effect.ticket))  # type: ignore[union-attr]
        self.effects = effects

    def of(self, kind: type[Any]) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def stand(self, *voters: int) -> None:
        """It stands for election, and these vote for it."""
        self.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
        for pre_vote in (True, False):
            for peer in voters:
                if self.core.role != "leader":
                    self.give(Received(peer, VoteReply(self.core.term, self.core.term, pre_vote, granted=True)))

    def lead(self) -> Bench:
        core = self.core
        self.stand(*(peer for peer in core.voters.voting if peer != core.node))
        assert core.role == "leader"
        self.answer(*core.progress)
        assert core.serving
        return self

    def answer(self, *peers: int) -> None:
        """These have all that the leader has, on disk."""
        found = []
        for peer in peers:
            end, sequence = self.core.dirty, self.core.progress[peer].sequence
            session = self.core.members.session(peer)
            self.give(Received(peer, AppendReply(self.core.term, sequence, True, end, end, end, session=session)))
            found += self.effects
        self.effects = found

    def change(self, revision: int = 1, **what: Any) -> None:  # noqa: ANN401
        self.give(ChangeRequested(77, Change(revision, **what)))

    @property
    def outcomes(self) -> list[Outcome]:
        return [resolved.outcome for resolved in self.of(Resolved)]

    @property
    def members(self) -> str:
        return str(self.core.members)


def test_a_learner_is_promoted_when_it_has_everything() -> None:
    bench = Bench().lead()
    bench.change(add=(3,))
    assert bench.members == "0,1,2 learners 3 adding 3 revision 1 sessions 3:1"
    assert {effect.to for effect in bench.of(Send)} == {1, 2, 3}
    bench.answer(3)
    assert bench.core.commit < bench.core.dirty, "a learner does not count"
    bench.answer(1)
    assert bench.members == "0,1,2,3 revision 1 sessions 3:1"
    bench.answer(1)
    assert bench.core.commit < bench.core.dirty, "two of four"
    bench.answer(3)
    assert bench.outcomes == [Outcome.SUCCESS]


def test_one_change_at_a_time_and_none_before_the_newest_configuration_is_committed() -> None:
    bench = Bench().lead()
    bench.change(1, remove=(2,))
    bench.change(2, add=(3,))
    assert bench.outcomes == [Outcome.REFUSED]
    bench.change(2, cancel=True)
    assert bench.outcomes == [Outcome.REFUSED], "not committed yet"
    bench.answer(1)
    assert bench.members == "0,1 revision 1"


def test_a_joint_configuration_needs_both_halves_for_commits_barriers_and_check_quorum() -> None:
    bench = Bench(voters=Voters((0, 1, 2, 3, 4))).lead()
    bench.change(remove=(2, 3, 4))
    assert bench.members == "0,1 old 0,1,2,3,4 removing 2,3,4 revision 1"
    bench.answer(2, 3, 4)
    assert bench.core.commit < bench.core.dirty, "not two of the new half"
    bench.give(BarrierRequested(7))
    bench.answer(2, 3)
    assert bench.outcomes == []
    bench.answer(1)
    assert bench.outcomes == [Outcome.SUCCESS]
    assert bench.members == "0,1 revision 1"
    assert set(bench.core.progress) == {1}


def test_a_leader_that_is_removed_leads_until_that_is_committed_and_hands_on() -> None:
    bench = Bench().lead()
    bench.change(remove=(0,))
    bench.answer(1)
    assert bench.members == "1,2 old 0,1,2 removing 0 revision 1"
    bench.answer(2)
    assert bench.members == "1,2 revision 1"
    bench.answer(1)
    assert bench.core.role == "leader"
    assert bench.core.commit < bench.core.dirty, "one of two voters, and the leader counts no more"
    bench.answer(2)
    assert Outcome.SUCCESS in bench.outcomes
    assert [(effect.to, type(effect.message)) for effect in bench.of(Send)][-1] == (1, TimeoutNow)
    bench.give(TimerFired(Timer.TRANSFER), after=2 * SECOND)
    assert bench.core.role == "follower"
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    assert bench.of(Send) == [], "it does not stand any more"


def append_entries(term: int, previous: int, previous_term: int, *batches: RecordBatch) -> AppendEntries:
    return AppendEntries(term, 1, previous, previous_term, -1, -1, True, batches)


def test_a_configuration_is_in_force_from_its_append_and_goes_with_its_entry() -> None:
    bench = Bench(node=2)
    first = entry(0, 1, "0,1,2")
    bench.give(Received(0, append_entries(1, -1, -1, first, entry(1, 1, "0,1 old 0,1,2 removing 2 revision 1"))))
    assert bench.core.voters.old == (0, 1, 2)
    said = [each.columns["text"] for each in bench.of(Note) if each.kind == "configuration"]
    assert said == ["0,1 old 0,1,2 removing 2 revision 1"]
    bench.give(Received(1, append_entries(2, 0, 1, entry(1, 2, "0,1,2"))))
    assert bench.members == "0,1,2"
    said = [(each.columns["offset"], each.columns["text"]) for each in bench.of(Note) if each.kind == "configuration"]
    assert said == [(0, "0,1,2")], "it is that of the entry before, and the same as that of the new one"


def test_votes_and_terms_of_nodes_that_are_no_members_do_not_count() -> None:
    bench = Bench().lead()
    bench.change(remove=(2,))
    bench.answer(1)
    term = bench.core.term
    bench.give(Received(2, AppendReply(term + 5, 9, False, -1, -1, -1)))
    bench.give(Received(2, HeartbeatReply(term + 5, 9, False, -1, -1, -1)))
    bench.give(Received(2, VoteReply(term + 5, term, False, granted=False)))
    assert (bench.core.term, bench.core.role) == (term, "leader")


def test_a_new_leader_goes_on_with_the_change_that_it_finds() -> None:
    bench = Bench(node=1)
    under_way = entry(1, 1, "0,1,2 learners 3 adding 3 revision 1 sessions 3:1")
    bench.give(Received(0, append_entries(1, -1, -1, entry(0, 1, "0,1,2"), under_way)))
    core = bench.core
    bench.stand(2)
    bench.answer(3)
    assert core.voters.learners == (3,), "its first configuration is not committed"
    bench.answer(2)
    assert core.voters.current == (0, 1, 2, 3)


def test_a_leader_that_finds_its_own_removal_under_way_finishes_it_and_hands_on() -> None:
    bench = Bench()
    removal = entry(1, 1, "1,2 old 0,1,2 removing 0 revision 1")
    bench.give(Received(1, append_entries(1, -1, -1, entry(0, 1, "0,1,2"), removal)))
    bench.stand(1, 2)
    bench.answer(1, 2)
    assert bench.members == "1,2 revision 1"
    bench.answer(1, 2)
    assert [(effect.to, type(effect.message)) for effect in bench.of(Send)][-1] == (1, TimeoutNow)


def test_a_leader_that_is_itself_the_learner_to_be_promoted_promotes_itself() -> None:
    """raft.md#learner-leads: all that it knows to be committed is from before it was removed and added again."""
    bench = Bench()
    again = entry(1, 1, "1,2 learners 0 adding 0 revision 2 sessions 0:2")
    bench.give(Received(1, append_entries(1, -1, -1, entry(0, 1, "0,1,2"), again)))
    core = bench.core
    bench.stand(1, 2)
    assert core.role == "leader"
    bench.answer(1)
    assert core.voters.learners == (0,), "its first configuration is not committed"
    bench.answer(2)
    assert bench.members == "1,2,0 revision 2 sessions 0:2"
    bench.answer(1, 2)
    assert core.commit == core.dirty
    bench.change(revision=3, add=(3,))
    assert core.voters.learners == (3,), "the next change"


def test_a_node_that_is_added_takes_the_group_from_its_leader() -> None:
    bench = Bench(node=3, voters=Voters(()))
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    assert bench.of(Send) == []
    bench.give(Received(0, Heartbeat(4, 1, 9, 4, 9, 9)))
    bench.give(Received(0, append_entries(4, -1, -1, entry(0, 4, "0,1,2 learners 3 adding 3 revision 1"))))
    assert bench.core.voters == Voters((0, 1, 2), learners=(3,))


def test_a_node_that_lost_its_disk_is_down_until_its_leader_names_it_another_session() -> None:
    bench = Bench(node=2, voters=Voters(()), least_session=5)
    core = bench.core
    before = append_entries(4, -1, -1, entry(0, 4, "0,1,2 revision 4 sessions 2:4"))
    asked = [VoteRequest(9, 0, 9, 9, pre_vote) for pre_vote in (True, False)]
    for message in (before, *asked, Heartbeat(4, 1, 9, 4, 9, 9, session=4)):
        bench.give(Received(0, message))
        assert bench.of(Send) == []
    assert (core.term, core.dirty) == (0, -1)
    bench.give(Received(0, LightHeartbeat()))
    assert [effect.message for effect in bench.of(Send)] == [LightReply(follows=False)]
    bench.give(Received(0, Heartbeat(4, 2, 9, 4, 9, 9, session=6)))
    assert any(isinstance(effect.message, HeartbeatReply) for effect in bench.of(Send))
    added = append_entries(4, -1, -1, entry(0, 4, "0,1 learners 2 adding 2 revision 6 sessions 2:6"))
    bench.give(Received(0, structs.replace(added, session=6)))
    assert core.voters.learners == (2,)
    restored = Restored(4, index=LogIndex.of([(0, 0, 4)]), members=((0, core.members),))
    again = Bench(node=2, voters=Voters(()), restored=restored, least_session=5)
    for session, answers in ((4, 0), (6, 1)):
        again.give(Received(0, VoteRequest(9, 0, 9, 9, False, session=session)))
        assert len(again.of(Send)) == answers, "from its log it knows that it has a session"


def test_no_leadership_is_handed_on_before_the_newest_configuration_is_committed_and_simple() -> None:
    bench = Bench().lead()
    bench.change(add=(3,))
    assert bench.members.startswith("0,1,2 learners 3"), "an entry that is not committed"
    bench.give(TransferRequested(5, 1))
    assert bench.outcomes == [Outcome.REFUSED]
    bench.answer(1)
    bench.answer(3)
    bench.answer(1, 2, 3)
    assert bench.core.members.simple
    bench.change(2, remove=(3,))
    assert bench.core.voters.old == (0, 1, 2, 3)
    bench.give(TransferRequested(6, 1))
    assert bench.outcomes == [Outcome.REFUSED]
    while not bench.core.members.simple or bench.core.commit < bench.core.dirty:
        bench.answer(1)
        bench.answer(2)
    bench.give(TransferRequested(7, 1))
    assert bench.outcomes == []
    assert TimeoutNow(bench.core.term) in [effect.message for effect in bench.of(Send)]


def test_a_leader_names_its_followers_their_sessions() -> None:
    bench = Bench().lead()
    bench.change(add=(3,))
    bench.give(TimerFired(Timer.HEARTBEAT), after=SECOND)
    named = {effect.to: effect.message.session for effect in bench.of(Send) if isinstance(effect.message, Heartbeat)}
    assert named == {1: 0, 2: 0, 3: bench.core.members.revision}


def test_a_removed_follower_that_is_asked_to_be_sent_nothing_is_sent_nothing() -> None:
    bench = Bench().lead()
    bench.change(remove=(2,))
    bench.answer(1)
    bench.give(TimerFired(Timer.HEARTBEAT), after=SECOND)
    assert {effect.to for effect in bench.of(Send)} == {1}


def test_a_learner_that_is_behind_is_not_promoted() -> None:
    bench = Bench().lead()
    bench.change(add=(3,))
    bench.answer(1)
    assert bench.core.commit == bench.core.dirty
    assert bench.members == "0,1,2 learners 3 adding 3 revision 1 sessions 3:1"


def test_a_learner_that_could_forget_its_session_in_a_power_loss_is_not_promoted() -> None:
    """raft.md#change-steps: on a disk that was wiped, it would not vote after that."""
    bench = Bench().lead()
    bench.change(add=(3,))
    bench.answer(1)
    end = bench.core.dirty
    for flushed, learners in ((end - 1, (3,)), (end, ())):
        sequence = bench.core.progress[3].sequence
        bench.give(Received(3, AppendReply(bench.core.term, sequence, True, end, flushed, end, session=1)))
        assert bench.core.members.voters.learners == learners


def test_a_learner_that_lacks_what_its_leader_has_flushed_is_not_promoted() -> None:
    """raft.md#change-steps."""
    bench = Bench().lead()
    bench.change(add=(3,))
    bench.answer(1)
    named = bench.core.dirty
    bench.give(AppendRequested(4, RecordBatch(0, 0, BatchKind.DATA, 1, 1, bytes(8))))
    bench.give(TimerFired(Timer.DRAIN))
    bench.give(TimerFired(Timer.FLUSH))
    assert bench.core.flushed == bench.core.dirty == named + 1
    for match, learners in ((named, (3,)), (named + 1, ())):
        sequence = bench.core.progress[3].next_sequence()
        bench.give(Received(3, AppendReply(bench.core.term, sequence, True, match, match, match, session=1)))
        assert bench.core.members.voters.learners == learners


def test_whoever_asked_for_a_change_that_its_leader_does_not_finish_learns_that_nothing_is_known() -> None:
    bench = Bench().lead()
    bench.change(add=(3,))
    bench.give(Received(1, Heartbeat(bench.core.term + 1, 1, -1, -1, -1, -1)))
    assert bench.outcomes == [Outcome.UNKNOWN]


def test_no_members_change_while_leadership_is_handed_on() -> None:
    """raft.md#change-refused."""
    bench = Bench().lead()
    bench.give(AppendRequested(4, RecordBatch(0, 0, BatchKind.DATA, 1, 1, bytes(8))))
    bench.give(TimerFired(Timer.DRAIN))
    bench.give(TransferRequested(5, 1))
    assert bench.outcomes == [], "the target is behind"
    bench.change(add=(3,))
    assert bench.outcomes == [Outcome.REFUSED]
    assert bench.core.members.simple


def test_requests_to_a_node_that_is_added_again_are_numbered_on() -> None:
    """What the network takes late of the requests before it was removed is none of those that it is sent then."""
    bench = Bench().lead()
    for request in (4, 5, 6):
        bench.give(AppendRequested(request, RecordBatch(0, 0, BatchKind.DATA, 1, 1, bytes(8))))
        bench.give(TimerFired(Timer.DRAIN))
    before = bench.core.progress[2].sequence
    bench.answer(1)
    bench.change(remove=(2,))
    while not bench.core.members.simple or bench.core.commit < bench.core.dirty:
        bench.answer(1)
    bench.change(2, add=(2,))
    assert bench.core.progress[2].sequence > before
