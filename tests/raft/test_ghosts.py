"""Ghosts: how a leader fills gaps, what a ghost costs, and what a follower makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorumlog.events import Append, Effect, Note, Received, Send, Truncate
from quorumlog.hunting.judge import Candidate
from quorumlog.node.framing import FrameError
from quorumlog.quorum import Voters
from quorumlog.raft import wire
from quorumlog.raft.core import Configuration, RaftCore, Restored
from quorumlog.raft.ghosts import fill_gaps
from quorumlog.raft.index import LogIndex
from quorumlog.raft.messages import AppendEntries, AppendReply, Heartbeat, HeartbeatReply
from quorumlog.raft.mutants import MUTANTS
from quorumlog.storage.batch import MAX_GHOST_OFFSETS, BatchDamaged, BatchKind, RecordBatch, ghost

THREE = Voters((0, 1, 2))


def real(base: int, last: int, term: int) -> RecordBatch:
    return RecordBatch(base, term, BatchKind.DATA, last - base + 1, 1, bytes(8))


def follower(*batches: tuple[int, int, int], term: int = 3) -> RaftCore:
    return RaftCore(Configuration(0, THREE), Restored(term, index=LogIndex.of(batches)))


def sent(core: RaftCore, previous: int, previous_term: int, *batches: RecordBatch, commit: int = -1) -> list[Effect]:
    request = AppendEntries(core.term, 1, previous, previous_term, commit, -1, False, batches)
    return core.handle(0, Received(1, request))


def of(effects: list[Effect], kind: type) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, kind)]


def noted(effects: list[Effect]) -> list[Note]:
    return [each for each in effects if isinstance(each, Note) and each.kind in ("gap", "truncate", "append")]


def match(effects: list[Effect]) -> tuple[bool, int]:
    (reply,) = [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, AppendReply)]
    return reply.success, reply.match


def test_the_example_of_the_document() -> None:
    filled = fill_gaps(0, [real(0, 10, 1), real(11, 20, 1), real(33, 40, 3)])
    assert filled == (real(0, 10, 1), real(11, 20, 1), ghost(21, 32, 3), real(33, 40, 3))
    core = follower((0, 10, 1))
    sent(core, 10, 1, *filled[1:])
    assert (core.dirty, core.index.term(21), core.index.term(20), core.index.batch_base(33)) == (40, 3, 1, 21)


def test_a_gap_at_the_start_of_a_chunk_is_filled_and_a_wide_one_split() -> None:
    assert fill_gaps(5, [real(8, 8, 2)]) == (ghost(5, 7, 2), real(8, 8, 2))
    wide = fill_gaps(0, [real(25, 25, 1)], widest=10)
    assert wide == (ghost(0, 9, 1), ghost(10, 19, 1), ghost(20, 24, 1), real(25, 25, 1))
    ends = [batch.record_count for batch in fill_gaps(0, [real(5_000_000_000, 5_000_000_000, 1)])]
    assert ends == [MAX_GHOST_OFFSETS, MAX_GHOST_OFFSETS, 5_000_000_000 - 2 * MAX_GHOST_OFFSETS, 1]


@pytest.mark.parametrize("width", [12, 10_000_000, MAX_GHOST_OFFSETS])
def test_a_ghost_costs_at_most_57_bytes_on_the_wire(width: int) -> None:
    def encoded(*batches: RecordBatch) -> int:
        request = AppendEntries(3, 7, 1_000, 1, 900, 900, False, batches)
        return len(wire.MESSAGES.encode((1, 0), [request]))

    base = 1_001 + width
    with_ghost = encoded(ghost(1_001, base - 1, 3), real(base, base, 3))
    assert with_ghost - encoded(real(base, base, 3)) == 32 <= 57


def test_a_request_that_ends_with_a_ghost_is_refused() -> None:
    request = AppendEntries(3, 1, 0, 1, 0, 0, False, (real(1, 1, 3), ghost(2, 4, 3)))
    with pytest.raises(FrameError, match="ends with a ghost"):
        wire.MESSAGES.decode(wire.MESSAGES.encode((1, 0), [request])[4:])


def test_a_ghost_of_another_term_than_the_batch_behind_it_is_refused() -> None:
    request = AppendEntries(3, 1, 0, 1, 0, 0, False, (ghost(1, 4, 2), real(5, 5, 3)))
    with pytest.raises(FrameError, match="a ghost of term 2 before a batch of term 3"):
        wire.MESSAGES.decode(wire.MESSAGES.encode((1, 0), [request])[4:])


def test_a_mutant_makes_one_ghost_of_a_gap_that_is_too_wide_for_one() -> None:
    make_core: Any = MUTANTS["gap-not-split"].make_core
    behind = real(5_000_000_000, 5_000_000_000, 1)
    for batch in follower()._filled(0, (behind,)):
        batch.encode()
    one, _ = make_core(Configuration(0, THREE), Restored())._filled(0, (behind,))
    with pytest.raises(BatchDamaged, match="record count"):
        one.encode()


def test_what_is_held_behind_a_ghost_is_not_cut() -> None:
    core = follower((0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 3, 1))
    effects = sent(core, 0, 1, ghost(1, 2, 1), real(3, 3, 1))
    assert (of(effects, Truncate), of(effects, Append), match(effects)) == ([], [], (True, 3))
    effects = sent(core, 0, 1, ghost(1, 2, 1), real(3, 3, 1), real(4, 4, 3))
    assert [effect.batches for effect in effects if isinstance(effect, Append)] == [(real(4, 4, 3),)]
    assert of(effects, Truncate) == []


def test_a_ghost_cuts_what_cannot_be_placed_and_says_so_first() -> None:
    core = follower((0, 0, 1), (1, 1, 2), (2, 2, 2))
    effects = sent(core, 0, 1, ghost(1, 4, 3), real(5, 5, 3))
    assert of(effects, Truncate) == [Truncate(1)]
    reported = [(each.kind, each.columns["offset"], each.columns["dirty"]) for each in noted(effects)]
    assert reported == [("gap", 1, 2), ("truncate", 1, 0), ("append", 5, 5)]
    assert (core.dirty, core.index.gap_end, match(effects)) == (5, 5, (True, 5))


def test_nothing_in_front_of_a_gap_is_cut_also_after_a_restart() -> None:
    core = follower((0, 0, 1), (4, 4, 3), (5, 5, 3))
    assert core.commit == -1
    effects = sent(core, 0, 1, real(1, 1, 1), real(2, 2, 1), real(3, 3, 2), real(4, 4, 3))
    assert (of(effects, Truncate), of(effects, Append), match(effects)) == ([], [], (True, 4))
    effects = sent(core, 2, 1, ghost(3, 3, 3), real(4, 4, 3), real(5, 5, 3))  # previous lies in the gap
    assert (of(effects, Truncate), match(effects)) == ([], (True, 5))
    effects = sent(core, 0, 1, ghost(1, 6, 3), real(7, 7, 3))
    assert [effect.batches for effect in effects if isinstance(effect, Append)] == [(ghost(5, 6, 3), real(7, 7, 3))]
    assert of(effects, Truncate) == [Truncate(5)]


def test_a_heartbeat_of_an_end_within_the_gap_is_answered() -> None:
    core = follower((0, 0, 1), (4, 4, 3))
    (reply,) = [
        each.message
        for each in core.handle(0, Received(1, Heartbeat(3, 1, 2, 1, -1, -1)))
        if isinstance(each, Send) and isinstance(each.message, HeartbeatReply)
    ]
    assert (reply.success, reply.match) == (True, 2)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.booleans()), min_size=1, max_size=12))
def test_an_index_that_was_compacted_is_that_of_what_is_left(parts: list[tuple[int, int, bool]]) -> None:
    batches, offset, term = [], 0, 1
    for width, more, _ in parts:
        term += more
        batches.append((offset, offset + width - 1, term))
        offset += width
    gone = [batch[:2] for batch, (_, _, goes) in zip(batches[:-1], parts, strict=False) if goes]
    index = LogIndex.of(batches)
    index.compact(gone[::2])
    index.compact(gone[1::2])
    left = LogIndex.of([batch for batch in batches if batch[:2] not in gone])
    for offset in range(-1, index.dirty + 1):
        assert index.term(offset) == left.term(offset)
        assert index.outside_gaps(offset) == left.outside_gaps(offset)
        assert index.batch_end_at_most(offset) == left.batch_end_at_most(offset)
    assert (index.gap_end, index.dirty, len(index)) == (left.gap_end, left.dirty, len(left))
    cut = offset // 2
    index.truncate(cut)
    left.truncate(cut)
    assert (index.gap_end, index.dirty) == (left.gap_end, left.dirty)


@pytest.mark.parametrize("mutant", ["gap-forgotten", "first-mismatch-truncates"])
def test_a_mutant_cuts_what_the_reference_keeps(mutant: str) -> None:
    batches = {
        "gap-forgotten": ((0, 0, 1), (4, 4, 3), (5, 5, 3)),
        "first-mismatch-truncates": ((0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 3, 1)),
    }[mutant]
    request = {
        "gap-forgotten": (real(1, 1, 1), real(2, 2, 1), real(3, 3, 2)),
        "first-mismatch-truncates": (ghost(1, 2, 1), real(3, 3, 1)),
    }[mutant]
    restored = Restored(3, index=LogIndex.of(batches))
    make_core = MUTANTS[mutant].make_core
    assert make_core is not None
    assert of(sent(follower(*batches), 0, 1, *request), Truncate) == []  # type: ignore[arg-type]
    cut = sent(make_core(Configuration(0, THREE), restored), 0, 1, *request)  # type: ignore[arg-type]
    assert of(cut, Truncate) == [Truncate(1)]


def test_a_mutant_tells_of_gaps_in_the_term_before_them() -> None:
    make_core = MUTANTS["ghost-previous-term"].make_core
    assert make_core is not None
    for make, term in ((RaftCore, 3), (make_core, 1)):
        core: Any = make(Configuration(0, THREE), Restored(3, index=LogIndex.of([(0, 0, 1), (4, 4, 3)])))
        assert core._filled(1, (real(4, 4, 3),)) == (ghost(1, 3, term), real(4, 4, 3))


@pytest.mark.slow
def test_what_is_cut_lies_behind_the_batch_behind_the_last_gap() -> None:
    """So a gap is never cut by its batch alone (ghost-batches.md#gap-is-committed)."""
    cuts: list[tuple[int, int]] = []

    class Watched(RaftCore):
        def _truncate(self, offset: int) -> None:
            cuts.append((offset, self._known_committed()))
            super()._truncate(offset)

    for setting in ("compacted", "narrow-ghosts"):
        runs = Candidate("raft", None, under=setting)
        for seed in range(10):
            runs.played.watch(seed, runs.configuration(seed), Watched, lambda _: None)
    assert sum(known >= 0 for _, known in cuts) > 20
    assert all(offset > known for offset, known in cuts)


def test_compaction_goes_no_further_than_what_is_committed_applied_and_flushed() -> None:
    """ghost-batches.md#superseded."""
    core = follower((0, 9, 1))
    for name in ("commit", "applied", "flushed"):
        core.commit = core.applied = core.flushed = 7
        setattr(core, name, 3)
        assert core.compaction_bound == 3
