"""What leaders count and when they leave. Sources: raft.md#session, raft.md#office-is-kept."""

from __future__ import annotations

from collections import Counter

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain
from plain_membership import read

WISHES = ("join", "leave", "demote", "cancel_change", "transfer", "trim", "compact")


def answers_of_members(history: History) -> Count:
    """Who is counted is a member by the counting node's configuration, in the session that this one names."""
    count = Count()
    for at, e in enumerate(history.events):
        if e.kind == "counted" and e.node is not None:
            named = sessions(history, e.node, at)
            if named is None:
                count += UNJUDGED
            else:
                count += JUDGED if named.get(e.peer) == e["session"] else JUDGED + VIOLATED
    return count


def sessions(history: History, node: int, at: int) -> dict[int, int] | None:
    """The session of each member by the configuration in force on a node before an event, if that is known."""
    own = [e for e in history.events[:at] if e.node == node and e.kind in ("start", "configuration")]
    if not own or (own[-1].kind == "start" and node not in history.voters):
        return None
    if own[-1].kind == "start":
        return dict.fromkeys(history.voters, 0)
    text = own[-1].text
    found = read(text)
    if found is None:
        return None
    found_sessions = {n: 0 for nodes in (*found.halves, found.learners) for n in nodes}
    words = (text or "").split(" ")
    if "sessions" in words:
        for pair in words[words.index("sessions") + 1].split(","):
            numbers = pair.split(":")
            if len(numbers) != 2 or not all(n.isdecimal() and len(n) <= 16 for n in numbers):
                return None
            if int(numbers[0]) in found_sessions:
                found_sessions[int(numbers[0])] = int(numbers[1])
    return found_sessions


def office_is_kept(history: History) -> Count:
    """A leader leaves its office, while nothing hindered anybody for long, for a later term or has handed it on."""
    count = Count()
    leads: dict[int, int] = {}
    for at, e in enumerate(history.events):
        if e.node is None:
            continue
        if e.kind == "leader" or (e.kind == "role" and e.role == "leader"):
            leads[e.node] = e.term
        elif e.kind in ("start", *GONE):
            leads.pop(e.node, None)
        elif e.kind == "role" and (led := leads.pop(e.node, None)) is not None and undisturbed(history, at):
            handed = [b.term for b in history.events[:at] if b.kind == "transfer" and b.node == e.node]
            count += JUDGED if e.term != led or handed[-1:] == [led] else JUDGED + VIOLATED
    return count


def undisturbed(history: History, at: int) -> bool:
    """Whether all members have run, and nothing has hindered anybody, for as long as the bound before an event."""
    if history.progress_bound is None:
        return False
    members, up = {*history.voters}, set[int]()
    under_way: Counter[tuple[str, int | None]] = Counter()
    since = 0
    for e in history.events[:at]:
        if e.kind in ("fault", "heal") and e.f not in WISHES:
            since = e.time
            _fault(e, under_way)
        elif e.node is not None and e.kind in ("start", *GONE):
            since = e.time
            (up.add if e.kind == "start" else up.discard)(e.node)
        elif e.node is not None and e.kind == "configuration":
            found = read(e.text)
            members |= {n for nodes in (*found.halves, found.learners) for n in nodes} if found else set()
    quiet = history.events[at].time - since >= history.progress_bound
    return bool(members) and members <= up and not under_way.total() and quiet


def _fault(e: Event, under_way: Counter[tuple[str, int | None]]) -> None:
    if e.kind == "fault":
        under_way[e.f, e.node] += 1
    elif e.node is not None:
        under_way[e.f, e.node] = max(under_way[e.f, e.node] - 1, 0)
    else:
        for each in [each for each in under_way if each[0] == e.f]:
            del under_way[each]


TWINS: dict[str, Plain] = {"answers-of-members": answers_of_members, "office-is-kept": office_is_kept}
