"""Elections, by reading their events. Source: raft.md#elections."""

from __future__ import annotations

from plain import EXCUSED, JUDGED, VIOLATED, Count, Event, History, Plain


def _wiped(events: list[Event], node: int | None = None) -> bool:
    """Whether a disk was emptied: this node's, or anybody's."""
    return any(e.kind == "fault" and e.f == "wipe" and node in (None, e.node) for e in events)


def one_leader_per_term(history: History) -> Count:
    """Every election won is compared with the first one of its term; a wiped disk forgets a vote that was counted."""
    count = Count()
    for i, e in enumerate(history.events):
        if e.kind == "leader":
            count += JUDGED
            first = next(a for a in history.events if a.kind == "leader" and a.term == e.term)
            if first.node != e.node:
                count += EXCUSED if _wiped(history.events[:i]) else VIOLATED
    return count


def one_vote_per_term(history: History) -> Count:
    """A vote is compared with the node's last one in the term; a disk that was wiped in between has forgotten it."""
    count = Count()
    for i, e in enumerate(history.events):
        if e.kind == "vote":
            count += JUDGED
            for j in reversed(range(i)):
                last = history.events[j]
                if last.kind == "vote" and (last.node, last.term) == (e.node, e.term):
                    if last.peer != e.peer:
                        count += EXCUSED if _wiped(history.events[j:i], e.node) else VIOLATED
                    break
    return count


def leader_has_majority(history: History) -> Count:
    """Whoever wins a term has before it the votes of a majority of the voters."""
    if not history.has("vote"):
        return Count()
    count = Count()
    for i, e in enumerate(history.events):
        if e.kind == "leader":
            votes = {v.node for v in history.events[:i] if v.kind == "vote" and (v.term, v.peer) == (e.term, e.node)}
            count += JUDGED if len(votes & {*history.voters}) >= history.majority else JUDGED + VIOLATED
    return count


def _is_candidate(e: Event) -> bool:
    return (e.kind in ("term", "role") and e.role == "candidate") or (e.kind == "vote" and e.peer == e.node)


def term_needs_candidate(history: History) -> Count:
    """Nobody moves to a term before its first candidate; one node alone may have been stopped before it was one."""
    moves = [e for e in history.events if e.kind == "term"]
    count = Count(judged=len(moves))
    for term in {e.term for e in moves}:
        candidates = [e for e in history.events if _is_candidate(e) and e.term == term]
        first = candidates[0] if candidates else None
        early = {e.node for e in moves if e.term == term and (first is None or e.seq < first.seq)}
        if first is not None:
            count += Count(violated=len(early - {first.node}))
        elif len(early) > 1:
            count += VIOLATED
    return count


TWINS: dict[str, Plain] = {
    "one-leader-per-term": one_leader_per_term,
    "one-vote-per-term": one_vote_per_term,
    "leader-has-majority": leader_has_majority,
    "term-needs-candidate": term_needs_candidate,
}
