"""What a replica finds on its disk when it starts: log, term and vote, configurations.

The configuration of a log that does not begin at offset 0 is kept in a file of its own for each beginning, written
before the log begins there: until it does, the file of the beginning before is the right one
(raft.md#trim).
"""

from __future__ import annotations

import struct

from quorumlog.raft.index import LogIndex
from quorumlog.raft.members import MOST_BYTES, Members
from quorumlog.raft.rules import NOBODY
from quorumlog.raft.state import Restored
from quorumlog.storage.batch import BatchKind
from quorumlog.storage.disk import Disk
from quorumlog.storage.log import Log
from quorumlog.storage.sealed import FileDamaged, read_sealed, settle, write_sealed
from quorumlog.storage.vote import VoteStore

_DIRECTORY = "log"
_NAME = "members-"
_MAGIC = b"LWM1"
_HEAD = struct.Struct(">qH")


def restore(disk: Disk, log: Log, votes: VoteStore) -> Restored:
    """What the disk holds. Raises `StorageError`."""
    term, voted_for = votes.load()
    index = LogIndex.of(
        ((place.base_offset, place.last_offset, place.term) for place in log.headers()),
        log.start_offset,
        log.term(log.start_offset - 1),
    )
    found = [(place.base_offset, place.size) for place in log.headers() if place.kind == BatchKind.CONFIGURATION]
    entries = [(offset, log.read(offset, size, offset)[0].payload) for offset, size in found]
    try:
        members = [
            (offset, Members.decode(payload)) for offset, payload in (*_before(disk, log.start_offset), *entries)
        ]
    except ValueError as error:
        raise FileDamaged(f"the log: {error}; restore the disk, or replace the node by an empty one") from None
    return Restored(term, NOBODY if voted_for is None else voted_for, index, tuple(members))


def save_members(disk: Disk, start: int, offset: int, members: bytes) -> None:
    """Keep the configuration, once the entry at ``offset``, of a log that will begin at ``start``; durably.

    Raises `StorageError`.
    """
    write_sealed(disk, _path(start), _MAGIC, _HEAD.pack(offset, len(members)) + members.ljust(MOST_BYTES, b"\0"))


def _before(disk: Disk, start: int) -> list[tuple[int, bytes]]:
    """Offset and payload of the configuration before ``start``, if it was kept; those of other beginnings go."""
    for name in disk.list(_DIRECTORY):
        path = f"{_DIRECTORY}/{name}"
        if name.startswith(_NAME) and path != _path(start):
            disk.remove(path)
    content = read_sealed(disk, _path(start), _MAGIC, _HEAD.size + MOST_BYTES)
    if content is None:
        return []
    settle(disk, _path(start))
    offset, size = _HEAD.unpack_from(content)
    return [(offset, content[_HEAD.size : _HEAD.size + size])]


def _path(start: int) -> str:
    return f"{_DIRECTORY}/{_NAME}{start:020}"
