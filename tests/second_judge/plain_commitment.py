"""What is committed and what is visible, against everybody's log. Sources: raft.md#commit-index, raft.md#visibility."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from plain import ALL, EXCUSED, JUDGED, UNJUDGED, VIOLATED, Count, History, Plain
from replay import Batch, Step, covers, replay, shared


def _committed_batch(step: Step) -> Batch | None:
    """What a leader commits by this event, if it does and if that is known."""
    batch = step.after.tip.at(step.event.commit) if step.leader_commits else None
    return None if batch is None or batch.hidden else batch


def committed_flushed_on_majority(history: History) -> Count:
    """When a leader commits an entry, a majority of the voters has that very entry flushed.

    Whoever had it and was wiped since, or may have it in a part of its log that is not shown, may be one of them.
    """
    count = Count()
    for step, held in _held(history):
        batch = _committed_batch(step)
        if batch is None:
            continue
        wiped = {e.node for e in step.wipes}
        sure = perhaps = 0
        for voter in {*history.voters} & {*step.nodes}:
            node = step.nodes[voter]
            theirs = node.tip.at(step.event.commit)
            if voter in wiped & held[batch]:
                perhaps += 1
            elif node.flushed >= step.event.commit and theirs is not None:
                sure += theirs is batch
                perhaps += theirs.hidden
        if sure >= history.majority:
            count += JUDGED
        elif sure + perhaps >= history.majority:
            count += UNJUDGED
        else:
            count += JUDGED + VIOLATED
    return count


def commit_current_term(history: History) -> Count:
    """A leader commits by an entry of its own term."""
    count = Count()
    for step in replay(history)[0]:
        batch = _committed_batch(step)
        if batch:
            count += JUDGED if batch.term == step.event.term else JUDGED + VIOLATED
    return count


def committed_agree(history: History) -> Count:
    """Whoever commits, commits a part of the committed log or makes it longer."""
    count = Count()
    for step in replay(history)[0]:
        own = step.after.tip.at(step.event.commit) if step.moved("commit") else None
        if own is None:
            continue
        if covers(step.committed, own) or covers(own, step.committed):
            count += UNJUDGED if own.hidden else JUDGED
            continue
        fork = shared(own, step.committed)
        rival = next(b for b in step.committed.log() if b.before is fork)
        mine = [b for b in own.log() if b.offset > fork.last]
        if rival.hidden or any(b.hidden for b in mine):
            count += UNJUDGED
        else:
            since = next(s.event.seq for s in replay(history)[0] if covers(s.then_committed, rival))
            count += JUDGED + (EXCUSED if any(e.seq > since for e in step.wipes) else VIOLATED)
    return count


def committed_never_truncated(history: History) -> Count:
    """No truncation removes what the node itself or anyone else has committed."""
    count = Count()
    for step in replay(history)[0]:
        e = step.event
        removed = step.before.tip.at(e.offset) if e.kind == "truncate" else None
        if removed:
            count += JUDGED
            by_itself = step.before.commit is not None and step.before.commit >= e.offset
            if by_itself or (covers(step.committed, removed) and not removed.hidden):
                count += EXCUSED if step.wipes else VIOLATED
    return count


def leader_completeness(history: History) -> Count:
    """The leader of the latest term held, when it was elected, what is committed by leaders of earlier terms."""
    count = Count()
    latest: Step | None = None
    for step in replay(history)[0]:
        e = step.event
        needed = None
        if e.kind == "leader" and (latest is None or e.term > latest.event.term):
            latest = step
            needed = step.then_committed if step.then_committed.last >= 0 else None
        elif latest is not None and step.leader_commits and e.term < latest.event.term:
            needed = _committed_batch(step)
        if latest is None or needed is None:
            continue
        theirs = latest.after.tip.at(needed.last)
        if theirs is not None and theirs.hidden:
            count += UNJUDGED
        elif theirs is needed or needed.hidden:
            count += JUDGED
        else:
            count += JUDGED + (EXCUSED if step.wipes else VIOLATED)
    return count


def visible_on_majority(history: History) -> Count:
    """What becomes visible is committed, or is or has been in the logs of a majority of the voters."""
    count = Count()
    for step, held in _held(history):
        batch = step.after.tip.at(step.event.visible) if step.moved("visible") else None
        if batch is None:
            continue
        if batch.hidden:
            count += UNJUDGED
        else:
            holders = held[batch] & {*history.voters}
            enough = covers(step.then_committed, batch) or len(holders) >= history.majority
            count += JUDGED if enough else JUDGED + VIOLATED
    return count


def _held(history: History) -> Iterator[tuple[Step, dict[Batch, set[int]]]]:
    """Every step, and who ever had which batch until then."""
    held: dict[Batch, set[int]] = defaultdict(set)
    for step in replay(history)[0]:
        if step.batch:
            held[step.batch].add(step.event.node)
        yield step, held


def pending_not_visible(history: History) -> Count:
    """No acks=all entry becomes visible before it is committed."""
    count = Count()
    if history.write_caching:
        return count
    for step in replay(history)[0]:
        batch = step.after.tip.at(step.event.visible) if step.moved("visible") else None
        if batch is not None and not batch.hidden:
            pending = [b for b in batch.log() if b.acks == ALL and not covers(step.then_committed, b)]
            count += JUDGED + VIOLATED if pending else JUDGED
    return count


TWINS: dict[str, Plain] = {
    "committed-flushed-on-majority": committed_flushed_on_majority,
    "commit-current-term": commit_current_term,
    "committed-agree": committed_agree,
    "committed-never-truncated": committed_never_truncated,
    "leader-completeness": leader_completeness,
    "visible-on-majority": visible_on_majority,
    "pending-not-visible": pending_not_visible,
}
