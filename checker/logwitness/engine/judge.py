"""The judge ``history`` of the entry point group ``logwitness.judges``: how others ask for a verdict, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from loghistory import RunSource

from .local import check


def judge(
    source: RunSource | pa.Table,
    only: Sequence[str] | None = None,
    *,
    configuration: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Judge one run; the answer is what ``logwitness check --json`` prints for one run.

    ``configuration`` is what the run was made with, for a table, which has no manifest. Raises `HistoryError` for bad
    input and KeyError for an unknown check id.
    """
    return check(source, only, configuration=configuration).document()
