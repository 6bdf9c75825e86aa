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
from loghistory.vocabularies.read_path import AnswerWord, GraceWord, RewindWord, ShardWord

from ..codes import MAX_OFFSET, REASONS, code, word_code
from ..columns import Ints
from ..hashing import row_of
from ..words import Words
from . import hearing
from .event_log import WORDS, Lost, folded, is_empty_now
from .hearing import NOBODY, OF_STREAMS, Rows
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

(_SETTINGS, _STATUSES, _METADATA, _START, _STARTED, _CLOSED, _HEARD, _REWIND, _GRACE, _REJECT) = map(code, OF_STREAMS)
_NODESET, _EVENT_LOG, _TAKES_PART = map(code, (Kind.NODESET, Kind.EVENT_LOG, Kind.TAKES_PART))
_RECORD = code(Kind.STREAM_RECORD)
_LOST = REASONS[ShardWord.LOST]
_OK = REASONS[AnswerWord.OK]
_AWAY = (UNDERREPLICATION, UNAVAILABLE)
_DUE, _BEGUN, _OVER = (word_code(word) for word in (RewindWord.DUE, GraceWord.BEGUN, GraceWord.OVER))
_ONCE_MORE = 2
"""A shard that let so many grace periods and one more pass is not waited for again."""
OVERDUE = 5 * 10**9
"""Nanoseconds after which a grace period does not run any more, however busy a real process is."""


class Settings(msgspec.Struct, frozen=True):
    """How a reader reads, as it says."""

    grace: int
    in_flight: int
    require_full_read_set: bool
    guaranteed_delivery_efficiency: bool
    single_copy: bool = False
    """Whether single-copy delivery is configured; runs recorded earlier do not say."""


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
    row: int = NOBODY
    """Where the loop that hears keeps the first five (`hearing`)."""


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
    trimmed: int = -1
    refused: bool = False
    rewinding: int = -1
    emptied: int = -1
    """The event by which it learned that a shard became empty, until it asks anew (read-path.md#empty-rewinds)."""
    listed: int = 0
    single: bool = False
    """Whether it reads in single-copy delivery now."""
    asked_again: int = -1
    """The LSN from which on it asked all shards at its last rewind."""
    grace: Grace | None = None
    waits: Grace | None = None
    """The grace period that has not ended yet, whatever was delivered since."""
    rejected: int = -1
    """The LSN that the application did not take, and that comes next."""
    row: int = NOBODY

    def status(self, shard: int) -> int:
        """The status that counts for a shard (read-path.md#reader-statuses)."""
        each = self.shards.get(shard)
        if each is not None and each.reading:
            return FULLY_AUTHORITATIVE
        return self.statuses.get(shard, FULLY_AUTHORITATIVE)

    def statuses_of(self, nodeset: Nodeset) -> dict[int, int]:
        """The statuses of the shards of a nodeset."""
        return {shard: self.status(shard) for shard in members(nodeset.shards)}

    @property
    def recorded(self) -> bool:
        """Whether the record of it shows where it began, whom it asked and what it heard."""
        return self.first >= 0 and self.asks and self.hears

    @property
    def rewound_by(self) -> tuple[Kind, ...]:
        """The kinds of events by which it is known when it rewinds, if it must have."""
        anew = any(each.filter > 1 for each in self.shards.values())  # what only a rewind asks for
        return (Kind.STREAM_REWIND,) if anew else ()

    def busy(self, now: int) -> bool:
        """Whether it waits for something else than an answer: its application, a rewind, a grace period, one of the
        logs that say where records lie and whose answers count."""
        begun = self.grace.begun if self.grace is not None and self.grace.over < 0 else None
        in_grace = begun is not None and (self.settings is None or now - begun <= self.settings.grace + OVERDUE)
        trimmed = self.trimmed >= self.position
        ignorant = epoch_of(self.trimmed + 1 if trimmed else self.position) > self.known_epoch
        ignorant = ignorant or self.answers[0] > self.version
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

    def may_go_on(self, lsn: int, nodeset: Nodeset) -> bool:
        """Whether a gap at the next LSN follows from what was said, grace periods apart; where it ends must be known.

        In single-copy delivery none does: shards that say nothing are passed over after a while.
        """
        end = self._nearest_end(lsn)
        if self.single or end < 0 or epoch_of(end) > self.known_epoch:
            return False
        verdict, patient = self.verdict(lsn, nodeset), self.settings is None or self.settings.require_full_read_set
        return verdict >= NON_AUTH or (verdict == INCOMPLETE and not patient)

    def asks_where_records_lie(self, lsn: int) -> bool:
        """Whether a gap at an LSN would end in an epoch of which the reader has yet to hear where its records lie."""
        end = self._nearest_end(lsn)
        return end >= 0 and epoch_of(end) > self.known_epoch

    def _nearest_end(self, lsn: int) -> int:
        """Where a gap at an LSN would end, by what was heard; -1 if nobody is beyond it."""
        ends = [each.unsure if lsn < each.unsure else each.next for each in self.shards.values() if lsn < each.next]
        return min(ends, default=-1)

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


class Streams:
    """All streams of a run, by what is recorded of them."""

    def __init__(self, words: Words, compiled: bool) -> None:
        self._words = words
        self._compiled = compiled
        self._skim = hearing.skim.often(compiled)
        self.nodesets = Nodesets(words)
        self._logged: dict[int, Mapping[int, int]] = {}
        self._emptied: dict[int, int] = {}  # by version: how often a shard had become empty by then
        self._newest: Mapping[int, int] = {}
        self._said = 0  # the newest version of the event log that came with an answer, whoever's
        self._given_up = MAX_OFFSET  # the version of the event log by which copysets may differ for good
        self._word_of = {words.code(word): word for word in WORDS}
        self._lost: dict[int, Lost] = {}
        self._amended: dict[int, bool] = {0: False}
        """Whether copysets are amended at a version; of those up to which all records are known."""
        self._whole = True  # whether that is up to the last one
        self._of: dict[int, Stream] = {}
        self._hearing = hearing.nothing_heard()

    # -- what the loop does --------------------------------------------------------------------------------------------

    def make_room(self, rows: Rows) -> None:
        """Make room for what these events may add."""
        self._hearing = hearing.with_events(self._hearing, rows)

    def skim(self, rows: Rows, at: int, judged: Ints) -> int:
        """Take what streams hear, and the records that they heard and deliver; the place of the first other event."""
        at = self._skim(rows, at, self._hearing, judged)
        while at < len(rows.kind) and rows.kind[at] in (_HEARD, _RECORD) and int(rows.op[at]) not in self._of:
            self.of(int(rows.op[at]))
            at = self._skim(rows, at, self._hearing, judged)
        return at

    def of(self, op: int) -> Stream:
        """The stream with this number, and all that it has heard by now; `keep` keeps what becomes of it."""
        stream = self._of.get(op)
        if stream is None:
            stream = self._of[op] = Stream()
            self._hearing = hearing.with_stream(self._hearing, self._compiled)
        stream.row = row = hearing.stream_row(self._hearing, op)
        by_stream, by_shard = self._hearing.streams, self._hearing.shards
        stream.position, stream.hears = by_stream.position.item(row), bool(by_stream.hears[row])
        stream.answers = by_stream.version.item(row), by_stream.answer.item(row)
        stream.trimmed, stream.refused = by_stream.trimmed.item(row), bool(by_stream.refused[row])
        if by_stream.moved[row]:
            stream.grace, by_stream.moved[row] = None, 0
        for each in stream.shards.values():
            each.next, each.unsure = by_shard.next.item(each.row), by_shard.unsure.item(each.row)
            each.reading, each.expired = bool(by_shard.reading.item(each.row)), by_shard.expired.item(each.row)
        return stream

    def keep(self, stream: Stream) -> None:
        """Hand on what became of a stream to the loop."""
        new = [shard for shard, each in stream.shards.items() if each.row < 0]
        if new:
            self._hearing = hearing.with_shards(self._hearing, len(new), self._compiled)
        by_stream, by_shard = self._hearing.streams, self._hearing.shards
        for shard in new:
            key = hearing.key_of(int(by_stream.life[stream.row]), shard)
            stream.shards[shard].row = row_of(self._hearing.peers, self._hearing.run[hearing.SHARDS :], key)
        by_stream.position[stream.row] = stream.position
        by_stream.version[stream.row], by_stream.answer[stream.row] = stream.answers
        for each in stream.shards.values():
            by_shard.filter[each.row], by_shard.next[each.row] = each.filter, each.next
            by_shard.unsure[each.row], by_shard.reading[each.row] = each.unsure, each.reading
            by_shard.expired[each.row] = each.expired

    def heard(self, stream: Stream, lsn: int) -> int:
        """What lies at an LSN, by column ``record``, that a stream has heard and not delivered; `NOBODY` if nothing."""
        return hearing.heard_at(self._hearing, stream.row, lsn)

    def moved(self, stream: Stream, last: int) -> None:
        """A stream has delivered all up to an LSN."""
        hearing.delivered(self._hearing, stream.row, last)
        stream.position, stream.grace = last + 1, None

    # -- what else happens ---------------------------------------------------------------------------------------------

    def begins(self, e: Rows) -> Stream:
        """A client asks for a stream."""
        row = self.of(e.op).row
        hearing.delivered(self._hearing, row, MAX_OFFSET)
        for name, column in zip(self._hearing.streams._fields, self._hearing.streams, strict=True):
            column[row] = hearing.blank(name)
        # A stream of one LSN looks like one without an end.
        until = e.last_offset if e.last_offset != e.offset else None
        self._of[e.op] = Stream(e.offset, until=until, node=e.node)
        stream = self.of(e.op)
        stream.position = e.offset
        return stream

    def surroundings(self, e: Rows) -> bool:
        """Take an event of the surroundings of streams; whether it is one."""
        if e.kind == _NODESET:
            self.nodesets.learn(e.epoch, e.value)
        elif e.kind == _EVENT_LOG:
            statuses = statuses_said(self._words.text(e.value))
            self._event_log(e.version, statuses)
            self._donors(e.version, self._word_of.get(e.f), e.peer, statuses)
        elif e.kind == _TAKES_PART:
            if e.reason == _LOST and self._newest.get(e.node) != AUTHORITATIVE_EMPTY:
                self._hearing.run[hearing.WITHOUT_DATA] |= mask_of((e.node,))
        else:
            return False
        return True

    def take(self, stream: Stream, e: Rows) -> None:
        """Take an event of a stream."""
        if e.kind == _SETTINGS:
            stream.settings = settings_said(self._words.text(e.value))
        elif e.kind == _STATUSES:
            self._learns(stream, e)
        elif e.kind == _METADATA:
            self._knows(stream, e.epoch)
        elif e.kind == _START:
            self._start(stream, e)
        elif e.kind == _STARTED:
            self._started(stream, e)
        elif e.kind == _CLOSED:
            stream.shards.setdefault(e.peer, Shard()).reading = False
        elif e.kind == _REWIND:
            self._rewinds(stream, e)
        elif e.kind == _GRACE:
            self._grace(stream, e)
        elif e.kind == _REJECT:
            stream.rejected = e.offset

    def _event_log(self, version: int, statuses: Mapping[int, int]) -> None:
        """The event log has another record; the one before it is needed to tell who became empty."""
        before, times = self._logged.get(version - 1), self._emptied.get(version - 1, 0)
        if before is not None or version == 1:
            now = {shard for shard, status in statuses.items() if status == AUTHORITATIVE_EMPTY}
            was = {shard for shard, status in (before or {}).items() if status == AUTHORITATIVE_EMPTY}
            times += len(now - was)
            if _is_given_up(before or {}, statuses):
                self._given_up = min(self._given_up, version)
        self._logged[version], self._emptied[version] = statuses, times
        self._newest = statuses
        empty = mask_of(shard for shard, status in statuses.items() if status == AUTHORITATIVE_EMPTY)
        self._hearing.run[hearing.WITHOUT_DATA] &= ~empty

    def _donors(self, version: int, word: str | None, shard: int, statuses: Mapping[int, int]) -> None:
        """Donors begin, go on or are done; the statuses do not tell, where a shard is drained."""
        self._whole = self._whole and version == len(self._amended) and word is not None
        if not self._whole or word is None:
            return
        under_way = self._amended[version - 1]
        if folded(self._lost, word, shard) and under_way:
            self._given_up = min(self._given_up, version)
        for each, lost in self._lost.items():
            lost.empty = lost.empty or is_empty_now(word, statuses.get(each, FULLY_AUTHORITATIVE))
        self._amended[version] = any(not lost.empty for lost in self._lost.values())

    def known_by(self, stream: Stream) -> tuple[Kind, ...]:
        """The kinds of events by which the statuses of shards are known, of those that there must have been."""
        some = max(stream.version, stream.answers[0], self._said, len(self._logged)) > 0
        versions = (Kind.EVENT_LOG, Kind.STREAM_STATUSES) if some else ()
        closing = any(each.reading for shard, each in stream.shards.items() if stream.statuses.get(shard))
        return (*versions, Kind.STREAM_CLOSED) if closing else versions

    def may_differ(self, stream: Stream) -> bool:
        """Whether, as it knows, copies of a record may name different copysets (read-path.md#guaranteed-delivery)."""
        asked = [each for each in stream.shards.values() if each.filter >= 0]
        rebuilt = any(status in _AWAY for status in stream.statuses.values())
        rebuilt = rebuilt or self._amended.get(stream.version, False)
        return rebuilt or stream.version >= self._given_up or any(each.version != stream.version for each in asked)

    def _learns(self, stream: Stream, e: Rows) -> None:
        """The statuses of a version: who became empty since the last one may have copies elsewhere now."""
        version = e.version
        empties = self._emptied.get(version, 0) > self._emptied.get(stream.version, 0)
        if stream.learned and empties and any(each.filter >= 0 for each in stream.shards.values()):
            stream.emptied = e.seq
        stream.version, stream.statuses, stream.learned = version, self._logged.get(version, {}), True

    def _knows(self, stream: Stream, epoch: int) -> None:
        """The nodesets of the epochs up to this one are known; who is not of the newest is not asked any more."""
        stream.known_epoch = max(stream.known_epoch, epoch)
        nodeset = self.nodesets.of(stream.known_epoch)
        if nodeset is not None:
            for shard in [s for s in stream.shards if not nodeset.shards >> s & 1]:
                self._hearing.shards.filter[stream.shards.pop(shard).row] = -1

    @staticmethod
    def _start(stream: Stream, e: Rows) -> None:
        """START sets where the shard begins, and what it may lack to nothing."""
        stream.asks = True
        each = stream.shards.setdefault(e.peer, Shard())
        each.filter, each.next, each.unsure, each.reading = e.filter, e.offset, 0, False
        each.version, each.single = stream.version, e.shards >= 0
        stream.single = each.single
        if each.single:
            stream.listed = e.shards

    def _started(self, stream: Stream, e: Rows) -> None:
        self._said = max(self._said, e.version)
        each = stream.shards.get(e.peer)
        if each is None or each.filter != e.filter:
            return
        if e.reason == _OK and mask_of((e.peer,)) & int(self._hearing.run[hearing.WITHOUT_DATA]):
            return
        each.expired = 0
        each.reading = each.reading or e.reason == _OK
        stream.answers = max(stream.answers, (e.version, e.seq))

    def _rewinds(self, stream: Stream, e: Rows) -> None:
        if e.f == _DUE:
            stream.rewinding = e.seq
            return
        stream.rewinding = stream.emptied = -1
        stream.grace, stream.rejected = None, -1
        stream.listed, stream.single = max(e.shards, 0), e.shards >= 0
        position = stream.asked_again = stream.position
        self.moved(stream, MAX_OFFSET)
        stream.position = position
        for each in stream.shards.values():
            each.filter, each.next, each.unsure = -1, 0, 0

    def _grace(self, stream: Stream, e: Rows) -> None:
        f, lsn, time = e.f, e.offset, e.time
        stream.waits = Grace(lsn, time, -1, e.seq) if f == _BEGUN else None
        if f == _BEGUN:
            stream.grace = stream.waits
        elif f != _OVER or stream.grace is None or stream.grace.lsn != lsn:
            stream.grace = None
        else:
            stream.grace = stream.grace._replace(over=time)
            nodeset = self.nodesets.of(epoch_of(lsn))
            for shard in members(0 if nodeset is None else stream.silent(lsn, nodeset)):
                stream.shards.setdefault(shard, Shard()).expired += 1


def _is_given_up(before: Mapping[int, int], now: Mapping[int, int]) -> bool:
    """Whether shards were being rebuilt, and donors begin anew, for others or without one that has its data."""
    away = {shard for shard, status in before.items() if status in _AWAY}
    others = {shard for shard, status in now.items() if status in _AWAY} - away
    return bool(away) and (bool(others) or any(now.get(shard) == FULLY_AUTHORITATIVE for shard in away))
