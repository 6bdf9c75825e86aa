"""A node's history: its own file for each incarnation, stamped with the hybrid logical clock, written at every `flush`.

An event is encoded at once and handed to the operating system before anything that follows from it leaves the process,
so the file of a killed node has everything that others can know. One thing can be missing: a change of the log that was
on its way when SIGKILL came. It shows after the restart, so `quorumlog.node.missing` finds it, by comparing the log
with the file of the incarnation before, and the new incarnation records it first, as the old one's last events.

While it is written a file is called ``node-N.I.jsonl.part`` as all histories in progress are (N the node, I the
incarnation).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from loghistory import HybridClock
from loghistory.jsonl import HEADER, Event
from loghistory.recorder import UNFINISHED
from loghistory.schema import Kind
from quorumlog.node.wire import Stamp

_lines = msgspec.json.Encoder()
_event = msgspec.json.Decoder(Event)
_ROOM = 1 << 20


class History(Protocol):
    """Where a node's events go; either a `HistoryFile` or `NoHistory`."""

    clock: HybridClock
    records: bool
    """Whether events are kept; if not, nobody need make them."""

    def event(self, kind: str, columns: Mapping[str, Any], moment: int | None = None) -> None:
        """Record one event of this node, stamped now, or with the ``moment`` (wall clock) at which its step began."""

    def stamped(self, kind: str, stamp: Stamp, columns: Mapping[str, Any]) -> None:
        """Record one event of this node, with a stamp that was taken before."""

    def storage_error(self, reason: str) -> None:
        """Record that the disk failed, if that can still be recorded, and write what there is."""

    def flush(self) -> None:
        """Write all events so far: they outlive a SIGKILL. Raises OSError."""

    def close(self) -> None:
        """Write, and give the file its final name. Raises OSError."""


class NoHistory:
    """Records nothing; the clock still runs, because other processes record."""

    records = False

    def __init__(self, clock: HybridClock) -> None:
        self.clock = clock

    def event(self, kind: str, columns: Mapping[str, Any], moment: int | None = None) -> None:
        """Record nothing, as this node keeps no history; see `History.event`."""

    def stamped(self, kind: str, stamp: Stamp, columns: Mapping[str, Any]) -> None:
        """Record nothing, as this node keeps no history; see `History.stamped`."""

    def storage_error(self, reason: str) -> None:
        """Record nothing, as this node keeps no history; see `History.storage_error`."""

    def flush(self) -> None:
        """Do nothing, as there is no file; see `History.flush`."""

    def close(self) -> None:
        """Do nothing, as there is no file; see `History.close`."""


class HistoryFile:
    """Streams the events of one process; each has the columns ``common`` unless it brings its own."""

    records = True

    def __init__(self, path: Path, clock: HybridClock, common: Mapping[str, Any]) -> None:
        """Begin the file; raises OSError, also if it exists: a history is never overwritten."""
        self.clock = clock
        self._path = path
        self._common = dict(common)
        self._seq = 0
        self._events: list[dict[str, Any]] = []
        self._size = 0
        self._unfinished = path.with_name(path.name + UNFINISHED)
        self._file = os.open(self._unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._write(HEADER)

    def event(self, kind: str, columns: Mapping[str, Any], moment: int | None = None) -> None:
        """Record one event, stamped now or at ``moment``; ``columns`` are those of `loghistory.schema`."""
        self.stamped(kind, self.clock.tick(moment), columns)

    def stamped(self, kind: str, stamp: Stamp, columns: Mapping[str, Any]) -> None:
        """Record one event with a stamp that was taken before."""
        time, logical = stamp
        seq = self._seq
        self._seq = seq + 1
        self._events.append({"seq": seq, "time": time, "logical": logical, "kind": kind, **self._common, **columns})

    def storage_error(self, reason: str) -> None:
        """Record that the disk failed; on a full disk that may be impossible, and is then skipped silently."""
        self.event(Kind.STORAGE_ERROR, {"reason": reason, "log": None})  # it concerns all logs of the process
        try:
            self.flush()
        except OSError:
            return

    def flush(self) -> None:
        """Write all events so far. Raises OSError."""
        if self._events:
            events, self._events = self._events, []
            self._write(_lines.encode_lines(events))

    def close(self) -> None:
        """Write, and give the file its final name. Raises OSError."""
        self.flush()
        os.close(self._file)
        self._unfinished.rename(self._path)

    def _write(self, data: bytes) -> None:
        """Write all of it or nothing, so that what may still follow begins on a new line. Raises OSError."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)


def begin_history(directory: Path | None, node: int, incarnation: int) -> History:
    """The history of this incarnation, later than all that the one before recorded. Raises OSError, and ValueError for
    a clock that is far behind."""
    clock = HybridClock()
    if directory is None:
        return NoHistory(clock)
    directory.mkdir(parents=True, exist_ok=True)
    before = find_history(history_path(directory, node, incarnation - 1)) if incarnation else None
    if before is not None:
        clock.merge(end_stamp(before)[0])
    return HistoryFile(history_path(directory, node, incarnation), clock, {"node": node, "incarnation": incarnation})


def history_path(directory: Path, node: int, incarnation: int) -> Path:
    """The final name of a node's history file."""
    return directory / f"node-{node}.{incarnation}.jsonl"


def find_history(path: Path) -> Path | None:
    """The file under its final or its unfinished name, whichever is there."""
    for candidate in (path, path.with_name(path.name + UNFINISHED)):
        if candidate.exists():
            return candidate
    return None


def whole_events(path: Path) -> Iterator[Any]:
    """The events of a file of this module, up to its last whole line."""
    with path.open("rb") as file:
        next(file, None)
        for line in file:
            if not line.endswith(b"\n"):
                return
            try:
                yield _event.decode(line)
            except msgspec.MsgspecError:
                return


def end_stamp(path: Path) -> tuple[Stamp, Stamp]:
    """The stamp of a file's last whole event, and one that is later than anything that `missing_changes` adds to it."""
    last = (0, 0)
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 16)))
        for line in file.read().split(b"\n")[:-1]:
            try:
                event: Any = _event.decode(line)
            except msgspec.MsgspecError:
                continue  # the header, or the rest of a line that begins before what was read
            last = (event.time, event.logical or 0)
    return last, (last[0], last[1] + _ROOM)
