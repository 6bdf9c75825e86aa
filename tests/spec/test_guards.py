"""Guards of steps are taken out one by one: a small model notices, or the catalogue says why it can spare the guard.

Of the read path the conjuncts of rules are tried, too, and one of each module in every run of the tests.
"""

from __future__ import annotations

import pytest
from tests.spec.guards import Guard, conjuncts_of, guards_of

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
    "read_path/Decision": (
        *("decision-verdicts", "decision-writes", "decision-copysets", "decision-donors", "decision-gaps"),
    ),
    "read_path/Appends": ("appends-waves", "appends-loss-heard-late", "appends-loss"),
    "read_path/Epochs": ("epochs-two",),
    "read_path/Recovery": ("recovery-while-writing", "recovery-ends", "recovery-one-away"),
    "read_path/Rebuilding": ("rebuilding-three",),
    "read_path/ReadOneEpoch": (
        *("read-progress", "read-progress-trimmed", "read-progress-scd", "read-written", "read-trimmed"),
    ),
    "read_path/Windows": ("windows-one-slot", "windows-two"),
    "read_path/SingleCopy": ("single-copy-efficient", "single-copy-looks-again"),
}
"""The modules whose guards are tried, and the models that may notice, the cheapest first."""
INSTEAD = {
    "read-three-events": (
        *("Down", "Back", "Lose", "Unavailable", "Unrecoverable", "Rebuild", "Empty", "Acknowledge"),
        "Donors",
    ),
    "read-two-away": ("Adequate",),
    "read-three-events-dirty": ("Soil", "Clean"),
    "read-written-loss": ("TakesWrites",),
}
"""Steps and rules of ReadOneEpoch that those models do not take, or without whose guards they do not end."""
LARGER = {
    'FlushedRaft.AppendConfiguration: role[n] = "leader"': "raft-divergence-behind",
    "FlushedRaft.FollowerAppend: HoldsPrevious(n, end)": "raft-divergence-behind",
    "Membership.ChangeVoters: MayChange(Len(log[n]), commit[n])": "membership",
    "Snapshots.Install: s.term >= term[n]": "snapshots-summed",
    "ReadOneEpoch.Unrecoverable: NotComingBack(s)": "read-two-away",
    "ReadOneEpoch.Write: \\A s \\in c : TakesWrites(s)": "read-written-loss",
    'ReadOneEpoch.Ship: Says(s) = "started"': "read-one-loss",
    "ReadOneEpoch.MayIssue: ~StatusesOld(r)": "read-one-loss",
    "ReadOneEpoch.MayIssue: Silent(r) # Node": "read-one-shard",
    "ReadOneEpoch.Took: Accepts(r, s)": "read-on-its-way",
    "ReadOneEpoch.Sends: flight[s] = None": "read-on-its-way-two",
    'ReadOneEpoch.List: reader.mode = "scd"': "read-progress-scd-down",
    "ReadOneEpoch.List: s \\notin reader.joined": "read-progress-scd-down",
    "ReadOneEpoch.Empty: MayBeEmpty(status)": "read-one-copy",
    "Appends.Store: Knew(sets[w], w)": "appends-loss-all-late",
    "Recovery.Mutate: TakesRun(s, r)": "recovery-two-runs",
    "Recovery.Purge: Purged(@[n], r)": "recovery-overtaken",
    "Rebuilding.Away: s \\in Up": "rebuilding-two-leave",
    "Rebuilding.TakeUp: Cardinality(Staying) >= R": "rebuilding-two-leave",
    "Rebuilding.Digest: Cardinality(among) >= R": "rebuilding-two-leave",
    'Rebuilding.Done: (Authoritative \\/ \\A t \\in Gone : status[t] = "under")': "rebuilding-two-leave",
    "Rebuilding.InOrder: New(s) \\subseteq task[s].stored": "rebuilding-half-amended",
    "Rebuilding.RecoveryUnderWay: s \\notin release": "rebuilding-ends",
}
"""Guards that only larger models miss."""
FEW = (
    'Decision.ReadVerdict: v \\in {"none", "incomplete"}',
    "Appends.Stored: Counts(w)",
    "Epochs.Deliver: at \\in Buffered",
    "Recovery.Digest: from \\in {Largest({low, TrimmedTo(digest)}) : low \\in {0, lng}}",
    "Rebuilding.Done: ~Waits(s)",
    "ReadOneEpoch.Deliver: reader.at \\in reader.buffer",
    "Windows.HearRecord: Intact(s, n)",
    "SingleCopy.Stuck: reader.said = Node",
)
"""Of those that the first model of their module misses at once."""


def _watched() -> dict[str, tuple[Guard, tuple[str, ...]]]:
    """Each guard by its name, with the models that may notice that it is gone."""
    found: dict[str, tuple[Guard, tuple[str, ...]]] = {}
    instead = {f"ReadOneEpoch.{step}": (model,) for model, steps in INSTEAD.items() for step in steps}
    for module, models in WATCHED.items():
        file = spec_directory() / f"{module}.tla"
        rules = conjuncts_of(file) if module.startswith("read_path/") else ()
        for guard in (*guards_of(file), *rules):
            name = guard.name if guard.name not in found else f"{guard.name} (again)"
            assert name not in found
            tried = instead.get(f"{file.stem}.{guard.step}", models)
            found[name] = guard, (*tried, *filter(None, [LARGER.get(name)]))
    return found


GUARDS = _watched()
SPARE = {name for each in read_catalogue().spare_guards for name in each.guards}


def test_the_guards_that_models_can_spare_are_there() -> None:
    assert sorted(SPARE - GUARDS.keys()) == []
    assert sorted(LARGER.keys() - GUARDS.keys()) == []


@pytest.mark.parametrize("name", FEW)
def test_the_first_model_notices_that_a_guard_is_gone(name: str, tools: Toolchain) -> None:
    guard, models = GUARDS[name]
    assert _notices(models[0], guard, tools)


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
    assert not any("Parsing or semantic analysis failed" in error for error in outcome.errors), guard.name
    return outcome.violated is not None or bool(outcome.errors and not outcome.timed_out)
