"""What clients were told in runs of the reference is allowed; what is planted in such a run is refused, where it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from loghistory import open_run
from logspec.client_traces import ClientEvent, ClientTrace, follow_clients, read_client_traces
from logspec.toolchain import find_toolchain

RECORDED = Path(__file__).parents[2] / "histories" / "runs" / "raft"


def traces_of(name: str) -> list[ClientTrace]:
    return read_client_traces(open_run(RECORDED / name), name)


def planted(trace: ClientTrace, name: str, at: int, *events: ClientEvent) -> ClientTrace:
    """The trace with one event replaced by others."""
    places = [*trace.seqs[:at], *[trace.seqs[at]] * len(events), *trace.seqs[at + 1 :]]
    return replace(trace, name=name, events=[*trace.events[:at], *events, *trace.events[at + 1 :]], seqs=places)


def test_what_is_planted_is_refused_where_it_is() -> None:
    (trace,) = traces_of("reference-reads")
    begun = {event[1]: event for event in trace.events if event[0] == "begin"}
    all_acks = [at for at, event in enumerate(trace.events) if event[0] == "appended" and begun[event[1]][4] == -1]
    committed = [at for at, event in enumerate(trace.events) if event[0] == "shown" and begun[event[1]][2] != "read"]
    linearizable = [
        at for at, event in enumerate(trace.events) if event[0] == "read" and begun[event[1]][2] == "read_linearizable"
    ]
    appended, shown, read = all_acks[-1], committed[-1], linearizable[-1]
    _, op, first, last = trace.events[appended]
    _, reader, offset, value = trace.events[shown]
    elsewhere, onto = int(offset) + 1000, trace.events[all_acks[0]][3]
    values = {trace.events[at][3] for at in committed}
    seen = next(at for at in all_acks if begun[trace.events[at][1]][3] in values)
    faults = [
        (planted(trace, "acknowledged over another", appended, ("appended", op, 0, onto)), appended),
        (planted(trace, "acknowledged before what was known", appended, ("appended", op, 0, last)), appended),
        (planted(trace, "read with another value", shown, ("shown", reader, offset, int(value) + 100_000)), shown),
        (planted(trace, "read at two places", shown, ("shown", reader, elsewhere, value)), shown),
        (planted(trace, "stale", read, ("read", trace.events[read][1], 0)), read),
        (planted(trace, "failed and read", seen, ("failed", trace.events[seen][1])), None),
    ]
    assert int(first) > 0
    follow_clients([trace, *(fault for fault, _ in faults)], find_toolchain(None, None))
    assert trace.stuck is None
    for fault, at in faults:
        assert fault.stuck, fault.name
        assert at is None or fault.stuck_at == trace.seqs[at], fault.name


def test_runs_in_which_what_was_acknowledged_may_be_lost_are_not_followed() -> None:
    assert traces_of("reference-write-caching") == []
    assert traces_of("clients-only") != []
