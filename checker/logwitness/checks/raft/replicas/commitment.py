"""Committed entries: who leads, the commit rule, one log for all, what a new leader holds, what is lost for good."""

from __future__ import annotations

from ...codes import ACKED, ACKS_ALL, ACKS_LEADER, ACKS_NONE, FLUSH, LEADER, NULL
from ...faults import WIPE, Account, enter, fault_of
from ...findings import Findings, excuse, report, show
from ...kernel import part, step
from ..configurations import majority_in
from .destroyed import excuse_loss, exposed_by, lowest_safe, secure
from .rules import (
    ACKED_SURVIVES,
    COMMIT_CURRENT_TERM,
    COMMITTED_AGREE,
    COMMITTED_ON_MAJORITY,
    FAILED_NEVER_COMMITTED,
    FOLLOWER_COMMIT,
    LEADER_APPEND_ONLY,
    LEADER_COMPLETENESS,
    AheadOfLeaders,
    Entry,
    Incomplete,
    OldTerm,
    OtherCommitted,
    WithoutMajority,
)
from .state import ANYBODY, Cluster, Replicas, suspect
from .tree import (
    ACKED_ALL,
    ACKED_LEADER,
    ANY_ACKED,
    COMMITTED,
    DEAD,
    DIVERGED,
    EXPOSED,
    GIVEN_UP,
    NONE,
    REPORTED_TRUNCATED,
    ROOT,
    UNKNOWN,
    Tree,
    appended_by,
    at,
    common,
)


@part
def lose(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    account: Account,
    found: Findings,
    vertex: int,
    seq: int,
) -> None:
    """An acknowledged entry is gone for good: a violation, or a line of the loss account."""
    flags = tree.flags[vertex]
    acked = tree.ack_seq[vertex]
    entries, size = tree.last[vertex] - tree.base[vertex] + 1, tree.size[vertex]
    if flags & ACKED_ALL:
        if flags & EXPOSED:
            excuse_loss(tree, replicas, found, ACKED_SURVIVES, vertex)
            enter(account.ledger, exposed_by(tree, vertex), ACKS_ALL, acked, tree.ack_time[vertex], entries, size)
        else:
            lost = Entry(offset=tree.base[vertex], term=tree.term[vertex])
            report(found, ACKED_SURVIVES, lost, acked)
            if seq >= 0:
                rival = at(tree, cluster.committed[0], tree.base[vertex])
                rival = cluster.committed[0] if rival == NONE else rival
                show(found, appended_by(tree, rival, tree.committer[rival]))
                show(found, tree.commit_seq[rival])
    else:
        acks = ACKS_LEADER if flags & ACKED_LEADER else ACKS_NONE
        fault = fault_of(account.faults, acks, acked, acked, tree.base[vertex])
        enter(account.ledger, fault, acks, acked, tree.ack_time[vertex], entries, size)


@part
def bury(
    tree: Tree, replicas: Replicas, cluster: Cluster, account: Account, found: Findings, top: int, seq: int
) -> None:
    """Mark the branch from ``top`` on as lost, as far as it is shown."""
    vertex = top
    while True:
        shown = not tree.flags[vertex] & UNKNOWN
        if shown and not tree.flags[vertex] & DEAD:
            tree.flags[vertex] |= DEAD
            if tree.flags[vertex] & ANY_ACKED:
                lose(tree, replicas, cluster, account, found, vertex, seq)
        if shown and tree.child[vertex] != NONE:
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
        if lowest_safe(tree, cluster.committed[0], top) != NONE:
            other = OtherCommitted(node, offset=tree.base[below], term=tree.term[below], other=tree.term[rival])
            first = appended_by(tree, rival, tree.committer[rival])
            report(found, COMMITTED_AGREE, other, first, tree.commit_seq[rival])
            show(found, appended_by(tree, below, node))
            show(found, seq)
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
        tree.committer[walk] = node
        if tree.value[walk] != NULL:
            cluster.happens[ACKED] = 1
        if tree.flags[walk] & REPORTED_TRUNCATED:
            if cluster.given_up_seq[0] > tree.ack_seq[walk]:
                # The newer log, for which it was reported, is lost itself.
                excuse(found, FAILED_NEVER_COMMITTED, WIPE, -1, cluster.given_up_seq[0], 1)
            else:
                entry = Entry(offset=tree.base[walk], term=tree.term[walk])
                report(found, FAILED_NEVER_COMMITTED, entry, appended_by(tree, walk, node), tree.ack_seq[walk], seq)
        parent = tree.parent[walk]
        if not tree.flags[walk] & UNKNOWN:
            other = tree.child[parent]
            while other != NONE:
                if other != walk and not tree.flags[other] & UNKNOWN:
                    bury(tree, replicas, cluster, account, found, other, seq)
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
    leader_seq: int,
    seq: int,
) -> None:
    """The commit rule at the moment a leader applies it; ``leader_seq`` shows that it leads, if ``seq`` does not."""
    if commit > cluster.most_commit[0]:
        cluster.most_commit[0] = commit
        cluster.most_commit_seq[0] = seq
    if vertex == NONE or tree.flags[vertex] & UNKNOWN:
        found.unjudged[COMMITTED_ON_MAJORITY] += 1
        return
    term = replicas.term[node]
    found.judged[COMMIT_CURRENT_TERM] += 1
    if tree.term[vertex] != term:
        old = OldTerm(node, offset=commit, term=tree.term[vertex], own=term)
        report(found, COMMIT_CURRENT_TERM, old, appended_by(tree, vertex, node), leader_seq, seq)
    on_majority(tree, replicas, cluster, found, node, commit, vertex, seq)
    # An older leader may learn late that its entry was committed; then the newer leader must hold it already.
    if cluster.elected_term[0] > term:
        elected_holds(tree, replicas, cluster, found, vertex, seq)


@part
def follower_commits(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    found: Findings,
    node: int,
    commit: int,
    vertex: int,
    seq: int,
) -> None:
    """A node that does not lead moved its commit index, and so may only be behind a leader."""
    most = cluster.most_commit[0]
    if commit <= most:
        found.judged[FOLLOWER_COMMIT] += 1
        return
    leader = other_leader(replicas, node)
    if leader != NONE and replicas.commit[leader] != NULL:
        found.judged[FOLLOWER_COMMIT] += 1
        fields = AheadOfLeaders(node, offset=commit, own=replicas.term[node], leader=leader, most=most)
        report(found, FOLLOWER_COMMIT, fields, replicas.leader_seq[leader], cluster.most_commit_seq[0], seq)
        suspect(cluster, FOLLOWER_COMMIT, replicas.leader_seq[leader], seq, seq, ANYBODY, 0)
        return
    # What leaders have is not shown: whoever is the first to commit acts as one.
    found.unjudged[FOLLOWER_COMMIT] += 1
    found.unjudged[COMMIT_CURRENT_TERM] += 1
    cluster.most_commit[0] = commit
    cluster.most_commit_seq[0] = seq
    if vertex == NONE or tree.flags[vertex] & UNKNOWN:
        found.unjudged[COMMITTED_ON_MAJORITY] += 1
    else:
        on_majority(tree, replicas, cluster, found, node, commit, vertex, seq)


@part
def other_leader(replicas: Replicas, node: int) -> int:
    """The node that leads, or led, the term that ``node`` is in, if it is another one and did not go on to lead a later
    term; else NONE."""
    for other in range(len(replicas.led)):
        if other != node and replicas.led[other] == replicas.term[node]:
            return other
    return NONE


@part
def taken_for(tree: Tree, cluster: Cluster, theirs: int, vertex: int) -> bool:
    """Whether a node that has ``theirs`` says that it has ``vertex`` since a disk was emptied: it holds what was
    committed and is lost, or an entry of the other leader of the same term."""
    twice = tree.term[theirs] == tree.term[vertex] and tree.term[vertex] == cluster.elected_twice[0]
    return bool(theirs != vertex and (twice or tree.flags[theirs] & GIVEN_UP))


@part
def flushed_in(
    tree: Tree, replicas: Replicas, cluster: Cluster, half: int, commit: int, vertex: int
) -> tuple[int, int, int]:
    """How many of the voters ``half`` must have flushed the entry, have, and may have."""
    sure = 0
    perhaps = 0
    for other in range(len(replicas.tip)):
        if not half >> other:
            break
        if not half >> other & 1:
            continue
        if replicas.flushed[other] == NULL:
            perhaps += 1
            continue
        theirs = at(tree, replicas.tip[other], commit) if replicas.flushed[other] >= commit else NONE
        if theirs == vertex:
            sure += 1
        elif theirs != NONE and (tree.flags[theirs] & UNKNOWN or taken_for(tree, cluster, theirs, vertex)):
            perhaps += 1
        elif tree.wiped[vertex] >> other & 1:
            # Its disk was emptied after it had told the leader of its copy, perhaps.
            perhaps += 1
    return majority_in(half), sure, perhaps


@part
def on_majority(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    found: Findings,
    node: int,
    commit: int,
    vertex: int,
    seq: int,
) -> None:
    """Whether a majority of the voters, of both halves in a joint configuration, has flushed the entry that ``node``
    commits as a leader."""
    half = replicas.voters[node]
    enough, sure, perhaps = flushed_in(tree, replicas, cluster, half, commit, vertex)
    if replicas.old[node] and sure + perhaps >= enough:
        both = sure >= enough
        half = replicas.old[node]
        enough, sure, perhaps = flushed_in(tree, replicas, cluster, half, commit, vertex)
        if sure >= enough and not both:
            found.unjudged[COMMITTED_ON_MAJORITY] += 1
            return
    if enough and sure >= enough:
        found.judged[COMMITTED_ON_MAJORITY] += 1
        if cluster.exposed[0]:
            secure(tree, cluster, vertex)
        return
    flushes_unseen = cluster.happens[FLUSH] != 0 and cluster.shows[FLUSH] == 0
    if sure + perhaps >= enough or flushes_unseen:
        found.unjudged[COMMITTED_ON_MAJORITY] += 1
        return
    found.judged[COMMITTED_ON_MAJORITY] += 1
    few = WithoutMajority(node, offset=commit, term=tree.term[vertex], holders=sure, needed=enough)
    report(found, COMMITTED_ON_MAJORITY, few, appended_by(tree, vertex, node), seq)
    suspect(cluster, COMMITTED_ON_MAJORITY, tree.seq[vertex], seq, seq, ANYBODY, 0)
    for other in range(len(replicas.tip)):
        if not half >> other & 1:
            continue
        theirs = at(tree, replicas.tip[other], commit) if replicas.flushed[other] >= commit else NONE
        if theirs != NONE:
            show(found, appended_by(tree, theirs, other))
        show(found, replicas.flushed_seq[other] if theirs == NONE or tree.seq[theirs] == tree.seq[vertex] else -1)


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
    held = appended_by(tree, missing, tree.committer[missing])
    report(found, LEADER_COMPLETENESS, without, held, committed, cluster.elected_seq[0])
    theirs = at(tree, tip, tree.base[missing])
    if theirs != NONE:
        show(found, appended_by(tree, theirs, leader))


@step
def take_office(tree: Tree, replicas: Replicas, cluster: Cluster, found: Findings, node: int, seq: int) -> None:
    """By event ``seq`` a node shows that it leads its term, by what it says of itself or by what it does."""
    found.judged[LEADER_APPEND_ONLY] += 1
    cluster.happens[LEADER] = 1
    term = replicas.term[node]
    replicas.leader_term[node] = replicas.led[node] = term
    replicas.leader_seq[node] = seq
    if replicas.commit[node] > cluster.most_commit[0]:
        cluster.most_commit[0] = replicas.commit[node]
        cluster.most_commit_seq[0] = seq
    if replicas.visible[node] > cluster.most_visible[0]:
        cluster.most_visible[0] = replicas.visible[node]
        cluster.most_visible_seq[0] = seq
    if term > cluster.elected_term[0]:
        tip = replicas.tip[node]
        cluster.elected_term[0] = term
        cluster.elected_tip[0] = tree.parent[tip] if tree.term[tip] == term and tree.seq[tip] == seq else tip
        cluster.elected_node[0] = node
        cluster.elected_seq[0] = seq
        if cluster.committed[0] != ROOT:
            elected_holds(tree, replicas, cluster, found, cluster.committed[0], seq)
    elif cluster.wiped[0] and term == cluster.elected_term[0] and node != cluster.elected_node[0]:
        cluster.elected_twice[0] = term


@part
def writes_first(tree: Tree, replicas: Replicas, cluster: Cluster, node: int, seq: int) -> bool:
    """Whether the append by event ``seq`` shows that ``node`` leads: the entry is of the node's own term, no other node
    is seen to lead that term, and none is hidden that could. Nobody leads term 0."""
    tip, term = replicas.tip[node], replicas.term[node]
    if tree.seq[tip] != seq or tree.term[tip] != term or term <= 0 or tree.flags[tip] & DIVERGED:
        return False
    for other in range(len(replicas.begun)):
        if cluster.voters[0] >> other & 1 and replicas.begun[other] != 1:
            return False
    return cluster.voters[0] != 0 and other_leader(replicas, node) == NONE
