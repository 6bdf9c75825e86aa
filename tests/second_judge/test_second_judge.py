"""The fast checks and the plain ones agree: on small histories, recorded and simulated runs, and damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from comparison import TWINS, WITHOUT_TWIN, disagreements, events_of, read_back
from damage import damaged
from sources import RECORDED, Source, recorded, simulated

from logwitness.checks import house_families
from logwitness.explain.transcripts import Case, all_cases

GROUP = 10
"""Simulated runs a test."""

LARGE = 5000
"""Events from which on a recorded run is judged as it is: plain checks take seconds for it."""


def damaged_copies(source: Source, other: Source, seeds: range) -> list[str]:
    """What the judges say differently of copies of a history, damaged each by its own seed."""
    found: list[str] = []
    rows, others = events_of(source.table), events_of(other.table)
    for seed in seeds:
        kinds, copy = damaged(rows, others, seed)
        table = read_back(copy)
        if table is not None:
            about = f"{source.name}, damaged by seed {seed}: {kinds}"
            found += map(str, disagreements(table, source.configuration, about))
    return found


def test_every_check_has_a_twin() -> None:
    assert {check.id for family in house_families() for check in family.checks} == {*TWINS, *WITHOUT_TWIN}


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.place}-{case.check}")
def test_small_histories(case: Case) -> None:
    nodes = sorted({row["node"] for row in case.rows if "node" in row})
    assert not disagreements(case.table, {"voters": nodes or [0]} | case.configuration, case.place)


@pytest.mark.parametrize("run", RECORDED, ids=lambda run: run.name)
def test_recorded_runs(run: Path) -> None:
    source = recorded(run)
    found = [str(each) for each in disagreements(source.table, source.configuration, source.name)]
    other = recorded(RECORDED[RECORDED.index(run) - 1])
    if len(source.table) < LARGE:
        found += damaged_copies(source, other, range(4))
    assert not found, "\n".join(found)


def judged(seeds: range, copies: int) -> None:
    """Judge simulated runs, and damaged copies of each."""
    found: list[str] = []
    for seed in seeds:
        source = simulated(seed)
        if source is not None:
            found += map(str, disagreements(source.table, source.configuration, source.name))
            found += damaged_copies(source, simulated(seed - 1) or source, range(seed * copies, (seed + 1) * copies))
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, GROUP))
def test_simulated_runs(first: int) -> None:
    judged(range(first, first + GROUP), copies=4)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_thousands_of_simulated_runs(first: int) -> None:
    judged(range(first, first + 100), copies=10)
