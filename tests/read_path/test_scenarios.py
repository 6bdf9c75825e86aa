"""The scenarios of read-path.md#scenarios, each as data (`quorumlog/read_path/scenarios.toml`)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from reading import play

import quorumlog.read_path
from quorumlog.read_path.rules import ships

FILE = Path(quorumlog.read_path.__file__).with_name("scenarios.toml")
SCENARIOS = tomllib.loads(FILE.read_text(encoding="utf-8"))["scenario"]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"scenario-{scenario['number']}")
def test_scenario(scenario: dict[str, Any]) -> None:
    play(scenario)


def test_scenario_29() -> None:
    """Single-copy delivery without shuffle and extras: shard 0 with 1 listed."""
    copysets = [[1, 0, 3, 4, 5], [2, 5, 0, 4, 3], [3, 4, 1, 5, 2], [0, 3, 1, 5, 2], [5, 0, 4, 2, 3], [0, 3, 2, 4, 1]]
    shipped = [
        number
        for number, copyset in enumerate(copysets, 1)
        if 0 in copyset and ships(copyset.index(0), [member == 1 for member in copyset], [False] * 5, 5)
    ]
    assert shipped == [1, 4, 6]
