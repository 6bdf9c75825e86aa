"""What a node may have cut off its log where its record has lost its end. Source: raft.md#cut-in-a-lost-end."""

from __future__ import annotations

from batches import Node, shared
from lives import cut_off
from plain import Event, History, wipes
from replay import replay


def may_have_cut(history: History, last: Event, start: Event) -> bool:
    """Whether a node, after the last event of its record, may have cut off what it does not find at its next start."""
    by_seq = {step.event.seq: step for step in replay(history)[0]}
    ends = [end for end, recorded in cut_off(history)[start.node] if recorded == last.seq and end <= start.seq]
    if not ends or wipes(by_seq[ends[0]].event) or (last.commit is not None and start.dirty < last.commit):
        return False
    place = by_seq[ends[0]].place
    nodes = replay(history)[0][place - 1].nodes  # when its life ended
    own = nodes[start.node].tip

    def parts(node: Node) -> int:
        """The first offset at which the log of another node is not that of this one."""
        return shared(own, node.tip).last + 1

    by_leader = [
        other
        for number, other in nodes.items()
        if number != start.node and other.led is not None and other.led >= last.term
        if shared(own, other.tip) is not other.tip and parts(other) <= start.dirty + 1
    ]
    return bool(by_leader) or _by_who_may_lead(history, last, start, ends[0], nodes)


def _by_who_may_lead(history: History, last: Event, start: Event, end: int, nodes: dict[int, Node]) -> bool:
    """Whether one that was cut off may have led meanwhile, elected by voters without the first missing entry."""
    own = nodes[start.node].tip
    missing = own.at(start.dirty + 1)
    of_term = -1 if missing is None else missing.term
    empty = replay(history)[1].empty
    cut, later = set(), set()
    for voter in history.everyone() - {start.node}:
        node = nodes.get(voter, Node(empty))
        if shared(own, node.tip).last > start.dirty:
            continue
        if any(ended > last.seq and recorded < end for ended, recorded in cut_off(history)[voter]):
            cut.add(voter)
        if node.term is not None and node.term >= last.term and node.term > of_term:
            later.add(voter)
    enough = history.changes() or len((cut | later) & {*history.voters}) >= history.majority
    return bool(cut) and enough
