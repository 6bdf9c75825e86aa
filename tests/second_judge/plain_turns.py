"""Whose turn it was. Sources: raft.md#memory-units, raft.md#in-flight, raft.md#snapshot-transfer."""

from __future__ import annotations

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain

OFFICE_ENDS = ("leader", "term", "role", "start", *GONE)


def waits_in_turn(history: History) -> Count:
    """Who is enqueued while others wait is the first of them."""
    count = Count()
    for at, e in enumerate(history.events):
        if e.kind == "enqueue" and e.value is not None and e.node is not None:
            waiting = who_waits(history.events[:at], e.node)
            if waiting:
                count += JUDGED if waiting[0] == e.value else JUDGED + VIOLATED
    return count


def who_waits(events: list[Event], node: int) -> list[int | None]:
    """The values of the appends that wait on a node after these events, in the order in which they came."""
    waiting: list[int | None] = []
    for e in (e for e in events if e.node == node):
        if e.kind == "wait":
            waiting.append(e.value)
        elif e.kind in ("enqueue", "withdraw") and e.value in waiting and (e.kind, e.value) != ("enqueue", None):
            waiting.remove(e.value)
        elif e.kind in OFFICE_ENDS and (e.kind, e.role) != ("role", "leader"):
            waiting.clear()
    return waiting


def slots_are_waited_for(history: History) -> Count:
    """No round is read back for want of a slot."""
    count = Count()
    if history.max_in_flight is None:
        return count
    for e in history.events:
        if e.kind == "read_back" and e.node is not None:
            full = e.reason == "round" and (e["count"] or 0) >= history.max_in_flight
            count += JUDGED + VIOLATED if full else JUDGED
    return count


def parts_in_order(history: History) -> Count:
    """A part is the first one, or goes behind all that the node had taken of that snapshot since it started."""
    count = Count()
    for at, e in enumerate(history.events):
        if e.kind != "part" or e.node is None:
            continue
        before = [b for b in history.events[:at] if b.node == e.node and b.kind in ("start", "part")]
        if e["count"] == 0:
            count += JUDGED
        elif not before:
            count += UNJUDGED
        else:
            same = before[-1].kind == "part" and before[-1].offset == e.offset
            held = before[-1]["count"] + before[-1].bytes if same else 0
            count += JUDGED if e["count"] == held else JUDGED + VIOLATED
    return count


TWINS: dict[str, Plain] = {
    "waits-in-turn": waits_in_turn,
    "slots-are-waited-for": slots_are_waited_for,
    "parts-in-order": parts_in_order,
}
