"""A hole over a record that was acknowledged and is lost hides the loss (read-path.md#acknowledged-not-lost)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from loghistory import SCHEMA, open_run
from logwitness import check

RUN = Path(__file__).resolve().parents[2] / "histories" / "runs" / "read_path" / "mutant-loss-forgotten"


def test_a_hole_over_what_is_lost_is_found_as_a_bridge_is() -> None:
    table = open_run(RUN).table()
    rows = table.to_pylist()
    wrong = {each.id: each for each in check(table).checks}["bridge-hides-nothing"]
    places = {violation.events[-1] for violation in wrong.violations}
    assert {rows[place]["kind"] for place in places} == {"stream_gap"}
    for place in places:
        rows[place] |= {"f": "hole", "last_offset": None}
    found = {each.id: each for each in check(pa.Table.from_pylist(rows, schema=SCHEMA)).checks}
    assert found["bridge-hides-nothing"].verdict == "holds"
    holes = found["acknowledged-not-lost"].violations
    assert len(holes) == len(places)
    assert all(" has a hole over " in hole.sentence and "which is a loss" in hole.sentence for hole in holes)
