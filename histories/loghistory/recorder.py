"""The recorder: what an implementation calls for each event, and where the events go.

    with Recorder(FileSink("run/node-1.jsonl")) as record:
        record.event(Kind.FLUSH, time=now, node=1, term=3, dirty=7, flushed=7, commit=5)

An event costs about half a microsecond: its values are put to those of the same shape (`collected`), and some thousands
of events at a time become one record batch, are checked as readers check them, and go to the sink. A mistake of the
caller (a required column left out, a float for an offset) is therefore a `HistoryError` a little later, which names the
event's ``seq``; an unknown kind or column is an error at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

from .collected import Collected, batch_of, rows_of
from .columns import Row
from .errors import HistoryError
from .schema import SCHEMA, Kind
from .validity import flaws
from .writers import Digested, Format, LineWriter, line_writer

BUFFER_EVENTS = 8192
"""Events that a recorder holds back before it hands them to its sink."""

_KINDS = frozenset(str(kind) for kind in Kind)
_GIVEN = tuple(name for name in SCHEMA.names if name not in {"seq", "time", "kind"})
_COLUMNS = frozenset(_GIVEN)


class Sink(Protocol):
    """Where recorded events go: memory, a file, a run directory."""

    name: str
    """What error messages call it."""

    def write(self, rows: Callable[[], Sequence[Row]], batch: pa.RecordBatch) -> None:
        """Take events, as a record batch of the schema, checked; ``rows`` makes rows of them, for who wants those."""

    def flush(self) -> None:
        """Make what was written outlive this process."""

    def close(self) -> None:
        """Finish: no event follows. Raises OSError if what is left cannot be written."""


class Recorder:
    """Numbers events and collects them for a sink. One thread at a time may use it."""

    __slots__ = ("_collected", "_first", "_full", "_next", "_sink")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._collected: Collected = {}
        self._first = self._next = 0  # the first event that is held back, and the next one
        self._full = BUFFER_EVENTS

    # written by tests/histories/derived.py
    def event(
        self,
        kind: str,
        *,
        time: int,
        logical: int | None = None,
        log: str | None = None,
        node: int | None = None,
        incarnation: int | None = None,
        process: int | None = None,
        op: int | None = None,
        txn: int | None = None,
        f: str | None = None,
        acks: int | None = None,
        term: int | None = None,
        role: str | None = None,
        offset: int | None = None,
        last_offset: int | None = None,
        entry_term: int | None = None,
        value: int | None = None,
        text: str | None = None,
        dirty: int | None = None,
        flushed: int | None = None,
        commit: int | None = None,
        visible: int | None = None,
        peer: int | None = None,
        message: int | None = None,
        count: int | None = None,
        bytes: int | None = None,  # noqa: A002
        reason: str | None = None,
        reserved: int | None = None,
        partition: int | None = None,
        stamp: int | None = None,
        epoch: int | None = None,
        version: int | None = None,
        filter: int | None = None,  # noqa: A002
        shards: int | None = None,
        record: str | None = None,
        wave: int | None = None,
        recovery: int | None = None,
        key: int | None = None,
        session: int | None = None,
    ) -> int:
        """Record one event and return its ``seq``: 0, 1, 2, ... in the order of the calls.

        ``kind`` is a word of `loghistory.Kind`, ``time`` in nanoseconds; the others are the columns of
        `loghistory.COLUMNS`. README.md says what each kind carries. An unknown kind is a `ValueError`, an
        unknown column a `TypeError`.

        One parameter for each column, so it is long; whoever has them in a dictionary calls `record`.
        """
        if kind not in _KINDS:
            raise ValueError(f"unknown kind {kind!r}; the kinds are {', '.join(Kind)}")
        events = self._collected.setdefault((kind, *_GIVEN), [])
        seq = self._next
        self._next = seq + 1
        events += (
            seq,
            time,
            logical,
            log,
            node,
            incarnation,
            process,
            op,
            txn,
            f,
            acks,
            term,
            role,
            offset,
            last_offset,
            entry_term,
            value,
            text,
            dirty,
            flushed,
            commit,
            visible,
            peer,
            message,
            count,
            bytes,
            reason,
            reserved,
            partition,
            stamp,
            epoch,
            version,
            filter,
            shards,
            record,
            wave,
            recovery,
            key,
            session,
        )
        if self._next >= self._full:
            self._hand_over()
        return seq

    # end

    def record(self, kind: str, time: int, columns: Mapping[str, Any]) -> int:
        """For columns that are in a dictionary: ``event(kind, time=time, **columns)`` takes four times the time."""
        shape = (kind, *columns)
        events = self._collected.get(shape)
        if events is None:
            if kind not in _KINDS or not _COLUMNS.issuperset(columns):
                return self.event(kind, time=time, **columns)  # which says what is wrong
            events = self._collected[shape] = []
        seq = self._next
        self._next = seq + 1
        events += (seq, time, *columns.values())
        if self._next >= self._full:
            self._hand_over()
        return seq

    def flush(self) -> None:
        """Hand all events so far to the operating system: they outlive a SIGKILL of this process."""
        self._hand_over()
        self._sink.flush()

    def close(self) -> None:
        """Hand over what is left and finish the sink."""
        self._hand_over()
        self._sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an exception flush only, so that a sink in files stays recognisable as unfinished."""
        if kind is None:
            self.close()
            return
        # The exception under way says more than that the last events could not be kept.
        with suppress(HistoryError, OSError):
            self.flush()

    def _hand_over(self) -> None:
        collected, first, size = self._collected, self._first, self._next - self._first
        if not size:
            return
        self._collected, self._first, self._full = {}, self._next, self._next + BUFFER_EVENTS
        batch = batch_of(collected, first, size, self._sink.name)
        for flaw in flaws(batch, first - 1 if first else None):
            seq = first + flaw.row
            raise HistoryError(self._sink.name, seq, flaw.field, flaw.problem, "correct what records it", place="event")
        self._sink.write(partial(rows_of, collected), batch)


class MemorySink:
    """Keeps the events as record batches; ``table`` has them once the recorder was flushed or closed."""

    name = "memory"

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    @property
    def table(self) -> pa.Table:
        """All events handed over so far, one chunk a column; the words of a column share one dictionary."""
        return pa.Table.from_batches(self.batches, SCHEMA).unify_dictionaries()

    def write(self, rows: Callable[[], Sequence[Row]], batch: pa.RecordBatch) -> None:
        """Keep the batch; rows are not made."""
        self.batches.append(batch)

    def flush(self) -> None:
        """Memory does not outlive the process; nothing is done."""

    def close(self) -> None:
        """All events are in ``batches`` already; nothing is done."""


UNFINISHED = ".part"
"""What the name of an events file ends with until its recorder is closed."""


class FileSink:
    """Streams events to one file, for one process of several; the format follows from the name (`Format.of_name`).

    The file is called ``<path>.part`` until it is closed, then ``<path>``: a process that was killed leaves the former,
    readable up to its last whole event. Parquet is not for this; merge or convert afterwards. A file that exists is
    refused with a `HistoryError`: a recording is never overwritten.
    """

    def __init__(self, path: str | os.PathLike[str], format: Format | None = None) -> None:  # noqa: A002
        self.path = Path(path)
        self.name = str(path)
        self.format = format or Format.of_name(self.path)
        if self.format is Format.PARQUET:
            raise ValueError(f"{path}: Parquet cannot be streamed; record .jsonl or .jsonl.zst and convert it")
        self.unfinished = self.path.with_name(self.path.name + UNFINISHED)
        for existing in (self.path, self.unfinished):
            if existing.exists():
                raise HistoryError(existing, None, None, "already exists", "name another file")
        self._file = self.unfinished.open("xb")
        self.digested = Digested(self._file)
        self._writer: LineWriter = line_writer(self.format, self.digested)

    @property
    def regular(self) -> bool:
        """Whether the bytes written are a function of the events alone; see `loghistory.writers`."""
        return self._writer.regular

    def write(self, rows: Callable[[], Sequence[Row]], batch: pa.RecordBatch) -> None:
        """Write the events to the file; those of an unfinished zstd frame are held back. Raises OSError."""
        self._writer.write(rows())

    def flush(self) -> None:
        """Hand all events so far to the operating system."""
        self._writer.flush()

    def close(self) -> None:
        """Finish the file and give it its name."""
        self.finish()
        self.unfinished.replace(self.path)

    def finish(self) -> None:
        """Finish the file and leave it under its unfinished name."""
        self._writer.close()
        self._file.close()
