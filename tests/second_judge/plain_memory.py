"""What a leader holds in memory for appends. Sources: raft.md#bounded-memory, raft.md#enqueue-order."""

from __future__ import annotations

from itertools import pairwise

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain

OF_MEMORY = ("enqueue", "hand_over")
ENDS = ("start", "term", "role", *GONE)


def bounded_memory(history: History) -> Count:
    """At each event of its memory a leader holds what it says, and no more than it may."""
    count = Count()
    own: dict[int, list[Event]] = {}
    for e in history.events:
        if e.kind not in ("leader", "append", *ENDS, *OF_MEMORY):
            continue
        before = own.setdefault(e.node, [])
        before.append(e)
        office = since_it_leads(before)
        shown = office is not None and any(b.kind == "enqueue" for b in office)
        if history.memory_bytes is None or office is None:
            continue
        if e.kind == "hand_over" and not shown:
            held = sum(min(batch.bytes or 0, history.memory_bytes) for batch in _all_handed_over(office)[-1])
            count += UNJUDGED if held else Count()
        elif e.kind == "hand_over" and e.last > max((b.last for b in office if b.kind == "append"), default=-1):
            count += UNJUDGED
        elif e.kind in OF_MEMORY:
            held = held_by(office, history.memory_bytes)
            most = history.max_in_flight
            many = e.kind == "hand_over" and most is not None and (e["count"] or 0) > most
            again = e.kind == "hand_over" and any(
                b.offset <= e.last and e.offset <= b.last for b in _judged_before(office)[-HANDED:]
            )
            wrong = held > history.memory_bytes or held != e.reserved or many or again
            count += JUDGED + VIOLATED if wrong else JUDGED
    silent = count.violated > 0 and not history.has("hand_over")
    return count.if_shown(lacks=count.unjudged > 0, void=silent)


def since_it_leads(events: list[Event]) -> list[Event] | None:
    """What a node has done since it won its election; None if it does not lead after these events."""
    for at in reversed(range(len(events))):
        e = events[at]
        if e.kind == "leader":
            return events[at:]
        if _ends(e):
            return None
    return None


def _ends(e: Event) -> bool:
    """Whether a node leads no more."""
    return e.kind in ENDS and (e.kind, e.role) != ("role", "leader")


def held_by(office: list[Event], limit: int) -> int:
    """The bytes that a leader said before its last event that it holds, and what that one enqueues, each append as the
    limit at most, or less what it hands over."""
    *before, last = office
    first_enqueued = next(i for i, e in enumerate(office) if e.kind == "enqueue")
    said = [e.reserved for i, e in enumerate(before) if e.kind in OF_MEMORY and i >= first_enqueued]
    held: int = said[-1] if said else 0
    if last.kind == "enqueue":
        return held + min(last.bytes or 0, limit)
    return held - sum(min(batch.bytes or 0, limit) for batch in _all_handed_over(office)[-1])


def _all_handed_over(office: list[Event]) -> list[list[Event]]:
    """By each hand-over the batches, one behind the other, that are held no more."""
    written: dict[int, Event] = {}
    found: list[list[Event]] = []
    for e in office:
        if e.kind == "append" and e.value is not None:
            written[e.offset] = e
        elif e.kind == "hand_over":
            first, batches = e.offset, []
            while first <= e.last and first in written and written[first].last <= e.last:
                batches.append(written.pop(first))
                first = batches[-1].last + 1
            found.append(batches)
    return found


HANDED = 64
"""So much of what a leader last handed over is remembered."""


def _judged_before(office: list[Event]) -> list[Event]:
    """What a leader handed over before the last event, since it first enqueued something, of what it is seen to have
    written."""
    found: list[Event] = []
    enqueued, end = False, -1
    for e in office[:-1]:
        enqueued = enqueued or e.kind == "enqueue"
        end = max(end, e.last) if e.kind == "append" else end
        if e.kind == "hand_over" and enqueued and e.last <= end:
            found.append(e)
    return found


REFUSED = 1000
"""So many values that a leader enqueued before the one that it wrote are remembered: the last ones."""

REMEMBERED = 64
"""So many of the values that a leader last wrote, and had not enqueued."""


def written_as_enqueued(history: History) -> Count:
    """A leader enqueues a value before it writes it, with one acks level, and writes none before one that it enqueued
    earlier."""
    count = Count()
    if not history.has("enqueue"):
        return count
    own: dict[int, list[Event]] = {}
    for e in history.events:
        own.setdefault(e.node, []).append(e)
    for events in own.values():
        offices = [i for i, e in enumerate(events) if e.kind == "leader"]
        for begin, end in pairwise([*offices, len(events)]):
            over = (i for i in range(begin + 1, end) if _ends(events[i]))
            count += _written([e for e in events[begin : next(over, end)] if e.value is not None])
    nameless = any(e.kind == "enqueue" and e.value is None for e in history.events)
    return count.if_shown(lacks=count.unjudged > 0 and not nameless)


def _written(office: list[Event]) -> Count:
    """The same of what a leader did in one term."""
    count = Count()
    queue: list[tuple[int, bool, int | None]] = []  # values, whether one behind them was written, and their acks levels
    unseen: list[int | None] = []
    for e in office:
        if e.kind == "enqueue" and e.value in unseen[-REMEMBERED:]:
            count += JUDGED + VIOLATED + Count(unjudged=-1)
            unseen[unseen.index(e.value, max(len(unseen) - REMEMBERED, 0))] = None
        elif e.kind == "enqueue":
            queue.append((e.value, False, e.acks))
        elif e.kind == "append" and e.value in [value for value, *_ in queue]:
            wrong = [_is_wrong(e, *asked) for asked in queue]
            there = [i for i, (value, *_) in enumerate(queue) if value == e.value]
            place = next((i for i in there if not wrong[i]), there[-1])  # those before it were refused
            count += JUDGED + VIOLATED if wrong[place] else JUDGED
            before = [(value, True, acks) for value, _, acks in queue[:place] if value != e.value]
            queue = before + queue[place + 1 :]
            queue = queue[max(sum(passed for _, passed, _ in queue) - REFUSED, 0) :]
        elif e.kind == "append":
            count += UNJUDGED
            unseen.append(e.value)
    return count


def _is_wrong(e: Event, value: int, overtaken: bool, acks: int | None) -> bool:
    """Whether what is written may not be this value that was enqueued."""
    return e.value != value or overtaken or (None not in (acks, e.acks) and acks != e.acks)


TWINS: dict[str, Plain] = {"bounded-memory": bounded_memory, "written-as-enqueued": written_as_enqueued}
