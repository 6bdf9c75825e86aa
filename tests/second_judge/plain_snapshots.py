"""What state machines apply, and the snapshots that logs begin behind. Sources: raft.md#apply, raft.md#snapshot."""

from __future__ import annotations

from itertools import pairwise

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, halves_in, total


def starts_over(e: Event) -> bool:
    """Whether a log was trimmed of all that it held, to begin behind a snapshot."""
    return e.kind == "trim" and (e.dirty is None or e.dirty < e.offset)


def applied_before(history: History, e: Event) -> int | None:
    """Up to where the node had applied its log in the life that the event is of; None: nobody knows."""
    reported = [a for a in history.events if a.seq < e.seq and a.node == e.node]
    own = [a for a in reported if a.kind in ("apply", "snapshot", "start", *GONE) or starts_over(a)]
    upto: int | None = None
    incarnation = None
    for a in own:
        ends = a.kind in ("start", "trim", *GONE)
        if ends or a.incarnation != incarnation:
            upto = None
        incarnation = a.incarnation
        if a.kind == "apply":
            upto = a.last
        elif a.kind == "snapshot" and a.reason == "installed":
            began = began_with(history, a) if upto is None else None
            if began is None or began < a.offset:
                upto = a.offset if upto is None else max(upto, a.offset)
    return upto if incarnation == e.incarnation else None


def began_with(history: History, e: Event) -> int | None:
    """Where the node begins to apply in the life that the event is of: behind its last snapshot; None: nobody knows."""
    known = [a for a in history.events if a.seq < e.seq and a.node == e.node]
    ends = [a for a in known if a.kind in ("start", *GONE) or starts_over(a)]
    if not ends or ends[-1].kind != "start" or ends[-1].incarnation != e.incarnation:
        return None
    start = ends[-1]
    if any(a.kind in ("apply", "snapshot") and a.seq > start.seq and a.incarnation != e.incarnation for a in known):
        return None  # another life was named in between
    if start.dirty == -1:
        return -1
    emptied = max((a.seq for a in ends[:-1] if a.kind == "start" and a.dirty == -1), default=-1)
    kept = [a for a in known if a.kind == "snapshot" and emptied < a.seq < start.seq]
    return int(kept[-1].offset) if kept and kept[-1].offset == start.commit else None


def applied_once(history: History) -> Count:
    """What is applied is committed, and follows what was applied before, which an installed snapshot goes beyond."""
    count = Count()
    for e in history.events:
        if e.kind == "snapshot" and e.reason == "installed":
            before = applied_before(history, e)
            count += Count() if before is None else JUDGED if before < e.offset else JUDGED + VIOLATED
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
        short = bool(known) and min(known) < e.offset
        if short and e.reason == "taken" and not history.has("apply") and (e.commit is None or e.commit >= e.offset):
            known = []
        count += UNJUDGED if not known else JUDGED + VIOLATED if short else JUDGED
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
    if not after or after[0].kind not in ("apply", "snapshot", "trim"):
        return Count()
    if after[0].kind == "snapshot" and after[0].reason == "installed" and after[0].offset >= trim.offset - 1:
        return JUDGED
    ended = any(a.kind in GONE and a.kind != "stop" and a.seq > b.seq for b in begun for a in before)
    return JUDGED + VIOLATED if begun and not ended else Count()


def in_this_life(history: History, e: Event) -> list[Event]:
    """What the node recorded before this event, since its process started or its log began anew."""
    own = [a for a in history.events if a.seq < e.seq and a.node == e.node]
    begins = [i for i, a in enumerate(own) if a.kind in ("start", *GONE) or starts_over(a)]
    return own[begins[-1] :] if begins else own


def term_at(history: History, e: Event) -> int | None:
    """The term of the entry at the end of a snapshot in the log of who takes it; None: that is not known."""
    log: dict[int, int] = {}
    for a in in_this_life(history, e):
        if a.kind in ("append", "truncate", "gap"):
            log = {offset: term for offset, term in log.items() if offset < a.offset}
        if a.kind == "append":
            log |= dict.fromkeys(a.offsets, a.entry_term)
    return log.get(e.offset)


def configuration_at(history: History, e: Event) -> str | None:
    """The configuration in force at the end of a snapshot in the log of who takes it; None: that is not known, or it
    is the first one."""
    found: dict[int, str] = {}
    for a in in_this_life(history, e):
        if a.kind in ("truncate", "gap", "configuration"):
            found = {offset: text for offset, text in found.items() if offset < a.offset}
        if a.kind == "snapshot" and a.reason == "installed":
            found = {offset: text for offset, text in found.items() if offset > a.offset}
        if a.kind == "configuration" or (a.kind == "snapshot" and a.reason == "installed"):
            found[a.offset] = a.text
    last = max((offset for offset in found if offset <= e.offset), default=None)
    return None if last is None else found[last]


def is_first(history: History, text: str) -> bool:
    """Whether a text says the configuration that the run began with."""
    halves = halves_in(text)
    return len(halves) == 1 and {*halves[0]} == {*history.voters}


def as_in_its_log(history: History, e: Event) -> Count:
    """A snapshot that a node takes has the term and the configuration that its log has there."""
    count = Count()
    term, text, life = term_at(history, e), configuration_at(history, e), in_this_life(history, e)
    if term is not None:
        count += JUDGED if term == e.entry_term else JUDGED + VIOLATED
    other = JUDGED + VIOLATED if history.configurations else UNJUDGED + Count(lacking=1)
    if text is not None:
        count += JUDGED if text == e.text else other
    elif history.voters and life and life[0].kind == "start" and life[0].dirty == -1:
        count += JUDGED if is_first(history, e.text) else other
    return count


def was_kept(history: History, e: Event) -> Count:
    """A snapshot that a node installs was kept by another one before."""
    before = [a for a in history.events if a.seq < e.seq and a.node is not None]
    if any(a.kind == "snapshot" and a.offset == e.offset and a.node != e.node for a in before):
        return JUDGED
    lives = [a for a in before if a.kind in ("start", *GONE)]
    cut_off = any(a.kind in GONE and a.kind != "stop" for a in lives if a.node != e.node)
    for node in {a.node for a in lives} - {e.node}:
        own = [a.kind for a in lives if a.node == node]
        cut_off = cut_off or any(pair == ("start", "start") for pair in pairwise(own))
    begun = {a.node for a in lives if a.kind == "start" and a.dirty == -1}
    size = max(history.nodes, len(history.voters))
    return UNJUDGED if cut_off or len(begun) < size or not size else JUDGED + VIOLATED


def snapshots_agree(history: History) -> Count:
    """Each snapshot says of its last entry what the first one that ends there said, and the log of who took it."""
    count = Count()
    first: dict[int, Event] = {}
    for e in history.events:
        if e.kind == "snapshot" and e.reason == "taken":
            count += as_in_its_log(history, e)
        elif e.kind == "snapshot" and e.reason == "installed":
            count += was_kept(history, e)
        if e.kind == "snapshot" and first.setdefault(e.offset, e) is not e:
            same = (e.entry_term, e.text) == (first[e.offset].entry_term, first[e.offset].text)
            count += JUDGED if same else JUDGED + VIOLATED
    return count


TWINS: dict[str, Plain] = {
    "applied-once": applied_once,
    "snapshot-is-committed": snapshot_is_committed,
    "snapshots-agree": snapshots_agree,
}
