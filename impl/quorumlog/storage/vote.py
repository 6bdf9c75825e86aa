"""The current term and the vote of a node, durable before any reply that depends on them leaves.

Source: raft.md#vote-durable. A damaged file is an error and never a silent reset: a node that forgot its vote could
vote twice in one term.
"""

from __future__ import annotations

import struct

from quorumlog.storage.disk import Disk
from quorumlog.storage.sealed import FileDamaged, read_sealed, settle, write_sealed
from quorumlog.storage.state import is_begun

_MAGIC = b"LWV1"
_CONTENT = struct.Struct(">qq")
_NOBODY = -1


class VoteStore:
    """The file `path` on `disk`. Node ids are 0 or larger."""

    def __init__(self, disk: Disk, path: str = "vote") -> None:
        self._disk = disk
        self._path = path

    def load(self) -> tuple[int, int | None]:
        """The term and whom the node voted for in it; (0, None) on a new disk. What it returns is durable.

        Raises `FileDamaged` or `FlushFailed`.
        """
        content = read_sealed(self._disk, self._path, _MAGIC, _CONTENT.size)
        if content is None:
            return 0, None
        settle(self._disk, self._path)
        term, voted_for = _CONTENT.unpack(content)
        return term, None if voted_for == _NOBODY else voted_for

    def begin(self, log: str = "log") -> None:
        """Before the log in the directory ``log`` is opened for the first time, write down that there is no vote yet.

        So a vote that is missing beside a log, even an empty one, was lost. Raises `FileDamaged` then, and what the
        disk raises.
        """
        if self._disk.exists(self._path):
            return
        if is_begun(self._disk, log):
            raise FileDamaged(
                f"{self._path}: it is missing beside a log; restore it, or remove the node's data and let it recover "
                "from the others"
            )
        self.save(0, None)

    def save(self, term: int, voted_for: int | None) -> None:
        """Replace term and vote; both are durable when it returns.

        Raises `DiskFull`, after which the old vote stands, or `FlushFailed`, after which it is the old or the new.
        """
        if term < 0 or (voted_for is not None and voted_for < 0):
            raise ValueError(f"term {term} and node id {voted_for} must not be negative")
        write_sealed(self._disk, self._path, _MAGIC, _CONTENT.pack(term, _NOBODY if voted_for is None else voted_for))
