"""What state machines apply, and the snapshots that logs begin behind. Sources: raft.md#apply, raft.md#snapshot."""

from __future__ import annotations

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, total


def applied_before(history: History, e: Event) -> int | None:
    """Up to where the node had applied its log in the life that the event is of; None: nobody knows."""
    reported = [a for a in history.events if a.seq < e.seq and a.node == e.node]
    own = [a for a in reported if a.kind in ("apply", "snapshot", "start", *GONE)]
    upto: int | None = None
    incarnation = None
    for a in own:
        ends = a.kind in ("start", *GONE)
        if ends or a.incarnation != incarnation:
            upto = None
        incarnation = a.incarnation
        if a.kind == "apply":
            upto = a.last
        elif a.kind == "snapshot" and a.reason == "installed":
            upto = a.offset if upto is None else max(upto, a.offset)
    return upto if incarnation == e.incarnation else None


def began_with(history: History, e: Event) -> int | None:
    """Where the node begins to apply in the life that the event is of: behind its last snapshot; None: nobody knows."""
    known = [a for a in history.events if a.seq < e.seq and a.node == e.node]
    ends = [a for a in known if a.kind in ("start", *GONE)]
    if not ends or ends[-1].kind != "start" or ends[-1].incarnation != e.incarnation:
        return None
    start = ends[-1]
    if start.dirty == -1:
        return -1
    emptied = max((a.seq for a in ends[:-1] if a.kind == "start" and a.dirty == -1), default=-1)
    kept = [a for a in known if a.kind == "snapshot" and emptied < a.seq < start.seq]
    return int(kept[-1].offset) if kept and kept[-1].offset == start.commit else None


def applied_once(history: History) -> Count:
    """What is applied is committed, and follows what was applied before."""
    count = Count()
    for e in history.events:
        if e.kind == "apply":
            before = applied_before(history, e)
            before = began_with(history, e) if before is None else before
            follows = before is None or e.offset == before + 1
            count += JUDGED if e.last <= e.commit and follows else JUDGED + VIOLATED
    return count


def snapshot_is_committed(history: History) -> Count:
    """A snapshot ends where its node has applied, or where the one that installs it has everything, or before."""
    count = Count()
    for e in history.events:
        if e.kind != "snapshot" or e.reason not in ("taken", "installed"):
            continue
        taken = [applied_before(history, e), e.commit]
        bounds = taken if e.reason == "taken" else [e.dirty, e.flushed, e.commit, e.visible]
        known = [each for each in bounds if each is not None]
        count += UNJUDGED if not known else JUDGED if min(known) >= e.offset else JUDGED + VIOLATED
    if history.has("snapshot"):
        count += total(in_a_snapshot(history, e) for e in history.events if e.kind == "trim")
    return count


def in_a_snapshot(history: History, trim: Event) -> Count:
    """What a log is trimmed of is in a snapshot of its node, or in one that it installs next."""
    own = [a for a in history.events if a.node == trim.node and a.kind in ("apply", "snapshot", "trim", "start", *GONE)]
    before, after = [a for a in own if a.seq < trim.seq], [a for a in own if a.seq > trim.seq]
    begun = [a for a in before if a.kind == "start" and a.dirty == -1][-1:]
    kept = [a for a in before if a.kind == "snapshot" and all(a.seq > b.seq for b in begun)][-1:]
    if kept and kept[0].offset >= trim.offset - 1:
        return JUDGED
    if not after or after[0].kind not in ("apply", "snapshot"):
        return Count()
    if after[0].kind == "snapshot" and after[0].reason == "installed" and after[0].offset >= trim.offset - 1:
        return JUDGED
    ended = any(a.kind in GONE and a.kind != "stop" and a.seq > b.seq for b in begun for a in before)
    return JUDGED + VIOLATED if begun and not ended else Count()


def snapshots_agree(history: History) -> Count:
    """Each snapshot says of its last entry what the first one that ends there said."""
    count = Count()
    first: dict[int, Event] = {}
    for e in history.events:
        if e.kind == "snapshot" and first.setdefault(e.offset, e) is not e:
            same = (e.entry_term, e.text) == (first[e.offset].entry_term, first[e.offset].text)
            count += JUDGED if same else JUDGED + VIOLATED
    return count


TWINS: dict[str, Plain] = {
    "applied-once": applied_once,
    "snapshot-is-committed": snapshot_is_committed,
    "snapshots-agree": snapshots_agree,
}
