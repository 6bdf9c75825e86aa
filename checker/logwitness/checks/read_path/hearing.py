"""What streams hear and deliver, by a loop that is compiled: all that happens between two events that decide something.

Sources: read-path.md#shard-state, read-path.md#reader-statuses, read-path.md#lost-data-refuses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import Kind
from loghistory.vocabularies.read_path import HeardWord, RecordWord

from ..codes import INVOKE, OK, RECORDS, code, how_many, lookup, word_code
from ..columns import Ints
from ..hashing import Table, all_grown, empty_table, place_of, roomy, row_of
from ..kernel import kernel, part
from .nodesets import MOST_SHARDS
from .protocol import F_READ, Cells, no_rows

OF_STREAMS = (
    Kind.STREAM_SETTINGS,
    Kind.STREAM_STATUSES,
    Kind.STREAM_METADATA,
    Kind.STREAM_START,
    Kind.STREAM_STARTED,
    Kind.STREAM_CLOSED,
    Kind.STREAM_HEARD,
    Kind.STREAM_REWIND,
    Kind.STREAM_GRACE,
    Kind.STREAM_REJECT,
)
_JUDGED = (Kind.STREAM_RECORD, Kind.STREAM_GAP, Kind.STREAM_STALL)
KINDS = frozenset({Kind.INVOKE, Kind.OK, Kind.NODESET, Kind.EVENT_LOG, Kind.TAKES_PART, *OF_STREAMS, *_JUDGED})
IS_WANTED = lookup(KINDS)
LEFT = frozenset(map(code, KINDS - {Kind.INVOKE, Kind.OK, Kind.STREAM_HEARD, Kind.STREAM_RECORD}))
"""Kinds that the loop takes no event of."""
_RECORD, _HEARD = code(Kind.STREAM_RECORD), code(Kind.STREAM_HEARD)
_TRIM, _UNSURE, _DAMAGED = (word_code(w) for w in (HeardWord.TRIM, HeardWord.UNDER_REPLICATED, HeardWord.DAMAGED))
_AS_WRITTEN, _FILTERED_OUT = word_code(HeardWord.RECORD), word_code(HeardWord.FILTERED_OUT)
_ACCESS, _NOT_IN_CONFIG = word_code(HeardWord.ACCESS), word_code(HeardWord.NOT_IN_CONFIG)
_DATA = RECORDS[RecordWord.DATA]
FILTERED = -2
"""Stands for what the reader's own filter left out, among the words of column ``record``."""
NOBODY = -1


class Rows(NamedTuple):
    """The columns that are read of each event, one place an event; as `loghistory.vocabularies.read_path` has them."""

    seq: Cells
    time: Cells
    kind: Cells
    node: Cells
    op: Cells
    peer: Cells
    f: Cells
    offset: Cells
    last_offset: Cells
    value: Cells
    record: Cells
    epoch: Cells
    version: Cells
    filter: Cells
    shards: Cells
    records: Cells
    reason: Cells


class ByStream(NamedTuple):
    """By row of a stream: what it has heard, and the next LSN to deliver."""

    life: Ints  # a number of its own since it was begun; -1: none yet
    position: Ints
    moved: Ints  # whether it delivered something since somebody asked
    hears: Ints
    version: Ints  # the newest that came with an answer
    answer: Ints  # and that answer
    trimmed: Ints
    refused: Ints
    first: Ints  # of what it has heard and not delivered, in the order of LSNs
    last: Ints


class ByShard(NamedTuple):
    """By row of a shard that a stream asked: what `streams.Shard` says."""

    filter: Ints
    next: Ints
    unsure: Ints
    reading: Ints
    expired: Ints


class Waiting(NamedTuple):
    """What a stream has heard and not delivered: what lies at an LSN, and its neighbours."""

    lsn: Ints
    what: Ints
    before: Ints
    after: Ints


class Hearing(NamedTuple):
    """All of that; the numbers of ``run`` are named below."""

    ops: Table
    streams: ByStream
    peers: Table  # by life and shard
    shards: ByShard
    waiting: Waiting
    run: Ints


OPS, LIVES, SHARDS, _WAITING, _FREE, WITHOUT_DATA = range(6)
"""How many streams, lives, shards asked and places of what waits there are; the first place that is free again; the
shards that lost their data and have not been rebuilt since, as a set."""


@part
def stream_row(hearing: Hearing, op: int) -> int:
    """The row of a stream; its life begins when it is named."""
    row: int = row_of(hearing.ops, hearing.run[OPS:], op)
    if hearing.streams.life[row] < 0:
        hearing.streams.life[row] = hearing.run[LIVES]
        hearing.run[LIVES] += 1
    return row


@part
def key_of(life: int, peer: int) -> int:
    """The key of a shard that a stream asked."""
    return life << 32 | (peer & 0xFFFFFFFF)


@part
def heard_at(hearing: Hearing, stream: int, lsn: int) -> int:
    """What a stream has heard that lies at an LSN, and has not delivered; `NOBODY` if nothing."""
    place = hearing.streams.first[stream]
    while place >= 0 and hearing.waiting.lsn[place] < lsn:
        place = hearing.waiting.after[place]
    found = place >= 0 and hearing.waiting.lsn[place] == lsn
    return int(hearing.waiting.what[place]) if found else NOBODY


@part
def delivered(hearing: Hearing, stream: int, last: int) -> None:
    """All up to an LSN is delivered."""
    streams, waiting = hearing.streams, hearing.waiting
    streams.position[stream], streams.moved[stream] = last + 1, 1
    place = streams.first[stream]
    while place >= 0 and waiting.lsn[place] <= last:
        after = waiting.after[place]
        waiting.after[place] = hearing.run[_FREE]
        hearing.run[_FREE] = place
        place = after
    streams.first[stream] = place
    if place >= 0:
        waiting.before[place] = NOBODY
    else:
        streams.last[stream] = NOBODY


@part
def _waits(hearing: Hearing, stream: int, lsn: int, what: int) -> None:
    """Something lies at an LSN; it waits to be delivered."""
    streams, waiting = hearing.streams, hearing.waiting
    before, after = int(streams.last[stream]), NOBODY
    while before >= 0 and waiting.lsn[before] > lsn:
        before, after = int(waiting.before[before]), before
    if before >= 0 and waiting.lsn[before] == lsn:
        waiting.what[before] = what
        return
    place = int(hearing.run[_FREE])
    if place >= 0:
        hearing.run[_FREE] = waiting.after[place]
    else:
        place = int(hearing.run[_WAITING])
        hearing.run[_WAITING] += 1
    waiting.lsn[place], waiting.what[place] = lsn, what
    waiting.before[place], waiting.after[place] = before, after
    if before >= 0:
        waiting.after[before] = place
    else:
        streams.first[stream] = place
    if after >= 0:
        waiting.before[after] = place
    else:
        streams.last[stream] = place


@part
def _hears(rows: Rows, i: int, hearing: Hearing, stream: int) -> None:
    """A record or a gap; the data of an earlier START says nothing, nor does a shard without its data."""
    streams, shards, peer, f = hearing.streams, hearing.shards, rows.peer[i], rows.f[i]
    streams.hears[stream] = 1
    each = hearing.peers.rows[place_of(hearing.peers, key_of(streams.life[stream], peer))]
    if each < 0 or shards.filter[each] < 0 or (shards.filter[each] != 1 and shards.filter[each] != rows.filter[i]):
        return
    if 0 <= peer < MOST_SHARDS and hearing.run[WITHOUT_DATA] >> peer & 1:
        return
    if f in (_ACCESS, _NOT_IN_CONFIG):
        streams.refused[stream] = 1
        return
    lsn, last = rows.offset[i], rows.last_offset[i]
    shards.expired[each], shards.reading[each] = 0, 1
    if rows.version[i] >= streams.version[stream]:
        streams.version[stream], streams.answer[stream] = rows.version[i], rows.seq[i]
    if f == _TRIM:
        streams.trimmed[stream] = max(streams.trimmed[stream], last)
    if last < shards.next[each]:
        return
    shards.next[each] = last + 1
    if f in (_UNSURE, _DAMAGED) or rows.records[i] == 1:
        shards.unsure[each] = max(shards.unsure[each], last + 1)
    if lsn >= streams.position[stream]:
        if f == _AS_WRITTEN:
            _waits(hearing, stream, lsn, rows.record[i] if rows.record[i] >= 0 else _DATA)
        elif f == _FILTERED_OUT:
            _waits(hearing, stream, lsn, FILTERED)


@kernel
def skim(rows: Rows, at: int, hearing: Hearing, judged: Ints) -> int:
    """Take what streams hear and the records that they deliver; the place of the first other event, or stream.

    A record that they did not hear is left too; ``judged`` counts, in its first place, those that they did.
    """
    for i in range(at, len(rows.kind)):
        kind = rows.kind[i]
        if not IS_WANTED[kind]:
            continue
        if kind in (_HEARD, _RECORD):
            stream = hearing.ops.rows[place_of(hearing.ops, rows.op[i])]
            if stream < 0:
                return i
            if kind == _HEARD:
                _hears(rows, i, hearing, stream)
            elif heard_at(hearing, stream, rows.offset[i]) != _DATA:
                return i
            else:
                judged[0] += 1
                delivered(hearing, stream, rows.offset[i])
        elif (kind != INVOKE and kind != OK) or rows.f[i] == F_READ:
            return i
    return len(rows.kind)


def nothing_heard() -> Hearing:
    """What is known before the first event: no stream, and so no shard that was heard."""
    run = np.array([0, 0, 0, 0, NOBODY, 0], dtype=np.int64)
    return Hearing(empty_table(), no_rows(ByStream), empty_table(), no_rows(ByShard), no_rows(Waiting), run)


def with_events(hearing: Hearing, rows: Rows) -> Hearing:
    """The same with room for what these events may add."""
    heard = how_many(rows.kind, _HEARD)
    return hearing._replace(waiting=all_grown(hearing.waiting, int(hearing.run[_WAITING]), heard, lambda _: 0))


def with_stream(hearing: Hearing, compiled: bool) -> Hearing:
    """The same with room for one stream more."""
    used = int(hearing.run[OPS])
    streams = all_grown(hearing.streams, used, 1, blank)
    return hearing._replace(ops=roomy(hearing.ops, used, 1, compiled), streams=streams)


def with_shards(hearing: Hearing, more: int, compiled: bool) -> Hearing:
    """The same with room for so many shards more that streams ask."""
    used = int(hearing.run[SHARDS])
    shards = all_grown(hearing.shards, used, more, lambda name: -1 if name == "filter" else 0)
    return hearing._replace(peers=roomy(hearing.peers, used, more, compiled), shards=shards)


def blank(name: str) -> int:
    """What is known of a stream before anything is."""
    return 0 if name in ("moved", "hears", "version", "refused") else -1
