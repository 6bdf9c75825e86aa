"""The twins of the checks of copies and of who ships them, written from the rules that they name."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from plain import EXCUSED, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, once, total, wipes
from plain_gaps import settings, statuses
from plain_read_path import ends, is_cut, judged, lives, lost_end, next_end, nodeset, satisfied


def within(mask: int | None) -> set[int]:
    """The shards of a set."""
    return {shard for shard in range(63) if max(mask or 0, 0) >> shard & 1}


@once
def nodesets(history: History) -> list[tuple[int, int, Any]]:
    """The event that tells it, the epoch from which on it goes, and what it says, of each nodeset."""
    return [(e.seq, e.epoch, nodeset(e)) for e in history.events if e.kind == "nodeset" and nodeset(e)]


def nodeset_of(history: History, lsn: int, before: int) -> Any:  # noqa: ANN401
    """The nodeset of an epoch, as far as it was told by then."""
    since = [
        (epoch, seq, reported) for seq, epoch, reported in nodesets(history) if seq < before and epoch <= lsn >> 32
    ]
    return max(since, key=lambda each: each[:2])[2] if since else None


SIGNS = ("copy", "purge", "trim_point", "ship", "acknowledge", "release", "recover")


def may_have(history: History, shards: set[int], seq: int, since: int, *, kept: bool = False) -> set[int]:
    """Those of some shards that may have stored something between two events and lost that with their record's end;
    and have it still, if it was to be ``kept``."""
    gone = dict.fromkeys(shards, -1)
    for e in history.events[:seq] if kept else ():
        if e.node in gone and (wipes(e) or (e.kind == "takes_part" and e.reason == "lost")):
            gone[e.node] = e.seq
    return {shard for shard in shards if lost_end(history, {shard}, seq, max(since, gone[shard]), SIGNS)}


def cut_since(history: History, shard: int, since: int, seq: int) -> bool:
    """Whether a shard was cut off between two events."""
    return any(since < b.seq < seq and is_cut(b) for b in ends(history, shard))


def may_be_recovered(history: History, e: Event, missing: int) -> bool:
    """Whether an epoch may be recovered, and whoever did it have lost that with the end of its record."""
    before = history.events[: e.seq]
    nodes = {b.node for b in before if b.kind == "takes_part" and b.f == "sequencer"}
    since = next((b.seq for b in before if b.kind == "recover" and b.epoch == missing - 1), -1)
    return lost_end(history, nodes, e.seq, since, SIGNS, e.node)


def takes_copies(e: Event, lsn: int) -> bool:
    """Whether the copy of a node at an LSN goes with this event, as far as its disk or the system is concerned."""
    lost = wipes(e) or (e.kind == "takes_part" and e.reason == "lost")
    given_up = (e.kind == "trim_point" and lsn <= e.offset) or (e.kind == "purge" and e.offset <= lsn <= e.last)
    return lost or given_up


class Fate(NamedTuple):
    """What became of an acknowledged record: when it was acknowledged, since when it has had enough copies, and when it
    had for the first time."""

    acknowledged: int
    since: int | None
    first: int | None


def fate(history: History, lsn: int, before: int) -> Fate | None:
    """read-path.md#acknowledged-not-lost: whether it has enough copies on disks that were not lost."""
    held: dict[int, tuple[str, Any]] = {}
    empty: set[int] = set()
    found: Event | None = None
    since: int | None = None
    first: int | None = None
    for e in history.events:
        if e.seq >= before:
            break
        lost = False
        if e.kind == "copy" and e.offset == lsn:
            held[e.node] = e.record, e.value
        elif e.kind == "acknowledge" and e.offset == lsn and found is None:
            found = e
        elif e.kind == "event_log":
            now = {shard for shard, status in statuses(e).items() if status == 2}
            lost, empty = bool(now - empty), now
        elif e.kind == "stream_heard" and e.f == "damaged" and e.offset == lsn:
            lost = held.pop(e.peer, None) is not None
        elif takes_copies(e, lsn):
            gone = held.pop(e.node, None) is not None
            lost = gone and e.kind in ("fault", "takes_part")
        else:
            continue
        if found is not None:
            reported = nodeset_of(history, lsn, e.seq)
            having = {s for s, copy in held.items() if copy == ("data", found.value)} - empty
            enough = bool(reported) and satisfied(reported, having)
            if enough and since is None and e.kind in ("copy", "acknowledge") and e.offset == lsn:
                since = e.seq
                first = e.seq if first is None else first
            elif lost and not enough:
                since = None
    return Fate(found.seq, since, first) if found is not None else None


@dataclass
class Passed:
    """A gap, and what it passes over: acknowledged records that are owed, and others."""

    e: Event
    owed: bool
    covers: bool
    ever: bool
    by_record: bool
    edge: bool
    rotten: bool


def passed(history: History, kinds: tuple[str, ...]) -> list[Passed]:
    """The gaps of these types with what they cover."""
    found = []
    for life in lives(history):
        begins = life[0] if life[0].kind == "invoke" else None
        for e in life:
            if e.kind != "stream_gap" or e.f not in kinds:
                continue
            before = [b for b in life if b.seq < e.seq]
            done = [b.seq for b in before if b.kind == "stream_rewind" and b.f == "done"]
            asked = done[-1] if done else begins.seq if begins else -1
            heard = [b for b in before if b.kind == "stream_heard" and b.record == "bridge" and b.f != "damaged"]
            by_record = e.f == "hole" or any(b.offset == e.offset for b in heard)
            earlier = [b for b in history.events if b.seq < e.seq]
            trimmed = max([b.offset for b in earlier if b.kind == "trim_point"], default=-1)
            reported = {b.offset for b in earlier if b.kind == "acknowledge" and max(e.offset, trimmed + 1) <= b.offset}
            fates = [fate(history, lsn, e.seq) for lsn in reported if lsn <= e.last]
            owed = any(f and f.since is not None and (f.since in (f.acknowledged, *range(asked))) for f in fates)
            said = [b for b in before if b.kind == "stream_settings"]
            edge = at_edge(e, begins, settings(said[-1]) if said else None, by_record)
            rotten = any(b.kind == "fault" and b.f == "rot" for b in earlier)
            ever = any(f and f.first is not None for f in fates)
            found.append(Passed(e, owed, bool(fates), ever, by_record, edge, rotten))
    return found


def at_edge(e: Event, begins: Event | None, reported: Any, by_record: bool) -> bool:  # noqa: ANN401
    """Whether a bridge may cover a loss (read-path.md#gap-bridge, read-path.md#gap-data-loss); a gap that ends where
    its stream does may have gone on."""
    until = begins.last_offset if begins and begins.last_offset != begins.offset else None
    if not reported or e.last == until:
        return True
    end = e.last + 1
    starts = (begins is not None and e.offset == begins.offset) or (e.offset - 1) >> 32 < end >> 32
    between = e.offset >> 32 != end >> 32 or (starts and end & 0xFFFFFFFF <= reported["in_flight"])
    return between and not by_record


def acknowledged_not_lost(history: History) -> Count:
    """read-path.md#acknowledged-not-lost."""
    enough = first_enough(history)
    given = [e for e in history.events if e.kind == "stream_record"]
    count = Count(judged=sum(enough.get(e.offset, e.seq) < e.seq for e in given))
    for gap in passed(history, ("hole", "dataloss")):
        if gap.covers:
            unknown, wrong = not gap.ever or (gap.rotten and gap.by_record), gap.owed or gap.e.f == "hole"
            count += UNJUDGED if unknown else judged(wrong) + (Count() if wrong else EXCUSED)
        elif min(enough.values(), default=gap.e.seq) >= gap.e.seq:
            count += UNJUDGED
    return count


def first_enough(history: History) -> dict[int, int]:
    """By LSN the event with which what was acknowledged there has had enough copies for the first time."""
    reported = {e.offset for e in history.events if e.kind == "acknowledge"}
    fates = {lsn: fate(history, lsn, history.events[-1].seq + 1) for lsn in reported}
    return {lsn: each.first for lsn, each in fates.items() if each is not None and each.first is not None}


def bridge_hides_nothing(history: History) -> Count:
    """read-path.md#bridge-hides-nothing."""
    count, enough = Count(), first_enough(history)
    for gap in passed(history, ("bridge",)):
        some = gap.ever if gap.covers else min(enough.values(), default=gap.e.seq) < gap.e.seq
        if not some or (gap.covers and gap.rotten and gap.by_record):
            count += UNJUDGED
        elif gap.owed or (gap.covers and not gap.edge):
            count += JUDGED + VIOLATED
        else:
            count += JUDGED + (EXCUSED if gap.covers else Count())
    return count


def recovered_copies_agree(history: History) -> Count:
    """read-path.md#recovered-copies-agree."""
    count = Count()
    settled: dict[int, tuple[str, Any]] = {}
    good: dict[int, int] = {}
    held: dict[int, dict[int, tuple[str, Any]]] = defaultdict(dict)
    runs: dict[tuple[int, int], int] = {}
    written: dict[int, set[int]] = defaultdict(set)
    stored: dict[tuple[int, int], set[int]] = defaultdict(set)  # by LSN and run
    copied = False
    begun: set[int | None] = set()
    when: dict[tuple[int, int], int] = {}
    unsure: set[int] = set()
    recoverers: dict[int, int] = {}
    for e in history.events:
        if e.kind == "takes_part" and e.node in range(63):
            begun.add(e.node)
        if e.kind == "copy":
            since, when[e.offset, e.node] = when.get((e.offset, e.node), -1), e.seq
            if e.recovery > 0:
                stored[e.offset, e.recovery] |= {e.node}
            before, run = held[e.offset].get(e.node, ("data", None)), runs.get((e.offset, e.node), 0)
            if before[0] != "data" and 0 < run < e.recovery:
                between = any(run < other < e.recovery for other in written[e.offset])
                among = nodeset_of(history, e.offset, e.seq)
                others = {int(shard) for shard in among["locations"]} if among else set()
                beaten = e.record == "data" and not between
                lost = beaten and lost_end(history, others, e.seq, since, SIGNS, e.node)
                count += JUDGED + (UNJUDGED if lost else VIOLATED if beaten else Count())
            if e.recovery > 0 and e.record == "data":
                written[e.offset].add(e.recovery)
            held[e.offset][e.node], runs[e.offset, e.node] = (e.record, e.value), e.recovery
            copied = True
        elif e.kind == "stream_heard" and e.f == "damaged":
            held[e.offset].pop(e.peer, None)
        elif e.kind in ("fault", "takes_part", "trim_point", "purge"):
            for lsn, copies in held.items():
                if takes_copies(e, lsn):
                    copies.pop(e.node, None)
        elif e.kind == "recover":
            for lsn, copies in held.items():
                if e.epoch == lsn >> 32 and max(e.offset, e.epoch << 32) < lsn <= e.last:
                    found = [copy for shard, copy in copies.items() if shard in within(e.shards)]
                    here = {s: copy for s, copy in copies.items() if s in within(e.shards)}
                    life = (b.seq for b in history.events[: e.seq] if b.node == e.node and b.kind == "takes_part")
                    began = max(life, default=-1)
                    sure = {s: c for s, c in here.items() if not cut_since(history, s, max(began, when[lsn, s]), e.seq)}
                    kept = {c for s, c in sure.items() if not is_cut(next_end(history, s, e.seq, SIGNS))}
                    differ = VIOLATED if len(kept) > 1 else UNJUDGED
                    count += (JUDGED + (differ if len({*found}) > 1 else Count())) if found else Count()
                    unsure = unsure - {lsn} if sure else unsure | ({lsn} if found else set())
                    found = [*sure.values()] or found
                    wrote, among = stored[lsn, e.recovery] & {*range(63)}, nodeset_of(history, lsn, e.seq)
                    unseen = {*within(e.shards)} - begun if begun else set()
                    if wrote and among:
                        enough = satisfied(among, wrote)
                        others = {*within(e.shards)} - wrote - unseen
                        unseen |= may_have(history, others, e.seq, began) if not enough else set()
                        hides = not enough and satisfied(among, wrote | unseen)
                        count += UNJUDGED if hides else judged(not enough)
                    settled |= {lsn: found[0]} if found else {}
            life = (b.seq for b in history.events[: e.seq] if b.node == e.node and b.kind == "takes_part")
            recoverers.setdefault(e.epoch, max(life, default=-1))
            empty = e.last <= e.epoch << 32
            good.setdefault(e.epoch, (e.epoch + 1 << 32) - 1 if empty else max(e.offset, e.epoch << 32))
        elif e.kind == "ship":
            has = [lsn for lsn in shipped(e) if e.node in held.get(lsn, {}) and lsn > good.get(lsn >> 32, lsn)]
            for lsn in has:
                since = max(recoverers[lsn >> 32], when[lsn, e.node])
                doubtful = lsn in unsure or cut_since(history, e.node, since, e.seq)
                same = held[lsn][e.node] == settled.get(lsn)
                count += UNJUDGED if doubtful and not same else judged(not same)
        elif e.kind == "release" and 2 <= e.epoch <= 1 << 16 and good:
            early = {*range(1, e.epoch)} - {*good}
            if early and may_be_recovered(history, e, min(early)):
                count += UNJUDGED
            elif early or copied:
                count += judged(early)
    return count


@dataclass
class Asked:
    """A START: the event, and up to where the shard has sent since."""

    e: Event
    next: int


@dataclass
class Delivery:
    """One stream since its last rewind: who was asked how, and who shipped what."""

    starts: dict[int, Asked] = field(default_factory=dict)
    shipped: dict[int, tuple[int, set[int], int]] = field(default_factory=dict)


def one_shipper(history: History) -> Count:
    """read-path.md#one-shipper."""
    count, trimmed, recorded = Count(), -1, False
    copies: dict[int, dict[int, set[int]]] = defaultdict(dict)  # by LSN and shard: the copyset, empty without data
    writes: dict[tuple[int, int], tuple[int, int]] = {}  # the wave of each, and its run
    changed: dict[int, int] = {}
    released: list[Event] = []
    streams: dict[int, Delivery] = defaultdict(Delivery)
    for e in history.events:
        if e.kind == "release":
            released.append(e)
        elif e.kind == "copy":
            copies[e.offset][e.node] = within(e.shards) if e.record == "data" else set()
            writes[e.offset, e.node] = e.wave or 0, e.recovery or 0
            changed[e.offset] = e.seq
        elif e.kind in ("fault", "purge", "trim_point"):
            trimmed = max(trimmed, e.offset) if e.kind == "trim_point" else trimmed
            for lsn in list(copies):
                if lsn <= trimmed and e.kind == "trim_point":
                    del copies[lsn]
                elif e.kind != "trim_point" and takes_copies(e, lsn) and e.node in copies[lsn]:
                    del copies[lsn][e.node]
                    changed[lsn] = e.seq
        elif e.kind == "stream_rewind" and e.f == "done":
            streams[e.op] = Delivery()
        elif e.kind == "stream_start":
            streams[e.op].starts[e.peer] = Asked(e, e.offset)
        elif e.kind == "ship":
            recorded = True
            if e.node not in streams[e.op].starts:
                continue
            start = streams[e.op].starts[e.node].e
            if start.filter == e.filter and start.shards is not None:
                for lsn in shipped(e):
                    copyset = copies.get(lsn, {}).get(e.node, set())
                    alone = (
                        copyset and len(copyset) == factor(history, lsn, e.seq) and not copyset & within(start.shards)
                    )
                    new = e.node, copyset if alone else set(), e.seq
                    first, among, since = streams[e.op].shipped.setdefault(lsn, new)
                    same = first in copies.get(lsn, {}) and writes.get((lsn, first)) == writes.get((lsn, e.node))
                    same = same and changed.get(lsn, -1) <= since
                    count += judged(first != e.node and among == copyset and same) if alone else Count()
        elif e.kind == "stream_heard" and e.peer in streams[e.op].starts:
            over = passed_over(history, e, streams[e.op], copies, writes, (changed, released), trimmed)
            count += over if recorded else Count()
    return count


def passed_over(
    history: History,
    e: Event,
    stream: Delivery,
    copies: dict[int, dict[int, set[int]]],
    writes: dict[tuple[int, int], tuple[int, int]],
    at_rest: tuple[dict[int, int], list[Event]],
    trimmed: int,
) -> Count:
    """What a shard passes over with a message somebody shipped, if all who are not listed have passed it.

    Its copies are as they were when it was released, or when they were asked.
    """
    count, start = Count(), stream.starts[e.peer]
    changed, released = at_rest
    if start.e.filter != e.filter or e.last < start.next:
        return count
    before, start.next = start.next, e.last + 1
    if start.e.shards is None:
        return count
    if e.record is not None:
        stream.shipped.setdefault(e.offset, (e.peer, set(), e.seq))
    for lsn, held in copies.items():
        if not max(before, trimmed + 1) <= lsn <= e.last:
            continue
        copyset = next(iter(held.values()), set())
        asked = [stream.starts.get(shard) for shard in copyset - within(start.e.shards)]
        equal = all(each == copyset for each in held.values()) and {*held} == copyset
        equal = equal and len({writes[lsn, node] for node in held}) == 1
        if asked and equal and len(copyset) == factor(history, lsn, e.seq):
            out = next((b.seq for b in released if b.offset >= lsn), -1)
            same = [a for a in asked if a and a.e.shards == start.e.shards and changed[lsn] < max(a.e.seq, out)]
            if len(same) == len(asked) and all(a.e.offset <= lsn < a.next for a in same):
                count += judged(lsn not in stream.shipped)
    return count


def factor(history: History, lsn: int, before: int) -> int:
    """R of the epoch, 0 if it is not known."""
    reported = nodeset_of(history, lsn, before)
    return max(reported["replication"].values()) if reported else 0


def shipped(e: Event) -> list[int]:
    """The LSNs that a `ship` names, of those that it is about."""
    try:
        reported = json.loads(e.text)
        named = type(reported) is list and all(type(lsn) is int for lsn in reported)
        return [lsn for lsn in reported if e.offset <= lsn <= e.last] if named else []
    except (TypeError, ValueError):
        return []


def rebuilt_is_replicated(history: History) -> Count:
    """read-path.md#rebuilding-donors."""
    count, reported = Count(), _Known()
    for e in history.events:
        if e.kind == "event_log":
            count += reported.empties(history, e)
        else:
            if e.kind == "acknowledge" and e.offset not in reported.acknowledged:
                count += total(reported.is_made_up_for(history, e, shard) for shard in within(e.shards))
            reported.see(history, e)
    return count


class _Known:
    """What was told of copies and shards so far."""

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.held: dict[int, dict[int, tuple[str, Any]]] = {}  # by LSN and shard
        self.acknowledged: dict[int, Any] = {}
        self.named: dict[int, set[int]] = {}
        self.ever: set[int] = set()
        self.gone: dict[int, int] = {}  # by LSN: when a shard lost a copy that it should have had
        self.plan, self.trimmed, self.rotten = -1, -1, False
        self.drained: set[int] = set()
        self.plans: list[int] = []

    def holders(self, lsn: int) -> set[int]:
        """The shards whose copies of what was acknowledged count."""
        copies = self.held.get(lsn, {})
        empty = {shard for shard, status in self.statuses.items() if status == 2}
        return {s for s, copy in copies.items() if copy == ("data", self.acknowledged[lsn]) and 0 <= s < 63} - empty

    def enough(self, history: History, lsn: int, seq: int) -> bool:
        """Whether they satisfy the property."""
        reported = nodeset_of(history, lsn, seq + 1)
        return bool(reported) and satisfied(reported, self.holders(lsn))

    def see(self, history: History, e: Event) -> None:
        """Follow an event."""
        if e.kind == "copy":
            self.held.setdefault(e.offset, {})[e.node] = e.record, e.value
        elif e.kind == "acknowledge":
            self.acknowledged.setdefault(e.offset, e.value)
            self.named.setdefault(e.offset, within(e.shards))
        elif e.kind == "trim_point":
            self.trimmed = max(self.trimmed, e.offset)
        elif e.kind == "fault" and e.f == "rot":
            self.rotten = True
        if (
            e.kind in ("copy", "acknowledge")
            and e.offset in self.acknowledged
            and self.enough(history, e.offset, e.seq)
        ):
            self.ever.add(e.offset)
        node = e.peer if e.kind == "stream_heard" else e.node
        for lsn, copies in self.held.items():
            damaged = e.kind == "stream_heard" and e.f == "damaged" and e.offset == lsn
            if (damaged or takes_copies(e, lsn)) and copies.pop(node, None):
                by_disk = e.kind not in ("purge", "trim_point")
                if by_disk and self.statuses.get(node, 0) == 0:
                    self.gone[lsn] = e.seq

    def is_made_up_for(self, history: History, e: Event, shard: int) -> Count:
        """Whether nobody stored what is acknowledged after this shard, which has lost its copy, counted as empty."""
        before, here = history.events[: e.seq], self.held.get(e.offset, {})
        lost = [b.seq for b in before if b.node == shard and (wipes(b) or (b.kind, b.reason) == ("takes_part", "lost"))]
        if here.get(shard) == ("data", e.value) or not lost:
            return Count()
        logged = [b for b in before if b.kind == "event_log"]
        was = max((b for b in logged if b.seq < lost[-1]), key=lambda b: b.seq, default=None)
        empty = [lost[-1]] if was and statuses(was).get(shard) == 2 else []
        empty += [b.seq for b in logged if b.seq > lost[-1] and statuses(b).get(shard) == 2]
        purged = any(b.kind == "purge" and b.node == shard and b.seq > lost[-1] for b in before)
        others = within(e.shards) & {other for other, copy in here.items() if copy == ("data", e.value)}
        copies = [b for b in before if b.kind == "copy" and b.offset == e.offset and b.node in others]
        last = {b.node: b for b in copies}.values()
        if not empty or purged or not any(b.seq > empty[0] and b.recovery <= 0 for b in last):
            return Count()
        if self.rotten:
            return UNJUDGED
        return JUDGED + (UNJUDGED if may_have(history, {shard}, e.seq, lost[-1]) else VIOLATED)

    def empties(self, history: History, e: Event) -> Count:
        """A record of the event log, by which shards may have become empty."""
        before, self.statuses = self.statuses, statuses(e)
        empty, was = ({s for s, status in each.items() if status == 2} for each in (self.statuses, before))
        away, now = (
            {s for s, status in each.items() if status in (1, 3) and 0 <= s < 63} for each in (before, self.statuses)
        )
        drained = set(self.drained)
        if e.f == "drain" and before.get(e.peer, 0) == 0 and 0 <= e.peer < 63:
            drained.add(e.peer)
        elif e.f == "abort":
            drained.discard(e.peer)
        other = away != now or drained != self.drained
        self.drained = {s for s in drained if self.statuses.get(s, 0) == 0}
        if not {s for s in empty - was if 0 <= s < 63}:
            self.plan = e.seq if other else self.plan
            self.plans += [e.seq] if other else []  # donors begin anew when others are away or drained than before
            return Count()
        back = {s for s in away & (empty - was) if before[s] == 3}
        newest = {epoch: nodeset for seq, epoch, nodeset in nodesets(history) if seq < e.seq}
        all_away = Count()
        if e.f == "done" and back and newest:
            declared = {epoch: seq for seq, epoch, _ in reversed(nodesets(history))}
            known = [each for epoch, each in newest.items() if self.plan < 0 or declared[epoch] < self.plan]
            all_away = judged(any(satisfied(each, away) for each in known))
        full = {shard for shard, status in self.statuses.items() if status == 0}
        begun = {b.node for b in history.events if b.kind == "takes_part" and b.seq < e.seq} & {*range(63)}
        if self.rotten or (begun and full & {*range(63)} - begun):
            return all_away + UNJUDGED
        lsns = [lsn for lsn in self.ever if lsn > self.trimmed and self.gone.get(lsn, -1) <= self.plan]
        return all_away + total(
            self.copied_again(history, lsn, e) for lsn in lsns if self.holders(lsn) & full & self.named[lsn]
        )

    def copied_again(self, history: History, lsn: int, e: Event) -> Count:
        """Whether what is acknowledged has enough copies without shards that are empty now."""
        if self.enough(history, lsn, e.seq):
            return JUDGED
        among, empty = nodeset_of(history, lsn, e.seq + 1), {s for s, status in self.statuses.items() if status == 2}
        others = {int(shard) for shard in among["locations"]} - self.holders(lsn) - empty if among else set()
        since = next(b.seq for b in history.events if b.kind == "acknowledge" and b.offset == lsn)
        since = next((plan for plan in self.plans if plan > since), e.seq) if e.kind == "event_log" else since
        lost = may_have(history, others, e.seq, since, kept=True)
        return JUDGED + (UNJUDGED if among and satisfied(among, self.holders(lsn) | lost) else VIOLATED)


def purges(history: History) -> Count:
    """What is purged leaves enough of what was acknowledged (read-path.md#release-needs-recovery)."""
    count, reported = Count(), _Known()
    for e in history.events:
        if e.kind == "purge":
            fates = {
                lsn: fate(history, lsn, e.seq)
                for lsn in reported.acknowledged
                if max(e.offset, reported.trimmed + 1) <= lsn <= e.last
            }
            owed = [lsn for lsn, each in fates.items() if each is not None and each.since is not None]
            held = [lsn for lsn in owed if e.node in reported.holders(lsn) and reported.enough(history, lsn, e.seq)]
            reported.see(history, e)
            count += total(reported.copied_again(history, lsn, e) for lsn in held)
        elif e.kind == "event_log":
            reported.empties(history, e)
        else:
            reported.see(history, e)
    return count


TWINS: dict[str, Plain] = {
    "rebuilt-is-replicated": rebuilt_is_replicated,
    "acknowledged-not-lost": acknowledged_not_lost,
    "bridge-hides-nothing": bridge_hides_nothing,
    "recovered-copies-agree": lambda history: recovered_copies_agree(history) + purges(history),
    "one-shipper": one_shipper,
}
