"""Guards of steps are taken out one by one: a small model notices, or the catalogue says why it can spare the guard."""

from __future__ import annotations

import pytest
from tests.spec.guards import Guard, guards_of

from logspec.catalogue import read_catalogue
from logspec.models import load_models
from logspec.places import spec_directory
from logspec.tlc import run_tlc
from logspec.toolchain import Toolchain

WATCHED = {
    "raft/FlushedRaft": ("raft-four-nodes", "raft-divergence-partly-heard", "raft-old-term"),
    "raft/Membership": ("sessions", "membership-two-founders"),
    "raft/Snapshots": ("snapshots",),
    "raft/Sessions": ("sessions",),
    "ghost_batches/GhostBatches": ("ghost-batches",),
}
"""The modules whose guards are tried, and the models that may notice, the cheapest first."""
LARGER = {
    'FlushedRaft.AppendConfiguration: role[n] = "leader"': "raft-divergence-behind",
    "FlushedRaft.FollowerAppend: HoldsPrevious(n, end)": "raft-divergence-behind",
    "Membership.ChangeVoters: MayChange(Len(log[n]), commit[n])": "membership",
    "Snapshots.Install: s.term >= term[n]": "snapshots-summed",
}
"""Guards that only larger models miss."""
GUARDS = {
    guard.name: (guard, (*models, *filter(None, [LARGER.get(guard.name)])))
    for module, models in WATCHED.items()
    for guard in guards_of(spec_directory() / f"{module}.tla")
}
SPARE = {name for each in read_catalogue().spare_guards for name in each.guards}


def test_the_guards_that_models_can_spare_are_there() -> None:
    assert sorted(SPARE - GUARDS.keys()) == []
    assert sorted(LARGER.keys() - GUARDS.keys()) == []


@pytest.mark.long(2)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", GUARDS)
def test_a_model_notices_that_a_guard_is_gone(name: str, tools: Toolchain) -> None:
    guard, models = GUARDS[name]
    assert any(_notices(model, guard, tools) for model in models) == (name not in SPARE)


def _notices(name: str, guard: Guard, tools: Toolchain) -> bool:
    """Whether a promise of the model is broken, or a step has lost its sense, as TLC says."""
    model, without = load_models()[name], {guard.module.stem: guard.without()}
    options = {"extra_modules": without, "coverage": False, "brief": True, "seconds": 300.0}
    outcome = run_tlc(tools, model.module, model.configuration, **options)
    return outcome.violated is not None or bool(outcome.errors and not outcome.timed_out)
