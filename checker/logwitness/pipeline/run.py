"""One audit from its arguments to its summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from loghistory import HistoryError

from ..models import Limits
from .audit import Audit
from .files import Files, LocalFiles
from .follow import Follower
from .hadoop import HadoopFiles, Shell, is_remote, local_path
from .ingest import LARGE
from .progress import Progress
from .sources import local_sources, remote_sources
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
    skipped: list[str] = []
    if not is_remote(source):
        source = local_path(source)
        if not Path(source).exists():
            raise HistoryError(source, None, None, "no such file", "name a run, a file or a directory of them")
    with _opened(source, out, session) as (spark, store):
        shell = Shell.of(spark) if is_remote(source) or is_remote(out) else None
        audit = Audit(spark, store, limits, Progress(), verify=verify, large=large, shell=shell)
        if is_remote(source):
            audit.take(remote_sources(spark, source))
        else:
            audit.take(local_sources(Path(source), lambda path: skipped.append(str(path))))
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
    place = Path(local_path(source))
    if is_remote(source) or not place.is_dir():
        problem, remedy = "not a directory of this machine", "name the directory that histories arrive in"
        raise HistoryError(source, None, None, problem, remedy)
    with _opened(str(place), out, session) as (spark, store):
        shell = Shell.of(spark) if is_remote(out) else None
        audit = Audit(spark, store, limits, Progress(), verify=False, large=large, shell=shell)
        follower = Follower(place, audit, lambda: _say(_report(store, audit, ())), stop_after=stop_after, idle=idle)
        follower.follow(spark)
        return _report(store, audit, ())


@contextmanager
def _opened(
    source: str, out: str, session: AbstractContextManager[SparkSession]
) -> Iterator[tuple[SparkSession, Store]]:
    """The session, and the output directory, ready. What is wrong on this machine is found before Spark starts."""
    with ExitStack() as stack:
        files: Files
        if is_remote(out):
            spark = stack.enter_context(session)
            files = HadoopFiles(out, spark)
            stack.callback(files.close)
            store = Store(files)
            store.open()
        else:
            if not is_remote(source):
                _apart(Path(source), Path(local_path(out)))
            files = LocalFiles(Path(local_path(out)))
            stack.callback(files.close)
            store = Store(files)
            store.open()
            spark = stack.enter_context(session)
        yield spark, store


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
