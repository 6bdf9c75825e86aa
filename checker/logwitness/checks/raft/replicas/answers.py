"""What leaves a node: what it lets readers see, how it answers appends, what a read was given."""

from __future__ import annotations

from ...codes import ACKS_ALL, ACKS_LEADER, F_FINAL_READ, F_READ, F_READ_COMMITTED, NULL, SUCCESS, TRUNCATED
from ...columns import Columns
from ...faults import Account
from ...findings import Findings, report
from ...hashing import place_of
from ...kernel import part, step
from .commitment import lose
from .rules import (
    ACK_RULE,
    FAILED_NEVER_COMMITTED,
    PENDING_NOT_VISIBLE,
    TRUNCATED_RULE,
    UNCOMMITTED_READ,
    VISIBLE_ON_MAJORITY,
    Entry,
    PendingShown,
    Returned,
    ShownEarly,
    WrongSuccess,
    WrongTruncated,
)
from .state import Cluster, Replicas
from .tree import (
    ACKED_ALL,
    ACKED_LEADER,
    ACKED_NONE,
    ANY_ACKED,
    COMMITTED,
    DEAD,
    EXPOSED,
    GIVEN_UP,
    NONE,
    REPORTED_TRUNCATED,
    ROOT,
    UNKNOWN,
    VISIBLE,
    Tree,
    at,
    find,
    members,
)


@step
def show(tree: Tree, cluster: Cluster, found: Findings, node: int, visible: int, vertex: int, seq: int) -> None:
    """``node`` lets readers see everything up to ``vertex``."""
    if tree.flags[vertex] & UNKNOWN:
        found.unjudged[VISIBLE_ON_MAJORITY] += 1
    else:
        found.judged[VISIBLE_ON_MAJORITY] += 1
        holders = members(tree.held[vertex] & cluster.voters[0])
        if holders < cluster.majority[0] and not tree.flags[vertex] & (COMMITTED | GIVEN_UP):
            needed = cluster.majority[0]
            early = ShownEarly(node, offset=visible, term=tree.term[vertex], holders=holders, needed=needed)
            report(found, VISIBLE_ON_MAJORITY, early, tree.seq[vertex], seq)
    if not cluster.write_caching[0] and not tree.flags[vertex] & UNKNOWN:
        found.judged[PENDING_NOT_VISIBLE] += 1
        pending = tree.pending[vertex]
        if pending != NONE and not tree.flags[pending] & (COMMITTED | GIVEN_UP):
            shown = PendingShown(node, offset=visible, pending=tree.base[pending], term=tree.term[pending])
            report(found, PENDING_NOT_VISIBLE, shown, tree.seq[pending], seq)
    mark_visible(tree, vertex)


@part
def mark_visible(tree: Tree, vertex: int) -> None:
    """Everything up to ``vertex`` has been visible somewhere."""
    while not tree.flags[vertex] & VISIBLE:
        tree.flags[vertex] |= VISIBLE
        vertex = tree.parent[vertex]


@step
def answer(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    account: Account,
    found: Findings,
    columns: Columns,
    i: int,
) -> None:
    """A node answered an append, by event ``i``: was it entitled to, and what does the answer promise?"""
    node, seq = columns.node[i], columns.seq[i]
    base, entry_term = columns.offset[i], columns.entry_term[i]
    acks, reason = columns.acks[i], columns.reason[i]
    tip = replicas.tip[node]
    here = at(tree, tip, base)
    commit = replicas.commit[node]
    hidden = here != NONE and tree.flags[here] & UNKNOWN != 0
    promised = find(tree, base, entry_term)
    if reason == SUCCESS:
        if hidden:
            found.unjudged[ACK_RULE] += 1
        else:
            found.judged[ACK_RULE] += 1
            held = here != NONE and tree.term[here] == entry_term
            enough = True
            if acks == ACKS_ALL:
                if cluster.write_caching[0]:
                    enough = held and members(tree.held[here] & cluster.voters[0]) >= cluster.majority[0]
                    enough = enough or (commit != NULL and commit >= columns.last_offset[i])
                else:
                    enough = commit != NULL and commit >= columns.last_offset[i]
            if not held or not enough:
                e0 = tree.seq[promised] if promised != NONE else -1
                wrong = WrongSuccess(node, offset=base, term=entry_term, acks=acks, commit=commit)
                report(found, ACK_RULE, wrong, e0, seq)
        if promised != NONE and not tree.flags[promised] & ANY_ACKED:
            mark = ACKED_ALL if acks == ACKS_ALL else (ACKED_LEADER if acks == ACKS_LEADER else ACKED_NONE)
            tree.flags[promised] |= mark
            tree.ack_seq[promised] = seq
            tree.ack_time[promised] = columns.time[i]
            if tree.flags[promised] & DEAD:
                lose(tree, replicas, account, found, promised, seq)
    elif reason == TRUNCATED:
        newer = at(tree, tip, commit) if commit != NULL else ROOT
        if hidden or newer == NONE or (newer != ROOT and tree.flags[newer] & UNKNOWN != 0):
            found.unjudged[TRUNCATED_RULE] += 1
        else:
            found.judged[TRUNCATED_RULE] += 1
            still = here != NONE and tree.term[here] == entry_term
            if still or tree.term[newer] <= entry_term:
                e0 = tree.seq[promised] if promised != NONE else -1
                untrue = WrongTruncated(node, offset=base, term=entry_term, commit=commit)
                report(found, TRUNCATED_RULE, untrue, e0, seq)
        if promised != NONE:
            found.judged[FAILED_NEVER_COMMITTED] += 1
            if tree.flags[promised] & COMMITTED and not tree.flags[promised] & EXPOSED:
                e0, e1 = tree.seq[promised], tree.commit_seq[promised]
                report(found, FAILED_NEVER_COMMITTED, Entry(offset=base, term=entry_term), e0, e1, seq)
            else:
                tree.flags[promised] |= REPORTED_TRUNCATED
                tree.ack_seq[promised] = seq


@part
def observe(
    tree: Tree, cluster: Cluster, found: Findings, f: int, base: int, value: int, invoked: int, seq: int
) -> None:
    """A client was given ``value`` at ``base`` by a read of kind ``f``."""
    if f == F_READ_COMMITTED and cluster.shows_commit[0]:
        allowed = COMMITTED | GIVEN_UP
    elif f in (F_READ, F_FINAL_READ) and cluster.shows_visible[0]:
        allowed = COMMITTED | GIVEN_UP | VISIBLE
    else:
        return
    vertex = tree.by_base.rows[place_of(tree.by_base, base)]
    shown = NONE
    while vertex != NONE:
        if tree.value[vertex] == value and not tree.flags[vertex] & UNKNOWN:
            if tree.flags[vertex] & allowed:
                found.judged[UNCOMMITTED_READ] += 1
                return
            shown = vertex
        vertex = tree.same[vertex]
    if cluster.has_unknown[0]:
        found.unjudged[UNCOMMITTED_READ] += 1
        return
    found.judged[UNCOMMITTED_READ] += 1
    e0 = tree.seq[shown] if shown != NONE else -1
    report(found, UNCOMMITTED_READ, Returned(value=value, offset=base), e0, invoked, seq)
