"""The sequencer alone: what it sends, and when it acknowledges and releases (read-path.md#write-side)."""

from __future__ import annotations

import pytest

from quorumlog.durations import SECOND
from quorumlog.events import Effect, Event, Received, Send, SetTimer, TimerFired
from quorumlog.read_path import messages as m
from quorumlog.read_path.configuration import SequencerSettings
from quorumlog.read_path.events import (
    Activate,
    Activated,
    AppendAsked,
    AppendEnded,
    MetadataWritten,
    NodesetsLearned,
    StatusesLearned,
    TrimAsked,
    TrimEnded,
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


def test_a_block_of_so_many_records_has_one_copyset() -> None:
    """Source: read-path.md#append-waves."""
    writing = Writing(sticky=4, in_flight=100)
    copysets = [frozenset(stores(effects)) for effects in (writing.effects, *(writing.append() for _ in range(39)))]
    blocks = [{*copysets[place : place + 4]} for place in range(0, 40, 4)]
    assert all(len(block) == 1 for block in blocks)
    assert len({*copysets}) > 1


def test_nothing_is_stored_on_a_shard_that_left_when_nothing_was_under_way() -> None:
    writing = Writing(sticky=16)
    kept = {*stores(writing.effects)}
    writing.stored(1, 1, *kept)
    statuses = dict.fromkeys(range(4), FULLY_AUTHORITATIVE) | {min(kept): UNAVAILABLE}
    writing.give(StatusesLearned(1, statuses, 0, frozenset({min(kept)}), frozenset({min(kept)}), plan=1))
    assert min(kept) not in stores(writing.append())


def test_who_was_avoided_is_not_any_more_after_a_while() -> None:
    writing = Writing(sticky=1, in_flight=100)
    (refuses, _) = stores(writing.effects)
    writing.give(Received(refuses, m.Stored(lsn_of(3, 1), 1, 0, m.StoreAnswer.REBUILDING, 0)))
    for after, avoided in ((writing.core.settings.avoid - 1, True), (writing.core.settings.avoid, False)):
        later = [writing.core.handle(after, AppendAsked(1, b"12345678")) for _ in range(20)]
        assert all(refuses not in stores(effects) for effects in later) == avoided


def test_who_did_not_store_in_time_or_refused_is_avoided_for_a_while() -> None:
    """Source: read-path.md#append-waves."""
    writing = Writing(sticky=16)
    slow = {*stores(writing.effects)}
    assert {*stores(writing.give(TimerFired(f"wave {lsn_of(3, 1)}")))} == {0, 1, 2, 3} - slow
    writing = Writing(sticky=16)
    (refuses, _) = stores(writing.effects)
    writing.give(Received(refuses, m.Stored(lsn_of(3, 1), 1, 0, m.StoreAnswer.REBUILDING, 0)))
    for _ in range(5):
        assert refuses not in stores(writing.append())
    after = writing.core.settings.avoid + 1
    later = [writing.core.handle(after, TimerFired(f"wave {lsn_of(3, esn)}")) for esn in range(1, 7)]
    assert any(refuses in stores(effects) for effects in later)


def test_who_refuses_because_of_another_shard_is_not_avoided_but_that_one_is() -> None:
    """Of the four shards three are left to choose from. Source: read-path.md#append-waves."""
    writing = Writing(sticky=1)
    (refuses, gone) = stores(writing.effects)
    answer = m.Stored(lsn_of(3, 1), 1, 0, m.StoreAnswer.REBUILDING, 0, gone=(gone,))
    writing.give(Received(refuses, answer))
    writing.give(Received(gone, answer))
    again = stores(writing.give(TimerFired(f"wave {lsn_of(3, 1)}")))
    later = [{*again}, *({*stores(writing.append())} for _ in range(9))]
    assert all(gone not in copyset for copyset in later)
    assert any(refuses in copyset for copyset in later)


@pytest.mark.parametrize("shown", [True, False])
def test_nothing_is_released_before_readers_can_learn_where_it_lies(shown: bool) -> None:
    """Source: read-path.md#activation."""
    writing = Writing(shown)
    writing.give(MetadataWritten(2))
    writing.stored(1, 1, *stores(writing.effects))
    assert releases(writing.give(TimerFired("release"))) == ({lsn_of(3, 1)} if shown else set())
    assert releases(writing.give(MetadataWritten(3))) == {lsn_of(3, 1)}


def test_a_release_says_what_the_sequencer_knew_of_the_event_log() -> None:
    """Source: read-path.md#event-log-version."""
    writing = Writing()
    for version in (7, 5):
        writing.give(StatusesLearned(version, dict.fromkeys(range(4), FULLY_AUTHORITATIVE), 0))
    released = [each.message for each in writing.give(TimerFired("release")) if isinstance(each, Send)]
    assert {each.version for each in released if isinstance(each, m.Release)} == {7}


def test_a_wave_says_by_what_of_the_event_log_its_copyset_was_chosen() -> None:
    """Source: read-path.md#shard-refuses."""
    writing = Writing()
    for version in (7, 9):
        writing.give(StatusesLearned(version, dict.fromkeys(range(4), FULLY_AUTHORITATIVE), 0))
        assert {each.version for each in stores(writing.append()).values()} == {version}


def test_each_wave_is_given_twice_the_time_up_to_a_bound() -> None:
    """Source: read-path.md#append-waves."""
    writing = Writing(store=10, store_most=50)
    name, effects = f"wave {lsn_of(3, 1)}", writing.effects
    delays = list[int]()
    for _ in range(5):
        delays += [each.delay for each in effects if isinstance(each, SetTimer) and each.name == name]
        effects = writing.give(TimerFired(name))
    assert delays == [10, 20, 40, 50, 50]


def test_what_another_wave_stored_does_not_acknowledge() -> None:
    writing = Writing()
    first = [*stores(writing.effects)]
    second = [*stores(writing.give(TimerFired(f"wave {lsn_of(3, 1)}")))]
    assert not any(isinstance(each, AppendEnded) for each in writing.stored(1, 1, *first, *second))
    assert AppendEnded(1, lsn_of(3, 1)) in writing.stored(1, 2, *second)


def test_a_wave_is_stored_when_all_of_its_copyset_have_stored_this_very_wave() -> None:
    """Source: read-path.md#append-waves."""
    writing = Writing()
    first = [*stores(writing.effects)]
    writing.stored(1, 1, first[0])
    second = [*stores(writing.give(TimerFired(f"wave {lsn_of(3, 1)}")))]
    for shard in second:
        ended = AppendEnded(1, lsn_of(3, 1)) in writing.stored(1, 2, shard)
        assert ended == (shard == second[-1])


@pytest.mark.parametrize("seen", [True, False])
def test_what_a_shard_stored_before_it_left_does_not_count_when_it_is_back(seen: bool) -> None:
    """It may be back without its data, whether this was seen or fell between two versions.

    Source: read-path.md#append-waves.
    """
    writing = Writing()
    gone, late = stores(writing.effects)
    writing.stored(1, 1, gone)
    statuses, begun = dict.fromkeys(range(4), FULLY_AUTHORITATIVE), list[Effect]()
    if seen:
        leaving = frozenset({gone})
        begun = writing.give(StatusesLearned(1, statuses | {gone: UNAVAILABLE}, 0, leaving, leaving, plan=1))
        assert gone not in stores(begun)
        assert {store.copy.wave for store in stores(begun).values()} == {2}
    begun += writing.give(StatusesLearned(5, statuses, 1, plan=1))
    assert stores(begun)
    assert not any(isinstance(each, AppendEnded) for each in writing.stored(1, 1, late))


def test_a_wave_that_begins_anew_forgets_who_has_stored_the_one_before() -> None:
    """Where the same shards are all that is left."""
    writing = Writing()
    leaving = frozenset({2, 3})
    statuses = dict.fromkeys(range(4), FULLY_AUTHORITATIVE)
    writing.give(StatusesLearned(1, statuses, 0, leaving, leaving, plan=1))
    (wave,) = {stores(each)[0].copy.wave for each in (writing.give(TimerFired(f"wave {lsn_of(3, 1)}")),)}
    writing.stored(1, wave, 0)
    writing.give(TimerFired(f"wave {lsn_of(3, 1)}"))
    assert not any(isinstance(each, AppendEnded) for each in writing.stored(1, wave + 1, 1))


def test_a_copy_says_up_to_where_all_is_stored() -> None:
    writing = Writing()
    writing.stored(1, 1, *stores(writing.effects))
    assert {store.copy.lng for store in stores(writing.append()).values()} == {lsn_of(3, 1)}


def test_releases_and_trims_go_to_all_shards_of_all_nodesets_and_no_trim_goes_further() -> None:
    """Source: read-path.md#release-everywhere, read-path.md#shard-refuses."""
    writing = Writing()
    writing.give(NodesetsLearned({1: NODESET, 2: Nodeset({"NODE": 2}, {4: ("", "", "", "", "N4")})}))
    writing.give(NodesetsLearned({1: NODESET}))  # what comes late is older
    writing.stored(1, 1, *stores(writing.effects))
    released = [each for each in writing.give(TimerFired("release")) if isinstance(each, Send)]
    assert {(each.to, each.message) for each in released} == {(to, m.Release(3, lsn_of(3, 1))) for to in range(5)}
    writing.stored(2, 1, *stores(writing.append()))
    assert writing.core.lng == lsn_of(3, 2)
    *trims, ended = writing.give(TrimAsked(7, lsn_of(3, 9)))
    assert ended == TrimEnded(7, lsn_of(3, 1))
    assert {(each.to, each.message) for each in trims if isinstance(each, Send)} == {
        (to, m.Trim(lsn_of(3, 1))) for to in range(5)
    }


def test_a_sequencer_that_is_active_again_knows_nothing_of_what_was_open() -> None:
    """The record of before takes no place, its copyset is not kept, and who stored it late says nothing."""
    writing = Writing(in_flight=1)
    before = [*stores(writing.effects)]
    writing.give(Received(before[0], m.Stored(lsn_of(3, 1), 1, 0, m.StoreAnswer.SEALED, 3)))
    others = Nodeset({"NODE": 2}, {number: ("", "", "", "", f"N{number}") for number in (4, 5)})
    later = 10 * SECOND
    writing.core.handle(later, AppendAsked(2, b"12345678"))
    assert stores(writing.core.handle(later, Activated(5, others, 4, {}))).keys() == {4, 5}
    assert not any(isinstance(each, AppendEnded) for each in writing.stored(1, 1, *before))


@pytest.mark.parametrize(("sealed", "over"), [(2, False), (3, True)])
def test_a_sequencer_whose_epoch_is_sealed_steps_down(sealed: int, over: bool) -> None:
    """Whether what is open will be read is not known (read-path.md#shard-refuses)."""
    writing = Writing()
    (shard, *_) = stores(writing.effects)
    effects = writing.give(Received(shard, m.Stored(lsn_of(3, 1), 1, 0, m.StoreAnswer.SEALED, sealed)))
    assert (AppendEnded(1, -1) in effects) == over
    assert (writing.append() == [AppendEnded(1, -1, "preempted")]) == over  # it does not come back at once
    back = writing.core.handle(2 * SECOND, AppendAsked(1, b"12345678"))
    assert (back == [Activate()]) == over
    assert (writing.core.epoch == 0) == over
