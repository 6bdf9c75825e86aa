"""Recorded runs from which every event of a kind is taken out: nobody is accused of what is not recorded.

And a run of pull queries or of the read path from which a kind is taken out that there must be does not hold.
Source: history-checks.md#never-recorded; what that leaves out of Raft's is in `test_deeds`.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from loghistory import open_run
from logwitness import RunVerdict, check

RUNS = sorted(
    file.parent for file in (Path(__file__).resolve().parents[2] / "histories" / "runs").glob("*/*/manifest.json")
)

WHOLE = {"invoke", "ok", "fail", "info", "observe", "fault", "heal", "phase", "crash", "stop", "power_loss"}
"""Kinds of clients and of the surroundings, which are taken to be recorded whole."""
ALIKE = {
    ("stream_gap", "tiling"): "a gap that is not recorded, and records that are passed over",
    ("up", "reports-go-on"): "hosts that are up, and checks that do not come about any more",
    ("down", "reports-go-on"): "the same, of hosts that are down",
    ("truncate", "append-at-end"): "a truncation, and an append over what is there",
    ("truncate", "ghost-term"): "the same, of a gap",
    ("truncate", "visible-monotonic"): "a truncation, and a visible offset that moves back",
    ("gap", "committed-never-truncated"): "a gap in the place of what was committed, and nothing",
}
"""By kind and check: what cannot be told apart, and is a violation either way."""
NEEDED = {
    *("serve", "route", "finish", "report", "report_kept", "changelog", "assigned", "fold", "answer", "rows", "listed"),
    *("heartbeat", "heard", "down", "report_heard", "up", "forward", "forwarded"),
    *("takes_part", "stream_settings", "nodeset", "copy", "acknowledge", "release", "stream_metadata", "stream_start"),
    *("stream_started", "ship", "stream_heard"),
}
"""Kinds without which a run of pull queries, or of the read path, does not hold."""
ALWAYS = {"mutant-old-statuses", "mutant-unavailable-forgone"}
"""Runs that are tried in short: in these, readers were once accused of what event log or rewinds would explain."""


def is_long(at: int, run: Path) -> bool:
    return at % 16 > 0 and run.name not in ALWAYS


def broken(verdict: RunVerdict) -> dict[str, int]:
    return {each.id: each.violated for each in verdict.checks if each.violated}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "run",
    [pytest.param(run, id=run.name, marks=pytest.mark.long if is_long(at, run) else ()) for at, run in enumerate(RUNS)],
)
def test_a_kind_that_is_never_recorded(run: Path) -> None:
    source = open_run(run)
    assert source.manifest
    made = source.manifest.made_by
    given = {name: value for name, value in made.get("configuration", {}).items() if value is not None}
    known = {"voters": source.manifest.nodes, **given.get("limits", {}), **given}
    known |= {"protocol": made.get("protocol", "raft")}
    table = source.table()
    whole = check(table, configuration=known)
    kinds = table.column("kind").cast(pa.string())
    for kind in sorted({*kinds.unique().to_pylist()} - WHOLE):
        verdict = check(table.filter(pc.not_equal(kinds, kind)), configuration=known)
        before = broken(whole)
        more = {id_ for id_, count in broken(verdict).items() if count > before.get(id_, 0)}
        assert {id_ for id_ in more if (kind, id_) not in ALIKE} == set(), kind
        if kind in NEEDED and whole.verdict == "holds":
            assert verdict.verdict != "holds", kind
