"""Who is a donor, of what, and when it is done (read-path.md#rebuilding-donors)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product

import pytest
from msgspec.structs import replace

from quorumlog.events import Effect, Received, Send, TimerFired
from quorumlog.read_path import messages as m
from quorumlog.read_path import rules as r
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.events import Change, NodesetsLearned, Persist, Persisted, StatusesLearned, TellEventLog
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.records import DRAINED, HOLE, Copy, new_copy
from quorumlog.read_path.rules import lsn_of
from quorumlog.read_path.shard import ShardCore

SEQUENCER, LSN = 9, lsn_of(1, 1)
LOCATIONS = {shard: ("", "", "", "", f"N{shard}") for shard in range(6)}
FULL, EMPTY, UNAVAILABLE, LOST = r.FULLY_AUTHORITATIVE, r.AUTHORITATIVE_EMPTY, r.UNAVAILABLE, r.UNDERREPLICATION


class Donating:
    """A shard with a released record and what it does; nodesets are of the first four shards unless said."""

    def __init__(self, number: int, *copies: Copy, factor: int = 2, intact: bool = True, shards: int = 4) -> None:
        changes = [Change(intact=intact), *(Change(copy=copy) for copy in copies)]
        self.core = ShardCore(number, LOCATIONS, changes if intact or copies else ())
        self.factor = factor
        self.give(NodesetsLearned({1: self.nodeset(range(shards))}))
        self.give(Received(SEQUENCER, m.Release(1, LSN)))

    def nodeset(self, shards: Collection[int]) -> Nodeset:
        return Nodeset({"NODE": self.factor}, {shard: LOCATIONS[shard] for shard in shards})

    def give(self, event: object) -> list[Effect]:
        """An event; what follows, when all is durable that is to be."""
        found = list[Effect]()
        for effect in self.core.handle(0, event):  # type: ignore[arg-type]
            found += self.give(Persisted(effect.ticket)) if isinstance(effect, Persist) else [effect]
        return found

    def learn(self, away: Mapping[int, int], plan: int, drained: Collection[int] = ()) -> list[Effect]:
        """The event log: the shards that leave with their statuses, and the plan."""
        statuses, leaving = {**dict.fromkeys(LOCATIONS, FULL), **away}, frozenset(away)
        rebuilt = frozenset(shard for shard, status in away.items() if status != EMPTY)
        learned = StatusesLearned(plan, statuses, 0, leaving, rebuilt, plan=plan, drained=frozenset(drained))
        return self.give(learned)

    def stored(self, by: int, plan: int) -> list[Effect]:
        return self.give(Received(by, m.Stored(LSN, 1, 0, m.StoreAnswer.OK, 0, plan)))


def sent(effects: list[Effect]) -> dict[int, Copy]:
    """The copies that are sent, by shard."""
    messages = {each.to: each.message for each in effects if isinstance(each, Send)}
    return {to: message.copy for to, message in messages.items() if isinstance(message, m.Store)}


def done(effects: list[Effect]) -> list[LogRecord]:
    return [each.record for each in effects if isinstance(each, TellEventLog) and each.record.word is Word.DONE]


def copy(*copyset: int) -> Copy:
    return new_copy(LSN, copyset, b"12345678")


def test_nobody_is_a_donor_that_lost_its_data_or_counts_as_empty() -> None:
    assert done(Donating(0).learn({3: LOST}, 1)) == [LogRecord(Word.DONE, 0, 0, 1)]
    assert done(Donating(0, intact=False).learn({3: LOST}, 1)) == []
    assert done(Donating(0).learn({3: LOST, 0: EMPTY}, 1)) == []


def test_new_copies_go_to_nobody_who_leaves_and_stay_in_the_nodeset_of_their_epoch() -> None:
    for away, status in product((1, 2), (EMPTY, UNAVAILABLE)):
        assert sent(Donating(0, copy(0, 3)).learn({3: LOST, away: status}, 1)).keys() == {3 - away}
    donating = Donating(0, copy(0, 3), shards=3)
    donating.give(NodesetsLearned({1: donating.nodeset((0, 2)), 2: donating.nodeset((0, 4, 5))}))
    assert sent(donating.learn({3: LOST}, 1)).keys() == {2}


def test_the_copy_of_a_shard_that_is_drained_is_marked_and_the_others_are_not() -> None:
    donating = Donating(0, copy(0, 3))
    (new,) = sent(donating.learn({3: FULL}, 1, drained={3})).values()
    amended = sent(donating.stored(1 if 1 in new.copyset else 2, 1))
    assert amended.keys() == {3}
    assert amended[3].flags & DRAINED
    assert amended[3].copyset == new.copyset
    assert not new.flags & DRAINED
    assert not donating.core.contents.copies[LSN].flags & DRAINED


def test_a_shard_that_is_drained_is_a_donor_where_nobody_else_is_left() -> None:
    assert {*sent(Donating(0, copy(0, 3)).learn({0: FULL, 3: LOST}, 1, drained={0}))} == {1, 2}


def test_rotten_copies_are_not_made_anew() -> None:
    hole = new_copy(LSN, (0, 3), b"", flags=HOLE)
    for rotten in (replace(copy(0, 3), payload=b"12345679"), replace(hole, payload=b"?")):
        effects = Donating(0, rotten).learn({3: LOST}, 1)
        assert sent(effects) == {}
        assert len(done(effects)) == 1
    assert sent(Donating(0, hole).learn({3: LOST}, 1)) != {}


def test_who_waits_for_another_donor_is_not_done_and_takes_its_part_after_a_while() -> None:
    donating = Donating(1, copy(0, 1, 3), factor=3)
    assert donating.learn({3: LOST}, 1) != []
    for _ in range(4):
        effects = donating.give(TimerFired("rebuild"))
        assert done(effects) == []
        assert sent(effects) == {}
    assert sent(donating.give(TimerFired("rebuild"))).keys() == {2}


def test_nobody_is_done_while_a_copy_that_names_who_leaves_is_on_its_way_to_its_disk() -> None:
    """It was taken before: the one that leaves could be back without its own when this one is stored."""
    donating = Donating(0)
    donating.learn({}, 0)
    (late,) = donating.core.handle(0, Received(SEQUENCER, m.Store(copy(0, 3), 1)))
    assert isinstance(late, Persist)
    assert done(donating.learn({3: LOST}, 1)) == []
    donating.give(Persisted(late.ticket))
    assert sent(donating.give(TimerFired("rebuild"))).keys() <= {1, 2}
    (new,) = donating.core._tasks[LSN].steps[0]
    assert len(done(donating.stored(new, 1))) == 1


def test_a_donor_that_asks_again_does_not_write_its_own_copy_anew_while_it_is_on_its_way() -> None:
    """Source: read-path.md#written-once."""
    donating = Donating(0, copy(0, 3))
    (new,) = sent(donating.learn({3: LOST}, 1))
    (write,) = donating.core.handle(0, Received(new, m.Stored(LSN, 1, 0, m.StoreAnswer.OK, 0, 1)))
    assert isinstance(write, Persist)
    for _ in range(5):
        again = donating.core.handle(0, TimerFired("rebuild"))
        assert not any(isinstance(each, Persist) for each in again)
    assert len(done(donating.give(Persisted(write.ticket)))) == 1


def test_a_donor_does_not_write_its_own_copy_anew_while_one_that_beats_it_is_on_its_way() -> None:
    """Another donor has a later wave of the record, and asks again, too: each would write for ever."""
    donating = Donating(0, copy(0, 3))
    (new,) = sent(donating.learn({3: LOST}, 1))
    donating.core.handle(0, Received(new, m.Stored(LSN, 1, 0, m.StoreAnswer.OK, 0, 1)))
    later = m.Store(replace(copy(0, new), wave=2), 0, 1)
    asked = [Received(new, later), TimerFired("rebuild")] * 9
    writes = [each for one in asked for each in donating.core.handle(0, one) if isinstance(each, Persist)]
    assert [each.change.copy for each in writes] == [later.copy]
    donating.give(Persisted(writes[0].ticket - 1))
    donating.give(Persisted(writes[0].ticket))
    assert len(done(donating.give(TimerFired("rebuild")))) <= 1
    assert donating.core._tasks == {}


def test_what_was_drained_here_is_made_anew_from_here_where_nobody_of_its_copyset_is_left() -> None:
    donating = Donating(3, replace(copy(0, 2), flags=DRAINED))
    (other,) = {*sent(donating.learn({0: LOST, 2: LOST}, 1))}
    assert other == 1
    donating.stored(1, 1)
    now = donating.core.contents.copies[LSN]
    assert {*now.copyset} == {1, 3}
    assert not now.flags & DRAINED


def test_what_was_drained_here_is_made_anew_from_here_where_its_copyset_amends_nothing() -> None:
    """A drain was given up before 2 had amended its own copy, which does not name 0; or 2 has lost it since."""
    donating = Donating(3, replace(copy(0, 2), flags=DRAINED))
    for _ in range(5):
        assert sent(donating.learn({0: LOST}, 1)) == {}
        assert done(donating.learn({0: LOST}, 1)) == []
        effects = donating.give(TimerFired("rebuild"))
    (amended,) = sent(effects).values()
    assert {*amended.copyset} == {2, 3}
    assert len(done(donating.stored(2, 1))) == 1
    assert not donating.core.contents.copies[LSN].flags & DRAINED


def test_what_was_drained_is_made_anew_from_who_is_drained_again() -> None:
    donating = Donating(3, replace(copy(0, 2), flags=DRAINED), shards=5)
    assert {*sent(donating.learn({0: LOST, 2: LOST, 3: FULL}, 1))} == {1, 4}
    donating.stored(1, 1)
    donating.stored(4, 1)
    assert {*donating.core.contents.copies[LSN].copyset} == {1, 4}
    assert donating.core.contents.copies[LSN].flags & DRAINED


def test_with_a_new_plan_copies_are_made_anew_from_the_beginning() -> None:
    donating = Donating(0, copy(0, 3))
    (before,) = sent(donating.learn({3: LOST}, 1))
    (after,) = sent(donating.learn({3: LOST, before: LOST}, 2))
    assert {before, after} == {1, 2}


def test_what_was_purged_meanwhile_is_not_sent_again() -> None:
    donating = Donating(0, copy(0, 3))
    assert sent(donating.learn({3: LOST}, 1)) != {}
    donating.give(Received(SEQUENCER, m.Trim(LSN)))
    assert sent(donating.give(TimerFired("rebuild"))) == {}


@pytest.mark.parametrize(
    ("away", "authoritative"),
    [
        ({1: UNAVAILABLE}, True),
        ({1: UNAVAILABLE, 2: LOST}, False),
        ({1: FULL, 2: FULL}, True),
        ({1: LOST, 2: FULL}, True),
    ],
)
def test_it_is_done_authoritatively_if_no_record_had_all_copies_on_what_is_lost(
    away: dict[int, int], authoritative: bool
) -> None:
    donating = Donating(0)
    assert [each.authoritative for each in done(donating.learn(away, 1))] == [authoritative]
    others = {1: donating.nodeset(range(4)), 2: donating.nodeset((0, 3, 4))}
    donating.give(NodesetsLearned(others))
    assert [each.authoritative for each in done(donating.learn(away, 2))] == [authoritative]


def test_what_is_back_with_its_data_says_so_and_what_was_rebuilt_once_it_may_store() -> None:
    assert TellEventLog(LogRecord(Word.ABORT, 0)) in Donating(0).learn({0: UNAVAILABLE}, 1)
    lost = Donating(0, intact=False)
    assert lost.learn({0: UNAVAILABLE}, 0) == []
    (waits,) = lost.core.handle(
        0, StatusesLearned(1, {**dict.fromkeys(LOCATIONS, FULL), 0: EMPTY}, 1, frozenset({0}), plan=1)
    )
    assert isinstance(waits, Persist)
    assert lost.give(Persisted(waits.ticket)) == [TellEventLog(LogRecord(Word.ACKNOWLEDGE, 0))]
