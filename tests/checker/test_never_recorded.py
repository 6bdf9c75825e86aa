"""Recorded runs from which every event of a kind is taken out: nobody is accused of what is not recorded.

And a run of pull queries or of the read path from which a kind is taken out that there must be does not hold.
Source: history-checks.md#never-recorded; what that leaves out of Raft's is in `test_deeds`.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from loghistory import MemorySink, Recorder, open_run
from logwitness import RunVerdict, Verdict, check
from logwitness.explain.transcripts import history
from quorumlog.durations import MILLISECOND
from quorumlog.raft.settings import SETTINGS
from quorumlog.raft.simulated import RaftCluster

RUNS = sorted(
    file.parent for file in (Path(__file__).resolve().parents[2] / "histories" / "runs").glob("*/*/manifest.json")
)

WHOLE = {"invoke", "ok", "fail", "info", "observe", "fault", "heal", "phase", "crash", "stop", "power_loss"}
"""Kinds of clients and of the surroundings, which are taken to be recorded whole."""
ALIKE = {
    ("stream_gap", "tiling"): "a gap that is not recorded, and records that are passed over",
    ("up", "reports-go-on"): "hosts that are up, and checks that do not come about any more",
    ("down", "reports-go-on"): "the same, of hosts that are down",
    ("truncate", "append-at-end"): "a truncation, and an append over what is there",
    ("truncate", "ghost-term"): "the same, of a gap",
    ("truncate", "visible-monotonic"): "a truncation, and a visible offset that moves back",
    ("gap", "committed-never-truncated"): "a gap in the place of what was committed, and nothing",
}
"""By kind and check: what cannot be told apart, and is a violation either way."""
NEEDED = {
    *("serve", "route", "finish", "report", "report_kept", "changelog", "assigned", "fold", "answer", "rows", "listed"),
    *("heartbeat", "heard", "down", "report_heard", "up", "forward", "forwarded"),
    *("takes_part", "stream_settings", "nodeset", "copy", "acknowledge", "release", "stream_metadata", "stream_start"),
    *("stream_started", "ship", "stream_heard"),
}
"""Kinds without which a run of pull queries, or of the read path, does not hold."""
ALWAYS = {"mutant-old-statuses", "mutant-unavailable-forgone"}
"""Runs that are tried in short: in these, readers were once accused of what event log or rewinds would explain."""


def is_long(at: int, run: Path) -> bool:
    return at % 16 > 0 and run.name not in ALWAYS


def broken(verdict: RunVerdict) -> dict[str, int]:
    return {each.id: each.violated for each in verdict.checks if each.violated}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "run",
    [pytest.param(run, id=run.name, marks=pytest.mark.long if is_long(at, run) else ()) for at, run in enumerate(RUNS)],
)
def test_a_kind_that_is_never_recorded(run: Path) -> None:
    source = open_run(run)
    assert source.manifest
    made = source.manifest.made_by
    given = {name: value for name, value in made.get("configuration", {}).items() if value is not None}
    known = {"voters": source.manifest.nodes, **given.get("limits", {}), **given}
    known |= {"protocol": made.get("protocol", "raft")}
    table = source.table()
    whole = check(table, configuration=known)
    kinds = table.column("kind").cast(pa.string())
    for kind in sorted({*kinds.unique().to_pylist()} - WHOLE):
        verdict = check(table.filter(pc.not_equal(kinds, kind)), configuration=known)
        before = broken(whole)
        more = {id_ for id_, count in broken(verdict).items() if count > before.get(id_, 0)}
        assert {id_ for id_ in more if (kind, id_) not in ALIKE} == set(), kind
        if kind in NEEDED and whole.verdict == "holds":
            assert verdict.verdict != "holds", kind


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("setting", "seed", "kind"),
    [
        ("members-leave", 700086, "configuration"),
        ("members-leave", 700296, "configuration"),
        ("members-leave", 720016, "configuration"),
        ("members", 720084, "configuration"),
        ("wiped", 700129, "configuration"),
        ("trimmed", 750016, "trim"),
        ("little-memory", 750104, "withdraw"),
    ],
)
def test_what_is_never_recorded_of_a_simulated_run(setting: str, seed: int, kind: str) -> None:
    configuration = replace(SETTINGS[setting], duration=600 * MILLISECOND)
    sink = MemorySink()
    recorder = Recorder(sink)
    RaftCluster(seed, configuration, recorder).play()
    recorder.close()
    kinds = sink.table.column("kind").cast(pa.string())
    assert pc.any(pc.equal(kinds, kind)).as_py()
    known = {**configuration.known_to_the_judge(), "protocol": "raft"}
    verdict = check(sink.table.filter(pc.not_equal(kinds, kind)), configuration=known)
    assert not broken(verdict)
    assert verdict.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("asked", ["join", "leave", "demote", "transfer", None])
@pytest.mark.parametrize("recorded", [False, True])
def test_who_votes_is_known_unless_members_changed_and_nobody_says_how(asked: str | None, recorded: bool) -> None:
    lines = "n1 start|n2 start|n3 start|n1 term 1 role=candidate|n1 vote 1|n1 leader"
    lines += f"|- fault {asked} n3" if asked else ""
    lines += (
        "|n1 append 0 t1 v1 all|n1 flush" + ("|n1 configuration 0 text=1,2,3 revision 1" * recorded) + "|n1 commit 0"
    )
    majority, flushed = check(
        history(lines).table,
        ["leader-has-majority", "committed-flushed-on-majority"],
        configuration={"voters": [1, 2, 3], "protocol": "raft"},
    ).checks
    known = recorded or asked in (None, "transfer")
    assert (majority.verdict is Verdict.VIOLATED) == (flushed.verdict is Verdict.VIOLATED) == known
    assert known or majority.verdict is flushed.verdict is Verdict.UNDECIDED
