"""The twin of the check of seals, written from the rule that it names."""

from __future__ import annotations

from plain import JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, total, wipes
from plain_copies import within
from plain_read_path import judged, lost_end


def written(e: Event, before: list[Event]) -> bool:
    """Whether a copy is of whoever wrote the record: no newer write is there, and all copies of it name one copyset."""
    newer = [b for b in before if (b.recovery, b.wave) > (e.recovery, e.wave)]
    same = [b for b in before if (b.recovery, b.wave) == (e.recovery, e.wave)]
    return not newer and all(b.shards == e.shards for b in same)


def starts(e: Event) -> bool:
    """Whether a life of a node begins."""
    return e.kind == "takes_part"


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
                upto = sealed[e.node]
                count += judged(e.recovery < upto if e.recovery > 0 else e.offset >> 32 <= upto)
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
