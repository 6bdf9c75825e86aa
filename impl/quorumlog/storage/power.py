"""Real files that can lose power: a disk that writes down what it does, and what becomes of it when the power goes.

A killed process leaves the page cache behind, so a SIGKILL loses nothing that was written. To lose it nonetheless, a
`PowerDisk` keeps a journal of every change and every sync, beside the data, which a SIGKILL does not lose either. After
the process has ended `lose_power` plays the journal on a `SimulatedDisk`, takes away the power of that, and makes the
real files what is left: contents, lengths and names that were not synced may or may not be there, torn at 512 bytes.

The data is written twice, so this is for runs that cut the power and for nothing else. Source: raft.md#power-loss.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from quorumlog.storage.disk import StorageError, SyncPoint
from quorumlog.storage.files import LOCK_NAME, FileDisk
from quorumlog.storage.simulated import SimulatedDisk

SECTOR_BYTES = 512
"""What a device writes whole or not at all."""

_OPERATIONS, _BASE, _LOST = "operations", "base", "power-was-lost"
_LENGTH_BYTES = 4


class _Change(NamedTuple):
    """One line of the journal. ``number`` is a length, a position, or the number of a sync point."""

    does: str
    path: str
    number: int = 0
    data: bytes = b""


class PowerDisk(FileDisk):
    """A `FileDisk` with a journal in the directory ``journal``, which must be on the same machine and outside ``root``.

    ``lost_power`` says whether the power was lost before this process. Raises as `FileDisk` does.
    """

    def __init__(self, root: Path, journal: Path, max_open_files: int = 64) -> None:
        super().__init__(root, max_open_files)
        if not (journal / _BASE).exists():
            _begin(root, journal)
        self.lost_power = (journal / _LOST).exists()
        (journal / _LOST).unlink(missing_ok=True)
        self._journal = os.open(journal / _OPERATIONS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._encoder = msgspec.msgpack.Encoder()
        self._points = itertools.count(os.getpid() << 32)
        self._writing = threading.Lock()

    def write_down(self, does: str, path: str, number: int = 0, data: bytes = b"") -> None:
        """Add a line to the journal; may be called by any thread."""
        line = self._encoder.encode(_Change(does, path, number, data))
        with self._writing:
            os.write(self._journal, len(line).to_bytes(_LENGTH_BYTES, "big") + line)

    def make_directory(self, directory: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        super().make_directory(directory)
        self.write_down("directory", directory)

    def create(self, path: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        super().create(path)
        self.write_down("create", path)

    def append(self, path: str, data: bytes) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        before = self.size(path)
        try:
            super().append(path, data)
        finally:
            self.write_down("append", path, data=data[: self.size(path) - before])

    def sync_point(self, path: str) -> SyncPoint:
        """See `quorumlog.storage.disk.Disk`."""
        point = super().sync_point(path)
        number = next(self._points)
        self.write_down("point", path, number)
        return _Point(self, path, number, point)

    def truncate(self, path: str, size: int) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        super().truncate(path, size)
        self.write_down("truncate", path, size)

    def replace(self, path: str, data: bytes) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        super().replace(path, data)
        self.write_down("replace", path, data=data)

    def remove(self, path: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        super().remove(path)
        self.write_down("remove", path)

    def close(self) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        super().close()
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1


class _Point:
    """A sync point whose end is written down: only then is what it covers durable."""

    __slots__ = ("_disk", "_number", "_path", "_point")

    def __init__(self, disk: PowerDisk, path: str, number: int, point: SyncPoint) -> None:
        self._disk, self._path, self._number, self._point = disk, path, number, point

    def run(self) -> None:
        self._point.run()
        self._disk.write_down("synced", self._path, self._number)


def lose_power(root: Path, journal: Path, random: Random) -> int:
    """Take the power from a disk whose process has ended; returns how many bytes of its files are not there any more.

    Raises OSError, and `StorageError` if the journal contradicts itself.
    """
    disk = SimulatedDisk(random, sector_bytes=SECTOR_BYTES)
    base = journal / _BASE
    disk.hold({str(path.relative_to(base)): path.read_bytes() for path in base.rglob("*") if path.is_file()})
    points: dict[int, SyncPoint] = {}
    for change in _changes(journal / _OPERATIONS):
        _play(disk, change, points)
    before = disk.used_bytes
    disk.power_loss()
    left = disk.contents()
    for path in _files(root):
        if str(path.relative_to(root)) not in left:
            path.unlink()
    for name, content in left.items():
        if not (root / name).is_file() or (root / name).read_bytes() != content:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
    _begin(root, journal)
    (journal / _LOST).touch()
    return before - disk.used_bytes


def _play(disk: SimulatedDisk, change: _Change, points: dict[int, SyncPoint]) -> None:
    match change.does:
        case "directory":
            disk.make_directory(change.path)
        case "create":
            disk.create(change.path)
        case "append":
            disk.append(change.path, change.data)
        case "point":
            points[change.number] = disk.sync_point(change.path)
        case "synced":
            points.pop(change.number).run()
        case "truncate":
            disk.truncate(change.path, change.number)
        case "replace":
            disk.replace(change.path, change.data)
        case "remove":
            disk.remove(change.path)
        case _:
            raise StorageError(f"journal: {change.does!r} is no change; it was written by another version")


def _changes(operations: Path) -> Iterator[_Change]:
    """The lines of a journal; the last one may have been cut off by the end of the process."""
    decoder = msgspec.msgpack.Decoder(_Change)
    with operations.open("rb") as file:
        while len(length := file.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
            line = file.read(int.from_bytes(length, "big"))
            if len(line) < int.from_bytes(length, "big"):
                return
            yield decoder.decode(line)


def _begin(root: Path, journal: Path) -> None:
    """A new journal: everything that is there now is durable."""
    shutil.rmtree(journal / _BASE, ignore_errors=True)
    for path in _files(root):
        copy = journal / _BASE / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    (journal / _BASE).mkdir(parents=True, exist_ok=True)
    (journal / _OPERATIONS).write_bytes(b"")


def _files(root: Path) -> list[Path]:
    """The files of a disk."""
    return [path for path in root.rglob("*") if path.is_file() and path.name != LOCK_NAME]
