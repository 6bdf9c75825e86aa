"""Recorded runs that hold, in which one thing is said that did not happen: it is not believed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from loghistory import open_run
from logwitness import check

Row = dict[str, Any]
RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs"


def nth(rows: list[Row], number: int, **columns: object) -> int:
    """The place of the event of this number among those that have these columns."""
    places = [at for at, row in enumerate(rows) if all(row[name] == value for name, value in columns.items())]
    return places[number]


def wipe_unrecorded(rows: list[Row]) -> None:
    del rows[nth(rows, 0, kind="fault", f="wipe")]


def lost_without_a_wipe(rows: list[Row]) -> None:
    rows[nth(rows, -1, kind="takes_part", f="shard", reason="intact")]["reason"] = "lost"


PLANTS: dict[str, tuple[str, Callable[[list[Row]], None], str]] = {
    "a wipe": ("read_path/reference-back-without", wipe_unrecorded, "lost-with-its-disk"),
    "a wipe of two": ("read_path/reference-rack-away", wipe_unrecorded, "lost-with-its-disk"),
    "a loss": ("read_path/reference-unavailable", lost_without_a_wipe, "lost-with-its-disk"),
}
"""By name: a run, what is planted there, and the check that finds it."""


@pytest.mark.parametrize("name", PLANTS)
def test_what_is_planted_is_found(name: str) -> None:
    run, plant, id_ = PLANTS[name]
    source = open_run(RUNS / run)
    assert source.manifest
    made = source.manifest.made_by
    given = {key: value for key, value in made.get("configuration", {}).items() if value is not None}
    known = {"voters": source.manifest.nodes, **given.get("limits", {}), **given, "protocol": made["protocol"]}
    rows = source.table().to_pylist()
    assert check(source.table(), configuration=known).verdict == "holds"
    plant(rows)
    verdict = check(pa.Table.from_pylist(rows, schema=source.table().schema), configuration=known)
    assert id_ in {each.id for each in verdict.checks if each.violated}
