"""What a reader may go by: what shards have sent it since each START, and the statuses in force.

It is recomputed from the recorded messages; what the reader says of itself counts only where it is about the reader:
which statuses and nodesets it knows, when it rewinds, whom it asks. What a shard says that lost its data, and has not
been rebuilt since, is no answer.

Sources: read-path.md#shard-state, read-path.md#reader-statuses, read-path.md#gap-verdict,
read-path.md#lost-data-refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from loghistory.schema import Kind
from loghistory.vocabularies.read_path import AnswerWord, GraceWord, HeardWord, RecordWord, RewindWord, ShardWord

from ..codes import REASONS, RECORDS, Words, code, word_code
from ..columns import Columns
from .nodesets import (
    AUTHORITATIVE_EMPTY,
    COMPLETE,
    FULLY_AUTHORITATIVE,
    INCOMPLETE,
    NON_AUTH,
    UNAVAILABLE,
    UNDERREPLICATION,
    Nodeset,
    Nodesets,
    mask_of,
    members,
    statuses_said,
)
from .protocol import epoch_of

OF_STREAMS = (
    Kind.STREAM_SETTINGS,
    Kind.STREAM_STATUSES,
    Kind.STREAM_METADATA,
    Kind.STREAM_START,
    Kind.STREAM_STARTED,
    Kind.STREAM_CLOSED,
    Kind.STREAM_HEARD,
    Kind.STREAM_REWIND,
    Kind.STREAM_GRACE,
    Kind.STREAM_REJECT,
)
(_SETTINGS, _STATUSES, _METADATA, _START, _STARTED, _CLOSED, _HEARD, _REWIND, _GRACE, _REJECT) = map(code, OF_STREAMS)
_NODESET, _EVENT_LOG, _TAKES_PART = map(code, (Kind.NODESET, Kind.EVENT_LOG, Kind.TAKES_PART))
_LOST = REASONS[ShardWord.LOST]
_OK = REASONS[AnswerWord.OK]
_DUE, _BEGUN, _OVER = (word_code(word) for word in (RewindWord.DUE, GraceWord.BEGUN, GraceWord.OVER))
_TRIM, _UNSURE, _DAMAGED = (word_code(w) for w in (HeardWord.TRIM, HeardWord.UNDER_REPLICATED, HeardWord.DAMAGED))
_RECORDS = tuple(word_code(word) for word in (HeardWord.RECORD, HeardWord.DAMAGED, HeardWord.FILTERED_OUT))
_REFUSALS = tuple(word_code(word) for word in (HeardWord.ACCESS, HeardWord.NOT_IN_CONFIG))
FILTERED = -2
"""Stands for what the reader's own filter left out, among the words of column ``record``."""
_ONCE_MORE = 2
"""A shard that let so many grace periods and one more pass is not waited for again."""


class Settings(msgspec.Struct, frozen=True):
    """How a reader reads, as it says."""

    grace: int
    in_flight: int
    require_full_read_set: bool
    guaranteed_delivery_efficiency: bool


def settings_said(text: str | None) -> Settings | None:
    """What the text of `stream_settings` says; None if it has another form."""
    try:
        return None if text is None else msgspec.json.decode(text, type=Settings)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


@dataclass(slots=True)
class Shard:
    """What a shard has said since START: all it has up to before ``next``; up to before ``unsure`` it may lack some."""

    filter: int = -1
    next: int = 0
    unsure: int = 0
    reading: bool = False
    expired: int = 0
    version: int = -1
    single: bool = False


class Grace(NamedTuple):
    """A grace period: what it is about, when it began and ended (-1: not yet), and the event of its beginning."""

    lsn: int
    begun: int
    over: int
    seq: int


@dataclass(slots=True)
class Stream:
    """One read stream; ``position`` is the next LSN to deliver, -1 if nobody knows where it began."""

    first: int = -1
    position: int = -1
    until: int | None = None
    node: int = -1
    settings: Settings | None = None
    known_epoch: int = -1
    """The newest epoch whose nodeset it knows; -1: it was not recorded that it knows any."""
    asks: bool = False
    hears: bool = False
    """Whether it is recorded that it asked shards, and that it heard of any."""
    statuses: Mapping[int, int] = field(default_factory=dict)
    version: int = 0
    learned: bool = False  # any
    answers: tuple[int, int] = (0, -1)
    """The newest version that came with an answer, and that answer."""
    shards: dict[int, Shard] = field(default_factory=dict)
    heard: dict[int, int] = field(default_factory=dict)
    """What lies at an LSN, by column ``record``; what was delivered is left out."""
    trimmed: int = -1
    refused: bool = False
    rewinding: int = -1
    emptied: int = -1
    """The event by which it learned that a shard became empty, until it asks anew (read-path.md#empty-rewinds)."""
    listed: int = 0
    grace: Grace | None = None
    rejected: int = -1
    """The LSN that the application did not take, and that comes next."""

    def status(self, shard: int) -> int:
        """The status that counts for a shard (read-path.md#reader-statuses)."""
        each = self.shards.get(shard)
        if each is not None and each.reading:
            return FULLY_AUTHORITATIVE
        status = self.statuses.get(shard, FULLY_AUTHORITATIVE)
        guaranteed = self.settings is not None and self.settings.guaranteed_delivery_efficiency
        return UNDERREPLICATION if guaranteed and status == UNAVAILABLE else status

    def statuses_of(self, nodeset: Nodeset) -> dict[int, int]:
        """The statuses of the shards of a nodeset."""
        return {shard: self.status(shard) for shard in members(nodeset.shards)}

    @property
    def recorded(self) -> bool:
        """Whether the record of it shows where it began, whom it asked and what it heard."""
        return self.first >= 0 and self.asks and self.hears

    @property
    def busy(self) -> bool:
        """Whether it waits for something else than an answer: its application, a rewind, a grace period, one of the
        logs that say where records lie and whose answers count."""
        in_grace = self.grace is not None and self.grace.over < 0
        ignorant = self.answers[0] > self.version or epoch_of(self.position) > self.known_epoch
        return self.rejected == self.position or self.rewinding >= 0 or in_grace or ignorant

    def silent(self, lsn: int, nodeset: Nodeset) -> int:
        """The shards that have said nothing of an LSN."""
        return mask_of(s for s in members(nodeset.shards) if s not in self.shards or self.shards[s].next <= lsn)

    def unsure(self, lsn: int, nodeset: Nodeset) -> int:
        """The shards that have sent nothing there and may lack it."""
        return mask_of(s for s in members(nodeset.shards & ~self.silent(lsn, nodeset)) if lsn < self.shards[s].unsure)

    def verdict(self, lsn: int, nodeset: Nodeset) -> int:
        """What the answers say of an LSN; who may lack it counts only if it must (read-path.md#gap-verdict)."""
        statuses, silent = self.statuses_of(nodeset), self.silent(lsn, nodeset)
        gaps = nodeset.verdict(statuses, nodeset.shards & ~silent & ~self.unsure(lsn, nodeset))
        if gaps < NON_AUTH and nodeset.verdict(statuses, nodeset.shards & ~silent) >= NON_AUTH:
            return COMPLETE if gaps == INCOMPLETE else NON_AUTH
        return gaps

    def worth_waiting(self, lsn: int, nodeset: Nodeset) -> int:
        """The shards that a grace period is for (read-path.md#gap-grace)."""
        silent = members(self.silent(lsn, nodeset))
        late = {shard for shard, each in self.shards.items() if each.expired > _ONCE_MORE}
        return mask_of(s for s in silent if self.status(s) == FULLY_AUTHORITATIVE and s not in late)

    def all_lost(self, nodeset: Nodeset) -> bool:
        """Whether nobody is left who could have a record (read-path.md#gap-all-lost)."""
        lost = (UNDERREPLICATION, AUTHORITATIVE_EMPTY)
        return bool(nodeset.shards) and all(status in lost for status in self.statuses_of(nodeset).values())

    def steps(self, last: int) -> list[int]:
        """The LSNs from the next one up to ``last`` at which what was said changes; epochs begin where nodesets may."""
        ends = {end for each in self.shards.values() for end in (each.next, each.unsure)}
        epochs = range(epoch_of(self.position) + 1, min(epoch_of(last), epoch_of(self.position) + 64) + 1)
        ends |= {epoch << 32 for epoch in epochs}
        return sorted({self.position, *(end for end in ends if self.position < end <= last)})

    def moved(self, last: int) -> None:
        """All up to an LSN is delivered."""
        self.position = last + 1
        self.grace = None
        for lsn in [lsn for lsn in self.heard if lsn <= last]:
            del self.heard[lsn]


class Streams:
    """All streams of a run, by what is recorded of them."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self.nodesets = Nodesets(words)
        self._logged: dict[int, Mapping[int, int]] = {}
        self._emptied: dict[int, int] = {}  # by version: how often a shard had become empty by then
        self._newest: Mapping[int, int] = {}
        self._without_data: set[int] = set()
        self._of: dict[int, Stream] = {}

    def of(self, op: int) -> Stream:
        """The stream with this number."""
        return self._of.setdefault(op, Stream())

    def begins(self, rows: Columns, at: int) -> None:
        """A client asks for a stream."""
        first, last = rows.offset[at], rows.last_offset[at]
        until = last if last != first else None  # a stream of one LSN looks like one without an end
        self._of[rows.op[at]] = Stream(first, first, until, rows.node[at])

    def take(self, rows: Columns, at: int) -> None:
        """Take an event of the surroundings of streams, or of what one of them hears."""
        kind, op = rows.kind[at], rows.op[at]
        if kind == _NODESET:
            self.nodesets.told(rows.epoch[at], rows.value[at])
        elif kind == _EVENT_LOG:
            self._event_log(rows.version[at], statuses_said(self._words.text(rows.value[at])))
        elif kind == _TAKES_PART:
            if rows.reason[at] == _LOST and self._newest.get(rows.node[at]) != AUTHORITATIVE_EMPTY:
                self._without_data.add(rows.node[at])
        elif kind == _HEARD:
            self._heard(self.of(op), rows, at)
        elif kind == _SETTINGS:
            self.of(op).settings = settings_said(self._words.text(rows.value[at]))
        elif kind == _STATUSES:
            self._learns(self.of(op), rows, at)
        elif kind == _METADATA:
            self._knows(self.of(op), rows.epoch[at])
        elif kind == _START:
            self._start(self.of(op), rows, at)
        elif kind == _STARTED:
            self._started(self.of(op), rows, at)
        elif kind == _CLOSED:
            self.of(op).shards.setdefault(rows.peer[at], Shard()).reading = False
        elif kind == _REWIND:
            self._rewinds(self.of(op), rows, at)
        elif kind == _GRACE:
            self._grace(self.of(op), rows, at)
        elif kind == _REJECT:
            self.of(op).rejected = rows.offset[at]

    def _event_log(self, version: int, statuses: Mapping[int, int]) -> None:
        """The event log has another record; the one before it is needed to tell who became empty."""
        before, times = self._logged.get(version - 1), self._emptied.get(version - 1, 0)
        if before is not None or version == 1:
            now = {shard for shard, status in statuses.items() if status == AUTHORITATIVE_EMPTY}
            was = {shard for shard, status in (before or {}).items() if status == AUTHORITATIVE_EMPTY}
            times += len(now - was)
        self._logged[version], self._emptied[version] = statuses, times
        self._newest = statuses
        self._without_data -= {shard for shard, status in statuses.items() if status == AUTHORITATIVE_EMPTY}

    def _learns(self, stream: Stream, rows: Columns, at: int) -> None:
        """The statuses of a version: who became empty since the last one may have copies elsewhere now."""
        version = rows.version[at]
        empties = self._emptied.get(version, 0) > self._emptied.get(stream.version, 0)
        if stream.learned and empties and any(each.filter >= 0 for each in stream.shards.values()):
            stream.emptied = rows.seq[at]
        stream.version, stream.statuses, stream.learned = version, self._logged.get(version, {}), True

    def _knows(self, stream: Stream, epoch: int) -> None:
        """The nodesets of the epochs up to this one are known; who is not of the newest is not asked any more."""
        stream.known_epoch = max(stream.known_epoch, epoch)
        nodeset = self.nodesets.of(stream.known_epoch)
        if nodeset is not None:
            stream.shards = {s: each for s, each in stream.shards.items() if nodeset.shards >> s & 1}

    @staticmethod
    def _start(stream: Stream, rows: Columns, at: int) -> None:
        """START sets where the shard begins, and what it may lack to nothing."""
        stream.asks = True
        each = stream.shards.setdefault(rows.peer[at], Shard())
        each.filter, each.next, each.unsure, each.reading = rows.filter[at], rows.offset[at], 0, False
        each.version, each.single = stream.version, rows.shards[at] >= 0
        if each.single:
            stream.listed = rows.shards[at]

    def _started(self, stream: Stream, rows: Columns, at: int) -> None:
        each = stream.shards.get(rows.peer[at])
        if each is None or each.filter != rows.filter[at]:
            return
        if rows.reason[at] == _OK and rows.peer[at] in self._without_data:
            return
        each.expired = 0
        each.reading = each.reading or rows.reason[at] == _OK
        stream.answers = max(stream.answers, (rows.version[at], rows.seq[at]))

    def _heard(self, stream: Stream, rows: Columns, at: int) -> None:
        """A record or a gap; the data of an earlier START says nothing (read-path.md#shard-state)."""
        stream.hears = True
        each, f, lsn, last = stream.shards.get(rows.peer[at]), rows.f[at], rows.offset[at], rows.last_offset[at]
        if each is None or each.filter < 0 or (each.filter != 1 and each.filter != rows.filter[at]):
            return
        if rows.peer[at] in self._without_data:
            return
        if f in _REFUSALS:
            stream.refused = True
            return
        each.expired, each.reading = 0, True
        stream.answers = max(stream.answers, (rows.version[at], rows.seq[at]))
        if f == _TRIM:
            stream.trimmed = max(stream.trimmed, last)
        if last < each.next:
            return
        each.next = last + 1
        if f in (_UNSURE, _DAMAGED) or rows.records[at] == 1:
            each.unsure = max(each.unsure, last + 1)
        if f in _RECORDS and f != _DAMAGED and lsn >= stream.position:
            data = RECORDS[RecordWord.DATA] if rows.record[at] < 0 else rows.record[at]
            stream.heard[lsn] = data if f == _RECORDS[0] else FILTERED

    @staticmethod
    def _rewinds(stream: Stream, rows: Columns, at: int) -> None:
        if rows.f[at] == _DUE:
            stream.rewinding = rows.seq[at]
            return
        stream.rewinding = stream.emptied = -1
        stream.grace, stream.rejected = None, -1
        stream.listed = max(rows.shards[at], 0)
        stream.heard.clear()
        for each in stream.shards.values():
            each.filter, each.next, each.unsure = -1, 0, 0

    def _grace(self, stream: Stream, rows: Columns, at: int) -> None:
        f, lsn, time = rows.f[at], rows.offset[at], rows.time[at]
        if f == _BEGUN:
            stream.grace = Grace(lsn, time, -1, rows.seq[at])
        elif f != _OVER or stream.grace is None or stream.grace.lsn != lsn:
            stream.grace = None
        else:
            stream.grace = stream.grace._replace(over=time)
            nodeset = self.nodesets.of(epoch_of(lsn))
            for shard in members(0 if nodeset is None else stream.silent(lsn, nodeset)):
                stream.shards.setdefault(shard, Shard()).expired += 1
