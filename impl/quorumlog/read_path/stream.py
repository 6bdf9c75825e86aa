"""What a reader knows of the shards it reads from: connections, STARTs, answers, markers (read-path.md#shard-state).

`reader` decides by it what is delivered, `delivery` whom copies are asked of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quorumlog.events import CancelTimer, Effect, Note, Send, SetTimer
from quorumlog.read_path import rules as r
from quorumlog.read_path.buffer import Buffer
from quorumlog.read_path.configuration import ReaderSettings
from quorumlog.read_path.events import AskMetadata, Connect, MetadataRead
from quorumlog.read_path.messages import Answer, Delivery, GapKind, Records, ShardGap, Start, Started, Stop, Window
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.records import UNDER_REPLICATED, Copy, DamagedError, decompressed
from quorumlog.read_path.rules import NOWHERE, Rules

LAST_LSN = (1 << 62) - 1
"""``until`` of a stream that reads without end."""


@dataclass(slots=True)
class ShardState:
    """One shard: ``next`` is the end of what it has sent, ``ur`` that of what it may lack, both exclusive.

    ``answering``: it has data, as it said since START; ``acknowledged``: the filter version of which it said so;
    ``high``: the window's end that it was told; ``expired``: how many grace periods it let pass; ``version``: that of
    the event log at START.
    """

    next: int = 0
    ur: int = 0
    connected: bool = False
    answering: bool = False
    answer: Answer | None = None
    acknowledged: int = 0
    high: int = 0
    expired: int = 0
    version: int = 0


class Stream:
    """The part of a reader that hears; ``stream`` is its number, unique among those of all readers."""

    def __init__(
        self, stream: int, first: int, until: int, settings: ReaderSettings, rules: Rules, seed: int, region: str
    ) -> None:
        self.stream, self.first, self.until, self.settings, self.rules = stream, first, until, settings, rules
        self.seed = {"client": seed, "fixed": 0, "off": None}[settings.shuffle]
        self.region = region if settings.local else None
        self.position = self.slid_at = first
        self.size = settings.window
        self.high = min(until, first + self.size - 1)
        self.filter_version = 1
        self.buffer = Buffer()
        self.beyond = NOWHERE  # `out` of the rules
        self.trim_point = 0
        self.shards: dict[int, ShardState] = {}
        self.nodeset: Nodeset | None = None
        self.known_epoch = 0  # k of the rules
        self.newest = 0  # the highest LSN heard
        self.single = settings.single_copy  # single-copy delivery is on now
        self.down: set[int] = set()
        self.slow: frozenset[int] = frozenset()
        self.logged: Mapping[int, int] = {}
        self.version, self.completed = 0, 0
        self.answers_version = 0  # the newest that came with an accepted answer
        self.ended = False
        self.now = 0
        self._asked: tuple[int, int] | None = None  # the epoch asked for, and that of the highest LSN then
        self._provisional: set[int] = set()
        self._last = False  # the metadata log had no more
        self._upcoming: MetadataRead | None = None  # the nodeset behind the known epochs, another one
        self._effects: list[Effect] = []

    # -- small things --------------------------------------------------------------------------------------------------

    def _note(self, kind: str, **columns: Any) -> None:  # noqa: ANN401
        self._effects.append(Note(kind, {"op": self.stream, **columns}))

    def _timer(self, name: str, delay: int) -> None:
        self._effects.append(SetTimer(name, delay))

    def _cancel(self, name: str) -> None:
        self._effects.append(CancelTimer(name))

    @property
    def listed(self) -> frozenset[int]:
        """The known-down list: known to be down, and slow."""
        return self.slow.union(self.down)

    def status(self, shard: int) -> int:
        """The status that a shard counts with (read-path.md#reader-statuses)."""
        logged = self.logged.get(shard, r.FULLY_AUTHORITATIVE)
        return self.rules.reader_status(logged, self.shards[shard].answering)

    def state(self, shard: int) -> int:
        """What a shard has said about the next LSN to deliver."""
        each = self.shards[shard]
        return self.rules.gap_state(self.position, each.next, each.ur)

    # -- what may be about a shard, for `delivery` ---------------------------------------------------------------------

    def _joins(self, shard: int) -> None:
        """A shard is to be passed over in single-copy delivery."""

    def _leaves(self, shard: int) -> None:
        """A shard sent a record of its own."""

    def _completed_window(self, shard: int) -> None:
        """A shard sent all that it has of the window."""

    # -- connections and START -----------------------------------------------------------------------------------------

    def _connect(self, shard: int) -> None:
        self._effects.append(Connect(shard))
        self._timer(f"shard {shard}", self.settings.started)

    def _connected(self, shard: int) -> None:
        if shard in self.shards:
            self.shards[shard].connected = True
            self._start(shard)

    def _disconnected(self, shard: int) -> None:
        """Evidence of a closed connection stays until the next START, but nothing is known to be there any more."""
        if shard in self.shards:
            each = self.shards[shard]
            each.connected = each.answering = False
            self._note("stream_closed", peer=shard)
            self._joins(shard)
            self._timer(f"shard {shard}", self.settings.reconnect)

    def _shard_timer(self, shard: int) -> None:
        """No connection, or no STARTED in time, or one that said no: try again."""
        each = self.shards.get(shard)
        if each is None or each.answering:
            return
        if each.connected and each.answer is not None:
            self._start(shard)
        else:
            each.connected = False
            self._joins(shard)
            self._connect(shard)

    def _start(self, shard: int) -> None:
        each = self.shards[shard]
        self._reset(each)
        each.answering, each.acknowledged, each.answer, each.high = False, 0, None, self.high
        each.version = self.version
        delivery = None
        if self.single:
            assert self.nodeset is not None
            delivery = Delivery(self._named_down(), self.nodeset.factor, self.seed, self.region)
        start = Start(self.stream, self.filter_version, self.position, self.until, self.high, delivery)
        self._effects.append(Send(shard, start))
        self._timer(f"shard {shard}", self.settings.started)
        columns = {"peer": shard, "filter": self.filter_version, "offset": self.position, "last_offset": self.high}
        if delivery is not None:
            columns["shards"] = sum(1 << each for each in delivery.down)
        self._note("stream_start", **columns)

    def _named_down(self) -> frozenset[int]:
        return self.listed

    def _reset(self, each: ShardState) -> None:
        each.next, each.ur = self.position, 0

    def _started(self, shard: int, message: Started) -> None:
        each = self.shards[shard]
        if message.filter_version != self.filter_version:
            return
        each.answer = message.answer
        each.expired = 0
        self.answers_version = max(self.answers_version, message.version)
        if message.answer is Answer.OK:
            each.acknowledged, each.answering = message.filter_version, True
            self._cancel(f"shard {shard}")
            if each.high != self.high:
                self._tell_window(shard)
        else:
            self._joins(shard)
            self._timer(f"shard {shard}", self.settings.started)

    def _tell_window(self, shard: int) -> None:
        self.shards[shard].high = self.high
        self._effects.append(Send(shard, Window(self.stream, self.filter_version, self.position, self.high)))

    def _stop(self) -> None:
        for shard, each in self.shards.items():
            if each.connected:
                self._effects.append(Send(shard, Stop(self.stream)))
            self._cancel(f"shard {shard}")

    # -- records and gaps of shards ------------------------------------------------------------------------------------

    def _accepts(self, shard: int) -> bool:
        """Whether data of a shard counts: it carries no filter version, and comes behind STARTED."""
        return self.filter_version == 1 or self.shards[shard].acknowledged == self.filter_version

    def _heard(self, shard: int, message: Records | ShardGap) -> None:
        if not self._accepts(shard):
            return
        each = self.shards[shard]
        each.expired, each.answering = 0, True
        self.answers_version = max(self.answers_version, message.version)
        if isinstance(message, ShardGap):
            self._shard_gap(shard, each, message)
        else:
            self._records(shard, each, message)
        if each.next > self.high:
            self._completed_window(shard)

    def _records(self, shard: int, each: ShardState, message: Records) -> None:
        try:
            payloads: list[bytes | None] = [*decompressed(message.block, len(message.copies))]
        except DamagedError:
            payloads = [None] * len(message.copies)
        for copy, payload in zip(message.copies, payloads, strict=True):
            if each.next <= copy.lsn <= self.high:
                whole = None if payload is None else with_payload(copy, payload)
                self._record(shard, each, copy.lsn, whole if whole is not None and whole.intact else None)

    def _record(self, shard: int, each: ShardState, lsn: int, copy: Copy | None) -> None:
        """A record; None: it cannot be read, which is a gap of one LSN that the shard may lack."""
        self._passed(each, lsn, under_replicated=copy is None or bool(copy.flags & UNDER_REPLICATED))
        if copy is None:
            self._joins(shard)
            return
        if lsn >= self.position:
            self.buffer.put(copy)
        self._leaves(shard)  # read-path.md#leaves-list-at-record

    def _shard_gap(self, shard: int, each: ShardState, gap: ShardGap) -> None:
        if gap.kind is GapKind.TRIM:  # one that is late does no more than this (read-path.md#late-gaps)
            self.trim_point = max(self.trim_point, gap.last)
        if gap.last >= each.next:
            self._passed(each, gap.last, under_replicated=gap.kind is GapKind.UNDER_REPLICATED)

    def _passed(self, each: ShardState, last: int, under_replicated: bool) -> None:
        """The shard has sent all that it has up to ``last``."""
        self.newest = max(self.newest, last)
        each.next = last + 1
        if under_replicated:
            each.ur = max(each.ur, last + 1)
        if last >= self.position:
            self._mark(each.ur if self.position < each.ur else each.next)
            if each.next > self.high:
                self.beyond = each.next if self.beyond == NOWHERE else min(self.beyond, each.next)

    def _mark(self, lsn: int) -> None:
        if self.position < lsn <= self.high:
            self.buffer.mark(lsn)

    def _move_to(self, position: int) -> None:
        """Everything before ``position`` is delivered."""
        before, self.position = self.position, position
        self.buffer.drop_below(position)
        for each in self.shards.values():
            if before < each.ur <= position < each.next:
                self._mark(each.next)

    # -- metadata of epochs --------------------------------------------------------------------------------------------

    def _knows(self, epoch: int) -> bool:
        """Whether the nodeset of an epoch is known; asks for the next one that is not."""
        if epoch <= self.known_epoch:
            return True
        self._ask_metadata()
        return False

    def _ask_metadata(self) -> None:
        epoch = self.known_epoch + 1
        if self._asked is None and self._upcoming is None:
            self._asked = epoch, r.epoch_of(self.newest)
            self._effects.append(AskMetadata(epoch))

    def _metadata_read(self, read: MetadataRead) -> None:
        if self._asked is None or read.epoch != self._asked[0]:
            return
        (epoch, heard), self._asked = self._asked, None
        self._last = read.last
        if not read.last:
            known = max(1, epoch, read.since, min(heard, read.until))
        elif epoch > read.since and epoch not in self._provisional:
            self._provisional.add(epoch)
            known = epoch - 1
        else:
            known = max(heard, read.until, epoch)
        if self.nodeset is not None and self.nodeset != read.nodeset and r.epoch_of(self.position) <= self.known_epoch:
            self._upcoming = read
            return
        self._take_nodeset(read.nodeset, known)

    def _take_nodeset(self, nodeset: Nodeset, known: int) -> None:
        self.nodeset, self.known_epoch = nodeset, max(known, self.known_epoch)
        self._note("stream_metadata", epoch=self.known_epoch)
        for shard in [shard for shard in self.shards if shard not in nodeset.locations]:
            del self.shards[shard]
            self._effects.append(Send(shard, Stop(self.stream)))
            self._cancel(f"shard {shard}")
        for shard in nodeset.shards:
            if shard not in self.shards:
                self.shards[shard] = ShardState(next=self.position)
                self._connect(shard)

    def _reach_upcoming(self) -> None:
        """The position left the known epochs: the nodeset of those behind them goes from now on."""
        read = self._upcoming
        if read is not None and r.epoch_of(self.position) > self.known_epoch:
            self._upcoming = None
            self._take_nodeset(read.nodeset, read.until if not read.last else max(read.epoch, read.since))


def with_payload(copy: Copy, payload: bytes) -> Copy:
    """A copy that came without its payload, with it."""
    return Copy(copy.lsn, copy.copyset, copy.wave, copy.run, copy.lng, copy.flags, payload, copy.checksum)
