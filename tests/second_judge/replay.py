"""The logs of nodes as their events tell of them, followed event by event.

A log is its last batch, which knows the one before it. Two batches are the same if they say the same and the logs
before them are the same. A part that the history does not show is a hidden batch; when a batch comes behind it that is
known from another log, the log before that one is taken over, as log matching says (raft.md#log-matching).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from batches import Batch, Node
from excuses import takes_unflushed
from fate import Fate
from plain import GONE, Event, History, once, wipes


@dataclass(frozen=True, eq=False)
class Step:
    """One event of a log: the node it is of before and after it, and all nodes after it."""

    event: Event
    place: int
    """How many events came before it."""
    before: Node
    after: Node
    nodes: dict[int, Node]
    first: bool
    """It is the first event that tells the state of the node: what was before is not known."""
    leads: bool
    """The node leads, and did so before the event."""
    takes_office: bool
    """By this event the node is first seen to lead its term."""
    batch: Batch | None
    """What is appended, as part of the log."""
    matches: str
    """What log matching says of it: nothing (it is new), ``same``, ``other``, ``unknown``; or ``twice``, if it is of
    a term that two nodes led since a disk was emptied, and another one."""
    committed: Batch
    """The longest log that was committed before the event, and the same after it."""
    then_committed: Batch
    hidden: bool
    """Whether some part of a log was not shown so far."""
    twice: int | None
    """The latest such term."""
    agrees: str
    """Whether what the node commits agrees with the committed log; nothing if it commits nothing."""
    newly: tuple[Batch, ...]
    """What is committed by the event, and what is lost by that."""
    lost: tuple[Batch, ...]
    lead: str
    """Whether a move of the commit index is a leader's, within what leaders have had, ahead of that or the first."""
    flushed: tuple[tuple[int, int, int], ...]
    """How many voters have flushed what is committed so, how many more may have, and how many have to; by half."""
    exposed: frozenset[Batch]
    """What may be lost, before and after a majority is seen to have flushed what a leader commits."""
    then_exposed: frozenset[Batch]
    given_up: frozenset[Batch]
    """What had been committed and is lost, with an excuse."""
    dead: frozenset[Batch]
    """What is beside the committed log."""

    @property
    def of_node(self) -> bool:
        """Whether it tells the state of a node's log."""
        return self.event.dirty is not None

    def moved(self, column: str) -> bool:
        """Whether it moves commit or visible forward; a start moves neither."""
        offset, old = self.event.get(column), getattr(self.before, column)
        forward = offset is not None and offset >= 0 and (old is None or offset > old)
        return self.of_node and forward and self.event.kind != "start"

    @property
    def leader_commits(self) -> bool:
        """Whether a leader moves its commit index."""
        return self.moved("commit") and not self.first and self.leads

    @property
    def other_leader(self) -> int | None:
        """The other node that leads, or led, the term that this one is in, and no later one since."""
        others = (n for n, node in self.nodes.items() if n != self.event.node and node.led == self.event.term)
        return next(others, None)


class Logs:
    """All batches that were seen so far."""

    def __init__(self) -> None:
        self.empty = Batch(-1, -1, -1, None, None)
        self.known: dict[tuple[int, int], list[Batch]] = {}
        self._hidden: list[Batch] = []

    @property
    def hides(self) -> bool:
        """Whether some part of a log was not shown."""
        return bool(self._hidden)

    def hidden(self, before: Batch, last: int) -> Batch:
        """The log ``before`` and a part behind it that the history does not show."""
        for batch in self._hidden:
            if batch.before is before and batch.last == last:
                return batch
        self._hidden.append(Batch(before.last + 1, last, -1, None, before, hidden=True, diverged=before.diverged))
        return self._hidden[-1]

    def append(self, e: Event, tip: Batch) -> tuple[Batch, str]:
        """The log with one batch more, and what log matching says of that."""
        tip = tip if e.offset > tip.last else tip.up_to(e.offset)
        if e.offset > tip.last + 1:
            tip = self.hidden(tip, e.offset - 1)
        same_name = self.known.setdefault((e.offset, e.entry_term), [])
        batch, matches = None, ""
        if same_name:
            other = same_name[-1]
            assert other.before
            alike_values = other.value == e.value or None in (other.value, e.value)  # nothing is known of one of them
            if other.last == e.last and alike_values and (other.before is tip or tip.hidden or other.before.hidden):
                batch, matches = other, "same"
            elif tip.hidden or other.before.hidden or tip.diverged or other.before.diverged:
                alike = [b for b in same_name if b.before is tip and (b.last, b.value) == (e.last, e.value)]
                batch, matches = alike[0] if alike else None, "unknown"
            else:
                matches = "other"
        if batch is None:
            diverged = matches == "other" or tip.diverged
            batch = Batch(e.offset, e.last, e.entry_term, e.value, tip, diverged=diverged, acks=e.acks, seq=e.seq)
            same_name.append(batch)
        return batch, matches


@once
def replay(history: History) -> tuple[list[Step], Logs]:
    """Every event in order."""
    logs = Logs()
    fate = Fate(history, logs.empty)
    nodes: dict[int, Node] = {}
    steps: list[Step] = []
    hides = wiped = False
    most = -1
    elected, twice = (-1, -1), None
    for e in history.events:
        wiped = wiped or wipes(e)
        nodes = _faults(history, e, nodes, logs, fate)
        before = _started(history, e, nodes.get(e.node, Node(logs.empty)), logs, fate, nodes)
        after, batch, matches = _after(e, before, logs)
        if matches == "other" and e.entry_term == twice:
            matches = "twice"
        if batch is not None and batch.seq == e.seq:
            fate.grown(batch)
        first = e.dirty is not None and before.term is None
        leads = after.leads is not None
        office = not leads and e.dirty is not None and _takes_office(history, e, after, batch, nodes)
        if office:
            after = replace(after, leads=e.term, led=e.term)
            if e.term > elected[0]:
                elected = e.term, e.node
            elif wiped and e.term == elected[0] and e.node != elected[1]:
                twice = e.term
        if e.node is not None and (e.dirty is not None or e.kind in GONE):
            nodes = nodes | {e.node: after}
        hides = hides or logs.hides or (e.dirty is not None and e.dirty > after.tip.last)
        step = Step(
            event=e,
            place=len(steps),
            before=before,
            after=after,
            nodes=nodes,
            first=first,
            leads=leads,
            takes_office=office,
            batch=batch,
            matches=matches,
            committed=fate.committed,
            then_committed=fate.committed,
            hidden=hides,
            twice=twice,
            agrees="",
            newly=(),
            lost=(),
            lead="",
            flushed=(),
            exposed=fate.exposed,
            then_exposed=fate.exposed,
            given_up=fate.given_up,
            dead=fate.dead,
        )
        if step.moved("commit"):
            own = after.tip.at(e.commit)
            agrees, newly, lost = fate.commit(own) if own is not None else ("", (), ())
            step = replace(step, agrees=agrees, newly=newly, lost=lost, then_committed=fate.committed)
            most, lead = moved_to(step, "commit", most)
            step = replace(step, lead=lead)
            if lead in ("leader", "first") and own is not None and not own.hidden:
                halves = history.halves(e.node, e.seq)
                step = replace(step, flushed=tuple(_flushed(half, step, own, fate) for half in halves))
                if all(sure >= needed > 0 for sure, _, needed in step.flushed):
                    fate.secure(own)
            step = replace(step, then_exposed=fate.exposed, given_up=fate.given_up, dead=fate.dead)
        if step.takes_office or first:
            most = max(most, e.commit)
        steps.append(step)
    return steps, logs


def moved_to(step: Step, column: str, most: int) -> tuple[int, str]:
    """The most that leaders have had of commit or visible after a move, and what move that was."""
    offset, leader = step.event[column], step.other_leader
    if step.first:
        return max(most, offset), ""
    if step.leads:
        return max(most, offset), "leader"
    if offset <= most:
        return most, "within"
    if leader is not None and getattr(step.nodes[leader], column) is not None:
        return most, "ahead"
    return offset, "first"


def _flushed(voters: tuple[int, ...], step: Step, batch: Batch, fate: Fate) -> tuple[int, int, int]:
    """How many of these voters have flushed a batch, how many more may have, and how many have to.

    Those may have that tell nothing yet of what they have flushed, or have there what is not shown or is taken for it;
    and those whose copy went with a disk.
    """
    sure = perhaps = 0
    for voter in voters:
        node = step.nodes.get(voter)
        if node is None or node.flushed is None:
            perhaps += 1
            continue
        theirs = node.tip.at(step.event.commit) if node.flushed >= step.event.commit else None
        sure += theirs is batch
        there = theirs is not None and (theirs.hidden or theirs in fate.given_up or _is_twice(step, theirs, batch))
        perhaps += theirs is not batch and (there or voter in fate.emptied[batch])
    return sure, perhaps, len(voters) // 2 + 1 if voters else 0


def taken_for(step: Step, theirs: Batch | None, batch: Batch) -> bool:
    """Whether who has one batch may say that it has another: it was committed and is lost, with an excuse; or two nodes
    led the term of both."""
    return theirs is not None and theirs is not batch and (theirs in step.given_up or _is_twice(step, theirs, batch))


def _is_twice(step: Step, theirs: Batch, batch: Batch) -> bool:
    return step.twice == theirs.term == batch.term


def _faults(history: History, e: Event, nodes: dict[int, Node], logs: Logs, fate: Fate) -> dict[int, Node]:
    """The nodes after a disk was emptied or power was cut; where no node is named it may have been any."""
    if e.kind != "fault" or e.f not in ("wipe", "power_loss"):
        return nodes
    for each in [e.node] if e.node is not None else sorted({*nodes, *history.voters}):
        node = nodes.get(each, Node(logs.empty))
        if e.f == "power_loss":
            nodes = nodes | {each: replace(node, takes=True)}
        else:
            fate.destroy(nodes, each, logs.empty, e.seq, wipe=True)
            nodes = nodes | {each: replace(node, tip=logs.empty, flushed=-1)}
    return nodes


def _started(history: History, e: Event, node: Node, logs: Logs, fate: Fate, nodes: dict[int, Node]) -> Node:
    """A node after it has started, if it does so by this event. Who was down and goes on has, recorded or not."""
    if e.dirty is None or not (e.kind == "start" or node.down):
        return node
    dirty = e.offset - 1 if e.kind == "append" else e.dirty
    tip = node.tip.up_to(dirty + 1)
    if tip is not node.tip and node.takes and history.write_caching:
        fate.destroy(nodes, e.node, tip, e.seq, wipe=False)
    tip = logs.hidden(tip, dirty) if tip.last < dirty else tip
    return replace(node, tip=tip, down=False, commit=None, visible=None, leads=None)


def _takes_office(history: History, e: Event, after: Node, batch: Batch | None, nodes: dict[int, Node]) -> bool:
    """Whether a node shows by this event that it leads its term: it says so, or it says nothing of its role and is the
    first to write an entry of its own term while no other node is seen to lead that term and no voter is hidden. Nobody
    leads term 0."""
    if e.kind == "term":
        return False
    if e.kind == "leader" or e.role == "leader":
        return True
    if e.role is not None or batch is None or batch.seq != e.seq or not batch.term == e.term > 0 or batch.diverged:
        return False
    others = {n: node for n, node in nodes.items() if n != e.node} | {e.node: after}
    voters = history.everyone(e.seq)
    shown = all(v in others and others[v].shown for v in voters)
    return bool(voters) and shown and not any(n != e.node and o.led == e.term for n, o in others.items())


def _after(e: Event, before: Node, logs: Logs) -> tuple[Node, Batch | None, str]:
    if e.node is None:
        return before, None, ""
    if e.kind in GONE:
        takes = before.takes or takes_unflushed(e)
        return replace(before, leads=None, down=True, takes=takes), None, ""
    if e.dirty is None:
        return before, None, ""
    tip, batch, matches, leads = before.tip, None, "", before.leads
    if e.kind == "append":
        tip, matches = logs.append(e, tip)
        batch = tip
    elif e.kind == "truncate":
        tip = tip.up_to(e.offset)
    elif e.kind == "trim" and e.dirty < e.offset:
        tip = logs.hidden(logs.empty, e.dirty)
    if e.term != leads or (e.kind == "role" and e.role != "leader"):
        leads = None
    shown = before.shown if before.term is not None else e.kind == "start"
    visible = before.visible if e.visible is None else e.visible
    gap = None
    if e.kind == "gap":
        gap = before.gap or (e.offset, e.last)
        gap = (gap[0], e.last) if e.offset == gap[1] + 1 else gap
    after = Node(tip, shown, False, False, e.term, e.commit, visible, e.flushed, leads, before.led, gap)
    return after, batch, matches
