"""A part of a disk that looks like a disk of its own: several groups of one process share one (raft.md#heartbeats)."""

from __future__ import annotations

from quorumlog.storage.disk import Disk, SyncPoint


class Folder:
    """Everything lies under the directory ``name`` of ``disk``, which whoever made it closes."""

    def __init__(self, disk: Disk, name: str) -> None:
        """Make the directory, durably."""
        self._disk = disk
        self._name = name
        disk.make_directory(name)

    def _path(self, path: str) -> str:
        return f"{self._name}/{path}" if path else self._name

    def make_directory(self, directory: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self._disk.make_directory(self._path(directory))

    def list(self, directory: str) -> list[str]:
        """See `quorumlog.storage.disk.Disk`."""
        return self._disk.list(self._path(directory))

    def exists(self, path: str) -> bool:
        """See `quorumlog.storage.disk.Disk`."""
        return self._disk.exists(self._path(path))

    def size(self, path: str) -> int:
        """See `quorumlog.storage.disk.Disk`."""
        return self._disk.size(self._path(path))

    def create(self, path: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self._disk.create(self._path(path))

    def append(self, path: str, data: bytes) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self._disk.append(self._path(path), data)

    def read(self, path: str, position: int, count: int) -> bytes:
        """See `quorumlog.storage.disk.Disk`."""
        return self._disk.read(self._path(path), position, count)

    def sync_point(self, path: str) -> SyncPoint:
        """See `quorumlog.storage.disk.Disk`."""
        return self._disk.sync_point(self._path(path))

    def sync(self, path: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self._disk.sync(self._path(path))

    def truncate(self, path: str, size: int) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self._disk.truncate(self._path(path), size)

    def rewrite(self, path: str, position: int) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self._disk.rewrite(self._path(path), position)

    def replace(self, path: str, data: bytes) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self._disk.replace(self._path(path), data)

    def remove(self, path: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self._disk.remove(self._path(path))

    def close(self) -> None:
        """Do nothing: others use the disk as well."""
