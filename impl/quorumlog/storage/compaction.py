"""What compaction by key removes, and where it leaves gaps between the segments of a log.

A batch with a key is superseded once a later one with the same key is known to be committed. Whole batches go; what is
left of a segment takes the place of its file in one durable step. Within a segment a gap shows in the offsets of its
batches. Between two segments it would look like a lost file, so it is written down (`Borders`) before any file changes:
at every moment each border is either whole or explained. It is struck out when the batch behind it is cut.

Source: ghost-batches.md#compaction.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from quorumlog.storage.batch import NO_KEY, BatchKind
from quorumlog.storage.disk import Disk
from quorumlog.storage.sealed import FileDamaged, read_sealed, write_sealed

_MAGIC = b"LWG1"
_BORDER = struct.Struct(">qq")

Gap = tuple[int, int]
"""First and last offset of what is gone."""


class Keyed(NamedTuple):
    """A batch as compaction sees it. Offsets are inclusive, `kind` is a `BatchKind` number."""

    base_offset: int
    last_offset: int
    kind: int
    key: int


def may_go(batch: Keyed) -> bool:
    """Whether a later batch can supersede this one: data with a key (ghost-batches.md#never-removed)."""
    return batch.kind == BatchKind.DATA and batch.key != NO_KEY


def superseded(batches: Iterable[Keyed], bound: int) -> list[Gap]:
    """The batches that may go, given that all up to the offset ``bound`` is known to be committed, in order.

    ``batches`` are those of a log in order, and can be gone through twice; any behind ``bound`` remove nothing and are
    not removed (ghost-batches.md#superseded). Memory: a number for each key, and what is returned.
    """
    newest = {batch.key: batch.base_offset for batch in batches if batch.last_offset <= bound}
    return [
        (batch.base_offset, batch.last_offset)
        for batch in batches
        if batch.last_offset <= bound and may_go(batch) and newest[batch.key] > batch.base_offset
    ]


def borders_path(directory: str) -> str:
    """Where the gaps between the segments of the log in `directory` are written down."""
    return f"{directory}/gaps"


class Borders:
    """The gaps between the segments of a log, in a small file that is replaced whole; none without one."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Read the file. Raises `FileDamaged`."""
        self._disk = disk
        self._path = borders_path(directory)
        content = read_sealed(disk, self._path, _MAGIC) or b""
        if len(content) % _BORDER.size:
            raise FileDamaged(
                f"{self._path}: damaged: half a gap; restore the disk, or replace the node by an empty one"
            )
        self.gaps: tuple[Gap, ...] = tuple((first, last) for first, last in _BORDER.iter_unpack(content))

    def explain(self, first: int, last: int) -> bool:
        """Whether all offsets from ``first`` to ``last`` went by compaction."""
        return any(begin <= first and last <= end for begin, end in self.gaps)

    def write(self, gaps: Sequence[Gap]) -> None:
        """Replace the file, durably. Raises `StorageError`."""
        if tuple(gaps) != self.gaps:
            write_sealed(self._disk, self._path, _MAGIC, b"".join(_BORDER.pack(*gap) for gap in gaps))
            self.gaps = tuple(gaps)
