"""Writing a run: its events and its manifest, in one directory or, without a manifest, in one file.

    run/manifest.json        what the run is, how it was made, the digest and number of its events
    run/events.jsonl         or events.jsonl.zst or events.parquet

While it is recorded the events are in ``events.jsonl.part`` (or ``.jsonl.zst.part``) and there is no manifest, so a
killed run shows as one; it is readable up to its last whole event, and `RunSource.notes` says so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from .columns import Row
from .errors import HistoryError
from .manifest import Manifest, Tally, as_manifest
from .manifest import write as write_manifest
from .recorder import FileSink
from .schema import version_in
from .source import checked, open_run
from .writers import Digested, Format, write_all

_EVENTS = "events"


class RunSink:
    """Records a run directory. Parquet is streamed as JSON Lines + zstd and converted at the end.

    The manifest appears last. A directory that already holds a run is refused with a `HistoryError`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        manifest: Manifest | Mapping[str, Any],
        format: Format | str = Format.JSON_LINES,  # noqa: A002
    ) -> None:
        self.directory = Path(directory)
        self.name = str(directory)
        self._manifest = as_manifest(manifest)
        self._format = Format(format)
        _refuse_existing(self.directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        streamed = Format.ZSTD if self._format is Format.PARQUET else self._format
        self._stream = FileSink(self.directory / (_EVENTS + streamed.suffix))
        self._tally = Tally()

    def write(self, rows: Callable[[], Sequence[Row]], batch: pa.RecordBatch) -> None:
        """Write the events to the file and count them for the manifest. Raises OSError."""
        self._tally.add(batch)
        self._stream.write(rows, batch)

    def flush(self) -> None:
        """Hand all events so far to the operating system."""
        self._stream.flush()

    def close(self) -> None:
        """Finish the events file, then write the manifest."""
        self._stream.finish()
        events = self.directory / (_EVENTS + self._format.suffix)
        digested = self._stream.digested
        if self._stream.format is self._format and self._stream.regular:
            self._stream.unfinished.replace(events)
        else:
            source = open_run(self._stream.unfinished)
            unfinished = events.with_name(f"{events.name}.tmp")
            with unfinished.open("wb") as file:
                digested = Digested(file)
                write_all(source.batches(), self._format, digested)
            unfinished.replace(events)
            self._stream.unfinished.unlink(missing_ok=True)
        write_manifest(self.directory, self._tally.complete(self._manifest, events, digested))


def _refuse_existing(directory: Path) -> None:
    if directory.is_dir():
        if not any(directory.iterdir()):
            return
    elif not directory.exists():
        return
    raise HistoryError(directory, None, None, "already exists and is not empty", "name another directory")


def write_run(
    directory: str | os.PathLike[str],
    events: pa.Table | Iterable[pa.RecordBatch],
    manifest: Manifest | Mapping[str, Any] | Callable[[], Manifest],
    format: Format | str = Format.JSON_LINES,  # noqa: A002
    *,
    version: int | None = None,
) -> Manifest:
    """Write a run directory; it appears by rename, whole or not at all. Returns the completed manifest.

    ``events`` are checked like everything that is read. ``manifest`` may be a function that is called when all
    events are written, for what is known only then. ``version`` is the schema version in which the events were
    recorded (`RunSource.version`; None: as a table states it, else the present one), and the file states it. A
    directory that exists and is not empty is refused.
    """
    target, format_ = Path(directory), Format(format)
    _refuse_existing(target)
    version = version or version_in(events)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    with _writing(target):
        unfinished.mkdir(parents=True)
    try:
        path = unfinished / (_EVENTS + format_.suffix)
        tally = Tally()
        with _writing(target), path.open("wb") as file:
            digested = Digested(file)
            write_all(tally.through(checked(events, str(target), version)), format_, digested, version)
        given = manifest() if callable(manifest) else as_manifest(manifest)
        complete = tally.complete(given, path, digested, version)
        write_manifest(unfinished, complete)
        if target.is_dir():
            target.rmdir()
        unfinished.rename(target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return complete


def write_file(
    path: str | os.PathLike[str],
    events: pa.Table | Iterable[pa.RecordBatch],
    format: Format | str | None = None,  # noqa: A002
    *,
    version: int | None = None,
) -> int:
    """Write a single file of events, which appears by rename; returns their number.

    ``format`` None: as the name says (`Format.of_name`); ``version`` as for `write_run`. A file that exists is refused.
    """
    target = Path(path)
    format_ = Format(format) if format else Format.of_name(target)
    if target.exists():
        raise HistoryError(target, None, None, "already exists", "name another file")
    version = version or version_in(events)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    tally = Tally()
    try:
        with _writing(target), unfinished.open("wb") as file:
            write_all(tally.through(checked(events, str(target), version)), format_, Digested(file), version)
        unfinished.rename(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return tally.events


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """A disk that cannot take the output is a `HistoryError` about it."""
    try:
        yield
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        raise HistoryError(target, None, None, problem, "make room or name another place") from None
