"""The twins of the checks of what is written and of what is trimmed, written from the rules that they name."""

from __future__ import annotations

from itertools import pairwise

from plain import JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, total, wipes
from plain_copies import nodeset_of, shipped, within
from plain_gaps import statuses
from plain_read_path import judged, satisfied


def loses(e: Event) -> bool:
    """Whether the disk of a node is empty now."""
    return wipes(e) or (e.kind == "takes_part" and e.reason == "lost")


def rank(e: Event) -> tuple[int, int]:
    """read-path.md#recovery-precedence: which write beats which."""
    return max(e.recovery or 0, 0), e.wave


def best_write_stays(history: History) -> Count:
    """read-path.md#append-waves: the highest wave wins at a shard."""
    count = Count()
    best: dict[int, tuple[int, int]] = {}
    having: dict[int, set[int]] = {}
    for e in history.events:
        if loses(e):
            for each in having.values():
                each.discard(e.node)
        elif e.kind == "purge":
            for lsn in having:
                if e.offset <= lsn <= e.last:
                    having[lsn].discard(e.node)
        elif e.kind == "copy":
            had = e.node in having.setdefault(e.offset, set())
            if had:
                count += judged(rank(e) < best[e.offset])
            if rank(e) > best.get(e.offset, (-1, 0)):
                best[e.offset] = rank(e)
                having[e.offset] = {e.node} & {*range(63)}
            elif rank(e) == best[e.offset]:
                having[e.offset] |= {e.node} & {*range(63)}
            else:
                having[e.offset].discard(e.node)
    return count


def empty_takes_nothing(history: History) -> Count:
    """read-path.md#shard-refuses."""
    count, known = Count(), False
    empty: set[int] = set()
    for e in history.events:
        if e.kind == "event_log":
            empty = {shard for shard, status in statuses(e).items() if status == 2}
            known = known or bool(statuses(e))
        elif e.kind == "acknowledge":
            wrong = within(e.shards) & empty
            count += judged(wrong) if wrong or known else Count()
    return count


def of_run(e: Event, copies: list[Event], lsn: int) -> list[Event] | None:
    """The copies of a recovery's run at an LSN; None if a later one has settled that."""
    here = [b for b in copies if b.offset == lsn and b.seq < e.seq]
    if any(rank(b)[0] > e.recovery for b in here):
        return None
    best = max(map(rank, here), default=(0, 0))
    return [b for b in here if rank(b) == best and best[0] == e.recovery]


def settled(history: History, e: Event, copies: list[Event]) -> bool:
    """Whether a recovery that wrote a bridge left no LSN out, and that bridge where it belongs."""
    trimmed = max((b.offset for b in history.events if b.kind == "trim_point" and b.seq < e.seq), default=0)
    first = max(e.offset, e.epoch << 32) + 1
    found = {lsn: of_run(e, copies, lsn) for lsn in range(first, e.last_offset + 1)}
    if any(written == [] and lsn > trimmed for lsn, written in found.items()):
        return False
    if not all(found.values()):
        return True
    words = {lsn: {b.record for b in written or []} for lsn, written in found.items()}
    data = max((lsn for lsn in words if "data" in words[lsn] and "bridge" not in words[lsn]), default=first - 1)
    return "bridge" in words.get(data + 1, set())


def left_open(history: History, e: Event, copies: list[Event]) -> bool:
    """Whether a recovery that wrote no bridge should have: or did not write the last of what it settled."""
    trimmed = max((b.offset for b in history.events if b.kind == "trim_point" and b.seq < e.seq), default=0)
    last = e.last_offset
    if last > max(e.offset, e.epoch << 32) and last > trimmed and of_run(e, copies, last) == []:
        return True
    declared = nodeset_of(history, e.epoch << 32, e.seq)
    if declared is None or last <= e.epoch << 32:
        return False
    logged = [b for b in history.events if b.kind == "event_log" and b.seq < e.seq]
    without = {b.node for b in history.events if loses(b) and b.seq < e.seq}
    without |= {shard for b in logged for shard, status in statuses(b).items() if status == 1}
    unread = {int(shard) for shard in declared["locations"]} & {*range(63)} - (within(e.shards) - without)
    return not satisfied(declared, unread)  # no record can have all its copies there


def recovery_settles_all(history: History) -> Count:
    """read-path.md#recovery-bridge, read-path.md#recovery-digest."""
    count = Count()
    copies = [e for e in history.events if e.kind == "copy"]
    sealed: dict[int, int] = {}
    for e in history.events:
        if e.kind == "seal":
            sealed[e.node] = max(e.epoch, sealed.get(e.node, 0))
        elif e.kind == "recover":
            shards, first = within(e.shards), max(e.offset, e.epoch << 32) + 1
            seen = shards and all(sealed.get(shard, 0) >= e.recovery for shard in shards)
            if not seen or e.last_offset - first >= 1 << 16:
                count += UNJUDGED
            elif e.record == "bridge":
                count += judged(not settled(history, e, copies))
            else:
                count += judged(left_open(history, e, copies))
    return count


def trimmed_is_said(history: History) -> Count:
    """read-path.md#in-order-shipping."""
    count = Count()
    for start in history.events:
        if start.kind != "stream_start" or start.peer not in range(63):
            continue
        point = 0
        for e in history.events:
            if e.seq < start.seq and loses(e) and e.node == start.peer:
                point = 0
            elif e.seq < start.seq and e.kind == "trim_point" and e.node == start.peer:
                point = max(point, e.offset)
        if start.offset > point:
            continue
        for e in history.events:
            same = e.seq > start.seq and e.op == start.op and e.peer == start.peer
            if e.seq > start.seq and ((same and e.kind == "stream_start") or (loses(e) and e.node == start.peer)):
                break
            if not same or e.filter != start.filter or e.kind not in ("stream_started", "stream_heard"):
                continue
            if e.kind == "stream_heard":
                told = e.f == "trim" and e.offset <= start.offset <= e.last
                count += judged(not told and e.f not in ("access", "not_in_config"))
                break
            if e.reason != "ok":
                break
    return count


def ships_what_it_stored(history: History) -> Count:
    """read-path.md#ships-what-it-stored: what a shard that was cut off stored last may not be recorded."""
    count = Count()
    first_copy = min((e.seq for e in history.events if e.kind == "copy"), default=None)
    of_lives = [e for e in history.events if e.kind in ("copy", "takes_part", "stop") or loses(e)]
    for e in history.events:
        if e.kind != "ship" or e.node not in range(63) or first_copy is None or first_copy > e.seq:
            continue
        own = [b for b in of_lives if b.node == e.node and b.seq < e.seq]
        emptied = max((b.seq for b in own if loses(b)), default=-1)
        stored = {b.offset for b in own if b.kind == "copy" and b.seq > emptied}
        turns = [b for b in own if b.kind != "copy"]
        again = [b for a, b in pairwise(turns) if a.kind == b.kind == "takes_part" and b.seq > emptied]
        cut_off = any(not loses(b) for b in again)
        if any(b.kind == "takes_part" for b in turns):
            for lsn in shipped(e):
                count += JUDGED if lsn in stored else UNJUDGED if cut_off else JUDGED + VIOLATED
    return count


def event_log_in_order(history: History) -> Count:
    """read-path.md#event-log-in-order."""
    versions = [e.version for e in history.events if e.kind == "event_log"]
    return total(judged(after != before + 1) for before, after in pairwise(versions))


def statuses_follow_events(history: History) -> Count:
    """read-path.md#status-of-events: what the records of the event log make of each shard, 0 if there are none."""
    count = Count()
    of: dict[int, str] = {}
    records = [e for e in history.events if e.kind == "event_log"]
    for place, e in enumerate(records, 1):
        before, words = of.get(e.peer), ("rebuild", "drain", "unrecoverable", "done", "abort", "acknowledge")
        if any(b.version != at or b.f not in words for at, b in enumerate(records[:place], 1)):
            count += UNJUDGED
            continue
        if e.f == "rebuild" and before in (None, "drained", "drained empty"):
            of[e.peer] = "may come back"
        elif e.f == "drain" and before is None:
            of[e.peer] = "drained"
        elif e.f == "unrecoverable" and before in (None, "may come back", "drained"):
            of[e.peer] = "lost"
        elif (e.f == "abort" and before in ("may come back", "drained")) or (
            e.f == "acknowledge" and before in ("empty", "drained empty")
        ):
            del of[e.peer]
        count += JUDGED
        for shard, status in statuses(e).items():
            if (
                status == 2
                and e.f in ("done", "unrecoverable")
                and of.get(shard) in ("may come back", "lost", "drained")
            ):
                of[shard] = "drained empty" if of[shard] == "drained" else "empty"
            right = {None: 0, "drained": 0, "lost": 1, "empty": 2, "drained empty": 2, "may come back": 3}
            count += Count(violated=int(status != right[of.get(shard)]))
    return count


TWINS: dict[str, Plain] = {
    "statuses-follow-events": statuses_follow_events,
    "ships-what-it-stored": ships_what_it_stored,
    "event-log-in-order": event_log_in_order,
    "best-write-stays": best_write_stays,
    "empty-takes-nothing": empty_takes_nothing,
    "recovery-settles-all": recovery_settles_all,
    "trimmed-is-said": trimmed_is_said,
}
