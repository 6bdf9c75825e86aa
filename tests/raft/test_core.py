"""One core, hand-made events: what must leave, what must wait, what must be ignored."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from quorumlog.events import (
    Accepted,
    Append,
    AppendRequested,
    BarrierRequested,
    Effect,
    Event,
    Flushed,
    LogRead,
    Outcome,
    ReadIndexRequested,
    ReadLog,
    Received,
    Reset,
    Resolved,
    Send,
    SetTimer,
    Started,
    StartFlush,
    TimerFired,
    TrimRequested,
    Truncate,
)
from quorumlog.events import Append as AppendEffect
from quorumlog.quorum import Voters
from quorumlog.raft import core as core_module
from quorumlog.raft.core import Configuration, RaftCore, Restored
from quorumlog.raft.events import (
    ChangeRequested,
    CompactRequested,
    Disconnect,
    HandedOver,
    ReadSnapshot,
    SaveVote,
    SnapshotRead,
    Timer,
    TransferRequested,
    VoteSaved,
)
from quorumlog.raft.index import LogIndex
from quorumlog.raft.members import Change
from quorumlog.raft.messages import (
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    Message,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from quorumlog.raft.rules import REFERENCE, Rules
from quorumlog.raft.snapshot import Snapshot, State
from quorumlog.storage.batch import BatchKind, RecordBatch, ghost

SECOND = 1_000_000_000
TIMEOUT = 3 * SECOND // 2
THREE = Voters((0, 1, 2))


def batch(offset: int, term: int, acks: int = -1, value: int = 1) -> RecordBatch:
    return RecordBatch(
        base_offset=offset,
        term=term,
        kind=BatchKind.DATA,
        record_count=1,
        acks=acks,
        payload=value.to_bytes(8, "big"),
    )


class Bench:
    """Drives one core and remembers its effects; flushes and saves finish when the test says so."""

    def __init__(
        self,
        term: int = 0,
        entries: tuple[int, ...] = (),
        voters: Voters = THREE,
        rules: Rules = REFERENCE,
        node: int = 0,
        write_caching: bool = False,
        **limits: int,
    ) -> None:
        index = LogIndex.of((offset, offset, entry_term) for offset, entry_term in enumerate(entries))
        self.now = 0
        self.core = RaftCore(
            Configuration(node, voters, write_caching=write_caching, **limits), Restored(term, index=index), rules
        )
        self.give(Started())

    def give(self, event: Event, after: int = 0) -> list[Effect]:
        self.now += after
        self.last = self.core.handle(self.now, event)
        return self.last

    def receive(self, sender: int, message: Any, after: int = 0) -> list[Effect]:  # noqa: ANN401
        return self.give(Received(sender, message), after)

    def of(self, kind: type[Any]) -> list[Any]:
        return [effect for effect in self.last if isinstance(effect, kind)]

    def sent(self, kind: type[Message]) -> list[Any]:
        return [effect.message for effect in self.of(Send) if isinstance(effect.message, kind)]

    def save(self) -> None:
        for effect in self.of(SaveVote):
            self.give(VoteSaved(effect.ticket))

    def flush(self) -> None:
        for effect in self.of(StartFlush):
            self.give(Flushed(effect.ticket))

    def elect(self) -> None:
        """Win an election: time out, pre-votes, vote."""
        self.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
        self.receive(1, VoteReply(self.core.term, self.core.term, pre_vote=True, granted=True))
        self.save()
        self.receive(1, VoteReply(self.core.term, self.core.term, pre_vote=False, granted=True))
        assert self.core.role == "leader"

    def lead(self) -> Bench:
        """Win an election, and commit the configuration batch."""
        self.elect()
        end = self.core.dirty
        self.flush()
        self.receive(1, AppendReply(self.core.term, 1, True, end, end, end))
        assert self.core.serving
        return self

    def acknowledge(self, peer: int, end: int, flushed: int | None = None) -> None:
        """Let a node answer its newest request: it has the leader's log up to ``end``."""
        progress = self.core.progress[peer]
        said = end if flushed is None else flushed
        self.receive(peer, AppendReply(self.core.term, progress.sequence, True, end, said, end))

    def hand_over(self) -> None:
        """The network takes all requests that were sent now."""
        for effect in self.of(Send):
            if isinstance(effect.message, AppendEntries):
                self.give(HandedOver(effect.to, effect.message))

    def append(self, request: int, acks: int = -1, value: int = 1, **more: Any) -> None:  # noqa: ANN401
        self.give(AppendRequested(request, batch(0, 0, acks, value), **more))
        self.give(TimerFired(Timer.DRAIN))


def entries(
    term: int, previous: int, previous_term: int, *batches: RecordBatch, flush: bool = False, commit: int = -1
) -> AppendEntries:
    return AppendEntries(term, 1, previous, previous_term, commit, commit, flush, batches)


def test_a_vote_leaves_only_after_it_is_durable() -> None:
    bench = Bench(term=1)
    bench.receive(1, VoteRequest(2, 1, 1, 5, pre_vote=False))
    assert bench.sent(VoteReply) == []
    bench.save()
    assert bench.sent(VoteReply) == [VoteReply(2, 2, pre_vote=False, granted=True)]


def test_the_mutant_that_does_not_wait_answers_at_once() -> None:
    bench = Bench(term=1, rules=replace(REFERENCE, vote_is_durable_first=lambda: False))
    bench.receive(1, VoteRequest(2, 1, 1, 5, pre_vote=False))
    assert len(bench.sent(VoteReply)) == 1


def test_one_vote_a_term() -> None:
    bench = Bench(term=1)
    bench.receive(1, VoteRequest(2, 1, 1, 5, pre_vote=False))
    bench.save()
    bench.receive(2, VoteRequest(2, 2, 1, 9, pre_vote=False))
    assert not bench.sent(VoteReply)[0].granted


def test_a_node_that_hears_its_leader_refuses_and_keeps_its_term() -> None:
    bench = Bench(term=2)
    bench.receive(1, Heartbeat(2, 1, -1, -1, -1, -1))
    bench.receive(2, VoteRequest(9, 2, 8, 99, pre_vote=False))
    assert not bench.sent(VoteReply)[0].granted
    assert bench.core.term == 2


def test_pre_vote_does_not_raise_the_term() -> None:
    bench = Bench(term=4)
    bench.receive(1, Heartbeat(4, 1, -1, -1, -1, -1))
    assert bench.core.leader == 1
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    assert (bench.core.term, bench.core.leader) == (4, -1)
    assert {request.pre_vote for request in bench.sent(VoteRequest)} == {True}


def test_a_pre_vote_is_given_and_counts_in_its_term_only() -> None:
    bench = Bench(term=4, entries=(1,))
    for term, granted in ((3, False), (4, True)):
        bench.receive(1, VoteRequest(term, 1, 1, 5, pre_vote=True))
        assert [reply.granted for reply in bench.sent(VoteReply)] == [granted]
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    bench.receive(1, VoteReply(4, 3, pre_vote=True, granted=True))
    assert bench.core.term == 4
    bench.receive(1, VoteReply(4, 4, pre_vote=True, granted=True))
    assert bench.core.term == 5


def test_a_vote_of_an_earlier_term_than_the_log_ends_in_is_none() -> None:
    """A leader's entries can be on the disk before its term is."""
    core = RaftCore(Configuration(0, THREE), Restored(2, 1, LogIndex.of([(0, 0, 3)])))
    effects = core.handle(10 * SECOND, Received(1, VoteRequest(3, 1, 3, 5, pre_vote=False)))
    assert [(save.term, save.voted_for) for save in effects if isinstance(save, SaveVote)] == [(3, 1)]


def test_a_reply_waits_for_the_flush_that_was_asked_for() -> None:
    bench = Bench(term=1)
    bench.receive(1, entries(1, -1, -1, batch(0, 1), flush=True))
    assert bench.sent(AppendReply) == []
    bench.flush()
    (reply,) = bench.sent(AppendReply)
    assert (reply.success, reply.match, reply.flushed, reply.dirty) == (True, 0, 0, 0)


def test_without_it_the_reply_tells_dirty_and_flushed_apart() -> None:
    bench = Bench(term=1)
    bench.receive(1, entries(1, -1, -1, batch(0, 1)))
    (reply,) = bench.sent(AppendReply)
    assert (reply.match, reply.flushed, reply.dirty) == (0, -1, 0)


def test_a_delayed_duplicate_truncates_nothing() -> None:
    bench = Bench(term=1)
    first, second = batch(0, 1), batch(1, 1)
    bench.receive(1, entries(1, -1, -1, first, second))
    bench.receive(1, entries(1, -1, -1, first))
    assert bench.of(Truncate) == []
    assert bench.core.dirty == 1


def test_a_flush_that_raced_a_truncation_is_discarded() -> None:
    bench = Bench(term=2, entries=(1,))
    bench.receive(1, entries(2, 0, 1, batch(1, 2), batch(2, 2), flush=True))
    (stale,) = bench.of(StartFlush)
    bench.receive(2, entries(3, 0, 1, batch(1, 3)))
    assert len(bench.of(Truncate)) == 1
    bench.give(Flushed(stale.ticket))
    assert (bench.core.dirty, bench.core.flushed) == (1, 0)


def test_what_was_truncated_is_not_waited_for() -> None:
    bench = Bench(term=2, entries=(1,))
    bench.receive(1, entries(2, 0, 1, batch(1, 2), batch(2, 2), flush=True))
    (stale,) = bench.of(StartFlush)
    bench.receive(2, entries(3, 0, 1, batch(1, 3)))
    bench.give(Flushed(stale.ticket))
    bench.give(TimerFired(Timer.FLUSH))
    bench.flush()
    assert (bench.core.dirty, bench.core.flushed, bench.of(StartFlush)) == (1, 1, [])


def test_what_came_while_a_flush_ran_is_flushed_as_well() -> None:
    bench = Bench(term=1)
    bench.receive(1, entries(1, -1, -1, batch(0, 1)))
    bench.give(TimerFired(Timer.FLUSH))
    (running,) = bench.of(StartFlush)
    bench.receive(1, entries(1, 0, 1, batch(1, 1)))
    bench.give(TimerFired(Timer.FLUSH))
    assert bench.of(StartFlush) == []
    bench.give(Flushed(running.ticket))
    assert [timer.name for timer in bench.of(SetTimer)] == [Timer.FLUSH]
    bench.give(TimerFired(Timer.FLUSH))
    bench.flush()
    assert bench.core.flushed == 1


def test_nothing_committed_is_truncated() -> None:
    bench = Bench(term=1, entries=(1, 1))
    bench.receive(1, Heartbeat(1, 1, 1, 1, 1, 1))
    assert bench.core.commit == 1
    bench.receive(2, entries(2, -1, -1, batch(0, 2)))
    assert (bench.of(Truncate), bench.core.dirty) == ([], 1)
    bench.save()
    assert [(reply.success, reply.match) for reply in bench.sent(AppendReply)] == [(True, 0)]


def test_what_cannot_follow_what_is_committed_here_is_refused() -> None:
    """A disk has lost what was committed: raft.md#cut-below-commit."""
    bench = Bench(term=3, entries=(3, 3))
    bench.receive(1, Heartbeat(3, 1, 1, 3, 1, 1))
    bench.receive(1, entries(3, 1, 2, batch(2, 2)))
    assert ([reply.success for reply in bench.sent(AppendReply)], bench.core.dirty) == ([False], 1)


def test_logs_that_end_at_one_offset_in_different_terms_are_read_from_before_it() -> None:
    """raft.md#step-back: behind that offset there would be nothing to send."""
    bench = Bench(term=1, entries=(1,)).lead()
    bench.give(BarrierRequested(7))  # asks node 2 for nothing but the end, and is lost
    end, progress = bench.core.dirty, bench.core.progress[2]
    assert progress.previous == end
    bench.receive(2, HeartbeatReply(2, progress.next_sequence(), False, -1, end, end))
    assert [read.start for read in bench.of(ReadLog)] == [end]


def test_what_was_compacted_while_it_was_read_leaves_no_request_that_begins_in_the_gap() -> None:
    """ghost-batches.md#prev-outside-gaps."""
    bench = caught_up()
    for request in (1, 2, 3):
        bench.append(request)
        bench.flush()
    end = bench.core.dirty
    bench.acknowledge(2, end)
    bench.receive(1, HeartbeatReply(1, bench.core.progress[1].next_sequence(), False, -1, end - 1, end - 1))
    (read,) = bench.of(ReadLog)
    assert read.start == end
    bench.give(CompactRequested(((end - 2, end - 2), (end - 1, end - 1))))
    bench.give(LogRead(read.ticket, (batch(end, 1),)))
    assert bench.sent(AppendEntries) == []
    assert [read.start for read in bench.of(ReadLog)] == [end - 2]


def test_who_hears_its_leader_asks_for_nothing_when_its_timer_ends() -> None:
    bench = Bench(term=1, entries=(1,))
    bench.receive(1, Heartbeat(1, 1, 0, 1, -1, -1))
    bench.give(TimerFired(Timer.ELECTION), after=TIMEOUT - 1)
    assert bench.sent(VoteRequest) == []
    assert [(timer.name, timer.delay) for timer in bench.of(SetTimer)] == [(Timer.ELECTION, 1)]


def test_a_leader_goes_on_behind_what_a_follower_has_committed() -> None:
    bench = Bench(term=1, entries=(1, 1, 1)).lead()
    progress = bench.core.progress[2]
    bench.receive(2, HeartbeatReply(2, progress.next_sequence(), False, -1, 0, 0))
    (read,) = bench.of(ReadLog)
    assert read.start == 1
    bench.give(LogRead(read.ticket, (batch(1, 1), batch(2, 1))))
    # The follower would have to cut what it has committed, offset 1, and took nothing.
    bench.receive(2, AppendReply(2, progress.sequence, True, 1, 2, 2))
    (read,) = bench.of(ReadLog)
    assert read.start == 2


def test_a_follower_that_is_behind_is_sent_one_chunk_of_32_kib_at_a_time() -> None:
    """Source: raft.md#recovery-chunks."""
    bench = Bench(term=1, entries=(1, 1, 1, 1)).lead()
    bench.receive(2, HeartbeatReply(2, bench.core.progress[2].next_sequence(), False, -1, 0, 0))
    (read,) = bench.of(ReadLog)
    assert (read.start, read.max_bytes) == (1, 32 << 10)
    bench.give(LogRead(read.ticket, (batch(1, 1), batch(2, 1))))
    assert [len(request.batches) for request in bench.sent(AppendEntries)] == [2]
    assert bench.of(ReadLog) == []
    bench.append(7)
    assert {effect.to for effect in bench.of(Send)} == {1}
    bench.give(TimerFired(Timer.HEARTBEAT))
    assert bench.of(ReadLog) == bench.sent(AppendEntries) == []
    bench.acknowledge(2, 2)
    assert [read.start for read in bench.of(ReadLog)] == [3]


def test_commit_and_visible_stop_where_the_logs_are_known_to_be_equal() -> None:
    bench = Bench(term=2, entries=(1, 1, 1, 1))
    bench.receive(1, AppendEntries(2, 1, 0, 1, 3, 3, False, (batch(1, 1),)))
    assert (bench.core.commit, bench.core.visible) == (1, 1)


def test_acks_one_is_answered_after_the_leaders_append_and_acks_all_after_the_majority_flushed() -> None:
    bench = Bench().lead()
    bench.append(7, acks=1)
    assert [resolved.outcome for resolved in bench.of(Resolved)] == [Outcome.SUCCESS]
    bench.append(8, acks=-1)
    assert bench.of(Resolved) == []
    bench.flush()
    assert bench.of(Resolved) == []
    end, term = bench.core.dirty, bench.core.term
    bench.receive(1, AppendReply(term, 90, True, end, end - 1, end))
    assert bench.of(Resolved) == []
    assert bench.core.visible == end - 1
    bench.receive(1, AppendReply(term, 91, True, end, end, end))
    assert [(r.request, r.outcome, r.offset) for r in bench.of(Resolved)] == [(8, Outcome.SUCCESS, end)]
    assert (bench.core.commit, bench.core.visible) == (end, end)


def test_an_overtaken_reply_moves_nothing() -> None:
    bench = Bench().lead()
    bench.append(1)
    end, term = bench.core.dirty, bench.core.term
    bench.receive(1, HeartbeatReply(term, 50, False, -1, 0, 0))
    bench.receive(1, AppendReply(term, 49, True, end, end - 1, end))
    assert (bench.core.progress[1].match, bench.core.progress[1].dirty) == (0, 0)


def test_of_an_overtaken_reply_only_what_is_durable_counts() -> None:
    bench = Bench().lead()
    bench.append(1)
    bench.flush()
    end, term = bench.core.dirty, bench.core.term
    bench.receive(1, HeartbeatReply(term, 50, True, end, 0, end))
    assert bench.core.commit == end - 1
    bench.receive(1, AppendReply(term, 49, True, end, end, end))
    assert bench.core.commit == end


def test_offsets_of_one_reply_are_not_combined_with_the_match_of_another() -> None:
    # The append was late: a heartbeat found the tail of an older term, flushed up to 50, before the append removed it.
    bench = Bench().lead()
    bench.append(1)
    bench.flush()
    end, term = bench.core.dirty, bench.core.term
    bench.receive(1, AppendReply(term, 49, True, end, end - 1, end))
    bench.receive(1, HeartbeatReply(term, 50, False, -1, 50, 50))
    assert bench.core.commit == end - 1


def test_a_deposed_leader_tells_its_caller_only_when_the_new_term_has_committed() -> None:
    bench = Bench().lead()
    bench.append(5)
    old = bench.core.term
    bench.receive(2, entries(old + 1, 0, old, batch(1, old + 1), flush=True))
    assert bench.core.role == "follower"
    assert bench.of(Resolved) == []
    bench.save()
    bench.give(TimerFired(Timer.FLUSH))
    for ticket in range(1, 40):
        bench.give(Flushed(ticket))
    bench.receive(2, Heartbeat(old + 1, 2, 1, old + 1, 1, 1))
    assert [resolved.outcome for resolved in bench.of(Resolved)] == [Outcome.TRUNCATED]


def test_an_append_of_a_term_that_is_over_writes_nothing() -> None:
    bench = Bench().lead()
    dirty = bench.core.dirty
    bench.append(3, expected_term=bench.core.term - 1)
    assert bench.core.dirty == dirty
    bench.give(AppendRequested(4, batch(0, 0), expected_term=bench.core.term - 1))
    assert [resolved.outcome for resolved in bench.of(Resolved)] == [Outcome.TERM_MISMATCH]


def test_barrier_waits_for_a_majority_that_answered_after_it() -> None:
    bench = Bench().lead()
    bench.give(BarrierRequested(9))
    assert bench.of(Resolved) == []
    asked = bench.sent(AppendEntries)[0]
    end, term = bench.core.dirty, bench.core.term
    bench.receive(1, AppendReply(term, asked.sequence, True, end, end, end))
    assert [(r.request, r.outcome, r.offset) for r in bench.of(Resolved)] == [(9, Outcome.SUCCESS, end)]


def test_a_read_index_waits_for_a_majority_that_answered_after_it() -> None:
    bench = Bench().lead()
    end, term = bench.core.dirty, bench.core.term
    bench.append(1)
    before = bench.core.progress[1].sequence
    bench.give(ReadIndexRequested(9))
    assert [resolved for resolved in bench.of(Resolved) if resolved.request == 9] == []
    asked = bench.sent(Heartbeat)[0]
    bench.receive(1, HeartbeatReply(term, before, True, end, end, end))
    assert bench.of(Resolved) == [], "it was sent before the read came"
    bench.receive(1, HeartbeatReply(term, asked.sequence, False, -1, end, end))
    assert [(r.request, r.outcome, r.offset) for r in bench.of(Resolved)] == [(9, Outcome.SUCCESS, end)]
    assert bench.core.commit == end < bench.core.dirty, "it does not wait for what is not committed"


def test_under_write_caching_a_read_index_covers_what_was_acknowledged_unflushed() -> None:
    bench = Bench(write_caching=True).lead()
    bench.append(1)
    end = bench.core.dirty
    bench.acknowledge(1, end, flushed=end - 1)
    assert [(r.request, r.outcome) for r in bench.of(Resolved)] == [(1, Outcome.SUCCESS)]
    bench.give(ReadIndexRequested(9))
    flushes = bench.of(StartFlush)
    bench.acknowledge(1, end, flushed=end - 1)
    assert (bench.of(Resolved), bench.core.commit) == ([], end - 1)
    bench.give(Flushed(flushes[0].ticket))
    bench.acknowledge(1, end)
    assert [(r.request, r.offset, bench.core.commit) for r in bench.of(Resolved)] == [(9, end, end)]


def test_nothing_is_served_before_an_entry_of_the_own_term_is_committed() -> None:
    bench = Bench()
    bench.elect()
    for event in (AppendRequested(1, batch(0, 0)), BarrierRequested(2), ReadIndexRequested(3)):
        bench.give(event)
        assert [resolved.outcome for resolved in bench.of(Resolved)] == [Outcome.NOT_LEADER]


def test_a_leader_that_no_majority_answers_steps_down_in_its_term() -> None:
    bench = Bench().lead()
    term = bench.core.term
    bench.give(TimerFired(Timer.HEARTBEAT), after=TIMEOUT)
    assert (bench.core.role, bench.core.term) == ("leader", term)
    bench.receive(2, HeartbeatReply(term, 1, False, -1, -1, -1))  # one that failed counts, and one that was overtaken
    bench.give(TimerFired(Timer.HEARTBEAT), after=TIMEOUT)
    assert (bench.core.role, bench.sent(Heartbeat)[0].term) == ("leader", term)
    bench.give(TimerFired(Timer.HEARTBEAT), after=1)
    assert (bench.core.role, bench.core.term, bench.core.leader) == ("follower", term, -1)
    assert (bench.sent(Heartbeat), bench.of(SaveVote)) == ([], [])
    assert [(timer.name, timer.delay) for timer in bench.of(SetTimer)] == [(Timer.ELECTION, TIMEOUT)]
    bench.receive(1, VoteRequest(term, 1, term, 0, pre_vote=False))
    assert not bench.sent(VoteReply)[0].granted, "its vote in this term is its own"


def test_replies_of_an_earlier_term_keep_no_leader_in_office() -> None:
    bench = Bench(term=4).lead()
    bench.receive(2, AppendReply(4, 7, True, 0, 0, 0), after=TIMEOUT)
    bench.give(TimerFired(Timer.HEARTBEAT), after=1)
    assert (bench.core.role, bench.core.term) == ("follower", 5)


@pytest.mark.parametrize("asked", [ReadIndexRequested(1), BarrierRequested(1), TransferRequested(1, 2)])
def test_who_steps_down_leaves_nothing_to_its_next_term(asked: Event) -> None:
    bench = leaving()
    bench.give(asked)
    bench.give(AppendRequested(2, batch(0, 0, acks=1)))
    bench.receive(1, Heartbeat(bench.core.term + 1, 1, -1, -1, -1, -1))
    assert 1 in {each.request for each in bench.of(Resolved)}
    bench.save()
    bench.give(TimerFired(Timer.DRAIN))
    bench.lead()
    bench.give(AppendRequested(3, batch(0, 0, acks=1)))
    assert [timer.name for timer in bench.of(SetTimer)] == [Timer.DRAIN]
    bench.give(TimerFired(Timer.DRAIN))
    assert [(each.request, each.outcome) for each in bench.of(Resolved)] == [(3, Outcome.SUCCESS)]
    bench.receive(1, Heartbeat(bench.core.term + 1, 1, -1, -1, -1, -1))
    assert bench.of(Resolved) == []


def test_what_callers_are_told_when_a_leader_steps_down_unheard() -> None:
    bench = Bench().lead()
    bench.append(1, acks=-1)
    bench.flush()
    bench.append(2, acks=1)
    assert [(r.request, r.outcome) for r in bench.of(Resolved)] == [(2, Outcome.SUCCESS)], "its own log has it"
    bench.give(AppendRequested(3, batch(0, 0, acks=0)))
    bench.give(BarrierRequested(4))
    bench.give(ReadIndexRequested(5))
    bench.give(TimerFired(Timer.HEARTBEAT), after=TIMEOUT + 1)
    reported = {resolved.request: resolved.outcome for resolved in bench.of(Resolved)}
    assert reported == dict.fromkeys((3, 4, 5), Outcome.NOT_LEADER), "what was written with acks=all waits"
    bench.give(TimerFired(Timer.DRAIN))
    assert (bench.of(Resolved), bench.of(AppendEffect)) == ([], [])
    bench.give(AppendRequested(6, batch(0, 0, acks=1)))
    assert [resolved.outcome for resolved in bench.of(Resolved)] == [Outcome.NOT_LEADER]
    # The next leader has the entry and commits it in its own term: the caller that waited is told.
    end, term = bench.core.dirty, bench.core.term
    bench.receive(1, entries(term + 1, end, term, batch(end + 1, term + 1), flush=True))
    for flush in bench.of(StartFlush):
        bench.give(Flushed(flush.ticket))
    bench.receive(1, Heartbeat(term + 1, 1, end + 1, term + 1, end + 1, end + 1))
    assert [(r.request, r.outcome) for r in bench.of(Resolved)] == [(1, Outcome.SUCCESS)]


def test_a_single_leader_hears_itself() -> None:
    bench = Bench(voters=Voters((0,)))
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    bench.save()
    bench.give(TimerFired(Timer.HEARTBEAT), after=100 * TIMEOUT)
    assert bench.core.role == "leader"


def test_an_election_time_out_waits_until_the_own_vote_is_durable() -> None:
    bench = Bench()
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    bench.receive(1, VoteReply(0, 0, pre_vote=True, granted=True))
    (save,) = bench.of(SaveVote)
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    assert (bench.of(Send), [timer.name for timer in bench.of(SetTimer)]) == ([], [Timer.ELECTION])
    bench.give(VoteSaved(save.ticket))
    assert {request.pre_vote for request in bench.sent(VoteRequest)} == {False}
    assert [(timer.name, timer.delay) for timer in bench.of(SetTimer)] == [(Timer.ELECTION, TIMEOUT)], "it begins now"
    bench.receive(1, VoteReply(1, 1, pre_vote=False, granted=True))
    assert bench.core.role == "leader"


def test_a_vote_that_comes_while_the_next_election_is_prepared_still_counts() -> None:
    bench = Bench()
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    bench.receive(1, VoteReply(0, 0, pre_vote=True, granted=True))
    bench.save()
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    assert {request.pre_vote for request in bench.sent(VoteRequest)} == {True}
    bench.receive(2, VoteReply(1, 1, pre_vote=True, granted=False))
    bench.receive(1, VoteReply(1, 1, pre_vote=False, granted=True))
    assert (bench.core.role, bench.core.term) == ("leader", 1)
    bench.receive(1, VoteReply(1, 1, pre_vote=True, granted=True))
    assert (bench.core.role, bench.core.term) == ("leader", 1), "the election that was prepared is off"


def test_votes_of_an_earlier_candidacy_do_not_count() -> None:
    bench = Bench(voters=Voters((0, 1, 2, 3, 4)))
    for term, voter in ((1, 1), (2, 2)):
        bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
        for other in (1, 2):
            bench.receive(other, VoteReply(term - 1, term - 1, pre_vote=True, granted=True))
        bench.save()
        bench.receive(voter, VoteReply(term, term, pre_vote=False, granted=True))
        assert (bench.core.role, bench.core.term) == ("candidate", term)
    bench.receive(1, VoteReply(2, 2, pre_vote=False, granted=True))
    assert bench.core.role == "leader"


def test_a_single_node_commits_only_after_a_flush() -> None:
    bench = Bench(voters=Voters((0,)))
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    bench.save()
    assert (bench.core.role, bench.core.commit) == ("leader", -1)
    bench.flush()
    assert bench.core.commit == 0
    bench.append(1, acks=1)
    assert (bench.core.dirty, bench.core.commit, bench.core.visible) == (1, 0, 1)
    bench.give(TimerFired(Timer.FLUSH))
    bench.flush()
    assert bench.core.commit == 1


def trimmed() -> tuple[Bench, ReadSnapshot]:
    """A leader that has trimmed what node 2 lacks, and the read of its snapshot."""
    leader = Bench().lead()
    for request in range(5):
        leader.append(request)
        leader.flush()
        end, term = leader.core.dirty, leader.core.term
        leader.receive(1, AppendReply(term, 100 + request, True, end, end, end))
    leader.give(TrimRequested(4))
    assert leader.core.index.start == 4
    leader.receive(2, HeartbeatReply(leader.core.term, 200, False, -1, -1, -1))
    (read,) = leader.of(ReadSnapshot)
    assert (read.last, read.position) == (3, 0)
    return leader, read


def test_a_leader_that_trims_further_sends_its_snapshot_from_the_beginning() -> None:
    leader, read = trimmed()

    def sent_to(position: int) -> ReadSnapshot:
        """A part is sent; node 2 has the first snapshot up to this position."""
        leader.give(SnapshotRead(read.ticket, read.last, read.position, b"a part", done=False))
        assert len(leader.sent(InstallSnapshot)) == 1
        sequence = leader.core.progress[2].last_reply + 1
        leader.receive(2, SnapshotReply(leader.core.term, sequence, False, -1, -1, -1, 3, position))
        (following,) = leader.of(ReadSnapshot)
        return following

    read = sent_to(6)
    assert (read.last, read.position) == (3, 6)
    leader.give(TrimRequested(5))
    leader.give(SnapshotRead(read.ticket, -1, 0, b"", done=False))
    leader.receive(2, HeartbeatReply(leader.core.term, 300, False, -1, -1, -1))
    (read,) = leader.of(ReadSnapshot)
    assert (read.last, read.position) == (4, 0)
    read = sent_to(6)
    assert (read.last, read.position) == (4, 0)


def test_a_follower_of_a_trimmed_log_begins_where_the_leader_begins() -> None:
    leader, read = trimmed()
    snapshot = Snapshot(3, leader.core.term, 0, b"0,1,2", State())
    leader.give(SnapshotRead(read.ticket, 3, 0, snapshot.encode(), done=True))
    (sent,) = leader.sent(InstallSnapshot)
    follower = Bench(term=sent.term, entries=(0, 0))
    follower.receive(0, sent)
    assert follower.of(Reset) == [Reset(4, leader.core.term)]
    assert (follower.core.dirty, follower.core.commit, follower.core.flushed) == (3, 3, 3)


def test_what_a_reset_log_no_longer_tells_is_unknown_and_not_truncated() -> None:
    bench = Bench(term=1, entries=(1,)).lead()
    bench.append(7)
    waiting, term = bench.core.dirty, bench.core.term
    # The next leader may have committed that very entry, and has trimmed its log since.
    snapshot = Snapshot(waiting + 9, term + 1, 0, b"0,1,2", State())
    bench.receive(2, Heartbeat(term + 1, 1, snapshot.last, term + 1, -1, -1))
    bench.save()
    bench.receive(2, InstallSnapshot(term + 1, 2, snapshot.last, 0, snapshot.encode(), done=True))
    assert bench.of(Reset) == [Reset(waiting + 10, term + 1)]
    assert [(resolved.request, resolved.outcome) for resolved in bench.of(Resolved)] == [(7, Outcome.UNKNOWN)]


def test_a_copy_that_a_follower_lost_counts_no_more() -> None:
    bench = Bench(voters=Voters((0, 1, 2, 3, 4)))
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    for pre_vote in (True, False):
        for peer in (1, 2):
            bench.receive(peer, VoteReply(bench.core.term, bench.core.term, pre_vote, granted=True))
        bench.save()
    term, end = bench.core.term, bench.core.dirty
    bench.flush()
    for peer in (1, 2):
        bench.receive(peer, AppendReply(term, 10, True, end, end, end))
    bench.append(1, acks=1)
    bench.receive(1, AppendReply(term, 20, True, end + 1, end, end + 1))
    bench.receive(1, HeartbeatReply(term, 21, False, -1, end, end))  # it lost power in between
    bench.receive(2, AppendReply(term, 20, True, end + 1, end, end + 1))
    assert bench.core.majority_replicated == end, "two of five hold the entry"
    bench.receive(3, AppendReply(term, 20, True, end + 1, end, end + 1))
    assert bench.core.majority_replicated == end + 1


def test_a_node_outside_its_group_is_refused() -> None:
    with pytest.raises(ValueError, match="node 4 is not in its group: voters 0,1,2 learners 3"):
        RaftCore(Configuration(4, Voters((0, 1, 2), learners=(3,))), Restored())


def test_refusals_elect_nobody_and_may_be_followed_by_a_vote() -> None:
    bench = Bench()
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    for peer in (1, 2):
        bench.receive(peer, VoteReply(0, 0, pre_vote=True, granted=False))
    assert (bench.core.term, bench.core.role) == (0, "follower")
    bench.receive(1, VoteReply(0, 0, pre_vote=True, granted=True))
    assert (bench.core.term, bench.core.role) == (1, "candidate")
    bench.receive(1, VoteReply(1, 1, pre_vote=False, granted=True))
    bench.receive(2, VoteReply(1, 1, pre_vote=False, granted=True))
    assert bench.core.role == "candidate", "its own vote is not durable yet"


def test_a_learner_is_sent_the_log_and_decides_nothing() -> None:
    bench = Bench(voters=Voters((0, 1, 2), learners=(3,)))
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    assert {effect.to for effect in bench.of(Send)} == {1, 2}
    bench.receive(3, VoteReply(0, 0, pre_vote=True, granted=True))
    assert bench.core.term == 0
    bench.lead()
    bench.append(1)
    bench.flush()
    end = bench.core.dirty
    assert 3 in bench.core.progress
    bench.acknowledge(3, end)
    assert (bench.core.commit, bench.core.majority_replicated) == (end - 1, end - 1)
    bench.acknowledge(2, end)
    assert (bench.core.commit, bench.core.majority_replicated) == (end, end)


def test_a_learner_does_not_campaign() -> None:
    bench = Bench(voters=Voters((0, 1, 2), learners=(3,)), node=3)
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    assert bench.of(Send) == []
    assert bench.of(SetTimer) != [], "it may be promoted later"


def test_a_joint_group_needs_both_halves() -> None:
    bench = Bench(voters=Voters((0, 3, 4), old=(0, 1, 2)))
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    for pre_vote in (True, False):
        for peer in (1, 2):  # all of the old half
            bench.receive(peer, VoteReply(bench.core.term, bench.core.term, pre_vote, granted=True))
        bench.save()
        assert bench.core.role != "leader"
        bench.receive(4, VoteReply(bench.core.term, bench.core.term, pre_vote, granted=True))
        bench.save()
    assert bench.core.role == "leader"
    bench.flush()
    for peer in (1, 2):
        bench.acknowledge(peer, bench.core.dirty)
    assert not bench.core.serving
    bench.acknowledge(3, bench.core.dirty)
    assert bench.core.serving
    assert bench.core.voters == Voters((0, 3, 4)), "once it is committed the old half is left behind"


def test_a_leader_that_does_not_vote_commits_by_the_voters_and_by_what_it_has_flushed() -> None:
    bench = Bench().lead()
    bench.core.voters = Voters((1, 2))  # a change that removes the leader is in force
    bench.append(1)
    start_flush = bench.of(StartFlush)
    end = bench.core.dirty
    bench.acknowledge(1, end)
    assert (bench.core.commit, bench.core.majority_replicated) == (end - 1, end - 1), "one of two voters"
    bench.acknowledge(2, end)
    assert (bench.core.commit, bench.core.majority_replicated) == (end - 1, end), "its own flush is not done"
    for effect in start_flush:
        bench.give(Flushed(effect.ticket))
    assert bench.core.commit == end


SIZE = batch(0, 0).size_bytes


def requests_to(bench: Bench, peer: int) -> list[AppendEntries]:
    return [effect.message for effect in bench.of(Send) if effect.to == peer and effect.message.batches]


def caught_up(**limits: int) -> Bench:
    """A leader whose followers both have its log."""
    bench = Bench(**limits).lead()
    for peer in (1, 2):
        bench.acknowledge(peer, bench.core.dirty)
    return bench


def test_without_a_free_slot_a_request_waits_and_nothing_is_read() -> None:
    bench = caught_up(max_in_flight=1)
    bench.append(1, acks=1)
    assert [len(requests_to(bench, peer)) for peer in (1, 2)] == [1, 1]
    bench.acknowledge(1, bench.core.dirty)
    bench.append(2, acks=1)  # node 2 has not answered yet
    assert [len(requests_to(bench, peer)) for peer in (1, 2)] == [1, 0]
    assert bench.of(ReadLog) == []
    assert bench.of(Resolved)[0].outcome is Outcome.SUCCESS
    bench.acknowledge(2, bench.core.dirty - 1)
    (request,) = requests_to(bench, 2)
    assert (request.previous, request.batches[-1].last_offset) == (bench.core.dirty - 1, bench.core.dirty)


def test_a_heartbeat_asks_for_what_was_sent_while_requests_wait_and_frees_the_slot_of_a_lost_reply() -> None:
    bench = caught_up(max_in_flight=1)
    bench.append(1, acks=1)
    bench.append(2, acks=1)
    end = bench.core.dirty
    bench.give(TimerFired(Timer.HEARTBEAT))
    beats = {effect.to: effect.message for effect in bench.of(Send) if isinstance(effect.message, Heartbeat)}
    assert {beat.previous for beat in beats.values()} == {end - 1}
    bench.receive(1, HeartbeatReply(1, beats[1].sequence, True, end - 1, end - 2, end - 1))
    assert requests_to(bench, 1) == []  # the answer may still come, with the flush
    bench.give(TimerFired(Timer.HEARTBEAT))
    (beat,) = [effect.message for effect in bench.of(Send) if effect.to == 1]
    bench.receive(1, HeartbeatReply(1, beat.sequence, True, end - 1, end - 1, end - 1))
    assert [request.batches[-1].last_offset for request in requests_to(bench, 1)] == [end]
    assert bench.of(ReadLog) == []


def test_a_heartbeat_asks_for_nothing_in_a_gap() -> None:
    bench = caught_up(max_in_flight=1)
    for request in (1, 2):
        bench.append(request)
        bench.flush()
    end = bench.core.dirty
    for offset in (end - 1, end):
        bench.acknowledge(2, offset)
    assert (bench.core.commit, bench.core.progress[1].last_sent) == (end, end - 1)
    bench.give(CompactRequested(((end - 1, end - 1),)))
    bench.give(TimerFired(Timer.HEARTBEAT))
    assert {effect.to: effect.message.previous for effect in bench.of(Send)} == {1: end - 2, 2: end}


def test_memory_returns_when_the_last_request_of_a_round_was_handed_over() -> None:
    bench = caught_up(memory_bytes=2 * SIZE)
    bench.append(1, acks=0)
    first, second = bench.of(Send)
    bench.append(2, acks=1)
    bench.give(AppendRequested(3, batch(0, 0, acks=0)))
    assert bench.of(Accepted) == []  # also acks 0 and 1 wait
    bench.give(HandedOver(first.to, first.message))
    assert bench.of(Accepted) == []
    bench.give(HandedOver(second.to, second.message))
    assert [effect.request for effect in bench.of(Accepted)] == [3]
    bench.give(HandedOver(second.to, second.message))
    assert bench.core.reserved == 2 * SIZE


def test_what_was_handed_over_in_an_earlier_term_returns_no_memory() -> None:
    bench = caught_up(memory_bytes=2 * SIZE)
    bench.append(1, acks=1)
    for sent in bench.of(Send):
        bench.give(HandedOver(sent.to, structs.replace(sent.message, term=bench.core.term - 1)))
    assert bench.core.reserved == SIZE


def test_who_heard_a_leader_waits_for_its_turn_again() -> None:
    """raft.md#priority: the target is the largest priority again."""
    bench, waited = Bench(node=2, priorities=True), []
    for term in (1, 2):
        fired = (bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND) for _ in range(10))
        waited.append(next(turn for turn, _ in enumerate(fired) if bench.sent(VoteRequest)))
        bench.receive(0, Heartbeat(term, 1, -1, -1, -1, -1))
        bench.save()
    assert waited[0] == waited[1] > 0


def test_who_waits_too_long_for_memory_is_refused_and_nothing_is_written() -> None:
    bench = caught_up(memory_bytes=SIZE, enqueue_timeout=1000)
    bench.append(1, acks=1)
    bench.give(AppendRequested(2, batch(0, 0)))
    (timer,) = bench.of(SetTimer)
    assert (timer.name, timer.delay) == (Timer.ENQUEUE, 1000)
    end = bench.core.dirty
    bench.give(TimerFired(Timer.ENQUEUE), after=1000)
    assert [(each.request, each.outcome) for each in bench.of(Resolved)] == [(2, Outcome.TIMED_OUT)]
    assert bench.core.dirty == end


def test_each_of_those_who_wait_for_memory_has_its_own_time_and_lets_the_next_pass() -> None:
    bench = caught_up(memory_bytes=2 * SIZE, enqueue_timeout=1000)
    bench.append(1, acks=1)
    large = structs.replace(batch(0, 0), payload=bytes(8 + SIZE))
    bench.give(AppendRequested(2, large))
    bench.give(AppendRequested(3, large), after=400)
    bench.give(AppendRequested(4, batch(0, 0)), after=400)
    bench.give(TimerFired(Timer.ENQUEUE), after=200)
    assert [each.request for each in bench.of(Resolved)] == [2]
    assert [(each.name, each.delay) for each in bench.of(SetTimer)] == [(Timer.ENQUEUE, 400)]
    bench.give(TimerFired(Timer.ENQUEUE), after=400)
    assert [each.request for each in bench.of(Resolved)] == [3]
    assert [each.request for each in bench.of(Accepted)] == [4], "it fits beside the first"
    assert [each.name for each in bench.of(SetTimer)] == [Timer.DRAIN]


def test_a_round_takes_as_many_bytes_as_it_may_and_answers_with_each_batch_s_own_place() -> None:
    bench = caught_up(round_bytes=3 * SIZE)
    begin = bench.core.dirty + 1
    for request in range(2, 6):
        asked = batch(0, 0, acks=-1 if request < 4 else 1)
        bench.give(AppendRequested(request, structs.replace(asked, record_count=request)))
    bench.give(TimerFired(Timer.DRAIN))
    assert [each.record_count for each in bench.of(Append)[0].batches] == [2, 3, 4]
    waits = [(each.request, each.offset, each.last_offset) for each in bench.core._pending]
    assert waits == [(2, begin, begin + 1), (3, begin + 2, begin + 4)]
    assert [(each.request, each.offset, each.last_offset) for each in bench.of(Resolved)] == [(4, begin + 5, begin + 8)]


def test_so_many_bytes_are_flushed_though_nobody_requires_it() -> None:
    bench = caught_up(flush_bytes=2 * SIZE)
    begun = []
    for request in (2, 3):
        bench.give(AppendRequested(request, batch(0, 0, acks=1)))
        bench.give(TimerFired(Timer.DRAIN))
        begun.append(len(bench.of(StartFlush)))
    assert begun == [0, 1]


def test_an_append_larger_than_a_round_makes_one_of_its_own() -> None:
    bench = caught_up(round_bytes=1)
    end = bench.core.dirty
    for request in (1, 2):
        bench.give(AppendRequested(request, batch(0, 0)))
    for more in (1, 2):
        bench.give(TimerFired(Timer.DRAIN))
        assert bench.core.dirty == end + more
    assert bench.of(SetTimer) == []


def test_a_follower_that_answers_nothing_holds_nobody_up() -> None:
    bench = caught_up(memory_bytes=2 * SIZE, max_in_flight=1)
    bench.append(1, acks=1)
    bench.append(2, acks=1)  # waits for a slot of each
    bench.give(AppendRequested(3, batch(0, 0, acks=1)))
    assert bench.of(Accepted) == []
    for _ in range(2):  # node 1 answers and node 2 does not
        bench.acknowledge(1, bench.core.dirty)
        for request in requests_to(bench, 1):
            bench.give(HandedOver(1, request))
        bench.give(TimerFired(Timer.HEARTBEAT), after=TIMEOUT)
    assert [effect.to for effect in bench.of(Disconnect)] == [2]
    assert [effect.request for effect in bench.of(Accepted)] == [3]


def test_a_follower_that_was_silent_for_long_is_sent_no_round() -> None:
    """raft.md#may-dispatch."""
    bench = caught_up()
    bench.now += 2 * TIMEOUT
    bench.core.progress[1].heard = bench.now
    bench.append(1, acks=1)
    assert [effect.to for effect in bench.of(Send)] == [1]


def test_a_follower_that_is_removed_holds_no_memory() -> None:
    """raft.md#units-returned: neither for what waits for a slot of it, nor for what its socket has not taken."""
    bench = caught_up(max_in_flight=1)

    def goes_on() -> list[int]:
        """Node 1 takes and answers everything; return whom the leader disconnects then."""
        taken = [HandedOver(each.to, each.message) for each in bench.of(Send) if each.to == 1]
        bench.flush()
        for each in taken:
            bench.give(each)
        bench.acknowledge(1, bench.core.dirty)
        return [each.to for each in bench.of(Disconnect)]

    bench.append(1, acks=1)
    goes_on()
    bench.append(2, acks=1)  # waits for the slot of node 2, whose socket takes nothing
    goes_on()
    assert bench.core.reserved == 2 * SIZE
    bench.give(ChangeRequested(3, Change(1, remove=(2,))))
    assert goes_on() == [2]
    assert bench.core.voters == Voters((0, 1))
    assert bench.core.reserved == 0


def test_a_leader_that_steps_down_takes_all_memory_back_and_refuses_what_is_not_written() -> None:
    bench = caught_up(memory_bytes=2 * SIZE)
    bench.append(1)
    sent = bench.of(Send)
    bench.give(AppendRequested(2, batch(0, 0)))
    bench.give(AppendRequested(3, batch(0, 0)))
    bench.receive(1, Heartbeat(bench.core.term + 1, 1, -1, -1, -1, -1))
    assert [(each.request, each.outcome) for each in bench.of(Resolved)] == [
        (2, Outcome.NOT_LEADER),
        (3, Outcome.NOT_LEADER),
    ]
    assert bench.core.reserved == 0
    for each in sent:
        bench.give(HandedOver(each.to, each.message))
    assert bench.core.reserved == 0


def leaving(**limits: int) -> Bench:
    """A leader whose followers have its log, all of it flushed."""
    bench = caught_up(**limits)
    bench.give(TimerFired(Timer.HEARTBEAT))
    return bench


def test_a_transfer_waits_for_the_target_and_a_majority_and_then_calls_it() -> None:
    bench = leaving()
    bench.append(1, acks=1)
    end = bench.core.dirty
    bench.give(TransferRequested(2, 1))
    assert bench.sent(TimeoutNow) == []
    bench.append(3, acks=1)
    bench.give(AppendRequested(4, batch(0, 0)))
    assert [(each.request, each.outcome) for each in bench.of(Resolved)] == [(4, Outcome.NOT_LEADER)]
    bench.acknowledge(2, end, flushed=0)  # a majority has it, and the target does not
    assert bench.sent(TimeoutNow) == []
    bench.acknowledge(1, end, flushed=0)
    assert [(effect.to, effect.message) for effect in bench.of(Send) if isinstance(effect.message, TimeoutNow)] == [
        (1, TimeoutNow(1))
    ]
    assert bench.core.dirty == end


def test_what_is_enqueued_goes_into_last_rounds_and_what_waits_is_refused() -> None:
    bench = leaving(round_bytes=SIZE, memory_bytes=2 * SIZE)
    end = bench.core.dirty
    for request in (1, 2, 3):  # two that are enqueued, of which a round takes one; one that waits for memory
        bench.give(AppendRequested(request, batch(0, 0, acks=1)))
    bench.give(TransferRequested(4, 1))
    answers = {each.request: each.outcome for each in bench.of(Resolved)}
    assert answers == {1: Outcome.SUCCESS, 2: Outcome.SUCCESS, 3: Outcome.NOT_LEADER}
    assert bench.core.dirty == end + 2
    bench.hand_over()
    assert bench.core.reserved == 0


@pytest.mark.parametrize("target", [0, 7])
def test_a_transfer_to_oneself_or_a_stranger_is_refused(target: int) -> None:
    bench = leaving()
    bench.give(TransferRequested(1, target))
    assert [each.outcome for each in bench.of(Resolved)] == [Outcome.REFUSED]
    bench.append(2, acks=1)
    assert bench.of(Resolved)[0].outcome is Outcome.SUCCESS


def test_a_second_transfer_is_refused_and_a_follower_cannot_leave() -> None:
    bench = leaving()
    bench.append(1)
    bench.give(TransferRequested(2, 1))
    bench.give(TransferRequested(3, 2))
    assert [(each.request, each.outcome) for each in bench.of(Resolved)] == [(3, Outcome.REFUSED)]
    follower = Bench(term=1)
    follower.give(TransferRequested(1, 1))
    assert [each.outcome for each in follower.of(Resolved)] == [Outcome.NOT_LEADER]


def test_a_transfer_whose_target_does_not_catch_up_ends_and_the_leader_serves() -> None:
    bench = leaving(transfer_timeout=1000)
    bench.append(1)
    bench.give(TransferRequested(2, 1))
    bench.give(TimerFired(Timer.TRANSFER), after=1000)
    assert [(each.request, each.outcome) for each in bench.of(Resolved)] == [(2, Outcome.TIMED_OUT)]
    bench.append(3, acks=1)
    assert bench.of(Resolved)[0].outcome is Outcome.SUCCESS


def test_a_leader_that_has_called_writes_nothing_more_and_steps_down() -> None:
    bench = leaving()
    bench.give(TransferRequested(1, 1))
    assert len(bench.sent(TimeoutNow)) == 1
    assert [(timer.name, timer.delay) for timer in bench.of(SetTimer)][-1] == (Timer.TRANSFER, TIMEOUT)
    bench.give(AppendRequested(2, batch(0, 0)))
    assert [each.outcome for each in bench.of(Resolved)] == [Outcome.NOT_LEADER]
    bench.give(TimerFired(Timer.TRANSFER), after=TIMEOUT)
    assert (bench.core.role, bench.core.term) == ("follower", 1)
    assert [(each.request, each.outcome) for each in bench.of(Resolved)] == [(1, Outcome.SUCCESS)]


def test_the_target_obeys_its_leader_only_and_asks_at_once() -> None:
    bench = Bench(term=1, entries=(1,))
    bench.receive(1, TimeoutNow(1))  # it follows nobody yet
    bench.receive(1, Heartbeat(1, 1, 0, 1, -1, -1))
    bench.receive(2, TimeoutNow(1))
    bench.receive(1, TimeoutNow(0))
    assert bench.core.term == 1
    bench.receive(1, TimeoutNow(1))
    assert bench.core.term == 2
    bench.save()
    assert {(each.pre_vote, each.transfer) for each in bench.sent(VoteRequest)} == {(False, True)}
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)  # what follows is an election like any other
    assert {(each.pre_vote, each.transfer) for each in bench.sent(VoteRequest)} == {(True, False)}


def test_a_learner_is_called_in_vain() -> None:
    """raft.md#transfer-target."""
    bench = Bench(term=1, entries=(1,), voters=Voters((1, 2), learners=(0,)))
    bench.receive(1, Heartbeat(1, 1, 0, 1, -1, -1))
    bench.receive(1, TimeoutNow(1))
    assert (bench.core.term, bench.core.role) == (1, "follower")


def test_a_vote_for_a_transfer_passes_stickiness_but_not_the_log_nor_the_one_vote() -> None:
    bench = Bench(term=1, entries=(1,))
    bench.receive(1, Heartbeat(1, 1, 0, 1, -1, -1))
    bench.receive(2, VoteRequest(2, 2, 1, -1, pre_vote=False, transfer=True))
    assert [(reply.granted, bench.core.term) for reply in bench.sent(VoteReply)] in ([], [(False, 2)])
    bench.save()
    bench.receive(1, VoteRequest(2, 1, 1, 0, pre_vote=False, transfer=True))
    bench.save()
    assert [reply.granted for reply in bench.sent(VoteReply)] == [True]
    bench.receive(2, VoteRequest(2, 2, 1, 5, pre_vote=False, transfer=True))
    assert [reply.granted for reply in bench.sent(VoteReply)] == [False]
    leader = leaving()
    leader.receive(1, VoteRequest(2, 1, 1, leader.core.dirty, pre_vote=False, transfer=True))
    assert (leader.core.role, leader.core.term) == ("follower", 2)


def test_a_transfer_in_a_group_of_five_waits_for_a_majority_besides_the_target() -> None:
    bench = Bench(voters=Voters((0, 1, 2, 3, 4)))
    bench.give(TimerFired(Timer.ELECTION), after=10 * SECOND)
    for pre_vote in (True, False):
        for peer in (1, 2):
            bench.receive(peer, VoteReply(bench.core.term, bench.core.term, pre_vote=pre_vote, granted=True))
            bench.save()
    bench.flush()
    for peer in (1, 2):
        bench.receive(peer, AppendReply(1, 1, True, 0, 0, 0))
    assert bench.core.serving
    bench.append(1, acks=1)
    bench.give(TransferRequested(2, 1))
    bench.acknowledge(1, bench.core.dirty)
    assert bench.sent(TimeoutNow) == []  # if node 1 fails now, nodes 2, 3 and 4 elect one that lacks the entry
    bench.acknowledge(2, bench.core.dirty)
    assert len(bench.sent(TimeoutNow)) == 1


def test_a_leader_sends_ghosts_and_previous_is_outside_its_gaps() -> None:
    bench = Bench(term=1, entries=(1, 1, 1, 1, 1)).lead()
    bench.acknowledge(2, bench.core.dirty)
    bench.give(CompactRequested(((1, 1), (2, 2))))
    bench.receive(1, AppendReply(bench.core.term, bench.core.progress[1].next_sequence(), False, -1, 2, 2))
    (read,) = bench.of(ReadLog)
    assert read.start == 1
    bench.give(LogRead(read.ticket, (batch(3, 1), batch(4, 1))))
    (request,) = bench.sent(AppendEntries)
    assert (request.previous, request.previous_term) == (0, 1)
    assert request.batches == (ghost(1, 2, 1), batch(3, 1), batch(4, 1))


def test_the_fate_of_an_append_in_a_gap_is_not_known() -> None:
    bench = Bench(term=1, entries=(1,)).lead()
    bench.give(AppendRequested(7, batch(0, 0)))
    bench.give(TimerFired(Timer.DRAIN))
    at, term = bench.core.dirty, bench.core.term + 1
    more = ghost(at, at, term), batch(at + 1, term)
    bench.receive(2, Heartbeat(term, 1, at + 1, term, -1, -1))
    bench.save()
    bench.receive(2, AppendEntries(term, 1, at - 1, bench.core.index.term(at - 1), -1, -1, False, more))
    assert [(e.request, e.outcome) for e in bench.of(Resolved)] == [(7, Outcome.UNKNOWN)]


def test_the_core_is_compact() -> None:
    """Each layer can be read in one sitting, and all of them together in a day."""
    folder = Path(core_module.__file__).parent
    found, left = set[str](), {"core"}
    while left:
        found |= left
        text = "".join((folder / f"{name}.py").read_text() for name in left)
        left = set(re.findall(r"from quorumlog\.raft\.(\w+) import", text)) - found
    lines = {name: len((folder / f"{name}.py").read_text().splitlines()) for name in found}
    assert len(found) > 15
    assert sum(lines.values()) < 3500
    assert max(lines.values()) < 500
