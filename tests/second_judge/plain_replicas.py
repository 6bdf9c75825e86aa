"""Each node's log by itself and against the others. Sources: raft.md#log-matching, raft.md#truncation."""

from __future__ import annotations

from batches import Batch
from plain import EXCUSED, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain
from replay import replay
from shown import leaders_missing


def log_matching(history: History) -> Count:
    """A batch that another log has, by offset and term, is the same and has the same log before it."""
    count = Count()
    for step in replay(history)[0]:
        counts = {"": Count(), "same": JUDGED, "other": JUDGED + VIOLATED, "unknown": UNJUDGED}
        count += (counts | {"twice": JUDGED + EXCUSED})[step.matches]
    return count


def copies_agree(history: History) -> Count:
    """A copy has the value and key of the first, or like that none, and the acks level and bytes that both state."""
    count = Count()
    first = {e.seq: e for e in history.events}
    for step in replay(history)[0]:
        if step.batch and step.matches == "same":
            one, other = first[step.batch.seq], step.event
            same = (one.value, one.text, one.key) == (other.value, other.text, other.key)
            same = same and (one.acks == other.acks or None in (one.acks, other.acks))
            same = same and (one.bytes == other.bytes or not (one.bytes and other.bytes))
            count += JUDGED if same else JUDGED + VIOLATED
    return count


def batches_are_flushed_whole(history: History) -> Count:
    """A flush reaches to the end of a batch, where the log is shown."""
    count = Count()
    for step in replay(history)[0]:
        e = step.event
        if e.kind == "flush" and e.node is not None and e.flushed is not None and e.flushed >= 0:
            batch = step.after.tip.at(e.flushed)
            if batch is not None and batch.before is not None and not batch.hidden:
                count += JUDGED if batch.last == e.flushed else JUDGED + VIOLATED
    return count


def append_at_end(history: History) -> Count:
    """Nothing is appended over what is still held.

    Where no truncation is recorded, a follower may have cut off what was of an earlier term, and not committed.
    """
    count = Count()
    unexplained = False
    for step in replay(history)[0]:
        e, tip = step.event, step.before.tip
        if step.batch and e.offset <= tip.last:
            count += JUDGED + VIOLATED
            there, commit = tip.at(e.offset), step.before.commit
            earlier = there is not None and (there.hidden or there.term < e.entry_term)
            unexplained = unexplained or step.leads or not earlier or (commit is not None and commit >= e.offset)
        elif step.batch:
            count += JUDGED
    return count.if_shown(void=count.violated > 0 and not unexplained and not history.has("truncate"))


def log_terms_monotonic(history: History) -> Count:
    """No entry is of an earlier term than the one before it, or of a later one than its node's; and a candidate holds
    none of its term."""
    count = Count()
    for step in replay(history)[0]:
        e, tip = step.event, step.after.tip
        if e.dirty is not None and e.role == "candidate" and e.kind != "term" and tip.before and not tip.hidden:
            count += JUDGED + VIOLATED if tip.term == e.term else JUDGED
        if step.batch:
            end = step.before.tip if e.offset > step.before.tip.last else step.before.tip.up_to(e.offset)
            if e.offset == end.last + 1 and not end.hidden:
                count += JUDGED if end.term <= e.entry_term <= e.term else JUDGED + VIOLATED
    return count


def leader_append_only(history: History) -> Count:
    """A leader truncates nothing."""
    count = Count()
    for step in replay(history)[0]:
        count += Count(judged=step.takes_office, violated=step.event.kind == "truncate" and step.leads)
    return count.if_shown(lacks=leaders_missing(history))


def truncation_needs_divergence(history: History) -> Count:
    """What a node appends after it cut off a batch, in the same term, is not that batch."""
    count = Count()
    cut: dict[int, tuple[Event, Batch]] = {}
    for step in replay(history)[0]:
        e = step.event
        if not step.of_node:
            continue
        if e.kind == "start" or (e.kind == "trim" and e.dirty < e.offset):
            cut.pop(e.node, None)
        if e.node in cut and cut[e.node][0].term != e.term:
            del cut[e.node]
        if e.kind == "truncate":
            gap = step.before.gap
            first = gap[1] + 1 if gap is not None and gap[0] == e.offset else e.offset
            removed = step.before.tip.at(first)
            if removed and removed.offset == first and not removed.hidden:
                cut[e.node] = e, removed
        elif step.batch and e.node in cut:
            count += JUDGED + VIOLATED if cut.pop(e.node)[1] is step.batch else JUDGED
    return count


TWINS: dict[str, Plain] = {
    "log-matching": log_matching,
    "copies-agree": copies_agree,
    "batches-are-flushed-whole": batches_are_flushed_whole,
    "append-at-end": append_at_end,
    "log-terms-monotonic": log_terms_monotonic,
    "leader-append-only": leader_append_only,
    "truncation-needs-divergence": truncation_needs_divergence,
}
