"""The mutants of the core that no history shows: the same events, another answer than the reference's."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorumlog.events import CoreFactory
from quorumlog.quorum import Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import (
    Append,
    AppendRequested,
    Effect,
    Event,
    Flushed,
    Outcome,
    Received,
    Resolved,
    Send,
    Started,
    StartFlush,
    Timer,
    TimerFired,
    VoteSaved,
)
from quorumlog.raft.messages import Heartbeat, VoteReply, VoteRequest
from quorumlog.raft.mutants import MUTANTS
from quorumlog.raft.state import Configuration, Restored
from quorumlog.storage.batch import BatchKind, RecordBatch

ROOT = Path(__file__).parents[2]
HERE = "tests/raft/test_mutants.py"


def play(make_core: CoreFactory, nodes: int, events: list[Event]) -> list[Effect]:
    """All effects of a core that is given these events; votes are saved and flushes are done at once."""
    core = make_core(Configuration(0, Voters(tuple(range(nodes)))), Restored())
    effects: list[Effect] = []
    queue = list(events)
    now = 0
    while queue:
        now += 1
        done = core.handle(now, queue.pop(0))
        effects += done
        queue[:0] = [Flushed(each.ticket) for each in done if isinstance(each, StartFlush)]
        if core._save:
            queue[:0] = [VoteSaved(core._save)]
    return effects


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


PROMISES = {
    "queue-reversed": keeps_the_order_of_enqueueing,
    "answers-before-writing": writes_before_it_answers,
    "votes-while-led": refuses_a_vote_while_it_hears_its_leader,
    "expected-term-ignored": writes_nothing_in_another_term,
}


@pytest.mark.parametrize("mutant", PROMISES)
def test_the_reference_keeps_a_promise_that_a_mutant_breaks(mutant: str) -> None:
    assert PROMISES[mutant](RaftCore)
    assert not PROMISES[mutant](MUTANTS[mutant].make_core)


def test_every_mutant_is_noticed_by_a_check_or_by_a_test() -> None:
    for mutant in MUTANTS.values():
        assert bool(mutant.checks) != bool(mutant.test), mutant.id
        if mutant.test:
            assert f'"{mutant.id}"' in (ROOT / mutant.test).read_text(), f"{mutant.test} does not try {mutant.id}"
    assert set(PROMISES) == {mutant.id for mutant in MUTANTS.values() if mutant.test == HERE}


def test_there_are_enough_of_them_and_each_has_its_place() -> None:
    assert len(MUTANTS) >= 60
    assert all(mutant.thread.startswith("https://") for mutant in MUTANTS.values() if mutant.thread)
