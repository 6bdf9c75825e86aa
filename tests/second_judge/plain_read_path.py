"""The twins of the checks of the read path, each written from the rule that it names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, total

REFUSALS = ("access", "not_in_config")
DELIVERIES = ("stream_record", "stream_gap")


def judged(broken: object) -> Count:
    """One fact, and whether it breaks the rule."""
    return JUDGED + VIOLATED if broken else JUDGED


def deliveries(history: History) -> list[Event]:
    """What readers delivered."""
    return [e for e in history.events if e.kind in DELIVERIES]


def lives(history: History) -> list[list[Event]]:
    """The events of each stream, from its invocation on; those before it, if it has any, are a life of their own."""
    found: list[list[Event]] = []
    last: dict[int | None, list[Event]] = {}
    for e in history.events:
        begins = e.kind == "invoke" and e.f == "read_stream"
        if begins or e.kind.startswith("stream_"):
            if begins or e.op not in last:
                last[e.op] = []
                found.append(last[e.op])
            last[e.op].append(e)
    return found


def tiling(history: History) -> Count:
    """read-path.md#tiling."""
    count = Count()
    for life in lives(history):
        given = [e for e in life if e.kind in DELIVERIES]
        if life[0].kind != "invoke":
            count += Count(unjudged=len(given))
        elif given:
            count += judged(given[0].offset != life[0].offset)
            count += total(judged(e.offset != before.last + 1) for before, e in pairwise(given))
    return count


def nothing_after_end(history: History) -> Count:
    """read-path.md#nothing-after-end."""
    count = Count()
    for life in lives(history):
        given = [e for e in life if e.kind in DELIVERIES]
        if life[0].kind != "invoke":
            count += Count(unjudged=len(given))
            continue
        ends = life[0].last_offset is not None and life[0].last_offset != life[0].offset
        for e in given:
            refused = any(b.seq < e.seq and b.kind == "stream_gap" and b.f in REFUSALS for b in given)
            count += judged(refused or (ends and e.last > life[0].last_offset))
    return count


def record_as_appended(history: History) -> Count:
    """read-path.md#record-as-appended."""
    count = Count()
    values: dict[int, int] = {}
    asked: dict[int, int] = {}
    written: set[int] = set()
    answered: set[int] = set()
    sizes: dict[int, int] = {}
    for e in history.events:
        if e.kind == "invoke" and e.f == "append_record":
            asked[e.op] = e.value
            written.add(e.value)
        elif e.kind == "ok" and e.f == "append_record" and e.op in asked:
            value = asked.pop(e.op)
            if e.offset is not None and e.offset not in values:
                values[e.offset] = value
                answered.add(e.offset)
            elif e.offset is not None and values[e.offset] != value:
                count += JUDGED + VIOLATED
        elif e.kind == "acknowledge":
            if e.offset in answered and values[e.offset] == e.value:
                count += JUDGED + VIOLATED
            answered.discard(e.offset)
            values.setdefault(e.offset, e.value)
        elif e.kind == "stream_heard":
            if e.f == "record" and e.value is not None and values.get(e.offset, e.value) != e.value:
                count += JUDGED + VIOLATED
            elif e.f == "record" and e.value is not None and e.offset in values and (e.get("bytes") or 0) > 0:
                count += JUDGED + VIOLATED if sizes.setdefault(e.offset, e["bytes"]) != e["bytes"] else Count()
        elif e.kind == "stream_record":
            if not written:
                count += UNJUDGED
            else:
                count += judged(values.setdefault(e.offset, e.value) != e.value or e.value not in written)
    return count


def ends(history: History, node: int | None) -> list[Event]:
    """The events by which lives of a node ended; one that begins while another goes on ends that."""
    turns = [e for e in history.events if e.node == node and e.kind in ("takes_part", *GONE)]
    return [
        e
        for before, e in pairwise([None, *turns])
        if e and (e.kind != "takes_part" or (before and before.kind == "takes_part"))
    ]


def is_cut(e: Event | None) -> bool:
    """Whether the end of a life is one that the end of the record may be lost with."""
    return e is not None and e.kind != "stop"


SEQUENCES, STORES = ("acknowledge", "release"), ("copy", "acknowledge", "release")


def next_end(history: History, node: int | None, seq: int, signs: tuple[str, ...] = SEQUENCES) -> Event | None:
    """The end of the life that a node is in at an event, if it does nothing of these kinds before it."""
    later = [e for e in history.events if e.node == node and e.kind in ("takes_part", *GONE, *signs) and e.seq > seq]
    return later[0] if goes_on(history, node, seq) and later and later[0].kind not in signs else None


def goes_on(history: History, node: int | None, seq: int) -> bool:
    """Whether the life of a node is not over at an event, as far as is recorded."""
    turns = [e for e in history.events if e.node == node and e.kind in ("takes_part", *GONE) and e.seq < seq]
    return not turns or turns[-1].kind == "takes_part"


def may_be_released(history: History, top: Event, e: Event) -> bool:
    """Whether a sequencer may have released more than `top` before `e`, and lost that with the end of its record."""
    before = [b for b in history.events if b.seq < e.seq]
    nodes = {b.node for b in before if b.kind == "takes_part" and b.f == "sequencer"} | {top.node}
    shards = {b.node for b in before if b.kind == "takes_part" and b.f == "shard"} - nodes
    began = max((b.seq for b in before[: top.seq] if b.node == top.node and b.kind == "takes_part"), default=-1)
    stored = [b.offset for b in before if b.kind == "copy"]
    beyond = bool(stored) and e.last > max(stored)
    return lost_end(history, nodes, e.seq, began) and (not beyond or lost_end(history, shards, e.seq, began))


SHOWS = ("acknowledge", "release", "trim_point", "copy", "ship")


def lost_end(
    history: History,
    nodes: set[int | None],
    seq: int,
    since: int,
    signs: tuple[str, ...] = SHOWS,
    by: int | None = None,
) -> bool:
    """Whether one of these nodes was cut off between two events, or after the second, of another node, before it did
    anything more."""
    cut = any(since < b.seq < seq and is_cut(b) for node in nodes for b in ends(history, node))
    return cut or any(is_cut(next_end(history, node, seq, signs)) for node in nodes if by is None or node != by)


def may_be_trimmed(history: History, e: Event, wishes: list[Event]) -> bool:
    """Whether a shard may have given up all up to a gap, as a client had asked, and lost that with its record's end."""
    before = history.events[: e.seq]
    begins = max((b.seq for b in before if b.kind == "invoke" and b.f == "read_stream" and b.op == e.op), default=-1)
    heard = [b for b in before[begins + 1 :] if b.kind == "stream_heard" and b.f == "trim" and b.op == e.op]
    told = {b.peer for b in heard if b.last >= e.last}
    shards = {b.node for b in before if b.kind == "takes_part" and b.f == "shard"}
    asked = [b for b in wishes if b.seq < e.seq]
    far = [b.seq for b in asked if b.offset >= e.last]
    if shards and told - shards:
        return True
    return bool(far or not asked) and lost_end(history, told or shards, e.seq, min(far, default=-1))


def released_only(history: History) -> Count:
    """read-path.md#released-only."""
    count = Count()
    releases = [e for e in history.events if e.kind == "release"]
    for e in deliveries(history):
        if e.kind == "stream_record" or e.f in ("hole", "dataloss"):
            top = max((b for b in releases if b.seq < e.seq), key=lambda b: b.offset, default=None)
            beyond = top is not None and e.last > top.offset
            hides = top is None or (beyond and may_be_released(history, top, e))
            count += UNJUDGED if hides else judged(beyond)
    return count


def trim_within_trim_point(history: History) -> Count:
    """read-path.md#trim-within-trim-point, read-path.md#shard-refuses."""
    given = [e for e in deliveries(history) if e.kind == "stream_gap" and e.f == "trim"]
    points = [e for e in history.events if e.kind == "trim_point"]
    wishes = [e for e in history.events if e.kind == "invoke" and e.f == "trim_log" and e.offset is not None]
    count = Count()
    for e in given:
        before = [b.offset for b in points if b.seq < e.seq]
        beyond = bool(before) and e.last > max(before)
        count += UNJUDGED if not before or (beyond and may_be_trimmed(history, e, wishes)) else judged(beyond)
    for e in points:
        asked = [b.offset for b in wishes if b.seq < e.seq]
        released = [b for b in history.events if b.kind == "release" and b.seq < e.seq]
        top = max(released, key=lambda b: b.offset, default=None)
        if asked and (e.offset > max(asked) or top is None or e.offset <= top.offset):
            count += judged(e.offset > max(asked))
        elif asked and top is not None:
            count += UNJUDGED if may_be_released(history, top, e) else JUDGED + VIOLATED
    return count


def bridge_records(history: History) -> set[int]:
    """The gaps, by `seq`, that are bridge records which their streams heard."""
    found: set[int] = set()
    for life in lives(history):
        heard = [e for e in life if e.kind == "stream_heard" and e.record == "bridge"]
        for e in life:
            if e.kind == "stream_gap" and e.f == "bridge":
                found |= {e.seq for b in heard if b.seq < e.seq and b.offset == e.offset}
    return found


def holes_are_for_all(history: History) -> Count:
    """read-path.md#holes-are-for-all."""
    count, of_records = Count(), bridge_records(history)
    records: set[int] = set()
    holes: set[int] = set()
    bridges: set[int] = set()
    for e in deliveries(history):
        if e.kind == "stream_record":
            behind = any(e.offset >> 32 == lsn >> 32 and lsn <= e.offset for lsn in bridges)
            count += JUDGED + VIOLATED if e.offset in holes or behind else Count()
            records.add(e.offset)
        elif e.f == "hole":
            count += judged(e.offset in records)
            holes.add(e.offset)
        elif e.seq in of_records:
            count += judged(any(e.offset >> 32 == lsn >> 32 and lsn >= e.offset for lsn in records))
            bridges.add(e.offset)
    return count


def rejected_comes_next(history: History) -> Count:
    """read-path.md#rejected-comes-next."""
    count = Count()
    for life in lives(history):
        declared = [e for e in life if e.kind in (*DELIVERIES, "stream_reject", "stream_rewind")]
        declared = [e for e in declared if e.kind != "stream_reject" or e.value is not None]
        for rejected, e in pairwise(declared):
            if rejected.kind == "stream_reject" and e.kind in DELIVERIES:
                same = e.kind == "stream_record" and (e.offset, e.value) == (rejected.offset, rejected.value)
                count += judged(not same and not (e.kind == "stream_gap" and e.f in REFUSALS))
    return count


SCOPES = ("REGION", "CLUSTER", "ROW", "RACK", "NODE")


def nodeset(e: Event) -> Any:  # noqa: ANN401
    """What the text of a nodeset says; None if it has another form."""
    try:
        declared = json.loads(e.text)
        factors = all(
            scope in SCOPES and type(factor) is int and factor > 0 for scope, factor in declared["replication"].items()
        )
        names = all(len(each) == len(SCOPES) and int(shard) >= 0 for shard, each in declared["locations"].items())
        return declared if declared["replication"] and factors and names else None
    except (TypeError, ValueError, KeyError, AttributeError):
        return None


def satisfied(declared: Any, shards: set[int]) -> bool:  # noqa: ANN401
    """Copies on these shards lie in enough domains of every scope."""
    places = [tuple(names) for shard, names in declared["locations"].items() if int(shard) in shards]
    levels = {scope: {place[: SCOPES.index(scope) + 1] for place in places} for scope in declared["replication"]}
    return all(len(levels[scope]) >= factor for scope, factor in declared["replication"].items())


def may_lack(history: History, shard: int, e: Event) -> bool:
    """Whether the record of a shard may lack what it stored before it was acknowledged: it was cut off by then, since
    the sequencer began, or before it recorded anything more."""
    lives = [b.seq for b in history.events[: e.seq] if b.node == e.node and b.kind == "takes_part"]
    cut = any(max(lives, default=-1) < b.seq < e.seq and is_cut(b) for b in ends(history, shard))
    return cut or is_cut(next_end(history, shard, e.seq, STORES))


def acknowledged_unseen(history: History, first: Event, e: Event) -> bool:
    """Whether who acknowledged something may have acknowledged more before `e`, and lost that with its record's end."""
    end = next((b for b in ends(history, first.node) if b.seq > first.seq), None)
    if end is not None and end.seq > e.seq:
        end = None if first.node == e.node else next_end(history, first.node, e.seq, STORES)
    return is_cut(end)


def replication_property_holds(history: History) -> Count:
    """read-path.md#replication-property-holds."""
    count, declared = Count(), dict[int, Any]()
    having: dict[int, list[Event]] = {}
    acknowledged: set[int] = set()
    released: dict[int, int] = {}
    begun: set[int] = set()
    told = {e.epoch: json.loads(e.text)["locations"] for e in history.events if e.kind == "nodeset" and nodeset(e)}
    for e in history.events:
        if e.kind == "copy" and e.record == "data" and any(epoch <= e.offset >> 32 for epoch in told):
            places = told[max(epoch for epoch in told if epoch <= e.offset >> 32)]
            if any((e.shards or 0) >> shard & 1 and str(shard) not in places for shard in range(63)):
                count += JUDGED + VIOLATED
    count += total(unlike_copies(history))
    for e in history.events:
        if e.kind == "nodeset" and nodeset(e):
            declared[e.epoch] = nodeset(e)
            places = json.loads(e.text)["locations"]
            if sum(1 << int(shard) for shard in places) != e.shards:
                count += JUDGED + VIOLATED
        elif e.kind == "takes_part":
            begun |= {e.node} & {*range(63)}
        elif e.kind == "copy":
            having.setdefault(e.offset, []).append(e)
        elif e.kind == "acknowledge":
            acknowledged.add(e.offset)
            since = [epoch for epoch in declared if epoch <= e.offset >> 32]
            data = [c for c in having.get(e.offset, []) if c.record == "data" and c.recovery <= 0 and c.wave == e.wave]
            copies = {c.node for c in data if c.value in (None, e.value) and e.shards >> c.node & 1}
            named = {shard for shard in range(63) if e.shards >> shard & 1} if begun else set()
            hidden = {shard for shard in named - copies if shard not in begun or may_lack(history, shard, e)}
            if since and satisfied(declared[max(since)], copies):
                lacking = {shard for shard in begun - copies if e.shards >> shard & 1}
                count += JUDGED + total(UNJUDGED if may_lack(history, s, e) else VIOLATED for s in lacking)
            elif not since or satisfied(declared[max(since)], copies | hidden):
                count += UNJUDGED
            else:
                count += JUDGED + VIOLATED
        elif e.kind == "release" and e.offset >> 32 != e.epoch:
            count += JUDGED + VIOLATED
        elif e.kind == "release":
            first = released.get(e.epoch, e.epoch << 32) + 1
            released[e.epoch] = max(e.offset, first - 1)
            if e.offset - first >= 1 << 16 or not declared:
                count += UNJUDGED
            else:
                count += total(judged(lsn not in acknowledged) for lsn in range(first, e.offset + 1))
        elif e.kind == "recover" and e.offset > e.epoch << 32:
            good = range((e.epoch << 32) + 1, e.offset + 1)
            known = [lsn for lsn in acknowledged if lsn in good] if len(good) <= 1 << 16 and declared else []
            first = min(known, default=0)
            last = max(
                (b for b in history.events[: e.seq] if b.kind == "acknowledge" and b.offset == first),
                default=None,
                key=lambda b: b.seq,
            )
            if last is None or (len(known) < e.offset + 1 - first and acknowledged_unseen(history, last, e)):
                count += UNJUDGED
            else:
                count += judged(len(known) < e.offset + 1 - first)
    void = count.violated > 0 and not (having and acknowledged)
    return count.if_shown(lacks=count.lacking > 0, void=void)


def unlike_copies(history: History) -> Iterator[Count]:
    """Copies of one wave that name other shards than its first one, before any shard is to be rebuilt or drained."""
    first: dict[tuple[int, int | None, int], int] = {}
    logged = any(e.kind == "event_log" for e in history.events)
    for e in history.events:
        if e.kind == "event_log":
            return
        of_sequencer = e.kind == "copy" and e.record == "data" and e.recovery <= 0 and e.node in range(63)
        if of_sequencer and first.setdefault((e.offset, e.value, e.wave), e.shards) != e.shards:
            yield JUDGED + VIOLATED if logged else Count(1, 0, 0, 1, 1)


def slow_is_bounded(history: History) -> Count:
    """read-path.md#slow-is-bounded."""
    count, declared = Count(), list[Any]()
    slow: dict[int | None, int] = {}
    for e in history.events:
        if e.kind == "nodeset" and nodeset(e):
            declared.append(nodeset(e))
        elif e.kind == "stream_slow":
            turned = e.shards & ~slow.get(e.op, 0)
            slow[e.op] = e.shards
            if turned:
                most = max([0, *(factor for each in declared for factor in each["replication"].values())])
                count += judged(e.shards.bit_count() + (e["count"] or 0) >= most) if declared else UNJUDGED
    return count


TWINS: dict[str, Plain] = {
    "tiling": tiling,
    "nothing-after-end": nothing_after_end,
    "record-as-appended": record_as_appended,
    "released-only": released_only,
    "trim-within-trim-point": trim_within_trim_point,
    "holes-are-for-all": holes_are_for_all,
    "rejected-comes-next": rejected_comes_next,
    "replication-property-holds": replication_property_holds,
    "slow-is-bounded": slow_is_bounded,
}
