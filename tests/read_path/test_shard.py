"""A storage shard alone, one message after another."""

from __future__ import annotations

from collections.abc import Iterator

from quorumlog.events import Effect, Received, Send
from quorumlog.read_path import messages as m
from quorumlog.read_path.events import Change, NodesetsLearned, Persist, Persisted, StatusesLearned
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.records import new_copy
from quorumlog.read_path.rules import FULLY_AUTHORITATIVE, UNDERREPLICATION, lsn_of
from quorumlog.read_path.shard import ShardCore

NODE = 9
"""Who sends: a sequencer."""
LSN = lsn_of(1, 1)


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
    """One of three, which has lost nothing and made these changes."""
    return ShardCore(0, {number: (str(number),) for number in range(3)}, [Change(intact=True), *changes])


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


def test_the_seal_of_a_purge_outlives_the_process() -> None:
    shard = a_shard()
    (seal,) = shard.handle(0, Received(NODE, m.Release(3, lsn_of(3, 1))))
    assert isinstance(seal, Persist)
    assert stored(a_shard(seal.change), 2, 1) is m.StoreAnswer.SEALED


def test_donors_of_a_record_write_its_copyset_in_one_order() -> None:
    """Shard 2 was away when a copy was made on shard 0 instead of its own; then shard 1, which both name, is lost."""
    locations = {number: ("", "", "", "", f"N{number}") for number in range(3)}
    written = set()
    for number, named in ((0, (1, 0)), (2, (2, 1))):
        shard = ShardCore(number, locations, [Change(intact=True), Change(copy=new_copy(LSN, named, b"12345678"))])
        shard.handle(0, NodesetsLearned({1: Nodeset({"NODE": 2}, locations)}))
        answers(shard, m.Release(1, LSN))
        statuses = dict.fromkeys(locations, FULLY_AUTHORITATIVE) | {1: UNDERREPLICATION}
        effects = shard.handle(0, StatusesLearned(1, statuses, 0, frozenset({1}), frozenset({1}), plan=1))
        stores = [each.message for each in effects if isinstance(each, Send)]
        written |= {each.copy.copyset for each in stores if isinstance(each, m.Store)}
    assert len(written) == 1
    assert {*written.pop()} == {0, 2}
