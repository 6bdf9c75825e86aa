"""The evidence of every violation proves its sentence by itself, and not when any one of its events is taken away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from loghistory import open_run
from logwitness import check
from logwitness.checks import all_checks, families
from logwitness.checks.raft.protocol import RAFT
from logwitness.checks.sentences import worded
from logwitness.engine.local import events_at
from logwitness.explain.transcripts import all_cases
from proofs import PROOFS, Evidence, Row, UnprovedError

RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs"
HOLED = "mutant-late-read-filled"
"""A log with a hole, which `no-hole` shows: of what a read of it left out, the node that held it shows no event."""
MUTANTS = sorted(path.parent for path in RUNS.glob("raft/mutant-*/manifest.json") if path.parent.name != HOLED)
CHECKS = {each.id: each for each in all_checks()}
STATED = ("write_caching", "progress_bound", "memory_bytes", "max_in_flight")
"""What a proof takes from the configuration."""


def proves(name: str, sentence: str, rows: list[Row], configuration: Mapping[str, Any]) -> bool:
    """Whether the sentence follows from these events."""
    stated = {field: configuration[field] for field in STATED if field in configuration}
    try:
        proved = PROOFS[name](Evidence(rows, configuration.get("voters", []), **stated))
    except (UnprovedError, KeyError, ValueError, TypeError):
        return False
    reported = []
    for fields in proved if isinstance(proved, list) else [proved]:
        for each in CHECKS[name].sentences.values():
            with suppress(KeyError):
                reported.append(worded(each, fields))
    return sentence in reported


def unconvincing(table: pa.Table, configuration: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the evidence of the violations in a history."""
    for outcome in check(table, configuration=configuration).checks:
        if outcome.id not in PROOFS:
            continue
        for violation in outcome.violations:
            rows = [row for _, row in sorted(events_at(table, violation.events).items())]
            if not proves(outcome.id, violation.sentence, rows, configuration):
                yield f"{outcome.id}: {violation.sentence} does not follow from {rows}"
            for gone in rows:
                if proves(outcome.id, violation.sentence, [row for row in rows if row is not gone], configuration):
                    yield f"{outcome.id}: {violation.sentence} needs no {gone} in {rows}"


def test_every_check_of_raft_has_a_proof() -> None:
    of_raft = {
        each.id for family in families() if family.protocol is RAFT and not family.is_ground for each in family.checks
    }
    assert {*PROOFS} == {*of_raft, "calls-end"}


@pytest.mark.parametrize(
    "case",
    [case for case in all_cases() if case.verdict == "violated" and case.check in PROOFS],
    ids=lambda case: f"{case.place}-{case.check}",
)
def test_small_histories(case: Any) -> None:  # noqa: ANN401
    assert [*unconvincing(case.table, case.configuration)] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("run", MUTANTS, ids=lambda run: run.name)
def test_recorded_runs_of_mutants(run: Path) -> None:
    source = open_run(run)
    assert source.manifest is not None
    table = pa.Table.from_batches(source.batches())
    configuration = source.manifest.made_by["configuration"]
    voters = {"voters": [*range(configuration["nodes"])], "write_caching": configuration["write_caching"]}
    assert [*unconvincing(table, voters)] == []
