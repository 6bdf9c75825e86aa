"""What the log needs of a disk, and how a disk fails.

Two disks satisfy it: `quorumlog.storage.files.FileDisk` (real files) and
`quorumlog.storage.simulated.SimulatedDisk`. Paths are relative, with ``/`` between a directory and a name.
Writes reach the page cache; only a sync makes them durable, and a name also needs a sync of its directory.
"""

from __future__ import annotations

from typing import Protocol


class StorageError(Exception):
    """The disk, or what is stored on it, failed. A node that sees such an error stops itself."""


class DiskFull(StorageError):  # noqa: N818 - named for what happened
    """There is no space for what should be written (disk, quota or file size limit)."""


class FlushFailed(StorageError):  # noqa: N818 - named for what happened
    """A sync failed. What was not durable may be lost although it still reads well; trying again proves nothing."""


class DiskLocked(StorageError):  # noqa: N818 - named for what happened
    """Another process has this disk directory open."""


class SyncPoint(Protocol):
    """A sync in two steps: what is to become durable is fixed when it is taken, the waiting is done in `run`."""

    def run(self) -> None:
        """Make durable what the file held (or the names the directory held) when the point was taken.

        May run in another thread while the file is appended to, truncated or removed. Raises `FlushFailed`.
        """


class Disk(Protocol):
    """Files that are appended to, and small files that are replaced whole."""

    def make_directory(self, directory: str) -> None:
        """Create a directory, durably; one that exists is fine."""

    def list(self, directory: str) -> list[str]:
        """Names of the files in a directory, sorted."""

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""

    def size(self, path: str) -> int:
        """Length of the file in bytes."""

    def create(self, path: str) -> None:
        """Create an empty file that does not exist yet. Its name is durable after a sync of the directory."""

    def append(self, path: str, data: bytes) -> None:
        """Write at the end of the file, into the page cache.

        Raises `DiskFull`; a part of the data may be in the file then.
        """

    def read(self, path: str, position: int, count: int) -> bytes:
        """Up to `count` bytes from `position` on; fewer only at the end of the file."""

    def sync_point(self, path: str) -> SyncPoint:
        """Take a sync point of a file's bytes, or of a directory's names."""

    def sync(self, path: str) -> None:
        """Take a sync point and run it at once. Raises `FlushFailed`."""

    def truncate(self, path: str, size: int) -> None:
        """Shorten the file to `size` bytes; durable after a sync of the file."""

    def rewrite(self, path: str, position: int) -> None:
        """Write the bytes from `position` on once more, as they read now, into the page cache.

        After a failed sync the cache may consider them clean, and a later sync does not write them. Needs no space on
        the disk.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Put a whole small file in place of what was there: atomic, and durable when it returns.

        Raises `DiskFull`, after which the old content is in place, or `FlushFailed`, after which it is the old or the
        new.
        """

    def remove(self, path: str) -> None:
        """Remove a file; durable after a sync of the directory."""

    def close(self) -> None:
        """Release files and locks. Nothing is flushed."""
