"""Each mutant is caught by one of the checks that it names, on simulated runs that the reference survives."""

from __future__ import annotations

import pytest

from quorumlog.pull_queries.mutants import MUTANTS
from quorumlog.pull_queries.settings import SETTINGS
from quorumlog.trials.judge import Candidate, judge_seed

SEEDS = range(4)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_caught(mutant: str) -> None:
    found = (judge_seed(Candidate("pull-queries", mutant), seed).rejections for seed in SEEDS)
    assert next(filter(None, found), None), f"{mutant} survived {len(SEEDS)} seeds"


@pytest.mark.parametrize("setting", [*SETTINGS, "swarm"])
def test_the_reference_survives(setting: str) -> None:
    candidate = Candidate("pull-queries", under=setting)
    for seed in SEEDS if setting != "departures" else SEEDS[:1]:
        assert judge_seed(candidate, seed).rejections == ()
