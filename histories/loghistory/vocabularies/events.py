"""What events of several vocabularies have in common: when, where, in which log, and columns that all may use."""

from __future__ import annotations

import pyarrow as pa

from ..vocabulary import WORD, Column, Vocabulary

_CENTURY = (1 << 62) - 1
"""Nanoseconds, and a half more: the difference of two times fits into 64 bits."""

VOCABULARY = Vocabulary(
    "events",
    "columns that events of every vocabulary may carry",
    columns=(
        Column(1, "seq", pa.int64(), "position in the causal order, strictly increasing in a run", always=True),
        Column(
            2,
            "time",
            pa.int64(),
            "virtual time, or the wall part of the hybrid logical clock",
            "nanoseconds",
            always=True,
            least=-_CENTURY,
            most=_CENTURY,
        ),
        Column(3, "logical", pa.int32(), "the counter part of the hybrid logical clock; null in simulated runs"),
        Column(4, "kind", WORD, "what the event says", always=True),
        Column(5, "log", WORD, "the log (group, topic-partition, key) it concerns; null: the run's only log"),
        Column(6, "node", pa.int32(), "the node it happened on; for clients the node they spoke to, if known"),
        Column(11, "f", WORD, "name of the operation, message, fault or phase"),
        Column(15, "offset", pa.int64(), "first (base) offset of what the event concerns", "offset", least=-1),
        Column(
            16,
            "last_offset",
            pa.int64(),
            "last offset of it, inclusive; null: the same as `offset`",
            "offset",
            least=-1,
        ),
        Column(18, "value", pa.int64(), "what was written, by name", least=-(1 << 63)),
        Column(19, "text", pa.string(), "a value or arguments that are not integers, as compact JSON"),
        Column(26, "count", pa.int64(), "how many records", "records"),
        Column(27, "bytes", pa.int64(), "how many bytes", "bytes"),
        Column(28, "reason", WORD, "why it failed, or how it was resolved"),
    ),
)
