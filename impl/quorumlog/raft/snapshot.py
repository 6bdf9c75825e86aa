"""A snapshot: all of a log up to an offset, summed up, so that the log may begin behind it.

What the state machine makes of the log is small: how many records clients have written, and a chained checksum of the
values that name them, by which two replicas whose logs were not compacted can be compared. Sources: raft.md#snapshot,
raft.md#apply.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from crc32c import crc32c

from quorumlog.raft.members import MOST_BYTES, Members
from quorumlog.storage.batch import DATA, RecordBatch

_HEAD = struct.Struct(">qqqqI")
_PLACE = struct.Struct(">qq8s")
"""Where a batch is, and the value that its payload begins with."""
MOST_SNAPSHOT_BYTES = _HEAD.size + MOST_BYTES
"""No snapshot is larger."""
_LARGEST = 1 << 60


@dataclass(frozen=True, slots=True)
class State:
    """What was applied, summed up: records of clients, and the CRC-32C of where they are and what they are."""

    records: int = 0
    digest: int = 0

    def applied(self, batches: Iterable[RecordBatch]) -> State:
        """The state once these batches, which follow, are applied too."""
        records, places = self.records, []
        for batch in batches:
            if batch.kind is DATA:
                records += batch.record_count
                places.append(_PLACE.pack(batch.base_offset, batch.record_count, batch.payload))
        return State(records, crc32c(b"".join(places), self.digest))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All up to the offset ``last``, whose entry is of ``term``.

    ``members`` is the configuration in force there, as the entry at ``offset`` held it; ``state`` what the entries up
    to ``last`` make.
    """

    last: int
    term: int
    offset: int
    members: bytes
    state: State

    def encode(self) -> bytes:
        """The snapshot as it is kept and sent; `decode` reads it back."""
        return _HEAD.pack(self.last, self.term, self.offset, self.state.records, self.state.digest) + self.members

    @classmethod
    def decode(cls, content: bytes) -> Snapshot:
        """Read a snapshot. Raises ValueError with what is wrong with it."""
        if not _HEAD.size < len(content) <= MOST_SNAPSHOT_BYTES:
            raise ValueError(f"a snapshot of {len(content)} bytes is too short or too long")
        last, term, offset, records, digest = _HEAD.unpack_from(content)
        if not (0 <= last < _LARGEST and 0 <= term < _LARGEST and -1 <= offset <= last and records >= 0):
            raise ValueError(f"a snapshot up to offset {last} in term {term}, of the configuration at offset {offset}")
        members = content[_HEAD.size :]
        Members.decode(members)
        return cls(last, term, offset, members, State(records, digest))
