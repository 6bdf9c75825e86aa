"""The twin of the check of what streams hear against what shards shipped them, written from the rule that it names."""

from __future__ import annotations

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, total
from plain_copies import shipped

RECORDS, GAPS = ("record", "damaged"), ("no_records", "under_replicated", "trim")
SAID = ("stream_start", "stream_started", "stream_heard", "ship")
SIGNS = ("copy", "purge", "trim_point", "seal", "ship")


def conversations(history: History) -> list[list[Event]]:
    """What a stream and a shard say to each other from a START on, up to the next one of another filter version."""
    open_: dict[tuple[int | None, int | None], list[Event]] = {}
    found = []
    for e in history.events:
        pair = (e.op, e.node if e.kind == "ship" else e.peer)
        asked = open_[pair][0] if pair in open_ else None
        if e.kind == "stream_start" and (asked is None or (asked.filter, asked.node) != (e.filter, e.node)):
            found.append([e])
            open_[pair] = found[-1]
        elif asked is not None and e.kind in SAID:
            reader = e.peer if e.kind == "ship" else e.node
            open_[pair] += [e] if (e.filter, reader) == (asked.filter, asked.node) else []
    return found


def never_shipped(history: History, start: Event, heard: Event) -> Count:
    """A record that was not shipped: a violation if its shard goes on in the life in which it was asked."""
    turns = [e for e in history.events if e.node == heard.peer and e.kind in ("takes_part", *GONE)]
    before = [e for e in turns if e.seq < heard.seq]
    if not before or before[-1].kind != "takes_part" or before[-1].seq > start.seq:
        return UNJUDGED
    over = next((e.seq for e in turns if e.seq > heard.seq), history.events[-1].seq + 1)
    signs = [e for e in history.events if e.kind in SIGNS and e.node == heard.peer and heard.seq < e.seq < over]
    if not signs:
        return UNJUDGED
    return JUDGED + VIOLATED if any(e.kind == "ship" for e in history.events) else Count(1, 0, 0, 1, 1)


def conversation(history: History, events: list[Event]) -> Count:
    """All that was said in one."""
    count = Count()
    start, starts, refused = events[0], 1, False
    following = start.offset
    on_its_way: list[int] = []
    for e in events[1:]:
        alone = starts == 1
        if e.kind == "stream_start":
            start, starts = e, starts + 1
        elif e.kind == "stream_started":
            refused = refused or e.reason in ("rebuilding", "failed")
        elif e.kind == "ship":
            late = [lsn for lsn in shipped(e) if alone and lsn < following]
            count += total([JUDGED + VIOLATED] * len(late))
            on_its_way += [lsn for lsn in shipped(e) if lsn not in late]
        elif alone and refused and e.f in RECORDS + GAPS:
            count += JUDGED + VIOLATED
        elif e.f in RECORDS or (alone and e.f in GAPS):
            while alone and on_its_way and on_its_way[0] < (e.offset if e.f in RECORDS else e.last + 1):
                count += JUDGED + VIOLATED
                del on_its_way[0]
            if e.f in GAPS:
                count += JUDGED if e.offset == following else JUDGED + VIOLATED
            elif e.offset in on_its_way:
                count += JUDGED
                del on_its_way[: on_its_way.index(e.offset) + 1]
            else:
                count += never_shipped(history, start, e)
            following = max(following, e.offset + 1) if e.f in RECORDS else e.last + 1
    return count


def heard_was_shipped(history: History) -> Count:
    """read-path.md#heard-was-shipped."""
    return total(conversation(history, events) for events in conversations(history))


TWINS: dict[str, Plain] = {"heard-was-shipped": heard_was_shipped}
