"""One audit from its arguments to its summary."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from loghistory import HistoryError

from ..models import Limits
from .audit import Audit
from .files import LocalFiles
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
    _apart(place, Path(out))
    skipped: list[str] = []
    if not place.exists():
        raise HistoryError(place, None, None, "no such file", "name a run, a file or a directory of them")
    files = LocalFiles(Path(out))
    try:
        store = Store(files)
        store.open()
        with session as spark:
            audit = Audit(spark, store, limits, Progress(), verify=verify, large=large)
            audit.take(local_sources(place, lambda path: skipped.append(str(path))))
        summary = summarize(store, audit.counts, skipped)
        store.report("summary.json", msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
        store.report("summary.txt", as_text(summary).encode())
    finally:
        files.close()
    return summary


def _apart(source: Path, out: Path) -> None:
    """Refuse to audit what an audit writes."""
    one, other = source.resolve(), out.resolve()
    if one == other or one in other.parents or other in one.parents:
        raise HistoryError(out, None, None, f"is not apart from {source}", "name a directory elsewhere for the results")
