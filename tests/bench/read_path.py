"""Reading from many shards: what single-copy delivery saves, what skipping costs, what slow shards cost, how fast.

    python tests/bench/read_path.py [--quick]

The cores of six shards and of one reader, R = 3, sticky copysets of 16 records, in one process without a network.
Delivery is told in payload bytes that the reader received per byte that it delivered. Skipping is the processor time of
a shard for a record that its filter leaves out, against reading it back from the disk's bytes and deciding by it. A
slow shard takes 20 times as long for each batch, in virtual time. The reader's throughput is its own processor time,
against a loop over the same records when they are decoded already.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.events import CancelTimer, Event, Note, Received, Send, SetTimer, Started, TimerFired
from quorumlog.read_path import messages as m
from quorumlog.read_path.configuration import ReaderSettings, ShardSettings
from quorumlog.read_path.events import (
    AskMetadata,
    AskStatuses,
    BatchRead,
    Change,
    Connect,
    Connected,
    MetadataRead,
    ReadBatch,
    StatusesLearned,
)
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.placement import chosen
from quorumlog.read_path.reader import ReaderCore, Record
from quorumlog.read_path.records import Copy, decompressed, new_copy
from quorumlog.read_path.rules import REFERENCE, lsn_of
from quorumlog.read_path.shard import ShardCore
from quorumlog.read_path.shipping import in_order
from quorumlog.read_path.wire import framed, unframed

SHARDS, FACTOR, STICKY, PAYLOAD = 6, 3, 16, 500
READER, SEQUENCER = 90, 91
READ_TIME = 2 * MILLISECOND
SLOWER = 20

LOCATIONS = {shard: ("R", "C", "W", "K", f"N{shard}") for shard in range(SHARDS)}
NODESET = Nodeset({"NODE": FACTOR}, LOCATIONS)
STATUSES = StatusesLearned(0, dict.fromkeys(range(SHARDS), 0), 0)


def written(records: int) -> list[Copy]:
    """So many records on copysets of three, each copyset for a block."""
    found, draw = [], random.Random(7)
    for esn in range(1, records + 1):
        copyset = chosen(NODESET, REFERENCE, NODESET.shards, esn // STICKY)
        assert copyset is not None
        payload = esn.to_bytes(8, "big") + draw.randbytes(PAYLOAD - 8)
        found.append(new_copy(lsn_of(1, esn), copyset, payload))
    return found


def a_shard(number: int, copies: Iterable[Copy], last: int) -> ShardCore:
    """A shard with those of the copies that are its own, all released."""
    changes = [Change(copy=copy) for copy in copies if number in copy.copyset]
    settings = ShardSettings(batch_bytes=1 << 16, batch_records=64)
    core = ShardCore(number, LOCATIONS, [Change(intact=True), *changes], settings)
    core.handle(0, STATUSES)
    core.handle(0, Received(SEQUENCER, m.Release(1, last)))
    return core


class Reading:
    """A reader and its shards in virtual time; each shard takes ``slowness`` times ``READ_TIME`` for a batch."""

    def __init__(self, copies: list[Copy], settings: ReaderSettings, slowness: Mapping[int, int] | None = None) -> None:
        last = copies[-1].lsn
        self.shards = {number: a_shard(number, copies, last) for number in range(SHARDS)}
        self.reader = ReaderCore(1, copies[0].lsn, last, settings, seed=7)
        self.slowness = {} if slowness is None else slowness
        self.now, self.spent = 0, 0
        self.delivered: list[Record] = []
        self.shipped: list[m.Records] = []
        self.gaps: Counter[str] = Counter()
        self._queue: list[tuple[int, int, int, Event]] = []  # due, in order, to whom, what
        self._order = itertools.count()
        self._timers: dict[str, int] = {}

    def run(self) -> None:
        """Read to the end."""
        self._give(READER, STATUSES)
        self._give(READER, Started())
        while not self.reader.ended:
            self.now, number, to, event = heapq.heappop(self._queue)
            if isinstance(event, TimerFired) and self._timers.get(event.name) != number:
                continue
            self._give(to, event)

    def _after(self, delay: int, to: int, event: Event) -> int:
        number = next(self._order)
        heapq.heappush(self._queue, (self.now + delay, number, to, event))
        return number

    def _give(self, to: int, event: Event) -> None:
        if to != READER:
            for effect in self.shards[to].handle(self.now, event):
                self._of_shard(to, effect)
            return
        begun = time.process_time_ns()
        effects = self.reader.handle(self.now, event)
        records, gap = self.reader.read(1 << 20)
        self.spent += time.process_time_ns() - begun
        self.delivered += records
        if gap is not None:
            self.gaps[gap.kind] += 1
        for effect in effects:
            self._of_reader(effect)

    def _of_shard(self, shard: int, effect: Any) -> None:  # noqa: ANN401
        match effect:
            case ReadBatch():
                delay = READ_TIME * self.slowness.get(shard, 1)
                self._after(delay, shard, BatchRead(effect.reader, effect.stream, effect.ticket))
            case Send(message=message):
                if isinstance(message, m.Records):
                    self.shipped.append(message)
                self._after(0, READER, Received(shard, message))

    def _of_reader(self, effect: Any) -> None:  # noqa: ANN401
        match effect:
            case Send():
                self._after(0, effect.to, Received(READER, effect.message))
            case Connect(peer):
                self._after(0, READER, Connected(peer))
            case AskMetadata(epoch):
                self._after(0, READER, MetadataRead(epoch, 1, 1, True, NODESET))
            case AskStatuses():
                self._after(0, READER, STATUSES)
            case SetTimer():
                self._timers[effect.name] = self._after(effect.delay, READER, TimerFired(effect.name))
            case CancelTimer(name):
                self._timers.pop(name, None)
            case Note():
                pass


def bytes_per_byte(copies: list[Copy], *, single_copy: bool) -> tuple[float, float]:
    """Payload bytes, and bytes of blocks, that a reader receives for each byte that it delivers."""
    reading = Reading(copies, ReaderSettings(single_copy=single_copy))
    reading.run()
    assert [record.lsn for record in reading.delivered] == [copy.lsn for copy in copies], "not all was delivered"
    size = {copy.lsn: len(copy.payload) for copy in copies}
    delivered = sum(size.values())
    received = sum(size[copy.lsn] for records in reading.shipped for copy in records.copies)
    return received / delivered, sum(len(records.block) for records in reading.shipped) / delivered


def skipping(records: int, rounds: int) -> tuple[float, float]:
    """Nanoseconds that a shard spends on a record that it does not ship: by its index, and by the record itself."""
    members = [(1, 2, 0), (2, 3, 0), (3, 4, 0), (4, 5, 0)]  # it is never the first of them
    copies = [
        new_copy(lsn_of(1, esn), members[esn // STICKY % 4], esn.to_bytes(8, "big") + bytes(PAYLOAD - 8))
        for esn in range(1, records + 1)
    ]
    shard = a_shard(0, copies, copies[-1].lsn)
    delivery = m.Delivery(frozenset(), FACTOR)
    start = m.Start(1, 1, copies[0].lsn, copies[-1].lsn, copies[-1].lsn, delivery)

    def by_index() -> None:
        waiting = [*shard.handle(0, Received(READER, start))]
        while waiting:
            effect = waiting.pop()
            if isinstance(effect, ReadBatch):
                waiting += shard.handle(0, BatchRead(effect.reader, effect.stream, effect.ticket))
            elif isinstance(effect, Send):
                assert not isinstance(effect.message, m.Records), "it was to skip all"

    blocks = [b"".join(framed(Change(copy=copy)) for copy in copies[at : at + 64]) for at in range(0, records, 64)]

    def by_record() -> None:
        for block in blocks:
            for change in unframed(block)[0]:
                copy = change.copy
                assert copy is not None
                assert copy.intact
                order = in_order(copy.copyset, None)
                down = [each in delivery.down for each in order]
                assert not REFERENCE.ships(order.index(0), down, [False] * len(order), FACTOR)

    return least(by_index, rounds) / records, least(by_record, rounds) / records


def least(work: Any, rounds: int) -> float:  # noqa: ANN401
    """The least processor time of several, in nanoseconds."""
    found = []
    for _ in range(rounds):
        begun = time.process_time_ns()
        work()
        found.append(time.process_time_ns() - begun)
    return min(found)


def with_a_slow_shard(copies: list[Copy], *, detects: bool, slow: bool = True) -> float:
    """Virtual seconds to read all with one shard so much slower."""
    settings = ReaderSettings(window=256, slow_shards=detects, slow_margin=3.0)
    reading = Reading(copies, settings, {2: SLOWER} if slow else {})
    reading.run()
    assert not reading.gaps, reading.gaps
    return reading.now / SECOND


def throughput(copies: list[Copy], rounds: int) -> tuple[float, float, float]:
    """Nanoseconds a record: of the reader, of decoding blocks and a loop over them, of the loop alone."""
    spent = []
    for _ in range(rounds):
        reading = Reading(copies, ReaderSettings(room=1 << 20))
        reading.run()
        spent.append(reading.spent)
    shipped = reading.shipped

    def decode() -> list[tuple[int, bytes]]:
        return [
            (copy.lsn, payload)
            for records in shipped
            for copy, payload in zip(records.copies, decompressed(records.block, len(records.copies)), strict=True)
        ]

    decoded = decode()

    def loop() -> int:
        total = 0
        for _, payload in decoded:
            total += len(payload)
        return total

    count = len(copies)
    return min(spent) / count, least(decode, rounds) / count, least(loop, rounds) / count


def main() -> None:
    """Measure and print, then JSON."""
    parser = argparse.ArgumentParser(description="the read path")
    parser.add_argument("--quick", action="store_true", help="2,000 records instead of 20,000")
    quick = parser.parse_args().quick
    records, rounds = (2_000, 2) if quick else (20_000, 5)
    copies = written(records)
    every, every_block = bytes_per_byte(copies, single_copy=False)
    one, one_block = bytes_per_byte(copies, single_copy=True)
    print(f"payload received per byte delivered: all send all {every:.2f}, single copy {one:.2f}")
    print(f"  {every / one:.2f} : 1; compressed {every_block:.2f} and {one_block:.2f}")
    index, decoding = skipping(records, rounds)
    print(f"a record skipped: by the index {index:.0f} ns, decoded {decoding:.0f} ns, {decoding / index:.1f} : 1")
    even = with_a_slow_shard(copies, detects=True, slow=False)
    passed, waited = with_a_slow_shard(copies, detects=True), with_a_slow_shard(copies, detects=False)
    print(f"a shard {SLOWER} times slower than the others: {waited:.2f} s waiting for it, {passed:.2f} s without it")
    print(f"  none slow: {even:.2f} s")
    reader, decode, loop = throughput(copies, rounds)
    print(f"the reader: {1e9 / reader:,.0f} records a second; {reader:.0f} ns each")
    print(f"  {reader / decode:.1f} times as long as decoding them, {reader / loop:.0f} times a loop over them")
    figures = {
        "received_per_byte": {"all_send_all": round(every, 3), "single_copy": round(one, 3)},
        "all_send_all_to_single_copy": round(every / one, 2),
        "skip_ns": {"index": round(index), "decoded": round(decoding)},
        "decoded_to_index": round(decoding / index, 2),
        "slow_shard_seconds": {"waits": round(waited, 3), "passes_over": round(passed, 3), "none_slow": round(even, 3)},
        "waiting_to_passing_over": round(waited / passed, 2),
        "reader_records_per_second": round(1e9 / reader),
        "reader_to_decoding": round(reader / decode, 2),
        "reader_to_loop": round(reader / loop, 1),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
