"""Every model of the specification comes out as it declares, with the TLC that the set-up obtained."""

from __future__ import annotations

import pytest

from logspec.check import check_model
from logspec.models import load_models
from logspec.toolchain import VERSIONS, Toolchain, find_toolchain

MODELS = load_models()
SMALL = [name for name, model in MODELS.items() if model.tier == "small"]
LONG = [name for name, model in MODELS.items() if model.tier == "long"]
HOLDING = [name for name, model in MODELS.items() if model.holds]


@pytest.mark.parametrize("name", SMALL)
def test_small_model(name: str, tools: Toolchain) -> None:
    checked = check_model(MODELS[name], tools, workers=1, seconds=500)
    assert checked.problems == ()


@pytest.mark.long
@pytest.mark.timeout(4000)
@pytest.mark.parametrize("name", LONG)
def test_long_model(name: str, tools: Toolchain) -> None:
    checked = check_model(MODELS[name], tools, seconds=3600)
    assert checked.problems == ()


@pytest.mark.long
@pytest.mark.timeout(8000)
@pytest.mark.parametrize("name", HOLDING)
def test_both_versions_of_tlc_count_the_same(name: str) -> None:
    found = [
        check_model(MODELS[name], find_toolchain(version=version), seconds=3600).outcome.distinct
        for version in VERSIONS
    ]
    assert found == [MODELS[name].distinct] * len(VERSIONS)


def test_the_promises_that_mutants_break_are_all_promised() -> None:
    """A promise that no mutant breaks is not known to be able to fail."""
    broken = {model.breaks for model in MODELS.values()}
    promised = set()
    for model in MODELS.values():
        if model.holds:
            lines = model.configuration.splitlines()
            promised |= {line.split()[1] for line in lines if line.startswith(("INVARIANT", "PROPERTY"))}
    only_shapes = {"TypeOk"}
    implied = {
        "OneVotePerTerm": "OneLeaderPerTerm",
        "MatchIsReal": "CommittedIsFlushedOnMajority",
        "LogMatching": "OneLeaderPerTerm",
        "VisibleIsDirty": "FlushedIsDirty",
        "CommitNeverMovesBack": "CommitIsFlushed",
    }
    unbroken = promised - broken - only_shapes - set(implied)
    assert unbroken == set()
    assert set(implied.values()) <= broken
