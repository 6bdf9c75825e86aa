"""Committed entries: the commit rule, one log for all, what a new leader must hold, what is lost for good."""

from __future__ import annotations

from ...codes import ACKS_ALL, ACKS_LEADER
from ...faults import WIPE, Account, enter
from ...findings import Findings, excuse, report, show
from ...kernel import part, step
from .destroyed import excuse_loss, lowest_safe, secure
from .rules import (
    ACKED_SURVIVES,
    COMMIT_CURRENT_TERM,
    COMMITTED_AGREE,
    COMMITTED_ON_MAJORITY,
    FAILED_NEVER_COMMITTED,
    LEADER_COMPLETENESS,
    Entry,
    Incomplete,
    OldTerm,
    OtherCommitted,
    WithoutMajority,
)
from .state import Cluster, Replicas
from .tree import (
    ACKED_ALL,
    ACKED_LEADER,
    ANY_ACKED,
    COMMITTED,
    DEAD,
    EXPOSED,
    GIVEN_UP,
    NONE,
    REPORTED_TRUNCATED,
    UNKNOWN,
    Tree,
    at,
    common,
)


@part
def lose(tree: Tree, replicas: Replicas, account: Account, found: Findings, vertex: int, seq: int) -> None:
    """An acknowledged entry is gone for good: a violation, or a line of the loss account."""
    flags = tree.flags[vertex]
    acked = tree.ack_seq[vertex]
    entries = tree.last[vertex] - tree.base[vertex] + 1
    if flags & ACKED_ALL:
        if flags & EXPOSED:
            excuse_loss(tree, replicas, found, ACKED_SURVIVES, vertex)
            enter(account, ACKS_ALL, acked, tree.ack_time[vertex], entries, tree.size[vertex])
        else:
            lost = Entry(offset=tree.base[vertex], term=tree.term[vertex])
            report(found, ACKED_SURVIVES, lost, tree.seq[vertex], acked, seq)
    elif flags & ACKED_LEADER:
        enter(account, ACKS_LEADER, acked, tree.ack_time[vertex], entries, tree.size[vertex])
    else:
        enter(account, 0, acked, tree.ack_time[vertex], entries, tree.size[vertex])


@part
def bury(tree: Tree, replicas: Replicas, account: Account, found: Findings, top: int, seq: int) -> None:
    """Mark the branch from ``top`` on as lost."""
    vertex = top
    while True:
        if not tree.flags[vertex] & DEAD:
            tree.flags[vertex] |= DEAD
            if tree.flags[vertex] & ANY_ACKED:
                lose(tree, replicas, account, found, vertex, seq)
        if tree.child[vertex] != NONE:
            vertex = tree.child[vertex]
            continue
        while vertex != top and tree.sibling[vertex] == NONE:
            vertex = tree.parent[vertex]
        if vertex == top:
            return
        vertex = tree.sibling[vertex]


@part
def give_up(tree: Tree, cluster: Cluster, top: int, seq: int) -> None:
    """What is committed behind ``top`` is lost, which is excused: another log takes its place."""
    vertex = cluster.committed[0]
    while vertex != top:
        tree.flags[vertex] = tree.flags[vertex] & ~COMMITTED | GIVEN_UP
        vertex = tree.parent[vertex]
    cluster.given_up_seq[0] = seq
    cluster.top_commit[0] = tree.last[top]


@step
def commit_to(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    account: Account,
    found: Findings,
    node: int,
    vertex: int,
    seq: int,
) -> None:
    """``node`` holds the log up to ``vertex`` as committed: does that agree with what is known?"""
    top = vertex
    below = NONE
    hidden = 0
    while not tree.flags[top] & COMMITTED:
        hidden |= tree.flags[top] & UNKNOWN
        below = top
        top = tree.parent[top]
    counts = found.unjudged if tree.flags[vertex] & UNKNOWN else found.judged
    if below == NONE:
        counts[COMMITTED_AGREE] += 1
        return
    if top != cluster.committed[0]:
        rival = at(tree, cluster.committed[0], tree.last[top] + 1)
        if hidden or tree.flags[rival] & UNKNOWN:
            found.unjudged[COMMITTED_AGREE] += 1
            return
        found.judged[COMMITTED_AGREE] += 1
        if tree.flags[below] & EXPOSED and tree.flags[below] & (GIVEN_UP | DEAD):
            # A node that has not heard of the newer log goes on with the one that was lost.
            excuse_loss(tree, replicas, found, COMMITTED_AGREE, below)
            return
        safe = lowest_safe(tree, cluster.committed[0], top)
        if safe != NONE:
            other = OtherCommitted(node, offset=tree.base[below], term=tree.term[below], other=tree.term[rival])
            report(found, COMMITTED_AGREE, other, tree.seq[rival], tree.commit_seq[rival], tree.seq[below], seq)
            return
        excuse_loss(tree, replicas, found, COMMITTED_AGREE, rival)
        give_up(tree, cluster, top, seq)
    else:
        counts[COMMITTED_AGREE] += 1
    cluster.committed[0] = vertex
    walk = vertex
    while walk != top:
        tree.flags[walk] = tree.flags[walk] & ~DEAD | COMMITTED
        tree.commit_seq[walk] = seq
        if tree.flags[walk] & REPORTED_TRUNCATED:
            if cluster.given_up_seq[0] > tree.ack_seq[walk]:
                # The newer log, for which it was reported, is lost itself.
                excuse(found, FAILED_NEVER_COMMITTED, WIPE, -1, cluster.given_up_seq[0], 1)
            else:
                entry = Entry(offset=tree.base[walk], term=tree.term[walk])
                report(found, FAILED_NEVER_COMMITTED, entry, tree.seq[walk], tree.ack_seq[walk], seq)
        parent = tree.parent[walk]
        if not tree.flags[walk] & UNKNOWN:
            other = tree.child[parent]
            while other != NONE:
                if other != walk and not tree.flags[other] & UNKNOWN:
                    bury(tree, replicas, account, found, other, seq)
                other = tree.sibling[other]
        walk = parent


@step
def leader_commits(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    found: Findings,
    node: int,
    commit: int,
    vertex: int,
    seq: int,
) -> None:
    """The commit rule at the moment a leader applies it."""
    term = replicas.term[node]
    found.judged[COMMIT_CURRENT_TERM] += 1
    if tree.term[vertex] != term:
        old = OldTerm(node, offset=commit, term=tree.term[vertex], own=term)
        report(found, COMMIT_CURRENT_TERM, old, tree.seq[vertex], replicas.leader_seq[node], seq)
    sure = 0
    perhaps = 0
    for other in range(len(replicas.tip)):
        if not cluster.voters[0] >> other:
            break
        theirs = at(tree, replicas.tip[other], commit) if replicas.flushed[other] >= commit else NONE
        if theirs == vertex:
            sure += 1
        elif (theirs != NONE and tree.flags[theirs] & UNKNOWN) or tree.wiped[vertex] >> other & 1:
            # Its disk was emptied after it had told the leader of its copy, perhaps.
            perhaps += 1
    if sure >= cluster.majority[0]:
        found.judged[COMMITTED_ON_MAJORITY] += 1
        if cluster.exposed[0]:
            secure(tree, cluster, vertex)
    elif sure + perhaps >= cluster.majority[0]:
        found.unjudged[COMMITTED_ON_MAJORITY] += 1
    else:
        found.judged[COMMITTED_ON_MAJORITY] += 1
        few = WithoutMajority(node, offset=commit, term=tree.term[vertex], holders=sure, needed=cluster.majority[0])
        report(found, COMMITTED_ON_MAJORITY, few, tree.seq[vertex], replicas.leader_seq[node], seq)
        for other in range(len(replicas.tip)):
            if not cluster.voters[0] >> other:
                break
            show(found, replicas.flushed_seq[other])
            if replicas.flushed[other] >= commit and at(tree, replicas.tip[other], commit) != vertex:
                show(found, replicas.tip_seq[other])
    # An older leader may learn late that its entry was committed; then the newer leader must hold it already.
    if cluster.elected_term[0] > term:
        elected_holds(tree, replicas, cluster, found, vertex, seq)


@part
def elected_holds(tree: Tree, replicas: Replicas, cluster: Cluster, found: Findings, vertex: int, seq: int) -> None:
    """The latest leader's log, as it was when elected, holds the committed ``vertex``."""
    tip = cluster.elected_tip[0]
    theirs = at(tree, tip, tree.last[vertex])
    if theirs != NONE and tree.flags[theirs] & UNKNOWN:
        found.unjudged[LEADER_COMPLETENESS] += 1
        return
    found.judged[LEADER_COMPLETENESS] += 1
    if theirs == vertex or tree.flags[vertex] & UNKNOWN:
        return
    missing = lowest_safe(tree, vertex, common(tree, vertex, tip))
    if missing == NONE:
        excuse_loss(tree, replicas, found, LEADER_COMPLETENESS, vertex)
        return
    committed = tree.commit_seq[missing] if tree.commit_seq[missing] >= 0 else seq
    leader, elected = cluster.elected_node[0], cluster.elected_term[0]
    without = Incomplete(leader, elected=elected, offset=tree.base[missing], term=tree.term[missing])
    report(found, LEADER_COMPLETENESS, without, tree.seq[missing], committed, cluster.elected_seq[0])
