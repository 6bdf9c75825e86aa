"""The core's log index against a plain list of batches."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quorumlog.raft.index import NO_TERM, LogIndex


class IndexMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = LogIndex()
        self.batches: list[tuple[int, int, int]] = []

    @property
    def dirty(self) -> int:
        return self.batches[-1][1] if self.batches else -1

    @rule(width=st.integers(1, 4), later=st.integers(0, 2))
    def append(self, width: int, later: int) -> None:
        term = (self.batches[-1][2] if self.batches else 0) + later
        batch = (self.dirty + 1, self.dirty + width, term)
        self.index.append(*batch)
        self.batches.append(batch)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = max(0, self.dirty + 1 - back)
        self.index.truncate(offset)
        self.batches = [batch for batch in self.batches if batch[1] < offset]

    @invariant()
    def agrees(self) -> None:
        assert self.index.dirty == self.dirty
        assert self.index.last_term == (self.batches[-1][2] if self.batches else NO_TERM)
        assert self.index.term(self.dirty + 1) == NO_TERM
        assert len(self.index) == len(self.batches)
        ends = [-1] + [last for _, last, _ in self.batches]
        for base, last, term in self.batches:
            for offset in range(base, last + 1):
                assert self.index.term(offset) == term
                assert self.index.batch_base(offset) == base
                assert self.index.batch_end_at_most(offset) == max(end for end in ends if end <= offset)


IndexMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLogIndex = IndexMachine.TestCase


def test_a_gap_and_a_term_that_goes_back_are_refused() -> None:
    index = LogIndex.of([(0, 3, 2)])
    with pytest.raises(ValueError, match=r"batch 5\.\.6 does not follow offset 3"):
        index.append(5, 6, 2)
    with pytest.raises(ValueError, match="of term 1 follows term 2"):
        index.append(4, 4, 1)
    with pytest.raises(ValueError, match="outside the log"):
        index.batch_base(4)
