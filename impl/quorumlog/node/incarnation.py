"""How often a process has been started on a disk: durable, so that no two of its lives have one number."""

from __future__ import annotations

import struct

from quorumlog.storage.disk import StorageError
from quorumlog.storage.files import FileDisk

INCARNATION = "incarnation"
"""The file that says so."""
_COUNTER = struct.Struct(">Q")


def next_incarnation(disk: FileDisk) -> int:
    """Count this start, durably; 0 for the first. Raises `StorageError`."""
    number = 0
    if disk.exists(INCARNATION):
        content = disk.read(INCARNATION, 0, _COUNTER.size + 1)
        if len(content) != _COUNTER.size:
            raise StorageError(f"{INCARNATION}: this file of the node's directory is damaged; restore the disk")
        (number,) = _COUNTER.unpack(content)
    disk.replace(INCARNATION, _COUNTER.pack(number + 1))
    return int(number)
