"""The manifest of a run: what the run is, how it was made, the digest and number of its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from .arrays import different, occurrences
from .errors import HistoryError, quote
from .schema import VERSION, Kind
from .versions import known
from .writers import Digested

FILE = "manifest.json"

_MAX_BYTES = 16 << 20


class Manifest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a run is. Give the first four fields; the rest is filled in when the run is written."""

    name: str = ""
    """What people call the run."""
    made_by: dict[str, Any] = {}
    """How to make it again: ``{"command": [...]}`` or ``{"seed": n, "configuration": {...}}``."""
    expected: dict[str, Any] | None = None
    """The verdict expected of every check, by check id."""
    notes: list[str] = []
    """Remarks for people."""
    version: int = VERSION
    """Schema version of the events."""
    file: str = ""
    """Name of the events file in the directory."""
    bytes: int = 0
    """Size of the events file."""
    digests: dict[str, str] = {}
    """``sha256:<hex>`` of each file of the run, by name."""
    events: int = 0
    """Number of events."""
    counts: dict[str, int] = {}
    """Number of events of each kind that occurs."""
    nodes: list[int] = []
    """The nodes that occur, ascending."""


class Tally:
    """Counts what a manifest says about the events."""

    def __init__(self) -> None:
        self.events = 0
        self.kinds: Counter[str] = Counter()
        self.nodes: set[int] = set()
        self._columns = {"kind", "node"}  # that all batches had

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the events of a batch of the schema, as far as it has the columns."""
        self.events += batch.num_rows
        self._columns.intersection_update(batch.schema.names)
        if "kind" in batch.schema.names:
            self.kinds.update(occurrences(batch.column("kind")))
        if "node" in batch.schema.names:
            self.nodes.update(different(batch.column("node")))

    def through(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, counted as they pass."""
        for batch in batches:
            self.add(batch)
            yield batch

    def compare(self, manifest: Manifest, path: Path) -> None:
        """Raise a `HistoryError` where the manifest at ``path`` says other things of all events; it may say nothing."""
        if not manifest.events:
            return
        claims: list[tuple[str, object, object]] = [("events", manifest.events, self.events)]
        if "kind" in self._columns:
            claims.append(("counts", manifest.counts, {kind: count for kind, count in self.kinds.items() if count}))
        if "node" in self._columns:
            claims.append(("nodes", sorted(manifest.nodes), sorted(self.nodes)))
        for field, said, found in claims:
            if said != found:
                problem = f"{quote(said)} is not what the events show, {quote(found)}"
                remedy = "restore the manifest that was written with the run, or remove it to judge the events alone"
                raise HistoryError(path, None, field, problem, remedy)

    def complete(self, manifest: Manifest, events: Path, digested: Digested, version: int = VERSION) -> Manifest:
        """The manifest with what is known once the events file is written, in a schema version."""
        return msgspec.structs.replace(
            manifest,
            version=version,
            file=events.name,
            bytes=digested.size,
            digests={events.name: digested.digest},
            events=self.events,
            counts={str(kind): self.kinds[kind] for kind in Kind if self.kinds[kind]},
            nodes=sorted(self.nodes),
        )


def as_manifest(manifest: Manifest | Mapping[str, Any]) -> Manifest:
    """The manifest; a mapping of its fields will do."""
    return manifest if isinstance(manifest, Manifest) else msgspec.convert(dict(manifest), Manifest)


def write(directory: Path, manifest: Manifest) -> None:
    """Write the manifest of a run directory; it appears by rename. Same manifest, same bytes."""
    document = {"version": manifest.version} | msgspec.to_builtins(manifest)
    text = msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2) + b"\n"
    unfinished = directory / f"{FILE}.tmp"
    unfinished.write_bytes(text)
    unfinished.replace(directory / FILE)


def read(path: Path) -> Manifest:
    """The manifest in a file; a `HistoryError` if it is none, or of a later version."""
    remedy = "restore the file that was written with the run, or remove it to read the run without its digest"
    try:
        data = path.read_bytes() if path.stat().st_size <= _MAX_BYTES else b""
        document = msgspec.json.decode(data)
        version = document.get("version") if isinstance(document, dict) else None
        if type(version) is int:
            known(version, str(path))
        manifest = msgspec.convert(document, Manifest)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$.")
        raise HistoryError(path, None, place.rstrip("`") or None, quote(text)[1:-1], remedy) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HistoryError(path, None, None, f"not valid JSON, {quote(str(error))[1:-1]}", remedy) from None
    if "/" in manifest.file or "\\" in manifest.file or manifest.file in {"", ".", ".."}:
        problem = f"{quote(manifest.file)} is not a file name"
        raise HistoryError(path, None, "file", problem, "name the events file in the same directory")
    if manifest.file not in manifest.digests:
        problem = f"no digest of {quote(manifest.file)}"
        raise HistoryError(path, None, "digests", problem, remedy)
    return manifest
