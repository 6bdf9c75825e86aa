"""How the configuration of a group changes. Source: raft.md#membership."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from plain import JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, halves_in, once


class Configuration(NamedTuple):
    """What a configuration says."""

    halves: tuple[tuple[int, ...], ...]
    learners: tuple[int, ...] = ()
    revision: int = 0
    sessions: tuple[tuple[int, int], ...] = ()

    @property
    def members(self) -> set[int]:
        """All nodes that it names."""
        return {node for half in (*self.halves, self.learners) for node in half}


class Moment(NamedTuple):
    """An event of a node, what it was before it, and what the node knows then since it started."""

    event: Event
    before: Event | None
    known: list[Event]
    """The configurations that it appended and still has, oldest first."""
    force: Configuration | None
    """That in force before the event; None: it is not known."""
    place: int
    """Its offset; -1 of the first one."""
    first: Configuration | None
    """What the node began with, if that is known."""
    whole: bool
    """Whether the log holds no other configurations than those."""


def read(text: str | None) -> Configuration | None:
    """The configuration that a text says, if it says one."""
    if not halves_in(text):
        return None
    words = str(text).split(" ")[1:]
    named = dict(zip(words[::2], words[1::2], strict=True))
    learners = tuple(int(n) for n in named["learners"].split(",")) if "learners" in named else ()
    sessions = [each.split(":") for each in named.get("sessions", "").split(",")]
    whole = all(re.fullmatch("[0-9]{1,18}:[0-9]{1,18}", ":".join(pair)) for pair in sessions)
    numbers = tuple((int(node), int(session)) for node, session in sessions) if whole else ()
    return Configuration(halves_in(text), learners, int(named.get("revision", "0")), numbers)


def is_copy(e: Event, before: Event | None) -> bool:
    """Whether a configuration came into force as the node appended its entry."""
    return before is not None and before.kind == "append" and before.offset == e.offset == e.dirty


@once
def moments(history: History) -> list[Moment]:
    """The events of nodes that tell their state, with what came before."""
    found: list[Moment] = []
    last: dict[int, Moment] = {}
    for e in history.events:
        if e.node is None or e.dirty is None:
            continue
        m = last.get(e.node, Moment(e, None, [], None, -1, None, False))
        now = m._replace(event=e)
        found.append(now)
        before, known, force, place, first, whole = now.before, now.known, now.force, now.place, now.first, now.whole
        if e.kind == "start":
            first = Configuration((history.voters,)) if e.node in history.voters else None
            known, force, place, whole = [], first, -1, e.dirty == -1
        elif e.kind == "configuration":
            force, place = read(e.text), e.offset
            if force is None:
                known, whole = [], False
            elif is_copy(e, before):
                known = [*known, e]
        elif e.kind == "truncate" or (e.kind == "trim" and e.dirty < e.offset):
            anew = e.kind == "trim"
            known, whole = [] if anew else [k for k in known if k.offset <= e.dirty], whole and not anew
        elif before is not None and before.kind in ("truncate", "trim") and _is_cut(now):
            force = force if _last(now) == force else None
            place = known[-1].offset if known else -1
        last[e.node] = Moment(e, e, known, force, place, first, whole)
    return found


def _is_cut(m: Moment) -> bool:
    """Whether the entry of what is in force was cut off by what happened just before."""
    b = m.before
    pending = b is not None and (b.kind == "truncate" or (b.kind == "trim" and b.dirty < b.offset))
    return bool(pending and m.force is not None and m.place > b.dirty) if b is not None else False


def _last(m: Moment) -> Configuration | None:
    """The last configuration in the log of a node, if that is known."""
    return read(m.known[-1].text) if m.known else m.first if m.whole else None


def _reported(history: History) -> dict[tuple[int, int], list[tuple[int, Configuration]]]:
    """What entries hold, by offset and term: who told it first, and what."""
    found: dict[tuple[int, int], list[tuple[int, Configuration]]] = {}
    for m in moments(history):
        e, configuration = m.event, read(m.event.text)
        if e.kind == "configuration" and configuration is not None and m.before is not None and is_copy(e, m.before):
            found.setdefault((e.offset, m.before.entry_term), []).append((e.seq, configuration))
    return found


def configuration_in_force(history: History) -> Count:
    """A configuration is in force from its append on, until its entry is cut off; then the one before it is."""
    count = Count()
    reported = _reported(history)
    assumed: dict[int | None, Configuration] = {}
    """What nodes of which that is not known should go by, since they started or their logs were cut off."""
    held: dict[int | None, list[Event]] = {}
    """What nodes have appended and still have, whenever that was."""
    for m in moments(history):
        e, b = m.event, m.before
        due = read(held[e.node][-1].text) if b is not None and b.kind == "start" and held[e.node] else None
        held[e.node] = _kept(held.get(e.node, []), e, b)
        if b is not None and b.kind == "append":
            named = [c for seq, c in reported.get((b.offset, b.entry_term), []) if seq < b.seq]
            due = named[0] if named else None
        if e.kind in ("configuration", "start", "truncate", "trim"):
            assumed.pop(e.node, None)
        if e.kind == "configuration":
            own = read(e.text)
            if own is None:
                continue
            if is_copy(e, b):
                count += JUDGED if due in (None, own) else JUDGED + VIOLATED
                count += JUDGED + VIOLATED if _is_alone(history, e, b, reported) else Count()
            elif e.offset > e.dirty:
                count += JUDGED + VIOLATED
            else:
                last = _last(m)
                count += UNJUDGED if last is None else JUDGED if last == own else JUDGED + VIOLATED
        elif e.kind not in ("start", "truncate", "trim"):
            force = m.force
            if _is_cut(m):
                last = _last(m)
                count += UNJUDGED if last is None else JUDGED if last == force else JUDGED + VIOLATED
                force = force if last == force else None
            if due is not None:
                own = force or assumed.get(e.node)
                assumed[e.node] = due
                count += UNJUDGED if own is None else JUDGED if own == due else JUDGED + VIOLATED
    return count.if_shown(lacks=history.unreadable, void=count.violated > 0 and not history.has("append"))


def _is_alone(
    history: History, e: Event, copied: Event | None, reported: dict[tuple[int, int], list[tuple[int, Configuration]]]
) -> bool:
    """Whether a change comes into force on a node first that does not lead, while the leader of its term is known."""
    assert copied is not None
    seq, configuration = reported[e.offset, copied.entry_term][0]
    if seq != e.seq or not configuration.revision or (e.role == "leader" and e.term == copied.entry_term):
        return False
    before = [a for a in history.events if a.seq < e.seq and a.dirty is not None and a.node not in (None, e.node)]
    for node in {a.node for a in before}:
        since = max((a.seq for a in before if a.node == node and a.kind == "start"), default=-1)
        led = [a.term for a in before if a.node == node and a.kind == "leader" and a.seq > since]
        if led and led[-1] == copied.entry_term:
            return True
    return False


def _kept(held: list[Event], e: Event, before: Event | None) -> list[Event]:
    """The configurations that a node still has behind an event."""
    if e.kind == "configuration":
        return [] if read(e.text) is None else [*held, e] if is_copy(e, before) else held
    if e.kind == "trim" and e.dirty < e.offset:
        return []
    return [k for k in held if k.offset <= e.dirty] if e.kind in ("start", "truncate") else held


def _subsets(nodes: list[int]) -> Iterator[set[int]]:
    for chosen in product((False, True), repeat=len(nodes)):
        yield {n for n, taken in zip(nodes, chosen, strict=True) if taken}


def _decides(configuration: Configuration, nodes: set[int]) -> bool:
    return all(2 * len(nodes & {*half}) > len(half) for half in configuration.halves)


def _apart(one: Configuration, other: Configuration) -> bool:
    """Whether two sets of nodes without a common one may each decide by one of them."""
    mine, theirs = ({*sum(each.halves, ())} for each in (one, other))
    shared = sorted(mine & theirs)
    if len(shared) > 12:
        return False
    return any(
        _decides(one, (mine - theirs) | some) and _decides(other, theirs - some - (mine - theirs))
        for some in _subsets(shared)
    )


def _is_a_step(before: Configuration, after: Configuration) -> bool:
    """Whether a joint configuration is led to from its old half, and followed by itself or by one of its halves; from
    one without two halves to another no voter goes, and at most one learner becomes one."""
    halves, then = ([{*half} for half in each.halves] for each in (before, after))
    if len(halves) == len(then) == 1:
        come = then[0] - halves[0]
        return halves[0] <= then[0] and len(come) <= 1 and come <= {*before.learners}
    if len(halves) == 1:
        return then[1] == halves[0]
    return then == halves or (len(then) == 1 and then[0] in halves)


def _is_numbered(before: Configuration, after: Configuration) -> bool:
    """Whether its revision is not earlier, and later if members come, whose session is that of the revision; where
    neither revisions nor sessions are told, they are not asked for."""
    come, sessions = after.members - before.members, dict(after.sessions)
    rises = after.revision > before.revision or (after.revision == before.revision and not (come and after.revision))
    return rises and (not sessions or all(sessions.get(node, 0) == after.revision for node in come))


def quorums_intersect(history: History) -> Count:
    """What decides by a configuration meets what decides by the one before it in the log, and joint ones have halves
    that are there before, or after; revisions rise."""
    count = Count()
    for m in moments(history):
        own = read(m.event.text)
        if m.event.kind == "configuration" and own is not None and is_copy(m.event, m.before):
            if m.force is None:
                count += Count() if m.whole and not m.known else UNJUDGED
            else:
                told = m.place >= 0 or (m.whole and not m.known)
                wrong = not (_is_a_step(m.force, own) and _is_numbered(m.force, own))
                wrong = _apart(m.force, own) or (told and wrong)
                count += JUDGED + VIOLATED if wrong else JUDGED
    return count.if_shown(lacks=history.unreadable)


def changes_are_committed(history: History) -> Count:
    """A leader appends another configuration when the one in force is committed, and an entry of its own term."""
    count = Count()
    reported = _reported(history)
    for m in moments(history):
        e, b = m.event, m.before
        if e.kind != "configuration" or read(e.text) is None or b is None or not is_copy(e, b):
            continue
        first = reported[e.offset, b.entry_term][0][0] == e.seq
        if not first or e.role != "leader" or b.entry_term != e.term:
            continue
        life = [a for a in history.events if a.node == e.node and a.seq < e.seq and a.dirty is not None]
        starts = [a.seq for a in life if a.kind == "start"]
        elected = [a for a in life if a.kind == "leader" and a.seq > max(starts, default=-1)]
        if m.force is None or not elected or elected[-1].term != e.term:
            count += UNJUDGED
        else:
            early = e.commit < m.place or e.commit <= elected[-1].dirty
            count += JUDGED + VIOLATED if early else JUDGED
    return count.if_shown(lacks=history.unreadable)


TWINS: dict[str, Plain] = {
    "configuration-in-force": configuration_in_force,
    "quorums-intersect": quorums_intersect,
    "changes-are-committed": changes_are_committed,
}
