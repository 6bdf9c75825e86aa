"""Which histories a path names: a run, a file, or all that are in a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from loghistory import HistoryError, is_history

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
_COMPRESSED = (".gz", ".zst")
_OTHERS = frozenset({"results.edn", "test.edn", "options.edn", "results.json", "test.json", "manifest.json"})
"""What tools put beside a history."""


def histories_in(path: Path, skipped: Callable[[Path], None]) -> Iterator[Path]:
    """The path itself, or if it is a directory that is no run, the histories below it, by name.

    A directory that is a run is one history. Files that are called like a history are taken even if they are none, so
    that a damaged one is not passed over; of other files those that are recognised. ``skipped`` is told the rest.
    Raises `HistoryError` for a directory that cannot be read.
    """
    if not path.is_dir() or _is_run(path):
        yield path
        return
    found = False
    for each in _below(path, skipped):
        found = True
        yield each
    if not found:
        raise HistoryError(path, None, None, "no history is in this directory", "name a run, a file or a directory")


def _is_run(directory: Path) -> bool:
    return any((directory / name).is_file() for name in _RUN)


def _below(directory: Path, skipped: Callable[[Path], None]) -> Iterator[Path]:
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        raise HistoryError(directory, None, None, f"cannot be read ({error.strerror})", "see its permissions") from None
    for each in entries:
        if each.name.startswith("."):
            continue
        if each.is_dir():
            if each.is_symlink():
                skipped(each)  # it may lead back here
            elif _is_run(each):
                yield each
            else:
                yield from _below(each, skipped)
        elif not each.name.endswith(".quarantine.jsonl"):
            if each.is_file() and _is_history(each):
                yield each
            else:
                skipped(each)


def _is_history(path: Path) -> bool:
    plain = path.with_suffix("") if path.suffix in _COMPRESSED else path
    if plain.suffix in _HISTORIES or (path.suffix == ".zst" and not plain.suffix):
        return plain.name not in _OTHERS
    if plain.suffix not in _LOGS:
        return False
    try:
        return is_history(path) or not path.stat().st_size
    except HistoryError:
        return True  # judging it says what is wrong
