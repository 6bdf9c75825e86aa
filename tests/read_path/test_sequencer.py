"""The sequencer alone: what it sends, and when it acknowledges and releases (read-path.md#write-side)."""

from __future__ import annotations

import pytest

from quorumlog.events import Effect, Event, Received, Send, TimerFired
from quorumlog.read_path import messages as m
from quorumlog.read_path.configuration import SequencerSettings
from quorumlog.read_path.events import (
    Activated,
    AppendAsked,
    AppendEnded,
    MetadataWritten,
    NodesetsLearned,
    StatusesLearned,
)
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.records import EPOCH_BEGIN
from quorumlog.read_path.rules import FULLY_AUTHORITATIVE, UNAVAILABLE, lsn_of
from quorumlog.read_path.sequencer import SequencerCore

NODESET = Nodeset({"NODE": 2}, {number: ("", "", "", "", f"N{number}") for number in range(4)})


class Writing:
    """A sequencer of epoch 3, all epochs before which are recovered."""

    def __init__(self, shown: bool = True, **settings: int) -> None:
        self.core = SequencerCore(SequencerSettings(**settings))
        self.give(NodesetsLearned({1: NODESET}))
        self.append()
        self.effects = self.give(Activated(3, NODESET, 2, {}))
        if shown:
            self.give(MetadataWritten(3))

    def give(self, event: Event) -> list[Effect]:
        """An event, and what follows."""
        return self.core.handle(0, event)

    def append(self) -> list[Effect]:
        """A client appends."""
        return self.give(AppendAsked(1, b"12345678"))

    def stored(self, esn: int, wave: int, *shards: int) -> list[Effect]:
        """These shards have stored it."""
        stored = m.Stored(lsn_of(3, esn), wave, 0, m.StoreAnswer.OK, 2)
        return [effect for shard in shards for effect in self.give(Received(shard, stored))]


def stores(effects: list[Effect]) -> dict[int, m.Store]:
    """What is to be stored, by shard."""
    return {each.to: each.message for each in effects if isinstance(each, Send) and isinstance(each.message, m.Store)}


def releases(effects: list[Effect]) -> set[int]:
    """Up to where shards may let readers read."""
    return {each.message.lsn for each in effects if isinstance(each, Send) and isinstance(each.message, m.Release)}


def test_the_first_record_of_an_epoch_says_so_and_no_other() -> None:
    writing = Writing()
    first, second = stores(writing.effects), stores(writing.append())
    assert {store.copy.flags for store in first.values()} == {EPOCH_BEGIN}
    assert {store.copy.flags for store in second.values()} == {0}
    again = stores(writing.give(TimerFired(f"wave {lsn_of(3, 1)}")))
    assert {(store.copy.flags, store.copy.wave) for store in again.values()} == {(EPOCH_BEGIN, 2)}


def test_no_more_are_in_flight_than_gaps_are_told_by() -> None:
    """Of the first records of an epoch a reader takes so many for not written (read-path.md#gap-bridge)."""
    writing = Writing(in_flight=3)
    assert len(stores(writing.append())) == len(stores(writing.append())) == 2
    assert writing.append() == [AppendEnded(1, -1, "too many in flight")]
    writing.stored(2, 1, *range(4))
    assert writing.append() == [AppendEnded(1, -1, "too many in flight")]
    writing.stored(1, 1, *range(4))
    assert len(stores(writing.append())) == 2


def test_a_copyset_is_kept_until_one_of_it_leaves() -> None:
    writing = Writing(sticky=16)
    kept = stores(writing.append()).keys()
    assert kept == stores(writing.effects).keys()
    leaves = min(kept)
    statuses = dict.fromkeys(range(4), FULLY_AUTHORITATIVE) | {leaves: UNAVAILABLE}
    writing.give(StatusesLearned(1, statuses, 0, frozenset({leaves}), frozenset({leaves}), plan=1))
    assert leaves not in stores(writing.append())


@pytest.mark.parametrize("shown", [True, False])
def test_nothing_is_released_before_readers_can_learn_where_it_lies(shown: bool) -> None:
    """Source: read-path.md#activation."""
    writing = Writing(shown)
    writing.stored(1, 1, *stores(writing.effects))
    assert releases(writing.give(TimerFired("release"))) == ({lsn_of(3, 1)} if shown else set())
    assert releases(writing.give(MetadataWritten(3))) == {lsn_of(3, 1)}


def test_what_another_wave_stored_does_not_acknowledge() -> None:
    writing = Writing()
    first = [*stores(writing.effects)]
    second = [*stores(writing.give(TimerFired(f"wave {lsn_of(3, 1)}")))]
    assert not any(isinstance(each, AppendEnded) for each in writing.stored(1, 1, *first, *second))
    assert AppendEnded(1, lsn_of(3, 1)) in writing.stored(1, 2, *second)
