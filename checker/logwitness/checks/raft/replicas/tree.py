"""All logs of all nodes as one tree.

Raft's log matching means that two logs that agree on one entry (offset and term) agree on everything before it.
So the logs of all nodes, with all their divergent tails, form a tree whose root is the empty log: a node's log
is one tree vertex, its tip. An append moves the tip to a child, a truncation back to an ancestor; "the same
entry" is "the same vertex", and whether a log holds an entry is whether that vertex is an ancestor of the tip.

Every vertex is one batch. A second pointer per vertex (`jump`, Myers 1983, "An applicative random-access
stack") makes the search for the ancestor at an offset logarithmic. Memory: about a hundred bytes for each
distinct batch, however many nodes hold it and however long the history is.

A part of a log that the history does not show (a run recorded from the middle, a log that starts after a trim)
is a vertex marked `UNKNOWN`; nothing is concluded from it.

Of every vertex the tree knows by which event each voter last appended it, so that what shows a violation can be told
node by node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ... import codes
from ...columns import Array, Ints
from ...hashing import Table, empty_table, grown, place_of, roomy
from ...kernel import part

UNKNOWN = 1
COMMITTED = 2
VISIBLE = 4
DEAD = 8
"""On a branch beside the committed one: lost for good."""
ACKED_ALL = 16
ACKED_LEADER = 32
ACKED_NONE = 64
ANY_ACKED = ACKED_ALL | ACKED_LEADER | ACKED_NONE
REPORTED_TRUNCATED = 128
DIVERGED = 256
"""Entry or an entry before it broke log matching; not judged by it again."""
ALIVE = 512
"""In some node's log at the end of the history."""
EXPOSED_BY_WIPE = 1024
EXPOSED_BY_POWER = 2048
EXPOSED_BY_STORAGE = 4096
EXPOSED = EXPOSED_BY_WIPE | EXPOSED_BY_POWER | EXPOSED_BY_STORAGE
"""Too few voters hold it, since a fault destroyed copies: it may be lost (`destroyed`)."""
GIVEN_UP = 8192
"""Was committed and then lost, which was excused."""
ANSWERED_OK = 16384
"""A client was told that its append succeeded (`Tree.asked`)."""
WRITTEN_ALL = 32768
WRITTEN_LEADER = 65536
WRITTEN_NONE = 131072
WRITTEN = WRITTEN_ALL | WRITTEN_LEADER | WRITTEN_NONE
"""The acks level that the first copy states."""

ROOT = 0
NONE = -1

_FIRST_SIZE = 64
_LATEST = (1 << 31) - 1


class Tree(NamedTuple):
    """Vertices by id; vertex 0 is the empty log, whose last offset is -1."""

    base: Ints
    last: Ints
    term: Ints
    value: Ints
    key: Ints
    size: Ints  # bytes
    held: Ints  # bit set of the nodes that ever had it in their log
    seq: Ints  # the event that first showed it
    commit_seq: Ints
    committer: Array  # the node of that event
    ack_seq: Ints
    ack_time: Ints
    asked: Ints  # the first invocation of an append that was answered with its place; -1
    flags: Array
    parent: Array
    jump: Array
    depth: Array
    same: Array  # the next vertex with the same base offset
    child: Array  # the youngest child
    sibling: Array  # the next older child of the same parent
    pending: Array  # the nearest vertex, itself or an ancestor, written with acks=all
    wiped: Ints  # bit set of the nodes whose copy went with their disk
    destroyer: Array  # if it is exposed, the node that lost its copy last
    own: Array  # by vertex and voter: how many events after `seq` the voter last appended it; -1 if never
    by_base: Table
    used: Ints  # vertices, keys of by_base, voters


_FILL = {"base": -1, "last": -1, "term": -1, "value": codes.NULL, "key": codes.NULL, "size": 0, "held": 0, "wiped": 0}
_NARROW = ("flags", "parent", "jump", "depth", "same", "child", "sibling", "pending", "committer", "destroyer")
_APART = ("own", "by_base", "used")
_ZERO = ("flags", "parent", "jump", "depth")


def _fill(name: str) -> int:
    return 0 if name in _ZERO else _FILL.get(name, -1)


def _column(name: str) -> Array:
    return np.full(_FIRST_SIZE, _fill(name), dtype=np.int32 if name in _NARROW else np.int64)


def empty_tree(voters: int) -> Tree:
    """A tree in which every log is empty: its root, which counts as committed and visible."""
    arrays = {name: _column(name) for name in Tree._fields if name not in _APART}
    own = np.full(_FIRST_SIZE * voters, NONE, dtype=np.int32)
    tree = Tree(**arrays, own=own, by_base=empty_table(), used=np.array([1, 0, voters], dtype=np.int64))
    tree.flags[ROOT] = COMMITTED | VISIBLE
    return tree


def with_room(tree: Tree, more: int, compiled: bool) -> Tree:
    """The tree with room for ``more`` vertices."""
    vertices, keys, voters = tree.used.tolist()
    table = roomy(tree.by_base, keys, more, compiled)
    if table is tree.by_base and vertices + more <= len(tree.base):
        return tree
    larger = {
        name: grown(getattr(tree, name), vertices, more, _fill(name)) for name in Tree._fields if name not in _APART
    }
    own = grown(tree.own, vertices * voters, (len(larger["base"]) - vertices) * voters, NONE)
    return tree._replace(**larger, own=own, by_base=table)


@part
def at(tree: Tree, tip: int, offset: int) -> int:
    """The vertex of the log ``tip`` that covers ``offset``, the root if none can; NONE if the log ends before it."""
    if offset > tree.last[tip]:
        return NONE
    vertex = tip
    while vertex != ROOT and tree.base[vertex] > offset:
        far = tree.jump[vertex]
        vertex = far if tree.base[far] > offset else tree.parent[vertex]
    return vertex


@part
def before(tree: Tree, tip: int, offset: int) -> int:
    """The log ``tip`` without everything that reaches ``offset`` or further."""
    vertex = tip
    while vertex != ROOT and tree.last[vertex] >= offset:
        far = tree.jump[vertex]
        vertex = far if tree.last[far] >= offset else tree.parent[vertex]
    return vertex


@part
def common(tree: Tree, one: int, other: int) -> int:
    """The longest log that begins both."""
    while one != other:
        if tree.depth[one] < tree.depth[other]:
            one, other = other, one
        far = tree.jump[one]
        if tree.depth[one] > tree.depth[other]:
            one = far if tree.depth[far] >= tree.depth[other] else tree.parent[one]
        elif far != tree.jump[other]:
            one, other = far, tree.jump[other]
        else:
            one, other = tree.parent[one], tree.parent[other]
    return one


@part
def find(tree: Tree, base: int, term: int) -> int:
    """The youngest known vertex with this base offset and term; NONE."""
    place = place_of(tree.by_base, base)
    vertex: int = tree.by_base.rows[place]
    while vertex != NONE and (tree.term[vertex] != term or tree.flags[vertex] & UNKNOWN):
        vertex = tree.same[vertex]
    return vertex


@part
def grow(
    tree: Tree,
    parent: int,
    base: int,
    last: int,
    term: int,
    value: int,
    size: int,
    acks: int,
    seq: int,
    flags: int,
) -> int:
    """Add a child of ``parent``; returns its id. Room was made before."""
    vertex: int = tree.used[0]
    tree.used[0] += 1
    tree.base[vertex] = base
    tree.last[vertex] = last
    tree.term[vertex] = term
    tree.value[vertex] = value
    tree.size[vertex] = size
    tree.seq[vertex] = seq
    tree.flags[vertex] = flags | (tree.flags[parent] & DIVERGED)
    if not (flags | tree.flags[parent]) & UNKNOWN:
        tree.flags[vertex] |= tree.flags[parent] & DEAD
    tree.parent[vertex] = parent
    tree.depth[vertex] = tree.depth[parent] + 1
    far = tree.jump[parent]
    if tree.depth[parent] - tree.depth[far] == tree.depth[far] - tree.depth[tree.jump[far]]:
        tree.jump[vertex] = tree.jump[far]
    else:
        tree.jump[vertex] = parent
    tree.pending[vertex] = vertex if acks == codes.ACKS_ALL else tree.pending[parent]
    tree.sibling[vertex] = tree.child[parent]
    tree.child[parent] = vertex
    place = place_of(tree.by_base, base)
    if tree.by_base.rows[place] == NONE:
        tree.by_base.keys[place] = base
        tree.used[1] += 1
    tree.same[vertex] = tree.by_base.rows[place]
    tree.by_base.rows[place] = vertex
    if tree.flags[parent] & COMMITTED and not flags & UNKNOWN:
        # A committed child beside it: whatever is appended here is lost for good.
        other = tree.sibling[vertex]
        while other != NONE:
            if tree.flags[other] & COMMITTED and not tree.flags[other] & (UNKNOWN | EXPOSED):
                tree.flags[vertex] |= DEAD
            other = tree.sibling[other]
    return vertex


@part
def unknown(tree: Tree, parent: int, last: int, seq: int) -> int:
    """The log ``parent`` and behind it a part up to ``last`` that the history does not show."""
    base = tree.last[parent] + 1
    other: int = tree.child[parent]
    while other != NONE:
        if tree.flags[other] & UNKNOWN and tree.last[other] == last:
            return other
        other = tree.sibling[other]
    return grow(tree, parent, base, last, codes.NULL, codes.NULL, 0, codes.NO_ACKS, seq, UNKNOWN)


@part
def note_own(tree: Tree, vertex: int, node: int, seq: int) -> None:
    """``node`` appended ``vertex`` by event ``seq``."""
    voters = tree.used[2]
    if node < voters:
        after = seq - tree.seq[vertex]
        tree.own[vertex * voters + node] = after if after < _LATEST else NONE


@part
def appended_by(tree: Tree, vertex: int, node: int) -> int:
    """The event by which ``node`` last appended ``vertex``; if it is not known, the one that first showed it."""
    first: int = tree.seq[vertex]
    voters = tree.used[2]
    if node < 0 or node >= voters or tree.own[vertex * voters + node] == NONE:
        return first
    return first + int(tree.own[vertex * voters + node])


@part
def holder(tree: Tree, vertex: int, node: int) -> int:
    """A voter that appended ``vertex``, another than ``node`` if there is one; NONE if none is known."""
    voters = tree.used[2]
    found = NONE
    for other in range(voters):
        if tree.own[vertex * voters + other] != NONE:
            if other != node:
                return other
            found = other
    return found


@part
def written_with(acks: int) -> int:
    """The flag of an acks level; 0 if none is stated."""
    if acks == codes.NO_ACKS:
        return 0
    return WRITTEN_ALL if acks == codes.ACKS_ALL else WRITTEN_LEADER if acks == codes.ACKS_LEADER else WRITTEN_NONE


@part
def members(bits: int) -> int:
    """How many nodes a bit set has."""
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count
