"""One history as canonical events: read once, checked in full, written as Parquet of the schema, judged meanwhile.

`Canonical` is a run source like any other, so what judges it does not know that its reading also writes. Its first
reading that comes to the end is the sweep: all columns are checked, bad lines go to the quarantine, good events to
their place. Later readings are of what was written.

A small history is kept as batches, for a file that it shares with others; a large one gets a file of its own. A
Parquet file that is canonical already, and clean, is copied as it is.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loghistory import SCHEMA, Format, RunSource
from loghistory.columns import WORDS, columns_in_order, of_kinds, rechunk
from loghistory.parquet import read as read_parquet
from loghistory.quarantine import Strict
from loghistory.schema import schema_in
from loghistory.source import BATCH_ROWS

SMALL = 1 << 17
"""Events from which on a history gets a file of its own."""


class Canonical(RunSource):
    """A history on its way into the audit. ``file`` is where its events go if they are many.

    After the sweep ``events_read`` counts the good events and ``small`` holds them if they are few (else None).
    ``watch`` is called with every batch of the sweep, and may raise to end the reading.
    """

    def __init__(self, source: RunSource, file: Path, watch: Callable[[pa.RecordBatch], None]) -> None:
        self.path, self.events, self.manifest, self.format = source.path, source.events, source.manifest, source.format
        self.version = source.version
        self.file = file
        self.small: list[pa.RecordBatch] | None = None
        self.events_read = 0
        self.swept = False
        self._source = source
        self._quarantine = None
        self._watch = watch
        self._as_it_is = source.format is Format.PARQUET and _is_canonical(source.events)

    @property
    def notes(self) -> list[str]:
        """As of the source, complete once it has been read to the end; what is set aside goes to no file that stays."""
        return self._source.recording_notes + self.set_aside_notes

    @property
    def set_aside(self) -> Counter[str]:
        """What the sweep has refused so far, by reason."""
        return self._source.set_aside

    @property
    def quarantined(self) -> int:
        """Lines or events that were set aside."""
        return self.set_aside.total()

    def batches(
        self,
        columns: Iterable[str] | None = None,
        kinds: Collection[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        *,
        coded_texts: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """As for every run source. The first reading to the end is the sweep."""
        wanted = columns_in_order(columns)
        chosen = None if kinds is None else frozenset(map(str, kinds))
        if self.swept and self.small is None:
            yield from read_parquet(self.file, Strict(), wanted, chosen, batch_rows, coded_texts=coded_texts)
            return
        for batch in self.small if self.swept and self.small is not None else self._sweep(batch_rows):
            some = batch if chosen is None else of_kinds(batch, chosen)
            for start in range(0, some.num_rows, batch_rows):
                yield some.slice(start, batch_rows).select(wanted)

    def sweep(self) -> None:
        """Read to the end if that was not done yet. Raises `HistoryError`."""
        if not self.swept:
            for _ in self._sweep(1 << 17):
                pass

    def _sweep(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        self.events_read = 0
        writing = _Writing(self.file, self.version, copies=self._as_it_is)
        try:
            for batch in self._source.batches(batch_rows=batch_rows):
                self._watch(batch)
                self.events_read += batch.num_rows
                writing.take(batch)
                yield batch
            if self._as_it_is and self.quarantined:
                self._as_it_is = False  # what was set aside must not be in the copy
                writing = _Writing(self.file, self.version, copies=False)
                for batch in self._source.batches(batch_rows=batch_rows):
                    writing.take(batch)
            self.small = writing.finish()
            if self.small is None and self._as_it_is:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self._source.events, self.file)
            self.swept = True
        finally:
            if not self.swept:
                writing.abandon()


class _Writing:
    """Takes the events of a sweep: a few are held, many go into the file (with ``copies`` nowhere)."""

    def __init__(self, file: Path, version: int, *, copies: bool) -> None:
        self._copies = copies
        self._version = version
        self._file = file
        self._held: list[pa.RecordBatch] = []
        self._events = 0
        self._writer: pq.ParquetWriter | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        """Take the next events, in order; they are written once there are `SMALL` of them."""
        self._events += batch.num_rows
        if self._copies and self._events >= SMALL:
            self._held = []
        else:
            self._held.append(batch)
            if sum(each.num_rows for each in self._held) >= SMALL:
                self._write(last=False)

    def _write(self, *, last: bool) -> None:
        if self._writer is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._file, schema_in(self._version), **PARQUET)
        groups = list(rechunk(self._held, SMALL))
        self._held = [groups.pop()] if groups and not last and groups[-1].num_rows < SMALL else []
        for group in groups:
            self._writer.write_batch(group, row_group_size=SMALL)

    def finish(self) -> list[pa.RecordBatch] | None:
        """The events if they are few, else None: then they are in the file, if it was to be written."""
        if self._events < SMALL:
            return self._held
        if not self._copies:
            self._write(last=True)
        self._close()
        return None

    def abandon(self) -> None:
        """Close and remove the file, because the history could not be read to the end."""
        self._close()
        self._file.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


PARQUET: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["run_id", *WORDS],
    "write_page_checksum": True,
    "version": "2.6",
}
"""How canonical events are written."""


def _is_canonical(file: Path) -> bool:
    try:
        schema = pq.read_schema(file)
    except (pa.ArrowException, OSError, ValueError):
        return False  # reading it says what is wrong
    version = (schema.metadata or {}).get(b"loghistory.version")
    return schema.equals(SCHEMA) and version == (SCHEMA.metadata or {}).get(b"loghistory.version")
