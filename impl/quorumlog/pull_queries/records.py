"""The logs of pull queries: their names, and what their records are (pull-queries.md#partitions)."""

from __future__ import annotations

from typing import Any

from quorumlog.pull_queries.assignment import Assignment
from quorumlog.pull_queries.table import Record, Value

ASSIGNMENTS = "assignments"
"""The name of the log of assignments; `source_of` and `changelog_of` name the others."""


def source_of(partition: int) -> str:
    """The name of the source log of a partition."""
    return f"s{partition}"


def changelog_of(partition: int) -> str:
    """The name of the changelog of a partition."""
    return f"c{partition}"


def log_names(partitions: int) -> list[str]:
    """The names of all logs: that of the assignments, and a source and a changelog for each partition."""
    return [ASSIGNMENTS, *(name(partition) for partition in range(partitions) for name in (source_of, changelog_of))]


def form_of(name: str) -> Any:  # noqa: ANN401
    """What the records of a log are."""
    if name == ASSIGNMENTS:
        return list[Assignment]
    return list[Record] if name.startswith("c") else list[tuple[str, Value | None]]
