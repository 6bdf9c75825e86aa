"""Whether the operations of clients are well formed. Source: history-checks.md#well-formed-histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from plain import JUDGED, READS, UNJUDGED, VIOLATED, Count, Event, History, Plain

CLIENT = ("invoke", "observe", "rows", "ok", "fail", "info")


@dataclass
class Open:
    """What a client has open, or has been left with."""

    begun: Event
    unknown: bool = False
    """It ended with info."""
    seen: list[Event] = field(default_factory=list)


def _answers(history: History) -> Iterator[tuple[Event, Open | None]]:
    """Every event of a client with what it had open before; parts of an operation come and go with it."""
    open_: dict[int, Open] = {}
    for e in history.events:
        if e.kind not in CLIENT or e.process is None or e.op is None or e.txn is not None:
            continue
        before = open_.get(e.process)
        yield e, before
        if e.kind == "invoke":
            open_[e.process] = Open(e)
        elif before is not None and not before.unknown and before.begun.op == e.op:
            if e.kind == "observe":
                before.seen.append(e)
            elif e.kind == "info":
                before.unknown = True
            elif e.kind != "rows":
                del open_[e.process]


def _is_of(e: Event, before: Open | None) -> bool:
    """Whether what a client is told is of the operation that it has open."""
    return before is not None and not before.unknown and bool(before.begun.op == e.op)


def completes_what_is_open(history: History) -> Count:
    """What a client is told belongs to its open operation, and ends it under its own name."""
    count = Count()
    first: int | None = None  # the lowest number of an operation begun
    cut: dict[int, int | None] = {}  # by client, what it had asked for when the record began; None: no more
    for e, before in _answers(history):
        if e.kind == "invoke":
            first = e.op if first is None else min(first, e.op)
            cut[e.process] = None
        elif cut.get(e.process, e.op) == e.op and (first is None or e.op < first):
            cut[e.process] = e.op if e.kind in ("observe", "rows") else None
            count += UNJUDGED
        else:
            named = before is not None and (before.begun.f == e.f or (e.kind in ("observe", "rows") and e.f is None))
            right = _is_of(e, before) and named
            count += JUDGED if right else JUDGED + VIOLATED
    return count.if_shown(lacks=count.unjudged > 0)


def operations_are_new(history: History) -> Count:
    """The number of an operation is used once."""
    ops = [e.op for e, _ in _answers(history) if e.kind == "invoke"]
    return Count(judged=len(ops), violated=len(ops) - len(set(ops)))


def one_operation_at_a_time(history: History) -> Count:
    """A client begins an operation when its last one is over, and none after one whose outcome is unknown."""
    begun = [before for e, before in _answers(history) if e.kind == "invoke"]
    return Count(judged=len(begun), violated=sum(before is not None for before in begun))


def reads_are_given(history: History) -> Count:
    """Appends and tails are given no entries."""
    count = Count()
    for e, before in _answers(history):
        if e.kind == "observe" and before is not None and _is_of(e, before):
            count += JUDGED + VIOLATED if before.begun.f in ("append", "tail") else JUDGED
    return count


def reads_add_up(history: History) -> Count:
    """A read says how many batches it returned, or how many offsets, and goes on behind all of them, if any is told."""
    count = Count()
    for e, before in _answers(history):
        if e.kind == "ok" and before is not None and _is_of(e, before) and before.begun.f in READS:
            offsets = sum(len(b.offsets) for b in before.seen)
            right = e["count"] in (len(before.seen), offsets) if "count" in e else True
            if e.offset is not None and before.seen:
                right = right and e.offset > max(b.last for b in before.seen)
            count += JUDGED if right else JUDGED + VIOLATED
    return count.if_shown(void=count.violated > 0 and reads_are_given(history).judged == 0)


def appends_as_asked(history: History) -> Count:
    """An append is given as many offsets as it asked for, in the term it expected; the last one may be left out as long
    as no answer has stated one. A count of 1 in its answer may be the batch. What some answers state the others do too,
    and only who expected a term is refused for it, if any say what they expect."""
    count = Count()
    says_last = False
    answers: list[Event] = []
    expected, unexpected = 0, 0
    for e, before in _answers(history):
        ends = e.kind in ("ok", "fail", "info")
        if ends and before is not None and _is_of(e, before) and before.begun.f == "append":
            expected += before.begun.term is not None
            unexpected += before.begun.term is None and e.kind == "fail" and e.reason == "term_mismatch"
        if e.kind == "ok" and before is not None and _is_of(e, before) and before.begun.f == "append":
            begun = before.begun
            answers.append(e)
            right = []
            says_last = says_last or (e.offset is not None and 0 <= e.offset < e.last)
            size = len(e.offsets) if says_last and e.offset is not None and e.offset >= 0 else None
            asked = begun.get("count")
            if None not in (size, asked):
                right.append(size == asked)
            if e.get("count", 1) != 1 and (size, asked) != (None, None):
                right.append(e["count"] == (asked if size is None else size))
            if begun.term is not None and e.term is not None:
                right.append(begun.term == e.term)
            if right:
                count += JUDGED if all(right) else JUDGED + VIOLATED
    count += Count(unjudged=unexpected if expected else 0)
    for stated in ([e.offset is not None for e in answers], [e.term is not None for e in answers]):
        count += Count(unjudged=stated.count(False)) if any(stated) else Count()
    return count.if_shown(lacks=count.unjudged > 0)


def time_goes_forward(history: History) -> Count:
    """No event is earlier than one before it; a clock may have been set back."""
    times = [e.time for e in history.events]
    back = sum(b < a for a, b in pairwise(times))
    return Count(judged=max(0, len(times) - 1), violated=back)


TWINS: dict[str, Plain] = {
    "completes-what-is-open": completes_what_is_open,
    "operations-are-new": operations_are_new,
    "one-operation-at-a-time": one_operation_at_a_time,
    "reads-are-given": reads_are_given,
    "reads-add-up": reads_add_up,
    "appends-as-asked": appends_as_asked,
    "time-goes-forward": time_goes_forward,
}
