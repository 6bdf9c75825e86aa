"""Real files whose disk fails: it loses power, is full, cannot sync, or what lay on it is damaged.

A killed process leaves the page cache behind, so a SIGKILL loses nothing that was written. To lose it nonetheless, a
`PowerDisk` keeps a journal of every change and every sync, beside the data, which a SIGKILL does not lose either. After
the process has ended `lose_power` plays the journal on a `SimulatedDisk`, takes away the power of that, and makes the
real files what is left: contents, lengths and names that were not synced may or may not be there, torn at 512 bytes.

A file beside the journal makes the disk full or the next sync fail (`let_fail`); what a failed sync covered stays in
the page cache, and a power loss may take it. `damage` changes the files of a process that has ended.

The data is written twice, so this is for runs with such faults and for nothing else. Source: raft.md#power-loss,
raft.md#failed-fsync.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from quorumlog.storage.disk import DiskFull, FlushFailed, StorageError, SyncPoint
from quorumlog.storage.files import LOCK_NAME, FileDisk
from quorumlog.storage.recovery import known_to_be_flushed
from quorumlog.storage.simulated import SimulatedDisk

SECTOR_BYTES = 512
"""What a device writes whole or not at all."""

_OPERATIONS, _BASE, _LOST = "operations", "base", "power-was-lost"
FULL, SYNC_FAILS = "full", "sync-fails"
"""What `let_fail` can be asked for."""
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
        self._beside = journal
        self._journal = os.open(journal / _OPERATIONS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._encoder = msgspec.msgpack.Encoder()
        self._points = itertools.count(os.getpid() << 32)
        self._writing = threading.Lock()

    def write_down(self, does: str, path: str, number: int = 0, data: bytes = b"") -> None:
        """Add a line to the journal; may be called by any thread."""
        line = self._encoder.encode(_Change(does, path, number, data))
        with self._writing:
            os.write(self._journal, len(line).to_bytes(_LENGTH_BYTES, "big") + line)

    def spend_failure(self, path: str) -> None:
        """Raise FlushFailed if it is this sync that is to fail; may be called by any thread."""
        with self._writing:
            before = _syncs_before_failure(self._beside)
            if before is None:
                return
            if before:
                let_fail(self._beside, SYNC_FAILS, before - 1)
                return
            mend(self._beside, SYNC_FAILS)
        raise FlushFailed(f"{path}: sync failed (injected); restart the node, what was not flushed may be gone")

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
        self._check_room(path, data)
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
        """See `quorumlog.storage.disk.Disk`. After a sync that is to fail the old file is there."""
        self._check_room(path, data)
        self.spend_failure(path)
        super().replace(path, data)
        self.write_down("replace", path, data=data)

    def _check_room(self, path: str, data: bytes) -> None:
        if (self._beside / FULL).exists():
            raise DiskFull(f"{path}: no room for {len(data)} bytes (injected); free space")

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


def disk_of(data: str, journal: str | None) -> tuple[FileDisk, bool]:
    """The disk of a process, with a journal if it is to have one, and whether it lost power since it was used last.

    Raises `StorageError`.
    """
    if journal is None:
        return FileDisk(Path(data)), False
    disk = PowerDisk(Path(data), Path(journal))
    return disk, disk.lost_power


class _Point:
    """A sync point whose end is written down: only then is what it covers durable."""

    __slots__ = ("_disk", "_number", "_path", "_point")

    def __init__(self, disk: PowerDisk, path: str, number: int, point: SyncPoint) -> None:
        self._disk, self._path, self._number, self._point = disk, path, number, point

    def run(self) -> None:
        self._disk.spend_failure(self._path)
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


def let_fail(journal: Path, what: str, syncs_before: int = 0) -> None:
    """Make the disk `FULL`, or let a sync fail after so many more (`SYNC_FAILS`), until `mend`. Raises OSError."""
    new = journal / f"{what}.new"
    new.write_text(str(syncs_before))
    new.replace(journal / what)


def mend(journal: Path, what: str) -> None:
    """Undo `let_fail`, if it has not happened yet. Raises OSError."""
    (journal / what).unlink(missing_ok=True)


def _syncs_before_failure(journal: Path) -> int | None:
    try:
        return int((journal / SYNC_FAILS).read_text())
    except FileNotFoundError:
        return None


class Damage(NamedTuple):
    """What `damage` did to a file: ``before`` is its whole content, ``after`` None if the file is gone."""

    path: Path
    before: bytes
    after: bytes | None

    def undo(self) -> None:
        """Restore the file, unless something else was written since; its process must have ended. Raises OSError."""
        now = self.path.read_bytes() if self.path.exists() else None
        if now == self.after:
            self.path.write_bytes(self.before)


def flushed_of_log(disk: FileDisk) -> list[tuple[str, int]]:
    """The files of a replicated log that hold what is known to be flushed, and how many bytes of each do."""
    return known_to_be_flushed(disk, "log")


def damage(
    root: Path,
    random: Random,
    *,
    lose_name: bool,
    flushed: Callable[[FileDisk], list[tuple[str, int]]] = flushed_of_log,
) -> Damage | None:
    """Flip a bit of what is known to be flushed, or take such a file from its directory; its process must have ended.

    None if nothing is known to be flushed yet. Raises OSError and `StorageError`.
    """
    disk = FileDisk(root)
    try:
        files = [(path, size) for path, size in flushed(disk) if size]
    finally:
        disk.close()
    if not files:
        return None
    name, size = random.choice(files)
    path = root / name
    before = path.read_bytes()
    if lose_name:
        path.unlink()
        return Damage(path, before, None)
    after = bytearray(before)
    after[random.randrange(size)] ^= 1 << random.randrange(8)
    path.write_bytes(after)
    return Damage(path, before, bytes(after))


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
            raise StorageError(f"journal: {change.does!r} is not a change; it was written by another version")


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
