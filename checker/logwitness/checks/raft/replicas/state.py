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
    flushed: Ints  # NULL: it was not heard of yet
    flushed_seq: Ints  # the last event that states how far it has flushed
    commit: Ints
    commit_seq: Ints  # the event that last changed it
    visible: Ints
    begun: Ints  # its first event was a start
    down: Ints  # its process ended
    leader_term: Ints  # the term it leads, else NULL
    leader_seq: Ints  # the event that showed it
    led: Ints  # the last term that it led
    cut: Ints  # the first vertex that its last truncation removed, until its next append
    cut_seq: Ints
    cut_held: Ints  # the event by which it had appended that vertex


class Cluster(NamedTuple):
    """What concerns all nodes, each an array of one number so that kernels can change it."""

    voters: Ints  # bit set; 0: not known
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
    most_commit: Ints  # the largest commit index that any leader had, and the event that showed it
    most_commit_seq: Ints
    most_visible: Ints
    most_visible_seq: Ints
    stranger: Ints  # a node that is no voter and acts as one
    shows: Ints  # by kind: whether such an event occurs
    happens: Ints  # by kind: whether what such an event says has happened, as other events show


class Readers(NamedTuple):
    """The operation that each client has open, by client."""

    table: Table
    used: Ints
    f: Ints
    seq: Ints
