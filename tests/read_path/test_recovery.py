"""The recovery of an epoch alone, one answer after another."""

from __future__ import annotations

from itertools import permutations

import pytest
from msgspec.structs import replace

from quorumlog.events import Effect, Send, SetTimer
from quorumlog.protocol import load
from quorumlog.read_path import messages as m
from quorumlog.read_path.configuration import SequencerSettings
from quorumlog.read_path.core import Role
from quorumlog.read_path.events import SetClean, StatusesLearned
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.records import BRIDGE, DRAINED, EPOCH_BEGIN, HOLE, UNDER_REPLICATED, Copy, new_copy
from quorumlog.read_path.recovery import Recovery
from quorumlog.read_path.rules import FULLY_AUTHORITATIVE, REFERENCE, UNDERREPLICATION, esn_of, lsn_of

NODESET = Nodeset({"NODE": 2}, {number: ("", "", "", "", f"N{number}") for number in range(4)})
ALL_WELL = StatusesLearned(1, dict.fromkeys(NODESET.shards, FULLY_AUTHORITATIVE), 0)
HERE = (0, 1, 2)
"""The shards that answer; shard 3 has its data and is down."""


def written(mutant: str | None, here: tuple[int, ...] = HERE, lost: tuple[int, ...] = ()) -> set[int]:
    """What is stored once all who are here have answered, and the grace period is over."""
    protocol = load("read-path").mutated(mutant)
    sequencer = protocol.core(Role.SEQUENCER, SequencerSettings())
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), sequencer.rules)
    statuses = dict.fromkeys(NODESET.shards, FULLY_AUTHORITATIVE) | dict.fromkeys(lost, UNDERREPLICATION)
    recovery.statuses_changed(StatusesLearned(1, statuses, 0, frozenset(lost)))
    recovery.begin()
    copy = new_copy(lsn_of(1, 1), (0, 1), b"12345678", wave=1)
    effects: list[Effect] = []
    for shard in here:
        effects += recovery.received(shard, m.Sealed(1, m.StoreAnswer.OK, 1, {1: 0}))
    for shard in here:
        effects += recovery.received(shard, m.DigestAnswer(1, 1, (copy,) if shard in copy.copyset else ()))
    assert not stores(effects) or lost
    return stores(effects) | stores(recovery.grace_over())


def stores(effects: list[Effect]) -> set[int]:
    """The LSNs that are to be stored."""
    sent = [each.message for each in effects if isinstance(each, Send)]
    return {each.copy.lsn for each in sent if isinstance(each, m.Store)}


def test_a_recovery_goes_on_without_a_shard_that_is_down() -> None:
    """Enough are there to hold a copyset, and one of each copyset answered: after the grace period that suffices."""
    assert written(None) == {lsn_of(1, 1), lsn_of(1, 2)}


def test_one_that_waits_for_all_never_does() -> None:
    """No history shows it: every shard comes back in the end. Source: read-path.md#repair-for-ever."""
    assert written("repair-for-ever") == set()


def test_a_recovery_goes_on_without_what_is_lost() -> None:
    """Two shards are lost for good, and all others answered: what they have is settled, without a bridge."""
    assert written(None, here=(0, 1), lost=(2, 3)) == {lsn_of(1, 1)}


def test_one_that_asks_for_an_f_majority_never_does() -> None:
    """Runs that lose records do not have to come to an end. Source: field-bugs.md#seal-needs-f-majority."""
    assert written("seal-needs-f-majority", here=(0, 1), lost=(2, 3)) == set()


def settled(*copies: Copy) -> dict[int, Copy]:
    """What a recovery stores at each LSN, if each shard has one of these copies."""
    recovery = Recovery(3, {1: NODESET}, SequencerSettings(), REFERENCE)
    recovery.statuses_changed(ALL_WELL)
    recovery.begin()
    effects: list[Effect] = []
    for shard in NODESET.shards:
        effects += recovery.received(shard, m.Sealed(3, m.StoreAnswer.OK, 3, {1: 0}))
    for shard in NODESET.shards:
        effects += recovery.received(shard, m.DigestAnswer(3, 1, copies[shard : shard + 1]))
    sent = [each.message for each in effects if isinstance(each, Send)]
    return {each.copy.lsn: each.copy for each in sent if isinstance(each, m.Store)}


@pytest.mark.parametrize("order", [*permutations(range(4))])
def test_whoever_answers_first_the_winner_is_stored(order: tuple[int, ...]) -> None:
    """A later run made a hole of what a sequencer and an earlier run have stored elsewhere."""
    lsn = lsn_of(1, 1)
    copies = (
        new_copy(lsn, (0, 1), b"12345678", wave=3),
        new_copy(lsn, (0, 1), b"12345678", run=1),
        new_copy(lsn, (), b"", run=2, flags=HOLE),
        new_copy(lsn, (2, 3), b"12345678", wave=1),
    )
    assert settled(*(copies[place] for place in order))[lsn].flags & HOLE


@pytest.mark.parametrize("first", [0, 1])
def test_of_a_sequencers_waves_the_highest_is_stored(first: int) -> None:
    lsn = lsn_of(1, 1)
    waves = [new_copy(lsn, (0, 1), payload, wave=wave) for wave, payload in ((1, b"wave one"), (2, b"wave two"))]
    assert settled(waves[first], waves[1 - first])[lsn].payload == b"wave two"


@pytest.mark.parametrize("lost", [(), (2, 3)])
def test_nothing_is_written_that_is_known_to_be_good(lost: tuple[int, ...]) -> None:
    """A digest says so after another one was sent with what comes before (read-path.md#recovery-bridge)."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    statuses = dict.fromkeys(NODESET.shards, FULLY_AUTHORITATIVE) | dict.fromkeys(lost, UNDERREPLICATION)
    recovery.statuses_changed(StatusesLearned(1, statuses, 0, frozenset(lost)))
    recovery.begin()
    here = [shard for shard in NODESET.shards if shard not in lost]
    for shard in here:
        recovery.received(shard, m.Sealed(1, m.StoreAnswer.OK, 1, {1: 0}))
    copies = tuple(new_copy(lsn_of(1, esn), (0, 1), b"12345678") for esn in (1, 2, 3))
    effects = [
        each for s in here for each in recovery.received(s, m.DigestAnswer(1, 1, copies, 1, 0, copies[s % 2].lsn))
    ]
    assert stores(effects) == {lsn_of(1, 3)} | (set() if lost else {lsn_of(1, 4)})


def test_what_loses_to_any_bridge_before_it_becomes_a_hole() -> None:
    """Also where another bridge, of an earlier run, lies between. Source: read-path.md#recovery-precedence."""
    bridges = (new_copy(lsn_of(1, esn), (), b"", run=run, flags=HOLE | BRIDGE) for esn, run in ((2, 2), (4, 1)))
    overwritten, later = (new_copy(lsn_of(1, esn), (0, 1), b"12345678", run=run) for esn, run in ((5, 1), (6, 2)))
    found = settled(*bridges, overwritten, later)
    assert {esn_of(lsn): copy.flags for lsn, copy in found.items()} == {
        **dict.fromkeys((1, 2, 3, 4, 5), HOLE),
        6: 0,
        7: HOLE | BRIDGE,
    }


def test_a_recovered_record_is_as_it_was_but_for_what_its_shard_said_of_its_own_copy() -> None:
    """That it is the first of its epoch stays."""
    first = new_copy(lsn_of(1, 1), (0, 1), b"12345678", flags=EPOCH_BEGIN | DRAINED)
    assert settled(first)[first.lsn].flags == EPOCH_BEGIN


def test_an_epoch_is_said_to_be_clean_until_the_epoch_store_has_it() -> None:
    """However often shards were asked before."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    recovery.statuses_changed(ALL_WELL)
    recovery.begin()
    for shard in NODESET.shards:
        recovery.received(shard, m.Sealed(1, m.StoreAnswer.OK, 1, {1: 0}))
    for shard in NODESET.shards:
        recovery.received(shard, m.DigestAnswer(1, 1, ()))
    recovery.again()
    ends = [each for s in NODESET.shards for each in recovery.received(s, m.Cleaned(1, 1, m.StoreAnswer.OK, 1))]
    assert SetClean(1) in ends
    assert [SetClean(1) in recovery.again() for _ in range(3)] == [True] * 3
    assert not recovery.done
    recovery.clean_set(1)
    assert recovery.done


def test_what_is_damaged_does_not_win() -> None:
    lsn = lsn_of(1, 1)
    damaged = replace(new_copy(lsn, (2, 3), b"87654321", wave=2), payload=b"damaged!")
    hole = replace(new_copy(lsn, (2, 3), b"", run=2, flags=HOLE), payload=b"?")
    assert settled(new_copy(lsn, (0, 1), b"12345678", wave=1), damaged, hole)[lsn].payload == b"12345678"


def test_answers_to_an_attempt_that_was_given_up_do_not_count() -> None:
    """Nothing came of what was written: the shards are read again, and then answers to what was asked before come."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    recovery.statuses_changed(ALL_WELL)
    recovery.begin()
    copy = new_copy(lsn_of(1, 1), (0, 1), b"12345678", wave=1)
    digests = {shard: (copy,) if shard in copy.copyset else () for shard in NODESET.shards}
    for shard in NODESET.shards:
        recovery.received(shard, m.Sealed(1, m.StoreAnswer.OK, 1, {1: 0}))

    def reads(attempt: int) -> list[Copy]:
        effects = [each for s in digests for each in recovery.received(s, m.DigestAnswer(1, 1, digests[s], attempt))]
        sent = [each.message for each in effects if isinstance(each, Send)]
        return [each.copy for each in sent if isinstance(each, m.Store)]

    def cleans(wave: int) -> list[m.Message]:
        stored = [m.Stored(lsn_of(1, esn), wave, 1, m.StoreAnswer.OK, 1) for esn in (1, 2)]
        effects = [each for s in NODESET.shards for one in stored for each in recovery.received(s, one)]
        return [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, m.Clean)]

    assert {each.wave for each in reads(1)} == {1}
    for _ in range(9):
        recovery.again()
    assert reads(1) == []
    assert {each.wave for each in reads(2)} == {2}
    assert cleans(1) == []
    assert {*cleans(2)} == {m.Clean(1, 1, 0, lsn_of(1, 2), 2)}
    for attempt in (1, 2):
        ends = [
            each for s in NODESET.shards for each in recovery.received(s, m.Cleaned(1, 1, m.StoreAnswer.OK, attempt))
        ]
        assert (SetClean(1) in ends) == (attempt == 2)


def test_only_who_has_not_answered_is_asked_again_and_all_are_read_again_after_a_while() -> None:
    """Whatever it is that somebody does not answer: what is written, or CLEAN (read-path.md#recovery-clean)."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    recovery.statuses_changed(ALL_WELL)
    recovery.begin()
    for shard in NODESET.shards:
        recovery.received(shard, m.Sealed(1, m.StoreAnswer.OK, 1, {1: lsn_of(1, 5)}))
    for shard in (0, 1):
        recovery.received(shard, m.DigestAnswer(1, 1, ()))
    assert asks(recovery.again(), m.Digest) == [2, 3]
    for shard in (2, 3):
        recovery.received(shard, m.DigestAnswer(1, 1, ()))
    (bridged, other) = recovery._epoch.writes[lsn_of(1, 6)].copyset
    recovery.received(bridged, m.Stored(lsn_of(1, 6), 1, 1, m.StoreAnswer.OK, 1))
    assert asks(recovery.again(), m.Store) == [other]
    recovery.received(other, m.Stored(lsn_of(1, 6), 1, 1, m.StoreAnswer.OK, 1))
    recovery.received(3, m.Cleaned(1, 1, m.StoreAnswer.OK, 1))
    assert [asks(recovery.again(), m.Clean) for _ in range(8)] == [[0, 1, 2]] * 8
    assert {*asks(recovery.again(), m.Digest)} == {0, 1, 2, 3}


def test_a_recovery_waits_twice_as_long_each_time_that_nothing_came_of_what_it_wrote() -> None:
    """Where each write takes longer than it waits, it would read the shards for ever (read-path.md#recovery-clean)."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    recovery.statuses_changed(ALL_WELL)
    recovery.begin()
    for shard in NODESET.shards:
        recovery.received(shard, m.Sealed(1, m.StoreAnswer.OK, 1, {1: lsn_of(1, 5)}))
    waited = []
    for attempt in (1, 2, 3, 4):
        for shard in NODESET.shards:
            recovery.received(shard, m.DigestAnswer(1, 1, (), attempt))
        waited.append(next(tries for tries in range(200) if asks(recovery.again(), m.Digest)))
    assert waited == [8, 16, 32, 64]


def asks(effects: list[Effect], kind: type[m.Message]) -> list[int]:
    """Who is sent a message of this kind."""
    return [each.to for each in effects if isinstance(each, Send) and isinstance(each.message, kind)]


def test_the_largest_known_good_lsn_counts() -> None:
    """Source: read-path.md#recovery-seal."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    recovery.statuses_changed(ALL_WELL)
    recovery.begin()
    effects: list[Effect] = []
    for shard, good in enumerate((3, 7, 0, 5)):
        effects += recovery.received(shard, m.Sealed(1, m.StoreAnswer.OK, 1, {1: lsn_of(1, good) if good else 0}))
    asked = [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, m.Digest)]
    assert {each.lng for each in asked} == {lsn_of(1, 7)}
    copy, effects = new_copy(lsn_of(1, 8), (0, 1), b"12345678", wave=1), []
    for shard in NODESET.shards:
        effects += recovery.received(shard, m.DigestAnswer(1, 1, (copy,) if shard in copy.copyset else ()))
    stored = [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, m.Store)]
    assert {each.copy.lng for each in stored} == {lsn_of(1, 7)}
    effects = recovery.statuses_changed(replace(ALL_WELL, leaving=frozenset({3})))
    again = [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, m.Digest)]
    assert {each.lng for each in again} == {lsn_of(1, 7)}


def test_what_is_trimmed_while_a_recovery_waits_is_before_the_bridge() -> None:
    """Who is read has released and trimmed more since it was sealed. Source: read-path.md#recovery-digest."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    recovery.statuses_changed(ALL_WELL)
    recovery.begin()
    for shard in NODESET.shards:
        recovery.received(shard, m.Sealed(1, m.StoreAnswer.OK, 1, {1: lsn_of(1, 4)}))
    effects: list[Effect] = []
    for shard in NODESET.shards:
        effects += recovery.received(shard, m.DigestAnswer(1, 1, (), 1, 1, lsn_of(1, 7 if shard == 1 else 4)))
    assert stores(effects) == {lsn_of(1, 8)}


def with_one_that_leaves(effects_of: Recovery, leaving: frozenset[int]) -> list[Effect]:
    """What a recovery does when all have answered; shard 3 has what nobody acknowledged."""
    effects_of.statuses_changed(replace(ALL_WELL, leaving=leaving))
    effects_of.begin()
    copy = new_copy(lsn_of(1, 1), (2, 3), b"12345678")
    effects: list[Effect] = []
    for shard in NODESET.shards:
        effects += effects_of.received(shard, m.Sealed(1, m.StoreAnswer.OK, 1, {1: 0}))
    for shard in NODESET.shards:
        effects += effects_of.received(shard, m.DigestAnswer(1, 1, (copy,) if shard in copy.copyset else ()))
    return effects


def copysets(effects: list[Effect]) -> list[tuple[int, ...]]:
    """Those of what is to be stored."""
    sent = [each.message for each in effects if isinstance(each, Send)]
    return [each.copy.copyset for each in sent if isinstance(each, m.Store)]


def test_what_somebody_has_is_amended_and_nothing_is_written_to_those_that_leave() -> None:
    """Source: read-path.md#recovery-bridge, read-path.md#recovery-digest."""
    all_stay = copysets(with_one_that_leaves(Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE), frozenset()))
    assert {2, 3} in [{*copyset} for copyset in all_stay]
    without = copysets(with_one_that_leaves(Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE), frozenset({3})))
    assert without
    assert not any(3 in copyset for copyset in without)


def test_a_recovery_reads_again_at_once_when_a_shard_begins_to_leave() -> None:
    """Source: read-path.md#recovery-clean."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    with_one_that_leaves(recovery, frozenset())
    statuses = dict.fromkeys(NODESET.shards, FULLY_AUTHORITATIVE) | {2: UNDERREPLICATION}
    effects = recovery.statuses_changed(StatusesLearned(2, statuses, 0, frozenset({2})))
    asked = [each.message for each in effects if isinstance(each, Send)]
    assert m.Digest(1, 1, 0, 2) in asked


def test_a_recovery_that_cleans_reads_again_when_a_shard_begins_to_leave() -> None:
    """Source: read-path.md#recovery-clean."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    with_one_that_leaves(recovery, frozenset())
    for lsn, shards in [(lsn, {*shards}) for lsn, shards in recovery._epoch.targets.items()]:
        for shard in shards:
            effects = recovery.received(shard, m.Stored(lsn, 1, 1, m.StoreAnswer.OK, 1))
    assert asks(effects, m.Clean) == [0, 1, 2, 3]
    statuses = dict.fromkeys(NODESET.shards, FULLY_AUTHORITATIVE) | {2: UNDERREPLICATION}
    effects = recovery.statuses_changed(StatusesLearned(2, statuses, 0, frozenset({2})))
    assert 2 in asks(effects, m.Digest)


@pytest.mark.parametrize(("sealed", "over"), [(1, False), (2, True)])
def test_a_run_whose_write_is_refused_for_a_later_one_was_overtaken(sealed: int, over: bool) -> None:
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    with_one_that_leaves(recovery, frozenset())
    recovery.received(2, m.Stored(lsn_of(1, 1), 1, 1, m.StoreAnswer.SEALED, sealed))
    assert recovery.preempted == over


def test_a_recovery_reads_again_when_a_rebuilding_was_completed_between_two_versions() -> None:
    """Who left and is back may not have what it has stored. Source: read-path.md#recovery-clean."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    with_one_that_leaves(recovery, frozenset())
    asked = [each.message for each in recovery.statuses_changed(replace(ALL_WELL, version=9)) if isinstance(each, Send)]
    assert asked == []
    effects = recovery.statuses_changed(replace(ALL_WELL, version=10, completed=1))
    asked = [each.message for each in effects if isinstance(each, Send)]
    assert m.Digest(1, 1, 0, 2) in asked


def test_a_recovery_says_what_it_knows_of_the_event_log_when_it_writes() -> None:
    """Also when it asks again: it reads again first if a shard began to leave (read-path.md#shard-refuses)."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    sent = with_one_that_leaves(recovery, frozenset())
    recovery.statuses_changed(replace(ALL_WELL, version=5))
    for effects, version in ((sent, 1), (recovery.again(), 5)):
        written = [each.message for each in effects if isinstance(each, Send)]
        assert {each.version for each in written if isinstance(each, m.Store)} == {version}


def test_the_grace_period_of_a_recovery_is_not_restarted_by_what_comes() -> None:
    """A shard that lost its data refuses to seal whenever it is asked. Source: read-path.md#recovery-digest."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    recovery.statuses_changed(ALL_WELL)
    recovery.begin()
    effects: list[Effect] = []
    for shard in HERE:
        effects += recovery.received(shard, m.Sealed(1, m.StoreAnswer.OK, 1, {1: 0}))
    assert recovery.grace_over() == []  # that of an attempt before
    for shard in HERE:
        effects += recovery.received(shard, m.DigestAnswer(1, 1, ()))
    for _ in range(3):
        effects += recovery.received(3, m.Sealed(1, m.StoreAnswer.REBUILDING, 0))
    assert [each.name for each in effects if isinstance(each, SetTimer)].count("recovery grace") == 1
    assert not any(isinstance(each.message, m.Clean) for each in effects if isinstance(each, Send))
    assert any(isinstance(each.message, m.Clean) for each in recovery.grace_over() if isinstance(each, Send))


def test_nothing_is_written_where_too_few_stay_that_answered() -> None:
    """Source: read-path.md#recovery-seal."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    effects = with_one_that_leaves(recovery, frozenset({1, 2, 3}))
    assert not any(isinstance(each.message, m.Store | m.Clean) for each in effects if isinstance(each, Send))


def test_an_old_bridge_becomes_a_hole_and_the_new_one_comes_behind_all_data() -> None:
    """Source: read-path.md#recovery-precedence."""
    old = new_copy(lsn_of(1, 1), (0, 1), b"", run=1, flags=HOLE | BRIDGE)
    later = new_copy(lsn_of(1, 3), (0, 1), b"12345678", run=2)
    beaten = new_copy(lsn_of(1, 2), (2, 3), b"12345678", wave=4)
    flags = {lsn_of(1, esn): flags for esn, flags in ((1, HOLE), (2, HOLE), (3, 0), (4, HOLE | BRIDGE))}
    assert {lsn: copy.flags for lsn, copy in settled(old, later, beaten).items()} == flags


def test_the_new_bridge_comes_right_behind_the_last_record_whatever_holes_there_are() -> None:
    """Source: read-path.md#recovery-bridge."""
    data = new_copy(lsn_of(1, 1), (0, 1), b"12345678")
    old = new_copy(lsn_of(1, 2), (2, 3), b"", run=1, flags=HOLE | BRIDGE)
    beyond = new_copy(lsn_of(1, 3), (2, 3), b"", run=1, flags=HOLE)
    flags = {lsn_of(1, esn): flags for esn, flags in ((1, 0), (2, HOLE | BRIDGE), (3, HOLE))}
    assert {lsn: copy.flags for lsn, copy in settled(data, old, beyond).items()} == flags


def test_what_a_shard_says_of_its_own_copy_is_not_written_elsewhere() -> None:
    copy = new_copy(lsn_of(1, 1), (0, 1), b"12345678", flags=DRAINED | UNDER_REPLICATED)
    assert settled(copy)[copy.lsn].flags == 0


def test_a_run_that_cleans_in_vain_was_overtaken() -> None:
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    recovery.begin()
    recovery.received(0, m.Cleaned(1, 1, m.StoreAnswer.SEALED, 1))
    assert recovery.preempted


def read_behind(*, forgotten: dict[int, int], version: int = 1) -> tuple[Recovery, list[Effect]]:
    """A recovery of a record that is left, by shards two of which are back without their data, by a newer version."""
    recovery = Recovery(1, {1: NODESET}, SequencerSettings(), REFERENCE)
    recovery.statuses_changed(replace(ALL_WELL, forgotten=forgotten))
    recovery.begin()
    copy = new_copy(lsn_of(1, 1), (2, 3), b"12345678", wave=1)
    for shard in NODESET.shards:
        recovery.received(shard, m.Sealed(1, m.StoreAnswer.OK, 1, {1: 0}))
    effects: list[Effect] = []
    for shard in NODESET.shards:
        copies = (copy,) if shard in copy.copyset else ()
        effects += recovery.received(shard, m.DigestAnswer(1, 1, copies, 1, version))
    return recovery, effects


def test_behind_a_loss_there_is_no_bridge() -> None:
    """Two shards may have had records that nobody else has. Source: read-path.md#loss-is-remembered."""
    assert stores(read_behind(forgotten={0: 1, 1: 1})[1]) == {lsn_of(1, 1)}
    assert stores(read_behind(forgotten={0: 0, 1: 0})[1]) == {lsn_of(1, 1), lsn_of(1, 2)}


def test_what_a_shard_says_counts_when_the_event_log_is_known_that_it_knows() -> None:
    """The sequencer has not heard that it is back without its data. Source: read-path.md#loss-is-remembered."""
    recovery, effects = read_behind(forgotten={}, version=4)
    assert stores(effects) == set()
    effects = recovery.statuses_changed(replace(ALL_WELL, version=4, forgotten={0: 1, 1: 1}))
    assert stores(effects) == {lsn_of(1, 1)}
