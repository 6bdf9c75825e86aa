"""What a transfer of leadership may lose. Source: raft.md#transfer-refused, #transfer-promise and #timeout-now."""

from __future__ import annotations

from itertools import takewhile

from excuses import takes_unflushed
from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain

TAKES_COPIES = ("wipe", "power_loss", "storage_error", "fsync_error")
ENDS = ("term", "role", "start", *GONE)


def transfer_loses_nothing(history: History) -> Count:
    """Who is elected after a transfer has what was acknowledged, and who left writes nothing more."""
    count = sum((judged(election, history.events) for election in elections(history.events)), Count())
    in_office = {at for e in elections(history.events) for at in office_from(e, history.events)}
    for at, e in enumerate(history.events):
        if e.kind == "transfer" and had_to_be_refused(e, history.everyone(e.seq) if history.voters else set()):
            count += VIOLATED if at in in_office else JUDGED + VIOLATED
    return count


def had_to_be_refused(e: Event, voters: set[int]) -> bool:
    """Whether a transfer is to the node itself or to no voter, not at the end of the log, or by who does not lead."""
    to_stranger = e.peer is not None and (e.peer == e.node or bool(voters and e.peer not in voters))
    elsewhere = e.offset is not None and e.dirty is not None and e.offset != e.dirty
    return to_stranger or elsewhere or e.role in ("follower", "candidate", "learner")


def elections(events: list[Event]) -> list[int]:
    """Where somebody won an election."""
    return [at for at, e in enumerate(events) if e.kind == "leader"]


def judged(election: int, events: list[Event]) -> Count:
    """Judge the transfers of the leader that was elected there."""
    leader = events[election]
    office = office_from(election, events)
    handed_on = [at for at in office if events[at].kind == "transfer"]
    count = Count(judged=len(handed_on))
    if not handed_on:
        return count
    written = [at for at in office if at > handed_on[0] and events[at].kind == "append"]
    if any(events[at].entry_term == leader.term for at in written):
        count += VIOLATED
    return count + after(leader, office, handed_on, events)


def after(leader: Event, office: list[int], handed_on: list[int], events: list[Event]) -> Count:
    """Judge who was elected next, and once more if a leader hands on again."""
    count = Count()
    reached = -1
    for transfer in handed_on:
        if transfer < reached:
            continue
        later = [at for at in elections(events) if at > transfer and events[at].term > leader.term]
        if not later:
            break
        reached = later[0]
        said = [events[at] for at in office if at < reached and acknowledges(events[at], leader.term)]
        if not said:
            continue
        acked = max(e.last for e in said)
        end = last_entry(events[reached].node, events[:reached])
        disturbed = any(
            took_copies(at, events) and may_lack(acked, at, events[:reached])
            for at in range(reached)
            if events[at].seq > leader.seq
        )
        if disturbed or end is None or end.entry_term > leader.term:
            count += UNJUDGED
        elif end.last < acked or end.entry_term < leader.term:
            count += JUDGED + VIOLATED
        else:
            count += JUDGED
    return count


def office_from(election: int, events: list[Event]) -> list[int]:
    """Where the leader did something, until it led no more."""
    found = []
    for at in range(election + 1, len(events)):
        e = events[at]
        if e.node != events[election].node or e.process is not None:
            continue
        if e.kind == "leader" or (e.kind in ENDS and (e.kind, e.role) != ("role", "leader")):
            break
        found.append(at)
    return found


def acknowledges(e: Event, term: int) -> bool:
    """Whether the leader of a term says that it has an entry of that term."""
    return bool(e.kind == "acked" and e.reason == "success" and e.entry_term == term)


def last_entry(node: int, before: list[Event]) -> Event | None:
    """The last entry of a node's log; None if its end was moved, or its record cut off, and nothing appended since."""
    for at in reversed(range(len(before))):
        e = before[at]
        if e.node == node and e.kind == "append":
            return e
        if e.node == node and e.kind in ("truncate", "trim", "start"):
            found = last_entry(node, before[:at])
            whole = e.kind != "start" or stopped(node, before[:at])
            return found if whole and found is not None and found.last == e.dirty else None
    return None


def stopped(node: int, before: list[Event]) -> bool:
    """Whether a node that is down was stopped of its own accord, so that its record is whole."""
    ends = takewhile(lambda e: e.kind != "start", (e for e in reversed(before) if e.node == node))
    return any(e.kind == "stop" for e in ends)


def took_copies(at: int, events: list[Event]) -> bool:
    """Whether entries that were not flushed may be gone: power was lost, or a log is shorter than it was."""
    e = events[at]
    if e.kind == "start":
        found = last_entry(e.node, events[:at])
        return found is not None and found.last != e.dirty
    return (e.kind != "fault" and takes_unflushed(e)) or bool(e.kind == "fault" and e.f in TAKES_COPIES)


def may_lack(acked: int, at: int, events: list[Event]) -> bool:
    """Whether who may have lost entries there has not started since, or with a log that ends before an offset.

    Who fell twice in the same way has started in between, with nobody knows what.
    """
    e = events[at]
    if e.node is None or not (starts := [b for b in events[at:] if b.kind == "start" and b.node == e.node]):
        return True
    earlier = [b.seq for b in events if b.kind == "start" and b.node == e.node and b.seq < starts[0].seq]
    fell = [
        b.kind
        for i, b in enumerate(events)
        if b.node == e.node and max(earlier, default=-1) < b.seq < starts[0].seq and took_copies(i, events)
    ]
    return len(fell) > len({*fell}) or starts[0].dirty < acked


TWINS: dict[str, Plain] = {"transfer-loses-nothing": transfer_loses_nothing}
