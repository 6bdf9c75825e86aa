"""The reference survives; every mutant is caught, and by the check that is stated with it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorumlog.hunt import Rejection, hunt, judge_table, shrunk, try_run, try_seed
from quorumlog.mutants import MUTANTS, Mutant
from quorumlog.raft.core import RaftCore
from quorumlog.simulation.configuration import ClusterConfiguration
from quorumlog.simulation.runs import simulate
from quorumlog.simulation.settings import SETTINGS

SEEDS = 200
GROUP = 20


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_the_reference_survives(first: int) -> None:
    for seed in range(first, first + GROUP):
        assert try_seed(None, seed) is None


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(SEEDS, 2000, 200))
def test_the_reference_survives_2000_seeds(first: int) -> None:
    for seed in range(first, min(first + 200, 2000)):
        assert try_seed(None, seed) is None


def test_the_reference_exercises_every_check_of_replicas() -> None:
    exercised: set[str] = set()
    declared: set[str] = set()
    for seed, setting in enumerate(SETTINGS.values()):
        table, _ = simulate(seed, setting, RaftCore)
        for check in judge_table(table, setting)["checks"]:
            declared.add(check["id"])
            if check["judged"]:
                exercised.add(check["id"])
    for mutant in MUTANTS.values():
        assert set(mutant.checks) <= exercised
    assert declared >= exercised


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=list(MUTANTS))
def test_a_mutant_is_caught_by_its_check(mutant: Mutant) -> None:
    found = hunt(mutant, range(400), processes=1)
    assert found is not None, f"{mutant.id} survived"
    assert found.check in mutant.checks


def test_shrinking_keeps_the_verdict() -> None:
    mutant = MUTANTS["ack-on-term-change"]
    found = hunt(mutant, range(100), processes=1)
    assert found is not None
    small = shrunk(mutant, found, attempts=40)
    assert 0 < len(small.plan) < len(found.plan)
    again = try_run(mutant, small.seed, small.setting, _with_plan(small))
    assert again == small
    assert try_run(None, small.seed, small.setting, _with_plan(small)) is None


def _with_plan(rejection: Rejection) -> ClusterConfiguration:
    return replace(SETTINGS[rejection.setting], plan=rejection.plan)
