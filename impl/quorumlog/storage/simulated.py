"""A disk in memory that loses what a real one may lose.

Each file knows how much of it is durable. A power loss keeps, file by file, the durable bytes and any prefix of the
rest: nothing of it, all of it, or a cut in the middle of a batch, sometimes with a hole of zeros in it. So a later
segment can survive whole while an earlier one lost its tail. Names that were created or removed without a sync of their
directory may or may not have happened. A truncation that was not synced may be undone. A process that is killed loses
nothing: the page cache lives, so a new `Log.open` on the same disk is all there is to it.

A failing sync loses for good what was not durable: either it disappears at once, or it keeps reading well and is gone
after the next power loss although later syncs succeed, unless it was written once more, which is what some file
systems do. A replacement whose sync fails leaves the old file, or shows the new one although a power loss may bring
the old one back. All choices come from the `random.Random` given, so a run is reproduced from its seed. How long a
sync takes is the driver's business.

Source: raft.md#power-loss, raft.md#process-crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from quorumlog.storage.disk import DiskFull, FlushFailed, StorageError


class _File:
    """Content as the page cache has it, and what of it would survive."""

    __slots__ = ("before", "content", "durable", "lost_at", "truncations")

    def __init__(self, content: bytes = b"", durable: int = 0) -> None:
        self.content = bytearray(content)
        self.durable = durable
        self.lost_at: int | None = None  # a failed sync lost everything from here on
        self.before: bytes | None = None  # what a truncation that is not yet durable cut from
        self.truncations = 0

    def survive(self, random: Random, sector: int) -> None:
        if self.before is not None and random.random() < 0.5:
            # The truncation did not reach the disk, nor did what was appended after it.
            self.content = bytearray(self.before)
        else:
            most = len(self.content) if self.lost_at is None else min(self.lost_at, len(self.content))
            torn = _any_prefix(random, self.durable, most)
            if self.durable < torn < most:
                torn = max(torn // sector * sector, self.durable)
            del self.content[torn:]
            if random.random() < 0.25:
                # The length reached the disk, some pages did not: they read as zeros.
                begin = random.randint(self.durable, len(self.content))
                end = random.randint(begin, len(self.content))
                begin = max(begin // sector * sector, self.durable)
                end = min(-(-end // sector) * sector, len(self.content))
                self.content[begin:end] = bytes(end - begin)
        self.durable = len(self.content)
        self.lost_at = self.before = None


def _any_prefix(random: Random, least: int, most: int) -> int:
    """A length between the two; both ends are as likely as everything between them."""
    choice = random.randrange(3)
    if choice == 0 or least >= most:
        return least
    return most if choice == 1 else random.randint(least, most)


class _FilePoint:
    """What a file held when the sync began. See `quorumlog.storage.disk.SyncPoint`."""

    __slots__ = ("_disk", "_file", "_path", "_size", "_truncations")

    def __init__(self, disk: SimulatedDisk, path: str, file: _File) -> None:
        self._disk, self._path, self._file = disk, path, file
        self._size, self._truncations = len(file.content), file.truncations

    def run(self) -> None:
        file = self._file
        if file.truncations != self._truncations:
            # The worst case: of what was truncated and written again since, nothing became durable.
            self._disk.spend_failure(self._path)
            return
        try:
            self._disk.spend_failure(self._path)
        except FlushFailed:
            self._disk.lose_unsynced(file)
            raise
        reached = self._size if file.lost_at is None else min(self._size, file.lost_at)
        file.durable = max(file.durable, reached)
        file.before = None


class _DirectoryPoint:
    """The names a directory held when the sync began."""

    __slots__ = ("_directory", "_disk", "_names")

    def __init__(self, disk: SimulatedDisk, directory: str, names: dict[str, _File]) -> None:
        self._disk, self._directory, self._names = disk, directory, names

    def run(self) -> None:
        self._disk.spend_failure(self._directory)
        self._disk.settle_names(self._directory, self._names)


class SimulatedDisk:
    """See the module. One instance is one node's disk and outlives the node's processes.

    `capacity_bytes` limits the sum of all file lengths (None: no limit) and `fail_next_sync` makes the next
    sync, of whatever file, fail, or a later one: `syncs_before_failure` succeed before it. All may be changed at any
    time. Files are torn at multiples of `sector_bytes`.
    """

    def __init__(self, random: Random, capacity_bytes: int | None = None, *, sector_bytes: int = 1) -> None:
        self._sector_bytes = sector_bytes
        self.capacity_bytes = capacity_bytes
        self.fail_next_sync = False
        self.syncs_before_failure = 0
        self._random = random
        self._directories = {""}
        self._files: dict[str, _File] = {}
        self._durable_names: dict[str, _File] = {}
        self._flipped: list[tuple[_File, int, int]] = []
        self._lost: dict[str, _File] = {}
        self._used = 0

    @property
    def used_bytes(self) -> int:
        """Sum of all file lengths, which `capacity_bytes` limits."""
        return self._used

    def hold(self, files: Mapping[str, bytes]) -> None:
        """Begin with these files, by path, all durable."""
        for path, content in files.items():
            self._directories.add(_directory_of(path))
            self._files[path] = self._durable_names[path] = _File(content, len(content))
            self._used += len(content)

    def contents(self) -> dict[str, bytes]:
        """All files by path, as they read."""
        return {path: bytes(file.content) for path, file in self._files.items()}

    # -- faults ----------------------------------------------------------------------------------

    def power_loss(self) -> None:
        """Keep what is durable and an arbitrary part of the rest. Open logs on this disk become unusable."""
        random = self._random
        survivors: dict[str, _File] = {}
        for path in sorted(self._files.keys() | self._durable_names.keys()):
            now, then = self._files.get(path), self._durable_names.get(path)
            file = now if now is then or random.random() < 0.5 else then
            if file is not None:
                file.survive(random, self._sector_bytes)
                survivors[path] = file
        self._files = survivors
        self._durable_names = dict(survivors)
        self._used = sum(len(file.content) for file in survivors.values())

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Flip one bit of a file, durable or not."""
        file = self._file(path)
        file.content[position] ^= 1 << bit
        self._flipped.append((file, position, bit))

    def lose_name(self, path: str) -> None:
        """Take a file out of its directory, durably, as a damaged directory does."""
        file = self._lost[path] = self._file(path)
        self._used -= len(file.content)
        del self._files[path]
        self._durable_names.pop(path, None)

    def restore(self) -> None:
        """Undo `flip_bit` and `lose_name`, except where something else was written since."""
        for file in {id(file): file for file, _, _ in self._flipped}.values():
            self._flip_back(file, 0)
        for path, file in self._lost.items():
            if path not in self._files:
                self._files[path] = self._durable_names[path] = file
                self._used += len(file.content)
        self._lost.clear()

    def _flip_back(self, file: _File, position: int) -> None:
        """Right what `flip_bit` did to the bytes of a file from ``position`` on."""
        left = []
        for flipped, place, bit in self._flipped:
            if flipped is not file or place < position:
                left.append((flipped, place, bit))
            elif place < len(file.content):
                file.content[place] ^= 1 << bit
        self._flipped = left

    def spend_failure(self, path: str) -> None:
        """Raise FlushFailed, once, if `fail_next_sync` asks for it. Called by this module's sync points."""
        if not self.fail_next_sync:
            return
        if self.syncs_before_failure:
            self.syncs_before_failure -= 1
        else:
            self.fail_next_sync = False
            raise FlushFailed(f"{path}: sync failed (injected); restart the node, what was not flushed may be gone")

    def lose_unsynced(self, file: _File) -> None:
        """A sync of the file failed; see the module. Called by this module's sync points."""
        kept = _any_prefix(self._random, file.durable, len(file.content))
        if self._random.random() < 0.5:
            self._used -= len(file.content) - kept
            del file.content[kept:]
            file.truncations += 1
        elif kept < len(file.content):  # else nothing was lost, and what is appended next is not
            file.lost_at = kept if file.lost_at is None else min(kept, file.lost_at)

    def settle_names(self, directory: str, names: dict[str, _File]) -> None:
        """Make durable the names that the directory held when a sync began. Called by this module's sync points."""
        gone = [
            path
            for path, file in self._durable_names.items()
            if _directory_of(path) == directory and path not in names and self._files.get(path) is not file
        ]
        for path in gone:
            del self._durable_names[path]
        # A name that was removed or given to another file meanwhile is not this sync's to bring back.
        self._durable_names.update((p, f) for p, f in names.items() if self._files.get(p) is f)

    # -- the Disk interface -----------------------------------------------------------------------

    def make_directory(self, directory: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self._directories.add(directory)

    def list(self, directory: str) -> list[str]:
        """See `quorumlog.storage.disk.Disk`."""
        return sorted(p.rpartition("/")[2] for p in self._files if _directory_of(p) == directory)

    def exists(self, path: str) -> bool:
        """See `quorumlog.storage.disk.Disk`."""
        return path in self._files

    def size(self, path: str) -> int:
        """See `quorumlog.storage.disk.Disk`."""
        return len(self._file(path).content)

    def create(self, path: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        if path in self._files:
            raise StorageError(f"{path}: already exists")
        self._files[path] = _File()

    def append(self, path: str, data: bytes) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        content = self._file(path).content
        if self.capacity_bytes is not None and self._used + len(data) > self.capacity_bytes:
            room = max(self.capacity_bytes - self._used, 0)
            content += data[:room]
            self._used += room
            raise DiskFull(f"{path}: no room for {len(data)} bytes; free space or raise the capacity")
        content += data
        self._used += len(data)

    def read(self, path: str, position: int, count: int) -> bytes:
        """See `quorumlog.storage.disk.Disk`."""
        with memoryview(self._file(path).content) as view:
            return bytes(view[position : position + count])

    def sync_point(self, path: str) -> _FilePoint | _DirectoryPoint:
        """See `quorumlog.storage.disk.Disk`."""
        file = self._files.get(path)
        if file is not None:
            return _FilePoint(self, path, file)
        if path not in self._directories:
            raise StorageError(f"{path}: no such file or directory")
        names = {p: f for p, f in self._files.items() if p.rpartition("/")[0] == path}
        return _DirectoryPoint(self, path, names)

    def sync(self, path: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self.sync_point(path).run()

    def truncate(self, path: str, size: int) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        file = self._file(path)
        if size >= len(file.content):
            return
        self._flip_back(file, size)
        if file.before is None:
            file.before = bytes(file.content[: file.lost_at])
        self._used -= len(file.content) - size
        del file.content[size:]
        file.durable = min(file.durable, size)
        file.truncations += 1
        if file.lost_at is not None and file.lost_at >= size:
            file.lost_at = None

    def rewrite(self, path: str, position: int) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        file = self._file(path)
        if file.lost_at is not None and file.lost_at >= position:
            file.lost_at = None

    def replace(self, path: str, data: bytes) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        # The new content lies beside the old one until it takes its name.
        if self.capacity_bytes is not None and self._used + len(data) > self.capacity_bytes:
            raise DiskFull(f"{path}: no room for {len(data)} bytes; free space or raise the capacity")
        try:
            self.spend_failure(path)
        except FlushFailed:
            if self._random.random() < 0.5:
                self._name(path, data)  # seen by whoever reads it now, and perhaps not after a power loss
            raise
        self._durable_names[path] = self._name(path, data)

    def remove(self, path: str) -> None:
        """See `quorumlog.storage.disk.Disk`."""
        self._used -= len(self._file(path).content)
        del self._files[path]

    def close(self) -> None:
        """See `quorumlog.storage.disk.Disk`. The files stay."""

    def _name(self, path: str, data: bytes) -> _File:
        """Give the path to a new file with durable content."""
        old = self._files.get(path)
        self._used += len(data) - (0 if old is None else len(old.content))
        file = self._files[path] = _File(data, len(data))
        return file

    def _file(self, path: str) -> _File:
        try:
            return self._files[path]
        except KeyError:
            raise StorageError(f"{path}: no such file") from None


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0]
