"""Records of any form as the bytes of batches: what a batch of a replicated log holds, and what it is read back as.

A record fills one offset; several that are appended at once are one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from quorumlog.storage.batch import BatchKind, RecordBatch

NAME_BYTES = 8
"""A batch's payload begins with its name in the history of the log."""


class UnreadableError(ValueError):
    """A batch that nobody wrote who knows the form: one line."""


def payload_of(records: Sequence[Any], name: int = 0) -> bytes:
    """The payload of the batch that holds these records; ``name``: in the history of the log."""
    return name.to_bytes(NAME_BYTES, "big", signed=True) + msgspec.json.encode(records)


def records_of(batches: Iterable[RecordBatch], form: Any, start: int) -> list[tuple[int, Any]]:  # noqa: ANN401
    """The offsets of batches from ``start`` on with their records, read as ``form``; None for the log's own.

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
