"""A model that does not come out as it declares fails, for each way in which it can differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logspec.check import check_model
from logspec.errors import SpecError
from logspec.models import load_models
from logspec.tlc import Outcome, run_tlc
from logspec.toolchain import Toolchain

MODELS = load_models()
HOLDS = MODELS["raft-old-term"]
MUTANT = MODELS["flush-ignores-truncation"]


DIFFERENT = [
    (replace(HOLDS, distinct=1449), "1450 distinct states, 1449 are pinned"),
    (replace(HOLDS, distinct=None), "1450 distinct states, and the model pins no number"),
    (replace(HOLDS, unreached=frozenset({"Crash", "PowerLoss"})), "never taken: ClientAppend"),
    (
        replace(HOLDS, unreached=HOLDS.unreached | {"FollowerAppend"}),
        "declared as unreached, but taken: FollowerAppend",
    ),
    (
        replace(HOLDS, reaches=frozenset({"TwoLeaders", "AppendTruncated"})),
        "never reached: AppendTruncated, TwoLeaders",
    ),
    (replace(MUTANT, breaks="FlushedWithinDirty"), "FlushedDurable is violated; it should be FlushedWithinDirty"),
    (replace(MUTANT, holds=True), "FlushedDurable is violated"),
    (
        replace(MUTANT, configuration=MODELS["async-flush"].configuration.replace("MaxLog = 3", "MaxLog = 1")),
        "FlushedDurable should be violated and is not",
    ),
    (replace(MUTANT, configuration="INIT Init\nNEXT Nowhere\n"), "TLC says: "),
]


def test_a_difference_is_named(tools: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    """TLC explores what is the same once; what is declared of it differs."""
    outcomes: dict[tuple[str, bool], Outcome] = {}

    def explored(tools: Toolchain, module: Path, configuration: str, **options: Any) -> Outcome:  # noqa: ANN401
        key = configuration, options["coverage"]
        if key not in outcomes:
            outcomes[key] = run_tlc(tools, module, configuration, **options)
        return outcomes[key]

    monkeypatch.setattr("logspec.check.run_tlc", explored)
    for model, problem in DIFFERENT:
        checked = check_model(model, tools, workers=1, seconds=100)
        assert not checked.as_expected, problem
        assert checked.problems[0].startswith(problem)


WALKS = MODELS["raft-walks"]


def test_random_behaviours_end_with_their_time(tools: Toolchain) -> None:
    checked = check_model(WALKS, tools, workers=1, seconds=4)
    assert checked.problems == ()
    assert checked.outcome.timed_out


@pytest.mark.parametrize(
    ("rule", "mutant", "promise"),
    [
        pytest.param("RepliesBelieved", "RepliesCombined", "MatchIsReal", marks=pytest.mark.long),
        ("VisibilityOnAppend", "VisibleJumpsPending", "PendingNotVisible"),
    ],
)
def test_random_behaviours_find_what_a_mutant_breaks(rule: str, mutant: str, promise: str, tools: Toolchain) -> None:
    """The same seed finds it in the same behaviour."""
    broken = replace(WALKS, configuration=f"{WALKS.configuration}CONSTANT {rule} <- {mutant}\n")
    found = check_model(broken, tools, workers=1, seconds=200, seed=7)
    assert found.problems == (f"{promise} is violated",)
    again = check_model(replace(broken, holds=False, breaks=promise), tools, seconds=200, seed=7)
    assert again.problems == ()
    assert again.outcome.behaviour == found.outcome.behaviour


def test_a_run_that_takes_too_long_is_stopped(tools: Toolchain) -> None:
    checked = check_model(MODELS["raft-power-loss"], tools, workers=1, seconds=2)
    assert checked.problems == ("TLC was stopped after 2 s",)
    assert checked.outcome.seconds < 20


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("models: [", "cannot be read"),
        ("other: 1", "no mapping `models`"),
        ("models: {m: {module: raft/AsyncFlush, expect: maybe}}", "expect is 'maybe'; it is `holds` or `violated`"),
        ("models: {m: {module: raft/AsyncFlush, expect: violated}}", "breaks is missing"),
        ("models: {m: {expect: holds}}", "module is missing"),
        ("models: {m: {modul: x, expect: holds}}", "unknown field modul"),
        ("models: {m: {module: x, init: I, next: N, constants: {C: [1]}, expect: holds}}", "constant C is [1]"),
        ("models: {m: {module: x, expect: holds}}", "init is missing"),
    ],
)
def test_a_bad_model_file_is_one_line(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "raft" / "models.yaml"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_models(tmp_path)
    assert problem in str(caught.value)
    assert str(file) in str(caught.value)
