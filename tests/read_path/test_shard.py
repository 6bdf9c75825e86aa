"""A storage shard alone, one message after another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from quorumlog.events import Effect, Received, Send, SetTimer, TimerFired
from quorumlog.read_path import messages as m
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.events import (
    BatchRead,
    Change,
    NodesetsLearned,
    Persist,
    Persisted,
    ReadBatch,
    StatusesLearned,
    TellEventLog,
)
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.records import HOLE, new_copy
from quorumlog.read_path.rules import AUTHORITATIVE_EMPTY, FULLY_AUTHORITATIVE, UNDERREPLICATION, esn_of, lsn_of
from quorumlog.read_path.shard import ShardCore

NODE = 9
"""Who sends: a sequencer."""
LSN = lsn_of(1, 1)
COPY = new_copy(LSN, (0, 1), b"12345678")


def answers(shard: ShardCore, message: m.Message) -> list[m.Message]:
    """Give a shard a message, let all be durable that it wants to be, and return what it sends."""

    def carried_out(effects: list[Effect]) -> Iterator[m.Message]:
        for effect in effects:
            if isinstance(effect, Persist):
                yield from carried_out(shard.handle(0, Persisted(effect.ticket)))
            elif isinstance(effect, Send):
                yield effect.message

    return list(carried_out(shard.handle(0, Received(NODE, message))))


def stored(shard: ShardCore, epoch: int, esn: int) -> m.StoreAnswer:
    (answer,) = answers(shard, m.Store(new_copy(lsn_of(epoch, esn), (0, 1), b"12345678"), epoch))
    assert isinstance(answer, m.Stored)
    return answer.answer


def a_shard(*changes: Change) -> ShardCore:
    """One of three, which has lost nothing, made these changes, and read an event log without a record."""
    shard = a_shard_that_starts(*changes)
    shard.handle(0, StatusesLearned(0, dict.fromkeys(range(3), FULLY_AUTHORITATIVE), 0))
    return shard


def a_shard_that_starts(*changes: Change) -> ShardCore:
    """The same before it has read the event log."""
    return ShardCore(0, {number: (str(number),) for number in range(3)}, [Change(intact=True), *changes])


def test_nothing_is_stored_before_the_event_log_is_known() -> None:
    """It may say that this very shard is empty: what is stored on it would not count."""
    shard = a_shard_that_starts()
    for store in (m.Store(COPY, 1), m.Store(replace(COPY, run=1), 1), m.Store(COPY, 1, 1)):
        refused = m.Stored(LSN, COPY.wave, store.copy.run, m.StoreAnswer.REBUILDING, 0, store.plan)
        assert answers(shard, store) == [refused]
    assert answers(shard, m.Seal(1, 1)) != []
    shard.handle(0, StatusesLearned(0, dict.fromkeys(range(3), FULLY_AUTHORITATIVE), 0))
    assert stored(shard, 2, 1) is m.StoreAnswer.OK


@pytest.mark.parametrize("run", [0, 1])
def test_what_was_sent_before_a_shard_of_the_copyset_left_is_refused_when_it_is_back(run: int) -> None:
    """It may be back without its copy, and the sender counts that one (read-path.md#shard-refuses)."""
    shard = a_shard()
    shard.handle(0, StatusesLearned(7, dict.fromkeys(range(3), FULLY_AUTHORITATIVE), 1, left={1: 4, 2: 6}))
    copy = replace(COPY, run=run)
    for version, expected in ((3, m.StoreAnswer.REBUILDING), (4, m.StoreAnswer.OK), (9, m.StoreAnswer.OK)):
        (answer,) = answers(shard, m.Store(copy, 1, version=version))
        assert isinstance(answer, m.Stored)
        assert answer.answer is expected


def test_what_a_purge_is_of_is_stored_no_more() -> None:
    """A shard without a record of an epoch that others recovered takes the release, and then none of that epoch."""
    shard = a_shard()
    answers(shard, m.Release(2, lsn_of(2, 1)))
    assert shard.released == lsn_of(2, 1)
    assert stored(shard, 1, 5) is m.StoreAnswer.SEALED
    assert stored(shard, 2, 2) is m.StoreAnswer.OK


def test_nothing_is_purged_before_the_seal_is_durable() -> None:
    """A copy that was taken before the release came is still on its way to the disk."""
    shard = a_shard()
    (late,) = shard.handle(0, Received(NODE, m.Store(new_copy(lsn_of(1, 5), (0, 1), b"12345678"), 1)))
    (seal,) = shard.handle(0, Received(NODE, m.Release(2, lsn_of(2, 1))))
    assert isinstance(late, Persist)
    assert isinstance(seal, Persist)
    assert seal.change.sealed == 1
    shard.handle(0, Persisted(late.ticket))
    asked = shard.handle(0, Persisted(seal.ticket))
    assert [each.message for each in asked if isinstance(each, Send)] == [m.AskRecovered(1, 1)] * 2
    assert shard.released == 0


def test_what_others_say_purges_nothing_before_the_newest_seal_is_durable() -> None:
    """A later release has come meanwhile, and with it a higher seal."""
    shard = a_shard(Change(copy=new_copy(lsn_of(1, 5), (0, 1), b"12345678")))
    answers(shard, m.Release(2, lsn_of(2, 1)))
    (seal,) = shard.handle(0, Received(NODE, m.Release(3, lsn_of(3, 1))))
    assert isinstance(seal, Persist)
    assert shard.handle(0, Received(1, m.Recovered({1: (lsn_of(1, 3), lsn_of(1, 8), 1, 1)}))) == []
    assert any(isinstance(each, Persist) for each in shard.handle(0, Persisted(seal.ticket)))


def test_what_is_released_stays_so() -> None:
    """A release that comes late, of the same sequencer or of an earlier one, takes nothing back."""
    shard = a_shard(Change(last_clean=1))
    for release, held in ((m.Release(2, lsn_of(2, 4)), 4), (m.Release(2, lsn_of(2, 2)), 4), (m.Release(1, LSN), 4)):
        answers(shard, release)
        assert shard.released == lsn_of(2, held)


def test_nobody_is_asked_of_an_epoch_that_this_shard_helped_to_recover() -> None:
    """It missed the one before, of which it has nothing."""
    shard = a_shard(Change(copy=new_copy(lsn_of(2, 1), (0, 1), b"12345678")), Change(clean=(2, 0, lsn_of(2, 2), 2, 1)))
    assert answers(shard, m.Release(3, lsn_of(3, 1))) == []
    assert shard.released == lsn_of(3, 1)
    assert lsn_of(2, 1) in shard.contents.copies


def test_the_seal_of_a_purge_outlives_the_process() -> None:
    shard = a_shard()
    (seal,) = shard.handle(0, Received(NODE, m.Release(3, lsn_of(3, 1))))
    assert isinstance(seal, Persist)
    assert stored(a_shard(seal.change), 2, 1) is m.StoreAnswer.SEALED


LOCATIONS = {number: ("", "", "", "", f"N{number}") for number in range(4)}


def a_donor(number: int, copyset: tuple[int, ...], lost: int, factor: int) -> tuple[ShardCore, list[Effect]]:
    """A shard with a released record of this copyset, and what it does when it learns that another one is lost."""
    shard = ShardCore(number, LOCATIONS, [Change(intact=True), Change(copy=new_copy(LSN, copyset, b"12345678"))])
    others = {each: place for each, place in LOCATIONS.items() if each in {*range(factor + 1)}}
    shard.handle(0, NodesetsLearned({1: Nodeset({"NODE": factor}, others)}))
    answers(shard, m.Release(1, LSN))
    statuses = dict.fromkeys(others, FULLY_AUTHORITATIVE) | {lost: UNDERREPLICATION}
    return shard, shard.handle(0, StatusesLearned(1, statuses, 0, frozenset({lost}), frozenset({lost}), plan=1))


def stores(effects: list[Effect]) -> dict[int, tuple[int, ...]]:
    """The copysets that are sent, by shard."""
    sent = {each.to: each.message for each in effects if isinstance(each, Send)}
    return {to: message.copy.copyset for to, message in sent.items() if isinstance(message, m.Store)}


def says_stored(shard: ShardCore, by: int, plan: int) -> list[Effect]:
    return shard.handle(0, Received(by, m.Stored(LSN, 0, 0, m.StoreAnswer.OK, 0, plan)))


def test_donors_of_a_record_write_its_copyset_in_one_order() -> None:
    """Shard 2 was away when a copy was made on shard 0 instead of its own; then shard 1, which both name, is lost."""
    written = {*stores(a_donor(0, (1, 0), 1, 2)[1]).values(), *stores(a_donor(2, (2, 1), 1, 2)[1]).values()}
    assert len(written) == 1
    assert {*written.pop()} == {0, 2}


def test_a_donor_is_done_when_all_have_stored_its_copies_and_its_own_is_amended_last() -> None:
    shard, effects = a_donor(0, (0, 1, 3), 3, 3)
    assert stores(effects).keys() == {2}
    assert shard.handle(0, Received(2, m.Stored(LSN, 0, 0, m.StoreAnswer.REBUILDING, 0, 1))) == []
    assert stores(says_stored(shard, 2, plan=1)).keys() == {1}
    assert says_stored(shard, 1, plan=0) == []  # the answer to what another plan sent
    (own,) = says_stored(shard, 1, plan=1)
    assert isinstance(own, Persist)
    assert shard.contents.copies[LSN].copyset == (0, 1, 3)
    *_, done = shard.handle(0, Persisted(own.ticket))
    assert isinstance(done, TellEventLog)
    assert {*shard.contents.copies[LSN].copyset} == {0, 1, 2}


def test_a_donor_says_that_an_epoch_is_recovered_once_a_later_one_is_released() -> None:
    """Its own CLEAN may have overtaken that of the shard which it asks to store, and to purge before that."""
    known_good, above = (new_copy(lsn_of(1, esn), (0, 3), b"12345678") for esn in (2, 5))
    clean = Change(clean=(1, lsn_of(1, 3), lsn_of(1, 8), 1, 1))
    changes = [Change(intact=True), Change(copy=known_good), Change(copy=above), clean]
    shard = ShardCore(0, LOCATIONS, changes)
    shard.handle(0, NodesetsLearned({1: Nodeset({"NODE": 2}, {0: LOCATIONS[0], 2: LOCATIONS[2]})}))
    answers(shard, m.Release(1, lsn_of(1, 7)))  # of the sequencer whose epoch was recovered
    statuses = dict.fromkeys(LOCATIONS, FULLY_AUTHORITATIVE) | {3: UNDERREPLICATION}
    learned = StatusesLearned(1, statuses, 0, frozenset({3}), frozenset({3}), plan=1)

    def asked(effects: list[Effect]) -> set[tuple[int, int]]:
        sent = [each.message for each in effects if isinstance(each, Send)]
        return {(each.copy.lsn, each.epoch) for each in sent if isinstance(each, m.Store)}

    assert asked(shard.handle(0, learned)) == {(known_good.lsn, 0)}
    assert asked(shard.handle(0, Received(NODE, m.Release(2, lsn_of(2, 0))))) == {(above.lsn, 1)}


@pytest.mark.parametrize("cleaned", [(), (Change(clean=(1, 0, lsn_of(1, 8), 1, 1)),)])
def test_no_donor_is_done_while_a_recovery_may_write(cleaned: tuple[Change, ...]) -> None:
    """Its copyset names shards that may not have theirs; CLEAN may be of an attempt after which it began anew."""
    again = new_copy(lsn_of(1, 5), (0, 2), b"12345678", run=1, wave=2)
    shard = ShardCore(0, LOCATIONS, [Change(intact=True), Change(copy=again), *cleaned])
    statuses = dict.fromkeys(LOCATIONS, FULLY_AUTHORITATIVE) | {3: UNDERREPLICATION}
    waits = shard.handle(0, StatusesLearned(1, statuses, 0, frozenset({3}), frozenset({3}), plan=1))
    assert not any(isinstance(effect, TellEventLog) for effect in waits)
    answers(shard, m.Clean(1, 1, 0, lsn_of(1, 8), 2))
    released = shard.handle(0, Received(NODE, m.Release(1, lsn_of(1, 1))))  # by the sequencer of before
    assert not any(isinstance(effect, TellEventLog) for effect in released)
    told = [
        each for each in shard.handle(0, Received(NODE, m.Release(2, lsn_of(2, 0)))) if isinstance(each, TellEventLog)
    ]
    assert [(each.record.word, each.record.donor, each.record.plan) for each in told] == [(Word.DONE, 0, 1)]


def test_what_is_released_does_not_put_off_that_a_donor_asks_again() -> None:
    shard, effects = a_donor(0, (0, 1, 3), 3, 3)
    assert SetTimer("rebuild", shard.settings.retry) in effects
    assert shard.handle(0, Received(NODE, m.Release(1, LSN + 1))) == []
    again = shard.handle(0, TimerFired("rebuild"))
    assert stores(again).keys() == {2}
    assert SetTimer("rebuild", shard.settings.retry) in again


def test_a_copy_of_a_donor_is_refused_that_a_purge_may_delete_or_a_newer_plan_overtook() -> None:
    """A shard that knows nothing of the recovery of epoch 1 gets a copy of it from a donor that does."""
    shard, _ = a_donor(2, (2, 3), 3, 2)
    copy = new_copy(lsn_of(1, 7), (0, 2), b"12345678")

    def answered(plan: int) -> list[m.Message]:
        return answers(shard, m.Store(copy, 1, plan))

    def stored(answer: m.StoreAnswer) -> m.Stored:
        return m.Stored(copy.lsn, 1, 0, answer, 1, plan=1)

    assert {*answered(plan=1)} == {m.AskRecovered(1, 1), stored(m.StoreAnswer.REBUILDING)}
    answers(shard, m.Recovered({1: (lsn_of(1, 3), lsn_of(1, 8), 1, 1)}))
    assert answered(plan=1) == [stored(m.StoreAnswer.OK)]
    shard.handle(0, StatusesLearned(2, dict.fromkeys(range(3), FULLY_AUTHORITATIVE), 0, plan=2))
    assert answered(plan=1) == [stored(m.StoreAnswer.REBUILDING)]


def test_a_copy_that_is_here_or_on_its_way_is_not_written_again() -> None:
    """A donor that hears nothing of a slow disk asks again, however often: one write and one answer are enough."""
    shard, _ = a_donor(2, (2, 3), 3, 2)
    store = Received(1, m.Store(new_copy(LSN + 1, (0, 2), b"12345678"), 0, 1))
    told = Send(1, m.Stored(LSN + 1, 1, 0, m.StoreAnswer.OK, 0, plan=1))
    (write,) = shard.handle(0, store)
    assert isinstance(write, Persist)
    assert all(shard.handle(0, store) == [] for _ in range(2000))
    assert shard.handle(0, Received(3, store.message)) == []
    assert shard.handle(0, Persisted(write.ticket))[1:] == [told, Send(3, told.message)]
    assert shard.handle(0, store) == [told]
    other = Received(1, m.Store(new_copy(LSN + 1, (2, 0), b"12345678"), 0, 1))
    (amended,) = shard.handle(0, other)  # what differs is written, and then what was there before
    assert isinstance(amended, Persist)
    assert [type(effect) for effect in shard.handle(0, store)] == [Persist]


def test_a_copy_that_loses_to_what_is_here_or_on_its_way_is_not_written() -> None:
    """Donors may have different waves of a record; each asks again while the disk is slow."""
    shard = a_shard()
    first, second = (Received(NODE, m.Store(new_copy(LSN, (0, 1), b"12345678", wave=wave), 1)) for wave in (1, 2))
    (early,), (late,) = shard.handle(0, first), shard.handle(0, second)
    assert isinstance(early, Persist)
    assert isinstance(late, Persist)
    assert all(shard.handle(0, again) == [] for _ in range(9) for again in (first, second))
    written = [each for write in (early, late) for each in shard.handle(0, Persisted(write.ticket))]
    told = [each.message for each in written if isinstance(each, Send)]
    assert [(each.wave, each.answer) for each in told if isinstance(each, m.Stored)] == [
        (wave, m.StoreAnswer.OK) for wave in (1, 2)
    ]
    assert [type(effect) for effect in shard.handle(0, first)] == [Send]
    assert shard.contents.copies[LSN].wave == 2


def test_of_copies_of_which_neither_beats_the_other_each_is_written_once() -> None:
    """Donors whose own copies name different copysets write different ones, and ask again in turn."""
    shard = a_shard()
    asked = [
        Received(by, m.Store(new_copy(LSN, copyset, b"12345678"), 1)) for by, copyset in ((1, (0, 1)), (2, (0, 2)))
    ]
    effects = [each for _ in range(100) for one in asked for each in shard.handle(0, one)]
    writes = [each for each in effects if isinstance(each, Persist)]
    assert len(effects) == len(writes) == 2
    told = [each for write in writes for each in shard.handle(0, Persisted(write.ticket)) if isinstance(each, Send)]
    assert [each.to for each in told] == [1, 2]
    assert shard.contents.copies[LSN].copyset == (0, 2)


def test_a_copy_that_a_purge_deletes_is_written_again() -> None:
    """The purge is on its way to the disk: what a later recovery stores is not what lies there yet."""
    copy = new_copy(lsn_of(1, 5), (0, 1), b"12345678", run=3)
    shard = a_shard(Change(copy=copy))
    answers(shard, m.Release(2, lsn_of(2, 1)))
    (delete, *_) = shard.handle(0, Received(1, m.Recovered({1: (lsn_of(1, 3), lsn_of(1, 8), 4, 1)})))
    assert isinstance(delete, Persist)
    assert delete.change.delete is not None
    assert [type(effect) for effect in shard.handle(0, Received(NODE, m.Store(copy, 1)))] == [Persist]


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        ([], m.Seal(1, 1)),
        ([m.Seal(1, 1)], m.Digest(1, 1, 0, 2)),
        ([m.Seal(1, 1)], m.Clean(1, 1, 0, lsn_of(1, 8))),
        ([m.Release(1, LSN)], m.Trim(LSN)),
        ([], m.Release(2, lsn_of(2, 1))),
    ],
    ids=lambda case: type(case).__name__.lower(),
)
def test_what_is_asked_for_again_while_a_slow_disk_writes_it_is_written_and_answered_once(
    before: list[m.Message], asked: m.Message
) -> None:
    """Source: read-path.md#written-once."""
    shard = a_shard(Change(copy=COPY))
    for message in before:
        answers(shard, message)
    writes, sent = list[Persist](), list[m.Message]()

    def take(effects: list[Effect]) -> None:
        writes.extend(effect for effect in effects if isinstance(effect, Persist))
        sent.extend(effect.message for effect in effects if isinstance(effect, Send) and effect.to == NODE)

    shard.handle(0, Received(1, m.Recovered({1: (0, lsn_of(1, 8), 1, 1)})))
    written = 0
    while written < len(writes) or not written:
        for _ in range(100):
            take(shard.handle(0, Received(NODE, asked)))
        if isinstance(asked, m.Release):
            take(shard.handle(0, Received(1, m.Recovered({1: (0, lsn_of(1, 8), 1, 1)}))))
            assert len(writes) <= 3  # the seal, what is purged, and that it is
        else:
            assert len(writes) == 1
        take(shard.handle(0, Persisted(writes[written].ticket)))
        written += 1
    assert len(sent) == (0 if isinstance(asked, m.Trim | m.Release) else 1)
    take(shard.handle(0, Received(NODE, asked)))
    assert written == len(writes)
    assert len(sent) == (0 if isinstance(asked, m.Trim | m.Release) else 2)


def test_each_question_about_what_is_on_its_way_is_answered() -> None:
    """What another one asked for, or another attempt, does not answer this one."""
    shard = a_shard()
    asked = [
        (NODE, m.Seal(1, 1)),
        (NODE + 1, m.Seal(1, 1)),
        (NODE, m.Clean(1, 1, 0, 0, 1)),
        (NODE, m.Clean(1, 1, 0, 0, 2)),
    ]
    writes = [each for sender, message in asked for each in shard.handle(0, Received(sender, message))]
    told = [each for write in writes if isinstance(write, Persist) for each in shard.handle(0, Persisted(write.ticket))]
    assert [(each.to, type(each.message)) for each in told if isinstance(each, Send)] == [
        *((NODE, m.Sealed), (NODE + 1, m.Sealed), (NODE, m.Cleaned), (NODE, m.Cleaned))
    ]


def test_a_digest_is_answered_again_whatever_is_on_its_way_by_then() -> None:
    """The first answer may have been lost."""
    shard = a_shard()
    answers(shard, m.Seal(1, 1))
    for esn in (1, 2, 3):
        copy = new_copy(lsn_of(1, esn), (0, 1), b"12345678", run=1)
        effects = shard.handle(0, Received(NODE, m.Store(copy, 1))) + shard.handle(0, Received(NODE, m.Digest(1, 1, 0)))
        writes = [each.ticket for each in effects if isinstance(each, Persist)]
        sent = [
            each.message for ticket in writes for each in shard.handle(0, Persisted(ticket)) if isinstance(each, Send)
        ]
        assert [len(each.copies) for each in sent if isinstance(each, m.DigestAnswer)] == [esn]


def test_that_a_shard_is_back_is_written_once() -> None:
    shard = ShardCore(0, LOCATIONS)
    statuses = dict.fromkeys(LOCATIONS, FULLY_AUTHORITATIVE) | {0: AUTHORITATIVE_EMPTY}
    learned = (StatusesLearned(version, statuses, 1, frozenset({0}), epoch=3) for version in range(4, 9))
    assert sum(isinstance(each, Persist) for one in learned for each in shard.handle(0, one)) == 1


def test_who_of_a_copyset_is_why_it_is_refused_is_said() -> None:
    """Source: read-path.md#append-waves."""
    shard = a_shard()
    statuses = dict.fromkeys(range(3), FULLY_AUTHORITATIVE) | {2: UNDERREPLICATION}
    shard.handle(0, StatusesLearned(7, statuses, 0, frozenset({2}), frozenset({2}), plan=6, left={1: 4, 2: 6}))
    for copyset, version, gone in (((0, 1), 3, {1}), ((0, 2), 7, {2}), ((0, 1), 4, set()), ((0, 1, 2), 0, {1, 2})):
        (answer,) = answers(shard, m.Store(replace(COPY, copyset=copyset), 1, version=version))
        assert isinstance(answer, m.Stored)
        assert {*answer.gone} == gone
        assert (answer.answer is m.StoreAnswer.OK) == (not gone)
    lost = ShardCore(0, LOCATIONS)
    lost.handle(0, StatusesLearned(7, dict.fromkeys(LOCATIONS, UNDERREPLICATION), 0, frozenset({0, 1}), plan=6))
    (answer,) = answers(lost, m.Store(COPY, 1))
    assert answer == m.Stored(LSN, COPY.wave, 0, m.StoreAnswer.REBUILDING, 0)


def test_what_is_trimmed_while_a_batch_is_read_is_said_to_be_trimmed() -> None:
    """Else the records that the batch begins with say that there was nothing before them."""
    shard = a_shard(*(Change(copy=new_copy(lsn_of(1, esn), (0, 1), b"12345678")) for esn in range(1, 6)))
    shard.handle(0, StatusesLearned(1, dict.fromkeys(range(3), FULLY_AUTHORITATIVE), 0, plan=0))
    answers(shard, m.Release(1, lsn_of(1, 5)))
    *_, reading = shard.handle(0, Received(NODE, m.Start(1, 1, LSN, LSN + 8, LSN + 8, None)))
    assert isinstance(reading, ReadBatch)
    answers(shard, m.Trim(lsn_of(1, 3)))
    trim, records, *_ = (each for each in shard.handle(0, BatchRead(NODE, 1, reading.ticket)) if isinstance(each, Send))
    assert trim.message == m.ShardGap(1, 1, m.GapKind.TRIM, lsn_of(1, 1), lsn_of(1, 3))
    assert isinstance(records.message, m.Records)
    assert [copy.lsn for copy in records.message.copies] == [lsn_of(1, 4), lsn_of(1, 5)]


@pytest.mark.parametrize(("by", "stay"), [((1, 2), {3, 4, 5, 6}), ((2, 1), {3, 6})])
def test_a_purge_deletes_nothing_that_the_recovery_it_hears_of_wrote_here(by: tuple[int, int], stay: set[int]) -> None:
    """A shard that CLEAN never reached, of a run that was overtaken, is told of that run by one that CLEAN did reach,
    and by others of the run that recovered the epoch, whose lng may be higher (read-path.md#release-needs-recovery)."""
    written = ((3, 0, 1), (4, 1, 2), (5, 1, 3), (6, 2, 1), (7, 0, 4), (8, 1, 1))  # esn, run, wave
    copies = (new_copy(lsn_of(1, esn), (0, 1), b"12345678", run=run, wave=wave) for esn, run, wave in written)
    shard = a_shard(*(Change(copy=copy) for copy in copies))
    answers(shard, m.Release(3, lsn_of(3, 1)))
    told = shard.handle(0, Received(1, m.Recovered({1: (lsn_of(1, 3), lsn_of(1, 8), *by)})))
    while written := [each for each in told if isinstance(each, Persist)]:
        told = [effect for each in written for effect in shard.handle(0, Persisted(each.ticket))]
    assert {esn_of(lsn) for lsn in shard.contents.copies} == stay
    assert shard.released == lsn_of(3, 1)


@pytest.mark.parametrize("lower", [False, True])
def test_of_what_others_say_of_a_recovery_the_last_run_counts(lower: bool) -> None:
    """Also where it knew less than the one before."""
    shard = a_shard(
        Change(copy=new_copy(lsn_of(1, 5), (0, 1), b"12345678")),
        Change(copy=new_copy(lsn_of(2, 5), (0, 1), b"12345678")),
    )
    answers(shard, m.Release(3, lsn_of(3, 1)))
    first, last = (lsn_of(1, 3), lsn_of(1, 8), 1, 1), (lsn_of(1, 6), lsn_of(1, 8), 2, 1)
    if lower:
        first, last = (lsn_of(1, 6), lsn_of(1, 8), 1, 1), (lsn_of(1, 3), lsn_of(1, 8), 2, 1)
    answers(shard, m.Recovered({1: last}))
    answers(shard, m.Recovered({1: first, 2: (lsn_of(2, 3), lsn_of(2, 8), 2, 1)}))
    assert [*shard.contents.copies] == ([] if lower else [lsn_of(1, 5)])


def test_a_shard_that_took_part_in_a_recovery_purges_nothing_of_that_epoch() -> None:
    """CLEAN of the epoch before did not come. Source: read-path.md#release-needs-recovery."""
    mine = new_copy(lsn_of(2, 5), (0, 1), b"12345678", run=3)
    before = new_copy(lsn_of(1, 5), (0, 1), b"12345678")
    clean = Change(clean=(2, lsn_of(2, 4), lsn_of(2, 6), 3, 1))
    shard = a_shard(Change(copy=before), Change(copy=mine), clean)
    answers(shard, m.Release(4, lsn_of(4, 1)))
    answers(shard, m.Recovered({epoch: (lsn_of(epoch, 3), lsn_of(epoch, 8), 4, 1) for epoch in (1, 2, 3)}))
    assert shard.released == lsn_of(4, 1)
    assert [*shard.contents.copies] == [mine.lsn]


def test_what_the_event_log_said_before_does_not_count() -> None:
    shard = a_shard()
    statuses = dict.fromkeys(range(3), FULLY_AUTHORITATIVE)
    shard.handle(0, StatusesLearned(5, statuses | {1: UNDERREPLICATION}, 0, frozenset({1}), frozenset({1}), plan=5))
    shard.handle(0, StatusesLearned(4, statuses, 0))
    assert stored(shard, 1, 1) is m.StoreAnswer.REBUILDING


def test_a_shard_says_the_newest_version_that_it_or_who_released_knows() -> None:
    """Source: read-path.md#event-log-version."""
    shard = a_shard()
    start = m.Start(1, 1, LSN, LSN + 9, LSN + 9, None)
    for released, version in ((7, 7), (5, 7)):
        answers(shard, m.Release(1, LSN + released, released))
        said = answers(shard, start)
        assert [each.version for each in said if isinstance(each, m.Started)] == [version]
        (stream,) = shard.streams.values()
        assert stream.ticket is not None
        read = shard.handle(0, BatchRead(NODE, 1, stream.ticket))
        gaps = [each.message for each in read if isinstance(each, Send)]
        assert [each.version for each in gaps if isinstance(each, m.ShardGap)] == [version]
    shard.handle(0, StatusesLearned(9, dict.fromkeys(range(3), FULLY_AUTHORITATIVE), 0))
    assert [each.version for each in answers(shard, start) if isinstance(each, m.Started)] == [9]


@pytest.mark.parametrize("changes", [(Change(intact=True),), ()])
def test_a_drained_shard_that_restarts_once_it_is_empty_stays_so(changes: tuple[Change, ...]) -> None:
    """With its disk or with another one: whoever drained it says when that is over (read-path.md#status-of-events)."""

    def acknowledges(drained: frozenset[int]) -> bool:
        shard = ShardCore(0, LOCATIONS, changes)
        statuses = dict.fromkeys(LOCATIONS, FULLY_AUTHORITATIVE) | {0: AUTHORITATIVE_EMPTY}
        told = shard.handle(0, StatusesLearned(5, statuses, 1, frozenset({0}), plan=1, drained=drained))
        told += [each for one in told if isinstance(one, Persist) for each in shard.handle(0, Persisted(one.ticket))]
        assert not shard.lost
        return TellEventLog(LogRecord(Word.ACKNOWLEDGE, 0)) in told

    assert acknowledges(frozenset())
    assert not acknowledges(frozenset({0}))


def test_a_store_seals_the_epochs_before_it() -> None:
    """Source: read-path.md#shard-refuses."""
    shard = a_shard()
    assert stored(shard, 3, 1) is m.StoreAnswer.OK
    assert stored(shard, 2, 1) is m.StoreAnswer.SEALED
    assert shard.contents.sealed == 2


def test_nothing_is_trimmed_above_what_is_released_here_and_what_is_trimmed_does_not_come_back() -> None:
    copies = {esn: new_copy(lsn_of(1, esn), (0, 1), b"12345678") for esn in (1, 2, 3)}
    shard = a_shard(*(Change(copy=copy) for copy in copies.values()))
    answers(shard, m.Release(1, lsn_of(1, 2)))
    answers(shard, m.Trim(lsn_of(1, 3)))
    assert [*shard.contents.copies] == [lsn_of(1, 3)]
    assert shard.contents.trim_point == lsn_of(1, 2)
    assert stored(shard, 1, 1) is m.StoreAnswer.OK
    assert [*shard.contents.copies] == [lsn_of(1, 3)]


def test_an_epoch_is_clean_once_all_before_it_are() -> None:
    """A shard that took no part in the recovery of epoch 1 purges it, whatever it knows of epoch 2."""
    shard = a_shard(Change(copy=new_copy(lsn_of(1, 5), (0, 1), b"12345678")))
    answers(shard, m.Seal(2, 1))
    answers(shard, m.Clean(2, 2, 0, 0))
    assert shard.contents.last_clean == 0
    assert answers(shard, m.Release(3, lsn_of(3, 1))) == [m.AskRecovered(1, 2)] * 2
    answers(shard, m.Recovered({1: (lsn_of(1, 4), lsn_of(1, 4), 2, 1)}))
    assert shard.contents.copies == {}
    assert shard.released == lsn_of(3, 1)


def test_whoever_has_a_hole_ships_it() -> None:
    """Source: read-path.md#scd-filter."""
    shard = a_shard(
        Change(copy=new_copy(lsn_of(1, 1), (1, 0), b"12345678")),
        Change(copy=new_copy(lsn_of(1, 2), (1, 0), b"", flags=HOLE)),
    )
    answers(shard, m.Release(1, lsn_of(1, 2)))
    delivery = m.Delivery(frozenset(), 2, None, None)
    *_, reading = shard.handle(0, Received(NODE, m.Start(1, 1, LSN, LSN + 8, LSN + 8, delivery)))
    assert isinstance(reading, ReadBatch)
    sent = [each.message for each in shard.handle(0, BatchRead(NODE, 1, reading.ticket)) if isinstance(each, Send)]
    assert [copy.lsn for each in sent if isinstance(each, m.Records) for copy in each.copies] == [lsn_of(1, 2)]


def test_nothing_of_an_earlier_attempt_is_written_once_a_later_one_reads() -> None:
    """What is on its way to the disk is read, and what comes later is refused (read-path.md#recovery-clean)."""
    shard = a_shard()
    answers(shard, m.Seal(1, 1))

    def store(esn: int, wave: int) -> list[Effect]:
        copy = new_copy(lsn_of(1, esn), (0, 1), b"12345678", run=1, wave=wave)
        return shard.handle(0, Received(NODE, m.Store(copy, 1)))

    (write,) = store(5, 1)
    assert isinstance(write, Persist)
    (waits,) = shard.handle(0, Received(NODE, m.Digest(1, 1, 0, 2)))
    assert isinstance(waits, Persist)
    shard.handle(0, Persisted(write.ticket))
    (digest,) = shard.handle(0, Persisted(waits.ticket))
    assert isinstance(digest, Send)
    assert isinstance(digest.message, m.DigestAnswer)
    assert [copy.lsn for copy in digest.message.copies] == [lsn_of(1, 5)]
    assert store(6, 1) == [Send(NODE, m.Stored(lsn_of(1, 6), 1, 1, m.StoreAnswer.SEALED, 1, 0))]
    assert [type(effect) for effect in store(6, 2)] == [Persist]
    assert shard.handle(0, Received(NODE, m.Digest(1, 1, 0, 1))) == []


def test_a_shard_that_starts_again_knows_which_attempt_read_it_last() -> None:
    """What an earlier attempt sent may still be on its way (read-path.md#recovery-clean)."""
    shard = a_shard()
    answers(shard, m.Seal(1, 1))
    (digest,) = answers(shard, m.Digest(1, 1, 0, 2))
    assert isinstance(digest, m.DigestAnswer)
    again = a_shard(*shard.contents.changes())
    late, due = (new_copy(lsn_of(1, 5), (0, 1), b"12345678", run=1, wave=wave) for wave in (1, 2))
    assert answers(again, m.Store(late, 1)) == [m.Stored(late.lsn, 1, 1, m.StoreAnswer.SEALED, 1, 0)]
    assert answers(again, m.Store(due, 1)) == [m.Stored(due.lsn, 2, 1, m.StoreAnswer.OK, 1, 0)]


def test_the_first_attempt_and_one_that_asks_again_write_nothing() -> None:
    """A digest costs a write only where a later attempt reads for the first time."""
    shard = a_shard()
    answers(shard, m.Seal(1, 1))
    written = []
    for attempt in (1, 1, 2, 2):
        effects = shard.handle(0, Received(NODE, m.Digest(1, 1, 0, attempt)))
        written.append([effect.change for effect in effects if isinstance(effect, Persist)])
        for effect in effects:
            if isinstance(effect, Persist):
                shard.handle(0, Persisted(effect.ticket))
    assert written == [[], [], [Change(attempt=(1, 1, 2))], []]


def test_a_seal_is_answered_as_often_as_it_is_asked_for_and_not_after_a_higher_one() -> None:
    shard = a_shard()
    for run, answer in ((2, m.StoreAnswer.OK), (2, m.StoreAnswer.OK), (1, m.StoreAnswer.SEALED)):
        (sealed,) = answers(shard, m.Seal(run, 1))
        assert isinstance(sealed, m.Sealed)
        assert (sealed.answer, sealed.sealed) == (answer, 2)


def test_a_seal_tells_the_largest_known_good_lsn_of_copies_and_releases() -> None:
    """Of this epoch; that nothing of it is known to be good is no LSN."""
    lngs = ((lsn_of(1, 0), 0), (lsn_of(1, 3), 3), (lsn_of(1, 2), 3), (0, 3))
    copies, due = list[Change](), list[int]()
    for place, (lng, _) in enumerate(lngs):
        copies.append(Change(copy=new_copy(lsn_of(1, place + 4), (0, 1), b"12345678", lng=lng)))
        due.append(known_good(a_shard(*copies)))
    assert due == [lsn_of(1, esn) if esn else 0 for _, esn in lngs]
    shard = a_shard(*copies)
    answers(shard, m.Release(1, lsn_of(1, 9)))
    assert known_good(shard) == lsn_of(1, 9)
    answers(shard, m.Trim(lsn_of(1, 8)))
    again = a_shard(Change(trim_point=lsn_of(1, 8)))  # what is trimmed was released, also for the next process
    assert known_good(again) == lsn_of(1, 8)
    (digest,) = answers(again, m.Digest(1, 1, 0))
    assert digest == m.DigestAnswer(1, 1, (), 1, 0, lsn_of(1, 8))


def test_what_is_released_of_one_epoch_says_nothing_of_another() -> None:
    shard = a_shard(Change(last_clean=1))
    answers(shard, m.Release(2, lsn_of(2, 4)))
    (sealed,) = answers(shard, m.Seal(4, 1))
    assert isinstance(sealed, m.Sealed)
    assert sealed.known_good == {1: 0, 2: lsn_of(2, 4), 3: 0, 4: 0}


def known_good(shard: ShardCore) -> int:
    (sealed,) = answers(shard, m.Seal(1, 1))
    assert isinstance(sealed, m.Sealed)
    return sealed.known_good[1]


def test_only_a_shard_that_is_sealed_is_read_and_with_what_is_on_its_way() -> None:
    """The first attempt too waits for that (read-path.md#recovery-clean)."""
    shard = a_shard()
    assert answers(shard, m.Digest(1, 1, 0, 1)) == []
    answers(shard, m.Seal(1, 1))
    assert answers(shard, m.Digest(2, 1, 0, 1)) == []
    (write,) = shard.handle(0, Received(NODE, m.Store(new_copy(lsn_of(1, 5), (0, 1), b"12345678", run=1), 1)))
    (waits,) = shard.handle(0, Received(NODE, m.Digest(1, 1, 0, 1)))
    assert isinstance(write, Persist)
    assert isinstance(waits, Persist)
    shard.handle(0, Persisted(write.ticket))
    (digest,) = shard.handle(0, Persisted(waits.ticket))
    assert isinstance(digest, Send)
    assert isinstance(digest.message, m.DigestAnswer)
    assert len(digest.message.copies) == 1


def test_a_run_that_was_overtaken_cleans_nothing() -> None:
    shard = a_shard()
    answers(shard, m.Seal(2, 1))
    assert answers(shard, m.Clean(1, 1, 0, 0)) == [m.Cleaned(1, 1, m.StoreAnswer.SEALED, 1)]
    assert shard.contents.clean == {}


@pytest.mark.parametrize(("good", "stays"), [(0, False), (3, True)])
def test_where_others_had_nothing_of_an_epoch_what_is_known_to_be_good_here_stays(good: int, stays: bool) -> None:
    """Source: read-path.md#release-needs-recovery."""
    shard = a_shard(Change(copy=new_copy(lsn_of(1, 5), (0, 1), b"12345678", lng=lsn_of(1, good))))
    answers(shard, m.Release(2, lsn_of(2, 1)))
    answers(shard, m.Recovered({1: (0, 0, 1, 1)}))
    assert [*shard.contents.copies] == ([lsn_of(1, 5)] if stays else [])


def test_what_is_on_a_disk_is_all_there_in_as_few_changes() -> None:
    every = (
        Change(copy=new_copy(lsn_of(3, 5), (0, 1), b"12345678")),
        Change(clean=(1, lsn_of(1, 3), lsn_of(1, 8), 2, 1)),
        Change(clean=(3, 0, 0, 3, 2)),
        Change(last_clean=2),
        Change(attempt=(3, 3, 2)),
        Change(sealed=3, trim_point=lsn_of(1, 4)),
    )
    first = a_shard(*every).contents
    again = a_shard(*first.changes()).contents
    told = [(c.copies, c.clean, c.last_clean, c.attempts, c.sealed, c.trim_point, c.intact) for c in (first, again)]
    assert told[0] == told[1]
    assert told[0][2:] == (2, {(3, 3): 2}, 3, lsn_of(1, 4), True)


def test_who_is_back_without_its_data_is_sealed_for_every_epoch_but_the_newest() -> None:
    """What it was sealed for before went with the disk. Source: read-path.md#sealed-when-back."""
    shard = ShardCore(0, LOCATIONS)
    statuses = dict.fromkeys(LOCATIONS, FULLY_AUTHORITATIVE) | {0: AUTHORITATIVE_EMPTY}
    effects = shard.handle(0, StatusesLearned(4, statuses, 1, frozenset({0}), epoch=3))
    (back,) = [each for each in effects if isinstance(each, Persist)]
    assert back.change == Change(intact=True, sealed=2)
    shard.handle(0, Persisted(back.ticket))
    shard.handle(0, StatusesLearned(5, dict.fromkeys(LOCATIONS, FULLY_AUTHORITATIVE), 1, epoch=3))
    assert [stored(shard, epoch, 1) for epoch in (2, 3)] == [m.StoreAnswer.SEALED, m.StoreAnswer.OK]
