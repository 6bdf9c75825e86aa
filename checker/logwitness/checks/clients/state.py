"""What `fold` keeps about clients, values and offsets, in tables that grow."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from ..codes import NULL
from ..columns import Array, Ints
from ..hashing import Table

NONE = -1
KNOWN_GAPS = 256

_ZEROS = ("invokes", "fails", "final", "width", "size")
_NARROW = ("acks", "invokes", "fails", "final", "client", "after", "row", "read_row", "ack_row", "last_row", "term_row")
_NULLS = (
    "value",
    "offset",
    "last",
    "read_offset",
    "read_last",
    "begun",
    "position",
    "following",
    "term",
    "ok_term",
    "last_term",
)


class Values(NamedTuple):
    """Every value that was named, by row."""

    value: Ints
    acks: Array
    invokes: Array
    fails: Array
    invoke_seq: Ints
    fail_seq: Ints
    ok_seq: Ints
    ok_time: Ints
    ok_term: Ints
    offset: Ints  # where its acknowledgement said it is
    last: Ints
    read_offset: Ints  # where it was first read
    read_last: Ints
    read_seq: Ints
    final: Array  # 1: a final read returned it
    shown: Ints  # the first committed or linearizable read that returned it, and the invocation of that read
    shown_asked: Ints
    client: Array  # the row of the client that last appended it
    width: Ints  # offsets that it fills, as far as its invocation says
    size: Ints
    after: Array  # when it was invoked: the row of the farthest acks=all append acknowledged


class Clients(NamedTuple):
    """By client: its open operation, and where it stands."""

    f: Ints
    seq: Ints  # of the invocation
    row: Array  # the value it appends
    begun: Ints  # where its read is to begin; NULL if it does not say so
    position: Ints  # the next offset it must be given; NULL if unknown
    position_seq: Ints
    following: Ints  # where its last read ended
    tail: Ints  # entries known when it asked for the tail, or for a linearizable read
    tail_seq: Ints
    tail_since: Ints  # when they were asked for that it knew of
    term_row: Array  # the farthest append acknowledged in `_Known.term` when it invoked
    term: Ints
    last_row: Array  # its last acknowledged append
    last_term: Ints


class Bound(NamedTuple):
    """By offset: the value that a read last returned there, and the acks=all append acknowledged there."""

    read_row: Array
    read_seq: Ints
    ack_row: Array


class Known(NamedTuple):
    """What concerns all clients, each an array of one number so that kernels can change it."""

    values: Ints
    clients: Ints
    offsets: Ints
    appends: Ints
    observed: Ints
    far_row: Ints  # the farthest acks=all append acknowledged
    far: Ints
    term: Ints  # the latest term acknowledged in, and the farthest append acknowledged in it with acks all or 1
    term_row: Ints
    tail: Ints  # the largest tail given
    tail_seq: Ints
    tail_since: Ints
    read: Ints  # where the farthest committed or linearizable read ended
    read_seq: Ints
    read_since: Ints
    final_reads: Ints
    final_high: Ints
    final_begun: Ints  # the event by which the last of the final reads began
    power_seq: Ints  # the last event that may have cost unflushed data
    wipe_seq: Ints
    failing: Ints  # 1: a fault lasts, or lasted, that may take what is not flushed until it ends
    seen: Ints  # the last event of a final read, or, as long as there is none, of any read
    write_caching: Ints
    idempotent: Ints
    foreign: Ints
    voters: Ints  # how many; 0: not known
    cut_off: Ints  # 1: the record of a node may lack its end, and with it a trim
    trimmed: Ints
    may_trim: Ints  # whether nodes may trim the log; and whether nobody would have recorded it: a node, or all of them,
    unseen_trims: Ints  # recorded nothing
    batches: Ints  # observations; and how many batches answers to reads say that these returned
    counted: Ints
    gaps: Ints
    compacted: Ints
    keyed: Ints  # 1: nodes state keys of entries
    ok_lasts: Ints  # 1: an acknowledgement stated a last offset behind the first
    read_lasts: Ints  # the same of a batch that a read returned


class Gaps(NamedTuple):
    """Offsets that readers passed over, in this batch of events: from, to, and between which events."""

    low: Ints
    high: Ints
    seq: Ints
    before_seq: Ints
    row: Ints  # the value that ended the gap; NONE: the end of the read
    invoke_seq: Ints
    seen_low: Ints  # a small cache, so that readers who pass the same gap again cost nothing
    seen_high: Ints


class Tables(NamedTuple):
    """Where rows are found: of values by value, of clients by id, of offsets by offset."""

    values: Table
    clients: Table
    offsets: Table


def fill(name: str) -> int:
    """What a place of this column holds before anything is known."""
    return 0 if name in _ZEROS else NULL if name in _NULLS else NONE


def blank(names: tuple[str, ...]) -> dict[str, Array]:
    """Columns with room for a few rows."""
    return {name: column.copy() for name, column in _blank(names).items()}


@functools.cache
def _blank(names: tuple[str, ...]) -> dict[str, Array]:
    return {name: np.full(16, fill(name), dtype=np.int32 if name in _NARROW else np.int64) for name in names}


def gap_room(rows: int, seen_low: Ints, seen_high: Ints) -> Gaps:
    """Room for the gaps of so many events."""
    room = {name: np.zeros(rows, dtype=np.int64) for name in Gaps._fields if not name.startswith("seen")}
    return Gaps(**room, seen_low=seen_low, seen_high=seen_high)
