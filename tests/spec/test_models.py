"""Every model of the specification comes out as it declares, with the TLC that the set-up obtained."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from loghistory import Format, Manifest, open_run, write_run
from logspec.catalogue import read_catalogue
from logspec.check import Checked, check_model, prelude
from logspec.counterexample import to_history, voters_in
from logspec.models import Model, load_models
from logspec.tlc import EXIT_OK, run_tlc
from logspec.toolchain import VERSIONS, Toolchain, find_toolchain

MODELS = load_models()
SMALL = {name: model for name, model in MODELS.items() if model.tier == "small"}
FIRST = {(model.module, model.breaks): name for name, model in reversed(SMALL.items())}
"""The mutant by which `make test` sees that a promise can fail; others that break it are left to `make test-long`."""
LARGE = 200_000
"""Distinct states from which on a model is left to `make test-night`."""
LONG = [
    pytest.param(name, marks=pytest.mark.long(0) if (model.distinct or 0) > LARGE else pytest.mark.long)
    for name, model in MODELS.items()
    if model.tier == "long"
]
NIGHT = [name for name, model in MODELS.items() if model.tier == "night"]
HOLDING = [
    pytest.param(name, marks=pytest.mark.long(0) if model.tier == "long" else pytest.mark.long)
    for name, model in MODELS.items()
    if model.holds and model.tier != "night"
]


UNSEEN = {
    "barrier-does-not-wait": "a read is answered before its target is committed, and no client was told of that",
    "replicated-old-term": "the checker asks who ever held what is shown; here a majority did, one after the other",
    "truncated-for-equal-term": "one of five nodes does nothing for the last seventeen events; see the next",
    "truncated-ignores-committed-term": "one of five nodes does nothing for the last dozen events, and a checker that "
    "knows no more than these leaves it undecided",
    "replicated-old-term-read": "the same, and what the second reader is shown there are no values but configurations",
}
"""Mutants whose counterexample is no violation to the checker."""


@cache
def checked(model: Model) -> Checked:
    return check_model(model, find_toolchain(), workers=1, seconds=500)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if model.holds or name in FIRST.values() else pytest.mark.long)
        for name, model in SMALL.items()
    ],
)
def test_small_model(name: str, tmp_path: Path) -> None:
    assert checked(MODELS[name]).problems == ()
    if MODELS[name].overrides:
        the_checker_sees(MODELS[name], tmp_path)


@pytest.mark.timeout(4000)
@pytest.mark.parametrize("name", LONG)
def test_long_model(name: str, tools: Toolchain, tmp_path: Path) -> None:
    assert check_model(MODELS[name], tools, seconds=3600).problems == ()
    if MODELS[name].overrides:
        the_checker_sees(MODELS[name], tmp_path)


@pytest.mark.long(0)
@pytest.mark.parametrize("name", NIGHT)
def test_random_behaviours_hold(name: str, tools: Toolchain) -> None:
    assert check_model(MODELS[name], tools, seconds=120).problems == ()


def the_checker_sees(mutant: Model, directory: Path) -> None:
    """What TLC found, written as a history, violates a check of the rows of the catalogue that name the mutant.

    Where no row has a check there is nothing to see. Nor is there in the models of other modules: of progress, as TLC
    does not say how long the nodes were given; of membership and of compacted logs, as their states are not those of a
    run.
    """
    if mutant.module.stem not in ("MCFlushedRaft", "MCReads", "AsyncFlush"):
        return
    rows = [row for row in read_catalogue().rows if mutant.name in row.cells["mutants"].entries]
    if not any(row.cells["checks"].entries for row in rows):
        return
    behaviour = checked(mutant).outcome.behaviour
    table = to_history([*prelude(mutant, MODELS, behaviour[0], checked), *behaviour])
    made = {"configuration": {"write_caching": mutant.write_caching, "voters": voters_in(table)}}
    write_run(directory / "run", table, Manifest(name=mutant.name, made_by=made), Format.JSON_LINES)
    (judge,) = entry_points(group="logwitness.judges", name="history")
    verdict = judge.load()(open_run(directory / "run"), None)
    # A node that takes no part in the last steps may have stopped recording (counting.md#falls-quiet).
    found = {
        check["id"]
        for check in verdict["checks"]
        if check["verdict"] == "violated" or "which may explain this" in (check["reason"] or "")
    }
    if mutant.name not in UNSEEN:
        assert found & {check for row in rows for check in row.cells["checks"].entries}


@pytest.mark.timeout(8000)
@pytest.mark.parametrize("name", HOLDING)
def test_the_other_versions_of_tlc_count_the_same(name: str, tools: Toolchain) -> None:
    """The number that is pinned is that of the version that the tests above run."""
    model = MODELS[name]
    for version in set(VERSIONS) - {tools.version}:
        other = find_toolchain(version=version)
        outcome = run_tlc(other, model.module, model.configuration, coverage=False, seconds=3600)
        assert (outcome.status, outcome.violated, outcome.distinct) == (EXIT_OK, None, model.distinct)


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
        "MatchIsReal": "CommittedFlushedOnMajority",
        "LogMatching": "OneLeaderPerTerm",
        "VisibleWithinDirty": "FlushedWithinDirty",
        "CommitMonotonic": "CommitWithinFlushed",
    }
    unbroken = promised - broken - only_shapes - set(implied)
    assert unbroken == set()
    assert set(implied.values()) <= broken


def test_whatever_a_module_can_report_as_reached_some_model_must_reach() -> None:
    asked: dict[Path, set[str]] = {}
    for model in MODELS.values():
        asked.setdefault(model.module, set()).update(model.reaches)
    for module, names in asked.items():
        text = module.read_text(encoding="utf-8")
        assert set(re.findall(r'(?:Met\(\d+,|"reached",) "(\w+)"', text)) <= names, module.stem
