"""Appends and truncations: log matching, and that nothing is cut off that may not be."""

from __future__ import annotations

from ...codes import NULL, ROLE_LEADER
from ...columns import Columns
from ...faults import COMPACTION, WIPE
from ...findings import Findings, excuse, report, show
from ...kernel import part, step
from .destroyed import excuse_loss
from .rules import (
    APPEND_AT_END,
    COMMITTED_NEVER_TRUNCATED,
    COPIES_AGREE,
    FLUSHED_WHOLE,
    LEADER_APPEND_ONLY,
    LOG_MATCHING,
    LOG_TERMS,
    TRUNCATION_NEEDS_DIVERGENCE,
    Appended,
    CommittedRemoved,
    LeaderTruncation,
    Overlap,
    TermOrder,
    Within,
)
from .state import Cluster, Replicas
from .tree import (
    COMMITTED,
    DIVERGED,
    EXPOSED,
    NONE,
    ROOT,
    UNKNOWN,
    WRITTEN,
    Tree,
    appended_by,
    at,
    before,
    find,
    grow,
    holder,
    note_own,
    unknown,
    written_with,
)


@step
def append(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    found: Findings,
    columns: Columns,
    i: int,
) -> None:
    """A node appended a batch, by event ``i``."""
    node, seq = columns.node[i], columns.seq[i]
    base, last = columns.offset[i], columns.last_offset[i]
    entry_term, value, acks = columns.entry_term[i], columns.value[i], columns.acks[i]
    tip = replicas.tip[node]
    found.judged[APPEND_AT_END] += 1
    if base <= tree.last[tip]:
        report(found, APPEND_AT_END, Overlap(node, offset=base, end=tree.last[tip]), replicas.tip_seq[node], seq)
        # A follower that holds an entry of another term there, not committed as far as it knows, may have cut it off.
        there = at(tree, tip, base)
        follows = replicas.leader_term[node] == NULL and replicas.commit[node] < base
        if follows and (tree.flags[there] & UNKNOWN or tree.term[there] < entry_term):
            cluster.cuts[0] += 1
        tip = before(tree, tip, base)
    if base > tree.last[tip] + 1:
        # The log goes on behind a part that is not shown: trimmed, or recorded from the middle.
        cluster.has_unknown[0] = 1
        tip = unknown(tree, tip, base - 1, seq)
    if not tree.flags[tip] & UNKNOWN:
        found.judged[LOG_TERMS] += 1
        if entry_term < tree.term[tip] or (replicas.term[node] != NULL and entry_term > replicas.term[node]):
            e0 = appended_by(tree, tip, node) if tip != ROOT else -1
            own, earlier = replicas.term[node], tree.term[tip]
            report(found, LOG_TERMS, TermOrder(node, offset=base, term=entry_term, before=earlier, own=own), e0, seq)

    vertex = find(tree, base, entry_term)
    written = written_with(acks)
    flags = 0
    if vertex != NONE:
        hidden = (tree.flags[tip] | tree.flags[tree.parent[vertex]]) & (UNKNOWN | DIVERGED)
        same = tree.last[vertex] == last and (
            tree.value[vertex] == value or value == NULL or tree.value[vertex] == NULL
        )
        if same and (tree.parent[vertex] == tip or tree.flags[tip] & UNKNOWN or hidden & UNKNOWN):
            found.judged[LOG_MATCHING] += 1
            found.judged[COPIES_AGREE] += 1
            stated, size = tree.flags[vertex] & WRITTEN, columns.bytes[i]
            other_size = size > 0 and tree.size[vertex] > 0 and size != tree.size[vertex]
            other_content = tree.value[vertex] != value or tree.key[vertex] != columns.key[i]
            if other_content or other_size or (stated and written and stated != written):
                first = tree.seq[vertex]
                report(found, COPIES_AGREE, Appended(node, offset=base, term=entry_term), first, seq)
        elif hidden:
            found.unjudged[LOG_MATCHING] += 1
            other = vertex
            vertex = NONE
            while other != NONE:
                alike = tree.value[other] == value and tree.last[other] == last
                if tree.parent[other] == tip and tree.term[other] == entry_term and alike:
                    vertex = other
                other = tree.same[other]
        elif entry_term == cluster.elected_twice[0]:
            # A node whose disk was emptied may vote again, and the term has two leaders, who write what they like.
            found.judged[LOG_MATCHING] += 1
            excuse(found, LOG_MATCHING, WIPE, -1, -1, 1)
            flags = DIVERGED
            vertex = NONE
        else:
            found.judged[LOG_MATCHING] += 1
            other = holder(tree, vertex, node)
            e0 = appended_by(tree, vertex, other)
            report(found, LOG_MATCHING, Appended(node, offset=base, term=entry_term), e0, seq)
            if same:
                # The entries are alike: what is before them differs.
                show(found, appended_by(tree, tree.parent[vertex], other) if tree.parent[vertex] != ROOT else -1)
                show(found, appended_by(tree, tip, node) if tip != ROOT else -1)
            flags = DIVERGED
            vertex = NONE
    if vertex == NONE:
        vertex = grow(tree, tip, base, last, entry_term, value, columns.bytes[i], acks, seq, flags | written)
        tree.key[vertex] = columns.key[i]
    if replicas.cut[node] != NONE:
        found.judged[TRUNCATION_NEEDS_DIVERGENCE] += 1
        if replicas.cut[node] == vertex:
            again = Appended(node, offset=base, term=entry_term)
            held = replicas.cut_held[node]
            report(found, TRUNCATION_NEEDS_DIVERGENCE, again, held, replicas.cut_seq[node], seq)
        replicas.cut[node] = NONE
    tree.held[vertex] |= 1 << node
    note_own(tree, vertex, node, seq)
    replicas.tip[node] = vertex
    replicas.tip_seq[node] = seq


@part
def flush(tree: Tree, replicas: Replicas, found: Findings, node: int, flushed: int, seq: int) -> None:
    """A node flushed its log up to an offset, by event ``seq``: batches are written and counted whole."""
    vertex = at(tree, replicas.tip[node], flushed)
    if vertex in (NONE, ROOT) or tree.flags[vertex] & UNKNOWN:
        return
    found.judged[FLUSHED_WHOLE] += 1
    if tree.last[vertex] > flushed:
        within = Within(node, flushed=flushed, offset=tree.base[vertex], last=tree.last[vertex])
        report(found, FLUSHED_WHOLE, within, appended_by(tree, vertex, node), seq)


@part
def stand(tree: Tree, replicas: Replicas, found: Findings, node: int, seq: int) -> None:
    """A node is a candidate, by event ``seq``: of its term it holds nothing, or it would follow who leads it."""
    tip, term = replicas.tip[node], replicas.term[node]
    if tip == ROOT or tree.flags[tip] & UNKNOWN:
        return
    found.judged[LOG_TERMS] += 1
    if tree.term[tip] == term != NULL:
        holds = TermOrder(node, offset=NULL, term=term, before=term, own=term)
        report(found, LOG_TERMS, holds, appended_by(tree, tip, node), seq)


@part
def truncate(tree: Tree, replicas: Replicas, cluster: Cluster, found: Findings, columns: Columns, i: int) -> None:
    """A node removed its log from an offset on, by event ``i``."""
    node, offset, seq = columns.node[i], columns.offset[i], columns.seq[i]
    tip = replicas.tip[node]
    gone = at(tree, tip, offset)
    if replicas.leader_term[node] != NULL:
        own = LeaderTruncation(node, offset=offset, term=replicas.leader_term[node])
        report(found, LEADER_APPEND_ONLY, own, replicas.leader_seq[node] if columns.role[i] != ROLE_LEADER else -1, seq)
    if gone != NONE:
        found.judged[COMMITTED_NEVER_TRUNCATED] += 1
        known = tree.flags[gone] & (COMMITTED | UNKNOWN) == COMMITTED
        by_itself = replicas.commit[node] != NULL and offset <= replicas.commit[node]
        if known or by_itself:
            if replicas.gap[node] == offset and not by_itself:
                excuse(found, COMMITTED_NEVER_TRUNCATED, COMPACTION, -1, -1, 1)  # a later batch replaced it
            elif tree.flags[gone] & EXPOSED:
                excuse_loss(tree, replicas, found, COMMITTED_NEVER_TRUNCATED, gone)
            else:
                removed = CommittedRemoved(node, offset=offset, removed=tree.base[gone], term=tree.term[gone])
                report(found, COMMITTED_NEVER_TRUNCATED, removed, appended_by(tree, gone, node), seq)
                if by_itself:
                    show(found, replicas.commit_seq[node] if columns.commit[i] < offset else -1)
                else:
                    show(found, appended_by(tree, gone, tree.committer[gone]))
                    show(found, tree.commit_seq[gone])
        if replicas.gap[node] == offset:
            # What is gone there may go; what lies behind the gap is appended next, and was not to be cut.
            gone = at(tree, tip, replicas.gap_last[node] + 1)
            offset = replicas.gap_last[node] + 1
        if gone != NONE and tree.base[gone] == offset and not tree.flags[gone] & UNKNOWN:
            replicas.cut[node] = gone
            replicas.cut_seq[node] = seq
            replicas.cut_held[node] = appended_by(tree, gone, node)
    replicas.tip[node] = before(tree, tip, columns.offset[i])
    replicas.tip_seq[node] = seq
