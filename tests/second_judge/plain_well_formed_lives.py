"""Whether what nodes record of their lives is well formed. Source: history-checks.md#well-formed-histories."""

from __future__ import annotations

from itertools import pairwise

from lives import OF_MEMORY, acts
from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, wipes


def nothing_while_down(history: History) -> Count:
    """After the end of a life only other ends may follow, and no stop, until the next start.

    What happened before the first start of the log counts once a node; without any start nobody can tell.
    """
    count = Count()
    early: set[int] = set()
    for act in acts(history, OF_MEMORY):
        if act.down is None:
            continue
        if act.event.kind == "start":
            count += JUDGED
        elif act.event.kind == "stop":
            count += JUDGED + VIOLATED if act.starts else Count()
        elif act.event.kind not in GONE:
            if act.starts:
                count += JUDGED + VIOLATED
            else:
                early.add(act.event.node)
    reported = JUDGED + VIOLATED if history.has("start") else UNJUDGED
    return sum((reported for _ in early), count)


def starts_are_recorded(history: History) -> Count:
    """In a log that shows starts, a node starts first, and with an empty log if a leader has written the first entry,
    or more than half of the voters have started with nothing.

    Else what its log holds by then is not judged.
    """
    count = Count()
    begun = False
    fresh: set[int] = set()
    for act in acts(history):
        e = act.event
        begun = begun or (e.kind == "append" and e.offset == 0 and e.role == "leader")
        states = [e.dirty, e.flushed, e.commit, e.visible]
        nothing = max(-1 if each is None else each for each in states) < 0 and (e.term or 0) <= 0
        if e.kind == "start" and nothing and not act.seen and not act.wiped and e.node in history.voters:
            fresh.add(e.node)
            begun = begun or 2 * len(fresh) > len(history.voters)
        if not act.seen and e.kind not in GONE:
            held = UNJUDGED if (e.offset if e.kind == "append" else e.dirty + 1) > 0 else Count()
            if begun and held.unjudged and e.kind == "start":
                held = VIOLATED
            count += JUDGED + held if e.kind == "start" else JUDGED + VIOLATED if history.has("start") else held
    return count


def ends_are_recorded(history: History) -> Count:
    """In a log that shows how lives end, one ends before the next starts; what is missing is told once a node."""
    count = Count()
    missing: set[int] = set()
    for act in acts(history):
        if act.event.kind == "start" and act.seen:
            if act.down is not None:
                count += JUDGED
            elif not act.wiped:
                missing.add(act.event.node)
    shown = any(history.has(kind) for kind in GONE)
    return sum((JUDGED + VIOLATED if shown else UNJUDGED for _ in missing), count)


def cut_power_ends_lives(history: History) -> Count:
    """A node that ran when its power was cut ends, or starts, before it does anything later than 250 ms after that."""
    count = Count()
    runs: set[int] = set()
    cut: dict[int, Event] = {}
    starts = False
    for e in history.events:
        if e.kind == "fault":
            if e.f == "power_loss" and e.node in runs:
                cut.setdefault(e.node, e)
            continue
        of_node = e.kind in (*GONE, *OF_MEMORY, "send", "receive") or e.dirty is not None
        if e.node in cut and of_node:
            late = e.time - cut[e.node].time > 250_000_000
            if late and e.kind not in ("start", "crash", "power_loss", "storage_error"):
                count += JUDGED + VIOLATED if starts else UNJUDGED
                del cut[e.node]
            elif e.kind == "start" or e.kind in GONE:
                count += JUDGED
                del cut[e.node]
        starts = starts or e.kind == "start"
        if e.kind in GONE:
            runs.discard(e.node)
        elif e.dirty is not None and e.node is not None:
            runs.add(e.node)
    return count + Count(unjudged=len(cut))


def incarnations_count_up(history: History) -> Count:
    """Starts count up, what follows a start has its incarnation, and an end no lower one. A wiped disk forgets it."""
    count = Count()
    last: dict[int, int] = {}
    for act in acts(history, OF_MEMORY):
        e = act.event
        if e.incarnation is None or (e.kind in OF_MEMORY and act.down is not None):
            continue
        started = last.get(e.node)
        if e.kind == "start":
            if started is not None and not act.wiped:
                count += JUDGED if e.incarnation > started else JUDGED + VIOLATED
            last[e.node] = e.incarnation
        elif started is not None:
            right = e.incarnation >= started if e.kind in GONE else e.incarnation == started
            count += JUDGED if right else JUDGED + VIOLATED
    return count


def stamps_count_up(history: History) -> Count:
    """The stamps of what a node did increase, from the event on before the first one that has a counter; without a
    counter two events of one time are not told apart."""
    count = Count()
    stamps: dict[int, list[tuple[int, int | None]]] = {}
    for e in history.events:
        if e.dirty is not None and e.node is not None:
            stamps.setdefault(e.node, []).append((e.time, e.logical))
    for own in stamps.values():
        counted = [place for place, (_, logical) in enumerate(own) if logical is not None]
        for (before, first), (after, second) in pairwise(own[max(0, counted[0] - 1) :] if counted else ()):
            apart = first is not None and second is not None and first < second
            count += JUDGED if before < after or (before == after and apart) else JUDGED + VIOLATED
    return count


def _goes_on(history: History, received: Event) -> int | None:
    """By which event the sender of a message that is not sent before shows that it was not: it sends or receives
    something else before its process ends or starts again, and is recorded from its first start on, never cut off."""
    lives = [e for e in history.events if (wipes(e) and e.node in (received.peer, None)) or e.node == received.peer]
    lives = [e for e in lives if e.kind in ("start", "send", "receive", *GONE) or wipes(e)]
    before = [e for e in lives if e.seq < received.seq and e.kind not in ("send", "receive")]
    later = [e for e in lives if e.seq > received.seq]
    kinds = [e.kind for e in before]
    whole = all(kind == ("start" if place % 2 == 0 else "stop") for place, kind in enumerate(kinds))
    if not before or not whole or before[0].incarnation != 0:
        return None
    return later[0].seq if later and later[0].kind in ("send", "receive") else None


def sent_before_received(history: History) -> Count:
    """A message is sent once, by a node that runs, in no later term than the node's, and received later, as it was
    sent, by whom it was sent to.

    One that is received before it is sent, or was never sent, is told once; one that may have been sent is not judged.
    """
    count = Count()
    sent: dict[int, Event] = {}
    early: set[int] = set()
    reported: dict[int, int] = {}
    down: set[int] = set()
    terms: dict[int, int] = {}
    starts = False
    for e in history.events:
        if e.kind in GONE:
            down.add(e.node)
            terms.pop(e.node, None)
        elif e.kind in ("start", "term"):
            terms[e.node] = e.term
            if e.kind == "start":
                starts = True
                down.discard(e.node)
        if e.kind not in ("send", "receive"):
            continue
        if e.node in down and starts:
            count += JUDGED + VIOLATED
        if e.kind == "send":
            if e.message in early and e.message not in reported:
                count += JUDGED + VIOLATED + Count(unjudged=-1)
            early.discard(e.message)
            reported.pop(e.message, None)
            if e.term is not None and e.node in terms and e.term > terms[e.node]:
                count += JUDGED + VIOLATED
            if e.message in sent:
                count += JUDGED + VIOLATED
            sent[e.message] = e
        elif e.message not in sent:
            count += UNJUDGED
            if e.message not in early or reported.get(e.message, e.seq) < e.seq:
                reported.pop(e.message, None)
                early.add(e.message)
                shown = _goes_on(history, e)
                if shown is not None:
                    reported[e.message] = shown
                    count += JUDGED + VIOLATED + Count(unjudged=-1)
        else:
            s = sent[e.message]
            same = (s.node, s.peer, s.f, s.term) == (e.peer, e.node, e.f, e.term)
            if s.logical is None or e.logical is None:
                stamped = s.logical == e.logical or s.time <= e.time
            else:
                stamped = (s.time, s.logical) < (e.time, e.logical)
            count += JUDGED if same and stamped else JUDGED + VIOLATED
    return count


def wiped_disks_are_empty(history: History) -> Count:
    """The first that a node does after its disk was emptied is to start with nothing; where no node is named, some node
    does. One that ran before and does nothing any more has ended, which is shown where ends are."""
    count = Count()
    wiped: set[int] = set()
    nameless = False
    runs: set[int] = set()
    for e in history.events:
        if wipes(e) and e.node is None:
            nameless = True
        elif wipes(e):
            wiped.add(e.node)
        elif e.kind in GONE:
            runs.discard(e.node)
        elif e.dirty is not None and e.node is not None:
            nothing = e.kind == "start" and not e.term
            nothing = nothing and all(e[each] < 0 for each in ("dirty", "flushed", "commit", "visible") if each in e)
            if e.node in wiped:
                count += JUDGED if nothing else JUDGED + VIOLATED
                wiped.discard(e.node)
            nameless = nameless and not nothing
            runs.add(e.node)
    shown = any(history.has(kind) for kind in GONE)
    count = sum((JUDGED + VIOLATED if shown else UNJUDGED for _ in wiped & runs), count)
    return count + (JUDGED + VIOLATED if nameless and runs else Count())


TWINS: dict[str, Plain] = {
    "nothing-while-down": nothing_while_down,
    "starts-are-recorded": starts_are_recorded,
    "ends-are-recorded": ends_are_recorded,
    "cut-power-ends-lives": cut_power_ends_lives,
    "incarnations-count-up": incarnations_count_up,
    "stamps-count-up": stamps_count_up,
    "sent-before-received": sent_before_received,
    "wiped-disks-are-empty": wiped_disks_are_empty,
}
