"""Which histories a place holds, and how to tell that one has changed since it was judged."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from ..directories import histories_in

_OF_RUN = ("manifest.json", "events.")


class File(msgspec.Struct, frozen=True):
    """One file of a history."""

    name: str
    """Relative to `Source.run`; empty if that is the file itself."""
    size: int
    modified: int
    """Nanoseconds since 1970, as fine as the file system knows it."""


class Source(msgspec.Struct, frozen=True):
    """One history: a run directory, or a single file."""

    run: str
    """Its absolute path, or its URI on another file system; what the tables call it."""
    files: tuple[File, ...]
    remote: bool = False
    """It is on a file system that only Hadoop's client knows."""

    @property
    def id(self) -> str:
        """A short name that is the same every time; also a directory name."""
        return "r" + hashlib.sha256(self.run.encode("utf-8", "surrogateescape")).hexdigest()[:20]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(file.size for file in self.files)

    @property
    def stamp(self) -> str:
        """Names, sizes and times of its files: while they are the same it is taken to be unchanged."""
        words = "|".join(f"{file.name}:{file.size}:{file.modified}" for file in self.files)
        return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:20]


class Pending(msgspec.Struct, frozen=True):
    """A history to be judged, and the digest under which it was judged before, if it was."""

    source: Source
    known_digest: str | None = None


def local_sources(place: Path, skipped: Callable[[Path], None]) -> Iterator[Source]:
    """The histories at a path of this machine, as ``logwitness check`` finds them. Raises `HistoryError`."""
    for path in histories_in(Path(os.path.abspath(place)), skipped):  # noqa: PTH100 - links stay as they are named
        source = local_source(path)
        if source is not None:
            yield source


def local_source(path: Path) -> Source | None:
    """One history; None if it has gone meanwhile."""
    try:
        if path.is_dir():
            names = sorted(each.name for each in path.iterdir() if each.name.startswith(_OF_RUN))
            return Source(str(path), tuple(_file(path / name, name) for name in names))
        return Source(str(path), (_file(path, ""),))
    except FileNotFoundError:
        return Source(str(path), ()) if not path.exists() and not path.is_symlink() else None
    except OSError:
        return Source(str(path), ())


def _file(path: Path, name: str) -> File:
    status = path.stat()
    return File(name, status.st_size, status.st_mtime_ns)


MIB = 1 << 20
_PER_FILE = 64 << 10
"""What a file costs besides its bytes, in bytes."""


def bins(pending: Sequence[Pending], at_least: int, most: int = 64 * MIB) -> list[list[Pending]]:
    """Tasks of about the same work, the largest first: large histories alone, small ones by the thousand.

    ``at_least`` tasks, if there are as many histories; none of several histories has more than ``most`` bytes of work.
    """
    work = {id(each): each.source.size + _PER_FILE * max(1, len(each.source.files)) for each in pending}
    limit = min(most, sum(work.values()) // max(1, at_least) + 1)
    result: list[list[Pending]] = []
    room = 0
    for each in sorted(pending, key=lambda each: (-work[id(each)], each.source.run)):
        if work[id(each)] > room:
            result.append([])
            room = limit
        result[-1].append(each)
        room -= work[id(each)]
    return result
