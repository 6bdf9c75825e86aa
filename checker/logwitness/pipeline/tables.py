"""The tables of an audit: their columns, and writing rows of them as Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loghistory import SCHEMA
from loghistory.columns import WORDS

_TEXT, _NUMBER = pa.string(), pa.int64()
_RUN = (("run_id", _TEXT), ("run", _TEXT))
_SEQS = pa.list_(_NUMBER)


def _schema(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in (*_RUN, *columns)])


RUNS = "runs"
TABLES: Mapping[str, pa.Schema] = {
    RUNS: _schema(
        ("name", _TEXT),
        ("format", _TEXT),
        ("model", _TEXT),
        ("verdict", _TEXT),
        ("exit_status", pa.int8()),
        ("events", _NUMBER),
        ("logs", _NUMBER),
        ("quarantined", _NUMBER),
        ("bytes", _NUMBER),
        ("error", _TEXT),
        ("notes", pa.list_(_TEXT)),
        ("events_in", _TEXT),
        ("digest", _TEXT),
        ("stamp", _TEXT),
        ("judged_by", _TEXT),
    ),
    "verdicts": _schema(
        ("check", _TEXT),
        ("verdict", _TEXT),
        ("judged", _NUMBER),
        ("violated", _NUMBER),
        ("excused", _NUMBER),
        ("unjudged", _NUMBER),
        ("reason", _TEXT),
    ),
    "violations": _schema(
        ("check", _TEXT),
        ("place", pa.int32()),
        ("log", _TEXT),
        ("sentence", _TEXT),
        ("events", _SEQS),
    ),
    "excuses": _schema(
        ("check", _TEXT),
        ("cause", _TEXT),
        ("nodes", _SEQS),
        ("facts", _NUMBER),
        ("first", _NUMBER),
    ),
    "losses": _schema(
        ("log", _TEXT),
        ("acks", _TEXT),
        ("fault", _TEXT),
        ("batches", _NUMBER),
        ("entries", _NUMBER),
        ("bytes", _NUMBER),
        ("first_time", _NUMBER),
        ("last_time", _NUMBER),
        ("events", _SEQS),
    ),
    "evidence": _schema(
        *((column.name, _TEXT if column.name in WORDS else column.type) for column in SCHEMA),
    ),
    "quarantine": _schema(
        ("file", _TEXT),
        ("line", _NUMBER),
        ("reason", _TEXT),
        ("field", _TEXT),
        ("problem", _TEXT),
        ("raw", _TEXT),
    ),
}
"""By name. ``run_id`` joins them, and with the events."""

EVENTS = "events"
"""Directory of the events of larger histories: ``run_id=ID/part-*.parquet`` with the columns of `loghistory.SCHEMA`."""

SMALL_EVENTS = "events_small"
"""Table of the events of all small histories together."""

SMALL_SCHEMA = pa.schema([pa.field("run_id", _TEXT), *SCHEMA], metadata=SCHEMA.metadata)

_ROWS = 1 << 16


def as_utf8(text: str) -> str:
    """The text; bytes of a file name that are no UTF-8 appear as escapes."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # no file name, but half a character
        return text.encode("utf-8", "backslashreplace").decode()


def order_of(table: str) -> list[str]:
    """The columns that put the rows of a table into their one order."""
    more = {"verdicts": ["check"], "violations": ["check", "place"], "losses": ["log", "acks", "fault"]}
    more |= {"excuses": ["check", "cause"]}
    more |= {"evidence": ["seq"], "quarantine": ["line", "reason"], SMALL_EVENTS: ["seq"]}
    return ["run_id", *more.get(table, [])]


class Rows:
    """Writes rows of any table into ``<directory>/<table>.parquet``; a table without rows has no file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self._writers: dict[str, pq.ParquetWriter] = {}

    def add(self, table: str, row: dict[str, Any]) -> None:
        """Hold one more row, by column; rows are written `_ROWS` at a time."""
        held = self._held[table]
        held.append(row)
        if len(held) >= _ROWS:
            self._write(table)

    @property
    def written(self) -> list[str]:
        """The tables that have a file, once closed."""
        return list(self._writers)

    def _write(self, table: str) -> None:
        rows = self._held[table]
        if not rows:
            return
        if table not in self._writers:
            self._writers[table] = pq.ParquetWriter(
                self._directory / f"{table}.parquet", TABLES[table], compression="zstd", version="2.6"
            )
        try:
            written = pa.Table.from_pylist(rows, TABLES[table])
        except UnicodeEncodeError:
            plain = [{name: as_utf8(v) if isinstance(v, str) else v for name, v in row.items()} for row in rows]
            written = pa.Table.from_pylist(plain, TABLES[table])
        self._writers[table].write_table(written)
        self._held[table] = []

    def __enter__(self) -> Rows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            for table in TABLES:
                self._write(table)
        for writer in self._writers.values():
            writer.close()
