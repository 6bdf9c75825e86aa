"""Reading a run: from a run directory or from a single file of events, in any format, as a stream of columns."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from . import compressed, importers, jsonl, manifest, parquet
from .columns import columns_in_order, conform, of_kinds, schema_of
from .errors import HistoryError, printable, quote
from .importers import ForeignFormat
from .lines import BrokenStream
from .manifest import Manifest
from .quarantine import Lenient, Quarantine, Strict, set_aside_in_words
from .recorder import UNFINISHED
from .schema import VERSION, Kind, schema_in, version_in
from .validity import flaws
from .writers import Format

BATCH_ROWS = 1 << 16
_EVENTS = "events"
_FOREIGN = {".edn": ForeignFormat.JEPSEN_EDN, ".json": ForeignFormat.JEPSEN_JSON}
"""What a file is by its name if nothing in it says so, such as an empty one."""


class RunSource:
    """The events of a run, read as often as wanted, each time as a stream; see `open_run`.

    ``path`` is what was opened, ``events`` the file that holds the events, ``format`` its format, ``manifest`` what
    the run says of itself (None: it has no manifest). After a reading, ``set_aside`` counts what a lenient reading
    refused, by reason, and ``notes`` has remarks for people, such as that the run was killed in mid-write. A lenient
    reading looks at all columns, so that what is set aside does not depend on which are asked for.
    """

    def __init__(
        self,
        path: Path,
        events: Path,
        found: Manifest | None,
        *,
        killed: bool,
        quarantine: Path | None,
        lenient: bool,
        format_: Format | ForeignFormat | None = None,
    ) -> None:
        self.path = path
        self.events = events
        self.manifest = found
        self.format = format_ or format_of(events)
        self._set_aside: Counter[str] = Counter()
        self._killed = killed
        self._torn = False
        self._lenient = lenient
        self._quarantine = quarantine

    @cached_property
    def version(self) -> int:
        """The schema version in which the events were recorded; the present one for histories of other tools."""
        if self.manifest is not None:
            return self.manifest.version
        if self.format is Format.PARQUET:
            return parquet.version_of(self.events)
        if isinstance(self.format, ForeignFormat):
            return VERSION
        start = _first_bytes(self.events)
        codec = "zstd" if self.format is Format.ZSTD else compressed.codec_of(start)
        return jsonl.version_of(start if codec is None else _first_unpacked(self.events, codec))

    @property
    def set_aside(self) -> Counter[str]:
        """What the last reading, a lenient one, has refused so far, by reason."""
        return self._set_aside

    @property
    def notes(self) -> list[str]:
        """Remarks on the run as far as it was read, each a sentence."""
        return self.recording_notes + self.set_aside_notes

    @property
    def recording_notes(self) -> list[str]:
        """Those on how it was recorded: its manifest's own, and what is missing for want of a proper end."""
        found = list(self.manifest.notes) if self.manifest else []
        if self._killed:
            found.append("There is no manifest: the recording was killed, or is still going on.")
        if self._torn:
            found.append("The file of events has no proper end; the events are those up to its last whole one.")
        return found

    @property
    def set_aside_notes(self) -> list[str]:
        """The remark on what lenient reading set aside, if there was any."""
        if not self.set_aside:
            return []
        kept = "" if self._quarantine is None else f", kept in {printable(str(self._quarantine))}"
        return [f"{set_aside_in_words(self.set_aside)}{kept}."]

    def batches(
        self,
        columns: Iterable[str] | None = None,
        kinds: Collection[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        *,
        coded_texts: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The events in order, as record batches of at most ``batch_rows`` rows.

        ``columns`` None: all of the schema, else those, in its order and types; ``kinds`` None: events of all kinds;
        ``coded_texts``: the column ``text`` may come dictionary encoded, which saves who counts texts much.
        Memory does not grow with the run. Bad input is a `HistoryError`; events before it were given already.
        """
        wanted = columns_in_order(columns)
        chosen = None if kinds is None else frozenset(str(Kind(kind)) for kind in kinds)
        aside: Quarantine = Lenient(self._quarantine) if self._lenient else Strict()
        self._set_aside = aside.counts if isinstance(aside, Lenient) else Counter()
        tally = None if self.manifest is None or chosen is not None else manifest.Tally()
        try:
            if self.format is Format.PARQUET:
                looked_at = None if self._lenient else wanted
                for batch in parquet.read(self.events, aside, looked_at, chosen, batch_rows, coded_texts=coded_texts):
                    if tally is not None:
                        tally.add(batch)
                    yield batch if looked_at is not None else batch.select(wanted)
            else:
                for batch in self._lines(aside):
                    if tally is not None:
                        tally.add(batch)
                    some = batch if chosen is None else of_kinds(batch, chosen)
                    for start in range(0, some.num_rows, batch_rows):
                        yield some.slice(start, batch_rows).select(wanted)
            if tally is not None and self.manifest is not None and not self._set_aside:
                tally.compare(self.manifest, self.path / manifest.FILE)
            aside.close()
        except FileNotFoundError:
            raise _no_file(self.events) from None
        finally:
            aside.abandon()

    def _lines(self, aside: Quarantine) -> Iterator[pa.RecordBatch]:
        end = jsonl.FileEnd()
        read, close = self._opened()
        try:
            if isinstance(self.format, ForeignFormat):
                yield from importers.read(read, str(self.events), aside, self.format)
            else:
                yield from jsonl.read(read, str(self.events), aside, end, torn_end_allowed=self._killed)
        finally:
            self._torn = end.torn
            close()

    def _opened(self) -> tuple[Callable[[int], bytes], Callable[[], None]]:
        """What reads the file, unpacked, and what closes it."""
        codec = "zstd" if self.format is Format.ZSTD else compressed.codec_of(_first_bytes(self.events))
        if codec is None:
            file = self.events.open("rb", buffering=0)
            return file.read, file.close
        stream = compressed.Reader(self.events, codec)
        return stream.read, stream.close

    def table(self, columns: Iterable[str] | None = None, kinds: Collection[str] | None = None) -> pa.Table:
        """All events at once, for runs that fit into memory; the metadata of its schema has their version."""
        wanted = columns_in_order(columns)
        table = pa.Table.from_batches(self.batches(wanted, kinds), schema_of(wanted)).unify_dictionaries()
        return table.replace_schema_metadata(schema_in(self.version).metadata)


def open_run(
    path: str | os.PathLike[str],
    *,
    lenient: bool = False,
    quarantine: str | os.PathLike[str] | None = None,
    verify: bool = True,
    format: Format | ForeignFormat | None = None,  # noqa: A002
) -> RunSource:
    """Open a run directory or a single file of events; the format is recognised by content, unless ``format`` says it.

    A file may also be a history of another tool (`loghistory.importers`), and compressed with zstd or gzip.

    With a manifest the size and (``verify``) the digest of the events file are compared first. A directory without
    manifest, and a file ``*.part``, is a run that was killed: its last line need not be whole. ``lenient`` sets bad
    events aside instead of stopping at the first one; they are counted, and kept in the file ``quarantine`` (None: not
    at all). Raises `HistoryError`.
    """
    place = Path(path)
    found: Manifest | None = None
    killed = False
    if place.is_dir():
        found = _manifest_of(place)
        events, killed = run_events(place), found is None
    else:
        events, killed = place, place.name.endswith(UNFINISHED)
    if not events.is_file():
        raise _no_file(events)
    if found is not None:
        _compare(events, found, verify)
    return RunSource(
        place,
        events,
        found,
        killed=killed,
        lenient=lenient,
        quarantine=Path(quarantine) if lenient and quarantine is not None else None,
        format_=format,
    )


def _manifest_of(directory: Path) -> Manifest | None:
    file = directory / manifest.FILE
    return manifest.read(file) if file.exists() else None


def run_events(directory: Path) -> Path:
    """The file of events of a run directory; it need not be there. Raises `HistoryError` for what is no run."""
    found = _manifest_of(directory)
    if found is not None:
        return directory / found.file
    for mark in (UNFINISHED, ""):
        for format_ in Format:
            path = directory / f"{_EVENTS}{format_.suffix}{mark}"
            if path.exists():
                return path
    raise HistoryError(
        directory, None, None, "not a run: it has no manifest.json and no events file", "name the directory of a run"
    )


def _no_file(path: Path) -> HistoryError:
    problem = "not a file" if path.exists() else "no such file"
    return HistoryError(path, None, None, problem, "name a run directory or a file of events")


def _compare(events: Path, found: Manifest, verify: bool) -> None:
    remedy = "copy the run again, or open the events file alone to read it without its manifest"
    size = events.stat().st_size
    if size != found.bytes:
        what = "cut off" if size < found.bytes else "too long"
        problem = f"{what}: {size} bytes where the manifest says {found.bytes}"
        raise HistoryError(events, None, None, problem, remedy)
    if verify:
        with events.open("rb") as file:
            digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        if digest != found.digests[found.file]:
            raise HistoryError(events, None, None, "the digest is not the one in the manifest", remedy)


def format_of(path: Path) -> Format | ForeignFormat:
    """The format of a file by its first bytes, those of what it expands to if it is compressed.

    What nothing is known of counts as what it is called, or as JSON Lines: reading it says what is wrong.
    Raises `HistoryError` if the file cannot be read, or has to be unpacked first.
    """
    return _recognised(path)[0]


def is_history(path: Path) -> bool:
    """Whether a file begins like a history, of whatever format. Raises `HistoryError` as `format_of` does."""
    return _recognised(path)[1]


def _recognised(path: Path) -> tuple[Format | ForeignFormat, bool]:
    """The format of a file, and whether its first bytes show it to be a history."""
    start = _first_bytes(path)
    if start.startswith(parquet.MAGIC):
        return Format.PARQUET, True
    compressed.refuse_archives(path, start)
    codec = compressed.codec_of(start)
    if codec is not None:
        start = _first_unpacked(path, codec)
    found = importers.foreign_format(start)
    if found is not None:
        return found, True
    ours = b'"kind"' in start[:256]
    called = (path.with_suffix("").suffix if codec is not None else path.suffix).lower()
    if called in _FOREIGN and not ours:
        return _FOREIGN[called], False
    return Format.ZSTD if codec == "zstd" else Format.JSON_LINES, ours


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(importers.SNIFFED)
    except FileNotFoundError:
        raise _no_file(path) from None
    except OSError as error:
        raise HistoryError(path, None, None, f"cannot be read ({error.strerror})", "check its permissions") from None


def _first_unpacked(path: Path, codec: str) -> bytes:
    """As far as it can be unpacked: reading it will say what is wrong with the rest."""
    stream = compressed.Reader(path, codec)
    start = b""
    try:
        while len(start) < importers.SNIFFED and (more := stream.read(importers.SNIFFED)):
            start += more
    except BrokenStream:
        pass
    finally:
        stream.close()
    return start


def checked(
    events: pa.Table | Iterable[pa.RecordBatch], name: str, version: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The events as batches of the schema, each found valid as recorded in ``version`` (None: as a table states it).

    Otherwise a `HistoryError` that calls their source ``name``.
    """
    version = version or version_in(events)
    batches = events.to_batches() if isinstance(events, pa.Table) else events
    last_seq: int | None = None
    first = 1
    for batch in batches:
        try:
            whole = conform(batch)
        except (pa.ArrowException, ValueError) as error:
            raise HistoryError(name, None, None, quote(str(error))[1:-1], "give columns of the schema") from None
        for flaw in flaws(whole, last_seq, version):
            raise HistoryError(name, first + flaw.row, flaw.field, flaw.problem, flaw.remedy, place="event")
        if whole.num_rows:
            last_seq = whole.column("seq")[-1].as_py()
        first += whole.num_rows
        yield whole
