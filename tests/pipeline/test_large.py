"""What is too much for one task: one huge history, and one with very many logs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from audit_tables import Auditor, rows
from test_audit import RUNS, same_verdicts

from loghistory import SCHEMA, open_run, write_run
from logwitness.checks import families
from logwitness.explain.transcripts import HISTORIES, cases
from logwitness.pipeline.partial import groups


def test_runs_judged_by_several_tasks_get_the_same_verdicts(tmp_path: Path, audited: Auditor) -> None:
    for manifest in RUNS.glob("*/manifest.json"):
        if 1000 <= json.loads(manifest.read_text())["events"] <= 2500:
            shutil.copytree(manifest.parent, tmp_path / "source" / manifest.parent.name)
    summary = audited(tmp_path / "source", tmp_path / "out", large=1000)
    assert summary.histories > 8
    assert summary.judged == summary.histories
    assert same_verdicts(tmp_path / "out") == summary.histories


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_groups_keep_the_order_of_families(parts: int) -> None:
    every = families()
    found = groups(every, parts)
    assert tuple(family for group in found for family in group) == every
    assert len(found) <= parts
    assert len(found) == min(parts, len(every)) or parts > 2


def _many_logs(logs: int) -> pa.Table:
    """Histories of the checks' own tests, over and over, each in a log of its own and all mixed; faults have none."""
    chosen = [case for case in cases(HISTORIES / "clients.txt") if not case.configuration]
    events: list[dict[str, Any]] = []
    for place in range(logs):
        for row in chosen[place % len(chosen)].rows:
            named = {"log": None if row["kind"] == "fault" else f"log-{place:04}", "process": row.get("process")}
            moved = {"op": row["op"] + 1000 * place} if row.get("op") is not None else {}
            if named["process"] is not None:
                named["process"] += 100 * place
            events.append(row | named | moved)
    # Slices of several logs in turn, so that every log is spread over the history.
    ordered = [event for start in range(17) for event in _turn(events, start)]
    return pa.Table.from_pylist([row | {"seq": seq, "time": seq} for seq, row in enumerate(ordered)], SCHEMA)


def _turn(events: list[dict[str, Any]], start: int) -> list[dict[str, Any]]:
    """The events whose place within their log is this one (the last turn: all later ones)."""
    seen: dict[str | None, int] = {}
    found = []
    for event in events:
        place = seen.get(event["log"], 0)
        seen[event["log"]] = place + 1
        if place == start or (start == 16 and place > 16):
            found.append(event)
    return found


@pytest.mark.parametrize("large", [False, True])
def test_many_logs_of_one_run_are_judged(tmp_path: Path, audited: Auditor, large: bool) -> None:
    write_run(tmp_path / "run", _many_logs(400), {"name": "many"})
    audited(tmp_path / "run", tmp_path / "out", **({"large": 12} if large else {}))
    (run,) = rows(tmp_path / "out", "runs")
    assert run["logs"] == 400
    assert run["events_in"] == ("events" if large else "events_small")
    assert open_run(tmp_path / "run").manifest
    assert same_verdicts(tmp_path / "out") == 1


@pytest.mark.parametrize("large", [1000, 1_000_000])
def test_what_is_not_well_formed_takes_the_ground_from_all_parts(tmp_path: Path, audited: Auditor, large: int) -> None:
    """One log of many, and a run whose families are judged by several tasks."""
    many = _many_logs(400).to_pylist()
    again = next(row for row in many if row["kind"] == "ok" and row["log"] == "log-0007")
    events = [*many, again | {"seq": len(many), "time": len(many)}]
    write_run(tmp_path / "runs" / "many", pa.Table.from_pylist(events, SCHEMA), {"name": "many"})
    source = open_run(RUNS / "reference-leaders-fall")
    assert source.manifest is not None
    whole = [row for batch in source.batches() for row in batch.to_pylist()]
    flush = next(place for place, row in enumerate(whole) if row["kind"] == "flush")
    whole[flush]["dirty"] += 1
    made = {"name": "one", "made_by": source.manifest.made_by}
    write_run(tmp_path / "runs" / "one", pa.Table.from_pylist(whole, SCHEMA), made)
    audited(tmp_path / "runs", tmp_path / "out", large=large)
    assert same_verdicts(tmp_path / "out") == 2
    reported = rows(tmp_path / "out", "verdicts")
    broken = {row["check"] for row in reported if row["verdict"] == "violated"}
    assert {"completes-what-is-open", "dirty-follows-events"} <= broken
    assert any("dirty-follows-events" in row["reason"] for row in reported if row["verdict"] == "undecided")
