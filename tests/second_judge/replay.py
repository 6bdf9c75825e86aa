"""The logs of nodes as their events tell of them, followed event by event.

A log is its last batch, which knows the one before it. Two batches are the same if they say the same and the logs
before them are the same. A part that the history does not show is a hidden batch; when a batch comes behind it that is
known from another log, the log before that one is taken over, as log matching says (raft.md#log-matching).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from plain import ALL, GONE, Event, History


@dataclass(eq=False)
class Batch:
    """Some offsets of a log, and through ``before`` the whole log up to them."""

    offset: int
    last: int
    term: int
    value: int | None
    before: Batch | None
    hidden: bool = False
    diverged: bool = False
    """It, or one before it, broke log matching."""
    acks: int | None = None
    seq: int = -1
    """The event that first showed it."""

    def log(self) -> Iterator[Batch]:
        """The log up to here, the last batch first, the empty log at the end."""
        batch: Batch | None = self
        while batch is not None:
            yield batch
            batch = batch.before

    def at(self, offset: int) -> Batch | None:
        """The batch of this log that holds the offset, the empty log if none can; None if the log ends before it."""
        return None if offset > self.last else next(b for b in self.log() if b.offset <= offset or b.before is None)

    def up_to(self, offset: int) -> Batch:
        """This log without every batch that reaches the offset."""
        return next(b for b in self.log() if b.last < offset or b.before is None)


@dataclass(frozen=True, eq=False)
class Node:
    """What is known of one node."""

    tip: Batch
    shown: bool = False
    """It is recorded from a start on."""
    down: bool = False
    """Its process ended."""
    term: int | None = None
    commit: int | None = None
    visible: int | None = None
    flushed: int | None = None
    leads: int | None = None
    """The term that it leads."""
    led: int | None = None
    """The last term that it led."""


@dataclass(frozen=True, eq=False)
class Step:
    """One event of a log: the node it is of before and after it, and all nodes after it."""

    event: Event
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
    """What log matching says of it: nothing (it is new), ``same``, ``other`` or ``unknown``."""
    committed: Batch
    """The longest log that was committed before the event, and the same after it."""
    then_committed: Batch
    wipes: tuple[Event, ...]
    """The disks that were emptied so far."""
    hidden: bool
    """Whether some part of a log was not shown so far."""

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


def covers(log: Batch, batch: Batch) -> bool:
    """Whether the log holds the batch."""
    return log.at(batch.last) is batch


def shared(one: Batch, other: Batch) -> Batch:
    """What two logs have in common, at least the empty log."""
    while one is not other:
        if one.last >= other.last and one.before is not None:
            one = one.before
        else:
            assert other.before
            other = other.before
    return one


def beside(committed: Batch, batch: Batch) -> bool:
    """Whether the batch is on a branch beside the committed log: lost for good.

    Nothing is known of that where either of the two goes on with a part that is not shown.
    """
    fork = shared(committed, batch)
    if fork in (committed, batch):
        return False
    return not any(b.hidden for tip in (committed, batch) for b in tip.log() if b.before is fork)


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
            if (other.last, other.value) == (e.last, e.value) and (
                other.before is tip or tip.hidden or other.before.hidden
            ):
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
        batch.acks = ALL if e.acks == ALL else batch.acks
        return batch, matches


@lru_cache(maxsize=4)
def replay(history: History) -> tuple[list[Step], Logs]:
    """Every event in order."""
    logs = Logs()
    nodes: dict[int, Node] = {}
    committed = logs.empty
    steps = []
    wipes: tuple[Event, ...] = ()
    hides = False
    for e in history.events:
        before = _started(e, nodes.get(e.node, Node(logs.empty)), logs)
        after, batch, matches = _after(e, before, logs)
        first = e.dirty is not None and before.term is None
        leads = after.leads is not None
        office = not leads and e.dirty is not None and _takes_office(history, e, after, batch, nodes)
        if office:
            after = replace(after, leads=e.term, led=e.term)
        if e.node is not None and (e.dirty is not None or e.kind in GONE or e.kind == "fault"):
            nodes = nodes | {e.node: after}
        hides = hides or logs.hides or (e.dirty is not None and e.dirty > after.tip.last)
        if e.kind == "fault" and e.f == "wipe":
            wipes = (*wipes, e)
        step = Step(e, before, after, nodes, first, leads, office, batch, matches, committed, committed, wipes, hides)
        if step.moved("commit"):
            own = after.tip.at(e.commit)
            if own is not None and covers(own, committed):
                step = replace(step, then_committed=own)
                committed = own
        steps.append(step)
    return steps, logs


def _started(e: Event, node: Node, logs: Logs) -> Node:
    """A node after it has started, if it does so by this event. Who was down and goes on has, recorded or not."""
    if e.dirty is None or not (e.kind == "start" or node.down):
        return node
    dirty = e.offset - 1 if e.kind == "append" else e.dirty
    tip = node.tip.up_to(dirty + 1)
    tip = logs.hidden(tip, dirty) if tip.last < dirty else tip
    return replace(node, tip=tip, down=False, commit=None, visible=None, leads=None)


def _takes_office(history: History, e: Event, after: Node, batch: Batch | None, nodes: dict[int, Node]) -> bool:
    """Whether a node shows by this event that it leads its term: it says so, or it is the first to write an entry of
    its own term while no other node is seen to lead that term and no voter is hidden. Nobody leads term 0."""
    if e.kind == "term":
        return False
    if e.kind == "leader" or e.role == "leader":
        return True
    if batch is None or batch.seq != e.seq or not batch.term == e.term > 0 or batch.diverged:
        return False
    others = {n: node for n, node in nodes.items() if n != e.node} | {e.node: after}
    shown = all(v in others and others[v].shown for v in history.voters)
    return bool(history.voters) and shown and not any(n != e.node and o.led == e.term for n, o in others.items())


def _after(e: Event, before: Node, logs: Logs) -> tuple[Node, Batch | None, str]:
    if e.node is None:
        return before, None, ""
    if e.kind in GONE:
        return replace(before, leads=None, down=True), None, ""
    if e.kind == "fault" and e.f == "wipe":
        return replace(before, flushed=-1), None, ""
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
    return Node(tip, shown, False, e.term, e.commit, visible, e.flushed, leads, before.led), batch, matches
