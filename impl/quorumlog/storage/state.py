"""What a log records beside its segments: where it starts, and up to where it is known to be durable.

A torn tail and bit rot look alike to a checksum. Only the knowledge that a place had been flushed distinguishes them,
so the log writes down at times (on opening, on closing, and after every so many flushed bytes) how far it is known to
be durable. Recovery may cut behind that place, and never in front of it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from quorumlog.storage.disk import Disk
from quorumlog.storage.sealed import read_sealed, write_sealed

_MAGIC = b"LWS1"
_CONTENT = struct.Struct(">qqq?")


@dataclass(frozen=True, slots=True)
class LogState:
    """The state file of a log.

    `start_offset` is the first offset kept and `term_before` the term of the offset before it (-1: there is
    none). `known_flushed` is an offset up to which the log is durable; it may be further. While a log is
    emptied `cut_behind` is set: what lies behind `known_flushed` is to go, so the next opening cuts there.
    """

    start_offset: int = 0
    term_before: int = -1
    known_flushed: int = -1
    cut_behind: bool = False

    def save(self, disk: Disk, path: str) -> None:
        """Replace the state file at ``path``, durably. Raises `StorageError`."""
        content = _CONTENT.pack(self.start_offset, self.term_before, self.known_flushed, self.cut_behind)
        write_sealed(disk, path, _MAGIC, content)


def load_state(disk: Disk, path: str) -> LogState:
    """The state on the disk; that of a new log if there is none. Raises `FileDamaged`."""
    content = read_sealed(disk, path, _MAGIC, _CONTENT.size)
    return LogState() if content is None else LogState(*_CONTENT.unpack(content))


def is_begun(disk: Disk, directory: str) -> bool:
    """Whether a log was ever opened in a directory; not if its disk was wiped since."""
    return disk.exists(f"{directory}/state")
