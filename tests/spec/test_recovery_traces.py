"""What recoveries of the read path did, in recorded and simulated runs, is a behaviour of the spec; mutants' is not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from loghistory import SCHEMA, Manifest, open_run, write_run
from logspec.errors import SpecError
from logspec.recovery_traces import (
    RecoveryTrace,
    Step,
    follow_recoveries,
    nearest_recovery,
    read_recovery_traces,
)
from logspec.toolchain import find_toolchain
from quorumlog.hunting.simulate_command import simulate

RECORDED = Path(__file__).resolve().parents[2] / "histories" / "runs" / "read_path"
REFUSED = {
    "recovery-unfenced": ("Mutate", "Plans(Noted[4], Leaves) # {}"),
    "recovery-skips-unavailable": ("Mutate", "Plans(Noted[4], Leaves) # {}"),
    "release-before-recovery": ("ReleaseLater", "MayRelease"),
}
"""The mutants that touch a rule which these traces follow: the nearest action, and what of it does not hold."""


@cache
def traces_of(run: Path) -> tuple[RecoveryTrace, ...]:
    return tuple(read_recovery_traces(open_run(run), run.name))


def followed(*traces: RecoveryTrace) -> list[str | None]:
    follow_recoveries(traces, find_toolchain(None, None))
    return [trace.stuck for trace in traces]


def test_recorded_recoveries_of_the_reference_are_allowed() -> None:
    traces = [trace for run in sorted(RECORDED.glob("[!m]*")) for trace in traces_of(run)]
    assert {*followed(*traces)} == {None}
    words = Counter(step[0] for trace in traces for step in trace.events)
    assert {"seal", "copy", "recover", "release", "log", "disk"} <= words.keys()


def test_the_recorded_run_of_a_release_before_recovery_is_refused() -> None:
    """The other mutants are for the next test."""
    found = followed(*traces_of(RECORDED / "mutant-release-before-recovery"))
    assert [said for said in found if said is not None] == [
        "event 1728: in epoch 2 nothing is recovered, and epoch 3 is released"
    ]


@pytest.mark.long(30)
@pytest.mark.parametrize("name", REFUSED)
def test_the_nearest_action_names_the_rule(name: str) -> None:
    traces = traces_of(RECORDED / f"mutant-{name}")
    follow_recoveries(traces, find_toolchain(None, None))
    found = [nearest_recovery(trace, find_toolchain(None, None)) for trace in traces if trace.stuck is not None]
    action, conjunct = REFUSED[name]
    assert any(near is not None and near.action == action and conjunct in near.conjunct for near in found), found


def _changed(trace: RecoveryTrace, at: int, *steps: Step) -> RecoveryTrace:
    """The trace with other steps in place of one."""
    events = [*trace.events[:at], *steps, *trace.events[at + 1 :]]
    seqs = [*trace.seqs[:at], *[trace.seqs[at]] * len(steps), *trace.seqs[at + 1 :]]
    return replace(trace, events=events, seqs=seqs)


@pytest.mark.long
def test_what_is_changed_is_refused_at_that_event() -> None:
    """Each changed trace breaks one rule of the page: what it says is about the event that was changed."""
    whole = traces_of(RECORDED / "reference-failover")[0]
    end = next(place for place, step in enumerate(whole.events) if step[0] == "recover") + 1
    trace = replace(whole, events=whole.events[:end], seqs=whole.seqs[:end])
    steps = trace.events
    seal = next(place for place, step in enumerate(steps) if step[0] == "seal")
    shard = steps[seal][1]
    write = next(place for place, step in enumerate(steps) if step[0] == "copy" and step[3] > 0)
    _, holder, place, run, kind, free = steps[write]
    done = next(place for place, step in enumerate(steps) if step[0] == "recover")
    other = "hole" if kind != "hole" else "data"
    cases = {
        "recovery-seal": (_changed(trace, seal, ("disk", shard, "lost"), steps[seal]), "is sealed up to epoch"),
        "shard-refuses": (
            _changed(trace, seal, steps[seal], ("copy", shard, 1, 0, "data", False)),
            "which it may not take any more",
        ),
        "recovery-precedence": (
            _changed(trace, write, ("copy", holder, place, run, other, free)),
            f"leaves {other} at",
        ),
        "recovery-clean": (
            _changed(trace, done, (*steps[done][:3], steps[done][3] + 1, *steps[done][4:])),
            "which does not follow",
        ),
        "release-needs-recovery": (
            _changed(trace, done, ("purge", holder, place, place), steps[done]),
            "deletes what it has",
        ),
    }
    found = followed(*(changed for changed, _ in cases.values()))
    for (rule, (_, expected)), said in zip(cases.items(), found, strict=True):
        assert said is not None, rule
        assert expected in said, rule


def test_runs_in_which_copies_rot_are_not_followed(tmp_path: Path) -> None:
    """What a run read of them is not recorded."""
    assert traces_of(RECORDED / "reference-stale-answers") == ()


def test_a_file_that_names_more_epochs_than_can_be_followed_is_refused(tmp_path: Path) -> None:
    table = open_run(RECORDED / "mutant-release-before-recovery").table()
    rows = [{**row, "epoch": 1 << 31} if row["kind"] == "release" else row for row in table.to_pylist()]
    write_run(tmp_path / "run", pa.Table.from_pylist(rows, schema=SCHEMA).to_batches(), Manifest(name="run"))
    with pytest.raises(SpecError, match="name epochs up to 2,147,483,648: too many to follow each"):
        read_recovery_traces(open_run(tmp_path / "run"), "run")


@pytest.mark.long(30)
@pytest.mark.parametrize("seed", range(1, 30))
@pytest.mark.parametrize("setting", ["swarm", "failover"])
def test_many_runs_are_allowed(setting: str, seed: int, tmp_path: Path) -> None:
    options = ["--protocol", "read-path", "--setting", setting, "--seed", str(seed), "-o", str(tmp_path / "run")]
    assert CliRunner().invoke(simulate, options).exit_code == 0
    assert {*followed(*read_recovery_traces(open_run(tmp_path / "run"), "run"))} <= {None}
