"""The twin of the check of seals, written from the rule that it names."""

from __future__ import annotations

from plain import JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, total, wipes
from plain_copies import nodeset_of, within
from plain_read_path import ends, goes_on, is_cut, judged, lost_end, next_end, satisfied


def written(e: Event, before: list[Event]) -> bool:
    """Whether a copy is of whoever wrote the record: no newer write is there, and all copies of it name one copyset."""
    newer = [b for b in before if (b.recovery, b.wave) > (e.recovery, e.wave)]
    same = [b for b in before if (b.recovery, b.wave) == (e.recovery, e.wave)]
    return not newer and all(b.shards == e.shards for b in same)


def starts(e: Event) -> bool:
    """Whether a life of a node begins."""
    return e.kind == "takes_part"


SIGNS = ("copy", "seal", "release")


def refuses(e: Event, sealed: int) -> bool:
    """Whether a shard that is sealed so far refuses the write that a copy is of."""
    return e.recovery < sealed if e.recovery > 0 else e.offset >> 32 <= sealed


def sealed_at(history: History, shard: int, seq: int) -> int:
    """How far a shard was sealed at an event, as far as is recorded."""
    upto = 0
    for e in history.events[:seq]:
        if e.node == shard and (wipes(e) or (starts(e) and e.reason == "lost")):
            upto = 0
        elif e.node == shard and e.kind == "seal":
            upto = max(upto, e.epoch)
    return upto


def may_have_stored(history: History, shard: int, e: Event) -> bool:
    """Whether a shard may have had the write before, and lost that with the end of its record."""
    cuts = [b for b in ends(history, shard) if b.seq < e.seq and is_cut(b)]
    if any(not refuses(e, sealed_at(history, shard, b.seq)) for b in cuts):
        return True
    if shard == e.node or refuses(e, sealed_at(history, shard, e.seq)) or not goes_on(history, shard, e.seq):
        return False
    return is_cut(next_end(history, shard, e.seq, SIGNS))


def may_be_of_donor(history: History, e: Event) -> bool:
    """read-path.md#donor-unseen."""
    before, declared = history.events[: e.seq], nodeset_of(history, e.offset, e.seq)
    if not declared or not any(b.kind == "event_log" and b.f in LEAVE for b in before):
        return False
    top = max((b for b in before if b.kind == "release"), key=lambda b: b.offset, default=None)
    if top is None or e.offset > top.offset:
        began = max((b.seq for b in before if top and b.node == top.node and starts(b) and b.seq < top.seq), default=-1)
        sequencers = {b.node for b in before if starts(b) and b.f == "sequencer"} | {b.node for b in [top] if b}
        if not lost_end(history, sequencers, e.seq, began, SIGNS, e.node):
            return False
    shards = {int(shard) for shard in declared["locations"] if int(shard) in range(63)}
    holders = {shard for shard in shards if may_have_stored(history, shard, e)}
    return bool(holders) if e.recovery > 0 else satisfied(declared, holders)


LEAVE = ("rebuild", "drain", "unrecoverable")


def seal_is_kept(history: History) -> Count:
    """read-path.md#shard-refuses, read-path.md#recovery-seal."""
    count = Count()
    copies: dict[int, list[Event]] = {}
    sealed: dict[int, int] = {}
    ever: dict[int, int] = {}
    begun: set[int | None] = set()
    for e in history.events:
        if starts(e) and e.node in range(63):
            begun.add(e.node)
        if wipes(e) or (e.kind == "takes_part" and e.reason == "lost"):
            sealed.pop(e.node, None)
        elif e.kind == "seal" and e.node in range(63) and e.epoch > 0:
            sealed[e.node] = max(e.epoch, sealed.get(e.node, 0))
            ever[e.node] = max(e.epoch, ever.get(e.node, 0))
        elif e.kind == "copy":
            before = copies.setdefault(e.offset, [])
            if written(e, before) and e.node in sealed:
                late = refuses(e, sealed[e.node])
                count += UNJUDGED if late and may_be_of_donor(history, e) else judged(late)
            before.append(e)
        elif e.kind == "recover" and ever:
            shards = {shard for shard in within(e.shards) if not begun or shard in begun or shard in ever}
            count += total(JUDGED for _ in shards)
            unsealed = {shard for shard in shards if ever.get(shard, 0) < e.recovery}
            since = max((b.seq for b in history.events[: e.seq] if starts(b) and b.node == e.node), default=-1)
            lost = all(lost_end(history, {shard}, e.seq, since, ("copy", "seal")) for shard in unsealed)
            count += (UNJUDGED if lost else VIOLATED) if unsealed else Count()
    return count


TWINS: dict[str, Plain] = {"seal-is-kept": seal_is_kept}
