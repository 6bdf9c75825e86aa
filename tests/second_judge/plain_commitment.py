"""What is committed and what is visible, against everybody's log. Sources: raft.md#commit-index, raft.md#visibility."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from plain import ALL, EXCUSED, JUDGED, UNJUDGED, VIOLATED, Count, History, Plain, total
from replay import Batch, Step, covers, replay, shared
from shown import commits_missing, commits_move, flushes_missing, flushes_unseen, leaders_missing, visible_missing


def _known(step: Step, column: str) -> Batch | None:
    """The batch at commit or visible in the node's log; None if it is not shown."""
    batch = step.after.tip.at(step.event[column])
    return None if batch is None or batch.hidden else batch


def _heads(history: History) -> Iterator[tuple[Step, bool]]:
    """Every move of a commit index by a leader, or by whoever is the first where nobody is seen to lead; whether by
    a leader, and by that alone, is in the second place."""
    for step, ahead in _ahead(history, "commit"):
        if ahead in ("leader", "first"):
            yield step, ahead == "leader"


def _ahead(history: History, column: str) -> Iterator[tuple[Step, str]]:
    """Every move of commit or visible, and whether it is a leader's; or is within what leaders have had, ahead of a
    leader who is known, or the first of what leaders have had if that is not shown."""
    most = -1
    for step in replay(history)[0]:
        e = step.event
        if step.of_node and step.first:
            most = max(most, e.get(column) if e.get(column) is not None else -1)
        elif step.moved(column):
            leader = step.other_leader
            if step.leads:
                most = max(most, e[column])
                yield step, "leader"
            elif e[column] <= most:
                yield step, "within"
            elif leader is not None and getattr(step.nodes[leader], column) is not None:
                yield step, "ahead"
            else:
                most = e[column]
                yield step, "first"
        if step.takes_office:
            most = max(most, e.get(column) if e.get(column) is not None else -1)


def _within_leader(history: History, column: str) -> Count:
    counts = {"leader": Count(), "within": JUDGED, "ahead": JUDGED + VIOLATED, "first": UNJUDGED}
    return total(counts[ahead] for _, ahead in _ahead(history, column))


def follower_commit_within_leader(history: History) -> Count:
    """No follower has a larger commit index than any leader has had."""
    return _within_leader(history, "commit").if_shown(void=commits_missing(history))


def follower_visible_within_leader(history: History) -> Count:
    """No follower shows more than any leader has shown."""
    return _within_leader(history, "visible").if_shown(void=visible_missing(history))


def committed_flushed_on_majority(history: History) -> Count:
    """When a leader commits an entry, a majority of the voters has that very entry flushed.

    A voter may be one of them if it tells nothing yet of what it has flushed, if it had the entry and was wiped, or if
    the entry may be in a part of its log that is not shown.
    """
    count = Count()
    held = _held(history)
    needed = history.majority if history.voters else 0
    heads = {id(step) for step, _ in _heads(history)}
    unseen = seen = False
    for step in replay(history)[0]:
        unseen, seen = unseen or flushes_unseen(step), seen or (step.event.kind == "flush")
        if id(step) not in heads:
            continue
        batch = _known(step, "commit")
        if batch is None:
            count += UNJUDGED
            continue
        wiped = {e.node for e in step.wipes}
        sure = perhaps = 0
        for voter in history.voters:
            node = step.nodes.get(voter)
            if node is None or node.flushed is None or voter in wiped & _holders(held, batch, step):
                perhaps += 1
            elif node.flushed >= step.event.commit:
                theirs = node.tip.at(step.event.commit)
                sure += theirs is batch
                perhaps += theirs is not None and theirs.hidden
        if needed and sure >= needed:
            count += JUDGED
        elif sure + perhaps >= needed or (unseen and not seen):
            count += UNJUDGED
        else:
            count += JUDGED + VIOLATED
    moved = any(commits_move(step) for step in replay(history)[0])
    lacks = (moved and not count.judged) or commits_missing(history) or flushes_missing(history)
    lacks = lacks or (not history.voters and count.unjudged > 0)
    return count.if_shown(lacks=lacks, void=bool(history.voters) and history.stranger)


def commit_current_term(history: History) -> Count:
    """A leader commits by an entry of its own term."""
    count = Count()
    for step, leads in _heads(history):
        batch = _known(step, "commit")
        if not leads:
            count += UNJUDGED
        elif batch is not None:
            count += JUDGED if batch.term == step.event.term else JUDGED + VIOLATED
    return count.if_shown(lacks=leaders_missing(history) or commits_missing(history))


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
    return count.if_shown(lacks=commits_missing(history))


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
    """The leader of the latest term held, when it came to lead, what is committed by leaders of earlier terms."""
    count = Count()
    latest: Step | None = None
    log = history and replay(history)[1].empty
    for step in replay(history)[0]:
        e = step.event
        needed = None
        if step.takes_office and (latest is None or e.term > latest.event.term):
            latest = step
            writes = step.batch is not None and step.batch.seq == e.seq and step.batch.term == e.term
            log = step.batch.before if writes and step.batch and step.batch.before else step.after.tip
            needed = step.then_committed if step.then_committed.last >= 0 else None
        elif latest is not None and step.leader_commits and e.term < latest.event.term:
            needed = _known(step, "commit")
        if needed is None:
            continue
        theirs = log.at(needed.last)
        if theirs is not None and theirs.hidden:
            count += UNJUDGED
        elif theirs is needed or needed.hidden:
            count += JUDGED
        else:
            count += JUDGED + (EXCUSED if step.wipes else VIOLATED)
    return count.if_shown(lacks=leaders_missing(history))


Held: TypeAlias = dict[Batch, dict[int, int]]


@lru_cache(maxsize=4)
def _held(history: History) -> Held:
    """Who ever had which batch, and since which event."""
    held: Held = defaultdict(dict)
    for step in replay(history)[0]:
        if step.batch:
            held[step.batch].setdefault(step.event.node, step.event.seq)
    return held


def _holders(held: Held, batch: Batch, step: Step) -> set[int]:
    return {node for node, since in held.get(batch, {}).items() if since <= step.event.seq}


def on_majority(history: History, step: Step, batch: Batch) -> tuple[int, int]:
    """How many voters have, or have had, the batch; and how many more may have, though the history does not show it."""
    holders = _holders(_held(history), batch, step) & {*history.voters}
    perhaps = 0
    for voter in {*history.voters} - holders:
        node = step.nodes.get(voter)
        theirs = node.tip.at(batch.last) if node is not None else None
        perhaps += node is None or node.term is None or (theirs is not None and theirs.hidden)
    return len(holders), perhaps


def visible_on_majority(history: History) -> Count:
    """What becomes visible is committed, or is or has been in the logs of a majority of the voters."""
    count = Count()
    needed = history.majority if history.voters else 0
    for step in replay(history)[0]:
        batch = step.after.tip.at(step.event.visible) if step.moved("visible") else None
        if batch is None:
            continue
        sure, perhaps = on_majority(history, step, batch)
        if batch.hidden:
            count += UNJUDGED
        elif covers(step.then_committed, batch) or (needed and sure >= needed):
            count += JUDGED
        else:
            count += UNJUDGED if sure + perhaps >= needed else JUDGED + VIOLATED
    lacks = visible_missing(history) or (not history.voters and count.unjudged > 0)
    return count.if_shown(lacks=lacks, void=bool(history.voters) and history.stranger)


def pending_not_visible(history: History) -> Count:
    """No acks=all entry becomes visible before it is committed, by anyone or as the node itself has it."""
    count = Count()
    for step in replay(history)[0]:
        batch = _known(step, "visible") if step.moved("visible") and not history.write_caching else None
        if batch is not None:
            pending = next((b for b in batch.log() if b.acks == ALL), None)
            waits = pending is not None and not covers(step.then_committed, pending)
            waits = waits and pending is not None and step.event.commit < pending.offset
            count += JUDGED + VIOLATED if waits else JUDGED
    return count.if_shown(lacks=visible_missing(history))


TWINS: dict[str, Plain] = {
    "follower-commit-within-leader": follower_commit_within_leader,
    "follower-visible-within-leader": follower_visible_within_leader,
    "committed-flushed-on-majority": committed_flushed_on_majority,
    "commit-current-term": commit_current_term,
    "committed-agree": committed_agree,
    "committed-never-truncated": committed_never_truncated,
    "leader-completeness": leader_completeness,
    "visible-on-majority": visible_on_majority,
    "pending-not-visible": pending_not_visible,
}
