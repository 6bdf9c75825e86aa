"""By which logs votes are given. Source: raft.md#log-ok."""

from __future__ import annotations

from plain import JUDGED, UNJUDGED, VIOLATED, Count, History, Plain


def votes_go_to_complete_logs(history: History) -> Count:
    """A candidate's log, as it votes for itself, is at least as up to date as that of who votes for it."""
    count = Count()
    votes = [e for e in history.events if e.kind == "vote" and e.node is not None]
    for at, e in enumerate(votes):
        if e.node == e.peer or None in (e.offset, e.entry_term):
            continue
        own = [b for b in votes[:at] if b.node == b.peer == e.peer]
        if not own or own[-1].term != e.term or None in (own[-1].offset, own[-1].entry_term):
            count += UNJUDGED
        elif own[-1].entry_term > e.entry_term:
            count += JUDGED
        else:
            longer = own[-1].entry_term == e.entry_term and own[-1].offset >= e.offset
            count += JUDGED if longer else JUDGED + VIOLATED
    return count


TWINS: dict[str, Plain] = {"votes-go-to-complete-logs": votes_go_to_complete_logs}
