"""Each mutant of the read path is noticed: by a scenario of the page, or by the judge that knows all on a simulated run
that the reference survives.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from omniscient import problems
from reading import play

import quorumlog.read_path
from loghistory import open_run
from quorumlog.read_path.mutants import MUTANTS
from quorumlog.read_path.protocol import PROTOCOL
from quorumlog.read_path.settings import SETTINGS

SCENARIOS = tomllib.loads(Path(quorumlog.read_path.__file__).with_name("scenarios.toml").read_text("utf-8"))["scenario"]

BY_SCENARIO = {
    "incomplete-as-complete": 10,
    "f-majority-in-every-scope": 20,
    "reader-stuck-no-dataloss": 21,
    "all-send-all-with-list": 23,
    "trim-over-rejected": 26,
    "lost-one-short": 1,
    "no-repeat-before-loss": 30,
    "no-marker": 31,
    "unavailable-forgone": 33,
    "given-up-forgotten": 35,
}
"""Which scenario a mutant does not play as it should."""

RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs" / "read_path"
RECORDED = {run.name.removeprefix("mutant-"): run for run in sorted(RUNS.glob("mutant-*"))}
"""The mutants of which a recorded run shows to the checker what is wrong."""

BY_RUN = {
    "old-statuses": ("stale-answers", 0),
    "recovery-skips-unavailable": ("unavailable", 0),
    "patience-stays": ("slow-disks", 0),
    "written-again": ("slow-disks", 0),
}
"""The run that shows to the judge that knows all what the known rules lose, or what does not end: setting and first
seed."""

BY_TEST = {"repair-for-ever": "test_recovery.py", "seal-needs-f-majority": "test_recovery.py"}
"""The test that notices what no history shows: every shard comes back in the end, and nobody bounds a recovery."""


def test_every_mutant_is_accounted_for() -> None:
    assert {*BY_SCENARIO, *RECORDED, *BY_RUN, *BY_TEST} == set(MUTANTS)
    assert all(name in Path(__file__).with_name(test).read_text("utf-8") for name, test in BY_TEST.items())


@pytest.mark.parametrize("mutant", RECORDED)
def test_a_recorded_run_shows_it_to_a_check_that_is_named(mutant: str) -> None:
    """The verdicts themselves are for the tests of recorded runs."""
    manifest = open_run(RECORDED[mutant]).manifest
    assert manifest is not None
    expected = manifest.expected or {}
    assert {check for check, verdict in expected.items() if verdict == "violated"} & {*MUTANTS[mutant].checks}


@pytest.mark.parametrize("mutant", BY_SCENARIO)
def test_a_scenario_notices(mutant: str) -> None:
    (scenario,) = (each for each in SCENARIOS if each["number"] == BY_SCENARIO[mutant])
    with pytest.raises(AssertionError):
        play(scenario, make=MUTANTS[mutant].make_core)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"scenario-{scenario['number']}")
def test_the_reference_plays_each_scenario(scenario: dict[str, Any]) -> None:
    play(scenario, make=PROTOCOL.core)


def _wrong(mutant: str | None, setting: str, seed: int) -> list[str]:
    protocol = PROTOCOL.mutated(mutant)
    table, outcome = protocol.simulate(seed, protocol.configured(setting, seed))
    losing = SETTINGS[setting].loses if setting in SETTINGS else False
    found = [each for each in problems(table.to_pylist()) if not (losing and "has a dataloss" in each)]
    return found + ([] if outcome.converged else ["does not converge"])


@pytest.mark.parametrize("mutant", ["patience-stays", "written-again"])
def test_where_each_write_takes_longer_than_a_recovery_waits_at_first_it_ends_all_the_same(mutant: str) -> None:
    """Source: read-path.md#recovery-clean, read-path.md#written-once."""
    setting, seed = BY_RUN[mutant]
    assert _wrong(mutant, setting, seed) == ["does not converge"]
    assert _wrong(None, setting, seed) == []


@pytest.mark.slow
@pytest.mark.parametrize("mutant", BY_RUN)
def test_a_run_shows_it(mutant: str) -> None:
    setting, seed = BY_RUN[mutant]
    assert any(_wrong(mutant, setting, each) for each in range(seed, seed + 6))


@pytest.mark.parametrize(
    ("mutant", "breaks"), [("old-statuses", "dataloss"), ("recovery-skips-unavailable", "which was")]
)
def test_the_two_rules_that_are_ours_are_needed(mutant: str, breaks: str) -> None:
    """The known rule loses what was acknowledged where ours does not.

    Source: read-path.md#event-log-version, read-path.md#recovery-digest.
    """
    setting, seed = BY_RUN[mutant]
    lost = [problem for problem in _wrong(mutant, setting, seed) if breaks in problem]
    assert lost
    assert _wrong(None, setting, seed) == []
