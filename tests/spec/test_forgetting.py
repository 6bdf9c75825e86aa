"""A trace that forgets the beginnings of its logs is judged like one that does not, and in the same words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loghistory import open_run
from logspec import forgetting
from logspec.recording import Trace, TraceEvent, read_traces
from logspec.toolchain import Toolchain
from logspec.traces import follow_traces

RECORDED = Path(__file__).parents[2] / "histories" / "runs" / "raft"


def recorded(name: str) -> Trace:
    (trace,) = read_traces(open_run(RECORDED / name))
    return trace


def changed(trace: Trace, kind: str, column: int, by: int, part: float) -> Trace:
    """The trace with a column of one event of a kind changed, the first behind a part of the trace."""
    start = int(part * len(trace.events))
    at = next(at for at in range(start, len(trace.events)) if trace.events[at][0] == kind)
    event = list(trace.events[at])
    event[column] = int(event[column]) + by
    return replace(trace, events=[*trace.events[:at], tuple(event), *trace.events[at + 1 :]])


@pytest.mark.long
def test_traces_that_forget_are_judged_alike(tools: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = recorded("reference-default")
    faults = [
        changed(trace, kind, column, by, 0.7)
        for kind, column, by in [
            ("append", 3, 1),
            ("flush", 4, 1),
            ("commit", 5, 1),
            ("acked", 7, 1),
            ("flush", 5, -1),
        ]
    ]
    traces = [
        trace,
        *faults,
        *(recorded(name) for name in ("mutant-flush-ignores-truncation", "mutant-vote-ignores-log")),
    ]
    said = []
    for every, least in ((20, 1), (1 << 30, 1)):
        monkeypatch.setattr(forgetting, "EVERY", every)
        monkeypatch.setattr(forgetting, "LEAST", least)
        shortened = [
            line for line in forgetting.forgetting(trace.events, len(trace.nodes)) if line.event[0] == "forget"
        ]
        assert bool(shortened) == (every == 20)
        followed = follow_traces(traces, tools, workers=1, coverage=False, seconds=300).followed
        stuck = [one.stuck for one in followed]
        assert {id(one.trace) for one in followed if one.accepted} == {id(trace)}
        said.append({id(one.trace): (at.index, at.sentence) for one, at in zip(followed, stuck, strict=True) if at})
    assert said[0] == said[1]


def event(node: int, dirty: int, flushed: int, commit: int = 0, visible: int = 0) -> TraceEvent:
    return "flush", node, 1, dirty, flushed, commit, visible, 0, 0, 0, 0, 1


def test_what_an_event_ahead_speaks_of_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "EVERY", 1)
    monkeypatch.setattr(forgetting, "LEAST", 1)
    events = [event(0, 9, 9), event(1, 9, 9), event(0, 9, 9, 8), event(1, 9, 9), event(0, 9, 7, 9, 9), event(1, 9, 0)]
    lines = list(forgetting.forgetting(events, 2))
    assert [line for line in lines if line.event[0] == "forget"] == []
    reported = list(forgetting.forgetting(events[:5], 2))
    assert [(line.event, line.of, line.forgotten) for line in reported if line.event[0] == "forget"] == [
        (("forget", 6), 2, 6)
    ]
    assert [line.event for line in reported if line.of == 4] == [event(0, 3, 1, 3, 3)]
    for line in reported:
        assert line.event[0] == "forget" or line.event == forgetting.shifted(events[line.of], line.forgotten)
