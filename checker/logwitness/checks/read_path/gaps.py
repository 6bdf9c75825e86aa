"""Gaps that readers deliver: each follows from what shards sent, is of the type that follows, and comes in time.

Sources: read-path.md#gap-has-verdict, read-path.md#gap-detection, read-path.md#no-gap-too-early.
"""

from __future__ import annotations

from loghistory.schema import Kind
from loghistory.vocabularies.read_path import GapWord, RecordWord

from ..codes import INVOKE, OK, RECORDS, code
from ..contract import Check, Family, Setting
from .hearing import FILTERED, IS_WANTED, KINDS, LEFT, NOBODY, Rows
from .nodesets import INCOMPLETE, NON_AUTH, VERDICTS, Nodeset, members
from .protocol import BRIDGE, GAP, READ_PATH, StreamFold, epoch_of, esn_of, shown
from .streams import OVERDUE, Grace, Settings, Stream, Streams

VERDICT = Check(
    id="gap-has-verdict",
    rule="What is delivered follows from what shards have sent since each START: a record, a hole, a bridge record, a "
    "trim point, or at each LSN of a gap an f-majority or all shards that have their data; INCOMPLETE waited its grace "
    "period.",
    source=("read-path.md#gap-has-verdict", "read-path.md#gap-verdict", "read-path.md#gap-grace"),
    fact="a record or a gap delivered",
    sentence={
        "record": "Stream {op} delivered a record at {lsn}, which no shard has sent since it was asked.",
        "unsent": "Stream {op} delivered a gap {gap} at {lsn} that no shard had reported.",
        "none": "Stream {op} delivered a gap {gap} over {lsn}, but shards {silent} had not answered there.",
        "grace": "Stream {op} delivered a gap {gap} at {lsn} without waiting for shards {silent}.",
        "said": "Stream {op} delivered a gap {gap} at {lsn} as {said}, but the answers say {verdict}.",
    },
    kinds=(Kind.INVOKE, Kind.STREAM_START, Kind.STREAM_HEARD),
    columns=("op", "offset"),
    looks_back=True,
)
TYPE = Check(
    id="gap-has-type",
    rule="A gap that follows from answers is of the type that they give it: a loss inside an epoch, a bridge between "
    "epochs; a loss counts each of its LSNs.",
    source=(
        "read-path.md#gap-all-lost",
        "read-path.md#gap-trimmed",
        "read-path.md#gap-bridge",
        "read-path.md#gap-data-loss",
    ),
    fact="a gap that follows from answers, not cut short by the end of its stream",
    sentence={
        "type": "Stream {op} delivered all from {lsn} to {last} as {gap}, but it is {type}.",
        "lost": "Stream {op} reported {count} records as lost from {lsn} to {last}.",
    },
    kinds=(Kind.INVOKE, Kind.NODESET, Kind.STREAM_SETTINGS, Kind.STREAM_HEARD, Kind.STREAM_GAP),
    columns=("op", "offset"),
    looks_back=True,
)
EARLY = Check(
    id="no-gap-too-early",
    rule="No gap is issued while a rewind is due, while its nodesets are unknown, by statuses older than an answer, or "
    "in single-copy delivery, unless its efficiency is guaranteed; where that is configured, no loss is reported "
    "before all shards have been asked once more.",
    source=(
        "read-path.md#no-gap-too-early",
        "read-path.md#no-gap-in-scd",
        "read-path.md#guaranteed-delivery",
        "read-path.md#first-loss-rewinds",
    ),
    fact="a gap that is no record",
    sentence={
        "rewind": "Stream {op} delivered a gap {gap} at {lsn} while a rewind was due.",
        "metadata": "Stream {op} delivered a gap {gap} up to {last}, but knew the nodesets only up to epoch {known}.",
        "statuses": "Stream {op} delivered a gap {gap} at {lsn} by the statuses of version {known}, but had an answer "
        "of version {newer}.",
        "single": "Stream {op} delivered a gap {gap} at {lsn} in single-copy delivery.",
        "first": "Stream {op} delivered a gap {gap} at {lsn} without asking all shards for it once more.",
    },
    kinds=(Kind.INVOKE, Kind.STREAM_METADATA, Kind.STREAM_START, Kind.STREAM_HEARD, Kind.STREAM_GAP),
    columns=("op", "offset"),
    looks_back=True,
)
STALL = Check(
    id="progress-or-stall",
    rule="A stream comes to its end, or waits for shards that have their data and have not answered; no grace period "
    "lasts longer than it should.",
    source=("read-path.md#progress-or-stall", "read-path.md#gap-grace"),
    fact="a stream that came to its end, or that waits where it has waited for a while, or a grace period that ended",
    sentence={
        "nobody": "Stream {op} waits at {lsn}, but for no shard's answer.",
        "other": "Stream {op} waits at {lsn} for shards {shards}, whose answers would change nothing.",
        "due": "Stream {op} waits at {lsn}, although it could go on.",
        "grace": "A grace period of {grace} s of stream {op} lasted {lasted} s, at {lsn}.",
    },
    kinds=(Kind.INVOKE,),
    columns=("op", "offset"),
    looks_back=True,
)
CHECKS = (VERDICT, TYPE, EARLY, STALL)

_GAP, _RECORD = code(Kind.STREAM_GAP), code(Kind.STREAM_RECORD)
_STALL, _GRACE = code(Kind.STREAM_STALL), code(Kind.STREAM_GRACE)
_REFUSALS = (GAP[GapWord.ACCESS], GAP[GapWord.NOT_IN_CONFIG])
_RECORDS = {GAP[GapWord.HOLE]: RECORDS[RecordWord.HOLE], GAP[GapWord.FILTERED_OUT]: FILTERED}
_LOSS, _TRIM, _BRIDGE = (GAP[each] for each in (GapWord.DATALOSS, GapWord.TRIM, GapWord.BRIDGE))
_WORDS = {code_: word for word, code_ in GAP.items()}
_EARLIER = 8
"""A grace period may be shorter than it should by one in so many: clocks of real processes are set."""


def type_of(stream: Stream, last: int, nodeset: Nodeset, settings: Settings) -> int:
    """The type of a gap from the next LSN up to ``last``, by the first rule that fits (read-path.md#gap-all-lost)."""
    end = last + 1
    if stream.all_lost(nodeset):
        return _LOSS
    if last <= stream.trimmed:
        return _TRIM
    begins = stream.position == stream.first or epoch_of(stream.position - 1) < epoch_of(end)
    if esn_of(end) <= settings.in_flight and begins:
        return _BRIDGE
    return _LOSS if epoch_of(stream.position) == epoch_of(end) else _BRIDGE


class GapFold(StreamFold[Rows]):
    """Judges gaps by their evidence; see the module."""

    checks = CHECKS
    wanted = IS_WANTED
    left = LEFT

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, Rows)
        self._streams = Streams(setting.words, setting.compiled)

    def make_room(self, rows: Rows) -> None:
        """See `StreamFold`."""
        self._streams.make_room(rows)

    def skim(self, rows: Rows, at: int) -> int:
        """See `StreamFold`."""
        return self._streams.skim(rows, at, self.judged)

    def take(self, e: Rows) -> None:
        """See `StreamFold`."""
        if self._streams.surroundings(e):
            return
        stream = self._streams.begins(e) if e.kind == INVOKE else self._streams.of(e.op)
        if e.kind == _GAP:
            self._gap(stream, e)
        elif e.kind == _RECORD:
            self._unheard(stream, e)
        elif e.kind == _STALL:
            self._stalls(stream, e)
        elif e.kind == OK:
            self.tallies[STALL.id].judged += stream.first >= 0
        else:
            if e.kind == _GRACE and stream.waits is not None and stream.settings is not None:
                self._waited(stream.waits, stream.settings, e)
            self._streams.take(stream, e)
        self._streams.keep(stream)

    # -- gaps ----------------------------------------------------------------------------------------------------------

    def _gap(self, stream: Stream, e: Rows) -> None:
        lsn, last, f = e.offset, e.last_offset, e.f
        stream.position = lsn  # whether it is the next one is for another check
        at_end, here = last == stream.until, self._streams.heard(stream, lsn)
        if f in _REFUSALS:
            self._verdict(stream, stream.refused, e)
        elif f in _RECORDS:
            self._verdict(stream, here == _RECORDS[f] and lsn == last, e)
        elif f == _BRIDGE and here == BRIDGE and (at_end or last == (epoch_of(lsn) + 1 << 32) - 1):
            self._verdict(stream, True, e)
            if stream.known_epoch >= 0:
                stream.known_epoch = max(stream.known_epoch, epoch_of(lsn))
        elif f == _TRIM:
            self._verdict(stream, last <= stream.trimmed, e)
            self._knows(stream, e)
        elif f == _BRIDGE and self._begins_epoch(stream, lsn, last):
            self._verdict(stream, True, e)
            self._knows(stream, e)
        elif not (f == _BRIDGE and lsn == stream.first and last <= 1 << 32):
            self._follows(stream, e)
            self._type(stream, e)
            self._early(stream, e)
        self._streams.moved(stream, last)

    def _begins_epoch(self, stream: Stream, lsn: int, last: int) -> bool:
        """Whether the gap is what lies before the first record of an epoch (read-path.md#bridge-at-begin)."""
        begins = esn_of(lsn) == 0 or lsn == stream.first
        follows = epoch_of(lsn) == epoch_of(last) and esn_of(last + 1) == 1
        return begins and follows and self._streams.heard(stream, last + 1) != NOBODY

    def _unheard(self, stream: Stream, e: Rows) -> None:
        """A record that no shard has sent since the stream asked."""
        tally = self.tallies[VERDICT.id]
        if stream.recorded:
            tally.judged += 1
            found = {"op": e.op, "lsn": shown(e.offset)}
            tally.violation(e.seq, way="record", rests_on=self._streams.known_by(stream), **found)
        else:
            tally.unjudged += 1
        self._streams.moved(stream, e.offset)

    def _verdict(self, stream: Stream, right: bool, e: Rows) -> None:
        tally = self.tallies[VERDICT.id]
        if not stream.recorded:
            tally.unjudged += 1
            return
        tally.judged += 1
        if not right:
            found = {"op": e.op, "gap": _word(e.f), "lsn": shown(e.offset)}
            tally.violation(e.seq, way="unsent", rests_on=self._streams.known_by(stream), **found)

    def _follows(self, stream: Stream, e: Rows) -> None:
        """At every LSN of the gap the answers suffice; who was to be waited for was waited for."""
        tally, lsn, last = self.tallies[VERDICT.id], e.offset, e.last_offset
        nodeset = self._streams.nodesets.of(epoch_of(lsn))
        if nodeset is None or not stream.recorded:
            tally.unjudged += 1
            return
        tally.judged += 1
        found = {"op": e.op, "gap": _word(e.f)}
        for step in stream.steps(last):
            each = self._streams.nodesets.of(epoch_of(step)) or nodeset
            if stream.verdict(step, each) < INCOMPLETE:
                silent = [*members(stream.silent(step, each))]
                rests_on = self._streams.known_by(stream)
                tally.violation(e.seq, way="none", rests_on=rests_on, lsn=shown(step), silent=silent, **found)
                return
        verdict, said = stream.verdict(lsn, nodeset), self.words.text(e.value)
        if said is not None and said != VERDICTS[verdict]:
            found |= {"lsn": shown(lsn), "said": said, "verdict": VERDICTS[verdict]}
            tally.violation(e.seq, way="said", rests_on=self._streams.known_by(stream), **found)
        elif verdict == INCOMPLETE and stream.settings is not None and self._hurries(stream, nodeset, e):
            silent = [*members(stream.worth_waiting(lsn, nodeset))]
            rests_on = (*self._streams.known_by(stream), Kind.STREAM_GRACE)
            tally.violation(e.seq, way="grace", rests_on=rests_on, lsn=shown(lsn), silent=silent, **found)

    @staticmethod
    def _hurries(stream: Stream, nodeset: Nodeset, e: Rows) -> bool:
        """Whether a gap that is INCOMPLETE had to wait, and did not (read-path.md#gap-grace)."""
        assert stream.settings is not None
        lsn, settings, grace = e.offset, stream.settings, stream.grace
        if settings.require_full_read_set:
            return True
        if grace is not None and grace.lsn == lsn and grace.over - grace.begun >= settings.grace * (1 - 1 / _EARLIER):
            return False
        skips = e.f == _BRIDGE and lsn != stream.first
        return settings.grace > 0 and not skips and stream.trimmed < lsn and stream.worth_waiting(lsn, nodeset) > 0

    def _type(self, stream: Stream, e: Rows) -> None:
        tally, lsn, last = self.tallies[TYPE.id], e.offset, e.last_offset
        nodeset = self._streams.nodesets.of(epoch_of(lsn))
        if nodeset is None or stream.settings is None or not stream.recorded or last == stream.until:
            tally.unjudged += 1
            return
        tally.judged += 1
        due, found = (
            type_of(stream, last, nodeset, stream.settings),
            {"op": e.op, "lsn": shown(lsn), "last": shown(last)},
        )
        if due != e.f:
            tally.violation(e.seq, way="type", gap=_word(e.f), type=_word(due), **found)
        elif e.records and e.records != last - lsn + 1:
            tally.violation(e.seq, way="lost", count=e.records, **found)

    # -- too early -----------------------------------------------------------------------------------------------------

    def _knows(self, stream: Stream, e: Rows) -> bool:
        """The nodesets of the epochs that the gap reaches into are known."""
        tally, last = self.tallies[EARLY.id], e.last_offset
        if stream.known_epoch < 0 or not stream.recorded:
            tally.unjudged += 1
            return False
        tally.judged += 1
        if epoch_of(last) <= stream.known_epoch:
            return True
        found = {"op": e.op, "gap": _word(e.f), "known": stream.known_epoch}
        tally.violation(e.seq, way="metadata", last=shown(last), **found)
        return False

    def _early(self, stream: Stream, e: Rows) -> None:
        tally, seq = self.tallies[EARLY.id], e.seq
        if not self._knows(stream, e):
            return
        found = {"op": e.op, "gap": _word(e.f), "lsn": shown(e.offset)}
        newer, answer = stream.answers
        due = stream.rewinding if stream.rewinding >= 0 else stream.emptied
        if due >= 0:
            tally.violation(due, seq, way="rewind", rests_on=stream.rewound_by, **found)
        elif newer > stream.version:
            found |= {"known": stream.version, "newer": newer}
            tally.violation(answer, seq, way="statuses", rests_on=(Kind.STREAM_STATUSES,), **found)
        elif any(each.single and each.filter >= 0 for each in stream.shards.values()) and not self._guaranteed(
            stream, e.offset
        ):
            tally.violation(seq, way="single", **found)
        elif e.f == _LOSS and self._is_first(stream, e.offset):
            tally.violation(seq, way="first", rests_on=(Kind.STREAM_RECORD, Kind.STREAM_REWIND), **found)

    @staticmethod
    def _is_first(stream: Stream, lsn: int) -> bool:
        """Whether a loss is issued when it is first found, where it had to be looked for again."""
        settings = stream.settings
        looks_again = settings is not None and settings.single_copy and not settings.guaranteed_delivery_efficiency
        return looks_again and stream.asked_again != lsn

    def _guaranteed(self, stream: Stream, lsn: int) -> bool:
        """Whether a gap may be issued without asking all for all (read-path.md#guaranteed-delivery)."""
        nodeset = self._streams.nodesets.of(epoch_of(lsn))
        if stream.settings is None or nodeset is None:
            return True
        if not stream.settings.guaranteed_delivery_efficiency or self._streams.may_differ(stream):
            return False
        unsure, silent = stream.unsure(lsn, nodeset), stream.silent(lsn, nodeset)
        return not unsure & ~stream.listed and (stream.verdict(lsn, nodeset) >= NON_AUTH or not silent & ~stream.listed)

    # -- stalls --------------------------------------------------------------------------------------------------------

    def _stalls(self, stream: Stream, e: Rows) -> None:
        tally, lsn, shards, seq = self.tallies[STALL.id], e.offset, max(e.shards, 0), e.seq
        nodeset = self._streams.nodesets.of(epoch_of(lsn))
        if nodeset is None or not stream.recorded or stream.busy(e.time):
            tally.unjudged += 1
            return
        full = {s for s, status in stream.statuses_of(nodeset).items() if status in _FULL}
        useful = {shard for shard in members(stream.silent(lsn, nodeset)) if shard in full}
        if not useful and stream.silent(lsn, nodeset) == nodeset.shards:
            tally.unjudged += 1  # all are lost, and nobody has told how far the log goes
            return
        heard = self._streams.heard(stream, lsn) != NOBODY
        if not shards and not heard and stream.asks_where_records_lie(lsn):
            tally.unjudged += 1
            return
        tally.judged += 1
        found, rests_on = {"op": e.op, "lsn": shown(lsn)}, stream.rewound_by
        if heard:
            tally.violation(seq, way="due", rests_on=rests_on, **found)
        elif not shards:
            tally.violation(seq, way="nobody", rests_on=rests_on, **found)
        elif stream.may_go_on(lsn, nodeset):
            if stream.settings is not None and stream.settings.grace:
                rests_on = (*rests_on, Kind.STREAM_GRACE)  # a stream that waits for the end of one is busy
            tally.violation(seq, way="due", rests_on=rests_on, **found)
        elif not {*members(shards)} <= useful:
            tally.violation(seq, way="other", shards=[*members(shards)], rests_on=rests_on, **found)

    def _waited(self, grace: Grace, settings: Settings, e: Rows) -> None:
        """A grace period has ended, or another one begun."""
        tally, lasted = self.tallies[STALL.id], e.time - grace.begun
        tally.judged += 1
        if lasted > settings.grace + OVERDUE:
            found = {"grace": f"{settings.grace / 1e9:g}", "lasted": f"{lasted / 1e9:.3f}"}
            tally.violation(grace.seq, e.seq, way="grace", op=e.op, lsn=shown(e.offset), **found)


_FULL = (0, 3)


def _word(f: int) -> str:
    return _WORDS.get(f, "of an unknown type")


FAMILY = Family(
    "read_path_gaps",
    CHECKS,
    KINDS,
    (
        *("node", "op", "peer", "f", "offset", "last_offset", "value", "record", "epoch", "version", "filter"),
        *("shards", "count", "reason", "time"),
    ),
    GapFold,
    READ_PATH,
    reads_texts=True,
)
