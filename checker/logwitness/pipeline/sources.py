"""Which histories a place holds, and how to tell that one has changed since it was judged."""

from __future__ import annotations

import hashlib
import heapq
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from loghistory import HistoryError
from loghistory.quarantine import SUFFIX

from ..directories import Left, histories_in
from ..exclusion import excluded
from .hadoop import HadoopPlace, reason, without_pattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_RUN = ("manifest.json", "events.")


class File(msgspec.Struct, frozen=True):
    """One file of a history, as it was when it was listed; ``size`` is in bytes."""

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
        """Bytes of all files together, as they were listed."""
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


class PassedOver:
    """Files that are not judged: how many, and the names of the first few."""

    def __init__(self, keep: int = 10) -> None:
        self.count = 0
        self.names: list[str] = []
        self._keep = keep

    def add(self, names: Iterable[str], nameless: int = 0) -> None:
        """Count these, and others whose names are not known."""
        for name in names:
            self.count += 1
            if len(self.names) < self._keep:
                self.names.append(name)
        self.count += nameless


def local_sources(place: Path, passed_over: PassedOver, exclude: Sequence[str] = ()) -> Iterator[Source]:
    """The histories at a path of this machine, as ``logwitness check`` finds them. Raises `HistoryError`."""
    absolute = Path(os.path.abspath(place))  # noqa: PTH100 - links stay as they are named
    for path in histories_in(absolute, lambda each, why: passed_over.add([f"{each}: {why}"]), exclude):
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


def remote_sources(
    spark: SparkSession, place: str, passed_over: PassedOver, exclude: Sequence[str] = ()
) -> Iterator[Source]:
    """The histories below a URI, as Spark lists it. Which files are histories is seen when they are read.

    Spark passes over empty files and names that begin with ``_`` or ``.``, and does not name them. What a pattern of
    ``exclude`` matches, or a directory above it, is passed over as well. Raises `HistoryError` if nothing is there.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = reader.load(without_pattern(place)).select("path", "length", "modificationTime").collect()
    except (PySparkException, Py4JJavaError) as problem:
        failure = f"cannot be listed ({reason(problem)})"
        raise HistoryError(place, None, None, failure, "name what Hadoop can reach") from None
    whole = HadoopPlace(place, spark)
    listed = len(found)
    left = {row["path"]: why for row in found if (why := _left_out(row["path"], whole.whole_name(), exclude))}
    found = [row for row in found if row["path"] not in left]
    passed_over.add((f"{path}: {why}" for path, why in sorted(left.items())), max(0, whole.files() - listed))
    runs: dict[str, list[File]] = {}
    singles = []
    for row in sorted(found, key=lambda row: str(row["path"])):
        directory, _, name = row["path"].rpartition("/")
        file = File(name, row["length"], int(row["modificationTime"].timestamp() * 1e6) * 1000)
        if name == "manifest.json" or name.startswith("events."):
            runs.setdefault(directory, []).append(file)
        else:
            singles.append(Source(row["path"], (File("", file.size, file.modified),), remote=True))
    if not found:
        failure = "no history is there" + (" that is not excluded" if listed else "")
        raise HistoryError(place, None, None, failure, "name a run, a file or a directory")
    yield from (Source(directory, tuple(files), remote=True) for directory, files in runs.items())
    yield from singles


def _left_out(uri: str, place: str, exclude: Sequence[str]) -> Left | None:
    """Why a file is passed over: a pattern matches it, or a directory above it that is below the place."""
    file = PurePosixPath(uri)
    below = len(file.parts) - len(PurePosixPath(place).parts)
    if any(excluded(each, exclude) for each in (file, *file.parents)[: max(below, 0)]):
        return Left.EXCLUDED
    return Left.QUARANTINE if uri.endswith(SUFFIX) else None


def _file(path: Path, name: str) -> File:
    status = path.stat()
    return File(name, status.st_size, status.st_mtime_ns)


MIB = 1 << 20
_PER_FILE = 64 << 10
"""What a file costs besides its bytes, in bytes."""


def _work(pending: Pending) -> int:
    return pending.source.size + _PER_FILE * max(1, len(pending.source.files))


def bins(pending: Sequence[Pending], at_least: int, most: int = 64 * MIB) -> list[list[Pending]]:
    """Tasks of about the same work, the largest first: large histories alone, small ones by the thousand.

    ``at_least`` tasks, if there are as many histories; none of several histories has more than ``most`` bytes of work.
    """
    tasks: list[list[Pending]] = [[] for _ in range(max(1, at_least))]
    # The next history goes where there is least to do.
    loads = [(0, number) for number in range(len(tasks))]
    for each in sorted(pending, key=lambda each: (-_work(each), each.source.run)):
        work = _work(each)
        load, number = loads[0]
        if load and load + work > most:
            heapq.heappush(loads, (work, len(tasks)))
            tasks.append([each])
        else:
            heapq.heapreplace(loads, (load + work, number))
            tasks[number].append(each)
    return sorted(filter(None, tasks), key=lambda task: -sum(map(_work, task)))


def shares(tasks: Sequence[Sequence[Pending]], cores: int) -> list[int]:
    """The cores of each task: one, but more for a task that has more than its share of the work, and is last to end."""
    work = [sum(map(_work, each)) for each in tasks]
    return [max(1, round(mine * cores / sum(work))) for mine in work]
