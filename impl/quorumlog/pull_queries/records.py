"""The records of the logs of pull queries as bytes: what a batch of a Raft group holds, and what it is read back as.

A record fills one offset; several that are appended at once are one batch (pull-queries.md#partitions).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from quorumlog.pull_queries.assignment import Assignment
from quorumlog.pull_queries.table import Record, Value
from quorumlog.storage.batch import BatchKind, RecordBatch

ASSIGNMENTS = "assignments"
"""The name of the log of assignments; `source_of` and `changelog_of` name the others."""
NAME_BYTES = 8
"""A batch's payload begins with its name in the history of the group."""


class UnreadableError(ValueError):
    """A batch that no server wrote: one line."""


def source_of(partition: int) -> str:
    """The name of the source log of a partition."""
    return f"s{partition}"


def changelog_of(partition: int) -> str:
    """The name of the changelog of a partition."""
    return f"c{partition}"


def log_names(partitions: int) -> list[str]:
    """The names of all logs."""
    return [ASSIGNMENTS, *(name(partition) for partition in range(partitions) for name in (source_of, changelog_of))]


def form_of(name: str) -> Any:  # noqa: ANN401
    """What the records of a log are."""
    if name == ASSIGNMENTS:
        return list[Assignment]
    return list[Record] if name.startswith("c") else list[tuple[str, Value | None]]


def payload_of(records: Sequence[Any], name: int = 0) -> bytes:
    """The payload of the batch that holds these records; ``name``: in the history of the group."""
    return name.to_bytes(NAME_BYTES, "big", signed=True) + msgspec.json.encode(records)


def records_of(batches: Iterable[RecordBatch], form: Any, start: int) -> list[tuple[int, Any]]:  # noqa: ANN401
    """The offsets of batches from ``start`` on with their records, read as ``form``; None for Raft's own.

    Raises `UnreadableError`.
    """
    found: list[tuple[int, Any]] = []
    for batch in batches:
        records: Sequence[Any] = [None] * batch.record_count
        if batch.kind is BatchKind.DATA:
            try:
                records = msgspec.json.decode(batch.payload[NAME_BYTES:], type=form)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise UnreadableError(f"the batch at offset {batch.base_offset} cannot be read: {error}") from None
        if len(records) != batch.record_count:
            raise UnreadableError(f"the batch at offset {batch.base_offset} has {len(records)} records")
        found += zip(range(batch.base_offset, batch.last_offset + 1), records, strict=True)
    return [(offset, record) for offset, record in found if offset >= start]
