"""One audit from its arguments to its summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click
import msgspec

from loghistory import HistoryError

from ..models import Limits
from .audit import Audit
from .files import Files, LocalFiles
from .follow import Follower
from .hadoop import HadoopFiles, HadoopPlace, Shell, give_up_sooner, is_remote, local_path
from .ingest import LARGE
from .progress import Progress
from .sources import PassedOver, Source, local_sources, remote_sources
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
    exclude: Sequence[str] = (),
    verify: bool = False,
    large: int = LARGE,
) -> Summary:
    """Audit what is there now, with the Spark session that the context gives.

    ``exclude``: patterns of what is left out. Raises `HistoryError` for places that cannot be used, and what the
    context raises.
    """
    passed_over = PassedOver()
    if not is_remote(source):
        source = local_path(source)
        if not Path(source).exists():
            raise HistoryError(source, None, None, "no such file", "name a run, a file or a directory of them")
    with _opened(source, out, session) as (spark, store):
        shell = Shell.of(spark) if is_remote(source) or is_remote(out) else None
        audit = Audit(spark, store, limits, Progress(), verify=verify, large=large, shell=shell)
        if is_remote(source):
            audit.take(remote_sources(spark, source, passed_over, exclude))
        else:
            audit.take(local_sources(Path(source), passed_over, exclude))
        return _report(store, audit, passed_over)


def audit_on(
    source: str,
    out: str,
    session: AbstractContextManager[SparkSession],
    limits: Limits,
    *,
    exclude: Sequence[str] = (),
    stop_after: int | None = None,
    idle: float | None = None,
    large: int = LARGE,
) -> Summary:
    """Audit what is there and what arrives, until there is a reason to stop (`Follower`); otherwise as `audit_once`."""
    no_directory = HistoryError(source, None, None, "not a directory", "name the directory that histories arrive in")
    if not is_remote(source):
        source = str(Path(local_path(source)).absolute())
        if not Path(source).is_dir():
            raise no_directory
    with _opened(source, out, session) as (spark, store):
        arrived: Callable[[], Iterator[Source]]
        if is_remote(source):
            if not HadoopPlace(source, spark).is_directory():
                raise no_directory
            arrived, uri = (lambda: remote_sources(spark, source, PassedOver(), exclude)), source
        else:
            arrived, uri = (lambda: local_sources(Path(source), PassedOver(), exclude)), f"file://{source}"
        shell = Shell.of(spark) if is_remote(source) or is_remote(out) else None
        audit = Audit(spark, store, limits, Progress(), verify=False, large=large, shell=shell)
        report = partial(_report, store, audit, PassedOver())
        follower = Follower(uri, arrived, audit, lambda: _say(report()), stop_after=stop_after, idle=idle)
        follower.follow(spark)
        return report()


@contextmanager
def _opened(
    source: str, out: str, session: AbstractContextManager[SparkSession]
) -> Iterator[tuple[SparkSession, Store]]:
    """The session, and the output directory, ready. What is wrong on this machine is found before Spark starts."""
    with ExitStack() as stack:
        files: Files
        if is_remote(out):
            spark = stack.enter_context(session)
            give_up_sooner(spark)
            remote = HadoopFiles(out, spark)
            stack.callback(remote.close)
            if is_remote(source):
                _apart(HadoopPlace(source, spark).whole_name(), remote.whole_name())
            files = remote
            store = Store(files)
            store.open()
        else:
            if not is_remote(source):
                _apart(str(Path(source).resolve()), str(Path(local_path(out)).resolve()))
            files = LocalFiles(Path(local_path(out)))
            stack.callback(files.close)
            store = Store(files)
            store.open()
            spark = stack.enter_context(session)
            give_up_sooner(spark)
        yield spark, store


def _report(store: Store, audit: Audit, passed_over: PassedOver) -> Summary:
    """Write the summary of all tables."""
    summary = summarize(store, audit.counts, passed_over)
    store.report("summary.json", msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
    store.report("summary.txt", as_text(summary).encode())
    return summary


def _say(summary: Summary) -> None:
    """One line for each round, for whoever watches."""
    verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in summary.verdicts.items())
    click.echo(f"{summary.histories:,} histories: {verdicts}", err=True)


def _apart(source: str, out: str) -> None:
    """Refuse to audit what an audit writes."""
    one, other = PurePosixPath(source), PurePosixPath(out)
    if one == other or one in other.parents or other in one.parents:
        raise HistoryError(out, None, None, f"overlaps {source}", "name a directory elsewhere for the results")
