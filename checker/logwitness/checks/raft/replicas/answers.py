"""What leaves a node: what it lets readers see, how it answers appends, what a read was given."""

from __future__ import annotations

from ...codes import (
    ACKS_ALL,
    ACKS_LEADER,
    COMMIT,
    F_FINAL_READ,
    F_READ,
    F_READ_COMMITTED,
    F_READ_LINEARIZABLE,
    NULL,
    SUCCESS,
    TRUNCATED,
)
from ...codes import VISIBLE as SHOWN
from ...columns import Columns
from ...faults import Account
from ...findings import Findings, report, show
from ...hashing import place_of
from ...kernel import part, step
from ..configurations import majority_in
from .commitment import lose, other_leader, taken_for
from .rules import (
    ACK_RULE,
    ANSWERED_AS_WRITTEN,
    FAILED_NEVER_COMMITTED,
    FOLLOWER_VISIBLE,
    PENDING_NOT_VISIBLE,
    TRUNCATED_RULE,
    UNCOMMITTED_READ,
    VISIBLE_ON_MAJORITY,
    AheadOfLeaders,
    Answered,
    Entry,
    PendingShown,
    Returned,
    ShownEarly,
    WrongSuccess,
    WrongTruncated,
)
from .state import ANYBODY, Cluster, Replicas, suspect
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
    WRITTEN,
    Tree,
    appended_by,
    at,
    find,
    members,
    written_with,
)

COMMITTED_READS = (F_READ_COMMITTED, F_READ_LINEARIZABLE)
"""They return what is committed."""


@step
def let_see(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    found: Findings,
    node: int,
    visible: int,
    vertex: int,
    seq: int,
) -> None:
    """``node`` lets readers see everything up to ``vertex``."""
    half = least_held(tree, replicas, node, vertex)
    needed = majority_in(half)
    holders = members(tree.held[vertex] & half)
    if tree.flags[vertex] & UNKNOWN:
        found.unjudged[VISIBLE_ON_MAJORITY] += 1
    elif tree.flags[vertex] & (COMMITTED | GIVEN_UP) or (needed and holders >= needed):
        found.judged[VISIBLE_ON_MAJORITY] += 1
    elif holders + hidden_holders(tree, replicas, cluster, half, vertex) >= needed:
        found.unjudged[VISIBLE_ON_MAJORITY] += 1
    elif cluster.changes[0] and replicas.leader_term[node] == NULL:
        # It shows what its leader showed it, whose configuration may be another one.
        found.unjudged[VISIBLE_ON_MAJORITY] += 1
    else:
        found.judged[VISIBLE_ON_MAJORITY] += 1
        early = ShownEarly(node, offset=visible, term=tree.term[vertex], holders=holders, needed=needed)
        report(found, VISIBLE_ON_MAJORITY, early, appended_by(tree, vertex, node), seq)
        suspect(cluster, VISIBLE_ON_MAJORITY, tree.seq[vertex], seq, seq, ANYBODY, 0)
        show_holders(tree, replicas, found, half, node, vertex)
    if not cluster.write_caching[0] and not tree.flags[vertex] & UNKNOWN:
        pending = tree.pending[vertex]
        # What the node itself calls committed is a matter of `committed-agree`.
        waits = pending != NONE and not tree.flags[pending] & (COMMITTED | GIVEN_UP)
        waits = waits and replicas.commit[node] < tree.base[pending]
        if waits and cluster.has_unknown[0]:
            # Where a log is not shown, nor need it be what was committed of it.
            found.unjudged[PENDING_NOT_VISIBLE] += 1
        else:
            found.judged[PENDING_NOT_VISIBLE] += 1
        if waits and not cluster.has_unknown[0]:
            shown = PendingShown(node, offset=visible, pending=tree.base[pending], term=tree.term[pending])
            report(found, PENDING_NOT_VISIBLE, shown, appended_by(tree, pending, node), seq)
            suspect(cluster, PENDING_NOT_VISIBLE, tree.seq[pending], seq, seq, ANYBODY, 0)
    mark_visible(tree, vertex)


@part
def least_held(tree: Tree, replicas: Replicas, node: int, vertex: int) -> int:
    """The voters by the configuration of ``node``; of two halves the one of which more lack that would have to hold
    ``vertex``."""
    half: int = replicas.voters[node]
    old: int = replicas.old[node]
    if not old:
        return half
    lack = majority_in(half) - members(tree.held[vertex] & half)
    return old if majority_in(old) - members(tree.held[vertex] & old) > lack else half


@part
def hidden_holders(tree: Tree, replicas: Replicas, cluster: Cluster, half: int, vertex: int) -> int:
    """How many of these voters may hold ``vertex``, or have held it, though the history does not show it; or say so
    (`taken_for`)."""
    count = 0
    for voter in range(len(replicas.tip)):
        if not half >> voter & 1:
            continue
        theirs = at(tree, replicas.tip[voter], tree.last[vertex])
        unseen = replicas.begun[voter] == NULL
        if theirs != NONE:
            unseen = unseen or tree.flags[theirs] & UNKNOWN != 0 or taken_for(tree, cluster, theirs, vertex)
        if unseen and not tree.held[vertex] >> voter & 1:
            count += 1
    return count


@part
def show_holders(tree: Tree, replicas: Replicas, found: Findings, half: int, node: int, vertex: int) -> None:
    """For the violation reported last: that a voter has held ``vertex``, of each of these but ``node``, or what it has
    instead."""
    for voter in range(len(replicas.tip)):
        if not half >> voter & 1:
            continue
        if voter != node and tree.held[vertex] >> voter & 1:
            show(found, appended_by(tree, vertex, voter))
        elif voter != node:
            show_log(tree, replicas, found, voter, vertex)


@part
def show_log(tree: Tree, replicas: Replicas, found: Findings, node: int, vertex: int) -> None:
    """For the violation reported last: what ``node`` has where ``vertex`` would be, or where its log ends before."""
    theirs = at(tree, replicas.tip[node], tree.last[vertex])
    if theirs != NONE:
        show(found, appended_by(tree, theirs, node))
    else:
        show(found, replicas.tip_seq[node] if replicas.tip_seq[node] >= 0 else replicas.flushed_seq[node])


@part
def follower_shows(replicas: Replicas, cluster: Cluster, found: Findings, node: int, visible: int, seq: int) -> None:
    """A node that does not lead moved its visible offset, and so may only be behind a leader."""
    most = cluster.most_visible[0]
    if visible <= most:
        found.judged[FOLLOWER_VISIBLE] += 1
        return
    leader = other_leader(replicas, node)
    if leader == NONE or replicas.visible[leader] == NULL:
        found.unjudged[FOLLOWER_VISIBLE] += 1
        cluster.most_visible[0] = visible
        cluster.most_visible_seq[0] = seq
        return
    found.judged[FOLLOWER_VISIBLE] += 1
    fields = AheadOfLeaders(node, offset=visible, own=replicas.term[node], leader=leader, most=most)
    report(found, FOLLOWER_VISIBLE, fields, replicas.leader_seq[leader], cluster.most_visible_seq[0], seq)
    suspect(cluster, FOLLOWER_VISIBLE, replicas.leader_seq[leader], seq, seq, ANYBODY, 0)


@part
def mark_visible(tree: Tree, vertex: int) -> None:
    """Everything up to ``vertex`` has been visible somewhere."""
    while not tree.flags[vertex] & VISIBLE:
        tree.flags[vertex] |= VISIBLE
        vertex = tree.parent[vertex]


@part
def _has_rival(tree: Tree, vertex: int) -> bool:
    """Whether another entry of that offset and term is known, as after a disk was emptied: a term may have two
    leaders then."""
    youngest = find(tree, tree.base[vertex], tree.term[vertex])
    other = tree.same[youngest] if youngest == vertex else youngest
    while other != NONE and (tree.term[other] != tree.term[vertex] or tree.flags[other] & UNKNOWN):
        other = tree.same[other]
    return bool(other != NONE)


@part
def _as_written(
    tree: Tree, replicas: Replicas, cluster: Cluster, found: Findings, columns: Columns, i: int, vertex: int
) -> None:
    """A node answered the append of ``vertex``, by event ``i``: for the first time, in the life that wrote it, as it
    was written?"""
    if vertex == NONE or (cluster.wiped[0] and _has_rival(tree, vertex)):
        found.unjudged[ANSWERED_AS_WRITTEN] += 1
        return
    node, last, began = columns.node[i], columns.last_offset[i], replicas.began[columns.node[i]]
    found.judged[ANSWERED_AS_WRITTEN] += 1
    written = tree.flags[vertex] & WRITTEN
    e0 = e1 = -1
    if tree.flags[vertex] & (ANY_ACKED | REPORTED_TRUNCATED):
        e0 = tree.ack_seq[vertex]
    elif 0 < tree.term[vertex] <= began:
        e0 = replicas.began_seq[node]
    elif last not in (tree.base[vertex], tree.last[vertex]) or (written and written != written_with(columns.acks[i])):
        e0 = tree.seq[vertex]
    elif last != tree.last[vertex] and cluster.acked_last[0] >= 0:
        e0, e1 = tree.seq[vertex], cluster.acked_last[0]
    if e0 >= 0:
        fields = Answered(node, offset=columns.offset[i], last=last, term=tree.term[vertex])
        report(found, ANSWERED_AS_WRITTEN, fields, e0, e1, columns.seq[i])


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
    # What the node says that it has need not have been recorded.
    hidden = tree.flags[here] & UNKNOWN != 0 if here != NONE else columns.dirty[i] >= base
    promised = find(tree, base, entry_term)
    own = here != NONE and tree.base[here] == base and tree.term[here] == entry_term
    if columns.last_offset[i] > base and cluster.acked_last[0] < 0:
        cluster.acked_last[0] = seq
    _as_written(tree, replicas, cluster, found, columns, i, here if own else promised)
    if reason == SUCCESS:
        if hidden:
            found.unjudged[ACK_RULE] += 1
        else:
            found.judged[ACK_RULE] += 1
            held = here != NONE and tree.term[here] == entry_term
            enough = acks != ACKS_ALL or (commit != NULL and commit >= columns.last_offset[i])
            cached = held and not enough and cluster.write_caching[0] != 0
            half = least_held(tree, replicas, node, max(here, ROOT))
            if cached:
                holders = members(tree.held[here] & half)
                enough = holders + hidden_holders(tree, replicas, cluster, half, here) >= majority_in(half)
            if not held or not enough:
                wrong = WrongSuccess(node, offset=base, term=entry_term, acks=acks, commit=commit)
                report(found, ACK_RULE, wrong, seq)
                if cached:
                    suspect(cluster, ACK_RULE, tree.seq[here], seq, seq, ANYBODY, 0)
                    show(found, appended_by(tree, here, node))
                    show_holders(tree, replicas, found, half, node, here)
                elif enough:
                    show(found, appended_by(tree, here, node) if here != NONE else replicas.tip_seq[node])
        if promised != NONE and not tree.flags[promised] & ANY_ACKED:
            mark = ACKED_ALL if acks == ACKS_ALL else (ACKED_LEADER if acks == ACKS_LEADER else ACKED_NONE)
            tree.flags[promised] |= mark
            tree.ack_seq[promised] = seq
            tree.ack_time[promised] = columns.time[i]
            if tree.flags[promised] & DEAD:
                lose(tree, replicas, cluster, account, found, promised, seq)
    elif reason == TRUNCATED:
        newer = at(tree, tip, commit) if commit != NULL else ROOT
        if hidden or newer == NONE or (newer != ROOT and tree.flags[newer] & UNKNOWN != 0):
            found.unjudged[TRUNCATED_RULE] += 1
        else:
            found.judged[TRUNCATED_RULE] += 1
            still = here != NONE and tree.term[here] == entry_term
            if still or tree.term[newer] <= entry_term:
                shown = here if still and newer != ROOT else newer
                e0 = appended_by(tree, shown, node) if shown != ROOT else -1
                untrue = WrongTruncated(node, offset=base, term=entry_term, commit=commit)
                report(found, TRUNCATED_RULE, untrue, e0, seq)
        if promised != NONE:
            found.judged[FAILED_NEVER_COMMITTED] += 1
            if tree.flags[promised] & COMMITTED and not tree.flags[promised] & EXPOSED:
                e0, e1 = appended_by(tree, promised, tree.committer[promised]), tree.commit_seq[promised]
                report(found, FAILED_NEVER_COMMITTED, Entry(offset=base, term=entry_term), e0, e1, seq)
            else:
                tree.flags[promised] |= REPORTED_TRUNCATED
                tree.ack_seq[promised] = seq


@part
def bound_of(replicas: Replicas, node: int, f: int) -> int:
    """Up to where ``node`` shows its log to a read of kind ``f`` now; NULL: nobody knows."""
    bound: int = replicas.commit[node] if f in COMMITTED_READS else replicas.visible[node]
    return bound


@part
def not_shown_by(tree: Tree, replicas: Replicas, node: int, f: int, base: int) -> int:
    """The event by which ``node`` is seen not to show an entry at ``base`` to such a read: how it appended what is
    there instead, else the last that it said."""
    theirs = at(tree, replicas.tip[node], base)
    if theirs != NONE and bound_of(replicas, node, f) >= base:
        return appended_by(tree, theirs, node)
    return int(replicas.stated_seq[node])


@part
def observe(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    found: Findings,
    f: int,
    base: int,
    value: int,
    invoked: int,
    seq: int,
) -> None:
    """A client was given ``value`` at ``base`` by a read of kind ``f``."""
    if f in COMMITTED_READS and cluster.shows[COMMIT]:
        allowed = COMMITTED | GIVEN_UP
    elif f in (F_READ, F_FINAL_READ) and cluster.shows[SHOWN]:
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
    report(found, UNCOMMITTED_READ, Returned(value=value, offset=base), invoked, seq)
    for node in range(len(replicas.tip)):
        if replicas.stated_seq[node] >= 0:
            show(found, not_shown_by(tree, replicas, node, f, base))
    suspect(cluster, UNCOMMITTED_READ, e0, seq, seq, ANYBODY, 0)
