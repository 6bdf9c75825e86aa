"""Which histories a path names: a run, a file, or all that are in a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from loghistory import HistoryError, is_history
from loghistory import manifest as run_manifest
from loghistory.quarantine import SUFFIX
from loghistory.source import run_events

from .exclusion import excluded

_RUN = (
    "manifest.json",
    "events.jsonl",
    "events.jsonl.zst",
    "events.parquet",
    "events.jsonl.part",
    "events.jsonl.zst.part",
)
_HISTORIES = (".edn", ".json", ".jsonl", ".zst", ".parquet", ".part")
_LOGS = ("", ".log", ".txt", ".out", ".dat", ".history", ".ednl", ".ndjson", ".trace")
_PROSE = (".md", ".rst", ".adoc", ".html", ".htm")
"""What quotes histories, and is none."""
_COMPRESSED = (".gz", ".zst")
_OTHERS = frozenset({"results.edn", "test.edn", "options.edn", "results.json", "test.json", "manifest.json"})
"""What tools put beside a history."""


class Left(StrEnum):
    """Why something in a directory was not judged."""

    SKIPPED = "no history, skipped"
    LINK = "a link to a directory, not followed"
    DANGLING = "a link that leads nowhere, skipped"
    EXCLUDED = "excluded"
    HIDDEN = "hidden, skipped"
    QUARANTINE = "lines set aside from a history, skipped"
    BESIDE = "beside the events of a run, skipped"


def histories_in(path: Path, left: Callable[[Path, Left], None], exclude: Sequence[str] = ()) -> Iterator[Path]:
    """The path itself, or if it is a directory that is no run, the histories below it, by name.

    A directory that is a run is one history. Files that are called like a history are taken even if they are none, so
    that a damaged one is not passed over, nor a link that leads nowhere; of other files those that begin like one.
    Below a directory what a pattern of ``exclude`` matches is left out, a directory with all that is in it. ``left`` is
    told what was passed over and why. Raises `HistoryError` for a directory that cannot be read or has no history.
    """
    if not path.is_dir() or _is_run(path):
        if path.is_dir():
            _beside(path, left)
        yield path
        return
    found = some_excluded = False

    def note(each: Path, why: Left) -> None:
        nonlocal some_excluded
        some_excluded = some_excluded or why is Left.EXCLUDED
        left(each, why)

    for each in _below(path, note, exclude):
        found = True
        yield each
    if not found:
        problem = "this directory holds no history" + (" that is not excluded" if some_excluded else "")
        raise HistoryError(path, None, None, problem, "name a run, a file or a directory")


def _is_run(directory: Path) -> bool:
    return any((directory / name).is_file() for name in _RUN)


def _below(directory: Path, left: Callable[[Path, Left], None], exclude: Sequence[str]) -> Iterator[Path]:
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        raise HistoryError(
            directory, None, None, f"cannot be read ({error.strerror})", "check its permissions"
        ) from None
    for each in entries:
        if each.name.startswith("."):
            left(each, Left.HIDDEN)
        elif excluded(each.absolute(), exclude):
            left(each, Left.EXCLUDED)
        elif each.is_dir():
            if each.is_symlink():
                left(each, Left.LINK)  # it may lead back here
            elif _is_run(each):
                _beside(each, left)
                yield each
            else:
                yield from _below(each, left, exclude)
        elif each.name.endswith(SUFFIX):
            left(each, Left.QUARANTINE)
        elif each.is_symlink() and not each.exists():
            if _called_like_one(each):
                yield each  # judging it says that it leads nowhere
            else:
                left(each, Left.DANGLING)
        elif each.is_file() and _is_history(each):
            yield each
        else:
            left(each, Left.SKIPPED)


def _beside(run: Path, left: Callable[[Path, Left], None]) -> None:
    """Tell of what is in a run directory and is no part of the run."""
    try:
        names = {run_manifest.FILE, run_events(run).name}
        entries = sorted(run.iterdir())
    except (HistoryError, OSError):
        return  # judging it says what is wrong
    for each in entries:
        if each.name not in names:
            left(each, Left.BESIDE)


def _called_like_one(path: Path) -> bool:
    plain = _plain(path)
    named = plain.suffix in _HISTORIES or (path.suffix.lower() == ".zst" and not plain.suffix)
    return named and plain.name not in _OTHERS


def _plain(path: Path) -> Path:
    """The name of a file in small letters, without the suffix of what packed it."""
    plain = Path(path.name.lower())
    return plain.with_suffix("") if plain.suffix in _COMPRESSED else plain


def _is_history(path: Path) -> bool:
    plain = _plain(path)
    if _called_like_one(path) or plain.name in _OTHERS:
        return plain.name not in _OTHERS
    if plain.suffix in _PROSE:
        return False
    like_a_log = plain.suffix in _LOGS
    try:
        return is_history(path) or (like_a_log and not path.stat().st_size)
    except HistoryError:
        return like_a_log  # judging it says what is wrong
