"""Whether the state that a node's events carry is what they tell. Source: history-checks.md#well-formed-histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from lives import OF_MEMORY, Act, acts
from plain import EXCUSED, GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, wipes


def _states(history: History) -> Iterator[tuple[Event | None, Event]]:
    """Every event that carries a node's state but for starts, with the one before it, where that is known."""
    for act in acts(history):
        if act.event.kind not in GONE and act.event.kind != "start":
            yield act.before, act.event


def _dirty_reported(before: Event | None, e: Event) -> int | None:
    """Where dirty is after an event, by what it says."""
    reported: int | None = before.dirty if before is not None else None
    if e.kind == "append":
        reported = e.last
    elif reported is not None and e.kind == "truncate":
        reported = min(reported, e.offset - 1)
    elif before is not None and _begins_anew(before, e):
        reported = e.offset - 1
    return reported


def _begins_anew(before: Event, e: Event) -> bool:
    """Whether a trim keeps nothing of the log."""
    return bool(e.kind == "trim" and min(before.dirty, e.dirty) < e.offset)


def dirty_follows_events(history: History) -> Count:
    """Dirty moves by append, truncate, trim and start, to where they say."""
    count = Count()
    for before, e in _states(history):
        reported = _dirty_reported(before, e)
        if reported is not None:
            count += JUDGED if e.dirty == reported else JUDGED + VIOLATED
    # A history without any append does not tell how logs grow.
    grows = any(e.kind == "append" for e in history.events)
    return count if grows or not count.violated else count.if_shown(void=True)


def flushed_follows_events(history: History) -> Count:
    """Flushed rises by a flush and a start; a truncation takes it along, a trim pushes it before it."""
    count = Count()
    for before, e in _states(history):
        if before is not None:
            most = before.flushed
            if e.kind == "truncate":
                most = min(most, before.dirty, e.offset - 1)
            elif e.kind == "trim":
                most = max(most, e.offset - 1)
            count += JUDGED if e.flushed <= most or e.kind == "flush" else JUDGED + VIOLATED
    # A history without any flush does not tell what is durable.
    reported = any(e.kind == "flush" for e in history.events)
    return count if reported or not count.violated else count.if_shown(void=True)


def no_hole(history: History) -> Count:
    """An append begins right behind the end of the log; what was compacted may be missing."""
    count = Count()
    compacted: set[int] = set()
    for before, e in _states(history):
        if e.kind == "compact":
            compacted |= {*e.offsets}
        elif before is not None and e.kind == "append":
            hole = {*range(before.dirty + 1, e.offset)}
            count += JUDGED + (Count() if not hole else EXCUSED if hole <= compacted else VIOLATED)
    return count


def _grows(act: Act) -> bool | None:
    """Whether a start finds more than the node had; None if nothing is known of that."""
    if act.event.kind != "start" or act.before is None or act.wiped:
        return None
    return bool(act.event.dirty > act.before.dirty)


def stopped_log_is_whole(history: History) -> Count:
    """After a graceful stop and no other end a node starts with no more than it had."""
    count = Count()
    for act in acts(history):
        grows = _grows(act)
        if grows is not None and act.ended == {"stop"}:
            count += JUDGED + VIOLATED if grows else JUDGED
    return count


def writes_are_recorded(history: History) -> Count:
    """After any other end likewise, but for a disk that failed; and nobody has more of what a leader that is down
    wrote."""
    count = Count()
    gone: dict[int, int] = {}  # by node, up to where it had written what a start did not find, if nothing since
    for act in acts(history):
        e = act.event
        grows = _grows(act)
        if grows is not None and act.ended != {"stop"}:
            again = e.dirty <= gone.get(e.node, -1)
            count += UNJUDGED if "storage_error" in act.ended else JUDGED + VIOLATED if grows and not again else JUDGED
        if e.kind == "append" or (e.kind == "start" and act.wiped):
            gone.pop(e.node, None)
        elif e.kind == "start" and act.before is not None and e.dirty < act.before.dirty:
            gone[e.node] = max(act.before.dirty, gone.get(e.node, -1))
    return count + _behind_leaders(history)[1]


def starts_in_its_last_term(history: History) -> Count:
    """A node starts in no earlier term than its last entry, as far as that is known."""
    count = Count()
    terms: dict[int, dict[int, int]] = {}
    for act in acts(history):
        e = act.event
        own = terms.setdefault(e.node, {})
        if e.kind in GONE:
            continue
        starts = e.kind == "start" and (act.wiped or act.before is None or e.dirty > act.before.dirty)
        if act.before is None or starts or _begins_anew(act.before, e):
            own.clear()
        if e.kind == "append":
            terms[e.node] = {o: t for o, t in own.items() if o < e.offset} | dict.fromkeys(e.offsets, e.entry_term)
        elif e.kind in ("truncate", "start"):
            end = e.dirty if e.kind == "start" else e.offset - 1
            kept = terms[e.node] = {o: t for o, t in own.items() if o <= end}
            if e.kind == "start" and kept:
                count += JUDGED if e.term >= kept[max(kept)] else JUDGED + VIOLATED
    return count


def votes_state_the_log(history: History) -> Count:
    """What a vote states of the voter's log was so at some moment since the voter came to the term."""
    count = Count()
    ends: dict[int, list[int]] = {}  # of each node, since it came to its term
    own: dict[int, dict[int, int]] = {}  # the terms of its entries, as far as they are known
    for act in acts(history):
        e = act.event
        if e.kind in GONE:
            continue
        before, terms = act.before, own.setdefault(e.node, {})
        starts = e.kind == "start" and (act.wiped or before is None or e.dirty > before.dirty)
        if before is None or starts or _begins_anew(before, e):
            terms.clear()
        if before is None or e.kind == "start":
            ends[e.node] = []
        elif e.term != before.term:
            ends[e.node] = [before.dirty] if e.kind in ("append", "truncate", "trim") else []
        ends[e.node].append(e.dirty)
        if e.kind == "append":
            own[e.node] = {o: t for o, t in terms.items() if o < e.offset} | dict.fromkeys(e.offsets, e.entry_term)
        elif e.kind in ("truncate", "start"):
            end = e.dirty if e.kind == "start" else e.offset - 1
            own[e.node] = {o: t for o, t in terms.items() if o <= end}
        elif e.kind == "vote" and e.offset is not None:
            low, high = min(ends[e.node]), max(ends[e.node])
            last = terms[max(terms)] if terms and low == high and e.entry_term is not None else e.entry_term
            count += JUDGED if low <= e.offset <= high and last == e.entry_term else JUDGED + VIOLATED
    return count


@dataclass
class _Term:
    """What is known of what was written in a term."""

    leader: int | None = None
    low: int | None = None
    """What its leader wrote is recorded from here on."""
    high: int | None = None
    lost: bool = False
    """Its leader was cut off since: the end of what it recorded may be lost."""
    early: int | None = None
    """How far another one wrote before there was a leader."""


def _behind_leaders(history: History) -> tuple[Count, Count]:
    """Every append by another node than the leader of its term: leaders that run, leaders that are down."""
    count = down = Count()
    known: dict[int, _Term] = {}
    untold = -2
    reported = {id(act.event): act for act in acts(history)}
    wiped = False
    for e in history.events:
        wiped = wiped or wipes(e)
        act = reported.get(id(e))
        if act is None:
            continue
        if _cut_off(act):
            for number, term in known.items():
                term.lost = term.lost or (term.leader == e.node and (act.before is None or number >= act.before.term))
        if e.kind in GONE:
            continue
        if e.kind == "start" and not act.wiped and (act.before is None or e.dirty > act.before.dirty):
            untold = max(untold, e.dirty)
        if e.kind == "leader":
            term = known.setdefault(e.term, _Term())
            if term.leader is None:
                term.leader = e.node
                if term.early is not None and term.early > untold and not wiped:
                    count += JUDGED + VIOLATED
        if e.kind != "append":
            continue
        term = known.setdefault(e.entry_term, _Term())
        if term.leader is None and e.role == "leader" and e.term == e.entry_term:
            term.leader, term.low = e.node, e.offset
        if term.leader == e.node:
            missing = term.high is None or e.last > term.high
            if e.role not in (None, "leader") and not term.lost and not wiped and e.last > untold:
                count += JUDGED + VIOLATED if missing else JUDGED
            term.high = e.last if missing else term.high
        elif term.leader is None:
            count += UNJUDGED
            term.early = e.last if term.early is None else term.early
        elif e.last <= untold or (term.low is not None and e.last < term.low):
            count += UNJUDGED
        else:
            missing = term.high is None or e.last > term.high
            term.high = e.last if missing else term.high
            if missing and wiped:
                count += JUDGED + EXCUSED
            elif term.lost or (missing and _ends_next(reported, term.leader, e)):
                down += JUDGED + VIOLATED if missing else JUDGED
            else:
                count += JUDGED + VIOLATED if missing else JUDGED
    return count, down


def _cut_off(act: Act) -> bool:
    """Whether a life ends by this event, not of its own accord: the end of its record may be lost."""
    begins = act.event.kind == "start"
    return act.seen and act.down is None and (begins or (act.event.kind in GONE and act.event.kind != "stop"))


def _ends_next(reported: dict[int, Act], leader: int, e: Event) -> bool:
    """Whether the next that is heard of a leader that runs is that it was cut off."""
    own = (act for act in reported.values() if act.event.node == leader and act.event.seq > e.seq)
    return any(_cut_off(act) for act in islice(own, 1))


def leader_writes_first(history: History) -> Count:
    """An entry is in the log of the leader of its term before it is in another."""
    return _behind_leaders(history)[0]


def moves_are_recorded(history: History) -> Count:
    """Commit, visible, term and role move by events that say so, where there are such; the first of each is told."""
    count = Count()
    missing = {"commit": 0, "visible": 0, "term": 0, "role": 0}
    visible: dict[int, int | None] = {}
    roles: dict[int, str | None] = {}
    for act in acts(history, OF_MEMORY):
        e, before = act.event, act.before
        if e.kind in OF_MEMORY and before is not None and act.down is None:
            missing["term"] += e.term not in (None, before.term)
            missing["role"] += roles.get(e.node) not in (None, "leader")
        if e.kind in (*GONE, *OF_MEMORY):
            continue
        if before is None or e.kind == "start":
            visible[e.node] = e.visible
            roles[e.node] = e.role
            if e.kind == "start" or before is None:
                continue
        count += JUDGED
        shown = visible.get(e.node)
        missing["commit"] += e.commit > before.commit and e.kind not in ("commit", "trim")
        if e.visible is not None:
            missing["visible"] += shown is not None and e.visible > shown and e.kind not in ("visible", "trim")
            visible[e.node] = e.visible
        by_entry = e.kind == "append" and e.entry_term == e.term
        missing["term"] += not by_entry and (e.term > before.term) != (e.kind == "term")
        other = e.role is not None and roles.get(e.node) not in (None, e.role)
        missing["role"] += other and e.kind not in ("role", "leader")
        missing["role"] += e.kind == "leader" and e.role not in (None, "leader")
        said = "leader" if e.kind == "leader" and e.role is not None else e.role
        roles[e.node] = said if said is not None else roles.get(e.node)
    for kind, times in missing.items():
        if times:
            count += VIOLATED if history.has(kind) else Count(unjudged=times)
    return count


TWINS: dict[str, Plain] = {
    "dirty-follows-events": dirty_follows_events,
    "flushed-follows-events": flushed_follows_events,
    "no-hole": no_hole,
    "stopped-log-is-whole": stopped_log_is_whole,
    "writes-are-recorded": writes_are_recorded,
    "starts-in-its-last-term": starts_in_its_last_term,
    "votes-state-the-log": votes_state_the_log,
    "leader-writes-first": leader_writes_first,
    "moves-are-recorded": moves_are_recorded,
}
