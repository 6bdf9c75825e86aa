"""Real files: the disk of a node process.

One `FileDisk` owns one directory of the file system, held by an advisory lock so that no second process
opens it. Data is written at positions the disk keeps itself (a short write is continued, a failed one
leaves no doubt about where the file ends) and made durable by ``fdatasync``, or by ``F_FULLFSYNC`` where
the platform has it, because its ``fsync`` stops at the drive's cache. A name becomes durable by ``fsync``
of its directory.

A sync waits on the very file description that wrote the data: a file opened afterwards may never hear of an
error that the kernel saw before. Open files are bounded; one with data not yet synced is synced before it
is closed to make room.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quorumlog.storage.disk import DiskFull, DiskLocked, FlushFailed, StorageError, SyncPoint

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
LOCK_NAME = "lock"
_COPY_BYTES = 1 << 20
_TEMPORARY = ".new"


class _OpenFile:
    """A file descriptor, closed when its last user releases it: a flush in a thread may outlive the table."""

    __slots__ = ("changes", "descriptor", "path", "size", "synced_changes")

    def __init__(self, path: str, descriptor: int) -> None:
        self.descriptor = descriptor
        self.path = path
        self.size = os.fstat(descriptor).st_size
        self.changes = self.synced_changes = 0

    def __del__(self) -> None:
        os.close(self.descriptor)

    @property
    def clean(self) -> bool:
        return self.changes == self.synced_changes

    def sync(self, changes: int) -> None:
        with _syncing(self.path):
            _sync_data(self.descriptor)
        self.synced_changes = max(self.synced_changes, changes)


class _FilePoint:
    """A sync of a file. Bytes that are appended meanwhile may become durable as well, which does no harm."""

    __slots__ = ("_changes", "_file")

    def __init__(self, file: _OpenFile) -> None:
        self._file = file
        self._changes = file.changes

    def run(self) -> None:
        self._file.sync(self._changes)


class _NothingToDo:
    """A sync of a file that was synced when it was closed to make room."""

    __slots__ = ()

    def run(self) -> None:
        pass


class _DirectoryPoint:
    """A sync of the names of a directory."""

    __slots__ = ("_directory",)

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def run(self) -> None:
        with _syncing(str(self._directory)):
            _sync_directory(self._directory)


class FileDisk:
    """The files under `root`, which is created if need be. Raises `DiskLocked` if another process has it open.

    `max_open_files` bounds the descriptors held. Used from one thread; sync points may run in others.
    """

    def __init__(self, root: Path, max_open_files: int = 64) -> None:
        self._root = root
        self._max_open_files = max_open_files
        self._open_files: OrderedDict[str, _OpenFile] = OrderedDict()
        self._closed_clean: set[str] = set()  # closed after a sync, not changed since
        with _naming(str(root)):
            root.mkdir(parents=True, exist_ok=True)
            self._lock: int | None = os.open(root / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._lock)
                raise DiskLocked(
                    f"{root}: another process has it open; stop that one, or use another directory"
                ) from None
            _sync_directory(root)
            _sync_directory(root.parent)

    def make_directory(self, directory: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        with _naming(directory):
            path = self._root / directory
            path.mkdir(parents=True, exist_ok=True)
            for left in path.glob(f"*{_TEMPORARY}"):
                left.unlink()  # of a `replace` that a SIGKILL broke off
            while path != self._root:
                path = path.parent
                _sync_directory(path)

    def list(self, directory: str) -> list[str]:
        """See `quorumlog.storage.disk.Disk`."""
        with _naming(directory):
            return sorted(entry.name for entry in os.scandir(self._root / directory) if entry.is_file())

    def exists(self, path: str) -> bool:
        """See `quorumlog.storage.disk.Disk`."""
        return (self._root / path).is_file()

    def size(self, path: str) -> int:
        """See `quorumlog.storage.disk.Disk`."""
        return self._opened(path).size

    def create(self, path: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self._make_room()
        with _naming(path):
            descriptor = os.open(self._root / path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._open_files[path] = _OpenFile(path, descriptor)

    def append(self, path: str, data: bytes) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        file = self._opened(path)
        file.changes += 1
        self._closed_clean.discard(path)
        with _naming(path), memoryview(data) as view:
            written = 0
            while written < len(data):
                count = os.pwrite(file.descriptor, view[written:], file.size)
                written += count
                file.size += count

    def read(self, path: str, position: int, count: int) -> bytes:
        """See `quorumlog.storage.disk.Disk`."""
        file = self._opened(path)
        wanted = min(count, file.size - position)
        parts = []
        with _naming(path):
            while wanted > 0 and (part := os.pread(file.descriptor, wanted, position)):
                parts.append(part)
                position += len(part)
                wanted -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def sync_point(self, path: str) -> SyncPoint:
        """See `quorumlog.storage.disk.Disk`."""
        whole = self._root / path
        if whole.is_dir():
            return _DirectoryPoint(whole)
        # A flush of many files must not hold them all open.
        return _NothingToDo() if path in self._closed_clean else _FilePoint(self._opened(path))

    def sync(self, path: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self.sync_point(path).run()

    def truncate(self, path: str, size: int) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        file = self._opened(path)
        if size >= file.size:
            return
        file.changes += 1
        self._closed_clean.discard(path)
        with _naming(path):
            os.ftruncate(file.descriptor, size)
        file.size = size

    def rewrite(self, path: str, position: int) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        file = self._opened(path)
        file.changes += 1
        self._closed_clean.discard(path)
        with _naming(path):
            while part := os.pread(file.descriptor, _COPY_BYTES, position):
                with memoryview(part) as view:
                    written = 0
                    while written < len(part):
                        written += os.pwrite(file.descriptor, view[written:], position + written)
                position += len(part)

    def replace(self, path: str, data: bytes) -> None:
        """See `quorumlog.storage.disk.Disk`. May run in another thread than the rest."""
        target = self._root / path
        temporary = target.with_name(target.name + _TEMPORARY)
        try:
            with _naming(path):
                descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
                try:
                    written = 0
                    while written < len(data):
                        written += os.write(descriptor, data[written:])
                    with _syncing(path):
                        _sync_data(descriptor)
                finally:
                    os.close(descriptor)
                temporary.replace(target)
        except StorageError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        finally:
            self._open_files.pop(path, None)
        with _syncing(path):
            _sync_directory(target.parent)

    def remove(self, path: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self._open_files.pop(path, None)
        self._closed_clean.discard(path)
        with _naming(path):
            (self._root / path).unlink()

    def close(self) -> None:
        """See `quorumlog.storage.disk.Disk`. The disk cannot be used afterwards."""
        self._open_files.clear()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _opened(self, path: str) -> _OpenFile:
        file = self._open_files.get(path)
        if file is not None:
            self._open_files.move_to_end(path)
            return file
        self._make_room()
        with _naming(path):
            descriptor = os.open(self._root / path, os.O_RDWR | os.O_CLOEXEC)
        file = self._open_files[path] = _OpenFile(path, descriptor)
        return file

    def _make_room(self) -> None:
        while len(self._open_files) >= self._max_open_files:
            oldest = next(iter(self._open_files.values()))
            if not oldest.clean:
                oldest.sync(oldest.changes)
            if oldest.changes:
                self._closed_clean.add(oldest.path)
            del self._open_files[oldest.path]


def _sync_data(descriptor: int) -> None:
    """Make the data of a file durable, down to the medium where the platform offers that."""
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        getattr(os, "fdatasync", os.fsync)(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Errors of the system as errors of the disk, with the file's name."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFull(f"{path}: {error.strerror}; free space or raise the limit, then restart the node") from error
        raise StorageError(f"{path}: {error.strerror}") from error


@contextmanager
def _syncing(path: str) -> Iterator[None]:
    """Whatever goes wrong in a sync, the outcome is the same: nobody knows what is durable."""
    try:
        yield
    except OSError as error:
        raise FlushFailed(
            f"{path}: sync failed: {error.strerror}; what was not flushed may be gone; check the disk, then restart "
            "the node"
        ) from error
