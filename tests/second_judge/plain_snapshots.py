"""What state machines apply, and the snapshots that logs begin behind. Sources: raft.md#apply, raft.md#snapshot."""

from __future__ import annotations

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain


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


def applied_once(history: History) -> Count:
    """What is applied is committed, and follows what was applied before."""
    count = Count()
    for e in history.events:
        if e.kind == "apply":
            before = applied_before(history, e)
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
    return count


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
