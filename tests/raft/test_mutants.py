"""The mutants of the core that no history shows, or so seldom that hunts did not come to them: the few steps that each
needs, played by hand; the reference keeps the promise, the mutant breaks it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from quorumlog.events import (
    Append,
    AppendRequested,
    BarrierRequested,
    CoreFactory,
    Effect,
    Event,
    Flushed,
    LogRead,
    Note,
    Outcome,
    ReadIndexRequested,
    ReadLog,
    Received,
    Reset,
    Resolved,
    Send,
    Started,
    StartFlush,
    TimerFired,
    TrimRequested,
)
from quorumlog.quorum import Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import ChangeRequested, Disconnect, HandedOver, SaveVote, Timer, TransferRequested, VoteSaved
from quorumlog.raft.index import LogIndex
from quorumlog.raft.members import Change, Members
from quorumlog.raft.messages import (
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    LightHeartbeat,
    LightReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from quorumlog.raft.mutants import MUTANTS
from quorumlog.raft.slots import RecoverySlots
from quorumlog.raft.snapshot import Snapshot, State
from quorumlog.raft.state import Configuration, Restored
from quorumlog.storage.batch import BatchKind, RecordBatch

ROOT = Path(__file__).parents[2]
THREE = Voters((0, 1, 2))
HERE = "tests/raft/test_mutants.py"


def play(make_core: CoreFactory, nodes: int, events: list[Event]) -> list[Effect]:
    """All effects of a core with an empty disk that is given these events."""
    return give(make_core(Configuration(0, Voters(tuple(range(nodes)))), Restored()), *events)


def refuses_a_vote_while_it_hears_its_leader(make_core: CoreFactory) -> bool:
    """raft.md#refuse-vote."""
    heard = Received(1, Heartbeat(1, 1, -1, -1, -1, -1))
    effects = play(make_core, 3, [Started(), heard, Received(2, VoteRequest(2, 2, 1, 9, False))])
    replies = [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, VoteReply)]
    return [reply.granted for reply in replies] == [False]


def writes_nothing_in_another_term(make_core: CoreFactory) -> bool:
    """raft.md#rounds."""
    batch = RecordBatch(0, 0, BatchKind.DATA, 1, 1, bytes(8))
    events = [Started(), TimerFired(Timer.ELECTION), AppendRequested(1, batch, 7), TimerFired(Timer.DRAIN)]
    ends = [each.outcome for each in play(make_core, 1, events) if isinstance(each, Resolved)]
    return ends == [Outcome.TERM_MISMATCH]


def _rounds(make_core: CoreFactory) -> list[Effect]:
    """The effects of a leader without followers that is asked for three appends at once."""
    asked = [AppendRequested(at, RecordBatch(0, 0, BatchKind.DATA, 1, 1, bytes(8))) for at in (1, 2, 3)]
    return play(make_core, 1, [Started(), TimerFired(Timer.ELECTION), *asked, TimerFired(Timer.DRAIN)])


def keeps_the_order_of_enqueueing(make_core: CoreFactory) -> bool:
    """raft.md#enqueue-order."""
    ends = [each for each in _rounds(make_core) if isinstance(each, Resolved)]
    return [each.request for each in sorted(ends, key=lambda each: each.offset)] == [1, 2, 3]


def writes_before_it_answers(make_core: CoreFactory) -> bool:
    """raft.md#relaxed-acks."""
    kinds = [type(each) for each in _rounds(make_core) if isinstance(each, Append | Resolved)]
    return kinds == [Append, Append, Resolved, Resolved, Resolved]


def leader(make_core: CoreFactory, log: tuple[int, ...] = (), **limits: int) -> RaftCore:
    """Node 0 of three, just elected in term 3; ``log`` are the terms of the entries before its first one."""
    index = LogIndex.of((offset, offset, term) for offset, term in enumerate(log))
    core: RaftCore = make_core(Configuration(0, THREE, **limits), Restored(2, index=index))
    give(core, Started(), TimerFired(Timer.ELECTION), Received(1, VoteReply(2, 2, True, True)))
    give(core, Received(1, VoteReply(3, 3, False, True)))
    assert (core.role, core.term) == ("leader", 3)
    return core


def writes_before_it_sends(make_core: CoreFactory) -> bool:
    """raft.md#rounds."""
    core = make_core(Configuration(0, THREE), Restored(2))
    give(core, Started(), TimerFired(Timer.ELECTION), Received(1, VoteReply(2, 2, True, True)))
    effects = give(core, Received(1, VoteReply(3, 3, False, True)))
    kinds = [type(each) for each in effects if isinstance(each, Append | Send)]
    return kinds[0] is Append and Send in kinds


def follower(make_core: CoreFactory, terms: tuple[int, ...], start: int = 0) -> RaftCore:
    """Node 0 of three in term 2, with a log of such terms that begins at ``start``."""
    index = LogIndex.of(((start + at, start + at, term) for at, term in enumerate(terms)), start, terms[0])
    core: RaftCore = make_core(Configuration(0, THREE), Restored(2, index=index))
    give(core, Started())
    return core


def give(core: RaftCore, *events: Event) -> list[Effect]:
    """The effects of these events; votes are saved and flushes are done at once."""
    effects: list[Effect] = []
    queue = list(events)
    while queue:
        done = core.handle(1, queue.pop(0))
        effects += done
        queue[:0] = [Flushed(each.ticket) for each in done if isinstance(each, StartFlush)]
        if core._save:
            queue[:0] = [VoteSaved(core._save)]
    return effects


def whole(snapshot: Snapshot, term: int) -> InstallSnapshot:
    """A snapshot in one part, from a leader of ``term``."""
    return InstallSnapshot(term, 1, snapshot.last, 0, snapshot.encode(), done=True)


def refuses_a_pre_vote_to_a_shorter_log(make_core: CoreFactory) -> bool:
    """raft.md#pre-vote."""
    core = follower(make_core, (1, 1))
    effects = give(core, Received(1, VoteRequest(2, 1, 1, 0, True)))
    return [each.message.granted for each in effects if isinstance(each, Send)] == [False]


def answers_a_request_in_its_own_term(make_core: CoreFactory) -> bool:
    """raft.md#follower-flush."""
    core = follower(make_core, (1, 1))
    more = (RecordBatch(2, 2, BatchKind.DATA, 1, -1, bytes(8)),)
    (flush,) = (
        each
        for each in core.handle(1, Received(1, AppendEntries(2, 1, 1, 1, -1, -1, True, more)))
        if isinstance(each, StartFlush)
    )
    give(core, Received(2, Heartbeat(3, 1, 1, 1, -1, -1)))
    effects = give(core, Flushed(flush.ticket))
    return not [each for each in effects if isinstance(each, Send)]


def flushes_what_asks_for_it(make_core: CoreFactory) -> bool:
    """raft.md#flush-required."""
    batch = RecordBatch(0, 0, BatchKind.DATA, 1, 1, bytes(8))
    asked = AppendRequested(1, batch, force_flush=True)
    return any(isinstance(each, StartFlush) for each in give(serving(make_core), asked, TimerFired(Timer.DRAIN)))


def discards_a_flush_of_the_log_before(make_core: CoreFactory) -> bool:
    """raft.md#finished-flush."""
    core = follower(make_core, (1, 1, 1, 1, 1))
    more = (RecordBatch(5, 2, BatchKind.DATA, 1, -1, bytes(8)),)
    (flush,) = (
        each
        for each in core.handle(1, Received(1, AppendEntries(2, 1, 4, 1, -1, -1, True, more)))
        if isinstance(each, StartFlush)
    )
    give(core, Received(1, whole(Snapshot(2, 2, 0, b"0,1,2", State()), 2)), Flushed(flush.ticket))
    return core.flushed == core.dirty == 2


def steps_down_for_a_later_term(make_core: CoreFactory) -> bool:
    """raft.md#who-leads."""
    core = leader(make_core)
    give(core, Received(1, Heartbeat(4, 1, -1, -1, -1, -1)))
    return (core.role, core.term) == ("follower", 4)


def counts_what_a_follower_still_holds(make_core: CoreFactory) -> bool:
    """raft.md#replicated."""
    core = leader(make_core, (1, 1))
    give(core, Received(1, AppendReply(3, 1, True, 2, 0, 2)), Received(1, HeartbeatReply(3, 3, False, -1, 0, 0)))
    return core.replicated_on[1] == 0


def counts_its_own_term(make_core: CoreFactory) -> bool:
    """raft.md#majority-replicated."""
    core = leader(make_core, (1, 1))
    give(core, Received(1, AppendReply(3, 1, True, 1, -1, 1)))
    return core.majority_replicated == -1


def serving(make_core: CoreFactory, **limits: int) -> RaftCore:
    """The leader once the first entry of its term is committed."""
    core = leader(make_core, **limits)
    give(core, Received(1, AppendReply(3, 1, True, 0, 0, 0)))
    assert core.serving
    return core


def confirms_a_barrier_anew(make_core: CoreFactory) -> bool:
    """raft.md#barrier."""
    return not [each for each in give(serving(make_core), ReadIndexRequested(1)) if isinstance(each, Resolved)]


def refuses_reads_when_it_steps_down(make_core: CoreFactory) -> bool:
    """raft.md#read-index."""
    core = serving(make_core)
    give(core, ReadIndexRequested(1))
    ends = give(core, Received(1, Heartbeat(4, 1, -1, -1, -1, -1)))
    return [each.outcome for each in ends if isinstance(each, Resolved)] == [Outcome.NOT_LEADER]


def truncates_what_it_has_shown(make_core: CoreFactory) -> bool:
    """raft.md#visible-may-be-truncated."""
    core = follower(make_core, (1, 1, 1, 1))
    give(core, Received(1, Heartbeat(2, 1, 3, 1, 0, 3)))
    assert core.visible == 3
    other = (RecordBatch(2, 4, BatchKind.DATA, 1, 1, bytes(8)),)
    give(core, Received(2, AppendEntries(4, 1, 1, 1, 0, 1, False, other)))
    return (core.dirty, core.index.last_term) == (2, 4)


def commits_what_is_verified(make_core: CoreFactory) -> bool:
    """raft.md#follower-commit."""
    core = follower(make_core, (1, 1, 1, 1))
    give(core, Received(1, Heartbeat(2, 1, 1, 1, 3, 3)))
    return core.commit == 1


def shows_what_is_verified(make_core: CoreFactory) -> bool:
    """raft.md#follower-visible."""
    core = follower(make_core, (1, 1, 1, 1))
    give(core, Received(1, Heartbeat(2, 1, 1, 1, 3, 3)))
    return core.visible == 1


def begins_anew_for_its_leader(make_core: CoreFactory) -> bool:
    """raft.md#snapshot-transfer."""
    core = follower(make_core, (1, 1))
    return not [
        each
        for each in give(core, Received(1, whole(Snapshot(49, 1, 0, b"0,1,2", State()), 1)))
        if isinstance(each, Reset)
    ]


def stands_until_its_removal_is_committed(make_core: CoreFactory) -> bool:
    """raft.md#needed-until-committed."""
    joint, alone = Members(Voters((1,), (0, 1)), 1, removing=(0,)), Members(Voters((1,)), 1)
    index = LogIndex.of((offset, offset, 1) for offset in range(3))
    restored = Restored(1, index=index, members=((1, joint), (2, alone)))
    core = make_core(Configuration(0, Voters((0, 1))), restored)
    give(core, Started())
    sent = [each.message for each in core.handle(10**10, TimerFired(Timer.ELECTION)) if isinstance(each, Send)]
    give(core, Received(1, Heartbeat(2, 1, 2, 1, 2, 2)))
    again = [each for each in core.handle(10**11, TimerFired(Timer.ELECTION)) if isinstance(each, Send)]
    return [isinstance(each, VoteRequest) and each.pre_vote for each in sent] == [True] and not again


def promotes_itself(make_core: CoreFactory) -> bool:
    """raft.md#learner-leads: all that it knows to be committed is from before it was removed and added again."""
    before, again = Members(Voters((0, 1, 2))), Members.decode(b"1,2 learners 0 adding 0 revision 2 sessions 0:2")
    index = LogIndex.of((offset, offset, 1) for offset in range(2))
    core = make_core(Configuration(0, THREE), Restored(1, index=index, members=((0, before), (1, again))))
    give(core, Started(), TimerFired(Timer.ELECTION))
    for pre_vote in (True, False):
        for voter in (1, 2):
            give(core, Received(voter, VoteReply(core.term, core.term, pre_vote, granted=True, sender_session=2)))
    assert core.role == "leader"
    for voter in (1, 2):
        end, sequence = core.dirty, core.progress[voter].sequence
        give(core, Received(voter, AppendReply(core.term, sequence, True, end, end, end, sender_session=2)))
    return bool(core.members.voters.current == (1, 2, 0))


def compares_what_its_log_begins_behind(make_core: CoreFactory) -> bool:
    """raft.md#log-ok."""
    core = follower(make_core, (1, 1))
    give(
        core, Received(1, Heartbeat(3, 1, 49, 2, -1, -1)), Received(1, whole(Snapshot(49, 2, 0, b"0,1,2", State()), 3))
    )
    assert (core.index.start, core.dirty) == (50, 49)
    core.now += core.configuration.election_timeout
    effects = core.handle(core.now, Received(2, VoteRequest(3, 2, 1, 60, True)))
    return [each.message.granted for each in effects if isinstance(each, Send)] == [False]


def holds_what_it_trimmed(make_core: CoreFactory) -> bool:
    """raft.md#trim."""
    core = follower(make_core, (1, 1), start=10)
    again = tuple(RecordBatch(offset, 1, BatchKind.DATA, 1, 1, bytes(8)) for offset in range(5, 12))
    effects = give(core, Received(1, AppendEntries(2, 1, 4, 1, -1, -1, False, again)))
    return [each.message.success for each in effects if isinstance(each, Send)] == [True]


def counts_a_forced_flush(make_core: CoreFactory) -> bool:
    """raft.md#write-caching."""
    core: RaftCore = make_core(Configuration(0, THREE, write_caching=True), Restored(2))
    give(core, Started(), TimerFired(Timer.ELECTION), Received(1, VoteReply(2, 2, True, True)))
    give(core, Received(1, VoteReply(3, 3, False, True)), Received(1, AppendReply(3, 1, True, 0, 0, 0)))
    forced = AppendRequested(1, RecordBatch(0, 0, BatchKind.DATA, 1, -1, bytes(8)), force_flush=True)
    ends = give(core, forced, TimerFired(Timer.DRAIN), Received(1, AppendReply(3, 9, True, 1, 0, 1)))
    assert core.majority_replicated == 1
    return not [each for each in ends if isinstance(each, Resolved)]


def saves_a_term_before_it_answers(make_core: CoreFactory) -> bool:
    """raft.md#vote-durable."""
    core = follower(make_core, (1, 1))
    effects = core.handle(1, Received(1, Heartbeat(4, 1, 1, 1, -1, -1)))
    return not [each for each in effects if isinstance(each, Send)]


def compares_where_its_log_ends(make_core: CoreFactory) -> bool:
    """raft.md#log-ok."""
    core = follower(make_core, (2, 2))
    more = (RecordBatch(2, 2, BatchKind.DATA, 1, 1, bytes(8)),)
    core.handle(1, Received(1, AppendEntries(2, 1, 1, 2, -1, -1, False, more)))
    assert (core.dirty, core.flushed) == (2, 1)
    core.now = core.configuration.election_timeout + 1
    effects = core.handle(core.now, Received(2, VoteRequest(2, 2, 2, 1, True)))
    return [each.message.granted for each in effects if isinstance(each, Send)] == [False]


def knows_the_term_before_its_start(make_core: CoreFactory) -> bool:
    """raft.md#trim."""
    core = follower(make_core, (1, 2))
    give(core, Received(1, Heartbeat(2, 1, 1, 2, 1, 1)), TrimRequested(1))
    assert core.index.start == 1
    return core.index.term(0) == 1


def ignores_replies_of_an_earlier_session(make_core: CoreFactory) -> bool:
    """raft.md#readded-node."""
    core = leader(make_core)

    def answered(*peers: int) -> None:
        for peer in peers:
            reply = AppendReply(core.term, core.progress[peer].sequence, True, core.dirty, core.dirty, core.dirty)
            for effect in core.handle(core.now, Received(peer, reply)):
                if isinstance(effect, StartFlush):
                    core.handle(core.now, Flushed(effect.ticket))

    def changed(change: Change) -> None:
        for effect in core.handle(core.now, ChangeRequested(1, change)):
            if isinstance(effect, StartFlush):
                core.handle(core.now, Flushed(effect.ticket))

    answered(1, 2)
    late = AppendReply(core.term, core.progress[2].sequence + 3, True, core.dirty, core.dirty, core.dirty)
    give(core, TimerFired(Timer.HEARTBEAT), TimerFired(Timer.HEARTBEAT), TimerFired(Timer.HEARTBEAT))
    changed(Change(1, remove=(2,)))
    answered(1)
    answered(1)
    assert list(core.progress) == [1]
    changed(Change(2, add=(2,)))
    give(core, Received(2, late))
    return core.progress[2].match == -1


def refuses_a_vote_for_a_transfer_to_a_shorter_log(make_core: CoreFactory) -> bool:
    """raft.md#refuse-vote."""
    core = follower(make_core, (2, 2))
    effects = give(core, Received(1, VoteRequest(3, 1, 2, 0, False, True)), VoteSaved(core._save))
    return core.voted_for == -1 and not any(isinstance(each, Note) and each.kind == "vote" for each in effects)


def gives_way_once(make_core: CoreFactory) -> bool:
    """raft.md#longest-log."""
    core = make_core(Configuration(0, THREE, longest_log=True), Restored(1, -1, LogIndex()))
    for _ in range(2):
        core.now += 2 * core.configuration.election_timeout
        give(core, TimerFired(Timer.ELECTION), Received(1, VoteReply(1, 1, True, False, True)))
        give(core, Received(2, VoteReply(1, 1, True, True)))
    return core.role == "candidate"


def confirms_a_barrier_by_full_answers(make_core: CoreFactory) -> bool:
    """raft.md#light-heartbeat."""
    core = make_core(Configuration(0, THREE, light_heartbeats=True), Restored())
    give(core, Started(), TimerFired(Timer.ELECTION), Received(1, VoteReply(0, 0, True, True)))
    give(core, Received(1, VoteReply(1, 1, False, True)))

    def answered() -> None:
        reply = AppendReply(core.term, core.progress[1].sequence, True, core.dirty, core.dirty, core.dirty)
        give(core, Received(1, reply))

    answered()
    give(core, TimerFired(Timer.HEARTBEAT))
    answered()
    said = [type(each.message) for each in give(core, TimerFired(Timer.HEARTBEAT)) if isinstance(each, Send)]
    assert said == [LightHeartbeat, Heartbeat]  # node 2 has never answered
    asked = give(core, ReadIndexRequested(7))
    assert [type(each.message) for each in asked if isinstance(each, Send)] == [Heartbeat, Heartbeat]
    return not any(isinstance(each, Resolved) for each in give(core, Received(1, LightReply(True))))


def counts_what_it_heard_in_its_term(make_core: CoreFactory) -> bool:
    """raft.md#durable."""
    core = leader(make_core, (1, 1))
    give(core, Received(1, AppendReply(3, 1, True, 1, 1, 1)), Received(1, VoteReply(4, 3, False, False)))
    give(core, TimerFired(Timer.ELECTION), Received(2, VoteReply(4, 4, True, True)))
    give(core, Received(2, VoteReply(5, 5, False, True)))
    assert (core.role, core.term) == ("leader", 5)
    return core.durable_on[1] == core.replicated_on[1] == -1


def sends_nothing_of_a_term_that_is_over(make_core: CoreFactory) -> bool:
    """raft.md#vote-durable."""
    core = follower(make_core, (2, 2))
    core.handle(1, Received(1, VoteRequest(3, 1, 2, 5, False)))
    core.handle(1, Received(2, VoteRequest(4, 2, 2, 5, False)))
    sent = [each.message for each in core.handle(1, VoteSaved(core._save)) if isinstance(each, Send)]
    return [message.term for message in sent] == [4]


def takes_appends_again_when_a_transfer_fails(make_core: CoreFactory) -> bool:
    """raft.md#transfer-catch-up."""
    core = serving(make_core)
    give(core, TransferRequested(1, 2), TimerFired(Timer.TRANSFER))
    batch = RecordBatch(0, 0, BatchKind.DATA, 1, 1, bytes(8))
    ends = give(core, AppendRequested(2, batch, -1, False), TimerFired(Timer.DRAIN))
    return [each.outcome for each in ends if isinstance(each, Resolved)] == [Outcome.SUCCESS]


def stands_when_its_leader_tells_it_to(make_core: CoreFactory) -> bool:
    """raft.md#transfer-target."""
    core = follower(make_core, (2, 2))
    give(core, Received(1, Heartbeat(2, 1, 1, 2, -1, -1)), Received(2, TimeoutNow(1)))
    stays = core.term == 2
    give(core, Received(1, TimeoutNow(2)))
    return stays and core.term == 3


def waits_for_the_end_of_the_log(make_core: CoreFactory) -> bool:
    """raft.md#barrier."""
    core = serving(make_core)
    batch = RecordBatch(0, 0, BatchKind.DATA, 1, 1, bytes(8))
    give(core, AppendRequested(1, batch, -1, False), TimerFired(Timer.DRAIN), BarrierRequested(2))
    ends = give(core, Received(1, AppendReply(3, core.progress[1].sequence, True, 1, 1, 1)))
    return [(each.request, each.offset) for each in ends if isinstance(each, Resolved)] == [(2, 1)]


def counts_what_is_on_its_way(make_core: CoreFactory) -> bool:
    """raft.md#in-flight."""
    core = serving(make_core)
    for request in (1, 2, 3):
        batch = RecordBatch(0, 0, BatchKind.DATA, 1, 1, bytes(8))
        give(core, AppendRequested(request, batch, -1, False), TimerFired(Timer.DRAIN))
    sent = sorted(core.progress[1].unanswered)
    give(core, Received(1, AppendReply(3, sent[0], True, 1, 1, 1)))
    return len(sent) == 3 and sorted(core.progress[1].unanswered) == sent[1:]


def _batch(size: int = 8) -> RecordBatch:
    return RecordBatch(0, 0, BatchKind.DATA, 1, 1, bytes(size))


def keeps_what_it_committed_and_says_so(make_core: CoreFactory) -> bool:
    """raft.md#cut-below-commit."""
    core = follower(make_core, (2, 2))
    give(core, Received(1, Heartbeat(2, 1, 1, 2, 1, 1)))
    assert core.commit == 1
    late = RecordBatch(1, 2, BatchKind.DATA, 2, 1, bytes(8))
    effects = give(core, Received(1, AppendEntries(2, 2, 0, 2, 1, 1, False, (late,))))
    replies = [each.message for each in effects if isinstance(each, Send)]
    return [(reply.success, reply.match) for reply in replies] == [(True, 1)]


def _recovered(make_core: CoreFactory) -> tuple[RaftCore, RecoverySlots]:
    """A follower that is behind, of a process whose only slot another group has."""
    core: RaftCore = make_core(Configuration(0, THREE), Restored(2))
    core.slots = RecoverySlots(1)
    assert core.slots.take("another group")
    give(core, Started())
    return core, core.slots


def _may_recover(effects: list[Effect]) -> list[bool]:
    return [each.message.may_recover for each in effects if isinstance(each, Send)]


def recovers_who_has_a_slot(make_core: CoreFactory) -> bool:
    """raft.md#may-recover."""
    core = serving(make_core)
    behind = HeartbeatReply(3, core.progress[1].next_sequence(), False, -1, -1, -1, may_recover=False)
    reads = [isinstance(each, ReadLog) for each in give(core, Received(1, behind))]
    again = HeartbeatReply(3, core.progress[1].next_sequence(), False, -1, -1, -1)
    return not any(reads) and any(isinstance(each, ReadLog) for each in give(core, Received(1, again)))


def answers_in_its_session_alone(make_core: CoreFactory) -> bool:
    """raft.md#session."""
    core = follower(make_core, (2, 2))
    named = [Heartbeat(2, sequence, 1, 2, 1, 1, session=session) for sequence, session in ((1, 4), (2, 9))]
    assert [each.message.session for each in give(core, Received(1, named[0])) if isinstance(each, Send)] == [4]
    assert [each.message.session for each in give(core, Received(1, named[1])) if isinstance(each, Send)] == [9]
    late = [Heartbeat(2, 3, 1, 2, 1, 1, session=4), VoteRequest(3, 1, 2, 1, False, session=4)]
    answers = give(core, *(Received(1, message) for message in late))
    named_anew = give(core, Received(2, Heartbeat(3, 1, 1, 2, 1, 1, session=5)))
    assert [each.message.session for each in named_anew if isinstance(each, Send)] == [5], "by a later leader"
    return not any(isinstance(each, Send) for each in answers)


def counts_votes_for_its_session(make_core: CoreFactory) -> bool:
    """raft.md#session."""
    members = ((0, Members.decode(b"0,1,2 revision 6 sessions 0:6,2:5")),)
    core: RaftCore = make_core(Configuration(0, THREE), Restored(2, index=LogIndex.of([(0, 0, 2)]), members=members))
    effects = give(core, Started(), TimerFired(Timer.ELECTION))
    asked = {each.to: (each.message.session, each.message.sender_session) for each in effects if isinstance(each, Send)}
    assert asked == {1: (0, 6), 2: (5, 6)}
    give(core, Received(1, VoteReply(2, 2, True, True, sender_session=6)))
    assert core.role == "candidate"
    for voter, session, sender in ((1, 0, 0), (2, 0, 6), (2, 4, 6)):
        give(core, Received(voter, VoteReply(3, 3, False, True, session=session, sender_session=sender)))
    early = core.role
    give(core, Received(2, VoteReply(3, 3, False, True, session=5, sender_session=6)))
    return (early, core.role) == ("candidate", "leader")


def leads_until_its_removal_is_committed(make_core: CoreFactory) -> bool:
    """raft.md#removed-leader."""
    core = serving(make_core)
    give(core, ChangeRequested(1, Change(1, remove=(0,))))
    while core.role == "leader" and core.voters.old:
        end = core.dirty
        for peer in (1, 2):
            give(core, Received(peer, AppendReply(3, core.progress[peer].sequence, True, end, end, end)))
    return core.role == "leader" and core.voters.current == (1, 2)


def votes_in_a_term_of_which_it_heard_no_leader(make_core: CoreFactory) -> bool:
    """raft.md#refuse-vote."""
    core = follower(make_core, (2, 2))
    give(core, Received(1, Heartbeat(2, 1, 1, 2, -1, -1)), Received(1, VoteRequest(3, 1, 2, 0, False, True)))
    give(core, Received(2, VoteRequest(3, 2, 2, 1, False)))
    return core.term == 3 and core.voted_for == 2


def waits_for_what_it_sent_in_its_term(make_core: CoreFactory) -> bool:
    """raft.md#units-returned, raft.md#may-dispatch."""
    core = serving(make_core)
    batch = RecordBatch(0, 0, BatchKind.DATA, 1, 1, bytes(8))
    give(
        core, AppendRequested(1, batch, -1, False), TimerFired(Timer.DRAIN), Received(1, VoteReply(4, 3, False, False))
    )
    give(core, TimerFired(Timer.ELECTION), Received(1, VoteReply(4, 4, True, True)))
    for sent in give(core, Received(1, VoteReply(5, 5, False, True))):
        if isinstance(sent, Send) and isinstance(sent.message, AppendEntries):
            give(core, HandedOver(sent.to, sent.message))
    assert (core.role, core.term) == ("leader", 5)
    core.progress[1].heard = later = 2 * core.configuration.election_timeout + 1
    return not any(isinstance(each, Disconnect) for each in core.handle(later, TimerFired(Timer.HEARTBEAT)))


PROMISES = {
    "cut-below-commit-fails": keeps_what_it_committed_and_says_so,
    "starts-without-slot": recovers_who_has_a_slot,
    "any-session-answered": answers_in_its_session_alone,
    "earlier-session-elected": counts_votes_for_its_session,
    "removed-leader-leaves-early": leads_until_its_removal_is_committed,
    "heard-in-an-earlier-term": votes_in_a_term_of_which_it_heard_no_leader,
    "handing-survives-step-down": waits_for_what_it_sent_in_its_term,
    "old-replies-free-slots": counts_what_is_on_its_way,
    "barrier-at-commit": waits_for_the_end_of_the_log,
    "durable-survives-election": counts_what_it_heard_in_its_term,
    "held-for-ever": sends_nothing_of_a_term_that_is_over,
    "transfer-never-given-up": takes_appends_again_when_a_transfer_fails,
    "timeout-now-from-anybody": stands_when_its_leader_tells_it_to,
    "light-counts-for-barrier": confirms_a_barrier_by_full_answers,
    "transfer-vote-skips-log": refuses_a_vote_for_a_transfer_to_a_shorter_log,
    "gives-way-for-ever": gives_way_once,
    "removed-never-stands": stands_until_its_removal_is_committed,
    "learner-leader-waits": promotes_itself,
    "rejoin-session": ignores_replies_of_an_earlier_session,
    "pre-votes-ignore-logs": refuses_a_pre_vote_to_a_shorter_log,
    "answers-for-an-earlier-term": answers_a_request_in_its_own_term,
    "force-flush-ignored": flushes_what_asks_for_it,
    "reset-forgets-flushes": discards_a_flush_of_the_log_before,
    "queue-reversed": keeps_the_order_of_enqueueing,
    "answers-before-writing": writes_before_it_answers,
    "sends-before-writing": writes_before_it_sends,
    "term-raised-under-leader": steps_down_for_a_later_term,
    "replicated-never-falls": counts_what_a_follower_still_holds,
    "replicated-old-term": counts_its_own_term,
    "barrier-counts-old-replies": confirms_a_barrier_anew,
    "barriers-succeed-at-step-down": refuses_reads_when_it_steps_down,
    "refuses-to-truncate-visible": truncates_what_it_has_shown,
    "follower-commit-unverified": commits_what_is_verified,
    "follower-visible-unverified": shows_what_is_verified,
    "start-at-from-any-term": begins_anew_for_its_leader,
    "reset-without-term": compares_what_its_log_begins_behind,
    "trimmed-is-not-held": holds_what_it_trimmed,
    "votes-while-led": refuses_a_vote_while_it_hears_its_leader,
    "expected-term-ignored": writes_nothing_in_another_term,
    "forced-flush-cached": counts_a_forced_flush,
    "term-heard-not-saved": saves_a_term_before_it_answers,
    "vote-compares-flushed": compares_where_its_log_ends,
    "trim-takes-next-term": knows_the_term_before_its_start,
}


@pytest.mark.parametrize("mutant", PROMISES)
def test_the_reference_keeps_a_promise_that_a_mutant_breaks(mutant: str) -> None:
    assert PROMISES[mutant](RaftCore)
    assert not PROMISES[mutant](MUTANTS[mutant].make_core)


def test_every_mutant_is_noticed_by_a_check_or_by_a_test() -> None:
    for mutant in MUTANTS.values():
        assert mutant.checks or mutant.test, mutant.id
        if mutant.test:
            assert f'"{mutant.id}"' in (ROOT / mutant.test).read_text(), f"{mutant.test} does not try {mutant.id}"
    assert set(PROMISES) == {mutant.id for mutant in MUTANTS.values() if mutant.test == HERE}


def test_there_are_enough_of_them_and_each_has_its_place() -> None:
    assert len(MUTANTS) >= 60
    assert all(mutant.thread.startswith("https://") for mutant in MUTANTS.values() if mutant.thread)


def test_a_follower_has_a_slot_while_it_is_behind() -> None:
    """raft.md#may-recover."""
    core, slots = _recovered(RaftCore)
    behind = Heartbeat(2, 1, 5, 2, 5, 5)
    assert _may_recover(give(core, Received(1, behind))) == [False]
    entry = RecordBatch(5, 2, BatchKind.DATA, 1, 1, bytes(8))
    assert _may_recover(give(core, Received(1, AppendEntries(2, 2, 4, 2, 5, 5, False, (entry,))))) == [False]
    slots.give_back("another group")
    assert _may_recover(give(core, Received(1, behind))) == [True]
    assert not slots.take("another group")
    entry = RecordBatch(0, 2, BatchKind.DATA, 6, 1, bytes(8))
    assert _may_recover(give(core, Received(1, AppendEntries(2, 3, -1, -1, 5, 5, False, (entry,), True)))) == [True]
    assert not slots.take("another group")
    assert _may_recover(give(core, Received(1, Heartbeat(2, 4, 5, 2, 5, 5)))) == [True]
    assert slots.take("another group"), "it is not behind any more"
    assert _may_recover(give(core, Received(1, Heartbeat(2, 5, 9, 2, 5, 5)))) == [False]
    give(core, Received(1, AppendEntries(2, 6, 5, 2, 5, 5, False, (), True)))
    assert _may_recover(give(core, Received(1, Heartbeat(2, 7, 9, 2, 5, 5)))) == [True], "taken by force"
    slots.give_back("another group")
    assert not slots.take("another group")
    give(core, TimerFired(Timer.ELECTION))
    core.handle(10**11, TimerFired(Timer.ELECTION))
    assert slots.take("another group"), "its leader is lost"


def test_a_node_that_is_set_never_to_lead_does_not_stand() -> None:
    """raft.md#priority: of priority 0."""
    core = RaftCore(Configuration(0, THREE, never_leads=True), Restored(2))
    effects = give(core, Started(), *[TimerFired(Timer.ELECTION)] * 3, Received(1, Heartbeat(2, 1, -1, -1, -1, -1)))
    effects += give(core, Received(1, TimeoutNow(2)))
    assert [type(each.message) for each in effects if isinstance(each, Send)] == [HeartbeatReply]
    assert core.role == "follower"
    asked = give(core, Received(1, VoteRequest(3, 1, 2, 0, False, True)))
    assert [each.message.granted for each in asked if isinstance(each, Send)] == [True]


def test_what_the_network_had_not_taken_is_forgotten_at_step_down() -> None:
    """raft.md#units-returned."""
    core = serving(RaftCore)
    give(core, AppendRequested(1, _batch()), TimerFired(Timer.DRAIN))
    assert core.reserved
    give(core, Received(1, Heartbeat(4, 1, -1, -1, -1, -1)))
    assert not core.reserved
    core._heard = None
    give(core, TimerFired(Timer.ELECTION), Received(2, VoteReply(4, 4, True, True)))
    give(core, Received(2, VoteReply(5, 5, False, True)))
    assert core.role == "leader"
    assert sorted(key for key in core._handing if key[0] == 1) == [(1, 1)], "the first entry of its term alone"


def test_a_leader_has_nothing_light_to_say_to_who_waits_for_a_slot() -> None:
    """raft.md#light-heartbeat, raft.md#may-recover."""
    core: RaftCore = RaftCore(Configuration(0, THREE, light_heartbeats=True), Restored(2))
    give(core, Started(), TimerFired(Timer.ELECTION), Received(1, VoteReply(2, 2, True, True)))
    give(core, Received(1, VoteReply(3, 3, False, True)), Received(1, AppendReply(3, 1, True, 0, 0, 0)))
    give(core, TimerFired(Timer.HEARTBEAT))
    differs = HeartbeatReply(3, core.progress[2].sequence, False, -1, 0, 0, may_recover=False)
    equal = HeartbeatReply(3, core.progress[1].sequence, True, 0, 0, 0)
    give(core, Received(2, differs), Received(1, equal), TimerFired(Timer.HEARTBEAT))
    give(core, Received(1, structs.replace(equal, sequence=core.progress[1].sequence)))
    give(core, Received(2, structs.replace(differs, sequence=core.progress[2].sequence)))
    said = {each.to: type(each.message) for each in give(core, TimerFired(Timer.HEARTBEAT)) if isinstance(each, Send)}
    assert said == {1: LightHeartbeat, 2: Heartbeat}


def test_who_does_not_follow_is_told_in_full_next() -> None:
    """raft.md#light-heartbeat."""
    core: RaftCore = RaftCore(Configuration(0, Voters((0, 1)), light_heartbeats=True), Restored(2))
    give(core, Started(), TimerFired(Timer.ELECTION), Received(1, VoteReply(2, 2, True, True)))
    give(core, Received(1, VoteReply(3, 3, False, True)), Received(1, AppendReply(3, 1, True, 0, 0, 0)))
    give(core, TimerFired(Timer.HEARTBEAT))
    give(core, Received(1, HeartbeatReply(3, core.progress[1].sequence, True, 0, 0, 0)))
    said: list[type] = []
    for answer in (LightReply(True), LightReply(False), None):
        said += [type(each.message) for each in give(core, TimerFired(Timer.HEARTBEAT)) if isinstance(each, Send)]
        if answer:
            give(core, Received(1, answer))
    assert said == [LightHeartbeat, LightHeartbeat, Heartbeat]


def test_who_is_saving_its_term_does_not_follow_yet() -> None:
    """raft.md#vote-durable, raft.md#light-heartbeat."""
    core: RaftCore = RaftCore(Configuration(0, THREE, light_heartbeats=True), Restored(2))
    (saves,) = [
        each.ticket
        for each in core.handle(0, Received(1, Heartbeat(3, 1, -1, -1, -1, -1)))
        if isinstance(each, SaveVote)
    ]
    assert core.handle(0, Received(1, LightHeartbeat())) == [Send(1, LightReply(False))]
    core.handle(0, VoteSaved(saves))
    assert core.handle(0, Received(1, LightHeartbeat())) == [Send(1, LightReply(True))]


def test_pre_votes_of_a_term_that_is_over_begin_no_other() -> None:
    """raft.md#longest-log, raft.md#pre-vote."""
    core = RaftCore(Configuration(0, THREE, longest_log=True), Restored(1, -1, LogIndex()))
    give(core, TimerFired(Timer.ELECTION), Received(1, VoteReply(1, 1, True, True)))  # and waits for node 2
    give(core, Received(2, VoteReply(4, 1, True, False)))
    asked = give(core, TimerFired(Timer.ELECTION))
    assert core.term == 4
    assert {each.message.pre_vote for each in asked if isinstance(each, Send)} == {True}


def test_a_node_that_has_stood_gives_way_again() -> None:
    """raft.md#longest-log: not twice in a row."""
    core = RaftCore(Configuration(0, THREE, longest_log=True), Restored(1, -1, LogIndex()))
    terms = []
    for _ in range(3):
        core.now += 2 * core.configuration.election_timeout
        give(core, TimerFired(Timer.ELECTION), Received(1, VoteReply(core.term, core.term, True, False, True)))
        give(core, Received(2, VoteReply(core.term, core.term, True, True)))
        terms.append(core.term)
    assert terms == [1, 2, 2]


def test_a_node_that_won_wants_the_first_to_lead_again() -> None:
    """raft.md#priority: winning resets the target."""
    core = RaftCore(Configuration(2, THREE, priorities=True), Restored(2))
    give(core, Started(), *[TimerFired(Timer.ELECTION)] * 5)
    assert core._pre_voting
    give(core, Received(1, VoteReply(2, 2, True, True)), Received(1, VoteReply(3, 3, False, True)))
    assert core.role == "leader"
    give(core, Received(1, AppendReply(4, 1, False, -1, -1, -1)))
    assert (core.role, core.term) == ("follower", 4)
    asked = give(core, Received(1, VoteRequest(5, 1, 9, 9, False)))
    assert [each.message.granted for each in asked if isinstance(each, Send)] == [False], "node 0 comes first"


@pytest.mark.parametrize("durable", [False, True])
def test_the_last_request_of_a_recovery_asks_for_what_the_leader_waits_for(durable: bool) -> None:
    """raft.md#recovery-flush."""
    core = serving(RaftCore)
    waits = RecordBatch(0, 0, BatchKind.DATA, 1, -1, bytes(8))
    give(
        core, AppendRequested(1, waits), TimerFired(Timer.DRAIN), AppendRequested(2, _batch()), TimerFired(Timer.DRAIN)
    )
    has = 1 if durable else -1
    behind = HeartbeatReply(3, core.progress[2].next_sequence(), durable, has, has, has)
    (read,) = [each for each in give(core, Received(2, behind)) if isinstance(each, ReadLog)]
    found = tuple(RecordBatch(at, 3, BatchKind.DATA, 1, 1, bytes(8)) for at in range(read.start, 3))
    effects = give(core, LogRead(read.ticket, found))
    (request,) = [each.message for each in effects if isinstance(each, Send)]
    assert (request.recovery, request.flush) == (True, not durable)


def test_a_snapshot_takes_a_slot_by_force() -> None:
    """raft.md#may-recover."""
    core, slots = _recovered(RaftCore)
    give(core, Received(1, InstallSnapshot(2, 1, 9, 0, b"the first part", False)))
    slots.give_back("another group")
    assert not slots.take("another group")
