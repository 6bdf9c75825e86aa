"""Runs that hold, retold: other names, other times, another order of what happened at once, parts left out.

Nobody is accused of how a history is told. Where nothing is missing that a rule needs, the run still holds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import pytest
from test_well_formed import RUNS as OF_RAFT
from test_well_formed import Rows, judged, recorded

from loghistory import open_run
from logwitness import Verdict

Configuration: TypeAlias = Mapping[str, Any]
Retold: TypeAlias = tuple[Rows, Configuration]

_OF_NODES = ("compact", "gap", "start", "trim", "truncate")
"""Kinds without which what a log holds cannot be told; who records nodes records them."""


def _given(rows: Rows) -> Rows:
    """The events with their columns that are not null."""
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _each(rows: Rows, column: str, change: Callable[[Any], Any]) -> Rows:
    return [row | {column: change(row[column])} if column in row else row for row in rows]


def _shuffled(rows: Rows, column: str, more: int) -> Rows:
    """Other names for all that a column names."""
    names = sorted({row[column] for row in rows if column in row})
    others = [name + more for name in names]
    random.Random(more).shuffle(others)
    return _each(rows, column, dict(zip(names, others, strict=True)).__getitem__)


def _other_nodes(rows: Rows, known: Configuration) -> Retold:
    rows = _each(_each(rows, "node", lambda node: node + 10), "peer", lambda node: node + 10)
    return rows, {**known, "voters": [voter + 10 for voter in known["voters"]]}


def _later_terms(rows: Rows) -> Rows:
    return [row | {name: row[name] + 3 for name in ("term", "entry_term") if row.get(name, 0) > 0} for row in rows]


def _asked_earlier(rows: Rows) -> Rows:
    """What clients ask is asked a little earlier, and what they are told is told a little later."""
    draw, rows = random.Random(1), list(rows)
    for _ in range(2 * len(rows)):
        at = draw.randrange(len(rows) - 1)
        one, other = rows[at : at + 2]
        asks = other["kind"] == "invoke" and other["f"] != "final_read"
        tells = one["kind"] in ("ok", "fail", "info")
        apart = one.get("process") != other.get("process") and "phase" not in (one["kind"], other["kind"])
        if apart and (asks or tells):
            rows[at : at + 2] = other | {"time": one["time"]}, one | {"time": other["time"]}
    return rows


def _followers_slower(rows: Rows) -> Rows:
    """What a follower appends and shows comes behind a flush of another node that happened at once."""
    draw, rows = random.Random(2), list(rows)
    for _ in range(4 * len(rows)):
        at = draw.randrange(len(rows) - 1)
        one, other = rows[at : at + 2]
        if {"process"} & {*one, *other} or one.get("role") != "follower" or one.get("node") == other.get("node"):
            continue
        if one["kind"] in ("append", "visible") and other["kind"] == "flush":
            rows[at : at + 2] = other | {"time": one["time"]}, one | {"time": other["time"]}
    return rows


def _unheard(rows: Rows, of: str) -> Rows:
    """Every third answer of a kind is not heard of; then its client goes on under another name."""
    names: dict[int, int] = {}
    heard: Rows = []
    for row in rows:
        if "process" in row:
            client = row["process"]
            row = row | {"process": names.get(client, client)}
            if row["kind"] == of and row["f"] == "append" and row["op"] % 3 == 0:
                names[client] = 1000 + row["op"]
                if row["op"] % 2:
                    continue
                row = {name: row[name] for name in ("time", "node", "process", "op", "f") if name in row}
                row["kind"] = "info"
        heard.append(row)
    return heard


def _without(rows: Rows, *columns: str, clients: bool) -> Rows:
    return [
        row if ("process" in row) != clients else {name: row[name] for name in row if name not in columns}
        for row in rows
    ]


def _spare(rows: Rows, known: Configuration) -> Retold:
    """A node more, which is configured and does nothing."""
    at = next(place for place, row in enumerate(rows) if row["kind"] == "start")
    spare = rows[at] | {"node": 50}
    return [*rows[:at], spare, *rows[at:]], {**known, "nodes": (known.get("nodes") or len(known["voters"])) + 1}


SAME: dict[str, Callable[[Rows, Configuration], Retold]] = {
    "other values": lambda rows, known: (_each(rows, "value", lambda value: value + 10**9), known),
    "values below 0": lambda rows, known: (_each(rows, "value", lambda value: -5 - value), known),
    "values in another order": lambda rows, known: (_shuffled(rows, "value", 7), known),
    "other operations": lambda rows, known: (_each(rows, "op", lambda op: 7 * op + 3), known),
    "other clients": lambda rows, known: (_shuffled(rows, "process", 100), known),
    "later terms": lambda rows, known: (_later_terms(rows), known),
    "later lives": lambda rows, known: (_each(rows, "incarnation", lambda number: 2 * number + 5), known),
    "another day": lambda rows, known: (_each(rows, "time", lambda time: time + 10**15), known),
    "slower clients": lambda rows, known: (_asked_earlier(rows), known),
    "slower followers": lambda rows, known: (_followers_slower(rows), known),
    "answers unheard": lambda rows, known: (_unheard(rows, "ok"), known),
    "refusals unheard": lambda rows, known: (_unheard(rows, "fail"), known),
    "nodes unnamed by clients": lambda rows, known: (_without(rows, "node", clients=True), known),
    "counts left out": lambda rows, known: (_without(rows, "count", clients=True), known),
    "last offsets left out": lambda rows, known: (_without(rows, "last_offset", clients=True), known),
    "terms untold": lambda rows, known: (_without(rows, "term", clients=True), known),
    "roles left out": lambda rows, known: (_without(rows, "role", clients=False), known),
    "lives unnumbered": lambda rows, known: (_without(rows, "incarnation", clients=False), known),
    "faults unknown": lambda rows, known: ([row for row in rows if row["kind"] not in ("fault", "heal")], known),
    "phases unknown": lambda rows, known: ([row for row in rows if row["kind"] != "phase"], known),
    "no clients": lambda rows, known: ([row for row in rows if "process" not in row], known),
    "half of the reads": lambda rows, known: (
        [row for row in rows if row.get("f", "") not in ("read", "read_committed") or row["op"] % 2],
        known,
    ),
    "the first half": lambda rows, known: (rows[: len(rows) // 2], known),
    "a spare node": _spare,
}
"""Ways to tell the same, after which nothing is missing."""

RUNS = ("default", "snapshots", "members")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("way", SAME)
def test_told_otherwise_a_run_holds(run: str, way: str) -> None:
    rows, known = recorded(run)
    before = _given(rows)
    after, configuration = SAME[way](before, known)
    assert after != before
    verdict = judged(after, configuration)
    assert verdict.verdict is Verdict.HOLDS, verdict.document()


@pytest.mark.parametrize("run", ["default", "leaders-fall"])
def test_nodes_may_have_other_names(run: str) -> None:
    rows, known = recorded(run)
    assert judged(*_other_nodes(_given(rows), known)).verdict is Verdict.HOLDS


def _parts(rows: Rows) -> Iterator[tuple[str, Rows]]:
    """What is left when a part of the record is lost."""
    for kind in sorted({row["kind"] for row in rows if "process" not in row} - {*_OF_NODES}):
        yield f"no {kind}", [row for row in rows if row["kind"] != kind]
    for node in sorted({row["node"] for row in rows if "node" in row and "process" not in row}):
        yield f"nothing of node {node}", [row for row in rows if row.get("node") != node or "process" in row]
    for tenth in range(1, 9):
        yield f"without the first {tenth} tenths", rows[len(rows) * tenth // 10 :]


@pytest.mark.parametrize(
    "run", [RUNS[0], *(pytest.param(run, marks=pytest.mark.slow) for run in (*RUNS[1:], "compacted"))]
)
def test_of_what_is_left_out_nobody_is_accused(run: str) -> None:
    rows, known = recorded(run)
    accused = []
    for part, left in _parts(_given(rows)):
        verdict = judged(left, known)
        accused += [(part, each.id) for each in verdict.checks if each.verdict is Verdict.VIOLATED]
    assert not accused


def test_a_record_may_begin_on_a_log_that_is_not_empty() -> None:
    """The cluster ran before it was recorded: what its log held is not seen to be appended."""
    rows, known = recorded("default")
    given = _given(rows)
    cut = next(place for place, row in enumerate(given) if row["kind"] == "commit" and row["commit"] > 20)
    last = {row["node"]: row for row in given[:cut] if "dirty" in row and "process" not in row}
    states = ("node", "term", "dirty", "flushed", "commit", "visible")
    begun = [{name: last[node][name] for name in states} | {"time": 0, "kind": "start"} for node in sorted(last)]
    for row in begun:
        row |= {"flushed": row["dirty"], "role": "follower"}
    reads = [row for row in given if row.get("f") == "final_read"]
    verdict = judged([*begun, *reads], known)
    found = {each.id: each.verdict for each in verdict.checks}
    assert Verdict.VIOLATED not in (found["phantom"], found["linearizable-log"])
    assert verdict.verdict is not Verdict.HOLDS


def _of_servers(run: str) -> tuple[Rows, Configuration]:
    """A run of pull queries or of the read path."""
    source = open_run(OF_RAFT.parent / run)
    assert source.manifest is not None
    made = source.manifest.made_by
    rows = [row for batch in source.batches() for row in batch.to_pylist()]
    return _given(rows), {**made.get("configuration", {}), "protocol": made["protocol"]}


def _missing(rows: Rows) -> Iterator[tuple[str, Rows]]:
    """What is left of the record of servers."""
    yield "clients alone", [row for row in rows if "process" in row]
    for node in sorted({row["node"] for row in rows if "node" in row}):
        yield f"nothing of node {node}", [row for row in rows if row.get("node") != node or "process" in row]
    for tenth in range(1, 9):
        yield f"without the first {tenth} tenths", rows[len(rows) * tenth // 10 :]


MISSING = ("pull_queries/reference-default", "pull_queries/reference-lagging", "read_path/reference-losses-in-scd")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("run", MISSING)
def test_of_servers_whose_record_is_missing_nobody_is_accused(run: str) -> None:
    rows, known = _of_servers(run)
    accused = []
    for part, left in _missing(rows):
        verdict = judged(left, known)
        accused += [(part, each.id) for each in verdict.checks if each.verdict is Verdict.VIOLATED]
    assert not accused


FINE = (Verdict.HOLDS, Verdict.UNEXERCISED)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("run", ["pull_queries/reference-lagging", "read_path/reference-losses-in-scd"])
def test_times_may_lie_before_the_epoch_of_a_clock(run: str, compiled: bool) -> None:
    rows, known = _of_servers(run)
    before = _each(rows, "time", lambda time: time - 10**14)
    assert [each.id for each in judged(before, known, compiled=compiled).checks if each.verdict not in FINE] == []
