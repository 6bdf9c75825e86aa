"""Small files that are replaced whole and carry their own CRC-32C: the vote and the state of a log.

Format: magic (4 bytes), CRC-32C of the rest (u32, big-endian), content. Such a file is written by rename,
so a power loss leaves the old or the new one; a file that fails its checksum is therefore damage, never an
ordinary crash.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from quorumlog.storage.disk import Disk, StorageError

_PREFIX = struct.Struct(">4sI")


class FileDamaged(StorageError):  # noqa: N818 - named for what happened
    """A file that is written by rename fails its checksum or has another format."""


def sealed(magic: bytes, content: bytes) -> bytes:
    """The bytes of a file with this content."""
    return _PREFIX.pack(magic, crc32c(content)) + content


def write_sealed(disk: Disk, path: str, magic: bytes, content: bytes) -> None:
    """Replace the file, durably. Raises `DiskFull` or `FlushFailed`."""
    disk.replace(path, sealed(magic, content))


def read_sealed(disk: Disk, path: str, magic: bytes, size: int | None = None) -> bytes | None:
    """The content, which must have `size` bytes, if given; None if there is no such file. Raises `FileDamaged`."""
    if not disk.exists(path):
        return None
    expected = max(disk.size(path), _PREFIX.size) if size is None else _PREFIX.size + size
    whole = disk.read(path, 0, expected + 1)
    content = whole[_PREFIX.size :]
    if len(whole) != expected:
        raise FileDamaged(_sentence(path, f"it does not have the {expected} bytes it should have"))
    found, crc = _PREFIX.unpack_from(whole)
    if found != magic:
        raise FileDamaged(_sentence(path, f"it begins with {found!r}, not with {magic!r}"))
    if crc != crc32c(content):
        raise FileDamaged(_sentence(path, "its checksum does not match"))
    return content


def settle(disk: Disk, path: str) -> None:
    """Make durable what the file now reads as; a failed replacement may have left it in the page cache only. Needs no
    space on the disk. Raises `FlushFailed`.
    """
    disk.rewrite(path, 0)
    disk.sync(path)
    disk.sync(path.rpartition("/")[0])


def _sentence(path: str, problem: str) -> str:
    return f"{path}: damaged: {problem}; replace the node by an empty one under a new id, or restore the disk"
