"""What a replica keeps on its disk beside its log, and what it finds there when it starts.

A log that does not begin at offset 0 begins behind a snapshot. There is a file for each beginning, written before the
log begins there: until it does, the file of the beginning before is the right one. A file appears whole, by a rename,
so a crash leaves the old state or the new one (raft.md#trim, raft.md#snapshot-transfer).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from operator import itemgetter

from quorumlog.quorum import NOTHING
from quorumlog.raft.events import ReadSnapshot, SnapshotRead, TakeSnapshot
from quorumlog.raft.index import LogIndex
from quorumlog.raft.members import Members
from quorumlog.raft.rules import NOBODY
from quorumlog.raft.snapshot import Snapshot, State
from quorumlog.raft.state import Restored
from quorumlog.storage.batch import BatchKind, RecordBatch
from quorumlog.storage.disk import Disk
from quorumlog.storage.log import Log
from quorumlog.storage.sealed import FileDamaged, read_sealed, settle, write_sealed
from quorumlog.storage.vote import VoteStore

_DIRECTORY = "log"
_NAME = "snapshot-"
MAGIC = b"LWN1"
_READ_BYTES = 1 << 20


class StateMachine:
    """What was applied of a log, and the snapshot that the log begins with. Methods raise `StorageError`."""

    def __init__(self, disk: Disk, log: Log) -> None:
        """Begin with the snapshot of the log's beginning; those of other beginnings go."""
        self._disk = disk
        self._log = log
        self.state = State()  # of all that was applied
        self._files: list[str] = []
        kept = None if log.start_offset == 0 else _path(log.start_offset)
        for name in disk.list(_DIRECTORY):
            path = f"{_DIRECTORY}/{name}"
            if name.startswith(_NAME) and path != kept:
                disk.remove(path)
        self.snapshot = None if kept is None else self._load(kept)
        self._fresh: deque[RecordBatch] = deque()  # the last ones appended that are not yet applied
        self._fresh_bytes = 0
        self._states = [(log.start_offset - 1, self.state)]  # before the log's beginning, and at ends of its segments

    def appended(self, batches: Sequence[RecordBatch]) -> None:
        """Remember what has just been appended, a megabyte at most, so that it need not be read back to be applied."""
        self._fresh += batches
        self._fresh_bytes += sum([len(batch.payload) for batch in batches])
        while self._fresh_bytes > _READ_BYTES:
            self._fresh_bytes -= len(self._fresh.popleft().payload)

    def truncated(self) -> None:
        """Forget what was appended: the log has lost some of it."""
        self._fresh.clear()
        self._fresh_bytes = 0

    def apply(self, first: int, last: int) -> None:
        """Apply the entries from ``first`` to ``last``, the next ones, which the log holds."""
        while first <= last:
            begin, end = self._log.segment_around(first)
            if first == begin > self._states[-1][0] + 1:
                self._states.append((first - 1, self.state))
            fresh = self._taken_fresh(first, min(last, end))
            self.state = self.state.applied(fresh)
            first = fresh[-1].last_offset + 1 if fresh else first
            self.state = self._applied(self.state, first, min(last, end))
            first = end + 1

    def take(self, taken: TakeSnapshot) -> None:
        """Keep a snapshot of what was applied up to an offset, durably; the log has to begin behind it next."""
        del self._states[: bisect_right(self._states, taken.last, key=itemgetter(0)) - 1]
        before, state = self._states[0]
        state = self._applied(state, before + 1, taken.last)
        self._states[0] = taken.last, state
        self._keep(Snapshot(taken.last, taken.term, taken.offset, taken.members, state))

    def install(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, durably, and go on from its state; the log has to begin behind it next."""
        self._keep(snapshot)
        self.state = snapshot.state
        self._states = [(snapshot.last, snapshot.state)]

    def read(self, asked: ReadSnapshot) -> SnapshotRead:
        """The part of the snapshot that is asked for, if there is no later one."""
        if self.snapshot is None or self.snapshot.last != asked.last:
            return SnapshotRead(asked.ticket, NOTHING, 0, b"", done=False)
        content = self.snapshot.encode()
        end = asked.position + asked.max_bytes
        return SnapshotRead(
            asked.ticket, asked.last, asked.position, content[asked.position : end], done=end >= len(content)
        )

    def _taken_fresh(self, first: int, last: int) -> list[RecordBatch]:
        """What was just appended from the offset ``first`` on, up to ``last`` at most."""
        found: list[RecordBatch] = []
        fresh = self._fresh
        while fresh and (end := fresh[0].last_offset) <= last:
            batch = fresh.popleft()
            self._fresh_bytes -= len(batch.payload)
            if batch.base_offset == first:
                found.append(batch)
                first = end + 1
        return found

    def _applied(self, state: State, first: int, last: int) -> State:
        while first <= last:
            batches = self._log.read(first, _READ_BYTES, last)
            state = state.applied(batches)
            first = batches[-1].last_offset + 1
        return state

    def _keep(self, snapshot: Snapshot) -> None:
        path = _path(snapshot.last + 1)
        self._write(path, snapshot.encode())
        for older in self._files[:-1]:
            self._disk.remove(older)
        self._files = [*self._files[-1:], path]
        self.snapshot = snapshot

    def _write(self, path: str, content: bytes) -> None:
        write_sealed(self._disk, path, MAGIC, content)

    def _load(self, path: str) -> Snapshot:
        content = read_sealed(self._disk, path, MAGIC)
        try:
            snapshot = Snapshot.decode(content or b"")
        except ValueError as error:
            raise FileDamaged(
                f"{path}: {error if content else 'missing'}, but the log does not begin at offset 0; restore the disk, "
                "or replace the node by an empty one under a new id"
            ) from None
        settle(self._disk, path)
        self._files, self.state = [path], snapshot.state
        return snapshot


def restore(log: Log, votes: VoteStore, machine: StateMachine) -> Restored:
    """What the disk holds. Raises `StorageError`."""
    term, voted_for = votes.load()
    index = LogIndex.of(
        ((place.base_offset, place.last_offset, place.term) for place in log.headers()),
        log.start_offset,
        log.term(log.start_offset - 1),
    )
    found = [(place.base_offset, place.size) for place in log.headers() if place.kind == BatchKind.CONFIGURATION]
    entries = [(offset, log.read(offset, size, offset)[0].payload) for offset, size in found]
    kept = machine.snapshot
    if kept is not None:
        entries.insert(0, (kept.offset, kept.members))
    try:
        members = [(offset, Members.decode(payload)) for offset, payload in entries]
    except ValueError as error:
        raise FileDamaged(f"the log: {error}; restore the disk, or replace the node by an empty one") from None
    return Restored(term, NOBODY if voted_for is None else voted_for, index, tuple(members))


def _path(start: int) -> str:
    return f"{_DIRECTORY}/{_NAME}{start:020}"
