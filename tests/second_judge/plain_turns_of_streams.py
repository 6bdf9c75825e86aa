"""The twins of the checks of what comes in turn in the read path, each written from the rule that it names."""

from __future__ import annotations

from plain import JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain


def resting(history: History, *kinds: str) -> Count:
    """A violation, but where nothing of one of these kinds is ever recorded: then it is undecided."""
    there = {e.kind for e in history.events}
    return VIOLATED if {*kinds} <= there else Count(unjudged=1, lacking=1)


def loses_its_disk(e: Event, node: int | None) -> bool:
    """Whether a node is told to have lost what was on its disk."""
    emptied = e.kind == "fault" and e.f == "wipe"
    return e.node == node and (emptied or (e.kind == "takes_part" and e.reason == "lost"))


def begun(history: History, e: Event) -> Event | None:
    """Where the stream of an event began."""
    reads = [b for b in history.events if b.kind == "invoke" and b.f == "read_stream" and b.op == e.op]
    return next((b for b in reversed(reads) if b.seq < e.seq), None)


def of_stream(history: History, e: Event, *kinds: str) -> list[Event]:
    """What is recorded of the stream of an event before it, since it began."""
    since = begun(history, e)
    return [b for b in history.events if since and b.kind in kinds and b.op == e.op and since.seq < b.seq < e.seq]


def points_only_rise(history: History) -> Count:
    """read-path.md#points-only-rise."""
    count = Count()
    of = {"trim_point": "offset", "seal": "epoch", "takes_part": "incarnation"}
    for e in history.events:
        if e.kind not in (*of, "stream_statuses", "stream_metadata"):
            continue
        events = [b for b in history.events if b.seq < e.seq]
        if e.kind in of:
            before = [b for b in events if b.kind == e.kind and b.node == e.node]
            wiped = [b for b in events if b.kind == "fault" and b.f == "wipe" and b.node == e.node]
            lost = [b for b in events if loses_its_disk(b, e.node)] if e.kind != "takes_part" else wiped
            if before and not any(b.seq > before[-1].seq for b in lost):
                now, then = (b[of[e.kind]] for b in (e, before[-1]))
                count += JUDGED + VIOLATED if now < then or (e.kind == "takes_part" and now == then) else JUDGED
        elif e.kind == "stream_statuses":
            known = [b.version for b in of_stream(history, e, "stream_statuses")]
            count += JUDGED + VIOLATED if known and e.version < known[-1] else JUDGED
            if e.version > max((b.version for b in events if b.kind == "event_log"), default=0):
                count += resting(history, "event_log")
        elif e.kind == "stream_metadata" and begun(history, e):
            known = [b.epoch for b in of_stream(history, e, "stream_metadata")]
            if known:
                count += JUDGED + VIOLATED if e.epoch < known[-1] else JUDGED
    return count


def asks_in_turn(history: History) -> Count:
    """read-path.md#asks-in-turn."""
    count = Count()
    kinds = ("stream_settings", "stream_metadata", "stream_start", "stream_started", "stream_rewind", "stream_closed")
    for e in history.events:
        since = begun(history, e) if e.kind in kinds else None
        if since is None:
            continue
        if e.kind in ("stream_settings", "stream_metadata", "stream_start", "stream_started"):
            asked = since.node
            if None not in (asked, e.node):
                count += Count() if e.kind.startswith("stream_start") else JUDGED
                count += VIOLATED if e.node != asked else Count()
        filters = of_stream(history, e, "stream_start", "stream_rewind")
        filters = [b for b in filters if b.kind == "stream_start" or b.f == "done"]
        rewinds = [i for i, b in enumerate(filters) if b.kind == "stream_rewind"]
        now = filters[rewinds[-1] if rewinds else 0].filter if filters else None
        if e.kind == "stream_start":
            delivered = of_stream(history, e, "stream_record", "stream_gap")
            due = since.offset
            if delivered:
                due = (delivered[-1].offset if delivered[-1].kind == "stream_record" else delivered[-1].last) + 1
            count += JUDGED
            if e.offset != due:
                count += resting(history, "stream_record", "stream_gap") if e.offset > due else VIOLATED
            if now is not None and e.filter != now:
                count += resting(history, "stream_rewind")
        elif e.kind == "stream_started":
            sent = of_stream(history, e, "stream_start")
            asked = [b.filter for b in sent if b.peer == e.peer]
            count += JUDGED
            if e.filter > (asked[-1] if asked else 0):
                count += VIOLATED if sent else resting(history, "stream_start")
        elif e.kind == "stream_rewind" and e.f == "done":
            rewound = of_stream(history, e, "stream_rewind")
            count += JUDGED
            count += Count() if rewound and rewound[-1].f == "due" else VIOLATED
            count += VIOLATED if now is not None and e.filter != now + 1 else Count()
        elif e.kind == "stream_closed":
            before = [b for b in of_stream(history, e, "stream_start", "stream_closed") if b.peer == e.peer]
            if not before or before[-1].kind == "stream_start":
                count += JUDGED + (resting(history, "stream_start") if hears_on(history, e) else Count())
    return count


def hears_on(history: History, closed: Event) -> bool:
    """Whether a stream hears from a shard between the end of their connection and the next START to it."""
    of_both = [b for b in history.events if b.seq > closed.seq and (b.op, b.peer) == (closed.op, closed.peer)]
    for b in of_both:
        if b.kind == "stream_start" or begun(history, b) is not begun(history, closed):
            return False
        if b.kind in ("stream_heard", "stream_started"):
            return True
    return False


def released_after_recovery(history: History) -> Count:
    """read-path.md#released-after-recovery."""
    count = Count()
    for e in history.events:
        if e.kind != "release":
            continue
        events = [b for b in history.events if b.seq < e.seq]
        released = {b.epoch for b in events if b.kind == "release"}
        if e.epoch in released or e.epoch - 1 not in released:
            continue
        lives = [b for b in events if b.kind == "takes_part" and b.node == e.node]
        wiped = [b for b in events if b.kind == "fault" and b.f == "wipe" and b.node == e.node]
        if not lives or lives[-1].incarnation != e.incarnation or any(b.seq > lives[-1].seq for b in wiped):
            continue
        count += JUDGED
        if not any(b.kind == "recover" and b.epoch == e.epoch - 1 for b in events):
            count += resting(history, "recover")
    return count


def purged_after_recovery(history: History) -> Count:
    """What is purged lies above what a recovery of its epoch knew to be good, as long as no sequencer was cut off."""
    count = Count()
    sequencers: set[int] = set()
    cut_off = False
    for e in history.events:
        if e.kind == "takes_part" and e.f == "sequencer":
            cut_off = cut_off or e.node in sequencers
            sequencers.add(e.node)
        elif e.kind in ("crash", "power_loss", "storage_error"):
            cut_off = cut_off or e.node in sequencers
        elif e.kind == "purge" and cut_off:
            count += UNJUDGED
        elif e.kind == "purge":
            recovered = [b for b in history.events if b.kind == "recover" and b.seq < e.seq]
            good = [b.offset for b in recovered if b.epoch == e.offset >> 32]
            count += JUDGED if good and e.offset > min(good) else JUDGED + resting(history, "recover")
    return count


TWINS: dict[str, Plain] = {
    "points-only-rise": points_only_rise,
    "asks-in-turn": asks_in_turn,
    "released-after-recovery": lambda history: released_after_recovery(history) + purged_after_recovery(history),
}
