"""What a shard sends a reader, and up to where (read-path.md#in-order-shipping, read-path.md#scd-filter)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import combinations

import pytest

from quorumlog.events import Effect, Received, Send
from quorumlog.read_path import messages as m
from quorumlog.read_path import rules as r
from quorumlog.read_path.configuration import ShardSettings
from quorumlog.read_path.events import BatchRead, Change, Disconnected, Persist, Persisted, ReadBatch, StatusesLearned
from quorumlog.read_path.records import DRAINED, HOLE, UNDER_REPLICATED, new_copy
from quorumlog.read_path.rules import esn_of, lsn_of
from quorumlog.read_path.shard import ShardCore
from quorumlog.read_path.shipping import in_order
from quorumlog.read_path.stream import LAST_LSN

READER, SEQUENCER = 8, 9
LOCATIONS = {shard: (f"R{shard % 2}", "-", "-", "-", f"N{shard}") for shard in range(4)}
_KINDS = {m.GapKind.NO_RECORDS: "g", m.GapKind.UNDER_REPLICATED: "u", m.GapKind.TRIM: "t"}


class Shipping:
    """A shard with these records of epoch 1, by copyset where it is not (0, 1), and what it has sent."""

    def __init__(
        self,
        *esns: int,
        copysets: Collection[tuple[int, ...]] = (),
        released: int = 0,
        flags: int = 0,
        knows: bool = True,
        number: int = 0,
    ) -> None:
        each = [*copysets, *[(0, 1)] * len(esns)]
        copies = [new_copy(lsn_of(1, esn), of, b"12345678", flags=flags) for esn, of in zip(esns, each, strict=False)]
        changes = [Change(intact=True), *(Change(copy=copy) for copy in copies)]
        self.core = ShardCore(number, LOCATIONS, changes, ShardSettings(batch_records=2))
        self.effects: list[Effect] = []
        if knows:
            self.give(StatusesLearned(3, dict.fromkeys(LOCATIONS, r.FULLY_AUTHORITATIVE), 0))
        if released:
            self.hear(m.Release(1, lsn_of(1, released)), SEQUENCER)

    def give(self, event: object) -> None:
        """An event, and all that follows."""
        for effect in self.core.handle(0, event):  # type: ignore[arg-type]
            if isinstance(effect, Persist):
                self.give(Persisted(effect.ticket))
            elif isinstance(effect, ReadBatch):
                self.give(BatchRead(effect.reader, effect.stream, effect.ticket))
            else:
                self.effects.append(effect)

    def hear(self, message: m.Message, of: int = READER) -> None:
        self.give(Received(of, message))

    def start(
        self,
        first: int = 1,
        until: int = LAST_LSN,
        high: int = 50,
        delivery: m.Delivery | None = None,
        version: int = 1,
    ) -> str:
        """A stream begins; what is sent."""
        until = until if until == LAST_LSN else lsn_of(1, until)
        self.hear(m.Start(1, version, lsn_of(1, first), until, lsn_of(1, high), delivery))
        return self.sent()

    def sent(self) -> str:
        """What it has sent since the last time: records, flagged if not all before may be known, and gaps."""
        found = list[str]()
        for effect in self.effects:
            match effect:
                case Send(_, m.Records(_, version, copies)):
                    assert version == 3
                    found += [f"{'?' if each.flags & UNDER_REPLICATED else ''}{esn_of(each.lsn)}" for each in copies]
                case Send(_, m.ShardGap(_, _, kind, first, last)):
                    ends = f"e{r.epoch_of(last)}n{esn_of(last)}" if r.epoch_of(last) > 1 else f"{esn_of(last)}"
                    found.append(f"{_KINDS[kind]}{esn_of(first)}-{ends}")
        self.effects.clear()
        return " ".join(found)


def test_what_is_there_is_sent_in_order_in_batches_up_to_what_is_released() -> None:
    shipping = Shipping(1, 2, 3, 5, 6, released=5)
    assert shipping.start() == "1 2 3 5"
    shipping.hear(m.Release(1, lsn_of(1, 9)), SEQUENCER)
    assert shipping.sent() == "6 g7-9"
    assert Shipping(1, 2, 9, released=9).start() == "1 2 g3-8 9"


def test_what_is_beyond_the_window_waits_but_not_that_nothing_is_there() -> None:
    shipping = Shipping(1, 2, 4, 7, released=20)
    assert shipping.start(high=5) == "1 2 g3-3 4 g5-6"
    shipping.hear(m.Window(1, 1, lsn_of(1, 4), lsn_of(1, 8)))
    assert shipping.sent() == "7 g8-20"
    assert Shipping(4, released=20).start(first=3, high=2) == ""


def test_nothing_beyond_the_end_of_a_stream_is_sent_or_told() -> None:
    assert Shipping(1, 2, 3, released=20).start(until=2) == "1 2"
    assert Shipping(1, released=20).start(until=6) == "1 g2-6"
    assert Shipping(1, 15, released=10).start(high=3) == "1 g2-10"  # nor beyond what is released


def test_a_window_is_of_the_newest_start_and_none_is_taken_back() -> None:
    shipping = Shipping(1, 2, 3, 4, 5, 6, released=20)
    assert shipping.start(high=2, version=2) == "1 2"
    shipping.hear(m.Window(1, 1, lsn_of(1, 1), lsn_of(1, 9)))
    assert shipping.sent() == ""
    for high in (4, 3):
        shipping.hear(m.Window(1, 2, lsn_of(1, 1), lsn_of(1, high)))
    assert shipping.sent() == "3 4"
    assert shipping.core.streams[READER, 1].high == lsn_of(1, 4)


def test_what_is_read_for_a_stream_is_not_sent_once_it_was_started_again() -> None:
    shipping = Shipping(1, 2, released=2)
    begun = [m.Start(1, version, lsn_of(1, 1), LAST_LSN, LAST_LSN, None) for version in (1, 2)]
    first, second = (shipping.core.handle(0, Received(READER, start))[-1] for start in begun)
    assert isinstance(first, ReadBatch)
    assert isinstance(second, ReadBatch)
    shipping.give(BatchRead(READER, 1, first.ticket))
    assert shipping.sent() == ""
    shipping.give(BatchRead(READER, 1, second.ticket))
    assert shipping.sent() == "1 2"


@pytest.mark.parametrize("end", [m.Stop(1), Disconnected(READER)])
def test_a_stream_that_was_ended_is_sent_nothing(end: m.Stop | Disconnected) -> None:
    shipping = Shipping(1, 2, released=1)
    assert shipping.start() == "1"
    if isinstance(end, Disconnected):
        shipping.give(end)
    else:
        shipping.hear(end)
    shipping.hear(m.Release(1, lsn_of(1, 2)), SEQUENCER)
    assert shipping.sent() == ""


def test_who_does_not_know_the_event_log_refuses_and_is_asked_again() -> None:
    shipping = Shipping(1, 2, released=2, knows=False)
    shipping.start()
    shipping = Shipping(1, knows=False)
    shipping.hear(m.Start(1, 1, lsn_of(1, 1), LAST_LSN, LAST_LSN, None))
    assert shipping.effects == [Send(READER, m.Started(1, 0, 1, m.Answer.FAILED))]
    assert not shipping.core.streams


def test_what_is_trimmed_is_said_at_once_to_who_waits_there() -> None:
    shipping = Shipping(1, 2, released=5)
    assert shipping.start(high=1) == "1"
    shipping.hear(m.Trim(lsn_of(1, 4)), SEQUENCER)
    assert shipping.sent() == "t2-4"


@pytest.mark.parametrize(
    ("dirty", "sent"),
    [
        ((4, 4), "1 2 g3-3 ?4 u5-9"),
        ((9, 9), "1 2 g3-3 ?4 u5-9"),
        ((10, 12), "1 2 g3-3 4 g5-9"),
        ((1, 2), "?1 ?2 u3-3 4 g5-9"),
        ((0, 0), "1 2 g3-3 4 g5-9"),
        ((3, 3), "?1 ?2 u3-3 4 g5-9"),
    ],
)
def test_a_batch_that_touches_what_may_be_gone_says_so(dirty: tuple[int, int], sent: str) -> None:
    """``dirty``: the first LSN and the last one."""
    shipping = Shipping(1, 2, 4, released=9)
    shipping.core.dirty = [(lsn_of(1, dirty[0]), lsn_of(1, dirty[1]))]
    assert shipping.start() == sent


# -- single-copy delivery ----------------------------------------------------------------------------------------------


def delivery(down: Collection[int] = (), region: str | None = None, seed: int | None = None) -> m.Delivery:
    return m.Delivery(frozenset(down), 2, seed, region)


def test_each_copyset_is_decided_by_itself_and_what_was_drained_by_nobody() -> None:
    copysets = ((0, 1), (0, 2), (1, 0), (0, 1), (1, 0))
    assert Shipping(1, 2, 3, 4, 5, copysets=copysets, released=5).start(delivery=delivery()) == "1 2 4 g5-5"
    listed = m.Delivery(frozenset({1}), 3, None, None)
    assert Shipping(1, 2, copysets=((1, 0), (1, 2, 0)), released=2).start(delivery=listed) == "1 g2-2"
    assert Shipping(1, 2, released=2, flags=DRAINED).start(delivery=delivery()) == "g1-2"
    assert Shipping(1, 2, released=2, flags=DRAINED | HOLE).start(delivery=delivery()) == "g1-2"
    assert Shipping(1, 2, released=2, flags=DRAINED).start() == "1 2"


def test_who_is_in_the_region_of_the_reader_ships() -> None:
    """Shards 0 and 2 are in one region, 1 and 3 in the other one."""
    copysets = ((1, 0), (0, 1))
    for number, region, sent in ((0, "R0", "1 2"), (0, "R1", "g1-2"), (1, "R1", "1 2"), (1, None, "1 g2-2")):
        shipping = Shipping(1, 2, copysets=copysets, released=2, number=number)
        assert shipping.start(delivery=delivery(region=region)) == sent


def test_a_seed_gives_each_shard_a_share_of_what_is_sent() -> None:
    """And not all of their copysets to the same ones."""
    copysets = [*combinations(range(8), 3)]
    for seed in range(8):
        first = Counter(in_order(copyset, seed)[0] for copyset in copysets)
        assert len(first) == 8
        assert max(first.values()) < len(copysets) / 4


def test_all_shards_shuffle_a_copyset_alike_whatever_its_order_and_seeds_differ() -> None:
    shipped = set[tuple[int, ...]]()
    for seed in range(8):
        by = [
            Shipping(1, copysets=[(1, 0)[:: 1 - 2 * n]], released=1, number=n).start(delivery=delivery(seed=seed))
            for n in (0, 1)
        ]
        assert sorted(by) == ["1", "g1-1"]
        shipped.add(tuple(by))
    assert len(shipped) == 2
