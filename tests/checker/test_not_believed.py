"""Recorded runs that hold, in which one thing is said that did not happen: it is not believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from loghistory import open_run
from logwitness import check
from quorumlog.durations import MILLISECOND
from quorumlog.faults import Fault
from quorumlog.hunting.judge import known_to_the_judge
from quorumlog.read_path.protocol import PROTOCOL as READ_PATH

Row = dict[str, Any]
RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs"


def nth(rows: list[Row], number: int, **columns: object) -> int:
    """The place of the event of this number among those that have these columns."""
    places = [at for at, row in enumerate(rows) if all(row[name] == value for name, value in columns.items())]
    return places[number]


def copyset_of_strangers(rows: list[Row]) -> None:
    """All copies of a record say that a shard has one which there is not."""
    copies = [row for row in rows if row["kind"] == "copy" and row["record"] == "data"]
    lsn = copies[len(copies) // 2]["offset"]
    for row in [row for row in copies if row["offset"] == lsn]:
        row["shards"] |= 1 << 20


def copyset_of_its_own(rows: list[Row]) -> None:
    """One copy, of the first record, names two shards of which the others of its wave name one."""
    row = rows[nth(rows, 0, kind="copy", record="data")]
    row["shards"] ^= 0b11


def refusal_unsaid(rows: list[Row]) -> None:
    """A shard that lost its data is said to have answered START, which was sent again, as if it had them."""
    rows[nth(rows, 0, kind="stream_started", reason="rebuilding")]["reason"] = "ok"


def end_of_a_read_unrecorded(rows: list[Row]) -> None:
    """The last record of a reader that runs is not delivered; that all of them were, its client is told."""
    del rows[nth(rows, -1, kind="stream_record")]


def unrouted(rows: list[Row]) -> None:
    del rows[nth(rows, 7, kind="route")]


def next_far(rows: list[Row]) -> None:
    """A committed read of clients alone that returned nothing is told to go on far ahead."""
    rows[:] = [row for row in rows if row["process"] is not None or row["kind"] in ("fault", "heal", "phase")]
    begun, empty = dict[int, Row](), list[Row]()
    for row in rows:
        if row["kind"] == "invoke":
            begun[row["process"]] = row
        elif row["kind"] == "observe":
            begun.pop(row["process"], None)
        elif row["kind"] == "ok" and begun.get(row["process"], row)["f"] == "read_committed":
            empty.append(row)
    empty[len(empty) // 2]["offset"] += 10_000


def wipe_unrecorded(rows: list[Row]) -> None:
    del rows[nth(rows, 0, kind="fault", f="wipe")]


def lost_without_a_wipe(rows: list[Row]) -> None:
    rows[nth(rows, -1, kind="takes_part", f="shard", reason="intact")]["reason"] = "lost"


def itself_down(rows: list[Row]) -> None:
    """A server that routes a query has itself as down."""
    hosts = {row["node"]: json.loads(row["text"])["host"] for row in rows if row["kind"] == "serve"}
    row = rows[nth(rows, 0, kind="route")]
    view = json.loads(row["text"])
    view["statuses"][hosts[row["node"]]][0] = False
    row["text"] = json.dumps(view, separators=(",", ":"))


def shipped_twice(rows: list[Row]) -> None:
    """A shard ships once more what is the last that a stream hears of it."""
    at = nth(rows, -1, kind="ship")
    rows.insert(at + 1, dict(rows[at]))
    for seq, row in enumerate(rows):
        row["seq"] = seq


def once_more(kind: str) -> Callable[[list[Row]], None]:
    """What happens again at once, in the middle of a run."""

    def plant(rows: list[Row]) -> None:
        places = [at for at, row in enumerate(rows) if row["kind"] == kind]
        at = places[len(places) // 2]
        rows.insert(at + 1, dict(rows[at]))
        for seq, row in enumerate(rows):
            row["seq"] = seq

    return plant


PLANTS: dict[str, tuple[str, Callable[[list[Row]], None], str]] = {
    "a wipe": ("read_path/reference-back-without", wipe_unrecorded, "lost-with-its-disk"),
    "a wipe of two": ("read_path/reference-rack-away", wipe_unrecorded, "lost-with-its-disk"),
    "a loss": ("read_path/reference-unavailable", lost_without_a_wipe, "lost-with-its-disk"),
    "a shard that there is not": ("read_path/reference-failover", copyset_of_strangers, "replication-property-holds"),
    "a copyset of its own": (
        "read_path/reference-rebuilding",
        copyset_of_its_own,
        "replication-property-holds",
    ),
    "a query that nobody routed": ("pull_queries/reference-default", unrouted, "candidates-follow-view"),
    "that it has its data": ("read_path/reference-losses", refusal_unsaid, "lost-data-refuses"),
    "where a read ends": ("raft/reference-reads", next_far, "stale-read"),
    "what is shipped": ("read_path/reference-back-without", shipped_twice, "heard-was-shipped"),
    "itself": ("pull_queries/reference-default", itself_down, "status-replays"),
    **{
        f"{kind} again": ("pull_queries/reference-default", once_more(kind), "candidates-follow-view")
        for kind in ("route", "forward", "answer", "finish")
    },
}
"""By name: a run, what is planted there, and the check that finds it."""


def recorded(run: str) -> tuple[pa.Table, dict[str, Any]]:
    """A recorded run, and what its manifest says that it was made with."""
    source = open_run(RUNS / run)
    assert source.manifest
    made = source.manifest.made_by
    given = {key: value for key, value in made.get("configuration", {}).items() if value is not None}
    known = {"voters": source.manifest.nodes, **given.get("limits", {}), **given}
    return source.table(), known | {"protocol": made.get("protocol", "raft")}


@pytest.mark.parametrize("name", PLANTS)
def test_what_is_planted_is_found(name: str) -> None:
    run, plant, id_ = PLANTS[name]
    table, known = recorded(run)
    assert check(table, configuration=known).verdict == "holds"
    rows = table.to_pylist()
    plant(rows)
    verdict = check(pa.Table.from_pylist(rows, schema=table.schema), configuration=known)
    assert id_ in {each.id for each in verdict.checks if each.violated}


CONFIGURATIONS: dict[str, tuple[str, dict[str, Any], str]] = {
    "replication": ("read_path/reference-unavailable", {"replication": {"NODE": 1}}, "nodesets-as-configured"),
    "a reader's grace": ("read_path/reference-unavailable", {"reader": {"grace": 1}}, "nodesets-as-configured"),
    "shards": ("read_path/reference-unavailable", {"shards": 3}, "nodesets-as-configured"),
    "sequencers": ("read_path/reference-unavailable", {"sequencers": 1}, "nodesets-as-configured"),
    "partitions": ("pull_queries/reference-default", {"server": {"partitions": 3}}, "servers-as-configured"),
    "a bound": ("pull_queries/reference-default", {"server": {"maximum_lag": 5}}, "servers-as-configured"),
    "servers": ("pull_queries/reference-default", {"nodes": 3}, "servers-as-configured"),
}
"""By name: a run, what its configuration says that is not so, and the check that is undecided then."""


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_configuration_that_events_contradict_is_not_believed(name: str) -> None:
    run, stated, id_ = CONFIGURATIONS[name]
    table, known = recorded(run)
    verdict = check(table, configuration=known | stated)
    assert {each.id for each in verdict.checks if each.verdict == "undecided"} == {id_}
    assert verdict.verdict == "undecided"


def test_a_reader_that_runs_has_not_lost_what_it_delivered_last() -> None:
    table, known = recorded("read_path/reference-default")
    rows = table.to_pylist()
    end_of_a_read_unrecorded(rows)
    verdict = check(pa.Table.from_pylist(rows, schema=table.schema), configuration=known)
    assert verdict.verdict == "undecided"
    assert [each.id for each in verdict.checks if each.verdict == "undecided"] == ["read-ends-as-delivered"]


@pytest.mark.parametrize(
    ("run", "lacking", "id_"),
    [
        ("raft/reference-snapshots", "snapshot", "snapshot-is-committed"),
        ("read_path/reference-failover", "seal", "seal-is-kept"),
    ],
)
def test_a_kind_that_must_have_been_there_is_not_done_without(run: str, lacking: str, id_: str) -> None:
    table, known = recorded(run)
    rows = [row for row in table.to_pylist() if row["kind"] != lacking]
    verdict = check(pa.Table.from_pylist(rows, schema=table.schema), configuration=known)
    (found,) = [each for each in verdict.checks if each.id == id_]
    assert (verdict.verdict, found.verdict, found.reason) == (
        "undecided",
        "undecided",
        f"no {lacking} event is recorded",
    )


def test_no_gap_is_issued_in_single_copy_delivery_during_a_drain() -> None:
    """Statuses do not show a drain: only the event log tells that copysets are being amended."""
    plan = (Fault(200 * MILLISECOND, "drain", (2,), 100 * MILLISECOND), Fault(400 * MILLISECOND, "kill", (4,)))
    short = {"duration": 600 * MILLISECOND, "rebuild_after": 10_000 * MILLISECOND, "plan": plan}
    configuration = replace(READ_PATH.settings["efficient"], **short)
    table, _ = READ_PATH.simulate(1, configuration)
    known = known_to_the_judge("read-path", configuration)
    assert check(table, configuration=known).verdict == "holds"
    rows = table.to_pylist()
    last = nth(rows, -1, kind="event_log")
    version = rows[last]["version"]
    for row in rows[last + 1 :]:
        row["seq"] += 1
        row["version"] = version + 1 if row["version"] == version else row["version"]
    drain = {"seq": rows[last]["seq"] + 1, "f": "drain", "peer": 1, "version": version + 1}
    rows.insert(last + 1, rows[last] | drain)
    verdict = check(pa.Table.from_pylist(rows, schema=table.schema), configuration=known)
    assert {each.id for each in verdict.checks if each.violated} == {"no-gap-too-early"}
