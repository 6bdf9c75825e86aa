"""What clients were told, each answer against all others. Sources: history-checks.md#anomalies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from excuses import EMPTY, empties, faults, may_be_lost, one_leader, unflushed_lost
from lives import FOR_EVER
from plain import ALL, EXCUSED, GONE, JUDGED, READS, UNJUDGED, VIOLATED, Count, Event, History, Plain, once

NONE_PROMISED = 0
SHOWS_COMMITTED = ("read_committed", "read_linearizable")
"""Reads that return what is committed, which nobody loses."""


@dataclass(eq=False)
class Operation:
    """An operation of a client: how it began, what it was given, how it ended."""

    begun: Event
    seen: list[Event] = field(default_factory=list)
    ended: Event | None = None


@dataclass(eq=False)
class Value:
    """A value that was appended or read."""

    name: int
    tries: list[Operation] = field(default_factory=list)
    reads: list[Event] = field(default_factory=list)
    final: bool = False
    """A final read returned it."""
    shown: int | None = None
    """When a committed or linearizable read returned it first."""

    @property
    def begun(self) -> int:
        """When its first append began; before everything if none did."""
        return self.tries[0].begun.seq if self.tries else -1

    @property
    def acks(self) -> int:
        """What its first append asked for."""
        asked = self.tries[0].begun.acks if self.tries else None
        return ALL if asked is None else asked

    @property
    def placed(self) -> list[Event]:
        """Its acknowledgements that told an offset, in order."""
        ends = [o.ended for o in self.tries if o.ended and o.ended.kind == "ok"]
        return sorted((e for e in ends if e.offset is not None and e.offset >= 0), key=lambda e: int(e.seq))

    @property
    def acked(self) -> Event | None:
        """The first acknowledgement that told its offset."""
        return next(iter(self.placed), None)

    @property
    def last(self) -> int:
        """The last offset that it fills by its acknowledgement."""
        e = self.acked
        assert e
        return max(e.last, e.offset + (self.tries[0].begun.count or 0) - 1)


class Clients(NamedTuple):
    """What clients asked and were told."""

    operations: list[Operation]
    values: dict[int, Value]


@once
def clients(history: History) -> Clients:
    """Each client has one open operation; ``ok`` and ``fail`` end it, and only a read is given something."""
    open_: dict[int, Operation] = {}
    operations: list[Operation] = []
    values: dict[int, Value] = {}
    for e in history.events:
        if e.process is None:
            continue
        if e.kind == "invoke":
            open_[e.process] = Operation(e)
            operations.append(open_[e.process])
            if e.f == "append" and e.value is not None:
                values.setdefault(e.value, Value(e.value)).tries.append(operations[-1])
        operation = open_.get(e.process)
        if operation is None:
            continue
        if e.kind == "observe" and operation.begun.f in READS:
            operation.seen.append(e)
            if e.value is not None:
                value = values.setdefault(e.value, Value(e.value))
                value.reads.append(e)
                value.final = value.final or operation.begun.f == "final_read"
                if operation.begun.f in SHOWS_COMMITTED and value.shown is None:
                    value.shown = e.seq
        elif e.kind in ("ok", "fail"):
            open_.pop(e.process).ended = e
    return Clients(operations, values)


def _weak(history: History, value: Value, by: int) -> bool:
    """Whether a value goes with what is not flushed: only a wiped disk takes what was shown as committed by then."""
    committed = value.shown is not None and value.shown <= by
    return (value.acks != ALL or history.write_caching) and not committed


def may_be_gone(history: History, value: Value, there: int, offset: int, until: int) -> bool:
    """Whether a value that was at an offset by one event may be lost by another one without breaking a promise."""
    weak = _weak(history, value, until)
    return may_be_lost(history, value.begun, there, offset, until, weak=weak)


def _gone_at_end(history: History, value: Value) -> bool:
    """Whether it may be lost at the last look of readers; shown as committed counts if it was so before that began."""
    begun = [o.begun.seq for o in _final_reads(history)]
    weak = _weak(history, value, max(begun) - 1 if begun else FOR_EVER)
    return _lost_at_end(history, value, weak=weak)


def _lost_at_end(history: History, value: Value, *, weak: bool) -> bool:
    """Whether a fault may have taken it by the last look of readers."""
    there = value.acked or (value.reads[0] if value.reads else None)
    known, offset = (there.seq, there.offset) if there else (FOR_EVER, _place(value)[0])
    return may_be_lost(history, value.begun, known, offset, _last_look(history), weak=weak, by=FOR_EVER)


def _differ(history: History, one: Value, since: int, other: Value, e: Event) -> Count:
    """Two values are told at one offset, one by an event, the other by a later one; either may have been lost, and a
    copy of it be read for a while."""
    gone = may_be_gone(history, one, since, e.offset, e.seq) or may_be_gone(history, other, e.seq, e.offset, e.seq)
    return EXCUSED if gone else VIOLATED


def inconsistent_offset(history: History) -> Count:
    """What is read or acknowledged at an offset is compared with what was read and acknowledged there last."""
    count = Count()
    values = clients(history).values.values()
    reads = [(e, v, True) for v in values for e in v.reads]
    acks = [(e, v, False) for v in values for e in v.placed if v.acks == ALL]
    read: dict[int, tuple[Value, int]] = {}
    acked: dict[int, tuple[Value, int]] = {}
    for e, value, is_read in sorted(reads + acks, key=lambda t: t[0].seq):
        count += JUDGED
        compacted = history.compacts(e.seq)
        once = len([o for o in value.tries if o.begun.seq < e.seq]) <= 1
        if is_read and e.offset == value.reads[0].offset and e.last != value.reads[0].last and once and not compacted:
            count += VIOLATED
        own = value, e.seq
        (shown, read_by), (promised, acked_by) = read.get(e.offset, own), acked.get(e.offset, own)
        if is_read:
            if shown is not value:
                count += _differ(history, shown, read_by, value, e)
            again = e.offset in read and shown is value
            if not again and promised is not value and promised is not shown:
                count += _differ(history, promised, acked_by, value, e)
            if not again:
                read[e.offset] = own
        else:
            other, by = (promised, acked_by) if promised is not value else (shown, read_by)
            if other is not value:
                count += _differ(history, other, by, value, e)
            acked[e.offset] = value, value.placed[0].seq
            if shown is not value:  # what is read there from now on is held against this promise
                read.pop(e.offset, None)
    return count + _ends(history) + _overlaps(history)


def _ends(history: History) -> Count:
    """Batches that were first read with another end than they were asked for or acknowledged with.

    Who never states a last offset may leave it out.
    """
    values = clients(history).values.values()
    ok_lasts = any(e.last > e.offset for v in values for e in v.placed)
    read_lasts = any(e.last > e.offset for v in values for e in v.reads)
    count = Count()
    for value in values:
        if not value.reads or len(value.tries) != 1 or history.compacts():
            continue
        e, asked = value.reads[0], value.tries[0].begun.get("count") or 0
        size = asked if value.acked is None else value.last - value.acked.offset + 1
        stated = size > 1 or asked > 0 or (value.acked is not None and ok_lasts)
        if stated and (e.last > e.offset or read_lasts) and size != len(e.offsets):
            count += VIOLATED if value.acked is None or value.acked.offset == e.offset else Count()
    return count


def _overlaps(history: History) -> Count:
    """Batches that begin inside one before them: of those in the final read, or without one, of acks=all."""
    final = _final_reads(history)
    kept = [v for v in clients(history).values.values() if v.reads and (v.final if final else v.acks == ALL)]
    kept.sort(key=lambda v: v.reads[0].offset)
    count = Count()
    for i in range(1, len(kept)):
        first = kept[i].reads[0]
        reach = max(v.reads[0].last for v in kept[:i])
        if reach >= first.offset and kept[i - 1].reads[0].offset != first.offset:
            gone = any(_gone_at_end(history, v) for v in kept[i - 1 : i + 1])
            count += EXCUSED if gone else VIOLATED
    return count


def _last_look(history: History) -> int:
    """The last event of a final read that was answered or gave something; if none was answered, of any read."""
    reads = [o for o in clients(history).operations if o.begun.f in READS]
    reads = [o for o in reads if not _final_reads(history) or o.begun.f == "final_read"]
    oks = [o.ended.seq for o in reads if o.ended and o.ended.kind == "ok"]
    return max([*oks, *(e.seq for o in reads for e in o.seen)], default=-1)


def terms_in_order(history: History) -> Count:
    """Nothing acknowledged with acks=all is behind what was acknowledged in a later term, unless it may have been lost;
    nor is anything that a final read returned behind what one returned of a later term."""
    count = Count()
    clients = [(v, v.acked) for v in _values(history) if v.acked and v.acked.term is not None]
    for value, e in clients:
        if value.acks != ALL and not value.final:
            continue
        count += JUDGED
        before = [v for v, other in clients if other.offset < e.offset and other.term > e.term]
        at_end = [v for v in before if v.final and value.final]
        if at_end and not _in_two_logs(history, _latest(at_end), value):
            count += VIOLATED
        elif value.acks == ALL and before:
            first = _latest(before)
            until = max(first.acked.seq, e.seq) + 1
            gone = may_be_lost(history, value.begun, e.seq, e.offset, until, weak=history.write_caching, by=FOR_EVER)
            count += EXCUSED if gone else VIOLATED
    return count


def _latest(values: list[Value]) -> Value:
    """The first in the log of those that were acknowledged in the latest term."""
    by_offset = sorted(values, key=lambda v: v.acked.offset if v.acked else 0)
    return max(by_offset, key=lambda v: v.acked.term if v.acked else 0)


def _in_two_logs(history: History, *values: Value) -> bool:
    """Whether nodes may show two logs at the last look of readers, as a disk was emptied that may have held one of
    these values; or, where a term may have had two leaders, any disk was."""
    look = _last_look(history)
    if not one_leader(history) and any(f.disk and f.event.seq < look and f.high > EMPTY for f in faults(history)):
        return True
    return any(_lost_at_end(history, v, weak=False) for v in values)


def values_are_new(history: History) -> Count:
    """A value that was acknowledged is not appended again; nor one that failed, by another client than the last."""
    count = Count()
    for value in _values(history):
        for i, each in enumerate(value.tries):
            before = value.tries[:i]
            acked = value.acked is not None and value.acked.seq < each.begun.seq
            over = [o.ended.kind == "fail" and o.ended.seq < each.begun.seq for o in before if o.ended is not None]
            failed = len(over) == len(before) > 0 and all(over)
            again = acked or (failed and before[-1].begun.process != each.begun.process)
            count += JUDGED + VIOLATED if again and before else JUDGED
    return count


def _values(history: History) -> list[Value]:
    """Every value that was appended or read."""
    return [*clients(history).values.values()]


def duplicate(history: History) -> Count:
    """A value is at the offset of its first read: so said its acknowledgement, and so say all later reads."""
    count = Count()
    for value in clients(history).values.values():
        if not value.reads:
            continue
        count += JUDGED
        first = value.reads[0]
        elsewhere = [e.seq for e in value.reads if e.offset != first.offset]
        if value.acked and value.acked.offset != first.offset:
            elsewhere.append(max(value.acked.seq, first.seq))
        for seq in elsewhere:
            twice = sum(o.begun.seq < seq for o in value.tries) > 1
            count += EXCUSED if twice or not history.idempotent else VIOLATED
    return count


def aborted_read(history: History) -> Count:
    """The value of an append that failed is never read, unless it was tried again."""
    values = clients(history).values.values()
    if not any(v.reads for v in values):
        return Count()
    failed = [v for v in values if v.tries and all(o.ended and o.ended.kind == "fail" for o in v.tries)]
    return Count(judged=len(failed), violated=sum(bool(v.reads) for v in failed))


def phantom(history: History) -> Count:
    """What is read was appended before."""
    operations, values = clients(history)
    appends = [o.begun.seq for o in operations if o.begun.f == "append"]
    count = Count()
    for value in values.values():
        if value.reads and appends and appends[0] < value.reads[0].seq:
            count += JUDGED if value.tries and value.begun < value.reads[0].seq else JUDGED + VIOLATED
    return count


def _final_reads(history: History) -> list[Operation]:
    return [o for o in clients(history).operations if o.begun.f == "final_read" and o.ended and o.ended.kind == "ok"]


def _within(first: int, last: int, ranges: list[tuple[int, int]]) -> bool:
    return {*range(first, last + 1)} <= {o for low, high in ranges for o in range(low, min(high, last) + 1)}


def _removed(history: History) -> list[tuple[int, int]]:
    """Offsets that trimming or compaction took."""
    trimmed = [(0, e.offset - 1) for e in history.events if e.kind == "trim"]
    return trimmed + [(e.offset, e.last) for e in history.events if e.kind == "compact"]


class _Gap(NamedTuple):
    """Offsets that a reader passed over: the value behind them, None if they are at the end of a read."""

    low: int
    high: int
    ended_by: Value | None
    asked: int
    seq: int
    begins: bool
    """The read had returned nothing before."""


@once
def _readers(history: History) -> tuple[list[tuple[int, Event]], list[_Gap]]:
    """Each batch with the position of the reader it was given to, where that is known; and the gaps."""
    values = clients(history).values
    open_: dict[int, Event] = {}
    position: dict[int, int | None] = {}
    following: dict[int, int | None] = {}
    given: list[tuple[int, Event]] = []
    gaps: list[_Gap] = []
    begins: dict[int, bool] = {}
    for e in history.events:
        if e.process is None:
            continue
        at = position.get(e.process)
        if e.kind == "invoke":
            open_[e.process] = e
            if e.f in READS:
                position[e.process] = following.get(e.process) if e.offset is None else e.offset
                begins[e.process] = True
        if e.process not in open_:
            continue
        begun = open_[e.process]
        if e.kind == "observe" and begun.f in READS:
            if at is not None:
                given.append((at, e))
                if e.offset > at:
                    gaps.append(_Gap(at, e.offset - 1, values.get(e.value), begun.seq, e.seq, begins[e.process]))
            # Where a reader stands that went back by itself is not clear until it was given something more.
            begins[e.process] = False
            position[e.process] = e.last + 1 if at is None or e.last >= at else None
        elif e.kind == "ok" and begun.f in READS:
            if at is not None and e.offset is not None and e.offset > at:
                gaps.append(_Gap(at, e.offset - 1, None, begun.seq, e.seq, begins[e.process]))
                position[e.process] = e.offset
            following[e.process] = position.get(e.process)
        if e.kind in ("ok", "fail"):
            del open_[e.process]
    return given, gaps


def _missing(history: History) -> Iterator[tuple[Value, bool, bool]]:
    """Acknowledged acks=all values: whether they are missing, and whether lost: read past, and never returned.

    If there is a final read: those acknowledged, or shown as committed, before the last one began.
    """
    values = [v for v in clients(history).values.values() if v.acked and v.acks == ALL]
    finals = _final_reads(history)
    if finals:
        begun = max(o.begun.seq for o in finals)
        committed = [v for v in _values(history) if v.shown is not None and v.shown < begun]
        values = [v for v in values if v.acked and v.acked.seq < begun and v not in committed]
        high = max(_reached(history, o) for o in finals)
        for value in (*values, *committed):
            missing = not value.final
            yield value, missing, missing and not value.reads and _place(value)[1] < high
    elif any(v.reads for v in clients(history).values.values()):
        gaps = _readers(history)[1]
        reads = [v.reads[0] for v in clients(history).values.values() if v.reads]
        for value in values:
            acked = value.acked
            assert acked
            passed = [(g.low, g.high) for g in _once(gaps) if g.seq > acked.seq]
            replaced = any(e.offset == acked.offset and e.seq > acked.seq for e in reads)
            lost = not value.reads and (replaced or _within(acked.offset, value.last, passed))
            yield value, lost, lost


def _place(value: Value) -> tuple[int, int]:
    """The offsets that a value fills, by its acknowledgement, or else by its first read."""
    first = value.reads[0] if value.acked is None else value.acked
    return first.offset, first.last if value.acked is None else value.last


def _trimmed_unseen(history: History) -> int:
    """Up to which offset the log may have been trimmed with nobody recording it: reads began behind it; -1: nowhere."""
    begun_behind = [g.high for g in _once(_readers(history)[1]) if g.begins]
    if _compaction_may_lack(history):
        return FOR_EVER
    may_lack = history.unseen_trims() or _trim_may_lack(history)
    return max(begun_behind, default=-1) if may_lack else -1


def _compaction_may_lack(history: History) -> bool:
    """Whether nodes compact, or state keys as if they did, and one that recorded nothing may have as well."""
    keyed = any(e.kind == "append" and e.key is not None for e in history.events)
    return history.unseen_trims() and (history.compacts() or keyed)


def _trim_may_lack(history: History) -> bool:
    """Whether nodes are seen to trim, and one was cut off, which may have lost its last trim."""
    cut_off = any((e.kind in GONE and e.kind != "stop") or empties(history, e) for e in history.events)
    return cut_off and any(e.kind == "trim" and e.offset > 0 for e in history.events)


def _once(gaps: list[_Gap]) -> list[_Gap]:
    """Each gap once: the first reader's, for a gap at the end of a read the last one's."""
    once = {(g.low, g.high, False): g for g in reversed(gaps) if g.ended_by is not None}
    return [*once.values(), *{(g.low, g.high, True): g for g in gaps if g.ended_by is None}.values()]


def _reached(history: History, read: Operation) -> int:
    """The position of a reader when its read was over; 0 if it is not known."""
    assert read.ended
    at = read.begun.offset
    for e in read.seen:
        at = e.last + 1 if at is None or e.last >= at else None
    if at is not None and read.ended.offset is not None:
        at = max(at, read.ended.offset)
    return 0 if at is None else at


def _observes_nothing(history: History) -> bool:
    """Whether reads say that they were given something, but no observation is recorded."""
    reads = [o.ended for o in clients(history).operations if o.begun.f in READS]
    return not history.observes and any(e is not None and e.kind == "ok" and e.get("count") for e in reads)


def lost_write(history: History) -> Count:
    """An acks=all append that readers passed is read, by somebody."""
    count = Count()
    high = max((_reached(history, o) for o in _final_reads(history)), default=None)
    for value, missing, lost in _missing(history):
        first, last = _place(value)
        judged = last < high if high is not None else bool(value.reads) or lost
        count += Count(judged=judged and value.acks == ALL)
        if missing and not _within(first, last, _removed(history)):
            if _gone_at_end(history, value):
                count += EXCUSED
            elif lost:
                count += UNJUDGED if last <= _trimmed_unseen(history) else VIOLATED
    return count.if_shown(lacks=count.unjudged > 0, void=_observes_nothing(history))


def unseen(history: History) -> Count:
    """An acks=all append, or one shown as committed, is in the final read; what is a lost write is told there."""
    count = Count()
    final = bool(_final_reads(history))
    for value, missing, lost in _missing(history):
        first, last = _place(value)
        count += Count(judged=final and not lost)
        if missing:
            if _within(first, last, _removed(history)):
                count += EXCUSED
            elif not _gone_at_end(history, value) and not lost:
                count += UNJUDGED if last <= _trimmed_unseen(history) else VIOLATED
    return count.if_shown(lacks=count.unjudged > 0, void=_observes_nothing(history))


def skip(history: History) -> Count:
    """No gap holds anything of the log as it ended up; each gap is judged once.

    A gap that ends at a value is judged if that value is in the log at the end; one at the end of a read by what had
    been acknowledged with acks=all before the read began.
    """
    given, gaps = _readers(history)
    count = Count(judged=len(given))
    final = bool(_final_reads(history))
    values = clients(history).values.values()

    def promised(v: Value) -> bool:
        return v.acked is not None and v.acks == ALL and not _gone_at_end(history, v)

    def there(v: Value) -> bool:
        if final:
            return v.final
        flushed = (v.acks == ALL and not history.write_caching) or v.shown is not None
        look = _last_look(history)
        kept = bool(v.reads) and (flushed or not unflushed_lost(history, v.reads[0].seq, _place(v)[0], look))
        return kept or promised(v)

    def wiped(v: Value) -> bool:
        """Nodes may show two logs in the end: that of the emptied disk, and one with the value."""
        return _lost_at_end(history, v, weak=False)

    def place(v: Value) -> tuple[int, int]:
        if v.reads:
            return v.reads[0].offset, v.reads[0].last
        assert v.acked
        return v.acked.offset, v.last

    for gap in _once(gaps):
        if gap.ended_by is not None and not there(gap.ended_by):
            continue
        passed = [v for v in values if there(v) and gap.low <= place(v)[0] and place(v)[1] <= gap.high]
        if gap.ended_by is None:
            passed = [v for v in passed if promised(v) and v.acked and v.acked.seq < gap.asked]
        if passed:
            kept = [v for v in passed if not _within(*place(v), _removed(history))]
            unseen_trim = (history.unseen_trims() or _trim_may_lack(history)) and gap.begins
            unseen_trim = unseen_trim or _compaction_may_lack(history)
            two_logs = all(wiped(v) for v in kept) or (gap.ended_by is not None and wiped(gap.ended_by))
            count += EXCUSED if not kept else UNJUDGED if unseen_trim else EXCUSED if two_logs else VIOLATED
    return count.if_shown(lacks=count.unjudged > 0, void=_observes_nothing(history))


def non_monotonic_read(history: History) -> Count:
    """A batch does not end before the reader's position."""
    given, _ = _readers(history)
    return Count(judged=len(given), violated=sum(e.last < position for position, e in given))


def _not_behind(first: Value, second: Value, offset: int) -> bool:
    """At the same offset it is not behind either; with acks=all that is an inconsistent offset, which says more."""
    assert first.acked
    both_all = first.acks == second.acks == ALL
    return offset < first.acked.offset or (offset == first.acked.offset and not both_all)


def _acknowledgements(history: History) -> list[tuple[Event, Operation, Value]]:
    """All that told an offset, in order."""
    values = clients(history).values.values()
    found = [(o.ended, o, v) for v in values for o in v.tries if o.ended in v.placed]
    return sorted(((e, o, v) for e, o, v in found if e), key=lambda t: t[0].seq)


def non_monotonic_append(history: History) -> Count:
    """One client's acknowledged appends are in its order."""
    count = Count()
    last: dict[int, tuple[Event, Value]] = {}
    for e, o, value in _acknowledgements(history):
        if o.begun.process in last:
            before, former = last[o.begun.process]
            same_term = e.term is not None and e.term == before.term
            if same_term or value.acks == former.acks == ALL:
                count += JUDGED
                if _not_behind(former, value, e.offset):
                    gone = may_be_lost(history, former.begun, e.seq, -1, e.seq, weak=False)
                    gone = gone or (
                        not same_term and may_be_gone(history, former, former.acked.seq, former.acked.offset, e.seq)
                    )
                    unpromised = 0 in (value.acks, former.acks)
                    count += EXCUSED if gone or unpromised else VIOLATED
        last[o.begun.process] = e, value
    return count


def real_time_inversion(history: History) -> Count:
    """An append that began after another was acknowledged is behind it.

    With acks=all it is compared with the farthest acknowledged with acks=all; so is one that is read though its place
    was not promised. With acks=1 it is compared with the farthest of the same term, the latest one known when it began.
    """
    count = Count()
    acknowledged = _acknowledgements(history)
    for value in clients(history).values.values():
        if not value.tries:
            continue
        strong = [v for e, _, v in acknowledged if e.seq < value.begun and v.acks == ALL]
        farthest = _first_max(strong, lambda v: v.last)
        for e, o, of in acknowledged:
            if of is not value:
                continue
            if farthest and value.acks == ALL:
                count += _inverted(history, farthest, value, e)
            elif value.acks != NONE_PROMISED and e.term is not None:
                rival = _farthest_in_term(acknowledged, o.begun.seq, e.term)
                count += _inverted(history, rival, value, e) if rival else Count()
        unplaced = value.reads and (value.acks != ALL or not value.acked or value.acked.seq > value.reads[0].seq)
        if farthest and unplaced and value.begun < value.reads[0].seq:
            count += _inverted(history, farthest, value, value.reads[0])
    return count


def _first_max(values: list[Value], key) -> Value | None:  # noqa: ANN001
    return max(values, key=key) if values else None


def _farthest_in_term(acknowledged: list[tuple[Event, Operation, Value]], begun: int, term: int) -> Value | None:
    known = [(e, v) for e, _, v in acknowledged if e.seq < begun and v.acks != NONE_PROMISED and e.term is not None]
    if not known or max(e.term for e, _ in known) != term:
        return None
    return max((p for p in known if p[0].term == term), key=lambda p: p[0].offset)[1]


def _inverted(history: History, first: Value, second: Value, e: Event) -> Count:
    if not _not_behind(first, second, e.offset):
        return JUDGED
    assert first.acked
    excused = may_be_lost(
        history, first.begun, e.seq, -1, e.seq, weak=False
    )  # a term has two leaders if a disk was emptied
    excused = excused or (first.acks == ALL and may_be_gone(history, first, first.acked.seq, first.acked.offset, e.seq))
    return JUDGED + (EXCUSED if excused else VIOLATED)


def _known_ends(history: History) -> list[tuple[int, int, int]]:
    """How many entries were known, since which event, and by what was asked at which: by acknowledgements with
    acks=all, by tails, and by where committed and linearizable reads ended that returned something, or moved on."""
    known = [(v.last + 1, e.seq, v.begun) for e, _, v in _acknowledgements(history) if v.acks == ALL]
    moved = {gap.seq for gap in _readers(history)[1] if gap.ended_by is None and gap.begins}
    for o in clients(history).operations:
        e = o.ended
        moves = bool(o.seen) or (o.begun.offset is not None and e is not None and e.seq in moved)
        shows = o.begun.f == "tail" or (o.begun.f in SHOWS_COMMITTED and moves)
        if shows and e and e.kind == "ok" and e.offset is not None:
            known.append((e.offset, e.seq, o.begun.seq))
    return known


def _not_short(history: History, f: str) -> Count:
    """No answer to such an operation is shorter than what was known before it was asked for."""
    count = Count()
    ends = _known_ends(history)
    for o in clients(history).operations:
        if o.begun.f != f or not o.ended or o.ended.kind != "ok":
            continue
        if o.ended.offset is None:
            count += UNJUDGED if f == "tail" else Count()
            continue
        known = [k for k in ends if k[1] < o.begun.seq]
        least, there, asked = max(known, key=lambda k: k[0], default=(0, -1, -1))
        count += JUDGED
        trims = [e.offset for e in history.events if e.kind == "trim" and e.seq < o.ended.seq]
        if f == "read_linearizable" and max(trims, default=-1) >= least:
            continue  # nothing is left of what had to be read
        if o.ended.offset < least and f == "read_linearizable" and history.unseen_trims(o.ended.seq) and not o.seen:
            count += UNJUDGED
        elif o.ended.offset < least:
            gone = may_be_lost(history, asked, there, least - 1, o.ended.seq, weak=history.write_caching)
            count += EXCUSED if gone else VIOLATED
    return count.if_shown(lacks=count.unjudged > 0)


def stale_tail(history: History) -> Count:
    """A tail is not smaller than what was known before it was asked for."""
    return _not_short(history, "tail")


def stale_read(history: History) -> Count:
    """A linearizable read does not end before what was known before it was asked for."""
    return _not_short(history, "read_linearizable")


TWINS: dict[str, Plain] = {
    "inconsistent-offset": inconsistent_offset,
    "terms-in-order": terms_in_order,
    "values-are-new": values_are_new,
    "duplicate": duplicate,
    "aborted-read": aborted_read,
    "phantom": phantom,
    "lost-write": lost_write,
    "unseen": unseen,
    "skip": skip,
    "non-monotonic-read": non_monotonic_read,
    "non-monotonic-append": non_monotonic_append,
    "real-time-inversion": real_time_inversion,
    "stale-tail": stale_tail,
    "stale-read": stale_read,
}
