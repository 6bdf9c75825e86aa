"""The scenarios of read-path.md#scenarios, each as data (`quorumlog/read_path/scenarios.toml`)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from reading import Reading, play

import quorumlog.read_path
from quorumlog.durations import SECOND
from quorumlog.read_path.events import Connected, Disconnected, MemoryPressed
from quorumlog.read_path.rules import lsn_of, ships

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


def test_whoever_rejects_again_and_again_is_asked_more_and_more_rarely() -> None:
    """Source: read-path.md#window."""
    reading = Reading({"settings": {"room": 1, "redelivery": SECOND}})
    reading.hear("a1,2")
    waits = [reading.timers["redelivery"]]
    for _ in range(2):
        reading.did("redelivery")
        waits.append(reading.timers["redelivery"])
    assert waits == [SECOND, 2 * SECOND, 4 * SECOND]
    assert reading.delivered() == "1"
    reading.did("redelivery")
    reading.hear("a3")
    assert reading.timers["redelivery"] == SECOND


def test_a_window_that_was_halved_under_pressure_grows_again_one_by_one() -> None:
    """Source: read-path.md#window."""
    reading = Reading({"shards": 1, "settings": {"window": 8, "threshold": 0.0}})
    sizes = []
    for lsn, short in ((1, True), (2, False), (3, False)):
        reading.give(MemoryPressed(short))
        reading.hear(f"a{lsn}")
        sizes.append(reading.core.size)
    assert sizes == [4, 5, 6]


def test_a_shard_that_is_connected_again_is_asked_from_the_next_one_on() -> None:
    """Source: read-path.md#shard-state."""
    reading = Reading({})
    reading.hear("a1,2")
    reading.give(Disconnected(0))
    reading.give(Connected(0))
    assert reading.start.first == lsn_of(1, 3)
