"""The twins of the checks of shards that lost their data, written from the rules that they name."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

from plain import JUDGED, UNJUDGED, Count, Event, History, Plain, total, wipes
from plain_gaps import statuses
from plain_read_path import judged


class Loss(NamedTuple):
    """A shard is without its data from one event on, and before another one."""

    shard: int
    since: int
    until: int


def losses(history: History) -> list[Loss]:
    """read-path.md#lost-data-refuses: until what it had is rebuilt, or it says that it has its data."""
    found: list[Loss] = []
    open_: dict[int, int] = {}
    newest: dict[int, int] = {}
    for e in history.events:
        gone = wipes(e) or (e.kind == "takes_part" and e.reason == "lost")
        ends: list[int] = []
        if e.kind == "event_log":
            newest = statuses(e)
            ends = [shard for shard in open_ if newest.get(shard) == 2]
        elif e.kind == "takes_part" and e.reason == "intact" and e.node in open_:
            ends = [e.node]
        elif gone and e.node in range(63) and newest.get(e.node) != 2:
            open_.setdefault(e.node, e.seq)
        found += [Loss(shard, open_.pop(shard), e.seq) for shard in ends]
    return found + [Loss(shard, since, history.events[-1].seq + 1) for shard, since in open_.items()]


def asked_since(e: Event, since: int, starts: list[Event]) -> bool:
    """Whether an answer is to STARTs that all came after an event; those that are repeated bear one filter version."""
    mine = [b for b in starts if b.op == e.op and b.peer == e.peer and b.seq < e.seq]
    repeated = list(takewhile(lambda b: b.filter == e.filter, reversed(mine)))
    return bool(repeated) and repeated[-1].seq > since


def said_since(history: History, e: Event, lost: Loss) -> bool:
    """Whether an answer is by a version of the event log that this had only after the shard was back without data."""
    before = [b for b in history.events if lost.since <= b.seq < e.seq]
    back = [b.seq for b in before if b.kind == "takes_part" and b.node == lost.shard and b.reason == "lost"]
    log = [b.version for b in history.events if b.kind == "event_log" and back and b.seq < back[-1]]
    return bool(back) and e.version > max(log, default=0)


def during(history: History, e: Event, lost: Loss, starts: list[Event]) -> Count:
    """What an event says of the shard."""
    if e.node == lost.shard and e.kind in ("copy", "seal", "ship"):
        return judged(True)
    if e.peer != lost.shard or e.kind not in ("stream_started", "stream_heard"):
        return Count()
    if not asked_since(e, lost.since, starts) and not said_since(history, e, lost):
        return Count()
    return judged(e.kind == "stream_heard" or e.reason == "ok")


class Rebuilt(NamedTuple):
    """What a shard had lost is elsewhere, from an event and a version of the event log on."""

    shard: int
    since: int
    version: int


def rebuilt(history: History, lost: list[Loss]) -> list[Rebuilt]:
    """read-path.md#event-log-version: what the answers of a shard are of once it is rebuilt."""
    log = {e.seq: e for e in history.events if e.kind == "event_log"}
    return [Rebuilt(each.shard, each.until, log[each.until].version) for each in lost if each.until in log]


def after(e: Event, lost: list[Loss], said: list[Rebuilt], starts: list[Event]) -> Count:
    """What an event says of a shard that was rebuilt: of what it knows."""
    if e.kind not in ("stream_started", "stream_heard") or (e.kind == "stream_started" and e.reason != "ok"):
        return Count()
    known = [each for each in said if each.shard == e.peer and each.since < e.seq]
    if not known or any(each.shard == e.peer and each.since < e.seq < each.until for each in lost):
        return Count()
    ended = max(each.until for each in lost if each.shard == e.peer and each.until < e.seq)
    if not asked_since(e, ended, starts):
        return Count()
    older = e.version < known[-1].version
    return judged(older) if older or e.kind == "stream_started" else Count()


def loses_a_name(e: Event) -> bool:
    """A file is taken from its directory."""
    return e.kind == "fault" and e.f == "lost_name"


def nameless(history: History, e: Event) -> bool:
    """read-path.md#lost-with-its-disk: whether the disk of a shard that takes part lacks a file."""
    mine = [b for b in history.events[: e.seq] if b.kind in ("fault", "heal") and b.f == "lost_name"]
    return [b.kind for b in mine if b.node == e.node][-1:] == ["fault"]


def comes_back_without(history: History, e: Event) -> Count:
    """A shard says that it lost its data: its disk was emptied since it had it, as far as is recorded."""
    before = history.events[: e.seq]
    mine = [b for b in before if b.node == e.node and (b.kind in ("takes_part", "copy") or wipes(b))]
    if nameless(history, e):
        return JUDGED
    gone = False
    for b in mine:
        since = [c for c in mine if c.kind == "takes_part" and c.seq < b.seq]
        if b.kind == "takes_part":
            gone = b.reason == "lost"
        elif wipes(b):
            gone = True
        elif since and since[-1].reason == "lost" and not any(wipes(c) and since[-1].seq < c.seq < b.seq for c in mine):
            gone = False
    if gone:
        return JUDGED
    if any((wipes(b) or loses_a_name(b)) and b.node is None for b in before):
        return UNJUDGED
    return judged(True) if any(not wipes(b) for b in mine) or e.incarnation == 0 else UNJUDGED


def comes_back_with(history: History, e: Event) -> Count:
    """A shard says that it has its data: its disk was not emptied since it last took part."""
    parts = [b.seq for b in history.events[: e.seq] if b.kind == "takes_part" and b.node == e.node]
    emptied = parts and any(wipes(b) and b.node == e.node for b in history.events[parts[-1] : e.seq])
    return judged(True) if emptied else Count()


def lost_with_its_disk(history: History) -> Count:
    """read-path.md#lost-with-its-disk."""
    parts = [e for e in history.events if e.kind == "takes_part" and e.node in range(63)]
    without = total(comes_back_without(history, e) for e in parts if e.reason == "lost")
    return without + total(comes_back_with(history, e) for e in parts if e.reason == "intact")


def lost_data_refuses(history: History) -> Count:
    """read-path.md#lost-data-refuses."""
    count = Count()
    starts = [e for e in history.events if e.kind == "stream_start"]
    for lost in losses(history):
        for e in history.events:
            if lost.since < e.seq < lost.until:
                count += during(history, e, lost, starts)
            elif e.seq == lost.until and e.kind == "takes_part":
                count += UNJUDGED if nameless(history, e) else judged(True)
    found = losses(history)
    said = rebuilt(history, found)
    return count + total(after(e, found, said, starts) for e in history.events if said)


TWINS: dict[str, Plain] = {"lost-data-refuses": lost_data_refuses, "lost-with-its-disk": lost_with_its_disk}
