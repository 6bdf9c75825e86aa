"""What a shard sends readers: records in order, and gaps where it has none (read-path.md#in-order-shipping)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from quorumlog.events import Effect, Send
from quorumlog.read_path.configuration import ShardSettings
from quorumlog.read_path.contents import Contents
from quorumlog.read_path.events import ReadBatch
from quorumlog.read_path.messages import Delivery, GapKind, Records, ShardGap, Start
from quorumlog.read_path.nodeset import Location
from quorumlog.read_path.placement import mixed
from quorumlog.read_path.records import DRAINED, HOLE, UNDER_REPLICATED, Copy, compressed
from quorumlog.read_path.rules import NOWHERE, Rules


def in_order(copyset: tuple[int, ...], seed: int | None) -> list[int]:
    """A copyset as everybody with the same seed orders it; None: as it is."""
    if seed is None:
        return [*copyset]
    key = sum(mixed(seed, shard) for shard in copyset)
    return sorted(copyset, key=lambda shard: mixed(key, shard))


@dataclass(slots=True)
class Stream:
    """A stream of one reader: all up to ``sent`` was sent or said to be absent; ``ticket``: the batch being read."""

    start: Start
    high: int
    sent: int
    ticket: int | None = None
    decisions: dict[tuple[int, ...], bool] = field(default_factory=dict)
    """The filter's decision by copyset: with sticky copysets one serves a whole block."""


class Shipping:
    """The streams of a shard. ``released``: up to where readers may have records; ``dirty``: ranges it may lack."""

    def __init__(
        self, number: int, contents: Contents, settings: ShardSettings, rules: Rules, locations: dict[int, Location]
    ) -> None:
        self.number, self.contents, self.settings, self.rules, self.locations = (
            number,
            contents,
            settings,
            rules,
            locations,
        )
        self.released = 0
        self.version = -1  # not known yet
        self.release_version = -1  # the newest that a release came with
        self.dirty: list[tuple[int, int]] = []
        self.streams: dict[tuple[int, int], Stream] = {}
        self._tickets = 0
        self._effects: list[Effect] = []

    @property
    def said_version(self) -> int:
        """The version of the event log that answers carry: who placed the records that are not here may know more.

        Source: read-path.md#event-log-version.
        """
        return max(self.version, self.release_version)

    # -- streams -------------------------------------------------------------------------------------------------------

    def _open(self, reader: int, start: Start) -> None:
        stream = self.streams[reader, start.stream] = Stream(start, start.high, start.first - 1)
        self._ship(reader, stream)

    def _readable(self, stream: Stream) -> int:
        """Up to where a stream may be sent records now."""
        return min(self.released, stream.start.until, stream.high)

    def _ship_all(self) -> None:
        for (reader, _), stream in self.streams.items():
            self._ship(reader, stream)

    def _ship(self, reader: int, stream: Stream) -> None:
        """Begin to read a batch, unless one is being read or there is nothing to say."""
        if stream.ticket is not None:
            return
        self._say_trimmed(reader, stream)
        if stream.sent < self._readable(stream):
            self._tickets += 1
            stream.ticket = self._tickets
            batch, _ = self._batch(stream)
            size = sum(len(copy.payload) for copy in batch)
            self._effects.append(ReadBatch(reader, stream.start.stream, stream.ticket, size))

    def _batch_read(self, reader: int, number: int, ticket: int) -> None:
        """Send a batch, and close it with a gap."""
        stream = self.streams.get((reader, number))
        if stream is None or stream.ticket != ticket:
            return
        stream.ticket = None
        self._say_trimmed(reader, stream)  # the trim point may have passed it meanwhile
        batch, last = self._batch(stream)
        unsure = any(low <= last and stream.sent < high for low, high in self.dirty)
        if batch:
            self._send_records(reader, stream, batch, UNDER_REPLICATED if unsure else 0)
        if last > stream.sent:
            self._send_gap(reader, stream, GapKind.UNDER_REPLICATED if unsure else GapKind.NO_RECORDS, last)
        self._ship(reader, stream)

    def _say_trimmed(self, reader: int, stream: Stream) -> None:
        """Whatever comes next, what was trimmed comes first."""
        if stream.sent < self.contents.trim_point:
            self._send_gap(reader, stream, GapKind.TRIM, self.contents.trim_point)

    def _batch(self, stream: Stream) -> tuple[list[Copy], int]:
        """The records of the next batch that pass the filter, and up to where the batch says all.

        That is before the first record that it leaves out: for its size, or for the window's or the stream's end; and
        the last released LSN if there is none.
        """
        found: list[Copy] = []
        size = 0
        end = self._readable(stream)
        for seen, copy in enumerate(self.contents.between(stream.sent + 1, end)):
            if size >= self.settings.batch_bytes or seen >= self.settings.batch_records:
                return found, copy.lsn - 1
            if self._passes(stream, copy):
                found.append(copy)
                size += len(copy.payload)
        behind = self.contents.next_from(end + 1)
        last = self.released if behind is None else min(behind - 1, self.released)
        return found, max(end, min(last, stream.start.until))

    def _passes(self, stream: Stream, copy: Copy) -> bool:
        """Whether this copy is sent (read-path.md#scd-filter)."""
        delivery = stream.start.delivery
        if delivery is None:
            return True
        if copy.flags & DRAINED:
            return False
        if copy.flags & HOLE:
            return True
        decision = stream.decisions.get(copy.copyset)
        if decision is None:
            decision = stream.decisions[copy.copyset] = self._chosen(delivery, copy.copyset)
        return decision

    def _chosen(self, delivery: Delivery, copyset: tuple[int, ...]) -> bool:
        order = in_order(copyset, delivery.seed)
        me = order.index(self.number) if self.number in order else NOWHERE
        down = [shard in delivery.down for shard in order]
        local = [delivery.region is not None and self.locations[shard][0] == delivery.region for shard in order]
        return self.rules.ships(me, down, local, delivery.factor)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _send_records(self, reader: int, stream: Stream, batch: Iterable[Copy], flags: int) -> None:
        copies = tuple(batch)
        bare = tuple(
            Copy(each.lsn, each.copyset, each.wave, each.run, each.lng, each.flags | flags, b"", each.checksum)
            for each in copies
        )
        block = compressed([each.payload for each in copies])
        stream.sent = copies[-1].lsn
        self._effects.append(Send(reader, Records(stream.start.stream, self.said_version, bare, block)))

    def _send_gap(self, reader: int, stream: Stream, kind: GapKind, last: int) -> None:
        gap = ShardGap(stream.start.stream, self.said_version, kind, stream.sent + 1, last)
        stream.sent = last
        self._effects.append(Send(reader, gap))
