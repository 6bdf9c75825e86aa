"""Histories with very many logs: Spark brings the events of a log together, and one log after the other is judged.

Tasks that read the events send them, by log, to as many buckets as keep each within a task's memory; a task sorts its
bucket by log and ``seq``. No log costs a task, a file, or more than its own folds.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loghistory import HistoryError, open_run
from loghistory.columns import WORDS, schema_of

from ..checks.codes import FAULT, FAULT_WIPE, KINDS
from ..checks.columns import Columns, Ints, Reader
from ..checks.contract import Setting, Verdicts, quiet_first
from ..checks.kernel import compiled_pays
from ..checks.linearizable_log import FAMILY as LINEARIZABLE_LOG
from ..engine.local import families_for
from ..engine.logs import SHARED_KINDS
from ..engine.run import settled
from .concatenated_logs import judge_together
from .ingest import Large
from .partial import ManyLogs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKET_EVENTS = 500_000
"""Events of a bucket, about; the logs in it are smaller than that (`ingest.Large.heavy` has the others)."""

_BATCH = 1 << 17


@dataclass(frozen=True, slots=True)
class _Groups:
    """Some row groups of the file of a history."""

    first: int
    end: int


def judge_many_logs(spark: SparkSession, large: Large) -> ManyLogs:
    """Judge all logs of one history but the heavy ones. Raises `HistoryError` for what cannot be judged."""
    context = spark.sparkContext
    with large.events() as file:
        count = pq.read_metadata(file).num_row_groups
    slices = min(count, 4 * context.defaultParallelism)
    chunks = [_Groups(count * i // slices, count * (i + 1) // slices) for i in range(slices)]
    buckets = max(4 * context.defaultParallelism, int(large.row["events"]) // BUCKET_EVENTS + 1)
    sent = context.parallelize(chunks, slices).flatMap(partial(_spread, large=large, buckets=buckets))
    gathered = sent.partitionBy(buckets, _same)
    result = ManyLogs(Setting(()).keep)
    for part in gathered.mapPartitions(partial(_judge_bucket, large=large)).collect():
        if isinstance(part, HistoryError):
            raise part
        result.merge(part)
    return result


def _same(bucket: int) -> int:
    return bucket


def _reads(large: Large, file: Path) -> list[str]:
    setting = large.setting(compiled=False)
    columns = {name for family in families_for(None, setting) for name in family.columns}
    reads = Reader("", columns, setting.words).reads
    return [name for name in schema_of(pq.read_schema(file).names).names if name in reads]


def _spread(groups: _Groups, large: Large, buckets: int) -> Iterator[tuple[int, bytes]]:
    """The events of these row groups by bucket, each piece an Arrow stream."""
    pa.set_cpu_count(1)
    heavy = set(large.heavy or ())
    with large.events() as path:
        reads = _reads(large, path)
        file = pq.ParquetFile(path, read_dictionary=[name for name in WORDS if name in reads])
        for batch in file.iter_batches(_BATCH, row_groups=list(range(groups.first, groups.end)), columns=reads):
            logs = batch.column("log")
            names = logs.dictionary.to_pylist()
            of_name = [-1 if name in heavy else zlib.crc32(name.encode()) % buckets for name in names]
            codes = logs.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
            places = np.array([*of_name, 0])[codes]
            for bucket in np.unique(places[places >= 0]).tolist():
                chunk = batch.take(pa.array(np.flatnonzero(places == bucket)))
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, chunk.schema) as stream:
                    stream.write_batch(chunk)
                yield bucket, sink.getvalue().to_pybytes()


def _judge_bucket(chunks: Iterable[tuple[int, bytes]], large: Large) -> Iterator[ManyLogs | HistoryError]:
    """What the logs of a bucket come to, together."""
    pa.set_cpu_count(1)
    tables = [pa.ipc.open_stream(data).read_all() for _, data in chunks]
    try:
        yield _judge(large, tables)
    except HistoryError as problem:
        yield problem


def _judge(large: Large, tables: Sequence[pa.Table]) -> ManyLogs:
    setting = large.setting(compiled=compiled_pays(sum(table.num_rows for table in tables)))
    result = ManyLogs(setting.keep)
    if not tables:
        return result
    families = families_for(None, setting)
    reader = Reader(large.row["run"], {name for family in families for name in family.columns}, setting.words)
    shared = _shared(large, reader)
    names, columns, starts = _sorted(tables, reader)
    # What concerns all logs may be an emptied disk, which excuses what they lost.
    wiped = bool(((shared.kind == FAULT) & (shared.f == FAULT_WIPE)).any())
    together, apart = (None, set(range(len(starts)))) if wiped else judge_together(columns, starts, setting)
    if together is not None:
        result.tell(0, [together])
    for log, (name, start, end) in enumerate(zip(names, starts, [*starts[1:], len(columns.seq)], strict=True)):
        own = Columns(*(column[start:end] for column in columns))
        place = int(own.seq[0])
        if name is None:
            if _IS_SHARED[own.kind].all():
                continue
        elif len(shared.seq):
            own = _in_order(own, shared)
        folds = [family.start(setting) for family in families if log in apart or family is not LINEARIZABLE_LOG]
        for fold in folds:
            fold.feed(own)
        answers = [fold.finish() for fold in folds]
        losses = next((answer.losses for answer in reversed(answers) if answer.losses is not None), None)
        outcomes = tuple(each for answer in answers for each in answer.outcomes)
        result.add(place, name, settled(Verdicts(outcomes, losses, quiet_first(answers))))
    return result


_IS_SHARED = np.array([str(kind) in SHARED_KINDS for kind in KINDS])


def _sorted(tables: Sequence[pa.Table], reader: Reader) -> tuple[list[str | None], Columns, Ints]:
    """The events of a bucket by log and ``seq``: the names of the logs, all columns, and where each log begins."""
    whole = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    (batch,) = whole.to_batches()
    log = batch.column("log")
    names: list[str | None] = [*log.dictionary.to_pylist(), None]
    codes = log.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False)
    order = np.lexsort((batch.column("seq").to_numpy(), codes))
    columns = reader.columns(batch).where(order)
    codes = codes[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    return [names[code] for code in codes[starts].tolist()], columns, starts


def _shared(large: Large, reader: Reader) -> Columns:
    """The events without a log that concern all logs."""
    found = []
    with large.events() as file:
        for batch in open_run(file).batches(reader.reads, kinds=SHARED_KINDS):
            some = batch.filter(batch.column("log").is_null())
            if some.num_rows:
                found.append(reader.columns(some))
    if not found:
        return Columns(*(np.zeros(0, dtype=np.int64) for _ in Columns._fields))
    return Columns(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _in_order(own: Columns, shared: Columns) -> Columns:
    both = Columns(*(np.concatenate(pair) for pair in zip(own, shared, strict=True)))
    order: Ints = np.argsort(both.seq, kind="stable")
    return both.where(order)
