"""The promise that a run recorded now stays readable: for every schema version ever written, how to read it.

Columns are only added, at the end and nullable, and kinds are only added; neither needs a new version. A change that
needs one adds an entry here, which turns the old events into events of today. Entries are never removed; recorded runs
of every version are among the tests.

Version 2: ``trim`` and ``compact`` carry the state of the node's log, as all events that change a log do. Version 1 did
not ask for it; where such an event has none, its columns stay null, and nothing is judged by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import pyarrow as pa

from .errors import HistoryError, quote
from .schema import VERSION

Upgrade: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Turns a batch of events of an older version into one of the present version."""


def _of_today(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


UPGRADES: Mapping[int, Upgrade] = {1: _of_today, 2: _of_today}
"""By schema version, all that were ever written."""


def known(version: int, file: str, line: int | None = None) -> int:
    """The version; a `HistoryError` for the header of ``file`` if this library does not know it."""
    if version in UPGRADES:
        return version
    later = f"this library reads versions up to {VERSION}; install a later one"
    remedy = later if version > VERSION else "versions start at 1"
    raise HistoryError(file, line, "version", f"history version {quote(version)} is not known", remedy)
