"""What readers of the read path did, in simulated and real runs, are behaviours of the spec; mutants' are not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from loghistory import open_run
from logspec.reading_traces import ReadingTrace, Step, follow_reading, nearest_step, read_reading_traces
from logspec.toolchain import find_toolchain
from logspec.trace_command import trace_command
from quorumlog.hunting.simulate_command import simulate

RECORDED = Path(__file__).resolve().parents[2] / "histories" / "runs" / "read_path"
REFUSED = {
    "all-send-all-with-list": "reader.mode = ",
    "bridge-hides-loss": "GapType(",
    "empty-without-rewind": "~RewindPending(reader)",
    "f-majority-one-short": "Judged(reader) = ",
    "gap-during-rewind": "~RewindPending(reader)",
    "incomplete-as-complete": "Judged(reader) = ",
    "old-statuses": "~StatusesOld(reader)",
    "stale-filter-version": "reader.buffer",
    "start-keeps-next": "reader.buffer",
    "unavailable-dropped": "Judged(reader) = ",
    "wiped-shard-answers": "Shard \\in served",
}
"""The mutants that touch a rule which the traces follow, and the conjunct that refuses them."""


@cache
def traces_of(run: Path) -> tuple[ReadingTrace, ...]:
    return tuple(read_reading_traces(open_run(run), run.name))


def test_recorded_runs_of_the_reference_are_allowed() -> None:
    traces = [trace for run in sorted(RECORDED.glob("[!m]*")) for trace in traces_of(run)]
    follow_reading(traces, find_toolchain(None, None))
    assert {trace.name: trace.stuck for trace in traces if trace.stuck is not None} == {}
    words = Counter(step[0] for trace in traces for step in trace.events)
    assert {"record", "gap", "heard", "start", "log", "rewound", "grace", "disk", "closed"} <= words.keys()
    assert words["record"] > 3000


def test_recorded_runs_of_mutants_are_refused() -> None:
    """Those whose streams are short; all of them in the next test."""
    names = ("all-send-all-with-list", "f-majority-one-short", "gap-during-rewind", "stale-filter-version")
    traces = [trace for name in names for trace in traces_of(RECORDED / f"mutant-{name}")]
    follow_reading(traces, find_toolchain(None, None))
    assert {trace.name for trace in traces if trace.stuck is not None} == {f"mutant-{name}" for name in names}


@pytest.mark.long(11)
@pytest.mark.parametrize("name", REFUSED)
def test_the_nearest_action_names_the_rule(name: str) -> None:
    traces = traces_of(RECORDED / f"mutant-{name}")
    follow_reading(traces, find_toolchain(None, None))
    found = [nearest_step(trace, find_toolchain(None, None)) for trace in traces if trace.stuck is not None]
    assert any(near is not None and REFUSED[name] in near.conjunct for near in found), found


def _later(step: Step) -> Step:
    """The same of the next LSN."""
    return tuple(replace(each, number=each.number + 1) if hasattr(each, "number") else each for each in step)


SAID = {
    "record": "delivers the record at ",
    "gap": "which the spec does not allow here",
    "rewound": "goes on with rewound",
    "start": "the spec would not",
    "log": "do not follow from the last",
}
"""What is said of an event of each of these words that is changed."""


def _changed(word: str) -> tuple[ReadingTrace, str]:
    """A stream of the reference with such an event changed, and how the sentence about it begins."""
    of_runs = [trace for run in sorted(RECORDED.glob("reference-[fls]*")) for trace in traces_of(run)]
    trace = max(of_runs, key=lambda trace: sum(step[0] == word for step in trace.events))
    at = [place for place, step in enumerate(trace.events) if step[0] == word][1]
    match trace.events[at]:
        case ["rewound", version, *rest]:
            changed: Step = ("rewound", version + 1, *rest)
        case ["log", version, statuses]:
            changed = ("log", version + 1, statuses)
        case step:
            changed = _later(step)
    events = [*trace.events[:at], changed, *trace.events[at + 1 :]]
    return replace(trace, events=events), f"event {trace.seqs[at]}: stream {trace.op} "


def test_a_stream_that_is_changed_is_refused_at_that_event() -> None:
    changed = {word: _changed(word) for word in SAID}
    follow_reading([trace for trace, _ in changed.values()], find_toolchain(None, None))
    for word, (trace, place) in changed.items():
        assert trace.stuck is not None, word
        assert trace.stuck.startswith(place), word
        assert SAID[word] in trace.stuck, word


def test_what_may_not_be_left_out_is_missed() -> None:
    """A stream whose trim point passes over the record that was rejected, and one whose rewind is not done."""
    trace = next(t for t in traces_of(RECORDED / "reference-stale-answers") if any(s[0] == "reject" for s in t.events))
    at = next(place for place, step in enumerate(trace.events) if step[0] == "reject")
    rejected = trace.events[at][1]
    behind = replace(rejected, number=rejected.number + 1)
    trimmed = ("heard", 1, "trim", replace(rejected, whole=True), False, 0)
    over = replace(trace, events=[*trace.events[: at + 1], trimmed, ("gap", "trim", rejected, behind, "")])
    over.seqs = [*over.seqs[: at + 1], 0, 0]
    follow_reading([over], find_toolchain(None, None))
    assert over.stuck == (
        f"event 0: stream {over.op} delivers e1n{rejected.number & 0xFFFFFFFF} to e1n{rejected.number & 0xFFFFFFFF} as "
        "trim, which the spec does not allow here"
    )
    near = nearest_step(over, find_toolchain(None, None))
    assert near is not None
    assert near.conjunct.endswith("~TrimWaits(reader)")


def test_the_command_follows_streams_too() -> None:
    runs = [str(RECORDED / name) for name in ("reference-far", "mutant-f-majority-one-short")]
    done = CliRunner().invoke(trace_command, runs, standalone_mode=False)
    assert done.return_value == 1
    allowed, refused, near = done.output.splitlines()
    assert allowed.startswith(f"{runs[0]}: allowed, ")
    assert refused.startswith(f"{runs[1]}: not allowed: event ")
    assert near.startswith("  nearest action: IssueGap; what does not hold: ")


@pytest.mark.parametrize("seed", [0])
def test_runs_of_the_swarm_are_allowed(seed: int, tmp_path: Path) -> None:
    options = ["--protocol", "read-path", "--setting", "swarm", "--seed", str(seed), "-o", str(tmp_path / "run")]
    assert CliRunner().invoke(simulate, options).exit_code == 0
    traces = traces_of(tmp_path / "run")
    assert traces
    follow_reading(traces, find_toolchain(None, None))
    assert [trace.stuck for trace in traces if trace.stuck is not None] == []


@pytest.mark.long(10)
@pytest.mark.parametrize("seed", range(1, 60))
def test_many_runs_of_the_swarm_are_allowed(seed: int, tmp_path: Path) -> None:
    test_runs_of_the_swarm_are_allowed(seed, tmp_path)
