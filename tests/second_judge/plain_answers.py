"""What nodes answered and readers were given, against their logs. Sources: raft.md#acks, raft.md#visible-offset."""

from __future__ import annotations

from batches import Batch, covers
from lives import may_lack
from plain import ALL, EXCUSED, GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, wipes
from plain_commitment import on_majority, voters_unknown
from replay import Step, replay
from shown import answers_missing

COMMITTED = ("read_committed", "read_linearizable")
"""Reads that return only what is committed."""


def _answers(history: History, reason: str) -> list[Step]:
    return [s for s in replay(history)[0] if s.event.kind == "acked" and s.event.reason == reason]


def _meant(history: History, e: Event) -> Batch | None:
    """The batch that an answer is about: the last one of that offset and term that was new before."""
    _, logs = replay(history)
    known = [b for b in logs.known.get((e.offset, e.entry_term), []) if b.seq < e.seq]
    return known[-1] if known else None


def acknowledged(history: History, reason: str = "success") -> dict[Batch, Event]:
    """By batch, the first answer of a node to it, or the first that it was truncated."""
    found: dict[Batch, Event] = {}
    for step in _answers(history, reason):
        batch = _meant(history, step.event)
        if batch is not None:
            found.setdefault(batch, step.event)
    return found


def _hidden(here: Batch | None, e: Event) -> bool:
    """Whether it is not shown what the node has there; what it says that it has need not have been recorded."""
    return here.hidden if here is not None else bool(e.dirty >= e.offset)


def ack_rule(history: History) -> Count:
    """A success is answered for an entry that the node holds, and for acks=all has committed.

    Under write caching it is enough if a majority ever had it.
    """
    count = Count()
    for step in _answers(history, "success"):
        e = step.event
        here = step.after.tip.at(e.offset)
        if _hidden(here, e):
            count += UNJUDGED
            continue
        held = here is not None and here.term == e.entry_term
        committed = e.commit >= e.last
        if history.write_caching and here is not None:
            sure, perhaps, needed = on_majority(history, step, here)
            enough = sure + perhaps >= needed
            if held and not committed and not enough and e.acks == ALL and may_lack(history, here.seq, e.seq):
                count += UNJUDGED
                continue
            committed = committed or enough
        count += JUDGED if held and (e.acks != ALL or committed) else JUDGED + VIOLATED
    counts_voters = history.write_caching and voters_unknown(history)
    unknown = history.write_caching and count.unjudged > 0 and history.silent
    return count.if_shown(lacks=answers_missing(history) or unknown, void=counts_voters)


def answered_as_written(history: History) -> Count:
    """An append is answered once, by the life that wrote it, with its offsets and its acks level.

    Answers may leave the last offset out as long as none has stated one. Where a disk was emptied a term may have two
    leaders.
    """
    count = Count()
    first = {e.seq: e for e in history.events}
    answered: set[Batch] = set()
    began: dict[int, int] = {}
    wiped = states_last = False
    for step in replay(history)[0]:
        e = step.event
        wiped = wiped or wipes(e)
        states_last = states_last or (e.kind == "acked" and e.last > e.offset)
        if e.kind == "start":
            began[e.node] = e.term
        elif e.kind in GONE:
            began.pop(e.node, None)
        if e.kind != "acked":
            continue
        here = step.after.tip.at(e.offset)
        own = here is not None and not here.hidden and (here.offset, here.term) == (e.offset, e.entry_term)
        batch = here if own else _meant(history, e)
        named = replay(history)[1].known.get((e.offset, e.entry_term), [])
        if batch is None or (wiped and sum(b.seq < e.seq for b in named) > 1):
            count += UNJUDGED
        else:
            written = first[batch.seq].acks
            right = batch not in answered and (e.last == batch.last or (e.last == batch.offset and not states_last))
            right = right and (written is None or written == e.acks)
            right = right and not 0 < batch.term <= began.get(e.node, -1)
            count += JUDGED if right else JUDGED + VIOLATED
        meant = _meant(history, e)
        stands = meant is not None and covers(step.then_committed, meant) and meant not in step.then_exposed
        if meant is not None and (e.reason == "success" or not stands):
            answered.add(meant)
    return count


def truncated_rule(history: History) -> Count:
    """Truncated is answered when a later term has committed and the entry is gone."""
    count = Count()
    for step in _answers(history, "truncated"):
        e = step.event
        here, committed = step.after.tip.at(e.offset), step.after.tip.at(e.commit)
        if committed is None or committed.hidden or _hidden(here, e):
            count += UNJUDGED
        else:
            gone = here is None or here.term != e.entry_term
            count += JUDGED if gone and committed.term > e.entry_term else JUDGED + VIOLATED
    return count


def acked_survives(history: History) -> Count:
    """What was acknowledged with acks=all is not beside the committed log, and not in nobody's log at the end.

    What was exposed when it was lost is excused. A log whose part there is not known may hold it.
    """
    count = Count()
    acked: dict[Batch, Event] = {}
    steps, _ = replay(history)
    for step in steps:
        e = step.event
        for batch in step.lost:
            if batch in acked and acked[batch].acks == ALL:
                count += EXCUSED if batch in step.exposed else VIOLATED
        if e.kind == "acked" and e.reason == "success":
            meant = _meant(history, e)
            if meant is not None and meant not in acked:
                acked[meant] = e
                if meant in step.dead and e.acks == ALL:
                    count += EXCUSED if meant in step.then_exposed else VIOLATED
    for batch in [b for b, e in acked.items() if e.acks == ALL]:
        end = steps[-1]
        there = [log.at(batch.offset) for log in (end.then_committed, *(node.tip for node in end.nodes.values()))]
        if covers(end.then_committed, batch) or batch in end.dead:
            count += JUDGED
        elif any(covers(node.tip, batch) for node in end.nodes.values()) or any(
            b is not None and b.hidden for b in there
        ):
            count += UNJUDGED
        else:
            count += JUDGED + (EXCUSED if batch in end.then_exposed else VIOLATED)
    return count.if_shown(lacks=answers_missing(history))


def failed_never_committed(history: History) -> Count:
    """What was reported as truncated is never committed, unless the log for which it was reported is lost itself."""
    count = Count()
    acknowledged: dict[Batch, int] = {}
    given_up = -1
    for step in replay(history)[0]:
        given_up = step.event.seq if step.agrees == "excused, given up" else given_up
        for batch in step.newly:
            if batch in acknowledged:
                count += EXCUSED if given_up > acknowledged[batch] else VIOLATED
        if step.event.kind == "acked" and step.event.reason == "truncated":
            meant = _meant(history, step.event)
            if meant is not None:
                count += JUDGED
                if covers(step.then_committed, meant) and meant not in step.then_exposed:
                    count += VIOLATED
                else:
                    acknowledged[meant] = step.event.seq
    return count


def uncommitted_read(history: History) -> Count:
    """What is read was visible on some node before, or committed; by committed and linearizable reads: committed."""
    count = Count()
    steps, _ = replay(history)
    asked: dict[int, str] = {}
    kinds: set[str] = set()
    visible: set[tuple[int, int | None]] = set()
    for step in steps:
        e = step.event
        kinds.add(e.kind)
        if e.kind == "invoke":
            asked[e.process] = e.f
        elif e.kind in ("ok", "fail", "info"):
            asked.pop(e.process, None)
        if step.moved("visible") or (e.kind == "start" and e.visible is not None):
            shown = step.after.tip.at(e.visible)
            visible |= {(b.offset, b.value) for b in shown.log() if not b.hidden} if shown is not None else set()
        if e.kind != "observe" or e.value is None:
            continue
        f = asked.get(e.process)
        if not ((f in COMMITTED and "commit" in kinds) or (f in ("read", "final_read") and "visible" in kinds)):
            continue
        there = step.committed.at(e.offset)
        committed = there is not None and not there.hidden and (there.offset, there.value) == (e.offset, e.value)
        given_up = any((b.offset, b.value) == (e.offset, e.value) for b in step.given_up)
        if committed or given_up or (f not in COMMITTED and (e.offset, e.value) in visible):
            count += JUDGED
        else:
            known = [b.seq for b in _at(history, e) if b.seq < e.seq]
            lost = step.hidden or may_lack(history, min(known, default=-1), e.seq)
            count += UNJUDGED if lost else JUDGED + VIOLATED
    return count


def _at(history: History, e: Event) -> list[Batch]:
    """Every batch that was ever where a read found one, with its value."""
    known = replay(history)[1].known.values()
    return [b for each in known for b in each if (b.offset, b.value) == (e.offset, e.value)]


TWINS: dict[str, Plain] = {
    "ack-rule": ack_rule,
    "answered-as-written": answered_as_written,
    "truncated-rule": truncated_rule,
    "acked-survives": acked_survives,
    "failed-never-committed": failed_never_committed,
    "uncommitted-read": uncommitted_read,
}
