"""The twin of the check of what streams hear against what shards shipped them, written from the rule that it names."""

from __future__ import annotations

from itertools import pairwise

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, total
from plain_copies import shipped, takes_copies
from plain_read_path import is_cut, lost_end, next_end

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
        return UNJUDGED if turns[-1].seq > heard.seq else UNJUDGED + Count(lacking=1)
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
                while alone and on_its_way and on_its_way[0] <= e.offset:
                    count += JUDGED + VIOLATED
                    del on_its_way[0]
            else:
                count += never_shipped(history, start, e)
            following = max(following, e.offset + 1) if e.f in RECORDS else e.last + 1
    return count


def heard_was_shipped(history: History) -> Count:
    """read-path.md#heard-was-shipped."""
    return total(conversation(history, events) for events in conversations(history))


def whole(history: History, shard: int, seq: int) -> bool:
    """Whether all is recorded that a shard has done by then: from its first start on, with its disk, never cut off."""
    if not 0 <= shard < 64:
        return False
    own = [e for e in history.events if e.node == shard and e.process is None and e.seq < seq]
    turns = [e for e in own if e.kind in ("takes_part", *GONE)]
    wiped = any(e.kind == "fault" and e.f == "wipe" and e.node in (shard, None) for e in history.events[:seq])
    kinds = [e.kind for e in turns]
    stops = {*kinds} <= {"takes_part", "stop"} and ("takes_part", "takes_part") not in pairwise(kinds)
    intact = all(e.reason != "lost" for e in turns)
    return (
        bool(turns) and turns[0].kind == "takes_part" and turns[0].incarnation == 0 and stops and intact and not wiped
    )


def not_lost(history: History, node: int, heard: Event) -> Count:
    """A violation, unless the node was cut off before it recorded anything more: that may have been lost."""
    return UNJUDGED if is_cut(next_end(history, node, heard.seq, (*SIGNS, "acknowledge", "release"))) else VIOLATED


def answer(history: History, events: list[Event], e: Event) -> Count:
    """What a stream heard, among what it and a shard said to each other from a START on."""
    count = JUDGED
    before = [b for b in events if b.seq < e.seq]
    alone = sum(b.kind == "stream_start" for b in before) == 1
    log = [b for b in history.events[: e.seq] if b.kind == "event_log"]
    if e.version > max((b.version for b in log), default=0):
        count += VIOLATED if any(b.kind == "event_log" for b in history.events) else Count(0, 0, 0, 1, 1)
    versions = [b.version for b in before if b.kind in ("stream_started", "stream_heard")]
    if alone and versions and e.version < versions[-1]:
        count += VIOLATED
    if e.kind == "stream_started":
        return count
    trimmed = [b.offset for b in history.events[: e.seq] if b.kind == "trim_point" and b.node == e.peer]
    if e.f == "trim" and whole(history, e.peer, e.seq) and e.last > (trimmed or [-1])[-1]:
        sign = not_lost(history, e.peer, e)
        count += (
            sign if sign == UNJUDGED or any(b.kind == "trim_point" for b in history.events) else Count(0, 0, 0, 1, 1)
        )
    if e.f in ("no_records", "under_replicated"):
        releases = [b for b in history.events[: e.seq] if b.kind == "release"]
        highest = max(releases, key=lambda b: b.offset, default=None)
        if highest is not None and e.last > highest.offset and e.last >> 32 == highest.offset >> 32:
            before = history.events[: e.seq]
            nodes = {b.node for b in before if b.kind == "takes_part" and b.f == "sequencer"} | {highest.node}
            own = (b.seq for b in before[: highest.seq] if b.kind == "takes_part" and b.node == highest.node)
            signs = (*SIGNS, "acknowledge", "release")
            count += UNJUDGED if lost_end(history, nodes, e.seq, max(own, default=-1), signs) else VIOLATED
    if (e.f == "under_replicated" or e.get("count") == 1) and whole(history, e.peer, e.seq):
        count += VIOLATED
    return count


def answers_are_so(history: History) -> Count:
    """read-path.md#answers-are-so."""
    return total(
        answer(history, events, e)
        for events in conversations(history)
        for e in events
        if e.kind in ("stream_started", "stream_heard")
    )


def starts_carry_the_list(history: History) -> Count:
    """read-path.md#starts-carry-the-list."""
    count = Count()
    begun: dict[int | None, Event] = {}
    for e in history.events:
        if e.kind == "stream_start" or (e.kind == "stream_rewind" and e.f == "done"):
            first = begun.get(e.op)
            if first is None or (first.filter, first.node) != (e.filter, e.node):
                begun[e.op] = e
            elif e.kind == "stream_start":
                count += JUDGED if e.shards == first.shards else JUDGED + VIOLATED
    return count


SHIPS = ("copy", "purge", "trim_point", "ship", "release")


def kept_back(history: History, got: Event, e: Event) -> Count:
    """A shard passes over a copy, unless it may have purged it before, and lost that with the end of its record."""
    before = history.events[: e.seq]
    ships = [b.seq for b in before if b.kind == "ship" and b.node == got.node and got.offset in shipped(b)]
    top = max((b.offset for b in before if b.kind == "release"), default=-1)
    sequencers = {b.node for b in before if b.kind == "takes_part" and b.f == "sequencer"}
    released = top >> 32 > got.offset >> 32 or lost_end(history, sequencers, e.seq, -1, SHIPS)
    if released and lost_end(history, {got.node}, e.seq, max([got.seq, *ships]), SHIPS):
        return UNJUDGED
    unrecorded = released and not history.has("purge")
    return JUDGED + (Count(unjudged=1, lacking=1) if unrecorded else VIOLATED)


def ships_all_it_has(history: History) -> Count:
    """read-path.md#ships-all-it-has."""
    count, trimmed, copied = Count(), -1, False
    copies: dict[tuple[int, int], Event] = {}
    asked: dict[int | None, dict[int, list[Event]]] = {}
    following: dict[tuple[int | None, int], int] = {}
    for e in history.events:
        starts = asked.setdefault(e.op, {})
        if e.kind == "copy":
            copied = True
            copies |= {(e.offset, e.node): e} if e.node in range(63) else {}
        elif e.kind in ("fault", "purge", "takes_part", "trim_point"):
            whose = {node for _, node in copies} if e.kind == "trim_point" else {e.node}
            trimmed = max(trimmed, e.offset) if e.kind == "trim_point" else trimmed
            copies = {at: got for at, got in copies.items() if at[1] not in whose or not takes_copies(e, at[0])}
        elif e.kind == "stream_rewind" and e.f == "done":
            starts.clear()
        elif e.kind == "stream_start":
            earlier = starts.get(e.peer, [])
            starts[e.peer] = [*(earlier if earlier and earlier[0].filter == e.filter else []), e]
            following[e.op, e.peer] = e.offset
        elif e.kind == "stream_heard" and e.peer in starts and starts[e.peer][-1].filter == e.filter:
            start, alone = starts[e.peer][-1], len(starts[e.peer]) == 1
            first = max(following[e.op, e.peer], trimmed + 1)
            if e.last < following[e.op, e.peer]:
                continue
            following[e.op, e.peer] = e.last + 1
            if start.shards is None and alone and copied:
                count += JUDGED
                last = e.last if e.f in ("no_records", "under_replicated") else e.offset - 1
                for got in [c for at, c in copies.items() if at[1] == e.peer and first <= at[0] <= last]:
                    releases = (b for b in history.events[: e.seq] if b.kind == "release")
                    out = next((b.seq for b in releases if b.offset >= got.offset), -1)
                    if got.seq < max(start.seq, out):
                        count += kept_back(history, got, e)
    return count


TWINS: dict[str, Plain] = {
    "heard-was-shipped": heard_was_shipped,
    "ships-all-it-has": ships_all_it_has,
    "answers-are-so": answers_are_so,
    "starts-carry-the-list": starts_carry_the_list,
}
