"""The reference survives; every mutant is caught, and by the check that is stated with it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from msgspec.structs import replace

from quorumlog.protocol import Mutant
from quorumlog.raft.mutants import offsets
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import SETTINGS, RaftConfiguration
from quorumlog.trials.hunt import hunt
from quorumlog.trials.judge import CONVERGENCE, Candidate, Rejection, judge_run, judge_seed, judge_table, shrunk

REFERENCE = Candidate("raft")
SEEDS = 100
GROUP = 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_the_reference_survives(first: int) -> None:
    for seed in range(first, first + GROUP):
        assert judge_seed(REFERENCE, seed).rejections == ()


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(SEEDS, 2000, 200))
def test_the_reference_survives_2000_seeds(first: int) -> None:
    for seed in range(first, min(first + 200, 2000)):
        assert judge_seed(REFERENCE, seed).rejections == ()


def test_the_reference_exercises_every_check_of_replicas() -> None:
    exercised: set[str] = set()
    declared: set[str] = set()
    for seed, setting in enumerate(SETTINGS.values()):
        table, _ = PROTOCOL.simulate(seed, setting)
        for check in judge_table("raft", table, setting)["checks"]:
            declared.add(check["id"])
            if check["judged"]:
                exercised.add(check["id"])
    for mutant in offsets.MUTANTS:
        assert set(mutant.checks) <= exercised
    assert declared >= exercised


HARD = 40
"""A mutant that may need more seeds than these is left to `make test-long`."""


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=id_, marks=[pytest.mark.long, pytest.mark.timeout(3600)] if mutant.seeds > HARD else [])
        for id_, mutant in PROTOCOL.hunted.items()
    ],
)
def test_a_mutant_is_caught_by_its_check(mutant: Mutant) -> None:
    found = hunt(Candidate("raft", mutant.id), range(mutant.seeds), processes=1)
    assert found is not None, f"{mutant.id} survived"
    assert found.check in mutant.checks


def test_shrinking_keeps_the_verdict() -> None:
    mutant = Candidate("raft", "ack-on-term-change")
    found = hunt(mutant, range(100), processes=1)
    assert found is not None
    small = shrunk(mutant, found, attempts=40)
    assert 0 < len(small.plan) < len(found.plan)
    again = judge_run(mutant, small.seed, small.setting, _with_plan(small))
    assert again.rejections[0] == small
    assert judge_run(REFERENCE, small.seed, small.setting, _with_plan(small)).rejections == ()


def test_shrinking_keeps_the_check_that_rejected_the_run(tmp_path: Path) -> None:
    """With these rules every run is rejected, whatever its faults, but by another check than the one to be kept."""
    rules = tmp_path / "mine.py"
    rules.write_text("def log_ok(last_term, dirty, own_last_term, own_dirty):\n    return False\n")
    mine = Candidate("raft", rules=str(rules))
    found = judge_seed(mine, 0).rejections[0]
    assert found.check == CONVERGENCE
    assert shrunk(mine, found, attempts=1) != found
    lost = dataclasses.replace(found, check="lost-write")
    assert shrunk(mine, lost, attempts=1) == lost


def _with_plan(rejection: Rejection) -> RaftConfiguration:
    return replace(SETTINGS[rejection.setting], plan=rejection.plan)
