"""Copies that a fault destroyed, and the entries that may be lost for it.

An entry is safe while so many voters hold it that the others are no majority: nobody is elected without it. A wiped
disk, and under write caching the loss of what was not flushed, takes copies away. If too few are left, the entry is
*exposed*: to lose it breaks no promise, and is put down to that fault and that node. What a leader commits later
on a majority that has flushed it is safe again. Source: raft.md#exposed.
"""

from __future__ import annotations

from ...codes import FAULT_POWER, FAULT_STORAGE, FAULT_WIPE, NULL
from ...faults import POWER, WIPE, cause_of
from ...findings import Findings, excuse
from ...kernel import part
from ..configurations import majority_in
from .state import Cluster, Replicas
from .tree import (
    EXPOSED,
    EXPOSED_BY_POWER,
    EXPOSED_BY_STORAGE,
    EXPOSED_BY_WIPE,
    NONE,
    ROOT,
    UNKNOWN,
    Tree,
    common,
    members,
)


@part
def destroy(tree: Tree, replicas: Replicas, cluster: Cluster, node: int, kept: int, cause: int, seq: int) -> None:
    """``node`` lost all copies behind the vertex ``kept`` of its log, at event ``seq``."""
    replicas.lost_seq[node] = seq
    if not cluster.voters[0] >> node & 1 and not cluster.changes[0]:
        return
    flag = EXPOSED_BY_WIPE if cause == WIPE else EXPOSED_BY_POWER if cause == POWER else EXPOSED_BY_STORAGE
    tip = replicas.tip[node]
    # Of each other voter: up to where it holds what this one lost, safe from the next fault.
    for other in range(len(replicas.tip)):
        if other == node or not cluster.voters[0] >> other & 1:
            replicas.shared[other] = NULL
            continue
        reach = tree.last[common(tree, tip, replicas.tip[other])]
        replicas.shared[other] = reach if cluster.write_caching[0] else min(reach, replicas.flushed[other])
    needed = members(cluster.first[0]) - majority_in(cluster.first[0]) + 1
    if cluster.changes[0]:
        needed = len(replicas.tip) + 1  # nobody can tell whose majority missed the copy: what is lost is excused
    vertex = tip
    while vertex != kept and vertex != ROOT:
        left = 0
        for other in range(len(replicas.tip)):
            if replicas.shared[other] >= tree.last[vertex]:
                left += 1
        if cause == WIPE:
            tree.wiped[vertex] |= 1 << node
        if left < needed:
            tree.flags[vertex] |= flag
            tree.destroyer[vertex] = node
            cluster.exposed[0] = 1
        vertex = tree.parent[vertex]


@part
def secure(tree: Tree, cluster: Cluster, vertex: int) -> None:
    """A majority has flushed the log up to ``vertex``: no copy that was destroyed earlier matters to it any more."""
    cluster.exposed[0] = 0
    while vertex != ROOT:
        tree.flags[vertex] &= ~EXPOSED
        tree.wiped[vertex] = 0
        vertex = tree.parent[vertex]


@part
def lowest_safe(tree: Tree, vertex: int, top: int) -> int:
    """The first entry behind ``top`` in the log ``vertex`` that is not exposed; NONE."""
    found = NONE
    while vertex != top:
        if not tree.flags[vertex] & (EXPOSED | UNKNOWN):
            found = vertex
        vertex = tree.parent[vertex]
    return found


@part
def exposed_by(tree: Tree, vertex: int) -> int:
    """The fault, by its code in column ``f``, that exposed an entry."""
    flags = tree.flags[vertex]
    return FAULT_WIPE if flags & EXPOSED_BY_WIPE else FAULT_POWER if flags & EXPOSED_BY_POWER else FAULT_STORAGE


@part
def excuse_loss(tree: Tree, replicas: Replicas, found: Findings, check: int, vertex: int) -> None:
    """``vertex`` is exposed; that it is lost is excused by what exposed it."""
    cause = cause_of(exposed_by(tree, vertex))
    node = tree.destroyer[vertex]
    excuse(found, check, cause, node, replicas.lost_seq[node], 1)
