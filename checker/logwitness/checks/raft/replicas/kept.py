"""What a node finds in its log when it starts again.

A node that was cut off may have truncated its log where its record has lost its end. How its log and those of the
others differ is looked at when its life ends; what they write after that explains nothing.
Source: raft.md#cut-in-a-lost-end.
"""

from __future__ import annotations

from ...codes import MAX_OFFSET, NULL
from ...findings import Findings, report
from ...kernel import part
from .rules import DIRTY_SURVIVES_CRASH, FLUSHED_DURABLE, Missing
from .state import Cluster, Replicas, suspect
from .tree import NONE, Tree, at, common

RUNS, DIED, LOST, UNSURE, EMPTIED = range(5)
"""How the life of a node ended, by `Replicas.ended`: not yet; its process died; the page cache may be gone, its disk
may be empty, or is."""


@part
def lose_end(tree: Tree, replicas: Replicas, cluster: Cluster, node: int, seq: int) -> None:
    """The life of ``node`` was cut off by event ``seq``, which may have taken the end of its record."""
    replicas.lacks_since[node] = replicas.stated_seq[node]
    replicas.lacks_until[node] = seq
    replicas.rival[node] = MAX_OFFSET
    for other in range(len(cluster.forks)):
        theirs = replicas.tip[other]
        both = common(tree, replicas.tip[node], theirs)
        fork = tree.last[both] + 1
        cluster.forks[node, other, 0] = fork
        cluster.forks[node, other, 1] = replicas.term[other]
        leads = replicas.led[other] != NULL and replicas.led[other] >= replicas.term[node]
        if other != node and leads and both != theirs:
            replicas.rival[node] = min(replicas.rival[node], fork)


@part
def find_again(
    tree: Tree, replicas: Replicas, cluster: Cluster, found: Findings, node: int, dirty: int, term: int, seq: int
) -> None:
    """A node that was in ``term`` starts with a log up to ``dirty``: is all there that it had flushed, or appended?"""
    ended = replicas.ended[node]
    if ended < UNSURE and dirty != NULL:
        if replicas.flushed[node] >= 0:
            had, had_seq = replicas.flushed[node], replicas.flushed_seq[node]
            _find(tree, replicas, cluster, found, FLUSHED_DURABLE, node, had, dirty, term, had_seq, -1, seq)
        if ended == DIED and replicas.dirty[node] >= 0:
            had, had_seq, end_seq = replicas.dirty[node], replicas.dirty_seq[node], replicas.down[node] - 1
            _find(tree, replicas, cluster, found, DIRTY_SURVIVES_CRASH, node, had, dirty, term, had_seq, end_seq, seq)
    replicas.ended[node] = RUNS
    replicas.lacks_until[node] = -1


@part
def _find(
    tree: Tree,
    replicas: Replicas,
    cluster: Cluster,
    found: Findings,
    check: int,
    node: int,
    had: int,
    dirty: int,
    term: int,
    had_seq: int,
    end_seq: int,
    seq: int,
) -> None:
    """Whether a log that reached to ``had`` may end at ``dirty`` now."""
    cut = dirty < had and replicas.lacks_until[node] >= 0 and dirty >= replicas.commit[node]
    if cut and replicas.rival[node] <= dirty + 1:
        found.unjudged[check] += 1
        return
    found.judged[check] += 1
    if dirty >= had:
        return
    report(found, check, Missing(node, offset=had, end=dirty), had_seq, end_seq, seq)
    if not cut:
        return
    missing = at(tree, replicas.tip[node], dirty + 1)
    of_term = NULL if missing == NONE else tree.term[missing]
    lacking, later = 0, 0
    for other in range(len(cluster.forks)):
        if other != node and cluster.forks[node, other, 0] <= dirty + 1:
            lacking |= 1 << other
            theirs = cluster.forks[node, other, 1]
            if theirs >= term and theirs > of_term:
                later |= 1 << other
    suspect(cluster, check, replicas.lacks_since[node], replicas.lacks_until[node], seq, lacking, later)
