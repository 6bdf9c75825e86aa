"""One huge log, judged by ranges of offsets: `linearizable-log`, the check that composes so.

In process its fold keeps a row for each value of the log. Here Spark brings together what concerns one operation, then
what concerns one value, then one range of offsets; each task holds its share alone, and the ranges are merged
(`checks.linearizable_log.merge`). Source: history-checks.md#splits-by-range.

What is found so is that the check holds, and over how much. Whatever does not compose makes `judge_by_ranges` give no
answer, and the fold judges as for any other history: a violation (the fold words it), holes in a dense log, other acks
levels beside acks=all, an emptied disk, reads that found nothing in a dense log, values that are texts, a clock that is
set back, operation ids that come twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loghistory.columns import WORDS

from ..checks.codes import (
    ACKS_ALL,
    F_APPEND,
    F_TAIL,
    FAIL,
    FAULT,
    FAULT_WIPE,
    INFO,
    INVOKE,
    MADE_BY_NODES,
    NO_ACKS,
    NULL,
    OBSERVE,
    OF_CLIENTS,
    OK,
    READS,
    among,
)
from ..checks.columns import Array, Ints, Reader
from ..checks.contract import Excuse, Outcome, outcome
from ..checks.faults import CAUSES, GAP
from ..checks.linearizable_log import CHECK, FAMILY, Bounds, Ends, Range, merge, range_of
from .ingest import Large

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FROM_EVENTS = 250_000_000
"""Events from which on it is worth while: below, the rows of all values fit into one task, which is faster."""

_EVENTS_A_TASK = 2_000_000
_BATCH = 1 << 17
_ROW = ("seq", "time", "kind", "op", "f", "acks", "offset", "last_offset", "value")
_SEQ, _TIME, _KIND, _OP, _F, _ACKS, _OFFSET, _LAST, _VALUE = range(len(_ROW))

_APPENDED, _GIVEN, _ENTRIES, _TAILS, _NOTES = "appended", "given", "entries", "tails", "notes"
_Chunk = tuple[str, Any]
"""What is sent: rows of one of these sorts as a table of integers, or `_Notes`."""


@dataclass(frozen=True, slots=True)
class _Notes:
    """What a piece of the history says besides its rows."""

    refused: bool = False
    sparse: bool = False
    nothing: bool = False
    """A read found nothing; it counts in a dense log."""
    logs: frozenset[str | None] = frozenset()
    span: tuple[int, int, int] | None = None
    """Its place, and the times of its first and last event of a client."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """What one range of offsets says."""

    place: int
    notes: tuple[_Notes, ...]
    first: int = 0
    last: int = -1
    entries: int = 0
    gaps: int = 0
    tails: int = 0
    top: int = 0
    range: Range | None = None


def judge_by_ranges(spark: SparkSession, large: Large) -> tuple[str | None, Outcome] | None:
    """The log and the outcome of ``linearizable-log`` if it holds and the history composes; None: ask the fold."""
    if large.stated.write_caching or not large.stated.idempotent or large.lowest_offset < 0:
        return None
    with large.events() as file:
        count = pq.read_metadata(file).num_row_groups
    context = spark.sparkContext
    tasks = max(context.defaultParallelism, int(large.row["events"]) // _EVENTS_A_TASK + 1)
    width = large.highest_offset // tasks + 1
    chunks = [(i, count * i // tasks, count * (i + 1) // tasks) for i in range(tasks)]
    rows = context.parallelize(chunks, tasks).flatMap(partial(_operations, large=large, tasks=tasks))
    values = rows.partitionBy(tasks, _same).mapPartitions(partial(_values, tasks=tasks))
    ranges = values.partitionBy(tasks, _same).mapPartitions(partial(_ranges, tasks=tasks, width=width))
    parts = ranges.partitionBy(tasks, _same).mapPartitionsWithIndex(_range).collect()
    return _together(parts)


def _same(bucket: int) -> int:
    return bucket


def _operations(chunk: tuple[int, int, int], large: Large, tasks: int) -> Iterator[tuple[int, _Chunk]]:
    """The events of clients in some row groups, by operation."""
    pa.set_cpu_count(1)
    place, first, end = chunk
    setting = large.setting(compiled=False)
    reader = Reader(large.row["run"], FAMILY.columns, setting.words)
    logs: set[str | None] = set()
    sparse = refused = False
    span: tuple[int, int] | None = None
    with large.events() as path:
        file = pq.ParquetFile(path, read_dictionary=[name for name in WORDS if name in reader.reads])
        reads = [name for name in file.schema_arrow.names if name in reader.reads]
        for batch in file.iter_batches(_BATCH, row_groups=list(range(first, end)), columns=reads):
            columns = reader.columns(batch)
            sparse = sparse or bool(np.isin(columns.kind, MADE_BY_NODES).any())
            refused = refused or bool(((columns.kind == FAULT) & (columns.f == FAULT_WIPE)).any())
            mine = np.flatnonzero(among(columns.kind, OF_CLIENTS) & (columns.op != NULL))
            if not len(mine):
                continue
            refused = refused or batch.column("text").take(pa.array(mine)).null_count < len(mine)
            logs.update(batch.column("log").take(pa.array(mine)).unique().to_pylist())
            rows = np.stack([np.asarray(getattr(columns, name))[mine].astype(np.int64) for name in _ROW])
            times = rows[_TIME]
            refused = refused or bool((np.diff(times) < 0).any()) or (span is not None and times[0] < span[1])
            span = (int(times[0]) if span is None else span[0], int(times[-1]))
            for bucket, some in _split(rows, rows[_OP] % tasks):
                yield bucket, (_APPENDED, some)
    reported = None if span is None else (place, *span)
    yield 0, (_NOTES, _Notes(refused, sparse, logs=frozenset(logs), span=reported))


def _split(rows: Ints, buckets: Ints) -> Iterator[tuple[int, Ints]]:
    """The columns of a table of integers by bucket."""
    for bucket in np.unique(buckets).tolist():
        yield bucket, rows[:, buckets == bucket]


def _gathered(chunks: Iterable[tuple[int, _Chunk]]) -> tuple[dict[str, Ints], list[_Notes]]:
    """All rows of each sort, and all notes."""
    rows: dict[str, list[Ints]] = {}
    notes: list[_Notes] = []
    for _, (sort, found) in chunks:
        if sort == _NOTES:
            notes.append(found)
        else:
            rows.setdefault(sort, []).append(found)
    return {sort: np.concatenate(found, axis=1) for sort, found in rows.items()}, notes


def _values(chunks: Iterable[tuple[int, _Chunk]], tasks: int) -> Iterator[tuple[int, _Chunk]]:
    """What operations say about values, by value; what tails say."""
    found, notes = _gathered(chunks)
    for note in notes:
        yield 0, (_NOTES, note)
    if _APPENDED not in found:
        return
    rows = found[_APPENDED]
    rows = rows[:, np.lexsort((rows[_SEQ], rows[_OP]))]
    first = np.flatnonzero(np.diff(rows[_OP], prepend=rows[_OP][0] - 1))
    of = np.repeat(np.arange(len(first)), np.diff(first, append=rows.shape[1]))
    final = np.append(first[1:], rows.shape[1]) - 1
    kind = rows[_KIND]
    closes = among(kind, (OK, FAIL, INFO))
    asked, closed = rows[:, first], rows[:, final]
    over = closes[final]
    is_append = (asked[_F] == F_APPEND) & (asked[_VALUE] != NULL)
    refused = bool(
        (kind[first] != INVOKE).any()
        or np.count_nonzero(kind == INVOKE) != len(first)
        or np.count_nonzero(closes) != np.count_nonzero(over)
        or (is_append & ~np.isin(asked[_ACKS], (ACKS_ALL, NO_ACKS))).any()
    )
    done = over & (kind[final] == OK)
    unread = np.ones(len(first), dtype=bool)
    unread[of[kind == OBSERVE]] = False
    nothing = done & unread & np.isin(asked[_F], READS) & (closed[_OFFSET] == asked[_OFFSET])
    jumped = _jumped(rows, first, of, done, asked, closed)
    yield 0, (_NOTES, _Notes(refused, jumped, bool((nothing & (closed[_OFFSET] != NULL)).any())))
    placed = done & (closed[_OFFSET] >= 0)
    appends = np.stack(
        [
            asked[_VALUE],
            asked[_TIME],
            asked[_SEQ],
            (over & (kind[final] == FAIL)).astype(np.int64),
            np.where(placed, closed[_OFFSET], -1),
            closed[_LAST],
            closed[_TIME],
            closed[_SEQ],
        ]
    )[:, is_append]
    for bucket, some in _split(appends, appends[0] % tasks):
        yield bucket, (_APPENDED, some)
    given = np.flatnonzero((kind == OBSERVE) & done[of] & (rows[_VALUE] != NULL))
    end = final[of[given]]
    seen = np.stack([rows[_VALUE, given], rows[_OFFSET, given], rows[_LAST, given], rows[_TIME, end], rows[_SEQ, end]])
    for bucket, some in _split(seen, seen[0] % tasks):
        yield bucket, (_GIVEN, some)
    tails = placed & (asked[_F] == F_TAIL)
    reported = np.stack([closed[_OFFSET], asked[_TIME], asked[_SEQ], closed[_TIME], closed[_SEQ]])[:, tails]
    yield 0, (_TAILS, reported)


def _jumped(rows: Ints, first: Ints, of: Ints, done: Array, asked: Ints, closed: Ints) -> bool:
    """Whether a reader was led over an offset, or given a value without a name."""
    given = np.flatnonzero((rows[_KIND] == OBSERVE) & done[of])
    reading = np.isin(asked[_F], READS)
    begin = np.where(reading, asked[_OFFSET], NULL)
    reach = begin.copy()
    jumped = bool((rows[_VALUE, given] == NULL).any())
    if len(given):
        op = of[given]
        head = np.flatnonzero(np.diff(op, prepend=-1))
        follows = np.ones(len(given), dtype=bool)
        follows[head] = False
        behind = np.roll(rows[_LAST, given], 1) + 1
        jumped = jumped or bool((follows & (rows[_OFFSET, given] > behind)).any())
        heads, known = op[head], begin[op[head]] != NULL
        jumped = jumped or bool((known & (rows[_OFFSET, given[head]] > begin[heads])).any())
        tail = np.append(head[1:], len(given)) - 1
        reach[op[tail]] = rows[_LAST, given[tail]] + 1
    ends = done & np.isin(closed[_F], READS) & (closed[_OFFSET] != NULL) & (reach != NULL)
    return jumped or bool((ends & (closed[_OFFSET] > reach)).any())


def _ranges(chunks: Iterable[tuple[int, _Chunk]], tasks: int, width: int) -> Iterator[tuple[int, _Chunk]]:
    """The entries of some values, and the tails, by range of offsets."""
    found, notes = _gathered(chunks)
    for note in notes:
        yield 0, (_NOTES, note)
    if _TAILS in found:
        for place, some in _split(found[_TAILS], np.minimum(found[_TAILS][0] // width, tasks - 1)):
            yield place, (_TAILS, some)
    appends = found.get(_APPENDED, np.zeros((8, 0), dtype=np.int64))
    seen = found.get(_GIVEN, np.zeros((5, 0), dtype=np.int64))
    appends = appends[:, np.lexsort((appends[2], appends[0]))]
    if not appends.shape[1]:
        yield 0, (_NOTES, _Notes(refused=seen.shape[1] > 0))
        return
    first = np.flatnonzero(np.diff(appends[0], prepend=appends[0][0] - 1))
    value = appends[0][first]
    failed = np.logical_and.reduceat(appends[3] > 0, first)
    placed = appends[:, appends[4] >= 0]
    reported = np.concatenate([placed[[0, 4, 5, 6, 7]], seen], axis=1)
    reported = reported[:, np.lexsort((reported[4], reported[2], reported[1], reported[0]))]
    once = np.ones(reported.shape[1], dtype=bool)
    once[1:] = (np.diff(reported[:3], axis=1) != 0).any(axis=0)
    reported = reported[:, once]
    row = np.minimum(np.searchsorted(value, reported[0]), len(value) - 1)
    twice = bool((np.diff(reported[0]) == 0).any())
    refused = twice or bool((value[row] != reported[0]).any()) or bool(failed[row].any())
    yield 0, (_NOTES, _Notes(refused))
    entries = np.stack(
        [reported[1], reported[2], reported[3], reported[4], appends[1][first][row], appends[2][first][row]]
    )
    for place, some in _split(entries, np.minimum(entries[0] // width, tasks - 1)):
        yield place, (_ENTRIES, some)


def _range(place: int, chunks: Iterable[tuple[int, _Chunk]]) -> Iterator[_Judged]:
    """What one range of offsets says."""
    found, notes = _gathered(chunks)
    entries = found.get(_ENTRIES, np.zeros((6, 0), dtype=np.int64))
    tails = found.get(_TAILS, np.zeros((5, 0), dtype=np.int64))
    entries = entries[:, np.argsort(entries[0], kind="stable")]
    offset, last, latest, latest_seq, invoked, invoked_seq = entries
    length, asked, asked_seq, answered, answered_seq = tails
    reached = np.maximum.accumulate(last)
    overlap = bool((offset[1:] <= reached[:-1]).any())
    ends = Ends(length, asked, answered, np.ones(len(length), dtype=bool), asked_seq, answered_seq)
    said = range_of(Bounds(offset, invoked, invoked_seq), Bounds(offset, latest, latest_seq), ends)
    yield _Judged(
        place,
        (*notes, _Notes(refused=overlap or said.violated > 0)),
        int(offset[0]) if len(offset) else 0,
        int(reached[-1]) if len(offset) else -1,
        len(offset),
        int(np.count_nonzero(offset[1:] > reached[:-1] + 1)),
        len(length),
        int(length.max(initial=0)),
        said,
    )


def _together(parts: list[_Judged]) -> tuple[str | None, Outcome] | None:
    notes = [note for part in parts for note in part.notes]
    spans = sorted(note.span for note in notes if note.span is not None)
    logs = frozenset(log for note in notes for log in note.logs)
    steady = all(before[2] <= after[1] for before, after in pairwise(spans))
    moves = bool(spans) and spans[0][1] < spans[-1][2]
    if any(note.refused for note in notes) or len(logs) != 1 or not steady or not moves:
        return None
    whole: Range | None = None
    end, gaps = -1, 0
    for part in sorted(parts, key=lambda part: part.place):
        assert part.range is not None
        whole = part.range if whole is None else merge(whole, part.range)
        if part.entries:
            if part.first <= end:
                return None
            gaps += part.gaps + (part.first > end + 1)
            end = part.last
    gaps += max(part.top for part in parts) > end + 1
    dense = not any(note.sparse for note in notes)
    if whole is None or whole.violated or (dense and (gaps or any(note.nothing for note in notes))):
        return None
    judged = sum(part.entries + part.tails for part in parts)
    (log,) = logs
    excuses = (Excuse(CAUSES[GAP], (), int(gaps), -1),) if gaps and not dense else ()
    return log, outcome(CHECK, judged, excuses=excuses)
