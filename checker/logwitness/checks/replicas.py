"""The nodes' logs against each other: log matching, commitment, leader completeness, visibility, acknowledgements.

One pass keeps the tree of all logs (`tree`) and judges every event against it. Sources: rules/raft.md (Commit index,
Visibility, Acks, Truncation); raft-recovery.txt (committed = flushed on a majority); raft-simplification.txt (an entry
is replicated "if the majority of the nodes persisted that entry with the same term at the same place").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import Kind

from .codes import (
    ACKED,
    ACKS_ALL,
    ACKS_LEADER,
    APPEND,
    COMMIT,
    CRASH,
    F_FINAL_READ,
    F_READ,
    F_READ_COMMITTED,
    FAULT,
    FAULT_POWER,
    FAULT_WIPE,
    INVOKE,
    LEADER,
    NULL,
    OBSERVE,
    POWER_LOSS,
    ROLE,
    ROLE_LEADER,
    SEND,
    START,
    STOP,
    STORAGE_ERROR,
    SUCCESS,
    TRUNCATE,
    TRUNCATED,
)
from .codes import (
    VISIBLE as SHOWN,
)
from .columns import Columns, Ints
from .contract import Family, Loss, Setting, Verdicts
from .faults import (
    Faults,
    Ledger,
    empty_faults,
    empty_ledger,
    enter,
    fault_code,
    ledger_lines,
    note_fault,
    with_fault_room,
)
from .findings import MAX_NODES, Findings, KernelFold, report
from .hashing import Table, empty_table, grown, place_of, roomy
from .kernel import kernel, part
from .replica_checks import (
    ACK_RULE,
    ACKED_SURVIVES,
    APPEND_AT_END,
    CHECKS,
    COMMIT_CURRENT_TERM,
    COMMITTED_AGREE,
    COMMITTED_NEVER_TRUNCATED,
    COMMITTED_ON_MAJORITY,
    FAILED_NEVER_COMMITTED,
    LEADER_APPEND_ONLY,
    LEADER_COMPLETENESS,
    LOG_MATCHING,
    LOG_TERMS,
    PENDING_NOT_VISIBLE,
    SENTENCES,
    TRUNCATED_RULE,
    TRUNCATION_NEEDS_DIVERGENCE,
    UNCOMMITTED_READ,
    VISIBLE_ON_MAJORITY,
)
from .tree import (
    ACKED_ALL,
    ACKED_LEADER,
    ACKED_NONE,
    ALIVE,
    COMMITTED,
    DEAD,
    DIVERGED,
    NONE,
    REPORTED_TRUNCATED,
    ROOT,
    UNKNOWN,
    VISIBLE,
    Tree,
    at,
    before,
    empty_tree,
    find,
    grow,
    members,
    unknown,
    with_room,
)

_ACKED = ACKED_ALL | ACKED_LEADER | ACKED_NONE


class _Replicas(NamedTuple):
    """By node index: its log and what its last event stated."""

    tip: Ints
    term: Ints
    flushed: Ints
    commit: Ints
    visible: Ints
    leader_term: Ints  # the term it leads, else NULL
    leader_seq: Ints
    cut: Ints  # the first vertex that its last truncation removed, until its next append
    cut_seq: Ints


class _Cluster(NamedTuple):
    """What concerns all nodes, each an array of one number so that kernels can change it."""

    voters: Ints  # bit set
    majority: Ints
    write_caching: Ints
    committed: Ints  # the longest log known to be committed
    elected_term: Ints  # the latest term that has a leader, and its log when it was elected
    elected_tip: Ints
    elected_node: Ints
    elected_seq: Ints
    wiped: Ints  # bit set of the nodes whose disk was emptied
    wipe_seq: Ints
    power_seq: Ints  # the last event that may have cost unflushed data
    has_unknown: Ints
    shows_visible: Ints  # the run records moves of the visible offset, and of the commit index
    shows_commit: Ints


class _Readers(NamedTuple):
    """The operation that each client has open, by client."""

    table: Table
    used: Ints
    f: Ints
    seq: Ints


@part
def _lost(
    tree: Tree, cluster: _Cluster, faults: Faults, ledger: Ledger, found: Findings, vertex: int, seq: int
) -> None:
    """An acknowledged entry is gone for good: a violation, or a line of the loss account."""
    flags = tree.flags[vertex]
    acked = tree.ack_seq[vertex]
    entries = tree.last[vertex] - tree.base[vertex] + 1
    if flags & ACKED_ALL:
        excuse = cluster.wipe_seq[0] > acked or (cluster.write_caching[0] != 0 and cluster.power_seq[0] > acked)
        if excuse:
            found.excused[ACKED_SURVIVES] += 1
            enter(ledger, faults, ACKS_ALL, acked, tree.ack_time[vertex], entries, tree.size[vertex])
        else:
            offset, term = tree.base[vertex], tree.term[vertex]
            report(found, ACKED_SURVIVES, tree.seq[vertex], acked, seq, -1, offset, term, -1, -1, -1)
    elif flags & ACKED_LEADER:
        enter(ledger, faults, ACKS_LEADER, acked, tree.ack_time[vertex], entries, tree.size[vertex])
    else:
        enter(ledger, faults, 0, acked, tree.ack_time[vertex], entries, tree.size[vertex])


@part
def _bury(tree: Tree, cluster: _Cluster, faults: Faults, ledger: Ledger, found: Findings, top: int, seq: int) -> None:
    """Mark the branch from ``top`` on as lost."""
    vertex = top
    while True:
        if not tree.flags[vertex] & DEAD:
            tree.flags[vertex] |= DEAD
            if tree.flags[vertex] & _ACKED:
                _lost(tree, cluster, faults, ledger, found, vertex, seq)
        if tree.child[vertex] != NONE:
            vertex = tree.child[vertex]
            continue
        while vertex != top and tree.sibling[vertex] == NONE:
            vertex = tree.parent[vertex]
        if vertex == top:
            return
        vertex = tree.sibling[vertex]


@part
def _commit(
    tree: Tree,
    cluster: _Cluster,
    faults: Faults,
    ledger: Ledger,
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
        if cluster.wiped[0] and cluster.wipe_seq[0] > tree.commit_seq[rival]:
            found.excused[COMMITTED_AGREE] += 1
            return
        e0, e1, e2 = tree.seq[rival], tree.commit_seq[rival], tree.seq[below]
        offset, ours, theirs = tree.base[below], tree.term[below], tree.term[rival]
        report(found, COMMITTED_AGREE, e0, e1, e2, seq, node, offset, ours, theirs, -1)
        return
    counts[COMMITTED_AGREE] += 1
    cluster.committed[0] = vertex
    walk = vertex
    while walk != top:
        tree.flags[walk] |= COMMITTED
        tree.commit_seq[walk] = seq
        if tree.flags[walk] & REPORTED_TRUNCATED:
            offset, term = tree.base[walk], tree.term[walk]
            e0, e1 = tree.seq[walk], tree.ack_seq[walk]
            report(found, FAILED_NEVER_COMMITTED, e0, e1, seq, -1, offset, term, -1, -1, -1)
        parent = tree.parent[walk]
        if not tree.flags[walk] & UNKNOWN:
            other = tree.child[parent]
            while other != NONE:
                if other != walk and not tree.flags[other] & UNKNOWN:
                    _bury(tree, cluster, faults, ledger, found, other, seq)
                other = tree.sibling[other]
        walk = parent


@part
def _leader_commits(
    tree: Tree,
    replicas: _Replicas,
    cluster: _Cluster,
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
        e0, e1 = tree.seq[vertex], replicas.leader_seq[node]
        report(found, COMMIT_CURRENT_TERM, e0, e1, seq, -1, node, commit, tree.term[vertex], term, -1)
    sure = 0
    perhaps = 0
    for other in range(len(replicas.tip)):
        if not cluster.voters[0] >> other & 1:
            continue
        if cluster.wiped[0] >> other & 1 and tree.held[vertex] >> other & 1:
            perhaps += 1
            continue
        if replicas.flushed[other] < commit:
            continue
        theirs = at(tree, replicas.tip[other], commit)
        if theirs == vertex:
            sure += 1
        elif theirs != NONE and tree.flags[theirs] & UNKNOWN:
            perhaps += 1
    if sure >= cluster.majority[0]:
        found.judged[COMMITTED_ON_MAJORITY] += 1
    elif sure + perhaps >= cluster.majority[0]:
        found.unjudged[COMMITTED_ON_MAJORITY] += 1
    else:
        found.judged[COMMITTED_ON_MAJORITY] += 1
        needed = cluster.majority[0]
        report(
            found,
            COMMITTED_ON_MAJORITY,
            tree.seq[vertex],
            seq,
            -1,
            -1,
            node,
            commit,
            tree.term[vertex],
            sure,
            needed,
        )
    # An older leader may learn late that its entry was committed; then the newer leader must hold it already.
    if cluster.elected_term[0] > term:
        _complete(tree, cluster, found, vertex, seq)


@part
def _complete(tree: Tree, cluster: _Cluster, found: Findings, vertex: int, seq: int) -> None:
    """The latest leader's log, as it was when elected, holds the committed ``vertex``."""
    tip = cluster.elected_tip[0]
    theirs = at(tree, tip, tree.last[vertex])
    if theirs != NONE and tree.flags[theirs] & UNKNOWN:
        found.unjudged[LEADER_COMPLETENESS] += 1
        return
    found.judged[LEADER_COMPLETENESS] += 1
    if theirs == vertex or tree.flags[vertex] & UNKNOWN:
        return
    if cluster.wiped[0]:
        found.excused[LEADER_COMPLETENESS] += 1
        return
    # The first committed entry that is missing.
    missing = vertex
    while at(tree, tip, tree.last[tree.parent[missing]]) != tree.parent[missing]:
        missing = tree.parent[missing]
    e1 = tree.commit_seq[missing] if tree.commit_seq[missing] >= 0 else seq
    report(
        found,
        LEADER_COMPLETENESS,
        tree.seq[missing],
        e1,
        cluster.elected_seq[0],
        -1,
        cluster.elected_node[0],
        cluster.elected_term[0],
        tree.base[missing],
        tree.term[missing],
        -1,
    )


@part
def _append(
    tree: Tree,
    replicas: _Replicas,
    cluster: _Cluster,
    found: Findings,
    node: int,
    base: int,
    last: int,
    entry_term: int,
    value: int,
    size: int,
    acks: int,
    seq: int,
) -> None:
    """``node`` appended a batch."""
    tip = replicas.tip[node]
    found.judged[APPEND_AT_END] += 1
    if base <= tree.last[tip]:
        report(found, APPEND_AT_END, tree.seq[tip], seq, -1, -1, node, base, tree.last[tip], -1, -1)
        tip = before(tree, tip, base)
    if base > tree.last[tip] + 1:
        # The log goes on behind a part that is not shown: trimmed, or recorded from the middle.
        cluster.has_unknown[0] = 1
        tip = unknown(tree, tip, base - 1, seq)
    if not tree.flags[tip] & UNKNOWN:
        found.judged[LOG_TERMS] += 1
        if entry_term < tree.term[tip] or (replicas.term[node] != NULL and entry_term > replicas.term[node]):
            e0 = tree.seq[tip] if entry_term < tree.term[tip] else -1
            report(found, LOG_TERMS, e0, seq, -1, -1, node, base, entry_term, tree.term[tip], replicas.term[node])

    vertex = find(tree, base, entry_term)
    flags = 0
    if vertex != NONE:
        hidden = (tree.flags[tip] | tree.flags[tree.parent[vertex]]) & (UNKNOWN | DIVERGED)
        same = tree.last[vertex] == last and (
            tree.value[vertex] == value or value == NULL or tree.value[vertex] == NULL
        )
        if same and (tree.parent[vertex] == tip or tree.flags[tip] & UNKNOWN or hidden & UNKNOWN):
            found.judged[LOG_MATCHING] += 1
        elif hidden:
            found.unjudged[LOG_MATCHING] += 1
            other = vertex
            vertex = NONE
            while other != NONE:
                if tree.parent[other] == tip and tree.term[other] == entry_term and tree.value[other] == value:
                    vertex = other
                other = tree.same[other]
        else:
            found.judged[LOG_MATCHING] += 1
            report(found, LOG_MATCHING, tree.seq[vertex], seq, -1, -1, node, base, entry_term, -1, -1)
            flags = DIVERGED
            vertex = NONE
    if vertex == NONE:
        vertex = grow(tree, tip, base, last, entry_term, value, size, acks, seq, flags)
    elif acks == ACKS_ALL and tree.pending[vertex] != vertex and not tree.flags[vertex] & COMMITTED:
        tree.pending[vertex] = vertex
    if replicas.cut[node] != NONE:
        found.judged[TRUNCATION_NEEDS_DIVERGENCE] += 1
        if replicas.cut[node] == vertex:
            e1 = replicas.cut_seq[node]
            report(
                found,
                TRUNCATION_NEEDS_DIVERGENCE,
                tree.seq[vertex],
                e1,
                seq,
                -1,
                node,
                base,
                entry_term,
                -1,
                -1,
            )
        replicas.cut[node] = NONE
    tree.held[vertex] |= 1 << node
    replicas.tip[node] = vertex


@part
def _truncate(
    tree: Tree, replicas: _Replicas, cluster: _Cluster, found: Findings, node: int, offset: int, seq: int
) -> None:
    """``node`` removed its log from ``offset`` on."""
    tip = replicas.tip[node]
    gone = at(tree, tip, offset)
    if replicas.leader_term[node] != NULL:
        e0 = replicas.leader_seq[node]
        report(found, LEADER_APPEND_ONLY, e0, seq, -1, -1, node, offset, replicas.leader_term[node], -1, -1)
    if gone != NONE:
        found.judged[COMMITTED_NEVER_TRUNCATED] += 1
        known = tree.flags[gone] & (COMMITTED | UNKNOWN) == COMMITTED
        if known or (replicas.commit[node] != NULL and offset <= replicas.commit[node]):
            if cluster.wiped[0]:
                found.excused[COMMITTED_NEVER_TRUNCATED] += 1
            else:
                e0, e1 = tree.seq[gone], tree.commit_seq[gone]
                report(
                    found,
                    COMMITTED_NEVER_TRUNCATED,
                    e0,
                    e1,
                    seq,
                    -1,
                    node,
                    offset,
                    tree.base[gone],
                    tree.term[gone],
                    -1,
                )
        if tree.base[gone] == offset and not tree.flags[gone] & UNKNOWN:
            replicas.cut[node] = gone
            replicas.cut_seq[node] = seq
    replicas.tip[node] = before(tree, tip, offset)


@part
def _show(tree: Tree, cluster: _Cluster, found: Findings, node: int, visible: int, vertex: int, seq: int) -> None:
    """``node`` lets readers see everything up to ``vertex``."""
    if tree.flags[vertex] & UNKNOWN:
        found.unjudged[VISIBLE_ON_MAJORITY] += 1
    else:
        found.judged[VISIBLE_ON_MAJORITY] += 1
        holders = members(tree.held[vertex] & cluster.voters[0])
        if holders < cluster.majority[0] and not tree.flags[vertex] & COMMITTED:
            e0, needed = tree.seq[vertex], cluster.majority[0]
            term = tree.term[vertex]
            report(found, VISIBLE_ON_MAJORITY, e0, seq, -1, -1, node, visible, term, holders, needed)
    if not cluster.write_caching[0] and not tree.flags[vertex] & UNKNOWN:
        found.judged[PENDING_NOT_VISIBLE] += 1
        pending = tree.pending[vertex]
        if pending != NONE and not tree.flags[pending] & COMMITTED:
            e0, offset, term = tree.seq[pending], tree.base[pending], tree.term[pending]
            report(found, PENDING_NOT_VISIBLE, e0, seq, -1, -1, node, visible, offset, term, -1)
    _mark_visible(tree, vertex)


@part
def _mark_visible(tree: Tree, vertex: int) -> None:
    while not tree.flags[vertex] & VISIBLE:
        tree.flags[vertex] |= VISIBLE
        vertex = tree.parent[vertex]


@part
def _acked(
    tree: Tree,
    replicas: _Replicas,
    cluster: _Cluster,
    faults: Faults,
    ledger: Ledger,
    found: Findings,
    node: int,
    base: int,
    last: int,
    entry_term: int,
    acks: int,
    reason: int,
    seq: int,
    time: int,
) -> None:
    """``node`` answered an append: was it entitled to, and what does the answer promise?"""
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
                    enough = enough or (commit != NULL and commit >= last)
                else:
                    enough = commit != NULL and commit >= last
            if not held or not enough:
                e0 = tree.seq[promised] if promised != NONE else -1
                report(found, ACK_RULE, e0, seq, -1, -1, node, base, entry_term, acks, commit)
        if promised != NONE and not tree.flags[promised] & _ACKED:
            mark = ACKED_ALL if acks == ACKS_ALL else (ACKED_LEADER if acks == ACKS_LEADER else ACKED_NONE)
            tree.flags[promised] |= mark
            tree.ack_seq[promised] = seq
            tree.ack_time[promised] = time
            if tree.flags[promised] & DEAD:
                _lost(tree, cluster, faults, ledger, found, promised, seq)
    elif reason == TRUNCATED:
        newer = at(tree, tip, commit) if commit != NULL else ROOT
        if hidden or newer == NONE or (newer != ROOT and tree.flags[newer] & UNKNOWN != 0):
            found.unjudged[TRUNCATED_RULE] += 1
        else:
            found.judged[TRUNCATED_RULE] += 1
            still = here != NONE and tree.term[here] == entry_term
            if still or tree.term[newer] <= entry_term:
                e0 = tree.seq[promised] if promised != NONE else -1
                report(found, TRUNCATED_RULE, e0, seq, -1, -1, node, base, entry_term, commit, -1)
        if promised != NONE:
            found.judged[FAILED_NEVER_COMMITTED] += 1
            if tree.flags[promised] & COMMITTED:
                e0, e1 = tree.seq[promised], tree.commit_seq[promised]
                report(found, FAILED_NEVER_COMMITTED, e0, e1, seq, -1, base, entry_term, -1, -1, -1)
            else:
                tree.flags[promised] |= REPORTED_TRUNCATED
                tree.ack_seq[promised] = seq


@part
def _observed(
    tree: Tree, cluster: _Cluster, found: Findings, f: int, base: int, value: int, invoked: int, seq: int
) -> None:
    """A client was given ``value`` at ``base`` by a read of kind ``f``."""
    if f == F_READ_COMMITTED and cluster.shows_commit[0]:
        allowed = COMMITTED
    elif f in (F_READ, F_FINAL_READ) and cluster.shows_visible[0]:
        allowed = COMMITTED | VISIBLE
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
    report(found, UNCOMMITTED_READ, e0, invoked, seq, -1, base, value, -1, -1, -1)


@kernel
def _scan(
    columns: Columns,
    tree: Tree,
    replicas: _Replicas,
    cluster: _Cluster,
    readers: _Readers,
    faults: Faults,
    ledger: Ledger,
    found: Findings,
) -> None:
    for i in range(len(columns.seq)):
        kind = columns.kind[i]
        seq = columns.seq[i]
        node = columns.node[i]
        if kind < START:
            if kind in (INVOKE, OBSERVE):
                process = columns.process[i]
                if process == NULL:
                    continue
                place = place_of(readers.table, process)
                row = readers.table.rows[place]
                if kind == INVOKE:
                    if row == NONE:
                        row = readers.used[0]
                        readers.used[0] += 1
                        readers.table.keys[place] = process
                        readers.table.rows[place] = row
                    readers.f[row] = columns.f[i]
                    readers.seq[row] = seq
                elif row != NONE and columns.value[i] != NULL:
                    base, value = columns.offset[i], columns.value[i]
                    _observed(tree, cluster, found, readers.f[row], base, value, readers.seq[row], seq)
            continue
        if kind == FAULT:
            note_fault(faults, seq, columns.f[i])
            if columns.f[i] == FAULT_WIPE:
                cluster.wipe_seq[0] = seq
                if node >= 0:
                    cluster.wiped[0] |= 1 << node
                    replicas.flushed[node] = -1
            elif columns.f[i] == FAULT_POWER:
                cluster.power_seq[0] = seq
            continue
        if node < 0 or kind >= SEND:
            continue
        if kind in (STOP, CRASH, POWER_LOSS, STORAGE_ERROR):
            replicas.leader_term[node] = NULL
            if kind != STOP:
                note_fault(faults, seq, fault_code(kind))
            if kind in (POWER_LOSS, STORAGE_ERROR):
                cluster.power_seq[0] = seq
            continue

        term = columns.term[i]
        if term != NULL:
            if term != replicas.term[node]:
                replicas.cut[node] = NONE
            replicas.term[node] = term
            if term != replicas.leader_term[node]:
                replicas.leader_term[node] = NULL
        if kind == ROLE and columns.role[i] != ROLE_LEADER:
            replicas.leader_term[node] = NULL

        if kind == START:
            dirty = columns.dirty[i]
            replicas.leader_term[node] = NULL
            replicas.cut[node] = NONE
            replicas.commit[node] = NULL
            replicas.visible[node] = NULL
            if dirty != NULL:
                tip = before(tree, replicas.tip[node], dirty + 1)
                if tree.last[tip] < dirty:
                    cluster.has_unknown[0] = 1
                    tip = unknown(tree, tip, dirty, seq)
                replicas.tip[node] = tip
        elif kind == APPEND:
            _append(
                tree,
                replicas,
                cluster,
                found,
                node,
                columns.offset[i],
                columns.last_offset[i],
                columns.entry_term[i],
                columns.value[i],
                columns.bytes[i],
                columns.acks[i],
                seq,
            )
        elif kind == TRUNCATE:
            _truncate(tree, replicas, cluster, found, node, columns.offset[i], seq)

        if columns.flushed[i] != NULL:
            replicas.flushed[node] = columns.flushed[i]

        commit = columns.commit[i]
        if commit != NULL:
            old = replicas.commit[node]
            replicas.commit[node] = commit
            if kind != START and commit >= 0 and (old == NULL or commit > old):
                vertex = at(tree, replicas.tip[node], commit)
                if vertex != NONE:
                    _commit(tree, cluster, faults, ledger, found, node, vertex, seq)
                    if replicas.leader_term[node] != NULL and not tree.flags[vertex] & UNKNOWN:
                        _leader_commits(tree, replicas, cluster, found, node, commit, vertex, seq)

        if kind == LEADER:
            found.judged[LEADER_APPEND_ONLY] += 1
            replicas.leader_term[node] = replicas.term[node]
            replicas.leader_seq[node] = seq
            if replicas.term[node] > cluster.elected_term[0]:
                cluster.elected_term[0] = replicas.term[node]
                cluster.elected_tip[0] = replicas.tip[node]
                cluster.elected_node[0] = node
                cluster.elected_seq[0] = seq
                if cluster.committed[0] != ROOT:
                    _complete(tree, cluster, found, cluster.committed[0], seq)

        if kind == SHOWN:
            cluster.shows_visible[0] = 1
        elif kind == COMMIT:
            cluster.shows_commit[0] = 1
        visible = columns.visible[i]
        if visible != NULL:
            old = replicas.visible[node]
            replicas.visible[node] = visible
            if visible >= 0 and (old == NULL or visible > old):
                vertex = at(tree, replicas.tip[node], visible)
                if vertex != NONE:
                    if kind == START:
                        _mark_visible(tree, vertex)
                    else:
                        _show(tree, cluster, found, node, visible, vertex, seq)

        if kind == ACKED:
            _acked(
                tree,
                replicas,
                cluster,
                faults,
                ledger,
                found,
                node,
                columns.offset[i],
                columns.last_offset[i],
                columns.entry_term[i],
                columns.acks[i],
                columns.reason[i],
                seq,
                columns.time[i],
            )


@kernel
def _close(tree: Tree, replicas: _Replicas, cluster: _Cluster, faults: Faults, ledger: Ledger, found: Findings) -> None:
    """What the end of the history says of acknowledged entries."""
    for node in range(len(replicas.tip)):
        vertex = replicas.tip[node]
        while not tree.flags[vertex] & (COMMITTED | ALIVE):
            tree.flags[vertex] |= ALIVE
            vertex = tree.parent[vertex]
    for vertex in range(1, tree.used[0]):
        flags = tree.flags[vertex]
        if not flags & _ACKED:
            continue
        if not flags & (COMMITTED | DEAD | ALIVE):
            _lost(tree, cluster, faults, ledger, found, vertex, -1)
            flags |= DEAD
        if flags & ACKED_ALL:
            if flags & (COMMITTED | DEAD):
                found.judged[ACKED_SURVIVES] += 1
            else:
                found.unjudged[ACKED_SURVIVES] += 1


class ReplicasFold(KernelFold):
    """Judges the logs of all nodes of one log against each other."""

    checks = CHECKS
    sentences = SENTENCES

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        blank = {name: np.full(MAX_NODES, NULL, dtype=np.int64) for name in _Replicas._fields}
        blank["tip"][:] = ROOT
        blank["cut"][:] = NONE
        blank["flushed"][:] = -1
        self._replicas = _Replicas(**blank)
        voters = min(len(setting.voters), MAX_NODES)
        start = dict.fromkeys(_Cluster._fields, 0)
        start |= {"voters": (1 << voters) - 1, "majority": len(setting.voters) // 2 + 1}
        start |= {"write_caching": int(setting.write_caching), "committed": ROOT, "elected_term": NULL}
        start |= {"wipe_seq": -1, "power_seq": -1}
        self._cluster = _Cluster(**{name: np.array([number], dtype=np.int64) for name, number in start.items()})
        self._tree = empty_tree()
        numbers = [np.full(64, -1, dtype=np.int64) for _ in range(2)]
        self._readers = _Readers(empty_table(), np.zeros(1, dtype=np.int64), *numbers)
        self._faults = empty_faults()
        self._ledger = empty_ledger()

    def run(self, columns: Columns) -> None:
        """Judge the events."""
        compiled, rows = self.setting.compiled, len(columns.seq)
        # An append adds at most a vertex and a hidden part before it; so does a start.
        kinds = columns.kind if compiled else np.array(columns.kind)
        growing = int(np.count_nonzero((kinds == APPEND) | (kinds == START)))
        self._tree = with_room(self._tree, 2 * growing, compiled)
        self._faults = with_fault_room(self._faults, rows)
        readers, used = self._readers, int(self._readers.used[0])
        self._readers = readers._replace(
            table=roomy(readers.table, used, rows, compiled),
            f=grown(readers.f, used, rows, -1),
            seq=grown(readers.seq, used, rows, -1),
        )
        _scan.form(compiled)(
            columns,
            self._tree,
            self._replicas,
            self._cluster,
            self._readers,
            self._faults,
            self._ledger,
            self.found,
        )

    def losses(self) -> tuple[Loss, ...] | None:
        """Acknowledged entries that ended beside the committed log; None if no acknowledgement was recorded."""
        if not self.found.judged[ACK_RULE] + self.found.unjudged[ACK_RULE]:
            return None
        return ledger_lines(self._ledger, self.setting.words)

    def finish(self) -> Verdicts:
        """The outcomes."""
        close = _close.form(self.setting.compiled)
        close(self._tree, self._replicas, self._cluster, self._faults, self._ledger, self.found)
        return super().finish()


_KINDS = frozenset(Kind) - {Kind.SEND, Kind.RECEIVE, Kind.HEAL, Kind.PHASE, Kind.COMPACT, Kind.TRIM}

FAMILY = Family(
    "replicas",
    CHECKS,
    _KINDS - {Kind.OK, Kind.FAIL, Kind.INFO},
    (
        "time",
        "node",
        "process",
        "f",
        "acks",
        "term",
        "offset",
        "last_offset",
        "entry_term",
        "value",
        "text",
        "flushed",
        "dirty",
        "commit",
        "visible",
        "bytes",
        "reason",
        "role",
    ),
    ReplicasFold,
    of_nodes=True,
)
