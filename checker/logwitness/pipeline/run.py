"""One audit from its arguments to its summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from loghistory import HistoryError

from ..models import Limits
from .audit import Audit
from .files import LocalFiles
from .follow import Follower
from .ingest import LARGE
from .progress import Progress
from .sources import local_sources
from .store import Store
from .summary import Summary, as_text, summarize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def audit_once(
    source: str,
    out: str,
    session: AbstractContextManager[SparkSession],
    limits: Limits,
    *,
    verify: bool = False,
    large: int = LARGE,
) -> Summary:
    """Audit what is there now, with the Spark session that the context gives.

    Raises `HistoryError` for places that cannot be used, and what the context raises.
    """
    place = Path(source)
    if not place.exists():
        raise HistoryError(place, None, None, "no such file", "name a run, a file or a directory of them")
    skipped: list[str] = []
    with _store(place, out) as store:
        with session as spark:
            audit = Audit(spark, store, limits, Progress(), verify=verify, large=large)
            audit.take(local_sources(place, lambda path: skipped.append(str(path))))
        return _report(store, audit, skipped)


def audit_on(
    source: str,
    out: str,
    session: AbstractContextManager[SparkSession],
    limits: Limits,
    *,
    stop_after: int | None = None,
    idle: float | None = None,
    large: int = LARGE,
) -> Summary:
    """Audit what is there and what arrives, until there is a reason to stop (`Follower`); otherwise as `audit_once`."""
    place = Path(source)
    if not place.is_dir():
        raise HistoryError(place, None, None, "not a directory", "name the directory that histories arrive in")
    with _store(place, out) as store:
        with session as spark:
            audit = Audit(spark, store, limits, Progress(), verify=False, large=large)
            follower = Follower(place, audit, lambda: _say(_report(store, audit, ())), stop_after=stop_after, idle=idle)
            follower.follow(spark)
        return _report(store, audit, ())


@contextmanager
def _store(place: Path, out: str) -> Iterator[Store]:
    """The output directory, ready."""
    _apart(place, Path(out))
    files = LocalFiles(Path(out))
    try:
        store = Store(files)
        store.open()
        yield store
    finally:
        files.close()


def _report(store: Store, audit: Audit, skipped: Sequence[str]) -> Summary:
    """Write the summary of all tables."""
    summary = summarize(store, audit.counts, skipped)
    store.report("summary.json", msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
    store.report("summary.txt", as_text(summary).encode())
    return summary


def _say(summary: Summary) -> None:
    """One line for each round, for whoever watches."""
    verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in summary.verdicts.items())
    click.echo(f"{summary.histories:,} histories: {verdicts}", err=True)


def _apart(source: Path, out: Path) -> None:
    """Refuse to audit what an audit writes."""
    one, other = source.resolve(), out.resolve()
    if one == other or one in other.parents or other in one.parents:
        raise HistoryError(out, None, None, f"is not apart from {source}", "name a directory elsewhere for the results")
