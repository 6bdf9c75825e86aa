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
}
"""Which scenario a mutant does not play as it should."""

BY_RUN = {
    "empty-without-rewind": ("stale-answers", 0),
    "old-statuses": ("stale-answers", 0),
    "wiped-shard-answers": ("stale-answers", 0),
    "unavailable-dropped": ("swarm", 2),
    "f-majority-one-short": ("swarm", 2),
    "start-keeps-next": ("swarm", 4),
    "deduplicated-by-arrival": ("swarm", 0),
    "slide-before-delivery": ("swarm", 1),
    "bridge-hides-loss": ("losses", 0),
    "release-ignored": ("failover", 0),
    "recovery-unfenced": ("failover", 1),
    "recovery-skips-unavailable": ("unavailable", 0),
    "lng-over-aborted": ("default", 0),
    "removed-shard-in-copyset": ("failover", 0),
}
"""The run that shows a mutant: setting and first seed."""

SURVIVES = {
    "stale-filter-version": "data of an earlier START, still on its way, says nothing that the next START does not",
    "gap-during-rewind": "the losses that it issues too early are losses later too",
    "grace-restarted": "readers are woken up too seldom within a grace period",
    "no-marker": "markers of other shards end the gap in time",
    "too-many-slow": "so many shards are never slow at once",
    "release-without-purge": "no shard comes back with an unfinished record that lost",
    "release-before-recovery": "no reader meets the epoch that is still open",
    "wrong-precedence": "no recovery meets a record with a higher wave than an earlier recovery's",
    "hole-at-non-auth": "no sequencer fails while the shards of a whole copyset are lost",
    "repair-for-ever": "every lost shard is rebuilt in the end",
}
"""Mutants that no run of these settings has shown yet, and what it would take."""


def test_every_mutant_is_accounted_for() -> None:
    assert {*BY_SCENARIO, *BY_RUN, *SURVIVES} == set(MUTANTS)


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
