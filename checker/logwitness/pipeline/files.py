"""The few things that an audit does with the files of its results; the same on this machine and behind Hadoop."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from loghistory import HistoryError


class Files(Protocol):
    """Files below one directory, by names relative to it."""

    place: str
    """The directory: an absolute path or a URI."""

    def names(self, directory: str) -> list[str]:
        """What is in a directory; nothing if there is none."""

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None if there is none."""

    def write(self, name: str, data: bytes) -> None:
        """Write a small file, which appears by rename."""

    def make(self, directory: str) -> None:
        """Make a directory, and those above it; one that is there stays as it is."""

    def move(self, names: Sequence[tuple[str, str]]) -> None:
        """Rename files; one that has been moved already is left alone."""

    def remove(self, name: str) -> None:
        """Remove a file or a directory, if it is there."""

    def local(self, name: str) -> Path:
        """A file of this machine with the same content, to read."""

    def to_write(self, name: str) -> AbstractContextManager[Path]:
        """A file of this machine to write, which is then there under the name."""

    def close(self) -> None:
        """Give back what is held, such as a lock or copies; nothing is called after this."""


class LocalFiles:
    """Files of this machine, or of a file system that is mounted on it."""

    def __init__(self, directory: Path) -> None:
        self._directory = Path(os.path.abspath(directory))  # noqa: PTH100 - links stay as they are named
        self.place = str(self._directory)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._directory, os.O_RDONLY)
        except OSError as error:
            problem = f"cannot be used ({error.strerror})"
            raise HistoryError(directory, None, None, problem, "name another directory for the results") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            problem, remedy = "another audit is writing there", "wait for it, or name another directory"
            raise HistoryError(directory, None, None, problem, remedy) from None

    def names(self, directory: str) -> list[str]:
        """What is in a directory; nothing if there is none."""
        try:
            return sorted(each.name for each in (self._directory / directory).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Write a file, which appears by rename."""
        unfinished = self._directory / f".{name}.tmp"
        try:
            unfinished.write_bytes(data)
            unfinished.replace(self._directory / name)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise

    def make(self, directory: str) -> None:
        """Make a directory, and those above it; one that is there stays as it is."""
        (self._directory / directory).mkdir(parents=True, exist_ok=True)

    def move(self, names: Sequence[tuple[str, str]]) -> None:
        """Rename files; one that has been moved already is left alone."""
        for old, new in names:
            target = self._directory / new
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                (self._directory / old).replace(target)
            except FileNotFoundError:
                if not target.exists():
                    raise

    def remove(self, name: str) -> None:
        """Remove a file or a directory, if it is there; a directory of one run that it leaves empty as well."""
        path = self._directory / name
        if path.is_dir():
            try:
                shutil.rmtree(path)
            except OSError as problem:
                # A worker that outlives its killed audit for a moment still writes there: the next audit removes it.
                if problem.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                    raise
            return
        path.unlink(missing_ok=True)
        if path.parent.name.startswith("run_id=") and not any(path.parent.iterdir()):
            path.parent.rmdir()

    def local(self, name: str) -> Path:
        """The file itself: nothing needs to be copied."""
        return self._directory / name

    @contextmanager
    def to_write(self, name: str) -> Iterator[Path]:
        """The file itself; its directory is made."""
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path

    def close(self) -> None:
        """Give up the lock, so that another audit may write there."""
        os.close(self._lock)
