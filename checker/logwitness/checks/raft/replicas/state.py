"""What `fold` keeps about the nodes of one log, beside the tree of their logs."""

from __future__ import annotations

from typing import NamedTuple

from ...columns import Ints
from ...hashing import Table


class Replicas(NamedTuple):
    """By node index: its log and what its last event stated."""

    tip: Ints
    tip_seq: Ints  # the event that last changed its log
    term: Ints
    flushed: Ints
    flushed_seq: Ints  # the last event that states how far it has flushed
    commit: Ints
    visible: Ints
    leader_term: Ints  # the term it leads, else NULL
    leader_seq: Ints
    cut: Ints  # the first vertex that its last truncation removed, until its next append
    cut_seq: Ints
    down: Ints  # what may cost it unflushed data when it starts: a cause of `faults`; NULL: nothing
    lost_seq: Ints  # the event by which it last lost copies
    shared: Ints  # room for `destroyed`


class Cluster(NamedTuple):
    """What concerns all nodes, each an array of one number so that kernels can change it."""

    voters: Ints  # bit set
    voters_count: Ints
    majority: Ints
    write_caching: Ints
    committed: Ints  # the longest log known to be committed
    elected_term: Ints  # the latest term that has a leader, and its log when it was elected
    elected_tip: Ints
    elected_node: Ints
    elected_seq: Ints
    elected_twice: Ints  # the latest term that two nodes lead since a disk was emptied; NULL
    wiped: Ints  # bit set of the nodes whose disk was emptied
    exposed: Ints  # 1: some entry may be
    given_up_seq: Ints  # the last event by which committed entries were lost, which was excused; -1
    has_unknown: Ints
    shows_visible: Ints  # the run records moves of the visible offset, and of the commit index
    shows_commit: Ints


class Readers(NamedTuple):
    """The operation that each client has open, by client."""

    table: Table
    used: Ints
    f: Ints
    seq: Ints
