"""Of every check that no proof by hand is for (`proofs`): its evidence shows its violations, alone, and all of it does.

In small histories and in recorded runs; what it rests on beside the evidence is declared in `alone`.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from alone import ANCHORS, BESIDE, NAMES, Found, found_in

from loghistory import open_run
from logwitness.checks import all_checks
from logwitness.explain.transcripts import all_cases
from proofs import PROOFS

RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs"
MUTANTS = sorted(file.parent for of in ("pull_queries", "read_path") for file in RUNS.glob(f"{of}/mutant-*/*.json"))
DOUBTFUL = {each.id for each in all_checks() if each.doubtful}
"""Their breaches are undecided, and have a reason instead of evidence."""
NAMED = {each.id for each in all_checks()} - {*PROOFS} - DOUBTFUL
MOST = 3
"""Violations of a check in one history that are looked at."""


@cache
def in_cases() -> dict[str, list[Found]]:
    """The violations in small histories, by check."""
    found = defaultdict(list)
    for case in all_cases():
        for each in found_in(case.table, case.configuration, NAMED, MOST) if case.verdict == "violated" else ():
            found[each.name].append(each)
    return found


def declared(table: dict[str, tuple[tuple[str, ...], str]], name: str) -> set[str]:
    return {*table.get(name, ((), ""))[0]}


def test_every_check_has_violations_that_are_looked_at() -> None:
    assert {*in_cases()} == NAMED
    assert {*BESIDE, *ANCHORS} <= NAMED


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(NAMED))
def test_small_histories(name: str) -> None:
    for each in in_cases()[name]:
        beside, spare = each.beside()
        assert spare <= declared(ANCHORS, name), each.violation
        assert beside <= declared(BESIDE, name) | {*NAMES}


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [pytest.param(r, id=r.name, marks=pytest.mark.long if place % 8 else ()) for place, r in enumerate(MUTANTS)],
)
def test_recorded_runs_of_mutants(run: Path) -> None:
    source = open_run(run)
    assert source.manifest
    made = source.manifest.made_by
    given = {name: value for name, value in made["configuration"].items() if value is not None}
    known = {"voters": source.manifest.nodes, **given, "protocol": made["protocol"]}
    for each in found_in(source.table(), known, NAMED, 1):
        _, spare = each.beside()
        assert spare <= declared(ANCHORS, each.name), each.violation
