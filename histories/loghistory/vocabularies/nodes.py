"""The life of a node's process and of its disk."""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

from ..vocabulary import Column, EventKind, Vocabulary, Words
from .log import STATE


class StorageFailure(StrEnum):
    """Column ``reason`` of a ``storage_error`` that checks know; there are others."""

    DISK_FULL = "DiskFull"


VOCABULARY = Vocabulary(
    "nodes",
    "the life of nodes",
    kinds=(
        EventKind(
            "start",
            "The process runs and has recovered its disk; the state is what it found there.",
            ("incarnation",),
            state=STATE,
            may_carry=("visible", "role", "text"),
        ),
        EventKind("stop", "The process ended gracefully.", ("node",)),
        EventKind("crash", "The process died; the page cache lived (SIGKILL).", ("node",)),
        EventKind("power_loss", "The node lost power: what was not flushed may be gone.", ("node",)),
        EventKind(
            "storage_error",
            "The disk failed (fsync, no space) and the node stopped itself.",
            ("node",),
            may_carry=("reason",),
        ),
    ),
    words=(
        Words(
            "reason",
            ("storage_error",),
            {StorageFailure.DISK_FULL: "no space was left: what was in the log stays there"},
        ),
    ),
    columns=(Column(7, "incarnation", pa.int32(), "how often this node had started before"),),
)
