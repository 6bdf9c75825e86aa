"""What is committed and what is visible, against everybody's log. Sources: raft.md#commit-index, raft.md#visibility."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from batches import Batch, covers, shared
from lives import may_lack
from plain import ALL, EXCUSED, JUDGED, UNJUDGED, VIOLATED, Count, History, Plain, once, total
from replay import Step, moved_to, replay, taken_for
from shown import commits_missing, commits_move, flushes_missing, flushes_unseen, leaders_missing, visible_missing


def _known(step: Step, column: str) -> Batch | None:
    """The batch at commit or visible in the node's log; None if it is not shown."""
    batch = step.after.tip.at(step.event[column])
    return None if batch is None or batch.hidden else batch


def _lost(history: History, step: Step, column: str) -> bool:
    """Whether a voter may have lost from its record what it did with the batch at commit or visible until then."""
    batch = _known(step, column)
    return batch is not None and may_lack(history, batch.seq, step.event.seq)


def _was_committed(step: Step, batch: Batch) -> bool:
    """Whether a batch is committed, or was until it was lost with an excuse."""
    return covers(step.then_committed, batch) or batch in step.given_up


def _heads(history: History) -> list[Step]:
    """Every move of a commit index by a leader, or by the first node to make it where none is seen to lead."""
    return [step for step in replay(history)[0] if step.lead in ("leader", "first")]


def _leads(history: History, column: str) -> Iterator[str]:
    """What each move of commit or visible is, as for `Step.ahead`; ``lost`` if whoever was there before may not have
    recorded it."""
    most = -1
    for step in replay(history)[0]:
        stated = step.event.get(column) if step.of_node else None
        if step.moved(column):
            most, lead = moved_to(step, column, most)
            if lead == "ahead":
                offices = [s.event for s in replay(history)[0][: step.place] if s.takes_office]
                since = [e.seq for e in offices if e.node == step.other_leader][-1]
                lead = "lost" if may_lack(history, since, step.event.seq) else lead
            yield lead
        if stated is not None and (step.first or step.takes_office):
            most = max(most, stated)


def _within_leader(history: History, column: str) -> Count:
    counts = {"": Count(), "leader": Count(), "within": JUDGED, "ahead": JUDGED + VIOLATED, "first": UNJUDGED}
    counts["lost"] = UNJUDGED
    return total(counts[lead] for lead in _leads(history, column))


def follower_commit_within_leader(history: History) -> Count:
    """No follower has a larger commit index than any leader has had."""
    return _within_leader(history, "commit").if_shown(void=commits_missing(history))


def follower_visible_within_leader(history: History) -> Count:
    """No follower shows more than any leader has shown."""
    return _within_leader(history, "visible").if_shown(void=visible_missing(history))


def committed_flushed_on_majority(history: History) -> Count:
    """When a leader commits an entry, a majority of the voters has that very entry flushed."""
    count = Count()
    unseen = seen = False
    for step in replay(history)[0]:
        unseen, seen = unseen or flushes_unseen(step), seen or (step.event.kind == "flush")
        if step.lead not in ("leader", "first"):
            continue
        if _known(step, "commit") is None:
            count += UNJUDGED
        elif all(sure >= needed > 0 for sure, _, needed in step.flushed):
            count += JUDGED
        elif (
            all(sure + perhaps >= needed for sure, perhaps, needed in step.flushed)
            or (unseen and not seen)
            or _lost(history, step, "commit")
        ):
            count += UNJUDGED
        else:
            count += JUDGED + VIOLATED
    moved = any(commits_move(step) for step in replay(history)[0])
    lacks = (moved and not count.judged) or commits_missing(history) or flushes_missing(history)
    lacks = lacks or (count.unjudged > 0 and history.silent)
    return count.if_shown(lacks=lacks, void=voters_unknown(history))


def commit_current_term(history: History) -> Count:
    """A leader commits by an entry of its own term."""
    count = Count()
    for step in _heads(history):
        batch = _known(step, "commit")
        if step.lead == "first":
            count += UNJUDGED
        elif batch is not None:
            count += JUDGED if batch.term == step.event.term else JUDGED + VIOLATED
    return count.if_shown(lacks=leaders_missing(history) or commits_missing(history))


def committed_agree(history: History) -> Count:
    """Whoever commits, commits a part of the committed log or makes it longer, unless that was exposed and is lost."""
    counts = {"": Count(), "agrees": JUDGED, "unjudged": UNJUDGED, "violated": JUDGED + VIOLATED}
    excused = {"excused": JUDGED + EXCUSED, "excused, given up": JUDGED + EXCUSED}
    count = total((counts | excused)[step.agrees] for step in replay(history)[0])
    return count.if_shown(lacks=commits_missing(history))


def committed_never_truncated(history: History) -> Count:
    """No truncation removes what the node itself or anyone else has committed; what its leader's log lacks may go."""
    count = Count()
    for step in replay(history)[0]:
        e = step.event
        removed = step.before.tip.at(e.offset) if e.kind == "truncate" else None
        if removed:
            count += JUDGED
            by_itself = step.before.commit is not None and step.before.commit >= e.offset
            if by_itself or (covers(step.committed, removed) and not removed.hidden):
                is_excused = not by_itself and step.before.gap is not None and step.before.gap[0] == e.offset
                count += EXCUSED if is_excused or removed in step.exposed else VIOLATED
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
            behind = [b for b in needed.log() if b.last > shared(needed, log).last]
            exposed = all(b in step.then_exposed or b.hidden for b in behind)
            count += JUDGED + (EXCUSED if exposed else VIOLATED)
    return count.if_shown(lacks=leaders_missing(history))


Held: TypeAlias = dict[Batch, dict[int, int]]


@once
def _held(history: History) -> Held:
    """Who ever had which batch, and since which event."""
    held: Held = defaultdict(dict)
    for step in replay(history)[0]:
        if step.batch:
            held[step.batch].setdefault(step.event.node, step.event.seq)
    return held


def _holders(held: Held, batch: Batch, step: Step) -> set[int]:
    return {node for node, since in held.get(batch, {}).items() if since <= step.event.seq}


def holders_of(history: History, step: Step, batch: Batch, voters: Iterable[int]) -> set[int]:
    """Those of these voters that have, or have had, the batch."""
    return _holders(_held(history), batch, step) & {*voters}


def on_majority(history: History, step: Step, batch: Batch, node: int | None = None) -> tuple[int, int, int]:
    """How many voters have, or have had, the batch; how many more may have, though the history does not show it; and
    how many have to.

    The voters are those of the configuration of the node (None: the node of the event; -1: the first configuration): of
    two halves the one in which more lack.
    """
    own = step.event.node if node is None else node
    halves = history.halves(own, step.event.seq) if own != -1 else (history.voters,)
    found = [(_majority(half) - len(holders_of(history, step, batch, half)), half) for half in halves]
    voters = max(found, key=lambda each: each[0])[1]
    holders = holders_of(history, step, batch, voters)
    perhaps = 0
    for voter in {*voters} - holders:
        node = step.nodes.get(voter)
        theirs = node.tip.at(batch.last) if node is not None else None
        seen = node is not None and node.term is not None and not (theirs is not None and theirs.hidden)
        perhaps += not seen or taken_for(step, theirs, batch)
    return len(holders), perhaps, _majority(voters)


def _majority(voters: tuple[int, ...]) -> int:
    return len(voters) // 2 + 1 if voters else 0


def voters_unknown(history: History) -> bool:
    """Whether the configurations, which are known or not, contradict what happens, or cannot be read."""
    return (bool(history.voters) and history.stranger) or history.unreadable


def visible_on_majority(history: History) -> Count:
    """What becomes visible is committed, or is or has been in the logs of a majority of the voters."""
    count = Count()
    for step in replay(history)[0]:
        batch = step.after.tip.at(step.event.visible) if step.moved("visible") else None
        if batch is None:
            continue
        sure, perhaps, needed = on_majority(history, step, batch)
        if batch.hidden:
            count += UNJUDGED
        elif _was_committed(step, batch) or (needed and sure >= needed):
            count += JUDGED
        else:
            lost = sure + perhaps >= needed or _lost(history, step, "visible")
            # A follower shows what it is told by its leader, whose configuration may be another one.
            lost = lost or (history.changes(step.event.seq) and not step.leads)
            count += UNJUDGED if lost else JUDGED + VIOLATED
    lacks = visible_missing(history) or (count.unjudged > 0 and history.silent)
    return count.if_shown(lacks=lacks, void=voters_unknown(history))


def pending_not_visible(history: History) -> Count:
    """No acks=all entry becomes visible before it is committed, by anyone or as the node itself has it."""
    count = Count()
    for step in replay(history)[0]:
        batch = _known(step, "visible") if step.moved("visible") and not history.write_caching else None
        if batch is not None:
            pending = next((b for b in batch.log() if b.acks == ALL), None)
            waits = pending is not None and not _was_committed(step, pending)
            waits = waits and pending is not None and step.event.commit < pending.offset
            if pending is not None and waits and (step.hidden or may_lack(history, pending.seq, step.event.seq)):
                count += UNJUDGED
            else:
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
