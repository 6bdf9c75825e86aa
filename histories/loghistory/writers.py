"""Files of events: writing each format, one stream of rows at a time, with the digest of what was written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa

from . import jsonl, parquet, zstd
from .columns import Row, to_rows
from .schema import VERSION


class Format(StrEnum):
    """How a file holds its events; the value is what a command line calls it."""

    JSON_LINES = "jsonl"
    ZSTD = "zst"
    PARQUET = "parquet"

    @property
    def suffix(self) -> str:
        """What a file name ends with."""
        return {"jsonl": ".jsonl", "zst": ".jsonl.zst", "parquet": ".parquet"}[self.value]

    @classmethod
    def of_name(cls, path: Path) -> Format:
        """The format that a file name asks for; a `ValueError` if it asks for none."""
        for format_ in cls:
            if path.name.endswith(format_.suffix) or (format_ is cls.ZSTD and path.name.endswith(".zst")):
                return format_
        raise ValueError(f"{path}: the name must end in .jsonl, .jsonl.zst or .parquet")


class Digested:
    """A binary file that is written once, from start to end, and knows the SHA-256 and the number of its bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        """Write all of the data; returns the number of its bytes. Raises OSError."""
        self._file.write(data)
        self._hash.update(data)
        size = memoryview(data).nbytes
        self.size += size
        return size

    def writable(self) -> bool:
        """True: pyarrow asks before it writes."""
        return True

    def readable(self) -> bool:
        """False: what was written is not read back."""
        return False

    def seekable(self) -> bool:
        """False: the digest is of bytes written in order."""
        return False

    def tell(self) -> int:
        """Position in the file: the number of bytes written so far."""
        return self.size

    def flush(self) -> None:
        """Hand everything to the operating system, where it outlives this process."""
        self._file.flush()

    def close(self) -> None:
        """Nothing: the file belongs to its opener."""

    @property
    def digest(self) -> str:
        """``sha256:`` and the hexadecimal digest of the bytes written so far."""
        return f"sha256:{self._hash.hexdigest()}"


class LineWriter(Protocol):
    """Streams rows to a file such that every flushed event can be read whatever happens next."""

    regular: bool

    def write(self, rows: Sequence[Row]) -> None:
        """Add events, given as rows of the schema. Raises OSError."""

    def flush(self) -> None:
        """Hand all events so far to the operating system."""

    def close(self) -> None:
        """Write what is held back. The file stays open."""


class JsonLinesWriter:
    """Streams JSON Lines: the header at once, then a line an event."""

    regular = True

    def __init__(self, file: Digested, version: int = VERSION) -> None:
        self._file = file
        file.write(jsonl.header(version))

    def write(self, rows: Sequence[Row]) -> None:
        """Write the events, a line each. Raises OSError."""
        self._file.write(jsonl.encode(rows))

    def flush(self) -> None:
        """Hand all events so far to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Hand everything to the operating system."""
        self._file.flush()


class ZstdWriter:
    """JSON Lines + zstd in frames of a fixed number of events.

    A flush in between makes a shorter frame; ``regular`` is then False, and the bytes are no longer a function of the
    events alone.
    """

    def __init__(self, file: Digested, version: int = VERSION) -> None:
        self._file = file
        self._version = version
        self._held: list[Row] = []
        self._first = True
        self.regular = True

    def write(self, rows: Sequence[Row]) -> None:
        """Write every frame that is full, hold back the rest. Raises OSError."""
        self._held += rows
        while len(self._held) >= zstd.FRAME_EVENTS:
            self._frame(zstd.FRAME_EVENTS)

    def flush(self) -> None:
        """Hand all events so far to the operating system."""
        if self._held:
            self.regular = False
            self._frame(len(self._held))
        self._file.flush()

    def close(self) -> None:
        """Write the last frame, shorter than the others; the header alone if there was no event."""
        if self._held or self._first:
            self._frame(len(self._held))
        self._file.flush()

    def _frame(self, events: int) -> None:
        lines = jsonl.encode(self._held[:events])
        del self._held[:events]
        if self._first:
            self._first = False
            lines = jsonl.header(self._version) + lines
        self._file.write(zstd.compress(lines))


def line_writer(format_: Format, file: Digested, version: int = VERSION) -> LineWriter:
    """The streaming writer of a format; Parquet cannot be read before its end and is streamed as zstd."""
    return JsonLinesWriter(file, version) if format_ is Format.JSON_LINES else ZstdWriter(file, version)


def write_all(batches: Iterable[pa.RecordBatch], format_: Format, file: Digested, version: int = VERSION) -> None:
    """Write a whole file. The same events give the same bytes, however they are cut into batches.

    ``version`` is the one in which the events were recorded.
    """
    if format_ is Format.PARQUET:
        parquet.write(batches, file, version)
        return
    writer = line_writer(format_, file, version)
    for batch in batches:
        for start in range(0, batch.num_rows, zstd.FRAME_EVENTS):
            writer.write(list(to_rows(batch.slice(start, zstd.FRAME_EVENTS))))
    writer.close()
