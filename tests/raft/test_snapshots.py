"""Snapshots: taken, sent in parts, installed in one step (raft.md#snapshots-and-trim)."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from random import Random

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from quorumlog.events import Append, Effect, Event, Note, Received, Reset, Send, Started, Trim, TrimRequested
from quorumlog.quorum import Voters
from quorumlog.raft.core import Configuration, RaftCore, Restored
from quorumlog.raft.events import Apply, Compact, CompactRequested, KeepSnapshot, SaveVote, TakeSnapshot, VoteSaved
from quorumlog.raft.index import LogIndex
from quorumlog.raft.members import Members
from quorumlog.raft.messages import AppendEntries, Heartbeat, InstallSnapshot, SnapshotReply
from quorumlog.raft.restored import StateMachine, restore
from quorumlog.raft.snapshot import Snapshot, State
from quorumlog.storage.batch import BatchKind, RecordBatch
from quorumlog.storage.disk import FlushFailed
from quorumlog.storage.log import Log
from quorumlog.storage.simulated import SimulatedDisk
from quorumlog.storage.vote import VoteStore

THREE = Voters((0, 1, 2))
OTHERS = Members(Voters((0, 1)), revision=4)
AFTER_THREE = State().applied(RecordBatch(at, 1, BatchKind.DATA, 1, 1, at.to_bytes(8, "big")) for at in range(3))
SNAPSHOT = Snapshot(9, 2, 6, OTHERS.encode(), State(5, 77))


def follower(*terms: int) -> RaftCore:
    """Node 0 in term 2, with a log of such terms."""
    index = LogIndex.of((offset, offset, term) for offset, term in enumerate(terms))
    core = RaftCore(Configuration(0, THREE), Restored(2, index=index))
    core.handle(0, Started())
    return core


def give(core: RaftCore, event: Event) -> list[Effect]:
    return core.handle(1, event)


def parts(snapshot: Snapshot, size: int, term: int = 2) -> list[InstallSnapshot]:
    """What a leader sends of a snapshot."""
    content = snapshot.encode()
    return [
        InstallSnapshot(term, at, snapshot.last, at, content[at : at + size], at + size >= len(content))
        for at in range(0, len(content), size)
    ]


def replies(effects: list[Effect]) -> list[SnapshotReply]:
    return [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, SnapshotReply)]


def offsets(core: RaftCore) -> tuple[int, ...]:
    return core.dirty, core.flushed, core.commit, core.visible, core.applied


def test_a_snapshot_is_installed_with_its_last_part() -> None:
    core = follower(1, 1)
    sent = parts(SNAPSHOT, 7)
    for part in sent[:-1]:
        (reply,) = replies(give(core, Received(1, part)))
        assert (reply.success, reply.last, reply.position) == (False, 9, part.position + 7)
    effects = give(core, Received(1, sent[-1]))
    kinds = [type(each) for each in effects]
    assert kinds.index(KeepSnapshot) < kinds.index(Reset) < kinds.index(Send)
    assert [(reply.success, reply.match, reply.dirty) for reply in replies(effects)] == [(True, 9, 9)]
    assert offsets(core) == (9, 9, 9, 9, 9)
    assert core.members == OTHERS


def test_a_snapshot_ends_where_the_log_begins_though_more_is_applied() -> None:
    core = follower(1, *(2,) * 7)
    give(core, Received(1, Heartbeat(2, 1, 7, 2, 6, 6)))
    effects = give(core, TrimRequested(1))
    assert [each for each in effects if isinstance(each, TakeSnapshot | Trim)] == [
        TakeSnapshot(0, 1, -1, b"0,1,2"),
        Trim(1),
    ]
    assert core.applied == 6
    index = LogIndex.of(((offset, offset, 2) for offset in range(3, 8)), 3, 2)
    again = RaftCore(Configuration(0, THREE), Restored(2, index=index))
    assert offsets(again) == (7, 7, 2, 2, 2)


def test_a_snapshot_has_the_configuration_in_force_where_it_ends_and_not_the_next_one() -> None:
    """raft.md#snapshot."""
    index = LogIndex.of((offset, offset, 2) for offset in range(8))
    members = ((1, Members(THREE)), (4, OTHERS))
    core = RaftCore(Configuration(0, THREE), Restored(2, index=index, members=members))
    give(core, Received(1, Heartbeat(2, 1, 7, 2, 7, 7)))
    taken = [each for at in (4, 5) for each in give(core, TrimRequested(at)) if isinstance(each, TakeSnapshot)]
    assert [(each.last, each.offset, each.members) for each in taken] == [
        (3, 1, b"0,1,2"),
        (4, 4, OTHERS.encode()),
    ]


def test_nothing_is_summed_up_in_a_term_that_is_not_on_disk() -> None:
    """raft.md#summed-in-saved-term: each event is refused until the term is saved, and taken then."""
    (part,) = parts(SNAPSHOT, 10_000, 3)
    gap = RecordBatch(4, 2, BatchKind.GHOST, 1, 1, b""), RecordBatch(5, 2, BatchKind.DATA, 1, 1, bytes(8))
    asked: list[tuple[Event, type[Effect]]] = [
        (TrimRequested(2), TakeSnapshot),
        (CompactRequested(((1, 1),)), Compact),
        (Received(1, part), KeepSnapshot),
        (Received(1, AppendEntries(3, 1, 3, 2, 3, 3, False, gap)), Append),
    ]
    for event, kept in asked:
        core = follower(2, 2, 2, 2)
        effects = give(core, Received(1, Heartbeat(3, 1, 3, 2, 3, 3)))
        (saves,) = [each.ticket for each in effects if isinstance(each, SaveVote)]
        assert core.commit == 3
        assert [each for each in give(core, event) if isinstance(each, kept | Trim)] == [], event
        give(core, VoteSaved(saves))
        assert [type(each) for each in give(core, event) if isinstance(each, kept)] == [kept], event


def test_a_part_that_does_not_follow_is_refused() -> None:
    core = follower(1, 1)
    first, second, third, *_ = parts(SNAPSHOT, 7)
    (reply,) = replies(give(core, Received(1, second)))
    assert (reply.success, reply.position) == (False, 0)
    give(core, Received(1, first))
    (reply,) = replies(give(core, Received(1, third)))
    assert reply.position == 7
    give(core, Received(1, second))
    (reply,) = replies(give(core, Received(1, second)))  # once more
    assert reply.position == 14
    other = parts(Snapshot(12, 2, 6, OTHERS.encode(), State()), 7)
    (reply,) = replies(give(core, Received(1, other[1])))
    assert (reply.last, reply.position) == (9, 14)
    (reply,) = replies(give(core, Received(1, other[2])))  # where the next part begins, but of another one
    assert (reply.last, reply.position) == (9, 14)
    (reply,) = replies(give(core, Received(1, other[0])))
    assert (reply.last, reply.position) == (12, 7)
    (reply,) = replies(give(core, Received(1, third)))
    assert (reply.last, reply.position) == (12, 7)
    assert core.dirty == 1


@pytest.mark.parametrize("content", [b"", b"no snapshot", SNAPSHOT.encode()[:-1] + b"\xff", SNAPSHOT.encode()[:20]])
def test_what_is_no_snapshot_is_not_installed(content: bytes) -> None:
    core = follower(1, 1)
    (reply,) = replies(give(core, Received(1, InstallSnapshot(2, 1, 9, 0, content, True))))
    assert (reply.success, reply.position, core.dirty) == (False, 0, 1)


def test_what_lies_before_a_batch_behind_a_gap_needs_no_snapshot_after_a_start() -> None:
    """ghost-batches.md#gap-is-committed."""
    index = LogIndex.of([(0, 0, 1), (5, 5, 2)])
    core = RaftCore(Configuration(0, THREE), Restored(2, index=index))
    (part,) = parts(Snapshot(3, 1, -1, b"0,1,2", State(4, 7)), 1000)
    effects = give(core, Received(1, part))
    assert [(reply.success, reply.match, reply.dirty) for reply in replies(effects)] == [(True, 3, 5)]
    assert not any(isinstance(each, KeepSnapshot | Reset) for each in effects)


def test_what_is_committed_needs_no_snapshot() -> None:
    core = follower(*(2,) * 12)
    give(core, Received(1, Heartbeat(2, 1, 11, 2, 10, 10)))
    before = offsets(core)
    (reply,) = replies(give(core, Received(1, parts(SNAPSHOT, 7)[3])))
    assert (reply.success, reply.match) == (True, 9)
    assert offsets(core) == before
    assert core.index.start == 0


def test_a_log_that_holds_the_last_entry_keeps_what_follows_and_its_configuration() -> None:
    core = follower(*(2,) * 8)
    later = Members(THREE, revision=5)
    entry = RecordBatch(10, 2, BatchKind.CONFIGURATION, 1, -1, later.encode())
    before, more = (
        [RecordBatch(at, 2, BatchKind.DATA, 1, 1, bytes(8)) for at in offsets] for offsets in ((8, 9), (11,))
    )
    give(core, Received(1, AppendEntries(2, 1, 7, 2, -1, -1, False, (*before, entry, *more))))
    assert core.flushed == 7
    (part,) = parts(SNAPSHOT, 1000)
    effects = give(core, Received(1, part))
    assert [each for each in effects if isinstance(each, Trim | Reset)] == [Trim(10)]
    assert (core.index.start, core.dirty, core.commit, core.applied) == (10, 11, 9, 9)
    assert (core.flushed, core.visible) == (9, 9)
    assert core.members == later


@pytest.mark.parametrize("terms", [(1,) * 12, (1,) * 10, (2,) * 10])
def test_nothing_of_a_log_that_was_dropped_stays(terms: tuple[int, ...]) -> None:
    core = follower(*terms)
    later = Members(Voters((0, 2)), revision=5)
    entry = RecordBatch(len(terms), 2, BatchKind.CONFIGURATION, 1, -1, later.encode())
    if len(terms) == 12:  # behind the snapshot, on a log of which nobody knows whether it is committed
        give(core, Received(1, AppendEntries(2, 1, 11, 1, -1, -1, False, (entry,))))
        assert core.members == later
    (part,) = parts(SNAPSHOT, 1000)
    give(core, Received(1, part))
    assert offsets(core) == (9, 9, 9, 9, 9)
    assert core.members == OTHERS
    assert core.index.term(9) == 2


def test_a_node_trims_what_it_has_applied_and_kept() -> None:
    core = follower(*(2,) * 8)
    give(core, Received(1, Heartbeat(2, 1, 7, 2, 4, 4)))
    assert core.applied == 4
    effects = give(core, Received(1, Heartbeat(2, 2, 7, 2, 6, 6)))
    assert [each for each in effects if isinstance(each, Apply)] == [Apply(5, 6)]
    effects = give(core, TrimRequested(20))
    wanted = [each for each in effects if isinstance(each, TakeSnapshot | Trim)]
    assert wanted == [TakeSnapshot(6, 2, -1, b"0,1,2"), Trim(7)]
    assert [each.kind for each in effects if isinstance(each, Note)] == ["snapshot", "trim"]


def test_only_whole_batches_are_applied_before_a_trim() -> None:
    index = LogIndex.of([(0, 2, 2), (3, 7, 2), (8, 9, 2)])
    core = RaftCore(Configuration(0, THREE), Restored(2, index=index))
    core._set_commit(9)
    effects = give(core, TrimRequested(5))
    assert [each for each in effects if isinstance(each, Apply | Trim)] == [Apply(0, 2), Trim(3)]


def test_a_long_log_is_applied_little_by_little_and_not_trimmed_further() -> None:
    core = follower(*(2,) * 25_000)
    effects = give(core, Received(1, Heartbeat(2, 1, 24_999, 2, 24_999, 24_999)))
    assert [each for each in effects if isinstance(each, Apply)] == [Apply(0, 9_999)]
    assert [each for each in give(core, TrimRequested(24_000)) if isinstance(each, Apply | Trim)] == [
        Apply(10_000, 19_999),
        Trim(20_000),
    ]
    effects = give(core, Received(1, Heartbeat(2, 2, 24_999, 2, 24_999, 24_999)))
    assert [each for each in effects if isinstance(each, Apply)] == [Apply(20_000, 24_999)]


# -- on the disk -------------------------------------------------------------------------------------------------------


def written(disk: SimulatedDisk) -> tuple[Log, StateMachine]:
    """A log of ten entries, flushed, four of them applied."""
    log = Log.open(disk, "log")
    machine = StateMachine(disk, log)
    values = (value.to_bytes(8, "big") for value in range(10))
    log.append([RecordBatch(offset, 1, BatchKind.DATA, 1, 1, value) for offset, value in enumerate(values)])
    log.flush()
    machine.apply(0, 3)
    return log, machine


def found(disk: SimulatedDisk) -> tuple[int, int, Snapshot | None]:
    """What the next process finds: where the log begins and ends, and the snapshot."""
    log = Log.open(disk, "log")
    machine = StateMachine(disk, log)
    restored = restore(log, VoteStore(disk), machine)
    return restored.index.start, restored.index.dirty, machine.snapshot


def test_the_next_process_knows_the_configuration_of_its_snapshot() -> None:
    """raft.md#snapshot-configuration."""
    disk = SimulatedDisk(Random(1))
    log, machine = written(disk)
    machine.take(TakeSnapshot(3, 1, 2, OTHERS.encode()))
    log.trim(4)
    later = Members(THREE, revision=5)
    for more in ([], [RecordBatch(10, 1, BatchKind.CONFIGURATION, 1, -1, later.encode())]):
        log = Log.open(disk, "log")
        log.append(more)
        restored = restore(log, VoteStore(disk), StateMachine(disk, log))
        assert restored.members == ((2, OTHERS), *((10, later) for _ in more))
        assert (restored.index.start, restored.index.term(3)) == (4, 1)
        assert RaftCore(Configuration(0, THREE), restored).members == (later if more else OTHERS)


def test_the_digest_is_of_the_place_and_the_value_of_each_batch_of_clients() -> None:
    """Two versions of this program in one group, or one that finds the other's snapshot, must come to the same."""
    values = [7, -1, 1 << 62]
    batches = [
        RecordBatch(at * 3, 1, BatchKind.DATA, 3, 1, value.to_bytes(8, "big", signed=True) + b"more")
        for at, value in enumerate(values)
    ]
    batches.insert(1, RecordBatch(3, 1, BatchKind.CONFIGURATION, 1, -1, b"0"))
    digest = 0
    for at, value in enumerate(values):
        digest = crc32c(b"".join(each.to_bytes(8, "big", signed=True) for each in (at * 3, 3, value)), digest)
    assert State().applied(batches) == State(9, digest)
    assert State().applied(batches[:2]).applied(batches[2:]).applied([]) == State(9, digest)


@given(
    cuts=st.sets(st.integers(1, 39)),
    ends=st.sets(st.integers(0, 39), min_size=1, max_size=4),
    segment_bytes=st.integers(40, 900),
)
def test_the_state_is_what_was_applied_however_it_was_cut(cuts: set[int], ends: set[int], segment_bytes: int) -> None:
    disk = SimulatedDisk(Random(1))
    log = Log.open(disk, "log", segment_bytes)
    machine = StateMachine(disk, log)
    batches = [RecordBatch(at, 1, BatchKind.DATA, 1, 1, at.to_bytes(8, "big")) for at in range(40)]
    log.append(batches)
    for first, following in pairwise([0, *sorted(cuts), 40]):
        machine.apply(first, following - 1)
    for last in sorted(ends):
        machine.take(TakeSnapshot(last, 1, -1, b"0,1,2"))
        assert machine.snapshot == Snapshot(last, 1, -1, b"0,1,2", State().applied(batches[: last + 1]))
        log.trim(last + 1)
    assert machine.state == State().applied(batches)


@given(
    applied=st.lists(st.integers(0, 11), max_size=6),
    cuts=st.lists(st.integers(1, 11), max_size=3),
    remembered=st.sets(st.integers(0, 11)),
    payload=st.sampled_from([8, 1 << 18]),
)
def test_what_was_just_appended_is_applied_as_if_it_were_read_back(
    applied: list[int], cuts: list[int], remembered: set[int], payload: int
) -> None:
    """Some of it is remembered, more than a megabyte never, and some is cut off and replaced before it is applied."""
    disk = SimulatedDisk(Random(1))
    log = Log.open(disk, "log", 900)
    machine = StateMachine(disk, log)
    done = -1
    for term, end in enumerate([*applied, 11], 1):
        cut = cuts.pop() if cuts else 12
        if done < cut <= log.dirty:
            log.truncate(cut)
            machine.truncated()
        batches = [
            RecordBatch(at, term, BatchKind.DATA, 1, 1, (100 * term + at).to_bytes(payload, "little"))
            for at in range(log.dirty + 1, 12)
        ]
        log.append(batches)
        machine.appended(each for each in batches if each.base_offset in remembered)
        if end > done:
            machine.apply(done + 1, end)
            done = end
    assert machine.state == State().applied(log.read(0, 1 << 30))


@pytest.mark.parametrize("seed", range(40))
def test_a_crash_in_the_middle_of_a_trim_or_an_installation_leaves_the_old_state_or_the_new(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk(random)
    log, machine = written(disk)
    steps = [lambda: machine.take(TakeSnapshot(2, 1, -1, b"0,1,2")), lambda: log.trim(3)]
    steps += [lambda: machine.install(SNAPSHOT), lambda: log.reset(10, 2)]
    end = random.randrange(len(steps) + 1)
    for step in steps[:end]:
        step()
    if end < len(steps) and random.random() < 0.5:
        disk.fail_next_sync, disk.syncs_before_failure = True, random.randrange(2)
        with suppress(FlushFailed):
            steps[end]()
        disk.fail_next_sync = False
    disk.power_loss()
    taken = Snapshot(2, 1, -1, b"0,1,2", AFTER_THREE)
    start, dirty, snapshot = found(disk)
    assert (start, dirty, snapshot) in [(0, 9, None), (3, 9, taken), (10, 9, SNAPSHOT)]
    assert len([name for name in disk.list("log") if name.startswith("snapshot-")]) == (start > 0)
