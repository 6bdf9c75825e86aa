"""The tables of an audit as plain rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from logwitness.pipeline.summary import Summary
from logwitness.pipeline.tables import SMALL_EVENTS, TABLES, order_of

Auditor = Callable[..., Summary]
"""Audits SOURCE into OUT."""


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table in their one order, read as anybody would."""
    parts = sorted((out / table).glob("*.parquet"))
    tables = [pq.read_table(part, partitioning=None) for part in parts]
    if not tables:
        return []
    whole = pa.concat_tables(tables)
    return whole.sort_by([(name, "ascending") for name in order_of(table)]).to_pylist()


def tables(out: Path) -> dict[str, list[dict[str, Any]]]:
    """All tables."""
    return {name: rows(out, name) for name in (*TABLES, SMALL_EVENTS)}
