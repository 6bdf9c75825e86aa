"""What `fold` keeps about the nodes of one log, beside the tree of their logs."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...columns import Ints
from ...hashing import Table, empty_table, grown
from ...kernel import part

R = TypeVar("R", bound=tuple[Any, ...])


class Replicas(NamedTuple):
    """By node index: its log and what its last event stated."""

    tip: Ints
    tip_seq: Ints  # the event that last changed its log
    term: Ints
    voters: Ints  # of its configuration, as a bit set; and the old ones while it is joint
    old: Ints
    dirty: Ints
    dirty_seq: Ints
    flushed: Ints  # NULL: it was not heard of yet
    flushed_seq: Ints  # the last event that states how far it has flushed
    commit: Ints
    commit_seq: Ints  # the event that last changed it
    visible: Ints
    begun: Ints  # its first event was a start
    began: Ints  # the term in which its life began; NULL: that is not known
    began_seq: Ints
    down: Ints  # one more than the event by which its process ended, if it has not started since; else 0 or less
    leader_term: Ints  # the term it leads, else NULL
    leader_seq: Ints  # the event that showed it
    led: Ints  # the last term that it led
    cut: Ints  # the first vertex that its last truncation removed, until its next append
    cut_seq: Ints
    cut_held: Ints  # the event by which it had appended that vertex
    gap: Ints  # where the gap begins that the events just before told it of, else NULL; and where it ends
    gap_last: Ints
    takes: Ints  # what may have taken what it had not flushed: a cause of `faults`; NULL: nothing
    lost_seq: Ints  # the event by which it last lost copies
    running: Ints
    stated_seq: Ints  # the last event of its record; -1
    start: Ints  # the first offset that it has not trimmed
    trimmed: Ints  # the same where it has trimmed since it started, else NULL; and the event by which it last did
    trimmed_seq: Ints
    former: Ints  # what it held before it last held less, in `Former`
    retreat_seq: Ints  # when that was
    shared: Ints  # room for `destroyed`
    ended: Ints  # how its life ended, by the numbers in `kept`
    lacks_since: Ints  # the last event of its record, if that may have lost its end since
    lacks_until: Ints  # and the event by which that life ended; -1: the record is whole
    rival: Ints  # the first offset at which a leader, of its term or later, had something else then


class Cluster(NamedTuple):
    """What concerns all nodes, each an array of one number so that kernels can change it."""

    voters: Ints  # bit set, of all configurations so far; 0: not known
    first: Ints  # the same of the first one
    changes: Ints  # whether there is another one
    write_caching: Ints
    committed: Ints  # the longest log known to be committed
    elected_term: Ints  # the latest term that has a leader, and its log when it was elected
    elected_tip: Ints
    elected_node: Ints
    elected_seq: Ints
    wiped: Ints  # bit set of the nodes whose disk was emptied
    elected_twice: Ints  # the latest term that two nodes lead since a disk was emptied; NULL
    exposed: Ints  # 1: some entry may be
    given_up_seq: Ints  # the last event by which committed entries were lost, which was excused; -1
    top_commit: Ints  # the largest commit index, and the event that stated it; -1
    top_commit_seq: Ints
    idempotent: Ints
    compacted: Ints
    has_unknown: Ints
    most_commit: Ints  # the largest commit index that any leader had, and the event that showed it
    most_commit_seq: Ints
    most_visible: Ints
    most_visible_seq: Ints
    suspects: Ints  # violations that a lost end of a record may explain (`suspect`)
    suspects_used: Ints
    stranger: Ints  # a node that is no voter and acts as one
    says_last: Ints  # the first answer to an append that states a last offset; -1
    acked_last: Ints  # the same of nodes' own answers (`acked`)
    passed_on: Ints  # a node that answered what a leader answers, and was not seen to lead; -1
    divided: Ints  # one that answered a read of which another one gave something; -1
    outsider: Ints  # one that answered, is no voter and had recorded nothing; -1
    batches: Ints  # observations; and how many batches answers to reads say that these returned
    counted: Ints
    asks: Ints  # 1: clients asked to append values
    cuts: Ints  # appends over the log that a truncation would explain
    shows: Ints  # by kind: whether such an event occurs
    happens: Ints  # by kind: whether what such an event says has happened, as other events show
    forks: Ints  # by node and node: where their logs parted when the life of the first ended, and the other's term


class Clients(NamedTuple):
    """The operation that each client has open, by client."""

    table: Table
    used: Ints
    f: Ints
    seq: Ints
    node: Ints  # that was asked
    value: Ints
    acks: Ints
    start: Ints  # where a read began
    reach: Ints  # behind the last batch that it was given
    given: Ints  # 1: it was given one
    bound: Ints  # when it was invoked: how far the node showed its log; of a tail, what was committed
    bound_seq: Ints
    begins: Ints  # of a read: where the node had trimmed its log to by then, in that life; NULL: it had not
    begins_seq: Ints
    giver: Ints  # the node that gave what a read returned; -1: none is known, -2: several
    expected: Ints  # of an append: the only term in which it may be written; NULL: any
    led: Ints  # 1: the node that was asked led then


class Former(NamedTuple):
    """What nodes held and showed until they came to hold less."""

    used: Ints
    until: Ints
    tip: Ints
    commit: Ints
    visible: Ints
    before: Ints  # what the node held before it held less the time before


class Lives(NamedTuple):
    """Processes of nodes that ended, not of their own accord: when, and the last event that is recorded of them."""

    used: Ints
    node: Ints
    ended: Ints
    recorded: Ints


class Attempts(NamedTuple):
    """Values whose appends failed, ended in an unknown way, or were answered with a place that no log shows, or that
    showed them before they were asked for; and those that were enqueued."""

    table: Table
    used: Ints
    value: Ints
    failed: Ints  # the event by which its client was told that it failed; -1
    invoked: Ints
    other: Ints  # 1: another append of it did not fail
    doubt: Ints  # the last of its doubts
    first: Ints  # its first invocation among those
    loose: Ints  # 1: what became of one is not known, or not where
    queued: Ints  # the first event by which a leader enqueued it; -1
    asked: Ints  # the acks level of all of its appends; -1: none is known, -2: not the same, or one was answered ok
    expected: Ints  # and the term that all expected; -1: none is known, -2: not the same, or one expected none


class Doubts(NamedTuple):
    """What looks wrong between a client and the nodes, until the end shows whose record is whole."""

    used: Ints
    check: Ints
    value: Ints
    offset: Ints
    last: Ints
    term: Ints
    acks: Ints
    node: Ints
    invoked: Ints
    seq: Ints
    shown: Ints
    vertex: Ints
    next: Ints  # of the same value


ANYBODY = -1
"""Whose record may lack it."""

SUSPECTS = 1024
"""Violations that are kept for the end, when it is known who was cut off; further ones stand."""


@part
def suspect(cluster: Cluster, check: int, since: int, until: int, seq: int, among: int, besides: int) -> None:
    """The violation by event ``seq`` is none if what lacks may have been recorded between two events and be lost, by a
    voter that was cut off: of those in the bit set ``among`` who together with others, ``besides``, are a majority; or
    any, if that is `ANYBODY`."""
    place = cluster.suspects_used[0]
    if place < len(cluster.suspects):
        cluster.suspects_used[0] += 1
        cluster.suspects[place, 0] = check
        cluster.suspects[place, 1] = since
        cluster.suspects[place, 2] = until
        cluster.suspects[place, 3] = seq
        cluster.suspects[place, 4] = among
        cluster.suspects[place, 5] = besides


_FIRST_ROWS = 16


def with_room(columns: R, used: int, more: int) -> R:
    """The columns of such a tuple, all but tables and counts, with room for ``more`` rows; new ones hold -1."""
    names: tuple[str, ...] = columns._fields  # type: ignore[attr-defined]
    rows = {name: column for name, column in zip(names, columns, strict=True) if name not in _NO_ROWS}
    if not rows or used + more <= len(next(iter(rows.values()))):
        return columns
    replaced: R = columns._replace(**{name: grown(column, used, more, -1) for name, column in rows.items()})  # type: ignore[attr-defined]
    return replaced


_NO_ROWS = frozenset({"table", "used"})


def empty(type_: type[R]) -> R:
    """A tuple of this type, of columns of int64, without rows: there is room for a few, which hold -1."""
    names: tuple[str, ...] = type_._fields  # type: ignore[attr-defined]
    made: dict[str, object] = {name: np.full(_FIRST_ROWS, -1, dtype=np.int64) for name in names}
    made["used"] = np.zeros(1, dtype=np.int64)
    if "table" in made:
        made["table"] = empty_table()
    return type_(**made)
